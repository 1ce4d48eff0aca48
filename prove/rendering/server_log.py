"""Lines of server.log: about processes whole, about ISRs, truncations and high watermarks without time, level and class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prove.history import (
    HighWatermarkLowered,
    IsrLine,
    IsrReset,
    LogLine,
    LogStartRaised,
    LogTruncated,
    ProcessStarts,
    Release,
    StrayFound,
    StrayRenamed,
    since,
)
from prove.rendering.lines import SERVER, Line, logged

APP_INFO: Final = "org.apache.kafka.common.utils.AppInfoParser"


def isr_reset(event: IsrReset, *, with_epochs: bool) -> str:
    """Partition.handleAlterPartitionError. with_epochs: the ISR has broker epochs (3.5 on)."""
    refused, added = [*event.refused], [member for member in event.refused if member not in event.isr]
    committed = f"CommittedPartitionState(isr=Set({', '.join(map(str, event.isr))}), leaderRecoveryState=RECOVERED)"
    members = f"isr=List({', '.join(map(str, refused))})"
    if with_epochs:
        states = ", ".join(f"BrokerState(brokerId={member}, brokerEpoch=-1)" for member in refused)
        members = f"isrWithBrokerEpoch=List({states})"
    sent = (
        f"LeaderAndIsr(leader={event.node}, leaderEpoch={event.leader_epoch}, {members}, leaderRecoveryState=RECOVERED,"
        f" partitionEpoch={event.partition_epoch})"
    )
    kind = f"PendingExpandIsr(newInSyncReplicaId={added[0]}" if added else "PendingShrinkIsr(outOfSyncReplicaIds=Set()"
    code = {107: "INELIGIBLE_REPLICA", 55: "OPERATION_NOT_ATTEMPTED"}[event.error_code]
    return (
        f"[Partition {event.topic}-{event.partition} broker={event.node}] Failed to alter partition to {kind},"
        f" sentLeaderAndIsr={sent}, leaderRecoveryState=RECOVERED, lastCommittedState={committed}) since the controller rejected the"
        f" request with {code}. Partition state has been reset to the latest committed state {committed}."
    )


def log_truncated(event: LogTruncated) -> str:
    """AbstractFetcherThread.maybeTruncateToEpochEndOffsets, 3.1 on."""
    end = (
        f"EpochEndOffset(errorCode=0, partition={event.partition}, leaderEpoch={event.diverging_epoch},"
        f" endOffset={event.diverging_end_offset})"
    )
    return (
        f"[ReplicaFetcher replicaId={event.node}, leaderId={event.leader}, fetcherId=0] Truncating partition"
        f" {event.topic}-{event.partition} with TruncationState(offset={event.offset}, completed=true) due to leader epoch and"
        f" offset {end}"
    )


def high_watermark_lowered(event: HighWatermarkLowered, *, unified: bool, bracketed: bool) -> tuple[str, str]:
    """UnifiedLog.updateHighWatermarkMetadata: text and class. unified: 3.1 on. bracketed: how 3.5 and later print an offset."""
    name = "UnifiedLog" if unified else "Log"
    before, after = (
        f"(offset={offset}{',' if bracketed else ''} segment=[0:{70 * offset}])"
        for offset in (event.before, event.after)
    )
    text = (
        f"[{name} partition={event.topic}-{event.partition}, dir=/var/kafka] Non-monotonic update of high watermark from {before}"
        f" to {after}"
    )
    return text, f"kafka.log.{name}"


def log_start_raised(event: LogStartRaised, *, unified: bool) -> tuple[str, str]:
    """UnifiedLog.maybeIncrementLogStartOffset: text and class. unified: 3.1 on."""
    name = "UnifiedLog" if unified else "Log"
    reason = "leader offset increment" if event.follows else "client delete records request"
    text = (
        f"[{name} partition={event.topic}-{event.partition}, dir=/var/kafka] Incremented log start offset to {event.offset} due to"
        f" {reason}"
    )
    return text, f"kafka.log.{name}"


def isr_line(event: IsrLine, *, version: tuple[int, ...]) -> str:
    """Partition, ZkIsrManager: a leader's line about an ISR that it writes to ZooKeeper."""
    before, isr = (",".join(map(str, one)) for one in (event.before, event.isr))
    if event.kind == "expanding":
        text = f"Expanding ISR from {before} to {isr}"
    elif event.kind == "shrinking":
        text = (
            f"Shrinking ISR from {before} to {isr}. Leader: (highWatermark: 40, endOffset: 50). Out of sync replicas:"
            " (brokerId: 9, endOffset: 30)."
        )
    elif event.kind == "skipped":
        text = f"Cached zkVersion [{event.partition_epoch}] not equal to that in zookeeper, skip updating ISR"
    elif version < (2, 8):
        text = f"ISR updated to [{isr}] and zkVersion updated to [{event.partition_epoch}]"
    elif version < (3, 3):
        text = f"ISR updated to {isr} and version updated to [{event.partition_epoch}]"
    else:
        text = f"ISR updated to {isr}  and version updated to {event.partition_epoch}"
    return f"[Partition {event.topic}-{event.partition} broker={event.node}] {text}"


def starting(event: ProcessStarts, release: Release) -> Iterator[Line]:
    """The lines of a process that starts."""
    if release.family == "kraft" and event.broker_epoch >= 0:
        text = f"[BrokerServer id={event.node}] Transition from SHUTDOWN to STARTING"
        yield logged(SERVER, event.at, "INFO", text, "kafka.server.BrokerServer", event.id)
        yield logged(SERVER, event.at + 5, "INFO", f"Kafka version: {event.version}", APP_INFO)
        return
    if release.family == "kraft":
        text = f"[ControllerServer id={event.node}] Starting controller"
        yield logged(SERVER, event.at, "INFO", text, "kafka.server.ControllerServer")
        yield logged(SERVER, event.at + 5, "INFO", f"Kafka version: {event.version}", APP_INFO, event.id)
        return
    at, node = event.at, event.node
    yield logged(SERVER, at, "INFO", "starting", "kafka.server.KafkaServer", event.id)
    yield logged(SERVER, at + 1, "INFO", "Connecting to zookeeper on 127.0.0.1:2181", "kafka.server.KafkaServer")
    yield logged(SERVER, at + 500, "INFO", registered(node, event.broker_epoch), "kafka.zk.KafkaZkClient")
    yield logged(SERVER, at + 600, "INFO", f"Kafka version: {event.version}", APP_INFO)
    yield logged(SERVER, at + 601, "INFO", f"[KafkaServer id={node}] started", "kafka.server.KafkaServer")


def registered(node: int, broker_epoch: int) -> str:
    """KafkaZkClient.registerBroker: the text of a broker that has registered in ZooKeeper."""
    return (
        f"Registered broker {node} at path /brokers/ids/{node} with addresses: PLAINTEXT://127.0.0.1:{9090 + node},"
        f" czxid (broker epoch): {broker_epoch}"
    )


APPENDED: Final = "appended"
CONFLICT: Final = "conflict"
DISORDER: Final = "disorder"
END_CUT: Final = "end cut"
START_CUT: Final = "start cut"
TRUNCATED: Final = "truncated"
EMPTIED: Final = "emptied"
SEGMENTS_DELETED: Final = "segments deleted"
RESET_TO_START: Final = "reset to start"
RESET_TO_END: Final = "reset to end"
LOADED: Final = "loaded"
CREATED: Final = "created"
DELETED: Final = "deleted"
FUTURE_CREATED: Final = "future created"
FUTURE_PROMOTED: Final = "future promoted"
_LEVELS: Final = {
    CONFLICT: "WARN",
    DISORDER: "WARN",
    APPENDED: "DEBUG",
    END_CUT: "DEBUG",
    START_CUT: "DEBUG",
    EMPTIED: "DEBUG",
}
_IN_CACHE: Final = (APPENDED, CONFLICT, DISORDER, END_CUT, START_CUT)
_IN_LOG: Final = (TRUNCATED, EMPTIED, SEGMENTS_DELETED)
_IN_FETCHER: Final = (RESET_TO_START, RESET_TO_END)


def log_line(event: LogLine, release: Release) -> Line:
    """A line of LeaderEpochFileCache, Log or UnifiedLog, LogManager, Partition, or ReplicaFetcherThread."""
    name = f"{event.topic}-{event.partition}"
    log = "UnifiedLog" if since(release.version, 3, 1) else "Log"
    brackets = "[]" if since(release.version, 4, 1) else "()"
    entry = f"EpochEntry{brackets[0]}epoch={event.epoch}, startOffset={event.offset}{brackets[1]}"
    size = f"Cache now contains {event.entries} entries."
    text = {
        APPENDED: f"Appended new epoch entry {entry}. {size}",
        CONFLICT: f"New epoch entry {entry} caused truncation of conflicting entries ListBuffer({entry}). {size}",
        DISORDER: f"Received leader epoch assignment {entry} which has an epoch less than the epoch of the latest entry"
        f" {entry}. This implies messages have arrived out of order.",
        END_CUT: f"Cleared entries ListBuffer({entry}) from epoch cache after truncating to end offset {event.offset}, leaving"
        f" {event.entries} entries in the cache.",
        START_CUT: f"Cleared entries ListBuffer({entry}) and rewrote first entry {entry} after truncating to start offset"
        f" {event.offset}, leaving {event.entries} in the cache.",
        TRUNCATED: f"Truncating to offset {event.offset}",
        EMPTIED: f"Truncate and start at offset {event.offset}",
        SEGMENTS_DELETED: "Deleting segments as part of log truncation: LogSegment(baseOffset=0, size=70)",
        RESET_TO_START: f"Reset fetch offset for partition {name} from 9 to current leader's start offset {event.offset}",
        RESET_TO_END: f"Reset fetch offset for partition {name} from 9 to current leader's latest offset {event.offset}",
        LOADED: f"Log loaded for partition {name} with initial high watermark {event.offset}",
        CREATED: f"Created log for partition {name} in /var/kafka/{name} with properties {{}}",
        DELETED: f"Log for partition {name} is renamed to /var/kafka/{name}.{'0' * 31}1-delete and is scheduled for deletion",
        FUTURE_CREATED: f"Created log for partition {name} in /var/kafka-2/{name}.{'0' * 31}2-future with properties {{}}",
        FUTURE_PROMOTED: f"The current replica is successfully replaced with the future replica for {name}",
    }[event.kind]  # fmt: skip
    if event.kind in _IN_CACHE:
        text, logger = f"[LeaderEpochCache {name}] {text}", "kafka.server.epoch.LeaderEpochFileCache"
    elif event.kind in _IN_LOG:
        text, logger = f"[{log} partition={name}, dir=/var/kafka] {text}", f"kafka.log.{log}"
    elif event.kind in _IN_FETCHER:
        text = f"[ReplicaFetcher replicaId={event.node}, leaderId=2, fetcherId=0] {text}"
        logger = "kafka.server.ReplicaFetcherThread"
    elif event.kind == LOADED:
        text, logger = f"[Partition {name} broker={event.node}] {text}", "kafka.cluster.Partition"
    else:
        logger = "kafka.log.LogManager"
    return logged(SERVER, event.at, _LEVELS.get(event.kind, "INFO"), text, logger, event.id)


def stray_found(event: StrayFound, release: Release) -> Line:
    """A line of BrokerMetadataPublisher (3.6) or LogManager about a folder that is stray."""
    topic_id = f", topicId={event.topic_id}" if event.topic_id else ""
    log = (
        f"Log(dir=/var/kafka/{event.topic}-{event.partition}{topic_id}, topic={event.topic}, partition={event.partition},"
        " highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=0)"
    )
    text = {
        "deleted": f"Found stray log dir {log}: the topicId {event.topic_id} does not exist in the metadata image",
        "unassigned": f"Found stray log dir {log}: the current replica assignment [2, 3] does not contain the local brokerId"
        f" {event.node}.",
        "no id": f"The topicId does not exist in {log}, treat it as a stray log",
    }[event.reason]  # fmt: skip
    logger = (
        "kafka.log.LogManager$" if since(release.version, 3, 7) else "kafka.server.metadata.BrokerMetadataPublisher$"
    )
    return logged(SERVER, event.at, "INFO", text, logger, event.id)


def stray_renamed(event: StrayRenamed, release: Release) -> Line:
    """A line of LogManager about the folder's new name. Up to 3.6 a KRaft broker deletes it."""
    name = f"{event.topic}-{event.partition}"
    folder = f"/var/kafka/{name}.{'0' * 31}4"
    level, text = "INFO", f"Log for partition {name} is renamed to {folder}-delete and is scheduled for deletion"
    if since(release.version, 3, 7):
        level, text = "WARN", f"Log in /var/kafka/{name} marked stray and renamed to {folder}-stray"
    return logged(SERVER, event.at, level, text, "kafka.log.LogManager", event.id)
