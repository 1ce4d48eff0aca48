"""Frame `broker_records`: every record about a broker in the metadata log, and the ISRs that still have the broker after it.

Fencing writes the partitions first and the broker last; so does a registration over a live incarnation. A controlled shutdown
writes the broker first. The ISRs are therefore taken at the end of the record's batch. Partition changes within a second after it
belong to the same event: an event of many records is written in several batches.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import BROKER_HEARTBEAT, REGISTER_BROKER_RECORD, REMOVE_TOPIC_RECORD
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_LEADER
from epochaudit.replay.state.cluster_history import (
    ACTIVE,
    BROKER_RECORDS,
    HISTORY_COLUMNS,
    INELIGIBLE,
    SHUTTING_DOWN,
    checks_eligibility,
    checks_last_known,
    cluster_history,
    in_words,
    level_at,
    raft_leader,
    releases_of,
    standing_of,
    states_of,
    takes_out_incarnations,
)
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log, record_position
from epochaudit.replay.state.partition_states import OF_RECORD, elects_last_known, partition_states
from epochaudit.replay.state.quorum import quorum_restarts
from epochaudit.spark.memo import checkpointed

_SAME_EVENT_MS: Final = 1000  # between CreateTimes of one controller
_COLUMNS: Final = (
    "cluster", "event_type", "file", "byte_offset", "partition_row", "time_ms", "broker_id", "broker_epoch", "incarnation_id",
    "fenced", "metadata_offset", "batch_last_offset", "raft_epoch", "in_snapshot", "position",
)  # fmt: skip


def broker_records(events: DataFrame) -> DataFrame:
    """One row per record that registers, unregisters, fences, unfences or changes a broker. Clock: `position` in the log.

    Needs: the events table. Columns: the subject columns (node is the controller that wrote the record; topic and partition are
    those of the first partition that still has the broker in its ISR), those of the record, and
      previous          the broker's registration before: struct(broker_epoch, incarnation_id, record_ref); its fields also as
                        previous_broker_epoch, previous_incarnation_id, previous_ref
      standing_before, standing   as in `cluster_history`; standing_before_in_words, standing_in_words. standing_before_ref: the record
                        of the former; null: none
      leaves            the record makes an active broker ineligible, other than by a registration
      supersedes        it registers a new incarnation over one that is not fenced
      remaining_in      if it leaves or supersedes: number of partitions with the broker in the ISR after the event; null: none
      remaining_ref     the state of the first of them; remaining_isr, remaining_leader its values
      remaining_elected   they have it because records of the same batch elect it as the last known leader (KIP-966)
      takes_out         the controller is 4.0 or later, and removes a broker from the ISRs if it registers over its own unfenced
                        incarnation: true, false, null = not in the evidence
      checks_last_known   the controller is 4.1 or later, and elects the last known leader only if it is active; three values
      granted_ref       of a registration of a new incarnation: the first heartbeat of the broker epoch before that was answered that the
                        broker should shut down; null: none is recorded. begins_again: as in `quorum_restarts`
      kafka_version     lowest release of the controller as a number (3003000 for 3.3.0); null: not in the evidence
      metadata_level, checks_eligibility, log_complete   as in `metadata`
    """
    remaining_in = F.broadcast(_remaining_in(events))
    rows = records_of_brokers(events).withColumn("previous_broker_epoch", F.col("previous.broker_epoch"))
    rows = rows.join(remaining_in, ["cluster", "broker_id", "position"], "left")
    rows = rows.join(F.broadcast(_granted_shutdowns(events)), ["cluster", "broker_id", "previous_broker_epoch"], "left")
    rows = rows.join(F.broadcast(quorum_restarts(events)), "cluster", "left")
    rows = rows.withColumns({"topic": F.lit(None).cast("string"), "topic_id": F.col("first.topic_id")})
    rows = with_identity(rows, topic_incarnations(events))
    return rows.withColumns(_subject()).drop("first", "batch_end", "granted")


@checkpointed
def records_of_brokers(events: DataFrame) -> DataFrame:
    """One row per broker record. Adds the registration before it, the standings, leaves and supersedes.

    Also elr_level, the level of eligible.leader.replicas.version in force, and log_complete and log_whole of `cluster_history`.
    """
    log = of_types(metadata_log(events), *BROKER_RECORDS).select(*_COLUMNS, ref().alias("record_ref"))
    rows = log.join(F.broadcast(cluster_history(events)), "cluster", "left").withColumns(_registration())
    rows = rows.withColumns(
        {
            "leaves": ~_registers() & (F.col("standing_before") == ACTIVE) & F.col("standing").isin(*INELIGIBLE),
            "supersedes": _registers()
            & F.col("standing_before").isin(ACTIVE, SHUTTING_DOWN)
            & (F.col("incarnation_id") != F.col("previous.incarnation_id")),
            "batch_end": F.greatest("position", F.col("batch_last_offset") * 2 + 1),
            "metadata_level": level_at(F.col("position")),
            "elr_level": level_at(F.col("position"), "elr_levels"),
        }
    )
    node, raft_epoch = F.col("node"), F.col("raft_epoch")
    level = F.col("metadata_level")
    return rows.withColumns(
        {
            "kafka_version": F.array_min(releases_of(node, raft_epoch=raft_epoch)),
            "checks_eligibility": checks_eligibility(node, level, raft_epoch=raft_epoch),
            "takes_out": takes_out_incarnations(node, level, raft_epoch=raft_epoch),
            "checks_last_known": checks_last_known(node, level, raft_epoch=raft_epoch),
        }
    ).drop(*HISTORY_COLUMNS)


def _registers() -> Column:
    return F.col("event_type") == REGISTER_BROKER_RECORD


def _registration() -> dict[str, Column]:
    """The broker's previous registration, its standing before and after the record, and the controller that wrote it."""
    before = (
        Window.partitionBy("cluster", "broker_id")
        .orderBy("position", "file", "byte_offset", "partition_row")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    registration = F.struct("broker_epoch", "incarnation_id", "record_ref")
    states = states_of(F.col("broker_id"))
    last = F.try_element_at(F.filter(states, lambda s: s["until"] == F.col("position")), F.lit(-1))
    own = F.try_element_at(F.filter(states, lambda s: s["since"] == F.col("position")), F.lit(-1))
    previous = F.last(F.when(_registers(), registration), ignorenulls=True).over(before)
    return {
        "previous": previous,
        "standing_before": standing_of(last),
        "standing_before_ref": last["ref"],
        "standing": standing_of(own),
        "node": raft_leader(),
    }


def _remaining_in(events: DataFrame) -> DataFrame:
    """One row per leaving or superseding record after which some ISR has the broker: remaining_in, and first, a state."""
    departures = (
        records_of_brokers(events)
        .where("leaves OR supersedes")
        .select("cluster", "broker_id", "position", "batch_end", F.col("time_ms").alias("event_ms"))
    )
    states = partition_states(events, OF_RECORD).where(F.col("isr").isNotNull())
    members = states.select(
        "cluster", "topic_id", F.explode("isr").alias("broker_id"), "clock", "next_clock", "next_ms", "next_isr", "isr", "leader",
        "batch_last_offset", elects_last_known().alias("elected"),
        F.struct("topic_id", "partition", "isr", "leader", "state_ref").alias("state"),
    )  # fmt: skip
    is_current = (F.col("clock") <= F.col("batch_end")) & (
        F.coalesce("next_clock", F.lit(FOREVER)) > F.col("batch_end")
    )
    last_member = (F.size("isr") == 1) & (F.col("leader") == NO_LEADER)
    same_event = F.col("next_ms") - F.col("event_ms") <= _SAME_EVENT_MS
    removed_in_time = holds(same_event & ~F.array_contains("next_isr", F.col("broker_id")))
    removed = of_types(metadata_log(events), REMOVE_TOPIC_RECORD).groupBy("cluster", "topic_id")
    members = members.join(
        F.broadcast(removed.agg(F.min("position").alias("removed"))), ["cluster", "topic_id"], "left"
    )
    topic_exists = F.coalesce("removed", F.lit(FOREVER)) > F.col("batch_end")
    found = (
        F.broadcast(departures)
        .join(members, ["cluster", "broker_id"])
        .where(is_current & topic_exists & ~last_member & ~removed_in_time)
    )
    in_batch = record_position(F.col("batch_last_offset")) >= F.col("position")
    elected = F.col("elected") & holds(in_batch)
    first = F.min(F.struct(elected.alias("elected"), "state"))  # one that keeps the broker before one that elects it
    return found.groupBy("cluster", "broker_id", "position").agg(
        F.count("*").alias("remaining_in"), first["state"].alias("first"), first["elected"].alias("remaining_elected")
    )


def _granted_shutdowns(events: DataFrame) -> DataFrame:
    """One row per broker epoch that a controller granted its shutdown: previous_broker_epoch, and granted, the first such heartbeat."""
    rows = of_types(events, BROKER_HEARTBEAT).where(
        (F.col("request_error_code") == Errors.NONE) & holds(F.col("should_shut_down"))
    )
    first = F.min(F.struct("node", "file_order", "byte_offset", ref().alias("ref")))
    return rows.groupBy("cluster", "broker_id", F.col("broker_epoch").alias("previous_broker_epoch")).agg(
        first["ref"].alias("granted")
    )


def _is_new_incarnation() -> Column:
    return _registers() & ~in_snapshot() & (F.col("incarnation_id") != F.col("previous.incarnation_id"))


def _subject() -> dict[str, Column]:
    return {
        "partition": F.col("first.partition"),
        "remaining_isr": F.col("first.isr"),
        "remaining_leader": F.col("first.leader"),
        "remaining_ref": F.col("first.state_ref"),
        "previous_ref": F.col("previous.record_ref"),
        "granted_ref": F.when(_is_new_incarnation(), F.col("granted")),
        "previous_incarnation_id": F.col("previous.incarnation_id"),
        "standing_in_words": in_words(F.col("standing")),
        "standing_before_in_words": in_words(F.col("standing_before")),
        **{name: F.lit(None).cast("int") for name in ("leader_epoch", "correlation_id")},
        **{name: F.lit(None).cast("string") for name in ("client_id", "group_id")},
    }
