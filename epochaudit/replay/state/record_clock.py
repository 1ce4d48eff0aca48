"""Converts times of a controller's logs to the clock of the metadata log.

A controller stamps records and log lines by one clock, but CreateTime is UTC and log4j prints local time. The zone offset is the
difference between a record's CreateTime and the request that wrote it, in quarters of an hour. The lines of a ZooKeeper
controller share one clock and zone.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.times import SLACK_MS, TOLERANCE_MS
from epochaudit.replay.state.controller_tenures import tenure_at

_QUARTER_HOUR_MS: Final = 900_000
_IN_ORDER: Final = ("arrival_ms", "request_ref", "topic_id", "topic", "partition")


def on_record_clock(rows: DataFrame, written: Column, late_ms: int = TOLERANCE_MS) -> DataFrame:
    """Adds from_ms, to_ms, writes and led. Grain unchanged. Clock: the node's own.

    Needs: cluster, node, zookeeper, arrival_ms, time_ms, request_ref, topic, topic_id, partition of requests; tenures of
    `cluster_history`. written: struct(place, time_ms), position and CreateTime of the record that the request probably wrote; null:
    none. late_ms: how long after the answer that record may be stamped.
      from_ms, to_ms   arrival and answer on the clock of the records that the node wrote; null: the zone offset is unknown
      writes           the record's time fits the request; null without a record
      led              tenures (since) of the records that the request, the last one before it and the next one after it wrote
    """
    lag = written["time_ms"] - F.col("arrival_ms")
    zone = (F.round(lag / _QUARTER_HOUR_MS) * _QUARTER_HOUR_MS).cast("bigint")
    fits = (lag - zone).between(-SLACK_MS, F.col("time_ms") - F.col("arrival_ms") + late_ms)
    # a record that does not fit is of another request
    rows = rows.withColumns(
        {"own_zone_ms": F.when(fits, zone), "own_tenure": F.when(fits, tenure_at(written["place"])), "writes": fits}
    )
    zone_of_row = F.when(F.col("writes").isNotNull(), F.struct("own_zone_ms", "own_tenure"))
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
    led = F.array("own_tenure", "zone_before.own_tenure", "zone_after.own_tenure")
    return rows.withColumns(
        {
            "from_ms": F.col("arrival_ms") + zone_ms,
            "to_ms": F.col("time_ms") + zone_ms,
            "led": F.array_compact(led),
        }
    ).drop("own_zone_ms", "own_tenure", "zone_before", "zone_after")
