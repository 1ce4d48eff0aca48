"""Writes a history as the files that Kafka would have written, each line in the layout of the history's release."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from prove.coordination import Exchange, Initialized
from prove.history import (
    CLIENT_HOST,
    AlterPartition,
    BatchRun,
    BrokerRegistration,
    CheckpointEntry,
    ClientLine,
    Control,
    Decision,
    Elected,
    Event,
    GroupOffset,
    Heartbeat,
    HighWatermarkLowered,
    History,
    IsrLine,
    IsrReset,
    IsrUpdated,
    LiveBrokersLine,
    LogLine,
    LogStartRaised,
    LogTruncated,
    MetadataAnswer,
    OffsetCheckpoint,
    PartitionCreated,
    PartitionMetadata,
    ProcessStarts,
    Produced,
    Query,
    RaftRequest,
    RaftTransition,
    Record,
    RecordsDeleted,
    Registered,
    Release,
    SessionFetch,
    SettingPrinted,
    ShutsDown,
    Started,
    StrayFound,
    StrayRenamed,
    since,
)
from prove.rendering.client_log import client_line
from prove.rendering.client_requests import group_offset, metadata_answer, produced, query, records_deleted
from prove.rendering.control_requests import control_request
from prove.rendering.controller_requests import alter_partition, heartbeat, live_brokers, registration
from prove.rendering.coordinators import initialized, request_and_response
from prove.rendering.fetch_sessions import session_fetch
from prove.rendering.lines import CONTROLLER, METADATA, REQUESTS, SERVER, STATE_CHANGE, Line, logged
from prove.rendering.metadata_log import record_lines
from prove.rendering.quorum import raft_request, raft_transition, vote_answered
from prove.rendering.request_log import KRAFT_RELEASE, completed
from prove.rendering.segments import batches
from prove.rendering.server_log import (
    high_watermark_lowered,
    isr_line,
    isr_reset,
    log_line,
    log_start_raised,
    log_truncated,
    registered,
    starting,
    stray_found,
    stray_renamed,
)
from prove.rendering.state_change_log import decision, replica_start, state_changes

Places = dict[tuple[str, int], int]
"""(file's path in the capture, byte offset) -> id of the event whose own line is there."""


def write(history: History, folder: Path) -> Places:
    """Write the files of a history below a folder, and return where its events are."""
    places: Places = {}
    for node in history.nodes:
        lines: dict[str, list[Line]] = defaultdict(list)
        for event in history.of(node):
            for line in lines_of(event, history.release):
                lines[line.file].append(line)
        for file, of_file in lines.items():
            path = f"clients/{file}" if node == CLIENT_HOST else f"node-{node}/{file}"
            content = bytearray()
            # each file is in the order in which its appender was called; metadata records have an order of their own
            for line in of_file if file == METADATA else sorted(of_file, key=lambda line: line.at):
                if line.own is not None:
                    places[path, len(content)] = line.own
                content += line.text.encode() + b"\n" if line.raw is None else line.raw
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(bytes(content))
    return places


def lines_of(event: Event, release: Release) -> Iterator[Line]:
    """The lines that an event leaves, in the order in which they are written."""
    match event:
        case ProcessStarts():
            yield from starting(event, release)
        case ShutsDown():
            for text in ("shutting down", "Starting controlled shutdown"):
                yield _at_info(SERVER, event, f"[KafkaServer id={event.node}] {text}", "kafka.server.KafkaServer")
        case Control():
            yield from state_changes(event, release)
            yield Line(REQUESTS, event.at, control_request(event, release), event.id)
        case ClientLine():
            yield client_line(event)
        case Decision():
            yield decision(event, release)
        case LogLine():
            yield log_line(event, release)
        case StrayFound():
            yield stray_found(event, release)
        case StrayRenamed():
            yield stray_renamed(event, release)
        case Record():
            yield from record_lines(event, release)
        case BatchRun() | CheckpointEntry() | OffsetCheckpoint() | PartitionMetadata():
            yield from _in_data_directory(event)
        case _:
            yield from _while_handled(event, release)
            request = _request(event, release)
            yield _own_line(event, release) if request is None else Line(REQUESTS, event.at, request, event.id)


def _at_info(file: str, event: Event, text: str, logger: str, own: int | None = None) -> Line:
    return logged(file, event.at, "INFO", text, logger, own)


def _in_data_directory(event: BatchRun | CheckpointEntry | OffsetCheckpoint | PartitionMetadata) -> Iterator[Line]:
    """The batches of a segment, or the lines of a checkpoint."""
    match event:
        case BatchRun():
            path = f"{event.folder}/{event.segment:020d}.log"
            for number, batch in enumerate(batches(event)):
                yield Line(path, event.at, "", event.id if number == 0 else None, batch)
        case CheckpointEntry():
            file = f"{event.folder}/leader-epoch-checkpoint"
            for text in ("0", str(event.count)) if event.number == 0 else ():
                yield Line(file, event.at, text)
            yield Line(file, event.at, f"{event.epoch} {event.offset}", event.id)
        case OffsetCheckpoint():
            entries = [f"{topic} {partition} {offset}" for topic, partition, offset in event.high_watermarks]
            for text in ("0", str(len(entries)), *entries):
                yield Line("replication-offset-checkpoint", event.at, text)
        case PartitionMetadata():
            for text in ("version: 0", f"topic_id: {event.topic_id}"):
                yield Line(f"{event.folder}/partition.metadata", event.at, text)


def _request(event: Event, release: Release) -> str | None:
    """The line of the request log that the event is; None if it is another line."""
    match event:
        case Query():
            return query(event, release)
        case SessionFetch():
            return completed(event, *session_fetch(event), event.arrived, 51_000, release)
        case GroupOffset():
            return group_offset(event, release)
        case Produced():
            return produced(event, release)
        case RecordsDeleted():
            return records_deleted(event, release)
        case MetadataAnswer():
            return metadata_answer(event, release)
        case AlterPartition():
            return alter_partition(event, release)
        case BrokerRegistration():
            return registration(event)
        case Heartbeat():
            return heartbeat(event)
        case RaftRequest():
            ends = f"127.0.0.1:{21000 + event.node}-127.0.0.1:{60000 + event.sender}-0-1"
            return completed(event, *raft_request(event), event.arrived, 0, KRAFT_RELEASE, ends)
        case Exchange():
            header = (event.api, event.version, event.correlation_id, event.client_id)
            request, response = request_and_response(event, release)
            return completed(event, header, request, response, event.arrived, event.connection, release)
    return None


def _while_handled(event: Event, release: Release) -> Iterator[Line]:
    """What the node logs before it answers the request that the event is."""
    match event:
        case RaftRequest(api="VOTE", error_code=0):
            text = vote_answered(event, release.version)
            yield logged(SERVER, event.at - 1, "INFO", text, "org.apache.kafka.raft.KafkaRaftClient")


def _own_line(event: Event, release: Release) -> Line:
    """The one line of server.log, controller.log or state-change.log that the event is."""
    match event:
        case Registered():
            text = registered(event.node, event.broker_epoch)
            return _at_info(SERVER, event, text, "kafka.zk.KafkaZkClient")
        case Started():
            assert event.start is not None
            text = f"[Broker id={event.node}] {replica_start(event.start, release)}"
            return _at_info(STATE_CHANGE, event, text, "state.change.logger", event.id)
        case PartitionCreated():
            text = f"[Broker id={event.node}] Creating new partition {event.topic}-{event.partition} with topic id {event.topic_id}."
            return _at_info(STATE_CHANGE, event, text, "state.change.logger", event.id)
        case IsrUpdated():
            text = (
                f"[Partition {event.topic}-{event.partition} broker={event.node}] ISR updated to {','.join(map(str, event.isr))} "
                f" and version updated to {event.partition_epoch}"
            )
            return _at_info(SERVER, event, text, "kafka.cluster.Partition", event.id)
        case IsrReset():
            text = isr_reset(event, with_epochs=since(release.version, 3, 5))
            return _at_info(SERVER, event, text, "kafka.cluster.Partition", event.id)
        case IsrLine():
            text = isr_line(event, version=tuple(int(part) for part in release.version.split(".")))
            return _at_info(SERVER, event, text, "kafka.cluster.Partition", event.id)
        case LogTruncated():
            return _at_info(SERVER, event, log_truncated(event), "kafka.server.ReplicaFetcherThread", event.id)
        case HighWatermarkLowered():
            unified, bracketed = since(release.version, 3, 1), since(release.version, 3, 5)
            text, logger = high_watermark_lowered(event, unified=unified, bracketed=bracketed)
            return logged(SERVER, event.at, "WARN", text, logger, event.id)
        case LogStartRaised():
            return _at_info(SERVER, event, *log_start_raised(event, unified=since(release.version, 3, 1)), event.id)
        case SettingPrinted():
            text = f"KafkaConfig values: \n\tbroker.id = {event.node}\n\t{event.name} = {event.value}\n"
            return _at_info(SERVER, event, text, "kafka.server.KafkaConfig", event.id)
        case RaftTransition():
            text = raft_transition(event, release.version)
            return _at_info(SERVER, event, text, "org.apache.kafka.raft.QuorumState", event.id)
        case Initialized():
            logger = "kafka.coordinator.transaction.TransactionCoordinator"
            return _at_info(SERVER, event, initialized(event), logger, event.id)
        case Elected():
            text = (
                f"[Controller id={event.node}] {event.node} successfully elected as the controller. Epoch incremented to"
                f" {event.controller_epoch} and epoch zk version is now {event.controller_epoch}"
            )
            return _at_info(CONTROLLER, event, text, "kafka.controller.KafkaController", event.id)
        case LiveBrokersLine():
            text = f"[Controller id={event.node}] {live_brokers(event)}"
            return _at_info(CONTROLLER, event, text, "kafka.controller.KafkaController", event.id)
    raise TypeError(event)
