"""Frame `fetches`: every partition of every Fetch, with the leader epoch of the request and the one that the broker held.

An incremental Fetch lists only the partitions that changed; the broker remembers the parameters of the others (KIP-227). For a
partition that only the answer lists, the parameters are those of the session's last request that listed it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from epochaudit.events.times import FOREVER
from epochaudit.events.views import answer_code, holds, no_ref, of_types, ref
from epochaudit.kafka.api_versions import DIVERGING_EPOCH_FETCH_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.releases import release
from epochaudit.replay.state.broken_sessions import SESSION, broken_sessions
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.deleted_replicas import deleted_replicas, with_deletions
from epochaudit.replay.state.held_epochs import line_missing, with_held_epochs
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, topic_key, topic_keys, with_identity
from epochaudit.replay.state.partition_states import OF_RECORD, OF_REQUEST, partition_states
from epochaudit.replay.state.places import PLACE_OF_NODE, of_last, then_by_place, with_refs
from epochaudit.replay.state.releases import releases, releases_at
from epochaudit.replay.state.unknown_topics import with_existence
from epochaudit.replay.state.utc_nodes import with_utc, zone_margin_ms
from epochaudit.spark.columns import let

EPOCH_UNKNOWN: Final = "unknown"  # values of epoch_source, see `fetches`
EPOCH_AMBIGUOUS: Final = "ambiguous"

_COLUMNS: Final = (
    "cluster", "node", "topic", "topic_id", "partition", "api_version", "client_id", "correlation_id", "replica_id", "error_code",
    "session_id", "session_epoch", "current_leader_epoch", "fetch_offset", "arrival_ms", "time_ms", "hinted_leader_epoch",
    "request_error_code", "records_size", "run",
)  # fmt: skip


def fetches(events: DataFrame) -> DataFrame:
    """One row per (Fetch, partition in its answer). Raft fetches of the metadata topic are left out.

    And one per Fetch that was refused with FETCH_SESSION_TOPIC_ID_ERROR, as it mixed topic ids and names in a session.
    Needs: the events table. Clock: the serving node's host. Only rows of partitions left to a session are shuffled.
    Columns: the subject columns (node = the serving broker, leader_epoch = the one in which it served the request, null if that is
    uncertain: it changed meanwhile, and the request states none), api_version, replica_id, error_code, request_error_code, records_size,
    session_id, session_epoch, hinted_leader_epoch, arrival_ms, time_ms, what `with_held_epochs` and `with_deletions` add (if the request
    passed the fence, held_leader is that of held_max), and
      fetch_ref             the line of the request and its answer
      code                  the top-level error code if there is one, else error_code
      fetch_offset          null if left to the session
      current_leader_epoch  of the request or its session
      epoch_source          request; session; ambiguous: the session came back to an earlier epoch; unknown: its requests are
                            not recorded
      newer_epoch           the newest leader epoch above the held one that another request for the partition had stated at the node
                            before the answer, and that was refused with UNKNOWN_LEADER_EPOCH; newer_ref
      successor_ms, successor_ref   when another topic's replica replaced this one, and its line, as in `with_held_epochs`
      session_ref           the session's request that current_leader_epoch comes from, if epoch_source is session: the last one before
                            that lists the partition, or the first one with the epoch, if such ones follow
      assigned              of a follower's Fetch: all replicas ever assigned in leader_epoch; null: no state of it is recorded.
                            assigned_ref: the event that states them all; null: none does alone
      assigned_known        the evidence covers the request, so that no other replica was assigned by then
      never_existed         as in `with_existence`
      fate                  what happened to the requested replica, in words
      run                   struct(rows, file, split) of a row that stands for several (schemas/events.toml, run_rows), else null
    """
    mixed = (F.col("request_error_code") == Errors.FETCH_SESSION_TOPIC_ID_ERROR) & (F.col("partition_row") == 0)
    answered = F.col("in_response") & F.col("partition").isNotNull()
    rows = of_types(events, FETCH).where((mixed | answered) & is_user_topic())
    run = F.when(F.col("run_rows") > 1, F.struct(F.col("run_rows").alias("rows"), "file", "split"))
    rows = rows.withColumn("run", run)
    listed = rows.where(mixed | F.col("in_request")).select(
        *_COLUMNS, ref().alias("fetch_ref"), F.lit("request").alias("epoch_source"), no_ref().alias("session_ref")
    )
    left_to_session = _from_session(
        rows.where(answered & ~F.col("in_request")).select(*_COLUMNS, ref().alias("fetch_ref")), events
    )
    served = with_deletions(with_held_epochs(listed.unionByName(left_to_session), events), deleted_replicas(events))
    served = served.withColumn("epoch_line_missing", line_missing("current_leader_epoch"))
    certain = F.col("held_complete") & (F.col("held_min") == F.col("held_max"))
    passed = fence_passed()
    served = served.withColumns(
        {
            "topic_key": topic_key(),
            "leader_epoch": F.when(certain | passed, F.col("held_max")),
            "held_leader": F.when(passed & ~certain, F.col("leads_in_highest")).otherwise(F.col("held_leader")),
            "assigned_epoch": F.when((certain | passed) & (F.col("replica_id") >= 0), F.col("held_max")),
        }
    )
    served = served.join(
        F.broadcast(_assigned(events)), ["cluster", "topic_key", "partition", "assigned_epoch"], "left"
    )
    served = with_utc(served, events)
    until_ms = F.col("assigned_until_ms") - zone_margin_ms()
    served = served.withColumn("assigned_known", F.col("time_ms") <= until_ms)
    return (
        _with_newer_epochs(with_existence(served, events), events)
        .withColumns(
            {
                "group_id": F.lit(None).cast("string"),
                "code": answer_code(),
                "successor_ms": F.col("successor.ms"),
                "successor_ref": F.col("successor.ref"),
                "fate": _fate(),
            }
        )
        .drop("topic_key", "assigned_epoch", "assigned_until_ms", "prints_utc")
    )


def fence_passed() -> Column:
    """The Fetch was served and states the newest leader epoch that the broker can have held: others are refused (KIP-320).

    False if the broker's release loses the epoch, or may be one that does.
    """
    newest = (F.col("error_code") == Errors.NONE) & (F.col("current_leader_epoch") == F.col("held_max"))
    return holds(newest & ~sessions_lose_epochs())


def _fate() -> Column:
    asked = F.concat_ws(" ", F.lit("topic id"), "topic_id")
    replaced = F.concat_ws(
        " ", F.lit("its replica under"), asked, F.lit("had been replaced by one of"), "successor.topic_id"
    )
    absent = F.concat_ws(" ", F.lit("the metadata log, of which nothing is missing, creates no topic with"), asked)
    known = F.when(F.col("never_existed"), absent).when(F.col("successor").isNotNull(), replaced)
    return known.otherwise(F.lit("no line shows that its replica had been replaced"))


def _assigned(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition, assigned_epoch): the replicas ever assigned in it, by requests and records; assigned_ref.

    assigned_until_ms: no other replica can have been assigned until then. KRaft may add replicas without a new leader epoch, so the
    metadata log must cover the next epoch of the partition, or the request. ZooKeeper controllers never do.
    """
    states = partition_states(events, OF_RECORD, OF_REQUEST).where(
        F.col("leader_epoch").isNotNull() & F.col("replicas").isNotNull()
    )
    # requests before an upgrade name no topic id, those after it do
    states = with_identity(states, topic_incarnations(events))
    # KRaft only adds replicas within an epoch: the longest list has them all
    longest = F.struct(
        F.size("replicas").alias("replicas"), -F.col("replicas_ref.time_ms"), F.col("replicas_ref").alias("ref")
    )
    by_epoch = (
        states.withColumn("topic_key", F.explode(topic_keys()))
        .groupBy("cluster", "topic_key", "partition", F.col("leader_epoch").alias("assigned_epoch"))
        .agg(
            F.array_sort(F.array_distinct(F.flatten(F.collect_set("replicas")))).alias("assigned"),
            F.max(longest).alias("longest"),
            F.max(F.col("scope") == OF_REQUEST).alias("requested"),
        )
    )
    epochs = Window.partitionBy("cluster", "topic_key", "partition").orderBy("assigned_epoch")
    log = cluster_history(events).select("cluster", "log_whole", "log_end_ms")
    rows = by_epoch.withColumn("next_epoch", F.lead("assigned_epoch").over(epochs))
    known = F.when(F.col("requested"), FOREVER).when(
        F.col("log_whole"), F.when(F.col("next_epoch").isNotNull(), FOREVER).otherwise(F.col("log_end_ms"))
    )
    return rows.join(F.broadcast(log), "cluster", "left").select(
        "cluster",
        "topic_key",
        "partition",
        "assigned_epoch",
        "assigned",
        F.when(F.col("longest.replicas") == F.size("assigned"), F.col("longest.ref")).alias("assigned_ref"),
        F.coalesce(known, F.lit(0)).alias("assigned_until_ms"),
    )


def _with_newer_epochs(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds newer_epoch and newer_ref. One row per (node, partition) with such a request is broadcast."""
    unknown = of_types(events, FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH).where(
        F.col("in_request")
        & (F.col("error_code") == Errors.UNKNOWN_LEADER_EPOCH)
        & (F.col("current_leader_epoch") >= 0)
    )
    key = ("cluster", "node", "topic_key", "partition")
    first = F.min(F.struct("arrival_ms", ref().alias("ref"))).alias("first")
    # rows have the id of a topic that their request names
    asked = unknown.groupBy("cluster", "node", "topic", "topic_id", "partition", "current_leader_epoch").agg(first)
    asked = with_identity(asked, topic_incarnations(events)).withColumn("topic_key", topic_key())
    asked = asked.groupBy(*key, "current_leader_epoch").agg(F.min("first").alias("first"))
    entry = F.struct(F.col("current_leader_epoch").alias("epoch"), "first.arrival_ms", "first.ref")
    asked = asked.groupBy(*key).agg(F.collect_list(entry).alias("asked"))
    joined = rows.join(F.broadcast(asked), list(key), "left")
    newer = F.filter("asked", lambda a: (a["epoch"] > F.col("held_max")) & (a["arrival_ms"] < F.col("time_ms")))
    return (
        joined.withColumn("newest", F.array_max(newer))
        .withColumns({"newer_epoch": F.col("newest.epoch"), "newer_ref": F.col("newest.ref")})
        .drop("asked", "newest")
    )


def _from_session(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Sets current_leader_epoch from the session's last request that listed the partition; adds epoch_source and session_ref.

    A partition's epoch rarely changes in a session: one row per session, partition and epoch is shuffled, with its first and last
    listing. Where it never does, nothing searches a list, which takes Spark longer than all else here. An earlier epoch may come back
    when a topic is created again under the name: if the listings of two epochs overlap, the source is ambiguous.
    """
    key = ("cluster", "node", "session_id", "topic_key", "partition")
    listing = _listings(events, key)
    now = F.col("session_epoch")
    only = F.col("only_listing")

    def last_before(listed: Column) -> Column:
        """The last listing of an epoch before this session epoch, which is between `at` and `to`."""
        return F.struct(
            F.when(listed["until"] < now, listed["until"]).otherwise(listed["since"]).alias("at"),
            F.least(listed["until"], now - 1).alias("to"),
            listed["epoch"].alias("epoch"),
            F.when(listed["until"] < now, listed["last"]).otherwise(listed["first"]).alias("place"),
        )

    before = F.transform(F.filter("listings", lambda listed: listed["since"] < now), last_before)
    joined = rows.withColumn("topic_key", topic_key()).join(listing, list(key), "left")
    joined = joined.join(F.broadcast(broken_sessions(events)), list(SESSION), "left")
    last = F.array_max(before)
    overlaps = let(
        last,
        lambda newest: F.exists(
            before, lambda listed: (listed["epoch"] != newest["epoch"]) & (listed["to"] > newest["at"])
        ),
    )
    ambiguous, whole = holds(overlaps), F.col("session_broken").isNull()
    newest = F.when(only["since"] < now, last_before(only)).otherwise(last)
    joined = joined.withColumn("last_listed", F.when(whole & ~ambiguous, newest))
    place = F.col("last_listed.place")
    joined = with_refs(
        joined.withColumns({f"session_{name}": place[name] for name in PLACE_OF_NODE}), events, "session"
    )
    return joined.withColumns(
        {
            "current_leader_epoch": F.col("last_listed.epoch"),
            "epoch_source": F.when(F.col("last_listed").isNotNull(), "session")
            .when(whole & ambiguous, EPOCH_AMBIGUOUS)
            .otherwise(EPOCH_UNKNOWN),
            "fetch_offset": F.lit(None).cast("bigint"),
        }
    ).drop(
        "topic_key",
        "only_listing",
        "listings",
        "last_listed",
        "session_broken",
        *(f"session_{name}" for name in PLACE_OF_NODE),
    )


def _listings(events: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """One row per session and partition: only_listing, its listings in one leader epoch, or listings, those in several ones.

    Each is a struct: since and until, the lowest and the highest session epoch; epoch; first and last, the places of their requests.
    """
    listing = of_types(events, FETCH).where(
        F.col("in_request") & (F.col("session_id") > 0) & (F.col("session_epoch") >= 0)
    )
    # of equal session epochs the last place, which remains when runs are folded
    orders = {"first": then_by_place(-F.col("session_epoch")), "last": then_by_place(F.col("session_epoch"))}
    places = {edge: F.struct(*(F.col(f"{edge}_{name}").alias(name) for name in PLACE_OF_NODE)) for edge in orders}
    entry = F.struct(
        "since",
        "until",
        F.col("current_leader_epoch").alias("epoch"),
        *(place.alias(edge) for edge, place in places.items()),
    )
    return (
        listing.withColumns({"topic_key": topic_key(), **orders})
        .groupBy(*key, "current_leader_epoch")
        .agg(
            F.min("session_epoch").alias("since"),
            F.max("session_epoch").alias("until"),
            *(column for edge in orders for column in of_last(PLACE_OF_NODE, edge, f"{edge}_")),
        )
        .groupBy(*key)
        .agg(F.collect_list(entry).alias("listings"))
        .select(
            *key,
            F.when(F.size("listings") == 1, F.get("listings", F.lit(0))).alias("only_listing"),
            F.when(F.size("listings") > 1, F.col("listings")).alias("listings"),
        )
    )


def with_release_of_sessions(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Sets kafka_version for `sessions_lose_epochs`, where the node's log may have no line of the replica. Grain unchanged.

    Needs: cluster, node, time_ms, api_version, session_epoch. Null for other Fetches, and if the release is not known.
    """
    rows = rows.join(F.broadcast(releases(events)), ["cluster", "node"], "left")
    version = F.array_min(releases_at(at_ms=F.col("time_ms"))["version"])
    return rows.withColumn("kafka_version", F.when(is_old_incremental_fetch(), version)).drop("releases")


def sessions_lose_epochs() -> Column:
    """The answer belongs to an incremental fetch of a broker whose session cache drops the leader epoch (KAFKA-9338).

    Null if the broker's version is not known and the Fetch is of a version that such brokers have.
    """
    return is_old_incremental_fetch() & F.col("kafka_version").between(release("2.1"), release("2.4.1"))


def is_old_incremental_fetch() -> Column:
    """The Fetch belongs to a session, and is of a version that brokers before 2.7 have. Other requests have no session epoch."""
    incremental = holds(F.col("session_epoch") > 0)
    return incremental & (F.col("api_version") < DIVERGING_EPOCH_FETCH_VERSION)
