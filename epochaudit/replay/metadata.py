"""Frame `metadata`: every committed state of a partition, with the state before it and the standing of its ISR members.

In KRaft these are the partition records of the metadata log, whose offsets are the order of everything. A ZooKeeper
cluster has no such log: there the states that its controllers report and its brokers accepted stand in.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.cluster_history import checks_eligibility, cluster_history, level_at, states_of
from epochaudit.replay.partition_states import CONTROLLER, LEADER_AND_ISR, RECORD, partition_states
from epochaudit.replay.topic_identities import topic_identities, topic_key_of_name

_BEFORE: Final = ("leader", "leader_epoch", "partition_epoch", "isr", "replicas")


def metadata(events: DataFrame) -> DataFrame:
    """One row per statement of a partition's committed state: see `partition_states` for grain, clocks and state columns.

    Needs: the events table. `node` is the controller that made the change (KRaft: the raft leader of the record's epoch,
    null if the log does not name it), null elsewhere. Adds, beside the columns of `partition_states`:
      previous_*            leader, leader_epoch, partition_epoch, isr, replicas of the row before; previous_ref its place
      starts_anew           a ZooKeeper state that stands at (0, 0), as only creation writes it
      recreated             the topic name has had several topic ids
      metadata_level        metadata.version level in force at the record; log_complete as in `cluster_history`
      checks_eligibility    the controller is 3.3 or later: true, false, null = not in the evidence
      fenced_members, shutting_down_members, unregistered_members, unknown_members
                            ISR members by what their registration says at the record's place (KRaft)
      ineligible_ref        the record that made the first such member so
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
    return _with_standing(rows).drop("brokers", "levels", "raft_leaders", "releases", "elections", "before", "members", "topic_key")


def _controller() -> Column:
    leading = F.filter("raft_leaders", lambda r: r["raft_epoch"] == F.col("raft_epoch"))
    return F.when(F.col("scope") == RECORD, F.try_element_at(leading, F.lit(1))["leader"]).otherwise(
        F.when(F.col("scope") == CONTROLLER, F.col("node")).otherwise(F.col("controller_id"))
    )


def _member(broker_id: Column) -> Column:
    """An ISR member and its state at the record's place; the state is null if the log is not complete and says nothing."""
    place = F.col("clock")
    there = F.filter(states_of(broker_id), lambda state: (state["since"] <= place) & (state["until"] > place))
    return F.struct(broker_id.alias("broker_id"), F.try_element_at(there, F.lit(1)).alias("state"))


def _with_standing(rows: DataFrame) -> DataFrame:
    def ids(condition: Column) -> Column:
        return F.transform(condition, lambda member: member["broker_id"])

    def unknown(member: Column) -> Column:
        state = member["state"]
        return state["broker_epoch"].isNull() & (state["assumed"] & ~F.col("log_complete")) | state["fenced"].isNull()

    def unregistered(member: Column) -> Column:
        return ~unknown(member) & ~member["state"]["registered"]

    def fenced(member: Column) -> Column:
        return ~unknown(member) & member["state"]["registered"] & member["state"]["fenced"]

    def shutting_down(member: Column) -> Column:
        return ~unknown(member) & member["state"]["registered"] & F.coalesce(member["state"]["in_controlled_shutdown"], F.lit(False))

    ineligible = F.filter("members", lambda m: unregistered(m) | fenced(m) | shutting_down(m))
    return rows.withColumns(
        {
            "fenced_members": ids(F.filter("members", fenced)),
            "shutting_down_members": ids(F.filter("members", shutting_down)),
            "unregistered_members": ids(F.filter("members", unregistered)),
            "unknown_members": ids(F.filter("members", unknown)),
            "ineligible_members": ids(ineligible),
            "ineligible_ref": F.try_element_at(ineligible, F.lit(1))["state"]["ref"],
            "checks_eligibility": checks_eligibility(F.col("node"), F.col("metadata_level")),
        }
    )
