"""Raw segments of partitions: runs of batches, their digests, and what is damaged."""

from __future__ import annotations

import io
import struct
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochaudit.sources.data_log import segment as data_segment
from epochaudit.sources.data_log.batch_runs import GRAIN, log_of
from epochaudit.sources.data_log.segment import BLOCK, DataSegment, first_difference, recognise, texts_at
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.record_batches.batches import BAD_CHECKSUM, CUT_OFF
from epochaudit.sources.sink import RowSink
from tests.sources.batch_writer import CODECS, TIME, batch
from tests.sources.decoding import drained

PATH = "broker-1/data/orders-0/00000000000000000000.log"


class OneWay(io.BytesIO):
    """A stream as of a compressed file."""

    def seekable(self) -> bool:
        return False


def read(content: bytes | BinaryIO, path: str = PATH) -> tuple[list[dict[str, Any]], list[str], tuple[int, ...]]:
    """The rows, the reasons of what was put aside, and bytes, batches, ignored and quarantined stretches."""
    sink = RowSink(CaptureFile(path, path, DataSegment.kind, "c", 0, node=1, source="log_segment"), 0)
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    size, tally = 0, (0, 0, 0)
    for consumed, outcome in DataSegment(sink._file, sink).read(stream):
        size, tally = size + consumed, tuple(map(sum, zip(tally, outcome, strict=True)))
    rows, quarantined = drained(sink)
    return rows, [reason for _, reason in quarantined], (size, *tally)


def runs(content: bytes | BinaryIO, path: str = PATH) -> list[tuple[Any, ...]]:
    """Leader epoch, offsets, records, bytes and compaction of each run."""
    rows, reasons, _ = read(content, path)
    assert not reasons
    names = ("leader_epoch", "batch_base_offset", "batch_last_offset", "record_count", "records_size", "reason")
    return [tuple(row.get(name) for name in names) for row in rows]


def legacy(offset: int, magic: int, value: bytes = b"value", codec: int = 0) -> bytes:
    """A message of format 0 or 1, or a compressed set of them."""
    time = struct.pack(">q", TIME) if magic else b""
    checked = struct.pack(">bb", magic, codec) + time + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(checked) + 4, crc32(checked)) + checked


def test_batches_of_one_leader_epoch_are_one_row() -> None:
    log = batch(0, b"a", b"b", epoch=3) + batch(2, b"c", epoch=3) + batch(3, b"d", epoch=5)
    [first, second], reasons, read_in = read(log)
    assert (first["leader_epoch"], first["batch_base_offset"], first["batch_last_offset"]) == (3, 0, 2)
    assert (first["record_count"], first["timestamp"], first["topic"], first["partition"]) == (3, TIME, "orders", 0)
    assert (second["leader_epoch"], second["byte_offset"], second["line_in_split"]) == (5, first["records_size"], 3)
    assert "time_ms" not in first
    assert not reasons
    assert read_in == (len(log), 3, 0, 0)


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_not_read_whatever_their_compression(codec: str) -> None:
    assert runs(batch(0, b"a" * 500, b"b" * 500, codec=codec))[0][:4] == (3, 0, 1, 2)


@pytest.mark.parametrize("size", [10, 5_000, data_segment.SPARSE, BLOCK, 3 * BLOCK])
def test_batches_of_any_size_are_found(size: int) -> None:
    log = b"".join(batch(offset, b"x" * size, epoch=offset // 10) for offset in range(40))
    expected = [(epoch, 10 * epoch, 10 * epoch + 9, 10, len(log) // 4, None) for epoch in range(4)]
    assert runs(log) == expected
    assert runs(OneWay(log)) == expected


def test_control_records_are_no_records_of_an_application() -> None:
    assert runs(batch(0, b"a", b"b") + batch(2, b"", control=True))[0][:4] == (3, 0, 2, 2)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_have_offsets_and_no_epoch(magic: int) -> None:
    log = legacy(0, magic) + legacy(1, magic) + legacy(9, magic, b"x" * 300, codec=1)
    assert recognise(log)
    assert runs(log) == [(None, 0, 9, None, len(log), None)]
    assert runs(legacy(0, magic) + legacy(1, magic))[0][3] == 2
    assert runs(legacy(0, magic) + batch(1, b"a"))[1][:3] == (3, 1, 1)


def test_missing_offsets_are_traces_of_compaction() -> None:
    assert runs(batch(0, b"a") + batch(1, b"b"))[0][-1] is None
    assert runs(batch(0, b"a") + batch(5, b"b"))[0][-1] == "compacted"
    assert runs(batch(5, b"a"))[0][-1] == "compacted"
    assert runs(batch(5, b"a"), PATH.replace("0.log", "5.log"))[0][-1] is None


def test_an_empty_segment_shows_where_the_log_ends() -> None:
    [row], reasons, _ = read(b"", PATH.replace("0.log", "7.log"))
    assert (row["batch_base_offset"], row["batch_last_offset"], row["record_count"]) == (7, 6, 0)
    assert not reasons


def test_space_that_is_allocated_and_not_filled_is_no_damage() -> None:
    log = batch(0, b"a")
    [row], reasons, read_in = read(log + bytes(10_000))
    assert row["batch_last_offset"] == 0
    assert not reasons
    assert read_in == (len(log) + 10_000, 1, 0, 0)
    assert [row["batch_last_offset"] for row in read(bytes(10_000))[0]] == [-1]


def test_a_batch_that_is_still_being_copied_is_put_aside() -> None:
    log = batch(0, b"a") + batch(1, b"b" * 100)
    rows, reasons, read_in = read(log[:-30])
    assert [row["batch_last_offset"] for row in rows] == [0]
    assert reasons == [CUT_OFF]
    assert read_in == (len(log) - 30, 1, 0, 1)


def test_damage_costs_the_batches_that_it_covers() -> None:
    parts = [bytearray(batch(offset, b"x" * 50)) for offset in range(6)]
    parts[2][-1] ^= 1
    log = b"".join(parts)
    rows, reasons, read_in = read(log)
    assert [(row["batch_base_offset"], row["batch_last_offset"], row["record_count"]) for row in rows] == [(0, 5, 5)]
    assert "reason" not in rows[0]
    assert reasons == [BAD_CHECKSUM]
    assert read_in == (len(log), 5, 0, 1)


def test_garbage_gives_no_batches() -> None:
    log = batch(0, b"a") + b"\x07" * 999 + batch(1, b"b")
    rows, reasons, read_in = read(log)
    assert [(row["batch_base_offset"], row["batch_last_offset"]) for row in rows] == [(0, 1)]
    assert len(reasons) == 1
    assert read_in == (len(log), 2, 0, 1)


def digests(rows: list[dict[str, Any]]) -> dict[int, int]:
    """The digest of each grain."""
    found: dict[int, list[int]] = {}
    for entry in (entry for row in rows for entry in row["batch_digests"]):
        found.setdefault(entry["base_offset"] // GRAIN, []).append(entry["digest"])
    return {grain: reduce(xor, parts) for grain, parts in found.items()}


def test_digests_do_not_depend_on_how_the_log_is_cut() -> None:
    batches = [batch(10 * number, *(b"r" for _ in range(10)), epoch=4) for number in range(1000)]
    whole = read(b"".join(batches))[0]
    parts = [
        *read(b"".join(batches[:333]))[0],
        *read(b"".join(batches[333:334]), PATH.replace("00.log", "3330.log"))[0],
        *read(b"".join(batches[334:]), PATH.replace("00.log", "3340.log"))[0],
    ]
    assert digests(whole) == digests(parts)
    assert len(whole[0]["batch_digests"]) < 450  # those of the first and the last grain, and one of each in between
    changed = [*batches[:500], batch(5000, *(b"s" for _ in range(10)), epoch=4), *batches[501:]]
    other = digests(read(b"".join(changed))[0])
    assert {grain for grain, digest in digests(whole).items() if other[grain] != digest} == {5000 // GRAIN}


def test_two_batches_that_changed_places_give_another_digest() -> None:
    one, other = batch(0, b"a") + batch(1, b"b"), batch(0, b"b") + batch(1, b"a")
    assert digests(read(one)[0]) != digests(read(other)[0])


def test_the_first_different_batches_are_found_and_printed() -> None:
    one = batch(0, b"a") + batch(1, b"b") + batch(2, b"c", epoch=7)
    other = batch(0, b"a") + batch(1, b"b") + batch(2, b"d", epoch=8)
    at, other_at = first_difference(io.BytesIO(one), 0, io.BytesIO(other), 0)
    assert at == other_at == 2 * len(batch(0, b"a"))
    [(_, first), (_, text)] = texts_at(io.BytesIO(one), [0, at])
    assert first.startswith("baseOffset: 0 lastOffset: 0 count: 1 ")
    assert " partitionLeaderEpoch: 7 " in text
    assert text.endswith(" isvalid: true")
    damaged = bytearray(other)
    damaged[-1] ^= 1
    assert [text[-14:] for _, text in texts_at(io.BytesIO(damaged), [at])] == ["isvalid: false"]


@pytest.mark.parametrize(
    ("path", "log"),
    [
        ("b/orders-0/00000000000000000005.log", ("orders", 0, None)),
        ("b/orders.eu-1-12/00000000000000000005.log.gz", ("orders.eu-1", 12, None)),
        ("b/orders-0.2db743c043e14fa3990ad0b5d6effa41-delete/00000000000000000005.log", ("orders", 0, "delete")),
        ("b/orders-0.2db743c043e14fa3990ad0b5d6effa41-stray/00000000000000000005.log", ("orders", 0, "stray")),
        ("b/orders-0.2db743c043e14fa3990ad0b5d6effa41-future/00000000000000000005.log", ("orders", 0, "future")),
        ("b/orders-0/00000000000000000005.log.deleted", ("orders", 0, "deleted")),
        ("b/segments/orders-0.00000000000000000005.log", ("orders", 0, None)),
        ("b/data/00000000000000000005.log", None),
    ],
)
def test_folder_and_name_tell_the_log(path: str, log: tuple[str, int, str | None] | None) -> None:
    assert log_of(path) == log


def test_a_partition_is_no_node(tmp_path: Path) -> None:
    for name in ("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"):
        file = tmp_path / "k-0" / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    (tmp_path / "broker-3" / "k-1").mkdir(parents=True)
    (tmp_path / "broker-3" / "k-1" / "00000000000000000000.log").write_bytes(batch(0, b"a"))
    capture = discover(str(tmp_path))
    assert [node.id for node in capture.nodes] == [3]
    assert capture.file("k-0/00000000000000000000.log").kind == DataSegment.kind
    assert capture.file("k-0/00000000000000000000.index").node is None


def test_two_replicas_with_the_same_bytes_are_both_read(tmp_path: Path) -> None:
    for node in (1, 2):
        (tmp_path / f"broker-{node}" / "k-1").mkdir(parents=True)
        (tmp_path / f"broker-{node}" / "k-1" / "00000000000000000000.log").write_bytes(batch(0, b"a"))
    assert [file.duplicate_of for file in discover(str(tmp_path)).files] == [None, None]


SEGMENT = b"".join(
    [
        *(batch(offset, b"x" * (7 * offset), epoch=offset // 4) for offset in range(12)),
        batch(12, b"y" * 9_000, epoch=9),
        *(batch(offset, b"z" * 20_000, codec="gzip", epoch=9) for offset in range(13, 16)),
        *(legacy(offset, 1) for offset in range(16, 20)),
    ]
)


@given(
    hits=st.lists(st.tuples(st.integers(0, len(SEGMENT) - 1), st.binary(min_size=1, max_size=40)), max_size=5),
    end=st.integers(0, len(SEGMENT)),
    one_way=st.booleans(),
)
@settings(deadline=None)
def test_every_byte_is_accounted_for_whatever_was_hit(hits: list[tuple[int, bytes]], end: int, one_way: bool) -> None:
    log = bytearray(SEGMENT)
    for at, garbage in hits:
        log[at : at + len(garbage)] = garbage
    content = bytes(log[:end] if end else log)
    _, reasons, (size, _, ignored, quarantined) = read(OneWay(content) if one_way else content)
    assert size >= len(content) if one_way else size == len(content)
    assert (ignored, quarantined) == (0, len(reasons))
