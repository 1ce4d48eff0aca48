"""Eligible leader replicas: the settings that limit them, and what a broker is when it registers again."""

from __future__ import annotations

from typing import Final

from epochaudit.replay.control_plane.eligible_replicas import eligible_replicas
from epochaudit.replay.control_plane.registrations import registrations
from tests.replay.histories import Checks, History, Replay, of_table

of_lists = Replay(eligible_replicas, order=("metadata_offset",))
of_registrations = Replay(registrations, order=("metadata_offset",))

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


def lists(name: str) -> History:
    """The history of that name; the frame `eligible_replicas` has one row of it."""
    return of_table(HEAD + "".join(HISTORIES[name]))


@of_lists.test
def test_a_topics_own_setting_precedes_that_of_the_cluster() -> Checks:
    (row,) = yield lists("own")
    assert (row.min_insync_replicas, row.min_insync_replicas_ref.line_in_split) == (3, 5)


@of_lists.test
def test_a_setting_that_was_removed_does_not_count() -> Checks:
    (row,) = yield lists("removed")
    assert row.min_insync_replicas == 2


@of_lists.test
def test_settings_of_brokers_later_ones_and_those_before_the_topics_creation_do_not_count() -> Checks:
    (row,) = yield lists("others")
    assert row.min_insync_replicas == 2


@of_lists.test
def test_of_a_topic_whose_creation_is_not_recorded_the_setting_is_unknown() -> Checks:
    (row,) = yield lists("uncreated")
    assert row.min_insync_replicas is None


@of_lists.test
def test_partition_0_has_had_between_the_fewest_and_the_most_replicas() -> Checks:
    (row,) = yield lists("changed")
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


def registered(name: str) -> History:
    """The history of that name; its last row of the frame `registrations` is the one that counts."""
    return of_table(REGISTRATIONS + REGISTERED[name])


@of_registrations.test
def test_a_registration_has_the_lists_at_its_offset_and_what_the_broker_states() -> Checks:
    *_, row = yield registered("accepted")
    assert (row.eligible_in, row.partition, row.eligible_elr) == (1, 0, [2, 3])
    assert (row.stated_epoch, row.previous_broker_epoch, row.clean, row.unregistered) == (1, 1, True, False)
    assert row.request_ref.line_in_split == 5


@of_registrations.test
def test_requests_of_one_incarnation_that_state_two_epochs_state_none() -> Checks:
    *_, row = yield registered("two epochs")
    assert (row.stated_epoch, row.clean) == (None, None)


@of_registrations.test
def test_a_version_without_the_field_states_no_clean_shutdown() -> Checks:
    *_, row = yield registered("old version")
    assert (row.stated_epoch, row.clean) == (-1, False)
