"""Share groups (KIP-932): their state at share coordinators, and the share sessions of their members.

INITIALIZE_SHARE_GROUP_STATE 0, READ_SHARE_GROUP_STATE 0, WRITE_SHARE_GROUP_STATE 0-1, DELETE_SHARE_GROUP_STATE 0, SHARE_FETCH 0-2,
SHARE_ACKNOWLEDGE 0-2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from epochaudit.kafka.errors import Errors
from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Json, Row, named_id


class StatePartition(Json):
    """leader_epoch: of READ and WRITE. state_epoch: of INITIALIZE and WRITE."""

    partition: Int32
    leader_epoch: Int32 | None = None
    state_epoch: Int32 | None = None


class StateTopic(Json):
    topic_id: str
    partitions: list[StatePartition]


class StateRequest(Json):
    group_id: str
    topics: list[StateTopic]


class StateResult(Json):
    """state_epoch: of READ."""

    partition: Int32
    error_code: Int32
    state_epoch: Int32 | None = None


class StateResults(Json):
    topic_id: str
    partitions: list[StateResult]


class StateResponse(Json):
    results: list[StateResults]


STATE_COLUMNS: Final = (
    "group_id", "topic_id", "partition", "in_request", "in_response", "leader_epoch", "state_epoch", "error_code",
)  # fmt: skip


def share_state(_: int, request: StateRequest, response: StateResponse | None) -> Iterable[Row]:
    """One row per partition; without an error, the state epoch of READ is that of the answer.

    A broker sends the writes of a partition in one request if they wait together, and gets one answer for the partition. Those of one
    leader epoch and state epoch are one row. If they differ, it is not known which of them the answer is about.
    """
    # keys of a dict keep the request's order; those of a set that hold None have another one in each process
    asked: defaultdict[tuple[str, int], dict[tuple[int | None, int | None], None]] = defaultdict(dict)
    for topic in request.topics:
        for p in topic.partitions:
            asked[topic.topic_id, p.partition][p.leader_epoch, p.state_epoch] = None
    results = () if response is None else response.results
    answered = {(topic.topic_id, p.partition): p for topic in results for p in topic.partitions}
    found: list[Row] = []
    for (topic_id, partition), stated in asked.items():
        answer = answered.get((topic_id, partition)) if len(stated) == 1 else None
        for leader_epoch, state_epoch in stated:
            code = None if answer is None else answer.error_code
            read = answer.state_epoch if answer is not None and code == Errors.NONE else None
            epoch = read if state_epoch is None else state_epoch
            found.append(
                (request.group_id, named_id(topic_id), partition, True, answer is not None, leader_epoch, epoch, code)
            )
    return found or [(request.group_id, *(None,) * 2, False, False, *(None,) * 3)]


class SessionRequest(Json):
    group_id: str | None
    member_id: str | None
    share_session_epoch: Int32


class SessionResult(Json):
    """acknowledge_error_code: of SHARE_FETCH."""

    partition_index: Int32
    error_code: Int32
    acknowledge_error_code: Int32 = 0


class SessionResults(Json):
    topic_id: str
    partitions: list[SessionResult]


class SessionResponse(Json):
    error_code: Int32
    responses: list[SessionResults]


SESSION_COLUMNS: Final = (
    "group_id",
    "member_id",
    "session_epoch",
    "topic_id",
    "partition",
    "in_response",
    "error_code",
)


def share_session(_: int, request: SessionRequest, response: SessionResponse | None) -> Iterable[Row]:
    """One row per request, and one per partition that its answer has an error for."""
    session = (request.group_id, request.member_id, request.share_session_epoch)
    return [(*session, None, None, False, None), *((*session, *one) for one in _refused(response))]


def _refused(response: SessionResponse | None) -> Iterator[Row]:
    """(topic id, partition, True, error code) of each partition with an error; that of the acknowledgement precedes that of the fetch."""
    for topic in () if response is None else response.responses:
        for p in topic.partitions:
            if code := p.acknowledge_error_code or p.error_code:
                yield named_id(topic.topic_id), p.partition_index, True, code


def _state_api(name: str, highest_version: int) -> Api:
    return Api(name, highest_version, Completed[StateRequest, StateResponse], STATE_COLUMNS, share_state)


def _session_api(name: str) -> Api:
    return Api(name, 2, Completed[SessionRequest, SessionResponse], SESSION_COLUMNS, share_session)


APIS: Final = (
    _state_api("INITIALIZE_SHARE_GROUP_STATE", 0),
    _state_api("READ_SHARE_GROUP_STATE", 0),
    _state_api("WRITE_SHARE_GROUP_STATE", 1),
    _state_api("DELETE_SHARE_GROUP_STATE", 0),
    _session_api("SHARE_FETCH"),
    _session_api("SHARE_ACKNOWLEDGE"),
)
