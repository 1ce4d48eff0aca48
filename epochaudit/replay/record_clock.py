"""Where the clock of a controller's log stands against that of the metadata log.

A controller stamps records and log lines by one clock, but CreateTime is UTC and log4j prints local time: the zone is what
lies, in quarters of an hour, between requests of the node that wrote records and these. ZooKeeper controllers' own lines
share one clock and zone.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

# How much earlier than its logged arrival a request can have met a state that had been replaced by then. A request log line
# is written some time after the answer, over 100 ms on a busy node, and the arrival is reckoned back from it; a batch gets
# its CreateTime with its first record and takes more until it is drained, by default 25 ms later
# (controller.quorum.append.linger.ms).
SLACK_MS: Final = 1000

# log4j and CreateTime count whole milliseconds.
GRAIN_MS: Final = 2
_QUARTER_HOUR_MS: Final = 900_000


def on_record_clock(rows: DataFrame, written_ms: Column, late_ms: int = GRAIN_MS) -> DataFrame:
    """Adds from_ms and to_ms: arrival and answer on the clock of the records, null: it can't be told; and writes.

    Needs: cluster, node, zookeeper, arrival_ms, time_ms of requests. `written_ms`: CreateTime of the record that a request
    seems to have written, null: none; `late_ms`: how long after its answer it may be stamped. Clock: the node's own.
    writes: that record's time fits; null where there is none.
    """
    lag = written_ms - F.col("arrival_ms")
    zone = (F.round(lag / _QUARTER_HOUR_MS) * _QUARTER_HOUR_MS).cast("bigint")
    fits = (lag - zone).between(-SLACK_MS, F.col("time_ms") - F.col("arrival_ms") + late_ms)
    rows = rows.withColumns({"own_zone_ms": F.when(fits, zone), "writes": fits})  # else another request wrote it
    told = F.when(F.col("writes").isNotNull(), F.struct("own_zone_ms"))
    by_node = Window.partitionBy("cluster", "node")
    before, after = (  # backwards: a window to the end is computed anew for each of its rows
        by_node.orderBy(order).rowsBetween(Window.unboundedPreceding, -1)
        for order in (F.asc("arrival_ms"), F.desc("arrival_ms"))
    )
    rows = rows.withColumns(
        {
            "told_before": F.last(told, ignorenulls=True).over(before),
            "told_after": F.last(told, ignorenulls=True).over(after),
        }
    )
    earlier, later = F.col("told_before.own_zone_ms"), F.col("told_after.own_zone_ms")
    zone_ms = F.coalesce(
        "own_zone_ms",  # else the neighbours', unless summer time ended or the clock was set between or about them
        F.when(F.col("told_before").isNull(), later).when(F.col("told_after").isNull() | (earlier == later), earlier),
    )
    zone_ms = F.when(F.col("zookeeper"), F.lit(0)).otherwise(zone_ms)
    return rows.withColumns({"from_ms": F.col("arrival_ms") + zone_ms, "to_ms": F.col("time_ms") + zone_ms}).drop(
        "own_zone_ms", "told_before", "told_after"
    )
