"""Processes: start and stop, version, registration, controlled shutdown, refused requests of the control plane.

KafkaServer (ZooKeeper), BrokerServer, ControllerServer and KafkaRaftServer (KRaft), BrokerLifecycleManager, KafkaApis.
A KRaft broker from 3.1 on logs its start twice, before and after it has read the metadata log. A controller does not log
that it has stopped.
"""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import LogPattern
from epochaudit.sources.server_log.messages.parts import PatternsByClass

_SERVER: Final = rb"\[KafkaServer id=-?\d+\] "
_BROKER: Final = rb"\[BrokerServer id=\d+\] "
_LIFECYCLE: Final = rb"\[BrokerLifecycleManager id=\d+(?: isZkBroker=\w+)?\] "
_OF_ZOOKEEPER: Final = rb"\[BrokerLifecycleManager id=\d+ isZkBroker=true\] "
_OF_KRAFT: Final = rb"\[BrokerLifecycleManager id=\d+(?: isZkBroker=false)?\] "
_REGISTERED: Final = (
    LogPattern(
        "BROKER_REGISTERED",
        rb"Registered broker (?P<broker_id>\d+) at path .*, czxid \(broker epoch\): (?P<current_broker_epoch>\d+)",
        name="zookeeper",
    ),
    LogPattern("BROKER_REGISTERED", rb"Registered broker (?P<broker_id>\d+) at path .*", name="zookeeper"),  # up to 2.1
)


def _registered_with_kraft(lifecycle: bytes, name: str) -> LogPattern:
    return LogPattern(
        "BROKER_REGISTERED",
        lifecycle
        + rb"Successfully registered broker (?P<broker_id>\d+) with broker epoch (?P<current_broker_epoch>\d+)",
        name=name,
    )


def _stale_broker_epoch(name: str, printed: bytes) -> LogPattern:
    return LogPattern(
        "STALE_BROKER_EPOCH",
        rb"\[KafkaApi-\d+\] Received " + printed + rb" request with broker epoch (?P<broker_epoch>-?\d+)"
        rb" smaller than the current broker epoch (?P<current_broker_epoch>-?\d+)"
        rb"(?: from controller (?P<controller_id>-?\d+) with epoch (?P<controller_epoch>-?\d+)\.)?",
        name=name,
    )


_LEADER_AND_ISR: Final = _stale_broker_epoch("LeaderAndIsr", rb"LeaderAndIsr")
_STOP_REPLICA: Final = _stale_broker_epoch("StopReplica", rb"(?:StopReplica|stop replica)")
_UPDATE_METADATA: Final = _stale_broker_epoch("UpdateMetadata", rb"(?:UpdateMetadata|update metadata)")

PATTERNS: Final[PatternsByClass] = {
    b"AppInfoParser": {
        b"Kafka version": (LogPattern("KAFKA_VERSION", rb"Kafka version ?: (?P<value>[\w.+-]+)", name="kafka"),),
    },
    b"KafkaServer": {
        b"starting (": (LogPattern("PROCESS_STARTING", rb"(?:" + _SERVER + rb")?starting", name="broker"),),
        b"started (": (LogPattern("PROCESS_STARTED", rb"(?:" + _SERVER + rb")?started", name="broker"),),
        b"shutting down (": (LogPattern("PROCESS_SHUTTING_DOWN", _SERVER + rb"shutting down", name="broker"),),
        b"shut down completed (": (LogPattern("PROCESS_STOPPED", _SERVER + rb"shut down completed", name="broker"),),
        b"Deleting local metadata log from ": (  # 3.8 on: its records come from the KRaft controller again
            LogPattern(
                "METADATA_LOG_DELETED",
                rb"Deleting local metadata log from (?P<value>.+) since this is a ZK broker in migration mode\.",
            ),
        ),
        b"Starting controlled shutdown": (
            LogPattern("CONTROLLED_SHUTDOWN_STARTED", _SERVER + rb"Starting controlled shutdown"),
        ),
        b"Controlled shutdown succeeded": (
            LogPattern("CONTROLLED_SHUTDOWN_SUCCEEDED", _SERVER + rb"Controlled shutdown succeeded"),
        ),
        b"Controlled shutdown request returned successfully": (
            LogPattern(
                "CONTROLLED_SHUTDOWN_SUCCEEDED", _SERVER + rb"Controlled shutdown request returned successfully after .*"
            ),
        ),
        b"Proceeding to do an unclean shutdown": (
            LogPattern("CONTROLLED_SHUTDOWN_FAILED", _SERVER + rb"Proceeding to do an unclean shutdown as .*"),
        ),
    },
    b"BrokerServer": {
        b"Transition from SHUTDOWN to ": (
            LogPattern("PROCESS_STARTING", _BROKER + rb"Transition from SHUTDOWN to STARTING", name="broker"),
        ),
        b"Starting broker": (LogPattern("PROCESS_STARTING", _BROKER + rb"Starting broker", name="broker"),),
        b"shutting down (": (LogPattern("PROCESS_SHUTTING_DOWN", _BROKER + rb"shutting down", name="broker"),),
        b"shut down completed (": (LogPattern("PROCESS_STOPPED", _BROKER + rb"shut down completed", name="broker"),),
    },
    b"ControllerServer": {
        b"Starting controller": (
            LogPattern("PROCESS_STARTING", rb"(?:\[ControllerServer id=\d+\] )?Starting controller", name="controller"),
        ),
        b"shutting down (": (
            LogPattern("PROCESS_SHUTTING_DOWN", rb"\[ControllerServer id=\d+\] shutting down", name="controller"),
        ),
    },
    b"KafkaRaftServer": {
        b"Kafka Server started": (
            LogPattern("PROCESS_STARTED", rb"(?:\[KafkaRaftServer nodeId=\d+\] )?Kafka Server started", name="node"),
        ),
    },
    b"KafkaZkClient": {b"Registered broker ": _REGISTERED},
    b"ZkUtils": {b"Registered broker ": _REGISTERED},  # 1.0
    b"BrokerLifecycleManager": {
        b"Incarnation ": (
            LogPattern(
                "BROKER_INCARNATION_STARTING",
                _LIFECYCLE + rb"Incarnation (?P<incarnation_id>[\w-]{22}) of broker (?P<broker_id>\d+) in cluster .*",
            ),
        ),
        b"Successfully registered broker ": (
            _registered_with_kraft(_OF_ZOOKEEPER, "zookeeper_in_migration"),
            _registered_with_kraft(_OF_KRAFT, "kraft"),
        ),
        b"The broker has been unfenced.": (
            LogPattern("BROKER_UNFENCED", _LIFECYCLE + rb"The broker has been unfenced\. Transitioning from \w+ to RUNNING\."),
        ),
        b"Beginning controlled shutdown": (
            LogPattern("CONTROLLED_SHUTDOWN_STARTED", _LIFECYCLE + rb"Beginning controlled shutdown\."),
        ),
        b"The control": (
            LogPattern(
                "CONTROLLED_SHUTDOWN_SUCCEEDED",
                _LIFECYCLE + rb"The controlle[rd] has asked us to exit controlled shutdown\.",
            ),
        ),
    },
    b"KafkaApis": {
        b"Received LeaderAndIsr request with broker epoch ": (_LEADER_AND_ISR,),
        b"Received StopReplica request with broker epoch ": (_STOP_REPLICA,),
        b"Received stop replica request with broker epoch ": (_STOP_REPLICA,),
        b"Received UpdateMetadata request with broker epoch ": (_UPDATE_METADATA,),
        b"Received update metadata request with broker epoch ": (_UPDATE_METADATA,),
    },
}  # fmt: skip
