"""High watermarks that replicas had checkpointed, with the last leader epoch in which they can have learned them.

A checkpoint has no time, and the files of a log directory may be copied one after another. The upper bound of a high watermark's
leader epoch is the last epoch that the replica is known to have been in: by leader-epoch-checkpoint of the same log directory,
and by the replica's own log lines. A replica that followed a later epoch has a line of it, which states its own high watermark.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import EPOCH_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, TOPIC_ID_CHECKPOINT
from epochaudit.events.views import of_types, ref
from epochaudit.replay.state.incarnations import topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.replica_ends import replica_ends

_LOG: Final = ("cluster", "node", "topic", "partition", "log_dir")
_PARTITION_FILES: Final = ("leader-epoch-checkpoint", "partition.metadata")


def checkpointed_ends(events: DataFrame) -> DataFrame:
    """One row per high watermark of replication-offset-checkpoint whose leader epoch is bounded. Clock: leader epoch; no times.

    Needs: the events table. Columns: cluster, topic_key, partition, node, high_watermark (offset), leader_epoch (the replica
    learned it in this epoch or an earlier one) with leader_epoch_ref (the line that states that epoch), own_ref.
    Left out: replicas without leader epochs in the copied log directory; nodes that write no line when they follow, or none
    about the partition; logs that are deleted, moved in or put aside; names of several topics.
    Source: ReplicaManager.checkpointHighWatermarks writes a file per log directory, every
    replica.high.watermark.checkpoint.interval.ms and at shutdown; LeaderEpochFileCache.
    """
    folder = _folder(F.col("file"))
    by_name = F.col("file").rlike(f"(^|/)({'|'.join(_PARTITION_FILES)})[^/]*$")
    partition_files = of_types(events, EPOCH_CHECKPOINT, TOPIC_ID_CHECKPOINT).where(
        F.col("name").isNull() & F.col("topic").isNotNull()
    )
    partition_files = partition_files.withColumn("log_dir", F.when(by_name, _folder(folder)).otherwise(folder))
    logs = partition_files.groupBy(*_LOG).agg(
        F.max(_stated_epoch(ref())).alias("cached"), F.max("topic_id").alias("topic_id")
    )
    checkpoints = of_types(events, HIGH_WATERMARK_CHECKPOINT).where(
        F.col("topic").isNotNull() & (F.col("high_watermark") > 0)
    )
    checkpoints = checkpoints.select(*_LOG[:-1], folder.alias("log_dir"), "high_watermark", ref().alias("own_ref"))
    bounded = with_identity(
        checkpoints.join(logs.where(F.col("cached").isNotNull()), list(_LOG)), topic_incarnations(events)
    )
    bounded = bounded.where(F.col("topic_id").isNotNull() | ~F.col("ambiguous_name")).withColumn(
        "topic_key", topic_key()
    )
    last = F.greatest("cached", "started")
    return bounded.join(F.broadcast(_last_starts(events)), ["cluster", "node", "topic_key", "partition"]).select(
        "cluster", "topic_key", "partition", "node", "high_watermark", last["leader_epoch"].alias("leader_epoch"),
        last["stated_ref"].alias("leader_epoch_ref"), "own_ref",
    )  # fmt: skip


def _stated_epoch(line: Column) -> Column:
    """A leader epoch and the line that states it; null without an epoch."""
    return F.when(F.col("leader_epoch").isNotNull(), F.struct("leader_epoch", line.alias("stated_ref")))


def _last_starts(events: DataFrame) -> DataFrame:
    """One row per replica of a node that logs follower starts: started, the last leader epoch that it has a line of, and the line."""
    ends = replica_ends(events).where(F.col("leader_epoch").isNotNull())
    logs_followers = ends.where(~F.col("is_leader")).select("cluster", "node").distinct()
    ends = ends.withColumn("topic_key", topic_key()).join(logs_followers, ["cluster", "node"], "left_semi")
    return ends.groupBy("cluster", "node", "topic_key", "partition").agg(
        F.max(_stated_epoch(F.col("own_ref"))).alias("started")
    )


def _folder(path: Column) -> Column:
    return F.regexp_replace(path, "/?[^/]*$", "")
