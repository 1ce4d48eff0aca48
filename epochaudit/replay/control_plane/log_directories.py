"""Frame `log_directories`: records of the metadata log that assign replicas to log directories or depend on them (KIP-858)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import PARTITION_CHANGE_RECORD, REGISTER_BROKER_RECORD
from epochaudit.events.views import no_ref, of_types, ref
from epochaudit.kafka.field_values import UNMIGRATED_DIRECTORY
from epochaudit.replay.state.cluster_history import cluster_history, raft_leader, whole_up_to
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log
from epochaudit.replay.state.partition_states import OF_RECORD, PARTITION_RECORDS, partition_states
from epochaudit.replay.state.registered_directories import (
    directory_of,
    is_assigned,
    registered_directories,
    registrations_before,
)

_HISTORY: Final = ("log_complete", "log_holes", "raft_leaders")
_REFS: Final = ("replicas_ref", "directories_ref", "previous_leader_ref", "leader_directory_ref")
_RECORD: Final = (
    "cluster", "event_type", "topic", "topic_id", "partition", "leader", "leader_epoch", "replicas", "directories", "broker_id",
    "log_dirs", "metadata_offset", "raft_epoch", "place", "record_ref", "previous_leader", "leader_directory", *_REFS,
)  # fmt: skip


def names_directories() -> Column:
    """The record names log directories."""
    return F.col("directories").isNotNull() | F.col("log_dirs").isNotNull()


def log_directories(events: DataFrame) -> DataFrame:
    """One row per partition record after which the partition has directories, and per registration of a broker with log
    directories that is not of a snapshot. Clock: the metadata offset.

    Needs: the events table. node is the Raft leader of the record's epoch. Columns, beside the subject columns:
      event_type, metadata_offset, record_ref   of the record
      replicas, directories   of the partition after the record: a directory for each replica
      replicas_ref, directories_ref   the record before that set them; null: this one does
      replica_count, directory_count   their lengths
      unmigrated              no directory of the list has been migrated: it fits any number of replicas
                              (PartitionRegistration.defaultToMigrating)
      leader, previous_leader, previous_leader_ref   the leader after the record and before it, and the record that set the latter
      elects                  a change record makes a replica the leader that was not, and the controller had assigned a directory to
                              that replica before the record
      leader_directory        that directory, by its id
      leader_directory_ref    the record that assigned it
      leader_log_dirs         the log directories with which the leader was registered; null: not in the evidence
      leader_registered       it was registered; null: not in the evidence
      registration_ref        the record of them
      directory_online        leader_directory is one of them; null: they are not in the evidence
      broker_id, log_dirs     of a registration
      shared_with             another broker that is registered with one of these directories; null: none is
      shared_dir, shared_ref  that directory, and the record of that registration
      log_complete            as in `cluster_history`
      log_whole               no record of the metadata log before this one is missing
    """
    rows = _partition_records(events).unionByName(_registrations(events))
    history = cluster_history(events).select("cluster", *_HISTORY)
    rows = rows.join(F.broadcast(history), "cluster", "left")
    rows = rows.join(F.broadcast(registered_directories(events)), "cluster", "left")
    rows = rows.withColumn("before", registrations_before(F.col("place"))).withColumns(_states())
    rows = with_identity(rows, topic_incarnations(events))
    return rows.withColumns(_columns()).drop(
        "before", "own", "other", "registrations", "snapshots", "raft_leaders", "log_holes", "place"
    )


def _partition_records(events: DataFrame) -> DataFrame:
    """One row per PartitionRecord or PartitionChangeRecord with directories: its state, and in which directory a new leader is."""
    states = partition_states(events, OF_RECORD).where(
        F.col("event_type").isin(*PARTITION_RECORDS) & (F.size("directories") > 0)
    )
    before = directory_of(F.col("leader"), "before.replicas", "before.directories")
    changes = (F.col("event_type") == PARTITION_CHANGE_RECORD) & ~in_snapshot()
    elects = changes & (F.col("leader") >= 0) & (F.col("leader") != F.col("before.leader"))
    return states.withColumns(
        {
            "place": F.col("clock"),
            "record_ref": F.col("state_ref"),
            "previous_leader": F.col("before.leader"),
            "previous_leader_ref": F.col("before.leader_ref"),
            "replicas_ref": F.nullif("replicas_ref", "state_ref"),
            "directories_ref": F.nullif("directories_ref", "state_ref"),
            "leader_directory": F.when(elects & is_assigned(before), before),
            "leader_directory_ref": F.col("before.directories_ref"),
            "broker_id": F.lit(None).cast("int"),
            "log_dirs": F.lit(None).cast("array<string>"),
        }
    ).select(*_RECORD)


def _registrations(events: DataFrame) -> DataFrame:
    """One row per RegisterBrokerRecord with log directories."""
    records = of_types(metadata_log(events), REGISTER_BROKER_RECORD).where((F.size("log_dirs") > 0) & ~in_snapshot())
    return records.withColumns(
        {
            "place": F.col("position"),
            "record_ref": ref(),
            "previous_leader": F.lit(None).cast("int"),
            "leader_directory": F.lit(None).cast("string"),
            **{name: no_ref() for name in _REFS},
        }
    ).select(*_RECORD)


def _states() -> dict[str, Column]:
    """own: the leader's registration before the record. other: one of another broker that shares a directory with this one."""
    of_leader = F.filter("before", lambda r: r["broker_id"] == F.col("leader"))
    elsewhere = F.filter(
        "before",
        lambda r: (r["broker_id"] != F.col("broker_id")) & F.arrays_overlap(r["log_dirs"], F.col("log_dirs")),
    )
    return {
        "own": F.when(F.col("leader_directory").isNotNull(), F.get(of_leader, F.lit(0))),
        "other": F.when(F.col("log_dirs").isNotNull(), F.get(elsewhere, F.lit(0))),
    }


def _columns() -> dict[str, Column]:
    directory, log_dirs = F.col("leader_directory"), F.col("own.log_dirs")
    return {
        "node": raft_leader(),
        "log_whole": whole_up_to(F.col("place")),
        "elects": directory.isNotNull(),
        "leader_log_dirs": log_dirs,
        "leader_registered": F.col("own.registered"),
        "registration_ref": F.col("own.ref"),
        "directory_online": F.array_contains(log_dirs, directory),
        "replica_count": F.size("replicas"),
        "directory_count": F.size("directories"),
        "unmigrated": F.forall("directories", lambda one: one == UNMIGRATED_DIRECTORY),
        "shared_with": F.col("other.broker_id"),
        "shared_dir": F.get(F.array_intersect("other.log_dirs", "log_dirs"), F.lit(0)),
        "shared_ref": F.col("other.ref"),
        "correlation_id": F.lit(None).cast("int"),
        **{name: F.lit(None).cast("string") for name in ("client_id", "group_id")},
    }
