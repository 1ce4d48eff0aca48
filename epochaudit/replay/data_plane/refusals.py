"""Frame `refusals`: fetches that a broker refused again and again, as one row.

After an election, clients and followers fetch from the wrong broker, or in the wrong epoch, until they refresh their metadata: a few
refusals are normal. A requester that is refused in one epoch at one offset for longer than metadata.max.age.ms is stuck.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH
from epochaudit.events.views import PLACE, carried_ref, client_host, holds, of_types
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, with_identity
from epochaudit.replay.state.places import at, of_first, of_last

REDIRECT_ERRORS: Final = (
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.FENCED_LEADER_EPOCH,
    Errors.UNKNOWN_LEADER_EPOCH,
    Errors.UNKNOWN_TOPIC_ID,
)

METADATA_LIVES_MS: Final = 300_000  # metadata.max.age.ms of clients, by default
PAUSE_MS: Final = 30_000  # a refused requester tries again within two seconds: a longer pause ends the run

_REQUESTER: Final = ("cluster", "node", "client_id", "client_host", "replica_id")
_STANDSTILL: Final = (
    *_REQUESTER,
    "topic",
    "topic_id",
    "partition",
    "error_code",
    "current_leader_epoch",
    "fetch_offset",
)


def refused() -> Column:
    """The events of which the frame is made: partitions of Fetch answered with an error that requires new metadata."""
    return (F.col("event_type") == FETCH) & F.col("error_code").isin(*REDIRECT_ERRORS) & F.col("partition").isNotNull()


def refusals(events: DataFrame) -> DataFrame:
    """One row per run of refusals of one client or follower at one broker, at most PAUSE_MS apart.

    Needs: the events table. Clock: the broker's host. Answers are aggregated where they are read.
    A standstill is a sequence of refusals of one partition in one leader epoch at one offset, at most PAUSE_MS apart.
    Columns: the subject columns (node = the broker; topic, topic_id, partition, leader_epoch (null: not stated) and correlation_id
    of the longest standstill), replica_id; of the run codes, refusals (number), partitions (number), run_seconds; of the longest
    standstill api_version, fetch_offset, lasted_ms, lasted_seconds, first_ref, last_ref.
    """
    standstill = F.struct(
        (F.col("last_ms") - F.col("first_ms")).alias("lasted_ms"), "refusals", "topic", "topic_id", "partition", "error_code",
        "current_leader_epoch", "fetch_offset", "correlation_id", "api_version", "first", "last",
    )  # fmt: skip
    before = Window.partitionBy(*_REQUESTER).orderBy("first_ms", "last_ms")
    ended = F.max("last_ms").over(before.rowsBetween(Window.unboundedPreceding, -1))
    apart = holds(F.col("first_ms") > ended + PAUSE_MS)
    runs = (
        _standstills(events)
        .withColumn("run", F.sum(apart.cast("int")).over(before.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*_REQUESTER, "run")
        .agg(
            F.max(standstill).alias("longest"),
            F.sum("refusals").alias("refusals"),
            F.count_distinct(F.struct("topic", "topic_id", "partition")).alias("partitions"),
            F.array_sort(F.collect_set("error_code")).alias("codes"),
            _seconds(F.max("last_ms") - F.min("first_ms")).alias("run_seconds"),
        )
    )
    longest = F.col("longest")
    runs = runs.select(
        "cluster", "node", *(longest[name].alias(name) for name in ("topic", "topic_id", "partition")),
        F.when(longest["current_leader_epoch"] >= 0, longest["current_leader_epoch"]).alias("leader_epoch"), "client_id",
        F.lit(None).cast("string").alias("group_id"),
        longest["correlation_id"].alias("correlation_id"), "replica_id", longest["api_version"].alias("api_version"), "codes",
        "refusals", "partitions", "run_seconds", longest["fetch_offset"].alias("fetch_offset"),
        longest["lasted_ms"].alias("lasted_ms"), _seconds(longest["lasted_ms"]).alias("lasted_seconds"),
        longest["first"]["ref"].alias("first_ref"), longest["last"]["ref"].alias("last_ref"),
    )  # fmt: skip
    return with_identity(runs, topic_incarnations(events))


def _standstills(events: DataFrame) -> DataFrame:
    """One row per standstill: requester, partition, code, leader epoch and offset, with number, first and last refusal.

    Refusals are counted in windows of PAUSE_MS where they are read. Windows without a pause between them are then merged.
    """
    rows = (
        of_types(events, FETCH)
        .where(refused() & is_user_topic())
        .withColumns({"client_host": client_host(), "span": F.floor(F.col("time_ms") / PAUSE_MS)})
    )
    by_file = rows.groupBy(*_STANDSTILL, "span", "file", "file_order").agg(
        F.count(F.lit(1)).alias("refusals"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        *of_first(("correlation_id", "api_version"), at()),
        *of_first(PLACE, at(), "first_"),
        *of_last(PLACE, at(), "last_"),
    )
    first = F.struct("file_order", F.col("first_byte_offset").alias("byte_offset"), carried_ref("first").alias("ref"))
    last = F.struct("file_order", F.col("last_byte_offset").alias("byte_offset"), carried_ref("last").alias("ref"))
    before = Window.partitionBy(*_STANDSTILL).orderBy("first_ms", "last_ms")
    ended = F.max("last_ms").over(before.rowsBetween(Window.unboundedPreceding, -1))
    apart = holds(F.col("first_ms") > ended + PAUSE_MS)
    return (
        by_file.withColumns({"first": first, "last": last})
        .withColumn("nth", F.sum(apart.cast("int")).over(before.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*_STANDSTILL, "nth")
        .agg(
            F.sum("refusals").alias("refusals"),
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
            *of_first(("correlation_id", "api_version"), "first"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        )
    )


def _seconds(milliseconds: Column) -> Column:
    return F.round(milliseconds / 1000, 1)
