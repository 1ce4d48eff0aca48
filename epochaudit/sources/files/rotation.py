"""Rotated logs by their names: `kafka-request.log.2` precedes `kafka-request.log.1`, which precedes `kafka-request.log`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

_NUMBERED: Final = re.compile(r"(?P<base>.+\.log)(?:\.(?P<number>\d{1,4}))?(?:\.\w{2,4})?$")


def rotations(path: str) -> tuple[str, int] | None:
    """The current log's path and how often the file was rotated, 0 for the current log; None for other names."""
    match = _NUMBERED.fullmatch(path)
    return None if match is None else (match["base"], int(match["number"] or 0))


def log_name(path: str) -> str:
    """The name of the current log, in whichever directory: `state-change.log` of `night-1/8f3a0c21~state-change.log.2`, too.

    A warehouse puts a mark and `~` before the name of a file whose path another file has by now.
    """
    found = rotations(path)
    return (path if found is None else found[0]).rpartition("/")[2].rpartition("~")[2]


def numbers_of_logs(paths: Iterable[str]) -> Mapping[str, set[int]]:
    """The numbers of the files of each log, by the current log's path."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for path in paths:
        if (found := rotations(path)) is not None:
            base, number = found
            numbers[base].add(number)
    return numbers


def gaps_before(paths: Iterable[str]) -> dict[str, int]:
    """Path -> number of gaps in its log before the file: numbers without a file between higher ones and its own.

    Files that are rotated by date have no gaps: an hour without lines has no file.
    """
    paths = list(paths)
    counts: dict[tuple[str, int], int] = {}
    for base, numbers in numbers_of_logs(paths).items():
        oldest_first = sorted(numbers, reverse=True)
        counts[base, oldest_first[0]] = gaps = 0
        for older, newer in pairwise(oldest_first):
            gaps += older - newer > 1
            counts[base, newer] = gaps
    return {path: counts[found] for path in paths if (found := rotations(path)) is not None}


def without_newer(paths: Iterable[str]) -> set[str]:
    """The files of which a newer one is missing, by the numbers: the log goes on to somewhere that is not known."""
    paths = list(paths)
    numbers = numbers_of_logs(paths)
    found = ((path, rotations(path)) for path in paths)
    return {path for path, place in found if place is not None and not numbers[place[0]].issuperset(range(place[1]))}
