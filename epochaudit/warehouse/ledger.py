"""The results of runs: the tables findings, verdicts and runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from epochaudit.events.schema import columns, spark_schema
from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding, in_order, with_consequences
from epochaudit.pipeline import REPORTED, Audit
from epochaudit.report.contents import Report, merged
from epochaudit.report.losses import unsettled_of
from epochaudit.rules.judge import Span
from epochaudit.rules.rule import EXPOSED, UNVERIFIABLE, VIOLATION, Rule
from epochaudit.spark.local_rows import local_rows
from epochaudit.spark.run_metrics import Metrics
from epochaudit.version import VERSION
from epochaudit.warehouse.tables import Directory, WarehouseError, one_of, quoted

OPEN: Final = "open"
OVERTURNED: Final = "overturned"
INCOMPLETE: Final = "incomplete"
OF_RUNS: Final = ("first_run_id", "first_seen", "history")  # a finding that is reported again retains these columns


@dataclass(frozen=True)
class Evaluation:
    """The input of a run: the horizon's generation by cluster, and two digests.

    settings: of version, rules and listed verdicts. selection: of what `selection_of` takes.
    """

    generations: Mapping[str, int]
    settings: str
    selection: str

    @classmethod
    def of(
        cls, generations: Mapping[str, int], rules: Iterable[Rule], show: Iterable[str], selection: str
    ) -> Evaluation:
        """The input of a run of these rules that lists the verdicts `show` among the findings, too."""
        return cls(dict(generations), _digest((VERSION, sorted(rule.id for rule in rules), sorted(show))), selection)


def selection_of(select: Iterable[str], ignore: Iterable[str], show: Iterable[str]) -> str:
    """A digest of the options that choose rules and listed verdicts. Unlike the rules, it is the same in a newer version."""
    return _digest((sorted(select), sorted(ignore), sorted(show)))


def _digest(of: object) -> str:
    return blake2b(repr(of).encode(), digest_size=8).hexdigest()


def earlier_report(directory: Directory, evaluation: Evaluation) -> Report | None:
    """The report of the last run over these clusters, all of it known, if its input was the same, and no rule failed; else None."""
    runs = directory.table("runs")
    runs = runs.where(F.array_sort("clusters") == F.array(*(F.lit(name) for name in sorted(evaluation.generations))))
    last = last_run(runs)
    if last is None or last["settings"] != evaluation.settings or last["generations"] != evaluation.generations:
        return None
    report = _report(directory, last, lambda *_: True)
    return None if report.failures else replace(report, known_writes=report.lost_writes, known_removals=report.removals)


def last_run(runs: DataFrame) -> Row | None:
    """The last of these rows of the table `runs`; None if there is none. Each holds a whole report: those of other runs are not read."""
    run_id = runs.agg(F.max("run_id")).collect()[0][0]
    return None if run_id is None else runs.where(F.col("run_id") == run_id).collect()[0]


def last_report(directory: Directory, cluster: str | None, new: bool | datetime) -> Report:
    """The report of the last run of each cluster, or of one. new: as at `nightly.reported`. Raises WarehouseError."""
    reports = []
    for run in _last_runs(directory, cluster):
        report = _report(directory, run, _is_known(run["run_id"], new))
        before = f"{new:%Y%m%dT%H%M%S}" if isinstance(new, datetime) else run["run_id"] if new else ""
        reports.append(_with_known_losses(directory, report, run["clusters"], before))
    return merged(reports)


def _last_runs(directory: Directory, cluster: str | None) -> list[Row]:
    runs = directory.table("runs")
    if cluster is not None:
        runs = runs.where(F.array_contains("clusters", cluster))
    last: dict[str, str] = {}  # cluster -> id of its last run
    for row in runs.select("run_id", "clusters").orderBy("run_id").collect():
        last |= dict.fromkeys(row["clusters"], row["run_id"])
    if not last:
        what = "no completed run" if cluster is None else f"no completed run over cluster {cluster}"
        raise WarehouseError(f"{directory.location} holds {what}; `epochaudit audit` makes one")
    chosen = {last[cluster]} if cluster is not None else {*last.values()}
    found = runs.where(F.col("run_id").isin(*chosen)).orderBy("run_id").collect()
    counts = Counter(name for run in found for name in run["clusters"])
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise WarehouseError(
            f"the last runs over {', '.join(sorted(counts))} overlap: {', '.join(twice)} was audited alone and together "
            "with others; name one with --cluster"
        )
    return list(found)


@dataclass(frozen=True)
class Opened:
    """When a finding became open, for the last time: the run, and its time (ISO 8601, UTC)."""

    run_id: str
    at: str

    @classmethod
    def of(cls, history: Sequence[Mapping[str, str]]) -> Opened:
        """By a finding's history, which begins with the run that first reported it."""
        earlier = [None, *(change["state"] for change in history)]
        opening = [
            now for now, before in zip(history, earlier, strict=False) if now["state"] == OPEN and before != OPEN
        ]
        return cls(opening[-1]["run_id"], opening[-1]["at"])

    def reported_by(self, completed: Sequence[str]) -> str:
        """The first completed run from then on: itself, unless it was killed. completed: run ids, in order."""
        return next((run_id for run_id in completed if run_id >= self.run_id), self.run_id)


IsKnown = Callable[[Opened, str], bool]  # given when it became open, and the first run that reported it


def _is_known(run_id: str, new: bool | datetime) -> IsKnown:
    if isinstance(new, datetime):
        since = new.replace(tzinfo=UTC)
        return lambda opened, _: datetime.fromisoformat(opened.at) < since
    return lambda _, reported_by: new and reported_by != run_id


def with_known(directory: Directory, report: Report, recorded_by: Run) -> Report:
    """The report of a run that recorded it and is not completed yet; what earlier runs reported is known."""
    run_id, clusters = recorded_by.run_id, report.inventory.clusters
    report = _with_known_losses(directory, report, clusters, before=run_id)
    if not report.findings:
        return report
    found = _open_findings(directory, run_id).select("finding_id", "history").collect()
    return replace(report, known=_known(directory, clusters, run_id, found, _is_known(run_id, new=True)))


def _known(
    directory: Directory, clusters: Iterable[str], run_id: str, found: Iterable[Any], is_known: IsKnown
) -> dict[str, str]:
    """Finding id -> when it became open. A killed run reports nothing: what it found, the next completed run reported.

    run_id: the run that reports, which may not be completed yet.
    """
    of_clusters = F.arrays_overlap("clusters", F.array(*map(F.lit, clusters)))
    runs = directory.table("runs").where(of_clusters).select("run_id").collect()
    completed = sorted({run_id, *(row["run_id"] for row in runs)})
    opened = {row["finding_id"]: Opened.of(row["history"]) for row in found}
    return {id: one.at for id, one in sorted(opened.items()) if is_known(one, one.reported_by(completed))}


def _with_known_losses(directory: Directory, report: Report, clusters: Iterable[str], before: str) -> Report:
    """The report; known are the lost writes and truncations that their cluster's last run before this run id, or time, had, too.

    Writes that have become more since, and truncations of which it was not yet known that they harm, are new.
    """
    if not (report.lost_writes or report.removals):
        return report
    writes: dict[tuple[object, ...], int] = {}
    removals: dict[tuple[object, ...], bool] = {}
    runs = directory.table("runs").where(F.col("run_id") < before)
    for cluster in clusters:
        if last := last_run(runs.where(F.array_contains("clusters", cluster))):
            earlier = msgspec.json.decode(last["report"], type=Report)
            writes |= {one.key: one.batches for one in earlier.lost_writes if one.cluster == cluster}
            removals |= {one.key: bool(one.harmed) for one in earlier.removals if one.cluster == cluster}
    return replace(
        report,
        known_writes=tuple(one for one in report.lost_writes if one.batches <= writes.get(one.key, 0)),
        known_removals=tuple(
            one for one in report.removals if one.key in removals and removals[one.key] >= bool(one.harmed)
        ),
    )


def _open_findings(directory: Directory, run_id: str) -> DataFrame:
    return directory.table("findings").where((F.col("last_run_id") == run_id) & (F.col("state") == OPEN))


def _report(directory: Directory, run: Row, is_known: IsKnown) -> Report:
    report = msgspec.json.decode(run["report"], type=Report)
    found = _open_findings(directory, run["run_id"]).toArrow().to_pylist()
    consequences: dict[str, list[Finding]] = defaultdict(list)
    roots = []
    for row in found:
        if row["caused_by"]:
            consequences[row["caused_by"]].append(finding_of(row))
        else:
            roots.append(finding_of(row))
    whole = (replace(f, consequences=tuple(sorted(consequences[f.finding_id], key=in_order))) for f in roots)
    return replace(
        report,
        findings=tuple(sorted(whole, key=in_order)),
        known=_known(directory, run["clusters"], run["run_id"], found, is_known),
    )


def finding_of(row: Mapping[str, Any]) -> Finding:
    """A finding by its row in the table findings, without consequences."""
    stored = {field.name: row[field.name] for field in fields(Finding) if field.name in row}
    lines = tuple(Evidence(**line) for line in row["evidence"])
    return Finding(**stored | {"because": tuple(row["because"]), "evidence": lines})


def with_stored_texts(directory: Directory, report: Report) -> Report:
    """The report, with the stored texts of those evidence lines whose files can't be read any more."""
    unreadable = [f.finding_id for f in _flat(report) if any(line.text is None for line in f.evidence)]
    if not unreadable:
        return report
    clusters = report.inventory.clusters
    known = directory.table("findings").where(F.col("cluster").isin(*clusters) & F.col("finding_id").isin(*unreadable))
    texts = {
        (row["finding_id"], line["role"], line["byte_offset"], line["time"]): line["text"]
        for row in known.select("finding_id", "evidence").toArrow().to_pylist()
        for line in row["evidence"]
    }

    def whole(finding: Finding) -> Finding:
        lines = (
            line if line.text is not None else replace(line, text=texts.get((finding.finding_id, *_place(line))))
            for line in finding.evidence
        )
        return replace(finding, evidence=tuple(lines), consequences=tuple(map(whole, finding.consequences)))

    return replace(report, findings=tuple(map(whole, report.findings)))


def _place(line: Evidence) -> tuple[str, int, str | None]:
    return line.role, line.byte_offset, line.time


def _flat(report: Report) -> list[Finding]:
    return list(with_consequences(report.findings))


@dataclass(frozen=True)
class Run:
    """A run of the program over a warehouse."""

    run_id: str
    started_at: str

    @classmethod
    def now(cls, chance: str) -> Run:
        """A run that begins now. `chance`: hexadecimal digits that make its id unique."""
        started = datetime.now(UTC)
        return cls(f"{started:%Y%m%dT%H%M%S.%fZ}-{chance}", iso_seconds(started))


def iso_seconds(moment: datetime) -> str:
    """ISO 8601 with seconds, as the tables have times."""
    return moment.isoformat(timespec="seconds")


def record(directory: Directory, run: Run, audit: Audit, report: Report, show: Collection[str]) -> None:
    """Write the findings and counts of a run. `complete` follows."""
    # a rule that failed, or whose findings are not all listed, overturns none
    rules = [rule.id for rule in audit.rules if rule.id not in audit.failures and rule.id not in audit.left_out]
    record_findings(directory, run.run_id, iso_seconds(datetime.now(UTC)), report, rules, {*REPORTED, *show})
    directory.append("verdicts", audit.verdicts.withColumn("run_id", F.lit(run.run_id)))


def complete(
    directory: Directory,
    run: Run,
    evaluation: Evaluation,
    report: Report,
    metrics: Metrics,
    span: Span,
    settled: str | None,
) -> None:
    """Write the row of a run in `runs`, the last step: only a completed run has one.

    span: what was judged, and until when this run settled it. settled: the column of that name.
    """
    breaches, unsettled = report.count(VIOLATION) + report.count(EXPOSED), list(unsettled_of(report))
    row = {
        "run_id": run.run_id,
        "version": VERSION,
        "started_at": run.started_at,
        "finished_at": iso_seconds(datetime.now(UTC)),
        "outcome": "findings" if breaches else INCOMPLETE if report.failures else "unsettled" if unsettled else "clean",
        "unsettled": unsettled,
        "clusters": sorted(evaluation.generations),
        "generations": dict(evaluation.generations),
        "settings": evaluation.settings,
        "selection": evaluation.selection,
        "settled_from_ms": None if settled is None else span.from_ms,
        "settled_until_ms": None if settled is None else span.settled_until_ms,
        "settled": settled,
        "files_read": metrics.read["files"],
        "bytes_read": metrics.read["bytes"],
        "lines_read": metrics.read["lines"],
        "rows_written": metrics.read["rows"],
        "quarantined": metrics.read["quarantined"],
        "violations": report.count(VIOLATION),
        "exposed": report.count(EXPOSED),
        "unverifiable": report.count(UNVERIFIABLE),
        "seconds": metrics.seconds,
        "spark": directory.spark.version,
        "driver_cpu_seconds": metrics.cpu_seconds(directory.spark),
        "report": msgspec.json.encode(replace(report, findings=())).decode(),
    }
    schema = spark_schema("runs")
    directory.append("runs", local_rows(directory.spark, [tuple(row[name] for name in schema.names)], schema))


def record_findings(
    directory: Directory, run_id: str, now: str, report: Report, rules: Sequence[str], verdicts: Collection[str]
) -> None:
    """Merge the findings of a report into the table findings, in one transaction.

    An open finding of the table becomes `overturned` if the report lacks it although its rule is one of `rules` and its
    verdict one of `verdicts`.
    """
    clusters = report.inventory.clusters
    rows = _rows(directory, run_id, now, report)
    view = f"found_{run_id.rpartition('-')[2]}"
    rows.createOrReplaceTempView(view)
    names = [c.name for c in columns("findings")]
    updated = ", ".join(f"`{name}` = found.`{name}`" for name in names if name not in OF_RUNS)
    of_clusters = f"earlier.cluster IN {one_of(clusters)}"
    is_open = f"earlier.state = {quoted(OPEN)}"
    is_evaluated = f"earlier.rule IN {one_of(rules)} AND earlier.verdict IN {one_of(sorted(verdicts))}"
    change = (
        f"array(named_struct('run_id', {quoted(run_id)}, 'at', {quoted(now)}, 'state', {quoted(OVERTURNED)}, "
        "'observed', earlier.observed))"
    )
    overturned = (
        f"WHEN NOT MATCHED BY SOURCE AND {of_clusters} AND {is_open} AND {is_evaluated} THEN UPDATE SET "
        f"state = {quoted(OVERTURNED)}, history = concat(earlier.history, {change})"
    )
    try:
        directory.spark.sql(
            f"MERGE INTO {directory.name('findings')} AS earlier USING {view} AS found "
            f"ON {of_clusters} AND earlier.cluster = found.cluster AND earlier.finding_id = found.finding_id "
            f"WHEN MATCHED THEN UPDATE SET {updated}, history = CASE WHEN {is_open} AND earlier.observed <=> found.observed "
            "THEN earlier.history ELSE concat(earlier.history, found.history) END "
            f"WHEN NOT MATCHED THEN INSERT * {overturned if rules else ''}"
        )
    finally:
        directory.spark.catalog.dropTempView(view)


def _rows(directory: Directory, run_id: str, now: str, report: Report) -> DataFrame:
    schema = spark_schema("findings")
    findings: list[tuple[Finding, str | None]] = [(finding, None) for finding in report.findings]
    findings += [(consequence, root.finding_id) for root in report.findings for consequence in root.consequences]
    rows = []
    for finding, caused_by in findings:
        own = {
            "state": OPEN,
            **dict.fromkeys(("first_run_id", "last_run_id"), run_id),
            **dict.fromkeys(("first_seen", "last_seen"), now),
            "history": [(run_id, now, OPEN, finding.observed)],
            "caused_by": caused_by,
            "because": list(finding.because),
            "evidence": [(e.role, e.node, e.file, e.line, e.byte_offset, e.time, e.text) for e in finding.evidence],
        }
        rows.append(tuple(own[name] if name in own else getattr(finding, name) for name in schema.names))
    return local_rows(directory.spark, rows, schema)
