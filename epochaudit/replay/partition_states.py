"""The committed states of partitions, from the three places that state them.

scope `record`         PartitionRecord and PartitionChangeRecord of the metadata log, in log order (KRaft) scope
`controller`     "Changed partition … with state" lines of ZooKeeper controllers, by controller epoch and log order
scope `leader_and_isr` LeaderAndIsr partitions that a broker answered 0, by (partition epoch, leader epoch): a set of
states
                       that were once committed; the order in which brokers got them says nothing
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.kept import kept
from epochaudit.replay.metadata_log import metadata_log
from epochaudit.replay.places import at

PARTITION_RECORDS: Final = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD")
CLEARED: Final = "CLEAR_ELR_RECORD"
LEADER_DURING_DELETE: Final = -2

RECORD: Final = "record"
CONTROLLER: Final = "controller"
LEADER_AND_ISR: Final = "leader_and_isr"

_COLUMNS: Final = (
    "cluster", "node", "event_type", "file", "byte_offset", "time_ms", "correlation_id", "client_id", "controller_id",
    "controller_epoch", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch", "isr", "replicas", "elr",
    "last_known_elr", "leader_recovery_state", "metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch", "in_snapshot",
)  # fmt: skip
_ELIGIBLE: Final = ("elr", "last_known_elr")
_CLEARS: Final = ("clears", "created", "removed")
_PLACE: Final = ("file_order", "split", "line_in_split")
_STATE: Final = (
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
    """One row per statement of a partition's committed state, of the scopes asked for.

    Adds:
      scope, identity      what the partition is told by: topic id in the log, name at a controller, id or name in
      LeaderAndIsr clock, tick          order within (cluster, scope, identity, partition) leader, leader_epoch,
      partition_epoch, isr, replicas, elr, last_known_elr, leader_recovery_state
                           the state after the record, by Kafka's merge (PartitionRegistration.merge); epochs null if no
                           PartitionRecord of the partition is recorded before
      before               the same and state_ref as a struct, as of the row before; null for the first
      sets_leader          the record sets the leader field
      next_clock, next_ms, next_isr, next_partition_epoch, next_ref  of the following row; null for the last
      state_ref            the row's own place
    Records are those of `metadata_log`: one that several copies hold counts once. A ClearElrRecord is a state of each partition
    whose eligible or last known leader replicas it takes away (TopicDelta.replay), with the next partition epoch.
    """
    return _all_states(events).where(F.col("scope").isin(*scopes))


@kept
def _all_states(events: DataFrame) -> DataFrame:
    """The statements of all scopes: several frames read them, and a scope's rows have windows of their own."""
    group = ("cluster", "scope", "identity", "partition")
    in_order = Window.partitionBy(*group).orderBy("clock", "tick", "file", "byte_offset")
    stated = _stated(events).select(*_COLUMNS, _scope().alias("scope"), *_place(), ref().alias("state_ref"))
    stated = stated.join(F.broadcast(_clears(events)), "cluster", "left")
    merged = _with_cleared(_merged(stated, in_order))
    return merged.withColumns(
        {
            "before": F.lag(F.struct(*_STATE, "state_ref")).over(in_order),
            "next_clock": F.lead("clock").over(in_order),
            "next_ms": F.lead("time_ms").over(in_order),
            "next_isr": F.lead("isr").over(in_order),
            "next_partition_epoch": F.lead("partition_epoch").over(in_order),
            "next_ref": F.lead("state_ref").over(in_order),
        }
    )


def _stated(events: DataFrame) -> DataFrame:
    """The rows that state something, records with their position in the metadata log."""
    event_type = F.col("event_type")
    accepted = (
        (F.col("request_error_code") == 0) & (F.col("error_code") == 0) & (F.col("leader") != LEADER_DURING_DELETE)
    )
    installed = (event_type == "LEADER_AND_ISR") & F.col("partition").isNotNull() & accepted
    others = events.where((event_type == "PARTITION_STATE_CHANGED") | installed).select(*_COLUMNS, *_PLACE)
    records = of_types(metadata_log(events), *PARTITION_RECORDS).drop("copies")
    return others.unionByName(records, allowMissingColumns=True)


def _scope() -> Column:
    event_type = F.col("event_type")
    return (
        F.when(event_type == "PARTITION_STATE_CHANGED", CONTROLLER)
        .when(event_type == "LEADER_AND_ISR", LEADER_AND_ISR)
        .otherwise(RECORD)
    )


def _place() -> list[Column]:
    scope = _scope()
    of_controller, of_request = scope == CONTROLLER, scope == LEADER_AND_ISR
    clock = (
        F.when(of_controller, F.col("controller_epoch"))
        .when(of_request, F.col("partition_epoch"))
        .otherwise(F.col("position"))
    )
    tick = F.when(of_controller, at()).when(of_request, F.col("leader_epoch")).otherwise(F.lit(0))
    return [
        F.when(of_controller, F.col("topic")).otherwise(F.coalesce("topic_id", "topic")).alias("identity"),
        clock.cast("bigint").alias("clock"),
        tick.cast("bigint").alias("tick"),
    ]


def _merged(rows: DataFrame, in_order: WindowSpec) -> DataFrame:
    """Folds PartitionChangeRecords: partitionEpoch + 1 always, leaderEpoch + 1 if and only if the leader field is set."""
    event_type = F.col("event_type")
    change, whole = event_type == "PARTITION_CHANGE_RECORD", event_type == "PARTITION_RECORD"
    sets_leader = change & F.col("leader").isNotNull()
    kept = {
        name: F.last(name, ignorenulls=True).over(in_order)
        for name in ("leader", "isr", "replicas", "leader_recovery_state")
    }
    nobody = F.array().cast("array<int>")
    eligible = {name: F.when(whole, F.coalesce(name, nobody)).otherwise(F.col(name)) for name in _ELIGIBLE}
    set_last = {
        f"{name}_set": F.last(F.when(ids.isNotNull(), F.struct("clock", ids.alias("ids"))), ignorenulls=True).over(
            in_order
        )
        for name, ids in eligible.items()
    }
    rows = rows.withColumns(
        {
            **{name: F.when(change, column).otherwise(F.col(name)) for name, column in kept.items()},
            **set_last,
            "following_clock": F.lead("clock").over(in_order),
            "sets_leader": sets_leader,
            "elections": F.count(F.when(sets_leader, 1)).over(in_order),
            "changes": F.count(F.when(change, 1)).over(in_order),
        }
    )
    rows = rows.withColumn("applied", _applied_clears())
    rows = rows.withColumns({name: _unless_cleared(F.col(f"{name}_set")) for name in _ELIGIBLE})
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumn("clear", _next_clear()).withColumn(
        "changes", F.col("changes") + F.count("clear").over(before)
    )
    base = F.when(
        whole,
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
    folded = {name: F.when(change, column.cast("int")).otherwise(F.col(name)) for name, column in epochs.items()}
    return rows.withColumns(folded).drop(
        "base", "elections", "changes", "applied", "following_clock", *(f"{name}_set" for name in _ELIGIBLE), *_CLEARS
    )


def _clears(events: DataFrame) -> DataFrame:
    """One row per cluster: the ClearElrRecords of its metadata log, and the topics that the log creates and removes."""
    event_type = F.col("event_type")
    place = ("position", "time_ms", "metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch")
    clear = F.struct(*place, "topic", ref().alias("ref"))
    log = of_types(metadata_log(events), CLEARED, "TOPIC_RECORD", "REMOVE_TOPIC_RECORD")
    return log.groupBy("cluster").agg(
        F.array_sort(F.collect_list(F.when(event_type == CLEARED, clear))).alias("clears"),
        F.collect_set(F.when(event_type == "TOPIC_RECORD", F.struct("topic_id", "topic"))).alias("created"),
        F.collect_set(F.when(event_type == "REMOVE_TOPIC_RECORD", F.struct("topic_id", "position"))).alias("removed"),
    )


def _applied_clears() -> Column:
    """Those that are about the topic, while it lives; a record without a name is about all."""
    names = F.filter("created", lambda t: t["topic_id"] == F.col("identity"))["topic"]
    removed = F.filter("removed", lambda t: t["topic_id"] == F.col("identity"))["position"]
    until = F.coalesce(F.array_min(removed), F.lit(2**62))

    def about(c: Column) -> Column:
        named = F.coalesce(F.nullif(c["topic"], F.lit("")), F.get(names, F.lit(0)))
        return (c["position"] < until) & F.coalesce(F.array_contains(names, named), F.lit(True))

    records = (F.col("scope") == RECORD) & (F.size("clears") > 0)
    return F.when(records, F.filter("clears", about))


def _unless_cleared(told: Column) -> Column:
    since = F.exists("applied", lambda c: (c["position"] > told["clock"]) & (c["position"] < F.col("clock")))
    return F.when(F.coalesce(since, F.lit(False)), F.array().cast("array<int>")).otherwise(told["ids"])


def _next_clear() -> Column:
    """The record that takes the eligible replicas away before the partition's next record; null: none, or there are none."""
    until = F.coalesce("following_clock", F.lit(2**62))
    found = F.filter("applied", lambda c: (c["position"] > F.col("clock")) & (c["position"] < until))
    any_left = (F.size(F.coalesce("elr", F.array())) > 0) | (F.size(F.coalesce("last_known_elr", F.array())) > 0)
    return F.when(any_left, F.get(found, F.lit(0)))


def _with_cleared(rows: DataFrame) -> DataFrame:
    """Adds the states that ClearElrRecords make, each after the state that it changes."""
    rows = rows.withColumn("is_clear", F.explode(F.when(F.col("clear").isNull(), F.array(F.lit(False))).otherwise(
        F.array(F.lit(False), F.lit(True)))))  # fmt: skip
    clear, nobody = F.col("clear"), F.array().cast("array<int>")
    changed = {
        "event_type": F.lit(CLEARED), "clock": clear["position"], "time_ms": clear["time_ms"], "state_ref": clear["ref"],
        "file": clear["ref"]["file"], "byte_offset": clear["ref"]["byte_offset"], "elr": nobody, "last_known_elr": nobody,
        "partition_epoch": F.col("partition_epoch") + 1, "sets_leader": F.lit(False), "in_snapshot": F.lit(None).cast("boolean"),
        **{name: clear[name] for name in ("metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch")},
    }  # fmt: skip
    made = {name: F.when(F.col("is_clear"), value).otherwise(F.col(name)) for name, value in changed.items()}
    return rows.withColumns(made).drop("clear", "is_clear")
