"""Processes: start and stop, version, registration, controlled shutdown, refused requests of the control plane.

KafkaServer (ZooKeeper), BrokerServer, ControllerServer and KafkaRaftServer (KRaft), BrokerLifecycleManager, KafkaApis.
A KRaft broker of 3.1 and later says twice that it starts, before and after it has read the metadata log. A controller
does not say that it has stopped.
"""

from __future__ import annotations

from typing import Final

from epochaudit.sources.log4j import Wording
from epochaudit.sources.server_log_wordings.parts import Told

_SERVER: Final = rb"\[KafkaServer id=-?\d+\] "
_BROKER: Final = rb"\[BrokerServer id=\d+\] "
_LIFECYCLE: Final = rb"\[BrokerLifecycleManager id=\d+(?: isZkBroker=\w+)?\] "
_REGISTERED: Final = (
    Wording(
        "BROKER_REGISTERED",
        rb"Registered broker (?P<broker_id>\d+) at path .*, czxid \(broker epoch\): (?P<current_broker_epoch>\d+)",
    ),
    Wording("BROKER_REGISTERED", rb"Registered broker (?P<broker_id>\d+) at path .*"),  # up to 2.1
)


def _stale_broker_epoch(name: str, printed: bytes) -> Wording:
    return Wording(
        "STALE_BROKER_EPOCH",
        rb"\[KafkaApi-\d+\] Received " + printed + rb" request with broker epoch (?P<broker_epoch>-?\d+)"
        rb" smaller than the current broker epoch (?P<current_broker_epoch>-?\d+)"
        rb"(?: from controller (?P<controller_id>-?\d+) with epoch (?P<controller_epoch>-?\d+)\.)?",
        name=name,
    )


_LEADER_AND_ISR: Final = _stale_broker_epoch("LeaderAndIsr", rb"LeaderAndIsr")
_STOP_REPLICA: Final = _stale_broker_epoch("StopReplica", rb"(?:StopReplica|stop replica)")
_UPDATE_METADATA: Final = _stale_broker_epoch("UpdateMetadata", rb"(?:UpdateMetadata|update metadata)")

TOLD: Final[Told] = {
    b"AppInfoParser": {
        b"Kafka version": (Wording("KAFKA_VERSION", rb"Kafka version ?: (?P<value>[\w.+-]+)", name="kafka"),),
    },
    b"KafkaServer": {
        b"starting (": (Wording("PROCESS_STARTING", rb"(?:" + _SERVER + rb")?starting", name="broker"),),
        b"started (": (Wording("PROCESS_STARTED", rb"(?:" + _SERVER + rb")?started", name="broker"),),
        b"shutting down (": (Wording("PROCESS_SHUTTING_DOWN", _SERVER + rb"shutting down", name="broker"),),
        b"shut down completed (": (Wording("PROCESS_STOPPED", _SERVER + rb"shut down completed", name="broker"),),
        b"Starting controlled shutdown": (
            Wording("CONTROLLED_SHUTDOWN_STARTED", _SERVER + rb"Starting controlled shutdown"),
        ),
        b"Controlled shutdown succeeded": (
            Wording("CONTROLLED_SHUTDOWN_SUCCEEDED", _SERVER + rb"Controlled shutdown succeeded"),
        ),
        b"Controlled shutdown request returned successfully": (
            Wording(
                "CONTROLLED_SHUTDOWN_SUCCEEDED", _SERVER + rb"Controlled shutdown request returned successfully after .*"
            ),
        ),
        b"Proceeding to do an unclean shutdown": (
            Wording("CONTROLLED_SHUTDOWN_FAILED", _SERVER + rb"Proceeding to do an unclean shutdown as .*"),
        ),
    },
    b"BrokerServer": {
        b"Transition from SHUTDOWN to ": (
            Wording("PROCESS_STARTING", _BROKER + rb"Transition from SHUTDOWN to STARTING", name="broker"),
        ),
        b"Starting broker": (Wording("PROCESS_STARTING", _BROKER + rb"Starting broker", name="broker"),),
        b"shutting down (": (Wording("PROCESS_SHUTTING_DOWN", _BROKER + rb"shutting down", name="broker"),),
        b"shut down completed (": (Wording("PROCESS_STOPPED", _BROKER + rb"shut down completed", name="broker"),),
    },
    b"ControllerServer": {
        b"Starting controller": (
            Wording("PROCESS_STARTING", rb"(?:\[ControllerServer id=\d+\] )?Starting controller", name="controller"),
        ),
        b"shutting down (": (
            Wording("PROCESS_SHUTTING_DOWN", rb"\[ControllerServer id=\d+\] shutting down", name="controller"),
        ),
    },
    b"KafkaRaftServer": {
        b"Kafka Server started": (
            Wording("PROCESS_STARTED", rb"(?:\[KafkaRaftServer nodeId=\d+\] )?Kafka Server started", name="node"),
        ),
    },
    b"KafkaZkClient": {b"Registered broker ": _REGISTERED},
    b"ZkUtils": {b"Registered broker ": _REGISTERED},  # 1.0
    b"BrokerLifecycleManager": {
        b"Incarnation ": (
            Wording(
                "BROKER_INCARNATION_STARTING",
                _LIFECYCLE + rb"Incarnation (?P<incarnation_id>[\w-]{22}) of broker (?P<broker_id>\d+) in cluster .*",
            ),
        ),
        b"Successfully registered broker ": (
            Wording(
                "BROKER_REGISTERED",
                _LIFECYCLE + rb"Successfully registered broker (?P<broker_id>\d+)"
                rb" with broker epoch (?P<current_broker_epoch>\d+)",
            ),
        ),
        b"The broker has been unfenced.": (
            Wording("BROKER_UNFENCED", _LIFECYCLE + rb"The broker has been unfenced\. Transitioning from \w+ to RUNNING\."),
        ),
        b"Beginning controlled shutdown": (
            Wording("CONTROLLED_SHUTDOWN_STARTED", _LIFECYCLE + rb"Beginning controlled shutdown\."),
        ),
        b"The control": (
            Wording(
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
