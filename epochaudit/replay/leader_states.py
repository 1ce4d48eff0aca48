"""Everything that was recorded about who led a partition in which leader epoch, from all sources, as one kind of row.

A refused request states nothing: only requests answered 0 at the top level and for the partition, lines that a broker or
controller wrote about its own decision, and committed metadata records do.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.held_epochs import replica_starts
from epochaudit.replay.incarnations import topic_incarnations, with_identity
from epochaudit.replay.kept import kept
from epochaudit.replay.partition_states import CONTROLLER, LEADER_AND_ISR, RECORD, partition_states

RECOVERING: Final = 1

_RECORDED: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "leader_epoch", "partition_epoch", "leader", "isr", "elr",
    "leader_recovery_state", "own_ref",
)  # fmt: skip
_STATE: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "several_incarnations", "partition", "leader_epoch", "partition_epoch",
    "leader", "isr", "elr", "leader_recovery_state", "previous_epoch", "start_offset", "high_watermark", "file_order",
    "byte_offset", "own_ref",
)  # fmt: skip


@kept
def leader_states(events: DataFrame) -> DataFrame:
    """One row per recorded statement "in leader epoch E the leader is L".

    Columns: cluster, node (who states it; null for a record), event_type, topic, topic_id, several_incarnations (the name
    alone tells no topic), partition, leader_epoch, partition_epoch, leader (-1 none), isr, elr, leader_recovery_state,
    previous_epoch (of LEADER_STARTS; of FOLLOWER_STARTS that of the node's line before, as in `replica_starts`), start_offset
    and high_watermark (of LEADER_STARTS), file_order, byte_offset, own_ref.
    Clock: leader epoch, then partition epoch; both count per topic id.
    """
    none = F.lit(None)
    starts = replica_starts(events).where(F.col("proven") & F.col("leader").isNotNull())
    leads = F.col("is_leader")
    starts = starts.withColumns(
        {
            "event_type": F.when(leads, "LEADER_STARTS").otherwise("FOLLOWER_STARTS"),
            "elr": none.cast("array<int>"),
            "leader_recovery_state": none.cast("int"),
            "previous_epoch": F.when(leads, F.col("previous_epoch")).otherwise(F.col("epoch_before")),
            "start_offset": F.when(leads, F.col("start_offset")),
            "high_watermark": F.when(leads, F.col("high_watermark")),
        }
    ).select(*_STATE)
    return starts.unionByName(_stated(events))


def _stated(events: DataFrame) -> DataFrame:
    """Answered requests, controller lines and committed records."""
    rows = of_types(events, "ALTER_PARTITION", "UNCLEAN_ELECTION").withColumn("own_ref", ref())
    changed, unclean = (F.col("event_type") == name for name in ("ALTER_PARTITION", "UNCLEAN_ELECTION"))
    answered = (F.col("error_code") == 0) & (F.coalesce("request_error_code", F.lit(0)) == 0)
    rows = rows.where((changed & answered) | unclean).withColumns(
        {
            "leader": F.when(changed, F.col("response_leader")).otherwise(F.col("leader")),
            "leader_epoch": F.when(changed, F.col("response_leader_epoch")).otherwise(F.col("leader_epoch")),
            "partition_epoch": F.when(changed, F.col("response_partition_epoch")),
            "isr": F.when(changed, F.col("response_isr")),
            "leader_recovery_state": F.when(unclean, RECOVERING),
        }
    )
    states = partition_states(events, RECORD, CONTROLLER, LEADER_AND_ISR).withColumn("own_ref", F.col("state_ref"))
    stated = with_identity(states.select(*_RECORDED).unionByName(rows.select(*_RECORDED)), topic_incarnations(events))
    missing = {
        name: F.lit(None).cast("bigint") for name in ("start_offset", "high_watermark", "file_order", "byte_offset")
    } | {"previous_epoch": F.lit(None).cast("int")}
    return stated.where((F.col("leader") >= -1) & (F.col("leader_epoch") >= 0)).withColumns(missing).select(*_STATE)
