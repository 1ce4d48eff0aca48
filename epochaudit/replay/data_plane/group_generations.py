"""Frame `group_generations`: commits of group members, with the generations that their coordinator had answered before.

A coordinator raises a group's generation with each rebalance, and writes it to __consumer_offsets before it answers the first SyncGroup
of that generation, or accepts an OffsetCommit in it. From then on it must refuse commits of lower ones. It also writes which member has a
group.instance.id, before it answers that member's SyncGroup or OffsetCommit: from then on it must refuse commits of the member that had it
before. Clock: the coordinator's host.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import JOIN_GROUP, OFFSET_COMMIT, SYNC_GROUP
from epochaudit.events.views import REF_TYPE, holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.commits import COMMITS
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS, with_coordinator_log
from epochaudit.replay.state.filtered_logs import with_filtered
from epochaudit.replay.state.late_lines import came_after, came_just_after
from epochaudit.replay.state.log_gaps import gap_between, request_log_gaps
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, of_last, then_by_place, with_refs
from epochaudit.replay.state.releases import releases, releases_at
from epochaudit.spark.memo import as_leaf

_CLASSIC_ID: Final = "-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"  # ClassicGroup.generateMemberId

JOINED: Final = "joined"
WRITTEN: Final = "written"
USED: Final = "used"
_KINDS: Final = (JOINED, WRITTEN, USED)
_STATED: Final = f"struct<at_ms:bigint,ref:{REF_TYPE}>"

_GROUP: Final = ("cluster", "node", "group_id")
_GENERATION: Final = (*_GROUP, "generation_id")
_MEMBER: Final = (*_GROUP, "member_id")
_COMMIT: Final = (
    *_GENERATION,
    "member_id",
    "event_type",
    "error_code",
    "after_join",
    "after_write",
    "after_use",
    "after_replacement",
    "just_after_newer",
    "just_after_replacement",
)
_REPLACED: Final = (*_MEMBER, "static_id", "replaced_by", "replaced_in", "replaced_ms", "ref", "place")
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
      is_classic       the member is one of a classic group: its id is, or joined_ref says so
      newer_generation   the next higher generation that it answered after the last answer with this one, before the commit arrived; null:
                       none is recorded, or used_generation is stated instead
      used_generation  the same of the next higher generation in which it accepted an OffsetCommit of a classic member, without such an
                       answer to that member
      newer_ref        the first answer to JoinGroup with newer_generation; if written, to SyncGroup or to a commit. Or to a commit in
                       used_generation
      written          newer_generation was answered to SyncGroup, too, or to a commit
      just_after_newer   the commit was accepted, and came just after the first answer in newer_generation or used_generation, see
                       `came_just_after`; else it came after that
      kafka_version    the coordinator's release as a number (4001000 for 4.1.0), the highest possible; null: not in the evidence
      filtered         the coordinator's log leaves out requests on purpose, see `with_filtered`
      requests_missing files of the coordinator's request log are missing between given_ref and the commit
      static_ref       the coordinator's last answer to JoinGroup that gave the group.instance.id to the member, in any generation
      after_replacement   it had accepted a SyncGroup or OffsetCommit of another member with that id, a second before the commit arrived,
                       and a second after static_ref; replaced_by: that member; replaced_in: the type of that request; replaced_ref: its
                       answer
      just_after_replacement   the same, but the commit was accepted and came just after that answer, see `came_just_after`
      coordinator_log, lossy_election_ref, lossy_isr_ref   see `with_coordinator_log`: of __consumer_offsets
    """
    members = as_leaf(_members(events))
    generations, static = as_leaf(_generations(events, members)), as_leaf(_static_members(events))
    times = generations.select(*_GENERATION, *(f"newer_{kind}_ms" for kind in _KINDS))
    rows = of_types(events, *COMMITS).where(
        (F.col("generation_id") >= 0) & F.col("group_id").isNotNull() & F.col("member_id").isNotNull()
    )
    rows = rows.join(F.broadcast(times), list(_GENERATION), "left")
    rows = rows.join(F.broadcast(static.select(*_MEMBER, "replaced_ms")), list(_MEMBER), "left")
    since = {
        "join": f"newer_{JOINED}_ms",
        "write": f"newer_{WRITTEN}_ms",
        "use": f"newer_{USED}_ms",
        "replacement": "replaced_ms",
    }
    rows = rows.withColumns({f"after_{which}": came_after(F.col(ms)) for which, ms in since.items()} | {"at": at()})
    accepted, first_ms = F.col("error_code") == Errors.NONE, F.coalesce(f"newer_{USED}_ms", f"newer_{WRITTEN}_ms")
    after_newer = F.col("after_join") | F.col("after_write") | F.col("after_use")
    rows = rows.withColumns(
        {
            "just_after_newer": holds(accepted & ~after_newer & came_just_after(first_ms)),
            "just_after_replacement": holds(accepted & came_just_after(F.col("replaced_ms"))),
        }
    )
    found = rows.groupBy(*_COMMIT).agg(*of_first(_FIRST, "at", "commit_"))
    found = with_refs(found, events, "commit").join(F.broadcast(generations), list(_GENERATION), "left")
    found = found.join(F.broadcast(members.drop("since_ms")), [*_GENERATION, "member_id"], "left")
    found = found.join(F.broadcast(static.drop("replaced_ms")), list(_MEMBER), "left")
    just_after, replaced = F.col("just_after_newer"), F.col("after_replacement") | F.col("just_after_replacement")
    used = (F.col("after_use") & ~F.col("after_write")) | (just_after & F.col(USED).isNotNull())
    written = F.col("after_write") | (just_after & ~used)
    newer = F.when(written, F.col(WRITTEN)).when(used, F.col(USED)).when(F.col("after_join"), F.col(JOINED))
    found = found.join(F.broadcast(releases(events)), ["cluster", "node"], "left").withColumn("newer", newer).select(
        *_GENERATION, "member_id", "event_type", "error_code", "after_replacement", "just_after_newer", "just_after_replacement",
        "commit_ref", "given_ref", "joined_ref",
        (has_classic_id() | F.col("joined_ref").isNotNull()).alias("is_classic"),
        written.alias("written"), F.array_max(releases_at(at_ms=F.col("commit_time_ms"))["version"]).alias("kafka_version"),
        F.coalesce("commit_group_instance_id", "static_id").alias("group_instance_id"), "static_ref",
        *(F.when(replaced, F.col(name)).alias(name) for name in ("replaced_by", "replaced_in", "replaced_ref")),
        F.col("commit_client_id").alias("client_id"), F.col("commit_correlation_id").alias("correlation_id"),
        F.when(~used, F.col("newer.generation_id")).alias("newer_generation"),
        F.when(used, F.col("newer.generation_id")).alias("used_generation"), F.col("newer.ref").alias("newer_ref"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip
    found = with_filtered(found, events).join(F.broadcast(request_log_gaps(events)), ["cluster", "node"], "left")
    missing = gap_between(F.col("given_ref.time_ms"), F.col("commit_ref.time_ms"))
    found = found.withColumn("requests_missing", missing).drop("gaps", "first_ms", "last_ms")
    return with_coordinator_log(found, events, CONSUMER_OFFSETS)


def has_classic_id(member_id: str = "member_id") -> Column:
    """The member has an id as coordinators of classic groups give it in JoinGroup. Needs: member_id.

    Members of a classic group may have another one. A coordinator gives an id of KIP-848 to a classic member that joins while the group is
    one of KIP-848, and the group may become a classic one later (ClassicGroup.fromConsumerGroup).
    """
    return F.col(member_id).rlike(_CLASSIC_ID)


def _answers(events: DataFrame) -> DataFrame:
    """One row per answer of a coordinator that states a generation of a group. Columns: those of events, ref."""
    accepted = (F.col("request_error_code") == Errors.NONE) & (F.col("generation_id") >= 0)
    return of_types(events, JOIN_GROUP, SYNC_GROUP).where(accepted).withColumn("ref", ref())


def classic_joins(events: DataFrame) -> DataFrame:
    """The answers to JoinGroup of classic groups. In groups of KIP-848 each member has an epoch of its own, and none leads.

    One row per answer. Needs: the events table. Adds: ref.
    """
    return _answers(events).where((F.col("event_type") == JOIN_GROUP) & F.col("group_leader").isNotNull())


def _classic_syncs(events: DataFrame, members: DataFrame) -> DataFrame:
    """The answers to SyncGroup of members that had been answered JoinGroup of a classic group in that generation.

    A member of a group of KIP-848 that speaks the classic protocol syncs in its own member epoch. The group may become a classic one later,
    with a generation of that number.
    """
    syncs = _answers(events).where(F.col("event_type") == SYNC_GROUP)
    syncs = syncs.join(F.broadcast(members.drop("joined_ref")), [*_GENERATION, "member_id"])
    return syncs.where(F.col("since_ms") <= F.col("time_ms")).drop("since_ms")


def _members(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, generation, member) that joined: since_ms; joined_ref, the last answer."""
    members = classic_joins(events).where(F.col("member_id").isNotNull())
    return members.groupBy(*_GENERATION, "member_id").agg(
        F.min("time_ms").alias("since_ms"), *of_last(["ref"], then_by_place(F.col("time_ms")), "joined_")
    )


def _static_members(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member) that it gave a group.instance.id: static_id, static_ref, and who replaced it.

    Columns: static_ref, the last answer to JoinGroup with that id; replaced_by, replaced_in, replaced_ref and replaced_ms (its time), the
    first SyncGroup or OffsetCommit of another member with the id that arrived a second later and was accepted, see `_other_commits`; null
    if there is none. A member that was replaced does not come back: JoinGroup refuses its id, or gives it a new one.
    """
    place = then_by_place(F.col("time_ms"))
    joins = classic_joins(events).where(_is_named()).withColumnRenamed("group_instance_id", "static_id")
    joins = joins.groupBy(*_MEMBER, "static_id").agg(
        F.min("time_ms").alias("since_ms"), F.max("time_ms").alias("joined_ms"), *of_last(["ref"], place, "static_")
    )  # fmt: skip
    joins = as_leaf(joins)
    others = _other_syncs(events, joins).unionByName(_other_commits(events, joins))
    replaced = others.groupBy(*_MEMBER, "static_id").agg(
        *of_first(["replaced_by", "replaced_in", "replaced_ms"], "place"), *of_first(["ref"], "place", "replaced_")
    )
    return joins.drop("since_ms", "joined_ms").join(F.broadcast(replaced), [*_MEMBER, "static_id"], "left")


def _is_named() -> Column:
    return F.col("group_instance_id").isNotNull() & F.col("member_id").isNotNull()


def _of_others(requests: DataFrame, joins: DataFrame) -> DataFrame:
    """One row per (request of `requests`, other member with its group.instance.id that joined a second before). Needs: place.

    Columns: those of the request; member_id, static_id and joined_ms of the other member; replaced_by and replaced_in of the request.
    """
    sender = {"group_instance_id": "static_id", "member_id": "replaced_by", "event_type": "replaced_in"}
    former = joins.select(*_MEMBER, "static_id", "joined_ms")
    found = requests.where(_is_named()).withColumnsRenamed(sender).join(F.broadcast(former), [*_GROUP, "static_id"])
    is_other = F.col("replaced_by") != F.col("member_id")
    return found.where(is_other & came_after(F.col("joined_ms")))


def _other_syncs(events: DataFrame, joins: DataFrame) -> DataFrame:
    """The answers to SyncGroup of members that took the name of another one: _REPLACED."""
    syncs = _answers(events).where(F.col("event_type") == SYNC_GROUP)
    found = _of_others(syncs.withColumn("place", then_by_place(F.col("time_ms"))), joins)
    return found.withColumnRenamed("time_ms", "replaced_ms").select(*_REPLACED)


def _other_commits(events: DataFrame, joins: DataFrame) -> DataFrame:
    """The first accepted OffsetCommit of each member that took the name of another one: _REPLACED.

    A member that had been given the name before the other one did not take it from that one: its commit should have been refused.
    Without a JoinGroup of a classic member only its id shows that it is no member of KIP-848, whose joins are no JoinGroup.
    """
    commits = of_types(events, OFFSET_COMMIT).where(F.col("error_code") == Errors.NONE)
    found = _of_others(commits.withColumn("place", then_by_place(F.col("time_ms"))), joins)
    found = found.groupBy(*_MEMBER, "static_id", "joined_ms", "replaced_by", "replaced_in").agg(
        F.min("place").alias("place"), *of_first(PLACE_OF_NODE, "place", "used_")
    )
    before = joins.select(*_GROUP, "static_id", F.col("member_id").alias("replaced_by"), "since_ms")
    found = found.join(F.broadcast(before), [*_GROUP, "static_id", "replaced_by"], "left")
    found = found.where(F.coalesce(F.col("since_ms") > F.col("joined_ms"), has_classic_id("replaced_by")))
    found = with_refs(found, events, "used").withColumnsRenamed({"used_time_ms": "replaced_ms", "used_ref": "ref"})
    return found.select(*_REPLACED)


def _accepted_commits(events: DataFrame, members: DataFrame) -> DataFrame:
    """Two rows per (coordinator, group, generation, joined) with accepted OffsetCommits of members of classic groups: first and last.

    joined: the members had been answered JoinGroup of a classic group in that generation, see `_classic_syncs`. The others have the id of
    a classic member.
    They prove the generation: it was the group's, and no longer waited for what its leader assigns (ClassicGroup.validateOffsetCommit;
    TxnOffsetCommit does not prove the latter). Columns: at_ms, ref.
    """
    accepted = (F.col("error_code") == Errors.NONE) & F.col("group_id").isNotNull()
    place = then_by_place(F.col("time_ms"))
    found = of_types(events, OFFSET_COMMIT).where(accepted)
    found = found.join(F.broadcast(members.drop("joined_ref")), [*_GENERATION, "member_id"], "left")
    found = found.withColumn("joined", holds(F.col("since_ms") <= F.col("time_ms")))
    found = found.where(has_classic_id() | F.col("joined")).groupBy(*_GENERATION, "joined").agg(
        *of_first(PLACE_OF_NODE, place, "first_"), *of_last(PLACE_OF_NODE, place, "last_")
    )  # fmt: skip
    both = F.array(
        *(F.struct(F.col(f"{one}_time_ms").alias("at_ms"), f"{one}_ref").cast(_STATED) for one in ("first", "last"))
    )
    return with_refs(found, events, "first", "last").select(*_GENERATION, "joined", F.inline(both))


def _statements(events: DataFrame, members: DataFrame) -> DataFrame:
    """One row per request whose answer states that a generation is the group's. Columns: kind, at_ms, ref.

    kind: JOINED of an answer to JoinGroup; WRITTEN of one to SyncGroup, and of an accepted commit, if the generation was answered to
    the same member's JoinGroup; USED of an accepted commit. A group that was given its number in JoinGroup may be a former one of the name,
    and the number in the commit a member epoch of KIP-848.
    """
    at_ms, commits = F.col("time_ms").alias("at_ms"), as_leaf(_accepted_commits(events, members))
    of_kind = {
        JOINED: (classic_joins(events).select(*_GENERATION, at_ms, "ref"),),
        WRITTEN: (
            _classic_syncs(events, members).select(*_GENERATION, at_ms, "ref"),
            commits.where("joined").drop("joined"),
        ),
        USED: (commits.drop("joined"),),
    }
    return reduce(
        DataFrame.unionByName,
        (rows.withColumn("kind", F.lit(kind)) for kind, tables in of_kind.items() for rows in tables),
    )


def _generations(events: DataFrame, members: DataFrame) -> DataFrame:
    """One row per (coordinator, group, generation) that it answered to JoinGroup.

    Columns: given_ref; joined, written and used, structs of the first higher generation that is stated after the last answer with this
    one, by kind of `_statements`: at_ms, generation_id, ref; null if there is none. Answers before belong to a former group of the name.
    used is null, too, if written is no later. newer_<kind>_ms are their times.
    """
    given = classic_joins(events).groupBy(*_GENERATION).agg(
        *of_first(["ref"], then_by_place(F.col("time_ms")), "given_"), F.max("time_ms").alias("until_ms"),
    )  # fmt: skip
    given, kind = as_leaf(given), F.explode(F.array(*map(F.lit, _KINDS))).alias("kind")
    statements = as_leaf(_statements(events, members))
    statement = F.struct("at_ms", "generation_id", "ref")
    firsts = statements.groupBy(*_GENERATION, "kind").agg(F.min(statement).alias("first"))
    higher = Window.partitionBy(*_GROUP, "kind").orderBy("generation_id").rowsBetween(1, Window.unboundedFollowing)
    rows = given.select(*_GENERATION, "until_ms", kind).join(firsts, [*_GENERATION, "kind"], "full")
    rows = rows.withColumn("next", F.first("first", ignorenulls=True).over(higher)).where(F.col("until_ms").isNotNull())
    is_later = F.col("next.at_ms") > F.col("until_ms")
    # the next higher number is that of a former group, which may have reached it before
    former = rows.where(~is_later).select(*_GROUP, "kind", F.col("generation_id").alias("of"), "until_ms")
    after = (F.col("generation_id") > F.col("of")) & (F.col("at_ms") > F.col("until_ms"))
    later = statements.join(F.broadcast(former), [*_GROUP, "kind"]).where(after)
    later = later.groupBy(*_GROUP, "kind", F.col("of").alias("generation_id")).agg(F.min(statement).alias("later"))
    rows = rows.join(later, [*_GENERATION, "kind"], "left")
    newer = F.when(is_later, F.col("next")).otherwise(F.col("later"))
    by_kind = (F.max(F.when(F.col("kind") == kind, newer)).alias(kind) for kind in _KINDS)
    rows = rows.groupBy(*_GENERATION).agg(*by_kind)
    used_first = F.coalesce(F.col("used.at_ms") < F.col("written.at_ms"), F.lit(True))
    rows = rows.withColumn("used", F.when(used_first, F.col("used"))).join(
        given.select(*_GENERATION, "given_ref"), list(_GENERATION)
    )
    return rows.withColumns({f"newer_{kind}_ms": F.col(kind)["at_ms"] for kind in _KINDS})
