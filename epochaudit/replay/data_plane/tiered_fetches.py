"""Frame `tiered_fetches`: fetches whose offset is in tiered storage only, by the leader's answer (KIP-405)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH
from epochaudit.events.views import of_types
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, with_refs

_REQUESTER: Final = ("cluster", "node", "topic", "topic_id", "partition", "client_id", "replica_id")
_FIRST: Final = (*PLACE_OF_NODE, "correlation_id", "fetch_offset")


def is_sent_away() -> Column:
    """The Fetch row was answered OFFSET_MOVED_TO_TIERED_STORAGE."""
    return F.col("error_code") == Errors.OFFSET_MOVED_TO_TIERED_STORAGE


def tiered_fetches(events: DataFrame) -> DataFrame:
    """One row per (broker, partition, client id, replica id): the first Fetch that was answered 109 (OFFSET_MOVED_TO_TIERED_STORAGE).

    Needs: the events table. Answers are aggregated where they are read. Clock: none, each answer stands alone.
    Columns: the subject columns (node = the broker that answered; leader_epoch null), replica_id (below 0: a consumer),
    fetch_offset (null: left to the fetch session), and answer_ref, the request and its answer.
    """
    rows = of_types(events, FETCH).where(is_sent_away()).withColumn("at", at())
    found = rows.groupBy(*_REQUESTER).agg(*of_first(_FIRST, "at", "answer_"))
    found = with_identity(with_refs(found, events, "answer"), topic_incarnations(events))
    return found.select(
        *_REQUESTER, F.lit(None).cast("int").alias("leader_epoch"), F.lit(None).cast("string").alias("group_id"),
        F.col("answer_correlation_id").alias("correlation_id"), F.col("answer_fetch_offset").alias("fetch_offset"), "answer_ref",
    )  # fmt: skip
