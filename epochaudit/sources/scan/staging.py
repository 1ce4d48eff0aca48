"""Stages scanned rows on disk as Parquet: the decoding process writes them, so they never pass through the JVM one by one.

A scan has over a hundred columns; a row fills a dozen, and a frame reads a dozen. In Parquet empty columns cost nothing,
and each frame reads only its columns, in the row groups with its events.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from epochaudit.events.views import RANGE, RangeId
from epochaudit.sources.sink import SCAN, SCAN_COLUMNS
from epochaudit.spark.local_rows import local_rows
from epochaudit.spark.session import in_one_partition, on_this_machine, storage_level

ROW_GROUP: Final = 1 << 15  # rows; a task may hold one for each kind of event
SMALLEST_ROW_GROUP: Final = 1 << 12
BATCHES_AT_ONCE: Final = 64
SKIPPED_BY: Final = ["row_kind", "source", "event_type"]  # columns whose statistics let Spark skip row groups

# No weak references: DataFrames made of the rows may outlive them. Unreleased directories are deleted at process exit.
_DIRECTORIES: Final[dict[DataFrame, tempfile.TemporaryDirectory[str]]] = {}


def staging_directory(spark: SparkSession) -> tempfile.TemporaryDirectory[str]:
    """A new directory where Spark keeps its own temporary files."""
    local_dirs = os.environ.get("SPARK_LOCAL_DIRS") or spark.conf.get("spark.local.dir", "") or ""
    local = local_dirs.partition(",")[0] or None
    return tempfile.TemporaryDirectory(prefix="epochaudit-", dir=local, ignore_cleanup_errors=True)


class _RowGroup:
    """Batches of one row group. Small batches are merged, as each has an array per column."""

    def __init__(self) -> None:
        self.rows = 0
        self._merged: list[pa.RecordBatch] = []
        self._few: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._few.append(batch)
        if len(self._few) >= BATCHES_AT_ONCE:
            self._merged.append(pa.concat_batches(self._few))
            self._few = []

    def table(self) -> pa.Table:
        return pa.Table.from_batches([*self._merged, *self._few])


def written(batches: Iterable[pa.RecordBatch], directory: str) -> tuple[str, int]:
    """Write batches of the scan into a new file of the directory; returns its path and its number of rows.

    Batches of one event type share row groups; types with few rows share the last one.
    """
    path = str(Path(directory) / f"{uuid4().hex}.parquet")
    rows = 0
    groups: dict[str | None, _RowGroup] = defaultdict(_RowGroup)
    with pq.ParquetWriter(path, SCAN, compression="zstd", write_statistics=SKIPPED_BY) as writer:
        for batch in batches:
            rows += batch.num_rows
            if batch.num_rows:
                kind = batch.column("event_type")[0].as_py()
                groups[kind].add(batch)
                if groups[kind].rows >= ROW_GROUP:
                    writer.write_table(groups.pop(kind).table())
        small = [group.table() for group in groups.values() if group.rows < SMALLEST_ROW_GROUP]
        for group in groups.values():
            if group.rows >= SMALLEST_ROW_GROUP:
                writer.write_table(group.table())
        if small:
            writer.write_table(pa.concat_tables(small))
    return path, rows


def merged(paths: Sequence[str], directory: str) -> str:
    """One file with the rows of all these; returns its path.

    Each of a hundred Spark jobs opens each file, and reads what its footer states of a hundred columns: of a few rows in many
    files, that takes longer than the rows.
    """
    if len(paths) == 1:
        return paths[0]
    path, _ = written((part for one in paths for group in _row_groups(one) for part in _by_row_kind(group)), directory)
    return path


def _row_groups(path: str) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number).cast(SCAN).combine_chunks().to_batches()[0]


def staged_without(path: str, ranges: Collection[RangeId]) -> Iterator[pa.RecordBatch]:
    """The rows of a staged file, but for those of some ranges."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROW_GROUP):
            for part in _by_row_kind(batch):
                ids = zip(*(part.column(name).to_pylist() for name in RANGE), strict=True)
                yield part.filter(pa.array([id not in ranges for id in ids])).cast(SCAN)


def _by_row_kind(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of one event type each, as `written` expects them."""
    kinds = batch.column("event_type")
    found = kinds.unique()
    if len(found) == 1:
        yield batch
        return
    for kind in found:
        yield batch.filter(pc.is_null(kinds) if kind.as_py() is None else pc.equal(kinds, kind))


def staged(spark: SparkSession, paths: Sequence[str], directory: tempfile.TemporaryDirectory[str]) -> DataFrame:
    """The rows of the files at these paths in the directory, which exist until `release`."""
    rows = spark.read.schema(SCAN_COLUMNS).parquet(*paths) if paths else local_rows(spark, [], SCAN_COLUMNS)
    _DIRECTORIES[rows] = directory
    return rows


def stored(rows: DataFrame) -> DataFrame:
    """The rows, computed once: in files that exist until `release` if executors share this machine's disk, else persisted.

    Plans over files do not contain the plan of the rows: a hundred of them over joins and windows take twice the memory.
    """
    spark = rows.sparkSession
    if not on_this_machine(spark):
        return rows.persist(storage_level(spark))
    directory = staging_directory(spark)
    path = str(Path(directory.name) / "rows")
    rows.sortWithinPartitions("source", "event_type").write.parquet(path)  # Spark skips row groups by these
    read = in_one_partition(spark.read.schema(rows.schema).parquet(path))
    _DIRECTORIES[read] = directory
    return read


def release(rows: DataFrame) -> None:
    """Delete staged rows, after which DataFrames made of them fail, or unpersist persisted ones, which are then read again."""
    rows.unpersist()
    if directory := _DIRECTORIES.get(rows):
        for others in [others for others, its in _DIRECTORIES.items() if its is directory]:
            del _DIRECTORIES[others]
        directory.cleanup()
