"""The batch headers of a data segment as text, in the format of kafka-dump-log (kafka.tools.DumpLogSegments).

Audits read this format and operators know it. Of records only transaction markers are decoded, which brokers write: they have
a line of their own behind that of their batch. Batches up to _NEAR bytes are read with their headers because seeking costs
more. `isvalid` is left out: no checksum is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from epochaudit.sources.data_log.batch_runs import LEGACY, Header
from epochaudit.sources.data_log.markers import KEY, VALUE, marker_of
from epochaudit.sources.data_log.segment import HEADER, header_at
from epochaudit.sources.record_batches.batches import Padding, damage_at

SUFFIX: Final = ".txt"
_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_NEAR: Final = 1 << 13  # batches of up to so many bytes cost less to read than to seek past
_BLOCK: Final = 1 << 17
_LINES: Final = 1 << 12


def dump(stream: BinaryIO, path: str) -> Iterator[bytes]:
    """The dump of a segment, in pieces. path: printed in its first line. The stream must be seekable."""
    lines = [f"Dumping {path}"]
    for line in _lines(stream):
        lines.append(line)
        if len(lines) >= _LINES:
            yield _text(lines)
            lines = []
    yield _text(lines)


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(stream: BinaryIO) -> Iterator[str]:
    end = stream.seek(0, 2)
    position, buffer_start, buffer, window = 0, 0, b"", _BLOCK
    while position < end:
        if position + HEADER.size > buffer_start + len(buffer):
            stream.seek(position)
            buffer_start, buffer = position, stream.read(window)
        header = header_at(buffer, position - buffer_start, position)
        if header is not None and position + header.size <= end:
            yield _line(header)
            if header.attributes & _CONTROL:
                if position + header.size > buffer_start + len(buffer):
                    stream.seek(position)
                    buffer_start, buffer = position, stream.read(max(_BLOCK, header.size))
                begin = position - buffer_start
                yield from _marker_line(header, buffer[begin + HEADER.size : begin + header.size])
            position += header.size
            window = HEADER.size if header.size > _NEAR else _BLOCK
            continue
        stream.seek(position)
        damage = damage_at(stream, position)
        if not isinstance(damage, Padding):
            yield f"Found {damage.size} invalid bytes at position {position}"
        position += max(damage.size, 1)


def _line(header: Header) -> str:
    attributes = header.attributes
    clock = "LogAppendTime" if attributes & _APPEND_TIME else "CreateTime"
    place = (
        f"position: {header.byte_offset} {clock}: {header.timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {_CODECS[attributes & 0x07]} crc: {header.crc}"
    )
    if header.magic < LEGACY:
        return f"offset: {header.last_offset} {place}"
    horizon = f"OptionalLong[{header.base_timestamp}]" if attributes & _DELETE_HORIZON else "OptionalLong.empty"
    first = header.base_sequence
    last = -1 if first < 0 else (first + header.last_offset - header.base_offset) & 0x7FFFFFFF
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
        f"baseSequence: {first} lastSequence: {last} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {_java_boolean(attributes & _TRANSACTIONAL)} isControl: {_java_boolean(attributes & _CONTROL)} "
        f"deleteHorizonMs: {horizon} {place}"
    )


def _marker_line(header: Header, records: bytes) -> Iterator[str]:
    marker = marker_of(records)
    if marker is not None:
        clock = "LogAppendTime" if header.attributes & _APPEND_TIME else "CreateTime"
        yield (
            f"| offset: {header.base_offset} {clock}: {header.timestamp} keySize: {KEY.size} valueSize: {VALUE.size} sequence: -1 "
            f"headerKeys: [] endTxnMarker: {marker[0]} coordinatorEpoch: {marker[1]}"
        )


def _java_boolean(flag: int) -> str:
    return "true" if flag else "false"
