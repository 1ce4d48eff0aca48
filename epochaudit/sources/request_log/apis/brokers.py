"""Requests of a broker to its controller: BROKER_REGISTRATION 0-4, BROKER_HEARTBEAT 0-2, CONTROLLED_SHUTDOWN 0-3,
ASSIGN_REPLICAS_TO_DIRS 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row


class RegistrationRequest(Json):
    broker_id: Int32
    incarnation_id: str
    previous_broker_epoch: Int64 | None = None


class RegistrationResponse(Json):
    error_code: Int32
    broker_epoch: Int64 = -1


def registration(_: int, request: RegistrationRequest, response: RegistrationResponse | None) -> Iterable[Row]:
    """One row; current_broker_epoch is the epoch that the controller assigned, -1 with an error."""
    assigned = None if response is None else response.broker_epoch
    return [(request.broker_id, request.incarnation_id, request.previous_broker_epoch, assigned)]


class HeartbeatRequest(Json):
    broker_id: Int32
    broker_epoch: Int64
    current_metadata_offset: Int64
    want_fence: bool
    want_shut_down: bool


class HeartbeatResponse(Json):
    error_code: Int32
    is_fenced: bool = True
    should_shut_down: bool = False


HEARTBEAT_COLUMNS: Final = (
    "broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down",
    "fenced", "should_shut_down",
)  # fmt: skip


def heartbeat(_: int, request: HeartbeatRequest, response: HeartbeatResponse | None) -> Iterable[Row]:
    """One row: the broker's requested state and the controller's response."""
    requested = (request.current_metadata_offset, request.want_fence, request.want_shut_down)
    granted = (None, None) if response is None else (response.is_fenced, response.should_shut_down)
    return [(request.broker_id, request.broker_epoch, *requested, *granted)]


class ShutdownRequest(Json):
    broker_id: Int32
    broker_epoch: Int64 | None = None


class RemainingPartition(Json):
    topic_name: str
    partition_index: Int32


class ShutdownResponse(Json):
    error_code: Int32
    remaining_partitions: list[RemainingPartition] = []


SHUTDOWN_COLUMNS: Final = ("broker_id", "broker_epoch", "topic", "partition", "in_request", "in_response")


def controlled_shutdown(_: int, request: ShutdownRequest, response: ShutdownResponse | None) -> Iterable[Row]:
    """One row per partition that the broker still leads, else one without partition."""
    sender = (request.broker_id, request.broker_epoch)
    remaining = () if response is None else response.remaining_partitions
    found = [(*sender, p.topic_name, p.partition_index, False, True) for p in remaining]
    return found or [(*sender, None, None, False, False)]


class AssignmentRequest(Json):
    broker_id: Int32
    broker_epoch: Int64 = -1


class AssignmentResponse(Json):
    error_code: Int32


def assignment(_: int, request: AssignmentRequest, __: AssignmentResponse | None) -> Iterable[Row]:
    """One row: the broker that assigns replicas to its log directories. Which ones is not read."""
    return [(request.broker_id, request.broker_epoch)]


APIS: Final = (
    Api(
        "BROKER_REGISTRATION",
        4,
        Completed[RegistrationRequest, RegistrationResponse],
        ("broker_id", "incarnation_id", "previous_broker_epoch", "current_broker_epoch"),
        registration,
    ),
    Api("BROKER_HEARTBEAT", 2, Completed[HeartbeatRequest, HeartbeatResponse], HEARTBEAT_COLUMNS, heartbeat),
    Api("CONTROLLED_SHUTDOWN", 3, Completed[ShutdownRequest, ShutdownResponse], SHUTDOWN_COLUMNS, controlled_shutdown),
    Api(
        "ASSIGN_REPLICAS_TO_DIRS",
        0,
        Completed[AssignmentRequest, AssignmentResponse],
        ("broker_id", "broker_epoch"),
        assignment,
    ),
)
