"""Inferred topic ids: which topics of a name are distinguished, and which topics of two nodes are the same."""

from __future__ import annotations

from pyspark.sql import SparkSession

from epochaudit.replay.state.inferred_topic_ids import inferred_topic_ids, with_inferred_topic_ids
from tests.replay.histories import history

_HEAD = """
| # | event_type | node | topic | topic_id | partition | leader | leader_epoch | partition_epoch | error_code | arrival_ms | time_ms |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def _rows(*lines: str) -> str:
    """Lines as `event_type node topic fact at`: a creation (new), a later epoch (E), an end; requests arrive as they are logged."""
    table = _HEAD
    for number, line in enumerate(lines):
        event_type, node, topic, fact, at = line.split()
        epochs = {"new": "1 | 0 | 0", "end": "-2 | 0 | 0"}.get(fact) or f"1 | {fact} | {fact}"
        table += f"| {number} | {event_type} | {node} | {topic} | | 0 | {epochs} | 0 | {at} | {at} |\n"
    return table


def _inferred(spark: SparkSession, table: str) -> dict[tuple[str, int], list[tuple[int, str]]]:
    rows = inferred_topic_ids(history(spark, table)).collect()
    return {
        (row["topic"], row["node"]): [(topic["from_ms"], topic["topic_id"]) for topic in row["inferred_ids"]]
        for row in rows
    }


STATED, RECEIVED, ANSWER = "PARTITION_STATE_CHANGED", "UPDATE_METADATA", "METADATA"


def test_nodes_with_as_many_topics_as_controllers_created_have_the_same_ids(spark: SparkSession) -> None:
    table = _rows(
        f"{STATED} 1 t new 10", f"{RECEIVED} 1 t new 11", f"{RECEIVED} 2 t new 910", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 2 t end 920",
        f"{STATED} 2 t new 929", f"{RECEIVED} 1 t new 30", f"{RECEIVED} 2 t new 930", f"{RECEIVED} 3 t new 30",
    )  # fmt: skip
    assert _inferred(spark, table) == {
        ("t", 1): [(0, "t#1"), (30, "t#2")],
        ("t", 2): [(0, "t#1"), (929, "t#2")],  # node 3 started too late, or missed the deletion: it has no ordinals
    }


def test_a_topic_from_before_the_logs_is_number_0(spark: SparkSession) -> None:
    table = _rows(
        f"{RECEIVED} 1 t 4 10", f"{RECEIVED} 2 t 4 10", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 2 t end 20", f"{STATED} 1 t new 29",
        f"{RECEIVED} 1 t new 30", f"{RECEIVED} 2 t new 30",
    )  # fmt: skip
    assert _inferred(spark, table) == {("t", 1): [(0, "t#0"), (29, "t#1")], ("t", 2): [(0, "t#0"), (30, "t#1")]}


def test_more_topics_than_creations_are_not_numbered(spark: SparkSession) -> None:
    table = _rows(
        f"{STATED} 1 t new 10", f"{RECEIVED} 1 t new 11", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 1 t new 30", f"{RECEIVED} 1 t end 40",
        f"{RECEIVED} 1 t new 50", f"{RECEIVED} 2 t new 11", f"{RECEIVED} 2 t end 20", f"{RECEIVED} 2 t new 50",
    )  # fmt: skip
    assert _inferred(spark, table) == {}


def test_a_repeated_state_without_a_deletion_is_no_new_topic(spark: SparkSession) -> None:
    table = _rows(
        f"{RECEIVED} 1 t new 10", f"{RECEIVED} 1 t new 20", f"{RECEIVED} 1 t end 30", f"{RECEIVED} 1 t end 35"
    )
    assert _inferred(spark, table) == {("t", 1): [(0, "t#1")]}


def test_a_name_deleted_once_has_one_topic_if_all_nodes_show_its_deletion(spark: SparkSession) -> None:
    both = [f"{RECEIVED} {node} t {fact}" for fact in ("4 10", "end 20") for node in (1, 2)]
    assert _inferred(spark, _rows(*both)) == {("t", 1): [(0, "t#0")], ("t", 2): [(0, "t#0")]}
    assert _inferred(spark, _rows(*both[:3])) == {}  # node 2 did not receive the deletion
    assert _inferred(spark, _rows(*both, f"{RECEIVED} 2 t 4 30")) == {}  # the topic still exists
    assert _inferred(spark, _rows(*both, f"{ANSWER} 2 t 4 900")) == {}
    assert len(_inferred(spark, _rows(*both, f"{ANSWER} 2 t 4 21"))) == 2  # it may have arrived before the deletion


def test_a_name_with_an_id_or_without_deletion_has_no_inferred_ids(spark: SparkSession) -> None:
    with_id = _rows(f"{RECEIVED} 1 t new 10", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 1 t new 30").replace(
        "| t | | 0 | 1 |", "| t | A | 0 | 1 |"
    )
    assert _inferred(spark, with_id) == {}
    assert _inferred(spark, _rows(f"{STATED} 1 t new 10", f"{STATED} 1 t new 20")) == {}


def test_control_requests_and_lines_get_the_inferred_id_and_client_requests_do_not(spark: SparkSession) -> None:
    table = _rows(
        f"{RECEIVED} 1 t new 1000", f"{ANSWER} 1 t 0 2000", f"{RECEIVED} 1 t end 3000", f"{RECEIVED} 1 t new 5000", f"{ANSWER} 1 t 0 5300",
        f"{ANSWER} 1 t 0 5700", "FETCH 1 t 0 5800", "LOG_TRUNCATED 1 t 0 5900", f"{ANSWER} 2 t 0 5900", f"{RECEIVED} 1 u new 5900",
    )  # fmt: skip
    rows = with_inferred_topic_ids(history(spark, table)).orderBy("event_id").collect()
    assert [row["topic_id"] for row in rows] == ["t#1", "t#1", "t#1", "t#2", None, "t#2", None, "t#2", None, None]


def test_a_line_of_a_host_whose_clock_begins_in_1970_gets_no_id(spark: SparkSession) -> None:
    table = _rows(f"{ANSWER} 1 t 0 200", f"{RECEIVED} 1 t new 1000", f"{RECEIVED} 1 t end 3000")
    rows = with_inferred_topic_ids(history(spark, table)).orderBy("event_id").collect()
    assert [row["topic_id"] for row in rows] == [None, "t#1", "t#1"]
