"""The audit as a library: a recorded capture goes in, verdicts and findings come out as DataFrames.

from epochaudit import audit
result = audit(spark, "captures/last-night")
result.findings.show()
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import selected
from epochaudit.rules.judge import Judgement, Tally, by_frame, judge
from epochaudit.rules.rule import EXPOSED, VERDICTS, VIOLATION, Rule
from epochaudit.session import tuned_for
from epochaudit.sources.capture import Capture
from epochaudit.sources.datasource import read_captures
from epochaudit.sources.discovery import discover

REPORTED: Final = (VIOLATION, EXPOSED)

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


def audit(
    spark: SparkSession,
    *paths: str,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    show: Collection[str] = (),
) -> Audit:
    """Audit the captures at `paths` (directories, each one cluster's recorded files).

    `select` and `ignore` take rule ids, families or KIPs; `show` further verdicts to list among the findings.
    Raises CaptureError for a path that is no capture and UnknownRule for a selection that matches nothing.
    The logs are read once; events stay persisted until `Audit.events.unpersist()`.
    """
    rules = selected(select, ignore)
    captures = tuple(discover(path) for path in paths)
    tuned_for(spark, sum(file.size for capture in captures for file in capture.files))
    read = read_captures(spark, captures)
    read.scan.persist(StorageLevel.MEMORY_AND_DISK)
    read.scan.write.format("noop").mode("overwrite").save()  # the one reading of the logs
    judgements = judged(read.events, rules, {*REPORTED, *show})
    findings = reduce(DataFrame.unionByName, [judgement.rows for judgement in judgements]).persist()
    findings.write.format("noop").mode(
        "overwrite"
    ).save()  # the one pass: fills the observations and the persisted rows
    tallies = tuple(sorted((t for judgement in judgements for t in judgement.tallies()), key=lambda t: t.rule))
    return Audit(
        captures, rules, read.events, read.quarantine, read.splits, _verdict_table(spark, tallies), findings, tallies
    )


def judged(events: DataFrame, rules: Sequence[Rule], keep: Collection[str]) -> list[Judgement]:
    """The judgements of all rules over the events, one per frame; nothing is computed yet."""
    return [judge(FRAMES[frame](events), of_frame, keep) for frame, of_frame in by_frame(rules).items()]


def _verdict_table(spark: SparkSession, tallies: Iterable[Tally]) -> DataFrame:
    rows = [(t.rule, *(t.counts[verdict] for verdict in VERDICTS), dict(t.reasons)) for t in tallies]
    return spark.createDataFrame(rows, VERDICT_SCHEMA)
