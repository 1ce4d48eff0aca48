"""Controllers of a KRaft quorum: raft leadership and votes, granted heartbeats, registrations and fencing.

Standby controllers write "Replayed", "Registered new broker" and "Fenced broker" lines, too, as they follow the metadata
log. Such lines repeat its records and are needed only if it was not recorded.
"""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import LogPattern
from epochaudit.sources.server_log.messages.parts import QUORUM_CONTROLLER as QUORUM
from epochaudit.sources.server_log.messages.parts import PatternsByClass

_RAFT: Final = rb"\[RaftManager (?:nodeId|id)="
_VOTED: Final = (  # of the new state only: the former one, after " from ", may be of another epoch
    rb"(?:(?:(?! from ).)*?, voted(?:Id|Key)=(?:Optional\[)?(?:ReplicaKey\(id=)?(?P<replica_id>\d+))?"
)
_BROKER: Final = rb"(?P<broker_id>\d+)"
_EPOCH: Final = rb"(?P<broker_epoch>-?\d+)"
_NEXT_LEADER: Final = rb"the leader is (?:\(none\)|(?P<leader>\d+))\."
_ID_AND_EPOCH: Final = rb"\(id=" + _BROKER + rb", epoch=" + _EPOCH + rb"\)"
_REGISTRATION: Final = (
    rb"RegisterBrokerRecord\(brokerId=" + _BROKER + rb", (?:isMigratingZkBroker=\w+, )?"
    rb"incarnationId=(?P<incarnation_id>[\w-]{22}), brokerEpoch=" + _EPOCH + rb", .*\bfenced=(?P<fenced>true|false)"
    rb"(?:, inControlledShutdown=(?P<in_controlled_shutdown>true|false))?.*\)"
)


def _replayed(name: str, beginning: bytes) -> tuple[LogPattern, ...]:
    """A registration by its record. name: whether the controller knew the broker and its incarnation."""
    return (LogPattern("BROKER_REGISTRATION_REPLAYED", QUORUM + beginning + rb": " + _REGISTRATION, name=name),)


def _accepted(name: str, pattern: bytes) -> tuple[LogPattern, ...]:
    return (LogPattern("BROKER_REGISTRATION_ACCEPTED", QUORUM + pattern, name=name),)


def _fencing(pattern: bytes, **constants: bool) -> LogPattern:
    return LogPattern("BROKER_FENCING_REPLAYED", QUORUM + pattern, **constants)


def _granted(event_type: str, pattern: bytes, **constants: str) -> LogPattern:
    return LogPattern(event_type, QUORUM + pattern, **constants)


_LEADERSHIP: Final[PatternsByClass] = {
    b"QuorumState": {
        b"Completed transition to Leader(": (
            LogPattern(
                "RAFT_STATE_CHANGED",
                _RAFT + rb"(?P<leader>\d+)\] Completed transition to (?P<name>Leader)\(.*?\bepoch=(?P<raft_epoch>\d+).*",
            ),
        ),
        b"Completed transition to ": (
            LogPattern(
                "RAFT_STATE_CHANGED",
                _RAFT + rb"\d+\] Completed transition to (?P<name>[A-Z][a-z]+)(?:State)?\(.*?\bepoch=(?P<raft_epoch>\d+)"
                # 3.8 prints the leader as a Node: "host:port (id: 1 rack: null)"
                rb"(?:, leader(?:Id)?=(?:\S+ \(id: )?(?P<leader>\d+)(?=[ ,)]))?" + _VOTED + rb".*",
            ),
        ),
    },
    b"KafkaRaftClient": {
        b"Vote request VoteRequestData(": (
            LogPattern(  # printed before the answer is sent, and only of requests that are compared with the voter's state
                "RAFT_VOTE_ANSWERED",
                _RAFT + rb"\d+\] Vote request VoteRequestData\(clusterId=(?:null|'(?P<cluster_id>[^']*)'),.*"
                rb"\b(?:candidate|replica)Epoch=(?P<raft_epoch>\d+), (?:candidate|replica)Id=(?P<replica_id>\d+), .*"
                rb"lastOffset=\d+(?:, preVote=(?P<pre_vote>true|false))?\)\]\)\]\)(?: with epoch \d+)?"
                rb" is (?P<vote_granted>granted|rejected)",
            ),
        ),
    },
    b"QuorumController": {
        b"Becoming ": (
            LogPattern(
                "CONTROLLER_ACTIVE",
                QUORUM + rb"Becoming (?:the active controller at|active at controller) epoch (?P<raft_epoch>\d+)\b.*",
            ),
        ),
        b"We were the leader in epoch ": (
            LogPattern(
                "CONTROLLER_ACTIVE",
                QUORUM + rb"We were the leader in epoch \d+, and are still the leader in the new epoch (?P<raft_epoch>\d+)\.",
            ),
        ),
        b"Renouncing the leadership ": (
            LogPattern(
                "CONTROLLER_STANDBY",
                QUORUM + rb"Renouncing the leadership due to a metadata log event\. We were the leader at epoch"
                rb" (?P<controller_epoch>\d+), but in the new epoch (?P<raft_epoch>\d+), " + _NEXT_LEADER + rb" .*",
            ),
            LogPattern(  # up to 3.2
                "CONTROLLER_STANDBY",
                QUORUM + rb"Renouncing the leadership at oldEpoch (?P<controller_epoch>-?\d+) due to a metadata log event\..*",
            ),
        ),
        b"In the new epoch ": (
            LogPattern("RAFT_LEADER_KNOWN", QUORUM + rb"In the new epoch (?P<raft_epoch>\d+), " + _NEXT_LEADER),
        ),
    },
}  # fmt: skip

_HEARTBEATS: Final[PatternsByClass] = {
    b"BrokerHeartbeatManager": {
        b"The request from broker ": (
            _granted(
                "UNFENCE_GRANTED",
                rb"The request from broker " + _BROKER + rb" to unfence has been granted because it has caught up with the"
                rb" offset of it'?s register broker record (?P<metadata_offset>\d+)\.",
            ),
            _granted(  # up to 3.2: the offset is the last committed one
                "UNFENCE_GRANTED",
                rb"The request from broker " + _BROKER + rb" to unfence has been granted because it has caught up with the"
                rb" last committed metadata offset \d+\.",
            ),
            _granted(
                "SHUTDOWN_GRANTED",
                rb"The request from broker " + _BROKER + rb" to shut down has been granted since .*",
                name="controlled",
            ),
        ),
        b"Unfenced broker ": (
            _granted(
                "CONTROLLED_SHUTDOWN_GRANTED",
                rb"Unfenced broker " + _BROKER + rb" has requested and been granted a controlled shutdown\.",
            ),
            _granted(
                "SHUTDOWN_GRANTED",
                rb"Unfenced broker " + _BROKER + rb" has requested and been granted an immediate shutdown\.",
                name="immediate",
            ),
            _granted("FENCE_GRANTED", rb"Unfenced broker " + _BROKER + rb" has requested and been granted fencing"),
        ),
        b"Fenced broker ": (
            _granted(
                "SHUTDOWN_GRANTED",
                rb"Fenced broker " + _BROKER + rb" has requested and been granted an immediate shutdown\.",
                name="immediate",
            ),
        ),
    },
    b"ReplicationControlManager": {
        b"Fencing broker ": (
            _granted(
                "BROKER_SESSION_EXPIRED",
                rb"Fencing broker " + _BROKER + rb"(?: at epoch " + _EPOCH + rb")? because its session has timed out\.",
            ),
        ),
    },
}  # fmt: skip

_REGISTRATIONS: Final[PatternsByClass] = {
    b"ClusterControlManager": {
        b"No previous registration found for ": _accepted(  # 3.9 on
            "first",
            rb"No previous registration found for broker " + _BROKER + rb"\. New incarnation ID is"
            rb" (?P<incarnation_id>[\w-]{22})\. .* New broker epoch is " + _EPOCH + rb"\.",
        ),
        b"Registering a new incarnation of ": _accepted(
            "new_incarnation",
            rb"Registering a new incarnation of broker " + _BROKER + rb"\. Previous incarnation ID was [\w-]{22};"
            rb" new incarnation ID is (?P<incarnation_id>[\w-]{22})\. .* Broker epoch will become " + _EPOCH + rb"\.",
        ),
        b"Amending registration of broker ": _accepted(
            "same_incarnation",
            rb"Amending registration of broker " + _BROKER
            + rb"(?:, incarnation ID (?P<incarnation_id>[\w-]{22})\. Broker epoch remains " + _EPOCH + rb"\.)?",
        ),
        b"Replayed initial RegisterBrokerRecord ": _replayed(  # 3.6 on
            "first", rb"Replayed initial RegisterBrokerRecord for broker \d+"
        ),
        b"Replayed RegisterBrokerRecord modifying ": _replayed(
            "same_incarnation", rb"Replayed RegisterBrokerRecord modifying the registration for broker \d+"
        ),
        b"Replayed RegisterBrokerRecord establishing ": _replayed(
            "new_incarnation", rb"Replayed RegisterBrokerRecord establishing a new incarnation of broker \d+"
        ),
        b"Registered new broker: ": _replayed("first", rb"Registered new broker"),  # up to 3.5
        b"Re-registered broker incarnation: ": _replayed("same_incarnation", rb"Re-registered broker incarnation"),
        b"Re-registered broker id ": _replayed("new_incarnation", rb"Re-registered broker id \d+"),
        **{
            beginning: (
                LogPattern(
                    "BROKER_UNREGISTERED",
                    QUORUM + beginning + rb"\(brokerId=" + _BROKER + rb", brokerEpoch=" + _EPOCH + rb"\)",
                ),
            )
            for beginning in (b"Unregistered broker: UnregisterBrokerRecord", b"Replayed UnregisterBrokerRecord")
        },
        b"Fenced broker: ": (_fencing(rb"Fenced broker: FenceBrokerRecord" + _ID_AND_EPOCH, fenced=True),),  # up to 3.2
        b"Unfenced broker: ": (_fencing(rb"Unfenced broker: UnfenceBrokerRecord" + _ID_AND_EPOCH, fenced=False),),
        b"Replayed FenceBrokerRecord modifying ": (
            _fencing(rb"Replayed FenceBrokerRecord .*: FenceBrokerRecord" + _ID_AND_EPOCH, fenced=True),
        ),
        b"Replayed UnfenceBrokerRecord modifying ": (
            _fencing(rb"Replayed UnfenceBrokerRecord .*: UnfenceBrokerRecord" + _ID_AND_EPOCH, fenced=False),
        ),
        b"Replayed BrokerRegistrationChangeRecord modifying ": (
            _fencing(
                rb"Replayed BrokerRegistrationChangeRecord .*: BrokerRegistrationChangeRecord\(brokerId=" + _BROKER
                + rb", brokerEpoch=" + _EPOCH + rb", fenced=(?P<fenced>-?\d), inControlledShutdown="
                rb"(?P<in_controlled_shutdown>-?\d)(?:, .*)?\)",
            ),
        ),
    },
}  # fmt: skip

PATTERNS: Final[PatternsByClass] = {**_LEADERSHIP, **_HEARTBEATS, **_REGISTRATIONS}
