"""Members of consumer groups that request a committed offset again and again, though the coordinator no longer has it.

A consumer without a position requests the group's offset from its coordinator. If the answer is -1, it requests an offset by its
reset policy from a leader (ListOffsets). Without a policy (auto.offset.reset=none) it throws NoOffsetForPartitionException, and
requests the offset again at the next poll (ConsumerCoordinator.refreshCommittedOffsetsIfNeeded,
SubscriptionState.resetInitializingPositions). Committed offsets are deleted with their topic, by an administrator, and by age.

This is no frame, as no rule evaluates it. It runs after the verdicts in two steps, the second only if the first finds members.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FETCH,
    JOIN_GROUP,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
)
from epochaudit.events.views import client_host, holds, of_types
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import CONSUMER_REPLICA_ID, NO_OFFSET
from epochaudit.replay.state.incarnations import later_ids, topic_incarnations, with_identity
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, of_last, with_refs
from epochaudit.spark.memo import as_leaf

FEWEST: Final = 3  # during a rebalance a member may request the offset again while no leader is elected
_COMMITS: Final = (OFFSET_COMMIT, TXN_OFFSET_COMMIT)
_OF_GROUP: Final = ("cluster", "group_id", "topic", "partition")
_CLIENT: Final = ("client_id", "client_host")


def unanswered_members(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, topic, partition, client) with FEWEST answers or more without an offset.

    Only requests of members count: the client joined the group before at the same coordinator (JoinGroup with error code 0), or
    states its member epoch (OffsetFetch 9). Only partitions count that the request lists and of which the group had an offset: the
    coordinator's log has an accepted commit, or an answer with an offset, before the first answer without; none later, and none is
    at another coordinator, whose clock differs.
    Needs: the events table. Clock: the coordinator's request log.
    Columns: cluster, node (the coordinator), group_id, topic, partition, client_id, asks (number of requests), first_at
    (`places.at`), first_ref and last_ref (the first and the last answer without an offset), committed_offset and committed_ref (the
    last with one), joined_ref (null: the request states the member epoch).
    """
    rows = of_types(events, OFFSET_FETCH, *_COMMITS, JOIN_GROUP).where(F.col("group_id").isNotNull())
    rows = as_leaf(_named(rows, events).withColumns({"at": at(), "client_host": client_host()}))
    accepted = (F.col("error_code") == Errors.NONE) & F.col("topic").isNotNull() & F.col("partition").isNotNull()
    asks = _asks(rows.where(accepted & F.col("in_request")))
    known = rows.where(accepted & (F.col("offset") >= 0))
    known = known.join(F.broadcast(asks.select(*_OF_GROUP).distinct()), list(_OF_GROUP), "left_semi")
    offsets = known.groupBy(*_OF_GROUP).agg(
        F.max("at").alias("known_at"),
        *of_last((*PLACE_OF_NODE, "offset"), "at", "committed_"),
        F.min("node").alias("first_node"),
        F.max("node").alias("last_node"),
    )
    joins = rows.where((F.col("event_type") == JOIN_GROUP) & (F.col("request_error_code") == Errors.NONE))
    joins = joins.groupBy("cluster", "node", "group_id", *_CLIENT).agg(
        F.min("at").alias("joined_at"), *of_first(PLACE_OF_NODE, "at", "joined_")
    )
    of_client = [F.col(f"asks.{name}").eqNullSafe(F.col(f"joins.{name}")) for name in joins.columns[:5]]
    found = asks.join(offsets, list(_OF_GROUP)).alias("asks").join(joins.alias("joins"), of_client, "left")
    found = found.select("asks.*", "joined_at", *(f"joined_{name}" for name in PLACE_OF_NODE))
    only_here = (F.col("first_node") == F.col("node")) & (F.col("last_node") == F.col("node"))
    joined = holds(F.col("joined_at") < F.col("first_at"))
    found = found.where(only_here & (F.col("known_at") < F.col("first_at")) & (joined | F.col("states_member")))
    return with_refs(found, events, "first", "last", "committed", "joined").select(
        "cluster", "node", "group_id", "topic", "partition", "client_id", "asks", "first_at", "first_ref", "last_ref",
        "committed_offset", "committed_ref", F.when(joined, F.col("joined_ref")).alias("joined_ref"),
    )  # fmt: skip


def _named(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Sets topic where the request states only an id: requests for the topic's successors have the same name."""
    both = events.where(F.col("topic").isNotNull() & F.col("topic_id").isNotNull())
    names = both.groupBy("cluster", "topic_id").agg(F.min("topic").alias("named"))
    joined = rows.join(F.broadcast(names), ["cluster", "topic_id"], "left")
    return joined.withColumn("topic", F.coalesce("topic", "named")).drop("named")


def _asks(answered: DataFrame) -> DataFrame:
    """One row per (coordinator, group, partition, client): its OffsetFetch answers without an offset, if there are FEWEST."""
    none = answered.where(
        (F.col("event_type") == OFFSET_FETCH) & (F.col("offset") == NO_OFFSET) & F.col("client_id").isNotNull()
    )
    member = F.col("member_id").isNotNull() & (F.col("generation_id") >= 0)
    asks = none.groupBy("node", *_OF_GROUP, *_CLIENT).agg(
        F.count("*").alias("asks"),
        F.min("at").alias("first_at"),
        *of_first(PLACE_OF_NODE, "at", "first_"),
        *of_last(PLACE_OF_NODE, "at", "last_"),
        holds(F.max(member)).alias("states_member"),
    )
    return asks.where(F.col("asks") >= FEWEST)


def reads_of_clients(events: DataFrame, client_ids: Collection[str]) -> DataFrame:
    """One row per (cluster, node, client_id, topic, partition, session_id) of these clients' Fetch and ListOffsets, refused or not.

    topic and partition are null for a Fetch that lists no partition; topic is null if no event names the topic id. Requests with the
    id of a topic that was created again since are left out. Needs: the events table.
    Columns: last_at, the last of these requests by `places.at` of the node.
    """
    asked = of_types(events, FETCH, LIST_OFFSETS).where(F.col("client_id").isin(*client_ids) & _by_consumer())
    identities = topic_incarnations(events)
    outdated = identities.where(F.size(later_ids(F.col("topic_key"))) > 0)
    outdated = outdated.select("cluster", F.col("topic_key").alias("topic_id"))
    asked = asked.join(F.broadcast(outdated), ["cluster", "topic_id"], "left_anti")
    named = with_identity(asked.withColumn("at", at()), identities)
    whose = ("cluster", "node", "client_id", "topic", "partition", "session_id")
    return named.groupBy(*whose).agg(F.max("at").alias("last_at"))


def _by_consumer() -> Column:
    return F.coalesce("replica_id", F.lit(CONSUMER_REPLICA_ID)) == CONSUMER_REPLICA_ID
