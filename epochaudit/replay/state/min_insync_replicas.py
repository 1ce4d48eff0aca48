"""Whether min.insync.replicas of a topic was 1 while a broker led it.

From 3.7 on a leader commits nothing while the ISR is smaller than min.insync.replicas (KIP-966, Partition.maybeIncrementLeaderHW).
The topic's own setting counts, else the cluster's, else the broker's properties (LogConfig). The metadata log shows all settings but
the properties, which each broker prints as it starts (KafkaConfig).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import CONFIG_RECORD, CONFIG_VALUE
from epochaudit.events.views import holds, of_types, ref
from epochaudit.replay.state.cluster_history import cluster_history, recorded_between, settings_known_since
from epochaudit.replay.state.metadata_log import is_record_position, metadata_log
from epochaudit.replay.state.processes import process_at, process_starts

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_ONE: Final = "1"
_HISTORY: Final = ("from_offset_0", "snapshots", "log_holes")


def with_printed_min_insync_replica(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds printed_one_ref: the line in which the process printed min.insync.replicas 1, if it printed nothing else. Grain unchanged.

    A changed setting is printed again. Needs: cluster, node, and process, the number of the node's process starts up to then.
    """
    lines = of_types(events, CONFIG_VALUE).where((F.col("name") == MIN_INSYNC_REPLICAS) & F.col("time_ms").isNotNull())
    lines = lines.join(F.broadcast(process_starts(events)), ["cluster", "node"])
    lines = lines.withColumn("process", process_at("time_ms"))
    by_process = lines.where(F.col("process") > 0).groupBy("cluster", "node", "process")
    printed = by_process.agg(F.min(ref()).alias("printed_one_ref"), F.every(F.col("value") == _ONE).alias("is_one"))
    return rows.join(F.broadcast(printed.where("is_one").drop("is_one")), ["cluster", "node", "process"], "left")


def with_min_insync_replica(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds min_insync_replica_ref: printed_one_ref, if no other setting counted from an ISR to the election after it. Grain unchanged.

    Null where that is not known: no such line, no record of the ISR or of the election, settings that are not all known as of the ISR,
    or a record that sets another number for the topic or for all of them, at any time since they are known. A snapshot does not tell how
    long the ISR that it states has been there: the setting may have been another one then.
    Needs: cluster, topic, printed_one_ref, and isr_position and election_position, of the records, see `with_elections`. Clock: position.
    """
    history = cluster_history(events).select("cluster", *_HISTORY)
    rows = rows.join(F.broadcast(history), "cluster", "left")
    rows = rows.join(F.broadcast(_other_numbers(events)), "cluster", "left")
    isr_position, election_position = F.col("isr_position"), F.col("election_position")
    known_since = settings_known_since(isr_position)
    is_another = F.exists(
        "other_numbers", lambda one: _counts(one) & one["since"].between(known_since, election_position)
    )
    is_one = (
        is_record_position(isr_position)
        & is_record_position(election_position)
        & known_since.isNotNull()
        & recorded_between(isr_position, election_position)
        & ~holds(is_another)
    )
    one_ref = F.when(holds(is_one), F.col("printed_one_ref"))
    return rows.withColumn("min_insync_replica_ref", one_ref).drop("other_numbers", *_HISTORY)


def _counts(setting: Column) -> Column:
    return setting["topic"].isNull() | (setting["topic"] == F.col("topic"))


def _other_numbers(events: DataFrame) -> DataFrame:
    """One row per cluster with records that set another number than 1: other_numbers, array of struct(since, topic).

    since: the record's position. topic: null for a setting of all topics.
    """
    sets_another = (F.col("name") == MIN_INSYNC_REPLICAS) & (F.col("value") != _ONE)
    records = of_types(metadata_log(events), CONFIG_RECORD).where(sets_another)
    setting = F.struct(F.col("position").alias("since"), "topic")
    return records.groupBy("cluster").agg(F.collect_set(setting).alias("other_numbers"))
