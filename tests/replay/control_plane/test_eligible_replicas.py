"""Eligible leader replicas: the settings that limit them, and what a broker is when it registers again."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import Row, SparkSession

from epochaudit.replay.control_plane.eligible_replicas import eligible_replicas
from epochaudit.replay.control_plane.registrations import registrations
from tests.replay.histories import histories

HEAD: Final = """\
| # | event_type | metadata_offset | name | value | broker_id | topic | topic_id | partition | leader | isr | replicas | elr |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
| elr | FEATURE_LEVEL_RECORD | 0 | eligible.leader.replicas.version | 1 |  |  |  |  |  |  |  |  |
"""
TOPIC: Final = "AAAAAAAAAAAAAAAAAAAAtA"
CREATED: Final = f"""\
| topic | TOPIC_RECORD | 5 |  |  |  | t | {TOPIC} |  |  |  |  |  |
| p0 | PARTITION_RECORD | 6 |  |  |  |  | {TOPIC} | 0 | 1 | 1,2,3 | 1,2,3 |  |
"""
ELIGIBLE: Final = f"| c | PARTITION_CHANGE_RECORD | 9 |  |  |  |  | {TOPIC} | 0 |  | 1 |  | 2,3 |\n"


def setting(offset: int, value: str, topic: str = "", broker: str = "") -> str:
    """A CONFIG_RECORD of min.insync.replicas."""
    return f"| s | CONFIG_RECORD | {offset} | min.insync.replicas | {value} | {broker} | {topic} |  |  |  |  |  |  |\n"


LATER: Final = setting(10, "1")
GROWN: Final = f"| g | PARTITION_CHANGE_RECORD | 7 |  |  |  |  | {TOPIC} | 0 |  |  | 1,2,3,4 |  |\n"
REDUCED: Final = f"| r | PARTITION_CHANGE_RECORD | 8 |  |  |  |  | {TOPIC} | 0 |  | 1,2 | 1,2 |  |\n"
HISTORIES: Final = {
    "own": [setting(1, "2"), CREATED, setting(7, "3", "t"), ELIGIBLE],
    "removed": [setting(1, "2"), CREATED, setting(7, "3", "t"), setting(8, "", "t"), ELIGIBLE],
    "others": [setting(1, "2"), setting(2, "1", broker="1"), setting(3, "1", "t"), CREATED, ELIGIBLE, LATER],
    "uncreated": [setting(1, "2"), ELIGIBLE],
    "changed": [CREATED, GROWN, REDUCED, ELIGIBLE],
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Row]:
    """The only row of the frame `eligible_replicas` of each history, by its name."""
    tables = {name: HEAD + "".join(rows) for name, rows in HISTORIES.items()}
    rows = eligible_replicas(histories(spark, tables)).collect()
    assert len(rows) == len(HISTORIES)
    return by_history(rows)


def by_history(rows: list[Row]) -> dict[str, Row]:
    """The last row of each history, by its name."""
    return {row.cluster.removeprefix("case "): row for row in rows}


def test_a_topics_own_setting_precedes_that_of_the_cluster(judged: dict[str, Row]) -> None:
    row = judged["own"]
    assert (row.min_insync_replicas, row.min_insync_replicas_ref.line_in_split) == (3, 5)


def test_a_setting_that_was_removed_does_not_count(judged: dict[str, Row]) -> None:
    assert judged["removed"].min_insync_replicas == 2


def test_settings_of_brokers_later_ones_and_those_before_the_topics_creation_do_not_count(
    judged: dict[str, Row],
) -> None:
    assert judged["others"].min_insync_replicas == 2


def test_of_a_topic_whose_creation_is_not_recorded_the_setting_is_unknown(judged: dict[str, Row]) -> None:
    assert judged["uncreated"].min_insync_replicas is None


def test_partition_0_has_had_between_the_fewest_and_the_most_replicas(judged: dict[str, Row]) -> None:
    row = judged["changed"]
    assert (row.partition_0_replicas, row.most_partition_0_replicas) == (2, 4)


_NAMES: Final = (
    "#", "event_type", "api_version", "metadata_offset", "name", "value", "broker_id", "broker_epoch", "incarnation_id",
    "previous_broker_epoch", "current_broker_epoch", "request_error_code", "node", "topic_id", "partition", "leader", "isr", "replicas",
    "elr",
)  # fmt: skip
COLUMNS: Final = f"| {' | '.join(_NAMES)} |\n|{'---|' * len(_NAMES)}"
REGISTRATIONS: Final = f"""\
{COLUMNS}
| elr | FEATURE_LEVEL_RECORD |  | 0 | eligible.leader.replicas.version | 1 |  |  |  |  |  |  |  |  |  |  |  |  |  |
| r1 | REGISTER_BROKER_RECORD |  | 1 |  |  | 2 | 1 | first |  |  |  |  |  |  |  |  |  |  |
| c | PARTITION_CHANGE_RECORD |  | 2 |  |  |  |  |  |  |  |  |  | {TOPIC} | 0 |  | 1 |  | 2,3 |
| d | PARTITION_CHANGE_RECORD |  | 3 |  |  |  |  |  |  |  |  |  | {TOPIC} | 1 |  | 1 |  | 3 |
"""


ONE: Final = "| a1 | BROKER_REGISTRATION | 4 |  |  |  | 2 |  | second | 1 | 4 | 0 | 100 |  |  |  |  |  |  |\n"
OTHER: Final = "| a2 | BROKER_REGISTRATION | 4 |  |  |  | 2 |  | second | 0 | 4 | 0 | 100 |  |  |  |  |  |  |\n"
REFUSED: Final = "| a1 | BROKER_REGISTRATION | 4 |  |  |  | 2 |  | second | 1 | -1 | 101 | 100 |  |  |  |  |  |  |\n"
OLD_VERSION: Final = "| a1 | BROKER_REGISTRATION | 2 |  |  |  | 2 |  | second |  | 4 | 0 | 100 |  |  |  |  |  |  |\n"
RECORD: Final = "| r2 | REGISTER_BROKER_RECORD |  | 4 |  |  | 2 | 4 | second |  |  |  |  |  |  |  |  |  |  |\n"
LEAVES: Final = f"| l | PARTITION_CHANGE_RECORD |  | 5 |  |  |  |  |  |  |  |  |  | {TOPIC} | 0 |  |  |  | 3 |\n"
REGISTERED: Final = {
    "accepted": REFUSED + ONE + RECORD + LEAVES,
    "two epochs": ONE + OTHER + RECORD,
    "old version": OLD_VERSION + RECORD,
}


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> dict[str, Row]:
    """The last row of the frame `registrations` of each history, by its name."""
    tables = {name: REGISTRATIONS + rows for name, rows in REGISTERED.items()}
    return by_history(registrations(histories(spark, tables)).orderBy("metadata_offset").collect())


def test_a_registration_has_the_lists_at_its_offset_and_what_the_broker_states(registered: dict[str, Row]) -> None:
    row = registered["accepted"]
    assert (row.eligible_in, row.partition, row.eligible_elr) == (1, 0, [2, 3])
    assert (row.stated_epoch, row.previous_broker_epoch, row.clean, row.unregistered) == (1, 1, True, False)
    assert row.request_ref.line_in_split == 5


def test_requests_of_one_incarnation_that_state_two_epochs_state_none(registered: dict[str, Row]) -> None:
    row = registered["two epochs"]
    assert (row.stated_epoch, row.clean) == (None, None)


def test_a_version_without_the_field_states_no_clean_shutdown(registered: dict[str, Row]) -> None:
    row = registered["old version"]
    assert (row.stated_epoch, row.clean) == (-1, False)
