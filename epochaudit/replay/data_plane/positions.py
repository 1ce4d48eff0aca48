"""Frame `positions`: each consumer's first fetch in a new leader epoch, with the lineage that its position comes from.

A consumer does not state the leader epoch of the record before its position. The epoch of the broker that returned the record is an
upper bound: if a later epoch that is still part of the log starts below the position, the position belongs to truncated records.

A position that was carried into another topic of the same name is a row, too: see `carried_positions`.

Clock: one client's fetches are ordered by the leader epoch that served them, within one broker by its request log. Two
brokers' clocks are never compared, nor one client's correlation ids at two brokers.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FETCH,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    TXN_OFFSET_COMMIT,
)
from epochaudit.events.times import FOREVER
from epochaudit.events.views import REF_FIELDS, client_host, holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import CONSUMER_REPLICA_ID, NO_EPOCH, NO_LEADER
from epochaudit.replay.data_plane.carried_positions import carried_positions, interleaved
from epochaudit.replay.data_plane.lineage import epoch_starts
from epochaudit.replay.state.held_epochs import with_held_epochs
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.log_gaps import covered, request_logs
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, of_last, with_refs
from epochaudit.spark.memo import checkpointed

_CLIENT: Final = (
    "cluster", "client_id", "client_host", "software_name", "software_version", "topic", "topic_id", "partition",
)  # fmt: skip
_PARTITION: Final = ("cluster", "topic", "topic_id", "partition")
_OF_REQUEST: Final = (
    "correlation_id", "api_version", "current_leader_epoch", "last_fetched_epoch", "diverging_epoch", "log_start_offset",
)  # fmt: skip
_FIRST: Final = (*PLACE_OF_NODE, "fetch_offset", *_OF_REQUEST)
_LAST: Final = (*PLACE_OF_NODE, "fetch_offset", "session_id", "correlation_id")
_OF_LAST: Final = ("fetch_offset", "session_id", "correlation_id")
_OF_DELIVERY: Final = ("correlation_id", "api_version", "log_start_offset", "session_id")


def positions(events: DataFrame) -> DataFrame:
    """One row per (client instance, partition, leader epoch) whose position came from an older epoch or a committed offset.

    And one per (client instance, partition) that went on in another topic of the name, with crossed_topic_recreation true; see
    `carried_positions`.
    Needs: the events table. A client instance is a client id at one host with one software name and version.
    Columns: the subject columns (node = the broker that served the first fetch with error code 0 in leader_epoch), fetch_offset,
    fetch_ref, api_version, current_leader_epoch, kafka_version, software_name, ambiguous_name (several topics
    had the name), shared_client_id (see `interleaved`), and
      position_epoch         upper bound of the leader epoch of the record before the position
      position_ref           where the client, else the committing client, had read up to the position; null if neither is known to
      commit_ref             the commit of that offset, of the newest epoch; null if the client itself had read up to the position
      position_epoch_stated  the committed offset states it
      resumed                the group's coordinator had returned the offset; committed_ref
      committed_with         the leader epoch that the coordinator returned with the offset, in words; null unless resumed
      lowest_offset_fetch_epoch   the lowest epoch of all the coordinator's answers with that offset; -1: one has none;
                             without_epoch_ref, such an answer, null if committed_ref is one
      reached_itself         the client read up to the offset, or ListOffsets returned it to the client, at any time
      at_log_start           the offset is the beginning of the log, by the answer to that fetch
      may_be_reset           before, and not in a leader epoch below position_epoch, ListOffsets returned the offset to the client: a
                             position that is reset to it has no leader epoch, which skips validation (OffsetFetcherUtils);
                             reset_ref, the answer in the newest leader epoch, null if the client states no leader epoch in any case
      read_on_in             the newest leader epoch before, and not below position_epoch, in which the client fetched above the offset or
                             was answered records from it on; null: none. If a seek took it back, its position has no leader epoch
      epoch_unknown          before, the client had an OffsetForLeaderEpoch answer in leader_epoch with end offset -1
      refused_epoch, refused_ref   the newest leader epoch below position_epoch in which its fetch at the offset was refused with 74
                             FENCED_LEADER_EPOCH or 75 UNKNOWN_LEADER_EPOCH
      crossed                a later leader epoch that is still part of the log starts below the position; crossed_epoch,
                             divergence_offset (its start), crossed_ref (the leader's line), crossed_election, crossed_how (the same,
                             null if neither clean nor unclean), crossed_election_ref (null likewise); last_lost_offset: the offset
                             before the position
      crossing_uncertain     some later epoch starts below the position. Unless `crossed`, a later election that was unclean, or of an
                             unknown kind, may have removed that epoch
      epochs_missing         the start of an epoch in between is not recorded
      detected               how the client detected the truncation, null if it did not
      requests_missing       it may have detected it in a request that is not recorded: the request log of a leader of these leader epochs
                             begins later than its epoch, or lacks files. For other topics of the name see `carried_positions`
    """
    histories = consumer_histories(events)
    subjects = histories.select(
        *_CLIENT, "reads", "other_answers", "resumes", F.explode(_epochs()).alias("leader_epoch")
    )
    subjects = _with_position(_with_first_fetch(subjects))
    subjects = _with_commit_bound(subjects, _commit_bounds(histories))
    subjects = subjects.where(F.col("position_epoch").isNotNull() | F.col("resumed"))
    within = _with_crossing(subjects, epoch_starts(events), request_logs(events))
    return within.unionByName(carried_positions(histories, events), allowMissingColumns=True)


@checkpointed
def consumer_histories(events: DataFrame) -> DataFrame:
    """One row per (client instance, partition): its reads by epoch and connection, other_answers, resumes and commits.

    Needs: the events table. other_answers to the client, by kind: out_of_range, validated (OffsetForLeaderEpoch), epoch_unknown
    (OffsetForLeaderEpoch with end offset -1), reset (ListOffsets), refused (74 FENCED_LEADER_EPOCH or 75 UNKNOWN_LEADER_EPOCH for
    the leader epoch that it stated). Of a read, first_* is the first request that listed the partition, last_* the last one, and
    unlisted_* the first answer with records for an offset that the request left to its session. first_at, last_at: places in the
    node's logs (`places.at`).
    Checkpointed, as `positions` reads it twice and `client_epochs` once.
    """
    per_epoch = _per_epoch(events).unionByName(_group_offsets(events), allowMissingColumns=True)
    kind = F.col("kind")
    unlisted = F.struct(
        "unlisted_at", F.col("unlisted_ref").alias("ref"), *(F.col(f"unlisted_{name}").alias(name) for name in _OF_DELIVERY)
    )  # fmt: skip
    read = F.struct(
        "leader_epoch", "first_fetch_offset", "node", "first_at", "last_at", *(F.col(f"first_{name}").alias(name) for name in _OF_REQUEST),
        F.col("first_ref").alias("ref"), "read_from", *(f"last_{name}" for name in _OF_LAST), "last_ref", unlisted.alias("unlisted"),
        "high_watermark", "kafka_version", "read_ref", "connection", "reached",
    )  # fmt: skip
    answer = F.struct(
        "kind", "leader_epoch", "node", "first_at", "answered_offset", "connection",
        F.col("first_correlation_id").alias("correlation_id"), F.col("first_api_version").alias("api_version"),
        F.col("first_ref").alias("ref"), F.col("first_fetch_offset").alias("fetch_offset")
    )  # fmt: skip
    group = F.struct("answered_offset", "committed_leader_epoch", "group_id", ref().alias("ref"), "own", "answered_at")
    return per_epoch.groupBy(*_CLIENT).agg(
        F.collect_list(F.when(kind == "read", read)).alias("reads"),
        F.collect_list(
            F.when(kind.isin("out_of_range", "validated", "epoch_unknown", "reset", "refused"), answer)
        ).alias("other_answers"),
        F.collect_list(F.when(kind == "resumed", group)).alias("resumes"),
        F.collect_list(F.when(kind == "committed", group)).alias("commits"),
    )


def _per_epoch(events: DataFrame) -> DataFrame:
    """One row per (client instance, partition, kind of answer, serving epoch, node and connection).

    An incremental Fetch whose answer omits the partition was accepted and had nothing to deliver. read_from is the lowest offset that
    was answered with records, -1 where the request left it to the session. reached: the position was there, or above.
    Fetches are aggregated where they are read, over all files of a node. All buffers have a fixed width, so that it stays a hash
    aggregation.
    """
    rows = of_types(events, FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH).where(
        F.col("client_id").isNotNull() & _by_consumer() & is_user_topic()
    )
    fetch, ok = F.col("event_type") == FETCH, F.col("error_code") == Errors.NONE
    nothing_new = (
        F.col("in_request")
        & ~F.col("in_response")
        & (F.col("session_epoch") > 0)
        & (F.col("request_error_code") == Errors.NONE)
    )
    known = F.coalesce("offset", F.lit(0)) >= 0  # -1: the leader does not know the epoch
    kind = (
        F.when(fetch & (ok | nothing_new), "read")
        .when(fetch & (F.col("error_code") == Errors.OFFSET_OUT_OF_RANGE), "out_of_range")
        .when(
            (F.col("current_leader_epoch") >= 0)
            & F.col("error_code").isin(Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH),
            "refused",
        )
        .when((F.col("event_type") == LIST_OFFSETS) & ok, "reset")
        .when(
            (F.col("event_type") == OFFSET_FOR_LEADER_EPOCH) & ok, F.when(known, "validated").otherwise("epoch_unknown")
        )
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
        *of_first(_FIRST, listed_at, "first_"),
        *of_last(PLACE_OF_NODE, read_at, "read_"),
        *of_last(_LAST, listed_at, "last_"),
        *of_first((*PLACE_OF_NODE, *_OF_DELIVERY), unlisted_at, "unlisted_"),
        F.min(listed_at).alias("first_at"),
        F.min(unlisted_at).alias("unlisted_at"),
        F.max("at").alias("last_at"),
        F.min(F.when(F.col("records_size") > 0, F.coalesce("fetch_offset", F.lit(-1)))).alias("read_from"),
        F.max(F.col("fetch_offset") + F.when(F.col("records_size") > 0, 1).otherwise(0)).alias("reached"),
        F.max("high_watermark").alias("high_watermark"),
        F.min("kafka_version").alias("kafka_version"),
    )
    return with_refs(found, events, "first", "read", "last", "unlisted")


def _by_consumer() -> Column:
    """The request is a consumer's, or may be: OffsetForLeaderEpoch below version 3 has no replica id."""
    return F.coalesce("replica_id", F.lit(CONSUMER_REPLICA_ID)) == CONSUMER_REPLICA_ID


def _group_offsets(events: DataFrame) -> DataFrame:
    """One row per offset that a group's coordinator returned to a client (resumed), and per commit of such an offset (committed).

    own: only this client ever committed the offset, and it did so at this coordinator before the answer.
    """
    rows = of_types(events, OFFSET_FETCH, OFFSET_COMMIT, TXN_OFFSET_COMMIT).where(
        (F.col("error_code") == Errors.NONE) & (F.col("offset") >= 0) & F.col("group_id").isNotNull()
    )
    returned = F.col("event_type") == OFFSET_FETCH
    rows = with_identity(rows.where(F.col("partition").isNotNull()), topic_incarnations(events)).select(
        "cluster", "client_id", client_host().alias("client_host"), "software_name", "software_version", "topic", "topic_id", "partition",
        "group_id", F.col("offset").alias("answered_offset"), *REF_FIELDS,
        F.when(returned, "resumed").otherwise("committed").alias("kind"),
        F.when(returned, F.col("response_leader_epoch")).otherwise(F.col("committed_leader_epoch")).alias("committed_leader_epoch"),
        at().alias("at"),
    )  # fmt: skip
    group_offset = ("cluster", "group_id", "topic", "partition", "answered_offset")
    resumed = rows.where(F.col("kind") == "resumed").select(*group_offset).distinct()
    rows = rows.join(F.broadcast(resumed), list(group_offset), "left_semi")
    client, committed = ("client_id", "client_host", "software_version"), F.col("kind") == "committed"
    committers = F.collect_set(F.when(committed, F.struct(*client))).over(Window.partitionBy(*group_offset))
    first_commit = F.min(F.when(committed, F.col("at"))).over(Window.partitionBy(*group_offset, "node", *client))
    own = (F.size(committers) == 1) & holds(first_commit < F.col("at"))
    return rows.withColumn("own", own).withColumnRenamed("at", "answered_at")


def _epochs() -> Column:
    return F.array_distinct(F.transform("reads", lambda r: r["leader_epoch"]))


def _with_first_fetch(subjects: DataFrame) -> DataFrame:
    """Adds the first fetch of the epoch (the lowest if several brokers or connections served it), and shared_client_id."""
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
    """Adds the position's source: the client's own reads in an older epoch, or an offset that the coordinator returned."""
    o = F.col("fetch_offset")
    read = F.array_max(
        F.transform(
            F.filter(
                "reads",
                lambda r: (r["leader_epoch"] < F.col("leader_epoch")) & (_delivered(r, o) | _waited(r, o)),
            ),
            _epoch_and_ref,
        )
    )
    first = F.col("first")

    def returned_before(resume: Column) -> Column:
        """Not after the first fetch in the same broker's request log: then an earlier instance of the client fetched."""
        later = (resume["ref"]["node"] == first["node"]) & (resume["answered_at"] > first["first_at"])
        return (resume["answered_offset"] == o) & ~later

    returned = F.filter("resumes", returned_before)
    epochs = F.transform(
        returned, lambda c: F.struct(F.coalesce(c["committed_leader_epoch"], F.lit(NO_EPOCH)).alias("epoch"), c["ref"])
    )
    stated = holds(F.col("resume.committed_leader_epoch") >= 0)
    lowest = {"read": read, "resume": F.array_max(returned), "lowest": F.array_min(epochs)}
    return subjects.withColumns(lowest).withColumns(
        {
            "lowest_offset_fetch_epoch": F.col("lowest.epoch"),
            "without_epoch_ref": F.when(stated & (F.col("lowest.epoch") < 0), F.col("lowest.ref")),
            "reached_itself": F.exists("reads", lambda r: (_read_from(r) < o) & (o <= r["high_watermark"]))
            | F.exists("other_answers", lambda m: (m["kind"] == "reset") & (m["answered_offset"] == o)),
            "at_log_start": holds(o <= first["log_start_offset"]),
            "resumed": F.col("resume").isNotNull(),
            "position_epoch_stated": stated,
            "group_id": F.coalesce("resume.group_id", F.array_min("resumes")["group_id"]),
            "committed_ref": F.col("resume.ref"),
            "committed_with": F.when(F.col("resume").isNotNull(), _in_words(F.col("resume.committed_leader_epoch"))),
            "resumed_offset": F.col("resume.answered_offset"),
            "resumed_group": F.col("resume.group_id"),
        }
    )


def _in_words(committed_leader_epoch: Column) -> Column:
    stated = F.concat(F.lit("leader epoch "), committed_leader_epoch.cast("string"))
    return F.when(committed_leader_epoch >= 0, stated).otherwise(F.lit("no leader epoch"))


def _delivered(read: Column, offset: Column) -> Column:
    """Whether the epoch's answers returned the record before the offset to the client."""
    return (read["read_from"] < offset) & (offset <= read["high_watermark"])


def _waited(read: Column, offset: Column) -> Column:
    """Whether the client's last fetch was at the offset, and an earlier one below: it read up to there, in this epoch or before.

    This finds positions whose answers with records are missing, as request logs may be filtered. Needs: reads, all of the client.
    """
    began_below = F.exists(
        "reads", lambda r: (r["leader_epoch"] <= read["leader_epoch"]) & (r["first_fetch_offset"] < offset)
    )
    return (read["last_fetch_offset"] == offset) & began_below


def _epoch_and_ref(read: Column) -> Column:
    return F.struct(read["leader_epoch"], F.coalesce(read["read_ref"], read["last_ref"]).alias("read_ref"))


def _read_from(read: Column) -> Column:
    """The lowest offset at which a read may have begun; -1: unknown, as its requests left the offset to their session."""
    delivered = F.when(read["read_from"] >= 0, read["read_from"])
    return F.coalesce(F.least(delivered, read["first_fetch_offset"]), F.lit(-1))


def _commit_bounds(histories: DataFrame) -> DataFrame:
    """One row per (partition, group, committed offset): the newest epoch in which a committing client had read up to it."""
    commits = histories.select(*_PARTITION, "reads", F.explode("commits").alias("commit"))
    offset = F.col("commit.answered_offset")
    delivered = F.transform(F.filter("reads", lambda r: _delivered(r, offset)), _epoch_and_ref)
    waited = F.transform(F.filter("reads", lambda r: _waited(r, offset)), _epoch_and_ref)
    once = F.array_min(waited)["leader_epoch"] == F.array_max(waited)["leader_epoch"]  # else it may have read twice
    read = F.coalesce(F.array_max(delivered), F.when(once, F.array_max(waited)))
    stated = F.when(F.col("commit.committed_leader_epoch") >= 0, F.col("commit.committed_leader_epoch"))
    bound = F.struct(
        F.coalesce(stated, read["leader_epoch"]).alias("epoch"),
        read["read_ref"].alias("read_ref"),
        F.col("commit.ref").alias("commit_ref"),
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
    """Adds position_epoch, from the committed offset, else the client's reads, else the committing client's.

    And position_ref and commit_ref.
    """
    key = ["cluster", "topic_key", "partition", "resumed_group", "resumed_offset"]
    joined = subjects.withColumn("topic_key", topic_key()).join(F.broadcast(bounds), key, "left")
    committed = F.when(F.col("position_epoch_stated"), F.col("resume.committed_leader_epoch"))
    return joined.withColumns(
        {
            "position_epoch": F.coalesce(committed, "read.leader_epoch", "bound.epoch"),
            "position_ref": F.coalesce("read.read_ref", "bound.read_ref"),
            "commit_ref": F.when(F.col("read").isNull(), F.col("bound.commit_ref")),
        }
    )


def _with_crossing(subjects: DataFrame, starts: DataFrame, logs: DataFrame) -> DataFrame:
    """The rows of the frame: whether an epoch that starts below the position excludes the record before it from the log."""
    joined = subjects.join(F.broadcast(starts), ["cluster", "topic_key", "partition"], "left")
    joined = joined.join(F.broadcast(logs), "cluster", "left")
    crossing = joined.withColumns(_last_answers()).transform(_with_epochs_between)
    return crossing.select(*_crossing())


def _with_epochs_between(joined: DataFrame) -> DataFrame:
    """Adds the epochs after the position's, up to the leader's: between, known, doubtful, beyond, certain and diverged.

    known: those of which the start is recorded, or which have none. doubtful: the last one whose election may have been unclean.
    beyond: those that start below the position; certain: of these, from the doubtful one on. diverged: of the certain ones the one that
    starts first.
    """
    c, q, o = F.col("position_epoch"), F.col("leader_epoch"), F.col("fetch_offset")
    between = F.filter("epochs", lambda e: (e["leader_epoch"] > c) & (e["leader_epoch"] <= q))
    known = F.filter("between", lambda e: e["start_offset"].isNotNull() | (e["leader"] == NO_LEADER) | e["never_begun"])
    maybe_unclean = F.filter("between", lambda e: e["election"].isin("unclean", "unknown") & (e["leader"] != NO_LEADER))
    doubtful = F.array_max(F.transform(maybe_unclean, lambda e: e["leader_epoch"]))
    beyond = F.filter("between", lambda e: e["start_offset"] < o)
    certain = F.filter("beyond", lambda e: e["leader_epoch"] >= F.coalesce("doubtful", F.lit(NO_EPOCH)))
    by_start = F.transform(
        "certain",
        lambda e: F.struct(e["start_offset"], e["leader_epoch"], e["election"], e["start_ref"], e["election_ref"]),
    )
    return (
        joined.withColumn("between", between)
        .withColumns({"known": known, "doubtful": doubtful, "beyond": beyond})
        .withColumn("certain", certain)
        .withColumn("diverged", F.array_min(by_start))
    )


def _last_answers() -> dict[str, Column]:
    """refused and reset: the last answer that refused the position in an older epoch, and the last that may have reset it."""
    c, o = F.col("position_epoch"), F.col("fetch_offset")
    refused = F.filter(
        "other_answers",
        lambda m: (m["kind"] == "refused") & (m["leader_epoch"] < c) & (m["fetch_offset"] == o),
    )
    reset = F.filter(
        "other_answers",
        lambda m: (m["kind"] == "reset") & (m["answered_offset"] == o) & (m["leader_epoch"] >= c) & _before(m),
    )
    return {
        name: F.array_max(F.transform(answers, _epoch_and_answer))
        for name, answers in (("refused", refused), ("reset", reset))
    }


def _crossing() -> list[str | Column]:
    """The columns of the frame."""
    c, q, o = F.col("position_epoch"), F.col("leader_epoch"), F.col("fetch_offset")
    knows_election = F.col("diverged.election").isin("clean", "unclean")
    read_on = F.filter("reads", lambda r: r["leader_epoch"].between(c, q - 1) & (r["reached"] > o))
    return [
        "cluster", F.col("first.node").alias("node"), "topic", "topic_id", "partition", "leader_epoch", "client_id", "group_id",
        F.col("first.correlation_id").alias("correlation_id"), "fetch_offset", F.col("first.ref").alias("fetch_ref"),
        F.col("first.api_version").alias("api_version"), F.col("first.current_leader_epoch").alias("current_leader_epoch"),
        F.col("first.kafka_version").alias("kafka_version"), "position_epoch", "position_epoch_stated", "position_ref",
        "commit_ref", "committed_ref", "committed_with", "without_epoch_ref", "resumed", "shared_client_id", "ambiguous_name",
        F.col("diverged").isNotNull().alias("crossed"),
        F.col("diverged.start_offset").alias("divergence_offset"), (o - 1).alias("last_lost_offset"),
        F.col("diverged.leader_epoch").alias("crossed_epoch"), F.col("diverged.election").alias("crossed_election"),
        F.when(knows_election, F.col("diverged.election")).alias("crossed_how"),
        F.when(knows_election, F.col("diverged.election_ref")).alias("crossed_election_ref"),
        F.col("diverged.start_ref").alias("crossed_ref"),
        (F.size("beyond") > 0).alias("crossing_uncertain"),
        (F.coalesce(F.size("known"), F.lit(0)) < q - c).alias("epochs_missing"),
        F.col("reset").isNotNull().alias("may_be_reset"),
        F.when(F.col("first.current_leader_epoch") >= 0, F.col("reset.ref")).alias("reset_ref"),
        F.array_max(F.transform(read_on, lambda r: r["leader_epoch"])).alias("read_on_in"),
        _detected().alias("detected"), _requests_missing().alias("requests_missing"),
        "lowest_offset_fetch_epoch", "reached_itself", "at_log_start",
        F.exists("other_answers", lambda m: (m["kind"] == "epoch_unknown") & (m["leader_epoch"] == q) & _before(m)).alias("epoch_unknown"),
        F.col("refused.leader_epoch").alias("refused_epoch"), F.col("refused.ref").alias("refused_ref"), "software_name",
    ]  # fmt: skip


def _epoch_and_answer(answer: Column) -> Column:
    return F.struct(answer["leader_epoch"], answer["ref"])


def _before(answer: Column) -> Column:
    """Not in a later epoch, nor later in the request log of the broker that served the subject's first fetch."""
    first = F.col("first")
    later = (answer["node"] == first["node"]) & (answer["first_at"] > first["first_at"])
    return (answer["leader_epoch"] <= F.col("leader_epoch")) & ~(
        (answer["leader_epoch"] == F.col("leader_epoch")) & later
    )


def _crossed_epoch() -> Column:
    """The leader epoch from which on the client can have detected the truncation."""
    return F.coalesce("diverged.leader_epoch", "leader_epoch")


def _requests_missing() -> Column:
    """A leader from the crossed epoch to that of the fetch may have answered the client in a request that is not recorded."""
    first = F.col("first")
    of_leader = F.filter(
        "epochs",
        lambda e: (
            e["leader_epoch"].between(_crossed_epoch(), F.col("leader_epoch"))
            & (e["leader"] != NO_LEADER)
            & ~e["never_begun"]
        ),
    )

    def recorded(epoch: Column) -> Column:
        until_ms = F.when(epoch["leader"] == first["node"], first["ref"]["time_ms"]).otherwise(F.lit(FOREVER))
        return covered(epoch["leader"], epoch["start_ref"]["time_ms"], until_ms)

    served = F.exists(of_leader, lambda e: e["leader_epoch"] == F.col("leader_epoch"))
    return ~holds(served & F.forall(of_leader, recorded))


def _detected() -> Column:
    """How the client detected the truncation up to its first fetch in the epoch; null if it did not."""
    e, o = _crossed_epoch(), F.col("fetch_offset")
    first = F.col("first")

    def seen(kind: str) -> Column:
        return F.exists(
            "other_answers",
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
