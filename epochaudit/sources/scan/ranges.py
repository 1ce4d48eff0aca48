"""Byte ranges of recorded files: cutting files, packing ranges into tasks, and reading the lines of a range.

A range owns the lines that start in it. What follows a file's last newline is a line if it is not empty.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, BinaryIO, Final

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.files.opening import Damaged, pieces
from epochaudit.sources.formats import BY_KIND, is_read
from epochaudit.sources.lines.layouts import CRI

if TYPE_CHECKING:
    from epochaudit.events.views import RangeId

MEBIBYTE: Final = 1 << 20
BLOCK: Final = 256 * MEBIBYTE
"""Bytes of a range of a JSON request log; less for formats that take longer to decode.

Runs of like rows end at the edges of ranges. Of 1.8 GB of a busy cluster, where a broker writes 64 MiB in 36 seconds, ranges of 64 MiB
leave 1 of 25 rows, of 256 MiB 1 of 31. One range takes two seconds to decode.
"""
LARGEST_BUNDLE: Final = BLOCK  # more would not be smaller: most ranges are as large
SMALLEST_BUNDLE: Final = 4 * MEBIBYTE
FEWEST_TASKS: Final = 2
PIECE: Final = MEBIBYTE
SKIP: Final = 1 << 16
LONGEST_LINE: Final = 64 * MEBIBYTE
COMPRESSION_COST: Final = 12  # typical plain bytes per compressed byte of logs


@dataclass(frozen=True)
class ByteRange:
    """The range `split` of a file: bytes start (included) to end (excluded); end None = the file's end."""

    file: CaptureFile
    split: int
    start: int
    end: int | None

    @property
    def id(self) -> RangeId:
        """The values of RANGE in the rows of the range."""
        return self.file.cluster, self.file.path, self.split

    @property
    def size(self) -> int:
        """Bytes as they are stored."""
        return self.file.size if self.end is None else self.end - self.start

    @property
    def cost(self) -> float:
        """Time to decode the range, in bytes of a JSON request log."""
        compressed = self.file.compression is not None  # an archive's members have the size of their plain bytes
        return self.size * BY_KIND[self.file.kind].cost * (COMPRESSION_COST if compressed else 1)


def cut(files: Iterable[CaptureFile]) -> list[ByteRange]:
    """The ranges of all files that have a decoder."""
    return [part for file in files if is_read(file) for part in blocks(file)]


def blocks(file: CaptureFile) -> list[ByteRange]:
    """The ranges of a file; a single one if it can't be cut.

    The edges depend on the format only. Ranges are decoded separately, so their rows must not depend on the file's size or
    on other files. A file that grew has the same ranges, except that the last one is longer, and more after it.
    """
    known = BY_KIND[file.kind]
    in_parts = file.envelope == CRI  # a line may begin before a range
    if file.compression or file.tar_compression or in_parts or known.decoder is None or not known.decoder.splittable:
        return [ByteRange(file, 0, 0, None)]
    size = ceil(BLOCK / known.cost)
    edges = [*range(0, max(file.size, 1), size), file.size]
    return [ByteRange(file, split, *edge) for split, edge in enumerate(pairwise(edges))]


def packed(ranges: Iterable[ByteRange], tasks: int) -> list[list[ByteRange]]:
    """Bundles of ranges of about equal cost: `tasks` bundles, more if they would be large, fewer if they would be small.

    Members of one compressed archive stay together in its order, so that it is decompressed once.
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
    """A stretch that can't be decoded: a line longer than LONGEST_LINE, or the end of a damaged compressed stream."""

    byte_offset: int
    size: int
    reason: str
    text: bytes


def lines_of(part: ByteRange) -> Iterator[Lines | Unreadable]:
    """The lines that a range owns, in order, in batches of about PIECE bytes; memory is bounded by LONGEST_LINE."""
    line_start = _LineStart(part.start)
    defect = None
    try:
        for position, piece in _owned(part):
            if not line_start.size:
                line_start.byte_offset = position
            newline = piece.rfind(b"\n") + 1
            if line_start.too_long and (first := piece.find(b"\n") + 1):
                yield line_start.unreadable(first)
                line_start = _LineStart(position + first)
                piece, newline = piece[first:], newline - first
            if newline > 0:
                yield line_start.lines(piece[:newline])
                line_start = _LineStart(line_start.byte_offset + line_start.size + newline)
                piece = piece[newline:]
            line_start.add(piece)
    except Damaged as error:
        defect = f"{error} {part.file.compression or part.file.tar_compression} stream: what follows can't be read"
    if line_start.too_long or defect:
        yield line_start.unreadable(0, defect)
    elif line_start.size:
        yield line_start.lines(b"")


class _LineStart:
    """The beginning of a line whose end is not read yet; of one that is too long, its size and first piece only."""

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
    """Seek to the first line that starts in the range; returns its offset, at or past the end if there is none."""
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
