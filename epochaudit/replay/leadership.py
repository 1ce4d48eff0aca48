"""Frame `leadership`: which leaders were recorded for each leader epoch of a partition, and for each controller epoch."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import PLACE, carried_ref, of_types, ref
from epochaudit.replay.control import REQUESTS
from epochaudit.replay.held_epochs import with_held_epochs
from epochaudit.replay.incarnations import is_user_topic, topic_incarnations, with_identity
from epochaudit.replay.leader_states import leader_states
from epochaudit.replay.metadata_answers import METADATA, RELIABLE_METADATA_VERSION

CONTROLLER_LINES: Final = ("CONTROLLER_ELECTED", "PARTITION_STATE_CHANGED", "STOP_REPLICA_SENDING")


def leadership(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic incarnation, partition, leader epoch) and per (cluster, controller epoch) of ZooKeeper mode.

    Of each that anything was recorded about. The leader of a controller epoch is the controller.
    Needs: the events table. Clock: none; an epoch has one leader, whoever states it and whenever.
    Columns: the subject columns (node null: the statement is the cluster's), statements (their number), lowest_leader and
    highest_leader (equal when all agree, -1 = none), lowest_leader_stated_by, highest_leader_stated_by (event types) with
    lowest_leader_ref, highest_leader_ref; several_incarnations; controller_epoch (null for a leader epoch); stated_by_several,
    more than one node states it.
    """
    facts = leader_states(events).select(
        "cluster",
        "topic",
        "topic_id",
        "several_incarnations",
        "partition",
        "leader_epoch",
        "leader",
        "event_type",
        "own_ref",
    )
    facts = (
        facts.unionByName(_told(events))
        .unionByName(_hints(events))
        .withColumns(
            {
                "named": F.when(F.col("topic_id").isNull(), F.col("topic")),
                "controller_epoch": F.lit(None).cast("int"),
            }
        )
    )
    facts = facts.unionByName(_controllers(events), allowMissingColumns=True)
    fact = F.struct("leader", "event_type", "own_ref")
    epoch = ("cluster", "named", "topic_id", "partition", "leader_epoch", "controller_epoch")
    by_epoch = facts.groupBy(*epoch).agg(
        F.max("topic").alias("topic"),
        F.max("several_incarnations").alias("several_incarnations"),
        F.count("leader").alias("statements"),
        F.min(fact).alias("lowest"),
        F.max(fact).alias("highest"),
        (F.min("own_ref.node") != F.max("own_ref.node")).alias("stated_by_several"),
    )
    return by_epoch.withColumns(
        {
            "node": F.lit(None).cast("int"),
            "client_id": F.lit(None).cast("string"),
            "group_id": F.lit(None).cast("string"),
            "correlation_id": F.lit(None).cast("int"),
            "lowest_leader": F.col("lowest.leader"),
            "lowest_leader_stated_by": F.col("lowest.event_type"),
            "lowest_leader_ref": F.col("lowest.own_ref"),
            "highest_leader": F.col("highest.leader"),
            "highest_leader_stated_by": F.col("highest.event_type"),
            "highest_leader_ref": F.col("highest.own_ref"),
        }
    ).drop("lowest", "highest", "named")


def _told(events: DataFrame) -> DataFrame:
    """Leaders named in Metadata answers, once for each file that tells of it.

    A leader that is merely unreachable is answered as -1: no statement.
    """
    rows = of_types(events, METADATA).where(
        (F.col("api_version") >= RELIABLE_METADATA_VERSION) & (F.col("response_leader") >= 0) & is_user_topic()
    )
    fact = ("topic", "topic_id", "partition", "response_leader", "response_leader_epoch")
    once = rows.where(F.col("response_leader_epoch") >= 0).groupBy("cluster", "node", "file", "event_type", *fact)
    first = once.agg(*(F.min_by(name, "byte_offset").alias(f"first_{name}") for name in PLACE))
    return with_identity(first, topic_incarnations(events)).select(
        "cluster", "topic", "topic_id", "several_incarnations", "partition", F.col("response_leader_epoch").alias("leader_epoch"),
        F.col("response_leader").alias("leader"), "event_type", carried_ref("first").alias("own_ref"),
    )  # fmt: skip


def _hints(events: DataFrame) -> DataFrame:
    """Leaders named in Fetch answers 6 and 74 (KIP-951).

    Leader and epoch of a hint are read without a lock (KafkaApis.getCurrentLeader): a hint counts only when the serving
    node was in the middle of no transition.
    """
    rows = of_types(events, "FETCH").where(
        (F.col("hinted_leader") >= 0) & (F.col("hinted_leader_epoch") >= 0) & is_user_topic()
    )
    rows = rows.select(
        "cluster", "node", "topic", "topic_id", "partition", "arrival_ms", "time_ms", "event_type", "hinted_leader",
        "hinted_leader_epoch", ref().alias("own_ref"),
    )  # fmt: skip
    settled = with_held_epochs(rows, events).where(F.col("held_complete") & (F.col("held_min") == F.col("held_max")))
    return settled.select(
        "cluster", "topic", "topic_id", F.lit(False).alias("several_incarnations"), "partition",
        F.col("hinted_leader_epoch").alias("leader_epoch"), F.col("hinted_leader").alias("leader"), "event_type", "own_ref",
    )  # fmt: skip


def _controllers(events: DataFrame) -> DataFrame:
    """ZooKeeper controllers: requests that were accepted, and what a controller wrote about itself.

    A KRaft controller that sends these requests, during a migration, counts its epochs in another way.
    """
    accepted = (F.col("partition_row") == 0) & (F.col("request_error_code") == 0)
    of_zookeeper = ~F.coalesce("is_kraft_controller", F.lit(False))
    said = F.col("event_type").isin(*CONTROLLER_LINES)
    rows = of_types(events, *REQUESTS, *CONTROLLER_LINES).where((said | accepted) & of_zookeeper)
    rows = rows.where(F.col("controller_id").isNotNull() & F.col("controller_epoch").isNotNull())
    return rows.select(
        "cluster", "controller_epoch", F.col("controller_id").alias("leader"), "event_type", ref().alias("own_ref")
    )
