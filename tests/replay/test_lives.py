"""Lives of names without ids: which are told apart, and which lives of two nodes are the same."""

from __future__ import annotations

from pyspark.sql import SparkSession

from epochaudit.replay.lives import lives, with_lives
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


def _told(spark: SparkSession, table: str) -> dict[tuple[str, int], list[tuple[int, str]]]:
    rows = lives(history(spark, table)).collect()
    return {(row["topic"], row["node"]): [(life["from_ms"], life["topic_id"]) for life in row["lives"]] for row in rows}


STATED, TOLD, ANSWER = "PARTITION_STATE_CHANGED", "UPDATE_METADATA", "METADATA"


def test_nodes_that_had_as_many_lives_as_controllers_created_had_the_same(spark: SparkSession) -> None:
    table = _rows(
        f"{STATED} 1 t new 10", f"{TOLD} 1 t new 11", f"{TOLD} 2 t new 910", f"{TOLD} 1 t end 20", f"{TOLD} 2 t end 920",
        f"{STATED} 2 t new 929", f"{TOLD} 1 t new 30", f"{TOLD} 2 t new 930", f"{TOLD} 3 t new 30",
    )  # fmt: skip
    assert _told(spark, table) == {
        ("t", 1): [(0, "t#1"), (30, "t#2")],
        ("t", 2): [(0, "t#1"), (929, "t#2")],  # node 3 came too late, or missed the deletion: it tells neither
    }


def test_a_life_from_before_the_logs_has_no_creation(spark: SparkSession) -> None:
    table = _rows(
        f"{TOLD} 1 t 4 10", f"{TOLD} 2 t 4 10", f"{TOLD} 1 t end 20", f"{TOLD} 2 t end 20", f"{STATED} 1 t new 29",
        f"{TOLD} 1 t new 30", f"{TOLD} 2 t new 30",
    )  # fmt: skip
    assert _told(spark, table) == {("t", 1): [(0, "t#0"), (29, "t#1")], ("t", 2): [(0, "t#0"), (30, "t#1")]}


def test_more_lives_than_creations_are_of_no_use(spark: SparkSession) -> None:
    table = _rows(
        f"{STATED} 1 t new 10", f"{TOLD} 1 t new 11", f"{TOLD} 1 t end 20", f"{TOLD} 1 t new 30", f"{TOLD} 1 t end 40",
        f"{TOLD} 1 t new 50", f"{TOLD} 2 t new 11", f"{TOLD} 2 t end 20", f"{TOLD} 2 t new 50",
    )  # fmt: skip
    assert _told(spark, table) == {}


def test_what_is_told_again_is_not_created_again(spark: SparkSession) -> None:
    table = _rows(f"{TOLD} 1 t new 10", f"{TOLD} 1 t new 20", f"{TOLD} 1 t end 30", f"{TOLD} 1 t end 35")
    assert _told(spark, table) == {("t", 1): [(0, "t#1")]}


def test_a_name_deleted_once_has_one_life_if_all_nodes_tell_so(spark: SparkSession) -> None:
    both = [f"{TOLD} {node} t {fact}" for fact in ("4 10", "end 20") for node in (1, 2)]
    assert _told(spark, _rows(*both)) == {("t", 1): [(0, "t#0")], ("t", 2): [(0, "t#0")]}
    assert _told(spark, _rows(*both[:3])) == {}  # node 2 was not told of the deletion
    assert _told(spark, _rows(*both, f"{TOLD} 2 t 4 30")) == {}  # it lived on
    assert _told(spark, _rows(*both, f"{ANSWER} 2 t 4 900")) == {}
    assert len(_told(spark, _rows(*both, f"{ANSWER} 2 t 4 21"))) == 2  # it may have come before the deletion


def test_a_name_with_an_id_or_without_deletion_has_no_lives_to_tell(spark: SparkSession) -> None:
    with_id = _rows(f"{TOLD} 1 t new 10", f"{TOLD} 1 t end 20", f"{TOLD} 1 t new 30").replace(
        "| t | | 0 | 1 |", "| t | A | 0 | 1 |"
    )
    assert _told(spark, with_id) == {}
    assert _told(spark, _rows(f"{STATED} 1 t new 10", f"{STATED} 1 t new 20")) == {}


def test_control_requests_and_lines_bear_the_life_and_what_clients_ask_does_not(spark: SparkSession) -> None:
    table = _rows(
        f"{TOLD} 1 t new 1000", f"{ANSWER} 1 t 0 2000", f"{TOLD} 1 t end 3000", f"{TOLD} 1 t new 5000", f"{ANSWER} 1 t 0 5300",
        f"{ANSWER} 1 t 0 5700", "FETCH 1 t 0 5800", "LOG_TRUNCATED 1 t 0 5900", f"{ANSWER} 2 t 0 5900", f"{TOLD} 1 u new 5900",
    )  # fmt: skip
    rows = with_lives(history(spark, table)).orderBy("event_id").collect()
    assert [row["topic_id"] for row in rows] == ["t#1", "t#1", "t#1", "t#2", None, "t#2", None, "t#2", None, None]
