"""The truncations of an audit, from the events to the report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit.report.contents import Reader, Removal, Replica
from epochaudit.report.removals import removals_of
from epochaudit.rules.judge import Tally
from epochaudit.rules.rule import EXPOSED, PASS, UNVERIFIABLE
from tests.replay.histories import history

# Broker 1 leads in epochs 0 and 1, broker 2 in epoch 2 without the records from 10 on. Consumer a, of group g, reads them all,
# b one of them, e up to 25 in a session that goes on; c reads the new history at the same offsets. Partition 1: nobody was told
# of record 5.
EVENTS = """
| # | event_type | node | topic | partition | leader_epoch | start_offset | error_code | high_watermark | fetch_offset | records_size | client_id | group_id | offset | committed_leader_epoch | replica_id | in_request | in_response | session_epoch | request_error_code | topic_id | reason |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| a | LEADER_STARTS | 1 | t | 0 | 0 | 0 | | 0 | | | | | | | | | | | | |  |
| b | LEADER_STARTS | 1 | t | 0 | 1 | 10 | | 10 | | | | | | | | | | | | |  |
| c | FETCH | 1 | t | 0 | | | 0 | 30 | 0 | 900 | a | | | | -1 | | | | | |  |
| d | FETCH | 1 | t | 0 | | | | | 30 | | a | | | | -1 | true | false | 3 | 0 | |  |
| e | FETCH | 1 | t | 0 | | | 0 | 30 | 12 | 900 | b | | | | -1 | | | | | |  |
| e1 | FETCH | 1 | t | 0 | | | 0 | 30 | | 900 | e | | | | -1 | | | | | |  |
| e2 | FETCH | 1 | t | 0 | | | 0 | 30 | 25 | 0 | e | | | | -1 | | | | | |  |
| f | FETCH | 1 | t | 0 | | | 0 | 30 | 10 | 0 | d | | | | -1 | | | | | |  |
| g | OFFSET_COMMIT | 3 | t | 0 | | | 0 | | | | a | g | 30 | 1 | | | | | | |  |
| h | OFFSET_COMMIT | 3 | t | 0 | | | 0 | | | | x | h | 21 | 1 | | | | | | |  |
| i | LEADER_STARTS | 2 | t | 0 | 2 | 10 | | 10 | | | | | | | | | | | | |  |
| j | FETCH | 2 | t | 0 | | | 0 | 40 | 10 | 900 | c | | | | -1 | | | | | |  |
| k | FOLLOWER_STARTS | 1 | t | 0 | 2 | 30 | | 30 | | | | | | | | | | | | |  |
| k0 | FOLLOWER_TRUNCATING | 1 | t | 0 |  |  |  | 0 |  |  |  |  | 0 |  |  |  |  |  |  | | high_watermark |
| k1 | LOG_TRUNCATED | 1 | t | 0 |  |  |  |  |  |  |  |  | 10 |  |  |  |  |  |  | |  |
| l | FETCH | 1 | t | 0 | | | 0 | 40 | 11 | 900 | c | | | | -1 | | | | | |  |
| m | LEADER_STARTS | 1 | t | 1 | 0 | 0 | | 0 | | | | | | | | | | | | |  |
| n | FETCH | 1 | t | 1 | | | 0 | 5 | 5 | 0 | | | | | 2 | | | | | |  |
| o | LEADER_STARTS | 2 | t | 1 | 1 | 5 | | 5 | | | | | | | | | | | | |  |
| p | FOLLOWER_STARTS | 1 | t | 1 | 1 | 6 | | 5 | | | | | | | | | | | | |  |
| p1 | LOG_TRUNCATED | 1 | t | 1 |  |  |  |  |  |  |  |  | 5 |  |  |  |  |  |  | |  |
| q | LEADER_STARTS | 1 | t | 2 | 0 | 0 | | 0 | | | | | | | | | | | | |  |
| r | LEADER_STARTS | 2 | t | 2 | 1 | 5 | | 0 | | | | | | | | | | | | |  |
| s | FOLLOWER_STARTS | 1 | t | 2 | 1 | 6 | | 0 | | | | | | | | | | | | |  |
| s1 | LOG_TRUNCATED | 1 | t | 2 |  |  |  |  |  |  |  |  | 5 |  |  |  |  |  |  | |  |
| t | METADATA | 1 | n | 0 |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  | N |  |
| u | LEADER_STARTS | 1 | n | 3 | 0 | 0 |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |
| v | FETCH | 1 |  | 3 |  |  | 0 | 5 | 5 |  |  |  |  |  | 2 |  |  |  |  | N |  |
| w | LEADER_STARTS | 2 | n | 3 | 1 | 5 |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |
| x | FOLLOWER_STARTS | 1 | n | 3 | 1 | 6 |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |
| y | LOG_TRUNCATED | 1 | n | 3 |  |  |  |  |  |  |  |  | 5 |  |  |  |  |  |  |  |  |
"""  # noqa: E501

SUBJECT = {"cluster": "case history", "topic": "t", "topic_id": None, "partition": 0, "leader_epoch": 2}
FOUND = {**SUBJECT, "rule": "TR-06", "verdict": EXPOSED, "first_offset": 10, "last_offset": 29}


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return history(spark, EVENTS)


def _removals(events: DataFrame, found: list[dict[str, Any]], **counts: int) -> dict[int, Removal]:
    tallies = (Tally("TR-07", counts, {}),)
    audit = SimpleNamespace(events=events, tallies=tallies)
    return {one.partition: one for one in removals_of(cast("Any", audit), found)}


def test_removals_are_told_with_their_epochs_replicas_and_readers(events: DataFrame) -> None:
    found = _removals(events, [FOUND])
    assert found[0] == Removal(
        "case history",
        "t",
        None,
        0,
        leader_epoch=2,
        first_offset=10,
        last_offset=29,
        epochs=(1,),
        given_out=True,
        replicas=(Replica(1, 30, 10),),
        read_by=(
            Reader("a", "g", 10, 29),
            Reader(None, "h", 10, 20),
            Reader("b", None, 12, 12),
            Reader("e", None, 10, 24),
        ),
    )
    harmless, unknown, by_id = found[1], found[2], found[3]
    assert (by_id.topic_id, by_id.given_out) == ("N", False)  # fetches name the topic by its id, lines by name
    assert (harmless.first_offset, harmless.last_offset, harmless.epochs) == (5, 5, (0,))
    assert (harmless.given_out, harmless.read_by) == (False, ())
    assert unknown.given_out is None  # no answer of the old leader is recorded


def test_nothing_is_asked_where_no_verdict_tells_of_a_truncation() -> None:
    nothing = cast("Any", None)
    assert _removals(nothing, []) == {}
    assert _removals(nothing, [{**FOUND, "verdict": PASS}], **{UNVERIFIABLE: 3}) == {}
