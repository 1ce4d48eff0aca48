"""The log directories with which each broker is registered, over the metadata log (KIP-858)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    BROKER_REGISTRATION_CHANGE_RECORD,
    REGISTER_BROKER_RECORD,
    UNREGISTER_BROKER_RECORD,
)
from epochaudit.events.times import FOREVER
from epochaudit.events.views import of_types, ref
from epochaudit.kafka.field_values import UNASSIGNED_DIRECTORY, UNMIGRATED_DIRECTORY
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log

_NOT_ASSIGNED: Final = (UNMIGRATED_DIRECTORY, UNASSIGNED_DIRECTORY)


def registered_directories(events: DataFrame) -> DataFrame:
    """One row per cluster: the registrations of its brokers and the places of its snapshots. Clock: `position` in the log.

    Needs: the events table. Columns:
      registrations   array of struct(since, until, broker_id, registered, log_dirs, ref), a struct per record that sets a
                      broker's log directories; positions since < p <= until. log_dirs is empty for a registration without
                      them. A change record without directories leaves them (ClusterControlManager.replay)
      snapshots       positions of the snapshots
    """
    event_type = F.col("event_type")
    none = F.array().cast("array<string>")
    sets = event_type.isin(REGISTER_BROKER_RECORD, UNREGISTER_BROKER_RECORD) | (F.size("log_dirs") > 0)
    records = of_types(
        metadata_log(events), REGISTER_BROKER_RECORD, UNREGISTER_BROKER_RECORD, BROKER_REGISTRATION_CHANGE_RECORD
    )
    of_broker = Window.partitionBy("cluster", "broker_id").orderBy("position", "file", "byte_offset", "partition_row")
    registration = F.struct(
        F.col("position").alias("since"),
        F.coalesce(F.lead("position").over(of_broker), F.lit(FOREVER)).alias("until"),
        "broker_id",
        (event_type != UNREGISTER_BROKER_RECORD).alias("registered"),
        F.when(event_type == UNREGISTER_BROKER_RECORD, none).otherwise(F.coalesce("log_dirs", none)).alias("log_dirs"),
        ref().alias("ref"),
    )
    listed = records.where(sets).select("cluster", registration.alias("registration"))
    of_snapshot = F.when(in_snapshot(), F.col("position"))
    snapshots = metadata_log(events).groupBy("cluster").agg(F.collect_set(of_snapshot).alias("snapshots"))
    by_cluster = listed.groupBy("cluster").agg(F.array_sort(F.collect_list("registration")).alias("registrations"))
    return by_cluster.join(snapshots, "cluster", "left")


def last_snapshot(place: Column) -> Column:
    """Position of the last snapshot at a position or before it, -1 without one. Needs: snapshots.

    A snapshot states all there is. What was stated before it and is not in it may have been removed in a part of the log that is
    not recorded.
    """
    return F.coalesce(F.array_max(F.filter("snapshots", lambda snapshot: snapshot <= place)), F.lit(-1))


def registrations_before(place: Column) -> Column:
    """The registrations in force just before a position, one per broker. Needs: registrations, snapshots."""
    known_since = last_snapshot(place)
    return F.filter(
        "registrations", lambda r: (r["since"] < place) & (r["until"] >= place) & (r["since"] >= known_since)
    )


def directory_of(broker_id: Column, replicas: str, directories: str) -> Column:
    """The directory of a replica, by the lists of a partition; null without one."""
    return F.get(F.col(directories), F.array_position(replicas, broker_id).cast("int") - 1)


def is_assigned(directory: Column) -> Column:
    """The directory is known to the controller: one that is not counts as online (DirectoryId.isOnline)."""
    return ~directory.isin(*_NOT_ASSIGNED)
