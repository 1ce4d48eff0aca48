"""What the fuzzer checks: it notices a decoder that loses a line, or gives other rows where a file is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from epochaudit.sources.formats import BY_KIND
from epochaudit.sources.scan import datasource
from prove.fuzz import check, kinds, parts

LINES = (
    b"[2026-11-21 04:00:01,000] INFO [Partition t-0 broker=1] ISR updated to 1,2 and version updated to 7 (kafka.cluster.Partition)\n"
    b"[2026-11-21 04:00:02,000] INFO [Partition t-0 broker=1] ISR updated to 1,2,3 and version updated to 8 (kafka.cluster.Partition)\n"
)


def decoded_with(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    original = datasource.decoded

    def changed(*arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        return change(original(*arguments, **options))

    monkeypatch.setattr(datasource, "decoded", changed)


def test_recorded_lines_pass(tmp_path: Path) -> None:
    check("server-log", tmp_path)(LINES)
    check("server-log", tmp_path)(LINES[:-40])
    check("server-log", tmp_path)(b"\xff\n\n")


def test_lines_without_statistics_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter([*batches][:-1])

    decoded_with(monkeypatch, without_last)
    with pytest.raises(AssertionError, match="0 lines of 2"):
        check("server-log", tmp_path)(LINES)


def test_rows_that_depend_on_the_range_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(9))

    def without_first_in_ranges(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches if next(calls) == 0 else islice(batches, 1, None)

    decoded_with(monkeypatch, without_first_in_ranges)
    with pytest.raises(AssertionError, match="rows differ"):
        check("server-log", tmp_path)(LINES)


def test_inputs_are_short_and_all_kinds_are_decoded() -> None:
    assert all(0 < len(part) <= 4096 for part in parts(LINES * 100))
    assert len(parts(LINES * 100)) > 10
    assert {kind for kind, known in BY_KIND.items() if known.decoder or known.stream_decoder} - set(kinds()) == {
        "empty",
        "capture-manifest",
    }
