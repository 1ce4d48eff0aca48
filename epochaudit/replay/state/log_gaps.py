"""Where files are missing in the middle of a node's logs, by the numbers of the rotated ones."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import KAFKA_VERSION, PROCESS_STARTING
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds
from epochaudit.spark.memo import checkpointed

OF_LINES: Final = ("state_change_log", "server_log")
OF_STATE: Final = (*OF_LINES, "request_log")

_LONGEST_SILENCE_MS: Final = 60_000
"""While a broker runs, requests come more often, if only for metadata. While it shuts down, it writes lines, but answers none."""


def gaps_so_far(up_to_here: WindowSpec, sources: Collection[str] = OF_STATE) -> Column:
    """How many times files of these logs of a node are missing up to a row: what precedes the last of these gaps is not known.

    Needs: source, gaps_before. up_to_here: a node's rows in order, up to the current one.
    """
    gaps = (F.max(F.when(F.col("source") == source, F.col("gaps_before"))).over(up_to_here) for source in sources)
    return reduce(add, (F.coalesce(count, F.lit(0)) for count in gaps))


@checkpointed
def request_log_gaps(events: DataFrame) -> DataFrame:
    """One row per node with a request log. Clock: the node's host.

    Needs: the events table. Columns: cluster, node, first_ms and last_ms (the first and the last time in the log), and gaps, array of
    struct(from_ms, until_ms, missing): the last time before missing files, and the first one after them; FOREVER after the last file.
    missing: files are missing there, by their numbers; false where the log just ends.
    """
    return _gaps(_without_gaps(_of_source(events, "request_log")))


@checkpointed
def server_log_gaps(events: DataFrame) -> DataFrame:
    """One row per node with a server.log. Clock: the node's host.

    Needs: the events table. Columns: as `request_log_gaps`, but gaps without the time after the last file, unless a newer one is
    missing: a log may be quiet for hours.
    """
    return _gaps_of_lines(events, "server_log")


@checkpointed
def state_change_log_gaps(events: DataFrame) -> DataFrame:
    """One row per node with a state-change.log. Clock: the node's host. Needs the events table. Columns: as `server_log_gaps`."""
    return _gaps_of_lines(events, "state_change_log")


def _gaps_of_lines(events: DataFrame, source: str) -> DataFrame:
    runs = _without_gaps(_of_source(events, source))
    return _gaps(runs.withColumn("gap", F.when(F.col("gap.missing"), F.col("gap"))))


@checkpointed
def process_log_gaps(events: DataFrame) -> DataFrame:
    """One row per node and log in which starts of its process are recorded. Clock: the node's host.

    Needs: the events table. Columns: cluster, node, log (the file's name without what rotation adds), and first_ms and gaps as in
    `request_log_gaps`. Lines of other logs, as controller.log, have the same source.
    """
    name = F.regexp_extract("file", r"(?:[^/]*~)?([^/~]*?\.log)[^/]*$", 1)
    rows = _of_source(events, "server_log").withColumn("log", F.when(name != "", name).otherwise(F.col("file")))
    starts = rows.where(F.col("event_type").isin(PROCESS_STARTING, KAFKA_VERSION))
    with_starts = starts.select("cluster", "node", "log").distinct()
    gaps = _gaps(_without_gaps(rows, "log"), "log")
    return gaps.join(F.broadcast(with_starts), ["cluster", "node", "log"], "left_semi")


def _of_source(events: DataFrame, source: str) -> DataFrame:
    return events.where((F.col("source") == source) & F.col("node").isNotNull())


def _without_gaps(rows: DataFrame, *of_log: str) -> DataFrame:
    """One row per log and run of its files, none of which is missing. of_log: columns that with the node name a log.

    Columns: cluster, node, of_log, first_ms, and gap, struct(from_ms, until_ms, missing): the time until the next run.
    """
    log = ("cluster", "node", *of_log)
    runs = rows.groupBy(*log, F.coalesce("gaps_before", F.lit(0)).alias("gaps_so_far")).agg(
        F.min(F.least("time_ms", "arrival_ms")).alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        F.max(holds(F.col("newer_missing"))).alias("newer_missing"),
    )
    following = F.lead("first_ms", 1, FOREVER).over(Window.partitionBy(*log).orderBy("gaps_so_far"))
    runs = runs.withColumn("until_ms", following)
    missing = F.col("newer_missing") | (F.col("until_ms") < FOREVER)
    return runs.withColumn("gap", F.struct(F.col("last_ms").alias("from_ms"), "until_ms", missing.alias("missing")))


def _gaps(runs: DataFrame, *of_log: str) -> DataFrame:
    """One row per log: first_ms, last_ms, and gaps, the array of its runs' gaps that are not null."""
    return runs.groupBy("cluster", "node", *of_log).agg(
        F.min("first_ms").alias("first_ms"), F.max("last_ms").alias("last_ms"), F.collect_list("gap").alias("gaps")
    )


def gap_between(from_ms: Column, until_ms: Column) -> Column:
    """Whether files of a node's log are missing between these times of its host, or after its end. Needs: gaps."""
    return holds(F.exists("gaps", lambda gap: _overlaps(gap, from_ms, until_ms)))


def _overlaps(gap: Column, from_ms: Column, until_ms: Column) -> Column:
    return (gap["until_ms"] > from_ms) & (gap["from_ms"] < until_ms)


def lines_recorded(from_ms: Column, until_ms: Column) -> Column:
    """Whether a node's log begins before the first of these times of its host, and lacks no file up to the second.

    Needs: first_ms and gaps of `server_log_gaps` or `state_change_log_gaps`.
    """
    gap = F.exists("gaps", lambda gap: _overlaps(gap, from_ms, until_ms))
    return holds((F.col("first_ms") <= from_ms) & ~gap)


@checkpointed
def request_logs(events: DataFrame) -> DataFrame:
    """One row per cluster: request_logs, array of struct(node, first_ms, last_ms, gaps, ran_on), for `covered`.

    All but ran_on are those of `request_log_gaps`. ran_on: the node's other logs go on for more than _LONGEST_SILENCE_MS after last_ms.
    The broker ran on, but its requests were not logged, or that log was copied before the others.
    """
    logs = request_log_gaps(events)
    for name, others in (("states_ms", state_change_log_gaps(events)), ("server_ms", server_log_gaps(events))):
        ends = others.select("cluster", "node", F.col("last_ms").alias(name))
        logs = logs.join(F.broadcast(ends), ["cluster", "node"], "left")
    others_end_ms = F.greatest("states_ms", "server_ms")  # passes over a null
    logs = logs.withColumn("ran_on", holds(others_end_ms > F.col("last_ms") + _LONGEST_SILENCE_MS))
    log = F.struct("node", "first_ms", "last_ms", "gaps", "ran_on")
    return logs.groupBy("cluster").agg(F.collect_list(log).alias("request_logs"))


def covered(node: Column, from_ms: Column, until_ms: Column) -> Column:
    """Whether a node's request log is recorded from the first to the second of these times of its host. Needs: request_logs.

    A log that ends between the two counts, as the broker may have stopped, unless a newer file is missing or the broker ran on, if only
    after a restart: then its log did not end with it.
    """

    def records(log: Column) -> Column:
        reaches = (until_ms <= log["last_ms"]) | ~log["ran_on"]
        return from_ms.between(log["first_ms"], log["last_ms"]) & reaches

    recorded = F.exists("request_logs", lambda log: (log["node"] == node) & records(log))
    return holds(recorded) & ~files_missing(node, from_ms, until_ms)


def files_missing(node: Column, from_ms: Column, until_ms: Column) -> Column:
    """Whether files of a node's request log are missing between these times of its host, by their numbers. Needs: request_logs."""

    def lacks(gap: Column) -> Column:
        return gap["missing"] & _overlaps(gap, from_ms, until_ms)

    lacking = F.exists("request_logs", lambda log: (log["node"] == node) & F.exists(log["gaps"], lacks))
    return holds(lacking)
