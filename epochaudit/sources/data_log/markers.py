"""Transaction markers of a partition's log as rows of the events table: the first and the last marker of each run.

A run has the markers of one producer id that follow each other in a segment, with one coordinator epoch and producer epochs that do not
fall. A segment may have a million markers. Whether epochs fall along the log, the ends of runs show as well as all markers.
Layout: EndTransactionMarker and ControlRecordType of Kafka's clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from epochaudit.events.event_types import TRANSACTION_MARKER
from epochaudit.sources.data_log.batch_runs import Header
from epochaudit.sources.record_batches.batches import BadRecordError, varint
from epochaudit.sources.sink import RowSink

COLUMNS: Final = (
    "event_type", "byte_offset", "line_in_split", "partition_row", "topic", "partition", "name", "leader_epoch", "batch_base_offset",
    "timestamp", "producer_id", "producer_epoch", "committed", "coordinator_epoch",
)  # fmt: skip
COMMIT: Final = "COMMIT"
ABORT: Final = "ABORT"
_TYPES: Final = {0: ABORT, 1: COMMIT}
KEY: Final = Struct(">hh")  # version, type
VALUE: Final = Struct(">hi")  # version, coordinator epoch
_BEHIND_BATCHES: Final = 1  # partition_row: that of LOG_BATCHES, which may have the same place, is 0


def marker_of(records: bytes) -> tuple[str, int] | None:
    """Type and coordinator epoch of the marker in a control batch; None if it has another control record, or none.

    records: what follows the batch's header. Compaction leaves control batches without a record.
    """
    try:
        _, at = varint(records, 0)  # the record's size
        _, at = varint(records, at + 1)  # behind the attributes: timestamp delta
        _, at = varint(records, at)  # offset delta
        _, at = varint(records, at)  # size of the key
        _, kind = KEY.unpack_from(records, at)
        size, at = varint(records, at + KEY.size)
        if kind not in _TYPES or size < VALUE.size:
            return None
        _, coordinator_epoch = VALUE.unpack_from(records, at)
    except (BadRecordError, error):
        return None
    return _TYPES[kind], coordinator_epoch


@dataclass(slots=True)
class _Run:
    """The run of a producer id that goes on: its last marker as a row. written: the row is among the events."""

    row: tuple[object, ...]
    producer_epoch: int
    coordinator_epoch: int
    written: bool


class MarkerRuns:
    """Makes TRANSACTION_MARKER rows of the markers of a segment, which come in order."""

    def __init__(self, sink: RowSink, topic: str, partition: int, state: str | None) -> None:
        self._rows = sink.rows(COLUMNS)
        self._log = (topic, partition, state)
        self._open: dict[int, _Run] = {}

    def add(self, batch: Header, marker: tuple[str, int], place: tuple[int, int]) -> None:
        """Add a marker. marker: see `marker_of`. place: byte offset, and line or number of the batch."""
        kind, coordinator_epoch = marker
        epoch = None if batch.leader_epoch < 0 else batch.leader_epoch
        row = (
            TRANSACTION_MARKER, *place, _BEHIND_BATCHES, *self._log, epoch, batch.base_offset, batch.timestamp, batch.producer_id,
            batch.producer_epoch, kind == COMMIT, coordinator_epoch,
        )  # fmt: skip
        run = self._open.get(batch.producer_id)
        goes_on = (
            run is not None
            and run.coordinator_epoch == coordinator_epoch
            and run.producer_epoch <= batch.producer_epoch
        )
        if not goes_on:
            self._end(run)
            self._rows.append(row)
        self._open[batch.producer_id] = _Run(row, batch.producer_epoch, coordinator_epoch, not goes_on)

    def end(self) -> None:
        """End all runs."""
        for run in self._open.values():
            self._end(run)
        self._open.clear()

    def _end(self, run: _Run | None) -> None:
        if run is not None and not run.written:
            self._rows.append(run.row)
