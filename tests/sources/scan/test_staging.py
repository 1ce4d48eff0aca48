"""Rows that are read once are staged as columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from epochaudit.sources.scan import staging
from epochaudit.sources.scan.staging import release, staged, staged_without, staging_directory, written
from epochaudit.sources.sink import SCAN
from epochaudit.spark.session import on_this_machine


def batch(event_type: str, offsets: range) -> pa.RecordBatch:
    known = {
        "row_kind": pa.repeat("event", len(offsets)),
        "event_type": pa.repeat(event_type, len(offsets)),
        "byte_offset": pa.array(offsets, pa.int64()),
    }
    arrays = [known.get(c.name, pa.nulls(len(offsets), c.type)).cast(c.type) for c in SCAN]
    return pa.RecordBatch.from_arrays(arrays, schema=SCAN)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 500])
def test_every_row_is_staged_once_however_batches_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(staging, "ROW_GROUP", 300)
    monkeypatch.setattr(staging, "SMALLEST_ROW_GROUP", 50)
    kinds = {"FETCH": 1_000, "METADATA": 60, "STOP_REPLICA": 3, "LEADER_STARTS": 2}
    batches = [batch(kind, range(at, min(at + size, n))) for kind, n in kinds.items() for at in range(0, n, size)]
    file, count = written(batches, str(tmp_path))
    assert count == sum(kinds.values())
    rows = pq.read_table(file, columns=["event_type", "byte_offset"]).to_pylist()
    assert sorted((row["event_type"], row["byte_offset"]) for row in rows) == sorted(
        (kind, offset) for kind, n in kinds.items() for offset in range(n)
    )
    groups = pq.ParquetFile(file).metadata
    column = SCAN.get_field_index("event_type")
    ranges = [groups.row_group(g).column(column).statistics for g in range(groups.num_row_groups)]
    mixed = [statistics for statistics in ranges if statistics.min != statistics.max]
    assert len(mixed) == 1, "only what is too little for a row group of its own shares one"


def test_no_rows_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    file, count = written([], str(tmp_path))
    assert count == 0
    assert pq.read_table(file).num_rows == 0


def test_staged_rows_are_there_until_they_are_released(spark: SparkSession) -> None:
    assert on_this_machine(spark)
    directory = staging_directory(spark)
    file, _ = written([batch("FETCH", range(5))], directory.name)
    rows = staged(spark, [file], directory)
    assert [row["byte_offset"] for row in rows.select("byte_offset").orderBy("byte_offset").collect()] == [*range(5)]
    release(rows)
    assert not Path(directory.name).exists()


def test_ranges_that_are_read_again_are_left_out(tmp_path: Path) -> None:
    rows = [batch("FETCH", range(5)), batch("METADATA", range(5, 8))]
    path, _ = written(rows, str(tmp_path))
    remaining = pa.Table.from_batches(staged_without(path, {("c", "log", 2)}), SCAN)
    assert sorted(remaining.column("byte_offset").to_pylist()) == [*range(8)]
    moved = [r.set_column(SCAN.get_field_index("split"), "split", pa.repeat(pa.scalar(n, pa.int32()), r.num_rows))
             for n, r in enumerate(rows)]  # fmt: skip
    moved = [r.set_column(SCAN.get_field_index(name), name, pa.repeat(value, r.num_rows)).cast(SCAN)
             for r in moved for name, value in [("cluster", "c")]]  # fmt: skip
    moved = [r.set_column(SCAN.get_field_index("file"), "file", pa.repeat("log", r.num_rows)).cast(SCAN) for r in moved]
    path, _ = written(moved, str(tmp_path))
    remaining = pa.Table.from_batches(staged_without(path, {("c", "log", 0)}), SCAN)
    assert remaining.column("event_type").to_pylist() == ["METADATA"] * 3
