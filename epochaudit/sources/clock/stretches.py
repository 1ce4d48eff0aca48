"""Stretches of a log whose times go forward, and why the next one begins earlier: a clock, another file, or a repetition.

`cat server.log*` joins rotated files by their names, the newest first. In such a file the times go back, too, though no clock was
set: its stretches cover separate spans of time. A stretch that covers the same time again was written after a clock was set
back, or repeats lines, as `kubectl logs >> server.log` does the second time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Final

from epochaudit.sources.clock.log_time import HOUR_MS, LATE_MS, SUMMER_TIME_MS, lost_of

Row = Mapping[str, Any]
File = tuple[str, str]  # cluster and path
StepId = tuple[str, str, int, int]
"""Cluster, path, split, and the index in clock_steps."""

ADJACENT: Final = 0.1
"""The longest gap between a file of a log and the next one, as a part of what both cover."""
ALIKE: Final = 0.1
"""How much two logs may differ that show the same step, as a part of it."""
SYNCHRONISED_MS: Final = 1_800_000
"""A clock that is wrong when a machine starts is set within this."""


@dataclass(frozen=True)
class Stretch:
    """Lines of a file in succession whose times go forward.

    first_ms, last_ms: as they are printed. step: what the stretch begins with; None at a file's beginning, and where a range begins.
    """

    first_ms: int
    last_ms: int
    step: StepId | None = None

    @property
    def duration_ms(self) -> int:
        """The time that the stretch covers."""
        return self.last_ms - self.first_ms


def by_file(splits: Iterable[Row]) -> dict[File, list[Row]]:
    """Rows of schemas/splits.toml by their file, in the order of the file."""
    files: dict[File, list[Row]] = defaultdict(list)
    for row in splits:
        files[row["cluster"], row["file"]].append(row)
    return {file: sorted(rows, key=lambda row: row["split"]) for file, rows in files.items()}


def stretches_of_range(split: Row) -> list[Stretch]:
    """The stretches of one range, one more than it has steps; none if it has no event and no step.

    Needs of schemas/splits.toml: cluster, file, split, clock_steps, first_time_ms, last_time_ms.
    """
    steps, first, last = split["clock_steps"] or (), split["first_time_ms"], split["last_time_ms"]
    if first is None and not steps:
        return []
    found, behind, id = list[Stretch](), 0, None
    for number, step in enumerate(steps):
        latest, lost = step["latest_ms"] - behind, lost_of(step["raised_ms"])
        start = latest if first is None else min(first, latest)
        found.append(Stretch(start, latest, id))
        # a step that may be the end of summer time counts as an hour, however long it is
        first = latest - (SUMMER_TIME_MS if lost == HOUR_MS else lost - 1)
        behind, id = behind + step["raised_ms"], (split["cluster"], split["file"], split["split"], number)
    found.append(Stretch(first, max(first, (last or 0) - behind), id))
    return found


def _numbered(ranges: Iterable[Row]) -> Iterator[tuple[Row, list[tuple[int, Stretch]]]]:
    """The ranges of a file with events or steps, in their order, each with its stretches and their numbers in the file, from 0.

    A stretch that extends over several ranges has one number.
    """
    number, latest = -1, None
    for split in ranges:
        numbered = []
        for stretch in stretches_of_range(split):
            goes_on = latest is not None and stretch.step is None and stretch.first_ms >= latest - LATE_MS
            number += not goes_on
            latest = max(stretch.last_ms, latest) if goes_on and latest is not None else stretch.last_ms
            numbered.append((number, stretch))
        if numbered:
            yield split, numbered


def stretches_of_file(ranges: Iterable[Row]) -> list[Stretch]:
    """The stretches of a file, from its ranges in their order."""
    found: list[Stretch] = []
    for _, numbered in _numbered(ranges):
        for number, stretch in numbered:
            if number < len(found):
                found[-1] = replace(found[-1], last_ms=max(found[-1].last_ms, stretch.last_ms))
            else:
                found.append(stretch)
    return found


@dataclass(frozen=True)
class _Return:
    """Two stretches in succession, of which the later one begins earlier. overlap: it reaches the times of the first one again."""

    file: File
    node: int | None
    before: Stretch
    after: Stretch
    step: StepId

    @property
    def overlap(self) -> bool:
        return self.after.last_ms > self.before.first_ms + LATE_MS

    @property
    def lost_ms(self) -> int:
        return self.before.last_ms - self.after.first_ms

    @property
    def is_of_rotation(self) -> bool:
        """The later stretch ends shortly before the first one begins, or that one is longer than a clock stays wrong."""
        gap = self.before.first_ms - self.after.last_ms
        covered = self.before.duration_ms + self.after.duration_ms
        return gap <= ADJACENT * covered or self.before.duration_ms >= SYNCHRONISED_MS

    def is_at_time_of(self, other: _Return) -> bool:
        """Another log of the node went back at about that time."""
        return (
            (self.file[0], self.node) == (other.file[0], other.node)
            and self.file != other.file
            and abs(self.before.last_ms - other.before.last_ms) <= max(self.lost_ms, other.lost_ms)
        )

    def shows_same_step(self, other: _Return) -> bool:
        """Another log of the node went back at about that time, and by about as much if it does not print a time again."""
        longer, shorter = max(self.lost_ms, other.lost_ms), min(self.lost_ms, other.lost_ms)
        return self.is_at_time_of(other) and (other.overlap or longer - shorter <= ALIKE * longer)


def steps_of_joined_files(splits: Collection[Row]) -> set[StepId]:
    """The steps that no clock took: there older files of the log follow newer ones.

    The stretch after the step ends before the one before it begins. It is a clock's step all the same if the stretches do not look like
    rotated files, no log of the node goes forward there, and another one went back, too: by a step after which a time is printed
    again, or in a file that is not joined elsewhere either, if in no third log rotated files follow each other there.
    """
    stretches = {file: stretches_of_file(ranges) for file, ranges in by_file(splits).items()}
    node_of = {(row["cluster"], row["file"]): row["node"] for row in splits}
    returns = [
        _Return(file, node_of[file], before, after, after.step)
        for file, found in stretches.items()
        for before, after in pairwise(found)
        if after.step is not None
    ]

    def goes_forward(one: _Return) -> bool:
        return any(
            len(found) == 1 and found[0].first_ms <= one.after.last_ms and one.before.first_ms <= found[0].last_ms
            for file, found in stretches.items()
            if (file[0], node_of[file]) == (one.file[0], one.node)
        )

    apart = [one for one in returns if not one.overlap]
    doubtful = [one for one in apart if not one.is_of_rotation and not goes_forward(one)]
    joined = {one.file for one in apart if one not in doubtful}
    of_clock = [one for one in returns if one.overlap]
    alone = [one for one in doubtful if one.file not in joined]

    rotated = [one for one in apart if one.is_of_rotation]

    def is_of_clock(one: _Return) -> bool:
        if any(map(one.shows_same_step, of_clock)):
            return True
        shown_by_others = any(map(one.shows_same_step, alone)) and not any(map(one.is_at_time_of, rotated))
        return one in alone and shown_by_others

    return {one.step for one in apart if one not in doubtful or not is_of_clock(one)}


def overlapping(splits: Collection[Row], steps: Collection[StepId]) -> set[StepId]:
    """The steps, of those not among `steps`, after which a time is printed again."""
    return {
        later.step
        for ranges in by_file(splits).values()
        for later in stretches_of_file(ranges)
        if later.step is not None and later.step not in steps
    }


def without_steps(splits: Iterable[Row], steps: Collection[StepId]) -> Iterator[Row]:
    """The rows without these steps, and with first_time_ms and last_time_ms as they are without them."""
    for row in splits:
        if not any(id[:3] == (row["cluster"], row["file"], row["split"]) for id in steps):
            yield row
            continue
        remaining, behind, spans = [], 0, list[tuple[int, int]]()
        for number, stretch in enumerate(stretches_of_range(row)):
            if stretch.step is not None and stretch.step not in steps:
                remaining.append(row["clock_steps"][number - 1])
                behind += lost_of(remaining[-1]["raised_ms"])
            spans.append((stretch.first_ms + behind, stretch.last_ms + behind))
        yield {
            **row,
            "clock_steps": remaining,
            "first_time_ms": None if row["first_time_ms"] is None else min(first for first, _ in spans),
            "last_time_ms": None if row["last_time_ms"] is None else max(last for _, last in spans),
        }


@dataclass(frozen=True)
class RangeStretches:
    """The stretches of a range of a file that has several. first: the number of the first one in its file.

    ends: the times that end them, but for the last one's, as the range's rows have them before any correction. Of each stretch,
    behind: how much less was printed. earlier: the last time that the file printed before. ranks: its place among the stretches of the
    file, if those that were misplaced are put where they belong.
    """

    first: int
    ends: list[int]
    behind: list[int]
    earlier: list[int | None]
    ranks: list[int]


def stretches_of_ranges(
    splits: Iterable[Row], steps: Collection[StepId] = ()
) -> dict[tuple[str, str, int], RangeStretches]:
    """The stretches of the ranges of files that have several, by cluster, path and split. steps: those of misplaced stretches."""
    found: dict[tuple[str, str, int], RangeStretches] = {}
    for (cluster, path), ranges in by_file(splits).items():
        stretches = stretches_of_file(ranges)
        if len(stretches) < 2:
            continue
        ranks = _ranks([s.first_ms if s.step is None or s.step in steps else None for s in stretches])
        earlier = [None, *accumulate((stretch.last_ms for stretch in stretches), max)]
        for split, numbered in _numbered(ranges):
            first, last = numbered[0][0], numbered[-1][0] + 1
            own = split["clock_steps"] or ()
            found[cluster, path, split["split"]] = RangeStretches(
                first,
                [step["latest_ms"] for step in own],
                [0, *accumulate(step["raised_ms"] for step in own)],
                earlier[first:last],
                ranks[first:last],
            )
    return found


def _ranks(begins: Sequence[int | None]) -> list[int]:
    """The rank of each stretch by when its file begins; None: it is of the same file as the one before."""
    of_files = list[int]()
    for begin in begins:
        of_files.append(of_files[-1] if begin is None else begin)
    in_time = sorted({*of_files})
    return [in_time.index(begin) for begin in of_files]
