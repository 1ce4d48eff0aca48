"""Rows of a timeline with the marks, labels and weights that they have in a picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Final

from epochaudit.kafka.field_values import NO_EPOCH, NO_LEADER, RECOVERING
from epochaudit.report.pictures import picture as marks
from epochaudit.timeline.event_text import Event, refused
from epochaudit.timeline.merge import Row, TopicTimeline
from epochaudit.timeline.row_text import is_emphasized

CLIENT: Final = "client "
OTHER_NODES: Final = "other nodes"
OTHER_CLIENTS: Final = "other clients"

PROOF, DECISIVE, CHANGE, DETAIL, EXCHANGE, ROUTINE = 5, 4, 3, 2, 1, 0
"""Weights: lines of findings; truncations and leaders from outside the ISR; leaders and refusals; other changes; clients; the rest."""

# By event type: the mark, the weight, and the label with the row's values. A label with a null field is left out.
_SHOWN: Final[Mapping[str, tuple[str, int, str]]] = {
    "LEADER_STARTS": (marks.LEADER, CHANGE, "leads from {start_offset}"),
    "FOLLOWER_STARTS": (marks.FOLLOWER, CHANGE, "follows {leader}"),
    "UNCLEAN_ELECTION": (marks.UNCLEAN, DECISIVE, "unclean: {leader} leads"),
    "PARTITION_STATE_CHANGED": (marks.ELECTION, CHANGE, "leader {leader}, ISR {isr}"),
    "PARTITION_REPLAYED": (marks.ELECTION, ROUTINE, "leader {leader}, ISR {isr}"),
    "PARTITION_CHANGE_REPLAYED": (marks.ELECTION, ROUTINE, "leader {leader}, ISR {isr}"),
    "PARTITION_RECORD": (marks.ELECTION, CHANGE, "leader {leader}, ISR {isr}"),
    "PARTITION_CHANGE_RECORD": (marks.ELECTION, CHANGE, "leader {leader}, ISR {isr}"),
    "LOG_TRUNCATED": (marks.TRUNCATED, DECISIVE, "truncated to {offset}"),
    "FOLLOWER_TRUNCATING": (marks.TRUNCATED, DECISIVE, "truncates to {offset}"),
    "LOG_EMPTIED": (marks.TRUNCATED, DECISIVE, "log emptied"),
    "TRUNCATION_BELOW_HIGH_WATERMARK": (marks.TRUNCATED, DECISIVE, "below HW {high_watermark}"),
    "HIGH_WATERMARK_LOWERED": (marks.TRUNCATED, DECISIVE, "HW lowered to {high_watermark}"),
    "CLIENT_TRUNCATION_DETECTED": (marks.DETECTED, DECISIVE, "sees truncation"),
    "CONSUMER_OUT_OF_RANGE": (marks.DETECTED, DECISIVE, "out of range"),
    "FETCHER_FENCED": (marks.REFUSED, CHANGE, "fetcher fenced"),
    "ALTER_PARTITION_FAILED": (marks.REFUSED, CHANGE, "ISR change refused"),
    "ALTER_PARTITION_REJECTED": (marks.REFUSED, CHANGE, "ISR change refused"),
    "ISR_UPDATE_SKIPPED": (marks.REFUSED, CHANGE, "ISR change refused"),
    "LEADER_AND_ISR_IGNORED": (marks.REFUSED, DETAIL, "ignores LeaderAndIsr"),
    "STOP_REPLICA_IGNORED": (marks.REFUSED, DETAIL, "ignores StopReplica"),
    "STOP_REPLICA": (marks.STOPPED, DETAIL, "StopReplica"),
    "STOP_REPLICA_RECEIVED": (marks.STOPPED, DETAIL, "StopReplica"),
    "LOG_DELETION_SCHEDULED": (marks.STOPPED, CHANGE, "replica deleted"),
    "DELETE_TOPICS": (marks.STOPPED, CHANGE, "topic deleted"),
    "REMOVE_TOPIC_RECORD": (marks.STOPPED, CHANGE, "topic deleted"),
    "TOPIC_DELETION_COMPLETED": (marks.STOPPED, CHANGE, "topic deleted"),
    "ISR_SHRINKING": (marks.ISR, DETAIL, "ISR to shrink to {isr}"),
    "ISR_EXPANDING": (marks.ISR, DETAIL, "ISR to grow to {isr}"),
    "ISR_UPDATED": (marks.ISR, EXCHANGE, "ISR {isr}"),
    "ALTER_PARTITION": (marks.ISR, DETAIL, "wants ISR {isr}"),
    "PROCESS_STARTING": (marks.PROCESS, DETAIL, "process starts"),
    "PROCESS_SHUTTING_DOWN": (marks.PROCESS, DETAIL, "process shuts down"),
    "PROCESS_STOPPED": (marks.PROCESS, EXCHANGE, "process stopped"),
    "BROKER_SESSION_EXPIRED": (marks.PROCESS, DETAIL, "broker {broker_id} fenced"),
    "BROKERS_CHANGED": (marks.PROCESS, EXCHANGE, "brokers {live_brokers}"),
    "OFFSET_COMMIT": (marks.COMMIT, EXCHANGE, "commits"),
    "TXN_OFFSET_COMMIT": (marks.COMMIT, EXCHANGE, "commits"),
    "OFFSET_FETCH": (marks.SERVED, ROUTINE, "committed"),
    "LIST_OFFSETS": (marks.SERVED, ROUTINE, "ListOffsets"),
    "OFFSET_FOR_LEADER_EPOCH": (marks.SERVED, EXCHANGE, "epoch {leader_epoch} ends"),
    "CONSUMER_OFFSET_RESET": (marks.OTHER, EXCHANGE, "resets to {offset}"),
    "LEADER_AND_ISR": (marks.OTHER, ROUTINE, "LeaderAndIsr"),
    "UPDATE_METADATA": (marks.OTHER, ROUTINE, "UpdateMetadata"),
    "METADATA": (marks.OTHER, ROUTINE, "Metadata"),
    "PRODUCE": (marks.SERVED, EXCHANGE, "acknowledges"),
    "ADD_PARTITIONS_TO_TXN": (marks.OTHER, ROUTINE, "adds to a transaction"),
    "WRITE_TXN_MARKERS": (marks.OTHER, EXCHANGE, "transaction marker"),
}  # fmt: skip
_OF_NO_REPLICA: Final = frozenset(
    {"METADATA", "OFFSET_FETCH", "OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "ADD_PARTITIONS_TO_TXN"}
)
_STATES: Final = frozenset({
    "PARTITION_STATE_CHANGED", "PARTITION_REPLAYED", "PARTITION_CHANGE_REPLAYED", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD",
    "LEADER_AND_ISR", "ISR_UPDATED",
})  # fmt: skip
"""Events that state an ISR and its partition epoch."""
_OF_CONTROLLER: Final = frozenset({"LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA"})


@dataclass(frozen=True)
class Proof:
    """A finding that a line proves. crossed: by a consumer that read on without noticing."""

    rule: str
    finding_id: str
    crossed: bool = False


@dataclass(frozen=True)
class Proofs:
    """The lines of findings, by (cluster, file, byte offset). own: the line of the finding's subject. others: the other lines."""

    own: Mapping[tuple[str, str, int], tuple[Proof, ...]] = field(default_factory=dict)
    others: Collection[tuple[str, str, int]] = frozenset()

    def of(self, row: Row) -> tuple[Proof, ...]:
        """The findings about the row, or about a request of the run that it stands for."""
        event = row.event
        return self.own.get((event["cluster"], event["file"], event["byte_offset"]), ())

    def names(self, row: Row) -> bool:
        """Some finding's evidence has the row's line."""
        event = row.event
        place = event["cluster"], event["file"], event["byte_offset"]
        return place in self.own or place in self.others


@dataclass(frozen=True)
class MarkedRow:
    """A row, or several that are alike: then `row` is the first of them.

    host, asker: whose lanes it is in. proofs: the findings about it. least, greatest: offsets of its requests. until: time of its
    last line. rows: how many it stands for. askers: the requesters, if it stands for those of many.
    """

    row: Row
    mark: str
    weight: int
    label: str
    host: str
    asker: str | None
    proofs: tuple[Proof, ...]
    requests: int
    least: int | None
    greatest: int | None
    until: str | None
    rows: int = 1
    askers: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[object, ...]:
        """Rows of a section with one key are alike."""
        event, is_proof = self.row.event, self.weight == PROOF
        label = self.label if self.weight > EXCHANGE else ""
        who = self.mark, self.host, self.asker, self.row.stated_epoch
        return event["event_type"], refused(event), *who, label, is_proof, self.proofs if is_proof else ()

    def with_another(self, other: MarkedRow) -> MarkedRow:
        """The two as one."""
        offsets = [offset for offset in (self.least, self.greatest, other.least, other.greatest) if offset is not None]
        return replace(
            self,
            requests=self.requests + other.requests,
            least=min(offsets, default=None),
            greatest=max(offsets, default=None),
            until=max(filter(None, (self.until, other.until)), default=None),
            rows=self.rows + other.rows,
            askers=self.askers | other.askers,
        )

    def of_any_client(self) -> MarkedRow:
        """The row as one of all clients, unless it proves a finding."""
        if self.weight == PROOF or self.asker is None or not is_client(self.asker):
            return self
        return replace(self, asker=OTHER_CLIENTS, askers=frozenset({self.asker}))


def elections_from_outside(topic: TopicTimeline) -> Mapping[int, str]:
    """The rows, by identity, that give the lead to a replica outside the ISR of the state before: marks.UNCLEAN or marks.UNKNOWN.

    States are ordered by partition epoch. Nothing is concluded where the state before is not recorded. In KRaft a leader from outside
    the ISR may be an eligible leader replica (KIP-966): such an election is unclean if the record marks it (KIP-704), or if the eligible
    leader replicas are known and the leader is none of them. Controllers before 4.3 may empty these in the batch in which they elect one.
    It is of unknown kind where the eligible leader replicas are not known, as in controller.log or after a metadata log that begins late,
    and where the record changes the replicas, too: a reassignment that completes elects from the ISR that the same record writes.
    """
    if not topic.topic_known:  # partition epochs of two topics
        return {}
    rows = [row for section in topic.sections for row in section.rows if row.event["event_type"] in _STATES]
    stated = [row for row in rows if row.event["isr"] is not None and (row.event["partition_epoch"] or -1) >= 0]
    isr = {row.event["partition_epoch"]: row.event["isr"] for row in stated}
    eligible = _eligible_leader_replicas(stated)
    kinds: dict[int, str] = {}
    for row in stated:
        event, before = row.event, row.event["partition_epoch"] - 1
        is_election = _SHOWN[event["event_type"]][0] == marks.ELECTION and (event["leader"] or 0) >= 0
        if is_election and event["leader"] is not None and before in isr and event["leader"] not in isr[before]:
            candidates = eligible.get(before)
            if event["event_type"] == "PARTITION_STATE_CHANGED" or _is_marked(event):
                kinds[id(row)] = marks.UNCLEAN
            elif candidates is None or event["replicas"] is not None:
                kinds[id(row)] = marks.UNKNOWN
            elif event["leader"] not in {*candidates, *(eligible.get(before - 1) or ())}:
                kinds[id(row)] = marks.UNCLEAN
    return kinds


def _is_marked(event: Event) -> bool:
    """The record begins the recovery from an unclean election. A PartitionRecord may repeat an earlier mark."""
    return (event["event_type"], event["leader_recovery_state"]) == ("PARTITION_CHANGE_RECORD", RECOVERING)


def _eligible_leader_replicas(stated: Sequence[Row]) -> Mapping[int, Collection[int]]:
    """The eligible leader replicas by partition epoch, where the metadata log states them: a PartitionRecord has all fields."""
    known: dict[int, Collection[int]] = {}
    for row in sorted(stated, key=lambda row: row.event["partition_epoch"]):
        kind, epoch, elr = (row.event[name] for name in ("event_type", "partition_epoch", "elr"))
        if kind == "PARTITION_RECORD":
            known[epoch] = elr or ()
        elif kind == "PARTITION_CHANGE_RECORD" and (elr is not None or epoch - 1 in known):
            known[epoch] = known[epoch - 1] if elr is None else elr
    return known


def marked(row: Row, known: Proofs, *, idle: Collection[int], outside: Mapping[int, str]) -> MarkedRow:
    """The row with its mark. idle: rows, by identity, of truncations that removed nothing. outside: `elections_from_outside`."""
    event = row.event
    kind, code = event["event_type"], refused(event) if event["source"] == "request_log" else None
    mark, weight, template = _SHOWN.get(kind, (marks.OTHER, ROUTINE, kind.lower().replace("_", " ")))
    label, asker, found = _label(template, event), asker_of(event), known.of(row)
    if kind == "FETCH":
        mark, weight, label = marks.SERVED, ROUTINE if asker is None or not is_client(asker) else EXCHANGE, ""
        if event["diverging_epoch"] not in (None, NO_EPOCH):
            mark, weight, label = marks.DETECTED, DECISIVE, f"diverges at {event['diverging_end_offset']}"
    elif mark in (marks.ELECTION, marks.FOLLOWER) and event["leader"] == NO_LEADER:
        label = "no leader"
    if code and mark != marks.REFUSED:
        mark, weight, label = marks.REFUSED, DETAIL if kind in _OF_NO_REPLICA else CHANGE, f"refused {code}"
    elif id(row) in outside:
        mark, weight = outside[id(row)], DECISIVE
        label = f"{'unclean' if mark == marks.UNCLEAN else 'unclean or not'}: {event['leader']} leads"
    elif id(row) in idle:
        mark, weight = marks.OTHER, ROUTINE
    elif is_emphasized(row):
        weight = max(weight, CHANGE)
    if any(one.crossed for one in found):
        mark = marks.CROSSED
    if known.names(row):
        weight = PROOF
    requests, until = event["requests"], row.until or row.time
    return MarkedRow(
        row, mark, weight, label, row.host, asker, found, requests, event["least"], event["greatest"], until
    )


def _label(template: str, event: Event) -> str:
    """The template with the row's values; its beginning, before the field, if one is null."""
    parts = [(text, name) for text, name, _, _ in Formatter().parse(template)]
    label = ""
    for text, name in parts:
        label += text
        if name and event.get(name) is None:
            return label.split("{")[0].rstrip(" ,").removesuffix("ISR").rstrip(" ,")
        if name:
            value = event[name]
            label += f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)
    return label


def asker_of(event: Event) -> str | None:
    """The lane of the requester: a follower, a controller, or a client."""
    if event["source"] != "request_log":
        return None
    replica = event.get("replica_id")
    if replica is not None and replica >= 0:
        return f"node {replica}"
    if event["event_type"] == "ALTER_PARTITION" and event["broker_id"] is not None:
        return f"node {event['broker_id']}"
    if event["event_type"] in _OF_CONTROLLER:
        return None if event["controller_id"] is None else f"node {event['controller_id']}"
    return None if event["client_id"] is None else f"{CLIENT}{event['client_id']}"


def is_client(host: str) -> bool:
    """The host, or the lane, is a client's."""
    return host.startswith(CLIENT) or host == OTHER_CLIENTS
