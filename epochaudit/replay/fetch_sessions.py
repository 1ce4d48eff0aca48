"""Frame `fetch_sessions`: what each incremental fetch session held of a partition, and what it answered for it (KIP-227)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types
from epochaudit.replay.incarnations import is_user_topic
from epochaudit.replay.kept import kept

SESSION: Final = ("cluster", "node", "session_id")

_PLACE: Final = ("split", "byte_offset", "line_in_split", "time_ms", "correlation_id", "client_id")


def fetch_sessions(events: DataFrame) -> DataFrame:
    """One row per (serving node, fetch session, partition) that the session answered for without being asked to by the request.

    Needs: the events table. Clock: the session epoch. Rows of Fetch are aggregated where they are read; all buffers have a
    fixed width, so that it stays a hash aggregation.
    Columns: the subject columns (node = the serving broker; correlation_id and client_id of the answer), session_id, and
      listed_from, listed_until        lowest and highest session epoch of the requests that list the partition; null: none
      forgotten_at                     highest session epoch of the requests that take it out of the session
      answered_from, answered_until    lowest and highest session epoch of the answers that list it though the request does not
      answer_ref                       the answer at answered_until
      began                            the request that began the session is recorded
      complete                         the requests of the session are recorded without a gap
    """
    rows = of_types(events, "FETCH").where(
        (F.col("session_id") > 0)
        & (F.col("session_epoch") >= 0)
        & (F.coalesce("request_error_code", F.lit(0)) == 0)
        & is_user_topic()
    )
    epoch = F.col("session_epoch")
    unasked = F.when(F.col("in_response") & ~F.col("in_request") & ~F.coalesce("forgotten", F.lit(False)), epoch)
    held = rows.groupBy("cluster", "node", "file", "session_id", "topic", "topic_id", "partition").agg(
        F.min(F.when(F.col("in_request"), epoch)).alias("listed_from"),
        F.max(F.when(F.col("in_request"), epoch)).alias("listed_until"),
        F.max(F.when(F.col("forgotten"), epoch)).alias("forgotten_at"),
        F.min(unasked).alias("answered_from"),
        F.max(unasked).alias("answered_until"),
        *(F.max_by(name, unasked).alias(name) for name in _PLACE),
        F.count(F.when(F.col("partition_row") == 0, 1)).alias("requests"),
        F.min(epoch).alias("first"),
        F.max(epoch).alias("last"),
    )
    return _of_session(_over_files(held))


def _over_files(held: DataFrame) -> DataFrame:
    """A session may run over several files of its node."""
    answer_ref = F.struct("node", "file", "split", "byte_offset", "line_in_split", "time_ms")
    answer = F.struct("answered_until", "correlation_id", "client_id", answer_ref.alias("ref"))
    lowest = (F.min(name).alias(name) for name in ("listed_from", "answered_from", "first"))
    highest = (F.max(name).alias(name) for name in ("listed_until", "forgotten_at", "answered_until", "last"))
    answered = F.max(F.when(F.col("answered_until").isNotNull(), answer)).alias("answer")
    return held.groupBy("cluster", "node", "session_id", "topic", "topic_id", "partition").agg(
        *lowest, *highest, F.sum("requests").alias("requests"), answered
    )


def _of_session(held: DataFrame) -> DataFrame:
    session = Window.partitionBy("cluster", "node", "session_id")
    first, last = F.min("first").over(session), F.max("last").over(session)
    rows = held.withColumns(
        {"began": first == 0, "complete": F.sum("requests").over(session) == last - first + 1}
    ).where(F.col("partition").isNotNull() & F.col("answer").isNotNull())
    return rows.select(
        "cluster", "node", "topic", "topic_id", "partition", F.lit(None).cast("int").alias("leader_epoch"),
        F.col("answer.client_id").alias("client_id"), F.lit(None).cast("string").alias("group_id"),
        F.col("answer.correlation_id").alias("correlation_id"), "session_id", "listed_from", "listed_until", "forgotten_at",
        "answered_from", "answered_until", F.col("answer.ref").alias("answer_ref"), "began", "complete",
    )  # fmt: skip


@kept
def broken_sessions(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, session_id) of which requests between two recorded ones are missing.

    What those asked for nobody knows, so that nothing can be said about what the session left to them. A request that was
    refused as a whole is none of the session: a client asks once more for one that went with the broker's process, whose
    last answers were never sent. Column: session_broken, always true. What travels is one row per session and task.
    """
    requests = of_types(events, "FETCH").where(
        (F.col("partition_row") == 0)
        & (F.col("session_id") > 0)
        & (F.col("session_epoch") >= 0)
        & (F.coalesce("request_error_code", F.lit(0)) == 0)
    )
    span = F.max("session_epoch") - F.min("session_epoch") + 1
    counted = requests.groupBy(*SESSION).agg((F.count(F.lit(1)) < span).alias("session_broken"))
    return counted.where("session_broken")
