"""FETCH, versions 0 to 18: partitions asked for, answered, forgotten, and those that only the session knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log_apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id


class Partition(Json, gc=False):
    partition: Int32
    fetch_offset: Int64
    current_leader_epoch: Int32 | None = None
    last_fetched_epoch: Int32 | None = None
    log_start_offset: Int64 | None = None


class Topic(Json, gc=False):
    partitions: list[Partition]
    topic: str | None = None
    topic_id: str | None = None


class Forgotten(Json, gc=False):
    partitions: list[Int32]
    topic: str | None = None
    topic_id: str | None = None


class ReplicaState(Json, gc=False):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class Request(Json, gc=False):
    topics: list[Topic]
    replica_id: Int32 | None = None
    replica_state: ReplicaState | None = None
    isolation_level: Int32 | None = None
    session_id: Int32 | None = None
    session_epoch: Int32 | None = None
    forgotten_topics_data: list[Forgotten] = []


class EpochEndOffset(Json, gc=False):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Json, gc=False):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class Answer(Json, gc=False):
    error_code: Int32
    high_watermark: Int64
    partition_index: Int32 = -1
    partition: Int32 = -1  # its name in 2.8
    last_stable_offset: Int64 | None = None
    log_start_offset: Int64 | None = None
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    preferred_read_replica: Int32 | None = None
    records_size_in_bytes: Int64 | None = None
    record_set_size_in_bytes: Int64 | None = None  # its name in 2.8


class Answers(Json, gc=False):
    topic: str | None = None
    topic_id: str | None = None
    partitions: list[Answer] = []
    partition_responses: list[Answer] = []  # its name in 2.8


class Response(Json, gc=False):
    responses: list[Answers]
    error_code: Int32 | None = None
    session_id: Int32 | None = None


COLUMNS: Final = (
    "replica_id", "replica_epoch", "isolation_level", "session_id", "session_epoch",
    "topic", "topic_id", "partition", "in_request", "in_response", "forgotten",
    "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "requester_log_start_offset",
    "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "diverging_end_offset",
    "hinted_leader", "hinted_leader_epoch", "preferred_read_replica", "records_size",
)  # fmt: skip
NOT_ASKED: Final = (None,) * 4
NOT_ANSWERED: Final = (None,) * 10
NO_PARTITION: Final = (None, None, None, False, False, False, *NOT_ASKED, *NOT_ANSWERED)
TAGGED_FIELDS: Final = 12  # first version with divergingEpoch and currentLeader


def rows(version: int, request: Request, response: Response | None) -> Iterable[Row]:
    """One row per partition: asked for, then answered only, then forgotten; if there is none, one without partition."""
    fetch = _fetch(version, request, response)
    answers = {} if response is None or not response.responses else _answers(version, response)
    found: list[Row] = []
    for topic in request.topics:
        key, topic_id = topic.topic_id or topic.topic, named_id(topic.topic_id)
        for p in topic.partitions:
            asked = (p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch, p.log_start_offset)
            answer = answers.pop((key, p.partition), None) if answers else None
            subject = (topic.topic, topic_id, p.partition, True, answer is not None, False)
            found.append(fetch + subject + asked + (answer[2] if answer else NOT_ANSWERED))
    for (_, partition), (topic_name, topic_id, answered) in answers.items():
        found.append((*fetch, topic_name, topic_id, partition, False, True, False, *NOT_ASKED, *answered))
    for gone in request.forgotten_topics_data:
        for partition in gone.partitions:
            subject = (gone.topic, named_id(gone.topic_id), partition, False, False, True)
            found.append(fetch + subject + NOT_ASKED + NOT_ANSWERED)
    return found or [fetch + NO_PARTITION]


def _fetch(version: int, request: Request, response: Response | None) -> Row:
    """Columns of the whole fetch. A full fetch (epoch 0) starts the session that the response names, or none."""
    session_id = request.session_id
    if request.session_epoch == 0 and response is not None:
        session_id = response.session_id
    state = request.replica_state
    if state is not None:
        return (state.replica_id, state.replica_epoch, request.isolation_level, session_id, request.session_epoch)
    if version >= 15:
        return (-1, -1, request.isolation_level, session_id, request.session_epoch)
    return (request.replica_id, None, request.isolation_level, session_id, request.session_epoch)


def _answers(version: int, response: Response) -> dict[tuple[str | None, int], tuple[str | None, str | None, Row]]:
    answers = {}
    for topic in response.responses:
        key, topic_id = topic.topic_id or topic.topic, named_id(topic.topic_id)
        for p in topic.partitions:
            answers[key, p.partition_index] = (topic.topic, topic_id, _answered(version, p, p.records_size_in_bytes))
        for p in topic.partition_responses:
            answers[key, p.partition] = (topic.topic, topic_id, _answered(version, p, p.record_set_size_in_bytes))
    return answers


def _answered(version: int, p: Answer, records_size: int | None) -> Row:
    hints: tuple[int | None, ...] = (-1, -1, -1, -1) if version >= TAGGED_FIELDS else (None, None, None, None)
    if p.diverging_epoch is not None or p.current_leader is not None:
        end, leader = p.diverging_epoch or EpochEndOffset(), p.current_leader or LeaderIdAndEpoch()
        hints = (end.epoch, end.end_offset, leader.leader_id, leader.leader_epoch)
    read = (p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset)
    return (*read, *hints, p.preferred_read_replica, records_size)


APIS: Final = (Api("FETCH", 18, Completed[Request, Response], COLUMNS, rows),)
