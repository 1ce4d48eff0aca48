"""Kafka's record batches, version 2, in a log segment or snapshot.

`batches` frames a stream: batches of correct checksum, and stretches between them that are no batch. Damage costs only the
batches that it covers: reading continues at the next plausible header with a correct checksum. `records` parses a batch.
Layout: DefaultRecordBatch and DefaultRecord of Kafka's clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from struct import Struct
from typing import BinaryIO, Final, NamedTuple

import google_crc32c

from epochaudit.sources.files.opening import DAMAGED
from epochaudit.sources.record_batches.compression import BadCompressionError, decompressed

NO_PRODUCER: Final = -1
LARGEST_BATCH: Final = 1 << 26  # bytes; the raft log's batches hold at most 8 MiB
SHOWN: Final = 61  # bytes of a damaged stretch in its quarantine row

CUT_OFF: Final = "the batch is cut off"
BAD_CHECKSUM: Final = "the checksum of the batch does not match"
NO_BATCH: Final = "bytes that are no record batch"
UNREADABLE: Final = "the compressed file is damaged from here on"

_HEADER: Final = Struct(">qiibIhiqqqhii")
_HEADER_SIZE: Final = _HEADER.size
_LENGTH_FROM: Final = 12  # the length field counts what follows it
_CHECKED_FROM: Final = 21  # the checksum covers attributes to end
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_HEADER_MARK: Final = re.compile(rb"\x02.{4}\x00[\x00-\x7f][\x00-\x7f]", re.DOTALL)  # magic, checksum, attributes
_CODEC, _APPEND_TIME, _CONTROL = 0x07, 0x08, 0x20
_KNOWN_ATTRIBUTES: Final = 0x7F
_READ: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of correct checksum.

    byte_offset: of its first byte in the file. base_time_ms: baseTimestamp, base of the records' times. time_ms: of all
    records if the batch has LogAppendTime, else None. content: the records as stored.
    """

    byte_offset: int
    size: int
    base_offset: int
    last_offset: int
    raft_epoch: int
    is_control: bool
    codec: int
    base_time_ms: int
    time_ms: int | None
    producer_id: int
    count: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of the file that is no readable batch. head: its first bytes."""

    byte_offset: int
    size: int
    reason: str
    head: bytes


@dataclass(frozen=True, slots=True)
class Padding:
    """Zeros up to the end of the file: an active segment is preallocated."""

    byte_offset: int
    size: int


class Record(NamedTuple):
    """A record. headers: (key, value) pairs."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class BadRecordError(ValueError):
    """A record can't be read; the message is the quarantine reason."""


def batches(stream: BinaryIO) -> Iterator[Batch | Damage | Padding]:
    """The whole stream in order and without gaps; holds one batch in memory."""
    window = _Window(stream)
    while window.fill(1):
        batch = window.batch()
        if batch is not None:
            yield batch
        else:
            yield _damaged(window)
    if window.failed:
        yield Damage(window.offset, 0, UNREADABLE, b"")


def begun_batch(head: bytes) -> Batch | None:
    """The beginning of a batch that a file's first bytes cut off; its checksum can't be verified. None if there is no header."""
    window = _Window(BytesIO(head))
    fields = window.plausible()
    return None if fields is None else window.made(fields, len(head))


def damage_at(stream: BinaryIO, byte_offset: int) -> Damage | Padding:
    """The stretch up to the next batch or the end, at the stream's current position, where no batch begins."""
    return _damaged(_Window(stream, byte_offset))


class _Window:
    """A stream's bytes from a position that only moves forward."""

    def __init__(self, stream: BinaryIO, offset: int = 0) -> None:
        self._read = getattr(stream, "read1", stream.read)  # read1 delivers the bytes before a defect
        self._data = b""
        self._at = 0
        self._ended = False
        self.failed = False
        self.offset = offset

    def fill(self, size: int) -> int:
        """The number of bytes in memory from here: at least `size` unless the stream ends."""
        available = len(self._data) - self._at
        if available >= size or self._ended:
            return available
        parts = [self._data[self._at :]]
        while available < size and not self._ended:
            try:
                more = self._read(_READ)
            except DAMAGED:
                more, self.failed = b"", True
            self._ended = not more
            parts.append(more)
            available += len(more)
        self._data, self._at = b"".join(parts), 0
        return available

    def skip(self, size: int) -> None:
        self._at += size
        self.offset += size

    def head(self) -> bytes:
        return self._data[self._at : self._at + SHOWN]

    def is_zeros(self, size: int) -> bool:
        return not self._data[self._at : self._at + size].strip(b"\0")

    def header(self, distance: int = 0) -> tuple[int, ...] | None:
        """The fields of a plausible batch header at a distance from here, if the whole batch is in the stream; else None."""
        fields = self.plausible(distance)
        if fields is None:
            return None
        size = distance + fields[1] + _LENGTH_FROM
        return fields if self.fill(size) >= size else None

    def plausible(self, distance: int = 0) -> tuple[int, ...] | None:
        """The fields of a plausible batch header at a distance from here; else None."""
        if self.fill(distance + _HEADER_SIZE) < distance + _HEADER_SIZE:
            return None
        fields = _HEADER.unpack_from(self._data, self._at + distance)
        base, length, epoch, magic, _, attributes, last, _, _, _, _, _, count = fields
        plausible = (
            magic == _MAGIC and base >= 0 and last >= 0 and count >= 0 and epoch >= -1
            and attributes == attributes & _KNOWN_ATTRIBUTES
            and _HEADER_SIZE <= length + _LENGTH_FROM <= LARGEST_BATCH
        )  # fmt: skip
        return fields if plausible else None

    def has_batch(self, distance: int = 0) -> bool:
        """A batch of correct checksum stands there."""
        fields = self.header(distance)
        if fields is None:
            return False
        start = self._at + distance
        checked = self._data[start + _CHECKED_FROM : start + fields[1] + _LENGTH_FROM]
        return bool(google_crc32c.value(checked) == fields[4])

    def fault(self) -> str:
        """Why there is no batch here."""
        if self.header() is not None:
            return BAD_CHECKSUM
        rest_of_header = self.fill(_HEADER_SIZE) < _HEADER_SIZE
        return CUT_OFF if rest_of_header or self.plausible() is not None else NO_BATCH

    def batch(self) -> Batch | None:
        """Takes the batch here and moves past it; None if there is none."""
        fields = self.header()
        if fields is None or not self.has_batch():
            return None
        batch = self.made(fields, fields[1] + _LENGTH_FROM)
        self.skip(batch.size)
        return batch

    def made(self, fields: tuple[int, ...], size: int) -> Batch:
        """A batch of a header's fields and `size` bytes from here."""
        base, _, epoch, _, _, attributes, last, base_time, max_time, producer, _, _, count = fields
        return Batch(
            self.offset, size, base, base + last, epoch, bool(attributes & _CONTROL), attributes & _CODEC, base_time,
            max_time if attributes & _APPEND_TIME else None, producer, count,
            self._data[self._at + _HEADER_SIZE : self._at + size],
        )  # fmt: skip

    def next_mark(self, start: int) -> int | None:
        """Distance to the next plausible header, at least `start` from here; None if there is none in memory."""
        mark = _HEADER_MARK.search(self._data, self._at + start + _MAGIC_AT)
        return None if mark is None else mark.start() - _MAGIC_AT - self._at


def _damaged(window: _Window) -> Damage | Padding:
    """Moves past bytes that are no batch, to the next batch or the end."""
    window.fill(SHOWN)
    offset, head, reason, fields = window.offset, window.head(), window.fault(), window.header()
    claimed = 0 if fields is None else fields[1] + _LENGTH_FROM
    if claimed and (window.has_batch(claimed) or window.fill(claimed + 1) == claimed):
        window.skip(claimed)
    elif _seek(window):
        return Padding(offset, window.offset - offset)
    if reason == CUT_OFF and window.fill(1):
        reason = NO_BATCH  # another batch follows, so the file was not cut off
    return Damage(offset, window.offset - offset, reason, head)


def _seek(window: _Window) -> bool:
    """Searches the next batch, or the end; True if all bytes on the way were zero.

    Each plausible header costs a checksum. A hostile file could make that quadratic, so the number of bytes in failed
    checksums is limited to a multiple of the bytes passed.
    """
    zeros, start, effort = True, 1, LARGEST_BATCH
    while available := window.fill(_READ):
        distance = window.next_mark(start)
        # what is left may be the beginning of a header
        searched = available if available < _READ else available - _HEADER_SIZE
        moved = searched if distance is None else distance
        zeros = zeros and window.is_zeros(moved)
        window.skip(moved)
        effort += 8 * moved
        start = 0
        if distance is not None:
            fields = window.header()
            cost = 0 if fields is None else fields[1]
            if cost and cost <= effort and window.has_batch():
                return False
            effort -= min(cost, effort)
            start = 1
    return zeros


def records(batch: Batch) -> Iterator[Record]:
    """The batch's records in order. Raises BadRecordError at the first unreadable one."""
    try:
        content = decompressed(batch.content, batch.codec)
    except BadCompressionError as error:
        raise BadRecordError(str(error)) from error
    at = 0
    for _ in range(batch.count):
        record, at = _record(batch, content, at)
        yield record
    if at != len(content):
        raise BadRecordError("bytes follow the last record of the batch")


def _record(batch: Batch, content: bytes, at: int) -> tuple[Record, int]:
    size, at = varint(content, at)
    end = at + size
    if size < 1 or end > len(content):
        raise BadRecordError("a record reaches past the end of its batch")
    time_delta, at = varint(content, at + 1)  # skips the unused attributes of the record
    offset_delta, at = varint(content, at)
    key, at = _sized(content, at, end)
    value, at = _sized(content, at, end)
    count, at = varint(content, at)
    if not 0 <= count <= end - at:
        raise BadRecordError("a record's headers reach past its end")
    headers = []
    for _ in range(count):
        name, at = _sized(content, at, end)
        header_value, at = _sized(content, at, end)
        headers.append(((name or b"").decode(errors="replace"), header_value))
    if at != end:
        raise BadRecordError("a record is longer than its fields")
    offset = batch.base_offset + offset_delta
    if not batch.base_offset <= offset <= batch.last_offset:
        raise BadRecordError("a record's offset lies outside of its batch")
    time = batch.base_time_ms + time_delta if batch.time_ms is None else batch.time_ms
    return Record(offset, time, key, value, tuple(headers)), end


def _sized(content: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = varint(content, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise BadRecordError("a record's field reaches past its end")
    return content[at : at + size], at + size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(a zigzag-encoded signed number of at most ten bytes, position after it). Raises BadRecordError."""
    raw, at = unsigned_varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """(an unsigned number of at most ten bytes, lowest seven bits first, position after it). Raises BadRecordError."""
    if at < len(data) and data[at] < 0x80:  # most numbers
        return data[at], at + 1
    value = shift = 0
    for byte in data[at : at + 10]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at + shift // 7
    raise BadRecordError("a number is cut off or too long")
