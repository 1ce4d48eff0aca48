"""Where runs of like Fetch rows must be read row by row: something that the frames compare times with happened within one.

The reader folds runs (schemas/events.toml, run_rows). A frame treats the last row of a run like the rows that it stands for.
That is right if all of them met the same state: then each comparison of their times gives the same result. The times that
frames compare are collected here, as edges; a run across an edge is read again in full.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.times import FOREVER, GRAIN_MS, SLACK_MS
from epochaudit.events.views import of_types
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import FULL
from epochaudit.replay.control_plane.isr_expansions import join_times
from epochaudit.replay.data_plane.follower_answers import binds
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.deleted_replicas import deleted_replicas
from epochaudit.replay.state.held_epochs import LATE_MS, change_times
from epochaudit.replay.state.incarnations import topic_key
from epochaudit.replay.state.unknown_topics import log_times

RANGE: Final = ("cluster", "file", "split")
_PARTITION: Final = ("cluster", "topic_key", "partition")
_SESSION: Final = ("cluster", "node", "session_id", "topic_key", "partition")


def folded(events: DataFrame) -> DataFrame:
    """One row per row that stands for others, and per range, partition and session.

    Needs: the events table. Columns: RANGE, node, session_id, topic_key, partition, listed (the requests list the partition),
    from_ms and to_ms, between which the rows arrived and were answered.
    """
    rows = of_types(events, "FETCH").where(F.col("run_rows") > 1)
    return rows.groupBy(*RANGE, "node", "session_id", topic_key().alias("topic_key"), "partition", F.col("in_request").alias("listed")).agg(
        F.min("run_arrival_ms").alias("from_ms"), F.max("time_ms").alias("to_ms")
    )  # fmt: skip


def ranges_with_edges(events: DataFrame) -> DataFrame:
    """One row per byte range with a run across an edge: cluster, file, split. Needs: the events table."""
    rows = folded(events)
    for key, edges in _edges(events).items():
        name = f"edges_{len(key)}"
        of_key = edges.where(F.col("at_ms").isNotNull()).groupBy(*key).agg(F.collect_set("at_ms").alias(name))
        rows = rows.join(F.broadcast(of_key), list(key), "left")
    rows = rows.join(F.broadcast(_sessions_of_several_epochs(events)), list(_SESSION), "left")
    crossed = (F.exists(name, _within) for name in ("edges_1", "edges_2", "edges_3"))
    several = ~F.col("listed") & F.col("of_several")
    found = reduce(lambda one, other: one | other, (F.coalesce(c, F.lit(False)) for c in (*crossed, several)))
    return rows.where(found).select(*RANGE).distinct()


def _within(at_ms: Column) -> Column:
    return (at_ms >= F.col("from_ms") - GRAIN_MS) & (at_ms <= F.col("to_ms") + GRAIN_MS)


def _edges(events: DataFrame) -> dict[tuple[str, ...], DataFrame]:
    """The edges, by what they are about: a cluster, a node or a partition. Column at_ms, and those of the key."""
    nodes = ("cluster", "node")
    log = cluster_history(events).select("cluster", F.col("log_end_ms").alias("at_ms"))
    of_cluster = log.unionByName(log_times(events))
    deletions = deleted_replicas(events).select("cluster", "node", F.inline("deletions"))
    strays = of_types(events, "STRAY_PARTITION", "LEADER_AND_ISR").where(
        (F.col("event_type") == "STRAY_PARTITION") | (F.col("request_type") == FULL)
    )
    strays = strays.select(*nodes, F.explode(F.array(F.col("time_ms"), F.col("time_ms") + LATE_MS)).alias("at_ms"))
    deletions = deletions.select(*nodes, F.explode(F.array("from_ms", "until_ms")).alias("at_ms"))
    refused = of_types(events, "FETCH", "OFFSET_FOR_LEADER_EPOCH").where(
        binds() | F.coalesce(F.col("error_code") == Errors.UNKNOWN_LEADER_EPOCH, F.lit(False))
    )
    refused = refused.select(
        "cluster", topic_key().alias("topic_key"), "partition",
        F.explode(F.array("arrival_ms", "time_ms")).alias("at_ms"),
    )  # fmt: skip
    joins = join_times(events).select(
        *_PARTITION,
        F.explode(F.array(F.col("start_ms"), F.col("until_ms"), F.col("until_ms") + SLACK_MS)).alias("at_ms"),
    )
    of_partition = change_times(events).select(*_PARTITION, "at_ms").unionByName(refused).unionByName(joins)
    return {
        ("cluster",): of_cluster,
        nodes: deletions.unionByName(strays),
        _PARTITION: of_partition.where(F.col("at_ms").between(1, FOREVER - 1)),
    }


def _sessions_of_several_epochs(events: DataFrame) -> DataFrame:
    """One row per session and partition that requests list with several leader epochs: of_several is true.

    Which of them a later answer belongs to depends on the session epoch of its request.
    """
    rows = of_types(events, "FETCH").where(F.col("in_request") & (F.col("session_id") > 0))
    counted = rows.groupBy("cluster", "node", "session_id", topic_key().alias("topic_key"), "partition").agg(
        (F.min("current_leader_epoch") < F.max("current_leader_epoch")).alias("of_several")
    )
    return counted.where("of_several")
