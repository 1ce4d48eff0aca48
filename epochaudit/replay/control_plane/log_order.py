"""Frame `log_order`: each record of each copy of the metadata log, with the record before it in the same file."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import ref
from epochaudit.replay.state.metadata_log import SOURCE, in_snapshot

_RAW: Final = r"\d{20}\.log$"


def log_order(events: DataFrame) -> DataFrame:
    """One row per record of a metadata log in a file; snapshots are left out. Clock: the order of the file.

    Needs: the events table. Columns: the subject columns (null except the cluster), event_type, metadata_offset, raft_epoch,
    batch_base_offset, batch_last_offset, record_ref, and
      before     struct of these columns from the record before; null for the first; also as before_offset,
                 before_raft_epoch, before_ref
      adjacent   of a record that begins a batch: nothing is between the two records but, in a dump, the line that describes the batch
      raw        the file is a segment, not a dump
    """
    file = Window.partitionBy("cluster", "file").orderBy("split", "line_in_split")
    place = ("event_type", "metadata_offset", "raft_epoch", "batch_base_offset", "batch_last_offset")
    rows = events.where((F.col("source") == SOURCE) & ~in_snapshot())
    rows = rows.select("cluster", "file", *place, "split", "line_in_split", ref().alias("record_ref"))
    before = F.lag(F.struct(*place, "split", "line_in_split", "record_ref")).over(file)
    rows = rows.withColumns({"before": before, "raw": F.col("file").rlike(_RAW)})
    distance = F.when(F.col("raw"), 1).otherwise(2)
    none = F.lit(None)
    return rows.select(
        "cluster",
        *(none.cast("int").alias(name) for name in ("node", "partition", "leader_epoch", "correlation_id")),
        *(none.cast("string").alias(name) for name in ("topic", "topic_id", "client_id", "group_id")),
        *place, "record_ref", "before", "raw", F.col("before.record_ref").alias("before_ref"),
        F.col("before.metadata_offset").alias("before_offset"), F.col("before.raft_epoch").alias("before_raft_epoch"),
        (
            (F.col("split") == F.col("before.split"))
            & (F.col("line_in_split") - F.col("before.line_in_split") == distance)
        ).alias("adjacent"),
    )  # fmt: skip
