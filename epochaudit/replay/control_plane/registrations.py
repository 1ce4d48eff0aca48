"""Frame `registrations`: brokers that register as a new incarnation, and the eligible leader replicas that they then are (KIP-966).

A controller first removes a broker that shut down uncleanly from the lists, and writes the registration last
(ClusterControlManager.registerBroker): the lists are therefore taken at its offset, however many batches the event has.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import BROKER_REGISTRATION, REGISTER_BROKER_RECORD, REMOVE_TOPIC_RECORD
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.api_versions import PREVIOUS_EPOCH_BROKER_REGISTRATION_VERSION
from epochaudit.kafka.field_values import NO_BROKER_EPOCH
from epochaudit.replay.control_plane.broker_records import records_of_brokers
from epochaudit.replay.control_plane.eligible_replicas import ELR_ON, names_eligible
from epochaudit.replay.state.cluster_history import UNREGISTERED
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log
from epochaudit.replay.state.partition_states import OF_RECORD, PARTITION_RECORDS, partition_states
from epochaudit.spark.memo import as_leaf


def registrations(events: DataFrame) -> DataFrame:
    """One row per RegisterBrokerRecord of a new incarnation, from a time when eligible leader replicas may be on. Clock: metadata offset.

    Only of clusters whose metadata log names an eligible leader replica.

    Needs: the events table. Registrations in a snapshot are left out. Columns: the subject columns (node is the controller that wrote
    the record; topic and partition are those of the first partition with the broker in its ELR), and
      broker_id, broker_epoch, incarnation_id, metadata_offset   of the record; record_ref
      previous_broker_epoch   of the broker's registration before; null: it was not registered, or not in the evidence; previous_ref
      unregistered      the broker was not registered before the record; unregistered_ref: the record that removed it, null: it never was
      stated_epoch      previousBrokerEpoch of the incarnation's BrokerRegistration requests, -1 if their version has none; null: no
                        request is recorded, or its field is not; request_ref: the first of them that states it
      clean             the controller takes the shutdown before for clean: the broker states the epoch of its registration before; null:
                        not in the evidence
      eligible_in       number of partitions with the broker in the ELR at the record's offset; null: none
      eligible_ref      the record that set the ELR of the first of them; eligible_elr that ELR
      elr_level         eligible.leader.replicas.version level in force at the record; null: not in the evidence
      log_complete, log_whole   as in `cluster_history`
    """
    rows = as_leaf(_new_incarnations(events))
    rows = rows.join(F.broadcast(_eligible_then(rows, events)), ["cluster", "broker_id", "position"], "left")
    rows = rows.join(F.broadcast(_requests(events)), ["cluster", "broker_id", "incarnation_id"], "left")
    rows = rows.withColumns({"topic": F.lit(None).cast("string"), "topic_id": F.col("first.topic_id")})
    rows = with_identity(rows, topic_incarnations(events))
    return rows.withColumns(_columns()).drop("first", "previous", "stated", "request")


def _new_incarnations(events: DataFrame) -> DataFrame:
    """One row per RegisterBrokerRecord of another incarnation than before, while controllers may keep ELRs."""
    records = records_of_brokers(events).where(F.col("event_type") == REGISTER_BROKER_RECORD)
    new = ~holds(F.col("incarnation_id") == F.col("previous.incarnation_id"))
    may_be_on = F.coalesce(F.col("elr_level") >= ELR_ON, ~F.col("log_complete"))
    with_eligible = of_types(events, *PARTITION_RECORDS).where(names_eligible()).select("cluster").distinct()
    rows = records.where(new & may_be_on & ~in_snapshot())
    return rows.join(F.broadcast(with_eligible), "cluster", "left_semi").select(
        "cluster", "node", "broker_id", "broker_epoch", "incarnation_id", "metadata_offset", "position", "record_ref", "previous",
        "standing_before", "standing_before_ref", "elr_level", "log_complete", "log_whole",
    )  # fmt: skip


def _eligible_then(rows: DataFrame, events: DataFrame) -> DataFrame:
    """One row per registration at which some ELR has the broker: eligible_in, and first, a state."""
    states = partition_states(events, OF_RECORD).where(F.size("elr") > 0)
    members = states.select(
        "cluster", "topic_id", F.explode("elr").alias("broker_id"), "clock", "next_clock",
        F.struct("topic_id", "partition", "elr", "elr_ref").alias("state"),
    )  # fmt: skip
    removed = of_types(metadata_log(events), REMOVE_TOPIC_RECORD).groupBy("cluster", "topic_id")
    members = members.join(
        F.broadcast(removed.agg(F.min("position").alias("removed"))), ["cluster", "topic_id"], "left"
    )
    until = F.least("next_clock", "removed", F.lit(FOREVER))
    in_force = (F.col("clock") < F.col("position")) & (until > F.col("position"))
    found = F.broadcast(rows.select("cluster", "broker_id", "position")).join(members, ["cluster", "broker_id"])
    return (
        found.where(in_force)
        .groupBy("cluster", "broker_id", "position")
        .agg(F.count("*").alias("eligible_in"), F.min("state").alias("first"))
    )


def _requests(events: DataFrame) -> DataFrame:
    """One row per incarnation: stated, the epochs that its requests state, and request, the first request that states one.

    A broker reads the epoch once, when it starts (LogManager.readBrokerEpochFromCleanShutdownFiles): refused requests state it, too.
    """
    asked = of_types(events, BROKER_REGISTRATION).where(
        (F.col("source") == "request_log") & F.col("incarnation_id").isNotNull()
    )
    states = F.col("api_version") >= PREVIOUS_EPOCH_BROKER_REGISTRATION_VERSION
    # brokers state none after an unclean shutdown, and in request versions below 3
    epoch = F.when(states, F.col("previous_broker_epoch")).when(~states, F.lit(NO_BROKER_EPOCH).cast("bigint"))
    return asked.groupBy("cluster", "broker_id", "incarnation_id").agg(
        F.collect_set(epoch).alias("stated"),
        F.min(F.when(epoch.isNotNull(), F.struct("node", "file_order", "byte_offset", ref().alias("ref")))).alias(
            "request"
        ),
    )


def _columns() -> dict[str, Column]:
    stated = F.when(F.size("stated") == 1, F.get("stated", F.lit(0)))
    unregistered = F.col("standing_before") == UNREGISTERED
    previous = F.when(~unregistered, F.col("previous"))
    return {
        "partition": F.col("first.partition"),
        "eligible_elr": F.array_sort("first.elr"),
        "eligible_ref": F.col("first.elr_ref"),
        "previous_broker_epoch": previous["broker_epoch"],
        "previous_ref": previous["record_ref"],
        "stated_epoch": stated,
        "request_ref": F.col("request.ref"),
        "unregistered": unregistered,
        "unregistered_ref": F.when(unregistered, F.col("standing_before_ref")),
        "clean": F.when((stated == NO_BROKER_EPOCH) | unregistered, F.lit(False)).otherwise(
            stated == previous["broker_epoch"]
        ),
        **{name: F.lit(None).cast("int") for name in ("leader_epoch", "correlation_id")},
        **{name: F.lit(None).cast("string") for name in ("client_id", "group_id")},
    }
