"""Members that join a consumer group: JOIN_GROUP 0-9. Printed as text (Kafka 1.0 to 2.7), it is only counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Json, Row


class JoinRequest(Json):
    group_id: str


class JoinResponse(Json):
    error_code: Int32
    generation_id: Int32 | None = None
    member_id: str | None = None


JOIN_COLUMNS: Final = ("group_id", "member_id", "generation_id")


def join_group(_: int, request: JoinRequest, response: JoinResponse | None) -> Iterable[Row]:
    """One row: the member and the generation that the coordinator's answer names, -1 with an error."""
    answer = (None, None) if response is None else (response.member_id, response.generation_id)
    return [(request.group_id, *answer)]


APIS: Final = (Api("JOIN_GROUP", 9, Completed[JoinRequest, JoinResponse], JOIN_COLUMNS, join_group),)
