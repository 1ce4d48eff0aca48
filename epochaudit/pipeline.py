"""The audit as a library: it takes recorded captures and returns verdicts and findings as DataFrames.

from epochaudit.pipeline import audit
from epochaudit.sources.discovery.discovery import discover
audit(spark, discover("captures/last-night")).findings.show()

Notebooks have `epochaudit.audit` (notebook.py), whose result shows itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import reduce
from time import monotonic
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from epochaudit.events.views import RANGE, RangeId, range_id
from epochaudit.replay.frames import FRAMES, has_rows, presence
from epochaudit.replay.run_edges import collected, edges_by_subject, folded, ranges_to_read_again
from epochaudit.replay.state.inferred_topic_ids import deletes_topic_without_id, with_inferred_topic_ids
from epochaudit.replay.state.line_order import OrderedLines, in_one_order, may_share_lines, needs_each_row
from epochaudit.rules.catalogue import PlugInError, selected
from epochaudit.rules.judge import EVERYTHING, VERDICT_ROW, Judgement, Span, Tally, by_frame, judge
from epochaudit.rules.messages import FINDING_ROW, MessageTemplates, render_row, with_messages
from epochaudit.rules.rule import EXPOSED, VERDICTS, VIOLATION, Rule
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import Capture, CaptureError
from epochaudit.sources.formats import is_read
from epochaudit.sources.scan.datasource import CaptureFrames, Scan, cores, read_again, scan, tables
from epochaudit.sources.scan.ranges import ByteRange, cut
from epochaudit.sources.scan.staging import release
from epochaudit.spark.local_rows import local_rows
from epochaudit.spark.memo import as_leaf, share, unpersist
from epochaudit.spark.run_metrics import Advance, FrameCost, of_run
from epochaudit.spark.session import BYTES_OF_A_ROW, in_one_partition, name_jobs, storage_level, tuned_for

REPORTED: Final = (VIOLATION, EXPOSED)
PLANNERS: Final = 2  # threads that plan frames: one plans while the other computes
OUT_OF_MEMORY: Final = ("OutOfMemory", "Not enough memory", "Cannot broadcast")  # of Spark's messages
LISTED: Final = 2_000  # findings that a report lists per rule; the others are counted, and are rows of Audit.findings
REPEATED: Final = 200  # rows of Audit.repeated
NO_OTHERS: Final[Mapping[RangeId, ByteRange]] = MappingProxyType({})
# Spark's error if the executor that stored a table has died
LOST_CHECKPOINT: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

VERDICT_SCHEMA: Final = StructType(
    [
        StructField("rule", StringType()),
        *(StructField(verdict, LongType()) for verdict in VERDICTS),
        StructField("unverifiable_reasons", MapType(StringType(), LongType())),
    ]
)


@dataclass(frozen=True)
class Reading:
    """The input of `evaluate_rules`.

    rows: the persisted scan, from which events, quarantine and splits are derived.
    clock_steps: how often times of a range go back, as a column of `rows`: a clock was set, older lines follow, or lines are repeated.
    """

    captures: tuple[Capture, ...]
    rows: DataFrame
    events: DataFrame
    quarantine: DataFrame
    splits: DataFrame
    clock_steps: Column


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    events, quarantine, splits: the tables of schemas/events.toml, quarantine.toml and splits.toml.
    verdicts: one row per rule: rule, pass, fenced, violation, exposed, unverifiable, unverifiable_reasons (reason -> count).
    findings: one row per (rule, subject) whose verdict is violation, exposed or one of `show`: cluster, node, topic,
    topic_id, partition, leader_epoch, client_id, group_id, correlation_id, rule, verdict, reason, severity, expected, observed,
    because, and evidence as array<struct<role, place>>, place being (node, file, split, byte_offset, line_in_split, time_ms).
    verdict_rows: the findings before their messages are rendered, with the columns of VERDICT_ROW.
    listed_rows: the verdict_rows that a report lists. If a rule has more than LISTED, only its first, ordered by subject.
    messages: rule id -> the templates of its findings' sentences.
    left_out: rule id -> number of its findings that are not in listed_rows, for rules with such findings.
    failures: rule id -> why the rule could not be computed. A failed rule counts as one unverifiable subject, as the number
    of its subjects is unknown.
    stored: what the events are read from, until `release`. persisted: the rows of the judgements.
    listed_runs: byte ranges (cluster, file, split) with runs of like rows among the findings: each of their rows is a finding of its own.
    row_count: number of rows in events, quarantine and splits.
    settled: the tallies of the subjects before `Span.settled_until_ms`; empty if the span has none.
    """

    captures: tuple[Capture, ...]
    rules: tuple[Rule, ...]
    events: DataFrame
    quarantine: DataFrame
    splits: DataFrame
    verdicts: DataFrame
    findings: DataFrame
    verdict_rows: DataFrame
    listed_rows: DataFrame
    messages: Mapping[str, MessageTemplates]
    tallies: tuple[Tally, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    stored: tuple[DataFrame, ...] = ()
    persisted: tuple[DataFrame, ...] = ()
    listed_runs: tuple[RangeId, ...] = ()
    row_count: int = 0
    settled: tuple[Tally, ...] = ()

    def tuned(self) -> AbstractContextManager[None]:
        """Spark's settings for tables of this size; for code that queries them several times."""
        return tuned_for(self.events.sparkSession, self.row_count)

    def repeated(self) -> list[dict[str, object]]:
        """For rules in left_out: the requesters with the most equal verdicts at one partition, as rows on the driver.

        One row per (rule, verdict, cluster, node, topic, topic_id, partition, client_id), at most REPEATED rows: count,
        first_time_ms, last_time_ms (milliseconds, of the subject's own line).
        """
        if not self.left_out:
            return []
        grain = ("rule", "branch", "cluster", "node", "topic", "topic_id", "partition", "client_id")
        time_ms = F.lit(None).cast("bigint")
        for rule, templates in self.messages.items():
            own_line = templates.evidence[0][1]
            time_ms = F.when(F.col("rule") == rule, F.col("places")[own_line]["time_ms"]).otherwise(time_ms)
        groups = self.verdict_rows.where(F.col("rule").isin(*self.left_out)).groupBy(*grain)
        counts = groups.agg(
            F.count("*").alias("count"), F.min(time_ms).alias("first_time_ms"), F.max(time_ms).alias("last_time_ms")
        )
        most = counts.orderBy(F.desc("count"), *grain).limit(REPEATED).collect()
        return [row.asDict() | {"verdict": self.messages[row["rule"]].branches[row["branch"]].verdict} for row in most]

    def listed(self) -> list[dict[str, object]]:
        """The findings that a report lists, with the columns of FINDING_ROW, on the driver.

        The driver renders their messages: for few findings, starting Python workers would take longer than all else.
        """
        rows = self.listed_rows.toArrow().to_pylist(maps_as_pydicts="strict")
        return [render_row(row, self.messages) for row in rows]

    def release_judgements(self) -> None:
        """Free the findings and the tables made of the events, but not the events."""
        unpersist(self.events)
        for rows in self.persisted:
            rows.unpersist()

    def release(self) -> None:
        """Free the memory and disk that the audit uses. Its DataFrames can't be used afterwards."""
        self.release_judgements()
        for rows in self.stored:
            release(rows)


def audit(
    spark: SparkSession,
    *captures: str | Capture,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    show: Collection[str] = (),
    fold: bool = True,
) -> Audit:
    """Audit captures: paths or URIs of directories, each with the recorded files of one cluster, or results of `discover`.

    `select` and `ignore` take rule ids, families or KIPs. `show` names further verdicts to list among the findings.
    fold: in `events` of large request logs, runs of like rows of Fetch and Produce are folded (schemas/events.toml, run_rows); verdicts and
    findings are the same as without.
    Raises CaptureError for a path that is no capture and for two captures of one cluster, and UnknownRule for a selection
    that matches nothing.
    The logs are read once. The rows that were read stay persisted until `Audit.release`.
    """
    rules = selected(select, ignore)
    discovered = tuple(c if isinstance(c, Capture) else discover(c) for c in captures)
    names = [capture.cluster for capture in discovered]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CaptureError(
            f"two of the captures are of cluster {twice}: put the files of one cluster below one directory, or name each "
            "cluster in its capture.toml"
        )
    metrics = of_run()
    # where executors do not share this machine's disk, the scan is lazy, and the stage `judging` reads
    with metrics.stage("reading"):
        scanned = scan(spark, _ranges(discovered), fold and not {*show} - {*REPORTED})
    with metrics.stage("judging"):
        if scanned.folded:
            return _evaluate_folded(spark, discovered, scanned, rules, show)
        with tuned_for(spark, _row_count(scanned, discovered)):
            return evaluate_rules(_reading(discovered, tables(spark, scanned)), rules, show)


def reading(spark: SparkSession, captures: Sequence[Capture]) -> Reading:
    """The scan of the captures' logs."""
    return _reading(captures, tables(spark, scan(spark, _ranges(captures))))


def _ranges(captures: Iterable[Capture]) -> list[ByteRange]:
    return cut(file for capture in captures for file in capture.files)


def _reading(captures: Sequence[Capture], read: CaptureFrames) -> Reading:
    clock_steps = F.size("statistics.clock_steps")
    return Reading(tuple(captures), read.rows, read.events, read.quarantine, read.splits, clock_steps)


def _evaluate_folded(
    spark: SparkSession, captures: Sequence[Capture], scanned: Scan, rules: tuple[Rule, ...], show: Collection[str]
) -> Audit:
    """As `evaluate_rules`, for a scan with folded runs. Ranges with a run among the findings are read again in full.

    Each row of such a run is a finding of its own.
    """
    with tuned_for(spark, _row_count(scanned, captures)):
        first = tables(spark, scanned)
        scanned = with_runs_between_edges(spark, scanned, first.events, first.splits)
    while True:
        with tuned_for(spark, _row_count(scanned, captures)):  # a range that is read again may have many more rows
            read = tables(spark, scanned)
            share(first.events, read.events)
            audited = evaluate_rules(_reading(captures, read), rules, show)
        if not audited.listed_runs:
            return audited
        audited.release_judgements()
        scanned = read_again(spark, scanned, {*audited.listed_runs})


def _row_count(scanned: Scan, captures: Iterable[Capture]) -> int:
    """The number of the scan's rows, estimated from the size of the captures' logs if the rows are not staged."""
    return plain_bytes_of(captures) // BYTES_OF_A_ROW if scanned.row_count is None else scanned.row_count


def with_runs_between_edges(
    spark: SparkSession,
    scanned: Scan,
    events: DataFrame,
    splits: DataFrame,
    others: Mapping[RangeId, ByteRange] = NO_OTHERS,
) -> Scan:
    """The scan, with ranges read again in which a run extends across an edge (replay.run_edges).

    If a node's clock was set back, or lines may be there twice, ranges with runs are read in full: rows move from one span of ten
    seconds to another, or are left out. events, splits: the scan's tables, with those rows of a warehouse whose runs are treated
    alike. others: ranges of these rows that can be read again; the result has those of them in which a run extends across an edge.
    """
    edges = edges_by_subject(events)
    in_full = needs_each_row(events, splits)
    rows = folded(events).select(*RANGE).distinct() if in_full else ranges_to_read_again(events, edges)
    crossed = set(map(range_id, rows.collect()))
    own = crossed & {part.id for part in scanned.ranges}
    added = [part for id, part in others.items() if id in crossed]
    if not own and not added:
        return scanned
    return read_again(spark, scanned, own, None if in_full else collected(edges), added)


def evaluate_rules(
    read: Reading, rules: tuple[Rule, ...], show: Collection[str] = (), span: Span = EVERYTHING
) -> Audit:
    """Evaluate the rules over the events that were read.

    `show` names further verdicts to list among the findings. `span`: which subjects are judged. Raises PlugInError for a rule
    of an unknown frame.
    """
    spark = read.rows.sparkSession
    frames = by_frame(rules)
    if unknown := frames.keys() - FRAMES.keys():
        raise PlugInError(f"no such frame: {', '.join(sorted(unknown))}; there are {', '.join(FRAMES)}")
    summary = _summary(read, frames)
    lines = _lines_in_order(read, summary)
    events, identified = lines.events, _identified(lines.events, summary)
    listed_verdicts = {*REPORTED, *show}
    judgements, failures = _evaluate_frames(
        identified, {name: frames[name] for name in summary.frames_with_rows}, listed_verdicts, span
    )
    if identified is not events:
        unpersist(identified)  # the report reads tables of `events`, which are computed once until `Audit.release`
    tallied = [(judgement, tuple(judgement.tallies())) for judgement in judgements]
    # A union analyses each of its tables anew, and most frames of most clusters have no finding.
    with_findings = [
        judgement
        for judgement, tallies in tallied
        if any(tally.counts[v] for tally in tallies for v in listed_verdicts)
    ]
    messages = {id: templates for judgement in with_findings for id, templates in judgement.messages().items()}
    by_rule = {tally.rule: tally for _, tallies in tallied for tally in tallies}
    by_rule |= {id: Tally.of_failure(id, why) for id, why in failures.items()}
    tallies = tuple(by_rule.get(rule.id, Tally.of_none(rule)) for rule in sorted(rules, key=lambda rule: rule.id))
    counts = {t.rule: sum(t.counts[verdict] for verdict in listed_verdicts) for t in tallies if t.rule in messages}
    left_out = {rule: count - LISTED for rule, count in counts.items() if count > LISTED}
    rows, findings = _verdict_rows(spark, with_findings, messages)
    return Audit(
        captures=read.captures,
        rules=rules,
        events=events,
        quarantine=read.quarantine,
        splits=lines.splits,
        verdicts=_verdict_table(spark, tallies),
        findings=findings,
        verdict_rows=rows,
        listed_rows=_first_of_each_rule(rows) if left_out else rows,
        messages=messages,
        tallies=tallies,
        left_out=left_out,
        failures=failures,
        stored=(read.rows, *lines.stored),
        persisted=tuple(judgement.rows for judgement in judgements),
        listed_runs=tuple(place for judgement in judgements for place in judgement.listed_runs()),
        row_count=summary.rows,
        settled=() if span.settled_until_ms is None else tuple(t for one in judgements for t in one.settled()),
    )


def with_settled_tallies(audited: Audit, tallies: Sequence[Tally]) -> Audit:
    """The audit with other tallies, one per rule: those of subjects that were not judged now included."""
    return replace(audited, tallies=tuple(tallies), verdicts=_verdict_table(audited.events.sparkSession, tallies))


def judged_events(read: Reading) -> DataFrame:
    """The events as frames get them: in one order, and with topic ids where topics without ids were deleted."""
    summary = _summary(read, ())
    return _identified(_lines_in_order(read, summary).events, summary)


def _lines_in_order(read: Reading, summary: _Summary) -> OrderedLines:
    if summary.clock_steps or may_share_lines(read.captures):
        return in_one_order(read.events, read.splits)
    return OrderedLines(read.events, read.splits)


def _identified(events: DataFrame, summary: _Summary) -> DataFrame:
    return with_inferred_topic_ids(events) if summary.deletes_topic_without_id else events


def _verdict_rows(
    spark: SparkSession, judgements: Sequence[Judgement], messages: Mapping[str, MessageTemplates]
) -> tuple[DataFrame, DataFrame]:
    """The rows of all judgements: with the columns of VERDICT_ROW, and rendered with those of FINDING_ROW."""
    if not judgements:
        return local_rows(spark, [], VERDICT_ROW), local_rows(spark, [], FINDING_ROW)
    rows = reduce(DataFrame.unionByName, (judgement.rows for judgement in judgements))
    rows = rows.coalesce(cores(spark))  # usually few rows, and each task starts a Python worker
    return rows, with_messages(rows, messages)


def _first_of_each_rule(rows: DataFrame) -> DataFrame:
    """The first LISTED rows of each rule: this bounds what the driver collects.

    Needs and returns the columns of VERDICT_ROW. Grain: one row per finding.
    """
    subject = (
        "cluster",
        "topic",
        "partition",
        "leader_epoch",
        "node",
        "correlation_id",
        "client_id",
        "group_id",
        "topic_id",
    )
    order = Window.partitionBy("rule").orderBy(*subject, "branch", F.to_json("places"))
    return rows.withColumn("nth", F.row_number().over(order)).where(F.col("nth") <= LISTED).drop("nth")


def plain_bytes_of(captures: Iterable[Capture]) -> int:
    """Approximate decompressed size in bytes of the files that are read, estimated from the stored size if compressed."""
    return sum(
        file.stored.plain_size(file.compression) for capture in captures for file in capture.files if is_read(file)
    )


@dataclass(frozen=True)
class _Summary:
    """Facts about the events that decide what is planned.

    rows: number of rows that were read. clock_steps: how often times of a range go back.
    frames_with_rows: only these frames are planned, because planning is most of a small audit, and no cluster has the events of
    all frames.
    """

    rows: int
    clock_steps: int
    deletes_topic_without_id: bool
    frames_with_rows: tuple[str, ...]


def _summary(read: Reading, frames: Iterable[str]) -> _Summary:
    """One aggregation over all rows."""
    names = tuple(frames)
    aggregates = in_one_partition(read.rows).groupBy("event_type").agg(
        F.count("*").alias("rows"),
        F.sum(read.clock_steps).alias("clock_steps"),
        F.max(deletes_topic_without_id()).alias("deletes_topic_without_id"),
        *presence(names),
    )  # fmt: skip
    by_type = aggregates.collect()
    return _Summary(
        sum(row["rows"] for row in by_type),
        sum(row["clock_steps"] or 0 for row in by_type),
        any(row["deletes_topic_without_id"] for row in by_type),
        tuple(name for name in names if has_rows(name, by_type)),
    )


def _evaluate_frames(
    events: DataFrame, frames: Mapping[str, Sequence[Rule]], listed_verdicts: Collection[str], span: Span
) -> tuple[list[Judgement], dict[str, str]]:
    """The computed and persisted judgements of the frames, and rule id -> error of the rules that failed.

    One frame is planned while another is computed. If a frame fails, each of its rules is evaluated alone, so that only
    the failing rule is lost; but not if memory was short, as one rule needs as much as all.
    """
    failures: dict[str, str] = {}
    metrics = of_run()
    judged = metrics.frames = {}
    metrics.judging = Advance(len(frames), lambda: len(judged))

    def evaluate(name: str, rules: Sequence[Rule], *, retry: bool = True) -> list[Judgement]:
        rows = None
        try:
            started = monotonic()
            name_jobs(events.sparkSession, f"frame {name}")
            judgement = judge(as_leaf(FRAMES[name].of(events)), rules, listed_verdicts, span)
            rows = judgement.rows.persist(storage_level(events.sparkSession))
            planned = monotonic()
            _compute(rows)
            computing = round(monotonic() - planned, 3)
            metrics.frames[name] = FrameCost(judgement.frame_rows(), round(planned - started, 3), computing)
        except Exception as error:
            if rows is not None:
                rows.unpersist()
            if retry and LOST_CHECKPOINT in str(error):
                unpersist(events)  # the tables that frames share are computed anew
                return evaluate(name, rules, retry=False)
            if len(rules) > 1 and not any(sign in str(error) for sign in OUT_OF_MEMORY):
                return [judgement for rule in rules for judgement in evaluate(name, [rule])]
            first_line, *_ = str(error).strip().splitlines() or [""]
            failures.update({rule.id: f"{type(error).__name__}: {first_line}" for rule in rules})
            return []
        return [replace(judgement, rows=rows)]

    with ThreadPoolExecutor(PLANNERS) as pool:
        evaluated = pool.map(evaluate, frames.keys(), frames.values())
        return [judgement for judgements in evaluated for judgement in judgements], failures


def _compute(rows: DataFrame) -> None:
    """Run a persisted DataFrame once, which fills its observation.

    A checkpoint would be planned only once, but Spark 4.2 fails on filters over a union of checkpoints, and findings are
    meant to be filtered: its LogicalRDD has constraints on columns that it does not have.
    """
    rows.write.format("noop").mode("overwrite").save()


def _verdict_table(spark: SparkSession, tallies: Iterable[Tally]) -> DataFrame:
    """`Audit.verdicts`: one row per rule."""
    rows = [(t.rule, *(t.counts[verdict] for verdict in VERDICTS), dict(t.reasons)) for t in tallies]
    return local_rows(spark, rows, VERDICT_SCHEMA)
