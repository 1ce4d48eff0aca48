"""The lines of each node in one order, and each of them once, whichever way their files were made.

Files may repeat lines: `kubectl logs --since=25h` every day, kafkaServer.out beside server.log, a log that was appended to itself. And
their times may go back: where a clock was set, or where older files follow newer ones (sources/clock/stretches.py).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.schema import spark_schema
from epochaudit.sources.clock.clock_steps import Correction, corrected, corrections, follows, with_reached
from epochaudit.sources.clock.log_time import LATE_MS
from epochaudit.sources.clock.stretches import (
    RangeStretches,
    StepId,
    overlapping,
    steps_of_joined_files,
    stretches_of_ranges,
    without_steps,
)
from epochaudit.sources.formats import BY_KIND, is_read
from epochaudit.sources.scan.staging import stored
from epochaudit.spark.local_rows import local_rows

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import Capture

Row = Mapping[str, Any]
Node = tuple[str, int]  # cluster and node id
Loggers = frozenset[str]

LOGS: Final = ("request_log", "server_log", "state_change_log")
"""Values of the events table's column source whose lines a node's loggers print."""
LOGGERS: Final = re.compile(
    r"(?:^|(?<=[._~-]))(?:server|controller|state-?change|requests?|cleaner|authorizer)(?=[._-]|$)"
)
"""What names of files call the loggers to which Kafka's own configurations give a file each."""
SHARE: Final = 0.5
"""A stretch repeats an earlier one if at least so many of the rows within its time are in both."""

_OF_PLACE: Final = frozenset({
    "event_id", "file", "file_order", "gaps_before", "newer_missing", "byte_offset", "split", "line_in_split", "time_ms", "arrival_ms",
    "run_rows", "run_arrival_ms",
})  # fmt: skip
CONTENT: Final = tuple(name for name in spark_schema("events").names if name not in _OF_PLACE)
"""The columns that are equal in rows of equal lines."""
_STRETCHES: Final = (
    "cluster string, file string, split int, first_stretch int, "
    "ends array<bigint>, behind array<bigint>, earlier array<bigint>, ranks array<int>"
)


@dataclass(frozen=True)
class OrderedLines:
    """Events and splits of lines in one order. stored: what `staging.release` frees when they are no longer read."""

    events: DataFrame
    splits: DataFrame
    stored: tuple[DataFrame, ...] = ()


def may_share_lines(captures: Iterable[Capture]) -> bool:
    """Whether the names of the captures' logs allow that two files of a node have equal lines."""
    nodes: dict[Node, Counter[Loggers]] = defaultdict(Counter)
    for capture in captures:
        for file in capture.files:
            if file.node is not None and is_read(file) and _is_log(file.kind):
                nodes[file.cluster, file.node][_loggers(file.path)] += 1
    return any(
        count > 1 or any(_may_share(loggers, other) for other in logs if other != loggers)
        for logs in nodes.values()
        for loggers, count in logs.items()
    )


def needs_each_row(events: DataFrame, splits: DataFrame) -> bool:
    """Whether rows may move in time or be left out, so that runs of like rows can't be judged as a whole.

    Runs Spark jobs: one over splits, and one over the events if files of a node cover the same time.
    """
    rows = [row.asDict(recursive=True) for row in splits.collect()]
    return any(row["clock_steps"] for row in rows) or (share_time(rows) and share_lines(events))


def share_time(splits: Iterable[Row]) -> bool:
    """Whether two files of a node that may have equal lines, by their names, cover the same time."""
    spans: dict[tuple[str, int, str], tuple[int, int]] = {}
    for row in splits:
        first, last = row["first_time_ms"], row["last_time_ms"]
        if first is not None and row["node"] is not None and _is_log(row["kind"]):
            file = row["cluster"], row["node"], row["file"]
            known_first, known_last = spans.get(file, (first, last))
            spans[file] = min(known_first, first), max(known_last, last)
    nodes: dict[Node, list[tuple[int, int, Loggers]]] = defaultdict(list)
    for (cluster, node, path), span in spans.items():
        nodes[cluster, node].append((*span, _loggers(path)))
    return any(map(_share_time, nodes.values()))


def _share_time(logs: Iterable[tuple[int, int, Loggers]]) -> bool:
    """The same for the files of one node: first and last time, and the loggers."""
    open_files: list[tuple[int, Loggers]] = []
    for first, last, loggers in sorted(logs, key=lambda file: file[0]):
        open_files = [file for file in open_files if file[0] - first > LATE_MS]
        if last - first > LATE_MS and any(_may_share(loggers, others) for _, others in open_files):
            return True
        open_files.append((last, loggers))
    return False


def _loggers(path: str) -> Loggers:
    """The loggers that a file's name names; none for the file of a standard output."""
    return frozenset(LOGGERS.findall(path.rpartition("/")[2]))


def _may_share(loggers: Loggers, others: Loggers) -> bool:
    return not loggers or not others or not loggers.isdisjoint(others)


def _is_log(kind: str) -> bool:
    return BY_KIND[kind].is_node_log


def share_lines(events: DataFrame) -> bool:
    """Whether two files of a node have an equal line. Runs a Spark job."""
    lines = (
        events.where(_is_dated_line()).groupBy(*_line()).agg(F.min("file").alias("one"), F.max("file").alias("other"))
    )
    return bool(lines.where("one != other").limit(1).count())


def _line() -> tuple[str | Column, ...]:
    """What is equal in rows of equal lines. Needs the events table."""
    return ("cluster", "node", "source", "event_type", "time_ms", F.xxhash64(*CONTENT))


def _is_dated_line() -> Column:
    return F.col("source").isin(*LOGS) & F.col("node").isNotNull() & F.col("time_ms").isNotNull()


def in_one_order(events: DataFrame, splits: DataFrame) -> OrderedLines:
    """The events with one clock per node and each line once. Splits keep only the steps of a clock.

    Where files were joined or lines repeat, the step is removed, and the times that were raised for it are lowered again.

    Runs Spark jobs: one over splits, and one over the events of files whose times go back where others were printed before.
    """
    of_ranges = [row.asDict(recursive=True) for row in splits.collect()]
    logs = [row for row in of_ranges if _is_log(row["kind"])]
    joined = steps_of_joined_files(logs)
    uncertain = overlapping(logs, joined)
    repeating = _steps_of_repetitions(events, logs, uncertain) if uncertain else set()
    not_of_clock = joined | repeating
    remaining, undone = [*without_steps(of_ranges, not_of_clock)], _undone(of_ranges, not_of_clock)
    doubled = bool(repeating) or (share_time(remaining) and share_lines(corrected(events, undone)))
    if not (joined or doubled):
        return OrderedLines(corrected(events, corrections(remaining)), splits)
    ranges = stretches_of_ranges(logs, joined)
    width = 1 + max((rank for its in ranges.values() for rank in its.ranks), default=0)
    rows = _in_stretches(events, ranges, "left")
    rows = rows.withColumn("file_order", (F.col("file_order") * width + F.col("rank")).cast("int"))
    rows = corrected(rows, [*undone, *corrections(remaining)], follows)
    ordered = stored((_each_once(rows) if doubled else rows).select(*events.columns))
    if not_of_clock:
        names = splits.columns
        splits = local_rows(splits.sparkSession, [[row[name] for name in names] for row in remaining], splits.schema)
    return OrderedLines(ordered, splits, (ordered,))


def _undone(splits: Iterable[Row], steps: Collection[StepId]) -> list[Correction]:
    return [
        Correction(row["cluster"], row["file"], row["split"], step["latest_ms"], -step["raised_ms"])
        for row in splits
        for number, step in enumerate(row["clock_steps"] or ())
        if (row["cluster"], row["file"], row["split"], number) in steps
    ]


def _in_stretches(events: DataFrame, ranges: Mapping[tuple[str, str, int], RangeStretches], how: str) -> DataFrame:
    """The events with their stretch of their file: columns stretch (from 0), printed_ms, earlier_ms, rank (see RangeStretches) and reached.

    Needs the times before any correction. how: the kind of the join with the ranges, of files of several stretches.
    """
    rows = [(*range, its.first, its.ends, its.behind, its.earlier, its.ranks) for range, its in ranges.items()]
    table = F.broadcast(local_rows(events.sparkSession, rows, _STRETCHES))
    joined = events.join(table, ["cluster", "file", "split"], how).transform(with_reached)
    passed = F.size(F.filter(F.coalesce("ends", F.array().cast("array<bigint>")), follows))
    return joined.withColumn("passed", passed).select(
        *events.columns,
        "reached",
        F.coalesce(F.col("first_stretch") + F.col("passed"), F.lit(0)).alias("stretch"),
        (F.col("time_ms") - F.get("behind", "passed")).alias("printed_ms"),
        F.get("earlier", "passed").alias("earlier_ms"),
        F.coalesce(F.get("ranks", "passed"), F.lit(0)).alias("rank"),
    )


def _steps_of_repetitions(events: DataFrame, logs: Sequence[Row], uncertain: Collection[StepId]) -> set[StepId]:
    """The steps, of the uncertain ones, after which most rows are those of an earlier stretch, with the same printed times."""
    files = {id[:2] for id in uncertain}
    ranges = {range: its for range, its in stretches_of_ranges(logs).items() if range[:2] in files}
    rows = _in_stretches(events, ranges, "inner")
    same_line = Window.partitionBy("cluster", "file", "source", "event_type", "printed_ms", F.xxhash64(*CONTENT))
    rows = rows.withColumn("again", F.min("stretch").over(same_line) < F.col("stretch"))
    counts = rows.where(F.col("printed_ms") <= F.col("earlier_ms")).groupBy("cluster", "file", "stretch")
    shares = counts.agg(F.avg(F.col("again").cast("int")).alias("share")).collect()
    repeated = {(row["cluster"], row["file"], row["stretch"]) for row in shares if row["share"] >= SHARE}
    # + 1: the stretch that begins with the step
    return {id for id in uncertain if (*id[:2], ranges[id[:3]].first + id[3] + 1) in repeated}


def _each_once(events: DataFrame) -> DataFrame:
    """The events without rows of lines that another file of their node, or an earlier stretch of their file, has, too.

    A line that a log printed twice in a millisecond stays twice. Needs the column stretch.
    """
    of_copy = Window.partitionBy(*_line(), "file", "stretch").orderBy("split", "byte_offset", "partition_row")
    numbered = events.withColumn("nth", F.row_number().over(of_copy))
    copies = Window.partitionBy(*_line(), "nth").orderBy("file_order", "file", "stretch")
    return numbered.withColumn("copy", F.row_number().over(copies)).where((F.col("copy") == 1) | ~_is_dated_line())
