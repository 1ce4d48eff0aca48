"""One scan over a capture: who owns which line, what is counted, and that bad bytes spoil nothing but themselves."""

from __future__ import annotations

import bz2
import gc
import gzip
import lzma
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit.events.schema import columns
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.formats import is_read
from epochaudit.sources.scan import ranges
from epochaudit.sources.scan.datasource import batches, decode, decoded, read_capture, read_captures, read_events
from epochaudit.sources.scan.ranges import BLOCK, ByteRange, Lines, Unreadable, blocks, cut, lines_of, packed
from epochaudit.sources.sink import LineOutcome, RowSink
from tests.sources.request_log.test_json import REAL_LINE

OTHER_LINE = b"[2026-11-21 04:18:07,602] INFO nothing (x.Y)"


def recorded(path: Path, content: bytes, compression: str | None = None) -> CaptureFile:
    path.write_bytes(content)
    return CaptureFile(path.name, str(path), "request-log-json", "c", len(content), 1, "request_log", 0, compression)


def rows(parts: Iterable[ByteRange]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for part in parts:
        for batch in decoded(part):
            for row in batch.to_pylist():
                found[row["row_kind"]].append(row)
    return found


def whole(file: CaptureFile) -> ByteRange:
    return ByteRange(file, 0, 0, None)


# --- ranges


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.integers(0, 40), max_size=12),
    ended=st.booleans(),
    edges=st.lists(st.integers(0, 300), max_size=5),
    piece=st.sampled_from([1, 3, 16, 1 << 20]),
)
def test_each_line_belongs_to_one_range_however_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[int], ended: bool, edges: list[int], piece: int
) -> None:
    content = b"\n".join(b"%d" % (number % 10) * length for number, length in enumerate(lines)) + b"\n" * ended
    file = recorded(tmp_path_factory.getbasetemp() / "cut.log", content)
    bounds = sorted({0, len(content), *(edge for edge in edges if edge < len(content))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "PIECE", piece)
        patch.setattr(ranges, "SKIP", piece)
        found = [
            (stretch.byte_offset, stretch.data)
            for split, (start, end) in enumerate(pairwise(bounds))
            for stretch in lines_of(ByteRange(file, split, start, end))
            if isinstance(stretch, Lines)
        ]
    assert b"".join(data for _, data in found) == content
    assert all(content[offset : offset + len(data)] == data for offset, data in found)
    assert all(offset == 0 or content[offset - 1 : offset] == b"\n" for offset, _ in found)


def test_a_range_owns_the_lines_that_start_in_it(tmp_path: Path) -> None:
    file = recorded(tmp_path / "log", b"aaaa\nbbbb\ncccc\n")
    owned = [
        [s.data for s in lines_of(ByteRange(file, 0, *edge)) if isinstance(s, Lines)]
        for edge in ((0, 5), (5, 6), (6, 10), (10, 15))
    ]
    assert [b"".join(data) for data in owned] == [b"aaaa\n", b"bbbb\n", b"", b"cccc\n"]


def test_a_line_that_is_too_long_is_put_aside_and_the_next_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "LONGEST_LINE", 100)
    monkeypatch.setattr(ranges, "PIECE", 30)
    file = recorded(tmp_path / "log", b"ok\n" + b"x" * 500 + b"\nok\n" + b"y" * 500)
    first, long, last, unended = lines_of(whole(file))
    assert isinstance(long, Unreadable)
    assert isinstance(unended, Unreadable)
    assert (first, last) == (Lines(b"ok\n", 0), Lines(b"ok\n", 504))
    assert (long.byte_offset, long.size, long.reason) == (3, 501, "line longer than 100 bytes")
    assert (unended.byte_offset, unended.size) == (507, 500)


def test_large_files_are_cut_small_ones_share_a_task_compressed_ones_stay_whole() -> None:
    size = 300 << 20
    plain = CaptureFile("a", "a", "request-log-json", "c", size)
    compressed = CaptureFile("b", "b", "request-log-json", "c", size, compression="gzip")
    dump = CaptureFile("c", "c", "metadata-log-dump", "c", size)
    unread = CaptureFile("d", "d", "unknown", "c", size)
    parts = cut([plain, compressed, dump, unread])
    edges = [(part.start, part.end) for part in parts if part.file is plain]
    assert edges[0][0] == 0
    assert edges[-1][1] == size
    assert [end for _, end in edges[:-1]] == [start for start, _ in edges[1:]]
    assert all(end is not None and end - start <= BLOCK for start, end in edges)
    assert [(part.start, part.end) for part in parts if part.file in (compressed, dump)] == [(0, None), (0, None)]
    assert unread not in [part.file for part in parts]
    small = [CaptureFile(str(n), str(n), "request-log-json", "c", 1 << 16) for n in range(48)]
    assert [len(bundle) for bundle in packed(cut(small), 8)] == [24, 24]


# --- decoding a range


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_every_line_is_counted_once_and_what_follows_the_last_newline_only_if_it_is_something(
    tmp_path: Path, ending: bytes
) -> None:
    file = recorded(tmp_path / "log", b"\n".join([REAL_LINE, OTHER_LINE, REAL_LINE[:80], REAL_LINE]) + ending)
    [split] = rows([whole(file)])["split"]
    statistics = split["statistics"]
    assert {name: statistics[name] for name in ("lines", "event_lines", "ignored_lines", "quarantined_lines", "rows")} == {
        "lines": 4, "event_lines": 2, "ignored_lines": 1, "quarantined_lines": 1, "rows": 2,
    }  # fmt: skip
    assert statistics["bytes"] == file.size
    assert statistics["first_time_ms"] == statistics["last_time_ms"] == 1795234687602
    assert dict(statistics["requests"]) == {"STOP_REPLICA": 2}


def test_an_empty_file_is_a_file_with_no_lines(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_bytes(b"")
    (tmp_path / "kafka-request.log").write_bytes(REAL_LINE)
    found = rows(cut(discover(str(tmp_path)).files))
    assert {row["file"]: row["statistics"]["lines"] for row in found["split"]} == {
        "state-change.log": 0,
        "kafka-request.log": 1,
    }


def test_rows_do_not_depend_on_the_cut(tmp_path: Path) -> None:
    file = recorded(tmp_path / "log", (REAL_LINE + b"\n" + OTHER_LINE + b"\n") * 20)
    ranged = [ByteRange(file, split, split * 1000, (split + 1) * 1000) for split in range(file.size // 1000 + 1)]
    place = ("split", "line_in_split")

    def events(parts: list[ByteRange]) -> list[dict[str, Any]]:
        return [{column: value for column, value in row.items() if column not in place} for row in rows(parts)["event"]]

    assert events(ranged) == events([whole(file)])
    totals = Counter[str]()
    for row in rows(ranged)["split"]:
        totals.update({name: row["statistics"][name] for name in ("lines", "bytes", "event_lines")})
    assert totals == {"lines": 40, "bytes": file.size, "event_lines": 20}


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda text: pa.Codec("zstd").compress(text).to_pybytes(),
}


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_compressed_file_gives_what_its_content_gives(tmp_path: Path, compression: str) -> None:
    content = (REAL_LINE + b"\n") * 300
    packed = rows([whole(recorded(tmp_path / "packed", COMPRESS[compression](content), compression))])
    plain = rows([whole(recorded(tmp_path / "plain", content))])
    assert [row["byte_offset"] for row in packed["event"]] == [row["byte_offset"] for row in plain["event"]]
    assert not packed["quarantine"]


@pytest.mark.slow
@pytest.mark.parametrize("compression", COMPRESS)
def test_a_truncated_stream_is_one_bad_line_and_all_before_it_is_read(tmp_path: Path, compression: str) -> None:
    content = b"".join(
        REAL_LINE.replace(b"900003", b"%d" % (100_000 + number * 7919 % 900_000)) + b"\n" for number in range(9000)
    )
    packed = COMPRESS[compression](content)
    found = rows([whole(recorded(tmp_path / "packed", packed[: len(packed) * 2 // 3], compression))])
    assert len(found["event"]) > 100
    assert [row["byte_offset"] for row in found["event"]] == [
        number * (len(REAL_LINE) + 1) for number in range(len(found["event"]))
    ]
    [bad] = found["quarantine"]
    assert bad["quarantined"]["reason"] == f"truncated {compression} stream: what follows can't be read"
    assert bad["byte_offset"] == len(found["event"]) * (len(REAL_LINE) + 1)
    [split] = found["split"]
    assert (split["statistics"]["lines"], split["statistics"]["quarantined_lines"]) == (len(found["event"]) + 1, 1)


class Clumsy:
    """Fails on one line, and gives a value that its column can't hold on another."""

    kind = "server-log"
    splittable = True

    def __init__(self, _: CaptureFile, sink: RowSink) -> None:
        self._rows = sink.rows(
            ("event_type", "byte_offset", "line_in_split", "partition_row", "time_ms", "leader_epoch")
        )

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        self._rows.append(("X", byte_offset, line_in_split, 0, 1, int(text)))
        return LineOutcome.EVENT


def test_a_decoder_that_fails_on_a_line_does_not_end_the_audit(tmp_path: Path) -> None:
    file = recorded(tmp_path / "log", b"")
    sink = RowSink(file, 0)
    tally = decode(Clumsy(file, sink), sink, Lines(b"1\nx\n99999999999\n2\n", 0), 1)
    *good, bad = (batch.to_pylist() for batch in sink.drain())
    events = [row for batch in good for row in batch]
    assert tally == (3, 0, 1)
    assert sink.spoiled_lines == 1
    assert [(row["line_in_split"], row["leader_epoch"]) for row in events] == [(1, 1), (4, 2)]
    reasons = {row["line_in_split"]: row["quarantined"]["reason"] for row in bad}
    assert reasons[2] == "its decoder failed: ValueError"
    assert reasons[3].startswith("unfit value")


@pytest.mark.parametrize("folder", ["zk-stale-control-fenced-3.9", "kraft-k1-healthy"])
def test_small_files_share_batches_and_keep_their_rows(folder: str, capture: Callable[[str], Path]) -> None:
    parts = cut(discover(str(capture(folder))).files)
    shared = list(batches(parts))
    alone = [batch for part in parts for batch in decoded(part)]
    place = [("row_kind", "ascending"), ("file", "ascending"), ("event_type", "ascending")]
    place += [(name, "ascending") for name in ("byte_offset", "partition_row", "line_in_split", "split")]
    together, each = (pa.Table.from_batches(found).combine_chunks().sort_by(place) for found in (shared, alone))
    assert together.to_pylist() == each.to_pylist()
    assert len(shared) < len(parts)
    for batch in shared:
        assert len(batch.column("row_kind").unique()) == 1


# --- through Spark


@pytest.mark.parametrize("name", ["zk-stale-control-fenced-3.9", "kraft-k1-healthy"])
def test_a_recorded_capture_has_the_counts_of_its_truth(
    name: str, spark: SparkSession, capture: Callable[[str], Path], expected: Callable[[str], dict[str, Any]]
) -> None:
    frames = read_capture(spark, discover(str(capture(name))))
    counts = expected(name)["counts"]
    for frame, table in ((frames.events, "events"), (frames.quarantine, "quarantine"), (frames.splits, "splits")):
        assert frame.columns == [column.name for column in columns(table)]
    splits = frames.splits.collect()
    lines, requests = Counter[str](), Counter[str]()
    for split in splits:
        assert split.lines == split.event_lines + split.ignored_lines + split.quarantined_lines
        lines[split.file] += split.lines
        requests.update(split.requests)
    assert {file: lines[file] for file in counts["lines"]} == counts["lines"]
    assert requests == counts["requests_by_api"]
    asked = F.col("in_request") & F.col("partition").isNotNull()
    groups = (
        frames.events.where("source = 'request_log'")
        .groupBy("event_type", "error_code", "request_error_code", asked.alias("asked"))
        .agg(F.count("*").alias("rows"), F.count_if(F.col("partition_row") == 0).alias("requests"))
        .collect()
    )
    partition_rows, error_codes, refused = Counter[str](), defaultdict[str, Counter[str]](Counter), Counter[str]()
    for group in groups:
        partition_rows[group.event_type] += group.rows if group.asked else 0
        if group.error_code is not None:
            error_codes[group.event_type][str(group.error_code)] += group.rows
        if group.request_error_code:
            refused[f"{group.event_type}:{group.request_error_code}"] += group.requests
    assert {api: partition_rows[api] for api in counts["partition_rows"]} == counts["partition_rows"]
    assert {api: error_codes[api] for api in counts["error_codes"]} == counts["error_codes"]
    assert {api: refused[api] for api in counts["top_level_errors"]} == counts["top_level_errors"]
    assert frames.quarantine.isEmpty()
    ids = frames.events.agg(F.count("event_id").alias("rows"), F.count_distinct("event_id").alias("distinct")).first()
    assert ids is not None
    assert ids.rows == ids.distinct == sum(split.rows for split in splits)


def test_a_question_of_ones_own_reads_only_what_it_asks_for(
    spark: SparkSession, capture: Callable[[str], Path]
) -> None:
    found = [discover(str(capture("zk-stale-control-fenced-3.9")))]
    stopped = read_events(spark, found, ["STOP_REPLICA"], ["topic", "partition", "error_code"])
    whole = read_captures(spark, found).events.where("event_type = 'STOP_REPLICA'")
    assert stopped.columns == ["topic", "partition", "error_code"]
    assert Counter(stopped.collect()) == Counter(whole.select(*stopped.columns).collect())
    assert set(read_events(spark, found, ["FETCH"]).columns) == {*whole.columns} - {"event_id"}
    with pytest.raises(ValueError, match="no column colour"):
        read_events(spark, found, ["FETCH"], ["colour"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kraft-ineligible-isr-3.2", "zk-stopreplica-prekip570-2.3"])
def test_what_is_decoded_is_freed_without_looking_for_cycles(name: str, capture: Callable[[str], Path]) -> None:
    """Tasks do not collect cycles, of which a file of any size would leave as much in memory as it has lines."""
    files = [file for file in discover(str(capture(name))).files if is_read(file)]
    assert {file.kind for file in files} >= {"server-log", "state-change-log"}
    left = {}
    gc.collect()
    gc.freeze()  # what the session holds: each collection would go through it
    for file in files:
        parts = blocks(file)
        list(batches(parts))  # what is made once, and cached
        gc.collect()
        list(batches(parts))
        left[file.path] = gc.collect()
    gc.unfreeze()
    assert not any(left.values()), left
