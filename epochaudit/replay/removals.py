"""What truncations took away, for the loss report: two queries over the partitions that something was removed from.

No frame: no rule judges this. It is asked after the verdicts, and only where they tell of truncations.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import client_host, of_types
from epochaudit.replay.held_epochs import STARTS
from epochaudit.replay.truncations import TRUNCATING

OLD_HISTORY: Final = (
    "cluster string, topic string, topic_id string, partition int, number int, first_epoch int, leader_epoch int, old_node int, "
    "since_ms bigint, until_ms bigint"
)
TRUNCATIONS: Final = (TRUNCATING, "LOG_TRUNCATED")  # what a fetcher meant to do (by epochs: 3.1 on); what was done
_OF_GROUPS: Final = ("OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_FETCH")
_CONSUMER: Final = -1


def histories(events: DataFrame, topics: Collection[str]) -> DataFrame:
    """One row per partition of which a replica gave up records, and per partition of these topics: what its replicas wrote.

    A replica that begins to follow states where its log ends, and after that where it truncates it to: what lies between it gave
    up. Before 2.6 followers do not state it. Whether a log was truncated is not told by leader epochs alone: a follower may be
    elected before it could follow.
    Clock: each node's host; between nodes the leader epoch.
    Columns: cluster, topic, partition, lines: array of struct(node, time_ms, event_type, topic_id, leader_epoch, start_offset,
    high_watermark, log_end, epoch_before), by node and time. Of a truncation: start_offset, where to; leader_epoch null; log_end,
    where the log had ended when it began to follow in the epoch of the line before.
    """
    # every new follower has a fetcher's line about its high watermark, also before 3.1, where it has none by leader epochs
    by_epoch = ~F.col("reason").eqNullSafe("high_watermark")
    starts, cuts = of_types(events, *STARTS), of_types(events, *TRUNCATIONS).where((F.col("offset") >= 0) & by_epoch)
    cut = F.col("event_type").isin(*TRUNCATIONS)
    own_log = Window.partitionBy("cluster", "topic", "partition", "node").orderBy(
        "time_ms", "cut", "file_order", "byte_offset"
    )
    begun = F.struct("event_type", "leader_epoch", "start_offset")
    last = F.last(F.when(~cut, begun), ignorenulls=True).over(own_log.rowsBetween(Window.unboundedPreceding, -1))
    follows = last["event_type"] == "FOLLOWER_STARTS"
    lines = starts.where(F.col("leader_epoch").isNotNull()).unionByName(cuts).where(F.col("topic").isNotNull())
    lines = lines.withColumn("cut", cut)
    lines = lines.withColumns(
        {
            "epoch_before": F.when(~cut, last["leader_epoch"]),
            "log_end": F.when(cut & follows, last["start_offset"]),
            "start_offset": F.when(cut, F.col("offset")).otherwise(F.col("start_offset")),
            "leader_epoch": F.when(~cut, F.col("leader_epoch")),
        }
    )
    line = F.struct(
        "node", "time_ms", "cut", "event_type", "topic_id", "leader_epoch", "start_offset", "high_watermark", "log_end", "epoch_before",
    )  # fmt: skip
    return (
        lines.groupBy("cluster", "topic", "partition")
        .agg(
            F.array_sort(F.collect_list(line)).alias("lines"),
            F.max(F.col("start_offset") < F.col("log_end")).alias("gave_up"),
        )
        .where(F.col("gave_up") | F.col("topic").isin(*topics))
        .select("cluster", "topic", "partition", "lines")
    )


def only_topic_ids(events: DataFrame, topics: Collection[str]) -> DataFrame:
    """One row per topic name that is recorded with one topic id only: cluster, topic, topic_id.

    Lines of 2.8 to 3.2 tell replicas by name, and Fetch 13 (3.1) by topic id.
    """
    named = events.where(F.col("topic").isin(*topics) & F.col("topic_id").isNotNull())
    ids = named.groupBy("cluster", "topic").agg(F.min("topic_id").alias("topic_id"), F.max("topic_id").alias("other"))
    return ids.where(F.col("topic_id") == F.col("other")).drop("other")


def answers(events: DataFrame, old: DataFrame, topics: Collection[str], topic_ids: Collection[str]) -> DataFrame:
    """What was read, and committed, of histories that were left: `old` has the columns of OLD_HISTORY.

    A row of `old` is a history, by its number, as one of its leaders served it: the node's answers since_ms to until_ms.
    first_epoch: of the records; leader_epoch: the epoch that left it. topics and topic_ids are all that it names. Fetches are
    aggregated where they are read.
    Clock: the host of the node. Commits are placed by the leader epoch that they name, not by a clock.
    Columns: number, node, client_id, client_host, group_id (null of fetches), by_consumer, high_watermark (the highest
    told), first_offset and last_offset (lowest and highest fetched at; 0 if the first records came at an offset that the
    request left to its session: it is from before), delivered_at (the highest at which records came),
    committed_offset (the highest with an epoch of that history).
    """
    fetch = F.col("event_type") == "FETCH"
    named = F.col("topic").isin(*topics) | F.col("topic_id").isin(*topic_ids)
    # an incremental Fetch whose answer passes over the partition was accepted, and had nothing to deliver
    nothing_new = fetch & F.col("in_request") & ~F.col("in_response") & (F.col("request_error_code") == 0)
    accepted = (F.col("error_code") == 0) | (nothing_new & (F.col("session_epoch") > 0))
    rows = of_types(events, "FETCH", *_OF_GROUPS).where(named & F.col("partition").isNotNull() & accepted)
    rows = rows.select(
        "cluster", "node", "event_type", "topic", "topic_id", "partition", "client_id", client_host().alias("client_host"),
        "group_id", "time_ms", "fetch_offset", "high_watermark", "records_size", "offset",
        F.coalesce("committed_leader_epoch", "response_leader_epoch").alias("committed_epoch"),
        (F.coalesce("replica_id", F.lit(_CONSUMER)) == _CONSUMER).alias("by_consumer"),
    ).alias("told")  # fmt: skip
    topic_id = F.col("told.topic_id") == F.col("old.topic_id")
    within = (
        (F.col("node") == F.col("old_node"))
        & (F.col("time_ms") > F.col("since_ms"))
        & (F.col("time_ms") <= F.col("until_ms"))
    )
    same = (
        (F.col("told.cluster") == F.col("old.cluster"))
        & (F.col("told.partition") == F.col("old.partition"))
        & F.coalesce(topic_id, F.col("told.topic") == F.col("old.topic"))
        & (~fetch | within)
    )
    met = rows.join(F.broadcast(old.alias("old")), same)
    of_history = (F.col("committed_epoch") >= F.col("first_epoch")) & (F.col("committed_epoch") < F.col("leader_epoch"))
    listed = F.min(F.when(F.col("fetch_offset").isNotNull(), F.col("time_ms")))
    unlisted = F.min(F.when(F.col("fetch_offset").isNull() & (F.col("records_size") > 0), F.col("time_ms")))
    return met.groupBy("number", "node", "client_id", "client_host", "group_id", "by_consumer").agg(
        F.max("high_watermark").alias("high_watermark"),
        F.when(unlisted < listed, 0).otherwise(F.min("fetch_offset")).alias("first_offset"),
        F.max("fetch_offset").alias("last_offset"),
        F.max(F.when(F.col("records_size") > 0, F.col("fetch_offset"))).alias("delivered_at"),
        F.max(F.when(of_history, F.col("offset"))).alias("committed_offset"),
    )
