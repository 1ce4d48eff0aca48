"""Frame `acknowledgements`: the writes that brokers acknowledged to producers, with the role in which they did.

It is what the frame `lineage` reads to find lost writes: nothing is computed twice. Clock: the broker's host.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.data_plane.lineage import acknowledged_epochs
from epochaudit.replay.state.held_epochs import replica_starts
from epochaudit.replay.state.incarnations import topic_keys
from epochaudit.replay.state.places import of_first

_REPLICA: Final = ("cluster", "node", "topic_key", "partition", "followed_epoch")


def acknowledgements(events: DataFrame) -> DataFrame:
    """One row per (broker, partition, acks, leader epoch, followed epoch) in which the broker acknowledged writes.

    Needs: the events table.
    Columns: the subject columns (node = the broker; leader_epoch: in which it acknowledged them as the leader, null if that is not
    certain), acks, base_offset (the highest), answer_ref (the answer with it), led and followed_epoch as `answered_epochs`, and
      followed_ref   the line with which the broker began to follow in followed_epoch
    """
    certain = F.when(F.col("leader_epoch") == F.col("shown_epoch"), F.col("leader_epoch"))
    found = acknowledged_epochs(events).withColumns({"answer_ref": F.col("own_ref"), "leader_epoch": certain})
    found = found.join(F.broadcast(_follower_lines(events)), list(_REPLICA), "left")
    return found.select(
        "cluster", "node", "topic", "topic_id", "partition", "leader_epoch", "acks", "base_offset", "led", "followed_epoch",
        "answer_ref", "followed_ref",
        *(F.lit(None).cast("string").alias(name) for name in ("client_id", "group_id")),
        F.lit(None).cast("int").alias("correlation_id"),
    )  # fmt: skip


def _follower_lines(events: DataFrame) -> DataFrame:
    """One row per replica and leader epoch that it began as a follower: followed_ref, its first line."""
    lines = replica_starts(events).where(F.col("proven") & ~F.col("is_leader"))
    lines = lines.withColumns({"topic_key": F.explode(topic_keys()), "followed_epoch": F.col("leader_epoch")})
    order = F.struct("from_ms", "file_order", "byte_offset")
    return lines.groupBy(*_REPLICA).agg(*of_first(["own_ref"], order, "line_")).select(
        *_REPLICA, F.col("line_own_ref").alias("followed_ref")
    )  # fmt: skip
