"""When a broker had no replica of a partition, as a StopReplica had deleted it (ZooKeeper mode).

Clock: one host. A deletion counts from when its answer was logged until the earliest moment at which something can have
created the replica again: a LeaderAndIsr answered 0, or a "starts at leader epoch" line.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.held_epochs import GRAIN_MS, LATE_MS, STARTS


def deleted_replicas(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic, partition) that was ever deleted, to be broadcast.

    Needs: the events table. Column deletions: array of struct(from_ms, until_ms, ref): surely gone in from_ms < t < until_ms
    (null: to the end); ref the StopReplica.
    """
    event_type = F.col("event_type")
    accepted = (F.col("request_error_code") == 0) & (F.col("error_code") == 0)
    deletes = (event_type == "STOP_REPLICA") & accepted & F.col("delete_partition")
    starts = event_type.isin(*STARTS)
    hosts = starts | ((event_type == "LEADER_AND_ISR") & accepted)
    begun = F.when(starts, F.col("time_ms") - GRAIN_MS).otherwise(F.col("arrival_ms") - LATE_MS)
    delete = F.struct("arrival_ms", "time_ms", ref().alias("ref"))
    host = F.struct(begun.alias("begun_ms"), "time_ms")
    gathered = (
        of_types(events, "STOP_REPLICA", "LEADER_AND_ISR", *STARTS)
        .where(F.col("topic").isNotNull() & (deletes | hosts))
        .groupBy("cluster", "node", "topic", "partition")
        .agg(
            F.collect_list(F.when(deletes, delete)).alias("deletes"),
            F.collect_list(F.when(hosts, host)).alias("hosted"),
        )
    )
    return gathered.where(F.size("deletes") > 0).select(
        "cluster", "node", "topic", "partition", F.transform("deletes", _interval).alias("deletions")
    )


def _interval(delete: Column) -> Column:
    later = F.filter("hosted", lambda h: h["time_ms"] >= delete["arrival_ms"] - LATE_MS)
    until = F.array_min(F.transform(later, lambda h: h["begun_ms"]))
    return F.struct((delete["time_ms"] + LATE_MS).alias("from_ms"), until.alias("until_ms"), delete["ref"].alias("ref"))


def with_deletions(rows: DataFrame, deleted: DataFrame) -> DataFrame:
    """Adds `deleted_ref`, the StopReplica that had deleted the replica during all of the request. Grain unchanged.

    Needs: cluster, node, topic, partition, arrival_ms, time_ms; `deleted` is the result of `deleted_replicas`.
    """

    def gone(d: Column) -> Column:
        over = F.coalesce(F.col("time_ms") < d["until_ms"], F.lit(True))
        return (d["from_ms"] < F.col("arrival_ms")) & over

    joined = rows.join(F.broadcast(deleted), ["cluster", "node", "topic", "partition"], "left")
    gone_then = F.try_element_at(F.filter("deletions", gone), F.lit(1))
    return joined.withColumn("deleted_ref", gone_then["ref"]).drop("deletions")
