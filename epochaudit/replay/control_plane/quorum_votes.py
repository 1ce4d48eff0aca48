"""Frame `quorum_votes`: the votes and the log lines of each voter of the metadata quorum in each epoch (KIP-595)."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import RAFT_STATE_CHANGED, RAFT_VOTE_ANSWERED, VOTE
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.quorum import (
    epoch_falls,
    is_state_of_voter,
    quorum_restarts,
    raft_states,
    unclear_restarts,
)

VOTES: Final = (VOTE, RAFT_VOTE_ANSWERED, RAFT_STATE_CHANGED)

_CANDIDATE: Final = "Candidate"


def states_voter() -> Column:
    """The events without which the frame is empty: of lines about a node's state, those of voters."""
    return (F.col("event_type") != RAFT_STATE_CHANGED) | is_state_of_voter()


def quorum_votes(events: DataFrame) -> DataFrame:
    """One row per voter and epoch in which it voted or may have voted, or that its log lines name. Clock: a node's log lines are compared
    in their order; an epoch has one vote of a voter.

    Needs: the events table. A node that asks for votes in an epoch, or becomes its candidate, has voted for itself. Lines state the same
    as requests: each answer of a voter, and with each state that a node enters, whom it has voted for in the epoch. Pre-votes (KIP-996) are
    none.
    Columns: the subject columns (node = the voter), and
      raft_epoch      the epoch
      candidate, vote_ref           to whom the voter gave its vote, and the request or, without one, the line; null: only unknown votes
      other_candidate, other_ref    another candidate to whom it gave its vote; null: none
      unknown_candidate, unknown_ref   another candidate that asked the voter, and whose answer is not recorded; null: none
      state_ref       the log line of the voter that states the epoch as its own: the one with which it fell to the epoch, else the first;
                      null: none
      higher_epoch, higher_ref   the epoch that it fell from, and the line before, which states that; null: it did not fall to this epoch
      begins_again    as in `quorum_restarts`, or of the voter as in `unclear_restarts`
    """
    ballots = reduce(DataFrame.unionByName, (_granted(events), _own(events), _unanswered(events), _of_lines(events)))
    by_candidate = ballots.groupBy("cluster", "node", "raft_epoch", "candidate").agg(
        F.max("known").alias("known"),
        F.min(F.struct((~F.col("known")).alias("unknown"), "is_line", "ref")).alias("ballot"),
    )
    one = F.struct("candidate", "ballot.ref")
    votes = by_candidate.groupBy("cluster", "node", "raft_epoch").agg(
        F.min(F.when(F.col("known"), one)).alias("first"),
        F.max(F.when(F.col("known"), one)).alias("last"),
        F.min(F.when(~F.col("known"), one)).alias("unknown"),
    )
    votes = votes.join(_states(events), ["cluster", "node", "raft_epoch"], "full")
    votes = votes.join(F.broadcast(quorum_restarts(events)), "cluster", "left")
    votes = votes.join(F.broadcast(unclear_restarts(events)), ["cluster", "node"], "left")
    differs = F.col("last.candidate") != F.col("first.candidate")
    return votes.select(
        "cluster", "node", "raft_epoch",
        F.col("first.candidate").alias("candidate"), F.coalesce("first.ref", "unknown.ref").alias("vote_ref"),
        F.when(differs, F.col("last.candidate")).alias("other_candidate"),
        F.when(differs, F.col("last.ref")).alias("other_ref"),
        F.col("unknown.candidate").alias("unknown_candidate"), F.col("unknown.ref").alias("unknown_ref"),
        "state_ref", "higher_epoch", "higher_ref",
        F.coalesce("begins_again", "may_begin_again").alias("begins_again"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id", "client_id", "group_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch", "correlation_id")),
    )  # fmt: skip


def _requests(events: DataFrame) -> DataFrame:
    """Requests for votes that are no pre-votes, by this cluster's nodes: another cluster's are refused as a whole."""
    of_cluster = F.coalesce("request_error_code", F.lit(Errors.NONE)) == Errors.NONE
    return of_types(events, VOTE).where(F.col("in_request") & ~holds(F.col("pre_vote")) & of_cluster)


def _granted(events: DataFrame) -> DataFrame:
    """One row per vote that a node granted."""
    granted = _requests(events).where((F.col("error_code") == Errors.NONE) & F.col("vote_granted"))
    return granted.select(
        "cluster", "node", "raft_epoch", F.col("replica_id").alias("candidate"), F.lit(True).alias("known"),
        F.lit(False).alias("is_line"), ref().alias("ref"),
    )  # fmt: skip


def _own(events: DataFrame) -> DataFrame:
    """One row per request for votes: a candidate votes for itself."""
    return _requests(events).select(
        "cluster", F.col("replica_id").alias("node"), "raft_epoch", F.col("replica_id").alias("candidate"),
        F.lit(True).alias("known"), F.lit(False).alias("is_line"), ref().alias("ref"),
    )  # fmt: skip


def _unanswered(events: DataFrame) -> DataFrame:
    """One row per request for a vote without an answer: the node may have granted it."""
    return _requests(events).where(~holds(F.col("in_response"))).select(
        "cluster", "node", "raft_epoch", F.col("replica_id").alias("candidate"), F.lit(False).alias("known"),
        F.lit(False).alias("is_line"), ref().alias("ref"),
    )  # fmt: skip


def _of_lines(events: DataFrame) -> DataFrame:
    """Votes by lines of KafkaRaftClient and QuorumState.

    A node keeps its vote as long as it is in the epoch (QuorumState.transitionToFollower), and states in no line that of another one.
    """
    is_answer = F.col("event_type") == RAFT_VOTE_ANSWERED
    names_vote = is_answer | F.col("replica_id").isNotNull() | (F.col("name") == _CANDIDATE)
    lines = of_types(events, RAFT_VOTE_ANSWERED, RAFT_STATE_CHANGED).where(
        names_vote & ~holds(F.col("pre_vote")) & F.col("raft_epoch").isNotNull()
    )
    asker = F.when(is_answer, F.struct(F.col("replica_id").alias("node"), F.col("replica_id").alias("candidate")))
    voter = F.struct("node", F.coalesce("replica_id", "node").alias("candidate"))
    votes = F.array_compact(F.array(asker, F.when(~is_answer | F.col("vote_granted"), voter)))
    return lines.select("cluster", "raft_epoch", F.explode(votes).alias("vote"), ref().alias("ref")).select(
        "cluster",
        "vote.node",
        "raft_epoch",
        "vote.candidate",
        F.lit(True).alias("known"),
        F.lit(True).alias("is_line"),
        "ref",
    )


def _states(events: DataFrame) -> DataFrame:
    """One row per voter and epoch that its log lines state as its own: state_ref, higher_epoch, higher_ref.

    Of several falls to one epoch, the one from the highest.
    """
    of_node = Window.partitionBy("cluster", "node")
    lines = raft_states(events).select(
        "cluster", "node", "raft_epoch", "before", ref().alias("ref"), F.struct("file_order", "byte_offset").alias("place"),
        F.max(is_state_of_voter()).over(of_node).alias("votes"),
    )  # fmt: skip
    fall = F.struct(F.col("before.raft_epoch").alias("higher_epoch"), F.col("before.ref").alias("higher_ref"), "ref")
    by_epoch = lines.where("votes").groupBy("cluster", "node", "raft_epoch").agg(
        F.min(F.struct("place", "ref")).alias("first"), F.max(F.when(epoch_falls(), fall)).alias("fall")
    )  # fmt: skip
    return by_epoch.select(
        "cluster", "node", "raft_epoch", F.coalesce("fall.ref", "first.ref").alias("state_ref"),
        "fall.higher_epoch", "fall.higher_ref",
    )  # fmt: skip
