"""Frame `leader_hints`: the leader epochs that brokers named to consumers and followers whose leader epoch they refused (KIP-951)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH
from epochaudit.events.views import holds, of_types
from epochaudit.kafka.api_versions import HINTING_FETCH_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.cluster_history import HISTORY_COLUMNS, cluster_history, of_the_node
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, with_identity
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, with_refs

_ANSWER: Final = (
    "cluster", "node", "topic", "topic_id", "partition", "current_leader_epoch", "hinted_leader", "hinted_leader_epoch",
)  # fmt: skip
_FIRST: Final = (*PLACE_OF_NODE, "client_id", "correlation_id")


def is_refused_with_hint() -> Column:
    """The Fetch row states its leader epoch, is refused as old, and may be given a hint."""
    return (
        (F.col("error_code") == Errors.FENCED_LEADER_EPOCH)
        & (F.col("api_version") >= HINTING_FETCH_VERSION)
        & F.col("in_request")
        & (F.col("current_leader_epoch") >= 0)
    )


def leader_hints(events: DataFrame) -> DataFrame:
    """One row per (broker, partition, stated leader epoch, hint): the first such answer.

    Needs: the events table. Answers are aggregated where they are read. Partitions that a request leaves to its fetch session are left
    out. Clock: none, each answer stands alone.
    Columns: the subject columns (node = the broker; leader_epoch = the stated one; client_id and correlation_id of the request), and
      hinted_leader, hinted_leader_epoch   currentLeader of the answer; -1 for none
      answer_ref    the request and its answer
      recreated     several topics of the name are in the evidence: the hint is looked up by name
      kraft         the broker gets its metadata from the metadata log
    """
    rows = of_types(events, FETCH).where(is_refused_with_hint() & is_user_topic()).withColumn("at", at())
    found = rows.groupBy(*_ANSWER).agg(*of_first(_FIRST, "at", "answer_"))
    found = with_refs(found, events, "answer")
    found = with_identity(found, topic_incarnations(events), "recreated")
    history = cluster_history(events).select(
        "cluster", *HISTORY_COLUMNS, "zookeeper", "has_metadata_log", "log_complete"
    )
    found = found.join(F.broadcast(history), "cluster", "left")
    by_metadata_log = F.col("has_metadata_log") | (F.size("kraft_controllers") > 0)
    found = found.withColumn("kraft", by_metadata_log).withColumns(of_the_node())
    return found.select(
        "cluster", "node", "topic", "topic_id", "partition", F.col("current_leader_epoch").alias("leader_epoch"),
        F.col("answer_client_id").alias("client_id"), F.lit(None).cast("string").alias("group_id"),
        F.col("answer_correlation_id").alias("correlation_id"), "hinted_leader", "hinted_leader_epoch", "answer_ref",
        "recreated", holds(F.col("kraft") & ~F.col("zookeeper")).alias("kraft"),
    )  # fmt: skip
