"""Frame `record_deletions`: what leaders answered to administrators and clients who delete records (DeleteRecords, KIP-107)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import DELETE_RECORDS
from epochaudit.events.views import of_types, ref


def record_deletions(events: DataFrame) -> DataFrame:
    """One row per partition of a DeleteRecords request.

    Needs: the events table. Clock: none, each answer stands alone. Columns: the subject columns (node = the leader; leader_epoch null),
    error_code (null: the answer is not recorded), and
      offset          records below it are to be deleted; -1: below the high watermark
      low_watermark   the lowest log start offset of all live replicas, as the leader knew it; -1 with most errors
      answer_ref      the request and its answer
    """
    rows = of_types(events, DELETE_RECORDS).where(F.col("in_request"))
    return rows.select(
        "cluster", "node", "topic", "topic_id", "partition", F.lit(None).cast("int").alias("leader_epoch"), "client_id",
        F.lit(None).cast("string").alias("group_id"), "correlation_id", "error_code", "offset", "low_watermark",
        ref().alias("answer_ref"),
    )  # fmt: skip
