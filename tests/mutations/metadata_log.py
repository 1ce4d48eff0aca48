"""Edits of a metadata log that was recorded twice, as raw segment and as dump: both stay what Kafka writes.

Records keep their offsets: what is added takes the place of a NoOpRecord, and what is removed becomes one.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tests.sources.batch_writer import Layout, Written, crc32c, layouts, metadata_record, record

NO_OP: Final = "NO_OP_RECORD"

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PAYLOAD: Final = re.compile(r"^(\| offset: (\d+) .* valueSize: )\d+( .* payload: )(\{.*\})$")
_BATCH_LINE: Final = "baseOffset: "
_COUNTED: Final = re.compile(r"(position|size|crc|partitionLeaderEpoch): \d+")


@dataclass
class Record:
    """A record of the log; control records have no type."""

    offset: int
    line: str  # of the dump
    time_delta: int
    key: bytes | None
    value: bytes
    batch: Batch

    @property
    def type(self) -> str | None:
        return str(self._payload["type"]) if _PAYLOAD.match(self.line) else None

    @property
    def data(self) -> dict[str, Any]:
        """The fields that the dump prints."""
        return dict(self._payload["data"])

    @property
    def _payload(self) -> dict[str, Any]:
        match = _PAYLOAD.match(self.line)
        assert match is not None, self.line
        payload: dict[str, Any] = json.loads(match[4])
        return payload

    def change(self, **data: Any) -> None:
        """Set fields; None takes one away."""
        self._write(str(self.type), int(self._payload["version"]), _merged(self.data, data))

    def become(self, other: Record, **data: Any) -> None:
        """Take the type and the fields of another record, with these changes."""
        self._write(str(other.type), int(other._payload["version"]), _merged(other.data, data))

    def become_new(self, type: str, version: int, **data: Any) -> None:
        """Be a record of a type that the log may have none of."""
        self._write(type, version, data)

    def become_no_op(self) -> None:
        self._write(NO_OP, 0, {})

    def _write(self, type: str, version: int, data: dict[str, Any]) -> None:
        self.value = metadata_record(_layout(type, version), data)
        payload = json.dumps({"type": type, "version": version, "data": data}, separators=(",", ":"))
        match = _PAYLOAD.match(self.line)
        assert match is not None, self.line
        self.line = f"{match[1]}{len(self.value)}{match[3]}{payload}"
        self.batch.changed = True


@dataclass
class Batch:
    """A batch of records; `raw` is what the segment holds of it."""

    raw: bytes
    line: str  # of the dump
    records: list[Record]
    changed: bool = False

    @property
    def control(self) -> bool:
        return bool(_HEADER.unpack_from(self.raw)[5] & 0x20)

    @property
    def time_ms(self) -> int:
        """Its latest CreateTime, milliseconds since the Unix epoch."""
        return int(_HEADER.unpack_from(self.raw)[8])

    def set_raft_epoch(self, epoch: int) -> None:
        """Give the batch another partitionLeaderEpoch, which the CRC does not cover."""
        self.raw = self.raw[:12] + struct.pack(">i", epoch) + self.raw[16:]
        self.line = re.sub(r"partitionLeaderEpoch: \d+", f"partitionLeaderEpoch: {epoch}", self.line)

    def encoded(self) -> bytes:
        """As the segment holds it."""
        if not self.changed:
            return self.raw
        base, _, epoch, magic, _, *fields = _HEADER.unpack_from(self.raw)
        body = b"".join(record(Written(r.value, r.key, time_delta=r.time_delta), r.offset - base) for r in self.records)
        checked = struct.pack(">hiqqqhii", *fields) + body
        rest = struct.pack(">ibI", epoch, magic, crc32c(checked)) + checked
        return struct.pack(">qi", base, len(rest)) + rest

    def printed(self, position: int) -> list[str]:
        """Its lines of the dump, when it stands at this byte of the segment."""
        data = self.encoded()
        counts = {
            "position": position,
            "size": len(data),
            "crc": _HEADER.unpack_from(data)[4],
            "partitionLeaderEpoch": _HEADER.unpack_from(data)[2],
        }
        line = _COUNTED.sub(lambda match: f"{match[1]}: {counts[match[1]]}", self.line)
        return [line, *(r.line for r in self.records)]


@dataclass
class MetadataLog:
    """The log as batches of records."""

    head: list[str]  # lines of the dump before the first batch
    batches: list[Batch]

    @classmethod
    def read(cls, segment: bytes, dump: str) -> MetadataLog:
        """From both copies. Raises AssertionError where they are not of one log."""
        lines = dump.rstrip("\n").split("\n")
        first = next(index for index, line in enumerate(lines) if line.startswith(_BATCH_LINE))
        log = cls(lines[:first], [])
        position = 0
        for line in lines[first:]:
            if line.startswith(_BATCH_LINE):
                size = 12 + struct.unpack_from(">i", segment, position + 8)[0]
                log.batches.append(Batch(segment[position : position + size], line, []))
                position += size
            else:
                batch = log.batches[-1]
                batch.records.append(_recorded(batch, len(batch.records), line))
        assert position == len(segment), "the dump does not end where the segment does"
        return log

    def records(self, type: str, after: int = -1, **data: Any) -> Iterator[Record]:
        """The records of a type behind an offset whose fields have these values, by offset."""
        for found in (one for batch in self.batches for one in batch.records):
            same = all(found.data.get(name) == value for name, value in data.items()) if found.type == type else False
            if same and found.offset > after:
                yield found

    def record(self, type: str, after: int = -1, **data: Any) -> Record:
        """The first of them."""
        return next(self.records(type, after, **data))

    def no_op_after(self, offset: int) -> Record:
        """The next NoOpRecord, whose place something else can take."""
        return self.record(NO_OP, offset)

    def segment(self) -> bytes:
        return b"".join(batch.encoded() for batch in self.batches)

    def dump(self) -> str:
        lines, position = list(self.head), 0
        for batch in self.batches:
            lines += batch.printed(position)
            position += len(batch.encoded())
        return "\n".join(lines) + "\n"


def _merged(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    removed = {name for name, value in changes.items() if value is None}
    return {name: value for name, value in (data | changes).items() if name not in removed}


def _recorded(batch: Batch, index: int, line: str) -> Record:
    offset = int(line.removeprefix("| offset: ").partition(" ")[0])
    time_delta, key, value = _raw_records(batch.raw)[index]
    return Record(offset, line, time_delta, key, value, batch)


@cache
def _raw_records(raw: bytes) -> list[tuple[int, bytes | None, bytes]]:
    """Time delta, key and value of an uncompressed batch's records."""
    found, at = [], _HEADER.size
    while at < len(raw):
        _, at = _signed(raw, at)  # length
        time_delta, at = _signed(raw, at + 1)  # attributes
        _, at = _signed(raw, at)  # offset delta
        key, at = _sized(raw, at)
        value, at = _sized(raw, at)
        headers, at = _signed(raw, at)
        assert not headers, "metadata records have no headers"
        assert value is not None, "metadata records have a value"
        found.append((time_delta, key, value))
    return found


def _signed(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (raw[at] & 0x7F) << shift
        shift += 7
        at += 1
        if raw[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _sized(raw: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _signed(raw, at)
    return (None, at) if size < 0 else (raw[at : at + size], at + size)


@cache
def _layout(type: str, version: int) -> Layout:
    for layout in layouts("records"):
        if (layout.name, layout.version, layout.frame) == (type, version, 1):
            return layout
    raise LookupError(f"schemas/metadata_records.toml has no fields of {type} {version}")
