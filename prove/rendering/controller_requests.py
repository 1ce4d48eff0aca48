"""Requests of brokers to a controller, as kafka-request.log prints them, and a ZooKeeper controller's lines about live brokers."""

from __future__ import annotations

from typing import Any

from prove.history import AlterPartition, BrokerRegistration, Heartbeat, LiveBrokersLine, Release, since
from prove.rendering.request_log import KRAFT_RELEASE, completed


def alter_partition(event: AlterPartition, release: Release) -> str:
    """The line of an AlterPartition. Up to 3.1 it is called AlterIsr, and some fields have other names."""
    renamed = since(release.version, 3, 2)
    version_of = "partitionEpoch" if renamed else "currentIsrVersion"
    members: dict[str, Any] = (
        {"newIsrWithEpochs": [{"brokerId": m.broker_id, "brokerEpoch": m.broker_epoch} for m in event.new_isr]}
        if event.version >= 3
        else {"newIsr": [m.broker_id for m in event.new_isr]}
    )
    recovery = {"leaderRecoveryState": event.recovery} if event.version >= 1 else {}
    epochs = {"partitionIndex": event.partition, "leaderEpoch": event.leader_epoch}
    asked = epochs | members | recovery | {version_of: event.partition_epoch}
    name = "topicName" if renamed else "name"
    topic = {"topicId": event.topic_id} if event.version >= 2 else {name: event.topic}
    request = {
        "brokerId": event.broker_id,
        "brokerEpoch": event.broker_epoch,
        "topics": [topic | {"partitions": [asked]}],
    }
    topics = []
    if event.partition_error is not None:
        answered = {
            "partitionIndex": event.partition, "errorCode": event.partition_error, "leaderId": event.leader_after,
            "leaderEpoch": event.leader_epoch_after, "isr": [*event.isr_after],
        } | recovery | {version_of: event.partition_epoch_after}  # fmt: skip
        topics.append(topic | {"partitions": [answered]})
    response = {"throttleTimeMs": 0, "errorCode": event.error_code, "topics": topics}
    api = "ALTER_PARTITION" if renamed else "ALTER_ISR"
    header = (api, event.version, event.correlation_id, str(event.broker_id))
    ends = f"127.0.0.1:21100-127.0.0.1:{60000 + event.broker_id}-0-6"
    return completed(event, header, request, response, event.arrived, 0, KRAFT_RELEASE, ends)


def registration(event: BrokerRegistration) -> str:
    """The line of a BrokerRegistration."""
    request = {
        "brokerId": event.broker_id, "clusterId": "2WQl209Lv0VYX5In0tcBEA", "incarnationId": event.incarnation_id, "listeners": [],
        "features": [], "rack": None, "isMigratingZkBroker": False, "logDirs": [],
        "previousBrokerEpoch": event.previous_broker_epoch,
    }  # fmt: skip
    response = {"throttleTimeMs": 0, "errorCode": event.error_code, "brokerEpoch": event.broker_epoch}
    header = ("BROKER_REGISTRATION", 4, event.correlation_id, str(event.broker_id))
    ends = f"127.0.0.1:21100-127.0.0.1:{50000 + event.broker_id}-0-1"
    return completed(event, header, request, response, event.arrived, 0, KRAFT_RELEASE, ends)


def heartbeat(event: Heartbeat) -> str:
    """The line of a BrokerHeartbeat."""
    request = {
        "brokerId": event.broker_id, "brokerEpoch": event.broker_epoch, "currentMetadataOffset": event.current_metadata_offset,
        "wantFence": event.want_fence, "wantShutDown": event.want_shut_down,
    }  # fmt: skip
    response = {
        "throttleTimeMs": 0, "errorCode": event.error_code, "isCaughtUp": not event.error_code, "isFenced": event.is_fenced,
        "shouldShutDown": event.should_shut_down,
    }  # fmt: skip
    header = ("BROKER_HEARTBEAT", 1, event.correlation_id, str(event.broker_id))
    ends = f"127.0.0.1:21100-127.0.0.1:{50000 + event.broker_id}-0-1"
    return completed(event, header, request, response, event.arrived, 0, KRAFT_RELEASE, ends)


def live_brokers(event: LiveBrokersLine) -> str:
    """KafkaController: the text of a line about live brokers."""
    if event.kind == "leaving":
        return f"Shutting down broker {event.leaving}"
    if event.kind == "changed":
        added, deleted, bounced = (",".join(map(str, ids)) for ids in (event.added, event.deleted, event.bounced))
        live = ",".join(str(broker) for broker, _ in event.live)
        return f"Newly added brokers: {added}, deleted brokers: {deleted}, bounced brokers: {bounced}, all live brokers: {live}"
    epochs = ", ".join(f"{broker} -> {epoch}" for broker, epoch in event.live)
    return f"{event.kind} broker epochs cache: HashMap({epochs})"
