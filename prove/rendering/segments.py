"""Batches of a segment in message format 2 (DefaultRecordBatch), with records that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

import google_crc32c

from prove.history import BatchRun


def batches(event: BatchRun) -> Iterator[bytes]:
    """The batches of a run."""
    for base in range(event.base, event.last + 1, event.batch_records):
        count = min(event.batch_records, event.last + 1 - base)
        checked = pack(">hiqqqhii", 0, count - 1, 1_770_000_000_000, 1_770_000_000_000, -1, -1, -1, count)
        checked += pack(">q", event.content) * count
        yield pack(">qiiBI", base, len(checked) + 9, event.epoch, 2, google_crc32c.value(checked)) + checked
