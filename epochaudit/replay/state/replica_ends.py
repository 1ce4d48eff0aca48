"""Log end and high watermark of each replica when it changed the leader epoch, and what it truncated.

Only lines of default logs: "starts at leader epoch" lines of state-change.log, "Log loaded … with initial high watermark",
"Truncating to offset" and "ISR updated" lines of server.log, and lines of leaders that stay so and learn of an ISR. Up to 2.5 the
"starts" lines are those of leaders, in server.log. The LeaderAndIsr requests that followers received stand in for theirs, from
state-change.log at TRACE.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FOLLOWER_TRUNCATING,
    HIGH_WATERMARK_LOADED,
    ISR_UPDATED,
    LEADER_AND_ISR_RECEIVED,
    LEADER_AND_ISR_SKIPPED,
    LEADER_STARTS,
    LOG_CREATED,
    LOG_DELETION_SCHEDULED,
    LOG_EMPTIED,
    LOG_RECOVERED,
    LOG_TRUNCATED,
    PROCESS_STARTING,
    TRUNCATION_BELOW_HIGH_WATERMARK,
)
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.releases import release
from epochaudit.replay.state.held_epochs import replica_starts
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.min_insync_replicas import with_printed_min_insync_replica
from epochaudit.replay.state.processes import process_at, process_starts
from epochaudit.replay.state.releases import releases
from epochaudit.spark.memo import as_leaf, checkpointed

TRUNCATIONS: Final = (LOG_TRUNCATED, FOLLOWER_TRUNCATING, TRUNCATION_BELOW_HIGH_WATERMARK)
NEW_LOG: Final = (LOG_CREATED, LOG_DELETION_SCHEDULED, LOG_EMPTIED)
SERVER_LOG: Final = (PROCESS_STARTING, HIGH_WATERMARK_LOADED, LOG_RECOVERED, *TRUNCATIONS, *NEW_LOG)
UNDER_MIN_ISR: Final = release("3.7")
"""The first release whose leaders commit nothing while the ISR is smaller than min.insync.replicas."""
# `reason` of LEADER_AND_ISR_SKIPPED: the broker leads, or follows, already
ALREADY_IN_STATE: Final = "already_in_state"

_REPLICA: Final = ("cluster", "node", "topic", "partition")
_STARTS: Final = "STARTS"
_OF_START: Final = (
    "leader_epoch",
    "is_leader",
    "start_offset",
    "high_watermark",
    "own_ref",
    "partition_epoch",
    "until_ms",
)


@checkpointed
def replica_ends(events: DataFrame) -> DataFrame:
    """One row per stretch of a replica's lines. A stretch begins with a "starts at leader epoch" line, or with a new log.

    Needs: the events table. Clock: the node's log order of state-change.log and server.log, by the time of its host.
    Columns: cluster, node, topic, topic_id, ambiguous_name, partition, and
      leader_epoch, is_leader, start_offset (the log end offset), high_watermark, partition_epoch, own_ref, and until_ms (see
                       `replica_starts`)   of the line; null for a new log. start_offset, high_watermark and partition_epoch are null
                       if the follower's line has none
      epoch_before     leader epoch of the stretch before, in the same log; null: none is recorded, or a file is missing between
      known_since      the leader epoch in which the replica may have learned the line's high watermark: epoch_before of the first of
                       the lines up to this one that have it or a higher one, or the epoch of that line itself
      same_process     one process wrote this line and that of the stretch before: server.log is recorded, without a start between
      process_epoch    the lowest leader epoch that this process has a line of, up to this one
      loaded, loaded_ref   the high watermark with which the log was loaded in this stretch, before it was truncated
      truncated_to, truncated_ref   the lowest offset to which it was truncated in this stretch
      recovered_ref    the line of the log's recovery after an unclean stop, by this process, in this stretch or before
      created_ref      the creation of the log by this process, though the replica had one before that is not known to have been deleted
      alone_ref        the replica led in the stretch before, alone in the ISR by what it last learned of it there: that line. If it
                       commits with an ISR of one, all that it appended was committed
      commits_alone    it does so by its release, whatever min.insync.replicas is
      printed_one_ref  the line in which its process of that stretch printed min.insync.replicas 1, if it printed nothing else
    """
    in_time = Window.partitionBy(*_REPLICA).orderBy("time_ms", "line", "file_order", "byte_offset")
    rows = _replica_lines(events).withColumns(
        {
            "stretch": F.count(F.when(F.col("line") > 0, 1)).over(in_time),
            "log": F.count(F.when(F.col("line") == 2, 1)).over(in_time),
        }
    )
    stretches = _stretches(rows)
    stretches = with_identity(stretches.withColumns({"logged": F.lit(True)}), topic_incarnations(events))
    nodes = _nodes(events)
    stretches = stretches.join(F.broadcast(nodes), ["cluster", "node"], "left")
    own = Window.partitionBy(*_REPLICA, "log").orderBy("stretch")
    of_process = Window.partitionBy(*_REPLICA, "log", "process").orderBy("stretch")
    all_before = Window.partitionBy(*_REPLICA).orderBy("stretch")
    stretches = with_printed_min_insync_replica(stretches, events)
    leads_alone = F.col("start.is_leader") & (F.col("learned.isr") == F.array("node"))
    before = F.lag(
        F.struct(
            "start",
            "last_process",
            F.when(leads_alone, F.col("learned.own_ref")).alias("alone_ref"),
            holds(F.col("release") < UNDER_MIN_ISR).alias("commits_alone"),
            "printed_one_ref",
        )
    ).over(own)
    # a load after the truncation is of a later process, whose lines are missing
    in_order = F.coalesce(F.col("load.own_ref.time_ms") <= F.col("truncation.own_ref.time_ms"), F.lit(True))
    adjoins = F.coalesce(F.col("start.own_ref.time_ms") <= F.col("before.start.gap_ms"), F.lit(True))
    known = holds(F.col("start.high_watermark") <= F.lag("start.high_watermark").over(own))
    stretches = stretches.withColumns(
        {
            "before": before,
            "process_epoch": F.min("start.leader_epoch").over(of_process),
            "recovered": F.last("recovery", ignorenulls=True).over(all_before),
            "rises": F.count(F.when(~known, 1)).over(own),
            # directly after a stretch with an epoch: the deletion of that log would be a stretch of its own
            "creation": F.when(F.lag("start").over(all_before).isNotNull(), F.col("creation")),
        }
    ).withColumn("epoch_before", F.when(adjoins, F.col("before.start.leader_epoch")))
    since_rise = Window.partitionBy(*_REPLICA, "log", "rises").orderBy("stretch")
    known_since = F.first(F.coalesce("epoch_before", "start.leader_epoch")).over(since_rise)
    created = F.last("creation", ignorenulls=True).over(own)
    return stretches.withColumns({"known_since": known_since, "created": created}).select(
        *_REPLICA, "topic_id", "ambiguous_name",
        *(F.col(f"start.{name}").alias(name) for name in _OF_START),
        "epoch_before", "known_since",
        holds(F.col("has_server_log") & (F.col("before.last_process") == F.col("process"))).alias("same_process"),
        "process_epoch",
        F.when(in_order, F.col("load.at")).alias("loaded"),
        F.when(in_order & F.col("load.at").isNotNull(), F.col("load.own_ref")).alias("loaded_ref"),
        F.col("truncation.at").alias("truncated_to"), F.col("truncation.own_ref").alias("truncated_ref"),
        F.when(F.col("recovered.process") == F.col("process"), F.col("recovered.own_ref")).alias("recovered_ref"),
        F.when(F.col("created.process") == F.col("process"), F.col("created.own_ref")).alias("created_ref"),
        F.col("before.alone_ref").alias("alone_ref"),
        holds(F.col("before.commits_alone")).alias("commits_alone"),
        F.col("before.printed_one_ref").alias("printed_one_ref"),
    )  # fmt: skip


def _stretches(rows: DataFrame) -> DataFrame:
    """One row per stretch: structs of its start, load, truncation, recovery and creation, and of what was learned last of the ISR."""
    kind, offset = F.col("event_type"), F.col("offset")
    learned = F.struct("time_ms", "line", "file_order", "byte_offset", "isr", "own_ref")
    truncation = kind.isin(*TRUNCATIONS) & (offset >= 0) & ~F.col("reason").eqNullSafe("high_watermark")
    started = F.when(kind == _STARTS, F.col("start"))
    return rows.groupBy(*_REPLICA, "stretch", "log").agg(
        F.max(started).alias("start"),
        F.max("topic_id").alias("topic_id"),
        F.min("process").alias("process"),
        F.max("process").alias("last_process"),
        F.max(F.struct(F.when(kind == HIGH_WATERMARK_LOADED, F.col("high_watermark")).alias("at"), "own_ref")).alias(
            "load"
        ),
        F.min(F.when(truncation, F.struct(offset.alias("at"), "own_ref"))).alias("truncation"),
        F.max(F.when(kind == LOG_RECOVERED, F.struct("process", "own_ref"))).alias("recovery"),
        F.max(F.when(kind == LOG_CREATED, F.struct("process", "own_ref"))).alias("creation"),
        F.max(F.when(F.col("isr").isNotNull(), learned)).alias("learned"),
    )


def _replica_lines(events: DataFrame) -> DataFrame:
    """One row per line of a replica. Adds line and process.

    line: 2 begins a log, 1 a leader epoch, 0 neither. process: number of the node's process starts up to the line.
    """
    starts = replica_starts(events).where(F.col("proven"))
    lines = starts.select(
        *_REPLICA, "topic_id", F.lit(_STARTS).alias("event_type"), F.col("from_ms").alias("time_ms"), "file_order", "byte_offset",
        F.lit(1).alias("line"), "own_ref", "isr",
        F.struct(*_OF_START, "gap_ms").alias("start"),
    )  # fmt: skip
    log_lines = of_types(
        events, HIGH_WATERMARK_LOADED, ISR_UPDATED, LEADER_AND_ISR_SKIPPED, LOG_RECOVERED, *TRUNCATIONS, *NEW_LOG
    )
    # a leader takes the ISR of a state over also where it stays the leader (Partition.makeLeader)
    takes_isr = (F.col("leader") == F.col("node")) & (F.col("reason") == ALREADY_IN_STATE) & F.col("isr").isNotNull()
    is_stated = (F.col("event_type") != LEADER_AND_ISR_SKIPPED) | takes_isr
    log_lines = log_lines.where(F.col("topic").isNotNull() & is_stated).select(
        *_REPLICA, "topic_id", "event_type", "time_ms", "file_order", "byte_offset",
        F.when(F.col("event_type").isin(*NEW_LOG), 2).otherwise(0).alias("line"), "offset", "high_watermark", "reason", "isr",
        ref().alias("own_ref"),
    )  # fmt: skip
    lines = as_leaf(lines)
    rows = (
        lines.unionByName(_received(events, lines))
        .unionByName(log_lines, allowMissingColumns=True)
        .where(F.col("time_ms").isNotNull())
    )
    rows = rows.join(F.broadcast(process_starts(events)), ["cluster", "node"], "left")
    return rows.withColumn("process", F.greatest(process_at("time_ms"), F.lit(0))).drop("process_starts")


def _received(events: DataFrame, lines: DataFrame) -> DataFrame:
    """One row per received LeaderAndIsr with a newer epoch, at nodes whose followers write no line (up to 2.5)."""
    logs_followers = lines.where(~F.col("start.is_leader")).select("cluster", "node").distinct()
    rows = of_types(events, LEADER_AND_ISR_RECEIVED).where((F.col("leader") >= 0) & (F.col("leader") != F.col("node")))
    rows = rows.where(F.col("topic").isNotNull()).join(F.broadcast(logs_followers), ["cluster", "node"], "left_anti")
    no_offset = F.lit(None).cast("bigint")
    start = F.struct(
        "leader_epoch", F.lit(False).alias("is_leader"), no_offset.alias("start_offset"), no_offset.alias("high_watermark"),
        ref().alias("own_ref"), F.lit(None).cast("int").alias("partition_epoch"),
        *(F.lit(None).cast("bigint").alias(name) for name in ("until_ms", "gap_ms")),
    )  # fmt: skip
    received = rows.select(
        *_REPLICA, "topic_id", F.lit(_STARTS).alias("event_type"), "time_ms", "file_order", "byte_offset", F.lit(1).alias("line"),
        start.alias("start"), ref().alias("own_ref"), F.lit(None).cast("array<int>").alias("isr"),
    )  # fmt: skip
    all_starts = lines.withColumn("new", F.lit(False)).unionByName(received.withColumn("new", F.lit(True)))
    before = Window.partitionBy(*_REPLICA, "topic_id").orderBy("time_ms", "file_order", "byte_offset")
    highest = F.max("start.leader_epoch").over(before.rowsBetween(Window.unboundedPreceding, -1))
    newer = F.coalesce(F.col("start.leader_epoch") > highest, F.lit(True))
    return all_starts.withColumn("newer", newer).where(F.col("new") & F.col("newer")).drop("new", "newer")


def _nodes(events: DataFrame) -> DataFrame:
    """One row per node with server.log lines about its processes and logs: has_server_log, and release, its newest one."""
    lines = of_types(events, *SERVER_LOG, LEADER_STARTS).where(F.col("source") == "server_log")
    logged = lines.groupBy("cluster", "node").agg(F.lit(True).alias("has_server_log"))
    newest_releases = releases(events).select("cluster", "node", F.array_max("releases.version").alias("release"))
    return logged.join(F.broadcast(newest_releases), ["cluster", "node"], "left")
