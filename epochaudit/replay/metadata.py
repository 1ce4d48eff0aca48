"""Frame `metadata`: every committed state of a partition, with the state before it and the standing of its ISR members.

In KRaft these are the partition records of the metadata log, whose offsets are the order of everything. A ZooKeeper
cluster has no such log: there the states that its controllers report and its brokers accepted stand in.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.cluster_history import (
    INELIGIBLE,
    checks_eligibility,
    cluster_history,
    level_at,
    standing_of,
    states_of,
)
from epochaudit.replay.partition_states import CONTROLLER, LEADER_AND_ISR, RECORD, partition_states
from epochaudit.replay.topic_identities import topic_identities, topic_key_of_name

_BEFORE: Final = ("leader", "leader_epoch", "partition_epoch", "isr", "replicas")


def metadata(events: DataFrame) -> DataFrame:
    """One row per statement of a partition's committed state: see `partition_states` for grain, clocks and state columns.

    Needs: the events table. `node` is the controller that made the change (KRaft: the raft leader of the record's
    epoch, null if the log does not name it), null elsewhere. Adds, beside the columns of `partition_states`:
      previous_*            leader, leader_epoch, partition_epoch, isr, replicas of the row before; previous_ref its
      place starts_anew           a ZooKeeper state that stands at (0, 0), as only creation writes it recreated
      the topic name has had several topic ids metadata_level        metadata.version level in force at the record;
      log_complete as in `cluster_history` checks_eligibility    the controller is 3.3 or later: true, false, null = not
      in the evidence members               ISR members: array of struct(broker_id, standing, ref): active, fenced,
      shutting_down, unregistered or
                            unknown by their registration at the record's place, and the record that says so (KRaft)
      standings             the distinct standings of the members ineligible_members    those that are fenced,
      shutting_down or unregistered, as texts "3 fenced"; ineligible_ref the record of
                            the first
    """
    states = partition_states(events, RECORD, CONTROLLER, LEADER_AND_ISR)
    rows = states.join(F.broadcast(cluster_history(events)), "cluster", "left")
    rows = rows.withColumn("topic_key", F.coalesce("topic_id", topic_key_of_name(F.col("topic"))))
    rows = rows.join(F.broadcast(topic_identities(events)), ["cluster", "topic_key"], "left")
    rows = rows.withColumn("node", _controller()).withColumns(
        {
            **{f"previous_{name}": F.col(f"before.{name}") for name in _BEFORE},
            "previous_ref": F.col("before.state_ref"),
            "topic": F.coalesce("topic", "named_topic"),
            "topic_id": F.coalesce("topic_id", "identified_topic_id"),
            "recreated": F.coalesce("recreated", F.lit(False)),
            "starts_anew": (F.col("scope") != RECORD) & (F.col("leader_epoch") == 0) & (F.col("partition_epoch") == 0),
            "metadata_level": level_at(F.col("clock")),
            "members": F.when(F.col("scope") == RECORD, F.transform("isr", _member)),
            "group_id": F.lit(None).cast("string"),
        }
    )
    return rows.withColumns(_standing()).drop(
        "brokers",
        "levels",
        "raft_leaders",
        "releases",
        "elections",
        "before",
        "topic_key",
        "named_topic",
        "identified_topic_id",
    )


def _controller() -> Column:
    leading = F.filter("raft_leaders", lambda r: r["raft_epoch"] == F.col("raft_epoch"))
    return F.when(F.col("scope") == RECORD, F.try_element_at(leading, F.lit(1))["leader"]).otherwise(
        F.when(F.col("scope") == CONTROLLER, F.col("node")).otherwise(F.col("controller_id"))
    )


def _member(broker_id: Column) -> Column:
    """An ISR member and its standing at the record's place."""
    place = F.col("clock")
    there = F.filter(states_of(broker_id), lambda state: (state["since"] <= place) & (state["until"] > place))
    state = F.try_element_at(there, F.lit(1))
    return F.struct(broker_id.alias("broker_id"), standing_of(state).alias("standing"), state["ref"].alias("ref"))


def _standing() -> dict[str, Column]:
    ineligible = F.filter("members", lambda member: member["standing"].isin(*INELIGIBLE))
    return {
        "standings": F.array_distinct("members.standing"),
        "ineligible_members": F.transform(ineligible, lambda m: F.concat_ws(" ", m["broker_id"], m["standing"])),
        "ineligible_ref": F.try_element_at(ineligible["ref"], F.lit(1)),
        "checks_eligibility": checks_eligibility(
            F.col("node"),
            F.col("metadata_level"),
            F.when(F.col("scope") == CONTROLLER, F.col("time_ms")),  # a record's time is no time of the node's logs
            F.when(F.col("scope") == RECORD, F.col("raft_epoch")),
        ),
    }
