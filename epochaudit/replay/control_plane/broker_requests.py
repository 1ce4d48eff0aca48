"""Frame `broker_requests`: requests of brokers with their broker epoch, and the broker epochs that the controller can have held.

KRaft: the registrations of the metadata log, by position and by the clock of the records that the node wrote itself. Accepted
registrations and partition changes relate the clock of its log to that of these records. ZooKeeper: the controller's own lines
about live brokers and their epochs.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    ASSIGN_REPLICAS_TO_DIRS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CONTROLLED_SHUTDOWN,
)
from epochaudit.events.times import SLACK_MS, TOLERANCE_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_BROKER_EPOCH
from epochaudit.replay.state.cluster_history import (
    ACTIVE,
    HISTORY_COLUMNS,
    NOT_RECORDED,
    SHUTTING_DOWN,
    UNREGISTERED,
    WITHOUT_RECORD,
    cluster_history,
    of_the_node,
    states_of,
)
from epochaudit.replay.state.controller_tenures import can_have_had, with_stays
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.late_lines import came_after
from epochaudit.replay.state.live_brokers import live_epochs
from epochaudit.replay.state.partition_states import OF_RECORD, partition_states
from epochaudit.replay.state.record_clock import on_record_clock
from epochaudit.spark.memo import as_leaf

UNDER_EPOCH: Final = (
    ALLOCATE_PRODUCER_IDS, ALTER_PARTITION, BROKER_HEARTBEAT, CONTROLLED_SHUTDOWN, ASSIGN_REPLICAS_TO_DIRS,
)  # fmt: skip

_NOT_SHOWN: Final = (WITHOUT_RECORD, NOT_RECORDED)
_NOT_REGISTERED: Final = (UNREGISTERED, WITHOUT_RECORD)
_NOT_FENCED: Final = (ACTIVE, SHUTTING_DOWN)
_COLUMNS: Final = (
    "cluster", "node", "event_type", "time_ms", "arrival_ms", "api_version", "correlation_id", "client_id", "connection",
    "request_error_code", "error_code", "topic", "topic_id", "partition", "leader_epoch", "partition_epoch",
    "response_partition_epoch", "broker_id", "broker_epoch", "incarnation_id", "current_broker_epoch", "file_order", "byte_offset",
)  # fmt: skip


def broker_requests(events: DataFrame) -> DataFrame:
    """One row per BrokerRegistration, and per request under a broker epoch (`UNDER_EPOCH`), at the node that answered.

    Needs: the events table. Clock: the node's host; position in the metadata log. AlterPartition has its first partition.
    Adds, beside the request's own columns:
      request_ref      the request's line
      zookeeper        a ZooKeeper controller answered
      has_metadata_log a controller with a recorded metadata log answered
      held_epochs      broker epochs with which the broker can have been registered at the controller, -1 for not at all; null: not
                       in the evidence
      may_hold_others  (KRaft) the evidence has registrations that the controller can have held, and held_epochs is null as it can
                       have been before them, too
      held_ref         the record or the controller's line of the last of them; held_before_ref: that of the first, if there are several
      newest_epoch     (KRaft) the newest of them in the evidence; null: none, or the broker was unregistered after it
      covered          the evidence reaches beyond the answer: it has any later registration that the controller can have had
      replaced_live    (KRaft) the registration with broker_epoch was replaced while it was not fenced
      superseded       for a registration answered 0, the one before: struct(broker_epoch, standing, ref)
      superseded_live  it was not fenced; superseded_ref, superseded_standing, superseded_epoch its values
      same_incarnation the previous registration accepted by this node was of the same incarnation
      registered_epoch broker epoch of the newest registration that this node had answered 0 before the request arrived;
                       registered_ref its line
      served_after     the last request with an older epoch of the broker that arrived after this registration was answered, and
                       was answered 0: struct(broker_epoch, arrival_ms, ref); served_ref its line, served_epoch
    """
    rows = of_types(events, BROKER_REGISTRATION, *UNDER_EPOCH).where(
        (F.col("source") == "request_log") & (F.col("partition_row") == 0)
    )
    rows = as_leaf(rows.select(*_COLUMNS, ref().alias("request_ref")))
    by_broker = ["cluster", "node", "broker_id"]
    rows = rows.join(F.broadcast(_last_accepted(rows)), by_broker, "left")
    rows = rows.join(F.broadcast(_registrations(rows)), by_broker, "left")
    rows = rows.join(F.broadcast(cluster_history(events)), "cluster", "left").withColumns(of_the_node())
    rows = with_identity(rows, topic_incarnations(events))
    return (
        rows.transform(_timed, events)
        .withColumn("live_epochs", F.when(F.col("zookeeper"), live_epochs()))
        .withColumns({**_held(), **_superseded(), **_accepted_at_node()})
        .withColumn("group_id", F.lit(None).cast("string"))
        .drop(
            *HISTORY_COLUMNS, "accepted", "registrations", "states", "live_epochs", "from_ms", "to_ms", "led", "stays"
        )
    )


def _last_accepted(rows: DataFrame) -> DataFrame:
    """One row per broker at a node: accepted, for each broker epoch the last request with it that was answered 0."""
    accepted = rows.where(F.col("request_error_code") == Errors.NONE)  # a BrokerRegistration states no broker epoch
    by_epoch = accepted.groupBy("cluster", "node", "broker_id", "broker_epoch").agg(
        F.max(F.struct("arrival_ms", "request_ref")).alias("last")
    )
    request = F.struct("broker_epoch", "last.arrival_ms", F.col("last.request_ref").alias("ref"))
    return by_epoch.groupBy("cluster", "node", "broker_id").agg(F.collect_list(request).alias("accepted"))


def _registrations(rows: DataFrame) -> DataFrame:
    """One row per broker at a node: registrations, those that were answered 0, in order."""
    registration = F.struct(
        F.col("current_broker_epoch").alias("broker_epoch"), "time_ms", F.col("request_ref").alias("ref")
    )
    registered = rows.where(_registers())
    return registered.groupBy("cluster", "node", "broker_id").agg(
        F.array_sort(F.collect_list(registration)).alias("registrations")
    )


def _timed(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds states (of the broker, in log order), the columns of `on_record_clock` but writes, and those of `with_stays`."""
    changed = F.col("error_code") == Errors.NONE
    epoch = F.when(
        changed & (F.col("response_partition_epoch") > F.col("partition_epoch")), F.col("response_partition_epoch")
    )
    rows = rows.withColumns({"states": states_of(F.col("broker_id")), "written_epoch": epoch})
    rows = rows.join(_changes(events), ["cluster", "topic_id", "partition", "written_epoch"], "left")
    own = F.filter("states", lambda s: s["broker_epoch"] == F.col("current_broker_epoch"))
    registered = F.get(
        F.transform(own, lambda s: F.struct(s["since"].alias("place"), s["since_ms"].alias("time_ms"))), F.lit(0)
    )
    written = F.when(~F.col("zookeeper"), F.coalesce(registered, "changed"))
    return on_record_clock(rows, written, SLACK_MS).transform(with_stays).drop("written_epoch", "changed", "writes")


def _changes(events: DataFrame) -> DataFrame:
    """One row per partition epoch in the metadata log: written_epoch, and changed, struct(place, time_ms) of its record."""
    return (
        partition_states(events, OF_RECORD)
        .groupBy(
            "cluster", F.col("identity").alias("topic_id"), "partition", F.col("partition_epoch").alias("written_epoch")
        )
        .agg(F.min(F.struct(F.col("clock").alias("place"), "time_ms")).alias("changed"))
    )


def _registers() -> Column:
    return (F.col("event_type") == BROKER_REGISTRATION) & (F.col("request_error_code") == Errors.NONE)


def _held() -> dict[str, Column]:
    """The broker epochs that the controller can have held. Needs: states, live_epochs; the columns of `with_stays`."""
    candidates = F.filter("states", lambda s: can_have_had(s["since"], s["until"], s["since_ms"], s["until_ms"]))
    not_registered = F.lit(NO_BROKER_EPOCH).cast("bigint")
    held = F.array_distinct(
        F.transform(
            candidates,
            lambda s: F.when(s["standing"].isin(*_NOT_REGISTERED), not_registered).otherwise(s["broker_epoch"]),
        )
    )
    # without a log, nothing is shown; one that begins with a snapshot, or has a hole, does not show whether the broker was registered
    # before its next record. One from offset 0 does, unless the request came before the log's first record
    begins = F.col("log_begins")
    before_log = can_have_had(F.lit(-1), begins["position"], F.lit(0), begins["time_ms"])
    begun = holds(F.col("from_offset_0") & ~before_log & (F.col("from_ms") > begins["time_ms"] + SLACK_MS))

    def is_not_shown(state: Column) -> Column:
        return state["standing"].isin(*_NOT_SHOWN) & ~((state["standing"] == WITHOUT_RECORD) & begun)

    not_shown, shown = F.exists(candidates, is_not_shown), F.exists(candidates, lambda s: ~is_not_shown(s))
    of_log = F.when(~not_shown, held)
    registered_last = ~F.try_element_at(candidates, F.lit(-1))["standing"].isin(*_NOT_REGISTERED)
    zookeeper = F.col("zookeeper")
    of_lines = F.array_distinct(F.col("live_epochs.epoch"))
    refs = F.when(zookeeper, F.col("live_epochs.ref")).otherwise(candidates["ref"])
    held_epochs = F.when(zookeeper, of_lines).otherwise(of_log)
    return {
        "held_epochs": held_epochs,
        "may_hold_others": ~zookeeper & not_shown & shown,
        "newest_epoch": F.when(~zookeeper & registered_last, F.array_max(held)),
        "covered": zookeeper | holds(F.col("covered")),
        "held_ref": F.try_element_at(refs, F.lit(-1)),
        "held_before_ref": F.when(F.size(held_epochs) > 1, F.get(refs, F.lit(0))),
    }


def _superseded() -> dict[str, Column]:
    """What the metadata log shows of registrations that replaced another one. Needs: states."""
    replaced = F.transform(
        "states",
        lambda s, i: (
            (s["broker_epoch"] == F.col("broker_epoch"))
            & s["standing"].isin(*_NOT_FENCED)
            & (F.get(F.col("states"), i + 1)["broker_epoch"] > F.col("broker_epoch"))
        ),
    )
    before = F.transform(
        "states", lambda s, i: F.struct(s["broker_epoch"].alias("epoch"), F.get(F.col("states"), i - 1).alias("state"))
    )
    registered = F.filter(before, lambda b: b["epoch"] == F.col("current_broker_epoch"))
    superseded = F.try_element_at(registered, F.lit(1))["state"]
    return {
        "replaced_live": F.exists(replaced, lambda live: holds(live)),
        "superseded": superseded,
        "superseded_live": superseded["standing"].isin(*_NOT_FENCED),
        "superseded_ref": superseded["ref"],
        "superseded_standing": superseded["standing"],
        "superseded_epoch": superseded["broker_epoch"],
    }


def _accepted_at_node() -> dict[str, Column]:
    """What the node itself had accepted from the broker. Needs: accepted, registrations."""
    late = F.filter(
        "accepted",
        lambda a: (
            (a["broker_epoch"] < F.col("current_broker_epoch")) & (a["arrival_ms"] > F.col("time_ms") + TOLERANCE_MS)
        ),
    )
    earlier = (
        Window.partitionBy("cluster", "node", "broker_id")
        .orderBy("time_ms", "file_order", "byte_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    last_incarnation = F.last(F.when(_registers(), F.col("incarnation_id")), ignorenulls=True).over(earlier)
    served = F.try_element_at(late, F.lit(-1))
    answered = F.filter("registrations", lambda r: came_after(r["time_ms"]))
    registered = F.try_element_at(answered, F.lit(-1))
    return {
        "same_incarnation": last_incarnation == F.col("incarnation_id"),
        "registered_epoch": registered["broker_epoch"],
        "registered_ref": registered["ref"],
        "served_after": served,
        "served_ref": served["ref"],
        "served_epoch": served["broker_epoch"],
    }
