"""Requests of brokers to a KRaft controller, as kafka-request.log prints them."""

from __future__ import annotations

from typing import Any

from prove.history import AlterPartition, BrokerRegistration, Heartbeat
from prove.rendering.request_log import KRAFT_RELEASE, completed


def alter_partition(event: AlterPartition) -> str:
    """The line of an AlterPartition."""
    members: dict[str, Any] = (
        {"newIsrWithEpochs": [{"brokerId": m.broker_id, "brokerEpoch": m.broker_epoch} for m in event.new_isr]}
        if event.version >= 3
        else {"newIsr": [m.broker_id for m in event.new_isr]}
    )
    asked = (
        {"partitionIndex": event.partition, "leaderEpoch": event.leader_epoch}
        | members
        | {"leaderRecoveryState": event.recovery, "partitionEpoch": event.partition_epoch}
    )
    topic = {"topicId": event.topic_id} if event.version >= 2 else {"topicName": event.topic}
    request = {
        "brokerId": event.broker_id,
        "brokerEpoch": event.broker_epoch,
        "topics": [topic | {"partitions": [asked]}],
    }
    topics = []
    if event.partition_error is not None:
        answered = {
            "partitionIndex": event.partition, "errorCode": event.partition_error, "leaderId": event.leader_after,
            "leaderEpoch": event.leader_epoch_after, "isr": [*event.isr_after], "leaderRecoveryState": event.recovery,
            "partitionEpoch": event.partition_epoch_after,
        }  # fmt: skip
        topics.append(topic | {"partitions": [answered]})
    response = {"throttleTimeMs": 0, "errorCode": event.error_code, "topics": topics}
    header = ("ALTER_PARTITION", event.version, event.correlation_id, str(event.broker_id))
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
