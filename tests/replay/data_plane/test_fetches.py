"""The frame `fetches`: which epoch a fetch was asked in, and which one the broker held."""

from __future__ import annotations

from epochaudit.replay.data_plane.fetches import fetches
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(fetches, order=("session_id", "partition", "session_epoch", "correlation_id"))


@replay.test
def test_a_partition_left_to_the_session_was_asked_for_in_the_epoch_that_last_listed_it() -> Checks:
    rows = yield of_table(
        """
| # | event_type | topic | partition | session_id | session_epoch | in_request | in_response | current_leader_epoch | error_code |
|---|---|---|---|---|---|---|---|---|---|
| a | FETCH | t | 0 | 9 | 0 | true | true | 3 | 0 |
| b | FETCH | t | 0 | 9 | 1 | false | true | | 0 |
| c | FETCH | t | 0 | 9 | 2 | true | false | 4 | |
| d | FETCH | t | 0 | 9 | 3 | false | true | | 0 |
| e | FETCH | t | 0 | 8 | 5 | false | true | | 0 |
| f | FETCH | t | 1 | 9 | 4 | false | true | | 0 |
"""
    )
    names = ("session_id", "partition", "session_epoch", "current_leader_epoch", "epoch_source")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (8, 0, 5, None, "unknown"),
        (9, 0, 0, 3, "request"),
        (9, 0, 1, 3, "session"),
        (9, 0, 3, 4, "session"),
        (9, 1, 4, None, "unknown"),
    ]


@replay.test
def test_the_epoch_held_is_a_range_while_it_changes_and_unknown_after_a_restart() -> Checks:
    rows = yield of_table(
        """
| # | event_type | topic | topic_id | partition | leader_epoch | correlation_id | current_leader_epoch | error_code | arrival_ms | time_ms |
|---|---|---|---|---|---|---|---|---|---|---|
| a | LEADER_STARTS | t | A | 0 | 3 | | | | | 1000 |
| x | LEADER_AND_ISR_FINISHED | | | | | | | | | 1010 |
| f | FETCH | | A | 0 | | 1 | 3 | 0 | 1500 | 1600 |
| b | FOLLOWER_STARTS | t | | 0 | 4 | | | | | 2000 |
| y | LEADER_AND_ISR_FINISHED | | | | | | | | | 2100 |
| g | FETCH | | A | 0 | | 2 | 3 | 74 | 1900 | 2050 |
| h | FETCH | t | | 0 | | 3 | 4 | 0 | 2200 | 2300 |
| p | PROCESS_STARTING | | | | | | | | | 5000 |
| i | FETCH | t | | 0 | | 4 | 4 | 0 | 6000 | 6100 |
"""
    )
    names = ("correlation_id", "topic", "topic_id", "held_min", "held_max", "held_complete", "leader_epoch")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (1, "t", "A", 3, 3, True, 3),
        (2, "t", "A", 3, 4, True, None),
        (3, "t", "A", 4, 4, True, 4),
        (4, "t", None, None, None, False, None),
    ]
