"""The JSON of completed requests around the request and response of an API.

Field names are those of kafka.network.RequestConvertToJson (2.8 to 4.x); unknown fields are skipped while decoding.
Integers are bounded to their protocol type, so a garbled number affects its own line only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args

from msgspec import Meta, Struct, field
from msgspec.json import Decoder

from epochaudit.kafka.field_values import NO_TOPIC_ID

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Milliseconds = Annotated[float, Meta(ge=-1e12, le=1e12)]

Request = TypeVar("Request")
Response = TypeVar("Response")
Row = tuple[object, ...]


class Json(Struct, gc=False, rename="camel"):
    """A JSON object whose keys are the camel-case form of the field names."""


class Header(Json):
    request_api_version: Int32
    correlation_id: Int32
    client_id: str | None = None


class Client(Json):
    software_name: str | None = None
    software_version: str | None = None


class Completed(Json, Generic[Request, Response], kw_only=True):
    """The object after `Completed request:`. A request or response that Kafka did not retain is an empty string."""

    request_header: Header
    request: Request | str
    response: Response | str
    connection: str | None = None
    total_time_ms: Milliseconds
    request_queue_time_ms: Milliseconds
    local_time_ms: Milliseconds
    remote_time_ms: Milliseconds | None = None
    client_information: Client = field(default_factory=Client)


class ApiName(Json):
    request_api_key_name: str


class HeaderOnly(Json):
    """The object with the API's name only; the rest is checked to be JSON."""

    request_header: ApiName


@dataclass(frozen=True)
class Api:
    """How one API's completed requests become rows.

    name: the API as printed. event_type: of its rows, the name if empty. highest_version: the last known version.
    completed: the type of its lines' JSON. columns: the columns of `rows` in addition to those of all requests.
    rows(version, request, response): one tuple per partition; response is None if Kafka did not retain it. A response's
    top-level code, if it has one, is its `error_code`.
    """

    name: str
    highest_version: int
    completed: Any
    columns: tuple[str, ...]
    rows: Callable[[int, Any, Any], Iterable[Row]]
    event_type: str = ""

    def has_code(self) -> bool:
        """Its response has a top-level error code."""
        return hasattr(get_args(self.completed)[1], "error_code")

    def decoder(self) -> Decoder[Any]:
        """Decodes the JSON object of a line of this API."""
        return Decoder(self.completed)


def named_id(topic_id: str | None) -> str | None:
    """The topic id; None for the zero id (Uuid.ZERO_UUID)."""
    return None if topic_id == NO_TOPIC_ID else topic_id
