"""Frame `fetch_sessions`: when a fetch session had a partition, and when answers listed it (KIP-227)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH
from epochaudit.events.views import PLACE, carried_ref, of_types, ref, run_rows
from epochaudit.replay.state.broken_sessions import is_numbered_in_session
from epochaudit.replay.state.places import of_last, then_by_place

_ANSWER: Final = (*PLACE, "correlation_id")
_OF_FILE: Final = ("cluster", "node", "file", "session_id", "client_id", "topic", "topic_id", "partition")
_LOWEST: Final = ("listed_from", "answered_from")
_HIGHEST: Final = ("listed_until", "forgotten_at")


def fetch_sessions(events: DataFrame) -> DataFrame:
    """One row per (serving node, fetch session, partition) that an answer listed though its request did not.

    Needs: the events table. Clock: the session epoch. Rows of Fetch are aggregated where they are read. All buffers have a fixed
    width, so that it stays a hash aggregation: the client id, of which a session has one, is a key.
    Columns: the subject columns (node = the serving broker; correlation_id and client_id of the answer), session_id, and
      listed_from, listed_until        lowest and highest session epoch of the requests that list the partition; null: none does
      forgotten_at                     highest session epoch of the requests that remove it from the session
      answered_from, answered_until    lowest and highest session epoch of the answers that list it though their requests do not
      answer_ref                       the answer at answered_until
      listed_from_ref, listed_until_ref, forgotten_ref, answered_from_ref   the requests at these session epochs. listed_from_ref and
                                       answered_from_ref are null if the other end is the same request
      began                            the request that created the session is recorded
      complete                         no request of the session is missing
    """
    rows = of_types(events, FETCH).where(is_numbered_in_session())  # Raft fetches are in no session
    epoch = F.col("session_epoch")
    listed = F.when(F.col("in_request"), epoch)
    unlisted = F.when(F.col("in_response") & ~F.col("in_request"), epoch)
    values = {
        "listed_from": -listed,
        "listed_until": listed,
        "forgotten_at": F.when(F.col("forgotten"), epoch),
        "answered_from": -unlisted,
    }
    rows = rows.withColumns({f"by_{name}": then_by_place(value) for name, value in values.items()})
    places = [column for name in values for column in of_last(PLACE, f"by_{name}", f"{name}_")]
    per_file = rows.groupBy(*_OF_FILE).agg(
        F.min(listed).alias("listed_from"),
        F.max(listed).alias("listed_until"),
        F.max(values["forgotten_at"]).alias("forgotten_at"),
        F.min(unlisted).alias("answered_from"),
        F.max(unlisted).alias("answered_until"),
        *of_last(_ANSWER, then_by_place(unlisted)),
        *places,
        F.coalesce(F.sum(F.when(F.col("partition_row") == 0, run_rows())), F.lit(0)).alias("requests"),
        F.min(epoch).alias("first"),
        F.max(epoch).alias("last"),
    )
    return _of_session(_over_files(per_file))


def _over_files(per_file: DataFrame) -> DataFrame:
    """Merges the rows of a session's files: a session may span several files of its node."""
    answer = F.struct("answered_until", "correlation_id", "client_id", ref().alias("ref"))

    def with_its_ref(name: str) -> Column:
        return F.when(F.col(name).isNotNull(), F.struct(F.col(name).alias("epoch"), carried_ref(name).alias("ref")))

    lowest = (F.min(with_its_ref(name)).alias(name) for name in _LOWEST)
    highest = (F.max(with_its_ref(name)).alias(name) for name in _HIGHEST)
    answered = F.max(F.when(F.col("answered_until").isNotNull(), answer)).alias("answer")
    return per_file.groupBy("cluster", "node", "session_id", "topic", "topic_id", "partition").agg(
        *lowest,
        *highest,
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.sum("requests").alias("requests"),
        answered,
    )


def _of_session(sessions: DataFrame) -> DataFrame:
    """The rows of the frame, with began and complete."""
    session = Window.partitionBy("cluster", "node", "session_id")
    first, last = F.min("first").over(session), F.max("last").over(session)
    rows = sessions.withColumns(
        {"began": first == 0, "complete": F.sum("requests").over(session) == last - first + 1}
    ).where(F.col("answer").isNotNull())
    refs = {
        "listed_from_ref": F.nullif("listed_from.ref", "listed_until.ref"),
        "listed_until_ref": F.col("listed_until.ref"),
        "forgotten_ref": F.col("forgotten_at.ref"),
        "answered_from_ref": F.nullif("answered_from.ref", "answer.ref"),
    }
    return rows.select(
        "cluster", "node", "topic", "topic_id", "partition", F.lit(None).cast("int").alias("leader_epoch"),
        F.col("answer.client_id").alias("client_id"), F.lit(None).cast("string").alias("group_id"),
        F.col("answer.correlation_id").alias("correlation_id"), "session_id",
        *(F.col(f"{name}.epoch").alias(name) for name in (*_LOWEST, *_HIGHEST)),
        F.col("answer.answered_until").alias("answered_until"), F.col("answer.ref").alias("answer_ref"),
        *(column.alias(name) for name, column in refs.items()), "began", "complete",
    )  # fmt: skip
