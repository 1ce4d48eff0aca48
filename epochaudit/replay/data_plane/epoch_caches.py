"""Frame `epoch_caches`: the entries of leader epoch caches, from log lines and checkpoint files."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    EPOCH_CACHE_APPENDED,
    EPOCH_CACHE_CONFLICT,
    EPOCH_CACHE_DISORDER,
    EPOCH_CACHE_END_TRUNCATED,
    EPOCH_CACHE_START_TRUNCATED,
    EPOCH_CHECKPOINT,
    FETCH_OFFSET_RESET,
    FUTURE_LOG_CREATED,
    FUTURE_LOG_PROMOTED,
    HIGH_WATERMARK_LOADED,
    LOG_CREATED,
    LOG_DELETION_SCHEDULED,
    LOG_EMPTIED,
    LOG_MARKED_STRAY,
    LOG_SEGMENTS_TRUNCATED,
    LOG_TRUNCATED,
    METADATA_LOG_DELETED,
)
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.field_values import METADATA_TOPIC
from epochaudit.replay.state.processes import process_starts

ENTRIES: Final = (EPOCH_CACHE_APPENDED, EPOCH_CACHE_CONFLICT, EPOCH_CACHE_DISORDER, EPOCH_CHECKPOINT)
# Lines that may remove entries: after one, the content of the cache is unknown. A high watermark is loaded for a new log, or for
# one found at the start of the process: that line shows both where the kafka.log logger is off.
_REMOVES: Final = (
    EPOCH_CACHE_END_TRUNCATED, EPOCH_CACHE_START_TRUNCATED, HIGH_WATERMARK_LOADED, LOG_CREATED, FUTURE_LOG_PROMOTED,
    LOG_DELETION_SCHEDULED, LOG_EMPTIED, LOG_TRUNCATED, LOG_SEGMENTS_TRUNCATED, LOG_MARKED_STRAY, FETCH_OFFSET_RESET, METADATA_LOG_DELETED,
)  # fmt: skip


def epoch_caches(events: DataFrame) -> DataFrame:
    """One row per entry of a leader epoch cache, in a line of server.log or in a checkpoint file.

    Needs: the events table. Clock: the node's own log order; the order within a checkpoint file.
    Columns: the subject columns (node = the replica's), event_type, start_offset, entry_ref, and
      before      the previous entry of the cache: struct(leader_epoch, start_offset, time_ms, entry_ref, entries, event_type);
                  null: none is known since the log was created, deleted or truncated, or since a rotated file is missing; before_ref,
                  before_epoch and before_offset: its values
      entries     the size of the cache with this entry, before_entries with the previous one, as the lines state them
      replaces    the line before warns that this very entry replaced others: since 2.7 both are written about one assignment
      cleared     the cache lost the previous entry, as it is not larger than with that one: truncating a log fully clears its cache
                  without a line (LeaderEpochFileCache.clearAndFlush). A follower does so when it is answered
                  109 OFFSET_MOVED_TO_TIERED_STORAGE
      moving      the replica moves between log directories: its future replica has a cache of its own, and lines about that one
                  name the same partition
      restarted   the process restarted between the two lines, and may have rebuilt the cache from the log
    """
    event_type = F.col("event_type")
    rows = of_types(events, *ENTRIES, *_REMOVES, FUTURE_LOG_CREATED).select(
        "cluster", "node", "source", "event_type", "file", "file_order", "split", "byte_offset", "line_in_split", "time_ms",
        "topic", "partition", "leader_epoch", "start_offset", "name", "reason", F.coalesce("gaps_before", F.lit(0)).alias("run"),
        F.col("value").try_cast("int").alias("entries"),
        ref().alias("entry_ref"),
    )  # fmt: skip
    deleted = event_type == METADATA_LOG_DELETED
    rows = rows.withColumns(
        {
            "topic": F.when(deleted, METADATA_TOPIC).otherwise(F.col("topic")),
            "partition": F.when(deleted, 0).otherwise(F.col("partition")),
        }
    )
    # each partition of a checkpoint file is a cache of its own; its folder may be one that is to be deleted
    cache = ("cluster", "node", "source", "topic", "partition", "name", "of_file")
    rows = rows.withColumns(
        {
            "of_file": F.when(event_type == EPOCH_CHECKPOINT, F.col("file")),
            "name": F.when(event_type == EPOCH_CHECKPOINT, F.col("name")),
        }
    )
    in_order = Window.partitionBy(*cache).orderBy("file_order", "byte_offset", "line_in_split")
    entry = F.struct("leader_epoch", "start_offset", "time_ms", "entry_ref", "entries", "event_type")
    emptied = (event_type != FETCH_OFFSET_RESET) | F.col("reason").eqNullSafe("leader_log_start")
    removes = event_type.isin(*_REMOVES, EPOCH_CACHE_CONFLICT) & emptied
    rows = rows.withColumns({"removals": F.count(F.when(removes, 1)).over(in_order), "moving": _moving(in_order)})
    # an entry out of order is not appended; after a conflict the cache's known content begins with the new entry
    appended = F.when(event_type.isin(EPOCH_CACHE_APPENDED, EPOCH_CACHE_CONFLICT, EPOCH_CHECKPOINT), entry)
    since = Window.partitionBy(*cache, "removals", "run").orderBy("file_order", "byte_offset", "line_in_split")
    before = F.last(appended, ignorenulls=True).over(since.rowsBetween(Window.unboundedPreceding, -1))
    rows = rows.withColumn("before", before).where(event_type.isin(*ENTRIES))
    rows = rows.join(F.broadcast(process_starts(events)), ["cluster", "node"], "left")
    restarted = F.exists("process_starts", lambda at: (at > F.col("before.time_ms")) & (at <= F.col("time_ms")))
    return rows.withColumns(
        {
            "restarted": holds(restarted),
            "replaces": holds(_replaces()),
            "cleared": holds(F.col("entries") <= F.col("before.entries")),
            "before_entries": F.col("before.entries"),
            "before_ref": F.col("before.entry_ref"),
            "before_epoch": F.col("before.leader_epoch"),
            "before_offset": F.col("before.start_offset"),
            "topic_id": F.lit(None).cast("string"),
            "client_id": F.lit(None).cast("string"),
            "group_id": F.lit(None).cast("string"),
            "correlation_id": F.lit(None).cast("int"),
        }
    ).drop("process_starts", "removals", "of_file", "reason", "run")


def _replaces() -> Column:
    """The entry is that of the warning before, with which it was not yet counted (maybeTruncateNonMonotonicEntries)."""
    before = F.col("before")
    same = (before["leader_epoch"] == F.col("leader_epoch")) & (before["start_offset"] == F.col("start_offset"))
    warned = (before["event_type"] == EPOCH_CACHE_CONFLICT) & (F.col("event_type") == EPOCH_CACHE_APPENDED)
    return warned & same & (F.col("entries") == before["entries"] + 1)


def _moving(in_order: WindowSpec) -> Column:
    """From the creation of a future replica, or from the first line if it began before, to the end of the move."""
    event_type = F.col("event_type")
    step = F.when(event_type.isin(FUTURE_LOG_CREATED, FUTURE_LOG_PROMOTED, LOG_DELETION_SCHEDULED), event_type)
    last = F.last(step, ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    following = F.first(step, ignorenulls=True).over(in_order.rowsBetween(1, Window.unboundedFollowing))
    begun_before = ~last.eqNullSafe(FUTURE_LOG_PROMOTED) & following.eqNullSafe(FUTURE_LOG_PROMOTED)
    return last.eqNullSafe(FUTURE_LOG_CREATED) | begun_before
