"""Frame `high_watermarks`: the high watermarks that a leader gave out, ten seconds of answers in one row.

Fetch answers are too many to be sorted. A leader must not give out a lower high watermark than before: each ten seconds keep the
highest and the lowest, with their times.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH, FUTURE_LOG_PROMOTED
from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import of_types
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.fetches import fence_passed
from epochaudit.replay.state.held_epochs import with_held_epochs
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, with_identity
from epochaudit.replay.state.log_gaps import lines_recorded, server_log_gaps
from epochaudit.replay.state.places import PLACE_OF_NODE, of_last, then_by_place, with_refs
from epochaudit.replay.state.processes import process_starts

SPAN_MS: Final = 10_000

_BOUNDS: Final = ("high_watermark", "last_stable_offset", "log_start_offset")


def high_watermarks(events: DataFrame) -> DataFrame:
    """One row per (leader, partition, leader epoch, ten seconds) of Fetch answers with code 0.

    Needs: the events table. Clock: the leader's host, on which differences below `REQUEST_LINE_LAG_MS` prove nothing; between leaders the
    leader epoch. Rows of Fetch are aggregated where they are read, in buffers of a fixed width.
    Columns: the subject columns (node = the leader; leader_epoch null: the epoch that it held is uncertain), ambiguous_name, leads
    (it held the epoch as leader), and
      low, low_ref            the lowest high watermark of the ten seconds
      fallen_from, fallen_ref a higher one, given out in the same epoch and process before the request for `low` arrived; if the
                              epoch is uncertain, in the same process
      ever                    the highest that the node gave out in earlier rows, in any epoch
      outside_high_watermark, outside_last_stable_offset, outside_log_start_offset, outside_ref
                              the answer whose offsets contradict each other most; null: none do
      reached                 the highest high watermark of this row and the next one of the epoch; reached_ref, an answer with it, null
                              without outside_ref
      followed                a later row of this epoch exists; later_log_start: the log start offset in it
      log_start, log_start_ref   the log start offset in the last answer with the highest high watermark of the ten seconds; null: in none
      start_fallen_from, start_fallen_ref   a higher one in such an answer before, given out in the same epoch and process before this
                              one's request arrived; if the epoch is uncertain, in the same process
      log_moved               the replica moved to another log directory between these answers; null: the node's server.log is not
                              in the evidence for all of that time
      first_of_epoch          the first ten seconds of the leader epoch on this node
      earlier, earlier_epoch, earlier_ref   the highest high watermark that leaders of lower epochs gave out
    """
    replica = ("cluster", "node", "topic", "topic_id", "partition")
    in_order = ("span", "low_ms", "low_file_order", "low_byte_offset")
    of_epoch = Window.partitionBy(*replica, "leader_epoch", "process").orderBy(*in_order)
    of_process = Window.partitionBy(*replica, "process").orderBy(*in_order)
    of_replica = Window.partitionBy(*replica).orderBy(*in_order)
    before_in_epoch = F.max("top").over(of_epoch.rowsBetween(Window.unboundedPreceding, -1))
    before_in_process = F.max("top").over(of_process.rowsBetween(Window.unboundedPreceding, -1))
    following = F.lead("top").over(of_epoch)
    next_high = following["high"]
    ever = F.max("high").over(of_replica.rowsBetween(Window.unboundedPreceding, -1))
    lower = Window.partitionBy("cluster", "topic", "topic_id", "partition").orderBy("leader_epoch")
    earlier = F.max(F.when(F.col("leads"), F.struct("high", "leader_epoch", F.col("top.ref").alias("ref"))))
    rows = _with_process(_spans(events), events).withColumns(
        {
            "before": F.when(F.col("leader_epoch").isNull(), before_in_process).otherwise(before_in_epoch),
            "ever": ever,
            "reached": F.greatest("high", next_high),
            "reached_ref": F.when(F.col("outside_ref").isNotNull(), _higher(F.col("top"), following)["ref"]),
            "followed": next_high.isNotNull(),
            "later_log_start": F.lead("highest_log_start").over(of_epoch),
            "start_before": F.when(F.col("leader_epoch").isNull(), _highest_start(of_process)).otherwise(
                _highest_start(of_epoch)
            ),
            "first_of_epoch": F.row_number().over(of_epoch) == 1,
            "previous": earlier.over(lower.rangeBetween(Window.unboundedPreceding, -1)),
        }
    )
    fallen = F.array_max(F.filter(F.array("before", "top"), _given_out_before_low))
    before = F.col("start_before")
    start_fell = (before["offset"] > F.col("log_start")) & (
        -before["earliest"] < F.col("high_arrival_ms") - REQUEST_LINE_LAG_MS
    )
    rows = rows.withColumns({"fallen": fallen, "start_fallen": F.when(start_fell, before)})
    return _with_log_moved(rows, events).select(
        "cluster", "node", "topic", "topic_id", "partition", "leader_epoch",
        *(F.lit(None).cast("string").alias(name) for name in ("client_id", "group_id")),
        F.lit(None).cast("int").alias("correlation_id"), "ambiguous_name", "leads", "low", "low_ref",
        F.col("fallen.high").alias("fallen_from"), F.col("fallen.ref").alias("fallen_ref"), "ever",
        *(f"outside_{name}" for name in _BOUNDS), "outside_ref", "reached", "reached_ref", "followed", "first_of_epoch", "later_log_start",
        F.col("previous.high").alias("earlier"), F.col("previous.leader_epoch").alias("earlier_epoch"),
        F.col("previous.ref").alias("earlier_ref"), "log_start", F.col("high_ref").alias("log_start_ref"),
        F.col("start_fallen.offset").alias("start_fallen_from"), F.col("start_fallen.ref").alias("start_fallen_ref"), "log_moved",
    )  # fmt: skip


def _higher(top: Column, following: Column) -> Column:
    return F.when(following["high"] > top["high"], following).otherwise(top)


def _given_out_before_low(top: Column) -> Column:
    """Higher than low, and earlier by more than the request log's lines may be late."""
    return (top["high"] > F.col("low")) & (top["ms"] < F.col("low_arrival_ms") - REQUEST_LINE_LAG_MS)


def _highest_start(window: WindowSpec) -> Column:
    """The highest log start offset of the rows before, and the first answer with it."""
    earliest = (-F.col("high_time_ms")).alias("earliest")
    stated = F.struct(F.col("log_start").alias("offset"), earliest, F.col("high_ref").alias("ref"))
    highest = F.max(F.when(F.col("log_start").isNotNull(), stated))
    return highest.over(window.rowsBetween(Window.unboundedPreceding, -1))


def _with_log_moved(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds log_moved. Grain unchanged. Needs: start_fallen, high_time_ms. Clock: the node's host.

    While a replica moves, its future replica copies the log, and takes its place without having all of its log start offset.
    """
    key = ("cluster", "node", "topic", "partition")
    moves = of_types(events, FUTURE_LOG_PROMOTED).groupBy(*key).agg(F.collect_list("time_ms").alias("moves"))
    rows = rows.join(F.broadcast(moves), list(key), "left")
    rows = rows.join(F.broadcast(server_log_gaps(events)), ["cluster", "node"], "left")
    since, until = -F.col("start_fallen.earliest") - REQUEST_LINE_LAG_MS, F.col("high_time_ms") + REQUEST_LINE_LAG_MS
    moved = F.exists("moves", lambda at: (at >= since) & (at <= until))
    return rows.withColumn("log_moved", F.when(moved, F.lit(True)).when(lines_recorded(since, until), F.lit(False)))


def _spans(events: DataFrame) -> DataFrame:
    """One row per (leader, partition, leader epoch, ten seconds): highest, lowest and most contradictory answer."""
    rows = of_types(events, FETCH).where(
        (F.col("error_code") == Errors.NONE) & F.col("high_watermark").isNotNull() & is_user_topic()
    )
    rows = rows.select(
        "cluster", "node", "topic", "topic_id", "partition", "arrival_ms", "api_version", "error_code", "session_epoch",
        "current_leader_epoch", *_BOUNDS, *PLACE_OF_NODE,
    )  # fmt: skip
    served, high = with_held_epochs(rows, events), F.col("high_watermark")
    certain = F.col("held_complete") & (F.col("held_min") == F.col("held_max"))
    # a Fetch that was served states no later epoch than the leader's: else the line of the later one is missing
    certain &= F.coalesce(F.col("current_leader_epoch") <= F.col("held_max"), F.lit(True))
    passed = fence_passed()
    served = served.withColumns(
        {
            "leader_epoch": F.when(certain | passed, F.col("held_max")),
            "line": F.when(certain | passed, F.col("held_ref")),
            "leads": F.when(certain, F.col("held_leader")).otherwise(passed & F.col("leads_in_highest")),
            "span": F.floor(F.col("time_ms") / SPAN_MS),
            "by_high": then_by_place(high),
            "by_low": then_by_place(-high),
        }
    )
    excess = F.greatest(F.col("last_stable_offset") - high, F.col("log_start_offset") - high, -high)
    excess = F.when(excess > 0, excess)
    spans = served.groupBy(
        "cluster", "node", "topic", "topic_id", "partition", "leader_epoch", "line", "leads", "span"
    ).agg(
        F.max(high).alias("high"),
        F.min(high).alias("low"),
        F.max("log_start_offset").alias("highest_log_start"),
        *of_last((*PLACE_OF_NODE, "arrival_ms", "log_start_offset"), "by_high", "high_"),
        *of_last((*PLACE_OF_NODE, "arrival_ms"), "by_low", "low_"),
        *of_last((*_BOUNDS, *PLACE_OF_NODE), then_by_place(excess), "outside_"),
    )
    return with_refs(spans, events, "high", "low", "outside").withColumns(
        {
            "top": F.struct("high", F.col("high_time_ms").alias("ms"), F.col("high_ref").alias("ref")),
            "low_ms": F.col("low_time_ms"),
            "log_start": F.when(F.col("high_log_start_offset") >= 0, F.col("high_log_start_offset")),
        }
    )


def _with_process(spans: DataFrame, events: DataFrame) -> DataFrame:
    """Adds process, counted from 0 on each node: a new process begins with the high watermark of its checkpoint."""
    begun = F.filter("process_starts", lambda at: at <= F.coalesce("line.time_ms", "low_ms"))
    joined = spans.join(F.broadcast(process_starts(events)), ["cluster", "node"], "left")
    joined = joined.withColumn("process", F.coalesce(F.size(begun), F.lit(0)))
    return with_identity(joined, topic_incarnations(events)).drop("process_starts")
