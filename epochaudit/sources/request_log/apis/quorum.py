"""Requests of the metadata quorum (KIP-595): VOTE 0-2, BEGIN_QUORUM_EPOCH 0-1, END_QUORUM_EPOCH 0-1, FETCH_SNAPSHOT 0-1.

The quorum's fetches of the metadata log are FETCH.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Json, Row
from epochaudit.sources.request_log.apis.joining import joined


class Candidacy(Json, kw_only=True):
    """A partition of Vote. Its fields were named after the candidate up to 3.9."""

    partition_index: Int32
    replica_epoch: Int32 | None = None
    candidate_epoch: Int32 | None = None
    replica_id: Int32 | None = None
    candidate_id: Int32 | None = None
    pre_vote: bool = False

    def asked(self) -> Row:
        epoch = self.candidate_epoch if self.replica_epoch is None else self.replica_epoch
        candidate = self.candidate_id if self.replica_id is None else self.replica_id
        return (epoch, candidate, self.pre_vote)


class CandidacyTopic(Json):
    topic_name: str
    partitions: list[Candidacy]


class VoteRequest(Json):
    topics: list[CandidacyTopic]
    cluster_id: str | None = None


class Vote(Json):
    partition_index: Int32
    error_code: Int32
    leader_id: Int32
    leader_epoch: Int32
    vote_granted: bool

    def answered(self) -> Row:
        return (self.error_code, self.leader_id, self.leader_epoch, self.vote_granted)


class VoteTopic(Json):
    topic_name: str
    partitions: list[Vote]


class VoteResponse(Json):
    error_code: Int32
    topics: list[VoteTopic] = []


VOTE_COLUMNS: Final = (
    "cluster_id", "topic", "partition", "in_request", "in_response", "raft_epoch", "replica_id", "pre_vote", "error_code",
    "response_leader", "response_leader_epoch", "vote_granted",
)  # fmt: skip


def vote(_: int, request: VoteRequest, response: VoteResponse | None) -> Iterable[Row]:
    """One row per partition: the candidacy and the vote."""
    return _rows(request, response, (None,) * 3, (None,) * 4)


def _rows(
    request: VoteRequest | LedRequest, response: VoteResponse | KnownResponse | None, not_asked: Row, not_answered: Row
) -> Iterable[Row]:
    """One row per partition: cluster id, topic, partition, whether it is in the request and the response, and what they state of it."""
    asked = (((t.topic_name, p.partition_index), p.asked()) for t in request.topics for p in t.partitions)
    topics = () if response is None else response.topics
    answered = (((t.topic_name, p.partition_index), p.answered()) for t in topics for p in t.partitions)
    return [
        (
            request.cluster_id,
            *key,
            question is not None,
            answer is not None,
            *(question or not_asked),
            *(answer or not_answered),
        )
        for key, question, answer in joined(asked, answered)
    ]


class Led(Json):
    """A partition of BeginQuorumEpoch or EndQuorumEpoch."""

    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32

    def asked(self) -> Row:
        return (self.leader_id, self.leader_epoch)


class LedTopic(Json):
    topic_name: str
    partitions: list[Led]


class LedRequest(Json):
    topics: list[LedTopic]
    cluster_id: str | None = None


class Known(Json):
    partition_index: Int32
    error_code: Int32
    leader_id: Int32
    leader_epoch: Int32

    def answered(self) -> Row:
        return (self.error_code, self.leader_id, self.leader_epoch)


class KnownTopic(Json):
    topic_name: str
    partitions: list[Known]


class KnownResponse(Json):
    error_code: Int32
    topics: list[KnownTopic] = []


LED_COLUMNS: Final = (
    "cluster_id", "topic", "partition", "in_request", "in_response", "leader", "raft_epoch", "error_code", "response_leader",
    "response_leader_epoch",
)  # fmt: skip


def led(_: int, request: LedRequest, response: KnownResponse | None) -> Iterable[Row]:
    """One row per partition: the sender's leader and epoch, and those that the responder knows."""
    return _rows(request, response, (None,) * 2, (None,) * 3)


class SnapshotPartition(Json):
    partition: Int32
    current_leader_epoch: Int32


class SnapshotTopic(Json):
    name: str
    partitions: list[SnapshotPartition]


class SnapshotRequest(Json):
    topics: list[SnapshotTopic]
    replica_id: Int32 = -1
    cluster_id: str | None = None


class LeaderIdAndEpoch(Json):
    leader_id: Int32
    leader_epoch: Int32


class SnapshotAnswer(Json):
    index: Int32
    error_code: Int32
    current_leader: LeaderIdAndEpoch | None = None

    def answered(self) -> Row:
        leader = self.current_leader
        known = (-1, -1) if leader is None else (leader.leader_id, leader.leader_epoch)
        return (self.error_code, *known)


class SnapshotAnswers(Json):
    name: str
    partitions: list[SnapshotAnswer]


class SnapshotResponse(Json):
    error_code: Int32
    topics: list[SnapshotAnswers] = []


SNAPSHOT_COLUMNS: Final = (
    "cluster_id", "replica_id", "topic", "partition", "in_request", "in_response", "current_leader_epoch", "error_code",
    "hinted_leader", "hinted_leader_epoch",
)  # fmt: skip


def fetch_snapshot(_: int, request: SnapshotRequest, response: SnapshotResponse | None) -> Iterable[Row]:
    """One row per partition: the leader epoch that the follower states, and the leader that the responder knows."""
    asked = (((t.name, p.partition), p.current_leader_epoch) for t in request.topics for p in t.partitions)
    topics = () if response is None else response.topics
    answered = (((t.name, p.index), p.answered()) for t in topics for p in t.partitions)
    return [
        (
            request.cluster_id,
            request.replica_id,
            *key,
            epoch is not None,
            answer is not None,
            epoch,
            *(answer or (None,) * 3),
        )
        for key, epoch, answer in joined(asked, answered)
    ]


APIS: Final = (
    Api("VOTE", 2, Completed[VoteRequest, VoteResponse], VOTE_COLUMNS, vote),
    Api("BEGIN_QUORUM_EPOCH", 1, Completed[LedRequest, KnownResponse], LED_COLUMNS, led),
    Api("END_QUORUM_EPOCH", 1, Completed[LedRequest, KnownResponse], LED_COLUMNS, led),
    Api("FETCH_SNAPSHOT", 1, Completed[SnapshotRequest, SnapshotResponse], SNAPSHOT_COLUMNS, fetch_snapshot),
)
