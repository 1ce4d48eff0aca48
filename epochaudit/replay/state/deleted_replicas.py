"""When a broker had no replica of a partition because it had deleted it: by a StopReplica (ZooKeeper mode), or as its log states.

A broker forgets the partition before it renames the log's folder, and before it answers (ReplicaManager.stopPartitions). What it
had begun to read by then it may still send.
Clock: one host. A deletion holds from the time its answer was logged, or its line, until the earliest time at which the replica can
have been created again: by a LeaderAndIsr answered 0, or as a line shows that creates the replica or starts a leader epoch.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FUTURE_LOG_CREATED,
    LEADER_AND_ISR,
    LOG_DELETION_SCHEDULED,
    PARTITION_CREATED,
    STOP_REPLICA,
)
from epochaudit.events.times import REQUEST_LINE_LAG_MS, TOLERANCE_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.held_epochs import STARTS
from epochaudit.replay.state.incarnations import deletes_replica


def deleted_replicas(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic, partition) that was ever deleted, to be broadcast. Clock: the node's host.

    Needs: the events table. Column deletions: array of struct(from_ms, until_ms, ref, by_request): the replica was certainly absent at
    from_ms < t < until_ms (null: to the end); ref is the StopReplica if by_request, else the line that schedules the log's deletion.
    No such line counts of a replica that was to move between log directories: that of the future replica is the same
    (LogManager.asyncDelete).
    """
    event_type = F.col("event_type")
    accepted = (F.col("request_error_code") == Errors.NONE) & (F.col("error_code") == Errors.NONE)
    deletes = deletes_replica()
    deletes_log = event_type == LOG_DELETION_SCHEDULED
    starts = event_type.isin(*STARTS, PARTITION_CREATED)
    creates = starts | ((event_type == LEADER_AND_ISR) & accepted)
    moves = event_type == FUTURE_LOG_CREATED
    earliest_ms = F.when(starts, F.col("time_ms") - TOLERANCE_MS).otherwise(F.col("arrival_ms") - REQUEST_LINE_LAG_MS)
    # lines of one host are in order, and not late: REQUEST_LINE_LAG_MS, which is allowed for requests, leads to the line's own time
    arrival_ms = F.when(deletes, F.col("arrival_ms")).otherwise(F.col("time_ms") + REQUEST_LINE_LAG_MS)
    delete = F.struct(arrival_ms.alias("arrival_ms"), "time_ms", ref().alias("ref"), deletes.alias("by_request"))
    creation = F.struct(earliest_ms.alias("begun_ms"), "time_ms")
    gathered = (
        of_types(
            events, STOP_REPLICA, LEADER_AND_ISR, LOG_DELETION_SCHEDULED, FUTURE_LOG_CREATED, PARTITION_CREATED, *STARTS
        )
        .where(F.col("topic").isNotNull() & (deletes | deletes_log | creates | moves))
        .groupBy("cluster", "node", "topic", "partition")
        .agg(
            F.array_sort(F.collect_list(F.when(deletes | deletes_log, delete))).alias("deletes"),
            F.collect_list(F.when(creates, creation)).alias("creations"),
            F.max(moves).alias("moves"),
        )
    )
    certain = F.filter("deletes", lambda d: d["by_request"] | ~F.col("moves"))
    gathered = gathered.withColumn("deletes", certain)
    return gathered.where(F.size("deletes") > 0).select(
        "cluster", "node", "topic", "partition", F.transform("deletes", _interval).alias("deletions")
    )


def _interval(delete: Column) -> Column:
    later = F.filter("creations", lambda h: h["time_ms"] >= delete["arrival_ms"] - REQUEST_LINE_LAG_MS)
    until = F.array_min(F.transform(later, lambda h: h["begun_ms"]))
    return F.struct(
        (delete["time_ms"] + REQUEST_LINE_LAG_MS).alias("from_ms"),
        until.alias("until_ms"),
        delete["ref"].alias("ref"),
        delete["by_request"].alias("by_request"),
    )


def with_deletions(rows: DataFrame, deleted: DataFrame) -> DataFrame:
    """Adds deleted_ref, the StopReplica whose deletion holds throughout the request; null: none. Grain unchanged.

    Also was_deleted: a deletion of either kind does.
    Needs: cluster, node, topic, partition, arrival_ms, time_ms; `deleted` is the result of `deleted_replicas`.
    """

    def covers_request(d: Column) -> Column:
        before_end = F.coalesce(F.col("time_ms") < d["until_ms"], F.lit(True))
        return (d["from_ms"] < F.col("arrival_ms")) & before_end

    joined = rows.join(F.broadcast(deleted), ["cluster", "node", "topic", "partition"], "left")
    covering = joined.withColumn("deletions", F.filter("deletions", covers_request))
    request = F.try_element_at(F.filter("deletions", lambda d: d["by_request"]), F.lit(1))
    was_deleted = holds(F.size("deletions") > 0)
    return covering.withColumns({"deleted_ref": request["ref"], "was_deleted": was_deleted}).drop("deletions")
