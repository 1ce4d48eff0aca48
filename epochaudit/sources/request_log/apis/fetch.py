"""FETCH 0-18: requested, answered and forgotten partitions, and those that only the fetch session has."""

from __future__ import annotations

from typing import Final

from epochaudit.kafka.api_versions import DIVERGING_EPOCH_FETCH_VERSION, REPLICA_STATE_FETCH_VERSION
from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id

# Fields are in Kafka's printed order. msgspec looks for the next key after the last one first: decoding a Fetch, most of a
# request log, takes two thirds of the time that another order takes.


class Partition(Json, kw_only=True):
    partition: Int32
    current_leader_epoch: Int32 | None = None
    fetch_offset: Int64
    last_fetched_epoch: Int32 | None = None
    log_start_offset: Int64 | None = None

    def asked(self) -> Row:
        return (self.current_leader_epoch, self.fetch_offset, self.last_fetched_epoch, self.log_start_offset)


class Topic(Json, kw_only=True):
    topic_id: str | None = None
    topic: str | None = None
    partitions: list[Partition]


class Forgotten(Json):
    partitions: list[Int32]
    topic: str | None = None
    topic_id: str | None = None


class ReplicaState(Json):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class Request(Json, kw_only=True):
    replica_id: Int32 | None = None
    replica_state: ReplicaState | None = None
    isolation_level: Int32 | None = None
    session_id: Int32 | None = None
    session_epoch: Int32 | None = None
    topics: list[Topic]
    forgotten_topics_data: list[Forgotten] = []


class EpochEndOffset(Json):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Json):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class Answer(Json, kw_only=True):
    partition_index: Int32 | None = None
    partition: Int32 = -1  # its name in 2.8
    error_code: Int32
    high_watermark: Int64
    last_stable_offset: Int64 | None = None
    log_start_offset: Int64 | None = None
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    preferred_read_replica: Int32 | None = None
    records_size_in_bytes: Int64 | None = None
    record_set_size_in_bytes: Int64 | None = None  # its name in 2.8

    def answered_columns(self, no_hint: int | None) -> Row:
        """The columns of the answer. no_hint: value of absent tagged fields."""
        end, leader = self.diverging_epoch, self.current_leader
        size = self.records_size_in_bytes
        return (
            self.error_code,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            no_hint if end is None else end.epoch,
            no_hint if end is None else end.end_offset,
            no_hint if leader is None else leader.leader_id,
            no_hint if leader is None else leader.leader_epoch,
            self.preferred_read_replica,
            self.record_set_size_in_bytes if size is None else size,
        )


class Answers(Json):
    topic_id: str | None = None
    topic: str | None = None
    partitions: list[Answer] = []
    partition_responses: list[Answer] = []  # its name in 2.8


class Response(Json, kw_only=True):
    error_code: Int32 | None = None
    session_id: Int32 | None = None
    responses: list[Answers]


COLUMNS: Final = (
    "replica_id", "replica_epoch", "isolation_level", "session_id", "session_epoch",
    "topic", "topic_id", "partition", "in_request", "in_response", "forgotten",
    "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "requester_log_start_offset",
    "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "diverging_end_offset",
    "hinted_leader", "hinted_leader_epoch", "preferred_read_replica", "records_size",
)  # fmt: skip
Subject = tuple[str | None, str | None, int]  # topic, topic_id, partition

# (in_request, in_response, forgotten), followed by the nulls of a missing request or response
NOT_ASKED: Final = (None,) * 4
NOT_ANSWERED: Final = (None,) * 10
ASKED_ONLY: Final = (True, False, False)
UNASKED: Final = (False, True, False, *NOT_ASKED)
FORGOTTEN: Final = (False, False, True, *NOT_ASKED, *NOT_ANSWERED)
NO_PARTITION: Final = (None, None, None, False, False, False, *NOT_ASKED, *NOT_ANSWERED)


def rows(version: int, request: Request, response: Response | None) -> list[Row]:
    """One row per partition: requested, then answered only, then forgotten. Without partitions, one row.

    Fetches are most of a request log, so rows are built with few intermediate tuples.
    """
    fetch = _fetch(version, request, response)
    topics = [] if response is None else response.responses
    no_hint = -1 if version >= DIVERGING_EPOCH_FETCH_VERSION else None
    found = _asked(fetch, request.topics, topics, no_hint) if request.topics else _unasked(fetch, topics, no_hint)
    for forgotten in request.forgotten_topics_data:
        name = (forgotten.topic, named_id(forgotten.topic_id))
        found.extend(fetch + name + (partition,) + FORGOTTEN for partition in forgotten.partitions)
    return found or [fetch + NO_PARTITION]


def _fetch(version: int, request: Request, response: Response | None) -> Row:
    """Columns of the request. A full fetch (epoch 0) starts the session that the response names, if any (KIP-227)."""
    session_id = request.session_id
    if request.session_epoch == 0 and response is not None:
        session_id = response.session_id
    state = request.replica_state
    if state is not None:
        return (state.replica_id, state.replica_epoch, request.isolation_level, session_id, request.session_epoch)
    if version >= REPLICA_STATE_FETCH_VERSION:
        return (-1, -1, request.isolation_level, session_id, request.session_epoch)
    return (request.replica_id, None, request.isolation_level, session_id, request.session_epoch)


def _asked(fetch: Row, requested_topics: list[Topic], answered: list[Answers], no_hint: int | None) -> list[Row]:
    """Rows of the requested partitions in request order, then of those that only the response lists."""
    unasked: dict[Subject, Answer] = {}
    for topic in answered:
        name, topic_id = topic.topic, named_id(topic.topic_id)
        for p in topic.partitions or topic.partition_responses:
            unasked[name, topic_id, p.partition if p.partition_index is None else p.partition_index] = p
    replica_id, replica_epoch, isolation_level, session_id, session_epoch = fetch
    found: list[Row] = []
    for requested in requested_topics:
        name, topic_id = requested.topic, named_id(requested.topic_id)
        for q in requested.partitions:
            answer = unasked.pop((name, topic_id, q.partition), None)
            if answer is None:
                found.append((*fetch, name, topic_id, q.partition, *ASKED_ONLY, *q.asked(), *NOT_ANSWERED))
                continue
            end, leader, size = answer.diverging_epoch, answer.current_leader, answer.records_size_in_bytes
            found.append((
                replica_id, replica_epoch, isolation_level, session_id, session_epoch,
                name, topic_id, q.partition, True, True, False,
                q.current_leader_epoch, q.fetch_offset, q.last_fetched_epoch, q.log_start_offset,
                answer.error_code, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset,
                no_hint if end is None else end.epoch, no_hint if end is None else end.end_offset,
                no_hint if leader is None else leader.leader_id, no_hint if leader is None else leader.leader_epoch,
                answer.preferred_read_replica, answer.record_set_size_in_bytes if size is None else size,
            ))  # fmt: skip
    found.extend(fetch + subject + UNASKED + answer.answered_columns(no_hint) for subject, answer in unasked.items())
    return found


def _unasked(fetch: Row, answered: list[Answers], no_hint: int | None) -> list[Row]:
    """Rows of the partitions in the response of an incremental fetch: most rows of most logs.

    All columns are written out: a tuple display is faster than joining tuples.
    """
    replica_id, replica_epoch, isolation_level, session_id, session_epoch = fetch
    found: list[Row] = []
    for topic in answered:
        name, topic_id = topic.topic, named_id(topic.topic_id)
        for p in topic.partitions or topic.partition_responses:
            end, leader, index, size = p.diverging_epoch, p.current_leader, p.partition_index, p.records_size_in_bytes
            found.append((
                replica_id, replica_epoch, isolation_level, session_id, session_epoch,
                name, topic_id, p.partition if index is None else index, False, True, False, None, None, None, None,
                p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset,
                no_hint if end is None else end.epoch, no_hint if end is None else end.end_offset,
                no_hint if leader is None else leader.leader_id, no_hint if leader is None else leader.leader_epoch,
                p.preferred_read_replica, p.record_set_size_in_bytes if size is None else size,
            ))  # fmt: skip
    return found


APIS: Final = (Api("FETCH", 18, Completed[Request, Response], COLUMNS, rows),)
