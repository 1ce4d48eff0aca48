"""The KRaft metadata log as `kafka-dump-log --cluster-metadata-decoder` prints it.

A line per batch (`baseOffset: … partitionLeaderEpoch: …`), then a line per record (`| offset: … payload: {…}`) whose
payload is the record as JSON; control records come with a name and, in newer versions, their JSON. Formats of Kafka 2.8
to 4.1 (DumpLogSegments, MetadataJsonConverters).

A tagged field that holds its default is not printed. In a PARTITION_CHANGE_RECORD the default means "unchanged" and
becomes null (so do leader -2 and leaderRecoveryState -1); in other records the default itself is written.

Records of a metadata transaction (KIP-868) are held back until its END_TRANSACTION_RECORD; those of an aborted or
unfinished one are not state and give no rows. The records that begin, end and abort it are rows themselves.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Meta

from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.log4j import IDENTITY
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink

PLACE: Final = (
    *IDENTITY, "api_version", "metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch", "in_snapshot",
)  # fmt: skip
COLUMNS: Final = (
    *PLACE, "topic", "topic_id", "partition", "replicas", "isr", "adding_replicas", "removing_replicas", "leader",
    "leader_epoch", "partition_epoch", "leader_recovery_state", "elr", "broker_id", "broker_epoch", "incarnation_id",
    "fenced", "in_controlled_shutdown", "name", "value",
)  # fmt: skip

Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
RecordType = Annotated[str, Meta(pattern="^[A-Z0-9_]{1,64}$")]
Columns = dict[str, object]

_NO_TOPIC_ID: Final = "A" * 22
_UNCHANGED_LEADER: Final = -2
_UNCHANGED_RECOVERY_STATE: Final = -1
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_FENCING: Final = {1: True, -1: False}


class _Record(msgspec.Struct, rename="camel"):
    """The fields of a record type that the events table has; defaults are those of Kafka's record schemas."""

    def columns(self) -> Columns:
        """The fields as columns, by the columns' names."""
        return msgspec.structs.asdict(self)


class _Topic(_Record):
    name: str
    topic_id: str

    def columns(self) -> Columns:
        return {"topic": self.name, "topic_id": self.topic_id}


class _RemoveTopic(_Record):
    topic_id: str


class _ClearElr(_Record):
    topic_name: str | None = None

    def columns(self) -> Columns:
        return {"topic": self.topic_name}


class _Partition(_Record):
    partition_id: Int32
    topic_id: str
    replicas: list[Int32] | None = None
    isr: list[Int32] | None = None
    adding_replicas: list[Int32] | None = None
    removing_replicas: list[Int32] | None = None
    leader: Int32 | None = -1
    leader_epoch: Int32 | None = -1
    partition_epoch: Int32 | None = -1
    leader_recovery_state: Int32 | None = 0
    eligible_leader_replicas: list[Int32] | None = None

    def columns(self) -> Columns:
        columns = msgspec.structs.asdict(self)
        columns["partition"] = columns.pop("partition_id")
        columns["elr"] = columns.pop("eligible_leader_replicas")
        return columns


class _PartitionChange(_Partition):
    leader: Int32 | None = None
    leader_epoch: Int32 | None = None
    partition_epoch: Int32 | None = None
    leader_recovery_state: Int32 | None = None

    def columns(self) -> Columns:
        if self.leader == _UNCHANGED_LEADER:
            self.leader = None
        if self.leader_recovery_state == _UNCHANGED_RECOVERY_STATE:
            self.leader_recovery_state = None
        return super().columns()


class _RegisterBroker(_Record):
    broker_id: Int32
    broker_epoch: Int64
    incarnation_id: str
    fenced: bool = True
    in_controlled_shutdown: bool = False


class _UnregisterBroker(_Record):
    broker_id: Int32
    broker_epoch: Int64


class _BrokerRegistrationChange(_Record):
    broker_id: Int32
    broker_epoch: Int64
    fenced: Int32 = 0
    in_controlled_shutdown: Int32 = 0

    def columns(self) -> Columns:
        return {
            "broker_id": self.broker_id,
            "broker_epoch": self.broker_epoch,
            "fenced": _FENCING.get(self.fenced),
            "in_controlled_shutdown": True if self.in_controlled_shutdown == 1 else None,
        }


class _FenceBroker(_Record):
    id: Int32
    epoch: Int64

    def columns(self) -> Columns:
        return {"broker_id": self.id, "broker_epoch": self.epoch, "fenced": True}


class _UnfenceBroker(_FenceBroker):
    def columns(self) -> Columns:
        return {**super().columns(), "fenced": False}


class _FeatureLevel(_Record):
    name: str
    feature_level: Int32 | None = None

    def columns(self) -> Columns:
        return {"name": self.name, "value": None if self.feature_level is None else str(self.feature_level)}


class _Config(_Record):
    resource_type: Int32
    resource_name: str
    name: str
    value: str | None = None

    def columns(self) -> Columns:
        columns: Columns = {"name": self.name, "value": self.value}
        if self.resource_type == _TOPIC_RESOURCE:
            columns["topic"] = self.resource_name
        elif self.resource_type == _BROKER_RESOURCE and self.resource_name.isdecimal():
            columns["broker_id"] = msgspec.convert(self.resource_name, Int32, strict=False)
        return columns


class _LeaderChange(_Record):
    leader_id: Int32

    def columns(self) -> Columns:
        return {"leader": self.leader_id}


_DATA: Final = {
    record_type: msgspec.json.Decoder(fields)
    for record_type, fields in (
        ("TOPIC_RECORD", _Topic),
        ("REMOVE_TOPIC_RECORD", _RemoveTopic),
        ("CLEAR_ELR_RECORD", _ClearElr),
        ("PARTITION_RECORD", _Partition),
        ("PARTITION_CHANGE_RECORD", _PartitionChange),
        ("REGISTER_BROKER_RECORD", _RegisterBroker),
        ("UNREGISTER_BROKER_RECORD", _UnregisterBroker),
        ("BROKER_REGISTRATION_CHANGE_RECORD", _BrokerRegistrationChange),
        ("FENCE_BROKER_RECORD", _FenceBroker),
        ("UNFENCE_BROKER_RECORD", _UnfenceBroker),
        ("FEATURE_LEVEL_RECORD", _FeatureLevel),
        ("CONFIG_RECORD", _Config),
        ("LEADER_CHANGE", _LeaderChange),
    )
}


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
    b"SnapshotHeader": "SNAPSHOT_HEADER",
    b"SnapshotFooter": "SNAPSHOT_FOOTER",
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
    """A line of the format that can't be read; the message is its quarantine reason."""


class _Batch(NamedTuple):
    base_offset: int | None
    last_offset: int | None
    raft_epoch: int | None
    valid: bool = True


_NO_BATCH: Final = _Batch(None, None, None)


def recognise(head: bytes) -> bool:
    """Batches of kafka-dump-log whose records are those of the metadata log, not of a data topic."""
    batches = head.startswith((b"Dumping ", b"baseOffset: ")) or b"\nbaseOffset: " in head
    return batches and any(mark in head for mark in _OF_METADATA)


class MetadataDump:
    """One row per record; clock: the metadata offset (within a snapshot, the order of lines). Time is the CreateTime.

    Not splittable: a record's raft epoch stands in the line of its batch.
    """

    kind: ClassVar[str] = "metadata-log-dump"
    splittable: ClassVar[bool] = False

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:  # noqa: ARG002
        self._sink = sink
        self._rows = sink.rows(COLUMNS)
        self._batch = _NO_BATCH
        self._in_snapshot = False
        self._held: list[tuple[object, ...]] | None = None

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
        record_type, version, columns, is_control = _content(text)
        row = (
            record_type, byte_offset, line, 0, int(time[1]) if time else None, version,
            *self._place(int(head[1]), record_type), *map(columns.get, COLUMNS[len(PLACE) :]),
        )  # fmt: skip
        self._put(row, record_type, is_control)
        return LineOutcome.EVENT

    def _place(self, offset: int, record_type: str) -> tuple[object, ...]:
        """Offset, batch, raft epoch and whether it is a snapshot; the batch is unknown if its own line is missing."""
        self._in_snapshot = self._in_snapshot or record_type == "SNAPSHOT_HEADER"
        base, last, raft_epoch, _ = self._batch
        if base is None or last is None or not base <= offset <= last:
            base = last = raft_epoch = None
        return (offset, base, last, raft_epoch, self._in_snapshot)

    def _put(self, row: tuple[object, ...], record_type: str, is_control: bool) -> None:
        if is_control:
            self._rows.append(row)
        elif record_type == "BEGIN_TRANSACTION_RECORD":
            self._rows.append(row)
            self._held = []
        elif record_type in ("END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"):
            if self._held and record_type == "END_TRANSACTION_RECORD":
                self._rows.extend(self._held)
            self._held = None
            self._rows.append(row)
        else:
            (self._rows if self._held is None else self._held).append(row)


def _batch(text: bytes) -> _Batch:
    offsets, epoch = _BATCH.match(text), _RAFT_EPOCH.search(text)
    valid = text.endswith(b" isvalid: true")
    if offsets is None or epoch is None or not (valid or text.endswith(b" isvalid: false")):
        raise _BadLineError("batch line is cut off")
    return _Batch(int(offsets[1]), int(offsets[2]), int(epoch[1]), valid)


def _content(text: bytes) -> tuple[str, int | None, Columns, bool]:
    """Type, version and columns of a record line, and whether it is a control record."""
    at = text.find(b" payload: ")
    if at < 0:
        return (*_control(text), True)
    payload = text[at + len(b" payload: ") :]
    if payload.startswith(b"Error at "):
        raise _BadLineError("kafka-dump-log could not decode the record")
    try:
        record = _PAYLOAD.decode(payload)
        return record.type, record.version, _columns(record.type, record.data), False
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
        return record_type, int(version[1]), _columns(record_type, control[3])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _BadLineError("control record is not whole") from error


def _columns(record_type: str, data: msgspec.Raw | bytes) -> Columns:
    decoder = _DATA.get(record_type)
    if decoder is None:
        return {}
    columns = decoder.decode(data).columns()
    if columns.get("topic_id") == _NO_TOPIC_ID:
        columns["topic_id"] = None
    return columns


DECODER: type[LineDecoder] = MetadataDump
