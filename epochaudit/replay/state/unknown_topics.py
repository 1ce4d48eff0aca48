"""Topic ids that no topic ever had: the metadata log is complete until some time after their use, and lacks them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import ZK_MIGRATION_STATE_RECORD
from epochaudit.events.times import ANY_ZONE_MS
from epochaudit.events.views import holds
from epochaudit.kafka.field_values import ZkMigrationState
from epochaudit.replay.state.incarnations import topic_incarnations
from epochaudit.replay.state.metadata_log import in_snapshot, metadata_log, state_snapshot
from epochaudit.replay.state.utc_nodes import zone_margin_ms

_APART_MS: Final = 30_000  # between the clocks of two hosts, and for a topic that was just created


def with_existence(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds never_existed: the metadata log creates no topic with the row's id. Grain unchanged, rows are not shuffled.

    True only if nothing else names a topic of that id, and the log covers the row: it begins at offset 0, or with a snapshot half a
    minute before the row, has no hole from then on, and ends half a minute after it. A topic that was deleted before the snapshot is in
    no record. Nor is one that was deleted before a migration from ZooKeeper: such a log covers rows half a minute after it has copied
    the topics. Clock: the hosts of controllers and node, half a minute apart at most.
    Needs: cluster, topic (null: no replica has the id), topic_id, arrival_ms, time_ms, prints_utc.
    """
    joined = rows.join(F.broadcast(_covered_times(events)), "cluster", "left")
    joined = joined.withColumn("looked_up_id", F.when(F.col("topic").isNull(), F.col("topic_id")))
    joined = joined.join(F.broadcast(_named_ids(events)), ["cluster", "looked_up_id"], "left")
    apart = zone_margin_ms() + _APART_MS
    covered = (F.col("log_begins_ms") + apart <= F.col("arrival_ms")) & (
        F.col("log_ends_ms") - apart >= F.col("time_ms")
    )
    unknown = F.col("looked_up_id").isNotNull() & F.col("is_named").isNull() & covered
    return joined.withColumn("never_existed", holds(unknown)).drop(
        "looked_up_id", "is_named", "log_begins_ms", "log_ends_ms"
    )


def log_times(events: DataFrame) -> DataFrame:
    """One row per cluster and time at which `with_existence` begins or ceases to know all topic ids: at_ms."""
    apart = F.array(
        *(F.col("log_begins_ms") + _APART_MS + zone for zone in (0, ANY_ZONE_MS)),
        *(F.col("log_ends_ms") - _APART_MS - zone for zone in (0, ANY_ZONE_MS)),
    )
    return _covered_times(events).select("cluster", F.explode(apart).alias("at_ms"))


def _named_ids(events: DataFrame) -> DataFrame:
    """One row per topic id that a record, request or line states with a name: cluster, looked_up_id, and is_named, always true."""
    named = topic_incarnations(events).where(F.col("known_topic").isNotNull())
    return named.select(
        "cluster", F.col("known_topic_id").alias("looked_up_id"), F.lit(True).alias("is_named")
    ).distinct()


def _covered_times(events: DataFrame) -> DataFrame:
    """One row per cluster: the time in which its metadata log knows all topics, by its controllers' clocks.

    Both times are null if it covers none.
    """
    state = F.when(F.col("event_type") == ZK_MIGRATION_STATE_RECORD, F.coalesce("value", F.lit("")))
    has_topics = state.isin(ZkMigrationState.MIGRATION, ZkMigrationState.POST_MIGRATION)
    log = (
        metadata_log(events)
        .groupBy("cluster")
        .agg(
            F.min(state_snapshot()).alias("snapshot"),
            F.min(F.when(~in_snapshot(), F.col("position"))).alias("first"),
            F.max("time_ms").alias("ends_ms"),
            F.first("holes", ignorenulls=True).alias("holes"),
            F.max(state != ZkMigrationState.NONE).alias("from_zookeeper"),
            F.min(F.when(has_topics, F.col("time_ms"))).alias("migrated_ms"),
        )
    )
    from_offset_0 = holds(F.col("first") <= 1)
    since = F.when(from_offset_0, F.lit(-1)).otherwise(F.col("snapshot.position"))
    is_whole = ~F.exists("holes", lambda hole: hole["since"] > since)
    begins_ms = F.when(from_offset_0, F.lit(0)).otherwise(F.col("snapshot.time_ms"))
    known = ~holds(F.col("from_zookeeper")) | F.col("migrated_ms").isNotNull()
    covers = F.coalesce(is_whole, F.lit(True)) & begins_ms.isNotNull() & known
    return log.select(
        "cluster",
        F.when(covers, F.greatest(begins_ms, F.col("migrated_ms"))).cast("bigint").alias("log_begins_ms"),
        F.when(covers, F.col("ends_ms")).alias("log_ends_ms"),
    )
