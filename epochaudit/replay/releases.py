"""Which Kafka version a node ran at which time: a rolling upgrade inside a capture changes which checks a node makes."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types
from epochaudit.replay.kept import kept

STATED: Final = "manifest"
"""Source of the versions that capture.toml states."""

FOREVER: Final = 2**62
_ALWAYS: Final = -1

_LEADS: Final = ("CONTROLLER_ACTIVE", "RAFT_STATE_CHANGED")


def version_number() -> Column:
    """A version line's `3.9.1` as 3009001; null for what is no version. Needs: value."""
    part = [F.regexp_extract("value", r"^(\d+)\.(\d+)(?:\.(\d+))?", i).try_cast("int") for i in (1, 2, 3)]
    return part[0] * 1_000_000 + part[1] * 1_000 + F.coalesce(part[2], F.lit(0))


@kept
def releases(events: DataFrame) -> DataFrame:
    """One row per (cluster, node) of which a version is known. Clock: the node's host.

    Needs: the events table. Column releases: array of struct(node, version, release, patch, since_ms, until_ms,
    raft_epochs): version 3009001 (release 309, patch 1) ran at since_ms <= t < until_ms and led the quorum in these raft epochs.
    A process tells its version at the end of its start; it holds from the beginning of the process to that of the next.
    A process that tells none, as its start or end is not recorded, has an unknown version. Only where no process was
    seen to start before a version, it holds from the beginning. What capture.toml states holds all the time.
    """
    event_type, source, time_ms = F.col("event_type"), F.col("source"), F.col("time_ms")
    told = (event_type == "KAFKA_VERSION") & (source != STATED) & time_ms.isNotNull()
    leads = (event_type == "CONTROLLER_ACTIVE") | (F.col("name") == "Leader")
    rows = of_types(events, "KAFKA_VERSION", "PROCESS_STARTING", *_LEADS).withColumn("version", version_number())
    nodes = rows.groupBy("cluster", "node").agg(
        F.array_sort(F.collect_set(F.when(event_type == "PROCESS_STARTING", time_ms))).alias("starts"),
        F.array_sort(F.collect_set(F.when(told & F.col("version").isNotNull(), F.struct(time_ms, "version")))).alias(
            "told"
        ),
        F.max(F.when(source == STATED, F.col("version"))).alias("stated"),
        F.collect_set(F.when(event_type.isin(*_LEADS) & leads, F.struct(time_ms, "raft_epoch"))).alias("led"),
    )
    always = _ran(F.col("stated"), F.lit(_ALWAYS).cast("bigint"), F.lit(FOREVER), F.col("led"))
    known = F.when(F.col("stated").isNotNull(), F.array(always)).otherwise(F.transform("told", _span))
    return nodes.select("cluster", "node", known.alias("releases")).where(F.size("releases") > 0)


def _span(line: Column, index: Column) -> Column:
    """How long the version of a line was in force."""
    before = F.coalesce(F.get(F.col("told"), index - 1)["time_ms"], F.lit(_ALWAYS).cast("bigint"))
    own = F.filter("starts", lambda at: (at > before) & (at <= line["time_ms"]))
    first = F.when(index == 0, F.lit(_ALWAYS)).otherwise(line["time_ms"])
    since = F.coalesce(F.array_min(own), first)
    until = F.coalesce(F.array_min(F.filter("starts", lambda at: at > line["time_ms"])), F.lit(FOREVER))
    led = F.filter("led", lambda term: (term["time_ms"] >= since) & (term["time_ms"] < until))
    return _ran(line["version"], since, until, led)


def _ran(version: Column, since_ms: Column, until_ms: Column, led: Column) -> Column:
    return F.struct(
        F.col("node"),
        version.alias("version"),
        (F.floor(version / 1_000_000) * 100 + F.floor(version / 1_000) % 1_000).cast("int").alias("release"),
        (version % 1_000).alias("patch"),
        since_ms.alias("since_ms"),
        until_ms.alias("until_ms"),
        led["raft_epoch"].alias("raft_epochs"),
    )


def releases_at(node: Column | None = None, at_ms: Column | None = None, raft_epoch: Column | None = None) -> Column:
    """Those of `releases` that can have been in force. Needs: releases, of one node or of a whole cluster.

    node: null, all nodes. at_ms: a moment of the node's own clock, null: any. raft_epoch: one that the node led as
    controller, for facts that carry no time of its clock; not used where no line tells in which process it led it.
    """
    possible: Column = F.col("releases")
    if node is not None:
        possible = F.filter(possible, lambda r: node.isNull() | (r["node"] == node))
    if at_ms is not None:
        possible = F.filter(possible, lambda r: at_ms.isNull() | ((r["since_ms"] <= at_ms) & (at_ms < r["until_ms"])))
    if raft_epoch is not None:
        leading = F.filter(possible, lambda r: F.array_contains(r["raft_epochs"], raft_epoch))
        possible = F.when(F.size(leading) > 0, leading).otherwise(possible)
    return possible
