"""What was read, kept on disk as columns: rows are written where they are decoded and never pass through the JVM one by one.

A scan has over a hundred columns, of which a row fills a dozen and a frame asks for a dozen. Parquet files hold the others
at no cost, and each frame reads only its columns, of the row groups that hold its events.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from epochaudit.sources.sink import SCAN_COLUMNS

STAGED: Final = StructType([StructField("path", StringType())])
ROW_GROUP: Final = 1 << 16  # rows
SMALLEST_ROW_GROUP: Final = 1 << 12
SKIPPED_BY: Final = ["row_kind", "source", "event_type"]  # the columns by which row groups are passed over

_DIRECTORIES: Final[WeakKeyDictionary[DataFrame, tempfile.TemporaryDirectory[str]]] = WeakKeyDictionary()


def shares_disk(spark: SparkSession) -> bool:
    """The executors see this process's files, as they are this machine's."""
    return (spark.conf.get("spark.master", "") or "").startswith("local")


def staging_directory(spark: SparkSession) -> tempfile.TemporaryDirectory[str]:
    """A new directory where Spark keeps its own temporary files."""
    local = (spark.conf.get("spark.local.dir", "") or "").partition(",")[0] or None
    return tempfile.TemporaryDirectory(prefix="epochaudit-", dir=local, ignore_cleanup_errors=True)


def written(batches: Iterable[pa.RecordBatch], directory: str) -> pa.RecordBatch:
    """Write batches of the scan into a new file of the directory; returns its path, as a batch of STAGED.

    Batches of the same events come together in row groups; what is too little for one of its own shares the last.
    """
    path = str(Path(directory) / f"{uuid4().hex}.parquet")
    held: dict[str | None, list[pa.RecordBatch]] = defaultdict(list)
    counts: dict[str | None, int] = defaultdict(int)
    writer = None
    for batch in batches:
        if writer is None:
            writer = pq.ParquetWriter(path, batch.schema, compression="zstd", write_statistics=SKIPPED_BY)
        if batch.num_rows:
            kind = batch.column("event_type")[0].as_py()
            held[kind].append(batch)
            counts[kind] += batch.num_rows
            if counts[kind] >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(held.pop(kind)), row_group_size=2 * ROW_GROUP)
                del counts[kind]
    if writer is None:
        return pa.RecordBatch.from_pydict({"path": pa.array([], pa.string())})
    few = [batch for kind, kept in held.items() if counts[kind] < SMALLEST_ROW_GROUP for batch in kept]
    for kind, kept in held.items():
        if counts[kind] >= SMALLEST_ROW_GROUP:
            writer.write_table(pa.Table.from_batches(kept))
    if few:
        writer.write_table(pa.Table.from_batches(few))
    writer.close()
    return pa.RecordBatch.from_pydict({"path": [path]})


def staged(paths: DataFrame, directory: tempfile.TemporaryDirectory[str]) -> DataFrame:
    """The rows of the files that `paths` (STAGED) names once it has run, which is now. Kept until `release`."""
    found = [row["path"] for row in paths.collect()]
    spark = paths.sparkSession
    rows = spark.read.schema(SCAN_COLUMNS).parquet(*found) if found else spark.createDataFrame([], SCAN_COLUMNS)
    _DIRECTORIES[rows] = directory
    return rows


def release(rows: DataFrame) -> None:
    """Let go of rows that were read: nothing that is made of staged ones can be read any more, of persisted ones anew."""
    rows.unpersist()
    if directory := _DIRECTORIES.pop(rows, None):
        directory.cleanup()
