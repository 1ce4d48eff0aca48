"""Frame `fetches`: every partition of every Fetch with the leader epoch it was asked in and the one the broker held.

An incremental Fetch lists only the partitions that changed; the broker keeps the parameters of the others (KIP-227). A
partition that stands in the answer alone is judged by what the session's last request that listed it said.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.deleted_replicas import deleted_replicas, with_deletions
from epochaudit.replay.fetch_sessions import SESSION, broken_sessions
from epochaudit.replay.held_epochs import with_held_epochs
from epochaudit.replay.incarnations import is_user_topic, topic_incarnations, topic_key, topic_keys, with_identity
from epochaudit.replay.partition_states import LEADER_AND_ISR, RECORD, partition_states
from epochaudit.replay.unknown_topics import with_existence

UNKNOWN_LEADER_EPOCH: Final = 75
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106
MINGLED: Final = "mingled"

_COLUMNS: Final = (
    "cluster", "node", "topic", "topic_id", "partition", "api_version", "client_id", "correlation_id", "replica_id", "error_code",
    "session_id", "session_epoch", "current_leader_epoch", "fetch_offset", "arrival_ms", "time_ms", "hinted_leader_epoch",
    "request_error_code", "records_size",
)  # fmt: skip


def fetches(events: DataFrame) -> DataFrame:
    """One row per (Fetch, partition that the answer lists), Raft fetches of the metadata topic left out.

    And one per Fetch that mixed requests with and without topic ids in a session, and was refused as a whole for it.
    Needs: the events table. Clock: the serving node's host; only a row that a request left to its session is shuffled.
    Columns: the subject columns (node = the serving broker, leader_epoch = the one it held, null while it changed),
    api_version, replica_id, code (the top-level error code if there is one, else error_code), error_code, records_size,
    session_id, session_epoch, fetch_offset (null where left to the session), current_leader_epoch (of the request or
    its session), epoch_source (request, session, mingled: the session came back to an epoch, or unknown: requests of it are not
    recorded), what `with_held_epochs` and `with_deletions` add, and newer_epoch with newer_ref: the newest leader epoch above the held
    one in which a request for the partition had come to the node before the answer, and was answered 75; successor_ms,
    successor_topic_id and successor_ref, as in `with_held_epochs`; and for a follower's Fetch assigned: the replicas that were
    ever assigned in leader_epoch, null if no state of that epoch is recorded; never_existed, as in `with_existence`, and
    fate: what became of the replica that was asked for, in words.
    """
    mixed = (F.col("request_error_code") == FETCH_SESSION_TOPIC_ID_ERROR) & (F.col("partition_row") == 0)
    answered = F.col("in_response") & F.col("partition").isNotNull()
    rows = of_types(events, "FETCH").where((mixed | answered) & is_user_topic())
    listed = rows.where(mixed | F.col("in_request")).select(
        *_COLUMNS, ref().alias("fetch_ref"), F.lit("request").alias("epoch_source")
    )
    left_to_session = _from_session(
        rows.where(answered & ~F.col("in_request")).select(*_COLUMNS, ref().alias("fetch_ref")), events
    )
    served = with_deletions(with_held_epochs(listed.unionByName(left_to_session), events), deleted_replicas(events))
    certain = F.col("held_complete") & (F.col("held_min") == F.col("held_max"))
    served = served.withColumns(
        {
            "topic_key": topic_key(),
            "leader_epoch": F.when(certain, F.col("held_max")),
            "assigned_epoch": F.when(certain & (F.col("replica_id") >= 0), F.col("held_max")),
        }
    )
    served = served.join(
        F.broadcast(_assigned(events)), ["cluster", "topic_key", "partition", "assigned_epoch"], "left"
    )
    return (
        _with_newer_epochs(with_existence(served, events), events)
        .withColumns(
            {
                "group_id": F.lit(None).cast("string"),
                "code": F.when(F.col("request_error_code") != 0, F.col("request_error_code")).otherwise(
                    F.col("error_code")
                ),
                "successor_ms": F.col("successor.ms"),
                "successor_topic_id": F.col("successor.topic_id"),
                "successor_ref": F.col("successor.ref"),
                "fate": _fate(),
            }
        )
        .drop("topic_key", "assigned_epoch")
    )


def _fate() -> Column:
    asked = F.concat_ws(" ", F.lit("topic id"), "topic_id")
    replaced = F.concat_ws(
        " ", F.lit("its replica under"), asked, F.lit("had been replaced by one of"), "successor.topic_id"
    )
    absent = F.concat_ws(" ", F.lit("the metadata log, of which nothing is missing, creates no topic with"), asked)
    told = F.when(F.col("never_existed"), absent).when(F.col("successor").isNotNull(), replaced)
    return told.otherwise(F.lit("no line tells that its replica gave way to another"))


def _assigned(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition, assigned_epoch): the replicas ever assigned in it, by requests and records."""
    states = partition_states(events, RECORD, LEADER_AND_ISR).where(
        F.col("leader_epoch").isNotNull() & F.col("replicas").isNotNull()
    )
    # requests of before an upgrade name no id by which those after it are asked for
    states = with_identity(states, topic_incarnations(events))
    return (
        states.withColumn("topic_key", F.explode(topic_keys()))
        .groupBy("cluster", "topic_key", "partition", F.col("leader_epoch").alias("assigned_epoch"))
        .agg(F.array_distinct(F.flatten(F.collect_set("replicas"))).alias("assigned"))
    )


def _with_newer_epochs(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds newer_epoch and newer_ref. What travels is one row per partition of a node at which such a request came."""
    unknown = of_types(events, "FETCH").where(
        F.col("in_request") & (F.col("error_code") == UNKNOWN_LEADER_EPOCH) & (F.col("current_leader_epoch") >= 0)
    )
    key = ("cluster", "node", "topic_key", "partition")
    first = F.min(F.struct("arrival_ms", ref().alias("ref"))).alias("first")
    asked = unknown.withColumn("topic_key", topic_key()).groupBy(*key, "current_leader_epoch").agg(first)
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
    """Fills current_leader_epoch from the session's last request that listed the partition; adds epoch_source.

    In a session the epoch of a partition changes rarely: what travels is one row per session, partition and epoch, with its
    first and last listing. An epoch may come back, when a topic is created again under the name: where the listings of two
    epochs run into each other, the source is mingled.
    """
    key = ("cluster", "node", "session_id", "topic_key", "partition")
    listing = of_types(events, "FETCH").where(
        F.col("in_request") & (F.col("session_id") > 0) & (F.col("session_epoch") >= 0)
    )
    listing = (
        listing.withColumn("topic_key", topic_key())
        .groupBy(*key, "current_leader_epoch")
        .agg(F.min("session_epoch").alias("since"), F.max("session_epoch").alias("until"))
        .groupBy(*key)
        .agg(F.collect_list(F.struct("since", "until", F.col("current_leader_epoch").alias("epoch"))).alias("listings"))
    )
    now = F.col("session_epoch")
    before = F.transform(  # the last listing in the epoch before this one stands between `at` and `to`
        F.filter("listings", lambda listed: listed["since"] < now),
        lambda listed: F.struct(
            F.when(listed["until"] < now, listed["until"]).otherwise(listed["since"]).alias("at"),
            F.least(listed["until"], now - 1).alias("to"),
            listed["epoch"].alias("epoch"),
        ),
    )
    joined = rows.withColumn("topic_key", topic_key()).join(listing, list(key), "left")
    joined = joined.join(F.broadcast(broken_sessions(events)), list(SESSION), "left")
    last = F.array_max(before)
    mingled = F.exists(before, lambda listed: (listed["epoch"] != last["epoch"]) & (listed["to"] > last["at"]))
    mingled, whole = F.coalesce(mingled, F.lit(False)), F.col("session_broken").isNull()
    return (
        joined.withColumn("last_listed", F.when(whole & ~mingled, last))
        .withColumns(
            {
                "current_leader_epoch": F.col("last_listed.epoch"),
                "epoch_source": F.when(F.col("last_listed").isNotNull(), "session")
                .when(whole & mingled, MINGLED)
                .otherwise("unknown"),
                "fetch_offset": F.lit(None).cast("bigint"),
            }
        )
        .drop("topic_key", "listings", "last_listed", "session_broken")
    )


def sessions_lose_epochs() -> Column:
    """The answer belongs to an incremental fetch of a broker whose session cache drops the leader epoch (KAFKA-9338)."""
    return (F.col("session_epoch") > 0) & F.col("kafka_version").between(2_001_000, 2_004_001)
