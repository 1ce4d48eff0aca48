"""Which topic a topic id or a topic name means, for records and requests that state only one of the two."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types
from epochaudit.replay.metadata_log import metadata_log

NAMING: Final = ("LEADER_AND_ISR", "PARTITION_CREATED")


def topic_identities(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key), the key being a topic id or, for names, `topic_key_of_name`. No clock: a set.

    Columns: named_topic; identified_topic_id, null where the name has had several ids; recreated says so;
    topic_removed_ms = CreateTime of the id's RemoveTopicRecord, null while it lives.
    Sources: TopicRecord, RemoveTopicRecord, LeaderAndIsr partitions answered 0, "Creating new partition" lines.
    """
    event_type = F.col("event_type")
    refused = (event_type == "LEADER_AND_ISR") & ((F.col("request_error_code") != 0) | (F.col("error_code") != 0))
    removed = F.when(event_type == "REMOVE_TOPIC_RECORD", F.col("time_ms"))
    others = of_types(events, *NAMING).where(~F.coalesce(refused, F.lit(False)))
    records = of_types(metadata_log(events), "TOPIC_RECORD", "REMOVE_TOPIC_RECORD")
    naming = ("cluster", "event_type", "topic", "topic_id", "time_ms")
    facts = others.select(*naming).unionByName(records.select(*naming)).where(F.col("topic_id").isNotNull())
    keys = F.array_compact(F.array(F.col("topic_id"), topic_key_of_name(F.col("topic"))))
    keyed = facts.select(
        "cluster", "topic", "topic_id", removed.alias("removed_ms"), F.explode(keys).alias("topic_key")
    )
    gathered = keyed.groupBy("cluster", "topic_key").agg(
        F.min("topic").alias("named_topic"),
        F.min("topic_id").alias("first_id"),
        F.max("topic_id").alias("last_id"),
        F.min("removed_ms").alias("topic_removed_ms"),
    )
    return gathered.select(
        "cluster",
        "topic_key",
        "named_topic",
        F.when(F.col("first_id") == F.col("last_id"), F.col("first_id")).alias("identified_topic_id"),
        (F.col("first_id") != F.col("last_id")).alias("recreated"),
        "topic_removed_ms",
    )


def topic_key_of_name(name: Column) -> Column:
    """Key of a topic name, distinct from every topic id (a `/` is in neither); null for a null name."""
    return F.concat(F.lit("name/"), name)
