"""Frame `epoch_caches`: the entries that went into leader epoch caches, in lines and in checkpoint files."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref

APPENDED: Final = "EPOCH_CACHE_APPENDED"
CONFLICT: Final = "EPOCH_CACHE_CONFLICT"
DISORDER: Final = "EPOCH_CACHE_DISORDER"
CHECKPOINT: Final = "EPOCH_CHECKPOINT"

ENTRIES: Final = (APPENDED, CONFLICT, DISORDER, CHECKPOINT)
# what may take entries away: behind such a line the cache is not known any more. A high watermark is loaded for a log that
# is new, or was found at the start: it tells so where kafka.log is not logged.
_CUTS: Final = (
    "EPOCH_CACHE_END_TRUNCATED", "EPOCH_CACHE_START_TRUNCATED", "HIGH_WATERMARK_LOADED", "LOG_CREATED",
    "LOG_DELETION_SCHEDULED", "LOG_EMPTIED", "LOG_TRUNCATED", "LOG_MARKED_STRAY",
)  # fmt: skip


def epoch_caches(events: DataFrame) -> DataFrame:
    """One row per entry of a leader epoch cache, of a line of server.log or of a checkpoint file.

    Clock: the node's own log order; the order within a checkpoint file.
    Columns: the subject columns (node = the replica's), event_type, start_offset, entry_ref, and
      before      the entry that the cache had got before: struct(leader_epoch, start_offset, ref); null: none known
                  since the log was made, deleted or cut; before_ref its place, before_epoch and before_offset its values
      restarted   the process started anew between the two lines, and may have rebuilt the cache from the log
    """
    event_type = F.col("event_type")
    rows = of_types(events, *ENTRIES, *_CUTS).select(
        "cluster", "node", "source", "event_type", "file", "file_order", "split", "byte_offset", "line_in_split", "time_ms",
        "topic", "partition", "leader_epoch", "start_offset", "name", ref().alias("entry_ref"),
    )  # fmt: skip
    # a checkpoint is a cache of its own: a file, and in it a partition, whose folder may be one to be deleted
    cache = ("cluster", "node", "source", "topic", "partition", "name", "of_file")
    rows = rows.withColumns(
        {
            "of_file": F.when(event_type == CHECKPOINT, F.col("file")),
            "name": F.when(event_type == CHECKPOINT, F.col("name")),
        }
    )
    in_order = Window.partitionBy(*cache).orderBy("file_order", "byte_offset", "line_in_split")
    entry = F.struct("leader_epoch", "start_offset", "time_ms", "entry_ref")
    cut = event_type.isin(*_CUTS, CONFLICT)
    rows = rows.withColumn("cuts", F.count(F.when(cut, 1)).over(in_order))
    # of the entries only those that were taken stay in the cache; a conflict begins it anew, with its own entry
    taken = F.when(event_type.isin(APPENDED, CONFLICT, CHECKPOINT), entry)
    since = Window.partitionBy(*cache, "cuts").orderBy("file_order", "byte_offset", "line_in_split")
    before = F.last(taken, ignorenulls=True).over(since.rowsBetween(Window.unboundedPreceding, -1))
    rows = rows.withColumn("before", before).where(event_type.isin(*ENTRIES))
    starts = of_types(events, "PROCESS_STARTING").groupBy("cluster", "node")
    rows = rows.join(F.broadcast(starts.agg(F.collect_set("time_ms").alias("starts"))), ["cluster", "node"], "left")
    restarted = F.exists("starts", lambda at: (at > F.col("before.time_ms")) & (at <= F.col("time_ms")))
    return rows.withColumns(
        {
            "restarted": F.coalesce(restarted, F.lit(False)),
            "before_ref": F.col("before.entry_ref"),
            "before_epoch": F.col("before.leader_epoch"),
            "before_offset": F.col("before.start_offset"),
            "topic_id": F.lit(None).cast("string"),
            "client_id": F.lit(None).cast("string"),
            "group_id": F.lit(None).cast("string"),
            "correlation_id": F.lit(None).cast("int"),
        }
    ).drop("starts", "cuts", "of_file")
