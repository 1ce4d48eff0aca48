"""Log start offsets of partitions, as brokers' lines state that they raise them (`LOG_START_INCREMENTED`)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import LOG_START_INCREMENTED
from epochaudit.events.views import of_types, ref
from epochaudit.replay.state.incarnations import topic_incarnations, topic_key, with_identity


def log_starts(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition) with such a line, small enough to broadcast.

    Needs: the events table. Clock: none, offsets only.
    Column log_starts: array of struct(offset, node, ref), in the order of the offsets. A log may begin below its own line's offset after
    a restart, which may bring back an older log start offset (LogLoader); its leader epochs do not.
    """
    rows = of_types(events, LOG_START_INCREMENTED).where(F.col("offset").isNotNull()).withColumn("own_ref", ref())
    named = with_identity(rows, topic_incarnations(events)).withColumn("topic_key", topic_key())
    begun = F.struct("offset", "node", F.col("own_ref").alias("ref"))
    return named.groupBy("cluster", "topic_key", "partition").agg(
        F.array_sort(F.collect_list(begun)).alias("log_starts")
    )
