"""Large request logs, scanned by compiled code: nearly all of such a log are lines of the same few shapes.

The scanner makes rows of Fetches. In text it also makes rows of the other APIs that are many and large, counts requests of
which no more is told, and notes where the remaining ones are, for the decoder to read. It takes a line only if it is
printed exactly as Kafka prints it in the stock layout; every other line is left to the decoder of all lines, so that what
comes out is the same with it and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from epochaudit.sources.layouts import STOCK, Layout

if TYPE_CHECKING:
    from epochaudit.sources.capture import RecordedFile
    from epochaudit.sources.request_scan.scanner import RequestScanner
    from epochaudit.sources.sink import RowSink

TEXT: Final = "request-log-text"
KINDS: Final = frozenset({"request-log-json", TEXT})
ENOUGH: Final = 96e6
"""Bytes of a JSON request log, or half as many of text, from which on a process is faster with the scanner: loading numba
and the compiled code takes it 0.3 s, which is what the scanner saves it in 80 MB."""


def scans(file: RecordedFile) -> bool:
    """Whether a scanner may take lines of the file."""
    return file.kind in KINDS and Layout(file.envelope, file.pattern) == STOCK


def pays(cost: float) -> bool:
    """Whether a process that decodes so much (ByteRange.cost of files with a scanner) should use it; if loaded, it does."""
    return cost >= ENOUGH or _scanners.cache_info().currsize > 0


def scanner_for(file: RecordedFile, sink: RowSink) -> RequestScanner | None:
    """What takes lines of the file and puts rows into the sink; None where it can't be had."""
    made = _scanners().get(file.kind) if scans(file) else None
    return None if made is None else made(sink)


@cache
def _scanners() -> Mapping[str, Callable[[RowSink], RequestScanner]]:
    """By kind of file; none where numba is missing, or has no directory to keep compiled code in: to compile it takes each
    process longer than most logs do.
    """
    try:
        from epochaudit.sources.request_scan import scanner

        scanner.load()
    except Exception:  # whatever a release of numba or a machine can't do costs time, and no audit
        return {}
    return {"request-log-json": scanner.of_json, TEXT: scanner.of_text}
