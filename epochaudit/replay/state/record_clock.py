"""Converts times of a controller's logs to the clock of the metadata log.

A controller stamps records and log lines by one clock, but CreateTime is UTC and log4j prints local time. The zone offset is the
difference between a record's CreateTime and the request that wrote it, in quarters of an hour. The lines of a ZooKeeper
controller share one clock and zone.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.times import GRAIN_MS, SLACK_MS

_QUARTER_HOUR_MS: Final = 900_000
_IN_ORDER: Final = ("arrival_ms", "request_ref", "topic_id", "topic", "partition")


def on_record_clock(rows: DataFrame, written_ms: Column, late_ms: int = GRAIN_MS) -> DataFrame:
    """Adds from_ms, to_ms and writes. Grain unchanged. Clock: the node's own.

    Needs: cluster, node, zookeeper, arrival_ms, time_ms, request_ref, topic, topic_id, partition of requests.
    written_ms: CreateTime of the record that the request probably wrote; null: none. late_ms: how long after the answer that record
    may be stamped.
      from_ms, to_ms   arrival and answer on the clock of the records; null: the zone offset is unknown
      writes           the record's time fits the request; null without a record
    """
    lag = written_ms - F.col("arrival_ms")
    zone = (F.round(lag / _QUARTER_HOUR_MS) * _QUARTER_HOUR_MS).cast("bigint")
    fits = (lag - zone).between(-SLACK_MS, F.col("time_ms") - F.col("arrival_ms") + late_ms)
    rows = rows.withColumns({"own_zone_ms": F.when(fits, zone), "writes": fits})  # else another request wrote it
    zone_of_row = F.when(F.col("writes").isNotNull(), F.struct("own_zone_ms"))
    by_node = Window.partitionBy("cluster", "node")
    before, after = (  # descending: Spark recomputes a window to the end for each row
        by_node.orderBy(*map(order, _IN_ORDER)).rowsBetween(Window.unboundedPreceding, -1) for order in (F.asc, F.desc)
    )
    rows = rows.withColumns(
        {
            "zone_before": F.last(zone_of_row, ignorenulls=True).over(before),
            "zone_after": F.last(zone_of_row, ignorenulls=True).over(after),
        }
    )
    earlier, later = F.col("zone_before.own_zone_ms"), F.col("zone_after.own_zone_ms")
    zone_ms = F.coalesce(
        "own_zone_ms",
        # else that of the neighbours, if both agree: between them summer time may have ended or the clock been set
        F.when(F.col("zone_before").isNull(), later).when(F.col("zone_after").isNull() | (earlier == later), earlier),
    )
    zone_ms = F.when(F.col("zookeeper"), F.lit(0)).otherwise(zone_ms)
    return rows.withColumns({"from_ms": F.col("arrival_ms") + zone_ms, "to_ms": F.col("time_ms") + zone_ms}).drop(
        "own_zone_ms", "zone_before", "zone_after"
    )
