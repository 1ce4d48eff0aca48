"""Which leader epoch a broker held for a partition, and from when to when.

A broker logs each change as a "starts at leader epoch" line. A leader writes the line before the epoch takes effect, a follower
since 3.6 just after (Partition.makeLeader and makeFollower, which hold leaderIsrUpdateLock). A change is therefore an interval,
from the line to the end of the handler, in which the broker may check a request against the old epoch or the new one.

A replica that is created has leader epoch -1 until it starts one, which takes as long as its log takes to be created. Meanwhile
the broker refuses each epoch as newer than its own. A follower's new epoch takes effect before the log is there, since 3.6.

A broker that deletes a replica forgets its epoch before it renames the log's folder, and then answers the requests that wait for the
partition with an error (ReplicaManager.stopPartitions, up to 2.7 stopReplica). A StopReplica that deletes nothing only stops fetchers.

Clock: one host. Times of the lines are compared only with times of requests of the same node.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FOLLOWER_STARTS,
    FUTURE_LOG_CREATED,
    LEADER_AND_ISR,
    LEADER_AND_ISR_FINISHED,
    LEADER_STARTS,
    LOG_DELETION_SCHEDULED,
    METADATA_DELTA,
    PARTITION_CREATED,
    PROCESS_STARTING,
    STOP_REPLICA,
)
from epochaudit.events.times import FOREVER, REQUEST_LINE_LAG_MS, TOLERANCE_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.incarnations import (
    deletes_replica,
    topic_incarnations,
    topic_key,
    topic_keys,
    with_identity,
)
from epochaudit.replay.state.log_gaps import OF_LINES, gaps_so_far, request_log_gaps, state_change_log_gaps
from epochaudit.replay.state.partition_states import OF_RECORD, OF_REQUEST, partition_states
from epochaudit.replay.state.releases import releases, releases_at
from epochaudit.spark.memo import checkpointed

STARTS: Final = (LEADER_STARTS, FOLLOWER_STARTS)

# Codes after which the broker has the topic id of a LeaderAndIsr: it was applied, or the broker had it at that epoch already.
_TOPIC_ID_AGREED: Final = (Errors.NONE, Errors.STALE_CONTROLLER_EPOCH)

# A KRaft delta writes no closing line after the last leader it starts; flushing the epoch cache takes tens of ms.
_DELTA_MS: Final = 250
_HANDLER_MS: Final = 60_000
# A shorter interval has too few requests to be worth a row.
_STABLE_MS: Final = 1_000
_STATED_COLUMNS: Final = ("cluster", "topic", "topic_id", "partition", "leader_epoch")


@checkpointed
def replica_starts(events: DataFrame) -> DataFrame:
    """One row per "starts at leader epoch" line of a replica, and per LeaderAndIsr that stands in for one.

    Before 2.6 followers write no such line. If a node has lines of leaders only, the LeaderAndIsr requests that it accepted as a
    follower stand in, up to the process that writes the first line of a follower.
    Needs: the events table. Clock: the node's own log order, and its host's time.
    Columns: cluster, node, topic, topic_id, ambiguous_name, partition, leader_epoch, is_leader, leader, start_offset,
    high_watermark, partition_epoch, isr, previous_epoch, file_order, byte_offset, own_ref, and
      proven        the row is a line; a request may be answered 0 without being installed
      from_ms       time of the line
      in_effect_ms  the epoch has certainly taken effect; null if not proven
      until_ms      the epoch is no longer held after that: a later change has settled, or the process restarted; null: held to
                    the end
      gap_ms        time of the node's last line before missing files of its logs; null: none is missing later
      successor     the next line, if it is of another topic of the name: struct(ms, topic_id, ref)
      topic_id_ms   when the node logged or accepted topic_id: time of the line, or earlier if the line has no topic id. It then
                    gets the id that the node last logged or accepted for the partition
      topic_id_ref  that line or request; null if the row's own line has the id
      created_again_ms  time of the node's next line about the replica, if it creates the replica again (KRaft, 3.0+); else null
    """
    event_type = F.col("event_type")
    nodes = (
        of_types(events, PROCESS_STARTING, *STARTS)
        .groupBy("cluster", "node")
        .agg(
            F.collect_set(F.when(event_type == PROCESS_STARTING, F.col("time_ms"))).alias("process_starts"),
            F.max(event_type == LEADER_STARTS).alias("leads"),
            F.min(F.when(event_type == FOLLOWER_STARTS, F.col("time_ms"))).alias("follows_ms"),
        )
        .withColumn("leaders_only_to", F.when(F.col("leads"), _process_of(F.col("follows_ms"))))
        .drop("leads", "follows_ms")
    )
    lines = with_identity(_with_topic_ids(_with_handler_end(events), events), topic_incarnations(events))
    lines = lines.join(F.broadcast(nodes), ["cluster", "node"], "left").where(
        event_type.isin(*STARTS, PARTITION_CREATED)
        | ((F.col("from_ms") < F.col("leaders_only_to")) & F.col("followed"))
    )
    created = event_type == PARTITION_CREATED
    backwards = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(
        F.desc("from_ms"), F.desc("file_order"), F.desc("byte_offset")
    )
    following = backwards.rowsBetween(Window.unboundedPreceding, -1)
    start = F.struct(F.col("in_effect_ms").alias("ms"), "topic_id", F.col("own_ref").alias("ref"))
    next_start = F.last(F.when(~created, start), ignorenulls=True).over(following)
    restarted = F.array_min(F.filter("process_starts", lambda at: at >= F.col("from_ms")))
    rows = lines.withColumns(
        {
            "is_leader": event_type == LEADER_STARTS,
            "leader": F.when(event_type == LEADER_STARTS, F.col("node")).otherwise(F.col("leader")),
            "proven": event_type.isin(*STARTS),
            "until_ms": F.least(F.last("in_effect_ms", ignorenulls=True).over(following), restarted, "gap_ms"),
            "successor": F.when(next_start["topic_id"] != F.col("topic_id"), next_start),
            "created_again_ms": F.last(F.when(created, F.col("from_ms"))).over(following),
        }
    )
    return rows.where(~created).drop("process_starts", "leaders_only_to", "followed", "handler_end_ms", "event_type")


def _process_of(time_ms: Column) -> Column:
    """Start of the process that ran at that time: FOREVER for a null time, 0 if the start is not recorded."""
    started = F.array_max(F.filter("process_starts", lambda at: at <= time_ms))
    return F.when(time_ms.isNull(), F.lit(FOREVER)).otherwise(F.coalesce(started, F.lit(0)))


def _with_handler_end(events: DataFrame) -> DataFrame:
    """One row per line of the replica state machine and per LeaderAndIsr row. Adds handler_end_ms, the end of a line's handler."""
    rows = of_types(events, *STARTS, PARTITION_CREATED, LEADER_AND_ISR, LEADER_AND_ISR_FINISHED, METADATA_DELTA).where(
        F.col("node").isNotNull()
    )
    rows = rows.select(
        "cluster", "node", "source", "event_type", "topic", "topic_id", "partition", "leader_epoch", "leader", "start_offset",
        "high_watermark", "partition_epoch", "isr", "previous_epoch", "file_order", "gaps_before", "newer_missing", "byte_offset",
        "time_ms", "arrival_ms",
        "request_error_code", "error_code", ref().alias("own_ref"),
    )  # fmt: skip
    later = (
        Window.partitionBy("cluster", "node", "source")
        .orderBy(F.desc("file_order"), F.desc("byte_offset"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    finished = F.last(F.when(F.col("event_type") == LEADER_AND_ISR_FINISHED, F.col("time_ms")), ignorenulls=True)
    delta = F.last(F.when(F.col("event_type") == METADATA_DELTA, F.col("time_ms")), ignorenulls=True)
    rows = rows.withColumns({"finished_ms": finished.over(later), "next_delta_ms": delta.over(later)})
    return rows.withColumn(
        "handler_end_ms",
        F.when(F.col("finished_ms").isNotNull(), F.least("finished_ms", F.col("time_ms") + _HANDLER_MS)).otherwise(
            F.least("next_delta_ms", F.col("time_ms") + _DELTA_MS)  # least passes over a null
        ),
    ).drop("finished_ms", "next_delta_ms")


def _with_topic_ids(rows: DataFrame, events: DataFrame) -> DataFrame:
    """One row per line and accepted LeaderAndIsr. Adds from_ms, in_effect_ms, and followed: a request to follow, answered 0.

    Adds gap_ms, the time of the node's last line before missing files of its logs; null: none is missing later. Of the
    newest files only those of the log with the lines count.
    Completes topic_id: with the id that the node last logged or accepted for the partition, unless files are missing since, or the
    replica has begun at epoch 0 since: then it may be of another topic, of which no line is recorded.
    """
    is_request = F.col("event_type") == LEADER_AND_ISR
    replica = ("cluster", "node", "topic", "partition", "gaps_so_far")
    by_replica, by_topic = (
        Window.partitionBy(*key).orderBy(*_in_time()) for key in (replica, (*replica, "topics_before"))
    )
    placed = _with_gaps_so_far(rows, events)
    placed = placed.withColumn("begins_anew", _begins_anew(by_replica))
    placed = placed.withColumn("topics_before", F.count_if("begins_anew").over(by_replica))
    of_node, of_run = Window.partitionBy("cluster", "node"), Window.partitionBy("cluster", "node", "line_gaps")
    # up to 2.5 these lines are in server.log
    has_starts = (F.col("source") == "state_change_log") | F.col("event_type").isin(*STARTS)
    cut_off = F.max(has_starts & holds(F.col("newer_missing"))).over(of_run)
    last_line = F.max(F.when(F.col("source").isin(*OF_LINES), F.col("from_ms"))).over(of_run)
    return placed.withColumns(
        {
            "topic_id": F.coalesce("topic_id", F.last("topic_id", ignorenulls=True).over(by_topic)),
            "topic_id_ms": F.last(F.when(F.col("topic_id").isNotNull(), F.col("from_ms")), ignorenulls=True).over(
                by_topic
            ),
            "topic_id_ref": F.when(
                F.col("topic_id").isNull(),
                F.last(F.when(F.col("topic_id").isNotNull(), F.col("own_ref")), ignorenulls=True).over(by_topic),
            ),
            "in_effect_ms": F.when(F.col("event_type").isin(*STARTS), F.greatest("handler_end_ms", "from_ms")),
            "gap_ms": F.when((F.col("line_gaps") < F.max("line_gaps").over(of_node)) | cut_off, last_line),
            "followed": is_request
            & (F.col("error_code") == Errors.NONE)
            & (F.col("leader") >= 0)
            & (F.col("leader") != F.col("node")),
        }
    ).drop(
        "source",
        "time_ms",
        "arrival_ms",
        "request_error_code",
        "error_code",
        "gaps_before",
        "newer_missing",
        "gaps_so_far",
        "line_gaps",
        "begins_anew",
        "topics_before",
    )


def _in_time() -> list[Column]:
    return [F.col("from_ms"), F.col("source") != "request_log", F.col("file_order"), F.col("byte_offset")]


def _with_gaps_so_far(rows: DataFrame, events: DataFrame) -> DataFrame:
    """The rows that state a topic id, or agree to one. Adds from_ms, and gaps_so_far and line_gaps: how often files are missing before."""
    is_request = F.col("event_type") == LEADER_AND_ISR
    states_topic_id = ~is_request | (
        (F.col("request_error_code") == Errors.NONE) & F.col("error_code").isin(*_TOPIC_ID_AGREED)
    )
    placed = rows.where(F.col("topic").isNotNull() & states_topic_id).withColumn(
        "from_ms", F.when(is_request, F.col("arrival_ms") - TOLERANCE_MS).otherwise(F.col("time_ms"))
    )
    by_node = Window.partitionBy("cluster", "node").orderBy(*_in_time())
    # the first request after missing files may be of another kind, which has no row here
    of_requests = request_log_gaps(events).select("cluster", "node", "gaps")
    placed = placed.join(F.broadcast(of_requests), ["cluster", "node"], "left")
    begun = F.filter("gaps", lambda gap: gap["missing"] & (gap["from_ms"] < F.col("from_ms")))
    line_gaps = gaps_so_far(by_node.rowsBetween(Window.unboundedPreceding, Window.currentRow), OF_LINES)
    return placed.withColumns(
        {"gaps_so_far": line_gaps + F.coalesce(F.size(begun), F.lit(0)), "line_gaps": line_gaps}
    ).drop("gaps")


def _begins_anew(in_time: WindowSpec) -> Column:
    """A line without a topic id begins at leader and partition epoch 0, and the replica had a higher one before."""
    epoch, partition_epoch = F.col("leader_epoch"), F.coalesce("partition_epoch", F.lit(0))
    highest = F.when(F.col("event_type") == PARTITION_CREATED, F.lit(0)).otherwise(F.greatest(epoch, partition_epoch))
    before = F.last(highest, ignorenulls=True).over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.col("event_type").isin(*STARTS) & F.col("topic_id").isNull() & (epoch == 0) & (partition_epoch == 0)
    return holds(begins & (before > 0))


@checkpointed
def held_epochs(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic_key, partition): all the leader epochs that the replica held, to be broadcast.

    Each replica has a row for its topic id and one for its name, which has the epochs of all topics of the name.
    Needs: the events table. Clock: the node's host. Columns:
      held       array of struct(leader_epoch, is_leader, topic, topic_id, topic_id_ms, topic_id_ref, from_ms, in_effect_ms, until_ms,
                 deleted_ms, line_until_ms, successor, ref, outdated);
                 until_ms: a deletion of the replica ends the epoch, too, once no request can have come before it; deleted_ms: from
                 then on the node may have deleted the replica, null: no deletion ends the epoch; line_until_ms: until_ms without it;
                 outdated: a later epoch is recorded elsewhere, but has no line in the node's log; epoch_line_missing in
                 `with_held_epochs`
      recreations  array of struct(from_ms, until_ms): when the node created the replica again, after an epoch that the same process
                 had held; until it has started an epoch
      successor  the last of their successors
      releases   of the node, as in `releases`
      log_end_ms  time of the last line of the node's state-change.log
    """
    keyed = replica_starts(events).withColumn("following", _next_start())
    keyed = keyed.join(F.broadcast(_deletions(events)), ["cluster", "node", "topic", "partition"], "left")
    keyed = keyed.withColumns({name: F.coalesce(name, F.array()) for name in ("deletions", "deletion_lines")})
    keyed = keyed.withColumns({"created_again": _created_again(), "deleted": _deleted()})
    # least passes over a null
    keyed = keyed.withColumn("line_until_ms", F.least("until_ms", "created_again.time_ms"))
    keyed = keyed.withColumn("topic_key", F.explode(topic_keys()))
    keyed = keyed.join(_stated_epochs(events), ["cluster", "topic_key", "partition"], "left")
    entry = F.struct(
        "leader_epoch",
        "is_leader",
        "topic",
        "topic_id",
        "topic_id_ms",
        "topic_id_ref",
        "from_ms",
        "in_effect_ms",
        F.least("line_until_ms", F.col("deleted.time_ms") + (REQUEST_LINE_LAG_MS - TOLERANCE_MS)).alias("until_ms"),
        F.col("deleted.begun_ms").alias("deleted_ms"),
        "line_until_ms",
        "successor",
        F.col("own_ref").alias("ref"),
        _outdated().alias("outdated"),
    )
    held = (
        keyed.groupBy("cluster", "node", "topic_key", "partition")
        .agg(F.collect_list(entry).alias("held"), F.collect_list(_recreation()).alias("recreations"))
        .withColumn("successor", F.array_max(F.col("held")["successor"]))
    )
    ends = state_change_log_gaps(events).select("cluster", "node", F.col("last_ms").alias("log_end_ms"))
    return held.join(F.broadcast(releases(events).join(ends, ["cluster", "node"], "full")), ["cluster", "node"], "left")


def _deletions(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic, partition) that the node deleted. A broker forgets the epochs of such a replica.

    Adds deletions and creations, arrays of struct(arrival_ms, time_ms): the requests that deleted it, and those that created it
    again; and deletion_lines, the times of the lines that schedule the deletion of its log. A replica that was to move between log
    directories has none, as the line of its future replica is the same (LogManager.asyncDelete).
    A LeaderAndIsr creates the partition before it is checked: the broker has no epoch of it if it is then refused, or if the leader
    is not alive (ReplicaManager.becomeLeaderOrFollower).
    """
    event_type = F.col("event_type")
    creates = (event_type == LEADER_AND_ISR) & (F.col("request_error_code") == Errors.NONE)
    deletes = deletes_replica()
    line, moves = event_type == LOG_DELETION_SCHEDULED, event_type == FUTURE_LOG_CREATED
    request = F.struct("arrival_ms", "time_ms")
    gathered = (
        of_types(events, STOP_REPLICA, LEADER_AND_ISR, LOG_DELETION_SCHEDULED, FUTURE_LOG_CREATED)
        .where(F.col("topic").isNotNull() & (creates | deletes | line | moves))
        .groupBy("cluster", "node", "topic", "partition")
        .agg(
            F.collect_list(F.when(deletes, request)).alias("deletions"),
            F.collect_list(F.when(creates, request)).alias("creations"),
            F.collect_list(F.when(line, F.col("time_ms"))).alias("lines"),
            F.max(moves).alias("moves"),
        )
    )
    lines = F.when(F.col("moves"), F.array().cast("array<bigint>")).otherwise(F.col("lines")).alias("deletion_lines")
    gathered = gathered.select("cluster", "node", "topic", "partition", "deletions", "creations", lines)
    return gathered.where((F.size("deletions") > 0) | (F.size("deletion_lines") > 0))


def _deleted() -> Column:
    """The first deletion that certainly came after the replica's line: struct(time_ms, begun_ms), null: none.

    It had ended at time_ms; requests that were answered before begun_ms had not met it. The arrival of a StopReplica is computed from
    its line, which may be late. Lines are not late, but the broker forgets the epoch before it writes that about the log. A line that
    creates the replica again shows that it had been deleted.
    """
    line, lag = F.col("from_ms"), REQUEST_LINE_LAG_MS
    requests = F.filter("deletions", lambda d: d["arrival_ms"] - lag >= line)
    by_request = F.transform(requests, lambda d: F.struct(d["time_ms"], (d["arrival_ms"] - lag).alias("begun_ms")))
    lines = F.filter(F.concat("deletion_lines", F.array_compact(F.array("created_again_ms"))), lambda at: at > line)
    by_line = F.transform(
        lines, lambda at: F.struct(at.alias("time_ms"), F.greatest(at - _DELTA_MS, line).alias("begun_ms"))
    )
    return F.array_min(F.concat(by_request, by_line))


def _created_again() -> Column:
    """The request that created a replica again after a deletion that certainly arrived after the replica's line; null: none."""
    after = F.filter("deletions", lambda d: d["arrival_ms"] - REQUEST_LINE_LAG_MS >= F.col("from_ms"))
    deleted_ms = F.array_min(F.transform(after, lambda d: d["arrival_ms"]))
    return F.array_min(F.filter("creations", lambda c: c["arrival_ms"] >= deleted_ms))


def _recreation() -> Column:
    """When the node created the replica again after this epoch, from the line or request on; null: it did not.

    The arrival of a request is computed from its line, which may be late. When it is answered, the replica has started an epoch.
    """
    request = F.col("created_again")
    from_ms = F.coalesce("created_again_ms", request["arrival_ms"] - REQUEST_LINE_LAG_MS)
    until_ms = F.least("until_ms", request["time_ms"])  # least passes over a null
    # the process may have ended before, or started another epoch before the deletion
    return F.when(from_ms <= until_ms, F.struct(from_ms.alias("from_ms"), until_ms.alias("until_ms")))


def _next_start() -> Column:
    """The node's first line with the next higher leader epoch that it has a line of, for the same topic."""
    higher = Window.partitionBy("cluster", "node", "topic", "topic_id", "partition").orderBy("leader_epoch")
    line = F.struct("leader_epoch", "from_ms", "previous_epoch")
    return F.min(line).over(higher.rangeBetween(1, Window.unboundedFollowing))


def _stated_epochs(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition): stated, array of the struct(leader_epoch, topic_id) that anything states.

    A topic's name has the epochs of all topics of the name; topic_id is null where several topics had the name.
    """
    states = partition_states(events, OF_RECORD, OF_REQUEST).where(F.col("leader_epoch").isNotNull())
    named = with_identity(states.select(*_STATED_COLUMNS), topic_incarnations(events)).select(*_STATED_COLUMNS)
    stated = named.unionByName(replica_starts(events).select(*_STATED_COLUMNS)).withColumn(
        "topic_key", F.explode(topic_keys())
    )
    epoch = F.struct("leader_epoch", "topic_id")
    return stated.groupBy("cluster", "topic_key", "partition").agg(F.collect_set(epoch).alias("stated"))


def _outdated() -> Column:
    """The log lacks the line of a later epoch, between this epoch's line and the next one that it has, if any.

    Needs: following, stated, leader_epoch, topic_id. A next line that states this epoch as the previous one proves that no line is
    missing. If another process wrote the next line, the replica may have begun that epoch before.
    """
    following = F.col("following")
    later = F.filter(
        "stated",
        lambda s: (
            (s["leader_epoch"] > F.col("leader_epoch")) & F.coalesce(s["topic_id"] == F.col("topic_id"), F.lit(True))
        ),
    )
    next_stated = F.array_min(F.transform(later, lambda s: s["leader_epoch"]))
    same_process = ~holds(F.col("until_ms") < following["from_ms"])
    recorded_from = F.when(same_process, following["leader_epoch"]).otherwise(following["leader_epoch"] + 1)
    adjoins = following["previous_epoch"] == F.col("leader_epoch")
    return F.coalesce(next_stated < recorded_from, next_stated.isNotNull()) & ~holds(adjoins)


@checkpointed
def _stable_intervals(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic_key, partition) and interval in which the replica held one epoch and nothing changed.

    Columns: stable_from_ms, stable_to_ms (both inclusive), and stable, the epoch: struct(leader_epoch, is_leader, topic, topic_id,
    ref, outdated, successor, log_end_ms, version, later); version and later are kafka_version and held_later of `with_held_epochs`.
    Nearly all requests arrive and are answered within one of a few such intervals. They need neither the list of epochs nor a
    search in it.
    """
    interval = F.transform(
        "change_times",
        lambda at, i: F.struct(
            (at + 1).alias("stable_from_ms"),
            (F.coalesce(F.get("change_times", i + 1), F.lit(FOREVER)) - 1).alias("stable_to_ms"),
        ),
    )
    intervals = held_epochs(events).withColumn("change_times", _change_times()).select("*", F.inline(interval))
    within = F.col("stable_from_ms")
    intervals = intervals.where(F.col("stable_to_ms") - within >= _STABLE_MS)
    indexes = F.array_compact(
        F.transform("held", lambda e, i: F.when(_may_meet(e, within, within, REQUEST_LINE_LAG_MS), i))
    )
    own = F.col("own")
    stable = F.struct(
        *(own[name].alias(name) for name in ("leader_epoch", "is_leader", "topic", "topic_id", "ref", "outdated")),
        "successor", "log_end_ms", _kafka_version(within).alias("version"), _held_later(within).alias("later"),
    )  # fmt: skip
    return (
        intervals.withColumn("possible", indexes)
        .where((F.size("possible") == 1) & ~_creates(within, within))
        .withColumn("own", F.get("held", F.get("possible", F.lit(0))))
        .where((own["in_effect_ms"] <= within) & ~_may_have_deleted(own, within))
        .select("cluster", "node", "topic_key", "partition", within, "stable_to_ms", stable.alias("stable"))
    )


def change_times(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic_key, partition) and time at which a column of `with_held_epochs` may change: at_ms."""
    return held_epochs(events).select(
        "cluster", "node", "topic_key", "partition", F.explode(_change_times()).alias("at_ms")
    )


def _change_times() -> Column:
    edges = F.flatten(
        F.transform(
            "held",
            lambda e: F.array(
                e["from_ms"] - TOLERANCE_MS,
                e["in_effect_ms"],
                e["until_ms"] + TOLERANCE_MS,
                e["until_ms"] + REQUEST_LINE_LAG_MS,
                e["deleted_ms"] - TOLERANCE_MS,
                e["line_until_ms"] + TOLERANCE_MS,
            ),
        )
    )
    versions = F.flatten(F.transform("releases", lambda r: F.array(r["since_ms"], r["until_ms"])))
    recreations = F.flatten(
        F.transform("recreations", lambda c: F.array(c["from_ms"] - TOLERANCE_MS, c["until_ms"] + REQUEST_LINE_LAG_MS))
    )
    times = F.concat(edges, recreations, F.coalesce(versions, F.array()))
    return F.array_sort(F.array_distinct(F.array_compact(times)))


def _may_meet(e: Column, arrival_ms: Column, time_ms: Column, early_ms: int, until: str = "until_ms") -> Column:
    """A request that arrived and was answered at these times, or arrived `early_ms` earlier, may have been processed in this epoch.

    until: the field that has the epoch's end.
    """
    ended = e[until] < arrival_ms - early_ms
    return (e["from_ms"] <= time_ms + TOLERANCE_MS) & ~holds(ended)


def _may_have_deleted(e: Column, time_ms: Column) -> Column:
    """The node may have deleted the replica of this epoch before it answered a request at that time."""
    return holds(e["deleted_ms"] <= time_ms + TOLERANCE_MS)


def _creates(arrival_ms: Column, time_ms: Column) -> Column:
    """The node may have been creating the replica again while it processed the request, whose line may be late."""
    return F.exists(
        "recreations",
        lambda c: (c["from_ms"] <= time_ms + TOLERANCE_MS) & (c["until_ms"] + REQUEST_LINE_LAG_MS >= arrival_ms),
    )


def _starts_later(time_ms: Column) -> Column:
    """At that time the node was creating the replica again, and had not started a leader epoch."""
    creates = F.exists("recreations", lambda c: (c["from_ms"] <= time_ms) & (time_ms <= c["until_ms"]))
    return holds(creates & _held_later(time_ms))


def _kafka_version(time_ms: Column) -> Column:
    return F.array_min(releases_at(at_ms=time_ms)["version"])


def _held_later(time_ms: Column) -> Column:
    return F.exists("held", lambda e: e["from_ms"] > time_ms + TOLERANCE_MS)


def with_held_epochs(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds the leader epochs that the serving node held while it processed the request. Grain unchanged, rows are not shuffled.

    Needs: cluster, node, topic, topic_id, partition, arrival_ms, time_ms. Clock: the host of the node.
    Completes topic and topic_id from the replica that the node hosted. Adds:
      held_min, held_max   lowest and highest leader epoch in which the request may have been processed; null: none is known, or the
                           node had deleted the replica
      held_earlier         held_min, if it is lower than held_max
      held_just_before     the lowest epoch from REQUEST_LINE_LAG_MS before the request on: its line may be written late
      led_just_before      the node led in some epoch from REQUEST_LINE_LAG_MS before the request on
      held_complete        the epoch at arrival is known, so that the node can have held no other
      epoch_line_missing   a later epoch is recorded elsewhere, but not in the node's log: the node may have held it
      log_ended            the node's state-change.log has no line from after the answer: it may have been copied before the request log
      held_leader          the node was leader in all these epochs
      led_max              the highest of these epochs in which the node was leader; null: none
      held_ref             the last line that starts held_max; leads_in_highest: it starts a leader
      kafka_version        of the process that answered, as major*1,000,000 + minor*1,000 + patch
      successor            the line by which another topic of the name replaced the replica of the topic id, at any time
      held_later           the node starts an epoch of the replica after the request
      deleting             the node may have deleted the replica of one of these epochs before it answered
      started_ref          held_ref, or the last line of the replica in the same process if the node has deleted it since
      unstarted            the node held no leader epoch: it was creating the replica again, and starts one later
      creating             the node may have been creating the replica again, so that it held leader epoch -1 (`_creates`)
      line_before          the node's log has a line of the replica from before the request, or just after it
    """
    stable = F.col("stable")
    within = (F.col("arrival_ms") >= F.col("stable_from_ms")) & (F.col("time_ms") <= F.col("stable_to_ms"))
    keyed = rows.withColumn("topic_key", topic_key()).alias("rows")
    with_stable = keyed.join(F.broadcast(_stable_intervals(events)).alias("other"), _same_replica() & within, "left")
    with_stable = with_stable.select("rows.*", "stable").alias("rows")
    # only the rows that have to search the list of epochs get it
    searched = with_stable.join(
        F.broadcast(held_epochs(events)).alias("other"), _same_replica() & stable.isNull(), "left"
    )
    searched = searched.select("rows.*", "held", "recreations", "successor", "log_end_ms", "releases")
    return (
        searched.withColumn("possible", F.when(stable.isNull(), _possible(TOLERANCE_MS)))
        .withColumns(_held_columns(stable))
        .drop("topic_key", "held", "recreations", "possible", "log_end_ms", "releases", "stable")
    )


def line_missing(*stated: str) -> Column:
    """epoch_line_missing, also for an epoch that the request or its answer states (columns), if the node's log may have ended before.

    Needs: the columns of `with_held_epochs`.
    """
    newer = [holds(F.col(name) > F.col("held_max")) for name in stated]
    return F.col("epoch_line_missing") | (F.col("log_ended") & reduce(or_, newer))


def _same_replica() -> Column:
    key = ("cluster", "node", "topic_key", "partition")
    return reduce(and_, (F.col(f"rows.{name}") == F.col(f"other.{name}") for name in key))


def _possible(early_ms: int) -> Column:
    return F.filter("held", lambda e: _may_meet(e, F.col("arrival_ms"), F.col("time_ms"), early_ms))


def _held_columns(stable: Column) -> dict[str, Column]:
    """The columns of `with_held_epochs`: from `stable`, the epoch of a stable interval, else by a search in `held`."""
    highest = F.array_max(
        F.transform("possible", lambda e: F.struct(e["leader_epoch"], e["from_ms"], e["ref"], e["is_leader"]))
    )
    just_before = F.array_min(F.transform(_possible(REQUEST_LINE_LAG_MS), lambda e: e["leader_epoch"]))
    lowest = F.array_min(F.transform("possible", lambda e: e["leader_epoch"]))
    in_effect = F.array_min(F.transform("possible", lambda e: e["in_effect_ms"])) <= F.col("arrival_ms")
    led = F.filter("possible", lambda e: e["is_leader"])
    led_max = F.array_max(F.transform(led, lambda e: e["leader_epoch"]))
    first = F.get("possible", F.lit(0))["topic"]

    def when_stable(of_interval: Column, searched: Column) -> Column:
        return F.when(stable.isNotNull(), of_interval).otherwise(searched)

    return {
        "held_just_before": when_stable(stable["leader_epoch"], just_before),
        "held_min": when_stable(stable["leader_epoch"], lowest),
        "held_max": when_stable(stable["leader_epoch"], highest["leader_epoch"]),
        "held_earlier": F.when(stable.isNull() & (lowest < highest["leader_epoch"]), lowest),
        "held_ref": when_stable(stable["ref"], highest["ref"]),
        "leads_in_highest": when_stable(stable["is_leader"], highest["is_leader"]),
        "epoch_line_missing": holds(when_stable(stable["outdated"], F.exists("possible", lambda e: e["outdated"]))),
        "log_ended": holds(when_stable(stable["log_end_ms"], F.col("log_end_ms")) <= F.col("time_ms")),
        "held_complete": stable.isNotNull() | holds(in_effect),
        "deleting": stable.isNull() & holds(F.exists("possible", lambda e: _may_have_deleted(e, F.col("time_ms")))),
        "started_ref": when_stable(stable["ref"], _last_line()),
        "kafka_version": when_stable(stable["version"], _kafka_version(F.col("time_ms"))),
        "held_later": when_stable(stable["later"], _held_later(F.col("time_ms"))),
        "unstarted": stable.isNull() & (F.size("possible") == 0) & _starts_later(F.col("time_ms")),
        "creating": holds(_creates(F.col("arrival_ms"), F.col("time_ms"))),
        "line_before": stable.isNotNull() | holds(F.exists("held", _has_line_before)),
        "led_max": when_stable(F.when(stable["is_leader"], stable["leader_epoch"]), led_max),
        "held_leader": when_stable(stable["is_leader"], F.forall("possible", lambda e: e["is_leader"])),
        "led_just_before": when_stable(
            stable["is_leader"], F.exists(_possible(REQUEST_LINE_LAG_MS), lambda e: e["is_leader"])
        ),
        "topic": F.coalesce("topic", when_stable(stable["topic"], first), F.get("held", F.lit(0))["topic"]),
        "topic_id": F.coalesce("topic_id", when_stable(stable["topic_id"], _only_topic_id())),
        "successor": when_stable(stable["successor"], F.col("successor")),
    }


def _last_line() -> Column:
    """The line of the highest epoch in which the request may have been processed if the node had deleted no replica."""
    met = F.filter(
        "held", lambda e: _may_meet(e, F.col("arrival_ms"), F.col("time_ms"), TOLERANCE_MS, until="line_until_ms")
    )
    return F.array_max(F.transform(met, lambda e: F.struct(e["leader_epoch"], e["from_ms"], e["ref"])))["ref"]


def _has_line_before(e: Column) -> Column:
    """The epoch is shown by a line, not by a request, and one from before the answer or just after it."""
    return e["in_effect_ms"].isNotNull() & (e["from_ms"] <= F.col("time_ms") + TOLERANCE_MS)


def _only_topic_id() -> Column:
    ids = F.array_distinct(F.transform("possible", lambda e: e["topic_id"]))
    return F.when(F.size(ids) == 1, F.get(ids, F.lit(0)))
