"""state-change.log: requests that a broker applied and refused, and decisions of a ZooKeeper-mode controller.

Lines are written by state.change.logger under ReplicaManager.replicaStateChangeLock, so their order is the order of
application. The patterns cover Kafka 1.0 to 4.4 (ReplicaManager, Partition, ZkMetadataCache, PartitionStateMachine,
ReplicaStateMachine, ControllerChannelManager). Lines that only repeat others are ignored: most of them are the
per-partition "Cached leader info" and "Received response".

From 3.6 to 4.1 a Follower line states no previous leader epoch: Kafka prints it after it has assigned the new one, which is repeated
in its place. The line is written only if the epoch rises, so another number is the previous epoch. That of a Leader line is correct.
"""

from __future__ import annotations

from typing import ClassVar, Final

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.lines.log4j import (
    IDENTITY,
    NUMBERS,
    TOPIC_PARTITION,
    Log4jLines,
    LogPattern,
    LogPatterns,
    fault,
    first_logger,
    looks_cut,
    message_start,
)
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink

COLUMNS: Final = (
    *IDENTITY, "controller_id", "controller_epoch", "correlation_id", "broker_id", "topic", "topic_id", "partition",
    "leader", "leader_epoch", "partition_epoch", "isr", "replicas", "leader_recovery_state", "start_offset",
    "high_watermark", "previous_epoch", "current_leader_epoch", "current_controller_epoch", "delete_partition", "name", "reason",
)  # fmt: skip

_BROKER: Final = rb"\[Broker id=\d+\] "
_LEADING_BROKER: Final = rb"\[Broker id=(?P<leader>\d+)\] "
_CONTROLLER: Final = rb"\[Controller id=(?P<controller_id>\d+)(?: epoch=(?P<controller_epoch>-?\d+))?\] "
_CORRELATED: Final = rb"from controller (?P<controller_id>-?\d+) with correlation id (?P<correlation_id>\d+)"
_FOR_PARTITION: Final = rb" for partition " + TOPIC_PARTITION
_FROM: Final = _CORRELATED + rb" epoch (?P<controller_epoch>-?\d+)" + _FOR_PARTITION
_RECEIVED: Final = (
    rb" correlation id (?P<correlation_id>\d+) from controller (?P<controller_id>-?\d+)"
    rb" epoch (?P<controller_epoch>-?\d+)"
)
_HANDLED: Final = rb"correlationId (?P<correlation_id>\d+) from controller (?P<controller_id>-?\d+) for \d+ partitions"
_KNOWN_CONTROLLER: Final = rb" Latest known controller epoch is (?P<current_controller_epoch>-?\d+)"
_OLD_CONTROLLER: Final = (
    _CORRELATED + rb" since its controller epoch (?P<controller_epoch>-?\d+) is old\." + _KNOWN_CONTROLLER
)
_OLDER_LEADER_EPOCH: Final = (
    rb" since its associated leader epoch (?P<leader_epoch>-?\d+)"
    rb" is (?:smaller|not higher) than the current leader epoch (?P<current_leader_epoch>-?\d+)"
)
_EQUAL_LEADER_EPOCH: Final = (  # up to 2.2 one message covers older and equal epochs: equal ones print the same number twice
    rb" since its associated leader epoch (?P<leader_epoch>-?\d+)"
    rb" (?:matches the current leader epoch|is not higher than the current leader epoch (?P=leader_epoch))"
)
_OFFLINE: Final = rb" as the local replica for the partition is in an offline log directory"
_EPOCH_AT: Final = rb" starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<start_offset>-?\d+) with "
_HIGH_WATERMARK: Final = rb"high watermark (?P<high_watermark>-?\d+)"
_BEFORE: Final = rb"(?:[^.]*\.[^.]* leader epoch was (?P<previous_epoch>-?\d+)\.)?.*"
_EPOCH_BEFORE: Final = (
    rb"(?: Previous leader (?:\S+ and previous leader epoch was (?!(?P=leader_epoch)\.)|epoch was )"
    rb"(?P<previous_epoch>-?\d+)\.)?.*"
)
_TOPIC_ID: Final = rb" with topic id (?:None|(?:Some\()?(?P<topic_id>[\w-]{22})\)?)"
_STATE: Final = (
    rb"leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>-?\d+), isr=\[?(?P<isr>" + NUMBERS + rb")\]?,"
    rb" (?:partitionEpoch|zkVersion)=(?P<partition_epoch>-?\d+),"
    rb" replicas=\[?(?P<replicas>" + NUMBERS + rb")\]?, [^)]*\)"
)
_TOPIC_AND_STATE: Final = (
    rb"LeaderAndIsrPartitionState\(topicName='(?P<topic>[\w.-]+)', partitionIndex=(?P<partition>\d+),"
    rb" controllerEpoch=-?\d+, " + _STATE
)
_AND_STATE: Final = (
    rb" and partition state LeaderAndIsrPartitionState\(topicName='[\w.-]+', partitionIndex=\d+,"
    rb" controllerEpoch=-?\d+, " + _STATE
)
_AND_REGISTRATION: Final = (
    rb", partition registration PartitionRegistration\(replicas=\[(?P<replicas>" + NUMBERS + rb")\], directories=[^=]*,"
    rb" isr=\[(?P<isr>"
    + NUMBERS
    + rb")\], removingReplicas=[^=]*, addingReplicas=[^=]*, elr=[^=]*, lastKnownElr=[^=]*,"
    rb" leader=(?P<leader>-?\d+), leaderRecoveryState=\w+,"
    rb" leaderEpoch=(?P<leader_epoch>-?\d+), partitionEpoch=(?P<partition_epoch>-?\d+)\) and isNew=(?:true|false)"
)
_STOPPED: Final = (
    rb"StopReplicaPartitionState\(partitionIndex=\d+, leaderEpoch=(?P<leader_epoch>-?\d+),"
    rb" deletePartition=(?P<delete_partition>true|false)\)"
)
_OF_REQUEST: Final = rb" with" + _RECEIVED + _FOR_PARTITION + rb" \(last update controller epoch -?\d+\)"


def _patterns(*patterns: LogPattern) -> LogPatterns:
    return LogPatterns(COLUMNS, patterns)


def _delta(pattern: bytes, name: str) -> LogPattern:
    return LogPattern("METADATA_DELTA", _BROKER + pattern, name=name)


_STARTS: Final = {
    b"Leader ": _patterns(
        LogPattern(  # 3.3 on
            "LEADER_STARTS",
            _LEADING_BROKER + rb"Leader " + TOPIC_PARTITION + _TOPIC_ID + _EPOCH_AT
            + rb"partition epoch (?P<partition_epoch>-?\d+), " + _HIGH_WATERMARK
            + rb", ISR \[(?P<isr>" + NUMBERS + rb")\], adding replicas " + _BEFORE,
        ),
        LogPattern(  # 2.6 to 3.2
            "LEADER_STARTS",
            _LEADING_BROKER + rb"Leader " + TOPIC_PARTITION + _EPOCH_AT + _HIGH_WATERMARK
            + rb" ISR \[(?P<isr>" + NUMBERS + rb")\] addingReplicas " + _BEFORE,
        ),
    ),
    b"Follower ": _patterns(
        LogPattern(  # 3.3 on
            "FOLLOWER_STARTS",
            _BROKER + rb"Follower " + TOPIC_PARTITION + _EPOCH_AT + rb"partition epoch (?P<partition_epoch>-?\d+) and "
            + _HIGH_WATERMARK + rb"\. Current leader is (?P<leader>-?\d+)\." + _EPOCH_BEFORE,
        ),
        LogPattern(  # 2.6 to 3.2
            "FOLLOWER_STARTS",
            _BROKER + rb"Follower " + TOPIC_PARTITION + _EPOCH_AT + _HIGH_WATERMARK + rb"\." + _EPOCH_BEFORE,
        ),
    ),
    b"Creating new partition ": _patterns(
        LogPattern("PARTITION_CREATED", _BROKER + rb"Creating new partition " + TOPIC_PARTITION + _TOPIC_ID + rb"\..*"),
    ),
    b"Expected partition ": _patterns(
        LogPattern(
            "PARTITION_CREATED",
            _BROKER + rb"Expected partition " + TOPIC_PARTITION + _TOPIC_ID + rb" to exist, but it was missing\..*",
        ),
    ),
}  # fmt: skip

_LEADER_AND_ISR: Final = {
    b"Handling LeaderAndIsr request correlationId ": _patterns(
        LogPattern("LEADER_AND_ISR_HANDLING", _BROKER + rb"Handling LeaderAndIsr request " + _HANDLED),
    ),
    b"Finished LeaderAndIsr request in ": _patterns(
        LogPattern("LEADER_AND_ISR_FINISHED", _BROKER + rb"Finished LeaderAndIsr request in \d+ms " + _HANDLED),
    ),
    b"Received LeaderAndIsr request ": _patterns(
        LogPattern("LEADER_AND_ISR_RECEIVED", _BROKER + rb"Received LeaderAndIsr request " + _TOPIC_AND_STATE + _RECEIVED),
        LogPattern(  # up to 2.3
            "LEADER_AND_ISR_RECEIVED",
            _BROKER + rb"Received LeaderAndIsr request PartitionState\(controllerEpoch=-?\d+, " + _STATE + _RECEIVED
            + _FOR_PARTITION,
        ),
    ),
    b"Received LeaderAndIsrRequest ": _patterns(
        LogPattern(
            "LEADER_AND_ISR_IGNORED",
            _BROKER + rb"Received LeaderAndIsrRequest" + _OF_REQUEST
            + rb" but cannot become follower since the new leader (?P<leader>-?\d+) is unavailable\.",
            reason="leader_unavailable",
        ),
    ),
    b"Ignoring LeaderAndIsr request ": _patterns(
        *(
            LogPattern("LEADER_AND_ISR_IGNORED", _BROKER + rb"Ignoring LeaderAndIsr request " + ending, reason=reason)
            for ending, reason in (
                (_FROM + _EQUAL_LEADER_EPOCH, "equal_leader_epoch"),
                (_FROM + _OLDER_LEADER_EPOCH, "stale_leader_epoch"),
                (_OLD_CONTROLLER, "stale_controller_epoch"),
                (_FROM + _OFFLINE, "offline_log_dir"),
                (
                    _FROM + rb" as itself is not in assigned replica list (?P<replicas>" + NUMBERS + rb")",
                    "not_in_replicas",
                ),
            )
        ),
    ),
    b"Topic I": _patterns(
        LogPattern(
            "LEADER_AND_ISR_IGNORED",
            _BROKER + rb"Topic I[Dd] in memory: [\w-]+ does not match the topic I[Dd] for partition " + TOPIC_PARTITION
            + rb" (?:received|provided in the request): (?P<topic_id>[\w-]{22})\.",
            reason="inconsistent_topic_id",
        ),
    ),
}  # fmt: skip

_SKIPPED: Final = tuple(
    pattern
    for role, state in ((rb"leader", rb"the leader"), (rb"follower", rb"a follower"))
    for begin in (_BROKER + rb"Skipped the become-" + role + rb" state change",)
    for pattern in (
        *(
            LogPattern(
                "LEADER_AND_ISR_SKIPPED", begin + rb" for " + TOPIC_PARTITION + _TOPIC_ID + given + ending, reason=reason
            )
            for given in (_AND_STATE, _AND_REGISTRATION)  # 3.3 to 4.1; 4.2 on
            for ending, reason in (
                (rb" since it is already " + state + rb" with leader epoch -?\d+\..*", "already_in_state"),
                (rb" since the " + role + rb" is already at a newer partition epoch -?\d+\.", "newer_partition_epoch"),
            )
        ),
        LogPattern(  # 2.0 to 3.2, ZooKeeper
            "LEADER_AND_ISR_SKIPPED",
            begin + rb" after marking its partition as " + role + _OF_REQUEST
            + rb" since (?:it is already the leader for the partition\.|"
            rb"the new leader (?P<leader>-?\d+) is the same as the old leader)",
            reason="already_in_state",
        ),
        LogPattern(
            "LEADER_AND_ISR_SKIPPED",
            begin + _OF_REQUEST
            + rb"(?: with leader (?P<leader>-?\d+))? since the replica for the partition is offline .*",
            reason="offline_log_dir",
        ),
        LogPattern(
            "LEADER_AND_ISR_SKIPPED",
            begin + rb" for " + TOPIC_PARTITION + _TOPIC_ID + rb" due to (?:a storage|disk) error .*",
            reason="offline_log_dir",
        ),
    )
)  # fmt: skip

_SKIPPED_BY_KRAFT: Final = (  # 3.0 to 3.2
    LogPattern(
        "LEADER_AND_ISR_SKIPPED",
        _BROKER + rb"Skipped the become-follower state change after marking its partition as follower" + _FOR_PARTITION
        + rb" with id (?P<topic_id>[\w-]{22})" + _AND_STATE + rb"\.",
        reason="already_in_state",
    ),
    LogPattern(
        "LEADER_AND_ISR_SKIPPED",
        _BROKER + rb"Skipped the become-leader state change for " + TOPIC_PARTITION + _TOPIC_ID
        + rb" because this partition is already a local leader\.",
        reason="already_in_state",
    ),
)  # fmt: skip

_ID_ASSIGNED: Final = LogPattern(  # 3.0 to 3.9: same leader epoch, and the log had no topic id
    "LEADER_AND_ISR_SKIPPED",
    _BROKER + rb"Updating log for " + TOPIC_PARTITION + rb" to assign topic ID (?P<topic_id>[\w-]{22}) from LeaderAndIsr request "
    + _CORRELATED + rb" epoch (?P<controller_epoch>-?\d+)",
    reason="topic_id_assigned",
)  # fmt: skip

# 2.7 to 3.9, ZooKeeper: the settings of the topic could not be read. The line states the leader epoch that the replica keeps, not the
# one that was sent (Partition.makeLeader, makeFollower).
_ZOOKEEPER_FAILED: Final = LogPattern(
    "LEADER_AND_ISR_SKIPPED",
    _BROKER + rb"A ZooKeeper client exception has occurred(?: and makeLeader|\. makeFollower) will be skipping the state change for"
    rb" the partition " + TOPIC_PARTITION + rb" with leader epoch: -?\d+\.? ?",
    reason="zookeeper_error",
)  # fmt: skip

_STOP_REPLICA: Final = {
    b"Handling StopReplica request correlationId ": _patterns(
        LogPattern("STOP_REPLICA_HANDLING", _BROKER + rb"Handling StopReplica request " + _HANDLED),
    ),
    b"Received StopReplica request ": _patterns(
        LogPattern(
            "STOP_REPLICA_RECEIVED", _BROKER + rb"Received StopReplica request " + _STOPPED + _RECEIVED + _FOR_PARTITION
        ),
    ),
    b"Handling stop replica ": _patterns(  # up to 2.5
        LogPattern(
            "STOP_REPLICA_RECEIVED",
            _BROKER + rb"Handling stop replica \(delete=(?P<delete_partition>true|false)\)" + _FOR_PARTITION,
        ),
    ),
    b"Ignoring StopReplica request (delete=": _patterns(
        *(
            LogPattern(
                "STOP_REPLICA_IGNORED",
                _BROKER + rb"Ignoring StopReplica request \(delete=(?P<delete_partition>true|false)\) "
                + _FROM + ending,
                reason=reason,
            )
            for ending, reason in (
                (_EQUAL_LEADER_EPOCH, "equal_leader_epoch"),
                (_OLDER_LEADER_EPOCH, "stale_leader_epoch"),
                (_OFFLINE, "offline_log_dir"),
                (rb" due to an unexpected .*", "unexpected_error"),
            )
        ),
    ),
    b"Ignoring StopReplica request from ": _patterns(
        LogPattern(
            "STOP_REPLICA_IGNORED",
            _BROKER + rb"Ignoring StopReplica request " + _OLD_CONTROLLER,
            reason="stale_controller_epoch",
        ),
    ),
    b"Received stop replica request from an old ": _patterns(  # up to 2.5
        LogPattern(
            "STOP_REPLICA_IGNORED",
            _BROKER + rb"Received stop replica request from an old controller epoch (?P<controller_epoch>-?\d+)\."
            + _KNOWN_CONTROLLER,
            reason="stale_controller_epoch",
        ),
    ),
    b"Sending StopReplica request StopReplicaPartitionState(": _patterns(
        LogPattern(
            "STOP_REPLICA_SENDING",
            _CONTROLLER + rb"Sending StopReplica request " + _STOPPED
            + rb" to broker (?P<broker_id>\d+)" + _FOR_PARTITION,
        ),
    ),
}  # fmt: skip

_METADATA: Final = {
    b"Add ": _patterns(
        LogPattern(
            "UPDATE_METADATA_APPLIED",
            _BROKER + rb"Add \d+ partitions and deleted \d+ partitions from metadata cache in response to"
            rb" UpdateMetadata request sent by controller (?P<controller_id>-?\d+) epoch (?P<controller_epoch>-?\d+)"
            rb" with correlation id (?P<correlation_id>\d+)",
        ),
    ),
    b"Received update metadata request ": _patterns(
        LogPattern(
            "UPDATE_METADATA_IGNORED",
            _BROKER + rb"Received update metadata request with correlation id (?P<correlation_id>\d+) from an old"
            rb" controller (?P<controller_id>-?\d+) with epoch (?P<controller_epoch>-?\d+)\." + _KNOWN_CONTROLLER,
            reason="stale_controller_epoch",
        ),
    ),
    b"Transitioning ": _patterns(
        _delta(rb"Transitioning \d+ partition\(s\) to local leaders\.", "transitioning_leaders"),
        _delta(rb"Transitioning \d+ partition\(s\) to local followers\.", "transitioning_followers"),
    ),
    b"Stopped fetchers as part of become-follower for ": _patterns(
        _delta(rb"Stopped fetchers as part of become-follower for \d+ partitions", "stopped_fetchers"),
    ),
    b"Started fetchers as part of become-follower for ": _patterns(
        _delta(rb"Started fetchers as part of become-follower for \d+ partitions", "started_fetchers"),
    ),
}  # fmt: skip

_PARTITION_STATE: Final = {
    b"Changed partition ": _patterns(
        LogPattern(
            "PARTITION_STATE_CHANGED",
            _CONTROLLER + rb"Changed partition " + TOPIC_PARTITION + rb" from \w+ to \w+ with state"
            rb" LeaderAndIsr\(leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>-?\d+),"
            rb" (?:isr|isrWithBrokerEpoch)=List\((?P<isr>[^()]*(?:\([^()]*\)[^()]*)*)\),"
            rb"(?: leaderRecoveryState=(?P<leader_recovery_state>RECOVERED|RECOVERING),)?"
            rb" (?:partitionEpoch|zkVersion)=(?P<partition_epoch>-?\d+)\)",
        ),
    ),
    b"Partition ": _patterns(
        LogPattern(
            "PARTITION_STATE_CHANGED",
            _CONTROLLER + rb"Partition " + TOPIC_PARTITION + rb" state changed to"
            rb" \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[-\d,]*),"
            rb"(?:LeaderRecoveryState:(?P<leader_recovery_state>RECOVERED|RECOVERING),)?"
            rb"LeaderEpoch:(?P<leader_epoch>-?\d+),(?:ZkVersion:(?P<partition_epoch>-?\d+),)?"
            rb"ControllerEpoch:-?\d+\) after .*",
        ),
    ),
    b"Sent LeaderAndIsr request ": _patterns(  # a reassignment raises the leader epoch; TRACE up to 2.4
        LogPattern(
            "PARTITION_STATE_CHANGED",
            _CONTROLLER + rb"Sent LeaderAndIsr request \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[-\d,]*),"
            rb"(?:LeaderRecoveryState:(?P<leader_recovery_state>RECOVERED|RECOVERING),)?"
            rb"LeaderEpoch:(?P<leader_epoch>-?\d+),(?:ZkVersion:(?P<partition_epoch>-?\d+),)?"
            rb"ControllerEpoch:-?\d+\) with new .* to leader -?\d+ for partition being reassigned " + TOPIC_PARTITION,
        ),
    ),
}  # fmt: skip

LINES: Final = {
    **_STARTS,
    **_LEADER_AND_ISR,
    b"Skipped the become-": _patterns(*_SKIPPED, *_SKIPPED_BY_KRAFT),
    b"Updating log for ": _patterns(_ID_ASSIGNED),
    b"A ZooKeeper client exception ": _patterns(_ZOOKEEPER_FAILED),
    **_STOP_REPLICA,
    **_METADATA,
    **_PARTITION_STATE,
}
"""Patterns by the beginning of the message after its `[...] ` prefix."""

_UNLESS: Final = {
    b"Handling LeaderAndIsr request correlationId ": (
        b" starting the become-",
    ),  # per partition; the line of its start states more
    b"Changed partition ": (
        b" state from ",  # new, offline or non-existent: without leader and ISR
        b" to OnlinePartition with leader ",  # up to 1.0: a leader without its epoch
    ),
}


def _by_first_word(lines: dict[bytes, LogPatterns]) -> dict[bytes, tuple[tuple[bytes, LogPatterns], ...]]:
    by_word: dict[bytes, tuple[tuple[bytes, LogPatterns], ...]] = {}
    for beginning, patterns in lines.items():
        word = beginning.split(b" ", 1)[0]
        by_word[word] = (*by_word.get(word, ()), (beginning, patterns))
    return by_word


_BY_FIRST_WORD: Final = _by_first_word(LINES)


def recognise(head: bytes) -> bool:
    """The first whole dated line is one of state.change.logger."""
    return first_logger(head) == b"state.change.logger"


class StateChangeLog(Log4jLines):
    """One row per line that is an event; clock: line order within the file, time to the millisecond as printed."""

    kind: ClassVar[str] = "state-change-log"
    splittable: ClassVar[bool] = True

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(COLUMNS, file, sink)

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        start = message_start(text)
        if not start:
            if not looks_cut(text):
                return LineOutcome.IGNORED
            return self._quarantine(text, byte_offset, line_in_split, fault(text))
        if not text.endswith(b")"):
            return self._quarantine(text, byte_offset, line_in_split, fault(text))
        begin = text.find(b"] ", start) + 2
        for beginning, patterns in _BY_FIRST_WORD.get(text[begin : text.find(b" ", begin)], ()):
            if text.startswith(beginning, begin):
                if any(mark in text for mark in _UNLESS.get(beginning, ())):
                    break
                return self._event(patterns, text, start, byte_offset, line_in_split)
        return LineOutcome.IGNORED


DECODER: type[LineDecoder] = StateChangeLog
