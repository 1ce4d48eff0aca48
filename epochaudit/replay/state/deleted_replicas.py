"""When a broker had no replica of a partition because a StopReplica had deleted it (ZooKeeper mode).

Clock: one host. A deletion holds from the time its answer was logged until the earliest time at which the replica can have been
created again: by a LeaderAndIsr answered 0, or as a "starts at leader epoch" line shows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import LEADER_AND_ISR, STOP_REPLICA
from epochaudit.events.times import GRAIN_MS, REQUEST_LINE_LAG_MS
from epochaudit.events.views import of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.held_epochs import STARTS


def deleted_replicas(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic, partition) that was ever deleted, to be broadcast. Clock: the node's host.

    Needs: the events table. Column deletions: array of struct(from_ms, until_ms, ref): the replica was certainly absent at
    from_ms < t < until_ms (null: to the end); ref is the StopReplica.
    """
    event_type = F.col("event_type")
    accepted = (F.col("request_error_code") == Errors.NONE) & (F.col("error_code") == Errors.NONE)
    deletes = (event_type == STOP_REPLICA) & accepted & F.col("delete_partition")
    starts = event_type.isin(*STARTS)
    creates = starts | ((event_type == LEADER_AND_ISR) & accepted)
    earliest_ms = F.when(starts, F.col("time_ms") - GRAIN_MS).otherwise(F.col("arrival_ms") - REQUEST_LINE_LAG_MS)
    delete = F.struct("arrival_ms", "time_ms", ref().alias("ref"))
    creation = F.struct(earliest_ms.alias("begun_ms"), "time_ms")
    gathered = (
        of_types(events, STOP_REPLICA, LEADER_AND_ISR, *STARTS)
        .where(F.col("topic").isNotNull() & (deletes | creates))
        .groupBy("cluster", "node", "topic", "partition")
        .agg(
            F.array_sort(F.collect_list(F.when(deletes, delete))).alias("deletes"),
            F.collect_list(F.when(creates, creation)).alias("creations"),
        )
    )
    return gathered.where(F.size("deletes") > 0).select(
        "cluster", "node", "topic", "partition", F.transform("deletes", _interval).alias("deletions")
    )


def _interval(delete: Column) -> Column:
    later = F.filter("creations", lambda h: h["time_ms"] >= delete["arrival_ms"] - REQUEST_LINE_LAG_MS)
    until = F.array_min(F.transform(later, lambda h: h["begun_ms"]))
    return F.struct(
        (delete["time_ms"] + REQUEST_LINE_LAG_MS).alias("from_ms"), until.alias("until_ms"), delete["ref"].alias("ref")
    )


def with_deletions(rows: DataFrame, deleted: DataFrame) -> DataFrame:
    """Adds deleted_ref, the StopReplica whose deletion holds throughout the request; null: none. Grain unchanged.

    Needs: cluster, node, topic, partition, arrival_ms, time_ms; `deleted` is the result of `deleted_replicas`.
    """

    def covers_request(d: Column) -> Column:
        before_end = F.coalesce(F.col("time_ms") < d["until_ms"], F.lit(True))
        return (d["from_ms"] < F.col("arrival_ms")) & before_end

    joined = rows.join(F.broadcast(deleted), ["cluster", "node", "topic", "partition"], "left")
    deletion = F.try_element_at(F.filter("deletions", covers_request), F.lit(1))
    return joined.withColumn("deleted_ref", deletion["ref"]).drop("deletions")
