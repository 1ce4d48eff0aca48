"""Committed offsets: OFFSET_COMMIT 0-10, TXN_OFFSET_COMMIT 0-6, OFFSET_FETCH 0-10."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import field

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id
from epochaudit.sources.request_log.apis.joining import joined


class TopicKey(Json):
    """Name, or id from version 10 of OFFSET_COMMIT and OFFSET_FETCH, and 6 of TXN_OFFSET_COMMIT."""

    name: str | None = None
    topic_id: str | None = None

    def key(self) -> tuple[str | None, str | None]:
        return (self.name, named_id(self.topic_id))


class CommittedPartition(Json):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 | None = None


class CommittedTopic(TopicKey, kw_only=True):
    partitions: list[CommittedPartition]


class CommitRequest(Json):
    group_id: str
    topics: list[CommittedTopic]
    member_id: str | None = None
    generation_id: Int32 | None = None
    generation_id_or_member_epoch: Int32 | None = None  # its name since 3.6
    group_instance_id: str | None = None


class PartitionCode(Json):
    partition_index: Int32
    error_code: Int32


class TopicCodes(TopicKey, kw_only=True):
    partitions: list[PartitionCode]


class CommitResponse(Json):
    topics: list[TopicCodes]


COMMIT_COLUMNS: Final = (
    "group_id", "group_instance_id", "member_id", "generation_id", "topic", "topic_id", "partition", "in_request", "in_response",
    "offset", "committed_leader_epoch", "error_code",
)  # fmt: skip


def offset_commit(_: int, request: CommitRequest, response: CommitResponse | None) -> Iterable[Row]:
    """One row per committed partition."""
    generation = request.generation_id
    if generation is None:
        generation = request.generation_id_or_member_epoch
    sender = (request.group_id, request.group_instance_id, request.member_id, generation)
    asked = (
        ((*t.key(), p.partition_index), (p.committed_offset, p.committed_leader_epoch))
        for t in request.topics
        for p in t.partitions
    )
    topics = () if response is None else response.topics
    answered = (((*t.key(), p.partition_index), (p.error_code,)) for t in topics for p in t.partitions)
    found = [
        (*sender, *key, question is not None, answer is not None, *(question or (None, None)), *(answer or (None,)))
        for key, question, answer in joined(asked, answered)
    ]
    return found or [(*sender, None, None, None, False, False, None, None, None)]


class RequestedTopic(TopicKey, kw_only=True):
    partition_indexes: list[Int32]


class RequestedGroup(Json):
    group_id: str
    topics: list[RequestedTopic] | None = None
    member_id: str | None = None
    member_epoch: Int32 | None = None


class OffsetFetchRequest(Json):
    group_id: str | None = None
    topics: list[RequestedTopic] | None = None
    groups: list[RequestedGroup] = []


class FetchedPartition(Json):
    partition_index: Int32
    committed_offset: Int64
    error_code: Int32
    committed_leader_epoch: Int32 | None = None


class FetchedTopic(TopicKey, kw_only=True):
    partitions: list[FetchedPartition]


class FetchedGroup(Json):
    group_id: str
    topics: list[FetchedTopic]
    error_code: Int32 = 0


class OffsetFetchResponse(Json):
    topics: list[FetchedTopic] = []
    whole: Int32 | None = field(default=None, name="errorCode")
    groups: list[FetchedGroup] = []

    @property
    def error_code(self) -> int | None:
        """The response's code; from version 8, which has a code per group, the first that is not 0, else 0."""
        if not self.groups:
            return self.whole
        return next((group.error_code for group in self.groups if group.error_code), 0)


OFFSET_FETCH_COLUMNS: Final = (
    "group_id", "member_id", "generation_id", "topic", "topic_id", "partition", "in_request", "in_response",
    "offset", "response_leader_epoch", "error_code",
)  # fmt: skip
SubjectKey = tuple[str | None, str | None, str | None, int]


def offset_fetch(_: int, request: OffsetFetchRequest, response: OffsetFetchResponse | None) -> Iterable[Row]:
    """One row per group and partition. A request for all partitions of a group lists none."""
    members: dict[str | None, Row] = {g.group_id: (g.member_id, g.member_epoch) for g in request.groups}
    found: list[Row] = []
    for key, question, answer in joined(_requested(request), _fetched(request, response)):
        group, *subject = key
        member = members.get(group, (None, None))
        found.append((group, *member, *subject, question is not None, answer is not None, *(answer or (None,) * 3)))
    if found:
        return found
    groups = members or {request.group_id: (None, None)}
    return [(group, *member, None, None, None, False, False, None, None, None) for group, member in groups.items()]


def _requested(request: OffsetFetchRequest) -> Iterator[tuple[SubjectKey, bool]]:
    groups = request.groups or [RequestedGroup(request.group_id or "", request.topics)]
    for group in groups:
        for topic in group.topics or ():
            for partition in topic.partition_indexes:
                yield (group.group_id, *topic.key(), partition), True


def _fetched(request: OffsetFetchRequest, response: OffsetFetchResponse | None) -> Iterator[tuple[SubjectKey, Row]]:
    if response is None:
        return
    for group in response.groups or [FetchedGroup(request.group_id or "", response.topics)]:
        for topic in group.topics:
            for p in topic.partitions:
                fetched = (p.committed_offset, p.committed_leader_epoch, p.error_code)
                yield (group.group_id, *topic.key(), p.partition_index), fetched


APIS: Final = (
    Api("OFFSET_COMMIT", 10, Completed[CommitRequest, CommitResponse], COMMIT_COLUMNS, offset_commit),
    Api("TXN_OFFSET_COMMIT", 6, Completed[CommitRequest, CommitResponse], COMMIT_COLUMNS, offset_commit),
    Api("OFFSET_FETCH", 10, Completed[OffsetFetchRequest, OffsetFetchResponse], OFFSET_FETCH_COLUMNS, offset_fetch),
)
