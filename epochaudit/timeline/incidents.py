"""The pictures of a report: of the partitions with the worst findings, drawn from their timelines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import BREACHES, Finding, with_consequences
from epochaudit.losses.removal import Removal
from epochaudit.report.contents import Report
from epochaudit.report.losses import ACKNOWLEDGED, ELECTIONS, Loss, losses_of, truncations_of
from epochaudit.report.pictures.picture import CUT, READ, SKIPPED, Picture, Stretch
from epochaudit.rules.rule import SEVERITIES
from epochaudit.timeline.marked_rows import Proof, Proofs
from epochaudit.timeline.merge import SPLIT_COLUMNS, EventLog, Row, Timeline, TopicTimeline, timelines
from epochaudit.timeline.offsets import MOST_STRETCHES, log_of_epochs
from epochaudit.timeline.picture import picture_of

if TYPE_CHECKING:
    from epochaudit.pipeline import Audit

DRAWN: Final = 8  # partitions
MOST_STEPS: Final = 28  # of a picture among findings: what they are about, and what led to it

Place = tuple[str, str, int]


@dataclass(frozen=True)
class Incident:
    """The findings about one partition of one topic, with their consequences. is_new: not all of them are known."""

    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    findings: tuple[Finding, ...]
    is_new: bool = True

    @property
    def rank(self) -> tuple[object, ...]:
        """The key of the order: what is new first, then lost records, then by severity and number."""
        loses = any(one.first_offset is not None for one in self.findings)
        severity = min(SEVERITIES.index(one.severity) for one in self.findings)
        return not self.is_new, not loses, severity, -len(self.findings), self.cluster, self.topic, self.partition


def pictured(report: Report, recorded: Callable[[], EventLog]) -> Report:
    """The report with pictures of its worst incidents.

    recorded: gives the events that the report is about. It is called, and two small jobs run over them, if there are findings
    about partitions.
    """
    found = sorted(incidents_of(report), key=lambda incident: incident.rank)
    drawn = found[:DRAWN]
    if not drawn:
        return report
    partitions = list(dict.fromkeys((incident.topic, incident.partition) for incident in drawn))
    by_partition = dict(zip(partitions, timelines(recorded(), partitions), strict=True))
    pictures = [_picture(report, one, by_partition[one.topic, one.partition]) for one in drawn]
    shown = tuple(picture for picture in pictures if picture is not None)
    return replace(report, pictures=shown, undrawn=len(found) - len(shown))


def events_of(audit: Audit) -> EventLog:
    """The events of an audit, whose times are those of one clock already."""
    files = [file for capture in audit.captures for file in capture.files if file.time_zone is not None]
    splits = [row.asDict() for row in audit.splits.select(*SPLIT_COLUMNS).collect()]
    return EventLog(audit.events, splits, {(file.cluster, file.path) for file in files})


def incidents_of(report: Report) -> tuple[Incident, ...]:
    """The breaches that are not accepted, by the partition that they are about."""
    roots = [one for one in report.findings if one.verdict in BREACHES and not report.accepts(one)]
    about: dict[tuple[str, str, str | None, int], list[Finding]] = defaultdict(list)
    for one in with_consequences(roots):
        if one.topic is not None and one.partition is not None:
            about[one.cluster, one.topic, one.topic_id, one.partition].append(one)
    for cluster, topic, topic_id, partition in [key for key in about if key[2] is None]:
        named = [key for key in about if (key[0], key[1], key[3]) == (cluster, topic, partition) and key[2] is not None]
        if len(named) == 1:  # the rule's evidence has no id, and there was one topic of the name only
            about[named[0]] += about.pop((cluster, topic, topic_id, partition))
    return tuple(
        Incident(*subject, tuple(found), any(map(report.needs_attention, found))) for subject, found in about.items()
    )


def _picture(report: Report, incident: Incident, timeline: Timeline) -> Picture | None:
    topics = [topic for topic in timeline.topics if topic.cluster == incident.cluster]
    topic = next(
        (topic for topic in topics if incident.topic_id in (None, topic.topic_id)), topics[0] if topics else None
    )
    if topic is None:
        return None
    return picture_of(
        topic,
        incident.topic,
        incident.partition,
        proofs=_proofs(incident.findings, [row for section in topic.sections for row in section.rows]),
        stretches=_stretches(report, incident, topic),
        most=MOST_STEPS,
        left_out=timeline.left_out,
    )


def _proofs(findings: Iterable[Finding], rows: Sequence[Row]) -> Proofs:
    own: dict[Place, list[Proof]] = defaultdict(list)
    others: set[Place] = set()
    places = {_place_of_row(row) for row in rows}
    for one in findings:
        if not one.evidence:
            continue
        crossed = one.rule not in (ELECTIONS, ACKNOWLEDGED) and one.first_offset is not None
        proof = Proof(one.rule, one.finding_id, crossed=crossed)
        own[_row_of(one, places, rows)].append(proof)
        others |= {_place(one.cluster, line) for line in one.evidence[1:]}
    return Proofs({place: tuple(proofs) for place, proofs in own.items()}, frozenset(others))


def _row_of(finding: Finding, places: set[Place], rows: Iterable[Row]) -> Place:
    """The place of the row that has the line of the finding's subject: its own, or that of the run of requests it is in."""
    place = _place(finding.cluster, finding.evidence[0])
    if place in places:
        return place
    runs = [_place_of_row(row) for row in rows if row.event["requests"] > 1 and _has(row, finding, place)]
    return runs[0] if len(runs) == 1 else place


def _has(row: Row, finding: Finding, place: Place) -> bool:
    event, last = row.event, row.event["last"]
    if not event["file"] == last["file"] == place[1] or event["client_id"] != finding.client:
        return False
    return bool(event["byte_offset"] <= place[2] <= last["byte_offset"])


def _place(cluster: str, line: Evidence) -> Place:
    return cluster, line.file, line.byte_offset


def _place_of_row(row: Row) -> Place:
    return row.event["cluster"], row.event["file"], row.event["byte_offset"]


def _stretches(report: Report, incident: Incident, topic: TopicTimeline) -> tuple[Stretch, ...]:
    """The offsets that were lost or truncated, who had read them, and who read on without noticing."""
    removals: list[Loss | Removal] = [*losses_of(report), *truncations_of(report)]
    removed = [one for one in removals if _is_about(one, incident)]
    if not removed:
        return ()
    first = min(one.first_offset for one in removed)
    starts = [(s.leader_epoch or 0, s.start_offset) for s in topic.sections if s.start_offset is not None]
    cuts = [stretch for one in removed for stretch in _cuts(one)]
    reads = {
        (reader.client or reader.group, reader.first_offset, reader.last_offset)
        for one in removed
        for reader in one.read_by
    }
    losses = [one for one in removed if isinstance(one, Loss)]
    skips = {(who.client or who.group, who.first_offset, who.last_offset) for one in losses for who in one.skipped}
    return (
        *log_of_epochs(starts, first),
        *cuts[:MOST_STRETCHES],
        *_of_consumers(READ, "read", "had read", reads),
        *_of_consumers(SKIPPED, "skip", "read on without noticing, and skipped", skips),
    )


def _of_consumers(
    kind: str, label: str, verb: str, found: Iterable[tuple[str | None, int, int]]
) -> tuple[Stretch, ...]:
    stretches = [
        Stretch(
            kind, f"{label}: {who or 'unknown'}", first, last, f"{who or 'a consumer'} {verb} {_offsets(first, last)}"
        )
        for who, first, last in sorted(found, key=lambda one: (one[1:], one[0] or ""))
    ]
    return tuple(stretches[:MOST_STRETCHES])


def _cuts(removed: Loss | Removal) -> tuple[Stretch, ...]:
    when = "" if removed.leader_epoch is None else f" after leader epoch {removed.leader_epoch} began"
    epochs = ", ".join(map(str, removed.epochs))
    written = f", written in leader epoch{'s' if removed.epochs[1:] else ''} {epochs}," if epochs else ""
    epoch = f"epoch {epochs}, " if len(removed.epochs) == 1 else ""
    if not removed.replicas:
        first, last = removed.first_offset, removed.last_offset
        return (
            Stretch(
                CUT,
                "discarded",
                first,
                last,
                f"{_offsets(first, last)} were discarded{written}{when}",
                removed.leader_epoch,
            ),
        )
    cuts = []
    for replica in removed.replicas:
        first = removed.first_offset if replica.truncated_to is None else replica.truncated_to
        last = removed.last_offset if replica.log_end is None else replica.log_end - 1
        if last >= first:
            sentence = f"node {replica.node} truncated {_offsets(first, last)}{written}{when}"
            cuts.append(Stretch(CUT, f"{epoch}node {replica.node}", first, last, sentence, removed.leader_epoch))
    return tuple(cuts)


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _is_about(removed: Loss | Removal, incident: Incident) -> bool:
    same = (removed.cluster, removed.topic, removed.partition) == (incident.cluster, incident.topic, incident.partition)
    return same and (None in (removed.topic_id, incident.topic_id) or removed.topic_id == incident.topic_id)
