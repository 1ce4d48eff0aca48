"""Frame `epoch_queries`: what brokers knew when they were asked about offsets and leader epochs."""

from __future__ import annotations

from epochaudit.replay.data_plane.epoch_queries import epoch_queries
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(epoch_queries, order=("time_ms",))

# Epoch 7 starts at 100: both answers are below.
LATEST = """
| # | event_type | topic | partition | leader_epoch | start_offset | api_version | timestamp | offset | error_code | time_ms |
|---|---|---|---|---|---|---|---|---|---|---|
| s | LEADER_STARTS | t | 0 | 7 | 100 | | | | | 1000 |
| x | LEADER_AND_ISR_FINISHED | | | | | | | | | 1001 |
| a | LIST_OFFSETS | t | 0 | | | 9 | -1 | 90 | 0 | 5000 |
| b | LIST_OFFSETS | t | 0 | | | 9 | -1 | 90 | 0 | 7000 |
"""


@replay.test
def test_another_answer_bears_witness_and_no_answer_to_itself() -> Checks:
    first, second = yield of_table(LATEST)
    assert (first.time_ms, first.held_start, first.witness_ref.time_ms) == (5000, 100, 7000)
    assert (second.time_ms, second.held_start, second.witness_ref) == (7000, 100, None)
