"""Scans large request logs with compiled code: nearly all of their lines have a few shapes.

The scanner makes rows of Fetches, and in JSON of the answers to Produce. Of text logs it also makes rows of the other frequent
and large APIs, counts requests without rows, and notes the places of the rest for the decoder. It takes a line only if it is
printed exactly as Kafka prints it in the stock layout; the decoder reads every other line. The rows are the same with and without
the scanner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from epochaudit.sources.lines.layouts import STOCK, Layout
from epochaudit.sources.request_log.json import RequestLogDecoder
from epochaudit.sources.request_log.text import TextRequestLogDecoder

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import CaptureFile
    from epochaudit.sources.request_log.compiled.scanner import RequestScanner
    from epochaudit.sources.sink import RowSink

JSON: Final = RequestLogDecoder.kind
TEXT: Final = TextRequestLogDecoder.kind
ENOUGH: Final = 96e6
"""Bytes of a JSON request log (of text, half as many) from which the scanner pays: loading numba and the compiled code takes
a process 0.3 s, and the scanner saves as much in 80 MB."""


def scans(file: CaptureFile) -> bool:
    """Whether a scanner may take lines of the file."""
    return file.kind in (JSON, TEXT) and Layout(file.envelope, file.pattern) == STOCK


def pays(cost: float) -> bool:
    """Whether a process should use the scanner. cost: ByteRange.cost of its files with a scanner. Always if it is loaded."""
    return cost >= ENOUGH or _scanners.cache_info().currsize > 0


def load() -> None:
    """Load the compiled code now, so that processes that are forked have it."""
    _scanners()


def scanner_for(file: CaptureFile, sink: RowSink) -> RequestScanner | None:
    """The scanner for a file, which puts rows into the sink; None if there is none."""
    made = _scanners().get(file.kind) if scans(file) else None
    return None if made is None else made(sink)


@cache
def _scanners() -> Mapping[str, Callable[[RowSink], RequestScanner]]:
    """File kind -> scanner. Empty if numba is missing or has no directory for compiled code: compiling in each process
    would take longer than decoding most logs.
    """
    try:
        from epochaudit.sources.request_log.compiled import scanner

        scanner.load()
    except Exception:  # any failure of numba costs speed only, never the audit
        return {}
    return {JSON: scanner.of_json, TEXT: scanner.of_text}
