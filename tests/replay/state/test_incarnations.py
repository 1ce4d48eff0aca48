"""Topic incarnations: the ids of each name, and their order."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit.replay.state.incarnations import earlier_ids, later_ids, topic_incarnations
from tests.replay.histories import history

TOPICS = """
| # | event_type | node | topic | topic_id | partition | leader | leader_epoch | metadata_offset | api_version | error_code |
|---|---|---|---|---|---|---|---|---|---|---|
| r | TOPIC_RECORD | | t | A | | | | 1 | | |
| u | UPDATE_METADATA | 1 | t | A | 0 | 1 | 0 | | 8 | |
| d | REMOVE_TOPIC_RECORD | | | A | | | | 2 | | |
| e | TOPIC_RECORD | | t | B | | | | 3 | | |
| v | UPDATE_METADATA | 1 | t | B | 0 | 1 | 0 | | 8 | |
| l | LEADER_AND_ISR | 2 | t | C | 0 | 1 | 0 | | 7 | 103 |
| m | UPDATE_METADATA | 2 | u | D | 0 | 1 | 0 | | 8 | |
| o | UPDATE_METADATA | 2 | old | | 0 | 1 | 0 | | 5 | |
| p | UPDATE_METADATA | 2 | old | | 0 | -2 | 0 | | 5 | |
"""


def test_a_name_with_several_ids_is_ambiguous_and_a_refused_request_states_none(spark: SparkSession) -> None:
    rows = topic_incarnations(history(spark, TOPICS)).select(
        "topic_key",
        "known_topic",
        "known_topic_id",
        "recreated",
        "ambiguous_name",
        "deleted_by_name",
        "topic_removed_ms",
    )
    assert {row["topic_key"]: tuple(row)[1:] for row in rows.collect()} == {
        "name/t": ("t", None, True, True, False, None),
        "A": ("t", "A", True, False, False, 3000),
        "B": ("t", "B", True, False, False, None),
        "name/u": ("u", "D", False, False, False, None),
        "D": ("u", "D", False, False, False, None),
        "name/old": ("old", None, False, True, True, None),
    }


def test_nodes_with_both_ids_determine_their_order(spark: SparkSession) -> None:
    rows = topic_incarnations(history(spark, TOPICS)).where(F.col("known_topic") == "t")
    own = F.col("known_topic_id")
    ordered = rows.where(own.isNotNull()).select(own, earlier_ids(own), later_ids(own)).collect()
    assert {row[0]: (row[1], row[2]) for row in ordered} == {"A": ([], ["B"]), "B": (["A"], [])}
