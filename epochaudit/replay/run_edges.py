"""Edges of runs: times across which the state may differ between the rows of a run.

The reader folds runs of like rows of Fetch and Produce (schemas/events.toml, run_rows). A frame treats the last row of a run like the rows
that it stands for. That is right if the state was the same for all of them: then each comparison of their times gives the same
result. The times that frames compare with are collected here. Ranges with a run across such an edge are read again, with
runs that end at each edge.
"""

from __future__ import annotations

from array import array
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FETCH,
    LEADER_AND_ISR,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    STRAY_PARTITION,
)
from epochaudit.events.times import ANY_ZONE_MS, FOREVER, REQUEST_LINE_LAG_MS, SLACK_MS, TOLERANCE_MS
from epochaudit.events.views import RANGE, holds, of_types
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import FULL
from epochaudit.replay.control_plane.isr_expansions import join_times
from epochaudit.replay.data_plane.follower_answers import binds
from epochaudit.replay.state.broken_sessions import SESSION
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.deleted_replicas import deleted_replicas
from epochaudit.replay.state.held_epochs import change_times
from epochaudit.replay.state.incarnations import (
    stated_topic,
    topic_incarnations,
    topic_key,
    topic_keys,
    with_identity,
)
from epochaudit.replay.state.unknown_topics import log_times
from epochaudit.sources.sink import Edges

_PARTITION: Final = ("cluster", "topic_key", "partition")
EdgesBySubject = dict[tuple[str, ...], DataFrame]


def folded(events: DataFrame) -> DataFrame:
    """One row per row that stands for others.

    Needs: the events table. Columns: RANGE, node, topic_key, partition, from_ms and to_ms, between which the rows arrived and
    were answered.
    """
    rows = of_types(events, FETCH, PRODUCE).where(F.col("run_rows") > 1)
    return rows.select(
        *RANGE, "node", topic_key().alias("topic_key"), "partition",
        F.col("run_arrival_ms").alias("from_ms"), F.col("time_ms").alias("to_ms"),
    )  # fmt: skip


def ranges_to_read_again(events: DataFrame, edges: EdgesBySubject) -> DataFrame:
    """One row per byte range with a run across one of these edges, with the columns RANGE. Needs: the events table."""
    rows = folded(events)
    for key, times in edges.items():
        name = f"edges_{len(key)}"
        of_key = times.where(F.col("at_ms").isNotNull()).groupBy(*key).agg(F.collect_set("at_ms").alias(name))
        rows = rows.join(F.broadcast(of_key), list(key), "left")
    crossed = (F.exists(name, _within) for name in ("edges_1", "edges_2", "edges_3"))
    found = reduce(lambda one, other: one | other, (holds(c) for c in crossed))
    return rows.where(found).select(*RANGE).distinct()


def collected(edges: EdgesBySubject) -> Edges:
    """The edges, for the reader. Those of a node apply to all nodes: there are few."""
    everywhere = reduce(DataFrame.union, (times.select("at_ms") for key, times in edges.items() if key != _PARTITION))
    of_partitions = edges[_PARTITION].groupBy("topic_key", "partition").agg(F.collect_set("at_ms").alias("times"))
    return Edges(
        [row["at_ms"] for row in everywhere.where(F.col("at_ms").isNotNull()).distinct().collect()],
        {
            (stated_topic(row["topic_key"]), row["partition"]): array("q", row["times"])
            for row in of_partitions.where(F.col("topic_key").isNotNull() & F.col("partition").isNotNull()).collect()
        },
        TOLERANCE_MS,
    )


def _within(at_ms: Column) -> Column:
    return (at_ms >= F.col("from_ms") - TOLERANCE_MS) & (at_ms <= F.col("to_ms") + TOLERANCE_MS)


def edges_by_subject(events: DataFrame) -> EdgesBySubject:
    """The edges, by what they are about: a cluster, a node or a partition. Column at_ms, and those of the key."""
    nodes = ("cluster", "node")
    zones = F.array(F.col("log_end_ms"), F.col("log_end_ms") - ANY_ZONE_MS)
    log = cluster_history(events).select("cluster", F.explode(zones).alias("at_ms"))
    of_cluster = log.unionByName(log_times(events))
    deletions = deleted_replicas(events).select("cluster", "node", F.inline("deletions"))
    strays = of_types(events, STRAY_PARTITION, LEADER_AND_ISR).where(
        (F.col("event_type") == STRAY_PARTITION) | (F.col("request_type") == FULL)
    )
    strays = strays.select(
        *nodes, F.explode(F.array(F.col("time_ms"), F.col("time_ms") + REQUEST_LINE_LAG_MS)).alias("at_ms")
    )
    deletions = deletions.select(*nodes, F.explode(F.array("from_ms", "until_ms")).alias("at_ms"))
    refused = of_types(events, FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH).where(
        binds() | holds(F.col("error_code") == Errors.UNKNOWN_LEADER_EPOCH)
    )
    # a Fetch that they are compared with may name the topic by id, or by name
    refused = with_identity(
        refused.select("cluster", "topic", "topic_id", "partition", "arrival_ms", "time_ms"), topic_incarnations(events)
    )
    refused = refused.withColumn("topic_key", F.explode(topic_keys())).select(
        *_PARTITION, F.explode(F.array("arrival_ms", "time_ms")).alias("at_ms")
    )
    joins = join_times(events).select(
        *_PARTITION,
        F.explode(F.array(F.col("start_ms"), F.col("until_ms"), F.col("until_ms") + SLACK_MS)).alias("at_ms"),
    )
    of_partition = change_times(events).select(*_PARTITION, "at_ms").unionByName(refused).unionByName(joins)
    of_partition = of_partition.unionByName(_listing_times(events))
    return {
        ("cluster",): of_cluster,
        nodes: deletions.unionByName(strays),
        _PARTITION: of_partition.where(F.col("at_ms").between(1, FOREVER - 1)),
    }


def _listing_times(events: DataFrame) -> DataFrame:
    """The times at which a session's requests begin and cease to list a partition with a leader epoch, if there are several.

    Which of the epochs a later answer belongs to depends on the session epoch of its request.
    """
    rows = of_types(events, FETCH).where(F.col("in_request") & (F.col("session_id") > 0))
    by_epoch = rows.groupBy(*SESSION, topic_key().alias("topic_key"), "partition", "current_leader_epoch").agg(
        F.min("time_ms").alias("since_ms"), F.max("time_ms").alias("until_ms")
    )
    times = F.flatten(F.collect_list(F.array("since_ms", "until_ms"))).alias("times")
    several = (
        by_epoch.groupBy(*SESSION, "topic_key", "partition")
        .agg(F.count("*").alias("epochs"), times)
        .where(F.col("epochs") > 1)
    )
    return several.select(*_PARTITION, F.explode("times").alias("at_ms"))
