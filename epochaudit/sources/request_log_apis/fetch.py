"""FETCH, versions 0 to 18: partitions asked for, answered, forgotten, and those that only the session knows."""

from __future__ import annotations

from typing import Final

from epochaudit.sources.request_log_apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id


class Partition(Json):
    partition: Int32
    fetch_offset: Int64
    current_leader_epoch: Int32 | None = None
    last_fetched_epoch: Int32 | None = None
    log_start_offset: Int64 | None = None


class Topic(Json):
    partitions: list[Partition]
    topic: str | None = None
    topic_id: str | None = None


class Forgotten(Json):
    partitions: list[Int32]
    topic: str | None = None
    topic_id: str | None = None


class ReplicaState(Json):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class Request(Json):
    topics: list[Topic]
    replica_id: Int32 | None = None
    replica_state: ReplicaState | None = None
    isolation_level: Int32 | None = None
    session_id: Int32 | None = None
    session_epoch: Int32 | None = None
    forgotten_topics_data: list[Forgotten] = []


class EpochEndOffset(Json):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Json):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class Answer(Json):
    error_code: Int32
    high_watermark: Int64
    partition_index: Int32 | None = None
    partition: Int32 = -1  # its name in 2.8
    last_stable_offset: Int64 | None = None
    log_start_offset: Int64 | None = None
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    preferred_read_replica: Int32 | None = None
    records_size_in_bytes: Int64 | None = None
    record_set_size_in_bytes: Int64 | None = None  # its name in 2.8


class Answers(Json):
    topic: str | None = None
    topic_id: str | None = None
    partitions: list[Answer] = []
    partition_responses: list[Answer] = []  # its name in 2.8


class Response(Json):
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
Subject = tuple[str | None, str | None, int]  # topic, topic_id, partition

# in_request, in_response, forgotten; where nothing was asked or answered, with the nulls for that
NOT_ANSWERED: Final = (None,) * 10
ASKED_AND_ANSWERED: Final = (True, True, False)
ASKED_ONLY: Final = (True, False, False)
ANSWERED_ONLY: Final = (False, True, False, None, None, None, None)
FORGOTTEN: Final = (False, False, True, *(None,) * 4, *NOT_ANSWERED)
NO_PARTITION: Final = (None, None, None, False, False, False, *(None,) * 4, *NOT_ANSWERED)

TAGGED_FIELDS: Final = 12  # first version with divergingEpoch and currentLeader
REPLICA_STATE: Final = 15  # first version with replicaState in place of replicaId
NO_HINTS: Final = (-1, -1, -1, -1)
HINTS_UNKNOWN: Final = (None, None, None, None)


def rows(version: int, request: Request, response: Response | None) -> list[Row]:
    """One row per partition: asked for, then answered only, then forgotten; if there is none, one without partition."""
    fetch = _fetch(version, request, response)
    answers = [] if response is None else _answers(version, response.responses)
    if request.topics:
        found = _joined(fetch, request.topics, answers)
    else:
        found = [fetch + subject + ANSWERED_ONLY + answer for subject, answer in answers]
    for topic in request.forgotten_topics_data:
        name = (topic.topic, named_id(topic.topic_id))
        found.extend(fetch + name + (partition,) + FORGOTTEN for partition in topic.partitions)
    return found or [fetch + NO_PARTITION]


def _fetch(version: int, request: Request, response: Response | None) -> Row:
    """Columns of the whole fetch. A full fetch (epoch 0) starts the session that the response names, or none."""
    session_id = request.session_id
    if request.session_epoch == 0 and response is not None:
        session_id = response.session_id
    state = request.replica_state
    if state is not None:
        return (state.replica_id, state.replica_epoch, request.isolation_level, session_id, request.session_epoch)
    if version >= REPLICA_STATE:
        return (-1, -1, request.isolation_level, session_id, request.session_epoch)
    return (request.replica_id, None, request.isolation_level, session_id, request.session_epoch)


def _joined(fetch: Row, topics: list[Topic], answers: list[tuple[Subject, Row]]) -> list[Row]:
    """Rows of the partitions asked for, in request order, then of those that only the response lists."""
    unasked = dict(answers)
    found = []
    for topic in topics:
        name, topic_id = topic.topic, named_id(topic.topic_id)
        for p in topic.partitions:
            subject = (name, topic_id, p.partition)
            asked = (p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch, p.log_start_offset)
            answer = unasked.pop(subject, None)
            if answer is None:
                found.append(fetch + subject + ASKED_ONLY + asked + NOT_ANSWERED)
            else:
                found.append(fetch + subject + ASKED_AND_ANSWERED + asked + answer)
    found.extend(fetch + subject + ANSWERED_ONLY + answer for subject, answer in unasked.items())
    return found


def _answers(version: int, topics: list[Answers]) -> list[tuple[Subject, Row]]:
    found: list[tuple[Subject, Row]] = []
    no_hints = NO_HINTS if version >= TAGGED_FIELDS else HINTS_UNKNOWN
    for topic in topics:
        name, topic_id = topic.topic, named_id(topic.topic_id)
        for p in topic.partitions or topic.partition_responses:
            hints = no_hints if p.diverging_epoch is None and p.current_leader is None else _hints(p)
            size = p.record_set_size_in_bytes if p.records_size_in_bytes is None else p.records_size_in_bytes
            read = (p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset)
            index = p.partition if p.partition_index is None else p.partition_index
            found.append(((name, topic_id, index), (*read, *hints, p.preferred_read_replica, size)))
    return found


def _hints(p: Answer) -> tuple[int, int, int, int]:
    end, leader = p.diverging_epoch or EpochEndOffset(), p.current_leader or LeaderIdAndEpoch()
    return (end.epoch, end.end_offset, leader.leader_id, leader.leader_epoch)


APIS: Final = (Api("FETCH", 18, Completed[Request, Response], COLUMNS, rows),)
