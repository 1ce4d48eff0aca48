"""Segments as kafka-dump-log prints them, of all releases."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from epochaudit.sources.data_log import dump as data_dump
from epochaudit.sources.data_log import segment as data_segment
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.sink import LineDecoder, RowSink, StreamDecoder
from tests.sources.batch_writer import batch
from tests.sources.decoding import drained

PATH = "/kafka/data/u-0/00000000000000000000.log"
# kafka-dump-log --files, of Kafka 1.0, 2.0, 2.3 and 4.1
V1_0 = (
    "baseOffset: 0 lastOffset: 9 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 2 "
    "isTransactional: false position: 0 CreateTime: 1795237932338 isvalid: true size: 151 magic: 2 compresscodec: NONE crc: 77"
)
V2_0 = V1_0.replace("lastOffset: 9 ", "lastOffset: 9 count: 10 ")
V2_3 = (
    "baseOffset: 0 lastOffset: 9 count: 10 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 2 "
    "isTransactional: false isControl: false position: 0 CreateTime: 1795237932338 size: 151 magic: 2 compresscodec: NONE crc: 77 "
    "isvalid: true"
)
V4_1 = V2_3.replace("isControl: false ", "isControl: false deleteHorizonMs: OptionalLong.empty ").replace(
    "NONE", "none"
)
LEGACY = "offset: 3 position: 0 CreateTime: 1795237932338 isvalid: true size: 40 magic: 1 compresscodec: NONE crc: 77"
RECORD = (
    "| offset: 0 CreateTime: 1795237932337 keySize: -1 valueSize: 2 sequence: -1 headerKeys: [] payload: baseOffset: 7"
)
RECORD_OF_2_2 = (
    "offset: 0 position: 0 CreateTime: 1795237932337 isvalid: true keysize: -1 valuesize: 2 magic: 2 compresscodec: NONE producerId: -1 "
    "producerEpoch: -1 sequence: -1 isTransactional: false headerKeys: [] payload: A0"
)


def rows_of(sink: RowSink) -> tuple[list[dict[str, Any]], list[str]]:
    rows, quarantined = drained(sink)
    return rows, [reason for _, reason in quarantined]


def sink_of(decoder: type[LineDecoder] | type[StreamDecoder], path: str) -> tuple[CaptureFile, RowSink]:
    file = CaptureFile(path, path, decoder.kind, "c", 0, node=1, source="log_segment")
    return file, RowSink(file, 0)


def read(*lines: str, path: str = "dump.txt") -> tuple[list[dict[str, Any]], list[str]]:
    """The rows, and why lines were put aside."""
    file, sink = sink_of(data_dump.DECODER, path)
    decoder = data_dump.DataDump(file, sink)
    offset = 0
    for number, line in enumerate(lines, 1):
        decoder.line(line.encode(), offset, number)
        offset += len(line) + 1
    decoder.finish()
    return rows_of(sink)


@pytest.mark.parametrize(
    ("line", "records"), [(V1_0, None), (V2_0, 10), (V2_3, 10), (V4_1, 10)], ids=["1.0", "2.0", "2.3", "4.1"]
)
def test_a_batch_of_each_release(line: str, records: int | None) -> None:
    assert data_dump.recognise(f"Dumping {PATH}\nStarting offset: 0\n{line}\n".encode())
    [row], reasons = read(f"Dumping {PATH}", "Starting offset: 0", line, RECORD)
    assert (row["topic"], row["partition"], row["leader_epoch"]) == ("u", 0, 2)
    assert (row["batch_base_offset"], row["batch_last_offset"], row.get("record_count")) == (0, 9, records)
    assert (row["records_size"], row["timestamp"]) == (151, 1795237932338)
    assert not reasons


def test_a_batch_of_an_old_message_format() -> None:
    [row], reasons = read(
        f"Dumping {PATH}", LEGACY.replace("offset: 3", "offset: 0"), LEGACY.replace("offset: 3", "offset: 1")
    )
    assert (row["batch_base_offset"], row["batch_last_offset"], row["record_count"]) == (0, 1, 2)
    assert "leader_epoch" not in row
    assert not reasons


def test_a_dump_and_the_segment_that_it_is_of_give_the_same_digests() -> None:
    log = batch(0, b"a", b"b", epoch=3, codec="gzip") + batch(2, b"c", epoch=4)
    file, sink = sink_of(data_segment.DECODER, PATH)
    list(data_segment.DataSegment(file, sink).read(io.BytesIO(log)))
    of_segment, _ = rows_of(sink)
    places = [row["byte_offset"] for row in of_segment]
    printed = [text for _, text in data_segment.texts_at(io.BytesIO(log), places)]
    of_dump, _ = read(f"Dumping {PATH}", *printed)
    assert len(of_dump) == 2
    for row, other in zip(of_segment, of_dump, strict=True):
        [one], [two] = row.pop("batch_digests"), other.pop("batch_digests")
        assert one["digest"] == two["digest"]
        names = ("leader_epoch", "batch_base_offset", "batch_last_offset", "record_count", "records_size", "timestamp")
        assert [row[name] for name in names] == [other[name] for name in names]


def test_one_file_may_hold_several_logs() -> None:
    rows, _ = read(f"Dumping {PATH}", V4_1, f"Dumping {PATH.replace('u-0', 'v-3')}", V4_1)
    assert [(row["topic"], row["partition"]) for row in rows] == [("u", 0), ("v", 3)]


def test_the_folder_names_the_log_of_a_dump_without_its_first_line() -> None:
    assert [row["topic"] for row in read(V4_1, path="broker-1/u-0/dump.txt")[0]] == ["u"]
    assert read(V4_1)[1] == ["no line or folder names the partition of the batch"]


def test_records_in_place_of_batches_tell_nothing() -> None:
    assert read(f"Dumping {PATH}", RECORD_OF_2_2) == ([], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (V4_1[:150], "batch line is cut off"),
        (V4_1[:-9], "batch line is cut off"),
        (V4_1.replace("isvalid: true", "isvalid: false"), "Kafka found the batch invalid: its checksum does not match"),
        (V1_0.replace("isvalid: true", "isvalid: false"), "Kafka found the batch invalid: its checksum does not match"),
        ("Found 12 invalid bytes at the end of 0.log", "cut off or overwritten"),
    ],
)
def test_bad_lines_are_put_aside(line: str, reason: str) -> None:
    assert read(f"Dumping {PATH}", line) == ([], [reason])


def test_payloads_are_never_taken_for_batches() -> None:
    assert not re.match("baseOffset", RECORD)
    rows, _ = read(f"Dumping {PATH}", V4_1, RECORD)
    assert len(rows) == 1
