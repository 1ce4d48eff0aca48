"""Frame `topics`: every topic id with its name, and the topics that had the name before."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import KAFKA_VERSION, PROCESS_STARTING
from epochaudit.events.views import of_types
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.incarnations import earlier_ids, later_ids, topic_incarnations
from epochaudit.replay.state.inferred_topic_ids import is_inferred
from epochaudit.replay.state.log_gaps import request_log_gaps

_GAP: Final = "gap"
_PROCESS: Final = (PROCESS_STARTING, KAFKA_VERSION)
_NULLS: Final = {
    "node": "int", "partition": "int", "leader_epoch": "int", "client_id": "string", "group_id": "string",
    "correlation_id": "int",
}  # fmt: skip


def topics(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic id), and per name without ids that stood for several topics, inferred or not.

    Needs: the events table. Clock: position in the metadata log; the clock of each node that has both of two topics.
    Columns: the subject columns (topic is null if the id has no recorded name; node is null), and
      names             the distinct names of the id
      first_ref         the first statement of the id; that of the metadata log, if it has one
      other_ids         number of other ids that the name had
      order_unknown     for some of them, no node shows whether it preceded this one, or nodes differ
      undeleted         earlier ids of the name, without a recorded deletion before this one
      previous_topic_id the first of these, else of all earlier ids; previous_ref its first statement
      deleted_by_name   a topic of the name was deleted, by an event without a topic id
      in_log            this id and all undeleted ones are in the metadata log; log_complete, log_whole as in
                        `cluster_history`
      witness           a broker that received control requests about an undeleted id and about this one, and whose process, by its
                        server.log, did not start in between; null: none
      revived           the metadata log creates the id again after it removed it; revived_ref the record that creates it,
                        removed_ref the one that removed it
      first_name_ref, last_name_ref  statements of the id with the first and the last of its names; null if it has one name
    """
    without_id = ~F.col("recreated") | F.exists("sightings", lambda s: is_inferred(s["topic_id"]))
    identified = topic_incarnations(events).where(
        ((F.col("known_topic_id") == F.col("topic_key")) & ~is_inferred(F.col("topic_key")))
        | (F.col("known_topic_id").isNull() & without_id & F.col("ambiguous_name"))
    )
    log = cluster_history(events).select("cluster", "log_complete", "log_whole")
    rows = identified.join(F.broadcast(log), "cluster", "left").join(F.broadcast(_processes(events)), "cluster", "left")
    rows = rows.withColumns(
        {
            **{name: F.lit(None).cast(kind) for name, kind in _NULLS.items()},
            "topic": F.col("known_topic"),
            "topic_id": F.col("known_topic_id"),
            "own": F.array_sort(F.filter("sightings", lambda s: s["topic_id"] == F.col("known_topic_id"))),
            "earlier": earlier_ids(F.col("known_topic_id")),
            **{
                f"{name}_ref": F.when(F.size("names") > 1, F.col("id_refs")[name])
                for name in ("first_name", "last_name")
            },
            "later": later_ids(F.col("known_topic_id")),
        }
    )
    return (
        rows.transform(_ordered)
        .transform(_witnessed)
        .drop(
            "own",
            "earlier",
            "later",
            "sightings",
            "other_topic_ids",
            "before",
            "undeleted_sightings",
            "started",
            "logged_nodes",
            "id_refs",
        )
    )


def _processes(events: DataFrame) -> DataFrame:
    """One row per cluster: started, the starts of processes, and logged_nodes, the nodes whose server.log has any.

    started also has the times at which request logs go on after missing files: a deletion may be missing, too.
    """
    event_type = F.col("event_type")
    lines = of_types(events, *_PROCESS).select("cluster", "node", "time_ms", "event_type")
    gaps = request_log_gaps(events).select("cluster", "node", F.inline("gaps"))
    gaps = gaps.withColumns({"time_ms": F.col("until_ms"), "event_type": F.lit(_GAP)})
    start = F.when(event_type.isin(PROCESS_STARTING, _GAP), F.struct("node", "time_ms"))
    logged = F.when(event_type != _GAP, F.col("node"))
    rows = lines.unionByName(gaps.select(*lines.columns)).groupBy("cluster")
    return rows.agg(F.collect_set(start).alias("started"), F.collect_set(logged).alias("logged_nodes"))


def _ordered(rows: DataFrame) -> DataFrame:
    """Adds the earlier topics of the name, and those of them that were not deleted."""
    in_log = F.filter("own", lambda s: s["node"].isNull())
    created = F.array_min(in_log["since"])
    other_topic_ids = F.array_distinct(F.filter("sightings", lambda s: s["topic_id"] != F.col("topic_id"))["topic_id"])

    def in_time(s: Column) -> Column:
        return s["deleted"].isNotNull() & (s["node"].isNotNull() | F.coalesce(s["deleted"] < created, F.lit(True)))

    deleted = F.filter("sightings", in_time)["topic_id"]
    rows = rows.withColumns(
        {
            "other_topic_ids": other_topic_ids,
            "undeleted": F.array_except("earlier", deleted),
            "revived": _revived(in_log),
        }
    )
    before = F.filter("sightings", lambda s: F.array_contains("earlier", s["topic_id"]))
    undeleted_sightings = F.filter(before, lambda s: F.array_contains("undeleted", s["topic_id"]))
    rows = rows.withColumns({"before": F.array_sort(before), "undeleted_sightings": F.array_sort(undeleted_sightings)})
    previous = F.coalesce(F.get("undeleted_sightings", F.lit(0)), F.get("before", F.lit(0)))
    logged = F.filter("undeleted_sightings", lambda s: s["node"].isNull())["topic_id"]
    return rows.withColumns(
        {
            "other_ids": F.size("other_topic_ids"),
            "removed_ref": F.when(F.col("revived"), F.col("id_refs.removed")),
            "revived_ref": F.when(F.col("revived"), F.col("id_refs.created")),
            "order_unknown": F.size(F.array_except("other_topic_ids", F.array_union("earlier", "later"))) > 0,
            "previous_topic_id": previous["topic_id"],
            "previous_ref": previous["ref"],
            "first_ref": F.coalesce(F.get("own", F.lit(0)), F.get(F.array_sort("sightings"), F.lit(0)))["ref"],
            "in_log": (F.size(in_log) > 0) & (F.size(F.array_except("undeleted", logged)) == 0),
        }
    )


def _revived(in_log: Column) -> Column:
    """The metadata log has a record of the topic id after its removal."""
    return F.coalesce(F.exists(in_log, lambda s: s["until"] > s["deleted"]), F.lit(False))


def _witnessed(rows: DataFrame) -> DataFrame:
    """Adds witness."""

    def ran_throughout(former: Column, later: Column) -> Column:
        starts = F.exists(
            "started",
            lambda p: (
                (p["node"] == later["node"]) & (p["time_ms"] >= former["until"]) & (p["time_ms"] <= later["since"])
            ),
        )
        return F.array_contains("logged_nodes", later["node"]) & ~starts

    def saw_both(later: Column) -> Column:
        return later["controlled"] & F.exists(
            "undeleted_sightings",
            lambda s: (
                s["controlled"]
                & (s["node"] == later["node"])
                & (s["since"] < later["since"])
                & ran_throughout(s, later)
            ),
        )

    return rows.withColumn("witness", F.get(F.filter("own", saw_both), F.lit(0))["node"])
