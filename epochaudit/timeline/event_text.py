"""One sentence per row of `epochaudit.timeline.partition_events`, in the protocol's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any, Final

from epochaudit.kafka.errors import error_text
from epochaudit.kafka.field_values import (
    ALL_REPLICAS,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    EPOCH_DURING_DELETE,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    LEADER_DURING_DELETE,
    MAX_TIMESTAMP,
    NO_EPOCH,
    NO_LEADER,
)
from epochaudit.timeline.partition_events import REPEATED

Event = Mapping[str, Any]

_STATE: Final = ("leader {leader}", "leader epoch {leader_epoch}", "ISR {isr}", "partition epoch {partition_epoch}")
AS_FOLLOWS: Final = ":"  # ends a clause that introduces the others
_POSITION: Final = ("at offset {previous_offset}", "of leader epoch {previous_epoch}")

# By event type. A clause with a null field is left out.
_CLAUSES: Final[Mapping[str, tuple[str, ...]]] = {
    "LEADER_STARTS": (
        "becomes leader in leader epoch {leader_epoch}", "which begins at offset {start_offset}",
        "high watermark {high_watermark}", "ISR {isr}", "partition epoch {partition_epoch}",
    ),
    "FOLLOWER_STARTS": (
        "becomes follower in leader epoch {leader_epoch}", "leader {leader}", "own log end {start_offset}",
        "high watermark {high_watermark}", "partition epoch {partition_epoch}",
    ),
    "PARTITION_CREATED": ("hosts the partition", "topic id {topic_id}"),
    "LEADER_AND_ISR_RECEIVED": ("LeaderAndIsr {correlation_id} of controller {controller_id}", *_STATE),
    "LEADER_AND_ISR_IGNORED": (
        "IGNORES LeaderAndIsr {correlation_id} of controller {controller_id}", "leader epoch {leader_epoch}", "{reason}",
    ),
    "LEADER_AND_ISR_SKIPPED": ("leaves the replica as it is:", *_STATE, "{reason}"),
    "STOP_REPLICA_RECEIVED": (
        "StopReplica {correlation_id} of controller {controller_id}", "leader epoch {leader_epoch}", "delete {delete_partition}",
    ),
    "STOP_REPLICA_IGNORED": (
        "IGNORES StopReplica {correlation_id} of controller {controller_id}", "leader epoch {leader_epoch}", "{reason}",
    ),
    "STOP_REPLICA_SENDING": (
        "controller sends StopReplica to broker {broker_id}", "leader epoch {leader_epoch}", "delete {delete_partition}",
    ),
    "PARTITION_STATE_CHANGED": ("controller (epoch {controller_epoch}) writes:", *_STATE),
    "LEADER_EPOCH_UPDATED": ("controller raises the leader epoch to {leader_epoch}", "partition epoch {partition_epoch}"),
    "UNCLEAN_ELECTION": ("UNCLEAN ELECTION of leader {leader}", "leader epoch {leader_epoch}", "ISR {isr}"),
    "PARTITION_REPLAYED": ("controller applies:", *_STATE),
    "PARTITION_CHANGE_REPLAYED": ("controller applies:", *_STATE),
    "PARTITION_RECORD": ("record: partition created", "replicas {replicas}", *_STATE),
    "PARTITION_CHANGE_RECORD": ("record: partition changed", *_STATE, "eligible leader replicas {elr}"),
    "TOPIC_RECORD": ("record: topic created", "topic id {topic_id}"),
    "REMOVE_TOPIC_RECORD": ("record: topic deleted", "topic id {topic_id}"),
    "TOPIC_REPLAYED": ("controller applies: topic created", "topic id {topic_id}"),
    "TOPIC_REMOVED": ("controller applies: topic deleted", "topic id {topic_id}"),
    "TOPIC_DELETION_COMPLETED": ("controller has deleted the topic",),
    "CONFIG_RECORD": ("record: {name} = {value}",),
    "CONFIG_CHANGED": ("settings changed:", "{name} = {value}"),
    "ISR_SHRINKING": ("wants to shrink the ISR to {isr}", "high watermark {high_watermark}", "log end {offset}"),
    "ISR_EXPANDING": ("wants to expand the ISR to {isr}", "high watermark {high_watermark}"),
    "ISR_UPDATED": ("has ISR {isr}", "partition epoch {partition_epoch}"),
    "ISR_UPDATE_SKIPPED": ("ISR update REFUSED by ZooKeeper", "stale partition epoch {partition_epoch}"),
    "ALTER_PARTITION_FAILED": ("ISR change REFUSED by the controller", "leader epoch {leader_epoch}", "{reason}", "{value}"),
    "ALTER_PARTITION_REJECTED": (
        "controller REFUSES an ISR change of broker {broker_id}", "{reason}", "{value}", "ISR {isr}", "leader epoch {leader_epoch}",
        "it knows leader epoch {response_leader_epoch}", "partition epoch {response_partition_epoch}",
    ),
    "HIGH_WATERMARK_LOADED": ("opens the log", "checkpointed high watermark {high_watermark}"),
    "HIGH_WATERMARK_LOWERED": ("LOWERS its high watermark from {previous_offset} to {high_watermark}",),
    "LOG_TRUNCATED": ("TRUNCATED its log to offset {offset}",),
    "LOG_RECOVERED": ("RECOVERED its log after an unclean stop", "from offset {offset}"),
    "LOG_EMPTIED": ("EMPTIED its log", "it begins anew at offset {offset}"),
    "LOG_SEGMENTS_TRUNCATED": ("removes segments, as it truncates its log",),
    "LOG_START_INCREMENTED": ("log start offset is now {offset}", "{reason}"),
    "FOLLOWER_TRUNCATING": (
        "truncates to offset {offset}", "by {reason}", "the leader's answer: leader epoch {diverging_epoch}",
        "which ends at {diverging_end_offset}", "high watermark {high_watermark}",
    ),
    "TRUNCATION_BELOW_HIGH_WATERMARK": ("TRUNCATES TO {offset}", "below its high watermark {high_watermark}"),
    "TRUNCATION_OFFSET_CHOSEN": ("chooses to truncate to offset {offset}", "leader epoch {diverging_epoch}", "{reason}"),
    "FETCH_OFFSET_OUT_OF_RANGE": ("its offset {previous_offset} is not in the leader's log",),
    "FETCH_OFFSET_RESET": ("fetches on from offset {offset} instead of {previous_offset}", "{reason}"),
    "FETCHER_FENCED": (
        "its fetcher is FENCED by leader {leader}", "own leader epoch {current_leader_epoch}", "{reason}",
    ),
    "FETCHER_FAILED": ("its fetcher gives the partition up until the next state change",),
    "OLDER_COORDINATOR_EPOCH": (
        "finds a transaction marker of an OLDER coordinator epoch at offset {offset}", "coordinator epoch {coordinator_epoch}",
        "its log had {last_epoch}", "producer id {producer_id}",
    ),
    "OLDER_PRODUCER_EPOCH": (
        "finds a batch of an OLDER producer epoch at offset {offset}", "producer epoch {producer_epoch}", "its log had {last_epoch}",
        "producer id {producer_id}",
    ),
    "EPOCH_CACHE_APPENDED": ("epoch cache: leader epoch {leader_epoch} begins at offset {start_offset}",),
    "EPOCH_CACHE_CONFLICT": (
        "epoch cache: removes what contradicts leader epoch {leader_epoch}", "which begins at offset {start_offset}",
    ),
    "EPOCH_CACHE_END_TRUNCATED": ("epoch cache: removes what begins at offset {offset} or later",),
    "EPOCH_CACHE_START_TRUNCATED": (
        "epoch cache: removes what ends before offset {offset}", "the first is leader epoch {leader_epoch} now",
    ),
    "EPOCH_CACHE_DISORDER": ("epoch cache: leader epoch {leader_epoch} comes OUT OF ORDER", "offset {start_offset}"),
    "LOG_CREATED": ("creates the replica's folder",),
    "FUTURE_LOG_CREATED": ("creates the folder of a future replica, to move to another log directory",),
    "FUTURE_LOG_PROMOTED": ("the future replica is now the replica: moved to another log directory",),
    "LOG_DELETION_SCHEDULED": ("renames the replica's folder for deletion",),
    "STRAY_PARTITION": ("finds a replica that it should not have", "topic id {topic_id}", "{reason}"),
    "LOG_MARKED_STRAY": ("puts a stray replica aside", "topic id {topic_id}", "{reason}"),
    "PROCESS_STARTING": ("process starts ({name})",),
    "PROCESS_STARTED": ("process serves ({name})",),
    "PROCESS_SHUTTING_DOWN": ("process shuts down ({name})",),
    "PROCESS_STOPPED": ("process has stopped ({name})",),
    "KAFKA_VERSION": ("runs Kafka {value}",),
    "BROKER_REGISTERED": ("broker {broker_id} is registered", "broker epoch {current_broker_epoch}"),
    "CONTROLLER_ELECTED": ("becomes controller", "controller epoch {controller_epoch}"),
    "CONTROLLER_READY": ("acts as controller", "controller epoch {controller_epoch}"),
    "UNCLEAN_ELECTION_REQUESTED": ("an administrator asked controller {controller_id} for an unclean election",),
    "CONTROLLER_RESIGNED": ("is not controller any more",),
    "CONTROLLER_ACTIVE": ("becomes active controller", "raft epoch {raft_epoch}"),
    "CONTROLLER_STANDBY": ("is not active controller any more", "leader {leader}", "raft epoch {raft_epoch}"),
    "BROKERS_CHANGED": (
        "controller sees brokers {live_brokers}", "new {added_brokers}", "removed {deleted_brokers}",
        "registered anew {bounced_brokers}",
    ),
    "BROKER_SESSION_EXPIRED": ("controller fences broker {broker_id}", "no heartbeats"),
    "LEADER_CHANGE": ("record: controller {leader} leads the quorum", "raft epoch {raft_epoch}"),
    "FEATURE_LEVEL_RECORD": ("record: {name} = {value}",),
    "CLIENT_TRUNCATION_DETECTED": (
        "DETECTS TRUNCATION", *_POSITION, "the broker's answer: leader epoch {diverging_epoch}", "which ends at {diverging_end_offset}",
        "goes on at offset {offset}", "{reason}",
    ),
    "CONSUMER_OUT_OF_RANGE": ("has a position that is out of range", *_POSITION, "{reason}"),
    "CONSUMER_OFFSET_RESET": ("resets its position to offset {offset}", "{value}", "leader epoch {current_leader_epoch}"),
    "CONSUMER_OFFSET_COMMITTED": (
        "goes on from the committed offset {offset}", "of leader epoch {committed_leader_epoch}",
        "current leader epoch {current_leader_epoch}",
    ),
    "CONSUMER_SEEKS": ("seeks", "to offset {offset}", "of leader epoch {committed_leader_epoch}", "to {name}"),
    "CONSUMER_EPOCH_END": ("is answered that leader epoch {response_leader_epoch} ends at offset {offset}",),
    "CONSUMER_LOOKUP_FAILED": ("its lookup failed", "{value}"),
    "CONSUMER_VALIDATION_SKIPPED": ("does not validate its position: the broker is too old",),
    "CLIENT_EPOCH_SEEN": ("learns leader epoch {leader_epoch}", "before {previous_epoch}"),
    "CLIENT_EPOCH_IGNORED": ("ignores leader epoch {leader_epoch}", "it knows {current_leader_epoch}", "{reason}"),
    "CLIENT_EPOCH_FORGOTTEN": ("is answered no leader epoch, and knows none",),
    "CLIENT_HINT_TAKEN": ("takes the hint of an answer", "leader epoch {leader_epoch}", "leader {leader}"),
    "CLIENT_HINT_IGNORED": (
        "ignores the hint of an answer", "leader epoch {leader_epoch}", "leader {leader}", "it knows {current_leader_epoch}", "{reason}",
    ),
    "CLIENT_TOPIC_ID_CHANGED": ("takes over topic id {topic_id}", "formerly {value}", "leader epoch {leader_epoch}"),
    "EPOCH_CHECKPOINT": ("leader-epoch-checkpoint: leader epoch {leader_epoch} begins at offset {start_offset}", "folder {name}"),
    "HIGH_WATERMARK_CHECKPOINT": ("checkpoint: high watermark {high_watermark}",),
    "LOG_START_CHECKPOINT": ("checkpoint: log start offset {log_start_offset}",),
    "TOPIC_ID_CHECKPOINT": ("partition.metadata: topic id {topic_id}", "folder {name}"),
    "LEADER_AND_ISR": ("LeaderAndIsr {correlation_id} of controller {controller_id} (epoch {controller_epoch})", *_STATE),
    "STOP_REPLICA": (
        "StopReplica {correlation_id} of controller {controller_id} (epoch {controller_epoch})", "leader epoch {leader_epoch}",
        "delete {delete_partition}",
    ),
    "UPDATE_METADATA": ("UpdateMetadata {correlation_id} of controller {controller_id} (epoch {controller_epoch})", *_STATE),
    "ALTER_PARTITION": (
        "AlterPartition of broker {broker_id}", "ISR {isr}", "leader epoch {leader_epoch}", "partition epoch {partition_epoch}",
    ),
    "ELECT_LEADERS": ("ElectLeaders of {client_id}",),
    "CREATE_TOPICS": ("CreateTopics of {client_id}", "topic id {topic_id}", "{name} = {value}"),
    "ALTER_CONFIGS": ("AlterConfigs of {client_id}", "{name} = {value}"),
    "INCREMENTAL_ALTER_CONFIGS": ("IncrementalAlterConfigs of {client_id}", "{name} = {value}"),
    "DELETE_TOPICS": ("DeleteTopics of {client_id}", "topic id {topic_id}"),
    "FETCH": ("Fetch", "leader epoch {current_leader_epoch}", "last fetched epoch {last_fetched_epoch}"),
    "LIST_OFFSETS": ("ListOffsets {timestamp}", "leader epoch {current_leader_epoch}"),
    "OFFSET_FOR_LEADER_EPOCH": ("asks where leader epoch {leader_epoch} ends", "current leader epoch {current_leader_epoch}"),
    "INITIALIZE_SHARE_GROUP_STATE": ("state of share group {group_id} is initialized", "state epoch {state_epoch}"),
    "READ_SHARE_GROUP_STATE": ("state of share group {group_id} is read", "leader epoch {leader_epoch}", "state epoch {state_epoch}"),
    "WRITE_SHARE_GROUP_STATE": ("state of share group {group_id} is written", "leader epoch {leader_epoch}", "state epoch {state_epoch}"),
    "DELETE_SHARE_GROUP_STATE": ("state of share group {group_id} is deleted",),
    "SHARE_FETCH": ("ShareFetch of member {member_id} of group {group_id}",),
    "SHARE_ACKNOWLEDGE": ("ShareAcknowledge of member {member_id} of group {group_id}",),
    "OFFSET_COMMIT": ("group {group_id} commits:", "leader epoch {committed_leader_epoch}"),
    "TXN_OFFSET_COMMIT": ("group {group_id} commits in a transaction:", "leader epoch {committed_leader_epoch}"),
    "BROKER_HEARTBEAT": ("broker {broker_id} wants to shut down (wantShutDown)", "broker epoch {broker_epoch}"),
    "CONTROLLED_SHUTDOWN": ("ControlledShutdown of broker {broker_id}",),
    "OFFSET_FETCH": ("group {group_id} asks for its commit",),
    "METADATA": ("Metadata",),
    "PRODUCE": ("Produce with acks={acks}", "transactional id {transactional_id}"),
    "ADD_PARTITIONS_TO_TXN": (
        "AddPartitionsToTxn of transactional id {transactional_id}", "verify only {verify_only}", "producer id {producer_id}",
    ),
    "WRITE_TXN_MARKERS": (
        "transaction marker", "committed {committed}", "coordinator epoch {coordinator_epoch}", "producer id {producer_id}",
    ),
}  # fmt: skip
_SETTING: Final = "{name} = {value}"
# What a setting without a value means, by event type. IncrementalAlterConfigs also appends to lists and subtracts from them.
_WITHOUT_VALUE: Final = {
    "CONFIG_RECORD": "{name} removed",
    "CONFIG_CHANGED": "{name} removed",
    "ALTER_CONFIGS": "{name} removed",
    "INCREMENTAL_ALTER_CONFIGS": "{name} removed or edited",
}
_NOT_GIVEN: Final = frozenset(
    {"current_leader_epoch", "last_fetched_epoch", "committed_leader_epoch", "previous_epoch"}
)
_SENTINELS: Final = {NO_EPOCH: "none", EPOCH_DURING_DELETE: "the topic is being deleted"}
_MAY_BE_EMPTY: Final = frozenset({"added_brokers", "deleted_brokers", "bounced_brokers", "elr"})
_TIMESTAMPS: Final = {
    LATEST_TIMESTAMP: "latest", EARLIEST_TIMESTAMP: "earliest", MAX_TIMESTAMP: "max timestamp",
    EARLIEST_LOCAL_TIMESTAMP: "earliest local", LATEST_TIERED_TIMESTAMP: "latest tiered",
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: "earliest pending upload",
}  # fmt: skip


def sentence(event: Event) -> str:
    """The sentence of a row, without its host, time and place, which the page prints beside it."""
    kind = event["event_type"]
    clauses = _CLAUSES.get(
        kind, (f"{kind}", "leader {leader}", "leader epoch {leader_epoch}", "offset {offset}", "{reason}")
    )
    if kind in _WITHOUT_VALUE and event.get("value") is None:
        clauses = tuple(clause.replace(_SETTING, _WITHOUT_VALUE[kind]) for clause in clauses)
    text = _join(clauses, event)
    tail = _ANSWERED.get(kind, _answer)(event) if event["source"] == "request_log" else ""
    by_client = kind in REPEATED and event["source"] == "request_log"
    requester = f"{_requester(event)}: " if by_client and event["client_id"] is not None else ""
    if event.get("in_snapshot"):
        text = text.replace("record: partition created", "snapshot: partition").replace("record: ", "snapshot: ")
    if event.get("forgotten"):
        text, tail = "Fetch that takes the partition out of its session", ""
    return f"{requester}{_count(event)}{text}{tail}".replace(f"{AS_FOLLOWS},", AS_FOLLOWS).rstrip(AS_FOLLOWS)


def refused(event: Event) -> int | None:
    """The partition's error code in the answer, else the request's; None if it was accepted or no answer is recorded."""
    return event.get("error_code") or event.get("request_error_code") or None


def _join(clauses: Iterable[str], event: Event) -> str:
    return ", ".join(filled for clause in clauses if (filled := _filled(clause, event)) is not None)


def _filled(clause: str, event: Event) -> str | None:
    """The clause with the row's values; None if one of them is missing."""
    names = [name for _, name, _, _ in Formatter().parse(clause) if name]
    values = {name: event.get(name) for name in names}
    if any(value is None or _is_empty(name, value) for name, value in values.items()):
        return None
    return clause.format_map({name: _formatted(name, value) for name, value in values.items()})


def _is_empty(name: str, value: Any) -> bool:
    return (name in _NOT_GIVEN and value == NO_EPOCH) or (name in _MAY_BE_EMPTY and not value)


def _formatted(name: str, value: Any) -> str:
    if name == "leader" and value in (NO_LEADER, LEADER_DURING_DELETE):
        return "none" if value == NO_LEADER else "none, being deleted"
    if name == "leader_epoch" and value in _SENTINELS:
        return f"{value} ({_SENTINELS[value]})"
    if name == "acks" and value == ALL_REPLICAS:
        return "all"
    if name == "timestamp":
        return _TIMESTAMPS.get(value, f"by timestamp {value}")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return str(value).replace("_", " ") if name == "reason" else str(value)


def _requester(event: Event) -> str:
    replica = event.get("replica_id")
    return f"follower {replica}" if replica is not None and replica >= 0 else f"client {event.get('client_id')}"


def _count(event: Event) -> str:
    return f"{event['requests']:,} \u00d7 " if event["requests"] > 1 else ""


def _answer(event: Event) -> str:
    code = refused(event)
    if code:
        return f": REFUSED with {error_text(code)}"
    known = (event.get("error_code"), event.get("request_error_code"))
    return ": accepted" if 0 in known else ": no answer of this partition is recorded"


def _offsets(event: Event) -> str:
    least, greatest = event.get("least"), event.get("greatest")
    if least is None:
        return ""
    return f" offset {least}" if least == greatest else f" offsets {least} to {greatest}"


def _fetched(event: Event) -> str:
    code = refused(event)
    offsets = f",{_offsets(event)}" if _offsets(event) else ""
    if code:
        return f"{offsets}: REFUSED with {error_text(code)}"
    if event.get("diverging_epoch") not in (None, NO_EPOCH):
        return (
            f"{offsets}: answered that its log DIVERGES after leader epoch {event['diverging_epoch']}, "
            f"which ends at {event['diverging_end_offset']}"
        )
    mark = event["last"]["high_watermark"]
    return f"{offsets}: served" + ("" if mark is None or mark < 0 else f", high watermark {mark}")


def _offset_text(event: Event) -> str:
    code = refused(event)
    if code:
        return f": REFUSED with {error_text(code)}"
    epoch = event.get("response_leader_epoch")
    of_epoch = f" of leader epoch {epoch}" if epoch is not None and epoch >= 0 else ""
    return f": answered{_offsets(event)}{of_epoch}" if _offsets(event) else ": answered none"


def _epoch_end(event: Event) -> str:
    code = refused(event)
    if code:
        return f": REFUSED with {error_text(code)}"
    return f": leader epoch {event.get('response_leader_epoch')} ends at{_offsets(event) or ' no known offset'}"


def _committed(event: Event) -> str:
    code = refused(event)
    return (f",{_offsets(event)}" if _offsets(event) else "") + (f": REFUSED with {error_text(code)}" if code else "")


def _granted(event: Event) -> str:
    code = refused(event)
    if code:
        return f": REFUSED with {error_text(code)}"
    return ": granted (shouldShutDown)" if event.get("should_shut_down") else ": not yet"


def _metadata(event: Event) -> str:
    code = refused(event)
    if code:
        return f": answered {error_text(code)}"
    clauses = ("leader {response_leader}", "leader epoch {response_leader_epoch}", "ISR {response_isr}")
    return f": answered {_join(clauses, event)}"


def _acknowledged(event: Event) -> str:
    return f": acknowledged, base{_offsets(event)}"


def _of_producer_epochs(event: Event) -> str:
    least, greatest = event.get("least"), event.get("greatest")
    if least is None:
        return _answer(event)
    epochs = f"producer epoch {least}" if least == greatest else f"producer epochs {least} to {greatest}"
    return f", {epochs}{_answer(event)}"


_ANSWERED: Final[Mapping[str, Callable[[Event], str]]] = {
    "BROKER_HEARTBEAT": _granted,
    "FETCH": _fetched,
    "LIST_OFFSETS": _offset_text,
    "OFFSET_FETCH": _offset_text,
    "OFFSET_FOR_LEADER_EPOCH": _epoch_end,
    "OFFSET_COMMIT": _committed,
    "TXN_OFFSET_COMMIT": _committed,
    "METADATA": _metadata,
    "PRODUCE": _acknowledged,
    "ADD_PARTITIONS_TO_TXN": _of_producer_epochs,
    "WRITE_TXN_MARKERS": _of_producer_epochs,
}
