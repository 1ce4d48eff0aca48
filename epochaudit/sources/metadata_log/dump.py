"""The KRaft metadata log as `kafka-dump-log --cluster-metadata-decoder` prints it.

Each batch has a line (`baseOffset: … partitionLeaderEpoch: …`), followed by a line per record (`| offset: … payload: {…}`)
with the record as JSON. Control records have a name and, in newer versions, JSON. Formats of Kafka 2.8 to 4.3
(DumpLogSegments, MetadataJsonConverters).

`metadata_log.records` maps the records' fields to columns.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Meta

from epochaudit.events.event_types import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.metadata_log.records import COLUMNS, Columns, Int32, columns_of_json, values
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink

RecordType = Annotated[str, Meta(pattern="^[A-Z0-9_]{1,64}$")]


class _Payload(msgspec.Struct):
    type: RecordType
    version: Int32
    data: msgspec.Raw


_PAYLOAD: Final = msgspec.json.Decoder(_Payload)
_CONTROL_VERSION: Final = re.compile(rb'\{"version":(\d{1,4})[,}]')

_BATCH: Final = re.compile(rb"baseOffset: (\d{1,18}) lastOffset: (\d{1,18}) ")
_RAFT_EPOCH: Final = re.compile(rb" partitionLeaderEpoch: (-?\d{1,9}) ")
_RECORD: Final = re.compile(rb"\| offset: (\d{1,18}) ")
_TIME: Final = re.compile(rb" (?:CreateTime|LogAppendTime): (-?\d{1,18}) ")
_CONTROL: Final = re.compile(rb" (?:controlType: ([A-Z_]+)\(\d+\)|(LeaderChange|Snapshot\w+|KRaft\w+):? (\{.*\}))$")
_CONTROL_TYPES: Final = {
    b"LeaderChange": "LEADER_CHANGE",
    b"SnapshotHeader": SNAPSHOT_HEADER,
    b"SnapshotFooter": SNAPSHOT_FOOTER,
    b"KRaftVersion": "KRAFT_VERSION",
    b"KRaftVoters": "KRAFT_VOTERS",
}
_OF_METADATA: Final = (
    b' payload: {"type":"',
    b" LeaderChange",
    b" SnapshotHeader",
    b" controlType: LEADER_CHANGE",
    b" controlType: SNAPSHOT_HEADER",
)


class _BadLineError(ValueError):
    """The line can't be read; the message is its quarantine reason."""


class _Batch(NamedTuple):
    base_offset: int | None
    last_offset: int | None
    raft_epoch: int | None
    valid: bool = True


_NO_BATCH: Final = _Batch(None, None, None)


def recognise(head: bytes) -> bool:
    """A kafka-dump-log of the metadata log, not of a data topic."""
    batches = head.startswith((b"Dumping ", b"baseOffset: ")) or b"\nbaseOffset: " in head
    return batches and any(mark in head for mark in _OF_METADATA)


class MetadataDump:
    """One row per record; clock: the metadata offset, within a snapshot the order of lines. time_ms: CreateTime.

    Not splittable: a record's raft epoch stands in the line of its batch.
    """

    kind: ClassVar[str] = "metadata-log-dump"
    splittable: ClassVar[bool] = False

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:  # noqa: ARG002
        self._sink = sink
        self._rows = sink.rows(COLUMNS)
        self._batch = _NO_BATCH
        self._in_snapshot = False

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        try:
            if text.startswith(b"| "):
                return self._record(text, byte_offset, line_in_split)
            self._heading(text)
        except _BadLineError as bad:
            self._sink.quarantine(byte_offset, line_in_split, str(bad), text)
            return LineOutcome.QUARANTINED
        return LineOutcome.IGNORED

    def _heading(self, text: bytes) -> None:
        if text.startswith(b"baseOffset: "):
            self._batch = _NO_BATCH
            self._batch = _batch(text)
            if not self._batch.valid:
                raise _BadLineError("Kafka found the batch invalid: its checksum does not match")
        elif text.startswith(b"Dumping "):
            self._batch, self._in_snapshot = _NO_BATCH, text.endswith(b".checkpoint")
        elif text.startswith((b"Snapshot end offset: ", b"KRaft bootstrap snapshot")):
            self._in_snapshot = True
        elif text.startswith(b"Found "):
            raise _BadLineError("Kafka found invalid bytes at the end of the file")
        elif text[:1] == b"\0" or (text and b"baseOffset: ".startswith(text)):
            raise _BadLineError("cut off or overwritten")

    def _record(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        if not self._batch.valid:
            raise _BadLineError("record of a batch that Kafka found invalid")
        head = _RECORD.match(text)
        if head is None:
            raise _BadLineError("record without its offset: cut off, or dumped with --skip-record-metadata")
        time = _TIME.search(text)
        record_type, version, columns = _content(text)
        row = (
            record_type, byte_offset, line, 0, int(time[1]) if time else None, version,
            *self._place(int(head[1]), record_type), *values(columns),
        )  # fmt: skip
        self._rows.append(row)
        return LineOutcome.EVENT

    def _place(self, offset: int, record_type: str) -> tuple[object, ...]:
        """(offset, base and last offset of the batch, raft epoch, in a snapshot); nulls for the batch if its line is missing."""
        self._in_snapshot = self._in_snapshot or record_type == SNAPSHOT_HEADER
        base, last, raft_epoch, _ = self._batch
        if base is None or last is None or not base <= offset <= last:
            base = last = raft_epoch = None
        return (offset, base, last, raft_epoch, self._in_snapshot)


def _batch(text: bytes) -> _Batch:
    offsets, epoch = _BATCH.match(text), _RAFT_EPOCH.search(text)
    valid = text.endswith(b" isvalid: true")
    if offsets is None or epoch is None or not (valid or text.endswith(b" isvalid: false")):
        raise _BadLineError("batch line is cut off")
    return _Batch(int(offsets[1]), int(offsets[2]), int(epoch[1]), valid)


def _content(text: bytes) -> tuple[str, int | None, Columns]:
    """Type, version and columns of a record line."""
    at = text.find(b" payload: ")
    if at < 0:
        return _control(text)
    payload = text[at + len(b" payload: ") :]
    if payload.startswith(b"Error at "):
        raise _BadLineError("kafka-dump-log could not decode the record")
    try:
        record = _PAYLOAD.decode(payload)
        return record.type, record.version, columns_of_json(record.type, record.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _BadLineError("payload is not a whole metadata record") from error


def _control(text: bytes) -> tuple[str, int | None, Columns]:
    control = _CONTROL.search(text)
    if control is None:
        raise _BadLineError("record without payload: cut off, or a control record of an unknown kind")
    if control[1]:
        return control[1].decode(), None, {}
    record_type = _CONTROL_TYPES.get(control[2])
    version = _CONTROL_VERSION.match(control[3])
    if record_type is None or version is None:
        raise _BadLineError("control record of an unknown kind")
    try:
        return record_type, int(version[1]), columns_of_json(record_type, control[3])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _BadLineError("control record is not whole") from error


DECODER: type[LineDecoder] = MetadataDump
