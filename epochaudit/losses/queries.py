"""Queries of the loss report: truncated records, and the clients that read or committed them.

These are no frames, as no rule evaluates them. They run after the verdicts, and only if these show truncations.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FETCH,
    FOLLOWER_STARTS,
    FOLLOWER_TRUNCATING,
    LOG_BATCHES,
    LOG_TRUNCATED,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
)
from epochaudit.events.views import client_host, of_types
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import CONSUMER_REPLICA_ID
from epochaudit.replay.state.held_epochs import STARTS
from epochaudit.replay.state.log_segments import log_segments

OLD_HISTORY: Final = (
    "cluster string, topic string, topic_id string, partition int, number int, first_epoch int, leader_epoch int, old_node int, "
    "since_ms bigint, until_ms bigint"
)
REMOVED: Final = "cluster string, topic string, topic_id string, partition int, number int, since bigint, until bigint"
# the fetcher's decision (by epochs from 3.1 on), and the truncation itself
TRUNCATIONS: Final = (FOLLOWER_TRUNCATING, LOG_TRUNCATED)
_OF_GROUPS: Final = (OFFSET_COMMIT, TXN_OFFSET_COMMIT, OFFSET_FETCH)


def histories(events: DataFrame, topics: Collection[str]) -> DataFrame:
    """One row per partition of which a replica truncated records, and per partition of these topics.

    A new follower logs its log end offset, then the offset to which it truncates: the records between were discarded. Before 2.6
    followers log no line when they begin an epoch. Leader epochs alone do not show a truncation: a follower may be elected before
    it could follow.
    Needs: the events table. Clock: each node's host; between nodes the leader epoch.
    Columns: cluster, topic, partition, and lines: array, by node and time, of struct(node, time_ms, is_truncation, event_type,
    topic_id, leader_epoch, start_offset, high_watermark, log_end, epoch_before). Of a truncation, start_offset is the offset it
    truncates to, leader_epoch is null, and log_end is the log end offset that the line before stated (the replica began to follow
    with it).
    """
    # each new follower has a fetcher's line about its high watermark, also before 3.1, which logs none by leader epochs
    by_epoch = ~F.col("reason").eqNullSafe("high_watermark")
    starts = of_types(events, *STARTS).where(F.col("leader_epoch").isNotNull())
    truncations = of_types(events, *TRUNCATIONS).where((F.col("offset") >= 0) & by_epoch)
    is_truncation = F.col("event_type").isin(*TRUNCATIONS)
    own_log = Window.partitionBy("cluster", "topic", "partition", "node").orderBy(
        "time_ms", "is_truncation", "file_order", "byte_offset"
    )
    begun = F.struct("event_type", "leader_epoch", "start_offset")
    last = F.last(F.when(~is_truncation, begun), ignorenulls=True).over(
        own_log.rowsBetween(Window.unboundedPreceding, -1)
    )
    follows = last["event_type"] == FOLLOWER_STARTS
    lines = starts.unionByName(truncations).where(F.col("topic").isNotNull())
    lines = lines.withColumn("is_truncation", is_truncation)
    lines = lines.withColumns(
        {
            "epoch_before": F.when(~is_truncation, last["leader_epoch"]),
            "log_end": F.when(is_truncation & follows, last["start_offset"]),
            "start_offset": F.when(is_truncation, F.col("offset")).otherwise(F.col("start_offset")),
            "leader_epoch": F.when(~is_truncation, F.col("leader_epoch")),
        }
    )
    line = F.struct(
        "node", "time_ms", "is_truncation", "event_type", "topic_id", "leader_epoch", "start_offset", "high_watermark", "log_end",
        "epoch_before",
    )  # fmt: skip
    return (
        lines.groupBy("cluster", "topic", "partition")
        .agg(
            F.array_sort(F.collect_list(line)).alias("lines"),
            F.max(F.col("start_offset") < F.col("log_end")).alias("truncated"),
        )
        .where(F.col("truncated") | F.col("topic").isin(*topics))
        .select("cluster", "topic", "partition", "lines")
    )


def only_topic_ids(events: DataFrame, topics: Collection[str]) -> DataFrame:
    """One row per topic name that is recorded with one topic id only. Columns: cluster, topic, topic_id.

    Lines of 2.8 to 3.2 identify replicas by topic name, Fetch 13 (3.1) by topic id. Needs: the events table. Clock: none.
    """
    named = events.where(F.col("topic").isin(*topics) & F.col("topic_id").isNotNull())
    ids = named.groupBy("cluster", "topic").agg(
        F.min("topic_id").alias("topic_id"), F.max("topic_id").alias("greatest")
    )
    return ids.where(F.col("topic_id") == F.col("greatest")).drop("greatest")


def batches(events: DataFrame, removed: DataFrame) -> DataFrame:
    """One row per removal and copy of a log that has batches of the removed records.

    Needs: the events table; `removed` with the columns of REMOVED. Clock: offsets. Copies of another topic id are left out.
    Columns: number (of the removal), node, copy, first_offset and last_offset of the runs of batches that overlap the records,
    epochs (the leader epochs of these runs), record_count (null if a batch header has none), compacted.
    """
    runs = log_segments(events).where(F.col("batch_last_offset") >= F.col("batch_base_offset")).alias("runs")
    same = (
        (F.col("runs.cluster") == F.col("removed.cluster"))
        & (F.col("runs.topic") == F.col("removed.topic"))
        & (F.col("runs.partition") == F.col("removed.partition"))
        & F.coalesce(F.col("runs.topic_id") == F.col("removed.topic_id"), F.lit(True))
        & (F.col("batch_base_offset") <= F.col("until"))
        & (F.col("batch_last_offset") >= F.col("since"))
    )
    all_counted = F.count("record_count") == F.count("*")
    return (
        runs.join(F.broadcast(removed.alias("removed")), same)
        .groupBy("number", "node", "copy")
        .agg(
            F.min("batch_base_offset").alias("first_offset"),
            F.max("batch_last_offset").alias("last_offset"),
            F.array_sort(F.collect_set("leader_epoch")).alias("epochs"),
            F.when(all_counted, F.sum("record_count")).alias("record_count"),
            F.max("compacted").alias("compacted"),
        )
    )


def partitions_with_segments(events: DataFrame, topics: Collection[str]) -> DataFrame:
    """One row per partition of these topics with a replica's segments in the evidence. Columns: cluster, topic, partition."""
    runs = of_types(events, LOG_BATCHES).where(F.col("topic").isin(*topics) & F.col("partition").isNotNull())
    return runs.select("cluster", "topic", "partition").distinct()


def answers(events: DataFrame, old: DataFrame, topics: Collection[str], topic_ids: Collection[str]) -> DataFrame:
    """What clients read and committed of truncated histories: one row per history, node, client and group.

    Needs: the events table; `old` with the columns of OLD_HISTORY; in `topics` and `topic_ids` all those of `old`. A row of `old`
    is one leader's part of a history (number): the answers of old_node from since_ms to until_ms. first_epoch is the lowest
    leader epoch of the records, leader_epoch the one that began without them. Fetches are aggregated where they are read.
    Clock: the node's host. Commits are placed by the leader epoch that they name, not by a clock.
    Columns: number, node, client_id, client_host, group_id (null for fetches), by_consumer, and
      high_watermark             the highest that was answered
      first_offset, last_offset  lowest and highest fetch offset; first_offset is 0 if the first records came for a request that
                                 left its offset to the session, as it is from an earlier request
      delivered_at               the highest fetch offset that was answered with records
      committed_offset           the highest that was committed with a leader epoch of the history
    """
    fetch = F.col("event_type") == FETCH
    named = F.col("topic").isin(*topics) | F.col("topic_id").isin(*topic_ids)
    # an incremental Fetch whose answer omits the partition was accepted and had nothing to deliver
    nothing_new = fetch & F.col("in_request") & ~F.col("in_response") & (F.col("request_error_code") == Errors.NONE)
    accepted = (F.col("error_code") == Errors.NONE) | (nothing_new & (F.col("session_epoch") > 0))
    rows = of_types(events, FETCH, *_OF_GROUPS).where(named & F.col("partition").isNotNull() & accepted)
    rows = rows.select(
        "cluster", "node", "event_type", "topic", "topic_id", "partition", "client_id", client_host().alias("client_host"),
        "group_id", "time_ms", "fetch_offset", "high_watermark", "records_size", "offset",
        F.coalesce("committed_leader_epoch", "response_leader_epoch").alias("committed_epoch"),
        (F.coalesce("replica_id", F.lit(CONSUMER_REPLICA_ID)) == CONSUMER_REPLICA_ID).alias("by_consumer"),
    ).alias("answered")  # fmt: skip
    topic_id = F.col("answered.topic_id") == F.col("old.topic_id")
    within = (
        (F.col("node") == F.col("old_node"))
        & (F.col("time_ms") > F.col("since_ms"))
        & (F.col("time_ms") <= F.col("until_ms"))
    )
    same = (
        (F.col("answered.cluster") == F.col("old.cluster"))
        & (F.col("answered.partition") == F.col("old.partition"))
        & F.coalesce(topic_id, F.col("answered.topic") == F.col("old.topic"))
        & (~fetch | within)
    )
    matched = rows.join(F.broadcast(old.alias("old")), same)
    of_history = (F.col("committed_epoch") >= F.col("first_epoch")) & (F.col("committed_epoch") < F.col("leader_epoch"))
    listed = F.min(F.when(F.col("fetch_offset").isNotNull(), F.col("time_ms")))
    unlisted = F.min(F.when(F.col("fetch_offset").isNull() & (F.col("records_size") > 0), F.col("time_ms")))
    return matched.groupBy("number", "node", "client_id", "client_host", "group_id", "by_consumer").agg(
        F.max("high_watermark").alias("high_watermark"),
        F.when(unlisted < listed, 0).otherwise(F.min("fetch_offset")).alias("first_offset"),
        F.max("fetch_offset").alias("last_offset"),
        F.max(F.when(F.col("records_size") > 0, F.col("fetch_offset"))).alias("delivered_at"),
        F.max(F.when(of_history, F.col("offset"))).alias("committed_offset"),
    )
