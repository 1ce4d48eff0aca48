"""All recorded statements of a partition's leader in a leader epoch, from all sources, as one kind of row.

Statements are requests answered 0 at the top level and for the partition, lines of a broker or controller about its own
decision, and committed metadata records. A refused request states nothing.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import ALTER_PARTITION, FOLLOWER_STARTS, LEADER_STARTS, UNCLEAN_ELECTION
from epochaudit.events.views import of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import RECOVERING
from epochaudit.replay.state.held_epochs import replica_starts
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.partition_states import OF_CONTROLLER, OF_RECORD, OF_REQUEST, partition_states
from epochaudit.spark.memo import checkpointed

_RECORDED: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "leader_epoch", "partition_epoch", "leader", "isr", "elr",
    "leader_recovery_state", "elr_in_batch", "completes_reassignment", "position", "isr_since", "own_ref",
)  # fmt: skip
_STATE: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "ambiguous_name", "partition", "leader_epoch", "partition_epoch",
    "leader", "isr", "elr", "leader_recovery_state", "elr_in_batch", "completes_reassignment", "position", "isr_since",
    "previous_epoch", "start_offset", "high_watermark", "file_order", "byte_offset", "own_ref",
)  # fmt: skip


@checkpointed
def leader_states(events: DataFrame) -> DataFrame:
    """One row per recorded statement "in leader epoch E the leader is L".

    Needs: the events table. Clock: leader epoch, then partition epoch; both count per topic id.
    Columns: cluster, node (that states it; null for a record), event_type, topic, topic_id, ambiguous_name (the name alone does
    not identify a topic), partition, leader_epoch, partition_epoch, leader (-1: none), isr, elr, leader_recovery_state,
    elr_in_batch, completes_reassignment, isr_since and position (of a metadata record, see `partition_states`; position is its clock),
    previous_epoch (as the line states it), start_offset and high_watermark (of LEADER_STARTS; offsets), file_order, byte_offset, own_ref.
    """
    none = F.lit(None)
    starts = replica_starts(events).where(F.col("proven") & F.col("leader").isNotNull())
    leads = F.col("is_leader")
    starts = starts.withColumns(
        {
            "event_type": F.when(leads, LEADER_STARTS).otherwise(FOLLOWER_STARTS),
            "elr": none.cast("array<int>"),
            "leader_recovery_state": none.cast("int"),
            "elr_in_batch": none.cast("array<int>"),
            "completes_reassignment": none.cast("boolean"),
            "position": none.cast("bigint"),
            "isr_since": none.cast("bigint"),
            "start_offset": F.when(leads, F.col("start_offset")),
            "high_watermark": F.when(leads, F.col("high_watermark")),
        }
    ).select(*_STATE)
    return starts.unionByName(_stated(events))


def _stated(events: DataFrame) -> DataFrame:
    """One row per statement in an accepted request, a controller's line or a committed record."""
    none = F.lit(None)
    rows = of_types(events, ALTER_PARTITION, UNCLEAN_ELECTION).withColumn("own_ref", ref())
    changed, unclean = (F.col("event_type") == name for name in (ALTER_PARTITION, UNCLEAN_ELECTION))
    answered = (F.col("error_code") == Errors.NONE) & (
        F.coalesce("request_error_code", F.lit(Errors.NONE)) == Errors.NONE
    )
    rows = rows.where((changed & answered) | unclean).withColumns(
        {
            "leader": F.when(changed, F.col("response_leader")).otherwise(F.col("leader")),
            "leader_epoch": F.when(changed, F.col("response_leader_epoch")).otherwise(F.col("leader_epoch")),
            "partition_epoch": F.col("response_partition_epoch"),  # null for a line
            "isr": F.col("response_isr"),
            "leader_recovery_state": F.when(unclean, RECOVERING),
            "elr_in_batch": none.cast("array<int>"),
            "completes_reassignment": none.cast("boolean"),
            "position": none.cast("bigint"),
            "isr_since": none.cast("bigint"),
        }
    )
    of_record = F.col("scope") == OF_RECORD
    states = partition_states(events, OF_RECORD, OF_CONTROLLER, OF_REQUEST).withColumns(
        {
            "own_ref": F.col("state_ref"),
            "position": F.when(of_record, F.col("clock")),
            "isr_since": F.when(of_record, F.col("isr_since")),
        }
    )
    stated = with_identity(states.select(*_RECORDED).unionByName(rows.select(*_RECORDED)), topic_incarnations(events))
    missing = {
        name: F.lit(None).cast("bigint") for name in ("start_offset", "high_watermark", "file_order", "byte_offset")
    } | {"previous_epoch": F.lit(None).cast("int")}
    return stated.where((F.col("leader") >= -1) & (F.col("leader_epoch") >= 0)).withColumns(missing).select(*_STATE)
