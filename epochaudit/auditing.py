"""The audit as a library: a recorded capture goes in, verdicts and findings come out as DataFrames.

from epochaudit import audit
result = audit(spark, "captures/last-night")
result.findings.show()
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from epochaudit.metrics import of_run
from epochaudit.replay.frames import FRAMES
from epochaudit.replay.kept import release
from epochaudit.replay.lives import deletes_nameless, with_lives
from epochaudit.rules.catalogue import PlugInError, selected
from epochaudit.rules.judge import JUDGED_ROW, Judgement, Tally, by_frame, judge
from epochaudit.rules.rule import EXPOSED, VERDICTS, VIOLATION, Rule
from epochaudit.rules.wording import FINDING_ROW, Words, said, worded
from epochaudit.session import copies, in_one_partition, tuned_for
from epochaudit.sources.capture import Capture
from epochaudit.sources.clock_steps import corrected, corrections
from epochaudit.sources.datasource import cores, read_captures
from epochaudit.sources.discovery import discover
from epochaudit.sources.formats import is_read
from epochaudit.sources.staging import release as let_go

REPORTED: Final = (VIOLATION, EXPOSED)
PLANNERS: Final = 2
LISTED: Final = 2_000  # findings of one rule that a report lists; more are counted, and are in Audit.findings
LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"  # a table that was kept by an executor that died since

VERDICT_SCHEMA: Final = StructType(
    [
        StructField("rule", StringType()),
        *(StructField(verdict, LongType()) for verdict in VERDICTS),
        StructField("unverifiable_reasons", MapType(StringType(), LongType())),
    ]
)


@dataclass(frozen=True)
class Reading:
    """What is there to judge.

    rows: what was read, and is kept: events, quarantine and splits are made of it. clock_steps: how often,
    as a row of `rows` tells, the clock of a node was set back.
    """

    captures: tuple[Capture, ...]
    rows: DataFrame
    events: DataFrame
    quarantine: DataFrame
    splits: DataFrame
    clock_steps: Column


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    events, quarantine, splits: the tables of schemas/events.toml, quarantine.toml and splits.toml.
    verdicts: one row per rule: rule, pass, fenced, violation, exposed, unverifiable, unverifiable_reasons (reason -> count).
    findings: one row per judged subject whose verdict is violation or exposed, or was asked for: cluster, node, topic,
    topic_id, partition, leader_epoch, client_id, group_id, correlation_id, rule, verdict, reason, severity, expected, observed,
    because, and evidence as array<struct<role, place>>, place being (node, file, split, byte_offset, line_in_split, time_ms).
    judged: rows of JUDGED_ROW of the findings that a report lists: all, or of each rule the first LISTED in the order of their
    subjects. words: what the findings of each rule say.
    left_out: rule id -> how many findings of it are not listed, where some are not.
    failures: rule id -> why it could not be computed; its subjects, however many, count as one that is unverifiable.
    """

    captures: tuple[Capture, ...]
    rules: tuple[Rule, ...]
    events: DataFrame
    quarantine: DataFrame
    splits: DataFrame
    verdicts: DataFrame
    findings: DataFrame
    judged: DataFrame
    words: Mapping[str, Words]
    tallies: tuple[Tally, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    persisted: tuple[DataFrame, ...] = ()

    def listed(self) -> list[dict[str, object]]:
        """The findings that a report lists, on the driver, with the columns of FINDING_ROW.

        They get their words here: where a report has few of them, starting Python workers would take longer than all else.
        """
        return [said(row, self.words) for row in self.judged.toArrow().to_pylist(maps_as_pydicts="strict")]

    def release(self) -> None:
        """Let go of what the audit holds in memory and on disk; its DataFrames are then of no more use."""
        for rows in self.persisted:
            let_go(rows)


def audit(
    spark: SparkSession,
    *captures: str | Capture,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    show: Collection[str] = (),
) -> Audit:
    """Audit captures: directories by path or URI, each with one cluster's recorded files, or what `discover` made of them.

    `select` and `ignore` take rule ids, families or KIPs; `show` further verdicts to list among the findings.
    Raises CaptureError for a path that is no capture and UnknownRule for a selection that matches nothing.
    The logs are read once; what was read is kept until `Audit.release`.
    """
    rules = selected(select, ignore)
    found = tuple(c if isinstance(c, Capture) else discover(c) for c in captures)
    metrics = of_run()
    with tuned_for(spark, plain_bytes_of(found)):
        with metrics.stage("reading"):  # where executors do not share this machine's disk, the judging reads
            read = reading(spark, found)
        with metrics.stage("judging"):
            return judged(read, rules, show)


def reading(spark: SparkSession, captures: Sequence[Capture]) -> Reading:
    """The captures' logs, to be read once."""
    read = read_captures(spark, captures)
    steps = F.size("statistics.clock_steps")
    return Reading(tuple(captures), read.scan, read.events, read.quarantine, read.splits, steps)


def judged(read: Reading, rules: tuple[Rule, ...], show: Collection[str] = ()) -> Audit:
    """What the rules say of it; `show` are further verdicts to list among the findings."""
    spark = read.rows.sparkSession
    frames = by_frame(rules)
    if unknown := frames.keys() - FRAMES.keys():
        raise PlugInError(f"no such frame: {', '.join(sorted(unknown))}; there are {', '.join(FRAMES)}")
    steps, nameless_end, with_rows = _read(read, frames)
    events = read.events
    if steps:
        events = corrected(events, corrections(row.asDict(recursive=True) for row in read.splits.collect()))
    keep = {*REPORTED, *show}
    told = with_lives(events) if nameless_end else events
    judgements, failures = _judged(told, {name: frames[name] for name in with_rows}, keep)
    release(told)
    tallied = [(judgement, tuple(judgement.tallies())) for judgement in judgements]
    counted = {tally.rule: tally for _, tallies in tallied for tally in tallies}
    # each table of a union has it analysed anew, and most frames of most clusters find nothing
    telling = [judgement for judgement, tallies in tallied if any(tally.counts[v] for tally in tallies for v in keep)]
    words = {id: of_rule for judgement in telling for id, of_rule in judgement.words().items()}
    counted |= {id: Tally.of_failure(id, why) for id, why in failures.items()}
    tallies = tuple(counted.get(rule.id, Tally.of_none(rule)) for rule in sorted(rules, key=lambda rule: rule.id))
    found = {tally.rule: sum(tally.counts[verdict] for verdict in keep) for tally in tallies if tally.rule in words}
    left_out = {rule: count - LISTED for rule, count in found.items() if count > LISTED}
    rows, findings = spark.createDataFrame([], JUDGED_ROW), spark.createDataFrame([], FINDING_ROW)
    if telling:
        rows = reduce(DataFrame.unionByName, (judgement.rows for judgement in telling))
        rows = rows.coalesce(cores(spark))  # they are few, as a rule, and each task starts a Python worker
        findings = worded(rows, words)
    return Audit(
        captures=read.captures,
        rules=rules,
        events=events,
        quarantine=read.quarantine,
        splits=read.splits,
        verdicts=_verdict_table(spark, tallies),
        findings=findings,
        judged=_first_of_each_rule(rows) if left_out else rows,
        words=words,
        tallies=tallies,
        left_out=left_out,
        failures=failures,
        persisted=(read.rows, *(judgement.rows for judgement in judgements)),
    )


def _first_of_each_rule(rows: DataFrame) -> DataFrame:
    """The first LISTED rows of each rule: what the driver holds does not grow with what was found."""
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
    order = Window.partitionBy("rule").orderBy(*subject, "arm", F.to_json("places"))
    return rows.withColumn("nth", F.row_number().over(order)).where(F.col("nth") <= LISTED).drop("nth")


def plain_bytes_of(captures: Iterable[Capture]) -> int:
    """Size of the captures' files that are read, about: of a compressed one only the stored size is known."""
    return sum(file.stored.plain_size(file.compression) for one in captures for file in one.files if is_read(file))


def _read(read: Reading, frames: Iterable[str]) -> tuple[int, bool, list[str]]:
    """Look through what is to be judged.

    Returns the number of clock steps that were met, whether topics without ids were deleted, and the frames that have rows,
    which are planned.

    Planning is most of a small audit: no cluster has the events of all frames.
    """
    steps = F.sum(read.clock_steps).alias("clock_steps")
    nameless_end = F.max(deletes_nameless()).alias("nameless_end")
    has_rows = (F.max(FRAMES[name].has_rows()).alias(name) for name in frames)
    (told,) = in_one_partition(read.rows).agg(steps, nameless_end, *has_rows).collect()
    return told["clock_steps"] or 0, bool(told["nameless_end"]), [name for name in frames if told[name]]


def _judged(
    events: DataFrame, frames: Mapping[str, Sequence[Rule]], keep: Collection[str]
) -> tuple[list[Judgement], dict[str, str]]:
    """The judgements of the frames, computed and kept; some frames are planned while others are computed.

    Beside them, why rules failed: one that does must not take the others with it.
    """
    failures: dict[str, str] = {}

    def judged(name: str, rules: Sequence[Rule], *, again: bool = True) -> list[Judgement]:
        try:
            judgement = judge(FRAMES[name].of(events), rules, keep)
            rows = judgement.rows.persist(copies(events.sparkSession))
            _compute(rows)
        except Exception as error:
            if again and LOST in str(error):
                release(events)  # what was kept is computed anew
                return judged(name, rules, again=False)
            if len(rules) > 1:
                return [one for rule in rules for one in judged(name, [rule])]
            first_line, *_ = str(error).strip().splitlines() or [""]
            failures[rules[0].id] = f"{type(error).__name__}: {first_line}"
            return []
        return [replace(judgement, rows=rows)]

    with ThreadPoolExecutor(PLANNERS) as pool:
        return [one for of_frame in pool.map(judged, frames.keys(), frames.values()) for one in of_frame], failures


def _compute(rows: DataFrame) -> None:
    """Run a persisted DataFrame once; its observations are filled.

    Not a checkpoint, which would be planned once and not twice: Spark 4.2 fails on filters over the union of checkpoints
    (its LogicalRDD keeps constraints on columns that it does not have), and findings are there to be filtered.
    """
    rows.write.format("noop").mode("overwrite").save()


def _verdict_table(spark: SparkSession, tallies: Iterable[Tally]) -> DataFrame:
    rows = [(t.rule, *(t.counts[verdict] for verdict in VERDICTS), dict(t.reasons)) for t in tallies]
    return spark.createDataFrame(rows, VERDICT_SCHEMA)
