"""Frame `acknowledgements`: in which role a broker acknowledged writes."""

from __future__ import annotations

from pyspark.sql import SparkSession

from epochaudit.replay.data_plane.acknowledgements import acknowledgements
from tests.replay.histories import history

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


def test_a_follower_is_certain_only_between_its_lines(spark: SparkSession) -> None:
    rows = acknowledgements(history(spark, WRITES)).select(
        "base_offset", "leader_epoch", "led", "followed_epoch", "followed_ref.time_ms"
    )
    assert sorted(tuple(row) for row in rows.collect()) == [
        (5, None, False, None, None),
        (9, None, False, 6, 10000),
        (11, 7, True, None, None),
    ]
