"""Which topic a name or an id means: a name may stand for several topics one after the other.

A topic's identity is its id. Fetch 13+ names topics by id only, older APIs and most log lines by name only; requests of
the control plane, Metadata 10+ and the metadata log tell which name had which ids.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types
from epochaudit.replay.kept import kept
from epochaudit.replay.metadata_log import metadata_log

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"

_NAMING: Final = (
    "LEADER_AND_ISR", "UPDATE_METADATA", "METADATA", "PARTITION_CREATED", "LEADER_STARTS", "DELETE_TOPICS",
    "LEADER_AND_ISR_SKIPPED", "PARTITION_STATE_CHANGED",
)  # fmt: skip
_STATED: Final = (
    "cluster", "event_type", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch", "error_code", "time_ms",
)  # fmt: skip


@kept
def topic_incarnations(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key), where topic_key is a topic's id or its name.

    Columns: known_topic, known_topic_id (null for a name without an id and for a name with several), and
    several_incarnations: the name had several ids, or has none and was deleted or created twice (a controller wrote the
    state of leader epoch 0 and partition epoch 0 again), so that the name alone tells no topic.
    Needs: the events table. Clock: none.
    """
    deleted = ((F.col("event_type") == "UPDATE_METADATA") & (F.col("leader") == -2)) | (
        (F.col("event_type") == "DELETE_TOPICS") & (F.col("error_code") == 0)
    )
    created = (
        (F.col("event_type") == "PARTITION_STATE_CHANGED")
        & (F.col("leader_epoch") == 0)
        & (F.col("partition_epoch") == 0)
    )
    creations = F.collect_set(F.when(created, F.struct("partition", "time_ms")))
    names = (
        of_types(events, *_NAMING)
        .select(*_STATED)
        .unionByName(of_types(metadata_log(events), "TOPIC_RECORD"), allowMissingColumns=True)
        .where(F.col("topic").isNotNull())
        .groupBy("cluster", "topic")
        .agg(
            F.collect_set("topic_id").alias("ids"),
            F.max(F.coalesce(deleted, F.lit(False))).alias("deleted"),
            creations.alias("creations"),
            F.collect_set(F.when(created, F.col("partition"))).alias("partitions_created"),
        )
    )
    created_twice = F.size("creations") > F.size("partitions_created")
    count = F.size("ids")
    by_name = F.struct(
        F.col("topic").alias("topic_key"),
        F.when(count == 1, F.col("ids")[0]).alias("known_topic_id"),
        ((count > 1) | ((count == 0) & (F.col("deleted") | created_twice))).alias("several_incarnations"),
    )
    by_id = F.transform(
        "ids",
        lambda id: F.struct(
            id.alias("topic_key"), id.alias("known_topic_id"), F.lit(False).alias("several_incarnations")
        ),
    )
    rows = names.select("cluster", "topic", F.explode(F.concat(F.array(by_name), by_id)).alias("identity"))
    return rows.select("cluster", F.col("topic").alias("known_topic"), "identity.*")


def topic_key() -> Column:
    """What a row names its topic by: the id, else the name."""
    return F.coalesce("topic_id", "topic")


def with_identity(rows: DataFrame, identities: DataFrame) -> DataFrame:
    """Completes topic and topic_id of rows that have only one of them; adds several_incarnations. Grain unchanged.

    `identities` is the result of `topic_incarnations`. A topic_id stays null where the name alone cannot tell the topic.
    """
    joined = rows.withColumn("topic_key", topic_key()).join(F.broadcast(identities), ["cluster", "topic_key"], "left")
    return joined.withColumns(
        {
            "topic": F.coalesce("topic", "known_topic"),
            "topic_id": F.coalesce("topic_id", "known_topic_id"),
            "several_incarnations": F.coalesce("several_incarnations", F.lit(False)),
        }
    ).drop("topic_key", "known_topic", "known_topic_id")


def is_user_topic() -> Column:
    """Not the metadata log: Raft fetches carry epochs of the quorum, not leader epochs of a partition."""
    return (F.coalesce("topic_id", F.lit("")) != METADATA_TOPIC_ID) & (F.coalesce("topic", F.lit("")) != METADATA_TOPIC)
