"""The scanner's programs: fields of completed requests in Kafka's printed order, as tables.

A program has a row of numbers per field, in the columns of `machine.Column`. Its literal is all text between the previous
value and its own. If the literal matches, the value is read by the row's kind and the row NEXT follows; else the row ELSE
is tried. If there is none, the scanner does not take the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default_of
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from epochaudit.events.event_types import FETCH
from epochaudit.sources.request_log.apis import produce
from epochaudit.sources.request_log.apis.envelope import Api
from epochaudit.sources.request_log.compiled.machine import (
    FETCH_END,
    PARTITION,
    REGISTER,
    TOPIC,
    UNREAD,
    Array,
    Characters,
    Column,
    Kind,
    Treatment,
)
from epochaudit.sources.request_log.json import APIS
from epochaudit.sources.request_log.text import known_api
from epochaudit.sources.request_log.text_grammar.fields import Field, parsed
from epochaudit.sources.request_log.text_grammar.schemas import NEVER, TEXTS
from epochaudit.sources.sink import SCAN

JSON_REQUEST: Final = (
    "cluster_id$:12+ replica_id:0-14 replica_state:15+(replica_id replica_epoch) max_wait_ms min_bytes max_bytes:3+ "
    "isolation_level:4+ session_id:7+ session_epoch:7+ topics[topic_id$:13+ topic$:0-12 partitions[partition "
    "current_leader_epoch:9+ fetch_offset last_fetched_epoch:12+ log_start_offset:5+ partition_max_bytes "
    "replica_directory_id$:17+ high_watermark:18+]] "
    "forgotten_topics_data:7+[topic_id$:13+ topic$:0-12 partitions#] rack_id$:11+"
)
JSON_RESPONSE: Final = (
    "throttle_time_ms:1+ error_code:7+ session_id:7+ responses[topic_id$:13+ topic$:0-12 "
    "partitions|partition_responses[partition_index|partition error_code high_watermark last_stable_offset:4+ "
    "log_start_offset:5+ diverging_epoch:12+(epoch end_offset) current_leader:12+(leader_id leader_epoch) "
    "snapshot_id:12+(end_offset epoch) aborted_transactions?:4+[producer_id first_offset] preferred_read_replica:11+ "
    "records_size_in_bytes|record_set_size_in_bytes]] node_endpoints:16+[node_id host$ port rack$]"
)
"""Fetch in JSON, in the notation of text_grammar/schemas.py; fields that not all versions print may be absent."""
JSON_PRODUCE_REQUEST: Final = (
    "transactional_id$:3+ acks timeout_ms "
    "topic_data[topic_id$:13+ name$:0-12 partition_data[index records_size_in_bytes]]"
)  # fmt: skip
JSON_PRODUCE_RESPONSE: Final = (
    "responses[topic_id$:13+ name$:0-12 partition_responses[index error_code base_offset log_append_time_ms:2+ "
    "log_start_offset:5+ record_errors:8+[batch_index batch_index_error_message$] error_message$:8+ "
    "current_leader:10+(leader_id leader_epoch)]] throttle_time_ms:1+ node_endpoints:10+[node_id host$ port rack$]"
)
"""Produce in JSON. The decoder reads a line without a response (acks=0)."""
UNREAD_APIS: Final = (
    "API_VERSIONS", "FIND_COORDINATOR", "HEARTBEAT", "LEAVE_GROUP", "DESCRIBE_GROUPS",
    "LIST_GROUPS", "DELETE_GROUPS", "OFFSET_DELETE", "SASL_HANDSHAKE", "SASL_AUTHENTICATE", "DESCRIBE_ACLS",
    "CREATE_ACLS", "DELETE_ACLS", "DESCRIBE_CONFIGS", "ALTER_REPLICA_LOG_DIRS", "DESCRIBE_LOG_DIRS", "CREATE_PARTITIONS",
    "CREATE_DELEGATION_TOKEN", "RENEW_DELEGATION_TOKEN", "EXPIRE_DELEGATION_TOKEN", "DESCRIBE_DELEGATION_TOKEN",
    "ALTER_PARTITION_REASSIGNMENTS", "LIST_PARTITION_REASSIGNMENTS", "DESCRIBE_CLIENT_QUOTAS", "ALTER_CLIENT_QUOTAS",
    "DESCRIBE_USER_SCRAM_CREDENTIALS", "ALTER_USER_SCRAM_CREDENTIALS", "VOTE", "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH",
    "DESCRIBE_QUORUM", "UPDATE_FEATURES",
)  # fmt: skip
"""The other APIs of Kafka 1.0 to 2.7 (org.apache.kafka.common.protocol.ApiKeys), which are only counted."""

AS_ROWS: Final = (FETCH, "METADATA", "UPDATE_METADATA", "LEADER_AND_ISR")
"""APIs whose requests as text become rows here, in the order of their tables."""
_READ: Final[Mapping[str, Mapping[str, str]]] = {
    "request": {
        name: name
        for name in (
            "replica_id",
            "isolation_level",
            "session_id",
            "session_epoch",
            "controller_id",
            "controller_epoch",
            "broker_epoch",
            "live_brokers",
            "acks",
            "transactional_id",
        )
    },
    "replica_state": {"replica_id": "replica_id", "replica_epoch": "replica_epoch"},
    "topic": {
        "topic": "topic",
        "topic_name": "topic",
        "name": "topic",
        "topic_id": "topic_id",
        "error_code": "error_code",
    },
    "asked": {
        "topic_name": "topic",
        "partition_index": "partition",
        "controller_epoch": "partition_controller_epoch",
        "leader": "leader",
        "leader_epoch": "leader_epoch",
        "isr": "isr",
        "zk_version": "partition_epoch",
        "replicas": "replicas",
        "adding_replicas": "adding_replicas",
        "removing_replicas": "removing_replicas",
        "offline_replicas": "offline_replicas",
        "is_new": "is_new",
        "partition": "partition",
        "index": "partition",
        "current_leader_epoch": "current_leader_epoch",
        "fetch_offset": "fetch_offset",
        "last_fetched_epoch": "last_fetched_epoch",
        "log_start_offset": "requester_log_start_offset",
    },
    "broker": {"id": "broker_id"},  # the column takes the text of the whole list; each broker must match
    "response": {"error_code": "request_error_code", "session_id": "answered_session_id"},
    "answered": {
        "topic_name": "topic",
        "leader_id": "response_leader",
        "leader_epoch": "response_leader_epoch",
        "replica_nodes": "replicas",
        "isr_nodes": "response_isr",
        "offline_replicas": "offline_replicas",
        "partition_index": "partition",
        "partition": "partition",
        "index": "partition",
        "error_code": "error_code",
        "base_offset": "base_offset",
        "high_watermark": "high_watermark",
        "last_stable_offset": "last_stable_offset",
        "log_start_offset": "log_start_offset",
        "preferred_read_replica": "preferred_read_replica",
        "records_size_in_bytes": "records_size",
        "record_set_size_in_bytes": "records_size",
    },
    "diverging_epoch": {"epoch": "diverging_epoch", "end_offset": "diverging_end_offset"},
    "current_leader": {"leader_id": "hinted_leader", "leader_epoch": "hinted_leader_epoch"},
}
"""struct -> field -> register. Other fields are skipped."""
_STRUCTS: Final = {  # by list
    "topics": "topic", "forgotten_topics_data": "topic", "responses": "topic", "topic_states": "topic",
    "topic_data": "topic", "ungrouped_partition_states": "asked", "partition_errors": "answered", "live_brokers": "broker",
}  # fmt: skip
# where one begins, registers that differ by partition become null
_RESET: Final = frozenset({"topic", "asked", "answered"})
_PARTITIONS: Final = {"request": "asked", "response": "answered"}
_ENDS: Final = {"asked": Kind.END_ASKED, "answered": Kind.END_ANSWERED}
_TIMES: Final = {
    "totalTime": "total_time_us", "requestQueueTime": "request_queue_time_us", "localTime": "local_time_us",
    "remoteTime": "remote_time_us",
}  # fmt: skip
_UNREAD_TIMES: Final = ("throttleTime", "responseQueueTime", "sendTime")
_ABORTED: Final = "producer_id first_offset"
_HIGHEST_VERSION: Final = 99_999
_LONGEST: Final = 10**18  # smaller integers have too few digits to overflow
_AS_LARGE_AS: Final = {"answered_session_id": "session_id", "base_offset": "log_start_offset"}  # registers of no column


@dataclass(frozen=True)
class Program:
    """A program. apis: names by number, first those whose requests become rows, in the order of their tables.

    tables: the number of these. start: the text of all lines after the level. roots: first fields of versions.
    fields: a row each, see machine.Column; the first is `start`. literals: words of eight bytes, and masks of their bits.
    """

    apis: tuple[str, ...]
    tables: int
    start: bytes
    roots: Array
    fields: Array
    literals: Array


@dataclass(frozen=True)
class _Row:
    literal: str
    kind: Kind = Kind.NOTHING
    register: str = "unread"
    bounds: tuple[int, int] = (-_LONGEST, _LONGEST)
    child: int = -1
    resets: tuple[int, int] = (0, 0)


_Step = tuple[Sequence[Sequence[_Row]], bool]  # alternatives, each a sequence of rows; whether all may be absent


def _step(literal: str, kind: Kind = Kind.NOTHING, register: str = "unread", **more: Any) -> _Step:
    return [[_Row(literal, kind, register, **more)]], False


def _integer(literal: str, register: str) -> _Row:
    """An integer that fits the column of its register."""
    if register == "unread":
        return _Row(literal, Kind.INTEGER)
    column = SCAN.field(_AS_LARGE_AS.get(register, register))
    highest = 2 ** (column.type.bit_width - 1) - 1 if pa.types.is_integer(column.type) else _LONGEST
    return _Row(literal, Kind.INTEGER, register, (-highest - 1, highest))


@dataclass
class _Tables:
    """Builds a program."""

    start: bytes
    fields: list[list[int]] = default_of(default_factory=list)
    words: list[int] = default_of(default_factory=list)
    masks: list[int] = default_of(default_factory=list)
    roots: list[int] = default_of(default_factory=list)

    def __post_init__(self) -> None:
        self.run([_step(self.start.decode())])

    def run(self, steps: Sequence[_Step]) -> int:
        """Append the fields of steps; returns the index of the first."""
        first = len(self.fields)
        at = first
        for alternatives, optional in steps:
            after = at + sum(map(len, alternatives))
            for number, rows in enumerate(alternatives):
                last = number == len(alternatives) - 1
                instead = (after if optional else -1) if last else at + len(rows)
                for row in rows:
                    at += 1
                    self._put(row, after if row is rows[-1] else at, instead)
                    instead = -1
        return first

    def _put(self, row: _Row, after: int, instead: int) -> None:
        text = row.literal.encode()
        self.fields.append(
            [len(self.words), len(text), row.kind, after, instead, REGISTER[row.register], *row.bounds, row.child, *row.resets]
        )  # fmt: skip
        for start in range(0, len(text), 8):
            word = text[start : start + 8]
            self.words.append(int.from_bytes(word, "little"))
            self.masks.append((1 << 8 * len(word)) - 1)

    def version(self, literal: str, roots: Sequence[int]) -> _Step:
        """A version; the line continues at the version's root."""
        first = len(self.roots)
        self.roots += roots
        return _step(literal, Kind.VERSION, bounds=(0, len(roots) - 1), child=first)

    def begin_with(self, first: int) -> None:
        """Lines continue at this field after `start`."""
        self.fields[0][Column.NEXT] = first

    def program(self, apis: Sequence[str], tables: int) -> Program:
        """The finished program."""
        literals = np.array([self.words, self.masks], np.uint64)
        return Program(tuple(apis), tables, self.start, np.array(self.roots), np.array(self.fields), literals)


class _Structs:
    """Appends structs to tables.

    version: of the text; None for JSON, where fields that not all versions print may be absent. tagged: structs end with
    their tagged fields. end: of the registers that the API's rows fill. names: the request lists topics by name only, and
    the response may list topics without partitions.
    """

    def __init__(
        self,
        tables: _Tables,
        version: int | None = None,
        tagged: bool = False,
        end: int = FETCH_END,
        names: bool = False,
    ) -> None:
        self._tables, self._version, self._tagged, self._end, self._names = tables, version, tagged, end, names

    def of(self, side: str, fields: Iterable[Field]) -> int:
        """The first field of the `request` or the `response`."""
        return self._object(side, side, fields)

    def _object(self, side: str, struct: str, fields: Iterable[Field]) -> int:
        steps: list[_Step] = [
            (self._alternatives(side, struct, field), self._version is None and field.versions != (0, NEVER))
            for field in self._printed(fields)
        ]
        if self._tagged:
            tags = ("{}", "{0=null}") if struct == "request" else ("{}",)  # no cluster id
            steps.append(([[_Row(f",_tagged_fields={printed}")] for printed in tags], False))
        end = _ENDS.get(struct, Kind.END)
        if self._names and (side, struct) == ("response", "topic"):
            end = Kind.END_TOPIC
        return self._tables.run([*steps, _step("}", end)])

    def _printed(self, fields: Iterable[Field]) -> list[Field]:
        if self._version is None:
            return list(fields)
        return [field for field in fields if field.printed(self._version) and field.kind != "^"]

    def _alternatives(self, side: str, struct: str, field: Field) -> list[list[_Row]]:
        rows = [[self._row(side, struct, field, name)] for name in field.names]
        if field.kind == "(" and self._version is not None:  # later releases print its fields without the struct
            rows.append([self._row(side, struct, inner, inner.names[0]) for inner in self._printed(field.fields)])
        return rows

    def _row(self, side: str, struct: str, field: Field, name: str) -> _Row:
        json = self._version is None
        literal = f',"{camel(name)}":' if json else f",{name}="
        register = _READ.get(struct, {}).get(field.names[0], "unread")
        match field.kind:
            case "":
                return _integer(literal, register)
            case "$" if json:
                return _Row(literal, Kind.QUOTED, register)
            case "$":
                return _Row(literal, Kind.PLAIN, register, (Characters.ADDRESS, 0))
            case "!":
                return _Row(literal, Kind.BOOLEAN, register)
            case "#" if struct == "topic":
                return _Row(literal, Kind.FORGOTTEN, "partition")
            case "#":
                return _Row(literal, Kind.INTEGERS, register)
            case "*":
                return _Row(literal, Kind.RECORDS, register)
            case "%":
                return _Row(literal, Kind.LIST_OR_NULL, child=self._object(side, "", parsed(_ABORTED)))
            case "(":
                inner = struct if field.names[0] == "partition_header" else field.names[0]
                return _Row(literal, Kind.OBJECT, child=self._inner(side, inner, field.fields))
            case _:
                inner = _PARTITIONS[side] if struct == "topic" else _STRUCTS.get(field.names[0], "")
                child = self._object(side, inner, field.fields)
                kind = Kind.LIST_OR_NULL if field.nullable else Kind.LIST
                if self._names and side == "request":
                    kind = Kind.NAMES
                first = PARTITION if struct == "topic" else TOPIC
                return _Row(
                    literal, kind, register, child=child, resets=(first, self._end) if inner in _RESET else (0, 0)
                )

    def _inner(self, side: str, struct: str, fields: Iterable[Field]) -> int:
        """An object whose fields belong to the surrounding struct, or one of a few integers."""
        steps: list[_Step] = [(self._alternatives(side, struct, field), False) for field in self._printed(fields)]
        return self._tables.run([*steps, _step("}", Kind.END)])


def camel(name: str) -> str:
    """Kafka's name of a field in JSON."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


_NAME, _ADDRESS, _PLAIN_WORD = (Characters.NAME, 0), (Characters.ADDRESS, 0), (Characters.WORD, 1)
_CLIENT: Final[Sequence[_Step]] = (
    _step(", clientId=", Kind.PLAIN_OR_NULL, "client_id", bounds=_ADDRESS),
    ([[_integer(", correlationId=", "correlation_id")]], False),
)
_CONNECTION: Final = _step(" from connection ", Kind.PLAIN, "connection", bounds=_ADDRESS)
_ENDING: Final[Sequence[_Step]] = (
    *(
        _step(f"{sign}{name}:", Kind.MILLISECONDS, register)
        for sign, (name, register) in zip(";,,,", _TIMES.items(), strict=True)
    ),
    *(_step(f",{name}:", Kind.DECIMAL) for name in _UNREAD_TIMES),
    _step(",securityProtocol:", Kind.PLAIN, bounds=_PLAIN_WORD),
    _step(",principal:", Kind.PLAIN, bounds=_ADDRESS),
    _step(",listener:", Kind.PLAIN, bounds=_PLAIN_WORD),
    (
        [[
            _Row(",clientInformation:ClientInformation(softwareName=", Kind.PLAIN, "software_name", _NAME),
            _Row(", softwareVersion=", Kind.PLAIN, "software_version", _NAME),
            _Row(")"),
        ]],
        True,
    ),
    ([[_Row(",temporaryMemoryBytes:", Kind.INTEGER, bounds=(0, _LONGEST))]], True),
    ([[_Row(",messageConversionsTime:", Kind.DECIMAL)]], True),
    _step(" (kafka.request.logger)", Kind.LINE_END),
)  # fmt: skip


@cache
def json_program() -> Program:
    """The program of the request log in JSON."""
    tables = _Tables(b'Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":')
    fetches = _rows_of_json(tables, APIS[FETCH], JSON_REQUEST, JSON_RESPONSE, FETCH_END)
    answers = _rows_of_json(tables, produce.API, JSON_PRODUCE_REQUEST, JSON_PRODUCE_RESPONSE, UNREAD)
    apis = ((1, FETCH, Treatment.ROWS, fetches, FETCH_END), (0, produce.API.name, Treatment.ANSWERS, answers, UNREAD))
    keys = [
        [_Row(f"{key},", Kind.API, bounds=(number, treatment), child=root, resets=(number, end))]
        for number, (key, _, treatment, root, end) in enumerate(apis)
    ]
    tables.begin_with(tables.run([(keys, False)]))
    return tables.program([name for _, name, *_ in apis], len(apis))


def _rows_of_json(tables: _Tables, api: Api, request: str, response: str, end: int) -> int:
    """The root of an API whose requests become rows. end: of the registers that they fill."""
    structs = _Structs(tables, end=end)
    asked = structs.of("request", parsed(request))
    answered = structs.of("response", parsed(response))
    root = tables.run([
        ([[_integer(',"correlationId":', "correlation_id")]], False),
        _step(',"clientId":', Kind.QUOTED, "client_id"),
        _step(f',"requestApiKeyName":"{api.name}"'),
        ([[_Row(f',"requestApiVersionDeprecated":{deprecated}')] for deprecated in ("false", "true")], True),
        _step('},"request":', Kind.OBJECT, child=asked),
        _step(',"response":', Kind.OBJECT, child=answered),
        _step(',"connection":', Kind.QUOTED, "connection"),
        *(_step(f',"{name}Ms":', Kind.MILLISECONDS, register) for name, register in _TIMES.items()),
        *(_step(f',"{name}Ms":', Kind.DECIMAL) for name in _UNREAD_TIMES),
        *(_step(f',"{name}":', Kind.QUOTED) for name in ("securityProtocol", "principal", "listener")),
        _step(',"clientInformation":{"softwareName":', Kind.QUOTED, "software_name"),
        _step(',"softwareVersion":', Kind.QUOTED, "software_version"),
        _step("}"),
        *(([[_Row(f',"{name}":', Kind.DECIMAL)]], True) for name in ("temporaryMemoryBytes", "messageConversionsTime")),
        _step("} (kafka.request.logger)", Kind.LINE_END),
    ])  # fmt: skip
    return tables.run([tables.version('"requestApiVersion":', [root] * (api.highest_version + 1))])


@cache
def text_program() -> Program:
    """The program of the request log as text."""
    tables = _Tables(b"Completed request:RequestHeader(apiKey=")
    known = {}
    for api in AS_ROWS:
        roots = [_rows_as_text(tables, api, version) for version in range(_flexible(api) + 1)]
        known[api] = Treatment.ROWS, tables.run([tables.version("apiVersion=", roots)])
    for api in (api for api in TEXTS if api not in AS_ROWS):
        version = _step("apiVersion=", Kind.INTEGER, bounds=(0, known_api(api).highest_version))
        known[api] = Treatment.NOTE, tables.run([version, _step(", clientId=", Kind.TO_LINE_END, "header_end")])
    any_version = _step("apiVersion=", Kind.INTEGER, bounds=(0, _HIGHEST_VERSION))
    unread = tables.run([any_version, *_CLIENT, _step(") -- {", Kind.TO_CONNECTION), _CONNECTION, *_ENDING])
    known |= dict.fromkeys(UNREAD_APIS, (Treatment.COUNT, unread))
    names = [
        [_Row(f"{api}, ", Kind.API, bounds=(number, treatment), child=root, resets=_table(api))]
        for number, (api, (treatment, root)) in enumerate(known.items())
    ]
    tables.begin_with(tables.run([(names, False)]))
    return tables.program(list(known), len(AS_ROWS))


def _flexible(api: str) -> int:
    """The last version that a release prints as text; later ones are printed as JSON."""
    return min(TEXTS[api].flexible, APIS[api].highest_version)


def _table(api: str) -> tuple[int, int]:
    """(table of the API's rows, end of the registers that they fill)."""
    return (AS_ROWS.index(api) if api in AS_ROWS else 0, FETCH_END if api == FETCH else UNREAD)


def _rows_as_text(tables: _Tables, api: str, version: int) -> int:
    """The root of a version of an API whose requests become rows."""
    text = TEXTS[api]
    structs = _Structs(tables, version, version >= text.flexible, _table(api)[1], names=api == "METADATA")
    request = structs.of("request", parsed(text.requests[0]))
    response = structs.of("response", parsed(text.response))
    return tables.run([
        *_CLIENT,
        _step(") -- ", Kind.OBJECT, child=request),
        _step(",response:", Kind.OBJECT, child=response),
        _CONNECTION,
        *_ENDING,
    ])  # fmt: skip
