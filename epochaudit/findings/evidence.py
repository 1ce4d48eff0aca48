"""Reads evidence lines from the capture's files: text, absolute line number and time.

In Spark, evidence is a place (file, split, byte offset, line in split). On the driver, this module turns each place into
`file:line` and the line itself, which an operator can check by hand.

A raw metadata log has records instead of lines: its line numbers count records, and the text is the record as Kafka's dump
tool prints it. A raw segment of a partition has batches, whose headers are printed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import BinaryIO, Final

from epochaudit.sources.data_log import segment as data_segment
from epochaudit.sources.files.opening import DAMAGED
from epochaudit.sources.metadata_log import segment as metadata_segment

TEXT_LIMIT: Final = 2_000  # characters of a line in a report
LINE_LIMIT: Final = 1 << 20  # bytes of a line that are searched for what decides a finding
FIRST_READ: Final = 8_000  # bytes
SKIP: Final = 1 << 20  # bytes per read while skipping forward in a compressed file

A_BATCH: Final = -1

Opener = Callable[["Place"], BinaryIO]


@dataclass(frozen=True, order=True)
class Place:
    """The start of a line: file relative to its cluster's capture, byte offset in the decompressed file.

    `record`: the record's number in a raw metadata log, because the records of a batch share its offset; A_BATCH in a raw
    segment of a partition; 0 for a line of text.
    """

    cluster: str
    file: str
    byte_offset: int
    record: int = 0


@dataclass(frozen=True)
class Evidence:
    """One line of a finding's proof.

    `line` counts from 1 in the whole file, lines of text or records of a raw metadata log; null when the file's line
    counts are not known. `time` is ISO 8601, with a zone only where the source states one. `text` is null when the file
    can't be read any more.
    """

    role: str
    node: int | None
    file: str
    line: int | None
    byte_offset: int
    time: str | None
    text: str | None

    @property
    def place(self) -> str:
        """`file:line`, or file and byte offset if the line number is unknown."""
        return f"{self.file}:{self.line}" if self.line is not None else f"{self.file} at byte {self.byte_offset}"


def read_lines(places: Iterable[Place], open_file: Opener) -> Iterator[tuple[Place, str]]:
    """The line or record at each place, LINE_LIMIT bytes of it at most; places that can't be read are left out.

    `open_file` gives a binary stream of the decompressed file. Each file is opened once and read forward in offset
    order, so that a compressed file is decompressed once; a seekable one is not read between the places.
    """
    by_file: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for place in sorted(set(places)):
        by_file[place.cluster, place.file].append(place)
    for places_of_file in by_file.values():
        try:
            with open_file(places_of_file[0]) as stream:
                yield from _read(stream, places_of_file)
        except DAMAGED:
            continue


def _read(stream: BinaryIO, places: Sequence[Place]) -> Iterable[tuple[Place, str]]:
    if places[0].record == A_BATCH:
        at = {place.byte_offset: place for place in places}
        return ((at[byte_offset], text) for byte_offset, text in data_segment.texts_at(stream, at))
    return _records_at(stream, places) if places[0].record else _lines_at(stream, places)


def disambiguated(first: Place, second: Place, open_file: Opener) -> tuple[Place, Place]:
    """The first differing batches of two segments, searched from two places; the places themselves if unreadable.

    Frames compare digests of many batches, which do not show the batch that differs.
    """
    try:
        with open_file(first) as first_stream, open_file(second) as second_stream:
            at = data_segment.first_difference(first_stream, first.byte_offset, second_stream, second.byte_offset)
    except DAMAGED:
        return first, second
    return replace(first, byte_offset=at[0]), replace(second, byte_offset=at[1])


def _records_at(stream: BinaryIO, places: Iterable[Place]) -> Iterable[tuple[Place, str]]:
    by_number = {place.record: place for place in places}
    for number, text in metadata_segment.texts(stream, by_number):
        yield by_number[number], text


def _lines_at(stream: BinaryIO, places: Iterable[Place]) -> Iterable[tuple[Place, str]]:
    position = 0
    ahead = b""  # bytes that were read for the previous line and reach past it, starting at `position`
    for place in places:
        offset = place.byte_offset
        if offset < position + len(ahead):
            ahead = ahead[offset - position :]
        else:
            _advance(stream, position + len(ahead), offset)
            ahead = b""
        position = offset
        ahead = _line_start(stream, ahead)
        if ahead:
            line = ahead.split(b"\n", 1)[0][:LINE_LIMIT]
            yield place, line.removesuffix(b"\r").decode("utf-8", errors="replace")


def _line_start(stream: BinaryIO, ahead: bytes) -> bytes:
    """`ahead`, extended to a whole line or LINE_LIMIT bytes; a damaged stream ends at the defect."""
    read = getattr(stream, "read1", stream.read)  # read1 returns the bytes before a defect
    while len(ahead) < LINE_LIMIT and b"\n" not in ahead:
        try:
            more = read(max(FIRST_READ, len(ahead)))
        except DAMAGED:
            break
        if not more:
            break
        ahead += more
    return ahead


def _advance(stream: BinaryIO, position: int, target: int) -> None:
    """Move a stream from `position` forward to `target`: by seeking, or by reading where it can't seek."""
    if stream.seekable():
        stream.seek(target)
        return
    while position < target:
        skipped = stream.read(min(SKIP, target - position))
        if not skipped:
            return
        position += len(skipped)


def cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text, or its beginning with an ellipsis when it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def iso_time(time_ms: int | None, *, zoned: bool) -> str | None:
    """ISO 8601 with milliseconds; `Z` only if the time zone is known, else local time as the log printed it."""
    if time_ms is None:
        return None
    seconds, milliseconds = divmod(time_ms, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000)
    except (ValueError, OverflowError, OSError):  # a hostile or garbled line may print any year
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if zoned else "")


class LineNumbers:
    """Absolute line numbers: the lines of a file's earlier splits are added to a line's number within its own split."""

    def __init__(self, lines_of_splits: Mapping[tuple[str, str, int], int]) -> None:
        """`lines_of_splits`: lines read, by (cluster, file, split index)."""
        self._before: dict[tuple[str, str, int], int] = {}
        totals: dict[tuple[str, str], int] = defaultdict(int)
        for cluster, file, split in sorted(lines_of_splits):
            self._before[cluster, file, split] = totals[cluster, file]
            totals[cluster, file] += lines_of_splits[cluster, file, split]

    def absolute(self, cluster: str, file: str, split: int, line_in_split: int | None) -> int | None:
        """Line number in the whole file, from 1; None when the split, or the number in it, is not known."""
        before = self._before.get((cluster, file, split))
        return None if before is None or line_in_split is None else before + line_in_split
