"""Frame `fetch_sessions`: when a fetch session had a partition, and when answers listed it (KIP-227)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH
from epochaudit.events.views import of_types, run_rows
from epochaudit.replay.state.broken_sessions import is_numbered_in_session
from epochaudit.replay.state.places import of_last, then_by_place

_PLACE: Final = ("split", "byte_offset", "line_in_split", "time_ms", "correlation_id", "client_id")


def fetch_sessions(events: DataFrame) -> DataFrame:
    """One row per (serving node, fetch session, partition) that an answer listed though its request did not.

    Needs: the events table. Clock: the session epoch. Rows of Fetch are aggregated where they are read. All buffers have a fixed
    width, so that it stays a hash aggregation.
    Columns: the subject columns (node = the serving broker; correlation_id and client_id of the answer), session_id, and
      listed_from, listed_until        lowest and highest session epoch of the requests that list the partition; null: none does
      forgotten_at                     highest session epoch of the requests that remove it from the session
      answered_from, answered_until    lowest and highest session epoch of the answers that list it though their requests do not
      answer_ref                       the answer at answered_until
      began                            the request that created the session is recorded
      complete                         no request of the session is missing
    """
    rows = of_types(events, FETCH).where(is_numbered_in_session())  # Raft fetches are in no session
    epoch = F.col("session_epoch")
    unlisted = F.when(F.col("in_response") & ~F.col("in_request"), epoch)
    per_file = rows.groupBy("cluster", "node", "file", "session_id", "topic", "topic_id", "partition").agg(
        F.min(F.when(F.col("in_request"), epoch)).alias("listed_from"),
        F.max(F.when(F.col("in_request"), epoch)).alias("listed_until"),
        F.max(F.when(F.col("forgotten"), epoch)).alias("forgotten_at"),
        F.min(unlisted).alias("answered_from"),
        F.max(unlisted).alias("answered_until"),
        *of_last(_PLACE, then_by_place(unlisted)),
        F.coalesce(F.sum(F.when(F.col("partition_row") == 0, run_rows())), F.lit(0)).alias("requests"),
        F.min(epoch).alias("first"),
        F.max(epoch).alias("last"),
    )
    return _of_session(_over_files(per_file))


def _over_files(per_file: DataFrame) -> DataFrame:
    """Merges the rows of a session's files: a session may span several files of its node."""
    answer_ref = F.struct("node", "file", "split", "byte_offset", "line_in_split", "time_ms")
    answer = F.struct("answered_until", "correlation_id", "client_id", answer_ref.alias("ref"))
    lowest = (F.min(name).alias(name) for name in ("listed_from", "answered_from", "first"))
    highest = (F.max(name).alias(name) for name in ("listed_until", "forgotten_at", "answered_until", "last"))
    answered = F.max(F.when(F.col("answered_until").isNotNull(), answer)).alias("answer")
    return per_file.groupBy("cluster", "node", "session_id", "topic", "topic_id", "partition").agg(
        *lowest, *highest, F.sum("requests").alias("requests"), answered
    )


def _of_session(sessions: DataFrame) -> DataFrame:
    """The rows of the frame, with began and complete."""
    session = Window.partitionBy("cluster", "node", "session_id")
    first, last = F.min("first").over(session), F.max("last").over(session)
    rows = sessions.withColumns(
        {"began": first == 0, "complete": F.sum("requests").over(session) == last - first + 1}
    ).where(F.col("answer").isNotNull())
    return rows.select(
        "cluster", "node", "topic", "topic_id", "partition", F.lit(None).cast("int").alias("leader_epoch"),
        F.col("answer.client_id").alias("client_id"), F.lit(None).cast("string").alias("group_id"),
        F.col("answer.correlation_id").alias("correlation_id"), "session_id", "listed_from", "listed_until", "forgotten_at",
        "answered_from", "answered_until", F.col("answer.ref").alias("answer_ref"), "began", "complete",
    )  # fmt: skip
