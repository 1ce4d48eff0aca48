"""Frame `offline_directories`: records that take log directories of a broker offline, and the partitions that stay on them (KIP-858).

The controller writes the partitions first and the broker last (ReplicationControlManager.handleDirectoriesOffline), so the
partitions are taken as they are at the broker's record.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import BROKER_REGISTRATION_CHANGE_RECORD, REMOVE_TOPIC_RECORD
from epochaudit.events.times import FOREVER
from epochaudit.events.views import of_types, ref
from epochaudit.replay.state.cluster_history import cluster_history, raft_leader, whole_up_to
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log
from epochaudit.replay.state.partition_states import OF_RECORD, partition_states
from epochaudit.replay.state.registered_directories import (
    directory_of,
    last_snapshot,
    registered_directories,
    registrations_before,
)

_HISTORY: Final = ("log_complete", "log_holes", "raft_leaders")
_REFS: Final = ("leader_ref", "isr_ref", "directories_ref")
_LEAST_LEFT: Final = 2  # the last member of an ISR stays in it, without a leader


def takes_directories_offline() -> Column:
    """The change record of a registration may take log directories offline."""
    return F.col("log_dirs").isNotNull()


def offline_directories(events: DataFrame) -> DataFrame:
    """One row per change record of a broker's registration that states the remaining log directories. Clock: the metadata offset.

    Needs: the events table. node is the Raft leader of the record's epoch; topic and partition are those of the first partition
    that has a replica on a directory that went offline, and has that replica as leader or, beside others, in its ISR.
    Columns, beside the subject columns:
      broker_id, log_dirs, metadata_offset, record_ref   of the record: the directories are those that remain
      previous_log_dirs   the directories with which the broker was registered before; null: not in the evidence
      previous_ref        the record of them
      offline_dirs        those of them that do not remain; null: not in the evidence
      remaining_in        number of such partitions; null: none
      remaining_leader, remaining_isr, remaining_directory   of the first: its state, and the directory of the replica;
                          remaining_leader_ref, remaining_isr_ref, remaining_directory_ref, the records that set them
      log_complete        as in `cluster_history`
      log_whole           no record of the metadata log before this one is missing
    """
    rows = _changes(events)
    rows = rows.join(F.broadcast(_remaining(rows, events)), ["cluster", "broker_id", "position"], "left")
    history = cluster_history(events).select("cluster", *_HISTORY)
    rows = rows.join(F.broadcast(history), "cluster", "left")
    rows = rows.withColumns({"topic": F.lit(None).cast("string"), "topic_id": F.col("first.topic_id")})
    rows = with_identity(rows, topic_incarnations(events))
    return rows.withColumns(_columns()).drop("first", "known_since", "raft_leaders", "log_holes", "position")


def _changes(events: DataFrame) -> DataFrame:
    """One row per record. Adds previous_log_dirs, previous_ref, offline_dirs, and known_since: the position of the last snapshot."""
    records = of_types(metadata_log(events), BROKER_REGISTRATION_CHANGE_RECORD).where(
        (F.size("log_dirs") > 0) & ~in_snapshot()
    )
    rows = records.select(
        "cluster", "broker_id", "log_dirs", "metadata_offset", "raft_epoch", "position", ref().alias("record_ref")
    ).join(F.broadcast(registered_directories(events)), "cluster", "left")
    own = F.filter(registrations_before(F.col("position")), lambda r: r["broker_id"] == F.col("broker_id"))
    rows = rows.withColumn("before", F.get(own, F.lit(0)))
    return rows.withColumns(
        {
            "previous_log_dirs": F.col("before.log_dirs"),
            "previous_ref": F.col("before.ref"),
            "offline_dirs": F.array_except("before.log_dirs", "log_dirs"),
            "known_since": last_snapshot(F.col("position")),
        }
    ).drop("before", "registrations", "snapshots")


def _remaining(changes: DataFrame, events: DataFrame) -> DataFrame:
    """One row per record after which a partition stays on an offline directory: remaining_in, and first, its state."""
    went = changes.select("cluster", "broker_id", "position", "offline_dirs", "known_since")
    states = partition_states(events, OF_RECORD).where(F.size("directories") > 0)
    states = states.select(
        "cluster",
        "topic_id",
        "partition",
        "clock",
        "next_clock",
        "leader",
        "isr",
        "replicas",
        "directories",
        *_REFS,
    )
    removed = of_types(metadata_log(events), REMOVE_TOPIC_RECORD).groupBy("cluster", "topic_id")
    states = states.join(F.broadcast(removed.agg(F.min("position").alias("removed"))), ["cluster", "topic_id"], "left")
    found = states.join(F.broadcast(went), "cluster").withColumn(
        "directory", directory_of(F.col("broker_id"), "replicas", "directories")
    )
    place, broker = F.col("position"), F.col("broker_id")
    is_current = (
        (F.col("clock") >= F.col("known_since"))
        & (F.col("clock") <= place)
        & (F.coalesce("next_clock", F.lit(FOREVER)) > place)
        & (F.coalesce("removed", F.lit(FOREVER)) > place)
    )
    in_isr = F.array_contains("isr", broker) & (F.size("isr") >= _LEAST_LEFT)
    stays = F.array_contains("offline_dirs", F.col("directory")) & ((F.col("leader") == broker) | in_isr)
    first = F.min(F.struct("topic_id", "partition", "leader", "isr", "directory", *_REFS))
    return (
        found.where(is_current & stays)
        .groupBy("cluster", "broker_id", "position")
        .agg(F.count("*").alias("remaining_in"), first.alias("first"))
    )


def _columns() -> dict[str, Column]:
    return {
        "node": raft_leader(),
        "log_whole": whole_up_to(F.col("position")),
        "partition": F.col("first.partition"),
        "remaining_leader": F.col("first.leader"),
        "remaining_isr": F.col("first.isr"),
        "remaining_directory": F.col("first.directory"),
        "remaining_leader_ref": F.col("first.leader_ref"),
        "remaining_isr_ref": F.col("first.isr_ref"),
        "remaining_directory_ref": F.col("first.directories_ref"),
        **{name: F.lit(None).cast("int") for name in ("leader_epoch", "correlation_id")},
        **{name: F.lit(None).cast("string") for name in ("client_id", "group_id")},
    }
