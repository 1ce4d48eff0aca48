"""Frame `strays`: replicas that a broker should no longer have, and what happened to them there.

A KRaft broker compares its folders with the metadata image at start-up (3.2 on). A broker in migration receives all its partitions
in its first LeaderAndIsr of type FULL (3.6.1 on). In both cases it renames the other folders to `-stray`; up to 3.6 a KRaft broker
deletes them (ReplicaManager.deleteStrayReplicas).
Clock: the node's host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FETCH,
    LEADER_AND_ISR,
    LEADER_AND_ISR_FINISHED,
    LOG_DELETION_SCHEDULED,
    LOG_MARKED_STRAY,
    METADATA_DELTA,
    PARTITION_CREATED,
    STRAY_PARTITION,
)
from epochaudit.events.times import REQUEST_LINE_LAG_MS, TOLERANCE_MS
from epochaudit.events.views import holds, no_ref, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import FULL
from epochaudit.replay.state.held_epochs import STARTS, held_epochs
from epochaudit.replay.state.incarnations import key_of_name

FULL_REQUEST: Final = "full_leader_and_isr"
DEAD: Final = ("topic_deleted", "inconsistent_topic_id")  # a topic id is not used again

_REPLICA: Final = ("cluster", "node", "topic", "topic_id", "partition")
_SUBJECT: Final = ("reason", "listed", "found_ms", "found_ref", "correlation_id")


def strays(events: DataFrame) -> DataFrame:
    """One row per folder that a node found to be stray, and per (FULL LeaderAndIsr, replica that the node then had).

    Needs: the events table. Clock: the node's host. Columns: the subject columns, and
      reason         of the line: topic_deleted, inconsistent_topic_id, not_in_replicas, not_in_request, no_topic_id; of a
                     request: full_leader_and_isr
      listed         the request lists the replica
      found_ref      the line or request
      held_ref       of a request: where the node had stated the topic id of the replica that it then had
      renamed_ref    the line that renames the folder
      restarted_ref  the line by which the replica of the same topic id starts a leader epoch again; the node logged or accepted the
                     id since the finding; restarted_id_ref where, if that line does not state it
      may_have_restarted   a replica of the name starts again, and the id that the node last logged, before the finding, is the same
      replaced_ref   the line by which a replica of another topic id starts one
      served_ref     the first Fetch for the topic id that was answered 0 afterwards
      served_before_restart   that Fetch arrived before the restart, or one of the two is not recorded
      starts_recorded         the node's lines of starting replicas are recorded from before the finding up to that Fetch
    """
    held = held_epochs(events).select("cluster", "node", "topic_key", "partition", "held")
    subjects = _folders(events).unionByName(_unlisted(events, held))
    by_name = subjects.withColumn("topic_key", key_of_name(F.col("topic")))
    rows = by_name.join(held, ["cluster", "node", "topic_key", "partition"], "left")
    rows = rows.join(F.broadcast(_renamings(events)), ["cluster", "node", "topic", "partition"], "left")
    rows = rows.join(_served(subjects, events), [*_REPLICA, "found_ms"], "left")
    rows = rows.join(F.broadcast(_recorded_spans(events)), ["cluster", "node"], "left")
    later = F.filter("held", lambda h: h["from_ms"] > F.col("handled_ms") + TOLERANCE_MS)
    rows = rows.withColumn("later", later)
    same_id = F.filter("later", lambda h: h["topic_id"] == F.col("topic_id"))
    restart = F.array_min(_starts(same_id, lambda h: h["topic_id_ms"] > F.col("handled_ms") + TOLERANCE_MS))
    replacement = F.array_min(_starts("later", lambda h: h["topic_id"] != F.col("topic_id")))
    renamed_after = F.filter("renamings", lambda r: r["time_ms"] >= F.col("found_ms") - TOLERANCE_MS)
    return rows.select(
        *_REPLICA, F.lit(None).cast("int").alias("leader_epoch"), F.lit(None).cast("string").alias("client_id"),
        F.lit(None).cast("string").alias("group_id"), "correlation_id", "reason", "listed", "found_ref", "held_ref",
        F.get(F.array_sort(renamed_after), F.lit(0))["ref"].alias("renamed_ref"), restart["ref"].alias("restarted_ref"),
        restart["topic_id_ref"].alias("restarted_id_ref"),
        replacement["ref"].alias("replaced_ref"), F.col("served.ref").alias("served_ref"),
        F.coalesce(F.col("served.arrival_ms") < restart["from_ms"], F.lit(True)).alias("served_before_restart"),
        holds(_starts_recorded()).alias("starts_recorded"),
        holds(F.size(same_id) > 0).alias("may_have_restarted"),
    )  # fmt: skip


def _starts(held: Column | str, condition: Callable[[Column], Column]) -> Column:
    return F.transform(F.filter(held, condition), lambda h: F.struct(h["from_ms"], h["ref"], h["topic_id_ref"]))


def _folders(events: DataFrame) -> DataFrame:
    """One row per folder that a node found to be stray. found_ms: when. handled_ms: no replica that starts later is meant."""
    return of_types(events, STRAY_PARTITION).select(
        *_REPLICA, "reason", F.lit(False).alias("listed"), F.col("time_ms").alias("found_ms"),
        F.col("time_ms").alias("handled_ms"), ref().alias("found_ref"), no_ref().alias("held_ref"), "correlation_id",
    )  # fmt: skip


def _unlisted(events: DataFrame, held: DataFrame) -> DataFrame:
    """One row per (FULL LeaderAndIsr, replica that the node held when it arrived). found_ms: when it was answered."""
    listed = F.collect_set(F.struct("topic_id", "partition")).alias("partitions")
    full_requests = (
        of_types(events, LEADER_AND_ISR)
        .where((F.col("request_type") == FULL) & (F.col("request_error_code") == Errors.NONE))
        .groupBy("cluster", "node", "correlation_id", "arrival_ms", "time_ms", ref().alias("found_ref"))
        .agg(listed)
    )
    replicas = held.where(F.get("held", F.lit(0))["topic_id"] == F.col("topic_key")).withColumnRenamed(
        "partition", "replica"
    )
    pairs = replicas.join(F.broadcast(full_requests), ["cluster", "node"])
    held_then = F.filter(
        "held",
        lambda h: (h["from_ms"] < F.col("arrival_ms")) & F.coalesce(h["until_ms"] >= F.col("arrival_ms"), F.lit(True)),
    )
    pairs = pairs.withColumn("held_then", held_then).where(F.size("held_then") > 0)
    pairs = pairs.withColumns({"topic": F.get("held_then", F.lit(0))["topic"], "partition": F.col("replica")})
    stated = F.transform(
        "held_then", lambda h: F.struct(h["from_ms"], F.coalesce(h["topic_id_ref"], h["ref"]).alias("ref"))
    )
    return pairs.select(
        "cluster", "node", "topic", F.col("topic_key").alias("topic_id"), "partition", F.lit(FULL_REQUEST).alias("reason"),
        F.exists("partitions", lambda p: (p["topic_id"] == F.col("topic_key")) & (p["partition"] == F.col("replica"))).alias("listed"),
        F.col("time_ms").alias("found_ms"), F.col("arrival_ms").alias("handled_ms"), "found_ref",
        F.array_max(stated)["ref"].alias("held_ref"), "correlation_id",
    )  # fmt: skip


def _renamings(events: DataFrame) -> DataFrame:
    """One row per (node, partition): renamings, the lines that rename its folder, as a stray one or for deletion."""
    line = F.struct("time_ms", ref().alias("ref"))
    lines = of_types(events, LOG_MARKED_STRAY, LOG_DELETION_SCHEDULED).groupBy("cluster", "node", "topic", "partition")
    return lines.agg(F.collect_list(line).alias("renamings"))


def _recorded_spans(events: DataFrame) -> DataFrame:
    """One row per node: recorded_spans, array of struct(first_ms, last_ms) of its lines of starting replicas, without missing files.

    last_ms is null if no newer file is missing.
    """
    lines = of_types(events, *STARTS, PARTITION_CREATED, LEADER_AND_ISR_FINISHED, METADATA_DELTA)
    spans = lines.groupBy("cluster", "node", "source", "gaps_before").agg(
        F.min("time_ms").alias("first_ms"), F.max(F.when(F.col("newer_missing"), F.col("time_ms"))).alias("last_ms")
    )
    return spans.groupBy("cluster", "node").agg(F.collect_list(F.struct("first_ms", "last_ms")).alias("recorded_spans"))


def _starts_recorded() -> Column:
    return F.exists(
        "recorded_spans",
        lambda span: (
            (span["first_ms"] <= F.col("handled_ms"))
            & F.coalesce(span["last_ms"] >= F.col("served.arrival_ms"), F.lit(True))
        ),
    )


def _served(subjects: DataFrame, events: DataFrame) -> DataFrame:
    """One row per stray: served, the first Fetch for its topic id that was answered 0 after it should have been removed."""
    unlisted = subjects.where(~F.col("listed") & F.col("topic_id").isNotNull()).select(*_REPLICA, "found_ms").distinct()
    rows = of_types(events, FETCH).where((F.col("error_code") == Errors.NONE) & F.col("topic_id").isNotNull())
    rows = rows.select("cluster", "node", "topic_id", "partition", "arrival_ms", ref().alias("ref"))
    served = rows.join(F.broadcast(unlisted), ["cluster", "node", "topic_id", "partition"]).where(
        F.col("arrival_ms") > F.col("found_ms") + REQUEST_LINE_LAG_MS
    )
    return served.groupBy(*_REPLICA, "found_ms").agg(F.min(F.struct("arrival_ms", "ref")).alias("served"))
