"""What was lost, put together from the findings: which records are gone, and which consumers never noticed.

A loss is about one stretch of offsets of one partition. Records between two offsets are counted as if none was missing
from the start (compaction, aborted transactions): that many at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from epochaudit.findings import BREACHES, Finding, with_consequences
from epochaudit.report.contents import Reader, Removal, Replica, Report

ELECTIONS: Final = "TR-06"  # judges what each leader epoch kept of what had been given out


@dataclass(frozen=True)
class Skipped:
    """A consumer that read on as if nothing had happened, and the offsets of the new history that it never saw."""

    client: str | None
    group: str | None
    first_offset: int
    last_offset: int
    finding_id: str


@dataclass(frozen=True)
class Loss:
    """Offsets first_offset to last_offset of a partition, which a leader epoch began without.

    given_out: they were below a high watermark that had been told to clients: acknowledged, and perhaps consumed. Where
    that is not in the evidence only consumers show the loss. skipped: the consumers that never noticed. epochs: the leader
    epochs that the records were written in; replicas: those that had them; read_by: the consumers that had read them, those
    that noticed, too. All three as far as recorded.
    """

    cluster: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    leader_epoch: int | None
    first_offset: int
    last_offset: int
    given_out: bool
    finding_ids: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    epochs: tuple[int, ...] = ()
    replicas: tuple[Replica, ...] = ()
    read_by: tuple[Reader, ...] = ()

    @property
    def records(self) -> int:
        """How many records at most."""
        return self.last_offset - self.first_offset + 1


def losses_of(report: Report) -> tuple[Loss, ...]:
    """The losses that the report's findings prove, in their order."""
    found = with_consequences(report.findings)
    telling = [finding for finding in found if finding.verdict in BREACHES and _offsets(finding)]
    removed = [finding for finding in telling if finding.rule == ELECTIONS]
    passed_over = [finding for finding in telling if finding.rule != ELECTIONS]
    losses, told = [], set()
    for finding in removed:
        consumers = [one for one in passed_over if _overlap(finding, one)]
        told |= {one.finding_id for one in consumers}
        losses.append(_loss([finding], consumers, given_out=True))
    for finding in passed_over:
        if finding.finding_id not in told:
            consumers = [one for one in passed_over if one.finding_id not in told and _overlap(finding, one)]
            told |= {one.finding_id for one in consumers}
            losses.append(_loss(consumers, consumers, given_out=False))
    return tuple(_with_removals(loss, report.removals) for loss in losses)


def truncations_of(report: Report) -> tuple[Removal, ...]:
    """The truncations that no loss is about: where nothing had been given out, they are harmless."""
    losses = losses_of(report)
    return tuple(one for one in report.removals if not any(_same(loss, one) for loss in losses))


def spares_clients(losses: Sequence[Loss], truncations: Iterable[Removal]) -> bool:
    """No record is known to be gone that had been, or may have been, given out to clients."""
    return not losses and all(one.given_out is False for one in truncations)


def elections_judged(report: Report) -> tuple[int, int]:
    """Leader epochs of which it was judged whether they lost something, and those of which it could not be."""
    result = next((rule for rule in report.rules if rule.rule == ELECTIONS), None)
    if result is None:
        return 0, 0
    return result.subjects - result.count("unverifiable"), result.count("unverifiable")


def _with_removals(loss: Loss, removals: Iterable[Removal]) -> Loss:
    about = [removal for removal in removals if _same(loss, removal)]
    return replace(
        loss,
        epochs=tuple(sorted({epoch for removal in about for epoch in removal.epochs})),
        replicas=tuple(replica for removal in about for replica in removal.replicas),
        read_by=tuple(reader for removal in about for reader in removal.read_by),
    )


def _same(loss: Loss, removal: Removal) -> bool:
    """The removal is by the leader epoch of the loss, or by an earlier one where only consumers show the loss."""
    about = (loss.cluster, loss.topic, loss.partition) == (removal.cluster, removal.topic, removal.partition)
    about = about and (None in (loss.topic_id, removal.topic_id) or loss.topic_id == removal.topic_id)
    if not about or loss.leader_epoch is None:
        return False
    if loss.given_out:
        return loss.leader_epoch == removal.leader_epoch and loss.first_offset == removal.first_offset
    return removal.leader_epoch <= loss.leader_epoch and loss.first_offset == removal.first_offset


def _overlap(one: Finding, other: Finding) -> bool:
    same = (one.cluster, one.topic_id or one.topic, one.partition) == (
        other.cluster, other.topic_id or other.topic, other.partition,
    )  # fmt: skip
    mine, others = _offsets(one), _offsets(other)
    return same and mine.start < others.stop and others.start < mine.stop


def _offsets(finding: Finding) -> range:
    """Empty if the finding tells of no loss."""
    if finding.first_offset is None or finding.last_offset is None:
        return range(0)
    return range(finding.first_offset, finding.last_offset + 1)


def _loss(proof: Sequence[Finding], consumers: Iterable[Finding], *, given_out: bool) -> Loss:
    first = proof[0]
    skipped: dict[object, Skipped] = {}  # two rules may tell of one consumer
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
        given_out,
        tuple(one.finding_id for one in proof),
        tuple(skipped.values()),
    )
