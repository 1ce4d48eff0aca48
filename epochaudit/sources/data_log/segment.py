"""Raw data segments, `<topic>-<partition>/<base offset>.log`: the headers of their batches, and transaction markers; never other records.

A "line" of such a file is a batch or a damaged stretch. A batch's length leads to the next header; large batches are
skipped unread, so a segment costs a read per large batch, or per BLOCK of small ones. Checksums are computed only of
bytes that are read anyway: batches below SPARSE bytes, batches that do not continue the one before, and evidence.
Corruption within other large batches is not found. Message formats 0 to 2, all compressions.
Layout: DefaultRecordBatch, LegacyRecord and AbstractLegacyRecordBatch of Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from struct import Struct
from typing import BinaryIO, ClassVar, Final
from zlib import crc32

import google_crc32c

from epochaudit.kafka.field_values import NO_EPOCH
from epochaudit.sources.data_log.batch_runs import (
    GRAIN,
    LEGACY,
    Batch,
    BatchRuns,
    Header,
    first_offset_of,
    log_of,
    mixed,
)
from epochaudit.sources.data_log.markers import MarkerRuns, marker_of
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.files.opening import DAMAGED, is_remote
from epochaudit.sources.record_batches.batches import (
    BAD_CHECKSUM,
    CUT_OFF,
    LARGEST_BATCH,
    NO_BATCH,
    SHOWN,
    UNREADABLE,
    Padding,
    damage_at,
)
from epochaudit.sources.sink import BlockTally, RowSink, StreamDecoder

# offset, length, leader epoch, magic, checksum, attributes, last offset delta, base and max timestamp, producer id and
# epoch, base sequence, count
HEADER: Final = Struct(">qiiBIhiqqqhii")
# offset, length, checksum, magic, attributes; in format 1 followed by a timestamp
_HEADER_OF_LEGACY: Final = Struct(">qiIBb")
_TIMESTAMP: Final = Struct(">q")
_LENGTH_FROM: Final = 12
_MAGIC_AT: Final = 16
_CHECKED_FROM: Final = 21
_CHECKED_FROM_LEGACY: Final = 16
_DIGESTED: Final = 21
_SMALLEST_LEGACY: Final = 26  # format 0: header, and lengths of key and value
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
_KNOWN_ATTRIBUTES: Final = 0x7F
_RUN_BREAKING: Final = ~(_CODEC | _APPEND_TIME | _TRANSACTIONAL)
_KNOWN_ATTRIBUTES_OF_LEGACY: Final = 0x0F
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

BLOCK: Final = 1 << 18
AT_ONCE: Final = 1 << 12  # batches
SPARSE: Final = 1 << 13  # bytes: larger batches are skipped unread
REMOTE_BLOCK: Final = 1 << 23  # a read of a remote store costs a request
CHECKED_GAPS: Final = 64  # gaps whose checksums are computed: compaction leaves many
UNKNOWN: Final = -1


def recognise(head: bytes) -> bool:
    """The file begins with a batch of correct checksum or, if the head cuts it off, of message format 2."""
    header = header_at(head, 0, 0)
    if header is None:
        return False
    return _is_whole(header, head) if header.size <= len(head) else header.magic >= LEGACY


def header_at(data: bytes, at: int, byte_offset: int) -> Header | None:
    """The batch header at a position of the data; None if no plausible header stands there."""
    if len(data) - at < _SMALLEST_LEGACY:
        return None
    if data[at + _MAGIC_AT] < LEGACY:
        return _legacy_header(data, at, byte_offset)
    if len(data) - at < HEADER.size:
        return None
    fields = HEADER.unpack_from(data, at)
    base, length, epoch, magic, crc, attributes, delta, base_time, newest, producer, producer_epoch, sequence, count = (
        fields
    )
    if magic != LEGACY or length < HEADER.size - _LENGTH_FROM or length > LARGEST_BATCH or base < 0 or epoch < -1:
        return None
    if (
        delta < 0
        or not 0 <= count <= delta + 1
        or attributes & ~_KNOWN_ATTRIBUTES
        or attributes & _CODEC >= len(_CODECS)
    ):
        return None
    return Header(
        byte_offset, length + _LENGTH_FROM, magic, base, base + delta, epoch, crc, attributes, newest, producer, producer_epoch,
        sequence, count, base_time,
    )  # fmt: skip


def _legacy_header(data: bytes, at: int, byte_offset: int) -> Header | None:
    offset, length, crc, magic, attributes = _HEADER_OF_LEGACY.unpack_from(data, at)
    size = length + _LENGTH_FROM
    if offset < 0 or not _SMALLEST_LEGACY <= size <= LARGEST_BATCH or attributes & ~_KNOWN_ATTRIBUTES_OF_LEGACY:
        return None
    if attributes & _CODEC >= len(_CODECS) or (magic and len(data) - at < _HEADER_OF_LEGACY.size + _TIMESTAMP.size):
        return None
    time = _TIMESTAMP.unpack_from(data, at + _HEADER_OF_LEGACY.size)[0] if magic else -1
    count = -1 if attributes & _CODEC else 1
    return Header(byte_offset, size, magic, offset, offset, -1, crc, attributes, time, count=count)


def batch_is_whole(batch: bytes) -> bool:
    """The bytes begin with a complete batch of correct checksum."""
    header = header_at(batch, 0, 0)
    return header is not None and header.size <= len(batch) and _is_whole(header, batch)


def _is_whole(header: Header, batch: bytes) -> bool:
    """The checksum matches the batch, which begins the data."""
    if header.magic < LEGACY:
        return crc32(batch[_CHECKED_FROM_LEGACY : header.size]) == header.crc
    return bool(google_crc32c.value(batch[_CHECKED_FROM : header.size]) == header.crc)


class _Bytes:
    """Random access to a stream's bytes; only forward if it can't seek. end: size in bytes, None until known."""

    def __init__(self, stream: BinaryIO, remote: bool) -> None:
        self.stream = stream
        self.seekable = stream.seekable()
        self.end = stream.seek(0, 2) if self.seekable else None
        self.failed = False
        self._least = REMOTE_BLOCK if remote else 0
        self._buffer = b""  # the bytes read last, if the stream can't seek
        self._buffer_end = 0

    def at(self, position: int, size: int) -> bytes:
        """At least `size` bytes from a position on, fewer at the end; none after the end or a defect."""
        try:
            if self.seekable:
                self.stream.seek(position)
                return self.stream.read(max(size, self._least))
            return self._forward(position, size)
        except DAMAGED:
            self.failed = True
            return b""

    def _forward(self, position: int, size: int) -> bytes:
        while self._buffer_end < position + size and (piece := self.stream.read(BLOCK)):
            begins = self._buffer_end - len(self._buffer)
            self._buffer = self._buffer[max(0, position - begins) :] + piece
            self._buffer_end += len(piece)
        if self._buffer_end < position + size:
            self.end = self._buffer_end
        begins = self._buffer_end - len(self._buffer)
        return self._buffer[max(0, position - begins) :][:size]


class DataSegment:
    """One row per run of batches of one leader epoch, and per end of a run of markers; without time, as for all copies of a state."""

    kind: ClassVar[str] = "data-segment"
    splittable: ClassVar[bool] = False

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        self._sink = sink
        self._file = file
        self._log = log_of(file.path)

    def read(self, stream: BinaryIO) -> Iterator[tuple[int, BlockTally]]:
        """See StreamDecoder."""
        source = _Bytes(stream, is_remote(self._file.uri))
        if self._log is None:
            yield from self._unread(source)
            return
        first_offset = first_offset_of(self._file.path)
        runs = BatchRuns(self._sink, *self._log)
        markers = MarkerRuns(self._sink, *self._log)
        walk = _Walk(source, runs, markers, first_offset)
        while (step := walk.step()) is not None:
            passed, batches, fault = step
            if fault:
                self._sink.quarantine(walk.position - passed, walk.lines, *fault)
            yield passed, (batches, 0, 1 if fault else 0)
        runs.end()
        markers.end()
        if not walk.lines and first_offset is not None:
            runs.empty(first_offset)

    def _unread(self, source: _Bytes) -> Iterator[tuple[int, BlockTally]]:
        self._sink.quarantine(0, 1, "neither its folder nor its name has the partition of the segment", b"")
        size = source.end or 0
        while not source.seekable and (piece := source.at(size, BLOCK)):
            size += len(piece)
        yield size, (0, 0, 1)


Fault = tuple[str, bytes]  # reason, and the first bytes


class _Walk:
    """Walks from header to header. first_offset: from the segment's name.

    position: of the next header. lines: batches and damaged stretches so far.
    """

    def __init__(self, source: _Bytes, runs: BatchRuns, markers: MarkerRuns, first_offset: int | None) -> None:
        self._source = source
        self._runs = runs
        self._markers = markers
        self._window = BLOCK
        self._epoch: int | None = None
        self._next = UNKNOWN if first_offset is None else first_offset
        self._gaps = CHECKED_GAPS
        self._ended = False
        self.position = 0
        self.lines = 0

    def step(self) -> tuple[int, int, Fault | None] | None:
        """(bytes passed, batches in them, fault or None); None at the end."""
        start, lines = self.position, self.lines
        self._take()
        if self.position == start:
            return self._rest()
        return self.position - start, self.lines - lines, None

    def _take(self) -> None:
        """Read batches from `position` on, up to AT_ONCE or the first bytes that are no batch.

        Nearly all batches continue the one before in its leader epoch and grain; this loop collects them.
        """
        unpack, header_size, read, end = HEADER.unpack_from, HEADER.size, self._source.at, self._source.end
        window = BLOCK if end is None else self._window
        start, at, data, available = self.position, 0, b"", 0
        line, most = self.lines, self.lines + AT_ONCE
        expected, current, grain_end, newest = self._next, self._epoch, -1, -1
        similar: list[Batch] = []
        checksum = google_crc32c.value
        while line < most:
            if available - at < header_size:
                start, at = start + at, 0
                data = read(start, window)
                available = len(data)
                if available < header_size:
                    break
            base, length, epoch, magic, crc, attributes, delta, _, time, _, _, _, count = unpack(data, at)
            size = length + _LENGTH_FROM
            if available - at < size < SPARSE and at and magic == LEGACY:
                available = at  # read this batch again from its beginning
                continue
            fits = end is None or start + at + size <= end
            if (
                base == expected and base < grain_end and epoch == current and magic == LEGACY and count == delta + 1
                and not attributes & _RUN_BREAKING and header_size <= size <= LARGEST_BATCH and fits
                and (available - at < size or checksum(data[at + _CHECKED_FROM : at + size]) == crc)
            ):  # fmt: skip
                expected = base + count
                similar.append((base, expected - 1, start + at, mixed(crc32(data[at : at + _DIGESTED]), crc)))
                if time > newest:
                    newest = time
            else:
                self._runs.extend(similar, start + at, newest)
                similar, newest = [], -1
                self._next, self._epoch = expected, current
                header = header_at(data, at, start + at) if fits and magic == LEGACY else None
                if header is None or not self._add(header, line + 1, data[at : at + size]):
                    break
                expected, current = self._next, epoch
                grain_end = (base // GRAIN + 1) * GRAIN
            line += 1
            at += size
            if size >= SPARSE:
                if at < available:  # the next header is in memory: no seek needed
                    continue
                window = header_size if end is not None else BLOCK
            else:
                window = BLOCK
        self._runs.extend(similar, start + at, newest)
        self._next, self._epoch, self._window = expected, current, window
        self.position, self.lines = start + at, line
        if available - at >= _SMALLEST_LEGACY and data[at + _MAGIC_AT] < LEGACY:
            self._take_legacy(data, at)

    def _add(self, header: Header, line: int, batch: bytes) -> bool:
        """Add a batch that begins a run or grain, or differs otherwise. batch: its bytes in memory. False if it is no batch."""
        follows = header.base_offset == self._next
        if len(batch) == header.size and not _is_whole(header, batch):
            return False
        if not (follows and header.leader_epoch == self._epoch) and not self._is_trusted(header):
            return False
        whole = header.count == header.last_offset - header.base_offset + 1 and (follows or self._next == UNKNOWN)
        is_control = header.attributes & _CONTROL
        records = 0 if is_control else header.count
        if is_control and (marker := marker_of(batch[HEADER.size :])) is not None:
            self._markers.add(header, marker, (header.byte_offset, line))
        self._runs.add(header, line, records, whole and not header.attributes & _DELETE_HORIZON)
        self._next, self._epoch = header.last_offset + 1, header.leader_epoch
        return True

    def _take_legacy(self, data: bytes, at: int) -> None:
        """Read batches of message formats 0 and 1: each message, or compressed set of messages, is one."""
        while (header := header_at(data, at, self.position)) is not None and header.magic < LEGACY:
            last, end = header.last_offset, self._source.end
            if end is not None and self.position + header.size > end:
                return
            follows = self._next in (last, UNKNOWN)
            if not (follows and self._epoch == NO_EPOCH) and not self._is_trusted(header):
                return
            self.lines += 1
            records = None if header.count < 0 else header.count
            whole = follows or records is None  # a compressed set stores its last offset only
            self._runs.add(header, self.lines, records, whole)
            self._next, self._epoch = last + 1, NO_EPOCH
            self.position += header.size
            at += header.size
            if at >= len(data):
                return

    def _is_trusted(self, header: Header) -> bool:
        """A batch that does not continue the one before must have a correct checksum; checked at the first CHECKED_GAPS gaps."""
        if header.leader_epoch == self._epoch and header.base_offset > self._next:
            self._gaps -= 1
            if self._gaps < 0:
                return True
        return not self._source.seekable or batch_is_whole(self._source.at(header.byte_offset, header.size))

    def _rest(self) -> tuple[int, int, Fault | None] | None:
        """Pass what is no batch: the end, preallocated zeros, or damage."""
        source, position = self._source, self.position
        head = source.at(position, SHOWN)
        if not head:
            return self._end()
        header = header_at(head, 0, position)
        self._next, self._window = UNKNOWN, BLOCK  # the number of skipped offsets is not known
        if not source.seekable or source.end is None:
            passed, reason = len(head), NO_BATCH
            while piece := source.at(position + passed, BLOCK):
                passed += len(piece)
        elif header is not None and header.magic < LEGACY and position + header.size <= source.end:
            passed, reason = header.size, BAD_CHECKSUM
        else:
            source.stream.seek(position)
            damage = damage_at(source.stream, position)
            if isinstance(damage, Padding):
                self.position += damage.size
                return damage.size, 0, None
            passed, reason = damage.size, damage.reason
        self.position += passed
        self.lines += 1
        return passed, 0, (reason, f"{passed} bytes, the first: {head.hex(' ')}".encode())

    def _end(self) -> tuple[int, int, Fault | None] | None:
        """At the end: reports once that the last batch was cut off, or the stream unreadable."""
        source = self._source
        short = source.failed or (not source.seekable and source.end is not None and source.end < self.position)
        if not short or self._ended:
            return None
        self._ended = True
        self.lines += 1
        return 0, 0, (UNREADABLE if source.failed else CUT_OFF, b"")


def first_difference(first: BinaryIO, first_at: int, second: BinaryIO, second_at: int) -> tuple[int, int]:
    """Byte offsets of the first two batches that differ, from a position in each segment; the positions if none differ."""
    places = first_at, second_at
    for left, right in zip(_headers(first, first_at), _headers(second, second_at), strict=False):
        if replace(left, byte_offset=0) != replace(right, byte_offset=0):
            return left.byte_offset, right.byte_offset
    return places


def _headers(stream: BinaryIO, byte_offset: int) -> Iterator[Header]:
    source = _Bytes(stream, remote=False)
    while (header := header_at(source.at(byte_offset, HEADER.size), 0, byte_offset)) is not None:
        yield header
        byte_offset += header.size


def texts_at(stream: BinaryIO, byte_offsets: Iterable[int]) -> Iterator[tuple[int, str]]:
    """(byte offset, text) of the batches at these ascending byte offsets, as kafka-dump-log prints them; checksums verified."""
    source = _Bytes(stream, remote=False)
    for byte_offset in byte_offsets:
        header = header_at(source.at(byte_offset, HEADER.size), 0, byte_offset)
        if header is not None:
            batch = source.at(byte_offset, header.size)
            yield byte_offset, text(header, batch_is_whole(batch)) + _marker_text(header, batch)


def _marker_text(header: Header, batch: bytes) -> str:
    """What kafka-dump-log prints of a transaction marker, on the next line; empty for other batches."""
    marker = marker_of(batch[HEADER.size :]) if header.attributes & _CONTROL else None
    return "" if marker is None else f" endTxnMarker: {marker[0]} coordinatorEpoch: {marker[1]}"


def text(header: Header, valid: bool) -> str:
    """A header as kafka-dump-log prints it. valid: the checksum is correct."""
    attributes = header.attributes
    if header.magic < LEGACY:
        fields: list[tuple[str, object]] = [("offset", header.last_offset)]
    else:
        last_sequence = (
            NO_EPOCH if header.base_sequence < 0 else header.base_sequence + header.last_offset - header.base_offset
        )
        fields = [
            ("baseOffset", header.base_offset), ("lastOffset", header.last_offset), ("count", header.count),
            ("baseSequence", header.base_sequence), ("lastSequence", last_sequence), ("producerId", header.producer_id),
            ("producerEpoch", header.producer_epoch), ("partitionLeaderEpoch", header.leader_epoch),
            ("isTransactional", bool(attributes & _TRANSACTIONAL)), ("isControl", bool(attributes & _CONTROL)),
        ]  # fmt: skip
    clock = "LogAppendTime" if attributes & _APPEND_TIME else "CreateTime"
    fields += [
        ("position", header.byte_offset), (clock, header.timestamp), ("size", header.size), ("magic", header.magic),
        ("compresscodec", _CODECS[attributes & _CODEC]), ("crc", header.crc), ("isvalid", valid),
    ]  # fmt: skip
    return " ".join(f"{name}: {str(value).lower() if isinstance(value, bool) else value}" for name, value in fields)


DECODER: type[StreamDecoder] = DataSegment
