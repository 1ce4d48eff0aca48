"""Raw segments and snapshots of the KRaft metadata log, from a controller's or broker's metadata directory.

A "line" of such a file is a record or a damaged stretch; reports name its number. Its byte offset is that of its batch, as
records of a compressed batch have none; partition_row is its index within the batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import BinaryIO, ClassVar, Final

import msgspec

from epochaudit.events.event_types import SNAPSHOT_HEADER
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.metadata_log.records import COLUMNS, columns_of_fields, values
from epochaudit.sources.metadata_log.schema import (
    UNKNOWN,
    UNKNOWN_CONTROL,
    Content,
    read_control_record,
    read_record,
)
from epochaudit.sources.record_batches.batches import (
    NO_PRODUCER,
    SHOWN,
    BadRecordError,
    Batch,
    Damage,
    Record,
    batches,
    begun_batch,
    records,
)
from epochaudit.sources.sink import BlockTally, RowSink, StreamDecoder

_RECOGNISED_BY: Final = 16  # records
_SNAPSHOT_NAME: Final = re.compile(r"\.checkpoint(?:\.\w+)?$")  # perhaps with the suffix of a compression
_OUT_OF_RANGE: Final = "a field that is out of its range"


@dataclass(slots=True)
class Entry:
    """A record, or a stretch that can't be read. number: counts both from 1.

    size: bytes in the file; the first record of a batch has the batch's, the others 0. index: of the record within its
    batch. fault: why it can't be read. head: the first unreadable bytes.
    """

    number: int
    byte_offset: int
    size: int
    batch: Batch | None = None
    index: int = 0
    record: Record | None = None
    content: Content | None = None
    fault: str | None = None
    head: bytes = b""

    @property
    def counts(self) -> bool:
        """It is a line: no batch without records, no padding."""
        return self.record is not None or self.fault is not None


def recognise(head: bytes) -> bool:
    """The first batches hold known metadata and control records only."""
    found = [entry for entry in islice(entries(BytesIO(head)), _RECOGNISED_BY) if entry.record is not None]
    first_batch = None if found else begun_batch(head)
    if first_batch is not None:
        found = [entry for entry in islice(_of_batch(first_batch), _RECOGNISED_BY) if entry.record is not None]
    return all(map(_is_metadata, found)) and any(entry.content and entry.content.fields is not None for entry in found)


def _is_metadata(entry: Entry) -> bool:
    batch, content, record = entry.batch, entry.content, entry.record
    if batch is None or content is None or record is None:
        return False
    known = not content.type.startswith((UNKNOWN, UNKNOWN_CONTROL))
    return known and batch.producer_id == NO_PRODUCER and (batch.is_control or record.key is None)


def entries(stream: BinaryIO) -> Iterator[Entry]:
    """All entries of the file in order."""
    number = 0
    for found in batches(stream):
        if isinstance(found, Batch):
            for entry in _of_batch(found):
                number += entry.counts
                entry.number = number
                yield entry
        elif isinstance(found, Damage):
            number += 1
            yield Entry(number, found.byte_offset, found.size, fault=found.reason, head=found.head)
        else:
            yield Entry(number, found.byte_offset, found.size)


def _of_batch(batch: Batch) -> Iterator[Entry]:
    """The batch's records. The rest after an unreadable record is one entry, and so is a batch without records."""
    size, index = batch.size, 0
    try:
        for index, record in enumerate(records(batch)):
            yield _of_record(batch, index, record, size)
            size = 0
    except BadRecordError as error:
        yield Entry(0, batch.byte_offset, size, batch, index, fault=str(error), head=batch.content)
        return
    if size:
        yield Entry(0, batch.byte_offset, size, batch)


def _of_record(batch: Batch, index: int, record: Record, size: int) -> Entry:
    try:
        if batch.is_control:
            content = read_control_record(record.key, record.value)
        elif record.value is None:
            raise BadRecordError("a record without a value")
        else:
            content = read_record(record.value)
    except BadRecordError as error:
        return Entry(0, batch.byte_offset, size, batch, index, record, fault=str(error), head=record.value or b"")
    return Entry(0, batch.byte_offset, size, batch, index, record, content)


class MetadataSegment:
    """One row per record; clock: the metadata offset, within a snapshot the order of records. time_ms: CreateTime."""

    kind: ClassVar[str] = "metadata-log-segment"
    splittable: ClassVar[bool] = False

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        self._sink = sink
        self._rows = sink.rows(COLUMNS)
        self._in_snapshot = _SNAPSHOT_NAME.search(file.path) is not None

    def read(self, stream: BinaryIO) -> Iterator[tuple[int, BlockTally]]:
        """See StreamDecoder."""
        for entry in entries(stream):
            tally = self._tally(entry)
            yield entry.size, tally

    def _tally(self, entry: Entry) -> BlockTally:
        fault = entry.fault
        if entry.batch is not None and entry.record is not None and entry.content is not None:
            fault = self._append(entry, entry.batch, entry.record, entry.content)
        if fault is None:
            return (1, 0, 0) if entry.record is not None else (0, 0, 0)
        shown = f"{entry.size or len(entry.head)} bytes, the first: {entry.head[:SHOWN].hex(' ')}"
        self._sink.quarantine(entry.byte_offset, entry.number, fault, shown.encode())
        return 0, 0, 1

    def _append(self, entry: Entry, batch: Batch, record: Record, content: Content) -> str | None:
        """Append the record's row; returns the fault if it has none."""
        self._in_snapshot = self._in_snapshot or content.type == SNAPSHOT_HEADER
        try:
            columns = {} if content.fields is None else columns_of_fields(content.type, content.fields)
        except msgspec.ValidationError:
            return _OUT_OF_RANGE
        row = (
            content.type, entry.byte_offset, entry.number, entry.index, record.time_ms, content.version, record.offset,
            batch.base_offset, batch.last_offset, batch.raft_epoch, self._in_snapshot, *values(columns),
        )  # fmt: skip
        self._rows.append(row)
        return None


def texts(stream: BinaryIO, numbers: Collection[int]) -> Iterator[tuple[int, str]]:
    """(number, text) of the records with these numbers, in file order; unreadable ones are skipped."""
    last = max(numbers, default=0)
    for entry in entries(stream):
        if entry.number > last:
            return
        if entry.number in numbers and entry.batch and entry.record and entry.content:
            yield entry.number, text(entry.batch, entry.record, entry.content)


def text(batch: Batch, record: Record, content: Content) -> str:
    """A record, much as kafka-dump-log prints it."""
    clock = "CreateTime" if batch.time_ms is None else "LogAppendTime"
    payload = json.dumps(
        {"type": content.type, "version": content.version, "data": content.fields}, separators=(",", ":")
    )
    kind = "control" if batch.is_control else "payload"
    place = f"offset: {record.offset} {clock}: {record.time_ms} partitionLeaderEpoch: {batch.raft_epoch}"
    return f"{place} {kind}: {payload}"


DECODER: type[StreamDecoder] = MetadataSegment
