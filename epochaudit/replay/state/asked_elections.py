"""Unclean elections that an administrator requested (ElectLeaders, KIP-460), by partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import ELECT_LEADERS, UNCLEAN_ELECTION_REQUESTED
from epochaudit.events.views import of_types, ref
from epochaudit.kafka.field_values import UNCLEAN_ELECTION_TYPE


def with_asked_elections(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds the first request for an unclean election of the partition. Grain unchanged.

    Without a recorded request, it is the first line of a ZooKeeper controller that begins a requested unclean election.
    Adds asked_by (client id), asked_of (the controller that logged the line; null for a request) and asked_ref.
    Needs: cluster, topic, partition. Clock: none. The request is not matched to one election of the partition, and its answer
    is not considered: a request that timed out may still have been carried out.
    Brokers also log the request and forward it to the controller. The line stands for a request: an election that the
    controller begins on its own, where unclean.leader.election.enable permits it, has no such line
    (KafkaController.onReplicaElection, 2.4+).
    """
    requests = of_types(events, ELECT_LEADERS, UNCLEAN_ELECTION_REQUESTED).where(F.col("partition").isNotNull())
    is_line = F.col("event_type") == UNCLEAN_ELECTION_REQUESTED
    requests = requests.where(is_line | (F.col("value") == str(UNCLEAN_ELECTION_TYPE)))
    # a request precedes a line whatever their times: two hosts have two clocks
    request = F.min(F.struct(is_line, "time_ms", "client_id", F.col("controller_id").alias("of"), ref().alias("ref")))
    first = requests.groupBy("cluster", "topic", "partition").agg(request.alias("request"))
    first = first.select(
        "cluster",
        "topic",
        "partition",
        F.nullif(F.col("request.client_id"), F.lit("")).alias("asked_by"),
        F.col("request.of").alias("asked_of"),
        F.col("request.ref").alias("asked_ref"),
    )
    return rows.join(F.broadcast(first), ["cluster", "topic", "partition"], "left")
