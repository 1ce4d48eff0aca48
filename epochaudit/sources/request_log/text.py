"""The request log as text (Kafka 1.0 to 2.7): one line per completed request.

    [2026-11-21 04:52:30,108] DEBUG Completed request:RequestHeader(apiKey=FETCH, apiVersion=11, clientId=broker-2-fetcher-0,
    correlationId=29) -- {replica_id=2,…},response:{throttle_time_ms=0,…} from connection 127.0.0.1:9093-127.0.0.1:33828-14;
    totalTime:501.465,…,listener:PLAINTEXT (kafka.request.logger)

Schemas parse requests and responses into the structs of the JSON log's APIs, which make the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast, get_args

from msgspec import Struct

from epochaudit.sources.request_log.acknowledged_runs import AcknowledgedRuns
from epochaudit.sources.request_log.apis import produce
from epochaudit.sources.request_log.apis.envelope import Api
from epochaudit.sources.request_log.json import APIS, LIGHT, RequestLog, Unreadable, rows_of
from epochaudit.sources.request_log.text_grammar.fields import every_name, parsed
from epochaudit.sources.request_log.text_grammar.grammar import Grammar, Misprinted
from epochaudit.sources.request_log.text_grammar.reader import reader
from epochaudit.sources.request_log.text_grammar.schemas import RENAMED, TEXTS, Text
from epochaudit.sources.request_log.text_grammar.values import Build, evaluated
from epochaudit.sources.sink import LineDecoder, LineOutcome, RequestCounts, Row, RowSink

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import CaptureFile

MARK: Final = b"Completed request:RequestHeader(apiKey="
MARK_IN_STOCK: Final = len(b"[YYYY-MM-DD HH:MM:SS,mmm] DEBUG ")  # position of the mark in the stock layout
CLIENT: Final = ", clientId="
RESPONSE: Final = ",response:"
CONNECTION: Final = " from connection "
CACHED_ENDINGS: Final = 10_000
LONGEST_SHORT: Final = 1500  # characters; a Fetch of one partition seldom has more
_MILLISECONDS: Final = r"([-\d.E]++)"
_HEADER: Final = re.compile(r"Completed request:RequestHeader\(apiKey=(\w+), apiVersion=(\d{1,5})\Z", re.ASCII)
_CLIENT: Final = re.compile(
    r", clientId=([^,]*+(?:,(?! correlationId=-?\d+\) -- \{)[^,]*+)*+), correlationId=(-?\d{1,10})\) -- ", re.ASCII
)
_TIMES: Final = re.compile(
    rf"{CONNECTION}([^;,{{}} ]*+);totalTime:{_MILLISECONDS},requestQueueTime:{_MILLISECONDS},localTime:{_MILLISECONDS}"
    rf",remoteTime:{_MILLISECONDS}"
    r",throttleTime:[-\d.E]++,responseQueueTime:[-\d.E]++,sendTime:[-\d.E]++,",
    re.ASCII,
)
_END: Final = re.compile(
    r"securityProtocol:\w++,principal:[^;,]*+(?:[;,](?!totalTime:|response:|listener:)[^;,]*+)*+,listener:[^,;{} ]++"
    r"(?:,clientInformation:ClientInformation\(softwareName=([\w.-]*+), softwareVersion=([\w.-]*+)\))?"
    r"(?:,temporaryMemoryBytes:\d++)?(?:,messageConversionsTime:[-\d.E]++)?( *\([\w.$]++\))?\s*+",
    re.ASCII,
)
UNCLOSED: Final = "cut off before the logger"
OUT_OF_RANGE: Final = "a number is out of its range"
_DATED: Final = rb"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
_RECOGNISED: Final = re.compile(_DATED + rb"[^\n]{0,40}" + re.escape(MARK), re.MULTILINE)

LONGEST_MS: Final = 1e12  # as envelope.Milliseconds

EVENT, IGNORED, QUARANTINED = LineOutcome  # as plain names: they are looked up for each line


def recognise(head: bytes) -> bool:
    """The head is a request log as text: at least half of its lines are completed requests."""
    requests = len(_RECOGNISED.findall(head))
    return requests > 0 and 2 * requests >= sum(1 for line in head.split(b"\n") if line.strip())


class PrintedApi:
    """One version of an API as text.

    match_short: matches a line from the client id to the times if no array has more than one struct; tried only for lines
    shorter than `longest_short`. build_short: makes (request, response) of its groups.
    """

    def __init__(self, name: str, version: int, text: Text, completed: Any) -> None:
        request, response = get_args(completed)
        schemas, response_schema = [parsed(notation) for notation in text.requests], parsed(text.response)
        names = chain.from_iterable(map(every_name, (*schemas, response_schema)))
        grammar = Grammar.of(version, text.flexible, names)
        self._requests = [reader(grammar, schema, request) for schema in schemas]
        self._response = reader(grammar, response_schema, response)
        self._reason = f"is not one of {name} {version} as text, or ambiguous"
        simplest = self._requests[0]
        asked, request_built, after = simplest.flat(2)
        answered, response_built, _ = self._response.flat(after)
        short = _CLIENT.pattern + asked + RESPONSE + answered + _TIMES.pattern
        self.match_short = re.compile(short, re.ASCII).match
        self.longest_short = LONGEST_SHORT if simplest.is_flat and self._response.is_flat else 0
        self.build_short = evaluated(f"({request_built}, {response_built})")

    def read(self, text: str, at: int) -> tuple[Any, Any, tuple[str, ...], int]:
        """(request, response, client id, correlation id, connection and times, where these end) of a line.

        The response is None if there was none. Raises Unreadable, or ValueError for a garbled number.
        """
        header = _CLIENT.match(text, at)
        if header is None:
            raise Unreadable("cut off within the header")
        request, at = self._request(text, header.end())
        response, at = self._answer(text, at + len(RESPONSE))
        times = _TIMES.match(text, at)
        if times is None:
            raise Unreadable("cut off within the times, or ambiguous")
        return request, response, header.groups() + times.groups(), times.end()

    def _request(self, text: str, at: int) -> tuple[Any, int]:
        """The request by the first schema that matches."""
        for number, known in enumerate(self._requests):
            try:
                request, end = known.read(text, at)
            except Misprinted:
                continue
            if text.startswith(RESPONSE, end):
                if number:
                    self._requests.insert(0, self._requests.pop(number))  # further lines use the same schema
                return request, end
        raise Unreadable(f"the request {self._reason}")

    def _answer(self, text: str, at: int) -> tuple[Any, int]:
        if text.startswith(CONNECTION, at):
            return None, at
        try:
            response, end = self._response.read(text, at)
        except Misprinted:
            raise Unreadable(f"the response {self._reason}") from None
        if not text.startswith(CONNECTION, end):
            raise Unreadable(f"the response {self._reason}")
        return response, end


class DecodedApi(Struct, gc=False):
    """A version of an API whose requests become rows. add: takes a request's rows. A Struct, as slots are fast."""

    name: str
    version: int
    rows: Callable[[int, Any, Any], Iterable[Row]]
    add: Callable[[Row, Iterable[Row]], None]
    printed: PrintedApi
    match_short: Callable[[str, int], re.Match[str] | None]
    longest_short: int
    build_short: Build


class CountedApi(Struct, gc=False):
    """An API without rows."""

    name: str


class TextRequestLogDecoder(RequestLog):
    """Decodes completed requests into the rows of schemas/events.toml; counts requests by API.

    Clock: line order is the order of completion; arrival_ms is time_ms less the total time. counts: may be shared with
    the decoder of the other syntax. prints_logger: a line ended with its logger, so a line without it was cut off.
    """

    kind: ClassVar[str] = "request-log-text"
    mark: ClassVar[bytes] = MARK

    def __init__(self, file: CaptureFile, sink: RowSink, counts: RequestCounts | None = None) -> None:
        super().__init__(file, sink)
        self._sink = sink
        self._known: dict[str, DecodedApi | CountedApi] = {}
        self._latest: DecodedApi | CountedApi = CountedApi("")
        self._latest_header = "none yet"
        self._endings: dict[str, tuple[str | None, str | None]] = {}
        self.prints_logger = False
        self.counts = counts or RequestCounts()
        self._requests = self.counts.requests
        self._acknowledged = AcknowledgedRuns(self.counts, sink.edges)
        sink.register("acknowledged as text", self._acknowledged)

    def decode(
        self, data: bytes, start: int, mark: int, stop: int, byte_offset: int, line_in_split: int
    ) -> LineOutcome:
        """See RequestLog."""
        try:
            text = data[mark:stop].decode()
            if data.endswith(LIGHT, mark, stop):
                self._filtered(byte_offset, line_in_split, self._time(data[start:mark]))
            if text.startswith(self._latest_header):  # most lines have the API and version of the one before
                known, client = self._latest, len(self._latest_header) - len(CLIENT)
            else:
                known, client = self._of_header(text)
            if isinstance(known, CountedApi):
                self._count(known, text, client)
                return IGNORED
            self._request(known, text, client, self._time(data[start:mark]), byte_offset, line_in_split)
        except (ValueError, Unreadable) as error:
            self._quarantine(byte_offset, line_in_split, _reason(error), data[start:stop])
            return QUARANTINED
        return EVENT

    def decode_noted(
        self, data: bytes, start: int, client: int, stop: int, time_ms: int, byte_offset: int, line_in_split: int
    ) -> LineOutcome:
        """Decode the line data[start:stop], which the scanner noted: an ASCII request of a known version with rows."""
        header = data[start + MARK_IN_STOCK : client].decode()
        known = self._known.get(header) or self._cached_api(header)
        try:
            self._request(cast(DecodedApi, known), data[client:stop].decode(), 0, time_ms, byte_offset, line_in_split)
        except (ValueError, Unreadable) as error:
            self._quarantine(byte_offset, line_in_split, _reason(error), data[start:stop])
            return QUARANTINED
        return EVENT

    def _request(
        self, known: DecodedApi, text: str, at: int, time_ms: int | None, byte_offset: int, line_in_split: int
    ) -> None:
        """Append the request's rows."""
        match = known.match_short(text, at) if len(text) < known.longest_short else None
        if match is None:
            request, response, header_and_times, end = known.printed.read(text, at)
            client_id, correlation_id, connection, total, queue, local, remote = header_and_times
        else:
            groups, end = match.groups(), match.end()
            client_id, correlation_id, (connection, total, queue, local, remote) = groups[0], groups[1], groups[-5:]
            request, response = known.build_short(groups)
        software, software_version = self._ending(text[end:])
        if time_ms is None:
            raise Unreadable("no readable timestamp")
        if not -(2**31) <= int(correlation_id) < 2**31 or float(total) > LONGEST_MS:
            raise Unreadable(OUT_OF_RANGE)
        common = (
            byte_offset, line_in_split, time_ms, known.version,
            int(correlation_id), None if client_id == "null" else client_id, connection, software, software_version,
            float(total), float(queue), float(local), float(remote), getattr(response, "error_code", None),
        )  # fmt: skip
        known.add(common, known.rows(known.version, request, response))
        self._requests[known.name] += 1

    def _acknowledge(self, common: Sequence[object], found: Iterable[tuple[Any, ...]]) -> None:
        """Add the answers to a Produce request. Raises Unreadable here, as runs of answers do not know their lines."""
        answers = list(found)
        if len(answers) > produce.MOST_PARTITIONS or not all(map(produce.fits, answers)):
            raise Unreadable(OUT_OF_RANGE)
        self._acknowledged.add(common, answers)

    def _ending(self, text: str) -> tuple[str | None, str | None]:
        """(software name, version) in the end of a line, which is equal in all lines of a client and therefore cached."""
        if known := self._endings.get(text):
            return known
        end = _END.fullmatch(text)
        if end is None:
            raise Unreadable("cut off after the times, or ambiguous")
        name, version, logger = end.groups()
        if logger is None and self.prints_logger:
            raise Unreadable(UNCLOSED)
        if len(self._endings) > CACHED_ENDINGS:
            self._endings.clear()
        self._endings[text] = name, version
        self.prints_logger = self.prints_logger or logger is not None
        return name, version

    def _of_header(self, text: str) -> tuple[DecodedApi | CountedApi, int]:
        """(decoder of the line's API and version, position of its client id)."""
        client = text.find(CLIENT)
        if client < 0:
            raise Unreadable("cut off within the header")
        known = self._known.get(text[:client]) or self._cached_api(text[:client])
        self._latest_header, self._latest = text[: client + len(CLIENT)], known
        return known, client

    def _cached_api(self, header: str) -> DecodedApi | CountedApi:
        """The decoder of a header's API and version, cached for all further lines."""
        known = self._known[header] = self._api_of(header)
        return known

    def _api_of(self, header: str) -> DecodedApi | CountedApi:
        """The decoder of a header's API and version. Raises Unreadable for unknown ones."""
        match = _HEADER.match(header)
        if match is None:
            raise Unreadable("the header names no API")
        name, version = match[1], int(match[2])
        if name not in TEXTS:
            return CountedApi(name)
        api = known_api(name)
        if version > api.highest_version:
            raise Unreadable(f"unknown version {version} of {name}: {api.highest_version} is the highest known")
        printed = _printed(name, version)
        return DecodedApi(
            name, version, api.rows, self._acknowledge if api is produce.PRINTED else rows_of(api, self._sink).add,
            printed, printed.match_short, printed.longest_short, printed.build_short,
        )  # fmt: skip

    def _count(self, known: CountedApi, text: str, at: int) -> None:
        """Count a request without rows; it is complete if its header and its end are."""
        header = _CLIENT.match(text, at)
        if header is None:
            raise Unreadable("cut off within the header")
        times = _TIMES.match(text, text.rfind(CONNECTION))
        if times is None:
            raise Unreadable("cut off within the times, or ambiguous")
        self._ending(text[times.end() :])
        self._requests[known.name] += 1


def known_api(name: str) -> Api:
    """The API that a line of text names."""
    return produce.PRINTED if name == produce.PRINTED.name else APIS[RENAMED.get(name, name)]


def _reason(error: ValueError | Unreadable) -> str:
    """The quarantine reason of a line."""
    if isinstance(error, Unreadable):
        return str(error)
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else "garbled: what should be a number is none"


@cache  # compiling takes milliseconds, and each range has its own decoder
def _printed(name: str, version: int) -> PrintedApi:
    return PrintedApi(name, version, TEXTS[name], known_api(name).completed)


DECODER: type[LineDecoder] = TextRequestLogDecoder
