"""Segments and snapshots of the metadata log, with secrets overwritten: a KRaft quorum stores passwords there as text.

Values of dynamic settings, credentials, tokens and all records of unknown layout are overwritten, and the checksums are
computed again. Batches keep their places, sizes and offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import BinaryIO, Final

import google_crc32c

from epochaudit.collecting.secrets import MASK, is_harmless
from epochaudit.events.event_types import CONFIG_RECORD
from epochaudit.sources.metadata_log.schema import Content, read_record
from epochaudit.sources.record_batches.batches import BadRecordError, Batch, Padding, batches, records, unsigned_varint

_HEADER_SIZE: Final = 61
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_CRC: Final = Struct(">I")
_GARBAGE: Final = b"\xff"


@dataclass
class MetadataLog:
    """Masks a metadata log. masked: number of overwritten values. damaged: overwritten bytes that were no readable batch."""

    masked: int = 0
    damaged: int = 0

    def pieces(self, stream: BinaryIO, second_reader: BinaryIO) -> Iterator[bytes]:
        """The bytes to collect. second_reader: another stream of the same bytes, which stands at the next batch."""
        for stretch in batches(stream):
            if isinstance(stretch, Batch):
                yield self._batch(stretch, second_reader.read(stretch.size))
            else:
                second_reader.read(stretch.size)
                padding = isinstance(stretch, Padding)
                self.damaged += 0 if padding else stretch.size
                yield (b"\0" if padding else _GARBAGE) * stretch.size

    def _batch(self, batch: Batch, stored: bytes) -> bytes:
        if batch.is_control:
            return stored
        spans, known = [], batch.codec == 0
        at = _HEADER_SIZE
        try:
            for record in records(batch):
                value = record.value or b""
                spans_of_value = list(_spans_to_mask(value))
                if spans_of_value and known:
                    start = stored.index(value, at)
                    spans += [(start + first, start + last) for first, last in spans_of_value]
                    at = start + len(value)
                elif spans_of_value or record.headers or record.key:
                    return self._unreadable(stored)  # Kafka writes no such record
        except (BadRecordError, ValueError):
            return self._unreadable(stored)
        if not spans:
            return stored
        self.masked += len(spans)
        masked = bytearray(stored)
        for start, end in spans:
            masked[start:end] = MASK * (end - start)
        masked[_CRC_AT:_CHECKED_FROM] = _CRC.pack(google_crc32c.value(bytes(masked[_CHECKED_FROM:])))
        return bytes(masked)

    def _unreadable(self, stored: bytes) -> bytes:
        self.damaged += len(stored)
        return _GARBAGE * len(stored)


def _spans_to_mask(value: bytes) -> Iterator[tuple[int, int]]:
    """The spans of a record's value that must be overwritten."""
    try:
        content = read_record(value)
    except BadRecordError:
        yield 0, len(value)
        return
    if content.fields is None:
        yield _body(value), len(value)
    elif content.type == CONFIG_RECORD:
        yield from _setting(value, content)


def _body(value: bytes) -> int:
    """Where a record's fields begin: after its frame version, type and version."""
    at = 0
    for _ in range(3):
        _, at = unsigned_varint(value, at)
    return at


def _setting(value: bytes, content: Content) -> Iterator[tuple[int, int]]:
    fields = content.fields or {}
    name, setting = str(fields.get("name")).encode(), fields.get("value")
    if isinstance(setting, str) and setting and not is_harmless(name, setting.encode()):
        start = value.rindex(setting.encode())
        yield start, start + len(setting.encode())
