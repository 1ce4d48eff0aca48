"""The audit as a library: a recorded capture goes in, verdicts and findings come out as DataFrames.

from epochaudit import audit
result = audit(spark, "captures/last-night")
result.findings.show()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from epochaudit.replay.frames import FRAMES
from epochaudit.replay.kept import release
from epochaudit.rules.catalogue import selected
from epochaudit.rules.judge import Judgement, Tally, by_frame, judge
from epochaudit.rules.rule import EXPOSED, VERDICTS, VIOLATION, Rule
from epochaudit.session import tuned_for
from epochaudit.sources.capture import Capture
from epochaudit.sources.clock_steps import corrected, corrections
from epochaudit.sources.datasource import read_captures
from epochaudit.sources.discovery import discover
from epochaudit.sources.formats import is_read

REPORTED: Final = (VIOLATION, EXPOSED)
PLANNERS: Final = 2

VERDICT_SCHEMA: Final = StructType(
    [
        StructField("rule", StringType()),
        *(StructField(verdict, LongType()) for verdict in VERDICTS),
        StructField("unverifiable_reasons", MapType(StringType(), LongType())),
    ]
)


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    events, quarantine, splits: the tables of schemas/events.toml, quarantine.toml and splits.toml.
    verdicts: one row per rule: rule, pass, fenced, violation, exposed, unverifiable, unverifiable_reasons (reason -> count).
    findings: one row per judged subject whose verdict is violation or exposed, or was asked for: cluster, node, topic,
    topic_id, partition, leader_epoch, client_id, group_id, correlation_id, rule, verdict, reason, severity, expected, observed,
    because, and evidence as array<struct<role, place>>, place being (node, file, split, byte_offset, line_in_split, time_ms).
    """

    captures: tuple[Capture, ...]
    rules: tuple[Rule, ...]
    events: DataFrame
    quarantine: DataFrame
    splits: DataFrame
    verdicts: DataFrame
    findings: DataFrame
    tallies: tuple[Tally, ...]
    persisted: tuple[DataFrame, ...] = ()

    def release(self) -> None:
        """Let go of what the audit holds in memory and on disk; its DataFrames can still be used, by reading again."""
        for rows in self.persisted:
            rows.unpersist()


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
    The logs are read once; what was read stays persisted until `Audit.release`.
    """
    rules = selected(select, ignore)
    found = tuple(c if isinstance(c, Capture) else discover(c) for c in captures)
    tuned_for(spark, bytes_of(found))
    read = read_captures(spark, found)
    read.scan.persist(StorageLevel.MEMORY_AND_DISK)
    events = read.events
    steps, judgements = _computed(read.scan, judged(events, rules, {*REPORTED, *show}))
    release(events)
    if steps:  # a clock was set back: rare enough to plan twice
        events = corrected(events, corrections(row.asDict(recursive=True) for row in read.splits.collect()))
        judgements = [_at_once(plan) for plan in judged(events, rules, {*REPORTED, *show})]
        release(events)
    findings = reduce(DataFrame.unionByName, [judgement.rows for judgement in judgements])
    tallies = tuple(sorted((t for judgement in judgements for t in judgement.tallies()), key=lambda t: t.rule))
    return Audit(
        captures=found,
        rules=rules,
        events=events,
        quarantine=read.quarantine,
        splits=read.splits,
        verdicts=_verdict_table(spark, tallies),
        findings=findings,
        tallies=tallies,
        persisted=(read.scan, *(judgement.rows for judgement in judgements)),
    )


def bytes_of(captures: Iterable[Capture]) -> int:
    """Size, as they lie on disk, of the captures' files that are read."""
    return sum(file.size for capture in captures for file in capture.files if is_read(file))


def judged(events: DataFrame, rules: Sequence[Rule], keep: Collection[str]) -> Iterator[Callable[[], Judgement]]:
    """One task per frame, which gives the judgement of the frame's rules over the events, planned but not computed."""
    for frame, of_frame in by_frame(rules).items():
        yield partial(_judged, frame, events, of_frame, keep)


def _judged(frame: str, events: DataFrame, rules: Sequence[Rule], keep: Collection[str]) -> Judgement:
    return judge(FRAMES[frame](events), rules, keep)


def _computed(scan: DataFrame, planned: Iterable[Callable[[], Judgement]]) -> tuple[int, list[Judgement]]:
    """Read the logs, and meanwhile plan the frames: Spark plans on one core, and planning is much of a small audit.

    Returns the number of clock steps that were met in reading, with which the judgements are void, and the judgements.
    """
    steps = Observation("clock_steps")
    observed = scan.observe(steps, F.sum(F.size("statistics.clock_steps")).alias("steps"))

    def run(plan: Callable[[], Judgement]) -> Judgement:
        judgement = plan()
        rows = judgement.rows.persist()
        reading.result()
        if not met():
            _compute(rows)
        return replace(judgement, rows=rows)

    def met() -> int:
        return steps.get["steps"] or 0

    with ThreadPoolExecutor(max_workers=PLANNERS + 1) as pool:
        reading = pool.submit(_compute, observed)
        judgements = [task.result() for task in [pool.submit(run, plan) for plan in planned]]
        reading.result()
        return met(), judgements


def _at_once(plan: Callable[[], Judgement]) -> Judgement:
    judgement = plan()
    rows = judgement.rows.persist()
    _compute(rows)
    return replace(judgement, rows=rows)


def _compute(rows: DataFrame) -> None:
    """Run a persisted DataFrame once; its observations are filled."""
    rows.write.format("noop").mode("overwrite").save()


def _verdict_table(spark: SparkSession, tallies: Iterable[Tally]) -> DataFrame:
    rows = [(t.rule, *(t.counts[verdict] for verdict in VERDICTS), dict(t.reasons)) for t in tallies]
    return spark.createDataFrame(rows, VERDICT_SCHEMA)
