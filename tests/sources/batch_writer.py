"""Writes record batches and metadata records, apart from the code that reads them."""

from __future__ import annotations

import gzip
import struct
import tomllib
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from google_crc32c import value as crc32c

LAYOUTS = tomllib.loads((Path(__file__).parents[2] / "schemas" / "metadata_records.toml").read_text())
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TIME = 1_795_237_742_700


def unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def signed(value: int) -> bytes:
    return unsigned(value * 2 if value >= 0 else -value * 2 - 1)


def sized(value: bytes | None) -> bytes:
    return signed(-1) if value is None else signed(len(value)) + value


@dataclass(frozen=True)
class Written:
    """A record to be written."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    time_delta: int = 0


def record(written: Written, offset_delta: int) -> bytes:
    headers = b"".join(sized(name.encode()) + sized(value) for name, value in written.headers)
    body = b"\0" + signed(written.time_delta) + signed(offset_delta) + sized(written.key) + sized(written.value)
    body += signed(len(written.headers)) + headers
    return signed(len(body)) + body


def batch(
    base_offset: int,
    *written: Written | bytes,
    codec: str = "none",
    control: bool = False,
    append_time_ms: int | None = None,
    epoch: int = 3,
    producer_id: int = -1,
    producer_epoch: int = -1,
    content: bytes | None = None,
) -> bytes:
    """A batch of these records; `content` replaces what is stored of them."""
    records = [one if isinstance(one, Written) else Written(one) for one in written]
    plain = b"".join(record(one, delta) for delta, one in enumerate(records))
    stored = compressed(plain, codec) if content is None else content
    attributes = CODECS[codec] | (0x08 if append_time_ms is not None else 0) | (0x20 if control else 0)
    last = max(len(records) - 1, 0)
    newest = append_time_ms if append_time_ms is not None else TIME + max((r.time_delta for r in records), default=0)
    checked = (
        struct.pack(">hiqqqhii", attributes, last, TIME, newest, producer_id, producer_epoch, -1, len(records)) + stored
    )
    rest = struct.pack(">ibI", epoch, 2, crc32c(checked)) + checked
    return struct.pack(">qi", base_offset, len(rest)) + rest


def marker(
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    commits: bool = True,
    epoch: int = 3,
) -> bytes:
    """The batch of a transaction marker (EndTransactionMarker)."""
    written = Written(struct.pack(">hi", 0, coordinator_epoch), struct.pack(">hh", 0, int(commits)))
    return batch(
        base_offset, written, control=True, epoch=epoch, producer_id=producer_id, producer_epoch=producer_epoch
    )


def compressed(plain: bytes, codec: str) -> bytes:
    """As Kafka's clients do: snappy in snappy-java's blocks, the others as one stream."""
    if codec == "none":
        return plain
    if codec == "gzip":
        return gzip.compress(plain)
    if codec == "snappy":
        blocks = [pa.compress(plain[at : at + 100], "snappy", asbytes=True) for at in range(0, len(plain), 100)]
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(plain)
    return sink.getvalue().to_pybytes()


def versions(stated: str) -> range:
    oldest, _, newest = stated.partition("-")
    return range(int(oldest), int(newest or oldest) + 1)


def has(field: Mapping[str, Any], version: int) -> bool:
    return version >= int(field.get("versions", "0+").rstrip("+"))


@dataclass(frozen=True)
class Layout:
    """A way in which a version of a record type is written."""

    name: str
    key: int
    version: int
    frame: int
    flexible: bool
    fields: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        return f"{self.name} {self.version}{'' if self.frame else ' of 2.8'}"


def layouts(kind: str) -> Iterator[Layout]:
    """Every layout of every version in the table."""
    for name, layout_table in LAYOUTS[kind].items():
        for layout in [layout_table, *layout_table.get("earlier", ())] if "fields" in layout_table else []:
            for version in versions(layout["versions"]):
                frame, flexible = layout.get("frame", 1), layout.get("flexible", True)
                yield Layout(name, layout_table["key"], version, frame, flexible, layout["fields"])


def metadata_record(layout: Layout, values: Mapping[str, Any], unknown_tag: int | None = None) -> bytes:
    """The record's value, frame first. `unknown_tag`: a tagged field of this number is written, too."""
    return unsigned(layout.frame) + unsigned(layout.key) + unsigned(layout.version) + body(layout, values, unknown_tag)


def body(layout: Layout, values: Mapping[str, Any], unknown_tag: int | None = None) -> bytes:
    return struct_of(layout.fields, values, layout, unknown_tag)


def struct_of(
    fields: Sequence[Mapping[str, Any]], values: Mapping[str, Any], layout: Layout, unknown_tag: int | None = None
) -> bytes:
    out, tagged = b"", {} if unknown_tag is None else {unknown_tag: b"whatever"}
    for field in fields:
        if not has(field, layout.version):
            continue
        if "tag" not in field:
            out += value_of(field["type"], values[field["name"]], layout)
        elif field["name"] in values:
            tagged[field["tag"]] = value_of(field["type"], values[field["name"]], layout)
    if not layout.flexible:
        return out
    return out + unsigned(len(tagged)) + b"".join(unsigned(tag) + unsigned(len(v)) + v for tag, v in tagged.items())


def value_of(kind: str, value: Any, layout: Layout) -> bytes:
    if kind.startswith("[]"):
        size = -1 if value is None else len(value)
        head = unsigned(size + 1) if layout.flexible else struct.pack(">i", size)
        return head + b"".join(value_of(kind[2:], one, layout) for one in value or ())
    if kind == "string":
        data = None if value is None else value.encode()
        size = -1 if data is None else len(data)
        return (unsigned(size + 1) if layout.flexible else struct.pack(">h", size)) + (data or b"")
    if kind == "uuid":
        return urlsafe_b64decode(value + "==")
    if kind in LAYOUTS["structs"]:
        return struct_of(LAYOUTS["structs"][kind], value, layout)
    formats = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "bool": ">?"}
    return struct.pack(formats[kind], value)


def metadata(record_type: str, /, **values: Any) -> bytes:
    """The value of a record of the newest version of a type."""
    known = [layout for layout in layouts("records") if layout.name == record_type and layout.frame == 1]
    newest = max(known, key=lambda layout: layout.version)
    return metadata_record(newest, values)


def control(kind: int, value: bytes) -> Written:
    """A control record: version and type in the key."""
    return Written(value, key=struct.pack(">hh", 0, kind))


def leader_change(leader: int, offset: int = 0, epoch: int = 3) -> bytes:
    """The batch that a new raft leader begins its epoch with."""
    value = struct.pack(">hi", 0, leader) + unsigned(1) + unsigned(1) + unsigned(0)
    return batch(offset, control(2, value), control=True, epoch=epoch)


def snapshot_header(offset: int = 0) -> bytes:
    return batch(offset, control(3, struct.pack(">hq", 0, TIME) + unsigned(0)), control=True)
