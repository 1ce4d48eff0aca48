"""Frame `broker_requests`: what brokers asked of the controller under their broker epoch, and which it can have held.

KRaft: the registrations of the metadata log, by the clock of its records, which accepted registrations and changes of
partitions tell. ZooKeeper: the controller's own lines about live brokers and their epochs.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.cluster_history import (
    ACTIVE,
    FOLDED,
    SHUTTING_DOWN,
    UNREGISTERED,
    WITHOUT_RECORD,
    cluster_history,
    of_the_node,
    states_of,
)
from epochaudit.replay.incarnations import topic_incarnations, with_identity
from epochaudit.replay.live_brokers import live_epochs
from epochaudit.replay.partition_states import RECORD, partition_states
from epochaudit.replay.record_clock import GRAIN_MS, SLACK_MS, on_record_clock

REGISTRATION: Final = "BROKER_REGISTRATION"
UNDER_EPOCH: Final = ("ALTER_PARTITION", "BROKER_HEARTBEAT", "CONTROLLED_SHUTDOWN")

_NONE: Final = -1
_COLUMNS: Final = (
    "cluster", "node", "event_type", "time_ms", "arrival_ms", "api_version", "correlation_id", "client_id", "connection",
    "request_error_code", "error_code", "topic", "topic_id", "partition", "leader_epoch", "partition_epoch",
    "response_partition_epoch", "broker_id", "broker_epoch", "incarnation_id", "current_broker_epoch", "file_order", "byte_offset",
)  # fmt: skip


def broker_requests(events: DataFrame) -> DataFrame:
    """One row per AlterPartition, BrokerHeartbeat, ControlledShutdown and BrokerRegistration at the node that answered.

    Clock: the node's host; position in the metadata log. AlterPartition names its first partition.
    Adds, beside the request's own columns:
      request_ref      the request's line
      zookeeper, has_metadata_log   whether a ZooKeeper controller answered, or one that has a metadata log
      held_epochs      broker epochs under which the controller can have held the broker registered, -1 for not at all;
                       null: not in the evidence; held_ref the last record that says so (KRaft)
      newest_epoch     (KRaft) the newest of them that is in the evidence, null: none, or unregistered after it
      covered          the evidence reaches beyond the answer: a later registration is in it
      replaced_live    (KRaft) the registration under broker_epoch was replaced while it was not fenced
      superseded       for a registration answered 0: the one before, struct(broker_epoch, standing, ref); superseded_live:
                       it was not fenced; superseded_ref its record
      same_incarnation the registration accepted before at this node was of the same incarnation
      served_after     the last request under an older epoch of the broker that was answered 0 and had arrived after this
                       registration was answered: struct(broker_epoch, arrival_ms, ref); served_ref its line
    """
    rows = of_types(events, REGISTRATION, *UNDER_EPOCH).where(
        (F.col("source") == "request_log") & (F.col("partition_row") == 0)
    )
    rows = rows.select(*_COLUMNS, ref().alias("request_ref"))
    rows = rows.join(F.broadcast(_last_accepted(rows)), ["cluster", "node", "broker_id"], "left")
    rows = rows.join(F.broadcast(cluster_history(events)), "cluster", "left").withColumns(of_the_node())
    rows = with_identity(rows, topic_incarnations(events))
    return (
        _registered(_timed(rows, events))
        .withColumn("group_id", F.lit(None).cast("string"))
        .drop(*FOLDED, "accepted", "states", "from_ms", "to_ms")
    )


def _last_accepted(rows: DataFrame) -> DataFrame:
    """One row per broker at a node: for each broker epoch the last request under it that was answered 0."""
    accepted = rows.where((F.col("event_type") != REGISTRATION) & (F.col("request_error_code") == 0))
    by_epoch = accepted.groupBy("cluster", "node", "broker_id", "broker_epoch").agg(
        F.max(F.struct("arrival_ms", "request_ref")).alias("last")
    )
    one = F.struct("broker_epoch", "last.arrival_ms", F.col("last.request_ref").alias("ref"))
    return by_epoch.groupBy("cluster", "node", "broker_id").agg(F.collect_list(one).alias("accepted"))


def _timed(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds states (the broker's, in log order), from_ms and to_ms on the clock of the records; null: no zone is known."""
    changed = (F.col("request_error_code") == 0) & (F.col("error_code") == 0)
    epoch = F.when(
        changed & (F.col("response_partition_epoch") > F.col("partition_epoch")), F.col("response_partition_epoch")
    )
    rows = rows.withColumns({"states": states_of(F.col("broker_id")), "written_epoch": epoch})
    rows = rows.join(_changes(events), ["cluster", "topic_id", "partition", "written_epoch"], "left")
    own = F.filter("states", lambda s: s["broker_epoch"] == F.col("current_broker_epoch"))
    registered_ms = F.when(_registers(), F.try_element_at(own, F.lit(1))["since_ms"])
    written_ms = F.when(~F.col("zookeeper"), F.coalesce(registered_ms, "changed_ms"))
    return on_record_clock(rows, written_ms, SLACK_MS).drop("written_epoch", "changed_ms", "writes")


def _changes(events: DataFrame) -> DataFrame:
    """One row per state of a partition in the metadata log: written_epoch is its partition epoch, changed_ms its CreateTime."""
    return (
        partition_states(events, RECORD)
        .groupBy(
            "cluster", F.col("identity").alias("topic_id"), "partition", F.col("partition_epoch").alias("written_epoch")
        )
        .agg(F.min("time_ms").alias("changed_ms"))
    )


def _registers() -> Column:
    return (F.col("event_type") == REGISTRATION) & (F.col("request_error_code") == 0)


def _registered(rows: DataFrame) -> DataFrame:
    timed = F.col("from_ms").isNotNull()
    from_ms, to_ms = F.col("from_ms") - SLACK_MS, F.col("to_ms") + GRAIN_MS
    met = F.filter("states", lambda s: ~timed | ((s["since_ms"] <= to_ms) & (s["until_ms"] >= from_ms)))
    nobody = F.lit(_NONE).cast("bigint")
    held = F.array_distinct(
        F.transform(met, lambda s: F.when(s["standing"] == UNREGISTERED, nobody).otherwise(s["broker_epoch"]))
    )
    # before its first record a broker may have been registered: a log that begins with a snapshot does not tell
    of_log = F.when(~F.array_contains(met["standing"], WITHOUT_RECORD), held)
    live = (ACTIVE, SHUTTING_DOWN)
    replaced = F.transform(
        "states",
        lambda s, i: (
            (s["broker_epoch"] == F.col("broker_epoch"))
            & s["standing"].isin(*live)
            & (F.get(F.col("states"), i + 1)["broker_epoch"] > F.col("broker_epoch"))
        ),
    )
    before = F.transform(
        "states", lambda s, i: F.struct(s["broker_epoch"].alias("epoch"), F.get(F.col("states"), i - 1).alias("state"))
    )
    superseded = F.try_element_at(
        F.filter(before, lambda b: _registers() & (b["epoch"] == F.col("current_broker_epoch"))), F.lit(1)
    )["state"]
    late = F.filter(
        "accepted",
        lambda a: (a["broker_epoch"] < F.col("current_broker_epoch")) & (a["arrival_ms"] > F.col("time_ms") + GRAIN_MS),
    )
    earlier = (
        Window.partitionBy("cluster", "node", "broker_id")
        .orderBy("time_ms", "file_order", "byte_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    last = F.last(F.when(_registers(), F.col("incarnation_id")), ignorenulls=True).over(earlier)
    served = F.try_element_at(late, F.lit(-1))
    zookeeper = F.col("zookeeper")
    return rows.withColumns(
        {
            "held_epochs": F.when(zookeeper, live_epochs()).when(F.col("has_metadata_log"), of_log),
            "newest_epoch": F.when(
                ~zookeeper & (F.try_element_at(met, F.lit(-1))["standing"] != UNREGISTERED), F.array_max(held)
            ),
            "covered": zookeeper | F.coalesce(F.col("log_end_ms") >= F.col("to_ms"), F.lit(False)),
            "held_ref": F.try_element_at(met["ref"], F.lit(-1)),
            "replaced_live": F.exists(replaced, lambda live: F.coalesce(live, F.lit(False))),
            "superseded": superseded,
            "superseded_live": superseded["standing"].isin(*live),
            "superseded_ref": superseded["ref"],
            "same_incarnation": last == F.col("incarnation_id"),
            "served_after": served,
            "served_ref": served["ref"],
        }
    )
