"""Frame `epoch_queries`: requests about offsets and leader epochs, with the epoch that the broker held and its lineage.

These are ListOffsets, OffsetForLeaderEpoch and, since 2.7 (KIP-595), each Fetch with the epoch of the record before its offset: the
leader compares that epoch with its own lineage, and answers where the two diverge.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH, LIST_OFFSETS, LOG_START_INCREMENTED, OFFSET_FOR_LEADER_EPOCH
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP, READ_COMMITTED
from epochaudit.replay.state.deleted_replicas import deleted_replicas, with_deletions
from epochaudit.replay.state.held_epochs import line_missing, replica_starts, with_held_epochs
from epochaudit.replay.state.incarnations import (
    is_user_topic,
    key_of_name,
    topic_incarnations,
    topic_key,
    topic_keys,
    with_identity,
)
from epochaudit.replay.state.places import of_last, then_by_place
from epochaudit.replay.state.processes import process_at, process_starts
from epochaudit.replay.state.replica_ends import TRUNCATIONS
from epochaudit.spark.columns import let
from epochaudit.spark.memo import as_leaf

QUERIES: Final = (LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, FETCH)

_COLUMNS: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "api_version", "client_id", "correlation_id", "replica_id",
    "isolation_level", "error_code", "current_leader_epoch", "timestamp", "offset", "response_leader_epoch", "arrival_ms",
    "time_ms", "fetch_offset", "last_fetched_epoch", "diverging_epoch", "diverging_end_offset", "log_start_offset", "records_size",
)  # fmt: skip


def epoch_queries(events: DataFrame) -> DataFrame:
    """One row per (ListOffsets or OffsetForLeaderEpoch, partition) that is in both request and answer.

    And one per (Fetch, partition) whose last fetched epoch differs from its current leader epoch, or that was answered with a
    diverging epoch: within its own epoch a leader has nothing to compare.
    Needs: the events table. Clock: the serving node's host; between nodes the leader epochs.
    Columns: the subject columns (node = the serving broker, leader_epoch = the one it held, null while it changed),
    event_type, api_version, replica_id, isolation_level, timestamp, error_code, current_leader_epoch, asked_epoch (leader_epoch of
    OffsetForLeaderEpoch, last_fetched_epoch of a Fetch), response_leader_epoch and offset (the answer; of a Fetch the diverging
    epoch and its end offset, -1 without divergence), fetch_offset, log_start_offset, records_size, query_ref, what
    `with_held_epochs` and `with_deletions` add, ambiguous_name (the name alone does not identify the topic), and
      held_start       the start offset of the leader epoch held_max on the broker, by the lowest of its lines about it (3.0 to 3.2
                       write one per ISR, with the log end offset of that moment); null if the broker held it as a follower.
                       held_start_ref: that line
      held_high_watermark  the leader's high watermark at that line (held_ref)
      judged_epoch     the leader epoch in which the broker served a Fetch: the one that the Fetch states, if the broker held it while
                       it worked on the request, as others are refused (KIP-320); else leader_epoch
      judged_start     the start offset of judged_epoch on the broker, likewise; judged_ref
      answered_start   the lowest recorded start offset of the answered leader epoch; answered_start_ref
      answered_start_proven  that line was written when the epoch began, as it states an earlier epoch as the previous one, or as its
                       offset is 0; else the epoch may start below. A leader that restarts in its epoch writes the line anew, with
                       its log end offset
      shown            the highest latest offset that a leader of a lower epoch answered to a client; shown_ref
      latest_reached_before   in this leader epoch the broker answered a client a latest offset at the epoch's start or
                       above, before the request came; witness_ref
      latest_behind_after     in this leader epoch it answered a high watermark below the epoch's start to a request that
                       came after this answer; witness_ref
    and, by the log start offsets that the broker stated
      log_start_reached  one of them is `offset`, or the broker truncated its log to `offset`, and one of them is above it
      log_start_after    of OffsetForLeaderEpoch: the lowest that its process stated after the answer; log_start_ref
    """
    rows = of_types(events, *QUERIES).where(
        asks() & F.col("in_request") & F.col("in_response") & F.col("partition").isNotNull() & is_user_topic()
    )
    event_type, by_fetch = F.col("event_type"), F.col("event_type") == FETCH
    asked = F.when(event_type == OFFSET_FOR_LEADER_EPOCH, F.col("leader_epoch")).when(
        by_fetch, F.col("last_fetched_epoch")
    )
    rows = rows.select(*_COLUMNS, asked.alias("asked_epoch"), ref().alias("query_ref")).withColumns(
        {
            "response_leader_epoch": F.when(by_fetch, F.col("diverging_epoch")).otherwise(
                F.col("response_leader_epoch")
            ),
            "offset": F.when(by_fetch, F.col("diverging_end_offset")).otherwise(F.col("offset")),
        }
    )
    served = with_held_epochs(rows.drop("last_fetched_epoch", "diverging_epoch", "diverging_end_offset"), events)
    served = with_deletions(served, deleted_replicas(events))
    certain = F.col("held_complete") & (F.col("held_min") == F.col("held_max"))
    served = served.withColumns(
        {
            "leader_epoch": F.when(certain, F.col("held_max")),
            "epoch_line_missing": line_missing("current_leader_epoch", "asked_epoch", "response_leader_epoch"),
            "group_id": F.lit(None).cast("string"),
        }
    )
    of_partition = ["cluster", "topic_key", "partition"]
    starts = _starts(events).groupBy(*of_partition).agg(F.collect_list("start").alias("starts"))
    rows = with_identity(served, topic_incarnations(events)).withColumn("topic_key", topic_key())
    rows = rows.join(F.broadcast(starts), of_partition, "left")
    rows = as_leaf(_with_held_start(rows))
    rows = rows.join(F.broadcast(_latest_offsets(rows)), of_partition, "left")
    rows = rows.join(F.broadcast(_log_starts(events)), ["cluster", "node", "topic_key", "partition"], "left")
    rows = rows.join(F.broadcast(process_starts(events)), ["cluster", "node"], "left")
    return _with_log_start(_with_lineage(rows)).drop(
        "topic_key",
        "starts",
        "latest",
        "answered",
        "highest",
        "begun",
        "log_starts",
        "process_starts",
        "later",
        "own_line",
        "witness",
    )


def _starts(events: DataFrame) -> DataFrame:
    """One row per leader's "starts at leader epoch" line and topic key.

    In 3.0 to 3.2 a KRaft broker writes the line again when the partition epoch changes, with its log end offset at that time
    (kafka.cluster.Partition.makeLeader): the first line has the epoch's start offset.
    """
    of_epoch = Window.partitionBy("cluster", "node", "topic", "topic_id", "partition", "leader_epoch")
    so_far = of_epoch.orderBy("file_order", "byte_offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    first = F.first("start_offset").over(so_far)
    previous = F.col("previous_epoch")
    begins = ((previous >= 0) & (previous < F.col("leader_epoch"))) | (F.col("start_offset") == 0)
    proven = F.first(holds(begins)).over(so_far)
    entry = F.struct(
        "leader_epoch", "start_offset", F.col("own_ref").alias("ref"), "node", "topic_id", "high_watermark", "proven"
    )
    return (
        replica_starts(events)
        .where(F.col("is_leader") & F.col("start_offset").isNotNull())
        .withColumns({"start_offset": first, "proven": proven})
        .select("cluster", "partition", F.explode(topic_keys()).alias("topic_key"), entry.alias("start"))
    )


def _latest_offsets(rows: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition): latest, what its leaders answered to clients that asked for the latest offset.

    latest: array of one struct per node and leader epoch: node, leader_epoch, highest(offset, ref), the highest such answer; reached(
    time_ms, ref), the first one at the epoch's start or above; behind(arrival_ms, ref), the last one below it that is a high
    watermark: read_committed gets the last stable offset (FetchIsolation), which open transactions hold back.
    Some clients ask twice a minute for each partition: so the answers are aggregated. Needs: held_start.
    """
    leads = (F.col("error_code") == Errors.NONE) & F.col("leader_epoch").isNotNull() & F.col("held_leader")
    reaches = F.col("offset") >= F.col("held_start")
    is_high_watermark = ~holds(F.col("isolation_level") == READ_COMMITTED)
    at = F.col("query_ref").alias("ref")
    by_epoch = (
        rows.where(asks_latest() & leads)
        .groupBy("cluster", "topic_key", "partition", "node", "leader_epoch")
        .agg(
            F.max(F.struct("offset", at)).alias("highest"),
            F.min(F.when(reaches, F.struct("time_ms", at))).alias("reached"),
            F.max(F.when(~reaches & is_high_watermark, F.struct("arrival_ms", at))).alias("behind"),
        )
    )
    of_epoch = F.struct("node", "leader_epoch", "highest", "reached", "behind")
    return by_epoch.groupBy("cluster", "topic_key", "partition").agg(F.collect_list(of_epoch).alias("latest"))


def _log_starts(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic_key, partition) that was asked for an epoch's end.

    log_starts: array of struct(log_start_offset, until_ms, ref, is_cut), log start offsets of the node; is_cut: an offset to which it
    truncated its log, which is the log start offset if that was above it (UnifiedLog.truncateTo).

    Fetches are not shuffled: those of other partitions are dropped where they are read, the others are aggregated. Fetch 13+ names a
    topic by its id alone; OffsetForLeaderEpoch and log lines name it alone.
    """
    of_replica = ["cluster", "node", "topic_key", "partition"]
    asked = of_types(events, OFFSET_FOR_LEADER_EPOCH).where(F.col("partition").isNotNull() & F.col("topic").isNotNull())
    asked = asked.select("cluster", "node", "topic", "partition").distinct()
    ids = topic_incarnations(events).select("cluster", F.col("known_topic").alias("topic"), "topic_key")
    keys = asked.join(F.broadcast(ids), ["cluster", "topic"]).drop("topic")
    keys = keys.unionByName(asked.withColumn("topic_key", key_of_name(F.col("topic"))).drop("topic"))
    diverging = of_types(events, FETCH).where(F.col("diverging_end_offset") >= 0)
    diverging = diverging.select("cluster", "node", "topic", "topic_id", "partition").distinct()
    diverging = with_identity(diverging, topic_incarnations(events)).withColumn("topic_key", F.explode(topic_keys()))
    keys = F.broadcast(keys.unionByName(diverging.select(*keys.columns)).distinct())
    answers = of_types(events, FETCH).where((F.col("error_code") == Errors.NONE) & (F.col("log_start_offset") >= 0))
    answers = answers.withColumns({"topic_key": topic_key(), "ref": ref()}).join(keys, of_replica)
    # what a later process states shows nothing about an earlier one, so each has its own last answer
    answers = answers.join(F.broadcast(process_starts(events)), ["cluster", "node"], "left").withColumn(
        "process", process_at("arrival_ms")
    )
    answers = (
        answers.groupBy("cluster", "node", "topic", "topic_id", "partition", "log_start_offset", "process")
        .agg(F.max("arrival_ms").alias("until_ms"), *of_last(["ref"], then_by_place(F.col("arrival_ms"))))
        .drop("process")
    )
    lines = of_types(events, LOG_START_INCREMENTED, *TRUNCATIONS).withColumn("topic_key", topic_key())
    lines = lines.where(F.col("offset").isNotNull()).join(keys, of_replica)
    lines = lines.select(
        "cluster", "node", "topic", "topic_id", "partition", F.col("offset").alias("log_start_offset"),
        F.col("time_ms").alias("until_ms"), ref().alias("ref"), F.col("event_type").isin(*TRUNCATIONS).alias("is_cut"),
    )  # fmt: skip
    stated = with_identity(answers.withColumn("is_cut", F.lit(False)).unionByName(lines), topic_incarnations(events))
    stated = stated.withColumn("topic_key", F.explode(topic_keys()))
    entry = F.struct("log_start_offset", "until_ms", "ref", "is_cut")
    return stated.groupBy(*of_replica).agg(F.collect_list(entry).alias("log_starts"))


def _with_log_start(rows: DataFrame) -> DataFrame:
    """Adds log_start_reached, log_start_after and log_start_ref. Needs: log_starts, process_starts."""
    asks_epoch = F.col("event_type") == OFFSET_FOR_LEADER_EPOCH
    ends = asks_epoch | ((F.col("event_type") == FETCH) & (F.col("offset") >= 0))
    # Spark interprets lambdas, which is slow: only for answers with the end of an epoch
    # a process that starts again may begin with an older checkpoint of its log start offset

    def starts_again(until_ms: Column) -> Column:
        again = F.exists("process_starts", lambda at: (at >= F.col("time_ms")) & (at <= until_ms))
        return holds(again)

    later = F.filter(
        "log_starts", lambda s: ~s["is_cut"] & (s["until_ms"] >= F.col("time_ms")) & ~starts_again(s["until_ms"])
    )
    began_above = F.exists("log_starts", lambda s: ~s["is_cut"] & (s["log_start_offset"] > F.col("offset")))
    reached = let(
        began_above,
        lambda began: F.exists(
            "log_starts", lambda s: (s["log_start_offset"] == F.col("offset")) & (~s["is_cut"] | began)
        ),
    )
    return rows.withColumn("later", F.when(asks_epoch, F.array_min(later))).withColumns(
        {
            "log_start_reached": holds(F.when(ends, reached)),
            "log_start_after": F.col("later.log_start_offset"),
            "log_start_ref": F.col("later.ref"),
        }
    )


def _with_held_start(rows: DataFrame) -> DataFrame:
    """Adds own_line, that of held_ref, and held_start, the lowest start offset of the highest epoch that the broker can have held.

    held_start_ref: the line that states it. Needs: starts.
    """
    own = F.get(F.filter("starts", lambda s: s["ref"] == F.col("held_ref")), F.lit(0))
    rows = rows.withColumn("own_line", own)
    of_epoch = F.transform(_of_own_topic(F.col("held_max")), lambda s: F.struct(s["start_offset"], s["ref"]))
    lowest = F.when(own.isNotNull(), F.array_min(of_epoch))
    rows = rows.withColumn("lowest", lowest)
    return rows.withColumns(
        {
            "held_start": F.col("lowest.start_offset"),
            "held_start_ref": F.coalesce("lowest.ref", "held_ref"),
        }
    ).drop("lowest")


def _of_own_topic(leader_epoch: Column) -> Column:
    """The starts of this epoch at the node, of the topic of its own line."""
    return F.filter(
        "starts",
        lambda s: (
            (s["node"] == F.col("node"))
            & (s["leader_epoch"] == leader_epoch)
            & s["topic_id"].eqNullSafe(F.col("own_line.topic_id"))
        ),
    )


def _with_lineage(rows: DataFrame) -> DataFrame:
    """Adds held_high_watermark, judged_*, answered_start, shown, latest_* and their references.

    Needs: starts, latest, own_line, held_start.
    """
    of_answered = F.filter("starts", lambda s: s["leader_epoch"] == F.col("response_leader_epoch"))
    lower = F.filter("latest", lambda of_epoch: of_epoch["leader_epoch"] < F.col("leader_epoch"))
    in_epoch = F.filter(
        "latest",
        lambda of_epoch: (of_epoch["leader_epoch"] == F.col("leader_epoch")) & (of_epoch["node"] == F.col("node")),
    )
    stated, is_led = F.col("current_leader_epoch"), F.col("own_line").isNotNull()
    earlier = holds((F.col("event_type") == FETCH) & (stated >= F.col("held_min")) & (stated < F.col("held_max")))
    begun = F.array_min(F.transform(_of_own_topic(stated), lambda s: F.struct(s["start_offset"], s["ref"])))
    newest = (F.col("event_type") == FETCH) & (stated == F.col("held_max"))
    return (
        rows.withColumns(
            {
                "judged_epoch": F.when(newest, F.col("held_max"))
                .when(earlier & is_led & begun.isNotNull(), stated)
                .otherwise(F.col("leader_epoch")),
                "begun": F.when(earlier & is_led, begun),
                "held_high_watermark": F.col("own_line.high_watermark"),
                "answered": F.array_min(
                    F.transform(of_answered, lambda s: F.struct(s["start_offset"], s["ref"], s["proven"]))
                ),
                "highest": F.array_max(F.transform(lower, lambda of_epoch: of_epoch["highest"])),
                "witness": F.when(asks_latest(), F.get(in_epoch, F.lit(0))),
            }
        )
        .withColumns(
            {
                "judged_start": F.when(F.col("begun").isNotNull(), F.col("begun.start_offset")).otherwise(
                    F.col("held_start")
                ),
                "judged_ref": F.when(F.col("begun").isNotNull(), F.col("begun.ref")).otherwise(F.col("held_start_ref")),
                "latest_reached_before": holds(F.col("witness.reached.time_ms") < F.col("arrival_ms")),
                "latest_behind_after": holds(F.col("witness.behind.arrival_ms") > F.col("time_ms")),
            }
        )
        .withColumns(
            {
                "witness_ref": F.when(F.col("latest_reached_before"), F.col("witness.reached.ref")).when(
                    F.col("latest_behind_after"), F.col("witness.behind.ref")
                ),
                "answered_start": F.col("answered.start_offset"),
                "answered_start_ref": F.col("answered.ref"),
                "answered_start_proven": holds(F.col("answered.proven")),
                "shown": F.col("highest.offset"),
                "shown_ref": F.col("highest.ref"),
            }
        )
    )


def asks() -> Column:
    """The events of which the frame is made."""
    last = F.col("last_fetched_epoch")
    compared = (F.col("diverging_epoch") >= 0) | ~last.eqNullSafe(F.col("current_leader_epoch"))
    fetched = (
        (F.col("event_type") == FETCH)
        & (last >= 0)
        & F.col("error_code").isin(Errors.NONE, Errors.OFFSET_OUT_OF_RANGE)
        & compared
    )
    return F.col("event_type").isin(LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH) | holds(fetched)


def asks_latest() -> Column:
    """A consumer's ListOffsets for the latest offset."""
    return (
        (F.col("event_type") == LIST_OFFSETS)
        & (F.col("timestamp") == LATEST_TIMESTAMP)
        & (F.coalesce("replica_id", F.lit(CONSUMER_REPLICA_ID)) == CONSUMER_REPLICA_ID)
    )


def at_a_leader() -> Column:
    """The broker answered as leader, or may have: it led in the newest epoch it held, or in all of them, or none is known."""
    return F.col("held_start").isNotNull() | F.coalesce("held_leader", F.lit(True))


def states_another_epoch() -> Column:
    """The Fetch states another leader epoch than judged_epoch, or none (-1).

    A leader refuses a Fetch whose epoch differs from its own (KIP-320), so that an answered one proves the epoch that it states.
    """
    return F.col("current_leader_epoch") != F.col("judged_epoch")
