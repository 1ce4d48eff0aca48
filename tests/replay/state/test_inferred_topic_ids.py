"""Inferred topic ids: which topics of a name are distinguished, and which topics of two nodes are the same."""

from __future__ import annotations

from pyspark.sql import Row

from epochaudit.replay.state.inferred_topic_ids import inferred_topic_ids, with_inferred_topic_ids
from tests.replay.histories import Checks, History, Replay, of_table

replay = Replay(inferred_topic_ids, order=("topic", "node"))
events_with_ids = Replay(with_inferred_topic_ids, order=("event_id",))

_HEAD = """
| # | event_type | node | topic | topic_id | partition | leader | leader_epoch | partition_epoch | error_code | arrival_ms | time_ms |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def _history(*lines: str) -> History:
    """Lines as `event_type node topic fact at`: a creation (new), a later epoch (E), an end; requests arrive as they are logged."""
    table = _HEAD
    for number, line in enumerate(lines):
        event_type, node, topic, fact, at = line.split()
        epochs = {"new": "1 | 0 | 0", "end": "-2 | 0 | 0"}.get(fact) or f"1 | {fact} | {fact}"
        table += f"| {number} | {event_type} | {node} | {topic} | | 0 | {epochs} | 0 | {at} | {at} |\n"
    return of_table(table)


def _inferred(rows: list[Row]) -> dict[tuple[str, int], list[tuple[int, str]]]:
    return {
        (row["topic"], row["node"]): [(topic["from_ms"], topic["topic_id"]) for topic in row["inferred_ids"]]
        for row in rows
    }


STATED, RECEIVED, ANSWER = "PARTITION_STATE_CHANGED", "UPDATE_METADATA", "METADATA"


@replay.test
def test_nodes_with_as_many_topics_as_controllers_created_have_the_same_ids() -> Checks:
    events = _history(
        f"{STATED} 1 t new 10", f"{RECEIVED} 1 t new 11", f"{RECEIVED} 2 t new 910", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 2 t end 920",
        f"{STATED} 2 t new 929", f"{RECEIVED} 1 t new 30", f"{RECEIVED} 2 t new 930", f"{RECEIVED} 3 t new 30",
    )  # fmt: skip
    assert _inferred((yield events)) == {
        ("t", 1): [(0, "t#1"), (30, "t#2")],
        ("t", 2): [(0, "t#1"), (929, "t#2")],  # node 3 started too late, or missed the deletion: it has no ordinals
    }


@replay.test
def test_a_topic_from_before_the_logs_is_number_0() -> Checks:
    events = _history(
        f"{RECEIVED} 1 t 4 10", f"{RECEIVED} 2 t 4 10", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 2 t end 20", f"{STATED} 1 t new 29",
        f"{RECEIVED} 1 t new 30", f"{RECEIVED} 2 t new 30",
    )  # fmt: skip
    assert _inferred((yield events)) == {("t", 1): [(0, "t#0"), (29, "t#1")], ("t", 2): [(0, "t#0"), (30, "t#1")]}


@replay.test
def test_more_topics_than_creations_are_not_numbered() -> Checks:
    events = _history(
        f"{STATED} 1 t new 10", f"{RECEIVED} 1 t new 11", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 1 t new 30", f"{RECEIVED} 1 t end 40",
        f"{RECEIVED} 1 t new 50", f"{RECEIVED} 2 t new 11", f"{RECEIVED} 2 t end 20", f"{RECEIVED} 2 t new 50",
    )  # fmt: skip
    assert _inferred((yield events)) == {}


@replay.test
def test_a_repeated_state_without_a_deletion_is_no_new_topic() -> Checks:
    events = _history(
        f"{RECEIVED} 1 t new 10", f"{RECEIVED} 1 t new 20", f"{RECEIVED} 1 t end 30", f"{RECEIVED} 1 t end 35"
    )
    assert _inferred((yield events)) == {("t", 1): [(0, "t#1")]}


@replay.test
def test_a_name_deleted_once_has_one_topic_if_all_nodes_show_its_deletion() -> Checks:
    both = [f"{RECEIVED} {node} t {fact}" for fact in ("4 10", "end 20") for node in (1, 2)]
    deleted, undelivered, living, listed, before = yield (
        _history(*both),
        _history(*both[:3]),
        _history(*both, f"{RECEIVED} 2 t 4 30"),
        _history(*both, f"{ANSWER} 2 t 4 900"),
        _history(*both, f"{ANSWER} 2 t 4 21"),
    )
    assert _inferred(deleted) == {("t", 1): [(0, "t#0")], ("t", 2): [(0, "t#0")]}
    assert _inferred(undelivered) == {}  # node 2 did not receive the deletion
    assert _inferred(living) == {}  # the topic still exists
    assert _inferred(listed) == {}
    assert len(_inferred(before)) == 2  # the request may have arrived before the deletion


@replay.test
def test_a_name_with_an_id_or_without_deletion_has_no_inferred_ids() -> Checks:
    by_name = _history(f"{RECEIVED} 1 t new 10", f"{RECEIVED} 1 t end 20", f"{RECEIVED} 1 t new 30")
    with_id = [event | {"topic_id": "A" if event["leader"] == 1 else None} for event in by_name]
    identified, never_deleted = yield with_id, _history(f"{STATED} 1 t new 10", f"{STATED} 1 t new 20")
    assert _inferred(identified) == _inferred(never_deleted) == {}


@events_with_ids.test
def test_control_requests_and_lines_get_the_inferred_id_and_client_requests_do_not() -> Checks:
    events = _history(
        f"{RECEIVED} 1 t new 1000", f"{ANSWER} 1 t 0 2000", f"{RECEIVED} 1 t end 3000", f"{RECEIVED} 1 t new 5000", f"{ANSWER} 1 t 0 5300",
        f"{ANSWER} 1 t 0 5700", "FETCH 1 t 0 5800", "LOG_TRUNCATED 1 t 0 5900", f"{ANSWER} 2 t 0 5900", f"{RECEIVED} 1 u new 5900",
    )  # fmt: skip
    rows = yield events
    assert [row["topic_id"] for row in rows] == ["t#1", "t#1", "t#1", "t#2", None, "t#2", None, "t#2", None, None]


@events_with_ids.test
def test_a_line_of_a_host_whose_clock_begins_in_1970_gets_no_id() -> Checks:
    events = _history(f"{ANSWER} 1 t 0 200", f"{RECEIVED} 1 t new 1000", f"{RECEIVED} 1 t end 3000")
    rows = yield events
    assert [row["topic_id"] for row in rows] == [None, "t#1", "t#1"]
