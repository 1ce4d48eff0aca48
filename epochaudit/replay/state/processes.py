"""When the processes of a node started, by its own log."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import PROCESS_STARTING
from epochaudit.events.views import of_types


def process_starts(events: DataFrame) -> DataFrame:
    """One row per node whose log has lines of a starting process. Clock: the node's host.

    Needs: the events table. Columns: cluster, node, and process_starts, array of the times of these lines in milliseconds.
    """
    lines = of_types(events, PROCESS_STARTING).groupBy("cluster", "node")
    return lines.agg(F.collect_set("time_ms").alias("process_starts"))


def process_at(time_ms: str) -> Column:
    """The number of the node's process starts up to that time, null for a node without any. Needs: process_starts."""
    return F.size(F.filter("process_starts", lambda at: at <= F.col(time_ms)))
