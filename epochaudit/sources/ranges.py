"""Byte ranges of recorded files: how they are cut, how they are dealt out to tasks, and the lines that each owns.

A range owns the lines that start in it. What follows a file's last newline is a line if it is not empty.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import BinaryIO, Final

from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.formats import BY_KIND, is_read
from epochaudit.sources.layouts import CRI
from epochaudit.sources.opening import Damaged, pieces

MEBIBYTE: Final = 1 << 20
BLOCK: Final = 8 * MEBIBYTE  # of a request log; of a log whose bytes take longer to decode, less
LARGEST_BUNDLE: Final = 32 * MEBIBYTE
SMALLEST_BUNDLE: Final = 4 * MEBIBYTE
FEWEST_TASKS: Final = 2
PIECE: Final = MEBIBYTE
SKIP: Final = 1 << 16
LONGEST_LINE: Final = 64 * MEBIBYTE
COMPRESSION_COST: Final = 12  # plain bytes per stored byte, about what logs come to


@dataclass(frozen=True)
class ByteRange:
    """Bytes start (included) to end (excluded) of a file, the split-th range of it; end None = to the file's end."""

    file: RecordedFile
    split: int
    start: int
    end: int | None

    @property
    def cost(self) -> float:
        """Time to decode it, in request-log bytes."""
        size = self.file.size if self.end is None else self.end - self.start
        compressed = self.file.compression is not None  # an archive's members have the size of their plain bytes
        return size * BY_KIND[self.file.kind].cost * (COMPRESSION_COST if compressed else 1)


def cut(files: Iterable[RecordedFile]) -> list[ByteRange]:
    """The ranges of all files that have a decoder."""
    return [part for file in files if is_read(file) for part in blocks(file)]


def blocks(file: RecordedFile) -> list[ByteRange]:
    """The ranges of a file, the whole of one that can't be cut.

    Their edges depend on the format alone: each range is decoded by itself, so what it gives must not depend on how
    large the file is, nor on what else is read. A file that grew has the same ranges, of which the last grew, and more.
    """
    known = BY_KIND[file.kind]
    in_parts = file.envelope == CRI  # a line may begin before a range
    if file.compression or file.tar_compression or in_parts or known.decoder is None or not known.decoder.splittable:
        return [ByteRange(file, 0, 0, None)]
    size = ceil(BLOCK / known.cost)
    edges = [*range(0, max(file.size, 1), size), file.size]
    return [ByteRange(file, split, *edge) for split, edge in enumerate(pairwise(edges))]


def dealt(ranges: Iterable[ByteRange], tasks: int) -> list[list[ByteRange]]:
    """The ranges in bundles of about equal cost: `tasks`, more if those would be large, fewer if there is little.

    Members of one compressed archive stay together, in its order: it is then decompressed once.
    """
    units: dict[object, list[ByteRange]] = defaultdict(list)
    for number, part in enumerate(ranges):
        units[part.file.uri if part.file.tar_compression else number].append(part)
    ordered = sorted(
        (sorted(unit, key=lambda part: part.file.tar_offset or 0) for unit in units.values()),
        key=lambda unit: -_cost(unit),
    )
    total = sum(map(_cost, ordered))
    count = max(FEWEST_TASKS, ceil(total / LARGEST_BUNDLE), min(tasks, int(total / SMALLEST_BUNDLE)))
    loads = [(0.0, number) for number in range(min(count, len(ordered)))]
    bundles: list[list[ByteRange]] = [[] for _ in loads]
    for unit in ordered:
        load, number = heapq.heappop(loads)
        bundles[number].extend(unit)
        heapq.heappush(loads, (load + _cost(unit), number))
    return bundles


def _cost(parts: Iterable[ByteRange]) -> float:
    return sum(part.cost for part in parts)


@dataclass(frozen=True)
class Lines:
    """Whole lines with their newlines (the last one of a file may lack it); byte_offset is where the first starts."""

    data: bytes
    byte_offset: int


@dataclass(frozen=True)
class Unreadable:
    """A stretch that is no line to decode: longer than a line may be, or where a compressed stream breaks off."""

    byte_offset: int
    size: int
    reason: str
    text: bytes


def lines_of(part: ByteRange) -> Iterator[Lines | Unreadable]:
    """The lines that a range owns, in order, in batches of about PIECE bytes; memory is bounded by LONGEST_LINE."""
    held = _Held(part.start)
    defect = None
    try:
        for position, piece in _owned(part):
            if not held.size:
                held.byte_offset = position
            newline = piece.rfind(b"\n") + 1
            if held.too_long and (first := piece.find(b"\n") + 1):
                yield held.unreadable(first)
                held = _Held(position + first)
                piece, newline = piece[first:], newline - first
            if newline > 0:
                yield held.lines(piece[:newline])
                held = _Held(held.byte_offset + held.size + newline)
                piece = piece[newline:]
            held.add(piece)
    except Damaged as error:
        defect = f"{error} {part.file.compression or part.file.tar_compression} stream: what follows can't be read"
    if held.too_long or defect:
        yield held.unreadable(0, defect)
    elif held.size:
        yield held.lines(b"")


class _Held:
    """A line's beginning, until its end is read; of one that is too long only the size and the first piece are kept."""

    def __init__(self, byte_offset: int) -> None:
        self.byte_offset = byte_offset
        self.size = 0
        self._pieces: list[bytes] = []

    @property
    def too_long(self) -> bool:
        return self.size > LONGEST_LINE

    def add(self, piece: bytes) -> None:
        if piece:
            self.size += len(piece)
            self._pieces = self._pieces[:1] if self.too_long else [*self._pieces, piece]

    def lines(self, end: bytes) -> Lines:
        return Lines(b"".join((*self._pieces, end)), self.byte_offset)

    def unreadable(self, more: int, defect: str | None = None) -> Unreadable:
        reason = f"line longer than {LONGEST_LINE} bytes" if self.too_long else defect or ""
        return Unreadable(self.byte_offset, self.size + more, reason, b"".join(self._pieces)[:PIECE])


def _owned(part: ByteRange) -> Iterator[tuple[int, bytes]]:
    """The bytes of the owned lines, as (byte offset, piece) one after another."""
    if part.file.compression or part.file.tar_compression:
        position = 0
        for piece in pieces(part.file.stored, part.file.compression, PIECE):
            yield position, piece
            position += len(piece)
        return
    with part.file.open() as stream:
        position = _first_line(stream, part)
        ended = True
        while part.end is None or position < part.end:
            piece = stream.read(PIECE if part.end is None else min(PIECE, part.end - position))
            if not piece:
                return
            yield position, piece
            position += len(piece)
            ended = piece.endswith(b"\n")
        while not ended and (piece := stream.read(SKIP)):  # the rest of the last line
            newline = piece.find(b"\n") + 1
            yield position, piece[: newline or None]
            position += len(piece)
            ended = newline > 0


def _first_line(stream: BinaryIO, part: ByteRange) -> int:
    """Move to where the first line starts that starts in the range; at or past its end if none does."""
    position = part.start
    if position == 0:
        return 0
    stream.seek(position - 1)
    position -= 1
    while (part.end is None or position < part.end) and (piece := stream.read(SKIP)):
        newline = piece.find(b"\n") + 1
        if newline:
            stream.seek(position + newline)
            return position + newline
        position += len(piece)
    return position
