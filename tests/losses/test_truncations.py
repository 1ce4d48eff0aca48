"""The truncations of an audit, from the events to the report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit.losses.removal import Reader, Removal, Replica
from epochaudit.losses.truncations import removals_of, segments_wanted
from epochaudit.rules.judge import Tally
from epochaudit.rules.rule import EXPOSED, PASS
from tests.replay.histories import histories, history

# Broker 1 leads in epochs 0 and 1, broker 2 in epoch 2 without the records from 10 on. Consumer a, of group g, reads them all,
# b one of them, e up to 25 in a session that goes on; c reads the new history at the same offsets. Partition 1: no client
# received record 5.
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
| s | FOLLOWER_STARTS | 1 | t | 2 | 1 | 6 | |   | | | | | | | | | | | | |  |
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
    return {partition: one for (_, partition), one in _removals_by_cluster(events, found, **counts).items()}


def _removals_by_cluster(
    events: DataFrame, found: list[dict[str, Any]], **counts: int
) -> dict[tuple[str, int], Removal]:
    audit = SimpleNamespace(events=events, tallies=(Tally("TR-07", counts, {}),))
    return {(one.cluster, one.partition): one for one in removals_of(cast("Any", audit), found)}


def test_removals_have_their_epochs_replicas_and_readers(events: DataFrame) -> None:
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
        committed=True,
    )
    harmless, unknown, by_id = found[1], found[2], found[3]
    assert (by_id.topic_id, by_id.given_out) == ("N", False)  # fetches name the topic by its id, lines by name
    assert (harmless.first_offset, harmless.last_offset, harmless.epochs) == (5, 5, (0,))
    assert (harmless.given_out, harmless.read_by) == (False, ())
    assert unknown.given_out is None  # no answer of the old leader is recorded


# Broker 1 still has the twenty records as they were written, in fewer batches than records: two of its offsets are control records.
RUNS = """
| # | event_type | node | file | topic | partition | leader_epoch | batch_base_offset | batch_last_offset | record_count | reason |
|---|---|---|---|---|---|---|---|---|---|---|
| r1 | LOG_BATCHES | 1 | b1/t-0/00000000000000000000.log | t | 0 | 0 | 0 | 9 | 10 | |
| r2 | LOG_BATCHES | 1 | b1/t-0/00000000000000000000.log | t | 0 | 1 | 10 | 29 | 18 | REWRITTEN |
| r3 | LOG_BATCHES | 2 | b2/t-0/00000000000000000000.log | t | 0 | 0 | 0 | 9 | 10 | |
| r4 | LOG_BATCHES | 2 | b2/t-0/00000000000000000000.log | t | 0 | 2 | 10 | 29 | 20 | |
"""


COUNTED = {
    "as written": ("| 10 | 29 | 18 |", "| 10 | 29 | 18 |", 18),
    "the last is missing": ("| 10 | 29 | 18 |", "| 10 | 28 | 18 |", None),
    "a batch reaches beyond": ("| 10 | 29 | 18 |", "| 10 | 34 | 18 |", None),
    "headers without a count": ("| 10 | 29 | 18 |", "| 10 | 29 | |", None),
    "compacted": ("| 18 | REWRITTEN |", "| 18 | compacted |", None),
    "of the new history": ("| 0 | 1 | 10 |", "| 0 | 2 | 10 |", None),
}


@pytest.fixture(scope="module")
def with_headers(spark: SparkSession) -> dict[tuple[str, int], Removal]:
    """The removals of each of COUNTED."""
    tables = {
        name: changed(RUNS, before, after).replace("REWRITTEN", "") for name, (before, after, _) in COUNTED.items()
    }
    events = histories(spark, dict.fromkeys(COUNTED, EVENTS)).unionByName(histories(spark, tables))
    return _removals_by_cluster(events, [{**FOUND, "cluster": f"case {name}"} for name in COUNTED])


@pytest.mark.parametrize("name", COUNTED)
def test_the_headers_of_a_copy_count_what_was_removed(name: str, with_headers: dict[tuple[str, int], Removal]) -> None:
    assert with_headers[f"case {name}", 0].counted == COUNTED[name][-1]


def changed(table: str, before: str, after: str) -> str:
    assert before in table
    return table.replace(before, after)


# Broker 1 leads in epoch 5 from 379, nobody in 6, broker 3 in 7 with a record of epoch 4 at 379. No client fetched in epoch 5.
OWN_HIGH_WATERMARK = """
| # | event_type | node | topic | topic_id | partition | leader | leader_epoch | partition_epoch | isr | replicas | metadata_offset | start_offset | high_watermark | offset |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| p1 | PROCESS_STARTING | 1 |  |  |  |  |  |  |  |  |  |  |  |  |
| p3 | PROCESS_STARTING | 3 |  |  |  |  |  |  |  |  |  |  |  |  |
| t | TOPIC_RECORD |  | t | T |  |  |  |  |  |  | 1 |  |  |  |
| a | PARTITION_RECORD |  |  | T | 0 | 3 | 4 | 7 | 3,1 | 3,1 | 2 |  |  |  |
| b | LEADER_STARTS | 3 | t | T | 0 | 3 | 4 | 7 | 3,1 |  |  | 255 | 255 |  |
| c | PARTITION_CHANGE_RECORD |  |  | T | 0 | 1 |  |  | 1 |  | 3 |  |  |  |
| d | LEADER_STARTS | 1 | t | T | 0 | 1 | 5 | 8 | 1 |  |  | 379 | 379 |  |
| again | ISR_UPDATED | 1 | t | T | 0 | 1 | 5 | 8 | 1 |  |  | 379 | 379 |  |
| e | PARTITION_CHANGE_RECORD |  |  | T | 0 | -1 |  |  |  |  | 4 |  |  |  |
| f | PARTITION_CHANGE_RECORD |  |  | T | 0 | 3 |  |  | 3 |  | 5 |  |  |  |
| g | LEADER_STARTS | 3 | t | T | 0 | 3 | 7 | 10 | 3 |  |  | 380 | 379 |  |
| h | FOLLOWER_STARTS | 1 | t |  | 0 | 3 | 7 | 10 |  |  |  | 442 | 379 |  |
| i | LOG_TRUNCATED | 1 | t |  | 0 |  |  |  |  |  |  |  |  | 379 |
"""  # noqa: E501


RESTARTED = """| r | PROCESS_STARTING | 1 |  |  |  |  |  |  |  |  |  |  |  |  |
| l | HIGH_WATERMARK_LOADED | 1 | t |  | 0 |  |  |  |  |  |  |  | 379 |  |
| h | FOLLOWER_STARTS |"""

COMMITTED = {
    "as written": ("| 442 | 379 |", "| 442 | 379 |", False),
    "a higher high watermark": ("| 442 | 379 |", "| 442 | 380 |", None),
    "no high watermark": ("| 442 | 379 |", "| 442 |  |", None),
    # it may have loaded a lower high watermark
    "it starts again": ("| again | ISR_UPDATED |", "| again | LEADER_STARTS |", None),
    # its checkpoint may be older than the last records that it committed
    "it was killed and loads its log again": ("| h | FOLLOWER_STARTS |", RESTARTED, None),
    "of the leader of epoch 6 nothing is known": ("| 0 | -1 |", "| 0 | 2 |", None),
}


@pytest.fixture(scope="module")
def of_own_leader(spark: SparkSession) -> dict[tuple[str, int], Removal]:
    """The removals of each of COMMITTED."""
    tables = {name: changed(OWN_HIGH_WATERMARK, before, after) for name, (before, after, _) in COMMITTED.items()}
    return _removals_by_cluster(histories(spark, tables), [], **{PASS: 1})


@pytest.mark.parametrize("name", COMMITTED)
def test_the_high_watermark_of_the_leader_that_wrote_the_records_shows_that_they_were_not_committed(
    name: str, of_own_leader: dict[tuple[str, int], Removal]
) -> None:
    removal = of_own_leader[f"case {name}", 0]
    assert (removal.first_offset, removal.last_offset, removal.leader_epoch) == (379, 441, 7)
    assert (removal.given_out, removal.committed) == (None, COMMITTED[name][-1])


def test_without_verdicts_about_truncations_no_query_runs() -> None:
    nothing = cast("Any", None)
    assert _removals(nothing, []) == {}
    assert _removals(nothing, [{**FOUND, "verdict": PASS}]) == {}


def test_segments_are_wanted_where_records_may_be_lost_and_the_capture_has_none(
    spark: SparkSession, events: DataFrame
) -> None:
    removed = list(_removals(events, [FOUND]).values())
    audit = SimpleNamespace(events=events, tallies=())
    wanted = segments_wanted(cast("Any", audit), removed)
    # partition 1 of t and that of n are harmless
    assert [(one.topic, one.partition, one.records, one.committed) for one in wanted] == [
        ("t", 0, 20, True),
        ("t", 2, 1, None),
    ]
    audit.events = events.unionByName(history(spark, RUNS.replace("REWRITTEN", "")))
    assert [one.partition for one in segments_wanted(cast("Any", audit), removed)] == [2]
    assert segments_wanted(cast("Any", audit), [one for one in removed if one.harmed is False]) == ()
