"""Clocks that were set back while a node wrote several logs: all of them are brought to one time.

A file shows a step only as far as its own lines are close together: one that was silent for a minute before a step of
ninety seconds shows thirty. The log with the most lines around it shows the step itself, and the others follow it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Row = Mapping[str, Any]
Node = tuple[str, int | None]
Part = tuple[str, int]  # file and split


@dataclass(frozen=True)
class Correction:
    """Lines of a range of a file that are later than `after_ms` are read `by_ms` later still."""

    cluster: str
    file: str
    split: int
    after_ms: int
    by_ms: int


@dataclass(frozen=True)
class _Seen:
    """A step as one range shows it; `printed_ms` is the last time printed before it."""

    part: Part
    latest_ms: int
    lost_ms: int
    printed_ms: int


def corrections(splits: Iterable[Row]) -> list[Correction]:
    """What the ranges of each node's logs lack to the steps of its clock.

    Needs of schemas/splits.toml: cluster, node, file, split, clock_steps. A range that shows no trace of a step is
    taken to stand behind it where an earlier range of its file shows it, else from the last time before the step on.
    """
    nodes: dict[Node, dict[Part, list[_Seen]]] = defaultdict(dict)
    for row in splits:
        nodes[row["cluster"], row["node"]][row["file"], row["split"]] = _seen(row)
    return [
        correction
        for (cluster, _), parts in nodes.items()
        for step in _steps(parts)
        for part in sorted(parts)
        if (correction := _correction(cluster, part, parts[part], step)) is not None
    ]


def _seen(row: Row) -> list[_Seen]:
    behind, seen = 0, []
    for step in row["clock_steps"] or ():
        latest, lost = step["latest_ms"], step["lost_ms"]
        seen.append(_Seen((row["file"], row["split"]), latest, lost, latest - behind))
        behind += lost
    return seen


def _steps(parts: Mapping[Part, Sequence[_Seen]]) -> list[list[_Seen]]:
    """The steps of a node, each as all that its ranges show of it: they overlap in the time that was printed twice."""
    steps: list[list[_Seen]] = []
    for seen in sorted((seen for all_seen in parts.values() for seen in all_seen), key=lambda seen: -seen.lost_ms):
        for step in steps:
            largest = step[0]
            if largest.printed_ms - largest.lost_ms <= seen.printed_ms <= largest.printed_ms + largest.lost_ms:
                step.append(seen)
                break
        else:
            steps.append([seen])
    return sorted(steps, key=lambda step: step[0].printed_ms)


def _correction(cluster: str, part: Part, own: Sequence[_Seen], step: Sequence[_Seen]) -> Correction | None:
    by_ms = step[0].lost_ms
    file, split = part
    for seen in step:
        if seen.part == part:
            lacking = by_ms - seen.lost_ms
            return Correction(cluster, file, split, seen.latest_ms, lacking) if lacking else None
    if any(seen.part[0] == file and seen.part[1] < split for seen in step):
        return Correction(cluster, file, split, -1, by_ms)
    before = max(seen.printed_ms for seen in step)
    return Correction(
        cluster, file, split, before + sum(seen.lost_ms for seen in own if seen.printed_ms < before), by_ms
    )


def corrected(events: DataFrame, found: Sequence[Correction]) -> DataFrame:
    """The events with their times on one clock per node: time_ms and arrival_ms."""
    from pyspark.sql import functions as F

    def lacking(correction: Correction) -> Column:
        here = (F.col("cluster") == correction.cluster) & (F.col("file") == correction.file)
        later = (F.col("split") == correction.split) & (F.col("time_ms") > correction.after_ms)
        return F.when(here & later, F.lit(correction.by_ms)).otherwise(F.lit(0))

    by_ms = reduce(lambda left, right: left + right, map(lacking, found))
    return events.withColumns({name: F.col(name) + by_ms for name in ("time_ms", "arrival_ms")})
