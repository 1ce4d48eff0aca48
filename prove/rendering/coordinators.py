"""Requests to coordinators and their answers, as Kafka's request log prints them (RequestConvertToJson)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from prove.coordination import (
    EPOCH_BUMP,
    INIT_PRODUCER_ID,
    INITIALIZE,
    READ,
    SHARE_FETCH,
    TXN_OFFSET_COMMIT,
    WRITE,
    AddsOffsets,
    AddsPartitions,
    AllocatesIds,
    Beats,
    Codes,
    Commits,
    Exchange,
    GivesEpoch,
    Initialized,
    Joins,
    OfMember,
    OfProducer,
    SharesState,
    Syncs,
    UsesShareSession,
    WritesMarkers,
)
from prove.history import Release, since

Json = dict[str, Any]
BATCHED = 4
"""The first version of AddPartitionsToTxn for several transactional ids."""


def request_and_response(event: Exchange, release: Release) -> tuple[Json, Json]:
    """What the request log prints of a request and its answer."""
    match event:
        case GivesEpoch():
            return _gives_epoch(event)
        case AddsPartitions():
            return _adds_partitions(event, release)
        case AddsOffsets():
            return _producer(event) | {"groupId": event.group_id}, _coded(event)
        case WritesMarkers():
            return _writes_markers(event)
        case AllocatesIds():
            block = {"producerIdStart": max(event.start, 0), "producerIdLen": event.length}
            return {"brokerId": event.broker_id, "brokerEpoch": event.broker_epoch}, _coded(event) | block
        case Joins():
            return _joins(event)
        case Syncs():
            return _syncs(event)
        case Beats():
            return _beats(event)
        case Commits():
            return _commits(event, release)
        case SharesState():
            return _shares_state(event)
        case UsesShareSession():
            return _uses_share_session(event)
        case _:
            raise TypeError(event)


def initialized(event: Initialized) -> str:
    """TransactionCoordinator: what it gives to a transactional id."""
    return (
        f"[TransactionCoordinator id={event.node}] Initialized transactionalId {event.transactional_id} with producerId"
        f" {event.given_id} and producer epoch {event.given_epoch} on partition __transaction_state-0"
    )


def _coded(event: Exchange) -> Json:
    return {"throttleTimeMs": 0, "errorCode": event.error_code}


def _producer(event: OfProducer) -> Json:
    return {
        "transactionalId": event.transactional_id,
        "producerId": event.producer_id,
        "producerEpoch": event.producer_epoch,
    }


def _gives_epoch(event: GivesEpoch) -> tuple[Json, Json]:
    given = {"producerId": event.given_id, "producerEpoch": event.given_epoch}
    if event.api == INIT_PRODUCER_ID:
        request: Json = {"transactionalId": event.transactional_id, "transactionTimeoutMs": 60000}
        if event.version >= 3:
            request |= {"producerId": event.producer_id, "producerEpoch": event.producer_epoch}
        if event.version >= 6:
            request |= {"enable2Pc": False, "keepPreparedTxn": False}
        return request, _coded(event) | given
    response = _coded(event) | (given if event.version >= EPOCH_BUMP else {})
    return _producer(event) | {"committed": event.committed}, response


def _by_topic(codes: Codes) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), code in codes:
        found[topic].append((partition, code))
    return found


def _asked(codes: Codes, numbers: str = "partitions") -> list[Json]:
    return [{"name": topic, numbers: [number for number, _ in ones]} for topic, ones in _by_topic(codes).items()]


def _coded_partitions(ones: Iterable[tuple[int, int]], code: str = "errorCode") -> list[Json]:
    return [{"partitionIndex": number, code: error} for number, error in ones]


def _adds_partitions(event: AddsPartitions, release: Release) -> tuple[Json, Json]:
    since_3_5 = since(release.version, 3, 5)
    results, code = ("resultsByPartition", "partitionErrorCode") if since_3_5 else ("results", "errorCode")
    answered = [
        {"name": topic, results: _coded_partitions(ones, code)} for topic, ones in _by_topic(event.codes).items()
    ]
    topics = _asked(event.codes)
    if event.version >= BATCHED:
        one = _producer(event) | {"verifyOnly": event.verify_only, "topics": topics}
        result = {"transactionalId": event.transactional_id, "topicResults": answered}
        return {"transactions": [one]}, _coded(event) | {"resultsByTransaction": [result]}
    if not since_3_5:
        return _producer(event) | {"topics": topics}, {"throttleTimeMs": 0, "results": answered}
    request = {
        "v3AndBelowTransactionalId": event.transactional_id, "v3AndBelowProducerId": event.producer_id,
        "v3AndBelowProducerEpoch": event.producer_epoch, "v3AndBelowTopics": topics,
    }  # fmt: skip
    return request, {"throttleTimeMs": 0, "resultsByTopicV3AndBelow": answered}


def _writes_markers(event: WritesMarkers) -> tuple[Json, Json]:
    marker: Json = {
        "producerId": event.producer_id, "producerEpoch": event.producer_epoch, "transactionResult": event.committed,
        "topics": _asked(event.codes, "partitionIndexes"), "coordinatorEpoch": event.coordinator_epoch,
    }  # fmt: skip
    if event.transaction_version is not None:
        marker["transactionVersion"] = event.transaction_version
    topics = [{"name": topic, "partitions": _coded_partitions(ones)} for topic, ones in _by_topic(event.codes).items()]
    return {"markers": [marker]}, {"markers": [{"producerId": event.producer_id, "topics": topics}]}


def _sender(event: OfMember, static_since: int) -> Json:
    """The group and, in versions that have static members, the member's group.instance.id."""
    static = {"groupInstanceId": event.group_instance_id} if event.version >= static_since else {}
    return {"groupId": event.group_id} | static


def _joins(event: Joins) -> tuple[Json, Json]:
    request = _sender(event, 5) | {
        "sessionTimeoutMs": 45000, "rebalanceTimeoutMs": 300000, "memberId": event.member_id, "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": "AAEAAAABAAZvcmRlcnP/////"}],
    }  # fmt: skip
    answered = event.error_code == 0
    leads = answered and event.leader == event.given_member_id
    member = {"memberId": event.given_member_id, "groupInstanceId": event.group_instance_id, "metadata": "AAE="}
    response = _coded(event) | {
        "generationId": event.given_generation, "protocolName": "range" if answered else None, "leader": event.leader,
        "memberId": event.given_member_id, "members": [member] if leads else [],
    }  # fmt: skip
    if event.version >= 7:
        response["protocolType"] = "consumer" if answered else None
    return request, response


def _syncs(event: Syncs) -> tuple[Json, Json]:
    request = _sender(event, 3) | {"generationId": event.generation_id, "memberId": event.member_id, "assignments": []}
    response = _coded(event) | {"assignment": ""}
    if event.version >= 5:
        request |= {"protocolType": "consumer", "protocolName": "range"}
        response |= {"protocolType": "consumer", "protocolName": "range"}
    return request, response


def _beats(event: Beats) -> tuple[Json, Json]:
    joins = event.generation_id == 0
    request = {
        "groupId": event.group_id, "memberId": event.member_id, "memberEpoch": event.generation_id,
        "instanceId": event.group_instance_id, "rackId": None, "rebalanceTimeoutMs": 300000 if joins else -1,
        "subscribedTopicNames": ["orders"] if joins else None, "serverAssignor": None, "topicPartitions": [] if joins else None,
    }  # fmt: skip
    if event.version >= 1:
        request["subscribedTopicRegex"] = None
    response = _coded(event) | {
        "errorMessage": None, "memberId": event.given_member_id, "memberEpoch": event.given_epoch,
        "heartbeatIntervalMs": 0 if event.error_code else 5000, "assignment": None,
    }  # fmt: skip
    return request, response


def _commits(event: Commits, release: Release) -> tuple[Json, Json]:
    member = {"generationId": event.generation_id, "memberId": event.member_id}
    if event.api == TXN_OFFSET_COMMIT:
        producer = {"transactionalId": "pay", "groupId": event.group_id, "producerId": 1000, "producerEpoch": 3}
        request = producer | member | {"groupInstanceId": event.group_instance_id}
    else:
        since_3_6 = since(release.version, 3, 6)
        if since_3_6:
            member["generationIdOrMemberEpoch"] = member.pop("generationId")
        request = _sender(event, 7) | member
    asked: Json = {"committedOffset": event.offset, "committedLeaderEpoch": 0, "committedMetadata": ""}
    topics = _by_topic(event.codes)
    request["topics"] = [
        {"name": topic, "partitions": [{"partitionIndex": number} | asked for number, _ in ones]}
        for topic, ones in topics.items()
    ]
    answered = [{"name": topic, "partitions": _coded_partitions(ones)} for topic, ones in topics.items()]
    return request, {"throttleTimeMs": 0, "topics": answered}


def _shares_state(event: SharesState) -> tuple[Json, Json]:
    asked: Json = {"partition": event.partition}
    if event.api in (INITIALIZE, WRITE):
        asked |= {"stateEpoch": event.state_epoch, "startOffset": 0}
    if event.api in (READ, WRITE):
        asked["leaderEpoch"] = event.leader_epoch
    if event.api == WRITE:
        asked["stateBatches"] = []
    answered: Json = {"partition": event.partition, "errorCode": event.error_code, "errorMessage": None}
    if event.api == READ:
        answered |= {"stateEpoch": event.answered_epoch, "startOffset": 0, "stateBatches": []}
    topic = {"topicId": event.topic_id}
    request = {"groupId": event.group_id, "topics": [topic | {"partitions": [asked]}]}
    return request, {"results": [topic | {"partitions": [answered]}]}


def _uses_share_session(event: UsesShareSession) -> tuple[Json, Json]:
    request: Json = {"groupId": event.group_id, "memberId": event.member_id, "shareSessionEpoch": event.session_epoch}
    response: Json = _coded(event) | {"errorMessage": None, "responses": [], "nodeEndpoints": []}
    if event.api == SHARE_FETCH:
        request |= {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 52428800, "maxRecords": 500, "batchSize": 500}
        response["acquisitionLockTimeoutMs"] = 0 if event.error_code else 30000
    return request | {"topics": []} | ({"forgottenTopicsData": []} if event.api == SHARE_FETCH else {}), response
