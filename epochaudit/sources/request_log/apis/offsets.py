"""Offsets by time and by epoch: LIST_OFFSETS 0-11, OFFSET_FOR_LEADER_EPOCH 0-4."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row
from epochaudit.sources.request_log.apis.joining import joined

SUBJECT: Final = ("topic", "partition", "in_request", "in_response")
NO_PARTITION: Final = (None, None, False, False)


class TimePartition(Json):
    partition_index: Int32
    timestamp: Int64
    current_leader_epoch: Int32 | None = None


class TimeTopic(Json):
    name: str
    partitions: list[TimePartition]


class ListOffsetsRequest(Json):
    replica_id: Int32
    topics: list[TimeTopic]
    isolation_level: Int32 | None = None


class TimeAnswer(Json):
    """Version 0 answers with a list of offsets, which is not read."""

    partition_index: Int32
    error_code: Int32
    offset: Int64 | None = None
    leader_epoch: Int32 | None = None


class TimeAnswers(Json):
    name: str
    partitions: list[TimeAnswer]


class ListOffsetsResponse(Json):
    topics: list[TimeAnswers]


LIST_OFFSETS_COLUMNS: Final = (
    "replica_id", "isolation_level", *SUBJECT,
    "current_leader_epoch", "timestamp", "error_code", "offset", "response_leader_epoch",
)  # fmt: skip


def list_offsets(_: int, request: ListOffsetsRequest, response: ListOffsetsResponse | None) -> Iterable[Row]:
    """One row per partition."""
    sender = (request.replica_id, request.isolation_level)
    asked = (
        ((t.name, p.partition_index), (p.current_leader_epoch, p.timestamp))
        for t in request.topics
        for p in t.partitions
    )
    topics = () if response is None else response.topics
    answered = (
        ((t.name, p.partition_index), (p.error_code, p.offset, p.leader_epoch)) for t in topics for p in t.partitions
    )
    found = [
        (*sender, *key, question is not None, answer is not None, *(question or (None,) * 2), *(answer or (None,) * 3))
        for key, question, answer in joined(asked, answered)
    ]
    return found or [(*sender, *NO_PARTITION, *(None,) * 5)]


class EpochPartition(Json):
    partition: Int32
    leader_epoch: Int32
    current_leader_epoch: Int32 | None = None


class EpochTopic(Json):
    topic: str
    partitions: list[EpochPartition]


class EpochRequest(Json):
    topics: list[EpochTopic]
    replica_id: Int32 | None = None


class EpochAnswer(Json):
    partition: Int32
    error_code: Int32
    end_offset: Int64
    leader_epoch: Int32 | None = None


class EpochAnswers(Json):
    topic: str
    partitions: list[EpochAnswer]


class EpochResponse(Json):
    topics: list[EpochAnswers]


EPOCH_COLUMNS: Final = (
    "replica_id", *SUBJECT, "current_leader_epoch", "leader_epoch", "error_code", "response_leader_epoch", "offset",
)  # fmt: skip


def offset_for_leader_epoch(_: int, request: EpochRequest, response: EpochResponse | None) -> Iterable[Row]:
    """One row per partition. leader_epoch: the requested epoch. response_leader_epoch, offset: the response's."""
    asked = (
        ((t.topic, p.partition), (p.current_leader_epoch, p.leader_epoch)) for t in request.topics for p in t.partitions
    )
    topics = () if response is None else response.topics
    answered = (
        ((t.topic, p.partition), (p.error_code, p.leader_epoch, p.end_offset)) for t in topics for p in t.partitions
    )
    sender = (request.replica_id,)
    found = [
        (*sender, *key, question is not None, answer is not None, *(question or (None,) * 2), *(answer or (None,) * 3))
        for key, question, answer in joined(asked, answered)
    ]
    return found or [(*sender, *NO_PARTITION, *(None,) * 5)]


APIS: Final = (
    Api("LIST_OFFSETS", 11, Completed[ListOffsetsRequest, ListOffsetsResponse], LIST_OFFSETS_COLUMNS, list_offsets),
    Api("OFFSET_FOR_LEADER_EPOCH", 4, Completed[EpochRequest, EpochResponse], EPOCH_COLUMNS, offset_for_leader_epoch),
)
