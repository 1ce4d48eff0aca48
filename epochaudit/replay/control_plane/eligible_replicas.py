"""Frame `eligible_replicas`: partition records of the metadata log that follow or state eligible leader replicas (KIP-966)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    CONFIG_RECORD,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    PARTITION_CHANGE_RECORD,
    REGISTER_BROKER_RECORD,
    TOPIC_RECORD,
)
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.field_values import NO_LEADER, RECOVERING
from epochaudit.kafka.releases import MetadataVersion, release
from epochaudit.replay.state.cluster_history import cluster_history, level_at, raft_leader, releases_of, whole_up_to
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log
from epochaudit.replay.state.min_insync_replicas import MIN_INSYNC_REPLICAS
from epochaudit.replay.state.partition_states import OF_RECORD, PARTITION_RECORDS, STATE, partition_states

ELR_ON: Final = 1  # level of eligible.leader.replicas.version
_HISTORY: Final = ("elr_levels", "levels", "releases", "raft_leaders")
# the last two are Raft's own, between any two batches
_WITHIN_EVENTS: Final = (PARTITION_CHANGE_RECORD, KRAFT_VERSION, KRAFT_VOTERS)
_FIRST_REMEMBERING: Final = release("4.3")


def names_eligible() -> Column:
    """The record names an eligible leader replica."""
    return _any("elr")


def eligible_replicas(events: DataFrame) -> DataFrame:
    """One row per partition record with an eligible leader replica in the state before or after it, or that elects one which the same
    batch took off the ELR. Clock: the metadata offset.

    Records from a time when eligible.leader.replicas.version was below 1 are left out. Needs: the events table.
    node is the Raft leader of the record's epoch. Columns, beside those of `partition_states`:
      previous_*     leader, isr, replicas, elr, last_known_elr, leader_recovery_state and others of the state before;
                     null without a record of the partition before. It may be a state that a ClearElrRecord made
      previous_ref   the event of that state
      elr_level      eligible.leader.replicas.version level in force at the record; null: not in the evidence
      log_whole      no record of the metadata log before this one is missing, nor, if it leaves no leader and an empty ISR, before
                     the next election
      changes        the record changes a state. Records of a snapshot, and those that create a partition, do not
      reassigned     it also sets the replicas, or those that a reassignment adds or removes
      marks          it marks the election as unclean, by leaderRecoveryState
      elects         the record elects a leader from outside the ISR before: one of the ELR, or one in neither list. One that
                     completes a reassignment does not: it elects from the ISR that it writes
      elected_from   the ELR before that has the leader, or elr_in_batch if only that has it; null: neither has
      emptied_elr    elr_in_batch, if only that has the leader; emptied_elr_ref
      unclean        the leader was in neither list, nor in elr_in_batch, or the record marks the election as unclean
      isr_members    number of members of the ISR that the record leaves, before it elects
      isr_grows      these are more than before the record
      forgotten      members of the ELR before that are in neither list after it
      registers      the broker whose RegisterBrokerRecord ends the event: it follows the record, with nothing in between but
                     PartitionChangeRecords; null: none does
      event_ended    a record of another type than LeaderChange follows these PartitionChangeRecords
      partition_0_replicas  the lowest number of replicas that partition 0 of the topic had since the record before, which
                     limits min.insync.replicas; null: not in the evidence
      most_partition_0_replicas   the highest number that it had up to the record
      min_insync_replicas   of the topic at the record, of its own setting or of the cluster's; null: not in the evidence.
                     min_insync_replicas_ref: that setting
      remembers      the controller is 4.3 or later, and keeps the ELR when it assigns a log directory: true, false, null = not in
                     the evidence
      left_to_unclean   the partition has no leader and an empty ISR after the record, and its next leader is elected uncleanly
      next_leader, next_leader_ref   that election, or another that follows
      in_both        members of the ISR and of the ELR after the record
      from_nowhere   members of the ELR after it that are known from neither list before, nor from elr_in_batch
    """
    states = partition_states(events, OF_RECORD)
    rows = _with_next_election(states).where(
        F.col("event_type").isin(*PARTITION_RECORDS) & (_named() | holds(_elected_in_batch()))
    )
    history = cluster_history(events).select("cluster", "log_complete", "log_holes", *_HISTORY)
    rows = rows.join(F.broadcast(history), "cluster", "left")
    rows = rows.withColumn("elr_level", level_at(F.col("clock"), "elr_levels")).where(_may_be_on())
    rows = rows.join(_event_ends(events), ["cluster", "clock"], "left")
    rows = rows.join(_replicas_of_partition_0(states), ["cluster", "identity"], "left")
    rows = with_identity(rows, topic_incarnations(events))
    rows = _with_min_insync_replicas(rows, events)
    rows = rows.withColumns(_columns()).withColumns(_elections())
    return rows.withColumns(_forgetting()).drop(
        "before", "log_complete", "log_holes", "next_election", "ended_by", "replica_counts", *_HISTORY
    )


def _named() -> Column:
    """The state before the record, or after it, has an eligible leader replica."""
    return _any("elr") | _any("before.elr")


def _elected_in_batch() -> Column:
    """The record elects a leader from outside the ISR, who is not in the ELR any more, but was when the batch began."""
    listed = [holds(F.array_contains(f"before.{name}", F.col("leader"))) for name in ("isr", "elr")]
    return F.col("sets_leader") & ~listed[0] & ~listed[1] & F.array_contains("elr_in_batch", F.col("leader"))


def _with_next_election(states: DataFrame) -> DataFrame:
    """The states that may be followed or preceded by an ELR, and elections.

    Adds next_election, struct(leader, unclean, ref, clock).
    """
    elects = F.col("sets_leader") & (F.col("leader") >= 0)
    election = F.struct("leader", _unclean().alias("unclean"), F.col("state_ref").alias("ref"), "clock")
    backwards = Window.partitionBy("cluster", "identity", "partition").orderBy(
        *(F.desc(name) for name in ("clock", "tick", "file", "byte_offset"))
    )
    following = F.last(F.when(elects, election), ignorenulls=True).over(
        backwards.rowsBetween(Window.unboundedPreceding, -1)
    )
    rows = states.where(_named() | holds(elects))
    return rows.withColumn("next_election", following)


def _event_ends(events: DataFrame) -> DataFrame:
    """One row per PartitionChangeRecord: clock, and ended_by, the next record of another type: struct(event_type, broker_id).

    A controller writes one event after the other, and the RegisterBrokerRecord last (ClusterControlManager.registerBroker). Not
    batches tell where an event ends: from 4.0 on this one may have several.
    """
    backwards = Window.partitionBy("cluster").orderBy(F.desc("position"), F.desc("metadata_offset"))
    other = F.when(~F.col("event_type").isin(*_WITHIN_EVENTS), F.struct("event_type", "broker_id"))
    ended_by = F.last(other, ignorenulls=True).over(backwards.rowsBetween(Window.unboundedPreceding, -1))
    log = metadata_log(events).where(~in_snapshot())
    rows = log.select("cluster", "position", "metadata_offset", "event_type", "broker_id").withColumn(
        "ended_by", ended_by
    )
    return rows.where(F.col("event_type") == PARTITION_CHANGE_RECORD).select(
        "cluster", F.col("position").alias("clock"), "ended_by"
    )


def _replicas_of_partition_0(states: DataFrame) -> DataFrame:
    """One row per topic: replica_counts of its partition 0, array of struct(since, replicas), in order."""
    replicas = F.size("replicas")
    changed = F.col("before").isNull() | (replicas != F.size("before.replicas"))
    counts = states.where((F.col("partition") == 0) & F.col("replicas").isNotNull() & F.coalesce(changed, F.lit(True)))
    entry = F.struct(F.col("clock").alias("since"), replicas.alias("replicas"))
    return counts.groupBy("cluster", "identity").agg(F.array_sort(F.collect_set(entry)).alias("replica_counts"))


def _with_min_insync_replicas(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds min_insync_replicas and min_insync_replicas_ref.

    The topic's own setting counts from the creation of the topic on: a deletion removes it without a record. If there is none, that of
    the cluster counts, which controllers write when the feature is turned on; they refuse a broker's own
    (ConfigurationControlManager.maybeGenerateElrSafetyRecords).
    """
    log = metadata_log(events)
    setting = F.struct(
        F.col("position").alias("since"), "topic", F.col("value").try_cast("int").alias("members"), ref().alias("ref")
    )
    settings = log.where((F.col("event_type") == CONFIG_RECORD) & (F.col("name") == MIN_INSYNC_REPLICAS))
    by_cluster = settings.where(F.col("broker_id").isNull()).groupBy("cluster")
    created = of_types(log, TOPIC_RECORD).groupBy("cluster", F.col("topic_id").alias("identity"))
    rows = rows.join(
        F.broadcast(by_cluster.agg(F.array_sort(F.collect_list(setting)).alias("settings"))), "cluster", "left"
    )
    rows = rows.join(
        F.broadcast(created.agg(F.min("position").alias("created"), F.min("topic").alias("created_name"))),
        ["cluster", "identity"], "left",
    )  # fmt: skip
    so_far = F.filter("settings", lambda one: one["since"] <= F.col("clock"))
    of_topic = F.filter(
        so_far, lambda one: (one["topic"] == F.col("created_name")) & (one["since"] >= F.col("created"))
    )
    of_cluster = F.filter(so_far, lambda one: one["topic"].isNull())
    own = F.try_element_at(of_topic, F.lit(-1))
    found = F.when(own["members"].isNotNull(), own).otherwise(F.try_element_at(of_cluster, F.lit(-1)))
    known = F.when(F.col("created").isNotNull(), found)
    added = {"min_insync_replicas": known["members"], "min_insync_replicas_ref": known["ref"]}
    return rows.withColumns(added).drop("settings", "created", "created_name")


def _any(name: str) -> Column:
    return holds(F.size(name) > 0)


def _may_be_on() -> Column:
    """A complete log without a level has none: the feature is off."""
    return F.coalesce(F.col("elr_level") >= ELR_ON, ~holds(F.col("log_complete")))


def _columns() -> dict[str, Column]:
    moves = F.col("adding_replicas").isNotNull() | F.col("removing_replicas").isNotNull()
    until_election = F.coalesce("next_election.clock", F.lit(FOREVER))
    return {
        **{f"previous_{name}": F.col(f"before.{name}") for name in STATE},
        "previous_ref": F.col("before.state_ref"),
        "node": raft_leader(),
        "changes": (F.col("event_type") == PARTITION_CHANGE_RECORD) & ~in_snapshot(),
        "reassigned": holds(F.col("replicas") != F.col("before.replicas")) | moves,
        "marks": _marks(),
        "log_whole": whole_up_to(F.when(_left_empty(), until_election).otherwise(F.col("clock"))),
        "in_both": F.array_sort(F.array_intersect("isr", "elr")),
        "from_nowhere": F.array_sort(F.array_except("elr", _lists_before())),
        "group_id": F.lit(None).cast("string"),
    }


def _elections() -> dict[str, Column]:
    """What the record elects, and the ISR without it. PartitionChangeBuilder sets the ELR by the ISR before it elects."""
    elected = F.col("sets_leader") & (F.col("leader") >= 0)
    outside = ~holds(F.array_contains("before.isr", F.col("leader")))
    alone = (F.size("isr") == 1) & F.array_contains("isr", F.col("leader"))
    elects = holds(elected & outside & alone & ~F.col("completes_reassignment"))
    in_batch = holds(_elected_in_batch())
    members = F.when(elects, 0).otherwise(F.size("isr"))
    return {
        "elects": elects,
        "elected_from": F.when(in_batch, F.col("elr_in_batch")).when(
            F.array_contains("before.elr", F.col("leader")), F.col("before.elr")
        ),
        "emptied_elr": F.when(in_batch, F.col("elr_in_batch")),
        "emptied_elr_ref": F.when(in_batch, F.col("elr_in_batch_ref")),
        "unclean": holds(elected & _unclean()),
        "isr_members": members,
        "isr_grows": members > F.size("before.isr"),
        "next_leader": F.col("next_election.leader"),
        "next_leader_ref": F.col("next_election.ref"),
        "left_to_unclean": holds(_left_empty() & F.col("next_election.unclean")),
    }


def _left_empty() -> Column:
    """The record leaves the partition without a leader, and with an empty ISR."""
    return (F.col("leader") == NO_LEADER) & (F.size("isr") == 0)


def _forgetting() -> dict[str, Column]:
    node_releases = releases_of(F.col("node"), raft_epoch=F.col("raft_epoch"))
    ended_by, registered = F.col("ended_by.event_type"), F.col("ended_by.event_type") == REGISTER_BROKER_RECORD
    since = F.filter("replica_counts", lambda count: count["since"] <= F.col("previous_clock"))
    between = F.filter(
        "replica_counts",
        lambda count: (count["since"] > F.col("previous_clock")) & (count["since"] < F.col("clock")),
    )
    first = F.try_element_at(since, F.lit(-1))["replicas"]
    up_to = F.filter("replica_counts", lambda count: count["since"] < F.col("clock"))
    return {
        "forgotten": F.array_sort(F.array_except(F.array_except("before.elr", "elr"), "isr")),
        "registers": F.when(registered, F.col("ended_by.broker_id")),
        "event_ended": holds(ended_by != LEADER_CHANGE),
        "partition_0_replicas": F.when(first.isNotNull(), F.array_min(F.concat(F.array(first), between["replicas"]))),
        "most_partition_0_replicas": F.array_max(up_to["replicas"]),
        "remembers": F.when(level_at(F.col("clock")) >= MetadataVersion.IBP_4_3_IV0, F.lit(True))
        .when(F.array_min(node_releases) >= _FIRST_REMEMBERING, F.lit(True))
        .when(F.array_max(node_releases) < _FIRST_REMEMBERING, F.lit(False)),
    }


def _lists_before() -> Column:
    """Members of the ISR and of the ELR before the record, and of the ELR that its batch has emptied."""
    return F.concat(*(F.coalesce(name, _none()) for name in ("before.isr", "before.elr", "elr_in_batch")))


def _none() -> Column:
    return F.array().cast("array<int>")


def _marks() -> Column:
    return _recovers("leader_recovery_state") & ~_recovers("before.leader_recovery_state")


def _unclean() -> Column:
    """The leader was in neither list before, or is marked as elected uncleanly.

    The record that completes a reassignment elects from the ISR that it writes (PartitionChangeBuilder.completeReassignmentIfNeeded).
    """
    reassigned = F.col("completes_reassignment") & holds(F.array_contains("isr", F.col("leader")))
    return _marks() | (~F.array_contains(_lists_before(), F.col("leader")) & ~reassigned)


def _recovers(name: str) -> Column:
    return holds(F.col(name) == RECOVERING)
