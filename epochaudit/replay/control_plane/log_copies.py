"""Frame `log_copies`: compares the copies of the metadata log at each offset that several of them have."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log


def log_copies(events: DataFrame) -> DataFrame:
    """One row per record of the metadata log that several copies have.

    Needs: the events table. Clock: the metadata offset.
    Columns: the subject columns (topic, topic_id and partition are those of the record's content; node is null), event_type,
    metadata_offset, raft_epoch, and
      raft_epochs   the distinct Raft epochs at the offset
      event_types   the distinct event types of the copies in the record's Raft epoch
      contents      the distinct contents of these copies, as far as known
      all_known     the content is known for all of these copies, or for none
      record_ref    the record
      other_ref     the first of these copies that differs from the record, else the next copy
    """
    log = metadata_log(events).where((F.size("copies") > 1) & ~in_snapshot())
    same_epoch = F.filter("copies", lambda c: c["raft_epoch"].eqNullSafe(F.col("raft_epoch")))
    log = log.withColumns({"same_epoch": same_epoch, "record": F.get("copies", F.lit(0))})
    differs = F.filter(
        "same_epoch",
        lambda c: (c["event_type"] != F.col("record.event_type")) | (c["content"] != F.col("record.content")),
    )
    return log.select(
        "cluster",
        F.lit(None).cast("int").alias("node"),
        "topic",
        "topic_id",
        "partition",
        F.lit(None).cast("int").alias("leader_epoch"),
        F.lit(None).cast("string").alias("client_id"),
        F.lit(None).cast("string").alias("group_id"),
        F.lit(None).cast("int").alias("correlation_id"),
        "event_type",
        "metadata_offset",
        "raft_epoch",
        F.array_distinct("copies.raft_epoch").alias("raft_epochs"),
        F.array_distinct("same_epoch.event_type").alias("event_types"),
        F.array_distinct(F.array_compact("same_epoch.content")).alias("contents"),
        F.size(F.array_distinct(F.transform("same_epoch", lambda c: c["content"].isNull())))
        .eqNullSafe(1)
        .alias("all_known"),
        F.col("record.ref").alias("record_ref"),
        F.coalesce(F.get(differs, F.lit(0)), F.get("copies", F.lit(1)))["ref"].alias("other_ref"),
    )
