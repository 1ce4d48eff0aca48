"""Lines of Kafka's log4j logs: `[time] LEVEL message (logger)`, and the wordings of those lines that are events.

A wording is a regular expression whose group names are columns of the events table: the tables of wordings in
`state_change_log` and `server_log` are the description of what is read. Patterns match the whole message from after the
level to the closing logger, so that a line that is cut never passes; none of them has nested or adjacent repetitions of
the same characters, so that matching time is linear in the line whatever the line holds.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from epochaudit.sources.capture import RecordedFile
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
_ISR_MEMBER_EPOCH: Final = re.compile(rb"brokerEpoch=(-?\d+)")
_CACHED_BROKER: Final = re.compile(rb"(\d+) -> (\d+)")
_CHANGE: Final = {b"1": True, b"-1": False, b"true": True, b"false": False}  # 0: unchanged
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


def _brokers(listed: bytes) -> list[int]:
    """Ids, or pairs `id -> epoch`."""
    return [_int32(broker) for broker, _ in _CACHED_BROKER.findall(listed)] if b">" in listed else _ids(listed)


def _topic_id(printed: bytes) -> str | None:
    """As 22 characters of base64; the Python client prints 36 of a UUID."""
    topic_id = printed.decode()
    if len(topic_id) == len("00000000-0000-0000-0000-000000000000"):
        topic_id = urlsafe_b64encode(UUID(topic_id).bytes)[:22].decode()
    return None if topic_id == _NO_TOPIC_ID else topic_id


def _recovery_state(name: bytes) -> int:
    return {b"RECOVERED": 0, b"RECOVERING": 1}[name]


_INT32_COLUMNS: Final = (
    "partition", "leader", "leader_epoch", "partition_epoch", "current_leader_epoch", "previous_epoch",
    "diverging_epoch", "committed_leader_epoch", "response_leader_epoch", "response_partition_epoch", "controller_id", "controller_epoch",
    "raft_epoch", "correlation_id", "broker_id",
)  # fmt: skip
_INT64_COLUMNS: Final = (
    "start_offset", "high_watermark", "offset", "previous_offset", "diverging_end_offset", "metadata_offset",
    "broker_epoch", "current_broker_epoch",
)  # fmt: skip
_LIST_COLUMNS: Final = ("isr", "replicas", "added_brokers", "deleted_brokers", "bounced_brokers")
_TEXT_COLUMNS: Final = ("topic", "incarnation_id", "client_id", "group_id", "name", "value", "reason")
READ: Final[dict[str, Callable[[bytes], object]]] = {
    **dict.fromkeys(_INT32_COLUMNS, _int32),
    **dict.fromkeys(_INT64_COLUMNS, _int64),
    **dict.fromkeys(_LIST_COLUMNS, _ids),
    **dict.fromkeys(_TEXT_COLUMNS, bytes.decode),
    "topic_id": _topic_id,
    "isr_broker_epochs": lambda members: [_int64(epoch) for epoch in _ISR_MEMBER_EPOCH.findall(members)] or None,
    "leader_recovery_state": _recovery_state,
    "delete_partition": b"true".__eq__,
    "fenced": _CHANGE.get,
    "in_controlled_shutdown": _CHANGE.get,
    "live_brokers": _brokers,
    "live_broker_epochs": lambda pairs: [_int64(epoch) for _, epoch in _CACHED_BROKER.findall(pairs)],
}
"""How the text of a group becomes the value of its column; ValueError where it can't."""


class Wording:
    """One wording of one event: a pattern and what ends the line; `constants` are columns that the wording itself tells."""

    def __init__(self, event_type: str, pattern: bytes, closing: bytes = LOGGER, /, **constants: object) -> None:
        self.event_type = event_type
        self.pattern = re.compile(pattern + closing)
        self.constants = constants

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it gives."""
        return (*self.pattern.groupindex, *self.constants)


_Field = tuple[int, int, Callable[[bytes], object]]  # place in the row, group of the pattern, how its text is read


class Wordings:
    """The wordings that begin alike, tried in order, as rows of a decoder's columns."""

    def __init__(self, columns: tuple[str, ...], wordings: Iterable[Wording]) -> None:
        listed = tuple(wordings)
        self.event_types = frozenset(wording.event_type for wording in listed)
        self._wordings = tuple(self._compiled(columns, wording) for wording in listed)

    @staticmethod
    def _compiled(columns: tuple[str, ...], wording: Wording) -> tuple[re.Pattern[bytes], list[object], list[_Field]]:
        """The wording as its pattern, a row without what a line tells, and what of the pattern goes where."""
        if strangers := set(wording.columns) - set(columns):
            raise ValueError(f"wordings give columns that the decoder does not declare: {sorted(strangers)}")
        row: list[object] = [wording.constants.get(column) for column in columns]
        row[columns.index("event_type")] = wording.event_type
        groups = wording.pattern.groupindex.items()
        return wording.pattern, row, [(columns.index(name), group - 1, READ[name]) for name, group in groups]

    def row(
        self, text: bytes, start: int, byte_offset: int, line: int, time_ms: int | None
    ) -> tuple[object, ...] | None:
        """The row of the first wording that the message text[start:] has, None if it has none of them.

        ValueError if a number is too large for its column.
        """
        for pattern, template, fields in self._wordings:
            match = pattern.fullmatch(text, start)
            if match is not None:
                row = template.copy()
                row[1 : len(IDENTITY)] = byte_offset, line, 0, time_ms
                texts = match.groups()
                for place, group, read in fields:
                    text = texts[group]
                    if text is not None:
                        row[place] = read(text)
                return tuple(row)
        return None


class Log4jLines:
    """What the decoders of log4j logs share: a line becomes a row by its wordings, or is put aside with the reason."""

    def __init__(self, columns: tuple[str, ...], file: RecordedFile, sink: RowSink) -> None:  # noqa: ARG002  as all decoders
        self._sink = sink
        self._rows = sink.rows(columns)
        self._clock = sink.clock

    def _event(self, wordings: Wordings, text: bytes, start: int, byte_offset: int, line: int) -> LineOutcome:
        try:
            row = wordings.row(text, start, byte_offset, line, self._clock.read(text))
        except ValueError:
            return self._quarantine(text, byte_offset, line, "holds a number that is out of its range")
        if row is None:
            return self._quarantine(text, byte_offset, line, fault(text))
        self._rows.append(row)
        return LineOutcome.EVENT

    def _quarantine(self, text: bytes, byte_offset: int, line: int, reason: str) -> LineOutcome:
        self._sink.quarantine(byte_offset, line, reason, text)
        return LineOutcome.QUARANTINED
