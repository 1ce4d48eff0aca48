"""Members of consumer groups: JOIN_GROUP 0-9, SYNC_GROUP 0-5, CONSUMER_GROUP_HEARTBEAT 0-1.

Printed as text (Kafka 1.0 to 2.7): JOIN_GROUP 0-7, SYNC_GROUP 0-5. The third is of KIP-848, and came with 3.7.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Json, Row


class JoinRequest(Json):
    group_id: str
    group_instance_id: str | None = None


class JoinResponse(Json):
    error_code: Int32
    generation_id: Int32 | None = None
    leader: str | None = None
    member_id: str | None = None


JOIN_COLUMNS: Final = ("group_id", "group_instance_id", "member_id", "generation_id", "group_leader")


def join_group(_: int, request: JoinRequest, response: JoinResponse | None) -> Iterable[Row]:
    """One row: the member and the generation that the coordinator's answer names, -1 with an error, and the group's leader."""
    sender = (request.group_id, request.group_instance_id)
    if response is None:
        return [(*sender, None, None, None)]
    return [(*sender, response.member_id, response.generation_id, response.leader or None)]


class SyncRequest(Json):
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = None


class SyncResponse(Json):
    error_code: Int32


SYNC_COLUMNS: Final = ("group_id", "group_instance_id", "member_id", "generation_id")


def sync_group(_: int, request: SyncRequest, __: SyncResponse | None) -> Iterable[Row]:
    """One row: the member and its generation as the request states them."""
    return [(request.group_id, request.group_instance_id, request.member_id, request.generation_id)]


class HeartbeatRequest(Json):
    group_id: str
    member_id: str
    member_epoch: Int32


class HeartbeatResponse(Json):
    error_code: Int32
    member_id: str | None = None
    member_epoch: Int32 | None = None


HEARTBEAT_COLUMNS: Final = ("group_id", "member_id", "member_epoch", "response_member_epoch")


def consumer_group_heartbeat(_: int, request: HeartbeatRequest, response: HeartbeatResponse | None) -> Iterable[Row]:
    """One row: the member's epoch as the request states it, and as the answer does. In version 0 the answer may give the member its id."""
    if response is None:
        return [(request.group_id, request.member_id or None, request.member_epoch, None)]
    member = request.member_id or response.member_id
    return [(request.group_id, member, request.member_epoch, response.member_epoch)]


APIS: Final = (
    Api("JOIN_GROUP", 9, Completed[JoinRequest, JoinResponse], JOIN_COLUMNS, join_group),
    Api("SYNC_GROUP", 5, Completed[SyncRequest, SyncResponse], SYNC_COLUMNS, sync_group),
    Api(
        "CONSUMER_GROUP_HEARTBEAT",
        1,
        Completed[HeartbeatRequest, HeartbeatResponse],
        HEARTBEAT_COLUMNS,
        consumer_group_heartbeat,
    ),
)
