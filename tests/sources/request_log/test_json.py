"""Completed requests as JSON, API by API and version by version, as events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.node_log import NodeLog
from epochaudit.sources.request_log import json as request_log
from epochaudit.sources.sink import LineOutcome, RowSink
from tests.sources.decoding import decode, ignored, json_request, quarantine_reason

ID = "9gDNO0PzRlKeeIAaGyFvow"
ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
BAD_JSON = "not the JSON of a completed request: "
REAL_LINE = (
    b"[2026-11-21 04:18:07,602] DEBUG Completed request:"
    b'{"isForwarded":false,"requestHeader":{"requestApiKey":5,"requestApiVersion":3,"correlationId":900003,"clientId":"1",'
    b'"requestApiKeyName":"STOP_REPLICA"},"request":{"controllerId":1,"controllerEpoch":1,"brokerEpoch":61,"topicStates":'
    b'[{"topicName":"sr","partitionStates":[{"partitionIndex":0,"leaderEpoch":3,"deletePartition":true}]}]},"response":'
    b'{"errorCode":0,"partitionErrors":[{"topicName":"sr","partitionIndex":0,"errorCode":74}]},"connection":'
    b'"127.0.0.1:9092-127.0.0.1:55706-5","totalTimeMs":1.701,"requestQueueTimeMs":0.152,"localTimeMs":0.935,"remoteTimeMs":0.0,'
    b'"throttleTimeMs":0,"responseQueueTimeMs":0.069,"sendTimeMs":0.544,"securityProtocol":"PLAINTEXT","principal":'
    b'"User:ANONYMOUS","listener":"PLAINTEXT","clientInformation":{"softwareName":"unknown","softwareVersion":"unknown"}}'
    b" (kafka.request.logger)"
)
OF_THE_LINE = {
    "row_kind", "cluster", "file", "file_order", "split", "byte_offset", "line_in_split", "time_ms", "arrival_ms",
    "event_type", "api_version", "correlation_id", "client_id", "connection", "software_name", "software_version",
    "total_time_us", "request_queue_time_us", "local_time_us", "remote_time_us", "partition_row",
}  # fmt: skip


CLIENT = {"softwareName": "apache-kafka-java", "softwareVersion": "3.9.1"}


def line(api: str, version: int, request: object, response: object) -> str:
    return json_request(api, version, request, response, clientInformation=CLIENT)


def rows(api: str, version: int, request: object, response: object) -> list[dict[str, Any]]:
    """What the request's rows hold beside the columns that all requests have."""
    decoded = decode(request_log, line(api, version, request, response))
    assert decoded.outcomes == [LineOutcome.EVENT], decoded.quarantined
    events = sorted(decoded.events, key=lambda event: str(event["partition_row"]))
    assert [event["partition_row"] for event in events] == list(range(len(events)))
    return [{column: value for column, value in event.items() if column not in OF_THE_LINE} for event in events]


def row(api: str, version: int, request: object, response: object) -> dict[str, Any]:
    [only] = rows(api, version, request, response)
    return only


BOTH = {"in_request": True, "in_response": True}
ASKED = {"in_request": True, "in_response": False}
ANSWERED = {"in_request": False, "in_response": True}
NEITHER = {"in_request": False, "in_response": False}


def test_the_rows_hold_all_values_of_a_recorded_line() -> None:
    [event] = decode(request_log, REAL_LINE).events
    assert event == {
        "row_kind": "event", "cluster": "c", "file": "log", "file_order": 0, "split": 0, "byte_offset": 0, "line_in_split": 1,
        "partition_row": 0, "time_ms": 1795234687602, "event_type": "STOP_REPLICA", "api_version": 3, "correlation_id": 900003,
        "client_id": "1", "connection": "127.0.0.1:9092-127.0.0.1:55706-5", "software_name": "unknown",
        "software_version": "unknown", "total_time_us": 1701, "request_queue_time_us": 152, "local_time_us": 935,
        "remote_time_us": 0,
        "arrival_ms": 1795234687600, "request_error_code": 0, "in_request": True, "in_response": True, "topic": "sr",
        "partition": 0, "error_code": 74, "controller_id": 1, "controller_epoch": 1, "broker_epoch": 61, "leader_epoch": 3,
        "delete_partition": True,
    }  # fmt: skip


def test_a_named_time_zone_shifts_the_times() -> None:
    file = CaptureFile("log", "log", "request-log-json", "c", 0, time_zone="America/New_York")
    sink = RowSink(file, 0)
    request_log.DECODER(file, sink).line(REAL_LINE, 0, 1)
    [event] = sink.drain()[0].to_pylist()
    assert event["time_ms"] == 1795234687602 + 5 * 3_600_000


# --- the controller's requests

STATE = {"partitionIndex": 2, "controllerEpoch": 4, "leader": 3, "leaderEpoch": 5, "isr": [3, 1], "replicas": [3, 1, 2]}
INSTALLED = {
    "partition": 2,
    "partition_controller_epoch": 4,
    "leader": 3,
    "leader_epoch": 5,
    "isr": [3, 1],
    "replicas": [3, 1, 2],
}
SENDER = {"controllerId": 1, "controllerEpoch": 4}
SENT_BY = {"controller_id": 1, "controller_epoch": 4}


def test_leader_and_isr_7_is_answered_by_topic_id() -> None:
    state = {
        **STATE,
        "partitionEpoch": 9,
        "addingReplicas": [2],
        "removingReplicas": [],
        "isNew": True,
        "leaderRecoveryState": 1,
    }
    request = {
        **SENDER, "isKRaftController": False, "brokerEpoch": 26, "type": 0,
        "topicStates": [{"topicName": "t", "topicId": ID, "partitionStates": [state]}],
    }  # fmt: skip
    response = {
        "errorCode": 0,
        "topics": [{"topicId": ID, "partitionErrors": [{"partitionIndex": 2, "errorCode": 11}]}],
    }
    assert row("LEADER_AND_ISR", 7, request, response) == {
        **SENT_BY, "is_kraft_controller": False, "broker_epoch": 26, "request_type": 0, "request_error_code": 0,
        "topic": "t", "topic_id": ID, **INSTALLED, "partition_epoch": 9, "adding_replicas": [2], "removing_replicas": [],
        "is_new": True, "leader_recovery_state": 1, "error_code": 11, **BOTH,
    }  # fmt: skip


def test_leader_and_isr_to_4_is_answered_by_name_and_calls_the_partition_epoch_zk_version() -> None:
    request = {**SENDER, "topicStates": [{"topicName": "t", "partitionStates": [{**STATE, "zkVersion": 9}]}]}
    errors = [{"topicName": "t", "partitionIndex": 2, "errorCode": 0}]
    expected = {
        **SENT_BY,
        "request_error_code": 0,
        "topic": "t",
        **INSTALLED,
        "partition_epoch": 9,
        "error_code": 0,
        **BOTH,
    }
    assert row("LEADER_AND_ISR", 4, request, {"errorCode": 0, "partitionErrors": errors}) == expected
    flat = {**SENDER, "ungroupedPartitionStates": [{"topicName": "t", **STATE, "zkVersion": 9}]}
    assert row("LEADER_AND_ISR", 1, flat, {"errorCode": 0, "partitionErrors": errors}) == expected


def test_codes_of_two_topics_without_ids_are_known_only_where_they_agree() -> None:
    request = {
        **SENDER,
        "topicStates": [
            {
                "topicName": name,
                "topicId": ZERO,
                "partitionStates": [{**STATE, "partitionIndex": p, "partitionEpoch": 0}],
            }
            for name, p in (("a", 0), ("b", 0), ("a", 1), ("b", 1))
        ],
    }
    errors = [{"partitionIndex": p, "errorCode": code} for p, code in ((0, 0), (0, 0), (1, 0), (1, 11))]
    found = rows(
        "LEADER_AND_ISR", 5, request, {"errorCode": 0, "topics": [{"topicId": ZERO, "partitionErrors": errors}]}
    )
    codes = {(r["topic"], r["partition"]): r.get("error_code") for r in found}
    assert codes == {("a", 0): 0, ("b", 0): 0, ("a", 1): None, ("b", 1): None}
    assert not any("topic_id" in r for r in found)


def test_a_refused_request_lists_no_partitions_in_its_answer() -> None:
    request = {
        **SENDER,
        "topicStates": [{"topicName": "t", "topicId": ID, "partitionStates": [{**STATE, "partitionEpoch": 0}]}],
    }
    refused = row("LEADER_AND_ISR", 7, request, {"errorCode": 77, "topics": []})
    assert refused["request_error_code"] == 77
    assert refused.get("error_code") is None
    assert refused["in_response"] is False


@pytest.mark.parametrize(
    ("version", "request_", "leader_epoch"),
    [
        (0, {"deletePartitions": True, "ungroupedPartitions": [{"topicName": "t", "partitionIndex": 0}]}, None),
        (1, {"deletePartitions": True, "topics": [{"name": "t", "partitionIndexes": [0]}]}, None),
        (
            3,
            {
                "topicStates": [
                    {
                        "topicName": "t",
                        "partitionStates": [{"partitionIndex": 0, "leaderEpoch": -2, "deletePartition": True}],
                    }
                ]
            },
            -2,
        ),
    ],
)
def test_stop_replica_has_a_leader_epoch_since_3(
    version: int, request_: dict[str, Any], leader_epoch: int | None
) -> None:
    response = {"errorCode": 0, "partitionErrors": [{"topicName": "t", "partitionIndex": 0, "errorCode": 3}]}
    stopped = row("STOP_REPLICA", version, {**SENDER, **request_}, response)
    assert stopped.get("leader_epoch") == leader_epoch
    assert {
        **SENT_BY,
        **BOTH,
        "topic": "t",
        "partition": 0,
        "delete_partition": True,
        "error_code": 3,
    }.items() <= stopped.items()


def test_update_metadata_names_the_live_brokers_in_every_row() -> None:
    states = [{"topicName": "t", "topicId": ID, "partitionStates": [{**STATE, "zkVersion": 9, "offlineReplicas": [2]}]}]
    request = {
        **SENDER,
        "brokerEpoch": -1,
        "isKRaftController": False,
        "topicStates": states,
        "liveBrokers": [{"id": 3}, {"id": 1}],
    }
    assert row("UPDATE_METADATA", 8, request, {"errorCode": 0}) == {
        **SENT_BY, "is_kraft_controller": False, "broker_epoch": -1, "request_type": 0, "request_error_code": 0, **ASKED,
        "live_brokers": [3, 1], "topic": "t", "topic_id": ID, **INSTALLED, "partition_epoch": 9, "offline_replicas": [2],
    }  # fmt: skip
    without = row("UPDATE_METADATA", 8, {**request, "topicStates": []}, {"errorCode": 0})
    assert "partition" not in without
    assert without["live_brokers"] == [3, 1]


# --- AlterPartition

MEMBERS = [{"brokerId": 1, "brokerEpoch": -1}, {"brokerId": 2, "brokerEpoch": 40}]


@pytest.mark.parametrize(
    ("api", "version", "key", "value", "isr", "epoch"),
    [
        ("ALTER_ISR", 0, "name", "t", {"newIsr": [1, 2]}, "currentIsrVersion"),
        ("ALTER_PARTITION", 1, "name", "t", {"newIsr": [1, 2]}, "partitionEpoch"),
        ("ALTER_PARTITION", 0, "topicName", "t", {"newIsr": [1, 2]}, "partitionEpoch"),
        ("ALTER_PARTITION", 2, "topicId", ID, {"newIsr": [1, 2]}, "partitionEpoch"),
        ("ALTER_PARTITION", 3, "topicId", ID, {"newIsrWithEpochs": MEMBERS}, "partitionEpoch"),
    ],
)  # fmt: skip
def test_alter_partition_under_its_names(
    api: str, version: int, key: str, value: str, isr: dict[str, Any], epoch: str
) -> None:
    partition = {"partitionIndex": 0, "leaderEpoch": 5, epoch: 9, **isr}
    answer = {"partitionIndex": 0, "errorCode": 0, "leaderId": 1, "leaderEpoch": 5, "isr": [1, 2], epoch: 10}
    request = {"brokerId": 1, "brokerEpoch": 26, "topics": [{key: value, "partitions": [partition]}]}
    line_ = line(api, version, request, {"errorCode": 0, "topics": [{key: value, "partitions": [answer]}]})
    [event] = decode(request_log, line_).events
    assert event["event_type"] == "ALTER_PARTITION"
    subject = {"topic_id": ID} if key == "topicId" else {"topic": "t"}
    epochs = {"isr_broker_epochs": [-1, 40]} if version == 3 else {}
    expected = {
        **subject, **epochs, **BOTH, "partition": 0, "broker_id": 1, "broker_epoch": 26, "leader_epoch": 5, "partition_epoch": 9,
        "isr": [1, 2], "request_error_code": 0, "error_code": 0, "response_leader": 1, "response_leader_epoch": 5,
        "response_partition_epoch": 10, "response_isr": [1, 2],
    }  # fmt: skip
    assert {column: value for column, value in event.items() if column not in OF_THE_LINE} == expected


# --- Fetch

FETCHED = {
    "errorCode": 0,
    "highWatermark": 8,
    "lastStableOffset": 8,
    "logStartOffset": 0,
    "preferredReadReplica": -1,
    "recordsSizeInBytes": 70,
}
READ = {
    "error_code": 0,
    "high_watermark": 8,
    "last_stable_offset": 8,
    "log_start_offset": 0,
    "preferred_read_replica": -1,
    "records_size": 70,
}
NO_HINTS = {"diverging_epoch": -1, "diverging_end_offset": -1, "hinted_leader": -1, "hinted_leader_epoch": -1}
POSITION = {"partition": 0, "currentLeaderEpoch": 5, "fetchOffset": 8, "lastFetchedEpoch": 4, "logStartOffset": -1}
AT = {
    "partition": 0,
    "current_leader_epoch": 5,
    "fetch_offset": 8,
    "last_fetched_epoch": 4,
    "requester_log_start_offset": -1,
}


def fetch(topics: list[Any], session: tuple[int, int] = (0, 0), **more: Any) -> dict[str, Any]:
    return {
        "isolationLevel": 1,
        "sessionId": session[0],
        "sessionEpoch": session[1],
        "topics": topics,
        "forgottenTopicsData": [],
        **more,
    }


def answer(responses: list[Any], session: int = 0, error: int = 0) -> dict[str, Any]:
    return {"errorCode": error, "sessionId": session, "responses": responses}


def test_a_consumers_fetch_17_by_topic_id() -> None:
    request = fetch([{"topicId": ID, "partitions": [POSITION]}])
    response = answer([{"topicId": ID, "partitions": [{"partitionIndex": 0, **FETCHED}]}], session=33)
    assert row("FETCH", 17, request, response) == {
        "replica_id": -1, "replica_epoch": -1, "isolation_level": 1, "session_id": 33, "session_epoch": 0, "forgotten": False,
        "request_error_code": 0, "topic_id": ID, **AT, **READ, **NO_HINTS, **BOTH,
    }  # fmt: skip


def test_a_followers_fetch_states_its_epoch_since_15_and_its_id_always() -> None:
    topics = [{"topicId": ID, "partitions": [POSITION]}]
    state = {"replicaState": {"replicaId": 3, "replicaEpoch": 61}}
    new = row("FETCH", 17, fetch(topics, **state), answer([]))
    assert (new["replica_id"], new["replica_epoch"], new["in_response"]) == (3, 61, False)
    old = row("FETCH", 13, fetch(topics, replicaId=2), answer([]))
    assert (old["replica_id"], old.get("replica_epoch")) == (2, None)


def test_fetch_in_2_8_calls_its_answers_otherwise() -> None:
    request = fetch([{"topic": "t", "partitions": [POSITION]}], replicaId=-1)
    answered = {key: value for key, value in FETCHED.items() if key != "recordsSizeInBytes"}
    partition = {"partition": 0, **answered, "recordSetSizeInBytes": 70}
    fetched = row("FETCH", 12, request, answer([{"topic": "t", "partitionResponses": [partition]}]))
    assert {"topic": "t", **AT, **READ, **NO_HINTS, **BOTH}.items() <= fetched.items()


def test_tagged_fields_are_read_and_unknown_below_their_version() -> None:
    answered = {
        **FETCHED,
        "errorCode": 74,
        "currentLeader": {"leaderId": 2, "leaderEpoch": 6},
        "divergingEpoch": {"epoch": 3, "endOffset": 7},
    }
    response = answer([{"topicId": ID, "partitions": [{"partitionIndex": 0, **answered}]}])
    hinted = row("FETCH", 16, fetch([{"topicId": ID, "partitions": [POSITION]}]), response)
    assert {
        "hinted_leader": 2,
        "hinted_leader_epoch": 6,
        "diverging_epoch": 3,
        "diverging_end_offset": 7,
    }.items() <= hinted.items()
    old_response = {
        "errorCode": 0,
        "sessionId": 0,
        "responses": [{"topic": "t", "partitions": [{"partitionIndex": 0, **FETCHED}]}],
    }
    old = row(
        "FETCH",
        11,
        fetch([{"topic": "t", "partitions": [{"partition": 0, "fetchOffset": 8}]}], replicaId=-1),
        old_response,
    )
    assert not {*NO_HINTS} & {*old}
    assert "last_fetched_epoch" not in old


def test_a_session_answers_partitions_that_it_was_not_asked_and_drops_forgotten_ones() -> None:
    request = fetch([{"topicId": ID, "partitions": [POSITION]}], (33, 4))
    request["forgottenTopicsData"] = [{"topicId": ID, "partitions": [7]}]
    response = answer([{"topicId": ID, "partitions": [{"partitionIndex": 1, **FETCHED}]}], session=33)
    asked, unasked, forgotten = rows("FETCH", 13, request, response)
    assert (asked["partition"], asked["in_request"], asked["in_response"], asked["forgotten"]) == (
        0,
        True,
        False,
        False,
    )
    assert (unasked["partition"], unasked["in_request"], unasked["in_response"], unasked["error_code"]) == (
        1,
        False,
        True,
        0,
    )
    assert (forgotten["partition"], forgotten["in_request"], forgotten["in_response"], forgotten["forgotten"]) == (
        7,
        False,
        False,
        True,
    )
    assert {r["session_id"] for r in (asked, unasked, forgotten)} == {33}


def test_an_idle_fetch_of_a_session_is_one_row_without_partition() -> None:
    idle = row("FETCH", 17, fetch([], (33, 5)), answer([], session=33))
    assert "partition" not in idle
    assert (idle["session_id"], idle["session_epoch"]) == (33, 5)
    refused = row("FETCH", 17, fetch([], (33, 5)), answer([], error=70))
    assert (refused["session_id"], refused["request_error_code"]) == (33, 70)


def test_a_new_session_takes_the_place_of_the_one_that_the_request_names() -> None:
    topics = [{"topicId": ID, "partitions": [POSITION]}]
    assert row("FETCH", 17, fetch(topics, (33, 0)), answer([], session=44))["session_id"] == 44
    assert row("FETCH", 17, fetch([], (33, -1)), answer([]))["session_id"] == 33


def test_a_fetch_without_recorded_answer_leaves_the_answer_unknown() -> None:
    unanswered = row("FETCH", 17, fetch([{"topicId": ID, "partitions": [POSITION]}], (33, 2)), "")
    assert (unanswered["in_response"], unanswered.get("error_code"), unanswered.get("request_error_code")) == (
        False,
        None,
        None,
    )


# --- offsets and commits


def test_list_offsets_and_its_fence_since_4() -> None:
    request = {
        "replicaId": -1,
        "isolationLevel": 0,
        "topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "currentLeaderEpoch": 5, "timestamp": -2}]}],
    }
    response = {
        "topics": [
            {
                "name": "t",
                "partitions": [{"partitionIndex": 0, "errorCode": 0, "timestamp": -1, "offset": 3, "leaderEpoch": 2}],
            }
        ]
    }
    assert row("LIST_OFFSETS", 9, request, response) == {
        "replica_id": -1, "isolation_level": 0, "topic": "t", "partition": 0, **BOTH, "current_leader_epoch": 5, "timestamp": -2,
        "error_code": 0, "offset": 3, "response_leader_epoch": 2,
    }  # fmt: skip


def test_offset_for_leader_epoch_keeps_the_epoch_asked_for_apart_from_the_one_answered() -> None:
    request = {
        "replicaId": 2,
        "topics": [{"topic": "t", "partitions": [{"partition": 0, "currentLeaderEpoch": 5, "leaderEpoch": 4}]}],
    }
    response = {
        "topics": [{"topic": "t", "partitions": [{"errorCode": 0, "partition": 0, "leaderEpoch": 3, "endOffset": 21}]}]
    }
    assert row("OFFSET_FOR_LEADER_EPOCH", 4, request, response) == {
        "replica_id": 2, "topic": "t", "partition": 0, **BOTH, "current_leader_epoch": 5, "leader_epoch": 4, "error_code": 0,
        "response_leader_epoch": 3, "offset": 21,
    }  # fmt: skip


@pytest.mark.parametrize("generation", ["generationId", "generationIdOrMemberEpoch"])
@pytest.mark.parametrize("api", ["OFFSET_COMMIT", "TXN_OFFSET_COMMIT"])
def test_commits_under_both_names_of_the_generation(api: str, generation: str) -> None:
    partition = {"partitionIndex": 0, "committedOffset": 9, "committedLeaderEpoch": 4}
    request = {
        "groupId": "g", generation: 3, "memberId": "m", "groupInstanceId": "i",
        "topics": [{"name": "t", "partitions": [partition]}],
    }  # fmt: skip
    response = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "errorCode": 22}]}]}
    decoded = decode(request_log, line(api, 3, request, response))
    assert decoded.events[0]["event_type"] == api
    assert row(api, 3, request, response) == {
        "group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": "i", "topic": "t", "partition": 0, **BOTH,
        "offset": 9, "committed_leader_epoch": 4, "error_code": 22,
    }  # fmt: skip


@pytest.mark.parametrize(("api", "version"), [("OFFSET_COMMIT", 10), ("TXN_OFFSET_COMMIT", 6)])
def test_commits_by_topic_id(api: str, version: int) -> None:
    partition = {"partitionIndex": 0, "committedOffset": 9, "committedLeaderEpoch": 4}
    request = {
        "groupId": "g", "generationIdOrMemberEpoch": 3, "memberId": "m",
        "topics": [{"topicId": ID, "partitions": [partition]}],
    }  # fmt: skip
    response = {"topics": [{"topicId": ID, "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]}
    assert row(api, version, request, response) == {
        "group_id": "g", "generation_id": 3, "member_id": "m", "topic_id": ID, "partition": 0, **BOTH, "offset": 9,
        "committed_leader_epoch": 4, "error_code": 0,
    }  # fmt: skip


def test_offset_fetch_by_group_since_8() -> None:
    fetched = {"partitionIndex": 0, "committedOffset": 9, "committedLeaderEpoch": 4, "errorCode": 0}
    old = row(
        "OFFSET_FETCH", 7, {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0]}]},
        {"topics": [{"name": "t", "partitions": [fetched]}], "errorCode": 0},
    )  # fmt: skip
    new = row(
        "OFFSET_FETCH", 9,
        {"groups": [{"groupId": "g", "memberId": None, "memberEpoch": -1, "topics": [{"name": "t", "partitionIndexes": [0]}]}]},
        {"groups": [{"groupId": "g", "topics": [{"name": "t", "partitions": [fetched]}], "errorCode": 0}]},
    )  # fmt: skip
    expected = {
        "group_id": "g",
        "topic": "t",
        "partition": 0,
        **BOTH,
        "offset": 9,
        "response_leader_epoch": 4,
        "error_code": 0,
        "request_error_code": 0,
    }
    assert old == expected
    assert new == {**expected, "generation_id": -1}


# --- metadata, brokers, topics


def test_metadata_gives_what_the_response_states_of_each_partition() -> None:
    partition = {
        "errorCode": 0,
        "partitionIndex": 1,
        "leaderId": 2,
        "leaderEpoch": 5,
        "replicaNodes": [2, 3],
        "isrNodes": [2],
        "offlineReplicas": [3],
    }
    missing = {"errorCode": 3, "name": "gone", "topicId": ZERO, "partitions": []}
    response = {"topics": [{"errorCode": 0, "name": "t", "topicId": ID, "partitions": [partition]}, missing]}
    known, unknown = rows("METADATA", 12, {"topics": None}, response)
    assert known == {
        "topic": "t", "topic_id": ID, "partition": 1, **ANSWERED, "error_code": 0, "response_leader": 2, "response_leader_epoch": 5,
        "replicas": [2, 3], "response_isr": [2], "offline_replicas": [3],
    }  # fmt: skip
    assert unknown == {"topic": "gone", **ANSWERED, "error_code": 3}


def test_registrations_heartbeats_and_shutdowns() -> None:
    registered = row(
        "BROKER_REGISTRATION",
        4,
        {"brokerId": 1, "incarnationId": ID, "logDirs": [], "previousBrokerEpoch": 9},
        {"errorCode": 0, "brokerEpoch": 14},
    )
    assert registered == {
        "broker_id": 1, "incarnation_id": ID, "previous_broker_epoch": 9, "current_broker_epoch": 14, "request_error_code": 0,
    }  # fmt: skip
    directories = [{"id": ID, "topics": [{"topicId": ID, "partitions": [{"partitionIndex": 0}]}]}]
    assigned = row(
        "ASSIGN_REPLICAS_TO_DIRS",
        0,
        {"brokerId": 1, "brokerEpoch": 14, "directories": directories},
        {"throttleTimeMs": 0, "errorCode": 77, "directories": []},
    )
    assert assigned == {"broker_id": 1, "broker_epoch": 14, "request_error_code": 77}
    beat = {"brokerId": 1, "brokerEpoch": 14, "currentMetadataOffset": 13, "wantFence": False, "wantShutDown": True}
    granted = {"errorCode": 0, "isCaughtUp": True, "isFenced": False, "shouldShutDown": True}
    assert row("BROKER_HEARTBEAT", 1, beat, granted) == {
        "broker_id": 1, "broker_epoch": 14, "current_metadata_offset": 13, "want_fence": False, "want_shut_down": True,
        "fenced": False, "should_shut_down": True, "request_error_code": 0,
    }  # fmt: skip
    remaining = {"errorCode": 0, "remainingPartitions": [{"topicName": "t", "partitionIndex": 3}]}
    shutdown = row("CONTROLLED_SHUTDOWN", 3, {"brokerId": 1, "brokerEpoch": 26}, remaining)
    assert shutdown == {
        "broker_id": 1,
        "broker_epoch": 26,
        "topic": "t",
        "partition": 3,
        **ANSWERED,
        "request_error_code": 0,
    }


def test_topics_created_with_their_configurations_and_deleted_by_name_or_id() -> None:
    configs = [
        {"name": "min.insync.replicas", "value": "2"},
        {"name": "unclean.leader.election.enable", "value": "true"},
    ]
    request = {"topics": [{"name": "t", "configs": configs}, {"name": "plain", "configs": []}]}
    response = {
        "topics": [{"name": "t", "topicId": ID, "errorCode": 0}, {"name": "plain", "topicId": ZERO, "errorCode": 36}]
    }
    created = rows("CREATE_TOPICS", 7, request, response)
    assert [(r["topic"], r.get("topic_id"), r["error_code"], r.get("name"), r.get("value")) for r in created] == [
        ("t", ID, 0, "min.insync.replicas", "2"),
        ("t", ID, 0, "unclean.leader.election.enable", "true"),
        ("plain", None, 36, None, None),
    ]
    nothing = {"in_request": False, "in_response": False}
    assert row("CREATE_TOPICS", 7, {**request, "validateOnly": True}, response) == nothing
    deleted = {"topic": "t", "topic_id": ID, **BOTH, "error_code": 0}
    answered = {"responses": [{"name": "t", "topicId": ID, "errorCode": 0}]}
    assert row("DELETE_TOPICS", 6, {"topics": [{"name": "t", "topicId": ZERO}]}, answered) == deleted
    assert row("DELETE_TOPICS", 6, {"topics": [{"name": None, "topicId": ID}]}, answered) == deleted
    assert row("DELETE_TOPICS", 1, {"topicNames": ["t"]}, {"responses": [{"name": "t", "errorCode": 0}]}) == {
        "topic": "t", **BOTH, "error_code": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("api", "version"), [("ALTER_CONFIGS", 2), ("INCREMENTAL_ALTER_CONFIGS", 1)])
def test_settings_of_topics_and_brokers_that_are_changed(api: str, version: int) -> None:
    setting = {"name": "unclean.leader.election.enable", "value": "true"}
    owners = ((2, "t"), (4, "3"), (4, ""), (32, "group"))
    asked: dict[str, object] = {
        "resources": [{"resourceType": kind, "resourceName": name, "configs": [setting]} for kind, name in owners]
    }
    answer = {"responses": [{"errorCode": kind, "resourceType": kind, "resourceName": name} for kind, name in owners]}
    found = [
        (r.get("topic"), r.get("broker_id"), r["error_code"], r["value"]) for r in rows(api, version, asked, answer)
    ]
    assert found == [("t", None, 2, "true"), (None, 3, 4, "true"), (None, None, 4, "true")]
    assert "name" not in row(api, version, {**asked, "validateOnly": True}, answer)
    taken_away = {"resourceType": 2, "resourceName": "t", "configs": [{**setting, "configOperation": 1, "value": None}]}
    assert "value" not in row(api, version, {"resources": [taken_away]}, answer)


def test_alter_configs_without_settings_takes_all_of_them_away() -> None:
    """ALTER_CONFIGS replaces the settings of a topic or broker; INCREMENTAL_ALTER_CONFIGS leaves what it does not name."""
    resources = [{"resourceType": kind, "resourceName": name, "configs": []} for kind, name in ((2, "t"), (4, "3"))]
    answer = {"responses": [{"errorCode": 0, "resourceType": 2, "resourceName": "t"}]}
    of_topic, of_broker = rows("ALTER_CONFIGS", 2, {"resources": resources}, answer)
    assert of_topic == {"topic": "t", **BOTH, "error_code": 0}
    assert of_broker == {"broker_id": 3, **ASKED}
    nothing = {"in_request": False, "in_response": False}
    assert row("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": resources}, answer) == nothing


def test_elections_with_their_type() -> None:
    results = {
        "errorCode": 0,
        "replicaElectionResults": [{"topic": "t", "partitionResult": [{"partitionId": 1, "errorCode": 84}]}],
    }
    elected = row(
        "ELECT_LEADERS", 2, {"electionType": 1, "topicPartitions": [{"topic": "t", "partitions": [1]}]}, results
    )
    assert elected == {
        "topic": "t",
        "partition": 1,
        **BOTH,
        "error_code": 84,
        "name": "electionType",
        "value": "1",
        "request_error_code": 0,
    }
    assert row("ELECT_LEADERS", 2, {"electionType": 0, "topicPartitions": None}, results)["in_request"] is False


def test_which_records_were_deleted() -> None:
    asked = [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": 7}, {"partitionIndex": 1, "offset": -1}]}]
    low = {"partitionIndex": 0, "lowWatermark": 5, "errorCode": 7}
    request, response = {"topics": asked, "timeoutMs": 1}, {"topics": [{"name": "t", "partitions": [low]}]}
    first, second = rows("DELETE_RECORDS", 2, request, response)
    assert first == {"topic": "t", "partition": 0, **BOTH, "offset": 7, "low_watermark": 5, "error_code": 7}
    assert second == {"topic": "t", "partition": 1, **ASKED, "offset": -1}
    assert rows("DELETE_RECORDS", 0, {"topics": []}, {"topics": []}) == [{"in_request": False, "in_response": False}]


def test_who_joined_a_group() -> None:
    request = {"groupId": "g", "memberId": "", "groupInstanceId": "i", "protocols": []}
    joined = {"errorCode": 0, "generationId": 3, "leader": "n", "memberId": "m", "members": []}
    of_member = {
        "group_id": "g",
        "group_instance_id": "i",
        "member_id": "m",
        "generation_id": 3,
        "request_error_code": 0,
    }
    assert row("JOIN_GROUP", 9, request, joined) == {**of_member, "group_leader": "n"}
    assert row("JOIN_GROUP", 9, request, joined | {"leader": ""}) == of_member


@pytest.mark.parametrize("code", [0, 27])
def test_who_was_given_partitions(code: int) -> None:
    request = {"groupId": "g", "generationId": 3, "memberId": "m", "groupInstanceId": "i", "assignments": []}
    assert row("SYNC_GROUP", 5, request, {"errorCode": code, "assignment": ""}) == {
        "group_id": "g",
        "group_instance_id": "i",
        "member_id": "m",
        "generation_id": 3,
        "request_error_code": code,
    }


def test_the_epoch_of_a_member() -> None:
    request = {"groupId": "g", "memberId": "m", "memberEpoch": 4, "instanceId": None, "topicPartitions": []}
    answer = {"errorCode": 0, "memberId": "m", "memberEpoch": 5, "heartbeatIntervalMs": 5000, "assignment": None}
    stated = {"group_id": "g", "member_id": "m", "member_epoch": 4}
    answered = {**stated, "response_member_epoch": 5, "request_error_code": 0}
    assert row("CONSUMER_GROUP_HEARTBEAT", 1, request, answer) == answered
    assert row("CONSUMER_GROUP_HEARTBEAT", 0, request | {"memberId": ""}, answer) == answered
    refused = row("CONSUMER_GROUP_HEARTBEAT", 1, request, {"errorCode": 110, "memberId": None, "memberEpoch": 0})
    assert refused == {**stated, "response_member_epoch": 0, "request_error_code": 110}
    assert row("CONSUMER_GROUP_HEARTBEAT", 1, request, "") == stated


def states(**partition: object) -> dict[str, Any]:
    return {"groupId": "g", "topics": [{"topicId": ID, "partitions": [{"partition": 2, **partition}]}]}


def results(code: int = 0, **partition: object) -> dict[str, Any]:
    return {"results": [{"topicId": ID, "partitions": [{"partition": 2, "errorCode": code, **partition}]}]}


def test_epochs_of_a_share_groups_state() -> None:
    of_state = {"group_id": "g", "topic_id": ID, "partition": 2, **BOTH, "error_code": 0}
    write = states(stateEpoch=3, leaderEpoch=5, startOffset=0, deliveryCompleteCount=1, stateBatches=[])
    assert row("WRITE_SHARE_GROUP_STATE", 1, write, results()) == {**of_state, "leader_epoch": 5, "state_epoch": 3}
    read, answer = states(leaderEpoch=5), results(stateEpoch=3, startOffset=0, stateBatches=[])
    assert row("READ_SHARE_GROUP_STATE", 0, read, answer) == {**of_state, "leader_epoch": 5, "state_epoch": 3}
    refused = results(74, stateEpoch=0, startOffset=0, stateBatches=[])
    assert row("READ_SHARE_GROUP_STATE", 0, read, refused) == {**of_state, "leader_epoch": 5, "error_code": 74}
    begin = states(stateEpoch=3, startOffset=-1)
    assert row("INITIALIZE_SHARE_GROUP_STATE", 0, begin, results()) == {**of_state, "state_epoch": 3}
    assert row("DELETE_SHARE_GROUP_STATE", 0, states(), results()) == of_state


def test_writes_of_one_partition_that_wait_together() -> None:
    """Their request lists the partition several times, the answer once."""
    one = {"partition": 2, "stateEpoch": 3, "leaderEpoch": 5, "startOffset": 0, "stateBatches": []}
    request = {"groupId": "g", "topics": [{"topicId": ID, "partitions": [one, one]}]}
    assert row("WRITE_SHARE_GROUP_STATE", 0, request, results())["error_code"] == 0
    request["topics"] = [{"topicId": ID, "partitions": [one, one | {"leaderEpoch": 6}]}]
    both = rows("WRITE_SHARE_GROUP_STATE", 0, request, results())
    assert [each["leader_epoch"] for each in both] == [5, 6]
    assert not any("error_code" in each for each in both)
    stated = [{"partition": 2, "stateEpoch": epoch, "startOffset": 0} for epoch in (6, 4, 5, 4)]
    begun = rows(
        "INITIALIZE_SHARE_GROUP_STATE",
        0,
        {"groupId": "g", "topics": [{"topicId": ID, "partitions": stated}]},
        results(),
    )
    assert [each["state_epoch"] for each in begun] == [6, 4, 5]


@pytest.mark.parametrize("api", ["SHARE_FETCH", "SHARE_ACKNOWLEDGE"])
def test_epochs_of_share_sessions(api: str) -> None:
    """Partitions have rows only if they were refused something."""
    request = {"groupId": "g", "memberId": "m", "shareSessionEpoch": 4, "topics": [], "forgottenTopicsData": []}
    served, refused = {"partitionIndex": 0, "errorCode": 0}, {"partitionIndex": 1, "errorCode": 121}
    response = {"errorCode": 0, "responses": [{"topicId": ID, "partitions": [served, refused]}]}
    session = {"group_id": "g", "member_id": "m", "session_epoch": 4, "request_error_code": 0}
    whole, of_partition = rows(api, 1, request, response)
    assert whole == {**session, "in_response": False}
    assert of_partition == {**session, "topic_id": ID, "partition": 1, "in_response": True, "error_code": 121}
    assert row(api, 2, request, {"errorCode": 123, "responses": []})["request_error_code"] == 123


def test_a_share_fetch_whose_acknowledgement_was_refused() -> None:
    request = {"groupId": "g", "memberId": "m", "shareSessionEpoch": 4, "topics": [], "forgottenTopicsData": []}
    refused = {"partitionIndex": 1, "errorCode": 0, "acknowledgeErrorCode": 121, "acquiredRecords": []}
    response = {"errorCode": 0, "responses": [{"topicId": ID, "partitions": [refused]}]}
    assert rows("SHARE_FETCH", 1, request, response)[1]["error_code"] == 121


# --- what gives no rows, and what is bad


def test_requests_of_no_interest_are_counted() -> None:
    file = CaptureFile("log", "log", "request-log-json", "c", 0)
    decoder = request_log.RequestLogDecoder(file, RowSink(file, 0))
    for text in (line("HEARTBEAT", 4, {"groupId": "g"}, {"errorCode": 0}), line("SOME_LATER_API", 0, {}, {})):
        assert decoder.line(text.encode(), 0, 1) == LineOutcome.IGNORED
    assert decoder.counts.requests == {"HEARTBEAT": 1, "SOME_LATER_API": 1}


@pytest.mark.parametrize(
    "other",
    [
        "",
        "[2026-11-21 04:18:07,602] DEBUG Handling request:RequestHeader(apiKey=FETCH) (kafka.server.KafkaApis)",
        "java.lang.IllegalStateException: closed",
        "\tat kafka.network.Processor.run(SocketServer.scala:100)",
        "Caused by: java.io.IOException: gone",
        "\t... 12 more",
    ],
)
def test_other_log_lines_and_stack_traces_are_no_bad_lines(other: str) -> None:
    assert ignored(request_log, other)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (REAL_LINE[:400], BAD_JSON + "Input data was truncated"),
        (REAL_LINE[:60], BAD_JSON + "Input data was truncated"),
        (REAL_LINE[:45], "cut off before the request"),
        (REAL_LINE[500:], "neither a log line nor the continuation of one"),
        (b"\x00\x01\xff\xfe" * 40, "neither a log line nor the continuation of one"),
        (REAL_LINE.replace(b'"leaderEpoch":3', b'"leaderEpoch":30000000000'), f"{BAD_JSON}Expected `int` <= 2147483647"),
        (REAL_LINE.replace(b'"sr"', b'"s\xff"', 1), BAD_JSON),
        (REAL_LINE.replace(b"2026-11-21", b"2026-13-21"), "no readable timestamp"),
        (REAL_LINE.replace(b'Version":3', b'Version":9'), "unknown version 9 of STOP_REPLICA: 4 is the highest known"),
        (REAL_LINE.replace(b'{"controllerId"', b"[" * 100_000 + b'{"controllerId"'), BAD_JSON),
        (line("HEARTBEAT", 4, {}, {}).replace("{}", "[" * 100_000, 1).encode(), BAD_JSON + "maximum recursion depth"),
        (REAL_LINE + REAL_LINE, BAD_JSON + "JSON is malformed"),
    ],
)  # fmt: skip
def test_damaged_lines_are_quarantined_with_the_reason(bad: bytes, reason: str) -> None:
    assert quarantine_reason(request_log, bad).startswith(reason)


def test_lines_around_a_damaged_one_are_unharmed() -> None:
    decoded = decode(request_log, REAL_LINE, REAL_LINE[:300], REAL_LINE)
    assert decoded.outcomes == [LineOutcome.EVENT, LineOutcome.QUARANTINED, LineOutcome.EVENT]
    assert [event["line_in_split"] for event in decoded.events] == [1, 3]


def test_a_block_of_lines_gives_what_its_lines_give() -> None:
    file = CaptureFile("log", "log", "request-log-json", "c", 0)
    sink = RowSink(file, 0)
    decoder = NodeLog(file, sink)
    assert decoder.block(b"\n".join([REAL_LINE, b"\tat x.Y", REAL_LINE[:99], REAL_LINE]), 1000, 5) == (2, 1, 1)
    events, bad = (batch.to_pylist() for batch in sink.drain())
    assert [(event["byte_offset"], event["line_in_split"]) for event in events] == [
        (1000, 5),
        (1000 + len(REAL_LINE) + 9 + 100, 8),
    ]
    assert (bad[0]["byte_offset"], bad[0]["line_in_split"]) == (1000 + len(REAL_LINE) + 9, 7)


def test_json_that_was_printed_anew_is_read_all_the_same() -> None:
    prefix, completed = REAL_LINE.removesuffix(b" (kafka.request.logger)").split(b"request:", 1)
    spaced = prefix + b"request:" + json.dumps(json.loads(completed)).encode()
    [anew], [as_printed] = decode(request_log, spaced).events, decode(request_log, REAL_LINE).events
    assert anew == as_printed


def test_text_that_a_client_chose_is_taken_as_text() -> None:
    hostile = 'x","requestApiKeyName":"FETCH","\u2028\x00\x1b[31m'
    text = line("HEARTBEAT", 4, {}, {}).replace('"clientId":"c"', f'"clientId":{json.dumps(hostile)}')
    assert ignored(request_log, text)


def test_a_request_log_is_known_by_most_of_its_lines() -> None:
    assert request_log.recognise(REAL_LINE + b"\n" + REAL_LINE[:300])
    assert not request_log.recognise(b"# Truth\n\nSee the line\n\n" + REAL_LINE + b"\nand so on\n")
    assert not request_log.recognise(b"[2026-11-21 04:18:07,602] INFO Sent Completed request (x.Y)\n")
