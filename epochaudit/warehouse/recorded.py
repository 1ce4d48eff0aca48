"""All that a warehouse holds, for a question of one's own: no logs are read, and nothing is judged."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit.timeline import Recorded
from epochaudit.warehouse.nightly import explained
from epochaudit.warehouse.rows import counted
from epochaudit.warehouse.tables import existing


def recorded_in(spark: SparkSession, location: str) -> Recorded:
    """The events of all clusters of the warehouse, as far as horizon lists them. Raises WarehouseError."""
    with explained(location):
        directory = existing(spark, location)
        horizon = directory.table("horizon")
        part = F.explode("parts").alias("part")
        known = horizon.select("cluster", "path", "time_zone", "zoned").collect()
        parts = horizon.select("path", "node", "file_order", part)
        of_parts = parts.select("part.part", F.col("path").alias("file"), "part.split", "node", "file_order")
        events, splits = (counted(directory, table, of_parts) for table in ("events", "splits"))
        zoned = {(row["cluster"], row["path"]) for row in known if row["zoned"] or row["time_zone"]}
        return Recorded.of(events, splits, zoned)
