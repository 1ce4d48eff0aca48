"""Frame `simple_commits`: commits that name no generation, with the members that their group had at the time.

Consumers that assign partitions to themselves, and kafka-consumer-groups.sh --reset-offsets, commit so. A coordinator accepts it only while
the group has no member. Clock: the coordinator's host.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, SYNC_GROUP
from epochaudit.events.times import SLACK_MS
from epochaudit.events.views import holds, of_types
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.commits import COMMITS
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS, with_coordinator_log
from epochaudit.replay.data_plane.group_generations import classic_joins, has_classic_id
from epochaudit.replay.state.filtered_logs import with_filtered
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, of_last, then_by_place, with_refs

_GROUP: Final = ("cluster", "node", "group_id")
_COMMIT: Final = (*_GROUP, "client_id", "error_code", "enclosed")
_FIRST: Final = (*PLACE_OF_NODE, "correlation_id", "arrival_ms", "generation_id")


def is_simple_commit() -> Column:
    """The commit names no generation. Version 0 has none, and older brokers write it to ZooKeeper."""
    return (F.col("event_type") == OFFSET_COMMIT) & (F.col("generation_id") < 0) & (F.col("api_version") >= 1)


def simple_commits(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, client id, error code, enclosed): the first such commit.

    Needs: the events table. Commits are aggregated where they are read.
    Columns: the subject columns (node = the coordinator; client_id and correlation_id of the commit), error_code, commit_ref, and
      enclosed         the coordinator accepted commits of a member in one generation before it and after it, a second apart at least:
                       the group had that member in between. A member that left does not come back with its id
      member_id        that member; member_generation: its generation; before_ref, its first commit in the generation; after_ref, its last
      has_members      the coordinator's log has a member of the group, at any time
      filtered         the coordinator's log leaves out requests on purpose, see `with_filtered`
      coordinator_log, lossy_election_ref, lossy_isr_ref   see `with_coordinator_log`: of __consumer_offsets
    """
    rows = of_types(events, OFFSET_COMMIT).where(
        is_simple_commit() & F.col("group_id").isNotNull() & F.col("error_code").isNotNull()
    )
    groups = rows.select(*_GROUP).distinct()
    spans = _member_spans(events, groups)
    times = spans.select(*_GROUP, F.lit(True).alias("within"), "since_ms", "until_ms")
    rows = rows.withColumn("at", at()).alias("rows").join(F.broadcast(times).alias("spans"), _within("rows"), "left")
    rows = rows.select("rows.*", holds(F.col("within")).alias("enclosed"))
    found = rows.groupBy(*_COMMIT).agg(*of_first(_FIRST, "at", "commit_"))
    found = found.withColumns({"arrival_ms": F.col("commit_arrival_ms"), "time_ms": F.col("commit_time_ms")})
    found = _with_member(found, spans)
    found = with_refs(found, events, "commit", "before", "after")
    found = found.join(F.broadcast(_with_any_member(events, groups)), list(_GROUP), "left")
    found = found.select(
        *_GROUP, "client_id", F.col("commit_correlation_id").alias("correlation_id"), "error_code", "enclosed", "commit_ref",
        "member_id", "member_generation", "before_ref", "after_ref", holds(F.col("any_member")).alias("has_members"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip
    return with_coordinator_log(with_filtered(found, events), events, CONSUMER_OFFSETS)


def _within(rows: str) -> list[Column]:
    """The request arrived and was answered while the member was in the group. Needs: rows and spans as aliases."""
    same = [F.col(f"{rows}.{name}") == F.col(f"spans.{name}") for name in _GROUP]
    after = F.col(f"{rows}.arrival_ms") > F.col("spans.since_ms") + SLACK_MS
    return [*same, after, F.col(f"{rows}.time_ms") < F.col("spans.until_ms") - SLACK_MS]


def _with_member(found: DataFrame, spans: DataFrame) -> DataFrame:
    """Adds the member that was in the group, the first in the order of ids; null if it is not known of any. Grain unchanged."""
    names = [
        "member_id",
        "member_generation",
        *(name for name in spans.columns if name.startswith(("before_", "after_"))),
    ]
    member = F.struct(*(F.col(f"spans.{name}") for name in names))
    joined = found.alias("found").join(F.broadcast(spans).alias("spans"), _within("found"), "left")
    rows = joined.groupBy(*(F.col(f"found.{name}") for name in found.columns)).agg(F.min(member).alias("member"))
    return rows.select(*found.columns, *(F.col("member")[name].alias(name) for name in names))


def _member_spans(events: DataFrame, groups: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member, generation) of accepted commits, of these groups: since_ms and until_ms.

    Of classic members only, by their id or by JoinGroup of a classic group in that generation: a coordinator gives each id once. The id of
    a member of KIP-848 is its client's own, and may come back in the same epoch, if the group was deleted in between. Columns: before_*
    and after_*, the places of the first and the last commit.
    """
    accepted = (F.col("error_code") == Errors.NONE) & (F.col("generation_id") >= 0)
    member = (*_GROUP, "member_id", F.col("generation_id").alias("member_generation"))
    rows = of_types(events, *COMMITS).where(accepted).select(*member, "arrival_ms", *PLACE_OF_NODE)
    joins = classic_joins(events).select(*member, F.lit(True).alias("joined"))
    rows = rows.unionByName(joins, allowMissingColumns=True).join(F.broadcast(groups), list(_GROUP), "left_semi")
    arrival = then_by_place(F.col("arrival_ms"))
    spans = rows.groupBy(*_GROUP, "member_id", "member_generation").agg(
        F.min("time_ms").alias("since_ms"), F.max("arrival_ms").alias("until_ms"), F.max("joined").alias("joined"),
        *of_first(PLACE_OF_NODE, then_by_place(F.col("time_ms")), "before_"), *of_last(PLACE_OF_NODE, arrival, "after_"),
    )  # fmt: skip
    spans = spans.where(has_classic_id() | F.col("joined")).drop("joined")
    return spans.where(F.col("until_ms") - F.col("since_ms") > 2 * SLACK_MS)


def _with_any_member(events: DataFrame, groups: DataFrame) -> DataFrame:
    """One row per group of which the coordinator's log has a member: any_member."""
    rows = of_types(events, JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT, *COMMITS)
    rows = rows.where((F.col("event_type") == CONSUMER_GROUP_HEARTBEAT) | (F.col("generation_id") >= 0))
    rows = rows.join(F.broadcast(groups), list(_GROUP), "left_semi")
    return rows.select(*_GROUP).distinct().withColumn("any_member", F.lit(True))
