"""Frame `broker_records`: every record about a broker in the metadata log, and what it left of the broker in the ISRs.

Fencing writes the partitions first and the broker last, controlled shutdown the broker first, a registration over a
live incarnation the partitions first: a record is judged at the end of its batch, and partitions that follow within a
second belong to it too, as an event of many records is written in several batches.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.cluster_history import (
    ACTIVE,
    BROKER_RECORDS,
    FOLDED,
    FOREVER,
    INELIGIBLE,
    SHUTTING_DOWN,
    checks_eligibility,
    cluster_history,
    level_at,
    releases_of,
    standing_of,
    states_of,
)
from epochaudit.replay.incarnations import topic_incarnations, with_identity
from epochaudit.replay.kept import kept
from epochaudit.replay.metadata_log import metadata_log
from epochaudit.replay.partition_states import RECORD, partition_states

REGISTRATION: Final = "REGISTER_BROKER_RECORD"

_SAME_EVENT_MS: Final = 1000  # CreateTimes of one controller
_COLUMNS: Final = (
    "cluster", "event_type", "file", "byte_offset", "partition_row", "time_ms", "broker_id", "broker_epoch", "incarnation_id",
    "fenced", "metadata_offset", "batch_last_offset", "raft_epoch", "in_snapshot", "position",
)  # fmt: skip


def broker_records(events: DataFrame) -> DataFrame:
    """One row per record that registers, unregisters, fences, unfences or changes a broker. Clock: `position` in the log.

    Columns: the subject columns (node = the controller that wrote it; topic and partition of the first partition that
    keeps the broker), those of the record, and
      previous          the broker's registration before: struct(broker_epoch, incarnation_id); previous_ref its record
      standing_before, standing   as in `cluster_history`
      leaves            the record makes an active broker ineligible, other than by a registration
      supersedes        it registers a new incarnation over one that is not fenced
      kept_in           for these two, how many partitions have the broker in the ISR when the event is over; null: none
      kept_ref          the state of the first; kept_isr, kept_leader what it says
      release           lowest release of the controller, null if it is not in the evidence; metadata_level,
      checks_eligibility, log_complete as elsewhere
    """
    kept_in = F.broadcast(_kept_in(events))
    rows = _records(events).join(kept_in, ["cluster", "broker_id", "position"], "left")
    rows = rows.withColumns({"topic": F.lit(None).cast("string"), "topic_id": F.col("first.topic_id")})
    rows = with_identity(rows, topic_incarnations(events))
    return rows.withColumns(_subject()).drop("first", "batch_end")


@kept
def _records(events: DataFrame) -> DataFrame:
    """The records with the registration that they met, and whether they begin an event that is judged."""
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
        }
    )
    node, raft_epoch = F.col("node"), F.col("raft_epoch")
    return rows.withColumns(
        {
            "release": F.array_min(releases_of(node, raft_epoch=raft_epoch)),
            "checks_eligibility": checks_eligibility(node, F.col("metadata_level"), raft_epoch=raft_epoch),
        }
    ).drop(*FOLDED)


def _registers() -> Column:
    return F.col("event_type") == REGISTRATION


def _registration() -> dict[str, Column]:
    before = (
        Window.partitionBy("cluster", "broker_id")
        .orderBy("position", "file", "byte_offset", "partition_row")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    registration = F.struct("broker_epoch", "incarnation_id", "record_ref")
    states = states_of(F.col("broker_id"))
    last = F.try_element_at(F.filter(states, lambda s: s["until"] == F.col("position")), F.lit(-1))
    own = F.try_element_at(F.filter(states, lambda s: s["since"] == F.col("position")), F.lit(-1))
    leading = F.filter("raft_leaders", lambda r: r["raft_epoch"] == F.col("raft_epoch"))
    previous = F.last(F.when(_registers(), registration), ignorenulls=True).over(before)
    return {
        "previous": previous,
        "standing_before": standing_of(last),
        "standing": standing_of(own),
        "node": F.try_element_at(leading, F.lit(1))["leader"],
    }


def _kept_in(events: DataFrame) -> DataFrame:
    """One row per event after which some partition still has the broker in its ISR."""
    judged = (
        _records(events)
        .where("leaves OR supersedes")
        .select("cluster", "broker_id", "position", "batch_end", F.col("time_ms").alias("event_ms"))
    )
    states = partition_states(events, RECORD).where(F.col("isr").isNotNull())
    members = states.select(
        "cluster", "topic_id", F.explode("isr").alias("broker_id"), "clock", "next_clock", "next_ms", "next_isr", "isr", "leader",
        F.struct("topic_id", "partition", "isr", "leader", "state_ref").alias("state"),
    )  # fmt: skip
    stands = (F.col("clock") <= F.col("batch_end")) & (F.coalesce("next_clock", F.lit(FOREVER)) > F.col("batch_end"))
    last_man = (F.size("isr") == 1) & (F.col("leader") == -1)
    in_time = F.col("next_ms") - F.col("event_ms") <= _SAME_EVENT_MS
    follows = F.coalesce(in_time & ~F.array_contains("next_isr", F.col("broker_id")), F.lit(False))
    removed = of_types(metadata_log(events), "REMOVE_TOPIC_RECORD").groupBy("cluster", "topic_id")
    members = members.join(
        F.broadcast(removed.agg(F.min("position").alias("removed"))), ["cluster", "topic_id"], "left"
    )
    exists = F.coalesce("removed", F.lit(FOREVER)) > F.col("batch_end")
    found = F.broadcast(judged).join(members, ["cluster", "broker_id"]).where(stands & exists & ~last_man & ~follows)
    return found.groupBy("cluster", "broker_id", "position").agg(
        F.count("*").alias("kept_in"), F.min("state").alias("first")
    )


def _subject() -> dict[str, Column]:
    return {
        "partition": F.col("first.partition"),
        "kept_isr": F.col("first.isr"),
        "kept_leader": F.col("first.leader"),
        "kept_ref": F.col("first.state_ref"),
        "previous_ref": F.col("previous.record_ref"),
        **{name: F.lit(None).cast("int") for name in ("leader_epoch", "correlation_id")},
        **{name: F.lit(None).cast("string") for name in ("client_id", "group_id")},
    }
