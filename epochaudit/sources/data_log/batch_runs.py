"""Batches of a partition's log as rows of the events table: one row per run of batches with the same leader epoch.

A segment may have a million batches, so replicas are compared by digests. A grain is GRAIN offsets from a multiple of
GRAIN on; it has the batches that begin in it. A run has a digest per batch in its first and last grain, and one per grain
in between. Grains do not depend on segments, so those of two replicas are comparable. A grain's digest is the xor of the
digests of its parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import xor
from pathlib import PurePosixPath
from struct import Struct
from typing import Final
from zlib import crc32

from epochaudit.events.event_types import LOG_BATCHES
from epochaudit.kafka.field_values import METADATA_TOPIC, NO_EPOCH
from epochaudit.sources.checkpoints import partition_of
from epochaudit.sources.sink import RowSink

COMPACTED: Final = "compacted"
GRAIN: Final = 1 << 11  # offsets
COLUMNS: Final = (
    "event_type", "byte_offset", "line_in_split", "partition_row", "topic", "partition", "name", "leader_epoch", "batch_base_offset",
    "batch_last_offset", "record_count", "records_size", "timestamp", "reason", "batch_digests",
)  # fmt: skip
LEGACY: Final = 2  # lower message formats have no leader epochs

SEGMENT_NAME: Final = re.compile(r"(?:(.+)\.)?(\d{20})\.log(?:\.(deleted|cleaned|swap))?(?:\.(?:gz|zst|bz2|xz))?")

_DIGESTED: Final = Struct(">qiiBI")  # base offset, length, leader epoch, magic, checksum: the first bytes of a batch
_DIGESTED_OF_LEGACY: Final = Struct(">qiIB")
_OFFSET_AND_LENGTH: Final = 12  # the length counts what follows it
_MIXED: Final = 0x9E3779B97F4A7C15  # CRCs are linear: without a multiplication, two swapped batches would cancel out
_ALL_BITS: Final = (1 << 64) - 1

Batch = tuple[int, int, int, int]  # base offset, last offset, byte offset, digest


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a batch. Offsets; size in bytes; timestamp: maxTimestamp in milliseconds.

    Message formats 0 and 1: leader_epoch, producer_id, producer_epoch and base_sequence are -1, and base_offset is the
    offset of the last record, the only one that is stored. count: records, -1 if not known.
    """

    byte_offset: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    timestamp: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int = -1
    base_timestamp: int = -1


def digest_of(batch: Header) -> int:
    """The digest of a batch: offsets, length, leader epoch, magic and checksum. It depends on the log only."""
    length = batch.size - _OFFSET_AND_LENGTH
    if batch.magic < LEGACY:
        place = _DIGESTED_OF_LEGACY.pack(batch.base_offset, length, batch.crc, batch.magic)
    else:
        place = _DIGESTED.pack(batch.base_offset, length, batch.leader_epoch, batch.magic, batch.crc)
    return mixed(crc32(place), batch.crc)


def mixed(place: int, crc: int) -> int:
    """The digest of a batch. place: checksum of the header's first bytes, which `crc`, the batch's own, does not cover."""
    return ((place | crc << 32) * _MIXED) & _ALL_BITS


def log_of(path: str) -> tuple[str, int, str | None] | None:
    """Topic, partition and state (delete, future, stray, deleted, cleaned, swap) of a segment's log; None if not known."""
    place = PurePosixPath(path)
    match = SEGMENT_NAME.fullmatch(place.name)
    folder = match[1] if match and match[1] else place.parent.name
    of_folder = partition_of(f"{folder}/segment", "segment")
    if of_folder is None:
        return None
    topic, partition, state = of_folder
    return topic, partition, state or (match[3] if match else None)


def is_segment(path: str) -> bool:
    """The path is that of a segment in the folder of a topic's partition, not of the metadata log."""
    log = log_of(path) if SEGMENT_NAME.fullmatch(PurePosixPath(path).name) else None
    return log is not None and log[0] != METADATA_TOPIC


def first_offset_of(path: str) -> int | None:
    """The offset in a segment's name: that of its first batch, or the log end offset if it is empty."""
    match = SEGMENT_NAME.fullmatch(PurePosixPath(path).name)
    return int(match[2]) if match else None


class BatchRuns:
    """Makes LOG_BATCHES rows of a log's batches, which come in order."""

    def __init__(self, sink: RowSink, topic: str, partition: int, state: str | None) -> None:
        self._rows = sink.rows(COLUMNS)
        self._log = (topic, partition, state)
        self._is_open = False
        self._epoch = NO_EPOCH
        self._first_place = (0, 1)
        self._base = self._last = self._size = self._newest = self._grain = 0
        self._records: int | None = 0
        self._whole = self._first_grain = True
        self._grain_batches: list[Batch] = []
        self._digests: list[dict[str, int]] = []

    def add(self, batch: Header, line: int, records: int | None, whole: bool) -> None:
        """Add a batch. records: without control records, None if not known. whole: no record is missing in it or before it."""
        base, last = batch.base_offset, batch.last_offset
        if not self._is_open or batch.leader_epoch != self._epoch or base <= self._last:
            self.end()
            self._is_open, self._epoch, self._base = True, batch.leader_epoch, base
            self._first_place = (batch.byte_offset, line)
            self._records, self._size, self._newest, self._whole = 0, 0, batch.timestamp, True
            self._grain, self._grain_batches, self._first_grain = base // GRAIN, [], True
            self._digests = []
        elif base // GRAIN != self._grain:
            self._close_grain(last_of_run=False)
            self._grain = base // GRAIN
        self._records = None if records is None or self._records is None else self._records + records
        self._size += batch.size
        self._newest = max(self._newest, batch.timestamp)
        self._whole = self._whole and whole
        self._grain_batches.append((base, last, batch.byte_offset, digest_of(batch)))
        self._last = last

    def extend(self, batches: list[Batch], byte_offset: int, newest: int) -> None:
        """Add batches of the last one's run and grain, without control records. byte_offset: where the last of them ends."""
        if batches:
            self._grain_batches += batches
            self._last = batches[-1][1]
            self._size += byte_offset - batches[0][2]
            self._newest = max(self._newest, newest)
            if self._records is not None:
                self._records += self._last - batches[0][0] + 1

    def end(self) -> None:
        """End the current run."""
        if not self._is_open:
            return
        self._close_grain(last_of_run=True)
        self._row(self._first_place, self._epoch, self._base, self._last, self._records, self._size, self._newest)
        self._is_open = False

    def empty(self, offset: int) -> None:
        """Add the row of a segment without batches, where the log ends at `offset`."""
        self._whole, self._digests = True, []
        self._row((0, 1), None, offset, offset - 1, 0, 0, None)

    def _row(
        self,
        place: tuple[int, int],
        epoch: int | None,
        base: int,
        last: int,
        records: int | None,
        size: int,
        newest: int | None,
    ) -> None:
        known = None if epoch is None or epoch < 0 else epoch
        self._rows.append(
            (
                LOG_BATCHES, *place, 0, *self._log, known, base, last, records, size, newest,
                None if self._whole else COMPACTED, self._digests,
            )
        )  # fmt: skip

    def _close_grain(self, last_of_run: bool) -> None:
        batches = self._grain_batches
        if self._first_grain or last_of_run or len(batches) == 1:
            self._digests += (_entry(*batch, 1) for batch in batches)
        else:
            digest = reduce(xor, (digest for *_, digest in batches))
            self._digests.append(_entry(batches[0][0], batches[-1][1], batches[0][2], digest, len(batches)))
        self._first_grain, self._grain_batches = False, []


def _entry(base_offset: int, last_offset: int, byte_offset: int, digest: int, batches: int) -> dict[str, int]:
    signed = digest - (1 << 64) if digest >> 63 else digest
    return {
        "base_offset": base_offset, "last_offset": last_offset, "byte_offset": byte_offset, "batches": batches, "digest": signed,
    }  # fmt: skip
