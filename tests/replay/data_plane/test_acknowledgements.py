"""Frame `acknowledgements`: in which role a broker acknowledged writes."""

from __future__ import annotations

from epochaudit.replay.data_plane.acknowledgements import acknowledgements
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(acknowledgements, order=("base_offset",))

# Broker 1 follows from 10,000 on, and leads from 30,000 on.
WRITES = """
| # | event_type | node | topic | partition | leader_epoch | start_offset | acks | base_offsets | time_ms | arrival_ms |
|---|---|---|---|---|---|---|---|---|---|---|
| s | FOLLOWER_STARTS | 1 | t | 0 | 6 | 0 | | | 10000 | |
| x | LEADER_AND_ISR_FINISHED | 1 | | | | | | | 10001 | |
| a | PRODUCE | 1 | t | 0 | | | -1 | 5 | 9000 | 8990 |
| b | PRODUCE | 1 | t | 0 | | | -1 | 7,9 | 20000 | 19990 |
| t | LEADER_STARTS | 1 | t | 0 | 7 | 10 | | | 30000 | |
| y | LEADER_AND_ISR_FINISHED | 1 | | | | | | | 30001 | |
| c | PRODUCE | 1 | t | 0 | | | -1 | 11 | 30001 | 29000 |
"""


@replay.test
def test_a_follower_is_certain_only_between_its_lines() -> Checks:
    rows = yield of_table(WRITES)
    assert [(row.base_offset, row.leader_epoch, row.led, row.followed_epoch) for row in rows] == [
        (5, None, False, None),
        (9, None, False, 6),
        (11, 7, True, None),
    ]
    assert [row.followed_ref and row.followed_ref.time_ms for row in rows] == [None, 10000, None]


# The broker led a topic t in epoch 0, and then follows another one of the name in epoch 0. It followed u-0 in epoch 6 with a release
# before 2.6, whose followers write no line, and goes on with a later one.
FOLLOWS = """
| # | event_type | topic | partition | leader | leader_epoch | start_offset | acks | base_offsets | error_code | time_ms |
|---|---|---|---|---|---|---|---|---|---|---|
| s | LEADER_STARTS | t | 0 | | 0 | 0 | | | | 1000 |
| x | LEADER_AND_ISR_FINISHED | | | | | | | | | 1001 |
| r | LEADER_AND_ISR | u | 0 | 2 | 6 | | | | 0 | 3000 |
| p | PROCESS_STARTING | | | | | | | | | 5000 |
| f | FOLLOWER_STARTS | t | 0 | | 0 | 0 | | | | 10000 |
| g | FOLLOWER_STARTS | u | 0 | | 6 | 0 | | | | 11000 |
| y | LEADER_AND_ISR_FINISHED | | | | | | | | | 11001 |
| a | PRODUCE | t | 0 | | | | -1 | 7 | | 20000 |
| b | PRODUCE | u | 0 | | | | -1 | 9 | | 20000 |
"""


@replay.test
def test_the_line_of_the_follower_is_referenced_and_no_other_of_that_epoch() -> Checks:
    rows = yield of_table(FOLLOWS)
    assert [(row.topic, row.followed_epoch, row.followed_ref.time_ms) for row in rows] == [
        ("t", 0, 10000),
        ("u", 6, 11000),
    ]
