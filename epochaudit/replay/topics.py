"""Frame `topics`: every topic id with the name that it was stated for, and the topics that had the name before."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types
from epochaudit.replay.cluster_history import cluster_history
from epochaudit.replay.incarnations import earlier_ids, later_ids, topic_incarnations
from epochaudit.replay.lives import is_life

_PROCESS: Final = ("PROCESS_STARTING", "KAFKA_VERSION")
_NULLS: Final = {
    "node": "int", "partition": "int", "leader_epoch": "int", "client_id": "string", "group_id": "string",
    "correlation_id": "int",
}  # fmt: skip


def topics(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic id), and per name without any id that stood for several topics, told apart or not.

    Needs: the events table. Clock: position in the metadata log; the clock of each node that knew both of two topics.
    Columns: the subject columns (topic null: nothing names the id; node null), names (distinct ones), first_ref (where the
    id is first stated, in the metadata log if it is there), and
      other_ids         how many other ids the name had
      order_unknown     of some of them nothing tells whether it came before this one, or nodes differ
      undeleted         ids that the name had before, of whose deletion before this one nothing is recorded
      previous_topic_id the first of these, else of all that came before; previous_ref where it is first stated
      deleted_by_name   a topic of the name was deleted, by a fact that states no id
      in_log            this id and all undeleted ones are in the metadata log; log_complete, log_whole as in
                        `cluster_history`
      witness           a broker that took control requests about an undeleted id and about this one, and whose process, by its
                        server.log, did not start in between; null: none
      revived           the metadata log creates the id again after it removed it
    """
    nameless = ~F.col("recreated") | F.exists("sightings", lambda s: is_life(s["topic_id"]))
    known = topic_incarnations(events).where(
        ((F.col("known_topic_id") == F.col("topic_key")) & ~is_life(F.col("topic_key")))
        | (F.col("known_topic_id").isNull() & nameless & F.col("several_incarnations"))
    )
    log = cluster_history(events).select("cluster", "log_complete", "log_whole")
    rows = known.join(F.broadcast(log), "cluster", "left").join(F.broadcast(_processes(events)), "cluster", "left")
    rows = rows.withColumns(
        {
            **{name: F.lit(None).cast(kind) for name, kind in _NULLS.items()},
            "topic": F.col("known_topic"),
            "topic_id": F.col("known_topic_id"),
            "own": F.array_sort(F.filter("sightings", lambda s: s["topic_id"] == F.col("known_topic_id"))),
            "earlier": earlier_ids(F.col("known_topic_id")),
            "later": later_ids(F.col("known_topic_id")),
        }
    )
    return _witnessed(_ordered(rows)).drop(
        "own", "earlier", "later", "sightings", "others", "before", "lived", "started", "told"
    )


def _processes(events: DataFrame) -> DataFrame:
    """One row per cluster: the starts of processes, and the nodes whose server.log tells of any."""
    start = F.when(F.col("event_type") == "PROCESS_STARTING", F.struct("node", "time_ms"))
    rows = of_types(events, *_PROCESS).groupBy("cluster")
    return rows.agg(F.collect_set(start).alias("started"), F.collect_set("node").alias("told"))


def _ordered(rows: DataFrame) -> DataFrame:
    """Adds what came before, and what of it was not deleted."""
    in_log = F.filter("own", lambda s: s["node"].isNull())
    created = F.array_min(in_log["since"])
    others = F.array_distinct(F.filter("sightings", lambda s: s["topic_id"] != F.col("topic_id"))["topic_id"])

    def in_time(s: Column) -> Column:
        return s["deleted"].isNotNull() & (s["node"].isNotNull() | F.coalesce(s["deleted"] < created, F.lit(True)))

    deleted = F.filter("sightings", in_time)["topic_id"]
    rows = rows.withColumns(
        {"others": others, "undeleted": F.array_except("earlier", deleted), "revived": _revived(in_log)}
    )
    before = F.filter("sightings", lambda s: F.array_contains("earlier", s["topic_id"]))
    lived = F.filter(before, lambda s: F.array_contains("undeleted", s["topic_id"]))
    rows = rows.withColumns({"before": F.array_sort(before), "lived": F.array_sort(lived)})
    previous = F.coalesce(F.get("lived", F.lit(0)), F.get("before", F.lit(0)))
    logged = F.filter("lived", lambda s: s["node"].isNull())["topic_id"]
    return rows.withColumns(
        {
            "other_ids": F.size("others"),
            "order_unknown": F.size(F.array_except("others", F.array_union("earlier", "later"))) > 0,
            "previous_topic_id": previous["topic_id"],
            "previous_ref": previous["ref"],
            "first_ref": F.coalesce(F.get("own", F.lit(0)), F.get(F.array_sort("sightings"), F.lit(0)))["ref"],
            "in_log": (F.size(in_log) > 0) & (F.size(F.array_except("undeleted", logged)) == 0),
        }
    )


def _revived(in_log: Column) -> Column:
    return F.coalesce(F.exists(in_log, lambda s: s["until"] > s["deleted"]), F.lit(False))


def _witnessed(rows: DataFrame) -> DataFrame:
    def ran(former: Column, later: Column) -> Column:
        starts = F.exists(
            "started",
            lambda p: (
                (p["node"] == later["node"]) & (p["time_ms"] >= former["until"]) & (p["time_ms"] <= later["since"])
            ),
        )
        return F.array_contains("told", later["node"]) & ~starts

    def saw_both(later: Column) -> Column:
        return later["controlled"] & F.exists(
            "lived",
            lambda s: s["controlled"] & (s["node"] == later["node"]) & (s["since"] < later["since"]) & ran(s, later),
        )

    return rows.withColumn("witness", F.get(F.filter("own", saw_both), F.lit(0))["node"])
