"""What the owner of the data asks first: how many acknowledged writes are missing, where, whose, since when, and whether that is all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from epochaudit.findings.finding import with_consequences
from epochaudit.inventory.inventory import REQUEST_LOG
from epochaudit.kafka.field_values import ALL_REPLICAS
from epochaudit.losses.removal import Removal
from epochaudit.report.contents import LostWrites, Report
from epochaudit.report.losses import Loss, known_since, known_truncations, losses_of, new_truncations, were_truncated
from epochaudit.report.page import plural
from epochaudit.rules.rule import UNVERIFIABLE

RULE: Final = "AW-01"
SHOWN_PRODUCERS: Final = 5
LAST_ANSWERS: Final = (
    "No other missing write shows in the request logs. A broker that dies may leave the last answers out of its log."
)
LEADERS_COPY: Final = "It promises no more than the leader's copy: no rule is broken."
SEND_AGAIN: Final = (
    "Have the producers of the missing writes with acks=1 send these records again. Where records must outlive their leader, use acks=all"
    " with min.insync.replicas=2."
)


@dataclass(frozen=True)
class MissingWrites:
    """The writes with the same acks that one leader epoch of a partition began without.

    producers: by producer, at least one. removal: the truncation of the records, null if no broker is recorded to have truncated them.
    """

    producers: tuple[LostWrites, ...]
    removal: Removal | None = None

    @property
    def first(self) -> LostWrites:
        """One of them, for what all have in common."""
        return self.producers[0]

    @property
    def batches(self) -> int:
        return sum(one.batches for one in self.producers)

    @property
    def offsets(self) -> tuple[int, int]:
        """The lowest and the highest base offset."""
        return min(one.first_offset for one in self.producers), max(one.last_offset for one in self.producers)

    @property
    def acknowledged_by(self) -> tuple[int, ...]:
        """The brokers that acknowledged them."""
        return tuple(sorted({one.acknowledged_by for one in self.producers if one.acknowledged_by is not None}))

    @property
    def acknowledged_until(self) -> str | None:
        """The time of the last answer; of one broker, as clocks of two do not compare."""
        times = [one.acknowledged_until for one in self.producers]
        known = [time for time in times if time is not None]
        return max(known) if known and len(self.acknowledged_by) == 1 else None


def missing_writes(report: Report) -> tuple[MissingWrites, ...]:
    """The lost writes by leader epoch and acks, acks=all first."""
    found: dict[tuple[object, ...], list[LostWrites]] = {}
    for one in sorted(report.lost_writes, key=lambda one: one.acks):
        epoch = one.cluster, one.topic, one.topic_id, one.partition, one.leader_epoch
        found.setdefault((one.acks, *epoch), []).append(one)
    return tuple(MissingWrites(tuple(writes), _removal(writes[0], report.removals)) for writes in found.values())


def _removal(one: LostWrites, removals: Iterable[Removal]) -> Removal | None:
    """The truncation to the leader epoch's start, of replicas that stated it."""
    partition = (one.cluster, one.topic, one.partition, one.leader_epoch)
    same = (
        removal
        for removal in removals
        if (removal.cluster, removal.topic, removal.partition, removal.leader_epoch) == partition
        and (None in (one.topic_id, removal.topic_id) or one.topic_id == removal.topic_id)
    )
    return next((removal for removal in same if removal.replicas), None)


def new_writes(report: Report) -> tuple[LostWrites, ...]:
    """The lost writes that no earlier run over the warehouse reported."""
    return tuple(one for one in report.lost_writes if one not in report.known_writes)


def by_acks(lost_writes: Iterable[LostWrites]) -> dict[str, int]:
    """How many writes are missing by the producers' acks: `all` and `1`."""
    batches: Counter[int] = Counter()
    for one in lost_writes:
        batches[one.acks] += one.batches
    return {"all": batches[ALL_REPLICAS], "1": sum(batches.values()) - batches[ALL_REPLICAS]}


def in_short(report: Report) -> str:
    """For the headline: `60 acknowledged writes are missing (all with acks=1)`; empty if none is, or earlier runs reported them all."""
    counts = by_acks(new_writes(report))
    total = sum(counts.values())
    if not total:
        return ""
    of = [f"{count:,} with acks={acks}" for acks, count in counts.items() if count]
    split = ", ".join(of) if len(of) > 1 else f"{'all ' if total > 1 else ''}{of[0].partition(' ')[2]}"
    return f"{plural(total, 'acknowledged write')} {'is' if total == 1 else 'are'} missing ({split})"


def answer(report: Report) -> str:
    """What a page says first of data that was lost, or may be, in a few sentences; empty if none is known to be.

    What earlier runs over the warehouse reported stands apart from what is new.
    """
    losses = losses_of(report)
    new = _lost([loss for loss in losses if known_since(report, loss) is None], new_writes(report))
    known = _lost([loss for loss in losses if known_since(report, loss) is not None], report.known_writes)
    perhaps = _may_be_lost(new_truncations(report))
    known = known or _may_be_lost(known_truncations(report))
    sentences = [f"Yes: {new}"] if new else [f"Perhaps: {perhaps}"] if perhaps else []
    if known:
        sentences += [
            f"Known from earlier runs: {known}" if sentences else f"Nothing new. Known from earlier runs: {known}"
        ]
    return " ".join(sentences)


def discarded_in_short(report: Report) -> str:
    """For the headline: `20 records at most were discarded from 1 partition`; empty if that is accepted, known, or not so."""
    counting = {one.finding_id for one in with_consequences(report.findings) if report.counts(one)}
    return _discarded([loss for loss in losses_of(report) if not counting.isdisjoint(loss.finding_ids)])


def _lost(losses: Sequence[Loss], lost_writes: Sequence[LostWrites]) -> str:
    """How much was lost, in one to three sentences, offsets first; empty if nothing was."""
    discarded = _discarded(losses)
    first = [f"{discarded}."] if discarded else []
    if not lost_writes:
        return " ".join(first)
    producers = {(one.cluster, one.client, one.host, one.transactional_id) for one in lost_writes}
    partitions = {(one.cluster, one.topic_id or one.topic, one.partition) for one in lost_writes}
    counts = by_acks(lost_writes)
    total = sum(counts.values())
    are = "is" if total == 1 else "are"
    where = f"of {plural(len(producers), 'producer')} {are} missing from {plural(len(partitions), 'partition')}"
    promised = f"{counts['all']:,} with acks=all, {counts['1']:,} with acks=1."
    if not counts["all"]:
        promised = f"with acks=1. {LEADERS_COPY}"
    elif not counts["1"]:
        promised = "with acks=all."
    return " ".join([*first, f"{plural(total, 'acknowledged write')} {where}, {promised}"])


def _may_be_lost(truncations: Iterable[Removal]) -> str:
    """How many records these truncations removed that had been committed, or given out, in two sentences; empty if none."""
    harmful = [one for one in truncations if one.harmed]
    if not harmful:
        return ""
    partitions = {(one.cluster, one.topic_id or one.topic, one.partition) for one in harmful}
    where = plural(len(partitions), "partition")
    return f"{were_truncated(harmful)} from {where}. What the new leader does not have is lost."


def _discarded(losses: Sequence[Loss]) -> str:
    """How many records of how many partitions they are; empty if there are none."""
    if not losses:
        return ""
    records = sum(one.records if one.counted is None else one.counted for one in losses)
    at_most = " at most" if any(one.counted is None for one in losses) else ""
    partitions = {(one.cluster, one.topic_id or one.topic, one.partition) for one in losses}
    were = "was" if records == 1 else "were"
    return f"{plural(records, 'record')}{at_most} {were} discarded from {plural(len(partitions), 'partition')}"


def completeness(report: Report) -> str:
    """Whether more acknowledged writes may be missing than are listed."""
    unjudged = sum(one.count(UNVERIFIABLE) for one in report.rules if one.rule == RULE)
    missing = [str(one) for one in report.inventory.missing if REQUEST_LOG in one.logs]
    light = ", ".join(str(node) for _, node in report.inventory.light_nodes)
    reasons = [
        f"{plural(unjudged, 'leader epoch')} could not be judged" if unjudged else "",
        f"missing: {missing[0]}" + (f" and {len(missing) - 1:,} more" if len(missing) > 1 else "") if missing else "",
        f"the request log of {light} leaves routine answers out" if light else "",
        "more leader epochs began without acknowledged writes than are listed" if report.lost_writes_cut else "",
    ]
    known = [reason for reason in reasons if reason]
    return f"There may be more: {'; '.join(known)}." if known else LAST_ANSWERS


def overview(writes: MissingWrites, *, several_clusters: bool) -> tuple[str, str]:
    """The partition, and a line about its missing writes: how many, which offsets, whose, and until when."""
    first, counts = writes.first, Counter[str]()
    for one in writes.producers:
        counts[one.client or "unknown"] += one.batches
    names = [f"{name} {count:,}" if len(counts) > 1 else name for name, count in counts.most_common(SHOWN_PRODUCERS)]
    more = f" and {len(counts) - SHOWN_PRODUCERS:,} more producers" if len(counts) > SHOWN_PRODUCERS else ""
    low, high = writes.offsets
    at = f"offset {low}" if low == high else f"offsets {low} to {high}"
    acks = "all" if first.acks == ALL_REPLICAS else "1"
    until = f"; last acknowledged at {writes.acknowledged_until}" if writes.acknowledged_until else ""
    of_cluster = f" of {first.cluster}" if several_clusters else ""
    where = f"{first.topic or first.topic_id}-{first.partition}{of_cluster}"
    return where, f"{plural(writes.batches, 'write')} with acks={acks}, {at}: {', '.join(names)}{more}{until}"


def how(writes: MissingWrites) -> list[str]:
    """Who acknowledged the writes, by which election they are missing, and where their records went."""
    first = writes.first
    brokers = _brokers(writes.acknowledged_by)
    lines = []
    if first.begun_by is not None:
        when = f" at {first.begun_at}" if first.begun_at else ""
        elected = {"clean": "by a clean election", "unclean": "by an unclean election"}.get(
            first.election or "", "by an election of a kind that is not in the evidence"
        )
        before = f"; before it: {first.candidates_before}" if first.candidates_before else ""
        began = f"broker {first.begun_by} began leader epoch {first.leader_epoch}{when}, {elected}{before}"
        lines.append(f"acknowledged by {brokers}; {began}" if brokers else began)
    if writes.removal is not None:
        nodes = _brokers(sorted({one.node for one in writes.removal.replicas}))
        low, high = writes.removal.first_offset, writes.removal.last_offset
        lines.append(f"{nodes} truncated offsets {low} to {high}" if low != high else f"{nodes} truncated offset {low}")
    elif brokers:
        lines.append(
            f"no broker logged that it truncated them: {brokers} may still have them on disk; copy the log before a restart"
        )
    return lines


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}" if ids else ""
