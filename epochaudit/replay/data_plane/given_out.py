"""The high watermarks that brokers gave out in Fetch answers, by leader epoch.

A broker's own lines show in which leader epoch it answered. Logs often begin later: a broker leads for weeks, and old files are deleted.
Then the requests show it. A broker serves a Fetch that states a leader epoch only if it has the same one itself
(Partition.checkCurrentLeaderEpoch, KIP-320), be it the leader or a follower (KIP-392). The high watermark of either was committed.
2.1.0 to 2.4.1 do not compare them in fetch sessions (KAFKA-9338).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH
from epochaudit.events.views import PLACE, holds, of_types, ref
from epochaudit.kafka.api_versions import FOLLOWER_FETCH_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.fetches import sessions_lose_epochs, with_release_of_sessions
from epochaudit.replay.data_plane.follower_answers import follower
from epochaudit.replay.state.held_epochs import with_held_epochs
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.places import of_last, then_by_place
from epochaudit.spark.memo import checkpointed


@checkpointed
def given_out(events: DataFrame) -> DataFrame:
    """One row per (serving node, file, partition, leader epoch, by_leader) with answers whose leader epoch lines or requests show.

    And one with a null leader_epoch, of answers that neither shows: requests that do not state it, as of old clients and of sessions
    (KIP-227), before the first line of the replica.
    Needs: the events table. Clock: the host of the node. Topics whose name several topics had are left out, unless lines show the epoch.
    Columns: cluster, node, topic, topic_id, topic_key, partition, leader_epoch, high_watermark (the highest that was given out), own_ref
    (that answer), and
      by_request       the epoch is the one that the requests state: the node's log has no line of the replica before. Else it is the
                       only epoch that the node can have held, as the leader
      by_leader        only a leader serves such requests: they are of replicas, or of consumers below version 11
      from_ms, until_ms   arrival of the first and of the last of the requests

    A request that was served states no later epoch than the leader's: if the evidence knows an older one only, the later one's line
    is missing. Rows of Fetch are not shuffled before they are aggregated. All buffers have a fixed width, so that the aggregation
    stays a hash aggregation.
    """
    rows = of_types(events, FETCH).where(
        (F.col("error_code") == Errors.NONE) & (F.col("high_watermark") >= 0) & is_user_topic()
    )
    rows = rows.select(
        "cluster", "node", "topic", "topic_id", "partition", "arrival_ms", "time_ms", "high_watermark", "file", "file_order",
        "split", "byte_offset", "line_in_split", "current_leader_epoch", "last_fetched_epoch", "api_version", "session_epoch",
        F.coalesce("run_arrival_ms", "arrival_ms").alias("run_from_ms"), holds(
            (follower() >= 0) | (F.col("api_version") < FOLLOWER_FETCH_VERSION)
        ).alias("by_leader"),
    )  # fmt: skip
    stated = F.coalesce(F.greatest("current_leader_epoch", "last_fetched_epoch"), F.lit(-1))
    shown_by_lines = (
        F.col("held_complete")
        & F.col("held_leader")
        & (F.col("held_min") == F.col("held_max"))
        & (stated <= F.col("held_max"))
    )
    unlogged = ~F.col("line_before")
    shown_by_request = unlogged & (F.col("current_leader_epoch") >= 0) & ~sessions_lose_epochs()
    served = with_release_of_sessions(with_held_epochs(rows, events), events).withColumns(
        {
            "by_request": holds(shown_by_request),
            "leader_epoch": F.when(shown_by_lines, F.col("held_max")).when(
                shown_by_request, F.col("current_leader_epoch")
            ),
        }
    )
    found = served.where(F.col("leader_epoch").isNotNull() | unlogged).groupBy(
        "cluster", "node", "file", "topic", "topic_id", "partition", "leader_epoch", "by_request", "by_leader"
    ).agg(
        F.max("high_watermark").alias("high_watermark"), *of_last(PLACE, then_by_place(F.col("high_watermark"))),
        F.min("run_from_ms").alias("from_ms"), F.max("arrival_ms").alias("until_ms"),
    )  # fmt: skip
    by_lines = F.col("leader_epoch").isNotNull() & ~F.col("by_request")
    named = with_identity(found, topic_incarnations(events)).where(by_lines | ~F.col("ambiguous_name"))
    return named.select(
        "cluster", "node", "topic", "topic_id", topic_key().alias("topic_key"), "partition", "leader_epoch", "by_request",
        "high_watermark", ref().alias("own_ref"), "by_leader", "from_ms", "until_ms",
    )  # fmt: skip
