"""Places in a node's logs as plain numbers, by which an aggregation where rows are read may go over all files of the node.

Logs that are rotated by size come as thousands of files. One buffer per file, put together afterwards, would cost as much as
the rows; names of files are no part of a buffer of a fixed width.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import PLACE, carried_ref
from epochaudit.replay.kept import kept

FILE_BITS: Final = 40  # bytes of the largest file: a terabyte

PLACE_OF_NODE: Final = ("file_order", *PLACE)
"""What an aggregation by node carries of a row, so that `with_refs` can refer to it."""


def at() -> Column:
    """A node's own log order as one number. Needs: file_order, byte_offset.

    Clock: line order of one source of one node. Values of two nodes or two sources are not comparable.
    """
    return F.shiftleft(F.col("file_order").cast("bigint"), FILE_BITS) + F.col("byte_offset")


def with_refs(rows: DataFrame, events: DataFrame, *which: str) -> DataFrame:
    """Adds `<which>_ref`, the reference to a row that an aggregation by node chose, null if it chose none. Grain unchanged.

    Needs: cluster, node, and PLACE_OF_NODE as `<which>_<name>`, of rows of request logs.
    """
    for one in which:
        named = F.broadcast(_files(events)).withColumnRenamed("file_order", f"{one}_file_order").alias("files")
        same = [F.col(f"rows.{name}").eqNullSafe(F.col(f"files.{name}")) for name in ("cluster", "node")]
        same.append(F.col(f"rows.{one}_file_order") == F.col(f"files.{one}_file_order"))
        found = F.when(F.col(f"{one}_byte_offset").isNotNull(), carried_ref(one))
        rows = rows.alias("rows").join(named, same, "left").select("rows.*", "files.file")
        rows = rows.withColumn(f"{one}_ref", found).drop("file")
    return rows


@kept
def _files(events: DataFrame) -> DataFrame:
    """One row per request log: cluster, node, file_order, file."""
    logs = events.where(F.col("source") == "request_log")
    return logs.select("cluster", "node", "file_order", "file").distinct()
