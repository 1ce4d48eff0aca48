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
    RAFT_VOTE_ANSWERED,
    VOTE,
)
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.incarnations import is_user_topic

OF_LEADERS: Final = (BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH)
QUORUM_REQUESTS: Final = (VOTE, *OF_LEADERS, FETCH_SNAPSHOT, FETCH)

WITH_LEADER: Final = ("Leader", "Follower")  # Raft states of a node that knows the leader of its epoch

_OF_VOTERS: Final = ("Leader", "Candidate", "Prospective", "Voted", "Resigned")  # Raft states of voters only

_PARKED_US: Final = 100_000  # followers let a Fetch wait for 500 ms (KafkaRaftClient.MAX_FETCH_WAIT_MS)


def is_raft_fetch() -> Column:
    """The event is a Fetch of the metadata log by its Raft protocol."""
    return (F.col("event_type") == FETCH) & F.col("partition").isNotNull() & ~is_user_topic()


def is_quorum_request() -> Column:
    """The event is a request of the Raft protocol."""
    return F.col("event_type").isin(VOTE, *OF_LEADERS, FETCH_SNAPSHOT) | is_raft_fetch()


_IN_ORDER: Final = ("file_order", "byte_offset")  # of one node's log


def raft_states(events: DataFrame) -> DataFrame:
    """One row per log line about a node's Raft state that states its epoch. Adds before: the node's line before it, as struct with
    raft_epoch and ref; null for the first.
    """
    line = F.struct("raft_epoch", ref().alias("ref"))
    in_order = Window.partitionBy("cluster", "node").orderBy(*_IN_ORDER)
    lines = of_types(events, RAFT_STATE_CHANGED).where(F.col("raft_epoch").isNotNull())
    return lines.withColumn("before", F.lag(line).over(in_order))


def epoch_falls() -> Column:
    """The line of `raft_states` has a lower epoch than the one before."""
    return F.col("before.raft_epoch") > F.col("raft_epoch")


def is_state_of_voter() -> Column:
    """The log line about a node's Raft state is one of a voter: of a state that only voters have, or it names whom the node voted for."""
    return F.col("name").isin(*_OF_VOTERS) | F.col("replica_id").isNotNull()


def maybe_parked() -> Column:
    """The request is a Fetch that waited. Up to 3.3 at least, a Fetch whose wait has expired is checked and answered by another thread
    than the one that changes the epoch (KafkaRaftClient.handleFetchRequest): between two reads of one answer it may change.
    """
    return (F.col("event_type") == FETCH) & (F.coalesce("total_time_us", F.lit(_PARKED_US)) >= _PARKED_US)


def quorum_restarts(events: DataFrame) -> DataFrame:
    """One row per cluster whose quorum may have been formatted anew, so that its epochs began again: cluster, begins_again (true).

    Needs: the events table. Its nodes accepted requests that state different cluster ids, by requests or lines; or a leader was elected
    in a lower epoch than before, by the log lines of one node, in their order; or a majority of the voters fell to epoch 0, and
    then logged a leader of an epoch no higher than they had been in. A node keeps its epoch on disk (QuorumState), and
    gives no vote below it, so that such a leader takes a majority of new disks. One new disk in a quorum that goes on also begins with
    epoch 0.
    The voters: nodes with lines about their own candidacies, votes and leadership, and leaders in any line.
    """
    accepted = F.coalesce("request_error_code", F.lit(Errors.NONE)) == Errors.NONE
    answered = F.col("in_response") | (F.col("event_type") == RAFT_VOTE_ANSWERED)
    requests = of_types(events, VOTE, *OF_LEADERS, FETCH_SNAPSHOT, RAFT_VOTE_ANSWERED).where(accepted & answered)
    of_several = requests.groupBy("cluster").agg((F.count_distinct("cluster_id") > 1).alias("begins_again"))
    by_cluster = _epochs_of_nodes(events)
    emptied = F.size(F.array_intersect("emptied", "voters"))
    lower = by_cluster.select(
        "cluster",
        (holds(F.col("elects_lower")) | (2 * emptied > F.size("voters"))).alias("begins_again"),
    )
    both = of_several.unionByName(lower).where("begins_again")
    return both.distinct()


def unclear_restarts(events: DataFrame) -> DataFrame:
    """One row per node that fell to epoch 0, and whose quorum may have been formatted anew: cluster, node, may_begin_again (true).

    Needs: the events table. The voters without lines of their own may have fallen as well, and would be a majority with those that did.
    A capture of one controller's logs does not distinguish one new disk from a new quorum.
    """
    unrecorded = F.array_except("voters", "recorded")
    possible = F.size(F.array_union(F.array_intersect("emptied", "voters"), unrecorded))
    by_cluster = _epochs_of_nodes(events).where(2 * possible > F.size("voters"))
    return by_cluster.select("cluster", F.explode("emptied").alias("node"), F.lit(True).alias("may_begin_again"))


def _epochs_of_nodes(events: DataFrame) -> DataFrame:
    """One row per cluster with lines about Raft states: elects_lower (a node logs a leader of a lower epoch than before), and nodes as
    arrays: recorded (have such lines), voters, emptied (fell to epoch 0, and then log a leader of an epoch no higher than before).
    """
    in_order = Window.partitionBy("cluster", "node").orderBy(*_IN_ORDER)
    lines = raft_states(events)
    # where the epoch falls, the node may only repeat what its new disk has: a copy of an old one names a leader
    fell = F.struct(F.col("raft_epoch").alias("epoch"), F.max("raft_epoch").over(in_order).alias("highest"))
    lines = lines.withColumn("fell", F.when(epoch_falls(), fell))
    lines = lines.withColumn("fell", F.last("fell", ignorenulls=True).over(in_order))
    votes = is_state_of_voter()
    elects = F.col("name").isin(*WITH_LEADER) & (F.col("raft_epoch") > F.col("fell.epoch"))
    from_nothing = elects & (F.col("fell.epoch") == 0) & (F.col("raft_epoch") <= F.col("fell.highest"))
    return lines.groupBy("cluster").agg(
        F.max(elects & (F.col("raft_epoch") < F.col("fell.highest"))).alias("elects_lower"),
        F.collect_set(F.when(from_nothing, F.col("node"))).alias("emptied"),
        F.collect_set("node").alias("recorded"),
        F.array_union(F.collect_set(F.when(votes, F.col("node"))), F.collect_set("leader")).alias("voters"),
    )
