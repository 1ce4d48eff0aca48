"""The committed states of partitions, from three sources. Each source is a scope.

* `record`: PartitionRecord and PartitionChangeRecord of the metadata log, in log order (KRaft).
* `controller`: "Changed partition … with state" lines of ZooKeeper controllers, by controller epoch and log order.
* `leader_and_isr`: LeaderAndIsr partitions that a broker answered 0, by partition epoch and leader epoch. These states were
  committed once; the order in which brokers received them means nothing. ZooKeeper's partition epoch is the version of the znode.
  KRaft begins with it, and goes on counting on its own: where a migration is rolled back, the states of KRaft controllers
  precede those of the ZooKeeper controllers after them, whatever their partition epochs (ZkTopicMigrationClient writes any version).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    CLEAR_ELR_RECORD,
    LEADER_AND_ISR,
    PARTITION_CHANGE_RECORD,
    PARTITION_RECORD,
    PARTITION_STATE_CHANGED,
    REMOVE_TOPIC_RECORD,
    TOPIC_RECORD,
)
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import LEADER_DURING_DELETE, RECOVERING
from epochaudit.replay.state.metadata_log import holes_before, metadata_log
from epochaudit.replay.state.places import at
from epochaudit.spark.memo import checkpointed

PARTITION_RECORDS: Final = (PARTITION_RECORD, PARTITION_CHANGE_RECORD)

OF_RECORD: Final = "record"
OF_CONTROLLER: Final = "controller"
OF_REQUEST: Final = "leader_and_isr"

_COLUMNS: Final = (
    "cluster", "node", "event_type", "file", "byte_offset", "time_ms", "correlation_id", "client_id", "controller_id",
    "controller_epoch", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch", "isr", "replicas",
    "adding_replicas", "removing_replicas", "elr", "last_known_elr", "directories", "leader_recovery_state", "metadata_offset",
    "batch_base_offset", "batch_last_offset", "raft_epoch", "in_snapshot",
)  # fmt: skip
_ELIGIBLE: Final = ("elr", "last_known_elr")
_REASSIGNING: Final = ("adding", "removing")
_SET: Final = ("leader_ref", "isr_ref", "directories_ref")
_PLACE: Final = ("file_order", "split", "line_in_split")
_PLACE_OF_CLEAR: Final = (
    "position", "time_ms", "metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch",
)  # fmt: skip
STATE: Final = (
    "leader",
    "leader_epoch",
    "partition_epoch",
    "isr",
    "replicas",
    "elr",
    "last_known_elr",
    "leader_recovery_state",
)


def partition_states(events: DataFrame, *scopes: str) -> DataFrame:
    """One row per statement of a partition's committed state, of the given scopes.

    Needs: the events table. Clock: rollbacks, then clock, then tick. Columns, beside those of the event:
      scope                see the module
      identity             the key of the topic: its id in the metadata log, its name at a controller, its id or name in
                           LeaderAndIsr
      rollbacks            (LeaderAndIsr) 0 before a migration to KRaft was rolled back, and a higher number after each rollback
      clock, tick          order within (cluster, scope, identity, partition, rollbacks)
      leader, leader_epoch, partition_epoch, isr, replicas, elr, last_known_elr, leader_recovery_state
                           the state after the record, by Kafka's merge (PartitionRegistration.merge); epochs are null if no
                           PartitionRecord of the partition is recorded before
      directories          the log directory of each replica after the record, as last set; empty: a PartitionRecord without
                           them; null: no record of the partition has them
      adding_replicas, removing_replicas   of the record itself; null = unchanged
      leader_ref, isr_ref, replicas_ref, elr_ref, directories_ref   the row or the record before it that set leader, isr, replicas,
                           elr or directories; null: none did
      before               struct of these columns but replicas_ref and elr_ref, of state_ref and rollbacks, and of adding and removing, the
                           replicas that a reassignment adds and removes, from the row before; null for the first
      numbered_before      struct of partition_epoch, leader_epoch and state_ref from the last row before that has a partition epoch: some
                           controllers' lines have none; null if no row before has one
      elr_in_batch         the ELR before the record before, if that is in the same batch; null: it is not. AssignReplicasToDirs to a
                           directory that is offline writes two records of a partition, both as changes of the state before them
                           (ReplicationControlManager.handleAssignReplicasToDirs). elr_in_batch_ref: the record that set it
      completes_reassignment   the record removes replicas of a partition whose ISR is not empty, and cancels no reassignment
      reverts_uncleanly    the record cancels a reassignment, and makes the first replica the ISR, as that had no member but those
                           to be added (PartitionReassignmentRevert)
      previous_clock       clock of the row before
      sets_leader          the record sets the leader field
      next_clock, next_ms, next_isr, next_partition_epoch, next_ref   of the next row; null for the last. Before a hole of the
                           metadata log, next_clock is its end, next_ms the time of the last record before it, and the others are null
      isr_since            clock of the first row of those up to this one that have its ISR, without another ISR between. Null if that is a
                           PartitionRecord of a later partition epoch than 0, as a snapshot has, or a migration from ZooKeeper writes: its
                           ISR is older than the record
      state_ref            the row's own event
    Records are those of `metadata_log`, so a record in several copies is one row. After a hole in that log no state from before it is
    known any more: the first row of a partition is merged with none. A ClearElrRecord is a state of each partition
    whose eligible or last known leader replicas it removes (TopicDelta.replay), with the next partition epoch.
    """
    return _all_states(events).where(F.col("scope").isin(*scopes))


def elects_last_known() -> Column:
    """The record elects the last known leader, marked as unclean (PartitionChangeBuilder.canElectLastKnownLeader, KIP-966).

    The ISR and the ELR are then empty; an event takes one broker out of them. Needs: columns of `partition_states`.
    """
    leader, none = F.array("leader"), F.array().cast("array<int>")
    left = F.array_union(F.coalesce("before.isr", none), F.coalesce("before.elr", none))
    elected = (
        F.col("sets_leader")
        & (F.col("before.last_known_elr") == leader)
        & (F.col("isr") == leader)
        & (F.col("leader_recovery_state") == RECOVERING)
        & (F.size(left) <= 1)
    )
    return holds(elected)


@checkpointed
def _all_states(events: DataFrame) -> DataFrame:
    """The statements of all scopes. Several frames read them; windows are per scope, so a filter by scope can follow."""
    group = ("cluster", "scope", "identity", "partition", "holes_before")
    in_order = Window.partitionBy(*group).orderBy("rollbacks", "clock", "tick", "file", "byte_offset")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    numbered = F.when(F.col("partition_epoch").isNotNull(), F.struct("partition_epoch", "leader_epoch", "state_ref"))
    stated = _stated(events).join(F.broadcast(_controllers(events)), "cluster", "left")
    stated = stated.select(*_COLUMNS, "holes", _scope().alias("scope"), *_place(), ref().alias("state_ref"))
    stated = stated.withColumn("holes_before", F.when(F.col("holes").isNotNull(), holes_before(F.col("clock"))))
    merged = _with_cleared(_merged(_with_applied_clears(stated, events), in_order))
    next_hole = F.get(F.filter("holes", lambda hole: hole["since"] > F.col("clock")), F.lit(0))
    same_batch = F.lag("batch_base_offset").over(in_order) == F.col("batch_base_offset")
    state = F.struct(*STATE, "directories", "state_ref", "rollbacks", *_SET, *_REASSIGNING)
    rows = merged.withColumns(
        {
            "before": F.lag(state).over(in_order),
            "numbered_before": F.last(numbered, ignorenulls=True).over(earlier),
            "elr_in_batch": F.when(same_batch, F.lag("elr", 2).over(in_order)),
            "elr_in_batch_ref": F.when(same_batch, F.lag("elr_ref", 2).over(in_order)),
            "previous_clock": F.lag("clock").over(in_order),
            "next_clock": F.coalesce(F.lead("clock").over(in_order), next_hole["until"]),
            "next_ms": F.coalesce(F.lead("time_ms").over(in_order), next_hole["since_ms"]),
            "next_isr": F.lead("isr").over(in_order),
            "next_partition_epoch": F.lead("partition_epoch").over(in_order),
            "next_ref": F.lead("state_ref").over(in_order),
        }
    )
    of_isr = {"isr_since": F.last(_isr_begins(), ignorenulls=True).over(in_order)["clock"]}
    return rows.withColumns({**_reassignment(), **of_isr}).drop("holes", "holes_before", *_REASSIGNING)


def _stated(events: DataFrame) -> DataFrame:
    """One row per event that states a partition's state; records have their position in the metadata log."""
    event_type = F.col("event_type")
    accepted = (
        (F.col("request_error_code") == Errors.NONE)
        & (F.col("error_code") == Errors.NONE)
        & (F.col("leader") != LEADER_DURING_DELETE)
    )
    installed = (event_type == LEADER_AND_ISR) & accepted
    statements = of_types(events, PARTITION_STATE_CHANGED, LEADER_AND_ISR)
    statements = statements.where((event_type == PARTITION_STATE_CHANGED) | installed).select(*_COLUMNS, *_PLACE)
    records = of_types(metadata_log(events), *PARTITION_RECORDS).drop("copies")
    return statements.unionByName(records, allowMissingColumns=True)


def _scope() -> Column:
    event_type = F.col("event_type")
    return (
        F.when(event_type == PARTITION_STATE_CHANGED, OF_CONTROLLER)
        .when(event_type == LEADER_AND_ISR, OF_REQUEST)
        .otherwise(OF_RECORD)
    )


def _place() -> list[Column]:
    """identity, rollbacks, clock and tick of a statement, see `partition_states`."""
    scope = _scope()
    of_controller, of_request = scope == OF_CONTROLLER, scope == OF_REQUEST
    clock = (
        F.when(of_controller, F.col("controller_epoch"))
        .when(of_request, F.col("partition_epoch"))
        .otherwise(F.col("position"))
    )
    tick = F.when(of_controller, at()).when(of_request, F.col("leader_epoch")).otherwise(F.lit(0))
    return [
        F.when(of_controller, F.col("topic")).otherwise(F.coalesce("topic_id", "topic")).alias("identity"),
        F.when(of_request, _rollbacks()).otherwise(F.lit(0)).alias("rollbacks"),
        clock.cast("bigint").alias("clock"),
        tick.cast("bigint").alias("tick"),
    ]


def _controllers(events: DataFrame) -> DataFrame:
    """One row per cluster: the controller epochs of its LeaderAndIsr requests, of both kinds of controllers.

    Their order is one: who takes over, a KRaft controller too, raises the epoch in ZooKeeper.
    """
    requests = of_types(events, LEADER_AND_ISR).where(F.col("controller_epoch").isNotNull())
    kraft = holds(F.col("is_kraft_controller"))
    return requests.groupBy("cluster").agg(
        F.collect_set(F.when(kraft, F.col("controller_epoch"))).alias("kraft_epochs"),
        F.collect_set(F.when(~kraft, F.col("controller_epoch"))).alias("zookeeper_epochs"),
    )


def _rollbacks() -> Column:
    """See `partition_states`: the KRaft controllers' epochs before the last ZooKeeper controller. Needs: those of `_controllers`."""
    last = F.array_max(F.filter("zookeeper_epochs", lambda epoch: epoch <= F.col("controller_epoch")))
    return F.coalesce(F.size(F.filter("kraft_epochs", lambda epoch: epoch < last)), F.lit(0))


def _last_fields(in_order: WindowSpec) -> dict[str, Column]:
    """Each field as the records up to the row leave it: a PartitionRecord sets all, a PartitionChangeRecord those that it has.

    <name>_set and <name>_ref: which record set it last.
    """
    change, full_record = (F.col("event_type") == kind for kind in (PARTITION_CHANGE_RECORD, PARTITION_RECORD))

    def last(value: Column) -> Column:
        return F.last(value, ignorenulls=True).over(in_order)

    def listed(name: str) -> Column:
        no_replicas = F.array().cast("array<int>")
        return F.when(full_record, F.coalesce(name, no_replicas)).otherwise(F.col(name))

    def is_set(name: str) -> Column:
        ids = listed(name)
        return F.when(ids.isNotNull(), F.struct("clock", ids.alias("ids"), "state_ref"))

    fields = ("leader", "isr", "replicas", "leader_recovery_state")
    directories = F.coalesce("directories", F.when(full_record, F.array().cast("array<string>")))
    stated = {**{name: F.col(name) for name in ("leader", "isr", "replicas")}, "directories": directories}
    return {
        "directories": last(directories),
        **{name: F.when(change, last(F.col(name))).otherwise(F.col(name)) for name in fields},
        **{f"{name}_set": last(is_set(name)) for name in _ELIGIBLE},
        **{f"{name}_ref": last(F.when(value.isNotNull(), F.col("state_ref"))) for name, value in stated.items()},
        **{name: last(listed(f"{name}_replicas")) for name in _REASSIGNING},
    }


def _merged(rows: DataFrame, in_order: WindowSpec) -> DataFrame:
    """Applies PartitionChangeRecords: partitionEpoch + 1 always, leaderEpoch + 1 if and only if the leader field is set."""
    event_type = F.col("event_type")
    change, full_record = event_type == PARTITION_CHANGE_RECORD, event_type == PARTITION_RECORD
    sets_leader = change & F.col("leader").isNotNull()
    rows = rows.withColumns(
        {
            **_last_fields(in_order),
            "following_clock": F.lead("clock").over(in_order),
            "sets_leader": sets_leader,
            "elections": F.count(F.when(sets_leader, 1)).over(in_order),
            "changes": F.count(F.when(change, 1)).over(in_order),
        }
    )
    rows = rows.withColumns(
        {"elr_ref": F.col("elr_set.state_ref"), **{name: _unless_cleared(F.col(f"{name}_set")) for name in _ELIGIBLE}}
    )
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumn("clear", _next_clear()).withColumn(
        "changes", F.col("changes") + F.count("clear").over(before)
    )
    base = F.when(
        full_record,
        F.struct(
            (F.col("leader_epoch") - F.col("elections")).alias("leader_epoch"),
            (F.col("partition_epoch") - F.col("changes")).alias("partition_epoch"),
        ),
    )
    rows = rows.withColumn("base", F.last(base, ignorenulls=True).over(in_order))
    epochs = {
        "leader_epoch": F.col("base.leader_epoch") + F.col("elections"),
        "partition_epoch": F.col("base.partition_epoch") + F.col("changes"),
    }
    merged_epochs = {name: F.when(change, column.cast("int")).otherwise(F.col(name)) for name, column in epochs.items()}
    return rows.withColumns(merged_epochs).drop(
        "base", "elections", "changes", "applied", "following_clock", *(f"{name}_set" for name in _ELIGIBLE)
    )


def _isr_begins() -> Column:
    """struct(clock), see isr_since of `partition_states`, of a row whose ISR is not that of the row before; else null. Needs: before."""
    of_earlier_state = (F.col("event_type") == PARTITION_RECORD) & (F.col("partition_epoch") > 0)
    clock = F.when(~of_earlier_state, F.col("clock"))
    return F.when(~F.col("isr").eqNullSafe(F.col("before.isr")), F.struct(clock.alias("clock")))


def _reassignment() -> dict[str, Column]:
    """completes_reassignment and reverts_uncleanly, see `partition_states`. Needs: before."""
    replicas, before = F.col("replicas"), F.col("before")
    ends = (F.size("adding_replicas") == 0) | (F.size("removing_replicas") == 0)
    reverted = F.array_except(before["replicas"], before["adding"])
    completed = F.array_except(before["replicas"], before["removing"])
    cancels = holds(ends & (replicas == reverted)) & ~holds(replicas == completed)
    removes = (F.col("scope") == OF_RECORD) & (F.size(F.array_except(before["replicas"], replicas)) > 0)
    none_stays = F.size(F.array_except(before["isr"], before["adding"])) == 0
    return {
        "completes_reassignment": holds(removes & (F.size(before["isr"]) > 0)) & ~cancels,
        "reverts_uncleanly": cancels & holds(none_stays & (F.col("isr") == F.slice(replicas, 1, 1))),
    }


def _with_applied_clears(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds applied, the ClearElrRecords of a record's topic, up to the topic's removal. One without a name applies to all topics."""
    clear = F.struct(*_PLACE_OF_CLEAR, ref().alias("ref"))
    log = of_types(metadata_log(events), CLEAR_ELR_RECORD, TOPIC_RECORD, REMOVE_TOPIC_RECORD).select(
        "cluster",
        "topic_id",
        F.nullif("topic", F.lit("")).alias("topic"),
        "event_type",
        "position",
        clear.alias("clear"),
    )
    is_clear, is_removal = (F.col("event_type") == kind for kind in (CLEAR_ELR_RECORD, REMOVE_TOPIC_RECORD))
    of_all = (
        log.where(is_clear & F.col("topic").isNull()).groupBy("cluster").agg(F.collect_list("clear").alias("of_all"))
    )
    of_name = log.where(F.col("topic").isNotNull() & ~is_removal).groupBy("cluster", "topic")
    named = of_name.agg(
        F.collect_list(F.when(is_clear, F.col("clear"))).alias("clears"), F.collect_set("topic_id").alias("topic_ids")
    ).select("cluster", F.explode("topic_ids").alias("identity"), "clears")
    removed = log.where(is_removal).select(
        "cluster", F.col("topic_id").alias("identity"), F.col("position").alias("removed_at")
    )
    of_topic = (
        named.unionByName(removed, allowMissingColumns=True)
        .groupBy("cluster", "identity")
        .agg(F.flatten(F.collect_list("clears")).alias("of_topic"), F.min("removed_at").alias("removed_at"))
    )
    joined = rows.join(F.broadcast(of_all), "cluster", "left").join(
        F.broadcast(of_topic), ["cluster", "identity"], "left"
    )
    clears = F.concat(F.coalesce("of_all", F.array()), F.coalesce("of_topic", F.array()))
    until = F.coalesce("removed_at", F.lit(FOREVER))
    applied = F.array_sort(F.filter(clears, lambda c: c["position"] < until))
    of_record = (F.col("scope") == OF_RECORD) & (F.size(clears) > 0)
    return joined.withColumn("applied", F.when(of_record, applied)).drop("of_all", "of_topic", "removed_at")


def _unless_cleared(last_set: Column) -> Column:
    """The replicas as last set; empty if a ClearElrRecord follows. Needs: applied."""
    since = F.exists("applied", lambda c: (c["position"] > last_set["clock"]) & (c["position"] < F.col("clock")))
    return F.when(holds(since), F.array().cast("array<int>")).otherwise(last_set["ids"])


def _next_clear() -> Column:
    """The ClearElrRecord before the partition's next record; null without one, or if the state has no such replicas."""
    until = F.coalesce("following_clock", F.lit(FOREVER))
    found = F.filter("applied", lambda c: (c["position"] > F.col("clock")) & (c["position"] < until))
    any_left = (F.size(F.coalesce("elr", F.array())) > 0) | (F.size(F.coalesce("last_known_elr", F.array())) > 0)
    return F.when(any_left, F.get(found, F.lit(0)))


def _with_cleared(rows: DataFrame) -> DataFrame:
    """Adds a row per state that a ClearElrRecord makes, after the state that it changes."""
    rows = rows.withColumn("is_clear", F.explode(F.when(F.col("clear").isNull(), F.array(F.lit(False))).otherwise(
        F.array(F.lit(False), F.lit(True)))))  # fmt: skip
    clear, no_replicas = F.col("clear"), F.array().cast("array<int>")
    cleared_state = {
        "event_type": F.lit(CLEAR_ELR_RECORD), "clock": clear["position"], "time_ms": clear["time_ms"], "state_ref": clear["ref"],
        "file": clear["ref"]["file"], "byte_offset": clear["ref"]["byte_offset"], "elr": no_replicas, "last_known_elr": no_replicas,
        "partition_epoch": F.col("partition_epoch") + 1, "sets_leader": F.lit(False), "in_snapshot": F.lit(None).cast("boolean"),
        **{name: clear[name] for name in ("metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch")},
    }  # fmt: skip
    row_columns = {
        name: F.when(F.col("is_clear"), value).otherwise(F.col(name)) for name, value in cleared_state.items()
    }
    return rows.withColumns(row_columns).drop("clear", "is_clear")
