"""Nodes whose logs print UTC, as the metadata log does.

CreateTime of metadata records is UTC, but log4j prints the host's local time, without its zone, and capture.toml may not name it. A
broker prints a line as soon as it applies a record that begins a leader epoch: the two times show whether they can be compared.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import FOLLOWER_STARTS, LEADER_STARTS, PARTITION_RECORD
from epochaudit.events.times import ANY_ZONE_MS, SLACK_MS
from epochaudit.events.views import holds, of_types
from epochaudit.replay.state.metadata_log import in_snapshot
from epochaudit.replay.state.partition_states import OF_RECORD, partition_states
from epochaudit.spark.memo import checkpointed

# after which a running broker has applied a record; zones differ by a quarter of an hour or more
APPLIED_MS: Final = 60_000


def with_utc(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds prints_utc: the node's times are UTC; false if that is not known. Grain unchanged. Needs: cluster, node."""
    rows = rows.join(F.broadcast(_utc_nodes(events)), ["cluster", "node"], "left")
    return rows.withColumn("prints_utc", holds(F.col("prints_utc")))


def zone_margin_ms() -> Column:
    """By how much a printed time may differ from UTC, in milliseconds. Needs: prints_utc."""
    return F.when(F.col("prints_utc"), 0).otherwise(ANY_ZONE_MS)


@checkpointed
def _utc_nodes(events: DataFrame) -> DataFrame:
    """One row per node with "starts" lines of leader epochs whose records are known: cluster, node, prints_utc.

    A line may come long after its record, when the broker starts again, but not before it. So it is the shortest delay that counts.
    """
    of_epoch = ["cluster", "topic_id", "partition", "leader_epoch"]
    begins = (F.col("event_type") == PARTITION_RECORD) | (F.col("leader_epoch") > F.col("before.leader_epoch"))
    records = partition_states(events, OF_RECORD).where(~in_snapshot() & begins)
    records = records.groupBy(*of_epoch).agg(F.min("time_ms").alias("written_ms"))
    lines = of_types(events, LEADER_STARTS, FOLLOWER_STARTS).where(F.col("topic_id").isNotNull())
    delays = lines.select(*of_epoch, "node", "time_ms").join(F.broadcast(records), of_epoch)
    shortest = F.min(F.col("time_ms") - F.col("written_ms"))
    return delays.groupBy("cluster", "node").agg(shortest.between(-SLACK_MS, APPLIED_MS).alias("prints_utc"))
