"""Requests of clients and followers to brokers, as kafka-request.log prints them."""

from __future__ import annotations

from typing import Any, Final

from prove.history import (
    FETCH,
    LIST_OFFSETS,
    METADATA_STATES_EPOCHS,
    OFFSET_COMMIT,
    GroupOffset,
    MetadataAnswer,
    Produced,
    Query,
    RecordsDeleted,
    Release,
    since,
)
from prove.rendering.request_log import NO_ID, completed

METADATA_BY_ID: Final = 10
"""Version of Metadata since which it has topic ids."""


def query(event: Query, release: Release) -> str:
    """The line of a Fetch, ListOffsets or OffsetForLeaderEpoch for one partition."""
    if event.api == FETCH:
        request, response = _fetch(event)
    elif event.api == LIST_OFFSETS:
        asked = {
            "partitionIndex": event.partition,
            "currentLeaderEpoch": event.current_leader_epoch,
            "timestamp": event.timestamp,
        }
        if event.version < 4:
            del asked["currentLeaderEpoch"]
        request = {
            "replicaId": event.replica_id,
            "isolationLevel": 0,
            "topics": [{"name": event.topic, "partitions": [asked]}],
        }
        answered = {
            "partitionIndex": event.partition, "errorCode": event.error_code, "timestamp": -1, "offset": event.end_offset,
            "leaderEpoch": event.answered_epoch,
        }  # fmt: skip
        if event.version < 4:
            del answered["leaderEpoch"]
        response = {"throttleTimeMs": 0, "topics": [{"name": event.topic, "partitions": [answered]}]}
    else:
        asked = {
            "partition": event.partition, "currentLeaderEpoch": event.current_leader_epoch, "leaderEpoch": max(event.epoch, 0),
        }  # fmt: skip
        request = {"replicaId": event.replica_id, "topics": [{"topic": event.topic, "partitions": [asked]}]}
        answered = {
            "errorCode": event.error_code, "partition": event.partition, "leaderEpoch": event.answered_epoch,
            "endOffset": event.end_offset,
        }  # fmt: skip
        response = {"throttleTimeMs": 0, "topics": [{"topic": event.topic, "partitions": [answered]}]}
    if event.api == LIST_OFFSETS and event.version >= 10:
        request["timeoutMs"] = 30000
    header = (event.api, event.version, event.correlation_id, event.client_id)
    return completed(event, header, request, response, event.arrived, event.connection, release)


def _fetch(event: Query) -> tuple[dict[str, Any], dict[str, Any]]:
    topic = {"topicId": event.topic_id} if event.version >= 13 else {"topic": event.topic}
    asked: dict[str, Any] = {"partition": event.partition}
    if event.version >= 9:
        asked["currentLeaderEpoch"] = event.current_leader_epoch
    asked["fetchOffset"] = event.offset
    if event.version >= 12:
        asked["lastFetchedEpoch"] = event.epoch
    asked |= {"logStartOffset": event.replica_log_start if event.replica_id >= 0 else -1, "partitionMaxBytes": 1048576}
    replica: dict[str, Any] = {}
    if event.version < 15:
        replica["replicaId"] = event.replica_id
    elif event.replica_id >= 0:
        replica["replicaState"] = {"replicaId": event.replica_id, "replicaEpoch": event.replica_epoch}
    request = replica | {
        "maxWaitMs": 500, "minBytes": 1, "maxBytes": 10485760, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": 0,
        "topics": [topic | {"partitions": [asked]}], "forgottenTopicsData": [], "rackId": "",
    }  # fmt: skip
    if event.version < 11:
        del request["rackId"]
    served, stable = event.error_code == 0, event.last_stable_offset
    answered: dict[str, Any] = {
        "partitionIndex": event.partition,
        "errorCode": event.error_code,
        "highWatermark": event.high_watermark if served else -1,
        "lastStableOffset": (event.high_watermark if stable is None else stable) if served else -1,
        "logStartOffset": event.log_start_offset if served else -1,
    }
    if event.diverging:
        answered["divergingEpoch"] = {"epoch": event.diverging[0], "endOffset": event.diverging[1]}
    if event.hint:
        answered["currentLeader"] = {"leaderId": event.hint[0], "leaderEpoch": event.hint[1]}
    answered["abortedTransactions"] = None if served else []
    if event.version >= 11:
        answered["preferredReadReplica"] = -1
    answered["recordsSizeInBytes"] = event.records_size
    response = {
        "throttleTimeMs": 0, "errorCode": 0, "sessionId": event.session_id,
        "responses": [topic | {"partitions": [answered]}],
    }  # fmt: skip
    return request, response


def group_offset(event: GroupOffset, release: Release) -> str:
    """The line of an OffsetCommit or OffsetFetch."""
    asked: dict[str, Any] = {"partitionIndex": event.partition, "committedOffset": event.offset}
    answered: dict[str, Any] = {"partitionIndex": event.partition}
    request: dict[str, Any]
    response: dict[str, Any]
    if event.api == OFFSET_COMMIT:
        if event.leader_epoch is not None:
            asked["committedLeaderEpoch"] = event.leader_epoch
        generation = "generationIdOrMemberEpoch" if since(release.version, 3, 6) else "generationId"
        request = {"groupId": event.group_id, generation: 1, "memberId": f"{event.client_id}-5f0c"}
        if event.version >= 7:
            request["groupInstanceId"] = None
        request["topics"] = [{"name": event.topic, "partitions": [asked | {"committedMetadata": ""}]}]
        response = {"throttleTimeMs": 0, "topics": [{"name": event.topic, "partitions": [answered | {"errorCode": 0}]}]}
    else:
        answered["committedOffset"] = event.offset
        if event.leader_epoch is not None:
            answered["committedLeaderEpoch"] = event.leader_epoch
        topics = [{"name": event.topic, "partitions": [answered | {"metadata": "", "errorCode": 0}]}]
        wanted = [{"name": event.topic, "partitionIndexes": [event.partition]}]
        if event.version >= 8:
            request = {"groups": [{"groupId": event.group_id, "topics": wanted}], "requireStable": True}
            response = {
                "throttleTimeMs": 0, "groups": [{"groupId": event.group_id, "topics": topics, "errorCode": 0}],
            }  # fmt: skip
        else:
            request = {"groupId": event.group_id, "topics": wanted}
            response = {"throttleTimeMs": 0, "topics": topics, "errorCode": 0}
    header = (event.api, event.version, event.correlation_id, event.client_id)
    return completed(event, header, request, response, event.arrived, event.connection, release)


def produced(event: Produced, release: Release) -> str:
    """The line of a Produce."""
    topic = {"topicId": event.topic_id} if event.version >= 13 else {"name": event.topic}
    asked = {"index": event.partition, "recordsSizeInBytes": 106}
    request = {
        "transactionalId": None, "acks": event.acks, "timeoutMs": 8000, "topicData": [topic | {"partitionData": [asked]}],
    }  # fmt: skip
    answered: dict[str, Any] = {
        "index": event.partition, "errorCode": event.error_code, "baseOffset": event.base_offset, "logAppendTimeMs": -1,
        "logStartOffset": -1 if event.error_code else event.log_start_offset, "recordErrors": [], "errorMessage": None,
    }  # fmt: skip
    if event.hint:
        answered["currentLeader"] = {"leaderId": event.hint[0], "leaderEpoch": event.hint[1]}
    response = {"responses": [topic | {"partitionResponses": [answered]}], "throttleTimeMs": 0}
    header = ("PRODUCE", event.version, event.correlation_id, event.client_id)
    return completed(event, header, request, response, event.arrived, event.connection, release)


def records_deleted(event: RecordsDeleted, release: Release) -> str:
    """The line of a DeleteRecords."""
    asked = {"partitionIndex": event.partition, "offset": event.offset}
    request = {"topics": [{"name": event.topic, "partitions": [asked]}], "timeoutMs": 30000}
    answered = {
        "partitionIndex": event.partition, "lowWatermark": event.low_watermark, "errorCode": event.error_code,
    }  # fmt: skip
    response = {"throttleTimeMs": 0, "topics": [{"name": event.topic, "partitions": [answered]}]}
    header = ("DELETE_RECORDS", event.version, event.correlation_id, event.client_id)
    return completed(event, header, request, response, event.arrived, event.connection, release)


def metadata_answer(event: MetadataAnswer, release: Release) -> str:
    """The line of a Metadata request."""
    by_id = event.version >= METADATA_BY_ID
    asked = {"topicId": NO_ID, "name": event.topic} if by_id else {"name": event.topic}
    request: dict[str, Any] = {"topics": [asked], "allowAutoTopicCreation": True}
    if event.version >= 8:
        request["includeTopicAuthorizedOperations"] = False
    partitions = [
        {"errorCode": 0 if leader >= 0 else 5, "partitionIndex": number, "leaderId": leader}
        | ({"leaderEpoch": epoch} if event.version >= METADATA_STATES_EPOCHS else {})
        | {"replicaNodes": [*replicas], "isrNodes": [*isr], "offlineReplicas": []}
        for number, leader, epoch, replicas, isr in event.partitions
    ]
    topic = {"errorCode": 0, "name": event.topic} | ({"topicId": event.topic_id} if by_id else {})
    topic |= {"isInternal": False, "partitions": partitions}
    if event.version >= 8:
        topic["topicAuthorizedOperations"] = -2147483648
    response: dict[str, Any] = {
        "throttleTimeMs": 0, "brokers": [{"nodeId": event.node, "host": "127.0.0.1", "port": 9090 + event.node, "rack": None}],
        "clusterId": "2WQl209Lv0VYX5In0tcBEA", "controllerId": event.node,
        "topics": [topic],
    }  # fmt: skip
    if event.version >= 13:
        response["errorCode"] = 0
    header = ("METADATA", event.version, event.correlation_id, event.client_id)
    return completed(event, header, request, response, event.arrived, event.connection, release)
