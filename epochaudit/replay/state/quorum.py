"""The metadata quorum: its requests, and whether its epochs may have begun anew."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    RAFT_STATE_CHANGED,
    VOTE,
)
from epochaudit.events.views import of_types
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.incarnations import is_user_topic

OF_LEADERS: Final = (BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH)
QUORUM_REQUESTS: Final = (VOTE, *OF_LEADERS, FETCH_SNAPSHOT, FETCH)

_PARKED_US: Final = 100_000  # followers let a Fetch wait for 500 ms (KafkaRaftClient.MAX_FETCH_WAIT_MS)


def is_raft_fetch() -> Column:
    """The event is a Fetch of the metadata log by its Raft protocol."""
    return (F.col("event_type") == FETCH) & F.col("partition").isNotNull() & ~is_user_topic()


def is_quorum_request() -> Column:
    """The event is a request of the Raft protocol."""
    return F.col("event_type").isin(VOTE, *OF_LEADERS, FETCH_SNAPSHOT) | is_raft_fetch()


def maybe_parked() -> Column:
    """The request is a Fetch that waited. Up to 3.3 at least, a Fetch whose wait has expired is checked and answered by another thread
    than the one that changes the epoch (KafkaRaftClient.handleFetchRequest): between two reads of one answer it may change.
    """
    return (F.col("event_type") == FETCH) & (F.coalesce("total_time_us", F.lit(_PARKED_US)) >= _PARKED_US)


def quorum_restarts(events: DataFrame) -> DataFrame:
    """One row per cluster whose quorum may have been formatted anew, so that its epochs began again: cluster, begins_again (true).

    Needs: the events table. Either its nodes accepted requests that state different cluster ids, or the epoch in the log lines of one
    node falls, in the order of its log: a node keeps its epoch on disk (QuorumState).
    """
    accepted = F.coalesce("request_error_code", F.lit(Errors.NONE)) == Errors.NONE
    requests = of_types(events, VOTE, *OF_LEADERS, FETCH_SNAPSHOT).where(accepted & F.col("in_response"))
    of_several = requests.groupBy("cluster").agg((F.count_distinct("cluster_id") > 1).alias("begins_again"))
    in_order = Window.partitionBy("cluster", "node").orderBy("file_order", "byte_offset")
    lines = of_types(events, RAFT_STATE_CHANGED).where(F.col("raft_epoch").isNotNull())
    lines = lines.withColumn("falls", F.lag("raft_epoch").over(in_order) > F.col("raft_epoch"))
    fallen = lines.groupBy("cluster").agg(F.max("falls").alias("begins_again"))
    both = of_several.unionByName(fallen).where("begins_again")
    return both.distinct()
