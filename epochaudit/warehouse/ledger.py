"""What was found and judged, run by run: the tables findings, verdicts and runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.auditing import REPORTED, Audit
from epochaudit.events.schema import columns, spark_schema
from epochaudit.evidence import Evidence
from epochaudit.findings import Finding, in_order, with_consequences
from epochaudit.metrics import Metrics
from epochaudit.report.contents import Report
from epochaudit.rules.rule import EXPOSED, UNVERIFIABLE, VIOLATION, Rule
from epochaudit.version import VERSION
from epochaudit.warehouse.tables import Directory, WarehouseError, one_of, quoted

OPEN: Final = "open"
OVERTURNED: Final = "overturned"
INCOMPLETE: Final = "incomplete"
OF_RUNS: Final = ("first_run_id", "first_seen", "history")  # what a finding keeps when it is reported again


@dataclass(frozen=True)
class Judged:
    """What a judgement depends on: the clusters, as far as they had been read, and the settings."""

    generations: Mapping[str, int]
    settings: str

    @classmethod
    def of(cls, generations: Mapping[str, int], rules: Iterable[Rule], show: Iterable[str]) -> Judged:
        """With these rules, these further verdicts listed."""
        told = repr((VERSION, sorted(rule.id for rule in rules), sorted(show)))
        return cls(dict(generations), blake2b(told.encode(), digest_size=8).hexdigest())


def earlier_report(directory: Directory, judged: Judged) -> Report | None:
    """The report of the last run over these clusters, if it judged the same; None if there is none."""
    run = _last_run(directory, judged.generations)
    if run is None or run["outcome"] == INCOMPLETE or run["settings"] != judged.settings:
        return None
    return _report(directory, run) if dict(run["generations"]) == judged.generations else None


def last_report(directory: Directory) -> Report:
    """The report of the last run. Raises WarehouseError if there is none."""
    run = _last_run(directory, None)
    if run is None:
        raise WarehouseError(f"{directory.location} holds no completed run; `epochaudit audit` makes one")
    return _report(directory, run)


def _last_run(directory: Directory, clusters: Collection[str] | None) -> Mapping[str, Any] | None:
    runs = directory.table("runs")
    if clusters is not None:
        runs = runs.where(F.array_sort("clusters") == F.array(*(F.lit(cluster) for cluster in sorted(clusters))))
    [*last] = runs.orderBy(F.desc("run_id")).limit(1).collect()
    return last[0].asDict() if last else None


def _report(directory: Directory, run: Mapping[str, Any]) -> Report:
    report = msgspec.json.decode(run["report"], type=Report)
    found = directory.table("findings").where((F.col("last_run_id") == run["run_id"]) & (F.col("state") == OPEN))
    consequences: dict[str, list[Finding]] = defaultdict(list)
    roots = []
    for row in found.toArrow().to_pylist():
        if row["caused_by"]:
            consequences[row["caused_by"]].append(_finding(row))
        else:
            roots.append(_finding(row))
    whole = (replace(f, consequences=tuple(sorted(consequences[f.finding_id], key=in_order))) for f in roots)
    return replace(report, findings=tuple(sorted(whole, key=in_order)))


def _finding(row: Mapping[str, Any]) -> Finding:
    told = {field.name: row[field.name] for field in fields(Finding) if field.name in row}
    lines = tuple(Evidence(**line) for line in row["evidence"])
    return Finding(**told | {"because": tuple(row["because"]), "evidence": lines})


def with_kept_texts(directory: Directory, report: Report) -> Report:
    """The report with the texts of lines that were read once, where their files can't be read any more."""
    gone = [f.finding_id for f in _flat(report) if any(line.text is None for line in f.evidence)]
    if not gone:
        return report
    clusters = report.inventory.clusters
    known = directory.table("findings").where(F.col("cluster").isin(*clusters) & F.col("finding_id").isin(*gone))
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
        """One that begins now."""
        started = datetime.now(UTC)
        return cls(f"{started:%Y%m%dT%H%M%S.%fZ}-{chance}", told_at(started))


def told_at(moment: datetime) -> str:
    """A moment as the tables tell it."""
    return moment.isoformat(timespec="seconds")


def record(
    directory: Directory,
    run: Run,
    judged: Judged,
    audit: Audit,
    report: Report,
    metrics: Metrics,
    show: Collection[str],
) -> None:
    """Write what a run found and judged; its row in `runs` comes last, so that only a completed run has one."""
    now = told_at(datetime.now(UTC))
    # one that is not listed is not overturned
    rules = [rule.id for rule in audit.rules if rule.id not in audit.failures and rule.id not in audit.left_out]
    record_findings(directory, run.run_id, now, report, rules, {*REPORTED, *show})
    directory.append("verdicts", audit.verdicts.withColumn("run_id", F.lit(run.run_id)))
    breaches = report.count(VIOLATION) + report.count(EXPOSED)
    row = {
        "run_id": run.run_id,
        "version": VERSION,
        "started_at": run.started_at,
        "finished_at": now,
        "outcome": "findings" if breaches else INCOMPLETE if report.failures else "clean",
        "clusters": sorted(judged.generations),
        "generations": dict(judged.generations),
        "settings": judged.settings,
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
    directory.append("runs", directory.spark.createDataFrame([tuple(row[name] for name in schema.names)], schema))


def record_findings(
    directory: Directory, run_id: str, now: str, report: Report, rules: Sequence[str], verdicts: Collection[str]
) -> None:
    """Bring the findings of a report into their table, in one transaction.

    Those that are open in it, that these rules and verdicts would have given again and that the report does not have, are
    overturned.
    """
    clusters = report.inventory.clusters
    told = _rows(directory, run_id, now, report)
    view = f"found_{run_id.rpartition('-')[2]}"
    told.createOrReplaceTempView(view)
    names = [c.name for c in columns("findings")]
    updated = ", ".join(f"`{name}` = found.`{name}`" for name in names if name not in OF_RUNS)
    of_clusters = f"kept.cluster IN {one_of(clusters)}"
    open_ones = f"kept.state = {quoted(OPEN)}"
    judged = f"kept.rule IN {one_of(rules)} AND kept.verdict IN {one_of(sorted(verdicts))}"
    gone = f"array(named_struct('run_id', {quoted(run_id)}, 'at', {quoted(now)}, 'state', {quoted(OVERTURNED)}, 'observed', kept.observed))"
    overturned = (
        f"WHEN NOT MATCHED BY SOURCE AND {of_clusters} AND {open_ones} AND {judged} THEN UPDATE SET "
        f"state = {quoted(OVERTURNED)}, history = concat(kept.history, {gone})"
    )
    try:
        directory.spark.sql(
            f"MERGE INTO {directory.name('findings')} AS kept USING {view} AS found "
            f"ON {of_clusters} AND kept.cluster = found.cluster AND kept.finding_id = found.finding_id "
            f"WHEN MATCHED THEN UPDATE SET {updated}, history = CASE WHEN {open_ones} AND kept.observed <=> found.observed "
            "THEN kept.history ELSE concat(kept.history, found.history) END "
            f"WHEN NOT MATCHED THEN INSERT * {overturned if rules else ''}"
        )
    finally:
        directory.spark.catalog.dropTempView(view)


def _rows(directory: Directory, run_id: str, now: str, report: Report) -> DataFrame:
    schema = spark_schema("findings")
    told: list[tuple[Finding, str | None]] = [(finding, None) for finding in report.findings]
    told += [(one, root.finding_id) for root in report.findings for one in root.consequences]
    rows = []
    for finding, caused_by in told:
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
    return directory.spark.createDataFrame(rows, schema)
