"""Frame `high_watermarks`: the log start offsets that a leader gave out."""

from __future__ import annotations

from epochaudit.replay.data_plane.high_watermarks import high_watermarks
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(high_watermarks, order=("partition", "log_start"))

# The last answer with the highest high watermark of each ten seconds counts; the replica of t-1 moves to another log directory.
FETCHES = """
| # | event_type | node | topic | partition | leader_epoch | error_code | high_watermark | last_stable_offset | log_start_offset | time_ms | arrival_ms |
|---|---|---|---|---|---|---|---|---|---|---|---|
| p | PROCESS_STARTED | 1 | | | | | | | | 900000 | |
| s | LEADER_STARTS | 1 | t | 0 | 7 | | | | | 1000000 | |
| t | LEADER_STARTS | 1 | t | 1 | 7 | | | | | 1000000 | |
| x | LEADER_AND_ISR_FINISHED | 1 | | | | | | | | 1000001 | |
| a | FETCH | 1 | t | 0 | | 0 | 100 | 100 | 50 | 1005000 | 1004995 |
| b | FETCH | 1 | t | 0 | | 0 | 100 | 100 | 60 | 1006000 | 1005995 |
| c | FETCH | 1 | t | 0 | | 0 | 90 | 90 | 70 | 1007000 | 1006995 |
| d | FETCH | 1 | t | 0 | | 0 | 110 | 110 | 55 | 1015000 | 1014995 |
| e | FETCH | 1 | t | 1 | | 0 | 100 | 100 | 50 | 1005000 | 1004995 |
| m | FUTURE_LOG_PROMOTED | 1 | t | 1 | | | | | | 1010000 | |
| f | FETCH | 1 | t | 1 | | 0 | 110 | 110 | 0 | 1015000 | 1014995 |
"""  # noqa: E501


@replay.test
def test_a_log_start_offset_is_compared_with_those_of_earlier_spans() -> Checks:
    rows = yield of_table(FETCHES)
    starts = [(row.partition, row.log_start, row.start_fallen_from, row.log_moved) for row in rows]
    assert starts == [(0, 55, 60, False), (0, 60, None, None), (1, 0, 50, True), (1, 50, None, None)]
    assert [row.start_fallen_ref and row.start_fallen_ref.time_ms for row in rows] == [1006000, None, 1005000, None]
