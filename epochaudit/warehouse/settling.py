"""Subjects that earlier runs judged for the last time: their verdicts, findings and truncations are included, not computed again.

A run settles the subjects whose own line is older than the last lines of every request log that it read, less `settle_after_ms`. Evidence
that comes within that time changes verdicts as in one audit of all logs. What is settled is counted in the run's row of the table `runs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from epochaudit.events.times import DAY_MS
from epochaudit.events.views import RangeId, range_id
from epochaudit.findings.evidence import iso_time
from epochaudit.findings.finding import Finding, in_order, with_consequences
from epochaudit.inventory.inventory import FileRead
from epochaudit.losses.removal import Removal
from epochaudit.pipeline import LISTED, Audit
from epochaudit.report.assembly import rule_results
from epochaudit.report.contents import LateFile, LostWrites, Report
from epochaudit.rules.judge import Span, Tally
from epochaudit.rules.messages import has_role
from epochaudit.sources.formats import BY_KIND
from epochaudit.spark.local_rows import local_rows
from epochaudit.warehouse.ledger import OPEN, finding_of, last_run
from epochaudit.warehouse.rows import REQUEST_LOG, ends_of_parts
from epochaudit.warehouse.tables import Directory

SETTLE_AFTER_MS: Final = 2 * DAY_MS
# request lines before the first subject that is judged: positions, sessions, transactions
LOOK_BACK_MS: Final = 3_600_000
HOST_TIMED: Final = ("request_log", "state_change_log", "server_log", "metadata_log", "client_log")
SETTLED_TO_MS: Final = 3_600_000  # settled time ends at a full hour: no run of like rows crosses it


FileKey = tuple[str, str]  # cluster and path


class _Counted(msgspec.Struct):
    verdicts: dict[str, int]
    unverifiable_reasons: dict[str, int]


@dataclass(frozen=True)
class Settled:
    """What earlier runs of one selection settled, of some clusters.

    until_ms: subjects whose own line precedes this time are settled; None: none are. tallies: their verdicts, by rule.
    report: of the last of these runs, without its findings. until_then_ms: until when subjects were settled before some of them
    were taken to be judged again; else until_ms.
    """

    until_ms: int | None = None
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    report: Report | None = None
    until_then_ms: int | None = None

    @property
    def until(self) -> str | None:
        """until_ms as ISO 8601, as the logs print their times."""
        return iso_time(self.until_ms, zoned=False)

    @property
    def requests_from_ms(self) -> int | None:
        """From when on rows of request logs are read; None: from the beginning."""
        return None if self.until_ms is None else self.until_ms - LOOK_BACK_MS


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
    last = last_run(runs) if steps else None
    if last is None:
        return Settled(until_then_ms=until_then_ms)
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


def span_of(ranges: Iterable[Row], read: Collection[RangeId], before: Settled, settle_after_ms: int | None) -> Span:
    """The subjects to judge: all that are not settled. Also the time until which this run settles them.

    ranges: rows of the table splits, of all committed ranges. read: those that this run read. Of the request logs in them, the one that
    ends first decides, so that a late node's subjects are not settled before its log has come. settle_after_ms: None settles nothing more.
    """
    known = [row for row in ranges if row["last_time_ms"] is not None]
    new = [row for row in known if range_id(row) in read]
    until = max(_until(new, settle_after_ms), before.until_then_ms or 0)
    if before.until_ms is None and all(row["first_time_ms"] >= until for row in known):
        until = 0
    return Span(before.until_ms, until if until > (before.until_ms or 0) else None)


def _until(ranges: Iterable[Row], settle_after_ms: int | None) -> int:
    """Until when subjects are settled by these ranges, which have events; 0: none are.

    The request logs decide if there are any: they are written all the time, while the last line of another log may be days old.
    """
    if settle_after_ms is None:
        return 0
    ends: dict[bool, dict[tuple[str, int | None], int]] = {True: {}, False: {}}
    for row in ranges:
        source, node = BY_KIND[row["kind"]].source, (row["cluster"], row["node"])
        if source in HOST_TIMED:
            of_nodes = ends[source == REQUEST_LOG]
            of_nodes[node] = max(of_nodes.get(node, 0), row["last_time_ms"])
    times = (ends[True] or ends[False]).values()
    now = int(datetime.now(UTC).timestamp() * 1000)
    return (min(*times, now) - settle_after_ms) // SETTLED_TO_MS * SETTLED_TO_MS if times else 0


def late_files(
    directory: Directory,
    before: Settled,
    read: Mapping[FileKey, Iterable[int]],
    earlier: Mapping[FileKey, Iterable[int]],
) -> list[LateFile]:
    """The files from which this run, or an earlier one, read events of a time that had been settled.

    read, earlier: cluster and path -> the file's parts that this run read, and those that it had before.
    """
    if before.until_ms is None or before.report is None:
        return []
    known = [one for one in before.report.late if one.since < (before.until or "")]
    if not read:
        return known
    of_earlier = [(part,) for parts in earlier.values() for part in parts]
    known_parts = local_rows(directory.spark, of_earlier, "part bigint")
    ends = ends_of_parts(directory.table("splits").join(F.broadcast(known_parts), "part"))
    facts = [
        (part, *file, max((ends.get(one, 0) for one in earlier.get(file, ())), default=0))
        for file, parts in read.items()
        for part in parts
    ]
    of_parts = local_rows(directory.spark, facts, "part bigint, of_cluster string, path string, end_ms bigint")
    events = directory.table("events").where(_has_time_of_host() & (F.col("time_ms") < before.until_ms))
    found = events.join(F.broadcast(of_parts), "part").where(F.col("time_ms") > F.col("end_ms"))
    rows = found.groupBy("of_cluster", "path").agg(F.min("time_ms").alias("since_ms")).collect()
    new = [LateFile(row["of_cluster"], row["path"], iso_time(row["since_ms"], zoned=False) or "") for row in rows]
    earliest: dict[FileKey, LateFile] = {}
    for one in sorted((*known, *new), key=lambda one: one.since, reverse=True):
        earliest[one.cluster, one.path] = one
    return [earliest[file] for file in sorted(earliest)]


def _has_time_of_host() -> Column:
    """A host wrote the event's time when it happened. The times of a partition's batches are those of its producers."""
    return F.col("source").isin(*HOST_TIMED)


@dataclass(frozen=True)
class Included:
    """A run's results with those of earlier runs that it did not judge again.

    report: with their findings, truncations, lost writes and counts. tallies: of all subjects. settled: of the subjects that
    this run settled.
    """

    report: Report
    tallies: tuple[Tally, ...]
    settled: tuple[Tally, ...]


def including(
    directory: Directory,
    report: Report,
    audit: Audit,
    before: Settled,
    span: Span,
    late: Iterable[LateFile],
    verdicts: Collection[str],
) -> Included:
    """Add what earlier runs settled to a run's results. report: that of `audit`. span: what it judged. `late`: as `late_files`.
    verdicts: those that are listed as findings.

    A finding that earlier runs reported stays if its own line is settled, or if one of its request lines is older than those that
    were read: this run could not have found it again.
    """
    if before.until is None or before.report is None:
        return Included(report, audit.tallies, audit.settled)
    own_roles = {rule.id: next(iter(rule.evidence)) for rule in audit.rules}
    found = {finding.finding_id: finding for finding in with_consequences(report.findings)}
    earlier = _open_findings(directory, report.inventory.clusters, own_roles, verdicts)
    requests_from = iso_time(before.requests_from_ms, zoned=False) or ""
    read_again = files_read_again(report.inventory.files)
    settled_ids = {id for id, (_, one) in earlier.items() if _own_time(one, own_roles) < before.until}
    staying = {
        id: (caused_by, one)
        for id, (caused_by, one) in earlier.items()
        if id not in found and (id in settled_ids or has_line_before(one, requests_from, read_again))
    }
    # counted as settled, and found again: subtracted once
    again = [_tally(one, -1) for id, one in found.items() if id in settled_ids]
    added_now = [one for id, (_, one) in staying.items() if id not in settled_ids]
    settles = iso_time(span.settled_until_ms, zoned=False) or ""
    added_later = [one for one in added_now if _own_time(one, own_roles) < settles]
    rules = {tally.rule: tally for tally in audit.tallies}
    listed = Counter((one.rule, one.verdict) for id, (_, one) in earlier.items() if id in settled_ids)
    of_rules = [as_listed(before.tallies.get(rule) or Tally(rule, {}, {}), listed, verdicts) for rule in rules]
    tallies = added(rules, (*of_rules, *again, *(_tally(one, 1) for one in added_now)))
    of_step = {tally.rule: tally for tally in audit.settled}
    settled = added(of_step, (*again, *(_tally(one, 1) for one in added_later))) if of_step else {}
    whole = replace(
        report,
        rules=rule_results(audit.rules, tallies.values()),
        findings=_united(report.findings, staying.values()),
        removals=_removals(report.removals, before.report.removals),
        lost_writes=_lost_writes(report.lost_writes, before.report.lost_writes),
        settled_until=before.until,
        late=tuple(late),
    )
    return Included(whole, tuple(tallies.values()), tuple(settled.values()))


def _tally(finding: Finding, count: int) -> Tally:
    """So many findings of this one's rule and verdict."""
    return Tally(finding.rule, {finding.verdict: count}, {})


def as_listed(tally: Tally, listed: Mapping[tuple[str, str], int], verdicts: Iterable[str]) -> Tally:
    """The tally of a rule's settled subjects, with as many of each listed verdict as there are open findings: maintenance may have
    retired some. If more were counted than a report lists, they are not all in the table, and the count holds.
    """
    counts = {verdict: listed.get((tally.rule, verdict), 0) for verdict in verdicts}
    more = {verdict: count for verdict, count in tally.counts.items() if verdict not in counts or count > LISTED}
    return Tally(tally.rule, counts | more, tally.reasons)


def _open_findings(
    directory: Directory, clusters: Iterable[str], rules: Iterable[str], verdicts: Iterable[str]
) -> dict[str, tuple[str | None, Finding]]:
    """The open findings of these rules, by id: the id of the finding that caused it, if any, and the finding."""
    is_open = F.col("cluster").isin(*clusters) & (F.col("state") == OPEN)
    rows = directory.table("findings").where(is_open & F.col("rule").isin(*rules) & F.col("verdict").isin(*verdicts))
    return {row["finding_id"]: (row["caused_by"], finding_of(row)) for row in rows.toArrow().to_pylist()}


def _united(found: Iterable[Finding], staying: Iterable[tuple[str | None, Finding]]) -> tuple[Finding, ...]:
    """The findings of both, each below the one that caused it if that is there, too."""
    roots = list(found)
    staying = list(staying)
    ids = {one.finding_id for one in roots} | {one.finding_id for caused_by, one in staying if caused_by is None}
    consequences: dict[str, list[Finding]] = {}
    for caused_by, one in staying:
        if caused_by is not None and caused_by in ids:
            consequences.setdefault(caused_by, []).append(one)
        else:
            roots.append(one)
    whole = (
        replace(
            one, consequences=tuple(sorted((*one.consequences, *consequences.get(one.finding_id, ())), key=in_order))
        )
        for one in roots
    )
    return tuple(sorted(whole, key=in_order))


def files_read_again(files: Iterable[FileRead]) -> set[FileKey]:
    """Those of which each run reads all rows. A run leaves out the older rows of request logs (`committed_rows`)."""
    return {(file.cluster, file.path) for file in files if BY_KIND[file.kind].source != REQUEST_LOG}


def has_line_before(finding: Finding, time: str, read_again: Collection[FileKey]) -> bool:
    """One of the finding's lines is older than `time`, and of a file of which a run leaves out older rows."""
    requests = (line for line in finding.evidence if (finding.cluster, line.file) not in read_again)
    return any(line.time is not None and line.time.rstrip("Z") < time for line in requests)


def _own_time(finding: Finding, roles: Mapping[str, str]) -> str:
    """The time of the finding's own line; without one, later than any."""
    own = (line for line in finding.evidence if has_role(line.role, roles[finding.rule]))
    times = [line.time for line in own if line.time is not None]
    return times[0].rstrip("Z") if times else "~"


def _removals(now: Iterable[Removal], before: Iterable[Removal]) -> tuple[Removal, ...]:
    """Tonight's truncations, with what earlier runs knew of them by requests that are not read any more; and those of earlier runs."""
    known = {one.key: one for one in before}
    merged = [_known(one, known.pop(one.key)) if one.key in known else one for one in now]
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
    found = {one.key: one for one in before}
    for one in now:
        if one.key not in found or found[one.key].batches <= one.batches:
            found[one.key] = one
    return tuple(found.values())
