"""Frame `metadata_answers`: the leader epochs in a broker's Metadata answers, and newer ones in its earlier answers."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import METADATA, METADATA_DELTA, PROCESS_STARTING, UPDATE_METADATA
from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.api_versions import RELIABLE_METADATA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, with_identity
from epochaudit.replay.state.places import PLACE_OF_NODE, of_first, of_last, then_by_place, with_refs

_LAST: Final = (*PLACE_OF_NODE, "arrival_ms", "correlation_id", "client_id", "api_version", "response_leader")
_NODE_EVENTS: Final = (PROCESS_STARTING, UPDATE_METADATA, METADATA_DELTA)


def metadata_answers(events: DataFrame) -> DataFrame:
    """One row per (broker process, partition, leader epoch) that Metadata answers name.

    Needs: the events table. Clock: the broker's host, on which differences below `REQUEST_LINE_LAG_MS` prove nothing.
    Answers are aggregated where they are read, in buffers of a fixed width.
    Columns: the subject columns (node = the broker; client_id and correlation_id of the last request that was answered with
    leader_epoch), api_version and answered_leader of that request, answer_ref, ambiguous_name, and
      reliable                 Metadata 9 or later: clients must not rely on the leader epochs of versions 7 and 8
                               (MetadataResponse.hasReliableLeaderEpochs)
      newer_epoch, newer_ref   a higher leader epoch that the process had answered before that request arrived; null: none
      published                ZooKeeper: the broker receives UpdateMetadata requests
      published_ref            the last UpdateMetadata with leader_epoch before that request
      from_log                 KRaft: the broker or the cluster has a metadata log
    """
    by_epoch = _by_epoch(events)
    higher = (
        Window.partitionBy("cluster", "node", "topic", "topic_id", "partition", "process")
        .orderBy(-F.col("leader_epoch"))
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    newer = F.min(F.struct(F.col("first_time_ms").alias("ms"), "leader_epoch", F.col("first_ref").alias("ref")))
    rows = with_identity(by_epoch, topic_incarnations(events)).withColumn("newer", newer.over(higher))
    rows = rows.withColumn(
        "newer", F.when(F.col("newer.ms") < F.col("last_arrival_ms") - REQUEST_LINE_LAG_MS, F.col("newer"))
    )
    rows = rows.join(_published(events), ["cluster", "node", "topic", "partition", "leader_epoch"], "left")
    published = F.filter("requests", lambda p: p["arrival_ms"] <= F.col("last_arrival_ms"))
    clusters = cluster_history(events).select("cluster", "has_metadata_log")
    return rows.join(F.broadcast(clusters), "cluster", "left").select(
        "cluster", "node", "topic", "topic_id", "partition", "leader_epoch", F.col("last_client_id").alias("client_id"),
        F.lit(None).cast("string").alias("group_id"), F.col("last_correlation_id").alias("correlation_id"),
        F.col("last_api_version").alias("api_version"), F.col("last_response_leader").alias("answered_leader"),
        F.col("last_ref").alias("answer_ref"), "ambiguous_name", "reliable",
        F.col("newer.leader_epoch").alias("newer_epoch"), F.col("newer.ref").alias("newer_ref"), "published",
        F.try_element_at(published, F.lit(-1))["ref"].alias("published_ref"),
        holds(F.col("deltas") | F.col("has_metadata_log")).alias("from_log"),
    )  # fmt: skip


def _published(events: DataFrame) -> DataFrame:
    """One row per (node, partition, leader epoch): the UpdateMetadata requests with it, in order of arrival."""
    rows = of_types(events, UPDATE_METADATA).where(
        (F.col("request_error_code") == Errors.NONE) & (F.col("leader_epoch") >= 0)
    )
    request = F.struct("arrival_ms", ref().alias("ref"))
    key = ("cluster", "node", "topic", "partition", "leader_epoch")
    return rows.groupBy(*key).agg(F.array_sort(F.collect_list(request)).alias("requests"))


def _by_epoch(events: DataFrame) -> DataFrame:
    """One row per (node, process, partition as named, leader epoch): the first and the last answer."""
    rows = of_types(events, METADATA).where(
        F.col("partition").isNotNull() & (F.col("response_leader_epoch") >= 0) & is_user_topic()
    )
    event_type = F.col("event_type")
    nodes = (
        of_types(events, *_NODE_EVENTS)
        .groupBy("cluster", "node")
        .agg(
            F.collect_set(F.when(event_type == PROCESS_STARTING, F.col("time_ms"))).alias("process_starts"),
            F.max(event_type == UPDATE_METADATA).alias("published"),
            F.max(event_type == METADATA_DELTA).alias("deltas"),
        )
    )
    begun = F.filter("process_starts", lambda at: at <= F.col("arrival_ms"))
    answered = rows.join(F.broadcast(nodes), ["cluster", "node"], "left").withColumns(
        {
            "leader_epoch": F.col("response_leader_epoch"),
            "reliable": F.col("api_version") >= RELIABLE_METADATA_VERSION,
            "process": F.coalesce(F.size(begun), F.lit(0)),
            "published": holds(F.col("published")),
            "deltas": holds(F.col("deltas")),
        }
    )
    key = ("cluster", "node", "topic", "topic_id", "partition", "leader_epoch", "process")
    answers = answered.groupBy(*key, "reliable", "published", "deltas").agg(
        *of_first(PLACE_OF_NODE, then_by_place(F.col("time_ms")), "first_"),
        *of_last(_LAST, then_by_place(F.col("arrival_ms")), "last_"),
    )
    return with_refs(answers, events, "first", "last")
