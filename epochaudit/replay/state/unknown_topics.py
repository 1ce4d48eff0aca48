"""Topic ids that no topic ever had: the metadata log is complete until some time after their use, and lacks them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log

_APART_MS: Final = 30_000  # between the clocks of two hosts, and for a topic that was just created


def with_existence(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds never_existed: the metadata log creates no topic with the row's id. Grain unchanged, rows are not shuffled.

    True only if the log covers the row: it begins at offset 0, or with a snapshot half a minute before the row, and ends half a
    minute after it. Clock: the hosts of controllers and node, half a minute apart at most.
    Needs: cluster, topic (null: no replica has the id), topic_id, arrival_ms, time_ms.
    """
    joined = rows.join(F.broadcast(_log_topics(events)), "cluster", "left")
    covered = (F.col("log_begins_ms") + _APART_MS <= F.col("arrival_ms")) & (
        F.col("log_ends_ms") - _APART_MS >= F.col("time_ms")
    )
    unknown = F.col("topic").isNull() & F.col("topic_id").isNotNull() & covered
    never = unknown & ~F.array_contains("log_topic_ids", F.col("topic_id"))
    return joined.withColumn("never_existed", F.coalesce(never, F.lit(False))).drop(
        "log_topic_ids", "log_begins_ms", "log_ends_ms"
    )


def log_times(events: DataFrame) -> DataFrame:
    """One row per cluster and time at which `with_existence` begins or ceases to know all topic ids: at_ms."""
    apart = F.array(F.col("log_begins_ms") + _APART_MS, F.col("log_ends_ms") - _APART_MS)
    return _log_topics(events).select("cluster", F.explode(apart).alias("at_ms"))


def _log_topics(events: DataFrame) -> DataFrame:
    """One row per cluster: the topic ids of its metadata log, and the time that it covers, by its controllers' clocks."""
    log = metadata_log(events)
    first = F.min(F.when(~in_snapshot(), F.col("position")))
    begins = F.when(first <= 1, F.lit(0)).when(F.max(in_snapshot()), F.min(F.when(~in_snapshot(), F.col("time_ms"))))
    created = F.when(F.col("event_type") == "TOPIC_RECORD", F.col("topic_id"))
    return log.groupBy("cluster").agg(
        F.collect_set(created).alias("log_topic_ids"),
        begins.cast("bigint").alias("log_begins_ms"),
        F.max("time_ms").alias("log_ends_ms"),
    )
