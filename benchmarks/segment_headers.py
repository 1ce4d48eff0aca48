"""Cost of reading a partition's segments: `python benchmarks/segment_headers.py [FOLDER]`.

Writes segments of batches of several sizes, sparse files with real headers (and, where batches are small enough to have their
checksums computed, right ones), and decodes each twice: the second time is counted, with the file in the page cache.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Final

import google_crc32c

from epochaudit.sources.data_log.segment import HEADER, DataSegment
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.sink import RowSink

TIME: Final = 1_795_237_742_700
SIZES: Final = (  # bytes of a batch, records in it, bytes of the segment
    (512, 1, 1 << 28),
    (1 << 10, 2, 1 << 29),
    (1 << 12, 8, 1 << 30),
    (1 << 13, 16, 1 << 30),
    (1 << 14, 32, 1 << 30),
    (1 << 17, 200, 1 << 32),
    (1 << 20, 1000, 1 << 33),
)


def write(path: Path, size: int, records: int, total: int) -> None:
    """A segment of one leader epoch."""
    payload = bytes(size - HEADER.size)
    checked = struct.pack(">hiqqqhii", 0, records - 1, TIME, TIME, -1, -1, -1, records)
    header = struct.pack(">iBI", 5, 2, google_crc32c.value(checked + payload)) + checked
    with path.open("wb") as file:
        for number in range(total // size):
            file.seek(number * size)
            file.write(struct.pack(">qi", number * records, size - 12) + header)
        file.truncate(total // size * size)


def seconds(path: Path) -> tuple[float, int]:
    """CPU seconds of decoding it into columns, and its batches."""
    file = CaptureFile(str(path), str(path), DataSegment.kind, "c", path.stat().st_size, node=1, source="log_segment")
    sink, batches, start = RowSink(file, 0), 0, process_time()
    with file.open() as stream:
        for _, (found, _, bad) in DataSegment(file, sink).read(stream):
            if bad:
                raise SystemExit("a batch was not taken for one")
            batches += found
    sink.drain()
    return process_time() - start, batches


def main(folder: str | None) -> None:
    """A line for each size."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = Path(name) / "orders-0" / "00000000000000000000.log"
        path.parent.mkdir()
        for size, records, total in SIZES:
            write(path, size, records, total)
            seconds(path)
            cost, batches = seconds(path)
            per_second, per_batch = total / cost / 1e9, cost / batches * 1e6
            print(f"batches of {size:>9,} bytes: {per_second:6.2f} GB per CPU-second, {per_batch:5.2f} us a batch")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
