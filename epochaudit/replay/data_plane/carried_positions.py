"""Positions that consumers carried into a topic that was created again under the same name.

Leader epochs and offsets of the new topic start at 0, so that no leader epoch distinguishes the two topics. An offset of the old topic
means another record in the new one.
Clock: one client's fetches by the leader epoch that served them, within one broker by its request log; topics of one name by the
nodes that stated both.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import holds
from epochaudit.replay.state.incarnations import earlier_ids, later_ids, topic_incarnations, with_identity
from epochaudit.replay.state.inferred_topic_ids import topic_in_words
from epochaudit.replay.state.log_gaps import covered, request_logs

_CLIENT: Final = ("cluster", "client_id", "client_host", "software_version", "topic", "partition")
_ENTRY: Final = ("ref", "correlation_id", "api_version", "log_start_offset")


def carried_positions(histories: DataFrame, events: DataFrame) -> DataFrame:
    """One row per (client instance, partition, topic id) that the client read after another topic of the same name.

    Needs: the events table; `histories`: `consumer_histories` of the frame `positions`.
    Columns: the subject columns (node = the broker that served the first fetch with error code 0 in the new topic, leader_epoch =
    the one that it was served in), api_version, ambiguous_name (if true and topic_id is null, nothing distinguishes the topics),
    shared_client_id, and
      crossed_topic_recreation   true
      fetch_offset          of that fetch, null if the request left it to a session whose offset is unknown; fetch_ref
      left_to_session       the request did not list the partition
      log_start_offset      of the new topic, 0 if the answer has none
      last_skipped_offset   the one before fetch_offset
      previous_topic_id     the id of the old topic; topic_now, topic_before: both topics in words
      position_ref          where the client read up to this offset, or fetched at it, in the old topic; null if it did not
      created_ref           the node's first event with the new topic id
      committed_ref         the answer with which the group's coordinator returned the offset
      resumed               the coordinator returned it, unless only the client itself had committed it: by then the client had
                            read the old topic alone
      detected              how the client got a new position, null if it did not
      refused               a leader epoch that the client stated was refused before
      requests_missing      the client may have got its position in a request that is not recorded: the request log of the node begins
                            later than created_ref, or lacks files before the fetch
      order_unknown         the evidence does not show which of the topics came first
    """
    rows = with_identity(histories, topic_incarnations(events), "recreated", "sightings")
    rows = rows.where(F.col("recreated") | F.col("ambiguous_name"))
    rows = _with_other_topics(rows).withColumn("reads", F.filter("reads", _placed))
    rows = rows.where((F.size("reads") > 0) & F.col("topic").isNotNull())
    read_old_topic = F.size("old_reads") > 0
    nameless = F.col("topic_id").isNull() & F.col("ambiguous_name")
    rows = _entry(rows.where(read_old_topic | F.col("order_unknown") | nameless))
    rows = rows.join(F.broadcast(request_logs(events)), "cluster", "left")
    rows = _origin(rows).withColumn("previous_topic_id", F.coalesce("origin.of.topic_id", "previous_topic_id"))
    return rows.select(
        F.lit(True).alias("crossed_topic_recreation"), "cluster", F.col("first.node").alias("node"), "topic", "topic_id", "partition",
        F.col("first.leader_epoch").alias("leader_epoch"), "client_id", F.col("resume.group_id").alias("group_id"),
        F.col("at.correlation_id").alias("correlation_id"), "fetch_offset", F.col("at.ref").alias("fetch_ref"),
        F.col("at.api_version").alias("api_version"), "left_to_session", "log_start_offset",
        "previous_topic_id", topic_in_words(F.col("topic_id")).alias("topic_now"),
        topic_in_words(F.col("previous_topic_id")).alias("topic_before"),
        F.col("origin.read_ref").alias("position_ref"), "created_ref", (F.col("fetch_offset") - 1).alias("last_skipped_offset"),
        "resumed", F.col("resume.ref").alias("committed_ref"), "detected", "refused", "requests_missing",
        "order_unknown", "ambiguous_name", "shared_client_id",
    )  # fmt: skip


def _with_other_topics(rows: DataFrame) -> DataFrame:
    """Adds the client's reads of the topics that had the name before, and its answers that name no topic id.

    Columns: old_reads, unplaced_reads (of no topic id), previous_topic_id, other_answers, resumes, order_unknown.
    """
    of_client = Window.partitionBy(*_CLIENT)
    own = F.col("topic_id")
    topics = F.collect_list(F.struct("topic_id", "reads", "other_answers", "resumes")).over(of_client)
    rows = rows.withColumns({"topics": topics, "before": earlier_ids(own), "after": later_ids(own)})

    def unordered(topic: Column) -> Column:
        ordered = F.array_contains("before", topic["topic_id"]) | F.array_contains("after", topic["topic_id"])
        return (topic["topic_id"] != own) & (F.size(topic["reads"]) > 0) & ~ordered

    old = F.filter("topics", lambda topic: F.array_contains("before", topic["topic_id"]) & (F.size(topic["reads"]) > 0))
    same = F.filter("topics", lambda topic: topic["topic_id"].isNull() | (topic["topic_id"] == own))
    return rows.withColumns(
        {
            "old_reads": F.flatten(F.transform(old, _of_topic)),
            "unplaced_reads": F.flatten(F.filter("topics", lambda topic: topic["topic_id"].isNull())["reads"]),
            "previous_topic_id": F.array_max(F.transform(old, lambda topic: _generation(topic["topic_id"])))[
                "topic_id"
            ],
            "other_answers": F.flatten(same["other_answers"]),
            "resumes": F.flatten(F.col("topics")["resumes"]),
            "order_unknown": holds(F.exists("topics", unordered)),
        }
    ).drop("topics", "before", "after")


def _of_topic(topic: Column) -> Column:
    """The reads of a topic, each with its generation: of."""
    return F.transform(topic["reads"], lambda read: read.withField("of", _generation(topic["topic_id"])))


def _generation(topic_id: Column) -> Column:
    """A topic id, ordered by how many topics of the name came before it."""
    return F.struct(F.size(earlier_ids(topic_id)).alias("generation"), topic_id.alias("topic_id"))


def _placed(read: Column) -> Column:
    """The client fetched at an offset, or received records: not only a high watermark."""
    return read["first_at"].isNotNull() | read["unlisted"]["unlisted_at"].isNotNull()


def _entry(rows: DataFrame) -> DataFrame:
    """Adds the client's first fetch of the new topic: a request that lists it, or records for an offset left to the session."""
    first = F.array_min("reads")
    rows = rows.withColumns({"first": first, "shared_client_id": interleaved("reads")})
    listed, unlisted = F.col("first"), F.col("first.unlisted")
    left = unlisted["unlisted_at"].isNotNull() & (
        listed["first_at"].isNull() | (unlisted["unlisted_at"] < listed["first_at"])
    )
    entry = F.struct(
        listed["node"].alias("node"),
        F.when(left, unlisted["unlisted_at"]).otherwise(listed["first_at"]).alias("place"),
        *(F.when(left, unlisted[name]).otherwise(listed[name]).alias(name) for name in _ENTRY),
    )

    def in_session(read: Column) -> Column:
        same_node = (read["node"] == listed["node"]) & (unlisted["session_id"] > 0)
        return same_node & (read["last_session_id"] == unlisted["session_id"])

    def offsets(reads: Column) -> Column:
        return F.transform(reads, lambda r: F.struct(r["last_at"], r["last_fetch_offset"], r["first_at"]))

    # a request for either topic may have set the session's offset in the new one
    unplaced = offsets(F.filter("unplaced_reads", in_session))
    unplaced = F.filter(unplaced, lambda r: r["first_at"] < unlisted["unlisted_at"])
    last = F.array_max(F.concat(offsets(F.filter("old_reads", in_session)), unplaced))
    unclear = F.exists(unplaced, lambda r: r["last_at"] > unlisted["unlisted_at"])
    return rows.withColumns(
        {
            "left_to_session": left,
            "fetch_offset": F.when(left, F.when(~unclear, last["last_fetch_offset"])).otherwise(
                listed["first_fetch_offset"]
            ),
            "at": entry,
        }
    ).withColumn("log_start_offset", F.greatest(F.coalesce("at.log_start_offset", F.lit(0)), F.lit(0)))


def _origin(rows: DataFrame) -> DataFrame:
    """Adds where the position came from, and what brokers answered the client before."""
    o, at = F.col("fetch_offset"), F.col("at")
    stated = F.filter("sightings", lambda s: (s["topic_id"] == F.col("topic_id")) & (s["node"] == at["node"]))
    created_ref = F.get(stated, F.lit(0))["ref"]
    read = F.filter(
        "old_reads",
        lambda r: (
            ((r["read_from"] < o) & (o <= r["high_watermark"]))
            | (r["first_fetch_offset"] == o)
            | (r["last_fetch_offset"] == o)
        ),
    )
    own_ref = F.transform(
        read,
        lambda r: F.struct(
            r["of"].alias("of"),
            r["leader_epoch"],
            F.when(r["last_fetch_offset"] == o, r["last_ref"])
            .otherwise(F.coalesce(r["read_ref"], r["ref"]))
            .alias("read_ref"),
        ),
    )

    def before(answer: Column) -> Column:
        """Not later in the request log of the broker that served the first fetch. Another broker's order is unknown."""
        return (answer["node"] != at["node"]) | (answer["first_at"] <= at["place"])

    def seen(kind: str) -> Column:
        return F.exists("other_answers", lambda m: (m["kind"] == kind) & before(m))

    reset = F.exists("other_answers", lambda m: (m["kind"] == "reset") & before(m) & (m["answered_offset"] == o))
    diverged = ~F.col("left_to_session") & (F.col("first.diverging_epoch") >= 0)
    return rows.withColumns(
        {
            "origin": F.array_max(own_ref),
            "resume": F.array_max(F.filter("resumes", lambda c: c["answered_offset"] == o)),
            "resumed": F.exists("resumes", lambda c: (c["answered_offset"] == o) & ~c["own"]),
            "detected": F.when(reset, "a new position from ListOffsets")
            .when(seen("out_of_range"), "an out-of-range answer")
            .when(diverged, "the leader's comparison with lastFetchedEpoch"),
            "refused": seen("refused"),
            "created_ref": created_ref,
            "requests_missing": ~covered(at["node"], created_ref["time_ms"], at["ref"]["time_ms"]),
        }
    )


def interleaved(reads: str) -> Column:
    """Whether reads of two connections at one broker alternate: then more than one consumer has the client id.

    One begins after another and before its end. In their order, each is compared with the latest end of those before: a program that
    connects anew every few seconds has thousands.
    """
    in_order = F.array_sort(F.transform(reads, lambda r: F.struct(r["node"], r["first_at"], r["last_at"])))

    def step(before: Column, read: Column) -> Column:
        same = before["node"] == read["node"]
        ended = F.when(same & (read["first_at"] > before["first_at"]), before["last_at"]).when(same, before["ended"])
        last_at = F.when(same, F.greatest(before["last_at"], read["last_at"])).otherwise(read["last_at"])
        found = before["found"] | holds(ended > read["first_at"])
        return F.struct(
            read["node"].alias("node"),
            read["first_at"].alias("first_at"),
            last_at.alias("last_at"),
            ended.alias("ended"),  # the latest end of those that began before
            found.alias("found"),
        )

    of_any = F.get(in_order, F.lit(0))
    nothing = {name: F.when(F.lit(False), of_any[name]) for name in ("node", "first_at", "last_at")}
    columns = (column.alias(name) for name, column in {**nothing, "ended": nothing["last_at"]}.items())
    return F.aggregate(in_order, F.struct(*columns, F.lit(False).alias("found")), step)["found"]
