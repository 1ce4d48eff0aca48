"""Frame `topics`: every topic id with its name, and the topics that had the name before."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    BROKER_REGISTERED,
    LEADER_AND_ISR,
    PROCESS_STARTING,
    UPDATE_METADATA,
)
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds, of_types
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.incarnations import earlier_ids, later_ids, topic_incarnations
from epochaudit.replay.state.inferred_topic_ids import is_inferred
from epochaudit.replay.state.log_gaps import process_log_gaps, request_log_gaps

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
      deleted_by_name   for each undeleted id, a node that received this one later shows the deletion of a topic of the name in
                        between, by an event without a topic id
      deletion_unplaced  such an event is recorded of a node that has not received both ids
      in_log            this id and all undeleted ones are in the metadata log; log_complete, log_whole as in
                        `cluster_history`
      witness           a broker that received control requests about an undeleted id and about this one, and by its logs each request
                        in between that concerned it (see `_breaks`); null: none
      revived           the metadata log creates the id again after it removed it; revived_ref the record that creates it,
                        removed_ref the one that removed it
      first_name_ref, last_name_ref  statements of the id with the first and the last of its names; null if it has one name
    """
    without_id = (F.size("sightings") == 0) | F.exists("sightings", lambda s: is_inferred(s["topic_id"]))
    identified = topic_incarnations(events).where(
        ((F.col("known_topic_id") == F.col("topic_key")) & ~is_inferred(F.col("topic_key")))
        | (F.col("known_topic_id").isNull() & without_id & F.col("ambiguous_name"))
    )
    log = cluster_history(events).select("cluster", "log_complete", "log_whole")
    rows = identified.join(F.broadcast(log), "cluster", "left").join(F.broadcast(_breaks(events)), "cluster", "left")
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
            "breaks",
            "server_logs",
            "id_refs",
            "deletions",
            "nameless",
        )
    )


def _breaks(events: DataFrame) -> DataFrame:
    """One row per cluster: when a broker may have missed the deletion of a topic, by its own clock.

    Columns: breaks, array of struct(node, from_ms, until_ms): the process started, or files of its request log or server.log are
    missing; it registered anew, as its session had expired: a ZooKeeper controller sends deletions to live brokers only; or a KRaft
    controller took over, which does not learn of topics that were still being deleted (ZkTopicMigrationClient).
    server_logs, array of struct(node, first_ms): of the nodes whose server.log has the starts of their processes.
    """
    event_type, at = F.col("event_type"), F.col("time_ms")
    own = F.coalesce(F.col("broker_id") == F.col("node"), F.lit(True))
    began = of_types(events, PROCESS_STARTING, BROKER_REGISTERED).where((event_type == PROCESS_STARTING) | own)
    began = began.select("cluster", "node", at.alias("from_ms"), at.alias("until_ms"))
    by_kraft = of_types(events, LEADER_AND_ISR, UPDATE_METADATA).where(holds(F.col("is_kraft_controller")))
    taken_over = by_kraft.groupBy("cluster", "node").agg(F.min(at).alias("from_ms"), F.min(at).alias("until_ms"))
    rows = began.unionByName(taken_over)
    for of_log in (request_log_gaps(events), process_log_gaps(events)):
        gaps = of_log.select("cluster", "node", F.inline("gaps")).where(F.col("until_ms") < FOREVER)
        rows = rows.unionByName(gaps.drop("missing"))
    breaks = rows.groupBy("cluster").agg(F.collect_set(F.struct("node", "from_ms", "until_ms")).alias("breaks"))
    logs = process_log_gaps(events).groupBy("cluster")
    return logs.agg(F.collect_list(F.struct("node", "first_ms")).alias("server_logs")).join(breaks, "cluster", "left")


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
    rows = rows.withColumns(
        {
            "before": F.array_sort(before),
            "undeleted_sightings": F.array_sort(undeleted_sightings),
            "nameless": F.filter("deletions", lambda d: d["by_name"] & ~d["of_log"]),
        }
    ).withColumns(_deletions_by_name())
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


def _deletions_by_name() -> dict[str, Column]:
    """Columns about the deletions of the name that state no topic id. Needs: own, undeleted, undeleted_sightings, nameless."""

    def of_former(topic_id: Column, d: Column) -> Column:
        return F.filter("undeleted_sightings", lambda s: (s["topic_id"] == topic_id) & (s["node"] == d["node"]))

    def in_between(topic_id: Column, d: Column) -> Column:
        before = F.exists(of_former(topic_id, d), lambda s: s["since"] <= d["since"])
        return before & F.exists("own", lambda s: (s["node"] == d["node"]) & (d["since"] < s["since"]))

    def placed(topic_id: Column, d: Column) -> Column:
        return (F.size(of_former(topic_id, d)) > 0) & F.exists("own", lambda s: s["node"] == d["node"])

    return {
        "deleted_by_name": F.forall("undeleted", lambda id: F.exists("nameless", lambda d: holds(in_between(id, d)))),
        "deletion_unplaced": F.exists("undeleted", lambda id: F.exists("nameless", lambda d: ~holds(placed(id, d)))),
    }


def _revived(in_log: Column) -> Column:
    """The metadata log has a record of the topic id after its removal."""
    return holds(F.exists(in_log, lambda s: s["until"] > s["deleted"]))


def _witnessed(rows: DataFrame) -> DataFrame:
    """Adds witness."""

    def missed_none(former: Column, later: Column) -> Column:
        own_log = F.exists(
            "server_logs", lambda log: (log["node"] == later["node"]) & (log["first_ms"] <= former["until"])
        )
        between = F.exists(
            "breaks",
            lambda b: (
                (b["node"] == later["node"]) & (b["until_ms"] >= former["until"]) & (b["from_ms"] <= later["since"])
            ),
        )
        return holds(own_log) & ~holds(between)

    def saw_both(later: Column) -> Column:
        return later["controlled"] & F.exists(
            "undeleted_sightings",
            lambda s: (
                s["controlled"] & (s["node"] == later["node"]) & (s["since"] < later["since"]) & missed_none(s, later)
            ),
        )

    return rows.withColumn("witness", F.get(F.filter("own", saw_both), F.lit(0))["node"])
