"""Frame `epoch_queries`: what brokers were asked about offsets and epochs, with the leader epoch they held, and its lineage.

ListOffsets, OffsetForLeaderEpoch, and since 2.7 each Fetch that states the epoch of the record before its offset: the
leader compares it with its own lineage, and answers where the two diverge.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import ref
from epochaudit.replay.held_epochs import replica_starts, with_held_epochs
from epochaudit.replay.incarnations import is_user_topic, topic_key, topic_keys

BY_TIME: Final = "LIST_OFFSETS"
BY_EPOCH: Final = "OFFSET_FOR_LEADER_EPOCH"
BY_FETCH: Final = "FETCH"
LATEST: Final = -1

_OUT_OF_RANGE: Final = 1
_COLUMNS: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "api_version", "client_id", "correlation_id", "replica_id",
    "isolation_level", "error_code", "current_leader_epoch", "timestamp", "offset", "response_leader_epoch", "arrival_ms",
    "time_ms", "fetch_offset", "last_fetched_epoch", "diverging_epoch", "diverging_end_offset", "log_start_offset", "records_size",
)  # fmt: skip


def epoch_queries(events: DataFrame) -> DataFrame:
    """One row per (ListOffsets or OffsetForLeaderEpoch, partition) that was asked for and answered.

    And one per (Fetch, partition) whose last fetched epoch is another than the leader epoch it is asked in, or that was
    answered with a divergence: in its own epoch a leader has nothing to compare.
    Needs: the events table. Clock: the serving node's host; between nodes the leader epochs.
    Columns: the subject columns (node = the serving broker, leader_epoch = the one it held, null while it changed),
    event_type, api_version, replica_id, isolation_level, timestamp, error_code, current_leader_epoch, asked_epoch (of
    OffsetForLeaderEpoch, last_fetched_epoch of a Fetch), response_leader_epoch and offset (the answer; of a Fetch where the
    logs diverge, -1 if they do not), fetch_offset, log_start_offset, records_size, query_ref, what `with_held_epochs` adds,
    and
      held_start       where the leader epoch held_max starts, by the line held_ref; null if held as a follower
      answered_start   the lowest recorded start of the leader epoch that was answered, with answered_start_ref
      shown            the highest latest offset that any leader of a lower epoch answered a client; shown_ref
    """
    rows = events.where(
        asks() & F.col("in_request") & F.col("in_response") & F.col("partition").isNotNull() & is_user_topic()
    )
    event_type, by_fetch = F.col("event_type"), F.col("event_type") == BY_FETCH
    asked = F.when(event_type == BY_EPOCH, F.col("leader_epoch")).when(by_fetch, F.col("last_fetched_epoch"))
    rows = rows.select(*_COLUMNS, asked.alias("asked_epoch"), ref().alias("query_ref")).withColumns(
        {
            "response_leader_epoch": F.when(by_fetch, F.col("diverging_epoch")).otherwise(
                F.col("response_leader_epoch")
            ),
            "offset": F.when(by_fetch, F.col("diverging_end_offset")).otherwise(F.col("offset")),
        }
    )
    served = with_held_epochs(rows.drop("last_fetched_epoch", "diverging_epoch", "diverging_end_offset"), events)
    certain = F.col("held_complete") & (F.col("held_min") == F.col("held_max"))
    served = served.withColumns(
        {"leader_epoch": F.when(certain, F.col("held_max")), "group_id": F.lit(None).cast("string")}
    )
    known = _starts(events).unionByName(_shown(served), allowMissingColumns=True)
    known = known.groupBy("cluster", "topic_key", "partition").agg(
        F.collect_list("start").alias("starts"), F.collect_list("latest").alias("latest")
    )
    return _with_lineage(
        served.withColumn("topic_key", topic_key()).join(
            F.broadcast(known), ["cluster", "topic_key", "partition"], "left"
        )
    ).drop("topic_key", "starts", "latest", "answered", "highest")


def _starts(events: DataFrame) -> DataFrame:
    """One row per leader's "starts at leader epoch" line and key that the topic can be found by."""
    entry = F.struct("leader_epoch", "start_offset", F.col("own_ref").alias("ref"))
    return (
        replica_starts(events)
        .where(F.col("is_leader") & F.col("start_offset").isNotNull())
        .select("cluster", "partition", F.explode(topic_keys()).alias("topic_key"), entry.alias("start"))
    )


def _shown(served: DataFrame) -> DataFrame:
    """One row per latest offset that a leader answered a client: the high watermark, or the last stable offset below it."""
    entry = F.struct("offset", "leader_epoch", F.col("query_ref").alias("ref"))
    return served.where(
        asks_latest() & (F.col("error_code") == 0) & F.col("leader_epoch").isNotNull() & F.col("held_leader")
    ).select("cluster", "partition", topic_key().alias("topic_key"), entry.alias("latest"))


def _with_lineage(rows: DataFrame) -> DataFrame:
    own = F.filter("starts", lambda s: s["ref"] == F.col("held_ref"))
    of_answered = F.filter("starts", lambda s: s["leader_epoch"] == F.col("response_leader_epoch"))
    lower = F.filter("latest", lambda a: a["leader_epoch"] < F.col("leader_epoch"))
    return rows.withColumns(
        {
            "held_start": F.get(own, F.lit(0))["start_offset"],
            "answered": F.array_min(F.transform(of_answered, lambda s: F.struct(s["start_offset"], s["ref"]))),
            "highest": F.array_max(lower),
        }
    ).withColumns(
        {
            "answered_start": F.col("answered.start_offset"),
            "answered_start_ref": F.col("answered.ref"),
            "shown": F.col("highest.offset"),
            "shown_ref": F.col("highest.ref"),
        }
    )


def asks() -> Column:
    """The events of which the frame is made."""
    last = F.col("last_fetched_epoch")
    compared = (F.col("diverging_epoch") >= 0) | ~last.eqNullSafe(F.col("current_leader_epoch"))
    fetched = (F.col("event_type") == BY_FETCH) & (last >= 0) & F.col("error_code").isin(0, _OUT_OF_RANGE) & compared
    return F.col("event_type").isin(BY_TIME, BY_EPOCH) | F.coalesce(fetched, F.lit(False))


def asks_latest() -> Column:
    """A consumer's ListOffsets for the latest offset."""
    return (
        (F.col("event_type") == BY_TIME) & (F.col("timestamp") == LATEST) & (F.coalesce("replica_id", F.lit(-1)) == -1)
    )


def at_a_leader() -> Column:
    """The broker answered as leader, or may have: it led in the newest epoch that it held, or only led, or nothing is known."""
    return F.col("held_start").isNotNull() | F.coalesce("held_leader", F.lit(True))


def judged_in() -> Column:
    """The leader epoch in which a served Fetch was judged: the one it states, as the fence lets no other pass."""
    stated = F.when(F.col("current_leader_epoch") == F.col("held_max"), F.col("held_max"))
    return F.coalesce(stated, F.col("leader_epoch"))
