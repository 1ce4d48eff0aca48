"""Which processes of brokers led with min.insync.replicas 1.

From 3.7 on a leader commits nothing while the ISR is smaller than min.insync.replicas (KIP-966, Partition.maybeIncrementLeaderHW).
The topic's own setting counts, else the cluster's, else the broker's properties (LogConfig). A metadata log from its first record
on shows all settings but the properties, which each broker prints as it starts (KafkaConfig).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import CONFIG_RECORD, CONFIG_VALUE
from epochaudit.events.views import holds, of_types, ref
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.metadata_log import metadata_log
from epochaudit.replay.state.processes import process_at, process_starts

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_ONE: Final = "1"


def with_min_insync_replica(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds min_insync_replica_ref: the line by which the process led with min.insync.replicas 1. Grain unchanged.

    Null where that is not known: no line of the process, a record of the cluster that sets another number for the topic or for all of
    them at any time, or a metadata log that is not recorded from its first record on, without holes.
    Needs: cluster, node, topic, and process, the number of the node's process starts up to then.
    """
    rows = rows.join(F.broadcast(_printed(events)), ["cluster", "node", "process"], "left")
    rows = rows.join(F.broadcast(_settings(events)), "cluster", "left")
    is_one = holds(~F.exists("settings", lambda one: one["topic"].isNull() | (one["topic"] == F.col("topic"))))
    return rows.withColumn("min_insync_replica_ref", F.when(is_one, F.col("printed_ref"))).drop(
        "printed_ref", "settings"
    )


def _printed(events: DataFrame) -> DataFrame:
    """One row per process that printed 1 and nothing else: cluster, node, process, printed_ref. A changed setting is printed again."""
    lines = of_types(events, CONFIG_VALUE).where((F.col("name") == MIN_INSYNC_REPLICAS) & F.col("time_ms").isNotNull())
    lines = lines.join(F.broadcast(process_starts(events)), ["cluster", "node"])
    lines = lines.withColumn("process", process_at("time_ms"))
    by_process = lines.where(F.col("process") > 0).groupBy("cluster", "node", "process")
    printed = by_process.agg(F.min(ref()).alias("printed_ref"), F.every(F.col("value") == _ONE).alias("is_one"))
    return printed.where("is_one").drop("is_one")


def _settings(events: DataFrame) -> DataFrame:
    """One row per cluster whose metadata log is whole: settings, array of struct(topic) of the records that set another number than 1.

    topic: null for a setting of all topics.
    """
    log = cluster_history(events).where(F.col("from_offset_0") & F.col("log_whole")).select("cluster")
    sets_other = (F.col("name") == MIN_INSYNC_REPLICAS) & (F.col("value") != _ONE)
    records = of_types(metadata_log(events), CONFIG_RECORD).where(sets_other)
    others = records.groupBy("cluster").agg(F.collect_set(F.struct("topic")).alias("settings"))
    joined = log.join(others, "cluster", "left")
    none = F.array().cast("array<struct<topic:string>>")
    return joined.select("cluster", F.coalesce("settings", none).alias("settings"))
