"""Requests of a ZooKeeper controller, as kafka-request.log prints them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from prove.history import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, Control, Release, State, Stop
from prove.rendering.request_log import NO_ID, completed


def control_request(event: Control, release: Release) -> str:
    """The line of a LeaderAndIsr, StopReplica or UpdateMetadata."""
    request: dict[str, Any] = {"controllerId": event.controller_id}
    kraft = {LEADER_AND_ISR: 7, STOP_REPLICA: 4, UPDATE_METADATA: 8}
    if event.version >= kraft[event.api]:
        request["isKRaftController"] = False
    request["controllerEpoch"] = event.controller_epoch
    if event.version >= {LEADER_AND_ISR: 2, STOP_REPLICA: 1, UPDATE_METADATA: 5}[event.api]:
        request["brokerEpoch"] = event.broker_epoch
    if event.api == LEADER_AND_ISR and event.version >= 5:
        request["type"] = 0
    request |= _control_partitions(event)
    alive = sorted(event.live_brokers)
    if event.api == LEADER_AND_ISR:
        leaders = {state.leader for state in event.partitions if isinstance(state, State)}
        request["liveLeaders"] = [
            {"brokerId": broker, "hostName": "127.0.0.1", "port": 9090 + broker}
            for broker in alive
            if broker in leaders
        ]
    if event.api == UPDATE_METADATA:
        request["liveBrokers"] = [
            {
                "id": broker,
                "endpoints": [
                    {"port": 9090 + broker, "host": "127.0.0.1", "listener": "PLAINTEXT", "securityProtocol": 0}
                ],
                "rack": None,
            }
            for broker in alive
        ]
    response = {"errorCode": event.error_code} | _codes(event)
    header = (event.api, event.version, event.correlation_id, str(event.controller_id))
    return completed(event, header, request, response, event.arrived, event.connection, release)


def _control_partitions(event: Control) -> dict[str, Any]:
    """The partitions of a request, by topic or, in the oldest versions, each with its topic's name."""
    if event.api == STOP_REPLICA and event.version < 3:
        stops = [stop for stop in event.partitions if isinstance(stop, Stop)]
        deletes = {"deletePartitions": any(stop.delete for stop in stops)}
        if event.version < 1:
            ungrouped = [{"topicName": stop.topic, "partitionIndex": stop.partition} for stop in stops]
            return deletes | {"ungroupedPartitions": ungrouped}
        topics = _topics(event.partitions).items()
        return deletes | {
            "topics": [{"name": name, "partitionIndexes": [one.partition for one in stops]} for name, stops in topics]
        }
    states = [*_topic_states(event)]
    if event.version < {LEADER_AND_ISR: 2, STOP_REPLICA: 0, UPDATE_METADATA: 5}[event.api]:
        ungrouped = [{"topicName": topic["topicName"]} | one for topic in states for one in topic["partitionStates"]]
        return {"ungroupedPartitionStates": ungrouped}
    return {"topicStates": states}


def _topics(partitions: Iterable[State | Stop]) -> dict[str, list[State | Stop]]:
    topics: dict[str, list[State | Stop]] = defaultdict(list)
    for partition in partitions:
        topics[partition.topic].append(partition)
    return topics


def _topic_states(event: Control) -> Iterator[dict[str, Any]]:
    new_names = event.version >= 6 and event.api == LEADER_AND_ISR
    for topic, partitions in _topics(event.partitions).items():
        states: list[dict[str, Any]] = []
        of_topic: dict[str, Any] = {"topicName": topic}
        for one in partitions:
            if isinstance(one, Stop):
                states.append(
                    {"partitionIndex": one.partition, "leaderEpoch": one.leader_epoch, "deletePartition": one.delete}
                )
                continue
            state: dict[str, Any] = {
                "partitionIndex": one.partition,
                "controllerEpoch": one.controller_epoch,
                "leader": one.leader,
                "leaderEpoch": one.leader_epoch,
                "isr": [*one.isr],
                "partitionEpoch" if new_names else "zkVersion": one.partition_epoch,
                "replicas": [*one.replicas],
            }
            if event.api == UPDATE_METADATA:
                state["offlineReplicas"] = []
            else:
                if event.version >= 3:
                    state |= {"addingReplicas": [], "removingReplicas": []}
                state["isNew"] = one.is_new
                if event.version >= 6:
                    state["leaderRecoveryState"] = 0
            if event.version >= (5 if event.api == LEADER_AND_ISR else 7):
                of_topic["topicId"] = one.topic_id or NO_ID
            states.append(state)
        yield of_topic | {"partitionStates": states}


def _codes(event: Control) -> dict[str, Any]:
    if event.api == UPDATE_METADATA:
        return {}
    codes = [*zip(event.partitions, event.codes, strict=True)] if event.codes else []
    if event.api == LEADER_AND_ISR and event.version >= 5:
        topics: dict[str, list[dict[str, int]]] = defaultdict(list)
        for one, code in codes:
            assert isinstance(one, State)
            topics[one.topic_id or NO_ID].append({"partitionIndex": one.partition, "errorCode": code})
        return {"topics": [{"topicId": id, "partitionErrors": errors} for id, errors in topics.items()]}
    return {
        "partitionErrors": [
            {"topicName": one.topic, "partitionIndex": one.partition, "errorCode": code} for one, code in codes
        ]
    }
