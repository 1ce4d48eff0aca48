"""Eligible leader replicas: the settings that limit them, and what a broker is when it registers again."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Row, SparkSession

from epochaudit.replay.control_plane.eligible_replicas import eligible_replicas
from epochaudit.replay.control_plane.registrations import registrations
from tests.replay.histories import history

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


def judged(spark: SparkSession, *rows: str) -> Row:
    """The only row of the frame `eligible_replicas`."""
    (row,) = eligible_replicas(history(spark, HEAD + "".join(rows))).collect()
    return row


def test_a_topics_own_setting_precedes_that_of_the_cluster(spark: SparkSession) -> None:
    row = judged(spark, setting(1, "2"), CREATED, setting(7, "3", "t"), ELIGIBLE)
    assert (row.min_insync_replicas, row.min_insync_replicas_ref.line_in_split) == (3, 5)


def test_a_setting_that_was_removed_does_not_count(spark: SparkSession) -> None:
    assert judged(spark, setting(1, "2"), CREATED, setting(7, "3", "t"), setting(8, "", "t"), ELIGIBLE)[
        "min_insync_replicas"
    ] == 2  # fmt: skip


def test_settings_of_brokers_later_ones_and_those_before_the_topics_creation_do_not_count(spark: SparkSession) -> None:
    later = setting(10, "1")
    row = judged(spark, setting(1, "2"), setting(2, "1", broker="1"), setting(3, "1", "t"), CREATED, ELIGIBLE, later)
    assert row.min_insync_replicas == 2


def test_of_a_topic_whose_creation_is_not_recorded_the_setting_is_unknown(spark: SparkSession) -> None:
    assert judged(spark, setting(1, "2"), ELIGIBLE).min_insync_replicas is None


def test_partition_0_has_had_between_the_fewest_and_the_most_replicas(spark: SparkSession) -> None:
    grown = f"| g | PARTITION_CHANGE_RECORD | 7 |  |  |  |  | {TOPIC} | 0 |  |  | 1,2,3,4 |  |\n"
    reduced = f"| r | PARTITION_CHANGE_RECORD | 8 |  |  |  |  | {TOPIC} | 0 |  | 1,2 | 1,2 |  |\n"
    row = judged(spark, CREATED, grown, reduced, ELIGIBLE)
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


def registered(spark: SparkSession, rows: str) -> Row:
    """The last row of the frame `registrations`."""
    *_, row = registrations(history(spark, REGISTRATIONS + rows)).orderBy("metadata_offset").collect()
    return row


def test_a_registration_has_the_lists_at_its_offset_and_what_the_broker_states(spark: SparkSession) -> None:
    refused = "| a1 | BROKER_REGISTRATION | 4 |  |  |  | 2 |  | second | 1 | -1 | 101 | 100 |  |  |  |  |  |  |\n"
    accepted = "| a2 | BROKER_REGISTRATION | 4 |  |  |  | 2 |  | second | 1 | 4 | 0 | 100 |  |  |  |  |  |  |\n"
    record = "| r2 | REGISTER_BROKER_RECORD |  | 4 |  |  | 2 | 4 | second |  |  |  |  |  |  |  |  |  |  |\n"
    leaves = f"| l | PARTITION_CHANGE_RECORD |  | 5 |  |  |  |  |  |  |  |  |  | {TOPIC} | 0 |  |  |  | 3 |\n"
    row = registered(spark, refused + accepted + record + leaves)
    assert (row.eligible_in, row.partition, row.eligible_elr) == (1, 0, [2, 3])
    assert (row.stated_epoch, row.previous_broker_epoch, row.clean, row.unregistered) == (1, 1, True, False)
    assert row.request_ref.line_in_split == 5


def test_requests_of_one_incarnation_that_state_two_epochs_state_none(spark: SparkSession) -> None:
    one = "| a1 | BROKER_REGISTRATION | 4 |  |  |  | 2 |  | second | 1 | 4 | 0 | 100 |  |  |  |  |  |  |\n"
    other = "| a2 | BROKER_REGISTRATION | 4 |  |  |  | 2 |  | second | 0 | 4 | 0 | 100 |  |  |  |  |  |  |\n"
    record = "| r2 | REGISTER_BROKER_RECORD |  | 4 |  |  | 2 | 4 | second |  |  |  |  |  |  |  |  |  |  |\n"
    row = registered(spark, one + other + record)
    assert (row.stated_epoch, row.clean) == (None, None)


def test_a_version_without_the_field_states_no_clean_shutdown(spark: SparkSession) -> None:
    asked = "| a1 | BROKER_REGISTRATION | 2 |  |  |  | 2 |  | second |  | 4 | 0 | 100 |  |  |  |  |  |  |\n"
    record = "| r2 | REGISTER_BROKER_RECORD |  | 4 |  |  | 2 | 4 | second |  |  |  |  |  |  |  |  |  |  |\n"
    row = registered(spark, asked + record)
    assert (row.stated_epoch, row.clean) == (-1, False)
