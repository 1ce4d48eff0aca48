"""Subjects that earlier runs judged for the last time: their verdicts, findings and truncations are included, not computed again.

A run settles the subjects all of whose evidence is older than the last lines of every node that it read, less `settle_after_ms`. Evidence
that comes within that time changes verdicts as in one audit of all logs. What is settled is counted in the run's row of the table `runs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from pyspark.sql import functions as F

from epochaudit.findings.evidence import iso_time
from epochaudit.findings.finding import Finding, in_order, with_consequences
from epochaudit.losses.removal import Removal
from epochaudit.report.contents import LostWrites, Report
from epochaudit.rules.judge import Span, Tally
from epochaudit.rules.rule import Rule
from epochaudit.sources.formats import BY_KIND, Unit
from epochaudit.warehouse.horizon import Tracked
from epochaudit.warehouse.ledger import OPEN, finding_of
from epochaudit.warehouse.tables import Directory

DAY_MS: Final = 86_400_000
SETTLE_AFTER_MS: Final = 2 * DAY_MS
LOOK_BACK_MS: Final = (
    3_600_000  # request lines before the first subject that is judged: positions, sessions, transactions
)
GRAIN_MS: Final = 3_600_000  # settled time ends at a full hour: no run of like rows crosses a minute


class _Counted(msgspec.Struct):
    verdicts: dict[str, int]
    unverifiable_reasons: dict[str, int]


@dataclass(frozen=True)
class Settled:
    """What earlier runs of one selection settled, of some clusters.

    until_ms: subjects all of whose evidence precedes this time are settled; None: none are. tallies: their verdicts, by rule.
    report: of the last of these runs, without its findings. until_then_ms: until when subjects were settled before some of them
    were taken to be judged again; else until_ms.
    """

    until_ms: int | None = None
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    report: Report | None = None
    until_then_ms: int | None = None

    @property
    def requests_from_ms(self) -> int | None:
        """From when on rows of request logs are read; None: from the beginning."""
        return None if self.until_ms is None else self.until_ms - LOOK_BACK_MS

    @property
    def until(self) -> str | None:
        """The same as ISO 8601, as the logs print their times."""
        return iso_time(self.until_ms, zoned=False)


def settled_by(directory: Directory, clusters: Iterable[str], selection: str, rejudge_ms: int | None = None) -> Settled:
    """What the completed runs of this selection over exactly these clusters settled.

    rejudge_ms: what was settled after that time counts as not settled. A run that settled again what an earlier one had
    settled replaces it.
    """
    runs = directory.table("runs").where(F.col("selection") == selection)
    runs = runs.where(F.array_sort("clusters") == F.array(*(F.lit(name) for name in sorted(clusters))))
    of_settling = runs.where(F.col("settled_until_ms").isNotNull())
    columns = ("settled_from_ms", "settled_until_ms", "settled")
    steps: list[Any] = []
    for row in of_settling.select("run_id", *columns).orderBy("run_id").collect():
        since = row["settled_from_ms"]
        steps = [step for step in steps if since is not None and step["settled_until_ms"] <= since]
        steps.append(row)
    until_then_ms = steps[-1]["settled_until_ms"] if steps else None
    steps = [step for step in steps if rejudge_ms is None or step["settled_until_ms"] <= rejudge_ms]
    if not steps:
        return Settled(until_then_ms=until_then_ms)
    [last] = runs.orderBy(F.desc("run_id")).limit(1).collect()
    counted = [msgspec.json.decode(step["settled"], type=dict[str, _Counted]) for step in steps]
    tallies: dict[str, Tally] = {}
    for step in counted:
        tallies = added(tallies, [Tally(rule, one.verdicts, one.unverifiable_reasons) for rule, one in step.items()])
    report = msgspec.json.decode(last["report"], type=Report)
    return Settled(steps[-1]["settled_until_ms"], tallies, report, until_then_ms)


def added(tallies: Mapping[str, Tally], others: Iterable[Tally]) -> dict[str, Tally]:
    """The sums, by rule."""
    sums = dict(tallies)
    for other in others:
        one = sums.get(other.rule)
        sums[other.rule] = other if one is None else Tally(
            other.rule, _sum(one.counts, other.counts), _sum(one.reasons, other.reasons)
        )  # fmt: skip
    return sums


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    total = Counter(one)
    total.update(other)
    return dict(total)


def stored(tallies: Iterable[Tally]) -> str:
    """The tallies as the column `settled` of the table `runs` has them; rules without subjects are left out."""
    counted = {
        tally.rule: _Counted({v: n for v, n in tally.counts.items() if n}, dict(tally.reasons))
        for tally in tallies
        if any(tally.counts.values())
    }
    return msgspec.json.encode(counted, order="sorted").decode()


def span_of(directory: Directory, before: Settled, parts: Iterable[int], settle_after_ms: int | None) -> Span:
    """The subjects to judge: all that are not settled. And until when they are settled by that.

    parts: those that this run read. Of the nodes in them, the one whose last line is the oldest decides, so that a late node's
    subjects are not settled before its log has come. settle_after_ms: None settles nothing more.
    """
    until = max(_until(directory, parts, settle_after_ms), before.until_then_ms or 0)
    return Span(before.until_ms, until if until > (before.until_ms or 0) else None)


def _until(directory: Directory, parts: Iterable[int], settle_after_ms: int | None) -> int:
    """Until when subjects are settled by the logs in these parts; 0: none are."""
    read = sorted(parts)
    if settle_after_ms is None or not read:
        return 0
    splits = directory.table("splits").where(F.col("part").between(read[0], read[-1]))
    ends = (
        splits.groupBy("cluster", "node").agg(F.max("last_time_ms").alias("end_ms")).where(F.col("end_ms").isNotNull())
    )
    times = [row["end_ms"] for row in ends.collect()]
    now = int(datetime.now(UTC).timestamp() * 1000)
    return (min(*times, now) - settle_after_ms) // GRAIN_MS * GRAIN_MS if times else 0


def late_files(tracked: Iterable[Tracked], before: Settled) -> list[str]:
    """The paths of files that came when their first lines were settled, and so were not judged. `tracked`: all of the warehouse.

    The times of a partition's batches are those of its producers, and say nothing about when something happened.
    """
    if before.until_ms is None or before.report is None:
        return []
    return sorted(
        found.file.stored.path
        for found in tracked
        if (found.before is None or found.file.stored.path in before.report.late)
        and found.file.kind in BY_KIND
        and BY_KIND[found.file.kind].unit is not Unit.BATCH
        and found.file.first_time_ms is not None
        and found.file.first_time_ms < before.until_ms
    )


def with_settled(
    directory: Directory, report: Report, before: Settled, rules: Sequence[Rule], late: Iterable[str]
) -> Report:
    """The report with the findings, truncations and lost writes that are settled. `late`: as `late_files`."""
    if before.until is None or before.report is None:
        return report
    reported = {finding.finding_id for finding in with_consequences(report.findings)}
    clusters = F.col("cluster").isin(*report.inventory.clusters)
    rows = directory.table("findings").where(
        clusters & (F.col("state") == OPEN) & F.col("rule").isin(*(rule.id for rule in rules))
    )
    found = [
        (row["caused_by"], finding)
        for row in rows.toArrow().to_pylist()
        if (finding := finding_of(row)).finding_id not in reported and _precedes(finding, before.until)
    ]
    settled_ids = {finding.finding_id for _, finding in found}
    consequences: dict[str, list[Finding]] = {}
    roots = list(report.findings)
    for caused_by, finding in found:
        if caused_by in settled_ids or caused_by in reported:
            consequences.setdefault(caused_by, []).append(finding)
        else:
            roots.append(finding)
    whole = (
        replace(
            one, consequences=tuple(sorted((*one.consequences, *consequences.get(one.finding_id, ())), key=in_order))
        )
        for one in roots
    )
    return replace(
        report,
        findings=tuple(sorted(whole, key=in_order)),
        removals=_removals(report.removals, before.report.removals),
        lost_writes=_lost_writes(report.lost_writes, before.report.lost_writes),
        settled_until=before.until,
        late=tuple(late),
    )


def _precedes(finding: Finding, until: str) -> bool:
    """All of the finding's lines precede that time; at least one has a time."""
    times = [line.time.rstrip("Z") for line in finding.evidence if line.time is not None]
    return bool(times) and max(times) < until


def _removals(now: Iterable[Removal], before: Iterable[Removal]) -> tuple[Removal, ...]:
    """Tonight's truncations, with what earlier runs knew of them by requests that are not read any more; and those of earlier runs."""

    def key(one: Removal) -> tuple[object, ...]:
        return one.cluster, one.topic, one.topic_id, one.partition, one.leader_epoch, one.first_offset, one.last_offset

    known = {key(one): one for one in before}
    merged = [_known(one, known.pop(key(one))) if key(one) in known else one for one in now]
    return (*merged, *known.values())


def _known(now: Removal, before: Removal) -> Removal:
    return replace(
        now,
        given_out=before.given_out if now.given_out is None else now.given_out,
        committed=before.committed if now.committed is None else now.committed,
        counted=before.counted if now.counted is None else now.counted,
        read_by=(*now.read_by, *(reader for reader in before.read_by if reader not in now.read_by)),
    )


def _lost_writes(now: Iterable[LostWrites], before: Iterable[LostWrites]) -> tuple[LostWrites, ...]:
    """The lost writes of tonight and of earlier runs. Where both have one, the run with more of its batches had more of the requests."""

    def key(one: LostWrites) -> tuple[object, ...]:
        subject = one.cluster, one.topic, one.topic_id, one.partition, one.leader_epoch
        return *subject, one.acks, one.client, one.host, one.transactional_id

    found = {key(one): one for one in before}
    for one in now:
        if key(one) not in found or found[key(one)].batches <= one.batches:
            found[key(one)] = one
    return tuple(found.values())
