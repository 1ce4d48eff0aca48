"""What happened, in words: one sentence per row of `epochaudit.replay.partition_history`, in the protocol's own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, Final

from epochaudit.replay.partition_history import REPEATED

Event = Mapping[str, Any]

ERRORS: Final[Mapping[int, str]] = {
    1: "OFFSET_OUT_OF_RANGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    9: "REPLICA_NOT_AVAILABLE",
    11: "STALE_CONTROLLER_EPOCH",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    22: "ILLEGAL_GENERATION",
    25: "UNKNOWN_MEMBER_ID",
    27: "REBALANCE_IN_PROGRESS",
    29: "TOPIC_AUTHORIZATION_FAILED",
    36: "TOPIC_ALREADY_EXISTS",
    41: "NOT_CONTROLLER",
    42: "INVALID_REQUEST",
    56: "KAFKA_STORAGE_ERROR",
    70: "FETCH_SESSION_ID_NOT_FOUND",
    71: "INVALID_FETCH_SESSION_EPOCH",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    77: "STALE_BROKER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    80: "PREFERRED_LEADER_NOT_AVAILABLE",
    82: "FENCED_INSTANCE_ID",
    83: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    84: "ELECTION_NOT_NEEDED",
    95: "INVALID_UPDATE_VERSION",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
    106: "FETCH_SESSION_TOPIC_ID_ERROR",
    107: "INELIGIBLE_REPLICA",
    108: "NEW_LEADER_ELECTED",
    110: "FENCED_MEMBER_EPOCH",
    113: "STALE_MEMBER_EPOCH",
}

_STATE: Final = ("leader {leader}", "leader epoch {leader_epoch}", "ISR {isr}", "partition epoch {partition_epoch}")
AS_FOLLOWS: Final = ":"  # ends a clause that the others belong to
_POSITION: Final = ("at offset {previous_offset}", "of leader epoch {previous_epoch}")

# Clauses; one whose fields are not all known is left out.
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
    "LEADER_AND_ISR_SKIPPED": ("needs no change:", *_STATE, "{reason}"),
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
    "LOG_EMPTIED": ("EMPTIED its log", "it begins anew at offset {offset}"),
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
    "CONTROLLER_RESIGNED": ("is not controller any more",),
    "CONTROLLER_ACTIVE": ("becomes active controller", "raft epoch {raft_epoch}"),
    "CONTROLLER_STANDBY": ("is not active controller any more", "leader {leader}", "raft epoch {raft_epoch}"),
    "BROKERS_CHANGED": (
        "controller sees brokers {live_brokers}", "new {added_brokers}", "gone {deleted_brokers}",
        "registered anew {bounced_brokers}",
    ),
    "BROKER_SESSION_EXPIRED": ("controller fences broker {broker_id}", "no heartbeats"),
    "LEADER_CHANGE": ("record: controller {leader} leads the quorum", "raft epoch {raft_epoch}"),
    "FEATURE_LEVEL_RECORD": ("record: {name} = {value}",),
    "CLIENT_TRUNCATION_DETECTED": (
        "DETECTS TRUNCATION", *_POSITION, "the broker's answer: leader epoch {diverging_epoch}", "which ends at {diverging_end_offset}",
        "goes on at offset {offset}", "{reason}",
    ),
    "CONSUMER_OUT_OF_RANGE": ("is told that its position is out of range", *_POSITION, "{reason}"),
    "CONSUMER_OFFSET_RESET": ("resets its position to offset {offset}", "{value}", "leader epoch {current_leader_epoch}"),
    "CONSUMER_OFFSET_COMMITTED": (
        "goes on from the committed offset {offset}", "of leader epoch {committed_leader_epoch}",
        "current leader epoch {current_leader_epoch}",
    ),
    "CONSUMER_SEEKS": ("seeks", "to offset {offset}", "of leader epoch {committed_leader_epoch}", "to {name}"),
    "CONSUMER_EPOCH_END": ("is told that leader epoch {response_leader_epoch} ends at offset {offset}",),
    "CONSUMER_LOOKUP_FAILED": ("its lookup failed", "{value}"),
    "CONSUMER_VALIDATION_SKIPPED": ("does not validate its position: the broker is too old",),
    "CLIENT_EPOCH_SEEN": ("learns leader epoch {leader_epoch}", "before {previous_epoch}"),
    "CLIENT_EPOCH_IGNORED": ("ignores leader epoch {leader_epoch}", "it knows {current_leader_epoch}", "{reason}"),
    "CLIENT_EPOCH_FORGOTTEN": ("is told no leader epoch, and knows none",),
    "CLIENT_HINT_TAKEN": ("takes the hint of an answer", "leader epoch {leader_epoch}", "leader {leader}"),
    "CLIENT_HINT_IGNORED": (
        "ignores the hint of an answer", "leader epoch {leader_epoch}", "leader {leader}", "it knows {current_leader_epoch}", "{reason}",
    ),
    "CLIENT_TOPIC_ID_CHANGED": ("learns that the topic was created again", "topic id {topic_id}", "formerly {value}"),
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
    "DELETE_TOPICS": ("DeleteTopics of {client_id}", "topic id {topic_id}"),
    "FETCH": ("Fetch", "leader epoch {current_leader_epoch}", "last fetched epoch {last_fetched_epoch}"),
    "LIST_OFFSETS": ("ListOffsets {timestamp}", "leader epoch {current_leader_epoch}"),
    "OFFSET_FOR_LEADER_EPOCH": ("asks where leader epoch {leader_epoch} ends", "current leader epoch {current_leader_epoch}"),
    "OFFSET_COMMIT": ("group {group_id} commits:", "leader epoch {committed_leader_epoch}"),
    "TXN_OFFSET_COMMIT": ("group {group_id} commits in a transaction:", "leader epoch {committed_leader_epoch}"),
    "CONTROLLED_SHUTDOWN": ("ControlledShutdown of broker {broker_id}",),
    "OFFSET_FETCH": ("group {group_id} asks for its commit",),
    "METADATA": ("Metadata",),
}  # fmt: skip
_NOT_GIVEN: Final = frozenset(
    {"current_leader_epoch", "last_fetched_epoch", "committed_leader_epoch", "previous_epoch"}
)
NOT_GIVEN: Final = -1
_SENTINELS: Final = {-1: "none", -2: "the topic is being deleted"}  # StopReplica's, which no leader epoch fences
_MAY_BE_EMPTY: Final = frozenset({"added_brokers", "deleted_brokers", "bounced_brokers", "elr"})
_TIMESTAMPS: Final = {-1: "latest", -2: "earliest", -3: "max timestamp", -4: "earliest local", -5: "latest tiered"}


def words(event: Event) -> str:
    """The sentence. Whose line it is, when and where it was recorded stand beside it, not in it."""
    kind = event["event_type"]
    clauses = _CLAUSES.get(
        kind, (f"{kind}", "leader {leader}", "leader epoch {leader_epoch}", "offset {offset}", "{reason}")
    )
    told = ", ".join(filled for clause in clauses if (filled := _filled(clause, event)) is not None)
    tail = _ANSWERED.get(kind, _answer)(event) if event["source"] == "request_log" else ""
    asked = kind in REPEATED and event["source"] == "request_log"
    who = f"{_asker(event)}: " if asked and event["client_id"] is not None else ""
    if event.get("in_snapshot"):
        told = told.replace("record: partition created", "snapshot: partition").replace("record: ", "snapshot: ")
    if event.get("forgotten"):
        told, tail = "Fetch that takes the partition out of its session", ""
    return f"{who}{_counted(event)}{told}{tail}".replace(f"{AS_FOLLOWS},", AS_FOLLOWS).rstrip(AS_FOLLOWS)


def error(code: int | None) -> str:
    """`74 (FENCED_LEADER_EPOCH)`; the number alone where the name says nothing about epochs, replicas or groups."""
    name = ERRORS.get(code) if code is not None else None
    return f"{code} ({name})" if name else str(code)


def refused(event: Event) -> int | None:
    """The error code that a request was answered with for the partition, else as a whole; None if it was not refused."""
    return event.get("error_code") or event.get("request_error_code") or None


def _filled(clause: str, event: Event) -> str | None:
    names = [name for _, name, _, _ in Formatter().parse(clause) if name]
    values = {name: event.get(name) for name in names}
    if any(value is None or _says_nothing(name, value) for name, value in values.items()):
        return None
    return clause.format_map({name: _shown(name, value) for name, value in values.items()})


def _says_nothing(name: str, value: Any) -> bool:
    return (name in _NOT_GIVEN and value == NOT_GIVEN) or (name in _MAY_BE_EMPTY and not value)


def _shown(name: str, value: Any) -> str:
    if name == "leader" and value in (-1, -2):
        return "none" if value == -1 else "none, being deleted"
    if name == "leader_epoch" and value in _SENTINELS:
        return f"{value} ({_SENTINELS[value]})"
    if name == "timestamp":
        return _TIMESTAMPS.get(value, f"by timestamp {value}")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return str(value).replace("_", " ") if name == "reason" else str(value)


def _asker(event: Event) -> str:
    replica = event.get("replica_id")
    return f"follower {replica}" if replica is not None and replica >= 0 else f"client {event.get('client_id')}"


def _counted(event: Event) -> str:
    return f"{event['requests']:,} \u00d7 " if event["requests"] > 1 else ""


def _answer(event: Event) -> str:
    code = refused(event)
    if code:
        return f": REFUSED with {error(code)}"
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
        return f"{offsets}: REFUSED with {error(code)}"
    if event.get("diverging_epoch") not in (None, NOT_GIVEN):
        return (
            f"{offsets}: told that its log DIVERGES after leader epoch {event['diverging_epoch']}, "
            f"which ends at {event['diverging_end_offset']}"
        )
    mark = event["last"]["high_watermark"]
    return f"{offsets}: served" + ("" if mark is None or mark < 0 else f", high watermark {mark}")


def _told_offset(event: Event) -> str:
    code = refused(event)
    if code:
        return f": REFUSED with {error(code)}"
    epoch = event.get("response_leader_epoch")
    of = f" of leader epoch {epoch}" if epoch is not None and epoch >= 0 else ""
    return f": told{_offsets(event)}{of}" if _offsets(event) else ": told none"


def _epoch_end(event: Event) -> str:
    code = refused(event)
    if code:
        return f": REFUSED with {error(code)}"
    return f": leader epoch {event.get('response_leader_epoch')} ends at{_offsets(event) or ' no known offset'}"


def _committed(event: Event) -> str:
    code = refused(event)
    return (f",{_offsets(event)}" if _offsets(event) else "") + (f": REFUSED with {error(code)}" if code else "")


def _metadata(event: Event) -> str:
    code = refused(event)
    if code:
        return f": answered {error(code)}"
    clauses = ("leader {response_leader}", "leader epoch {response_leader_epoch}", "ISR {response_isr}")
    told = ", ".join(filled for clause in clauses if (filled := _filled(clause, event)) is not None)
    return f": told {told}"


_ANSWERED: Final[Mapping[str, Callable[[Event], str]]] = {
    "FETCH": _fetched,
    "LIST_OFFSETS": _told_offset,
    "OFFSET_FETCH": _told_offset,
    "OFFSET_FOR_LEADER_EPOCH": _epoch_end,
    "OFFSET_COMMIT": _committed,
    "TXN_OFFSET_COMMIT": _committed,
    "METADATA": _metadata,
}
