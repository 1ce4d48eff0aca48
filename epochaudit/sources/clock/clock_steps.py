"""Steps of a node's clock that its logs show differently: all logs of the node are corrected by the largest step.

A clock that is set back looks smaller in a file with a gap: after a silent minute, a step of 90 s shows as 30 s. The
log with the most lines around the step shows its real size, and the others are corrected by the difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from epochaudit.sources.clock.log_time import LATE_MS, lost_of
from epochaudit.spark.local_rows import local_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]
_CORRECTIONS: Final = (
    "cluster string, file string, split int, corrections array<struct<after_ms: bigint, by_ms: bigint>>"
)
Node = tuple[str, int | None]
Part = tuple[str, int]  # file and split


@dataclass(frozen=True)
class Correction:
    """Times after `after_ms` in a range of a file are raised by `by_ms`."""

    cluster: str
    file: str
    split: int
    after_ms: int
    by_ms: int


@dataclass(frozen=True)
class _ObservedStep:
    """A step as one range shows it. lost_ms: by how much. raised_ms: by how much times after it were raised when they were read.

    printed_ms: the last time printed before it.
    """

    part: Part
    latest_ms: int
    raised_ms: int
    printed_ms: int

    @property
    def lost_ms(self) -> int:
        return lost_of(self.raised_ms)


def corrections(splits: Iterable[Row]) -> list[Correction]:
    """The corrections that bring the ranges of each node's logs to the steps of its clock.

    Needs columns of schemas/splits.toml: cluster, node, file, split, clock_steps. If a range does not show a step, all of
    it lies after the step if an earlier range of its file shows it; else its lines after the last time before the step.
    """
    nodes: dict[Node, dict[Part, list[_ObservedStep]]] = defaultdict(dict)
    for row in splits:
        nodes[row["cluster"], row["node"]][row["file"], row["split"]] = _observed_steps(row)
    return [
        correction
        for (cluster, _), parts in nodes.items()
        for step in _steps(parts)
        for part in sorted(parts)
        if (correction := _correction(cluster, part, parts[part], step)) is not None
    ]


def _observed_steps(row: Row) -> list[_ObservedStep]:
    behind, observed = 0, []
    for step in row["clock_steps"] or ():
        latest, raised = step["latest_ms"], step["raised_ms"]
        observed.append(_ObservedStep((row["file"], row["split"]), latest, raised, latest - behind))
        behind += raised
    return observed


def _steps(parts: Mapping[Part, Sequence[_ObservedStep]]) -> list[list[_ObservedStep]]:
    """A node's steps, each with all ranges' observations of it, which overlap in the time that was printed twice."""
    steps: list[list[_ObservedStep]] = []
    all_observed = (observed for observed_of_part in parts.values() for observed in observed_of_part)
    for observed in sorted(all_observed, key=lambda observed: -observed.lost_ms):
        for step in steps:
            largest = step[0]
            if largest.printed_ms - largest.lost_ms <= observed.printed_ms <= largest.printed_ms + largest.lost_ms:
                step.append(observed)
                break
        else:
            steps.append([observed])
    return sorted(steps, key=lambda step: step[0].printed_ms)


def _correction(
    cluster: str, part: Part, own: Sequence[_ObservedStep], step: Sequence[_ObservedStep]
) -> Correction | None:
    by_ms = step[0].lost_ms
    file, split = part
    for observed in step:
        if observed.part == part:
            missing_ms = by_ms - observed.raised_ms
            return Correction(cluster, file, split, observed.latest_ms, missing_ms) if missing_ms else None
    if any(observed.part[0] == file and observed.part[1] < split for observed in step):
        return Correction(cluster, file, split, -1, by_ms)
    before = max(observed.printed_ms for observed in step)
    return Correction(
        cluster,
        file,
        split,
        before + sum(observed.raised_ms for observed in own if observed.printed_ms < before),
        by_ms,
    )


def with_reached(events: DataFrame) -> DataFrame:
    """Adds reached: the latest time in the row's range up to the row, in the order of the file."""
    in_order = Window.partitionBy("cluster", "file", "split").orderBy("byte_offset", "partition_row")
    latest = F.max("time_ms").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return events.withColumn("reached", latest)


def is_later(end: Column) -> Column:
    """Whether a row's time is after `end`. Needs time_ms."""
    return F.col("time_ms") > end


def follows(end: Column) -> Column:
    """Whether a row follows the step before which `end` is the latest time. Needs time_ms and reached.

    The first lines after a step may be written late, so that their times are at most `end`.
    """
    return is_later(end) | (is_later(end - LATE_MS) & (F.col("reached") > end))


def corrected(
    events: DataFrame, found_corrections: Sequence[Correction], applies: Callable[[Column], Column] = is_later
) -> DataFrame:
    """Events with corrected time_ms and arrival_ms: one clock per node. Needs cluster, file, split; adds no columns.

    applies: which rows a correction applies to, by its after_ms: `is_later` or `follows`. The latter costs a sort of all rows, which
    does not matter where only the clock was set: there a late line stays beside its neighbours.
    """
    if not found_corrections:
        return events
    of_range: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for one in found_corrections:
        of_range[one.cluster, one.file, one.split].append((one.after_ms, one.by_ms))
    rows = [(*place, [{"after_ms": after, "by_ms": by} for after, by in steps]) for place, steps in of_range.items()]
    steps = local_rows(events.sparkSession, rows, _CORRECTIONS)
    passed = F.filter("corrections", lambda step: applies(step["after_ms"]))
    by_ms = F.coalesce(F.aggregate(passed["by_ms"], F.lit(0).cast("bigint"), lambda sum, by: sum + by), F.lit(0))
    joined = events.join(F.broadcast(steps), ["cluster", "file", "split"], "left").withColumn("by_ms", by_ms)
    times = {name: F.col(name) + F.col("by_ms") for name in ("time_ms", "arrival_ms")}
    return joined.withColumns(times).select(*events.columns)
