"""Rows of frames over the metadata log name the controller that wrote the record: no case compares it."""

from __future__ import annotations

from epochaudit.replay.frames import FRAMES
from tests.replay.histories import Checks, Replay, of_table

of_voters = Replay(FRAMES["voter_sets"].of, order=("node",))
of_directories = Replay(FRAMES["log_directories"].of, order=("node",))
of_offline_directories = Replay(FRAMES["offline_directories"].of, order=("node",))

HISTORY = """
| # | event_type | topic | topic_id | partition | raft_epoch | leader | leader_epoch | partition_epoch | isr | replicas | directories | broker_id | log_dirs | voters | metadata_offset |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| l1 | LEADER_CHANGE | | | | 1 | 100 | | | | | | | | | 0 |
| l2 | LEADER_CHANGE | | | | 2 | 101 | | | | | | | | | 1 |
| v | KRAFT_VOTERS | | | | 2 | | | | | | | | | 100:A,101:B | 2 |
| t | TOPIC_RECORD | t | T | | 2 | | | | | | | | | | 3 |
| p | PARTITION_RECORD | | T | 0 | 2 | 1 | 0 | 0 | 1 | 1 | D | | | | 4 |
| c | BROKER_REGISTRATION_CHANGE_RECORD | | | | 2 | | | | | | | 1 | E | | 5 |
"""  # noqa: E501


@of_voters.test
def test_voters_have_the_leader_of_the_records_epoch() -> Checks:
    (row,) = yield of_table(HISTORY)
    assert row.node == 101


@of_directories.test
def test_directories_have_the_leader_of_the_records_epoch() -> Checks:
    (row,) = yield of_table(HISTORY)
    assert row.node == 101


@of_offline_directories.test
def test_offline_directories_have_the_leader_of_the_records_epoch() -> Checks:
    (row,) = yield of_table(HISTORY)
    assert row.node == 101
