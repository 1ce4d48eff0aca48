"""Frame `group_generations`: commits of group members, with the generations that their coordinator had answered before.

A coordinator raises a group's generation with each rebalance, and writes it to __consumer_offsets before it answers the first SyncGroup
of that generation. From then on it must refuse commits of lower ones. It also writes which member has a group.instance.id, before it
answers that member's SyncGroup: from then on it must refuse commits of the member that had it before. Clock: the coordinator's host.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import JOIN_GROUP, SYNC_GROUP
from epochaudit.events.times import SLACK_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.commits import COMMITS
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS, with_coordinator_log
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, of_last, then_by_place, with_refs
from epochaudit.spark.memo import as_leaf

_CLASSIC_ID: Final = "-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"  # ClassicGroup.generateMemberId

_GROUP: Final = ("cluster", "node", "group_id")
_GENERATION: Final = (*_GROUP, "generation_id")
_MEMBER: Final = (*_GROUP, "member_id")
_COMMIT: Final = (
    *_GENERATION,
    "member_id",
    "event_type",
    "error_code",
    "after_sync",
    "after_join",
    "after_replacement",
)
_FIRST: Final = (*PLACE_OF_NODE, "client_id", "correlation_id", "group_instance_id")


def group_generations(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member, generation, API, error code): the first such commit, before and after a newer generation.

    And before and after the member was replaced.

    Needs: the events table. Commits are OffsetCommit and TxnOffsetCommit that state a generation or, in groups of KIP-848, a member
    epoch. They are aggregated where they are read.
    Columns: the subject columns (node = the coordinator; client_id and correlation_id of the first commit), event_type, error_code,
    member_id, generation_id, group_instance_id (of a static member, null of others), commit_ref, and
      given_ref        the coordinator's first answer to JoinGroup of a classic group with this generation; null: none is recorded
      joined_ref       its last such answer to the member
      newer_generation   the next higher generation that it answered after the last answer with this one; null: none is recorded, or it
                       was answered less than a second before the commit arrived
      newer_ref        the first answer to JoinGroup with newer_generation, or to SyncGroup, if after_sync
      after_sync       newer_generation was answered to SyncGroup, too: it is written
      static_ref       the coordinator's last answer to JoinGroup that gave the group.instance.id to the member, in any generation
      after_replacement   it had accepted a SyncGroup of another member with that id, a second before the commit arrived, and a second
                       after static_ref; replaced_by: that member, and replaced_ref, that answer
      coordinator_log, lossy_election_ref, lossy_isr_ref   see `with_coordinator_log`: of __consumer_offsets
    """
    generations, static = as_leaf(_generations(events)), as_leaf(_static_members(events))
    times = generations.select(*_GENERATION, "newer_joined_ms", "newer_synced_ms")
    rows = of_types(events, *COMMITS).where(
        (F.col("generation_id") >= 0) & F.col("group_id").isNotNull() & F.col("member_id").isNotNull()
    )
    rows = rows.join(F.broadcast(times), list(_GENERATION), "left")
    rows = rows.join(F.broadcast(static.select(*_MEMBER, "replaced_ms")), list(_MEMBER), "left")
    since = {"join": "newer_joined_ms", "sync": "newer_synced_ms", "replacement": "replaced_ms"}
    rows = rows.withColumns(
        {f"after_{which}": holds(F.col("arrival_ms") > F.col(ms) + SLACK_MS) for which, ms in since.items()}
        | {"at": at()}
    )
    found = rows.groupBy(*_COMMIT).agg(*of_first(_FIRST, "at", "commit_"))
    found = with_refs(found, events, "commit").join(F.broadcast(generations), list(_GENERATION), "left")
    found = found.join(F.broadcast(_members(events)), [*_GENERATION, "member_id"], "left")
    found = found.join(F.broadcast(static.drop("replaced_ms")), list(_MEMBER), "left")
    newer = F.when(F.col("after_sync"), F.col("synced")).when(F.col("after_join"), F.col("joined"))
    found = found.withColumn("newer", newer).select(
        *_GENERATION, "member_id", "event_type", "error_code", "after_sync", "after_replacement", "commit_ref", "given_ref", "joined_ref",
        F.coalesce("commit_group_instance_id", "static_id").alias("group_instance_id"), "static_ref",
        *(F.when(F.col("after_replacement"), F.col(name)).alias(name) for name in ("replaced_by", "replaced_ref")),
        F.col("commit_client_id").alias("client_id"), F.col("commit_correlation_id").alias("correlation_id"),
        F.col("newer.generation_id").alias("newer_generation"), F.col("newer.ref").alias("newer_ref"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip
    return with_coordinator_log(found, events, CONSUMER_OFFSETS)


def has_classic_id() -> Column:
    """The member has an id as coordinators of classic groups give it in JoinGroup. Needs: member_id."""
    return F.col("member_id").rlike(_CLASSIC_ID)


def _answers(events: DataFrame) -> DataFrame:
    """One row per answer of a coordinator that states a generation of a group. Columns: those of events, ref."""
    accepted = (F.col("request_error_code") == Errors.NONE) & (F.col("generation_id") >= 0)
    return of_types(events, JOIN_GROUP, SYNC_GROUP).where(accepted).withColumn("ref", ref())


def _joins(events: DataFrame) -> DataFrame:
    """The answers to JoinGroup of classic groups. In groups of KIP-848 each member has an epoch of its own, and none leads."""
    return _answers(events).where((F.col("event_type") == JOIN_GROUP) & F.col("group_leader").isNotNull())


def _classic_syncs(events: DataFrame) -> DataFrame:
    """The answers to SyncGroup of members that had been answered JoinGroup of a classic group in that generation.

    A member of a group of KIP-848 that speaks the classic protocol syncs in its own member epoch. The group may become a classic one later,
    with a generation of that number.
    """
    joins = _joins(events).groupBy(*_GENERATION, "member_id").agg(F.min("time_ms").alias("member_joined_ms"))
    syncs = _answers(events).where(F.col("event_type") == SYNC_GROUP)
    syncs = syncs.join(F.broadcast(joins), [*_GENERATION, "member_id"])
    return syncs.where(F.col("member_joined_ms") <= F.col("time_ms")).drop("member_joined_ms")


def _members(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, generation, member) that joined: joined_ref, the last answer."""
    members = _joins(events).where(F.col("member_id").isNotNull())
    return members.groupBy(*_GENERATION, "member_id").agg(*of_last(["ref"], then_by_place(F.col("time_ms")), "joined_"))


def _static_members(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member) that it gave a group.instance.id: static_id, static_ref, and who replaced it.

    Columns: static_ref, the last answer to JoinGroup with that id; replaced_by, replaced_ref and replaced_ms (its time), the first
    SyncGroup of another member with the id that arrived a second later and was accepted; null if there is none. A member that was
    replaced does not come back: JoinGroup refuses its id, or gives it a new one.
    """
    named = F.col("group_instance_id").isNotNull() & F.col("member_id").isNotNull()
    place, of_id = then_by_place(F.col("time_ms")), [*_GROUP, "static_id"]
    joins = _joins(events).where(named).withColumnRenamed("group_instance_id", "static_id")
    joins = joins.groupBy(*_MEMBER, "static_id").agg(
        F.max("time_ms").alias("joined_ms"), *of_last(["ref"], place, "static_")
    )
    synced = _answers(events).where(named & (F.col("event_type") == SYNC_GROUP)).withColumns(
        {"static_id": F.col("group_instance_id"), "replaced_by": F.col("member_id"), "place": place}
    )  # fmt: skip
    later = synced.select(*of_id, "replaced_by", "arrival_ms", F.col("time_ms").alias("replaced_ms"), "ref", "place")
    others = joins.join(F.broadcast(later), of_id).where(
        (F.col("replaced_by") != F.col("member_id")) & (F.col("arrival_ms") > F.col("joined_ms") + SLACK_MS)
    )
    replaced = others.groupBy(*_MEMBER, "static_id").agg(
        *of_first(["replaced_by", "replaced_ms"], "place"), *of_first(["ref"], "place", "replaced_")
    )
    return joins.drop("joined_ms").join(F.broadcast(replaced), [*_MEMBER, "static_id"], "left")


def _generations(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, generation) that it answered to JoinGroup.

    Columns: given_ref; joined and synced, structs of the next higher generation that was answered to JoinGroup, and of the next that
    was answered to SyncGroup as well; null if that was before the last answer with this generation: then the group was created anew.
    newer_joined_ms and newer_synced_ms are their times.
    """
    given = _joins(events).groupBy(*_GENERATION).agg(
        *of_first(["ref"], then_by_place(F.col("time_ms")), "given_"),
        F.min("time_ms").alias("since_ms"), F.max("time_ms").alias("until_ms"),
    )  # fmt: skip
    synced = _classic_syncs(events)
    synced = synced.groupBy(*_GENERATION).agg(
        *of_first(["ref"], then_by_place(F.col("time_ms")), "synced_"), F.min("time_ms").alias("synced_ms")
    )
    higher = Window.partitionBy(*_GROUP).orderBy("generation_id").rowsBetween(1, Window.unboundedFollowing)
    joined = F.struct(F.col("since_ms").alias("at_ms"), "generation_id", F.col("given_ref").alias("ref"))
    written = F.struct(F.col("synced_ms").alias("at_ms"), "generation_id", F.col("synced_ref").alias("ref"))
    rows = given.join(synced, list(_GENERATION), "left").withColumns(
        {
            "next_joined": F.first(joined).over(higher),
            "next_synced": F.first(F.when(F.col("synced_ms").isNotNull(), written), ignorenulls=True).over(higher),
        }
    )
    rows = rows.select(
        *_GENERATION,
        "given_ref",
        *(
            F.when(F.col(f"next_{which}.at_ms") > F.col("until_ms"), F.col(f"next_{which}")).alias(which)
            for which in ("joined", "synced")
        ),
    )
    return rows.withColumns({f"newer_{which}_ms": F.col(f"{which}.at_ms") for which in ("joined", "synced")})
