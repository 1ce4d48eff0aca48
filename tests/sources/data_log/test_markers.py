"""Transaction markers of segments and of dumps: the ends of runs."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest

from epochaudit.collecting.headers import dump
from epochaudit.sources.data_log.dump import DataDump
from epochaudit.sources.data_log.markers import marker_of
from epochaudit.sources.data_log.segment import DataSegment, texts_at
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.sink import RowSink
from tests.sources.batch_writer import TIME, Written, batch, marker
from tests.sources.decoding import drained

PATH = "broker-1/data/orders-0/00000000000000000000.log"
NAMES = ("batch_base_offset", "producer_id", "producer_epoch", "coordinator_epoch", "committed", "leader_epoch")
HEADER_SIZE = 61


def of_segment(log: bytes) -> list[dict[str, Any]]:
    sink = RowSink(CaptureFile(PATH, PATH, DataSegment.kind, "c", 0, node=1, source="log_segment"), 0)
    list(DataSegment(sink._file, sink).read(io.BytesIO(log)))
    return [row for row in drained(sink)[0] if row["event_type"] == "TRANSACTION_MARKER"]


def of_dump(*lines: str) -> tuple[list[dict[str, Any]], list[str]]:
    sink = RowSink(CaptureFile("dump.txt", "dump.txt", DataDump.kind, "c", 0, node=1, source="log_segment"), 0)
    decoder = DataDump(sink._file, sink)
    outcomes = [decoder.line(line.encode(), 100 * number, number).name for number, line in enumerate(lines, 1)]
    decoder.finish()
    return [row for row in drained(sink)[0] if row["event_type"] == "TRANSACTION_MARKER"], outcomes


def columns_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in NAMES) for row in rows]


def test_a_marker_has_its_epochs_and_its_place() -> None:
    first = batch(0, b"a", producer_id=7, producer_epoch=3)
    [row] = of_segment(first + marker(1, 7, 3, 5, commits=False, epoch=4))
    assert columns_of([row]) == [(1, 7, 3, 5, False, 4)]
    assert (row["topic"], row["partition"], row["timestamp"]) == ("orders", 0, TIME)
    assert (row["byte_offset"], row["line_in_split"], row["partition_row"]) == (len(first), 2, 1)
    assert "time_ms" not in row


def test_of_a_run_the_first_and_the_last_marker_are_rows() -> None:
    log = b"".join(marker(offset, 7, 3 + offset, 5) for offset in range(4))
    assert [row["batch_base_offset"] for row in of_segment(log)] == [0, 3]


@pytest.mark.parametrize(
    "second",
    [marker(2, 7, 4, 6), marker(2, 7, 4, 4), marker(2, 7, 3, 5)],
    ids=["newer coordinator", "older coordinator", "older producer"],
)
def test_a_change_of_the_coordinator_epoch_or_a_fall_of_the_producer_epoch_begins_a_run(second: bytes) -> None:
    log = marker(0, 7, 3, 5) + marker(1, 7, 4, 5) + second + marker(3, 7, 4, 6)
    assert {0, 1, 2, 3} == {row["batch_base_offset"] for row in of_segment(log)}


def test_each_producer_id_has_its_runs() -> None:
    log = b"".join(marker(offset, 7 + offset % 2, 3, 5 + offset % 2) for offset in range(6))
    assert {0, 1, 4, 5} == {row["batch_base_offset"] for row in of_segment(log)}


def test_other_control_records_and_batches_without_records_are_no_markers() -> None:
    leader_change = Written(b"", struct.pack(">hh", 0, 2))
    assert of_segment(batch(0, leader_change, control=True) + batch(1, control=True)) == []
    whole = marker(0, 7, 3, 5)[HEADER_SIZE:]
    assert marker_of(whole) == ("COMMIT", 5)
    assert [marker_of(whole[:size]) for size in range(len(whole) - 2)] == [None] * (len(whole) - 2)


def test_what_is_collected_of_a_segment_has_the_same_markers() -> None:
    large = batch(0, b"x" * 200_000, producer_id=7, producer_epoch=3)
    log = large + b"".join(marker(1 + offset, 7, 3, 5 + offset, commits=offset % 2 == 0) for offset in range(3_000))
    lines = b"".join(dump(io.BytesIO(log), PATH)).decode().splitlines()
    rows, outcomes = of_dump(*lines)
    assert columns_of(rows) == columns_of(of_segment(log))
    assert len(rows) == 3_000
    assert outcomes.count("EVENT") == 6_001  # each batch, and each marker


def test_only_the_line_behind_its_batch_is_a_marker() -> None:
    lines = b"".join(dump(io.BytesIO(marker(0, 7, 3, 5) + batch(1, b"a")), PATH)).decode().splitlines()
    head, control, record, data = lines
    assert record.endswith("endTxnMarker: COMMIT coordinatorEpoch: 5")
    assert of_dump(head, data, record)[0] == []
    assert of_dump(record)[1] == ["IGNORED"]
    [row], _ = of_dump(head, control, record)
    assert row["byte_offset"] == 300


def test_evidence_shows_the_coordinator_epoch() -> None:
    [(_, text)] = texts_at(io.BytesIO(marker(0, 7, 3, 5)), [0])
    assert "producerId: 7 producerEpoch: 3" in text
    assert text.endswith("endTxnMarker: COMMIT coordinatorEpoch: 5")
