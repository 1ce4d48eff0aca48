"""Requests are missing where their senders' numbers skip some, and only there."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from epochaudit.inventory.request_gaps import request_gaps
from tests.replay.histories import event_rows

MINUTE = 60_000
FETCHER = {"event_type": "FETCH", "client_id": "broker-2-fetcher-0", "connection": "a:1-b:2-0", "replica_id": 2}
CONTROLLER = {"event_type": "LEADER_AND_ISR", "client_id": "3", "connection": "a:1-c:3-0"}
HEARTBEAT = {"event_type": "BROKER_HEARTBEAT", "client_id": "1", "connection": "a:1-d:4-0"}
CONSUMER = {"event_type": "FETCH", "client_id": "app", "connection": "a:1-e:5-0", "session_id": 7, "replica_id": -1}


def gaps(spark: SparkSession, *requests: dict[str, Any]) -> list[tuple[object, ...]]:
    """The rows (node, missing, recorded, from_ms, until_ms) of requests with these columns, at node 1 unless they name another."""
    common = {"event_id": 1, "cluster": "c", "file": "f", "file_order": 0, "byte_offset": 0, "split": 0, "line_in_split": 1,
              "partition_row": 0, "source": "request_log", "node": 1, "time_ms": 0}  # fmt: skip
    events = event_rows(spark, (common | request for request in requests))
    found = request_gaps(events).orderBy("node").collect()
    return [(row["node"], row["missing"], row["recorded"], row["from_ms"], row["until_ms"]) for row in found]


def numbered(of: dict[str, Any], *ids: int, **columns: Any) -> list[dict[str, Any]]:
    """Requests with these correlation ids, one per millisecond."""
    return [of | {"correlation_id": number, "time_ms": number} | columns for number in ids]


def in_session(*epochs: int, **columns: Any) -> list[dict[str, Any]]:
    return [
        CONSUMER | {"session_epoch": epoch, "correlation_id": 100 * epoch, "time_ms": epoch} | columns
        for epoch in epochs
    ]


def test_correlation_ids_of_channels_to_one_peer_have_no_gap(spark: SparkSession) -> None:
    assert gaps(spark, *numbered(FETCHER, 4, 5, 6), *numbered(CONTROLLER, 0, 1)) == []
    assert gaps(spark, *numbered(FETCHER, 4, 8, 9), *numbered(CONTROLLER, 0, 1)) == [(1, 3, 5, 4, 9)]
    assert gaps(spark, *numbered(FETCHER, 4, 5), *numbered(CONTROLLER, 0, 2)) == [(1, 1, 4, 0, 2)]


def test_each_partition_of_a_request_has_its_number(spark: SparkSession) -> None:
    assert gaps(spark, *numbered(FETCHER, 1, 2), *numbered(FETCHER, 2, 3, partition_row=1)) == []


def test_connections_and_nodes_number_by_themselves(spark: SparkSession) -> None:
    other_connection, other_node = {"connection": "a:1-b:9-0"}, {"node": 2}
    assert gaps(spark, *numbered(FETCHER, 1, 2), *numbered(FETCHER, 8, 9, **other_connection)) == []
    assert gaps(spark, *numbered(FETCHER, 1, 2), *numbered(FETCHER, 8, 9, **other_node)) == []


def test_other_clients_number_requests_to_all_their_brokers(spark: SparkSession) -> None:
    assert gaps(spark, *numbered(CONSUMER | {"session_id": 0, "session_epoch": -1}, 1, 7)) == []
    assert gaps(spark, *numbered({"event_type": "METADATA", "client_id": "app", "connection": "x"}, 1, 7)) == []


def test_epochs_of_a_fetch_session_have_no_gap(spark: SparkSession) -> None:
    assert gaps(spark, *in_session(0, 1, 2)) == []
    assert gaps(spark, *in_session(1, 2, 4)) == [(1, 1, 3, 1, 4)]
    assert gaps(spark, *in_session(1, 2), *in_session(9, session_id=8)) == []


def test_a_refused_request_has_no_number_of_its_session(spark: SparkSession) -> None:
    assert gaps(spark, *in_session(1, 2), *in_session(9, request_error_code=71)) == []
    assert gaps(spark, *in_session(1, 2, request_error_code=0), *in_session(4, request_error_code=0)) == [
        (1, 1, 3, 1, 4)
    ]


def test_a_channel_of_heartbeats_may_negotiate_versions_after_its_first_request(spark: SparkSession) -> None:
    registration = HEARTBEAT | {"event_type": "BROKER_REGISTRATION"}
    assert gaps(spark, *numbered(registration, 0), *numbered(HEARTBEAT, 2, 3)) == []
    assert gaps(spark, *numbered(registration, 0), *numbered(HEARTBEAT, 3, 4)) == []
    assert gaps(spark, *numbered(registration, 0), *numbered(HEARTBEAT, 2, 5, 6)) == [(1, 1, 4, 0, 6)]
    later = numbered(HEARTBEAT, 5, 6, time_ms=2 * MINUTE)
    assert gaps(spark, *numbered(registration, 0), *numbered(HEARTBEAT, 2), *later) == [(1, 1, 4, 2, 2 * MINUTE)]


def test_a_gap_lies_between_the_requests_of_its_minutes(spark: SparkSession) -> None:
    first, second = numbered(FETCHER, 1, 2, 3), numbered(FETCHER, 5, 6, time_ms=MINUTE + 9)
    third = numbered(FETCHER, 7, 8, time_ms=2 * MINUTE)
    assert gaps(spark, *first, *second, *third) == [(1, 1, 7, 3, MINUTE + 9)]
    assert gaps(spark, *first, *third) == [(1, 3, 5, 3, 2 * MINUTE)]


def test_lines_that_were_written_in_another_minute_are_no_gap(spark: SparkSession) -> None:
    swapped = numbered(FETCHER, 1, 3), numbered(FETCHER, 2, 4, time_ms=MINUTE)
    assert gaps(spark, *swapped[0], *swapped[1]) == []


def test_a_row_counts_as_many_requests_as_it_stands_for(spark: SparkSession) -> None:
    first, last = numbered(FETCHER, 1), numbered(FETCHER, 5, run_rows=4)
    assert gaps(spark, *first, *last) == []
    assert gaps(spark, *first, *numbered(FETCHER, 6, run_rows=4)) == [(1, 1, 5, 1, 6)]


def test_files_without_a_node_are_left_out(spark: SparkSession) -> None:
    assert gaps(spark, *numbered(FETCHER, 1, 7, node=None)) == []
