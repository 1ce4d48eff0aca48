"""The controller of a ZooKeeper cluster (KafkaController): elections, brokers that come and go, refused AlterPartition."""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import TOPIC_PARTITION, LogPattern
from epochaudit.sources.server_log.messages.parts import CONTROLLER, PatternsByClass

_CACHED: Final = rb"[-\d >,]*"
_IDS: Final = rb"[\d,]*"
_CACHE: Final = LogPattern(  # the pairs are read twice: once for the brokers, once for their epochs
    "BROKER_EPOCHS_CACHE",
    CONTROLLER + rb"(?:Initialized|Updated) broker epochs cache:"
    rb" \w+\((?=(?P<live_brokers>" + _CACHED + rb"))(?P<live_broker_epochs>" + _CACHED + rb")\)",
)
_INCREMENTED: Final = LogPattern(  # up to 2.0, where the election names no epoch
    "CONTROLLER_EPOCH_INCREMENTED",
    CONTROLLER + rb"(?:Epoch incremented|Incremented epoch) to (?P<controller_epoch>\d+)",
)


def _rejected(reason: str, ending: bytes) -> LogPattern:
    return LogPattern(
        "ALTER_PARTITION_REJECTED",
        CONTROLLER + rb"Rejecting AlterPartition(?: request)? from node (?P<broker_id>\d+) for " + TOPIC_PARTITION
        + rb" because " + ending,
        reason=reason,
    )  # fmt: skip


def _ignored(reason: str, ending: bytes) -> LogPattern:
    return LogPattern(
        "ALTER_PARTITION_REJECTED", CONTROLLER + rb"Ignoring Alter(?:Isr|Partition) due to " + ending, reason=reason
    )


_REJECTED: Final = (
    _rejected(
        "ineligible_replicas",
        rb"it specified ineligible replicas \w+\((?P<value>" + _IDS.replace(b",", b", ") + rb")\)"
        rb" in the new ISR \w+\((?P<isr>[\d, ]*)\)\.",
    ),
    _rejected("leader_recovering", rb"leader is recovering and ISR is greater than 1: .*"),
    _rejected("recovery_state", rb"the leader recovery state cannot change from RECOVERED to RECOVERING: .*"),
)
_IGNORED: Final = (
    _ignored("unknown_broker", rb"unknown broker (?P<broker_id>\d+)"),
    _ignored(
        "stale_broker_epoch",
        rb"stale broker epoch (?P<broker_epoch>-?\d+)(?: and local broker epoch (?:None|Some\((?P<current_broker_epoch>-?\d+)\)))?"
        rb" for broker (?P<broker_id>\d+)",
    ),
)
_BAD_VERSION: Final = (
    LogPattern(
        "ALTER_PARTITION_REJECTED",
        CONTROLLER + rb"Failed to update ISR to LeaderAndIsr\(leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>-?\d+),"
        rb" .*, (?:partitionEpoch|zkVersion)=(?P<partition_epoch>-?\d+)\) for partition " + TOPIC_PARTITION
        + rb", bad ZK version\.",
        reason="stale_partition_epoch",
    ),
)  # fmt: skip
_NOT_WRITTEN: Final = tuple(
    LogPattern(
        "ALTER_PARTITION_REJECTED",
        CONTROLLER + rb"Failed to update ISR for partition " + TOPIC_PARTITION + ending,
        reason=reason,
    )
    for ending, reason in (
        (rb", bad ZK version", "stale_partition_epoch"),  # 2.7 to 3.0, at DEBUG
        (rb"", "unexpected_error"),  # of ZooKeeper; the stack trace follows
    )
)

MARKED: Final = {
    b"KafkaController": (
        b" successfully elected as the controller",
        LogPattern(
            "CONTROLLER_ELECTED",
            rb"\[Controller id=\d+\] (?P<controller_id>\d+) successfully elected as the controller"
            rb"(?:\. Epoch incremented to (?P<controller_epoch>\d+) and epoch zk version is now \d+)?",
        ),
    ),
    b"TopicDeletionManager": (
        b" successfully completed",
        LogPattern(  # up to 2.0 with a comma
            "TOPIC_DELETION_COMPLETED",
            rb"\[Topic Deletion Manager (?P<controller_id>\d+)\],? Deletion of topic (?P<topic>[\w.-]+) successfully"
            rb" completed",
        ),
    ),
}
"""Class -> mark of a message that begins with the elected id, or whose prefix has several endings."""

PATTERNS: Final[PatternsByClass] = {
    b"KafkaController": {
        b"Initialized broker epochs cache: ": (_CACHE,),
        b"Updated broker epochs cache: ": (_CACHE,),
        b"Epoch incremented to ": (_INCREMENTED,),
        b"Incremented epoch to ": (_INCREMENTED,),
        b"Ready to serve as the new controller ": (
            LogPattern(
                "CONTROLLER_READY",
                CONTROLLER + rb"Ready to serve as the new controller with epoch (?P<controller_epoch>\d+)",
            ),
        ),
        b"Unclean leader election has been enabled ": (
            LogPattern(
                "CONFIG_CHANGED",
                CONTROLLER + rb"Unclean leader election has been enabled (?:by default|for topic (?P<topic>[\w.-]+))",
                name="unclean.leader.election.enable",
                value="true",
            ),
        ),
        b"Starting replica leader election (UNCLEAN) for partitions ": (
            LogPattern(  # from 2.4 on; only administrators ask for unclean elections, here of those partitions that have no leader
                "UNCLEAN_ELECTION_REQUESTED",
                CONTROLLER + rb"Starting replica leader election \(UNCLEAN\) for partitions (?P<partitions>[\w.,-]*)"
                rb" triggered by (?P<reason>AdminClientTriggered)",
            ),
        ),
        b"Resigned (": (LogPattern("CONTROLLER_RESIGNED", CONTROLLER + rb"Resigned"),),
        b"Newly added brokers: ": (
            LogPattern(
                "BROKERS_CHANGED",
                CONTROLLER + rb"Newly added brokers: (?P<added_brokers>" + _IDS + rb"), deleted brokers: (?P<deleted_brokers>"
                + _IDS + rb")(?:, bounced brokers: (?P<bounced_brokers>" + _IDS + rb"))?,"  # bounced: from 2.2
                rb" all live brokers: (?P<live_brokers>" + _IDS + rb")",
            ),
        ),
        b"Shutting down broker ": (
            LogPattern("BROKER_SHUTTING_DOWN", CONTROLLER + rb"Shutting down broker (?P<broker_id>\d+)"),
        ),
        b"Updated leader epoch for partition ": (
            LogPattern(
                "LEADER_EPOCH_UPDATED",
                CONTROLLER + rb"Updated leader epoch for partition " + TOPIC_PARTITION + rb" to (?P<leader_epoch>\d+)"
                rb"(?:, zkVersion=(?P<partition_epoch>-?\d+))?",
            ),
        ),
        b"Rejecting AlterPartition ": _REJECTED,
        b"Ignoring AlterPartition ": _IGNORED,
        b"Ignoring AlterIsr ": _IGNORED,
        b"Failed to update ISR to ": _BAD_VERSION,
        b"Failed to update ISR for partition ": _NOT_WRITTEN,
    },
}  # fmt: skip
