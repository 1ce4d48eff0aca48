"""Which Kafka version a node ran at which time. A rolling upgrade within a capture changes the checks that a node makes."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import CONTROLLER_ACTIVE, KAFKA_VERSION, PROCESS_STARTING, RAFT_STATE_CHANGED
from epochaudit.events.times import FOREVER
from epochaudit.events.views import of_types
from epochaudit.kafka.releases import MAJOR, MINOR, VERSION
from epochaudit.spark.memo import checkpointed

STATED: Final = "manifest"
"""`source` of events from capture.toml."""

_ALWAYS: Final = -1

_LEADS: Final = (CONTROLLER_ACTIVE, RAFT_STATE_CHANGED)


def version_number() -> Column:
    """The version `3.9.1` of a line as 3009001; null if it is no version. Needs: value."""
    part = [F.regexp_extract("value", VERSION, i).try_cast("int") for i in (1, 2, 3)]
    return part[0] * MAJOR + part[1] * MINOR + F.coalesce(part[2], F.lit(0))


@checkpointed
def releases(events: DataFrame) -> DataFrame:
    """One row per (cluster, node) with a known version. Clock: the node's host.

    Needs: the events table. Column releases: array of struct(node, version, since_ms, until_ms, raft_epochs): version 3009001
    (3.9.1) ran at since_ms <= t < until_ms and led the quorum in these Raft epochs.
    A process logs its version at the end of its start. The version holds from the start of the process to that of the next one.
    A process without a version line has an unknown version. The first version holds from the beginning, if no start of a process
    is recorded before it. A version in capture.toml holds all the time.
    """
    event_type, source, time_ms = F.col("event_type"), F.col("source"), F.col("time_ms")
    versions = (event_type == KAFKA_VERSION) & (source != STATED) & time_ms.isNotNull()
    leads = (event_type == CONTROLLER_ACTIVE) | (F.col("name") == "Leader")
    rows = of_types(events, KAFKA_VERSION, PROCESS_STARTING, *_LEADS).withColumn("version", version_number())
    nodes = rows.groupBy("cluster", "node").agg(
        F.array_sort(F.collect_set(F.when(event_type == PROCESS_STARTING, time_ms))).alias("starts"),
        F.array_sort(
            F.collect_set(F.when(versions & F.col("version").isNotNull(), F.struct(time_ms, "version")))
        ).alias("versions"),
        F.max(F.when(source == STATED, F.col("version"))).alias("stated"),
        F.collect_set(F.when(event_type.isin(*_LEADS) & leads, F.struct(time_ms, "raft_epoch"))).alias("led_epochs"),
    )
    always = _release(F.col("stated"), F.lit(_ALWAYS).cast("bigint"), F.lit(FOREVER), F.col("led_epochs"))
    known = F.when(F.col("stated").isNotNull(), F.array(always)).otherwise(F.transform("versions", _release_of_line))
    return nodes.select("cluster", "node", known.alias("releases")).where(F.size("releases") > 0)


def _release_of_line(line: Column, index: Column) -> Column:
    """The release of a version line: it holds from the start of its process to the next start."""
    previous_ms = F.coalesce(F.get(F.col("versions"), index - 1)["time_ms"], F.lit(_ALWAYS).cast("bigint"))
    starts_before_line = F.filter("starts", lambda at: (at > previous_ms) & (at <= line["time_ms"]))
    first = F.when(index == 0, F.lit(_ALWAYS)).otherwise(line["time_ms"])
    since = F.coalesce(F.array_min(starts_before_line), first)
    until = F.coalesce(F.array_min(F.filter("starts", lambda at: at > line["time_ms"])), F.lit(FOREVER))
    led_epochs = F.filter("led_epochs", lambda epoch: (epoch["time_ms"] >= since) & (epoch["time_ms"] < until))
    return _release(line["version"], since, until, led_epochs)


def _release(version: Column, since_ms: Column, until_ms: Column, led_epochs: Column) -> Column:
    return F.struct(
        F.col("node"),
        version.alias("version"),
        since_ms.alias("since_ms"),
        until_ms.alias("until_ms"),
        led_epochs["raft_epoch"].alias("raft_epochs"),
    )


def releases_at(node: Column | None = None, at_ms: Column | None = None, raft_epoch: Column | None = None) -> Column:
    """The entries of `releases` that can have been in force. Needs: releases, of one node or of a whole cluster.

    node: null means all nodes. at_ms: a time of the node's own clock; null means any. raft_epoch: a Raft epoch that the node led
    as controller, for facts without a time of its clock; ignored if no line shows which process led it.
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
