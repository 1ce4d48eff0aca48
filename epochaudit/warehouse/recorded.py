"""The recorded events of a warehouse, for queries: reads no logs and evaluates no rules."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit.timeline.merge import EventLog
from epochaudit.warehouse.nightly import explained
from epochaudit.warehouse.rows import committed_rows
from epochaudit.warehouse.tables import existing


def recorded_in(spark: SparkSession, location: str) -> EventLog:
    """The committed events of all clusters of the warehouse. Raises WarehouseError."""
    with explained(location):
        directory = existing(spark, location)
        horizon = directory.table("horizon")
        part = F.explode("parts").alias("part")
        known = horizon.select("cluster", "path", "time_zone", "zoned").collect()
        parts = horizon.select("path", "node", "file_order", part)
        # no query needs what is missing
        gaps, newer = F.lit(None).cast("int").alias("gaps_before"), F.lit(None).cast("boolean").alias("newer_missing")
        of_parts = parts.select(
            "part.part", F.col("path").alias("file"), "part.split", "node", "file_order", gaps, newer
        )
        events, splits = (committed_rows(directory, table, of_parts) for table in ("events", "splits"))
        zoned = {(row["cluster"], row["path"]) for row in known if row["zoned"] or row["time_zone"]}
        return EventLog.of(events, splits, zoned)
