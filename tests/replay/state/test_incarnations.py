"""Topic incarnations: the ids of each name, and their order."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.state.incarnations import earlier_ids, later_ids, topic_incarnations
from tests.replay.histories import Checks, Replay, of_table


def ordered_incarnations(events: DataFrame) -> DataFrame:
    """The incarnations, each with the ids of its name before and after it."""
    own = F.col("known_topic_id")
    rows = topic_incarnations(events)
    ordered = F.when(own.isNotNull(), F.struct(earlier_ids(own).alias("earlier"), later_ids(own).alias("later")))
    return rows.withColumn("ordered", ordered)


replay = Replay(ordered_incarnations, order=("topic_key",))

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


@replay.test
def test_a_name_with_several_ids_is_ambiguous_and_a_refused_request_states_none() -> Checks:
    rows = yield of_table(TOPICS)
    names = (
        "known_topic",
        "known_topic_id",
        "recreated",
        "ambiguous_name",
        "deleted_by_name",
        "topic_removed_ms",
    )
    assert {row.topic_key: tuple(row[name] for name in names) for row in rows} == {
        "name/t": ("t", None, True, True, False, None),
        "A": ("t", "A", True, False, False, 3000),
        "B": ("t", "B", True, False, False, None),
        "name/u": ("u", "D", False, False, False, None),
        "D": ("u", "D", False, False, False, None),
        "name/old": ("old", None, False, True, True, None),
    }


@replay.test
def test_nodes_with_both_ids_determine_their_order() -> Checks:
    of_topic = [row for row in (yield of_table(TOPICS)) if row.known_topic == "t" and row.ordered is not None]
    orders = {row.known_topic_id: tuple(row.ordered) for row in of_topic}
    assert orders == {"A": ([], ["B"]), "B": (["A"], [])}
