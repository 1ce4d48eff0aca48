"""Frame `metadata`: every committed state of a partition, with the state before it and the standing of its ISR members.

In KRaft these are the partition records of the metadata log, whose offsets are the order of everything. A ZooKeeper
cluster has no such log: there the states that its controllers report and its brokers accepted stand in.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.cluster_history import (
    FOLDED,
    INELIGIBLE,
    checks_eligibility,
    cluster_history,
    level_at,
    releases_of,
    standing_of,
    states_of,
    unclean_permitted,
)
from epochaudit.replay.incarnations import topic_incarnations, with_identity
from epochaudit.replay.partition_states import CLEARED, CONTROLLER, LEADER_AND_ISR, RECORD, partition_states
from epochaudit.replay.told_isrs import with_told_isrs

_BEFORE: Final = ("leader", "leader_epoch", "partition_epoch", "isr", "replicas", "elr", "last_known_elr")
_SHRINK_KEEPS_EPOCH_LEVEL: Final = 12  # 3.6-IV0
_RELEASE_3_6: Final = 306
_HANDLING_MS: Final = 1000  # requests about the state before may still be under way when the controller writes the next


def metadata(events: DataFrame) -> DataFrame:
    """One row per statement of a partition's committed state: see `partition_states` for grain, clocks and state columns.

    States that a ClearElrRecord makes are no rows, but may be the state before. Needs: the events table. `node` is the
    controller that made the change (KRaft: the raft leader of the record's epoch, null if the log does not name it), null
    elsewhere. Adds, beside the columns of `partition_states`:
      previous_*            leader, leader_epoch, partition_epoch, isr, replicas, elr, last_known_elr of the row before;
                            previous_ref its place
      starts_anew           a ZooKeeper state that stands at (0, 0), as only creation writes it
      created               the record creates the partition (KRaft; not one in a snapshot)
      elects                the record or line makes another node leader than the state before had
      recreated             the topic name has had several topic ids
      deleted_by_name       a topic of the name was deleted, by a fact that states no id
      deleted_before        (ZooKeeper controllers) a topic of the name was deleted since the state before, by the clock of the
                            controller's own host
      isr_before            the ISR of the partition epoch before, of an election in a controller's line; else previous_isr
      isr_before_ref        where that is stated
      isr_before_stated     it is, rather than that of the row before
      same_topic_id         (ZooKeeper controllers) the requests that the controller's own broker took in the state before
                            and in this one have the same topic id, and no other comes between
      metadata_level        metadata.version level in force at the record; log_complete, migrates as in `cluster_history`
      checks_eligibility    the controller is 3.3 or later: true, false, null = not in the evidence
      bumps_on_shrink       an ISR that shrinks raises the leader epoch (metadata.version below 3.6-IV0): the same three
      unclean_permitted     an unclean election of the topic was permitted: the same three
      members               ISR members: array of struct(broker_id, standing, ref): active, fenced, shutting_down,
                            unregistered or unknown by their registration at the record's place, and the record that says
                            so (KRaft)
      standings             the distinct standings of the members
      leader_standing       the leader's, if it is a member; leader_ref the record that says so
      ineligible_members    those that are fenced, shutting_down or unregistered, as texts "3 fenced"; ineligible_ref the
                            record of the first
    """
    states = partition_states(events, RECORD, CONTROLLER, LEADER_AND_ISR).where(F.col("event_type") != CLEARED)
    rows = states.join(F.broadcast(cluster_history(events)), "cluster", "left")
    rows = with_identity(
        rows, topic_incarnations(events), "recreated", "deleted_by_name", "created_once", "deletions", "sightings"
    )
    rows = with_told_isrs(rows.withColumn("began_ms", _began_ms()), events)
    rows = rows.withColumn("node", _controller()).withColumns(
        {
            **{f"previous_{name}": F.col(f"before.{name}") for name in _BEFORE},
            "previous_ref": F.col("before.state_ref"),
            "starts_anew": (F.col("scope") != RECORD) & (F.col("leader_epoch") == 0) & (F.col("partition_epoch") == 0),
            "same_topic_id": _same_topic_id(),
            "deleted_before": _deleted_before(),
            "isr_before": F.coalesce("told_isr", "before.isr"),
            "isr_before_ref": F.coalesce("told_ref", "before.state_ref"),
            "isr_before_stated": F.col("told_isr").isNotNull(),
            "metadata_level": level_at(F.col("clock")),
            "created": _created(),
            "unclean_permitted": unclean_permitted(F.col("topic")),
            "members": F.when(F.col("scope") == RECORD, F.transform("isr", _member)),
            "group_id": F.lit(None).cast("string"),
        }
    )
    return rows.withColumns(_standing()).drop(
        *FOLDED, "before", "sightings", "deletions", "created_once", "began_ms", "told_isr", "told_ref"
    )


def _created() -> Column:
    in_snapshot = F.coalesce("in_snapshot", F.lit(False))
    return (
        (F.col("event_type") == "PARTITION_RECORD")
        & ~in_snapshot
        & (F.col("leader_epoch") == 0)
        & (F.col("partition_epoch") == 0)
    )


def _same_topic_id() -> Column:
    """Compares times of the controller's own host only."""
    place, before = F.col("state_ref"), F.col("before.state_ref")
    here = F.filter("sightings", lambda s: s["node"] == place["node"])
    spans = F.exists(here, lambda s: (s["since"] <= before["time_ms"]) & (s["until"] > place["time_ms"] + _HANDLING_MS))
    comes = F.exists(here, lambda s: s["since"] > before["time_ms"])
    told = (F.col("scope") == CONTROLLER) & (before["node"] == place["node"])
    return F.coalesce(told & spans & ~comes, F.lit(False))


def _began_ms() -> Column:
    """Since when the controller writes the partition's states, or wrote the one before; by its own clock."""
    before = F.col("before.state_ref")
    elected = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= F.col("time_ms")))
    own = F.when(before["node"] == F.col("node"), before["time_ms"])
    return F.when(F.col("scope") == CONTROLLER, F.coalesce(own, F.array_max(elected["time_ms"])))


def _deleted_before() -> Column:
    """A controller deletes topics itself; its broker loses a replica that it had in the ISR with the topic."""
    here = F.filter("deletions", lambda d: d["node"] == F.col("node"))
    since = F.filter(here, lambda d: (d["until"] >= F.col("began_ms")) & (d["since"] <= F.col("time_ms")))
    of_topic = F.exists(since, lambda d: ~d["of_log"] | F.array_contains(F.col("before.isr"), F.col("node")))
    return F.coalesce(of_topic, F.lit(False))


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
    leading = F.try_element_at(F.filter("members", lambda m: m["broker_id"] == F.col("leader")), F.lit(1))
    level, raft_epoch = F.col("metadata_level"), F.when(F.col("scope") == RECORD, F.col("raft_epoch"))
    release = F.array_max(releases_of(F.col("node"), raft_epoch=raft_epoch))
    decided = (F.col("event_type") == "PARTITION_CHANGE_RECORD") | (F.col("event_type") == "PARTITION_STATE_CHANGED")
    return {
        "elects": decided & (F.col("leader") >= 0) & (F.col("leader") != F.col("previous_leader")),
        "leader_standing": leading["standing"],
        "leader_ref": leading["ref"],
        "bumps_on_shrink": F.when(level.isNotNull(), level < _SHRINK_KEEPS_EPOCH_LEVEL).when(
            release < _RELEASE_3_6, F.lit(True)
        ),
        "standings": F.array_distinct("members.standing"),
        "ineligible_members": F.transform(ineligible, lambda m: F.concat_ws(" ", m["broker_id"], m["standing"])),
        "ineligible_ref": F.try_element_at(ineligible["ref"], F.lit(1)),
        "checks_eligibility": checks_eligibility(
            F.col("node"),
            F.col("metadata_level"),
            F.when(F.col("scope") == CONTROLLER, F.col("time_ms")),  # a record's time is no time of the node's logs
            raft_epoch,
        ),
    }
