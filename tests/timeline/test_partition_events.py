"""The view `partition_history`: what is asked over and over is one row for as long as it is answered alike."""

from __future__ import annotations

from pyspark.sql import SparkSession

from epochaudit.timeline.event_text import sentence
from epochaudit.timeline.partition_events import Subject, partition_history, topic_ids
from tests.replay.histories import history

ASKED = """
| # | event_type | node | topic | topic_id | partition | client_id | connection | leader_epoch | current_leader_epoch | fetch_offset | error_code | response_leader | response_leader_epoch |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| l | LEADER_STARTS | 1 | t | A | 0 | | | 0 | | | | | |
| a | FETCH | 1 | t | | 0 | c | 1 | | 0 | 10 | 0 | | |
| b | FETCH | 1 | t | | 0 | c | 1 | | | | 0 | | |
| c | FETCH | 1 | t | | 0 | d | 2 | | 0 | 50 | 0 | | |
| d | FETCH | 1 | t | | 0 | c | 1 | | 0 | 20 | 0 | | |
| e | FETCH | 1 | t | | 0 | c | 1 | | 0 | 15 | 0 | | |
| f | FETCH | 1 | t | | 0 | c | 1 | | 0 | 20 | 74 | | |
| g | FETCH | 1 | | A | 0 | c | 3 | | 1 | 20 | 0 | | |
| h | FETCH | 1 | t | | 1 | c | 1 | | 0 | 99 | 0 | | |
| i | METADATA | 1 | t | A | 0 | c | 1 | | | | 0 | 1 | 0 |
| j | METADATA | 1 | t | A | 0 | d | 2 | | | | 0 | 1 | 0 |
| m | LEADER_STARTS | 1 | t | B | 0 | | | 0 | | | | | |
| n | FETCH | 1 | t | | 0 | d | 2 | | | | 0 | | |
| o | METADATA | 1 | t | B | 0 | d | 2 | | | | 0 | 1 | 0 |
| p | LOG_CREATED | 1 | u | | 0 | | | | | | | | |
| q | PROCESS_STARTING | 1 | | | | | | | | | | | |
"""  # noqa: E501


def test_a_run_ends_where_the_answer_or_the_epoch_changes_offsets_go_back_or_the_topic_is_another(
    spark: SparkSession,
) -> None:
    events = history(spark, ASKED)
    [found] = topic_ids(events, ["t"]).collect()
    assert (sorted(id for _, id in found["named"]), found["has_log"]) == (["A", "B"], False)
    rows = partition_history(events, [Subject("t", ("A", "B"), 0)], has_log=False)
    found_rows = rows.orderBy("byte_offset").select(
        "event_type", "client_id", "requests", "least", "greatest", "error_code"
    )
    assert [tuple(row) for row in found_rows.collect()] == [
        ("LEADER_STARTS", None, 1, None, None, None),
        ("FETCH", "c", 3, 10, 20, 0),  # of which one asks for nothing new
        ("FETCH", "d", 1, 50, 50, 0),
        ("FETCH", "c", 1, 15, 15, 0),
        ("FETCH", "c", 1, 20, 20, 74),
        ("FETCH", "c", 1, 20, 20, 0),
        ("METADATA", None, 2, None, None, 0),
        ("LEADER_STARTS", None, 1, None, None, None),
        ("FETCH", "d", 1, 50, 50, 0),  # the session goes on, in another topic
        ("METADATA", None, 1, None, None, 0),
        ("PROCESS_STARTING", None, 1, None, None, None),
    ]


HINTED = """
| # | event_type | source | topic | partition | client_id | leader | leader_epoch | current_leader_epoch | reason |
|---|---|---|---|---|---|---|---|---|---|
| a | CLIENT_HINT_IGNORED | client_log | t | 0 | c | 1 | 4 | 4 | not_newer |
| b | CLIENT_HINT_IGNORED | client_log | t | 0 | c | 1 | 4 | 4 | not_newer |
| d | CLIENT_HINT_TAKEN | client_log | t | 0 | c | 2 | 5 | | |
| e | CLIENT_HINT_IGNORED | client_log | t | 0 | c | 1 | 4 | 5 | not_newer |
| f | CLIENT_HINT_IGNORED | client_log | t | 0 | c | 3 | 6 | | unknown_leader |
"""


def test_hints_that_are_turned_down_again_and_again_are_one_row(spark: SparkSession) -> None:
    rows = partition_history(history(spark, HINTED), [Subject("t", (), 0)], has_log=False)
    found_rows = rows.orderBy("byte_offset").select(
        "event_type", "requests", "leader_epoch", "current_leader_epoch", "reason"
    )
    assert [tuple(row) for row in found_rows.collect()] == [
        ("CLIENT_HINT_IGNORED", 2, 4, 4, "not_newer"),
        ("CLIENT_HINT_TAKEN", 1, 5, None, None),
        ("CLIENT_HINT_IGNORED", 1, 4, 5, "not_newer"),
        ("CLIENT_HINT_IGNORED", 1, 6, None, "unknown_leader"),
    ]


SHUTS_DOWN = """
| # | event_type | node | topic | partition | broker_id | broker_epoch | want_shut_down | should_shut_down | leader_epoch |
|---|---|---|---|---|---|---|---|---|---|
| p | PARTITION_STATE_CHANGED | 100 | t | 0 | | | | | 0 |
| a | BROKER_HEARTBEAT | 100 | | | 1 | 11 | false | false | |
| b | BROKER_HEARTBEAT | 100 | | | 1 | 11 | true | false | |
| c | BROKER_HEARTBEAT | 100 | | | 1 | 11 | true | false | |
| d | BROKER_HEARTBEAT | 100 | | | 1 | 11 | true | true | |
| e | BROKER_HEARTBEAT | 100 | | | 1 | 25 | true | false | |
"""


def test_a_controlled_shutdown_is_its_first_heartbeat_and_the_grant(spark: SparkSession) -> None:
    rows = partition_history(history(spark, SHUTS_DOWN), [Subject("t", (), 0)], has_log=False)
    beats = rows.where("event_type = 'BROKER_HEARTBEAT'").orderBy("byte_offset").collect()
    assert [sentence(row.asDict()) for row in beats] == [
        "broker 1 wants to shut down (wantShutDown), broker epoch 11: not yet",
        "broker 1 wants to shut down (wantShutDown), broker epoch 11: granted (shouldShutDown)",
        "broker 1 wants to shut down (wantShutDown), broker epoch 25: not yet",
    ]


TRANSACTIONS = """
| # | event_type | topic | partition | client_id | transactional_id | producer_id | producer_epoch | committed | error_code |
|---|---|---|---|---|---|---|---|---|---|
| a | ADD_PARTITIONS_TO_TXN | t | 0 | p | pay | 7 | 3 | | 0 |
| b | ADD_PARTITIONS_TO_TXN | t | 0 | p | pay | 7 | 4 | | 0 |
| c | ADD_PARTITIONS_TO_TXN | t | 0 | p | pay | 7 | 3 | | 90 |
| d | WRITE_TXN_MARKERS | t | 0 | s | | 7 | 4 | true | 0 |
| e | WRITE_TXN_MARKERS | t | 0 | s | | 7 | 5 | true | 0 |
| f | WRITE_TXN_MARKERS | t | 0 | s | | 7 | 6 | false | 47 |
"""


def test_transactions_of_a_producer_are_runs_by_outcome(spark: SparkSession) -> None:
    rows = partition_history(history(spark, TRANSACTIONS), [Subject("t", (), 0)], has_log=False)
    assert [sentence(row.asDict()) for row in rows.orderBy("byte_offset").collect()] == [
        "client p: 2 \u00d7 AddPartitionsToTxn of transactional id pay, producer id 7, producer epochs 3 to 4: accepted",
        "client p: AddPartitionsToTxn of transactional id pay, producer id 7, producer epoch 3: REFUSED with 90 PRODUCER_FENCED",
        "client s: 2 \u00d7 transaction marker, committed yes, producer id 7, producer epochs 4 to 5: accepted",
        "client s: transaction marker, committed no, producer id 7, producer epoch 6: REFUSED with 47 INVALID_PRODUCER_EPOCH",
    ]


ACKNOWLEDGED = """
| # | event_type | node | topic | partition | client_id | connection | leader_epoch | acks | base_offsets | transactional_id |
|---|---|---|---|---|---|---|---|---|---|---|
| s | LEADER_STARTS | 1 | t | 0 | | | 6 | | | |
| a | PRODUCE | 1 | t | 0 | shop | 1 | | -1 | 100,105,110 | |
| b | PRODUCE | 1 | t | 0 | shop | 1 | | -1 | 111,119 | |
| c | PRODUCE | 1 | t | 0 | shop | 1 | | 1 | 120 | |
| d | PRODUCE | 1 | t | 0 | ledger | 2 | | -1 | 121,123 | tx |
| e | PRODUCE | 1 | t | 1 | shop | 1 | | -1 | 7 | |
"""


def test_acknowledged_writes_are_a_row_for_each_producer_and_acks(spark: SparkSession) -> None:
    rows = partition_history(history(spark, ACKNOWLEDGED), [Subject("t", (), 0)], has_log=False)
    written = rows.where("event_type = 'PRODUCE'").orderBy("byte_offset").collect()
    assert [(row["client_id"], row["acks"], row["requests"], row["least"], row["greatest"]) for row in written] == [
        ("shop", -1, 5, 100, 119),
        ("shop", 1, 1, 120, 120),
        ("ledger", -1, 2, 121, 123),
    ]
    assert [sentence(row.asDict()) for row in written] == [
        "client shop: 5 \u00d7 Produce with acks=all: acknowledged, base offsets 100 to 119",
        "client shop: Produce with acks=1: acknowledged, base offset 120",
        "client ledger: 2 \u00d7 Produce with acks=all, transactional id tx: acknowledged, base offsets 121 to 123",
    ]
