"""Frame `follower_answers`: the answers that a follower must act on, and its next request.

A diverging epoch or the end offset of an epoch states where to truncate; 74 FENCED_LEADER_EPOCH states that the leader epoch is
over. A fetcher sends one request at a time: it sends its next request on the connection after it has read the answer.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH, OFFSET_FOR_LEADER_EPOCH
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.broken_sessions import SESSION, broken_sessions
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, topic_key, topic_keys, with_identity
from epochaudit.spark.memo import as_leaf

TO_FOLLOWERS: Final = (FETCH, OFFSET_FOR_LEADER_EPOCH)

_KEY: Final = ("cluster", "node", "connection", "topic_key", "partition")
_ANSWER: Final = ("cluster", "node", "answer")
_FILE: Final = 2**40  # more bytes than a log file has


def binds() -> Column:
    """The events of which the frame is made: answers to followers with a divergence, an epoch's end or FENCED_LEADER_EPOCH."""
    event_type, code = F.col("event_type"), F.col("error_code")
    diverging = (code == Errors.NONE) & (F.col("diverging_epoch") >= 0)  # of a Fetch: no other answer has one
    ended = (event_type == OFFSET_FOR_LEADER_EPOCH) & (code == Errors.NONE) & (F.col("offset") >= 0)
    fenced = event_type.isin(FETCH, OFFSET_FOR_LEADER_EPOCH) & (code == Errors.FENCED_LEADER_EPOCH)
    return holds((diverging | ended | fenced) & (follower() >= 0) & F.col("in_response"))


def follower() -> Column:
    """The id of the requesting follower. Below version 3, OffsetForLeaderEpoch has it in the client id alone."""
    by_name = F.regexp_extract("client_id", r"^broker-(\d+)-fetcher-\d+$", 1).try_cast("int")
    named = F.when(F.col("event_type") == OFFSET_FOR_LEADER_EPOCH, by_name)
    return F.coalesce("replica_id", named)


def follower_answers(events: DataFrame) -> DataFrame:
    """One row per (answer to a follower, partition) that states where to truncate, or refuses the follower's leader epoch.

    Needs: the events table. Clock: the order of the leader's request log within one connection.
    Columns: the subject columns (node = the follower; leader_epoch = that of the request, or the last one with which the follower
    listed the partition on the connection; null for versions without it), leader, event_type, api_version, error_code,
    fetch_offset, asked_epoch (leader_epoch of OffsetForLeaderEpoch, last_fetched_epoch of a Fetch), end_epoch and end_offset (where
    to truncate), answer_ref, listed_ref (the last request with that leader epoch, if the answered one does not list the partition);
    and of the follower's next request on the connection that lists the partition, null if none is recorded: next_event_type,
    next_leader_epoch, next_fetch_offset, next_last_fetched_epoch (null: not stated), next_log_start_offset, next_asked_epoch,
    next_ref; and
      unbroken         no request between the two is missing: the next one has the next correlation id, or is in the same session,
                       of which no request is missing
    """
    answers = as_leaf(_answers(events))
    rows = answers.join(_next(events, _keyed(answers, events)), list(_ANSWER), "left")
    listed = F.when(F.col("in_request"), F.col("current_leader_epoch")).otherwise(F.col("listed.epoch"))
    in_session = (F.col("answer_session_id") > 0) & F.col("session_broken").isNull()  # 0: without a session
    same_session = in_session & (F.col("next_session_id") == F.col("answer_session_id"))
    consecutive = F.col("next_correlation_id") == F.col("correlation_id") + 1
    rows = rows.join(F.broadcast(broken_sessions(events)), list(SESSION), "left").withColumns(
        {
            "leader": F.col("node"),
            "node": F.col("follower"),
            "leader_epoch": F.when(listed >= 0, listed),
            "listed_ref": F.when(~F.col("in_request"), F.col("listed.ref")),
            "unbroken": holds(consecutive) | holds(same_session),
            "group_id": F.lit(None).cast("string"),
        }
    )
    return with_identity(rows, topic_incarnations(events)).drop(
        "answer", "answered_at", "follower", "listed", "session_broken", "current_leader_epoch", "in_request"
    )


def _answers(events: DataFrame) -> DataFrame:
    """One row per answer and partition; answer and answered_at are its position in the leader's request log."""
    asked = F.when(F.col("event_type") == OFFSET_FOR_LEADER_EPOCH, F.col("leader_epoch")).otherwise(
        F.col("last_fetched_epoch")
    )
    by_epoch = F.col("event_type") == OFFSET_FOR_LEADER_EPOCH
    return of_types(events, *TO_FOLLOWERS).where(binds() & F.col("partition").isNotNull() & is_user_topic()).select(
        "cluster", "node", "connection", topic_key().alias("topic_key"), "topic", "topic_id", "partition", "event_type",
        "api_version", "client_id", "correlation_id", "error_code", "in_request", "current_leader_epoch", "fetch_offset",
        follower().alias("follower"), asked.alias("asked_epoch"), "session_id", F.col("session_id").alias("answer_session_id"),
        F.when(by_epoch, F.col("response_leader_epoch")).otherwise(F.col("diverging_epoch")).alias("end_epoch"),
        F.when(by_epoch, F.col("offset")).otherwise(F.col("diverging_end_offset")).alias("end_offset"),
        position().alias("answered_at"), F.struct(position().alias("at"), "partition_row").alias("answer"),
        ref().alias("answer_ref"),
    )  # fmt: skip


def _keyed(answers: DataFrame, events: DataFrame) -> DataFrame:
    """The answers, once per key by which the next request may name the topic: OffsetForLeaderEpoch has the name, Fetch 13 the id."""
    rows = answers.select(*_KEY, "topic", "topic_id", "event_type", "answer", "answered_at", "answer_session_id")
    named = with_identity(rows.where(F.col("event_type") == OFFSET_FOR_LEADER_EPOCH), topic_incarnations(events))
    named = named.withColumn("topic_key", F.explode(topic_keys())).select(*rows.columns)
    return (
        rows.where(F.col("event_type") != OFFSET_FOR_LEADER_EPOCH)
        .unionByName(named)
        .drop("topic", "topic_id", "event_type")
    )


def position() -> Column:
    """The position in the node's own log order, as one number."""
    return F.col("file_order").cast("bigint") * _FILE + F.col("byte_offset")


def _next(events: DataFrame, answers: DataFrame) -> DataFrame:
    """One row per answer: the follower's next request for the partition, and the last leader epoch that it listed before.

    Only requests for partitions with such an answer are shuffled. A follower may be refused several times a second for hours: each answer
    is paired with its next request in their order, not with each request of the connection.
    """
    listed = of_types(events, *TO_FOLLOWERS).where(F.col("in_request") & (follower() >= 0) & is_user_topic())
    asked_epoch = F.when(F.col("event_type") == OFFSET_FOR_LEADER_EPOCH, F.col("leader_epoch"))
    request = F.struct(
        position().alias("position"), F.col("event_type").alias("next_event_type"),
        F.col("current_leader_epoch").alias("next_leader_epoch"), F.col("fetch_offset").alias("next_fetch_offset"),
        F.when(F.col("last_fetched_epoch") >= 0, F.col("last_fetched_epoch")).alias("next_last_fetched_epoch"),
        F.col("requester_log_start_offset").alias("next_log_start_offset"), asked_epoch.alias("next_asked_epoch"),
        F.col("correlation_id").alias("next_correlation_id"), F.col("session_id").alias("next_session_id"), ref().alias("next_ref"),
    )  # fmt: skip
    requests = listed.select(
        "cluster", "node", "connection", topic_key().alias("topic_key"), "partition", position().alias("position"),
        "current_leader_epoch", request.alias("request"),
    )  # fmt: skip
    requests = requests.join(F.broadcast(answers.select(*_KEY).distinct()), list(_KEY), "left_semi")
    marks = answers.select(*_KEY, F.col("answered_at").alias("position"), "answer")
    rows = requests.unionByName(marks, allowMissingColumns=True)
    of_partition = Window.partitionBy(*_KEY)
    listing = F.struct(F.col("current_leader_epoch").alias("epoch"), "position", F.col("request.next_ref").alias("ref"))
    before, after = (  # descending: Spark recomputes a window to the end for each row
        of_partition.orderBy(order("position")).rangeBetween(Window.unboundedPreceding, -1) for order in (F.asc, F.desc)
    )
    rows = rows.withColumns(
        {
            "listed": F.max(F.when(F.col("current_leader_epoch").isNotNull(), listing)).over(before),
            "following": F.last("request", ignorenulls=True).over(after),
        }
    ).where(F.col("answer").isNotNull())
    per_answer = rows.groupBy(*_ANSWER).agg(F.max("listed").alias("listed"), F.min("following").alias("following"))
    return per_answer.select(*_ANSWER, "listed", "following.*").drop("position")
