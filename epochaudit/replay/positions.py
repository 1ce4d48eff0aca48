"""Frame `positions`: each consumer's first fetch under a new leader epoch, beside the history it read its position from.

A consumer does not say in which leader epoch it read the record before its position. The epoch of the broker that gave it
the record is an upper bound: if a later epoch, whose history is still part of the log, starts below the position, the
position belongs to records that were truncated.

A position that was carried into another topic of the same name is a row too: see `carried_positions`.

Clock: one client's fetches are ordered by the leader epoch that served them, within one broker by its request log. Two
brokers' clocks are never compared, nor one client's correlation ids at two brokers.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import REF_FIELDS, client_host, of_types, ref
from epochaudit.replay.carried_positions import carried_positions, interleaved
from epochaudit.replay.held_epochs import with_held_epochs
from epochaudit.replay.incarnations import is_user_topic, topic_incarnations, topic_key, with_identity
from epochaudit.replay.kept import kept
from epochaudit.replay.lineage import epoch_starts
from epochaudit.replay.places import PLACE_OF_NODE, at, with_refs

CONSUMER: Final = -1

_CLIENT: Final = (
    "cluster", "client_id", "client_host", "software_name", "software_version", "topic", "topic_id", "partition",
)  # fmt: skip
_PARTITION: Final = ("cluster", "topic", "topic_id", "partition")
_TOLD: Final = (
    "correlation_id", "api_version", "current_leader_epoch", "last_fetched_epoch", "diverging_epoch", "log_start_offset",
)  # fmt: skip
_FIRST: Final = (*PLACE_OF_NODE, "fetch_offset", *_TOLD)
_LAST: Final = ("fetch_offset", "session_id", "correlation_id")
_OF_DELIVERY: Final = ("correlation_id", "api_version", "log_start_offset", "session_id")


def positions(events: DataFrame) -> DataFrame:
    """One row per (client instance, partition, leader epoch) whose position came from an older epoch or a committed offset.

    And one per (client instance, partition) that went on in another topic of the name: `entered`; see `carried_positions`.
    A client instance is a client id at one host in one software and version. Columns: the subject columns (node = the broker
    that served the first fetch answered 0 in leader_epoch), fetch_offset, fetch_ref, api_version, current_leader_epoch,
    position_epoch (upper bound of the epoch of the record before the position), position_epoch_stated (the committed
    offset named it), position_ref (where the position came from), committed_ref, resumed (the coordinator had told the
    offset), kafka_version, software_name; lowest_told_epoch (of all the coordinator's answers with that offset; -1: one
    names none), reached_itself (the client read up to the offset, or was told it by ListOffsets, whenever), asked (it
    asked by OffsetForLeaderEpoch in leader_epoch before, and was answered, if only -1), refused_below (it was refused in
    a leader epoch below position_epoch);
    crossed, divergence_offset, last_lost_offset, crossed_epoch, crossed_ref (the leader's line); crossing_uncertain: an
    unclean election after the crossed epoch may have undone it; epochs_missing: the start of an epoch between is not
    recorded; detected: how the client noticed, null if it did not; shared_client_id.
    """
    histories = consumer_histories(events)
    subjects = histories.select(*_CLIENT, "reads", "marks", "resumes", F.explode(_epochs()).alias("leader_epoch"))
    subjects = _with_position(_with_first_fetch(subjects))
    subjects = _with_commit_bound(subjects, _commit_bounds(histories))
    subjects = subjects.where(F.col("position_epoch").isNotNull() | F.col("resumed"))
    within = _with_crossing(subjects, epoch_starts(events))
    return within.unionByName(carried_positions(histories, events), allowMissingColumns=True)


@kept
def consumer_histories(events: DataFrame) -> DataFrame:
    """One row per (client instance, partition): its reads per epoch and connection, its marks, resumes and commits.

    marks are other answers that the client got: out_of_range, validated (OffsetForLeaderEpoch), asked (the same, with an
    answer that tells nothing), reset (ListOffsets), and refused: 74 or 75 to the leader epoch that it stated. Of a read,
    first_* is the first request that listed the partition, last_* the last such, and unlisted_* the first delivery at an
    offset that the request left to its session; first_at, last_at: places in the node's logs (`places.at`).
    Read twice by `positions`, and by `client_epochs`: kept.
    """
    per_epoch = _per_epoch(events).unionByName(_group_offsets(events), allowMissingColumns=True)
    kind = F.col("kind")
    unlisted = F.struct(
        "unlisted_at", F.col("unlisted_ref").alias("ref"), *(F.col(f"unlisted_{name}").alias(name) for name in _OF_DELIVERY)
    )  # fmt: skip
    read = F.struct(
        "leader_epoch", "first_fetch_offset", "node", "first_at", "last_at", *(F.col(f"first_{name}").alias(name) for name in _TOLD),
        F.col("first_ref").alias("ref"), "read_from", *(f"last_{name}" for name in _LAST), unlisted.alias("unlisted"),
        "high_watermark", "kafka_version", "read_ref", "connection",
    )  # fmt: skip
    mark = F.struct(
        "kind", "leader_epoch", "node", "first_at", "answered_offset", "connection",
        F.col("first_correlation_id").alias("correlation_id"), F.col("first_api_version").alias("api_version"),
        F.col("first_ref").alias("ref"),
    )  # fmt: skip
    group = F.struct("answered_offset", "committed_leader_epoch", "group_id", ref().alias("ref"), "own")
    return per_epoch.groupBy(*_CLIENT).agg(
        F.collect_list(F.when(kind == "read", read)).alias("reads"),
        F.collect_list(F.when(kind.isin("out_of_range", "validated", "asked", "reset", "refused"), mark)).alias(
            "marks"
        ),
        F.collect_list(F.when(kind == "resumed", group)).alias("resumes"),
        F.collect_list(F.when(kind == "committed", group)).alias("commits"),
    )


def _per_epoch(events: DataFrame) -> DataFrame:
    """One row per (client instance, partition, kind of answer, serving epoch, node and connection).

    An incremental Fetch that the answer passes over was accepted and had nothing to deliver. read_from is the lowest offset
    at which records were delivered, -1 where the request left it to the session.
    Fetches are aggregated where they are read, over all files of a node; all buffers have a fixed width, so that it stays a
    hash aggregation. `min_by` and `max_by` over the place in the node's logs pick the same line for each field.
    """
    rows = of_types(events, "FETCH", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH").where(
        F.col("client_id").isNotNull() & _by_consumer() & is_user_topic()
    )
    fetch, ok = F.col("event_type") == "FETCH", F.col("error_code") == 0
    nothing_new = (
        F.col("in_request") & ~F.col("in_response") & (F.col("session_epoch") > 0) & (F.col("request_error_code") == 0)
    )
    told = F.coalesce("offset", F.lit(0)) >= 0  # -1: the leader knows no epoch to answer by
    kind = (
        F.when(fetch & (ok | nothing_new), "read")
        .when(fetch & (F.col("error_code") == 1), "out_of_range")
        .when((F.col("current_leader_epoch") >= 0) & F.col("error_code").isin(74, 75), "refused")
        .when((F.col("event_type") == "LIST_OFFSETS") & ok, "reset")
        .when((F.col("event_type") == "OFFSET_FOR_LEADER_EPOCH") & ok, F.when(told, "validated").otherwise("asked"))
    )
    rows = rows.withColumns({"kind": kind, "client_host": client_host()}).where(F.col("kind").isNotNull())
    served = with_held_epochs(
        rows.select(
            "cluster", "node", "client_id", "client_host", "software_name", "software_version", "connection", "kind", "topic", "topic_id",
            "partition", "arrival_ms", "offset", "high_watermark", "records_size", "session_id", at().alias("at"), *_FIRST,
        ),
        events,
    )  # fmt: skip
    stated = F.when(F.col("current_leader_epoch") >= 0, F.col("current_leader_epoch"))
    served = served.withColumns(
        {
            "leader_epoch": F.coalesce(stated, "held_max"),
            "answered_offset": F.when(F.col("kind") == "reset", F.col("offset")),
        }
    ).where(F.col("leader_epoch").isNotNull())
    listed_at = F.when(F.col("fetch_offset").isNotNull() | (F.col("kind") != "read"), F.col("at"))
    read_at = F.when(F.col("records_size") > 0, F.col("at"))
    unlisted_at = F.when((F.col("records_size") > 0) & F.col("fetch_offset").isNull(), F.col("at"))
    found = served.groupBy(*_CLIENT, "kind", "leader_epoch", "answered_offset", "node", "connection").agg(
        *(F.min_by(name, listed_at).alias(f"first_{name}") for name in _FIRST),
        *(F.max_by(name, read_at).alias(f"read_{name}") for name in PLACE_OF_NODE),
        *(F.max_by(name, listed_at).alias(f"last_{name}") for name in _LAST),
        *(F.min_by(name, unlisted_at).alias(f"unlisted_{name}") for name in (*PLACE_OF_NODE, *_OF_DELIVERY)),
        F.min(listed_at).alias("first_at"),
        F.min(unlisted_at).alias("unlisted_at"),
        F.max("at").alias("last_at"),
        F.min(F.when(F.col("records_size") > 0, F.coalesce("fetch_offset", F.lit(-1)))).alias("read_from"),
        F.max("high_watermark").alias("high_watermark"),
        F.min("kafka_version").alias("kafka_version"),
    )
    return with_refs(found, events, "first", "read", "unlisted")


def _by_consumer() -> Column:
    """OffsetForLeaderEpoch names the replica from version 3 on; without a name it may be a consumer's."""
    return F.coalesce("replica_id", F.lit(CONSUMER)) == CONSUMER


def _group_offsets(events: DataFrame) -> DataFrame:
    """Offsets that clients were told by their group's coordinator (resumed), and the commits of the same offsets.

    own: the client itself had committed the offset there before it was told it, and nobody else ever did.
    """
    rows = of_types(events, "OFFSET_FETCH", "OFFSET_COMMIT", "TXN_OFFSET_COMMIT").where(
        (F.col("error_code") == 0) & (F.col("offset") >= 0) & F.col("group_id").isNotNull()
    )
    told = F.col("event_type") == "OFFSET_FETCH"
    rows = with_identity(rows.where(F.col("partition").isNotNull()), topic_incarnations(events)).select(
        "cluster", "client_id", client_host().alias("client_host"), "software_name", "software_version", "topic", "topic_id", "partition",
        "group_id", F.col("offset").alias("answered_offset"), *REF_FIELDS,
        F.when(told, "resumed").otherwise("committed").alias("kind"),
        F.when(told, F.col("response_leader_epoch")).otherwise(F.col("committed_leader_epoch")).alias("committed_leader_epoch"),
        at().alias("at"),
    )  # fmt: skip
    asked = ("cluster", "group_id", "topic", "partition", "answered_offset")
    wanted = rows.where(F.col("kind") == "resumed").select(*asked).distinct()
    rows = rows.join(F.broadcast(wanted), list(asked), "left_semi")
    client, committed = ("client_id", "client_host", "software_version"), F.col("kind") == "committed"
    committers = F.collect_set(F.when(committed, F.struct(*client))).over(Window.partitionBy(*asked))
    here = F.min(F.when(committed, F.col("at"))).over(Window.partitionBy(*asked, "node", *client))
    return rows.withColumn("own", (F.size(committers) == 1) & F.coalesce(here < F.col("at"), F.lit(False))).drop("at")


def _epochs() -> Column:
    return F.array_distinct(F.transform("reads", lambda r: r["leader_epoch"]))


def _with_first_fetch(subjects: DataFrame) -> DataFrame:
    """The first fetch of the epoch: lowest offset where several brokers or connections served it."""
    own = F.filter(
        "reads", lambda r: (r["leader_epoch"] == F.col("leader_epoch")) & r["first_fetch_offset"].isNotNull()
    )
    return (
        subjects.withColumns({"own": own})
        .withColumn("first", F.array_min("own"))
        .where(F.col("first").isNotNull())
        .withColumns({"fetch_offset": F.col("first.first_fetch_offset"), "shared_client_id": interleaved("own")})
    )


def _with_position(subjects: DataFrame) -> DataFrame:
    """Where the position came from: the client's own reads in an older epoch, or a committed offset it was told."""
    o = F.col("fetch_offset")
    read = F.array_max(
        F.transform(
            F.filter(
                "reads",
                lambda r: (
                    (r["leader_epoch"] < F.col("leader_epoch")) & (r["read_from"] < o) & (o <= r["high_watermark"])
                ),
            ),
            lambda r: F.struct(r["leader_epoch"], r["read_ref"]),
        )
    )
    resume = F.array_max(F.filter("resumes", lambda c: c["answered_offset"] == o))
    epochs = F.transform(
        F.filter("resumes", lambda c: c["answered_offset"] == o),
        lambda c: F.coalesce(c["committed_leader_epoch"], F.lit(-1)),
    )
    return subjects.withColumns({"read": read, "resume": resume}).withColumns(
        {
            "lowest_told_epoch": F.array_min(epochs),
            "reached_itself": F.exists("reads", lambda r: (_read_from(r) < o) & (o <= r["high_watermark"]))
            | F.exists("marks", lambda m: (m["kind"] == "reset") & (m["answered_offset"] == o)),
            "resumed": F.col("resume").isNotNull(),
            "position_epoch_stated": F.coalesce(F.col("resume.committed_leader_epoch") >= 0, F.lit(False)),
            "group_id": F.coalesce("resume.group_id", F.get("resumes", F.lit(0))["group_id"]),
            "committed_ref": F.col("resume.ref"),
            "resumed_offset": F.col("resume.answered_offset"),
            "resumed_group": F.col("resume.group_id"),
        }
    )


def _read_from(read: Column) -> Column:
    """The lowest offset that a read may have begun at; -1: unknown, its requests left the partition to their session."""
    delivered = F.when(read["read_from"] >= 0, read["read_from"])
    return F.coalesce(F.least(delivered, read["first_fetch_offset"]), F.lit(-1))


def _commit_bounds(histories: DataFrame) -> DataFrame:
    """One row per (partition, group, committed offset): the newest epoch in which a committing client had read up to it."""
    commits = histories.select(*_PARTITION, "reads", F.explode("commits").alias("commit"))
    read = F.array_max(
        F.transform(
            F.filter(
                "reads",
                lambda r: (
                    (r["read_from"] < F.col("commit.answered_offset"))
                    & (F.col("commit.answered_offset") <= r["high_watermark"])
                ),
            ),
            lambda r: F.struct(r["leader_epoch"], r["read_ref"]),
        )
    )
    stated = F.when(F.col("commit.committed_leader_epoch") >= 0, F.col("commit.committed_leader_epoch"))
    bound = F.struct(
        F.coalesce(stated, read["leader_epoch"]).alias("epoch"),
        F.coalesce(read["read_ref"], F.col("commit.ref")).alias("ref"),
    )
    return (
        commits.groupBy(
            *_PARTITION,
            F.col("commit.group_id").alias("resumed_group"),
            F.col("commit.answered_offset").alias("resumed_offset"),
        )
        .agg(F.max(bound).alias("bound"))
        .withColumn("topic_key", topic_key())
        .drop("topic", "topic_id")
    )


def _with_commit_bound(subjects: DataFrame, bounds: DataFrame) -> DataFrame:
    """Adds position_epoch and position_ref: stated with the committed offset, else read by the client, else by the committer."""
    key = ["cluster", "topic_key", "partition", "resumed_group", "resumed_offset"]
    joined = subjects.withColumn("topic_key", topic_key()).join(F.broadcast(bounds), key, "left")
    committed = F.when(F.col("position_epoch_stated"), F.col("resume.committed_leader_epoch"))
    return joined.withColumns(
        {
            "position_epoch": F.coalesce(committed, "read.leader_epoch", "bound.epoch"),
            "position_ref": F.coalesce("read.read_ref", "bound.ref"),
        }
    )


def _with_crossing(subjects: DataFrame, starts: DataFrame) -> DataFrame:
    """Adds whether the position lies beyond the start of an epoch that the record before it cannot belong to."""
    c, q, o = F.col("position_epoch"), F.col("leader_epoch"), F.col("fetch_offset")
    joined = subjects.join(F.broadcast(starts), ["cluster", "topic_key", "partition"], "left")
    between = F.filter("epochs", lambda e: (e["leader_epoch"] > c) & (e["leader_epoch"] <= q))
    known = F.filter("between", lambda e: e["start_offset"].isNotNull() | (e["leader"] == -1) | e["never_begun"])
    doubtful = F.array_max(
        F.transform(
            F.filter("between", lambda e: e["election"].isin("unclean", "unknown") & (e["leader"] != -1)),
            lambda e: e["leader_epoch"],
        )
    )
    beyond = F.filter("between", lambda e: e["start_offset"] < o)
    certain = F.filter("beyond", lambda e: e["leader_epoch"] >= F.coalesce("doubtful", F.lit(-1)))
    diverged = F.array_min(
        F.transform("certain", lambda e: F.struct(e["start_offset"], e["leader_epoch"], e["election"], e["start_ref"]))
    )
    joined = (
        joined.withColumn("between", between)
        .withColumns({"known": known, "doubtful": doubtful, "beyond": beyond})
        .withColumn("certain", certain)
        .withColumn("diverged", diverged)
    )
    return joined.select(
        "cluster", F.col("first.node").alias("node"), "topic", "topic_id", "partition", "leader_epoch", "client_id", "group_id",
        F.col("first.correlation_id").alias("correlation_id"), "fetch_offset", F.col("first.ref").alias("fetch_ref"),
        F.col("first.api_version").alias("api_version"), F.col("first.current_leader_epoch").alias("current_leader_epoch"),
        F.col("first.kafka_version").alias("kafka_version"), "position_epoch", "position_epoch_stated", "position_ref",
        "committed_ref", "resumed", "shared_client_id", "several_incarnations",
        F.col("diverged").isNotNull().alias("crossed"),
        F.col("diverged.start_offset").alias("divergence_offset"), (o - 1).alias("last_lost_offset"),
        F.col("diverged.leader_epoch").alias("crossed_epoch"), F.col("diverged.election").alias("crossed_election"),
        F.col("diverged.start_ref").alias("crossed_ref"),
        (F.size("beyond") > 0).alias("crossing_uncertain"),
        (F.coalesce(F.size("known"), F.lit(0)) < q - c).alias("epochs_missing"),
        _detected().alias("detected"), "lowest_told_epoch", "reached_itself",
        F.exists("marks", lambda m: (m["kind"] == "asked") & (m["leader_epoch"] == q) & _before(m)).alias("asked"),
        F.exists("marks", lambda m: (m["kind"] == "refused") & (m["leader_epoch"] < c)).alias("refused_below"), "software_name",
    )  # fmt: skip


def _before(mark: Column) -> Column:
    """In an earlier epoch, or earlier in the request log of the broker that served the subject's first fetch."""
    first = F.col("first")
    later = (mark["node"] == first["node"]) & (mark["first_at"] > first["first_at"])
    return (mark["leader_epoch"] <= F.col("leader_epoch")) & ~((mark["leader_epoch"] == F.col("leader_epoch")) & later)


def _detected() -> Column:
    """How the client noticed before its first fetch of the epoch went on: null if it did not."""
    e, o = F.coalesce("diverged.leader_epoch", "leader_epoch"), F.col("fetch_offset")
    first = F.col("first")

    def seen(kind: str) -> Column:
        return F.exists(
            "marks",
            lambda m: (
                (m["kind"] == kind)
                & (m["leader_epoch"] >= e)
                & _before(m)
                & (m["answered_offset"].isNull() | (m["answered_offset"] == o))
            ),
        )

    asked_by_epoch = (first["last_fetched_epoch"] >= 0) & (first["last_fetched_epoch"] < e)
    return (
        F.when(seen("validated"), "an OffsetForLeaderEpoch answer")
        .when(seen("out_of_range"), "an out-of-range answer")
        .when(seen("reset"), "a new position from ListOffsets")
        .when(asked_by_epoch | (first["diverging_epoch"] >= 0), "the leader's comparison with lastFetchedEpoch")
    )
