"""Rows of frames over the metadata log name the controller that wrote the record: no case compares it."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.frames import FRAMES
from tests.replay.histories import Checks, Replay, of_table

OVER_RECORDS = ("log_directories", "offline_directories", "voter_sets")


def nodes(events: DataFrame) -> DataFrame:
    """The node of each row of the frames OVER_RECORDS."""
    frames = (FRAMES[name].of(events).select("cluster", "node", F.lit(name).alias("frame")) for name in OVER_RECORDS)
    return reduce(DataFrame.unionByName, frames)


replay = Replay(nodes, order=("frame",))

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


@replay.test
def test_the_node_is_the_leader_of_the_records_epoch() -> Checks:
    rows = yield of_table(HISTORY)
    assert [(row.frame, row.node) for row in rows] == [(name, 101) for name in OVER_RECORDS]
