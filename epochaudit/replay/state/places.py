"""Places in a node's logs as numbers, so that one aggregation can cover all files of the node.

Logs that are rotated by size have thousands of files. One aggregation buffer per file would cost as much as the rows, and a
buffer of fixed width cannot hold a file name.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import PLACE, carried_ref
from epochaudit.spark.memo import checkpointed

FILE_BITS: Final = 40  # a file has at most a terabyte

PLACE_OF_NODE: Final = ("file_order", *PLACE)
"""Columns of a row that an aggregation by node has to keep for `with_refs`."""


def at() -> Column:
    """Place in a node's own log order as one number. Needs: file_order, byte_offset.

    Clock: line order of one source of one node. Values of two nodes or two sources are not comparable.
    """
    return F.shiftleft(F.col("file_order").cast("bigint"), FILE_BITS) + F.col("byte_offset")


def with_refs(rows: DataFrame, events: DataFrame, *which: str) -> DataFrame:
    """Adds `<which>_ref`, the reference to the row that an aggregation by node selected; null without one. Grain unchanged.

    Needs: cluster, node, and the columns of PLACE_OF_NODE as `<which>_<name>`, from rows of request logs.
    """
    for prefix in which:
        files = F.broadcast(_files(events)).withColumnRenamed("file_order", f"{prefix}_file_order").alias("files")
        same_file = [F.col(f"rows.{name}").eqNullSafe(F.col(f"files.{name}")) for name in ("cluster", "node")]
        same_file.append(F.col(f"rows.{prefix}_file_order") == F.col(f"files.{prefix}_file_order"))
        reference = F.when(F.col(f"{prefix}_byte_offset").isNotNull(), carried_ref(prefix))
        rows = rows.alias("rows").join(files, same_file, "left").select("rows.*", "files.file")
        rows = rows.withColumn(f"{prefix}_ref", reference).drop("file")
    return rows


@checkpointed
def _files(events: DataFrame) -> DataFrame:
    """One row per request log: cluster, node, file_order, file."""
    logs = events.where(F.col("source") == "request_log")
    return logs.select("cluster", "node", "file_order", "file").distinct()
