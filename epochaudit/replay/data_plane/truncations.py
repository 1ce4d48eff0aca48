"""Frame `truncations`: the offsets to which followers truncated their logs, with their own high watermarks.

server.log has the truncations; "starts at leader epoch" lines of state-change.log have the replica's high watermark when it began to
follow. Both logs are of one host and one clock.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import FOLLOWER_TRUNCATING, HIGH_WATERMARK_LOWERED, TRUNCATION_BELOW_HIGH_WATERMARK
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.field_values import NO_LEADER
from epochaudit.replay.data_plane.lineage import epoch_starts
from epochaudit.replay.state.held_epochs import replica_starts
from epochaudit.replay.state.incarnations import topic_incarnations, topic_key, with_identity

TRUNCATION_LINES: Final = (FOLLOWER_TRUNCATING, TRUNCATION_BELOW_HIGH_WATERMARK, HIGH_WATERMARK_LOWERED)

_REPLICA: Final = ("cluster", "node", "topic", "partition")


def truncations(events: DataFrame) -> DataFrame:
    """One row per line of a replica about a truncation or a lower high watermark.

    Needs: the events table. Clock: the node's host; between nodes the leader epoch.
    Columns: the subject columns (node = the replica's, leader_epoch = the last that it began), event_type, reason, ambiguous_name,
    offset (truncated to, or the high watermark after), previous_high_watermark (in the line), diverging_epoch and
    diverging_end_offset (the leader's answer), line_ref, and
      high_watermark, start_offset   the replica's own high watermark and log end offset when it began the epoch; start_ref
      begun_since      lines of the replica may be missing between the start of the epoch and the truncation: it may have begun
                       another epoch
      learned          the high watermark is of the previous epoch: the replica led in it, or began it with a lower one
      previous_epoch   the lower leader epoch that the replica began before; previous_start_ref, its line
      all_clean        every leader epoch above previous_epoch up to this one is recorded, and had no leader or one elected from the
                       ISR
      some_unclean     one of them had another leader; unclean_start: its start offset, the lowest if there are several
      election_ref     the first unclean election of these epochs; if none was, the election of leader_epoch
    A line has no topic id: it is about the topic of the line by which the replica last began a leader epoch. From 4.2 on the log warns
    of a truncation (UnifiedLog.truncateTo) that the fetcher announced just before: that line is left out.
    """
    lines = with_identity(
        of_types(events, *TRUNCATION_LINES).select(
            *_REPLICA, "topic_id", "event_type", "reason", "time_ms", "diverging_epoch", "diverging_end_offset", ref().alias("line_ref"),
            F.when(F.col("event_type") == HIGH_WATERMARK_LOWERED, F.col("high_watermark")).otherwise(F.col("offset")).alias("offset"),
            F.when(F.col("event_type") == HIGH_WATERMARK_LOWERED, F.col("previous_offset")).otherwise(F.col("high_watermark"))
            .alias("previous_high_watermark"),
        ),
        topic_incarnations(events),
    )  # fmt: skip
    begun = F.filter("starts", lambda s: s["from_ms"] <= F.col("time_ms"))
    rows = lines.join(F.broadcast(_replicas(events)), list(_REPLICA), "left").withColumn("begun", begun)
    rows = rows.withColumn("own", F.try_element_at("begun", F.lit(-1))).where(~_announced())
    own = F.col("own")
    lower = F.filter(
        "begun",
        lambda s: (s["leader_epoch"] < own["leader_epoch"]) & s["topic_id"].eqNullSafe(own["topic_id"]),
    )
    rows = rows.withColumns(
        {
            "previous": F.try_element_at(lower, F.lit(-1)),
            "leader_epoch": F.col("own.leader_epoch"),
            "topic_id": F.coalesce("topic_id", "own.topic_id"),
        }
    )
    epochs = F.broadcast(epoch_starts(events).drop("ambiguous_name"))
    rows = rows.withColumn("topic_key", topic_key()).join(epochs, ["cluster", "topic_key", "partition"], "left")
    return (
        _with_elections(rows)
        .withColumns(
            {
                "high_watermark": F.col("own.high_watermark"),
                "start_offset": F.col("own.start_offset"),
                "start_ref": F.col("own.ref"),
                "begun_since": holds(F.col("own.until_ms") < F.col("time_ms")),
                "learned": F.col("previous.is_leader")
                | (F.col("own.high_watermark") > F.col("previous.high_watermark")),
                "previous_epoch": F.col("previous.leader_epoch"),
                "previous_start_ref": F.col("previous.ref"),
                "client_id": F.lit(None).cast("string"),
                "group_id": F.lit(None).cast("string"),
                "correlation_id": F.lit(None).cast("int"),
            }
        )
        .drop("starts", "announced", "begun", "own", "previous", "epochs", "between", "topic_key")
    )


def _announced() -> Column:
    """The replica's fetcher announced the truncation of this line since it began the leader epoch."""
    own, ms = F.col("own"), F.col("time_ms")
    since_ms = F.coalesce(own["from_ms"], F.lit(0))
    same = F.exists("announced", lambda one: (one["offset"] == F.col("offset")) & one["time_ms"].between(since_ms, ms))
    return (F.col("event_type") == TRUNCATION_BELOW_HIGH_WATERMARK) & holds(same)


def _replicas(events: DataFrame) -> DataFrame:
    """One row per replica. starts: the leader epochs that it began, in the order of its log; announced: truncations by its fetcher."""
    start = F.struct(
        "from_ms", "file_order", "byte_offset", "leader_epoch", "is_leader", "high_watermark", "start_offset", "topic_id", "until_ms",
        F.col("own_ref").alias("ref"),
    )  # fmt: skip
    truncation = F.struct("time_ms", "offset").alias("announced")
    begun = replica_starts(events).select(*_REPLICA, start.alias("start"))
    announced = of_types(events, FOLLOWER_TRUNCATING).select(*_REPLICA, truncation)
    lines = begun.unionByName(announced, allowMissingColumns=True)
    return lines.groupBy(*_REPLICA).agg(
        F.array_sort(F.collect_list("start")).alias("starts"), F.collect_set("announced").alias("announced")
    )


def _with_elections(rows: DataFrame) -> DataFrame:
    """Adds all_clean, some_unclean, unclean_start and election_ref. Needs: epochs, previous, leader_epoch."""
    since, until = F.col("previous.leader_epoch"), F.col("leader_epoch")
    between = F.filter("epochs", lambda e: (e["leader_epoch"] > since) & (e["leader_epoch"] <= until))
    last = F.filter("epochs", lambda e: e["leader_epoch"] == until)
    unclean = F.filter("between", lambda e: (e["election"] == "unclean") & (e["leader"] != NO_LEADER))
    first_unclean = F.array_min(F.transform(unclean, lambda e: F.struct(e["leader_epoch"], e["election_ref"])))
    return rows.withColumn("between", between).withColumns(
        {
            "all_clean": (F.size("between") == until - since)
            & F.forall("between", lambda e: (e["leader"] == NO_LEADER) | (e["election"] == "clean")),
            "some_unclean": holds(F.size(unclean) > 0),
            "unclean_start": F.array_min(F.transform(unclean, lambda e: e["start_offset"])),
            "election_ref": F.coalesce(first_unclean["election_ref"], F.get(last, F.lit(0))["election_ref"]),
        }
    )
