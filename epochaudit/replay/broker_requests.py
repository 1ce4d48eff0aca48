"""Frame `broker_requests`: what brokers asked of the controller under their broker epoch, and which it can have held.

KRaft: the registrations of the metadata log. The controller writes records and request log by one clock, but CreateTime
is UTC and log4j prints local time: what lies between an accepted registration and its record, in quarters of an hour, is
the zone. ZooKeeper: the controller's own lines about live brokers and their epochs.
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

REGISTRATION: Final = "BROKER_REGISTRATION"
UNDER_EPOCH: Final = ("ALTER_PARTITION", "BROKER_HEARTBEAT", "CONTROLLED_SHUTDOWN")

_SLACK_MS: Final = 1000  # as in isr_changes: lines are written, and batches closed, some time after
_GRAIN_MS: Final = 2
_QUARTER_HOUR_MS: Final = 900_000
_NONE: Final = -1
_COLUMNS: Final = (
    "cluster", "node", "event_type", "time_ms", "arrival_ms", "api_version", "correlation_id", "client_id", "connection",
    "request_error_code", "topic", "topic_id", "partition", "leader_epoch", "broker_id", "broker_epoch", "incarnation_id",
    "current_broker_epoch", "file_order", "byte_offset",
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
        _registered(_timed(rows))
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


def _timed(rows: DataFrame) -> DataFrame:
    """Adds states (the broker's, in log order), from_ms and to_ms on the clock of the records; null: no zone is known."""
    rows = rows.withColumn("states", states_of(F.col("broker_id")))
    own = F.filter("states", lambda s: s["broker_epoch"] == F.col("current_broker_epoch"))
    lag = F.when(_registers(), F.try_element_at(own, F.lit(1))["since_ms"]) - F.col("arrival_ms")
    zone = (F.round(lag / _QUARTER_HOUR_MS) * _QUARTER_HOUR_MS).cast("bigint")
    fits = (lag - zone).between(-_SLACK_MS, F.col("time_ms") - F.col("arrival_ms") + _SLACK_MS)
    by_node = Window.partitionBy("cluster", "node")
    rows = rows.withColumn("zone_ms", F.when(fits, zone))
    agreed = F.when(F.min("zone_ms").over(by_node) == F.max("zone_ms").over(by_node), F.max("zone_ms").over(by_node))
    zone_ms = F.when(F.col("zookeeper"), F.lit(0)).otherwise(F.coalesce("zone_ms", agreed))
    return (
        rows.withColumn("zone_ms", zone_ms)
        .withColumns({"from_ms": F.col("arrival_ms") + F.col("zone_ms"), "to_ms": F.col("time_ms") + F.col("zone_ms")})
        .drop("zone_ms")
    )


def _registers() -> Column:
    return (F.col("event_type") == REGISTRATION) & (F.col("request_error_code") == 0)


def _registered(rows: DataFrame) -> DataFrame:
    timed = F.col("from_ms").isNotNull()
    from_ms, to_ms = F.col("from_ms") - _SLACK_MS, F.col("to_ms") + _GRAIN_MS
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
        lambda a: (
            (a["broker_epoch"] < F.col("current_broker_epoch")) & (a["arrival_ms"] > F.col("time_ms") + _GRAIN_MS)
        ),
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
