"""The request log as JSON (KIP-673, Kafka 2.8 to 4.x): one line per completed request.

    [2026-11-21 04:08:14,133] DEBUG Completed request:{"isForwarded":false,"requestHeader":{…},…} (kafka.request.logger)

The raw bytes show the API; the JSON is then decoded directly into that API's typed structs. Lines of other APIs are
checked to be JSON and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from epochaudit.events.event_types import FETCH, REQUEST_LOG_FILTERED
from epochaudit.sources.request_log.acknowledged_runs import AcknowledgedRuns
from epochaudit.sources.request_log.apis import (
    alter_partition,
    brokers,
    cluster_metadata,
    commits,
    control,
    fetch,
    groups,
    offsets,
    produce,
    quorum,
    share_groups,
    topics,
    transactions,
)
from epochaudit.sources.request_log.apis.envelope import Api, HeaderOnly
from epochaudit.sources.sink import (
    Columns,
    LineDecoder,
    LineOutcome,
    RequestColumns,
    RequestCounts,
    RequestRows,
    Row,
    RowSink,
)

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import CaptureFile

APIS: Final[dict[str, Api]] = {
    api.name: api
    for module in (
        control,
        alter_partition,
        fetch,
        offsets,
        commits,
        cluster_metadata,
        brokers,
        topics,
        groups,
        quorum,
        transactions,
        share_groups,
    )
    for api in module.APIS
}
COMMON: Final = (
    "byte_offset", "line_in_split", "time_ms", "api_version", "correlation_id", "client_id", "connection",
    "software_name", "software_version", "total_time_ms", "request_queue_time_ms", "local_time_ms", "remote_time_ms",
    "request_error_code",
)  # fmt: skip

MARK: Final = b"Completed request:{"
OBJECT: Final = len(MARK) - 1  # start of the object, from the mark
THOUSAND: Final = pa.scalar(1000.0)
HALF: Final = pa.scalar(0.5)
A_MILLISECOND: Final = pa.scalar(1000)  # in microseconds
NEARLY_A_MILLISECOND: Final = pa.scalar(999)  # rounds a quotient of integers up
PREFIX: Final = 200  # bytes that a layout may print before the mark
NAME: Final = b'"requestApiKeyName":"'
# most lines begin so, which saves a search
FETCH_KEY: Final = b'{"isForwarded":false,"requestHeader":{"requestApiKey":1,'
LOGGER: Final = b" (kafka.request.logger)"
LIGHT: Final = b" (kafka.request.logger.light)"
"""The end of lines under conf/kafka-log4j*-light.*, which filter routine answers: it shows that other lines were left out."""
_FILTER_COLUMNS: Final = ("event_type", "byte_offset", "line_in_split", "partition_row", "time_ms", "name")
_BESIDE_PARTITIONS: Final = -1  # partition_row of a row about the log itself, at the place of a request's line
_RECOGNISED: Final = re.compile(rb"^\[?\d{4}-\d\d-\d\d[ T][^\n]{0,120}Completed request:\{\"", re.MULTILINE)
_TIMESTAMP: Final = re.compile(rb"\[?\d{4}-\d\d-\d\d[ T]")
_WHOLE_LINE: Final = re.compile(rb" \([\w.$]+\)$")
_CONTINUATION: Final = re.compile(rb"\s|$|(?:Caused by|Suppressed|[\w$]+(?:\.[\w$]+)+)(?::|$)")


class KnownApi(Struct, gc=False):
    """An API's decoder and rows. A Struct, as slots are looked up for each request."""

    name: str
    highest_version: int
    has_code: bool
    decode: Callable[[bytes], Any]
    rows: Callable[[int, Any, Any], Iterable[Row]]
    add: Callable[[Row, Iterable[Row]], None]


EVENT, IGNORED, QUARANTINED = LineOutcome  # global names, as they are looked up for each line


class Unreadable(Exception):
    """A complete request can't become rows; the message is the quarantine reason."""


def recognise(head: bytes) -> bool:
    """The head is a request log in JSON: at least half of its lines are completed requests."""
    requests = len(_RECOGNISED.findall(head))
    return requests > 0 and 2 * requests >= sum(1 for line in head.split(b"\n") if line.strip())


def finished(given: Columns) -> Columns:
    """Times in whole microseconds, and arrival_ms computed from them; see RequestColumns.finish."""
    micros = {}
    for name in ("total_time", "request_queue_time", "local_time", "remote_time"):
        milliseconds = pa.array(given.pop(f"{name}_ms"), pa.float64())
        micros[f"{name}_us"] = pc.add(pc.multiply(milliseconds, THOUSAND), HALF).cast(pa.int64(), safe=False)
    given["time_ms"] = time_ms = pa.array(given["time_ms"], pa.int64())
    started = pc.divide(pc.add(micros["total_time_us"], NEARLY_A_MILLISECOND), A_MILLISECOND)
    return {**given, **micros, "arrival_ms": pc.subtract(time_ms, started)}


def rows_of(api: Api, sink: RowSink) -> RequestRows:
    """The collector of an API's rows."""
    return sink.requests(RequestColumns(api.event_type or api.name, COMMON, finished, api.columns))


class RequestLog:
    """Base of the decoders of both syntaxes. mark: text that begins a completed request."""

    kind: ClassVar[str]
    splittable: ClassVar[bool] = True
    mark: ClassVar[bytes]

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:  # noqa: ARG002  as all decoders
        self._quarantine = sink.quarantine
        self._time = sink.clock.read
        self._filters = sink.rows(_FILTER_COLUMNS)
        self._is_filtered = False

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        mark = text.find(self.mark, 0, PREFIX)
        if mark < 0:
            return self.other_line(text, byte_offset, line_in_split)
        return self.decode(text, 0, mark, len(text), byte_offset, line_in_split)

    def decode(
        self, data: bytes, start: int, mark: int, stop: int, byte_offset: int, line_in_split: int
    ) -> LineOutcome:
        """Decode the line data[start:stop], whose mark is at `mark`."""
        raise NotImplementedError

    def _filtered(self, byte_offset: int, line_in_split: int, time_ms: int | None) -> None:
        """Add a REQUEST_LOG_FILTERED row, once per byte range: answers were left out of this log on purpose."""
        if not self._is_filtered:
            self._is_filtered = True
            self._filters.append(
                (REQUEST_LOG_FILTERED, byte_offset, line_in_split, _BESIDE_PARTITIONS, time_ms, "light")
            )

    def other_line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """A line that is no completed request. Other log lines and stack traces are ignored, damaged lines quarantined."""
        if _TIMESTAMP.match(text):
            if _WHOLE_LINE.search(text) and b"Completed request:" not in text[:PREFIX]:
                return IGNORED
            reason = "cut off before the request"
        elif _CONTINUATION.match(text) and text.isascii():
            return IGNORED
        else:
            reason = "neither a log line nor the continuation of one"
        self._quarantine(byte_offset, line_in_split, reason, text)
        return QUARANTINED


def _reason(known: KnownApi, version: int, time_ms: int | None) -> str:
    """The quarantine reason of a request whose JSON is valid."""
    if not 0 <= version <= known.highest_version:
        return f"unknown version {version} of {known.name}: {known.highest_version} is the highest known"
    return "no readable timestamp" if time_ms is None else "the line does not tell the request itself"


class RequestLogDecoder(RequestLog):
    """Decodes completed requests into the rows of schemas/events.toml; counts requests by API.

    Clock: line order is the order of completion; arrival_ms is time_ms less the total time. acknowledged: takes answers to
    Produce; None if they are not wanted.
    """

    kind: ClassVar[str] = "request-log-json"
    mark: ClassVar[bytes] = MARK

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        self._name_only: Decoder[HeaderOnly] = Decoder(HeaderOnly)
        self._apis: dict[str, KnownApi] = {}
        for api in (api for api in APIS.values() if sink.wanted.has(api.event_type or api.name)):
            self._apis[api.name] = KnownApi(
                api.name, api.highest_version, api.has_code(), api.decoder().decode, api.rows, rows_of(api, sink).add
            )
        self._fetch = self._apis.get(FETCH)
        self.counts = RequestCounts()
        self._requests = self.counts.requests
        self.acknowledged: AcknowledgedRuns | None = None
        if sink.wanted.has(produce.API.name):
            api, self.acknowledged = produce.API, AcknowledgedRuns(self.counts, sink.edges)
            sink.register("acknowledged", self.acknowledged)
            self._apis[api.name] = KnownApi(
                api.name, api.highest_version, api.has_code(), api.decoder().decode, api.rows, self.acknowledged.add
            )

    def decode(
        self, data: bytes, start: int, mark: int, stop: int, byte_offset: int, line_in_split: int
    ) -> LineOutcome:
        """See RequestLog."""
        first = mark + OBJECT
        if data.endswith(LOGGER, first, stop):
            last = stop - len(LOGGER)
        else:
            last = data.rfind(b"}", first, stop) + 1
            if data.endswith(LIGHT, first, stop):
                self._filtered(byte_offset, line_in_split, self._time(data[start:mark]))
        known = self._fetch if data.startswith(FETCH_KEY, first) else None
        try:
            if known is None and (known := self._other_api(data, first, last)) is None:
                return IGNORED
            line = known.decode(data[first:last])
            header, client, response = line.request_header, line.client_information, line.response
            version, time_ms = header.request_api_version, self._time(data[start:mark])
            if not 0 <= version <= known.highest_version or time_ms is None or line.request.__class__ is str:
                raise Unreadable(_reason(known, version, time_ms))
            if response.__class__ is str:
                response = None
            common = (
                byte_offset, line_in_split, time_ms, version, header.correlation_id, header.client_id, line.connection,
                client.software_name, client.software_version, line.total_time_ms, line.request_queue_time_ms,
                line.local_time_ms, line.remote_time_ms, response.error_code if known.has_code and response else None,
            )  # fmt: skip
            known.add(common, known.rows(version, line.request, response))
            self._requests[known.name] += 1
        except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = f"not the JSON of a completed request: {error}"
        except Unreadable as error:
            reason = str(error)
        else:
            return EVENT
        self._quarantine(byte_offset, line_in_split, reason, data[start:stop])
        return QUARANTINED

    def _other_api(self, data: bytes, first: int, last: int) -> KnownApi | None:
        """The decoder of a request with rows; None for one without, which is counted."""
        at = data.find(NAME, first, last) + len(NAME)
        known = self._apis.get(data[at : data.find(b'"', at, last)].decode(errors="replace"))
        return known or self._decode_name(data[first:last])

    def _decode_name(self, json: bytes) -> KnownApi | None:
        """Count a request without rows. Returns the decoder of one with rows that is not printed as Kafka prints it."""
        name = self._name_only.decode(json).request_header.request_api_key_name
        if known := self._apis.get(name):
            return known
        self.counts.requests[name] += 1
        return None


DECODER: type[LineDecoder] = RequestLogDecoder
