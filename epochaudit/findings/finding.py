"""Findings: verdicts that need attention, with evidence that can be checked by hand.

The evidence of the judge's rows are places in files. On the driver, this module reads the lines' text and numbers, assigns
ids that depend on content only, and orders the findings independently of how Spark ran.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from typing import Any, Final

from epochaudit.findings.evidence import (
    A_BATCH,
    TEXT_LIMIT,
    Evidence,
    LineNumbers,
    Opener,
    Place,
    cut,
    disambiguated,
    iso_time,
    read_lines,
)
from epochaudit.findings.excerpts import excerpt
from epochaudit.rules.rule import EXPOSED, SEVERITIES, VIOLATION

IDENTITY: Final = (
    "rule",
    "verdict",
    "cluster",
    "node",
    "partition",
    "leader_epoch",
    "client",
    "group",
    "correlation_id",
)

BREACHES: Final = (VIOLATION, EXPOSED)
ANY: Final = ()  # in a key: matches every topic, partition or client

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One subject with a verdict that is reported. Fields that do not apply to its rule are null.

    first_offset, last_offset: the records that were lost, or that a consumer skipped (`Rule.lost`), both inclusive.
    consequences: findings of other rules that this one caused (`Rule.caused_by`). They have no consequences themselves.
    """

    finding_id: str
    rule: str
    verdict: str
    severity: str
    cluster: str
    node: int | None
    topic: str | None
    topic_id: str | None
    partition: int | None
    leader_epoch: int | None
    client: str | None
    group: str | None
    correlation_id: int | None
    expected: str
    observed: str
    because: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    first_offset: int | None = None
    last_offset: int | None = None
    consequences: tuple[Finding, ...] = ()

    @property
    def subject(self) -> str:
        """`orders-3` for a partition, the topic alone, or an empty string."""
        if self.topic is None:
            return "" if self.topic_id is None else self.topic_id
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    @property
    def time(self) -> str | None:
        """When its own line was written, ISO 8601 by the clock of its node; None without such a line."""
        return self.evidence[0].time if self.evidence else None

    @property
    def where(self) -> str:
        """The subject beside topic and partition: `node 2, leader epoch 3, client c, cluster west`."""
        return ", ".join(filter(None, (self.where_in_cluster, f"cluster {self.cluster}")))

    @property
    def where_in_cluster(self) -> str:
        """The same without the cluster; empty if it is about nothing else."""
        named = (
            ("node", self.node),
            ("leader epoch", self.leader_epoch),
            ("client", self.client),
            ("group", self.group),
            ("correlation id", self.correlation_id),
        )
        return ", ".join(f"{name} {value}" for name, value in named if value is not None)


def with_consequences(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each finding, followed by its consequences."""
    return (finding for root in findings for finding in (root, *root.consequences))


@dataclass(frozen=True)
class EvidenceReader:
    """Access to the recorded files: how to open one, its line counts, and whether its times have a zone.

    holds_records: the file is a raw metadata log, which has records instead of lines. holds_batches: it is a raw segment of a
    partition.
    """

    open_file: Opener
    numbers: LineNumbers
    zoned: Callable[[Place], bool]
    holds_records: Callable[[Place], bool]
    holds_batches: Callable[[Place], bool]


def findings(
    rows: Iterable[Row], recording: EvidenceReader, caused_by: Mapping[str, Collection[str]]
) -> tuple[Finding, ...]:
    """Findings with texts, ids and consequences, ordered by severity, rule, cluster, topic, partition, leader epoch, node.

    `rows`: dicts with the columns of `epochaudit.pipeline.Audit.findings`. `caused_by`: rule -> the rules whose findings may
    have caused its own.
    """
    raw = [_with_first_difference(row, recording) for row in rows]
    ordered = sorted(_with_lines(raw, recording), key=in_order)
    return tuple(_rooted(list(_with_ids(ordered)), caused_by))


def _with_first_difference(row: Row, recording: EvidenceReader) -> Row:
    """The row, its first two places moved to the first differing batches if they are batches of two segments."""
    lines = row["evidence"] or []
    places = [_place(row, line, recording) for line in lines[:2]]
    if len(places) < 2 or any(place.record != A_BATCH for place in places) or places[0].file == places[1].file:
        return row
    first_difference = disambiguated(places[0], places[1], recording.open_file)
    moved = [
        line
        if now == then
        else {**line, "place": {**line["place"], "byte_offset": now.byte_offset, "line_in_split": None}}
        for line, then, now in zip(lines, places, first_difference, strict=False)
    ]
    return {**row, "evidence": [*moved, *lines[2:]]}


def _place(row: Row, line: Row, recording: EvidenceReader) -> Place:
    at = line["place"]
    place = Place(row["cluster"], at["file"], at["byte_offset"])
    if recording.holds_batches(place):
        return replace(place, record=A_BATCH)
    return replace(place, record=at["line_in_split"]) if recording.holds_records(place) else place


def _with_lines(rows: Sequence[Row], recording: EvidenceReader) -> Iterator[Finding]:
    """The findings of the rows, with their lines. Each finding has of a long line what decides it."""
    found = [_finding(row, recording) for row in rows]
    wanted: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for number, row in enumerate(rows):
        for nth, line in enumerate(row["evidence"] or ()):
            wanted[_place(row, line, recording)].append((number, nth))
    texts: dict[tuple[int, int], str] = {}
    for place, text in read_lines(wanted, recording.open_file):
        texts |= {(number, nth): excerpt(text, found[number], TEXT_LIMIT) for number, nth in wanted[place]}
    for number, finding in enumerate(found):
        lines = (replace(line, text=texts.get((number, nth))) for nth, line in enumerate(finding.evidence))
        yield replace(finding, evidence=tuple(lines))


def _finding(row: Row, recording: EvidenceReader) -> Finding:
    reason = (row["reason"],) if row["reason"] else ()
    return Finding(
        finding_id="",
        rule=row["rule"],
        verdict=row["verdict"],
        severity=row["severity"],
        cluster=row["cluster"],
        node=row["node"],
        topic=row["topic"],
        topic_id=row["topic_id"],
        partition=row["partition"],
        leader_epoch=row["leader_epoch"],
        client=row["client_id"],
        group=row["group_id"],
        correlation_id=row["correlation_id"],
        expected=row["expected"],
        observed=row["observed"],
        because=(*(row["because"] or ()), *reason),
        evidence=tuple(_evidence(row, line, recording) for line in row["evidence"] or ()),
        first_offset=row["first_offset"],
        last_offset=row["last_offset"],
    )


def _evidence(row: Row, line: Row, recording: EvidenceReader) -> Evidence:
    place, at = _place(row, line, recording), line["place"]
    return Evidence(
        role=line["role"],
        node=at["node"],
        file=place.file,
        line=recording.numbers.absolute(place.cluster, place.file, at["split"], at["line_in_split"]),
        byte_offset=place.byte_offset,
        time=iso_time(at["time_ms"], zoned=recording.zoned(place)),
        text=None,
    )


def evidence_of(cluster: str, lines: Sequence[Row], recording: EvidenceReader) -> tuple[Evidence, ...]:
    """The recorded lines at places of a cluster; `lines` are dicts of `role` and `place`, a struct of `events.views.ref`."""
    row = {"cluster": cluster}
    places = [_place(row, line, recording) for line in lines]
    texts = {place: cut(text) for place, text in read_lines(places, recording.open_file)}
    return tuple(
        replace(_evidence(row, line, recording), text=texts.get(place))
        for line, place in zip(lines, places, strict=True)
    )


def in_order(finding: Finding) -> tuple[object, ...]:
    """The key of a total order: severity, rule and subject first, then everything else in which two findings can differ."""
    subject = (
        finding.cluster,
        finding.topic,
        finding.partition,
        finding.leader_epoch,
        finding.node,
        finding.correlation_id,
        finding.client,
        finding.group,
        finding.topic_id,
    )
    proof = tuple((line.time or "", line.text or "", line.file, line.byte_offset) for line in finding.evidence)
    return (
        SEVERITIES.index(finding.severity),
        finding.rule,
        *((value is not None, value) for value in subject),
        finding.verdict,
        proof,
        finding.observed,
    )


def _rooted(found: Sequence[Finding], caused_by: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """The findings without a cause, each with its direct and indirect consequences."""
    first_cause = _first_causes(found)
    parents: dict[int, int] = {}
    for number, finding in enumerate(found):
        if finding.verdict in BREACHES:
            causes_found = (
                first_cause.get((rule, key)) for rule in caused_by.get(finding.rule, ()) for key in _cause_keys(finding)
            )
            if causes := [cause for cause in causes_found if cause is not None]:
                parents[number] = min(causes, key=lambda cause: (found[cause].client != finding.client, cause))
    consequences: dict[int, list[Finding]] = defaultdict(list)
    for number in parents:
        root = number
        while root in parents:
            root = parents[root]
        consequences[root].append(found[number])
    for number, finding in enumerate(found):
        if number not in parents:
            yield replace(finding, consequences=tuple(consequences[number]))


# A breach causes another if they share an evidence line and agree in topic and partition, as far as both state them. A breach
# of a whole topic causes breaches of the topic at any line. Among several causes, one with the finding's own client is chosen.
# Tens of thousands of findings may share a line, so causes are found by keys.


def _first_causes(found: Sequence[Finding]) -> Mapping[tuple[str, object], int]:
    """(rule, key) -> index in `found` of the first breach of the rule that causes findings with that key."""
    first: dict[tuple[str, object], int] = {}
    for number, finding in enumerate(found):
        if finding.verdict in BREACHES:
            topics, partitions, clients = {finding.topic, ANY}, {finding.partition, ANY}, {finding.client, ANY}
            keys: list[object] = [*product(_lines(finding), topics, partitions, clients)]
            if finding.partition is None and finding.topic is not None:
                keys.append((finding.cluster, finding.topic))
            for key in keys:
                first.setdefault((finding.rule, key), number)
    return first


def _cause_keys(finding: Finding) -> Iterator[object]:
    """The keys by which `_first_causes` lists the causes of a finding."""
    topics = {ANY} if finding.topic is None else {finding.topic, None}
    partitions = {ANY} if finding.partition is None else {finding.partition, None}
    yield from product(_lines(finding), topics, partitions, (finding.client, ANY))
    if finding.topic is not None:
        yield finding.cluster, finding.topic


def _lines(finding: Finding) -> set[object]:
    return {(finding.cluster, line.file, line.byte_offset, line.line) for line in finding.evidence}


def _with_ids(ordered: Iterable[Finding]) -> Iterable[Finding]:
    """Each finding with its id: a digest of rule, verdict and subject, and of an ordinal among findings that share these.

    File and line are no part of it, so that another recording of the same incident yields the same ids.
    """
    seen: Counter[str] = Counter()
    for finding in ordered:
        identity = [getattr(finding, name) for name in IDENTITY]
        content = json.dumps([*identity, finding.topic_id or finding.topic])
        yield replace(finding, finding_id=blake2b(f"{content}#{seen[content]}".encode(), digest_size=12).hexdigest())
        seen[content] += 1
