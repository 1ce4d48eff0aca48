"""Frame `voter_sets`: the voters of the metadata quorum, as its records state them (KIP-853)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import KRAFT_VOTERS
from epochaudit.events.views import of_types, ref
from epochaudit.replay.state.cluster_history import cluster_history, raft_leader, recorded_between
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log


def voter_sets(events: DataFrame) -> DataFrame:
    """One row per KRaftVoters record of the metadata log, those of snapshots left out. Clock: the metadata offset.

    A snapshot states the voters as of the last offset that it replaces. The one at offset 0 has those that the disks were formatted with,
    which Raft does not compare (VoterSetHistory.addAt).
    Needs: the events table. Columns: the subject columns (null except the cluster and node, the Raft leader of the record's epoch),
    metadata_offset, raft_epoch, and
      voters, record_ref      the voters of the record, as "id:directory"; null: the dump does not print them
      earlier_voters, earlier_offset, earlier_ref   the voters before, the offset as of which a record or a snapshot states them, and
                    that record; null: this one is the first
      first         there is no such record before
      added, removed          how the two differ
      log_whole     no record of the metadata log between the two is missing
    """
    stated = ~in_snapshot() | ((F.col("position") > 0) & F.col("voters").isNotNull())
    records = of_types(metadata_log(events), KRAFT_VOTERS).where(stated)
    in_order = Window.partitionBy("cluster").orderBy("position", "metadata_offset")
    as_of = F.floor((F.col("position") - 1) / 2)
    state = F.struct("voters", as_of.alias("offset"), "position", ref().alias("ref"))
    rows = records.withColumn("earlier", F.lag(state).over(in_order)).where(~in_snapshot())
    history = cluster_history(events).select("cluster", "log_holes", "raft_leaders")
    rows = rows.drop("node").join(F.broadcast(history), "cluster", "left")
    return rows.select(
        "cluster", raft_leader().alias("node"), "metadata_offset", "raft_epoch", "voters",
        ref().alias("record_ref"),
        F.col("earlier").isNull().alias("first"),
        F.col("earlier.voters").alias("earlier_voters"), F.col("earlier.offset").alias("earlier_offset"),
        F.col("earlier.ref").alias("earlier_ref"),
        F.array_except("voters", "earlier.voters").alias("added"),
        F.array_except("earlier.voters", "voters").alias("removed"),
        recorded_between(F.col("earlier.position"), F.col("position")).alias("log_whole"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id", "client_id", "group_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch", "correlation_id")),
    )  # fmt: skip
