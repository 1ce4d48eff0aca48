"""Request logs that leave out routine answers on purpose: the absence of an answer proves nothing there."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH, REQUEST_LOG_FILTERED
from epochaudit.events.views import holds, of_types

_ALL: Final = -1
"""All nodes: capture.toml names none."""


def with_filtered(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds filtered: the request log of the node leaves out routine requests on purpose. Grain unchanged. Needs: cluster, node."""
    marks = of_types(events, REQUEST_LOG_FILTERED).groupBy("cluster")
    nodes = marks.agg(F.collect_set(F.coalesce("node", F.lit(_ALL))).alias("filtered_nodes"))
    filtered = F.array_contains("filtered_nodes", F.col("node")) | F.array_contains("filtered_nodes", _ALL)
    rows = rows.join(F.broadcast(nodes), "cluster", "left")
    return rows.withColumn("filtered", holds(filtered)).drop("filtered_nodes")


def answering_nodes(events: DataFrame) -> DataFrame:
    """One row per cluster: answering, the nodes with Fetch answers whose request logs leave none out, and filtering, the nodes whose
    request logs leave answers out (-1: all nodes); both array of int. Clock: none.

    Needs: the events table. Files may be missing: see `log_gaps`. A node is left out if a line of its request log, or capture.toml for
    all nodes, states that the log is filtered.
    """
    rows = of_types(events, FETCH, REQUEST_LOG_FILTERED).select("cluster", "node", "event_type").distinct()
    filtered = F.col("event_type") == REQUEST_LOG_FILTERED
    nodes = rows.groupBy("cluster").agg(
        F.collect_set(F.when(~filtered, F.col("node"))).alias("fetched"),
        F.collect_set(F.when(filtered, F.coalesce("node", F.lit(_ALL)))).alias("filtered"),
    )
    of_all = F.array_contains("filtered", _ALL)
    answering = F.when(of_all, F.array().cast("array<int>")).otherwise(F.array_except("fetched", "filtered"))
    return nodes.select("cluster", answering.alias("answering"), F.col("filtered").alias("filtering"))


def is_filtering(node: Column) -> Column:
    """Whether the request log of a node leaves routine answers out. Needs: filtering of `answering_nodes`."""
    return holds(F.array_contains("filtering", node) | F.array_contains("filtering", _ALL))
