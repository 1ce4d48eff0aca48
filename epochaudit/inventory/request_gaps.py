"""Requests that are missing between recorded ones.

A broker logs each request (RequestChannel), and senders number theirs. A replica fetcher, a ZooKeeper controller's channel to a broker
and a broker's channel for heartbeats send to one peer, so that the correlation ids on a connection have no gap (NetworkClient). Other
clients number the requests of a fetch session (KIP-227). A gap shows between two recorded numbers only, and other requests have no
such numbers: more may be missing than is counted.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import BROKER_HEARTBEAT, BROKER_REGISTRATION, FETCH
from epochaudit.events.views import run_rows
from epochaudit.inventory.inventory import REQUEST_LOG
from epochaudit.replay.control_plane.control import REQUESTS
from epochaudit.replay.state.broken_sessions import is_numbered_in_session

HEARTBEATS: Final = (BROKER_REGISTRATION, BROKER_HEARTBEAT)
REPLICA_FETCHER: Final = r"^broker-\d+-fetcher-\d+$"
NEGOTIATION: Final = 2
"""A channel that negotiates versions sends ApiVersions, which gives no event, after its first request has its number; and again if
the controller is older."""
_MINUTE_MS: Final = 60_000


def request_gaps(events: DataFrame) -> DataFrame:
    """One row per node with missing requests: cluster, node, missing, recorded, from_ms, until_ms.

    Needs: the events table. missing: requests that are known to be missing. recorded: those with a number. from_ms, until_ms: recorded
    requests before the first and after the last gap, at most a minute away, by the node's clock. Runs of like rows do not cross a
    minute, so that the sum of each minute's rows is right.
    """
    event_type = F.col("event_type")
    heartbeat = event_type.isin(*HEARTBEATS)
    of_channel = event_type.isin(*REQUESTS) | heartbeat | F.col("client_id").rlike(REPLICA_FETCHER)
    of_session = (event_type == FETCH) & is_numbered_in_session()
    requests = events.where(
        (F.col("source") == REQUEST_LOG) & (F.col("partition_row") == 0) & F.col("node").isNotNull()
    ).select(
        "cluster", "node", "time_ms", run_rows().alias("rows"), heartbeat.alias("negotiates"),
        F.when(of_channel, F.col("connection")).when(of_session, F.col("session_id").cast("string")).alias("sender"),
        F.when(of_channel, F.col("correlation_id")).when(of_session, F.col("session_epoch")).alias("number"),
    )  # fmt: skip
    minute = F.floor(F.col("time_ms") / _MINUTE_MS).alias("minute")
    minutes = (
        requests.where(F.col("sender").isNotNull() & F.col("number").isNotNull())
        .groupBy("cluster", "node", "sender", minute)
        .agg(
            F.min("number").alias("lowest"),
            F.max("number").alias("highest"),
            F.sum("rows").alias("recorded"),
            F.max("negotiates").alias("negotiates"),
            F.min("time_ms").alias("first_ms"),
            F.max("time_ms").alias("last_ms"),
        )
    )
    before = (
        Window.partitionBy("cluster", "node", "sender").orderBy("minute").rowsBetween(Window.unboundedPreceding, -1)
    )
    reached = F.max("highest").over(before)
    unlogged = F.when(reached.isNull() & F.col("negotiates"), NEGOTIATION).otherwise(0)
    inside = F.col("highest") - F.col("lowest") + 1 - F.col("recorded") - unlogged
    minutes = minutes.withColumns(
        {
            "inside": inside,
            "ahead": F.coalesce(F.col("lowest") - reached - 1, F.lit(0)),
            "reached_ms": F.max("last_ms").over(before),
        }
    )
    senders = minutes.groupBy("cluster", "node", "sender").agg(
        F.sum(F.col("inside") + F.col("ahead")).alias("missing"),
        F.sum("recorded").alias("recorded"),
        F.min(F.when(F.col("ahead") > 0, F.col("reached_ms")).when(F.col("inside") > 0, F.col("first_ms"))).alias(
            "from_ms"
        ),
        F.max(F.when(F.col("inside") > 0, F.col("last_ms")).when(F.col("ahead") > 0, F.col("first_ms"))).alias(
            "until_ms"
        ),
    )
    skips = F.col("missing") > 0
    nodes = senders.groupBy("cluster", "node").agg(
        F.sum(F.when(skips, F.col("missing"))).alias("missing"),
        F.sum("recorded").alias("recorded"),
        F.min(F.when(skips, F.col("from_ms"))).alias("from_ms"),
        F.max(F.when(skips, F.col("until_ms"))).alias("until_ms"),
    )
    return nodes.where("missing > 0")
