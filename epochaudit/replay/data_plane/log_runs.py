"""Frame `log_runs`: the leader epochs of a log's batches, in order, and the same epochs in its leader-epoch-checkpoint."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.replay.state.log_segments import COPY, PARTITION, log_segments, no_client, with_checkpoint


def log_runs(events: DataFrame) -> DataFrame:
    """One row per run of batches of one leader epoch, or of none, in a segment.

    Needs: the events table. Clock: offsets.
    Columns: the subject columns (node = the replica's), batch_base_offset, batch_last_offset, is_raw (of a segment, not of a dump),
    run_ref, and
      before_epoch, before_ref      the highest leader epoch before the run in the copy; null: none
      has_checkpoint                a leader-epoch-checkpoint in the copy's folder has entries; the following are null without it
      checkpoint_offset             the start offset of the run's epoch there; null: it lacks the epoch; checkpoint_ref
      first_checkpoint_offset       the start offset of its first entry
      later_checkpoint_offset       the lowest start offset of a higher epoch's entry; later_checkpoint_epoch
    """
    runs = log_segments(events).where(F.col("batch_last_offset") >= F.col("batch_base_offset"))
    in_order = Window.partitionBy(*COPY).orderBy("file", "byte_offset")
    highest = F.max(F.struct("leader_epoch", "own_ref")).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    runs = with_checkpoint(runs.withColumn("before", highest), events)
    own = F.get(F.filter("entries", lambda e: e["leader_epoch"] == F.col("leader_epoch")), F.lit(0))
    higher = F.filter("entries", lambda e: e["leader_epoch"] > F.col("leader_epoch"))
    by_start = F.transform(higher, lambda e: F.struct(e["start_offset"].alias("at"), e.alias("entry")))
    runs = runs.withColumns({"own": own, "later": F.array_min(by_start)["entry"]})
    return runs.select(
        *PARTITION, "node", "topic_id", "leader_epoch", *(column.alias(name) for name, column in no_client().items()),
        "batch_base_offset", "batch_last_offset", "is_raw", F.col("own_ref").alias("run_ref"),
        F.col("before.leader_epoch").alias("before_epoch"), F.col("before.own_ref").alias("before_ref"),
        F.col("entries").isNotNull().alias("has_checkpoint"), F.col("own.start_offset").alias("checkpoint_offset"),
        F.coalesce("own.entry_ref", "later.entry_ref").alias("checkpoint_ref"),
        F.array_min("entries.start_offset").alias("first_checkpoint_offset"),
        F.col("later.start_offset").alias("later_checkpoint_offset"), F.col("later.leader_epoch").alias("later_checkpoint_epoch"),
    )  # fmt: skip
