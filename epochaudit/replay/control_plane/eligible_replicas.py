"""Frame `eligible_replicas`: partition records of the metadata log that follow or state eligible leader replicas (KIP-966)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.kafka.field_values import RECOVERING
from epochaudit.replay.state.cluster_history import cluster_history, level_at
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.partition_states import PARTITION_RECORDS, RECORD, STATE, partition_states

_ON: Final = 1  # level of eligible.leader.replicas.version
_HISTORY: Final = ("elr_levels", "raft_leaders")


def names_eligible() -> Column:
    """The record names an eligible leader replica."""
    return _any("elr")


def eligible_replicas(events: DataFrame) -> DataFrame:
    """One row per partition record with an eligible leader replica in the state before or after it. Clock: the metadata offset.

    Records from a time when eligible.leader.replicas.version was below 1 are left out. Needs: the events table.
    node is the Raft leader of the record's epoch. Columns, beside those of `partition_states`:
      previous_*     leader, isr, replicas, elr, last_known_elr, leader_recovery_state and others of the state before;
                     null without a record of the partition before. It may be a state that a ClearElrRecord made
      previous_ref   the event of that state
      elr_level      eligible.leader.replicas.version level in force at the record; null: not in the evidence
      log_whole      as in `cluster_history`
      changes        the record changes a state. Records of a snapshot, and those that create a partition, do not
      reassigned     it also sets the replicas, or those that a reassignment adds or removes
      marks          it marks the election as unclean, by leaderRecoveryState
      in_both        members of the ISR and of the ELR after the record
      from_nowhere   members of the ELR after it that are known from neither list before
    """
    states = partition_states(events, RECORD).where(
        F.col("event_type").isin(*PARTITION_RECORDS) & (_any("elr") | _any("before.elr"))
    )
    history = cluster_history(events).select("cluster", "log_complete", "log_whole", *_HISTORY)
    rows = states.join(F.broadcast(history), "cluster", "left")
    rows = rows.withColumn("elr_level", level_at(F.col("clock"), "elr_levels")).where(_may_be_on())
    rows = with_identity(rows, topic_incarnations(events))
    return rows.withColumns(_columns()).drop("before", "log_complete", *_HISTORY)


def _any(name: str) -> Column:
    return F.coalesce(F.size(name) > 0, F.lit(False))


def _may_be_on() -> Column:
    """A complete log without a level has none: the feature is off."""
    return F.coalesce(F.col("elr_level") >= _ON, ~F.coalesce("log_complete", F.lit(False)))


def _columns() -> dict[str, Column]:
    leading = F.filter("raft_leaders", lambda leader: leader["raft_epoch"] == F.col("raft_epoch"))
    replicas = F.coalesce(F.col("replicas") != F.col("before.replicas"), F.lit(False))
    moves = F.col("adding_replicas").isNotNull() | F.col("removing_replicas").isNotNull()
    none = F.array().cast("array<int>")
    before = F.concat(F.coalesce("before.isr", none), F.coalesce("before.elr", none))
    in_snapshot = F.coalesce("in_snapshot", F.lit(False))
    return {
        **{f"previous_{name}": F.col(f"before.{name}") for name in STATE},
        "previous_ref": F.col("before.state_ref"),
        "node": F.try_element_at(leading, F.lit(1))["leader"],
        "changes": (F.col("event_type") == "PARTITION_CHANGE_RECORD") & ~in_snapshot,
        "reassigned": replicas | moves,
        "marks": _recovers("leader_recovery_state") & ~_recovers("before.leader_recovery_state"),
        "in_both": F.array_sort(F.array_intersect("isr", "elr")),
        "from_nowhere": F.array_sort(F.array_except("elr", before)),
        "group_id": F.lit(None).cast("string"),
    }


def _recovers(name: str) -> Column:
    return F.coalesce(F.col(name) == RECOVERING, F.lit(False))
