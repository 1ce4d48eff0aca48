"""Verdicts that somebody has to look at, with evidence that can be checked by hand.

The judge leaves rows whose evidence are places in files. Here, on the driver, they become findings: the lines' text and
numbers, an id that depends on content only, and an order that does not depend on how Spark ran.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from typing import Any, Final

from epochaudit.evidence import Evidence, LineNumbers, Opener, Place, iso_time, read_lines
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
ANY: Final = ()  # in a key: whatever the topic, partition or client

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One judged subject that is not a plain pass; fields that mean nothing for its rule are null.

    first_offset, last_offset: of the records that are gone, or that a consumer never saw (`Rule.lost`); both included.
    consequences: what other rules found because of it (`Rule.caused_by`); they have none themselves.
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
    def where(self) -> str:
        """What it is about, beside its topic and partition: `node 2, leader epoch 3, client c, cluster west`."""
        named = (
            ("node", self.node),
            ("leader epoch", self.leader_epoch),
            ("client", self.client),
            ("group", self.group),
            ("correlation id", self.correlation_id),
            ("cluster", self.cluster),
        )
        return ", ".join(f"{name} {value}" for name, value in named if value is not None)


def with_consequences(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each finding, followed by what it caused."""
    return (one for root in findings for one in (root, *root.consequences))


@dataclass(frozen=True)
class Recording:
    """What is known of the recorded files: how to open one, its line counts, whether its times have a zone.

    holds_records: the file is a raw metadata log, whose lines are records.
    """

    open_file: Opener
    numbers: LineNumbers
    zoned: Callable[[Place], bool]
    holds_records: Callable[[Place], bool]


def findings(
    rows: Iterable[Row], recording: Recording, caused_by: Mapping[str, Collection[str]]
) -> tuple[Finding, ...]:
    """Finished findings, ordered by severity, rule, cluster, topic, partition, leader epoch, node and correlation id.

    `rows` have the columns of `epochaudit.auditing.Audit.findings`, as dicts; `caused_by` has for each rule the rules whose
    findings may have caused its own.
    """
    raw = list(rows)
    places = (_place(row, line, recording) for row in raw for line in row["evidence"] or ())
    texts = read_lines(places, recording.open_file)
    ordered = sorted((_finding(row, texts, recording) for row in raw), key=in_order)
    return tuple(_rooted(list(_with_ids(ordered)), caused_by))


def _place(row: Row, line: Row, recording: Recording) -> Place:
    at = line["place"]
    place = Place(row["cluster"], at["file"], at["byte_offset"])
    return replace(place, record=at["line_in_split"]) if recording.holds_records(place) else place


def _finding(row: Row, texts: Mapping[Place, str], recording: Recording) -> Finding:
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
        evidence=tuple(_evidence(row, line, texts, recording) for line in row["evidence"] or ()),
        first_offset=row["first_offset"],
        last_offset=row["last_offset"],
    )


def _evidence(row: Row, line: Row, texts: Mapping[Place, str], recording: Recording) -> Evidence:
    place, at = _place(row, line, recording), line["place"]
    return Evidence(
        role=line["role"],
        node=at["node"],
        file=place.file,
        line=recording.numbers.absolute(place.cluster, place.file, at["split"], at["line_in_split"]),
        byte_offset=place.byte_offset,
        time=iso_time(at["time_ms"], zoned=recording.zoned(place)),
        text=texts.get(place),
    )


def in_order(finding: Finding) -> tuple[object, ...]:
    """The key of a total order: what a reader expects first, then everything that could tell two findings apart."""
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
    """The findings that nothing else caused, with their consequences inside."""
    first_cause = _first_causes(found)
    parents: dict[int, int] = {}
    for number, finding in enumerate(found):
        if finding.verdict in BREACHES:
            met = (first_cause.get((rule, key)) for rule in caused_by.get(finding.rule, ()) for key in _met(finding))
            if causes := [cause for cause in met if cause is not None]:
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


# A breach causes others that share a line with it, of its own partition, or topic, or of none; and one of a whole topic
# those of the topic wherever they are recorded. Of several causes it is one of the finding's own client, if there is one.
# There may be ten thousands of one line: all is looked up by keys.


def _first_causes(found: Sequence[Finding]) -> Mapping[tuple[str, object], int]:
    """The number of the first breach by its rule and what those that it caused have of it."""
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


def _met(finding: Finding) -> Iterator[object]:
    """The keys under which causes of a finding are to be found."""
    topics = {ANY} if finding.topic is None else {finding.topic, None}
    partitions = {ANY} if finding.partition is None else {finding.partition, None}
    yield from product(_lines(finding), topics, partitions, (finding.client, ANY))
    if finding.topic is not None:
        yield finding.cluster, finding.topic


def _lines(finding: Finding) -> set[object]:
    return {(finding.cluster, line.file, line.byte_offset, line.line) for line in finding.evidence}


def _with_ids(ordered: Iterable[Finding]) -> Iterable[Finding]:
    """Each finding with its id: a digest of rule, verdict and subject, and an ordinal among those that share them.

    Neither file nor line enters, so that the same incident recorded again keeps its ids.
    """
    seen: Counter[str] = Counter()
    for finding in ordered:
        about = [getattr(finding, name) for name in IDENTITY]
        content = json.dumps([*about, finding.topic_id or finding.topic])
        yield replace(finding, finding_id=blake2b(f"{content}#{seen[content]}".encode(), digest_size=12).hexdigest())
        seen[content] += 1
