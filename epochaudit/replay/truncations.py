"""Frame `truncations`: where followers truncated their logs, and how their own high watermark stood to it.

Lines of server.log tell of truncations, "starts at leader epoch" lines of state-change.log the replica's high watermark when
it began to follow: two logs of one host and one clock.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.held_epochs import replica_starts
from epochaudit.replay.incarnations import topic_incarnations, topic_key, with_identity
from epochaudit.replay.lineage import epoch_starts

TRUNCATING: Final = "FOLLOWER_TRUNCATING"
BELOW: Final = "TRUNCATION_BELOW_HIGH_WATERMARK"
LOWERED: Final = "HIGH_WATERMARK_LOWERED"
TRUNCATION_LINES: Final = (TRUNCATING, BELOW, LOWERED)

_REPLICA: Final = ("cluster", "node", "topic", "partition")


def truncations(events: DataFrame) -> DataFrame:
    """One row per line of a replica that tells of a truncation, or of its high watermark going back.

    Needs: the events table. Clock: the node's host; between nodes the leader epoch.
    Columns: the subject columns (node = the replica's, leader_epoch = the last that it had begun), event_type, reason,
    several_incarnations, offset (truncated to, or the high watermark after), told_high_watermark (of the line: the one
    before), diverging_epoch and diverging_end_offset (the leader's answer), line_ref, and
      high_watermark, start_offset   the replica's own, and the end of its log, when it began the epoch; start_ref
      learned          the high watermark stems from the epoch before: it led in it, or had a lower one at its beginning
      previous_epoch   the leader epoch that the replica had begun before, lower than this one
      all_clean        every leader epoch above previous_epoch up to this one is recorded, and had no leader or one that was
                       elected from the ISR; some_unclean: one up to this one, however old, had another
      election_ref     the election of the last epoch
    """
    lines = with_identity(
        of_types(events, *TRUNCATION_LINES).select(
            *_REPLICA, "topic_id", "event_type", "reason", "time_ms", "diverging_epoch", "diverging_end_offset", ref().alias("line_ref"),
            F.when(F.col("event_type") == LOWERED, F.col("high_watermark")).otherwise(F.col("offset")).alias("offset"),
            F.when(F.col("event_type") == LOWERED, F.col("previous_offset")).otherwise(F.col("high_watermark"))
            .alias("told_high_watermark"),
        ),
        topic_incarnations(events),
    )  # fmt: skip
    begun = F.filter("starts", lambda s: s["from_ms"] <= F.col("time_ms"))
    rows = lines.join(F.broadcast(_starts(events)), list(_REPLICA), "left").withColumn("begun", begun)
    rows = rows.withColumn("own", F.try_element_at("begun", F.lit(-1)))
    lower = F.filter("begun", lambda s: s["leader_epoch"] < F.col("own.leader_epoch"))
    rows = rows.withColumns({"previous": F.try_element_at(lower, F.lit(-1)), "leader_epoch": F.col("own.leader_epoch")})
    epochs = F.broadcast(epoch_starts(events).drop("several_incarnations"))
    rows = rows.withColumn("topic_key", topic_key()).join(epochs, ["cluster", "topic_key", "partition"], "left")
    return (
        _with_elections(rows)
        .withColumns(
            {
                "high_watermark": F.col("own.high_watermark"),
                "start_offset": F.col("own.start_offset"),
                "start_ref": F.col("own.ref"),
                "learned": F.col("previous.is_leader")
                | (F.col("own.high_watermark") > F.col("previous.high_watermark")),
                "previous_epoch": F.col("previous.leader_epoch"),
                "client_id": F.lit(None).cast("string"),
                "group_id": F.lit(None).cast("string"),
                "correlation_id": F.lit(None).cast("int"),
            }
        )
        .drop("starts", "begun", "own", "previous", "epochs", "between", "topic_key")
    )


def _starts(events: DataFrame) -> DataFrame:
    """One row per replica: all the leader epochs that it began, in the order of its log."""
    start = F.struct(
        "from_ms", "file_order", "byte_offset", "leader_epoch", "is_leader", "high_watermark", "start_offset",
        F.col("own_ref").alias("ref"),
    )  # fmt: skip
    return replica_starts(events).groupBy(*_REPLICA).agg(F.array_sort(F.collect_list(start)).alias("starts"))


def _with_elections(rows: DataFrame) -> DataFrame:
    since, until = F.col("previous.leader_epoch"), F.col("leader_epoch")
    between = F.filter("epochs", lambda e: (e["leader_epoch"] > since) & (e["leader_epoch"] <= until))
    last = F.filter("epochs", lambda e: e["leader_epoch"] == until)
    return rows.withColumn("between", between).withColumns(
        {
            "all_clean": (F.size("between") == until - since)
            & F.forall("between", lambda e: (e["leader"] == -1) | (e["election"] == "clean")),
            "some_unclean": F.exists(
                "epochs",
                lambda e: (e["leader_epoch"] <= until) & (e["election"] == "unclean") & (e["leader"] != -1),
            ),
            "election_ref": F.get(last, F.lit(0))["election_ref"],
        }
    )
