"""The request log as JSON (KIP-673, Kafka 2.8 to 4.x): one line per completed request.

    [2026-11-21 04:08:14,133] DEBUG Completed request:{"isForwarded":false,"requestHeader":{…},…} (kafka.request.logger)

The API is told from the raw bytes, then the JSON is decoded straight into that API's typed structs. APIs of no interest
are checked to be JSON and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import MsgspecError
from msgspec.json import Decoder

from epochaudit.sources.log_time import LogClock
from epochaudit.sources.request_log_apis import (
    alter_partition,
    brokers,
    cluster_metadata,
    commits,
    control,
    fetch,
    offsets,
    topics,
)
from epochaudit.sources.request_log_apis.envelope import Api, HeaderOnly, Row
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink

if TYPE_CHECKING:
    from epochaudit.sources.capture import RecordedFile

APIS: Final[dict[str, Api]] = {
    api.name: api
    for module in (control, alter_partition, fetch, offsets, commits, cluster_metadata, brokers, topics)
    for api in module.APIS
}
REQUEST_COLUMNS: Final = (
    "event_type", "byte_offset", "line_in_split", "time_ms", "api_version", "correlation_id", "client_id", "connection",
    "software_name", "software_version", "total_time_us", "request_queue_time_us", "local_time_us", "arrival_ms",
    "request_error_code", "partition_row",
)  # fmt: skip

MARK: Final = b"Completed request:{"
NAME: Final = b'"requestApiKeyName":"'
LOGGER: Final = b" (kafka.request.logger)"
_RECOGNISED: Final = re.compile(rb"^\[?\d{4}-\d\d-\d\d[ T][^\n]{0,120}Completed request:\{\"", re.MULTILINE)
_TIMESTAMP: Final = re.compile(rb"\[?\d{4}-\d\d-\d\d[ T]")
_WHOLE_LINE: Final = re.compile(rb" \([\w.$]+\)$")
_CONTINUATION: Final = re.compile(rb"\s|$|(?:Caused by|Suppressed|[\w$]+(?:\.[\w$]+)+)(?::|$)")


def recognise(head: bytes) -> bool:
    """Whether a file that begins so is a request log in JSON: most of its lines are completed requests."""
    requests = len(_RECOGNISED.findall(head))
    return requests > 0 and 2 * requests >= sum(1 for line in head.split(b"\n") if line.strip())


class RequestLogDecoder:
    """Decodes completed requests into the rows of schemas/events.toml; counts requests by API.

    Clock: line order is the order of completion; arrival_ms is reckoned back from it.
    """

    kind: ClassVar[str] = "request-log-json"
    splittable: ClassVar[bool] = True

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
        self._sink = sink
        self._time = LogClock(file.time_zone).read
        self._header: Decoder[HeaderOnly] = Decoder(HeaderOnly)
        self._apis: dict[bytes, tuple[Api, Decoder[Any], Callable[[Row], None]]] = {}
        for api in APIS.values():
            append = sink.rows(REQUEST_COLUMNS + api.columns).append
            self._apis[api.name.encode()] = (api, api.decoder(), append)
        self.requests: Counter[str] = Counter()

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        mark = text.find(MARK, 0, 200)
        if mark < 0:
            return self._other(text, byte_offset, line_in_split)
        json = text[mark + len(MARK) - 1 : -len(LOGGER)] if text.endswith(LOGGER) else _object(text, mark)
        name = json.find(NAME) + len(NAME)
        api = self._apis.get(json[name : json.find(b'"', name)])
        try:
            if api is None:
                header = self._header.decode(json).request_header
                self.requests[header.request_api_key_name] += 1
                return LineOutcome.IGNORED
            reason = self._request(*api, json, text, byte_offset, line_in_split)
        except (MsgspecError, UnicodeDecodeError) as error:
            reason = f"not the JSON of a completed request: {error}"
        if reason:
            self._sink.quarantine(byte_offset, line_in_split, reason, text)
            return LineOutcome.QUARANTINED
        return LineOutcome.EVENT

    def _request(
        self,
        api: Api,
        decoder: Decoder[Any],
        append: Callable[[Row], None],
        json: bytes,
        text: bytes,
        byte_offset: int,
        line_in_split: int,
    ) -> str | None:
        """Append the request's rows; the reason why it can't be read, if so."""
        completed = decoder.decode(json)
        header, request, response, client = (
            completed.request_header, completed.request, completed.response, completed.client_information,
        )  # fmt: skip
        version = header.request_api_version
        if not 0 <= version <= api.highest_version:
            return f"unknown version {version} of {api.name}: {api.highest_version} is the highest known"
        time_ms = self._time(text)
        if time_ms is None:
            return "no readable timestamp"
        self.requests[api.name] += 1
        total_us = round(completed.total_time_ms * 1000)
        common = (
            api.event_type or api.name, byte_offset, line_in_split, time_ms, version, header.correlation_id,
            header.client_id, completed.connection, client.software_name, client.software_version, total_us,
            round(completed.request_queue_time_ms * 1000), round(completed.local_time_ms * 1000),
            (time_ms * 1000 - total_us) // 1000, getattr(response, "error_code", None),
        )  # fmt: skip
        if request.__class__ is str:
            return "the request itself was not kept"
        if response.__class__ is str:
            response = None
        for ordinal, row in enumerate(api.rows(version, request, response)):
            append((*common, ordinal, *row))
        return None

    def _other(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """A line that is no completed request: another log line or a stack trace is ignored, a damaged line is not."""
        if _TIMESTAMP.match(text):
            if _WHOLE_LINE.search(text) and b"Completed request:" not in text[:200]:
                return LineOutcome.IGNORED
            reason = "cut off before the request"
        elif _CONTINUATION.match(text) and text.isascii():
            return LineOutcome.IGNORED
        else:
            reason = "neither a log line nor the continuation of one"
        self._sink.quarantine(byte_offset, line_in_split, reason, text)
        return LineOutcome.QUARANTINED


def _object(text: bytes, mark: int) -> bytes:
    """The JSON object of a line that does not end as the stock pattern does."""
    return text[mark + len(MARK) - 1 : text.rfind(b"}") + 1]


DECODER: type[LineDecoder] = RequestLogDecoder
