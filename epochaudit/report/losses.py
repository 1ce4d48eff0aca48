"""Losses, derived from the findings: which records were lost, and which consumers did not detect it.

A loss is one range of offsets of one partition. The number of its records is an upper bound, because compaction and aborted
transactions leave gaps between offsets. If a copy of a replica's segments still has the records, its batch headers give
their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from epochaudit.findings.finding import BREACHES, Finding, with_consequences
from epochaudit.inventory.inventory import LOGS, STATE_CHANGE_LOG
from epochaudit.losses.removal import Reader, Removal, Replica
from epochaudit.report.contents import Report
from epochaudit.report.page import plural

ELECTIONS: Final = "TR-06"  # whether each leader epoch retained the records that clients could read
ACKNOWLEDGED: Final = "AW-01"  # whether each leader epoch retained the records that had been acknowledged with acks=all
RECREATED: Final = "TI-09"  # the records that consumers skip of a re-created topic; its log still has them


@dataclass(frozen=True)
class Skipped:
    """A consumer that read on without detecting the loss, and the offsets of the new history that it skipped."""

    client: str | None
    group: str | None
    first_offset: int
    last_offset: int
    finding_id: str


@dataclass(frozen=True)
class Loss:
    """Offsets first_offset to last_offset of a partition, which a new leader epoch lacks.

    committed: the records were committed, so they were acknowledged with any acks. If false, only consumers show the loss.
    given_out: some records were below a high watermark that clients got, and may have been consumed; null if unknown.
    skipped: the consumers that did not detect the loss. epochs: the leader epochs in which the records were written.
    replicas: those that had the records. read_by: the consumers that had read them, including those that detected the loss.
    epochs, replicas and read_by are complete only as far as recorded. counted: the number of records by the batch headers of
    a copy that still has them, null without such a copy.
    """

    cluster: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    leader_epoch: int | None
    first_offset: int
    last_offset: int
    committed: bool
    given_out: bool | None
    finding_ids: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    epochs: tuple[int, ...] = ()
    replicas: tuple[Replica, ...] = ()
    read_by: tuple[Reader, ...] = ()
    counted: int | None = None

    @property
    def records(self) -> int:
        """How many records at most."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True)
class Undelivered:
    """Offsets of a re-created topic that are in its log and that these consumers skipped."""

    cluster: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    first_offset: int
    last_offset: int
    skipped: tuple[Skipped, ...]

    @property
    def records(self) -> int:
        """How many records at most."""
        return self.last_offset - self.first_offset + 1


def losses_of(report: Report) -> tuple[Loss, ...]:
    """The losses that the report's findings prove, in their order."""
    breaches = [one for one in _breaches_with_offsets(report) if one.rule != RECREATED]
    removed: dict[tuple[object, ...], list[Finding]] = {}
    for finding in breaches:
        if finding.rule in (ELECTIONS, ACKNOWLEDGED):
            epoch = (finding.cluster, finding.topic_id or finding.topic, finding.partition, finding.leader_epoch)
            removed.setdefault(epoch, []).append(finding)
    passed_over = [finding for finding in breaches if finding.rule not in (ELECTIONS, ACKNOWLEDGED)]
    losses, attributed = [], set()
    for proof in removed.values():
        consumers = [one for one in passed_over if any(_overlap(finding, one) for finding in proof)]
        attributed |= {one.finding_id for one in consumers}
        losses.append(_loss(proof, consumers, committed=True))
    for finding in passed_over:
        if finding.finding_id not in attributed:
            consumers = [one for one in passed_over if one.finding_id not in attributed and _overlap(finding, one)]
            attributed |= {one.finding_id for one in consumers}
            losses.append(_loss(consumers, consumers, committed=False))
    return tuple(_with_removals(loss, report.removals) for loss in losses)


def known_since(report: Report, loss: Loss) -> str | None:
    """When an earlier run over the warehouse first reported the loss, ISO 8601; null if a finding that proves it is new."""
    since = [report.known.get(finding_id) for finding_id in loss.finding_ids]
    return None if not since or None in since else min(time for time in since if time is not None)


def undelivered_of(report: Report) -> tuple[Undelivered, ...]:
    """The offsets of re-created topics that consumers skipped, by topic id, partition and range."""
    of_topic: dict[tuple[object, ...], list[Finding]] = {}
    for one in _breaches_with_offsets(report):
        if one.rule == RECREATED:
            first, last = one.first_offset, one.last_offset
            of_topic.setdefault((one.cluster, one.topic, one.topic_id, one.partition, first, last), []).append(one)
    return tuple(_undelivered(found) for found in of_topic.values())


def _undelivered(found: Sequence[Finding]) -> Undelivered:
    one, offsets = found[0], _offsets(found[0])
    first, last = offsets[0], offsets[-1]
    consumers = tuple(Skipped(finding.client, finding.group, first, last, finding.finding_id) for finding in found)
    return Undelivered(one.cluster, one.topic, one.topic_id, one.partition, first, last, consumers)


def _breaches_with_offsets(report: Report) -> list[Finding]:
    """The breaches with offsets of lost or skipped records."""
    return [one for one in with_consequences(report.findings) if one.verdict in BREACHES and _offsets(one)]


def why(report: Report, loss: Loss) -> str:
    """The reasons of the finding that proves the loss, as one text.

    Empty for a loss that only consumers show, and for one with missing writes, which are listed with their election.
    """
    epoch = (loss.cluster, loss.topic, loss.partition, loss.leader_epoch)
    written = {(one.cluster, one.topic, one.partition, one.leader_epoch) for one in report.lost_writes}
    if not loss.committed or epoch in written:
        return ""
    proof = (one for one in with_consequences(report.findings) if one.finding_id in loss.finding_ids)
    return "; ".join(next((one.because for one in proof), ()))


def truncations_of(report: Report) -> tuple[Removal, ...]:
    """The truncations that belong to no loss; harmless if no client could read the records."""
    losses = losses_of(report)
    return tuple(one for one in report.removals if not any(_same(loss, one) for loss in losses))


def new_truncations(report: Report) -> tuple[Removal, ...]:
    """Those of `truncations_of` that no earlier run over the warehouse reported."""
    return tuple(one for one in truncations_of(report) if one not in report.known_removals)


def known_truncations(report: Report) -> tuple[Removal, ...]:
    """Those of `truncations_of` that an earlier run over the warehouse reported, and that may be losses."""
    return tuple(one for one in truncations_of(report) if one in report.known_removals and one.harmed is not False)


def spares_clients(losses: Sequence[Loss], truncations: Iterable[Removal]) -> bool:
    """True if no record was lost that clients had read, or may have read."""
    return not losses and all(one.harmed is False for one in truncations)


def unsettled_of(report: Report) -> tuple[str, ...]:
    """Why a report without findings is not clean: missing evidence, and new truncations that may be losses."""
    missing = report.inventory.missing
    reasons = []
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        reasons.append(f"evidence is missing: {missing[0]}{more}")
    if report.late:
        more = f" and {len(report.late) - 1:,} more" if len(report.late) > 1 else ""
        reasons.append(
            f"{report.late[0].path}{more} came late: its events before {report.settled_until} were not judged; "
            f"--rejudge {min(one.since for one in report.late)[:10]} judges it"
        )
    truncations = new_truncations(report)
    for harmed in (True, None):
        if truncated := [one for one in truncations if one.harmed is harmed]:
            partitions = sorted({f"{one.topic or one.topic_id}-{one.partition}" for one in truncated})
            more = f" and {plural(len(partitions) - 1, 'more partition')}" if len(partitions) > 1 else ""
            them = "it" if sum(one.records for one in truncated) == 1 else "them"
            unknown = f"whether the new leader has {them}" if harmed else "whether committed"
            reasons.append(f"{were_truncated(truncated)} from {partitions[0]}{more}; {unknown} is not in the evidence")
    return tuple(reasons)


@dataclass(frozen=True)
class OpenQuestions:
    """Why a report without findings is not clean.

    unsettled: as `unsettled_of` states it. losses: why the report does not show whether records were lost; empty if it does.
    """

    unsettled: tuple[str, ...]
    losses: str
    nothing_judged: bool

    @classmethod
    def of(cls, report: Report) -> OpenQuestions:
        """Those of a report."""
        return cls(unsettled_of(report), not_known(report), not report.judged)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All of them, a phrase each; empty if none is open."""
        return (
            *self.unsettled,
            *(["nothing was judged"] if self.nothing_judged else []),
            *([f"whether records were lost is not known: {self.losses}"] if self.losses else []),
        )


def were_truncated(removals: Sequence[Removal]) -> str:
    """`20 records at most, some of them committed, were truncated`: of truncations that are all alike in `harmed`."""
    records = sum(one.records for one in removals)
    if records == 1:
        return f"1 {'committed ' if removals[0].harmed else ''}record was truncated"
    return f"{records:,} records at most{', some of them committed,' if removals[0].harmed else ''} were truncated"


def not_known(report: Report) -> str:
    """Why the report does not show whether records were lost; empty if leader epochs were judged, or none can have lost any."""
    judged, unjudged = elections_judged(report)
    if judged or not any(rule.rule == ELECTIONS for rule in report.rules):
        return ""
    if unjudged:
        return f"no leader epoch of {unjudged:,} could be judged"
    absent = STATE_CHANGE_LOG in report.inventory.absent_logs
    return f"no node's {LOGS[STATE_CHANGE_LOG]} is here, so no leader epoch could be judged" if absent else ""


def elections_judged(report: Report) -> tuple[int, int]:
    """The numbers of leader epochs that TR-06 judged, and that it could not judge."""
    result = next((rule for rule in report.rules if rule.rule == ELECTIONS), None)
    if result is None:
        return 0, 0
    return result.subjects - result.count("unverifiable"), result.count("unverifiable")


def without_elections(report: Report) -> str:
    """What a page says of losses if TR-06 judged no leader epoch."""
    if not any(rule.rule == ELECTIONS for rule in report.rules):
        return f"not asked: {ELECTIONS}, which judges it, is not among the selected rules"
    return f"not known: {not_known(report) or 'no leader epoch that follows another is recorded'}"


def _with_removals(loss: Loss, removals: Iterable[Removal]) -> Loss:
    same_partition = [removal for removal in removals if _same(loss, removal)]
    given_out = {removal.given_out for removal in same_partition}
    return replace(
        loss,
        given_out=True if True in given_out else False if given_out == {False} else None,
        epochs=tuple(sorted({epoch for removal in same_partition for epoch in removal.epochs})),
        replicas=tuple(replica for removal in same_partition for replica in removal.replicas),
        read_by=tuple(reader for removal in same_partition for reader in removal.read_by),
        counted=next((one.counted for one in same_partition if one.last_offset == loss.last_offset), None),
    )


def _same(loss: Loss, removal: Removal) -> bool:
    """The removal is by the leader epoch of the loss; if only consumers show the loss, that epoch or an earlier one."""
    same_partition = (loss.cluster, loss.topic, loss.partition) == (removal.cluster, removal.topic, removal.partition)
    same_partition = same_partition and (None in (loss.topic_id, removal.topic_id) or loss.topic_id == removal.topic_id)
    if not same_partition or loss.leader_epoch is None:
        return False
    if loss.committed:
        return loss.leader_epoch == removal.leader_epoch and loss.first_offset == removal.first_offset
    return removal.leader_epoch <= loss.leader_epoch and loss.first_offset == removal.first_offset


def _overlap(one: Finding, other: Finding) -> bool:
    same = (one.cluster, one.topic_id or one.topic, one.partition) == (
        other.cluster, other.topic_id or other.topic, other.partition,
    )  # fmt: skip
    mine, others = _offsets(one), _offsets(other)
    return same and mine.start < others.stop and others.start < mine.stop


def _offsets(finding: Finding) -> range:
    """The offsets of lost or skipped records; empty if the finding has none."""
    if finding.first_offset is None or finding.last_offset is None:
        return range(0)
    return range(finding.first_offset, finding.last_offset + 1)


def _loss(proof: Sequence[Finding], consumers: Iterable[Finding], *, committed: bool) -> Loss:
    first = proof[0]
    skipped: dict[object, Skipped] = {}  # two rules may report one consumer
    for one in consumers:
        who = Skipped(one.client, one.group, _offsets(one)[0], _offsets(one)[-1], one.finding_id)
        skipped.setdefault((who.client, who.group, who.first_offset), who)
    return Loss(
        first.cluster,
        first.topic,
        first.topic_id,
        first.partition,
        first.leader_epoch,
        min(_offsets(one)[0] for one in proof),
        max(_offsets(one)[-1] for one in proof),
        committed,
        None,
        tuple(one.finding_id for one in proof),
        tuple(skipped.values()),
    )
