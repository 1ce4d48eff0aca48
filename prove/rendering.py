"""Writes a history as the files that Kafka would have written, each line in the layout of the history's release.

The layouts are those of Kafka's sources at the release's tag, and of recorded lines: ReplicaManager, Partition, ZkMetadataCache,
LeaderAndIsr, KafkaController, KafkaZkClient, RequestConvertToJson (2.8 on), RequestChannel (up to 2.7), DumpLogSegments.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from prove.coordination import Exchange
from prove.coordinator_lines import request_and_response
from prove.history import (
    FETCH,
    KRAFT,
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    STOP_REPLICA,
    UNKNOWN_SOFTWARE,
    UPDATE_METADATA,
    AlterPartition,
    BrokerRegistration,
    Control,
    CopiedRecord,
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
    LogTruncated,
    MetadataAnswer,
    ProcessStarts,
    Produced,
    Query,
    RaftRequest,
    RaftTransition,
    Record,
    Registered,
    Release,
    SessionFetch,
    SettingPrinted,
    ShutsDown,
    Start,
    Started,
    State,
    Stop,
)
from prove.quorum_lines import CONTROL_RECORDS, control_record, raft_request, raft_transition
from prove.server_log_lines import high_watermark_lowered, isr_line, isr_reset, log_truncated
from prove.session_lines import session_fetch

API_KEYS: Final = {
    FETCH: 1,
    LIST_OFFSETS: 2,
    LEADER_AND_ISR: 4,
    STOP_REPLICA: 5,
    UPDATE_METADATA: 6,
    OFFSET_COMMIT: 8,
    OFFSET_FETCH: 9,
    OFFSET_FOR_LEADER_EPOCH: 23,
    "VOTE": 52,
    "BEGIN_QUORUM_EPOCH": 53,
    "END_QUORUM_EPOCH": 54,
    "FETCH_SNAPSHOT": 59,
    "ALTER_PARTITION": 56,
    "BROKER_REGISTRATION": 62,
    "BROKER_HEARTBEAT": 63,
    "PRODUCE": 0,
    "METADATA": 3,
    "INIT_PRODUCER_ID": 22,
    "ADD_PARTITIONS_TO_TXN": 24,
    "ADD_OFFSETS_TO_TXN": 25,
    "END_TXN": 26,
    "WRITE_TXN_MARKERS": 27,
    "ALLOCATE_PRODUCER_IDS": 67,
    "JOIN_GROUP": 11,
    "SYNC_GROUP": 14,
    "TXN_OFFSET_COMMIT": 28,
    "CONSUMER_GROUP_HEARTBEAT": 68,
    "INITIALIZE_SHARE_GROUP_STATE": 83,
    "READ_SHARE_GROUP_STATE": 84,
    "WRITE_SHARE_GROUP_STATE": 85,
    "DELETE_SHARE_GROUP_STATE": 86,
}
NO_ID: Final = "A" * 22
STATE_CHANGE: Final = "state-change.log"
REQUESTS: Final = "kafka-request.log"
SERVER: Final = "server.log"
CONTROLLER: Final = "controller.log"
METADATA: Final = "cluster-metadata.dump.txt"


@dataclass(frozen=True)
class Line:
    """A line of a host's log. own: the id of the event whose own line it is, or None."""

    file: str
    at: int
    text: str
    own: int | None = None


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
            path = f"node-{node}/{file}"
            content = bytearray()
            # each file is in the order in which its appender was called; metadata records have an order of their own
            for line in of_file if file == METADATA else sorted(of_file, key=lambda line: line.at):
                if line.own is not None:
                    places[path, len(content)] = line.own
                content += line.text.encode() + b"\n"
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(bytes(content))
    return places


def lines_of(event: Event, release: Release) -> Iterator[Line]:
    """The lines that an event leaves, in the order in which they are written."""
    match event:
        case ProcessStarts():
            yield from _starting(event, release)
        case Registered():
            yield _line(SERVER, event.at, "INFO", _registered(event.node, event.broker_epoch), "kafka.zk.KafkaZkClient")
        case ShutsDown():
            for text in ("shutting down", "Starting controlled shutdown"):
                yield _line(
                    SERVER, event.at, "INFO", f"[KafkaServer id={event.node}] {text}", "kafka.server.KafkaServer"
                )
        case Control():
            yield from _state_changes(event, release)
            yield Line(REQUESTS, event.at, _control_request(event, release), event.id)
        case Query():
            yield Line(REQUESTS, event.at, _query(event, release), event.id)
        case Started():
            assert event.start is not None
            text = f"[Broker id={event.node}] {_start(event.start, release)}"
            yield _line(STATE_CHANGE, event.at, "INFO", text, "state.change.logger", event.id)
        case IsrUpdated():
            text = (
                f"[Partition {event.topic}-{event.partition} broker={event.node}] ISR updated to {','.join(map(str, event.isr))} "
                f" and version updated to {event.partition_epoch}"
            )
            yield _line(SERVER, event.at, "INFO", text, "kafka.cluster.Partition", event.id)
        case IsrReset():
            yield _line(
                SERVER,
                event.at,
                "INFO",
                isr_reset(event, with_epochs=_since(release, 3, 5)),
                "kafka.cluster.Partition",
                event.id,
            )
        case LogTruncated():
            yield _line(SERVER, event.at, "INFO", log_truncated(event), "kafka.server.ReplicaFetcherThread", event.id)
        case HighWatermarkLowered():
            text, logger = high_watermark_lowered(event, unified=_since(release, 3, 1), bracketed=_since(release, 3, 5))
            yield _line(SERVER, event.at, "WARN", text, logger, event.id)
        case IsrLine():
            version = tuple(int(part) for part in release.version.split("."))
            yield _line(SERVER, event.at, "INFO", isr_line(event, version=version), "kafka.cluster.Partition", event.id)
        case SettingPrinted():
            text = f"KafkaConfig values: \n\tbroker.id = {event.node}\n\t{event.name} = {event.value}\n"
            yield _line(SERVER, event.at, "INFO", text, "kafka.server.KafkaConfig", event.id)
        case SessionFetch():
            header, request, response = session_fetch(event)
            yield Line(
                REQUESTS,
                event.at,
                _completed(event, header, request, response, event.arrived, 51_000, release),
                event.id,
            )
        case GroupOffset():
            yield Line(REQUESTS, event.at, _group_offset(event, release), event.id)
        case Produced():
            yield Line(REQUESTS, event.at, _produced(event, release), event.id)
        case MetadataAnswer():
            yield Line(REQUESTS, event.at, _metadata_answer(event, release), event.id)
        case Decision():
            yield _decision(event, release)
        case Elected():
            text = (
                f"[Controller id={event.node}] {event.node} successfully elected as the controller. Epoch incremented to"
                f" {event.controller_epoch} and epoch zk version is now {event.controller_epoch}"
            )
            yield _line(CONTROLLER, event.at, "INFO", text, "kafka.controller.KafkaController", event.id)
        case Record():
            yield from _record(event, release)
        case AlterPartition():
            yield Line(REQUESTS, event.at, _alter_partition(event), event.id)
        case RaftTransition():
            text = raft_transition(event, release.version)
            yield _line(SERVER, event.at, "INFO", text, "org.apache.kafka.raft.QuorumState", event.id)
        case RaftRequest():
            header, request, response = raft_request(event)
            ends = f"127.0.0.1:{21000 + event.node}-127.0.0.1:{60000 + event.sender}-0-1"
            yield Line(
                REQUESTS,
                event.at,
                _completed(event, header, request, response, event.arrived, 0, _KRAFT, ends),
                event.id,
            )
        case BrokerRegistration():
            yield Line(REQUESTS, event.at, _registration(event), event.id)
        case Heartbeat():
            yield Line(REQUESTS, event.at, _heartbeat(event), event.id)
        case Exchange():
            header = (event.api, event.version, event.correlation_id, event.client_id)
            request, response = request_and_response(event, release)
            text = _completed(event, header, request, response, event.arrived, event.connection, release)
            yield Line(REQUESTS, event.at, text, event.id)
        case _:
            raise TypeError(event)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S,") + f"{at % 1000:03d}"


def _line(file: str, at: int, level: str, text: str, logger: str, own: int | None = None) -> Line:
    return Line(file, at, f"[{_time(at)}] {level} {text} ({logger})", own)


def _since(release: Release, *version: int) -> bool:
    return tuple(int(part) for part in release.version.split(".")) >= version


# -- server.log


def _starting(event: ProcessStarts, release: Release) -> Iterator[Line]:
    if release.family == "kraft" and event.broker_epoch >= 0:
        text = f"[BrokerServer id={event.node}] Transition from SHUTDOWN to STARTING"
        yield _line(SERVER, event.at, "INFO", text, "kafka.server.BrokerServer", event.id)
        yield _line(SERVER, event.at + 5, "INFO", f"Kafka version: {event.version}", _APP_INFO)
        return
    if release.family == "kraft":
        text = f"[ControllerServer id={event.node}] Starting controller"
        yield _line(SERVER, event.at, "INFO", text, "kafka.server.ControllerServer")
        yield _line(SERVER, event.at + 5, "INFO", f"Kafka version: {event.version}", _APP_INFO, event.id)
        return
    at, node = event.at, event.node
    yield _line(SERVER, at, "INFO", "starting", "kafka.server.KafkaServer", event.id)
    yield _line(SERVER, at + 1, "INFO", "Connecting to zookeeper on 127.0.0.1:2181", "kafka.server.KafkaServer")
    yield _line(SERVER, at + 500, "INFO", _registered(node, event.broker_epoch), "kafka.zk.KafkaZkClient")
    yield _line(SERVER, at + 600, "INFO", f"Kafka version: {event.version}", _APP_INFO)
    yield _line(SERVER, at + 601, "INFO", f"[KafkaServer id={node}] started", "kafka.server.KafkaServer")


def _registered(node: int, broker_epoch: int) -> str:
    return (
        f"Registered broker {node} at path /brokers/ids/{node} with addresses: PLAINTEXT://127.0.0.1:{9090 + node},"
        f" czxid (broker epoch): {broker_epoch}"
    )


_APP_INFO: Final = "org.apache.kafka.common.utils.AppInfoParser"


# -- state-change.log


def _state_changes(event: Control, release: Release) -> Iterator[Line]:
    if not event.seen:
        return
    texts = [*_handling(event, release)]
    for n, (level, text) in enumerate(texts):
        finishes = text.startswith("Finished")
        at = event.finished if finishes else min(event.handled + n, event.finished)
        yield _line(STATE_CHANGE, at, level, f"[Broker id={event.node}] {text}", "state.change.logger")


def _handling(event: Control, release: Release) -> Iterator[tuple[str, str]]:
    correlation, controller, epoch = event.correlation_id, event.controller_id, event.controller_epoch
    old = f"since its controller epoch {epoch} is old. Latest known controller epoch is {event.latest_controller_epoch}"
    count = f"correlationId {correlation} from controller {controller} for {len(event.partitions)} partitions"
    if event.api == UPDATE_METADATA:
        if event.error_code:
            yield (
                "WARN",
                (
                    f"Received update metadata request with correlation id {correlation} from an old controller {controller} with"
                    f" epoch {epoch}. Latest known controller epoch is {event.latest_controller_epoch}"
                ),
            )
        elif event.partitions:
            deleted = sum(isinstance(p, State) and p.leader == LEADER_DURING_DELETE for p in event.partitions)
            yield (
                "INFO",
                (
                    f"Add {len(event.partitions) - deleted} partitions and deleted {deleted} partitions from metadata cache in"
                    f" response to UpdateMetadata request sent by controller {controller} epoch {epoch} with correlation id {correlation}"
                ),
            )
        return
    name = "StopReplica" if event.api == STOP_REPLICA else "LeaderAndIsr"
    yield "INFO", f"Handling {name} request {count}"
    if event.error_code:
        yield "WARN", f"Ignoring {name} request from controller {controller} with correlation id {correlation} {old}"
    elif event.api == STOP_REPLICA:
        yield from _stops(event)
    else:
        yield from _becomes(event, release)
    if event.api == LEADER_AND_ISR and _since(release, 2, 7):
        yield "INFO", f"Finished LeaderAndIsr request in {event.finished - event.handled}ms {count}"


def _ignoring(event: Control, request: str, name: tuple[str, int], why: str) -> str:
    return (
        f"Ignoring {request} request{why.partition('|')[0]} from controller {event.controller_id} with correlation id"
        f" {event.correlation_id} epoch {event.controller_epoch} for partition {name[0]}-{name[1]} {why.partition('|')[2]}"
    )


def _stops(event: Control) -> Iterator[tuple[str, str]]:
    for stop, code, held in zip(event.partitions, event.codes, event.held_epochs, strict=True):
        assert isinstance(stop, Stop)
        if not code:
            continue
        equal = stop.leader_epoch == held
        relation = "matches the current leader epoch" if equal else f"is smaller than the current leader epoch {held}"
        why = f" (delete={str(stop.delete).lower()})|since its associated leader epoch {stop.leader_epoch} {relation}"
        yield "INFO" if equal else "WARN", _ignoring(event, "StopReplica", stop.name, why)


def _becomes(event: Control, release: Release) -> Iterator[tuple[str, str]]:
    for state, code, held in zip(event.partitions, event.codes, event.held_epochs or event.codes, strict=True):
        assert isinstance(state, State)
        epoch = f"|since its associated leader epoch {state.leader_epoch}"
        if code == 11 and state.leader_epoch == held:
            yield "INFO", _ignoring(event, "LeaderAndIsr", state.name, f"{epoch} matches the current leader epoch")
        elif code == 11:
            why = f"{epoch} is smaller than the current leader epoch {held}"
            yield "WARN", _ignoring(event, "LeaderAndIsr", state.name, why)
        elif code == 103:
            yield (
                "ERROR",
                (
                    f"Topic ID in memory: {NO_ID[:-1]}w does not match the topic ID for partition"
                    f" {state.topic}-{state.partition} received: {state.topic_id}."
                ),
            )
        elif code == 3:
            replicas = ",".join(map(str, state.replicas))
            why = f"|as itself is not in assigned replica list {replicas}"
            yield "WARN", _ignoring(event, "LeaderAndIsr", state.name, why)
        elif state.name in event.unavailable:
            yield (
                "ERROR",
                (
                    f"Received LeaderAndIsrRequest with correlation id {event.correlation_id} from controller {event.controller_id}"
                    f" epoch {event.controller_epoch} for partition {state.topic}-{state.partition} (last update controller epoch"
                    f" {state.controller_epoch}) but cannot become follower since the new leader {state.leader} is unavailable."
                ),
            )
    for start in sorted(event.starts, key=lambda start: not start.leads):
        yield "INFO", _start(start, release)


def _start(start: Start, release: Release) -> str:
    name, isr = f"{start.topic}-{start.partition}", ",".join(map(str, start.isr))
    leader = "None" if start.previous_leader is None else f"Some({start.previous_leader})"
    before = f"Previous leader epoch was {start.previous_epoch}."
    if _since(release, 3, 6):
        before = f"Previous leader {leader} and previous leader epoch was {start.previous_epoch}."
    begins = f"starts at leader epoch {start.leader_epoch} from offset {start.offset} with"
    if start.leads and _since(release, 3, 3):
        topic_id = f"Some({start.topic_id})" if start.topic_id else "None"
        return (
            f"Leader {name} with topic id {topic_id} {begins} partition epoch {start.partition_epoch}, high watermark"
            f" {start.high_watermark}, ISR [{isr}], adding replicas [] and removing replicas [] . {before}"
        )
    if start.leads:
        return f"Leader {name} {begins} high watermark {start.high_watermark} ISR [{isr}] addingReplicas [] removingReplicas []. {before}"
    if not _since(release, 3, 3):
        return f"Follower {name} {begins} high watermark {start.high_watermark}. {before}"
    if _since(release, 3, 6):  # it prints what it has just assigned
        before = f"Previous leader Some({start.leader}) and previous leader epoch was {start.leader_epoch}."
    return (
        f"Follower {name} {begins} partition epoch {start.partition_epoch} and high watermark {start.high_watermark}."
        f" Current leader is {start.leader}. {before}"
    )


def _decision(event: Decision, release: Release) -> Line:
    state = event.state
    assert state is not None
    isr = ", ".join(map(str, state.isr))
    if _since(release, 3, 6):
        members = ", ".join(f"BrokerState(brokerId={member}, brokerEpoch=-1)" for member in state.isr)
        rest = (
            f"isrWithBrokerEpoch=List({members}), leaderRecoveryState=RECOVERED, partitionEpoch={state.partition_epoch}"
        )
    elif _since(release, 3, 3):
        rest = f"isr=List({isr}), leaderRecoveryState=RECOVERED, partitionEpoch={state.partition_epoch}"
    else:
        rest = f"isr=List({isr}), zkVersion={state.partition_epoch}"
    text = (
        f"[Controller id={event.node} epoch={event.controller_epoch}] Changed partition {state.topic}-{state.partition} from"
        f" {event.before} to OnlinePartition with state LeaderAndIsr(leader={state.leader}, leaderEpoch={state.leader_epoch}, {rest})"
    )
    return _line(STATE_CHANGE, event.at, "INFO", text, "state.change.logger", event.id)


# -- kafka-request.log


def _control_request(event: Control, release: Release) -> str:
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
    return _completed(event, header, request, response, event.arrived, event.connection, release)


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


def _query(event: Query, release: Release) -> str:
    if event.api == FETCH:
        request, response = _fetch(event)
    elif event.api == LIST_OFFSETS:
        asked = {"partitionIndex": event.partition, "currentLeaderEpoch": event.current_leader_epoch, "timestamp": -1}
        if event.version < 4:
            del asked["currentLeaderEpoch"]
        request = {
            "replicaId": event.replica_id,
            "isolationLevel": 0,
            "topics": [{"name": event.topic, "partitions": [asked]}],
        }
        answered = {
            "partitionIndex": event.partition, "errorCode": event.error_code, "timestamp": -1, "offset": event.end_offset,
            "leaderEpoch": event.answered_epoch,
        }  # fmt: skip
        if event.version < 4:
            del answered["leaderEpoch"]
        response = {"throttleTimeMs": 0, "topics": [{"name": event.topic, "partitions": [answered]}]}
    else:
        asked = {
            "partition": event.partition, "currentLeaderEpoch": event.current_leader_epoch, "leaderEpoch": max(event.epoch, 0),
        }  # fmt: skip
        request = {"replicaId": event.replica_id, "topics": [{"topic": event.topic, "partitions": [asked]}]}
        answered = {
            "errorCode": event.error_code, "partition": event.partition, "leaderEpoch": event.answered_epoch,
            "endOffset": event.end_offset,
        }  # fmt: skip
        response = {"throttleTimeMs": 0, "topics": [{"topic": event.topic, "partitions": [answered]}]}
    if event.api == LIST_OFFSETS and event.version >= 10:
        request["timeoutMs"] = 30000
    header = (event.api, event.version, event.correlation_id, event.client_id)
    return _completed(event, header, request, response, event.arrived, event.connection, release)


def _group_offset(event: GroupOffset, release: Release) -> str:
    asked: dict[str, Any] = {"partitionIndex": event.partition, "committedOffset": event.offset}
    answered: dict[str, Any] = {"partitionIndex": event.partition}
    request: dict[str, Any]
    response: dict[str, Any]
    if event.api == OFFSET_COMMIT:
        if event.leader_epoch is not None:
            asked["committedLeaderEpoch"] = event.leader_epoch
        generation = "generationIdOrMemberEpoch" if _since(release, 3, 6) else "generationId"
        request = {"groupId": event.group_id, generation: 1, "memberId": f"{event.client_id}-5f0c"}
        if event.version >= 7:
            request["groupInstanceId"] = None
        request["topics"] = [{"name": event.topic, "partitions": [asked | {"committedMetadata": ""}]}]
        response = {"throttleTimeMs": 0, "topics": [{"name": event.topic, "partitions": [answered | {"errorCode": 0}]}]}
    else:
        answered["committedOffset"] = event.offset
        if event.leader_epoch is not None:
            answered["committedLeaderEpoch"] = event.leader_epoch
        topics = [{"name": event.topic, "partitions": [answered | {"metadata": "", "errorCode": 0}]}]
        wanted = [{"name": event.topic, "partitionIndexes": [event.partition]}]
        if event.version >= 8:
            request = {"groups": [{"groupId": event.group_id, "topics": wanted}], "requireStable": True}
            response = {
                "throttleTimeMs": 0, "groups": [{"groupId": event.group_id, "topics": topics, "errorCode": 0}],
            }  # fmt: skip
        else:
            request = {"groupId": event.group_id, "topics": wanted}
            response = {"throttleTimeMs": 0, "topics": topics, "errorCode": 0}
    header = (event.api, event.version, event.correlation_id, event.client_id)
    return _completed(event, header, request, response, event.arrived, event.connection, release)


def _produced(event: Produced, release: Release) -> str:
    topic = {"topicId": event.topic_id} if event.version >= 13 else {"name": event.topic}
    asked = {"index": event.partition, "recordsSizeInBytes": 106}
    request = {
        "transactionalId": None, "acks": event.acks, "timeoutMs": 8000, "topicData": [topic | {"partitionData": [asked]}],
    }  # fmt: skip
    answered: dict[str, Any] = {
        "index": event.partition, "errorCode": event.error_code, "baseOffset": event.base_offset, "logAppendTimeMs": -1,
        "logStartOffset": -1 if event.error_code else 0, "recordErrors": [], "errorMessage": None,
    }  # fmt: skip
    response = {"responses": [topic | {"partitionResponses": [answered]}], "throttleTimeMs": 0}
    header = ("PRODUCE", event.version, event.correlation_id, event.client_id)
    return _completed(event, header, request, response, event.arrived, event.connection, release)


def _metadata_answer(event: MetadataAnswer, release: Release) -> str:
    request: dict[str, Any] = {
        "topics": [{"topicId": NO_ID, "name": event.topic}], "allowAutoTopicCreation": True,
        "includeTopicAuthorizedOperations": False,
    }  # fmt: skip
    partitions = [
        {
            "errorCode": 0 if leader >= 0 else 5, "partitionIndex": number, "leaderId": leader, "leaderEpoch": epoch,
            "replicaNodes": [*replicas], "isrNodes": [*isr], "offlineReplicas": [],
        }
        for number, leader, epoch, replicas, isr in event.partitions
    ]  # fmt: skip
    response: dict[str, Any] = {
        "throttleTimeMs": 0, "brokers": [{"nodeId": event.node, "host": "127.0.0.1", "port": 9090 + event.node, "rack": None}],
        "clusterId": "2WQl209Lv0VYX5In0tcBEA", "controllerId": event.node,
        "topics": [
            {
                "errorCode": 0, "name": event.topic, "topicId": event.topic_id, "isInternal": False, "partitions": partitions,
                "topicAuthorizedOperations": -2147483648,
            }
        ],
    }  # fmt: skip
    if event.version >= 13:
        response["errorCode"] = 0
    header = ("METADATA", event.version, event.correlation_id, event.client_id)
    return _completed(event, header, request, response, event.arrived, event.connection, release)


def _fetch(event: Query) -> tuple[dict[str, Any], dict[str, Any]]:
    topic = {"topicId": event.topic_id} if event.version >= 13 else {"topic": event.topic}
    asked: dict[str, Any] = {"partition": event.partition}
    if event.version >= 9:
        asked["currentLeaderEpoch"] = event.current_leader_epoch
    asked["fetchOffset"] = event.offset
    if event.version >= 12:
        asked["lastFetchedEpoch"] = event.epoch
    asked |= {"logStartOffset": 0 if event.replica_id >= 0 else -1, "partitionMaxBytes": 1048576}
    replica: dict[str, Any] = {}
    if event.version < 15:
        replica["replicaId"] = event.replica_id
    elif event.replica_id >= 0:
        replica["replicaState"] = {"replicaId": event.replica_id, "replicaEpoch": event.replica_epoch}
    request = replica | {
        "maxWaitMs": 500, "minBytes": 1, "maxBytes": 10485760, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": 0,
        "topics": [topic | {"partitions": [asked]}], "forgottenTopicsData": [], "rackId": "",
    }  # fmt: skip
    if event.version < 11:
        del request["rackId"]
    served, stable = event.error_code == 0, event.last_stable_offset
    answered: dict[str, Any] = {
        "partitionIndex": event.partition,
        "errorCode": event.error_code,
        "highWatermark": event.high_watermark if served else -1,
        "lastStableOffset": (event.high_watermark if stable is None else stable) if served else -1,
        "logStartOffset": event.log_start_offset if served else -1,
    }
    if event.diverging:
        answered["divergingEpoch"] = {"epoch": event.diverging[0], "endOffset": event.diverging[1]}
    if event.hint:
        answered["currentLeader"] = {"leaderId": event.hint[0], "leaderEpoch": event.hint[1]}
    answered["abortedTransactions"] = None if served else []
    if event.version >= 11:
        answered["preferredReadReplica"] = -1
    answered["recordsSizeInBytes"] = event.records_size
    response = {
        "throttleTimeMs": 0, "errorCode": 0, "sessionId": event.session_id,
        "responses": [topic | {"partitions": [answered]}],
    }  # fmt: skip
    return request, response


def _completed(
    event: Event,
    header: tuple[str, int, int, str],
    request: Mapping[str, Any],
    response: Mapping[str, Any],
    arrived: int,
    connection: int,
    release: Release,
    local: str = "",
) -> str:
    """A line of the request log."""
    api, version, correlation, client = header
    total = float(event.at - arrived)
    ends = local or f"127.0.0.1:{9090 + event.node}-127.0.0.1:{connection}-0"
    if release.family == "text":
        return (
            f"[{_time(event.at)}] DEBUG Completed request:RequestHeader(apiKey={api}, apiVersion={version}, clientId={client},"
            f" correlationId={correlation}) -- {_text(api, request)},response:{_text(api, response)} from connection {ends};"
            f"totalTime:{total},requestQueueTime:0.2,localTime:{total - 0.2:.1f},remoteTime:0.0,throttleTime:0,responseQueueTime:0.0,"
            "sendTime:0.0,securityProtocol:PLAINTEXT,principal:User:ANONYMOUS,listener:PLAINTEXT,clientInformation:"
            "ClientInformation(softwareName=unknown, softwareVersion=unknown) (kafka.request.logger)"
        )
    software, its_version = event.software if isinstance(event, Query | GroupOffset) else UNKNOWN_SOFTWARE
    line = {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": API_KEYS[api], "requestApiVersion": version, "correlationId": correlation, "clientId": client,
            "requestApiKeyName": api,
        },
        "request": request, "response": response, "connection": ends, "totalTimeMs": total, "requestQueueTimeMs": 0.2,
        "localTimeMs": total - 0.2, "remoteTimeMs": 0.0, "throttleTimeMs": 0, "responseQueueTimeMs": 0.0, "sendTimeMs": 0.0,
        "securityProtocol": "PLAINTEXT", "principal": "User:ANONYMOUS", "listener": "PLAINTEXT",
        "clientInformation": {"softwareName": software, "softwareVersion": its_version},
    }  # fmt: skip
    printed = json.dumps(line, separators=(",", ":"))
    return f"[{_time(event.at)}] DEBUG Completed request:{printed} (kafka.request.logger)"


# -- text, up to 2.7

_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
_FLEXIBLE: Final = (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
_RENAMED: Final = {"maxWaitMs": "max_wait_time", "partitionIndex": "partition"}  # schemas written by hand, up to 2.6


def _text(api: str, value: object) -> str:
    if api == FETCH and isinstance(value, dict) and "responses" in value:
        return _fetch_answer(value)
    if api == LIST_OFFSETS and isinstance(value, dict) and "throttleTimeMs" in value:
        return _list_offsets_answer(value)
    if isinstance(value, dict):
        fields = [f"{_field(api, name)}={_text(api, one)}" for name, one in value.items()]
        return "{" + ",".join(fields + (["_tagged_fields={}"] if api in _FLEXIBLE else [])) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(api, one) for one in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def _field(api: str, name: str) -> str:
    if api in _FLEXIBLE:
        return _CAPITAL.sub("_", name).lower()
    if api == LIST_OFFSETS and name == "name":
        return "topic"
    return _RENAMED.get(name) or _CAPITAL.sub("_", name).lower()


def _fetch_answer(response: Mapping[str, Any]) -> str:
    (topic,) = response["responses"]
    (one,) = topic["partitions"]
    aborted = "null" if one["abortedTransactions"] is None else "[]"
    return (
        f"{{throttle_time_ms=0,error_code=0,session_id={response['sessionId']},responses=[{{topic={topic['topic']},"
        f"partition_responses=[{{partition_header={{partition={one['partitionIndex']},error_code={one['errorCode']},"
        f"high_watermark={one['highWatermark']},last_stable_offset={one['lastStableOffset']},log_start_offset={one['logStartOffset']},"
        f"aborted_transactions={aborted},preferred_read_replica=-1}},record_set=MemoryRecords(size={one['recordsSizeInBytes']},"
        f" buffer=java.nio.HeapByteBuffer[pos=0 lim={one['recordsSizeInBytes']} cap={one['recordsSizeInBytes']}])}}]}}]}}"
    )


def _list_offsets_answer(response: Mapping[str, Any]) -> str:
    (topic,) = response["topics"]
    (one,) = topic["partitions"]
    return (
        f"{{throttle_time_ms=0,responses=[{{topic={topic['name']},partition_responses=[{{partition={one['partitionIndex']},"
        f"error_code={one['errorCode']},timestamp=-1,offset={one['offset']},leader_epoch={one['leaderEpoch']}}}]}}]}}"
    )


# -- KRaft


def _record(event: Record, release: Release) -> Iterator[Line]:
    if event.offset == 0:
        yield Line(METADATA, 0, "Dumping metadata/__cluster_metadata-0/00000000000000000000.log")
        yield Line(METADATA, 0, "Log starting offset: 0")
    if event.batch == event.offset:
        last = event.batch + event.data.get("__count", 1) - 1  # type: ignore[operator]
        yield Line(
            METADATA, event.at,
            f"baseOffset: {event.batch} lastOffset: {last} count: {last - event.batch + 1} baseSequence: -1 lastSequence: -1 producerId: -1"
            f" producerEpoch: -1 partitionLeaderEpoch: {event.epoch} isTransactional: false isControl:"
            f" {str(event.kind in CONTROL_RECORDS).lower()} deleteHorizonMs:"
            f" OptionalLong.empty position: {event.batch * 100} CreateTime: {event.at} size: 91 magic: 2 compresscodec: none"
            f" crc: 1783205491 isvalid: true",
        )  # fmt: skip
    data = {name: value for name, value in event.data.items() if not name.startswith("__")}
    if event.kind in CONTROL_RECORDS:
        yield Line(METADATA, event.at, control_record(event, data, with_leader=_since(release, 4, 1)), event.id)
        return
    payload = json.dumps({"type": event.kind, "version": event.version, "data": data}, separators=(",", ":"))
    yield Line(
        METADATA, event.at,
        f"| offset: {event.offset} CreateTime: {event.at} keySize: -1 valueSize: 24 sequence: -1 headerKeys: [] payload: {payload}",
        event.original if isinstance(event, CopiedRecord) and event.original >= 0 else event.id,
    )  # fmt: skip


_KRAFT: Final = Release(KRAFT, "4.1.2", "kraft")


def _alter_partition(event: AlterPartition) -> str:
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
    return _completed(event, header, request, response, event.arrived, 0, _KRAFT, ends)


def _registration(event: BrokerRegistration) -> str:
    request = {
        "brokerId": event.broker_id, "clusterId": "2WQl209Lv0VYX5In0tcBEA", "incarnationId": event.incarnation_id, "listeners": [],
        "features": [], "rack": None, "isMigratingZkBroker": False, "logDirs": [],
        "previousBrokerEpoch": event.previous_broker_epoch,
    }  # fmt: skip
    response = {"throttleTimeMs": 0, "errorCode": event.error_code, "brokerEpoch": event.broker_epoch}
    header = ("BROKER_REGISTRATION", 4, event.correlation_id, str(event.broker_id))
    ends = f"127.0.0.1:21100-127.0.0.1:{50000 + event.broker_id}-0-1"
    return _completed(event, header, request, response, event.arrived, 0, _KRAFT, ends)


def _heartbeat(event: Heartbeat) -> str:
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
    return _completed(event, header, request, response, event.arrived, 0, _KRAFT, ends)
