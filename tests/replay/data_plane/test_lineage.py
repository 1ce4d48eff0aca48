"""The frame `lineage`: where epochs start, how leaders were elected, what had been exposed."""

from __future__ import annotations

from epochaudit.replay.data_plane.lineage import lineage
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(lineage, order=("leader_epoch",))


@replay.test
def test_an_election_is_judged_by_the_isr_that_stood_just_before() -> Checks:
    rows = yield of_table(
        """
| # | event_type | node | topic | partition | leader | leader_epoch | partition_epoch | isr | leader_recovery_state |
|---|---|---|---|---|---|---|---|---|---|
| a | PARTITION_STATE_CHANGED | 9 | t | 0 | 1 | 0 | 0 | 1,2 | |
| b | PARTITION_STATE_CHANGED | 9 | t | 0 | 2 | 1 | 1 | 2 | |
| c | PARTITION_STATE_CHANGED | 9 | t | 0 | -1 | 2 | 2 | 2 | |
| d | PARTITION_STATE_CHANGED | 9 | t | 0 | 1 | 3 | 3 | 1 | |
| e | PARTITION_STATE_CHANGED | 9 | t | 0 | 2 | 4 | 7 | 2 | |
| f | PARTITION_STATE_CHANGED | 9 | t | 0 | 1 | 5 | 8 | 1 | 1 |
"""
    )
    names = ("leader_epoch", "leader", "election", "previous_isr", "previous_leader_epoch")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (0, 1, "first", None, None),
        (1, 2, "clean", [1, 2], 0),
        (2, -1, "unclean", [2], 1),
        (3, 1, "unclean", [2], 2),
        (4, 2, "unknown", [1], 3),
        (5, 1, "unclean", [2], 4),
    ]


@replay.test
def test_high_watermarks_count_for_later_epochs_and_only_as_a_leader_gave_them_out() -> Checks:
    rows = yield of_table(
        """
| # | event_type | node | topic | partition | leader_epoch | start_offset | error_code | high_watermark |
|---|---|---|---|---|---|---|---|---|
| a | LEADER_STARTS | 1 | t | 0 | 0 | 0 | | 0 |
| b | FOLLOWER_STARTS | 2 | t | 0 | 0 | 0 | | 0 |
| x | LEADER_AND_ISR_FINISHED | 1 | | | | | | |
| y | LEADER_AND_ISR_FINISHED | 2 | | | | | | |
| f | FETCH | 1 | t | 0 | | | 0 | 20 |
| g | FETCH | 1 | t | 0 | | | 0 | 30 |
| h | FETCH | 2 | t | 0 | | | 0 | 40 |
| c | LEADER_STARTS | 2 | t | 0 | 1 | 35 | | 30 |
"""
    )
    first, second = (
        (row.start_offset, row.exposed_high_watermark, row.exposed_leader_epoch, row.exposed_ref) for row in rows
    )
    assert first == (0, None, None, None)
    assert (*second[:3], second[3].byte_offset) == (35, 30, 0, 600)
