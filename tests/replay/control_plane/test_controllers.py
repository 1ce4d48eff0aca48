"""Rows of frames over the metadata log name the controller that wrote the record: no case compares it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from epochaudit.replay.frames import FRAMES
from tests.replay.histories import history

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


@pytest.mark.parametrize("frame", ["voter_sets", "log_directories", "offline_directories"])
def test_the_node_is_the_leader_of_the_records_epoch(spark: SparkSession, frame: str) -> None:
    rows = FRAMES[frame].of(history(spark, HISTORY)).select("node").collect()
    assert [row.node for row in rows] == [101]
