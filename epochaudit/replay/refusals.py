"""Frame `refusals`: fetches that a broker refused over and over, told as one.

After each election clients and followers come to the wrong broker, or in the wrong epoch, until their metadata is newer: some
refusals, and then none. One that is refused in the same epoch at the same offset for longer than metadata lives is stuck.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import PLACE, carried_ref, client_host
from epochaudit.replay.incarnations import is_user_topic

NOT_LEADER: Final = 6
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNKNOWN_TOPIC_ID: Final = 100
LOST: Final = (NOT_LEADER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID)

METADATA_LIVES_MS: Final = 300_000  # metadata.max.age.ms of clients, by default

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
    """A Fetch's answer for a partition that sends the requester away."""
    return (F.col("event_type") == "FETCH") & F.col("error_code").isin(*LOST) & F.col("partition").isNotNull()


def refusals(events: DataFrame) -> DataFrame:
    """One row per run of refusals of one client or follower at one broker, at most METADATA_LIVES_MS apart.

    Needs: the events table. Clock: the broker's host. Answers are aggregated where they are read.
    Columns: the subject columns (node = the broker; topic, topic_id, partition, leader_epoch and correlation_id of the
    longest standstill: refused in one leader epoch at one offset), replica_id, api_version, codes, refusals, partitions,
    run_seconds (of the run), fetch_offset, lasted_ms, lasted_seconds, first_ref and last_ref (of the longest standstill).
    """
    stood = F.struct(
        (F.col("last_ms") - F.col("first_ms")).alias("lasted_ms"), "refusals", "topic", "topic_id", "partition", "error_code",
        "current_leader_epoch", "fetch_offset", "correlation_id", "api_version", "first", "last",
    )  # fmt: skip
    before = Window.partitionBy(*_REQUESTER).orderBy("first_ms", "last_ms")
    ended = F.max("last_ms").over(before.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.coalesce(F.col("first_ms") > ended + METADATA_LIVES_MS, F.lit(False))
    runs = (
        _standstills(events)
        .withColumn("run", F.sum(apart.cast("int")).over(before.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*_REQUESTER, "run")
        .agg(
            F.max(stood).alias("longest"),
            F.sum("refusals").alias("refusals"),
            F.count_distinct("topic", "topic_id", "partition").alias("partitions"),
            F.array_sort(F.collect_set("error_code")).alias("codes"),
            _seconds(F.max("last_ms") - F.min("first_ms")).alias("run_seconds"),
        )
    )
    longest = F.col("longest")
    return runs.select(
        "cluster", "node", *(longest[name].alias(name) for name in ("topic", "topic_id", "partition")),
        longest["current_leader_epoch"].alias("leader_epoch"), "client_id", F.lit(None).cast("string").alias("group_id"),
        longest["correlation_id"].alias("correlation_id"), "replica_id", longest["api_version"].alias("api_version"), "codes",
        "refusals", "partitions", "run_seconds", longest["fetch_offset"].alias("fetch_offset"),
        longest["lasted_ms"].alias("lasted_ms"), _seconds(longest["lasted_ms"]).alias("lasted_seconds"),
        longest["first"]["ref"].alias("first_ref"), longest["last"]["ref"].alias("last_ref"),
    )  # fmt: skip


def _standstills(events: DataFrame) -> DataFrame:
    """One row per requester, partition, code, leader epoch and offset: when it was refused first and last, and how often."""
    rows = events.where(refused() & is_user_topic()).withColumn("client_host", client_host())
    at = F.col("byte_offset")
    by_file = rows.groupBy(*_STANDSTILL, "file", "file_order").agg(
        F.count(F.lit(1)).alias("refusals"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        F.min_by("correlation_id", at).alias("correlation_id"),
        F.min_by("api_version", at).alias("api_version"),
        *(F.min_by(name, at).alias(f"first_{name}") for name in PLACE),
        *(F.max_by(name, at).alias(f"last_{name}") for name in PLACE),
    )
    first = F.struct("file_order", F.col("first_byte_offset").alias("byte_offset"), carried_ref("first").alias("ref"))
    last = F.struct("file_order", F.col("last_byte_offset").alias("byte_offset"), carried_ref("last").alias("ref"))
    return (
        by_file.withColumns({"first": first, "last": last})
        .groupBy(*_STANDSTILL)
        .agg(
            F.sum("refusals").alias("refusals"),
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
            F.min_by("correlation_id", "first").alias("correlation_id"),
            F.min_by("api_version", "first").alias("api_version"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        )
    )


def _seconds(milliseconds: Column) -> Column:
    return F.round(milliseconds / 1000, 1)
