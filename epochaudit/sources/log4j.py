"""Lines of Kafka's log4j logs: `[time] LEVEL message (logger)`, and the wordings of those lines that are events.

A wording is a regular expression whose group names are columns of the events table: the tables of wordings in
`state_change_log` and `server_log` are the description of what is read. Patterns match the whole message from after the
level to the closing logger, so that a line that is cut never passes; none of them has nested or adjacent repetitions of
the same characters, so that matching time is linear in the line whatever the line holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.log_time import LogClock
from epochaudit.sources.sink import LineOutcome, RowSink

IDENTITY: Final = ("event_type", "byte_offset", "line_in_split", "partition_row", "time_ms")

LOGGER: Final = rb" \([\w.$]+\)"
TOPIC_PARTITION: Final = rb"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
"""Parsed from the right: a topic's name may hold dashes and dots, `orders.eu-1-0` is partition 0 of `orders.eu-1`."""
NUMBERS: Final = rb"[-\d, ]*"

_MESSAGE: Final = len(b"[2026-01-01 00:00:00,000] ")
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_NO_TOPIC_ID: Final = "A" * 22
_NUMBER: Final = re.compile(rb"-?\d+")
_ISR_MEMBER: Final = re.compile(rb"brokerId=(\d+)")
_CACHED_BROKER: Final = re.compile(rb"(\d+) -> (\d+)")
_DATED_LINE: Final = re.compile(rb"^\[\d{4}-\d\d-\d\d [\d:,]+\] [A-Z]+ .*\(([\w.$]+)\)$", re.MULTILINE)
_DATE_BEGINS: Final = re.compile(rb"\[\d{1,4}(?:-|$)")


def message_start(text: bytes) -> int:
    """Where the message begins in a dated line of the stock layout; 0 in any other line."""
    if text[:1] != b"[" or text[_MESSAGE - 2 : _MESSAGE] != b"] ":
        return 0
    return text.find(b" ", _MESSAGE) + 1


def looks_cut(text: bytes) -> bool:
    """The line starts like a dated line but ends within its date or level, or begins with the zeros of a torn write."""
    return text[:1] == b"\0" or (_DATE_BEGINS.match(text) is not None and message_start(text) == 0)


def first_logger(head: bytes) -> bytes | None:
    """The logger of the first whole dated line, None if there is no such line."""
    line = _DATED_LINE.search(head)
    return line[1] if line else None


def fault(text: bytes) -> str:
    """Why a line that should be an event is none: the reason its quarantine row gives."""
    if b"\0" in text:
        return "holds NUL bytes"
    try:
        text.decode()
    except UnicodeDecodeError:
        return "holds bytes that are not UTF-8"
    return "wording is not known" if text.endswith(b")") else "cut off: does not end with its logger"


def _int32(digits: bytes) -> int:
    return _bounded(int(digits), _INT32)


def _int64(digits: bytes) -> int:
    return _bounded(int(digits), _INT64)


def _bounded(number: int, limit: int) -> int:
    if not -limit <= number < limit:
        raise ValueError("number is out of range")
    return number


def _ids(listed: bytes) -> list[int]:
    found = _ISR_MEMBER.findall(listed) if b"brokerId=" in listed else _NUMBER.findall(listed)
    return [_int32(number) for number in found]


def _topic_id(printed: bytes) -> str | None:
    topic_id = printed.decode()
    return None if topic_id == _NO_TOPIC_ID else topic_id


def _recovery_state(name: bytes) -> int:
    return {b"RECOVERED": 0, b"RECOVERING": 1}[name]


READ: Final[dict[str, Callable[[bytes], object]]] = {
    "topic": bytes.decode,
    "topic_id": _topic_id,
    "partition": _int32,
    "leader": _int32,
    "leader_epoch": _int32,
    "partition_epoch": _int32,
    "start_offset": _int64,
    "high_watermark": _int64,
    "isr": _ids,
    "replicas": _ids,
    "leader_recovery_state": _recovery_state,
    "controller_id": _int32,
    "controller_epoch": _int32,
    "correlation_id": _int32,
    "broker_id": _int32,
    "broker_epoch": _int64,
    "current_broker_epoch": _int64,
    "delete_partition": b"true".__eq__,
    "live_brokers": lambda pairs: [_int32(broker) for broker, _ in _CACHED_BROKER.findall(pairs)],
    "live_broker_epochs": lambda pairs: [_int64(epoch) for _, epoch in _CACHED_BROKER.findall(pairs)],
    "value": bytes.decode,
}
"""How the text of a group becomes the value of its column; ValueError where it can't."""


class Wording:
    """One wording of one event; `constants` are columns that the wording itself tells."""

    def __init__(self, event_type: str, pattern: bytes, **constants: str) -> None:
        self.event_type = event_type
        self._pattern = re.compile(pattern + LOGGER)
        self._constants = constants
        self.columns = (*self._pattern.groupindex, *constants)

    def values(self, message: bytes) -> dict[str, object] | None:
        """The columns that the message gives, None if it has another wording. ValueError if a number is too large."""
        match = self._pattern.fullmatch(message)
        if match is None:
            return None
        columns: dict[str, object] = dict(self._constants)
        for column, text in match.groupdict().items():
            if text is not None:
                columns[column] = READ[column](text)
        return columns


class Wordings:
    """The wordings that begin alike, tried in order, as rows of a decoder's columns."""

    def __init__(self, columns: tuple[str, ...], wordings: Iterable[Wording]) -> None:
        self._wordings = tuple(wordings)
        self._columns = columns[len(IDENTITY) :]
        strangers = {column for wording in self._wordings for column in wording.columns} - set(self._columns)
        if strangers:
            raise ValueError(f"wordings give columns that the decoder does not declare: {sorted(strangers)}")

    def row(self, message: bytes, byte_offset: int, line: int, time_ms: int | None) -> tuple[object, ...] | None:
        """The row of the first wording that the message has, None if it has none of them."""
        for wording in self._wordings:
            values = wording.values(message)
            if values is not None:
                return (wording.event_type, byte_offset, line, 0, time_ms, *map(values.get, self._columns))
        return None


class Log4jLines:
    """What the decoders of log4j logs share: a line becomes a row by its wordings, or is put aside with the reason."""

    def __init__(self, columns: tuple[str, ...], file: RecordedFile, sink: RowSink) -> None:
        self._sink = sink
        self._rows = sink.rows(columns)
        self._clock = LogClock(file.time_zone)

    def _event(self, wordings: Wordings, text: bytes, start: int, byte_offset: int, line: int) -> LineOutcome:
        try:
            row = wordings.row(text[start:], byte_offset, line, self._clock.read(text))
        except ValueError:
            return self._quarantine(text, byte_offset, line, "holds a number that is out of its range")
        if row is None:
            return self._quarantine(text, byte_offset, line, fault(text))
        self._rows.append(row)
        return LineOutcome.EVENT

    def _quarantine(self, text: bytes, byte_offset: int, line: int, reason: str) -> LineOutcome:
        self._sink.quarantine(byte_offset, line, reason, text)
        return LineOutcome.QUARANTINED
