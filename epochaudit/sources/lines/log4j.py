"""Lines of Kafka's log4j logs, `[time] LEVEL message (logger)`, and the patterns of messages that are events.

A LogPattern is a regular expression whose group names are columns of the events table; the tables of patterns in
`state_change_log`, `client_log` and `server_log.messages` define what is read. A pattern matches the whole message from
after the level to the closing logger, so a line that was cut off never matches. No pattern has nested or adjacent
repetitions of the same characters, so matching takes time linear in the line's length.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from epochaudit.kafka.field_values import NO_TOPIC_ID
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.sink import LineOutcome, RowSink

IDENTITY: Final = ("event_type", "byte_offset", "line_in_split", "partition_row", "time_ms")

LOGGER: Final = rb" \([\w.$]+\)"
TOPIC_PARTITION: Final = rb"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
"""Parsed from the right: a topic's name may hold dashes and dots, `orders.eu-1-0` is partition 0 of `orders.eu-1`."""
NUMBERS: Final = rb"[-\d, ]*"

PARTITIONS: Final = "partitions"
"""Name of the group of a pattern that lists partitions, `a-0,b-1`; each gives a row."""

_PARTITION: Final = re.compile(rb"([\w.-]+)-(\d+)")
_MESSAGE: Final = len(b"[2026-01-01 00:00:00,000] ")
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_NUMBER: Final = re.compile(rb"-?\d+")
_ISR_MEMBER: Final = re.compile(rb"brokerId=(\d+)")
_ISR_MEMBER_EPOCH: Final = re.compile(rb"brokerEpoch=(-?\d+)")
_CACHED_BROKER: Final = re.compile(rb"(\d+) -> (\d+)")
_CHANGE: Final = {b"1": True, b"-1": False, b"true": True, b"false": False}  # 0: unchanged
_DATED_LINE: Final = re.compile(rb"^\[\d{4}-\d\d-\d\d [\d:,]+\] [A-Z]+ .*\(([\w.$]+)\)$", re.MULTILINE)
_DATE_BEGINS: Final = re.compile(rb"\[\d{1,4}(?:-|$)")


def message_start(text: bytes) -> int:
    """The index of the message in a dated line of the stock layout; 0 in any other line. The level may be padded."""
    if text[:1] != b"[" or text[_MESSAGE - 2 : _MESSAGE] != b"] ":
        return 0
    start = text.find(b" ", _MESSAGE) + 1
    return start + 1 if start and text[start : start + 1] == b" " else start


def looks_cut(text: bytes) -> bool:
    """The line ends within its date or level, or begins with the zeros of a torn write."""
    return text[:1] == b"\0" or (_DATE_BEGINS.match(text) is not None and message_start(text) == 0)


def first_logger(head: bytes) -> bytes | None:
    """The logger of the first whole dated line, None if there is no such line."""
    line = _DATED_LINE.search(head)
    return line[1] if line else None


UNCLOSED: Final = "cut off: does not end with its logger"
"""The quarantine reason of a line without a logger, of a log whose lines end with one."""


def fault(text: bytes) -> str:
    """The quarantine reason of a line that should be an event but does not match."""
    if b"\0" in text:
        return "holds NUL bytes"
    try:
        text.decode()
    except UnicodeDecodeError:
        return "holds bytes that are not UTF-8"
    return "wording is not known" if text.endswith(b")") else UNCLOSED


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
    """Broker ids, of ids or of pairs `id -> epoch`."""
    return [_int32(broker) for broker, _ in _CACHED_BROKER.findall(listed)] if b">" in listed else _ids(listed)


def _topic_id(printed: bytes) -> str | None:
    """A topic id as 22 characters of URL-safe base64; the Python client prints a UUID of 36."""
    topic_id = printed.decode()
    if len(topic_id) == len("00000000-0000-0000-0000-000000000000"):
        topic_id = urlsafe_b64encode(UUID(topic_id).bytes)[:22].decode()
    return None if topic_id == NO_TOPIC_ID else topic_id


def _listed(partitions: bytes) -> list[tuple[str, int]]:
    """`a-0,b-1` as (topic, partition). Raises ValueError for other text."""
    found = [_PARTITION.fullmatch(printed) for printed in partitions.split(b",")] if partitions else []
    if None in found:
        raise ValueError("no partition")
    return [(match[1].decode(), _int32(match[2])) for match in found if match is not None]


def _recovery_state(name: bytes) -> int:
    return {b"RECOVERED": 0, b"RECOVERING": 1}[name]


_INT32_COLUMNS: Final = (
    "partition", "leader", "leader_epoch", "partition_epoch", "current_leader_epoch", "previous_epoch",
    "diverging_epoch", "committed_leader_epoch", "response_leader_epoch", "response_partition_epoch", "controller_id", "controller_epoch",
    "current_controller_epoch", "raft_epoch", "correlation_id", "broker_id", "replica_id", "response_producer_epoch",
    "producer_epoch", "coordinator_epoch", "last_epoch",
)  # fmt: skip
_INT64_COLUMNS: Final = (
    "start_offset", "high_watermark", "offset", "previous_offset", "diverging_end_offset", "metadata_offset",
    "broker_epoch", "current_broker_epoch", "response_producer_id", "producer_id",
)  # fmt: skip
_LIST_COLUMNS: Final = ("isr", "replicas", "added_brokers", "deleted_brokers", "bounced_brokers")
_TEXT_COLUMNS: Final = (
    "topic",
    "incarnation_id",
    "client_id",
    "group_id",
    "cluster_id",
    "transactional_id",
    "name",
    "value",
    "reason",
)
READ: Final[dict[str, Callable[[bytes], object]]] = {
    **dict.fromkeys(_INT32_COLUMNS, _int32),
    **dict.fromkeys(_INT64_COLUMNS, _int64),
    **dict.fromkeys(_LIST_COLUMNS, _ids),
    **dict.fromkeys(_TEXT_COLUMNS, bytes.decode),
    "topic_id": _topic_id,
    "isr_broker_epochs": lambda members: [_int64(epoch) for epoch in _ISR_MEMBER_EPOCH.findall(members)] or None,
    "leader_recovery_state": _recovery_state,
    "delete_partition": b"true".__eq__,
    "pre_vote": b"true".__eq__,
    "vote_granted": b"granted".__eq__,
    "fenced": _CHANGE.get,
    "in_controlled_shutdown": _CHANGE.get,
    "live_brokers": _brokers,
    "live_broker_epochs": lambda pairs: [_int64(epoch) for _, epoch in _CACHED_BROKER.findall(pairs)],
}
"""Column -> function that converts the text of its group. Raises ValueError for unfit text."""


class LogPattern:
    """A message of an event type. closing: pattern of the line's end. constants: columns with fixed values."""

    def __init__(self, event_type: str, pattern: bytes, closing: bytes = LOGGER, /, **constants: object) -> None:
        self.event_type = event_type
        self.pattern = re.compile(pattern + closing)
        self.constants = constants

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the pattern fills."""
        groups = [name for name in self.pattern.groupindex if name != PARTITIONS]
        return (*groups, *self.constants, *(("topic", "partition") if self.lists_partitions else ()))

    @property
    def lists_partitions(self) -> bool:
        """Its lines list partitions: each gives a row."""
        return PARTITIONS in self.pattern.groupindex


_Field = tuple[int, int, Callable[[bytes], object]]  # place in the row, group of the pattern, how its text is read


class LogPatterns:
    """Patterns of messages with the same beginning, tried in order; makes rows of a decoder's columns."""

    def __init__(self, columns: tuple[str, ...], patterns: Iterable[LogPattern]) -> None:
        self.listed = listed = tuple(patterns)
        self.event_types = frozenset(log_pattern.event_type for log_pattern in listed)
        self.lists_partitions = any(log_pattern.lists_partitions for log_pattern in listed)
        self._place = tuple(
            columns.index(name) if name in columns else 0 for name in ("partition_row", "topic", "partition")
        )
        self._compiled_patterns = tuple(self._compiled(columns, log_pattern) for log_pattern in listed)

    @staticmethod
    def _compiled(
        columns: tuple[str, ...], log_pattern: LogPattern
    ) -> tuple[re.Pattern[bytes], list[object], list[_Field]]:
        """(regular expression, row with the constants, fields that a match fills)."""
        if undeclared := set(log_pattern.columns) - set(columns):
            raise ValueError(f"wordings give columns that the decoder does not declare: {sorted(undeclared)}")
        row: list[object] = [log_pattern.constants.get(column) for column in columns]
        row[columns.index("event_type")] = log_pattern.event_type
        groups = log_pattern.pattern.groupindex.items()
        fields = [
            (
                columns.index("topic" if name == PARTITIONS else name),
                group - 1,
                _listed if name == PARTITIONS else READ[name],
            )
            for name, group in groups
        ]
        return log_pattern.pattern, row, fields

    def row(
        self, text: bytes, start: int, byte_offset: int, line: int, time_ms: int | None
    ) -> tuple[object, ...] | None:
        """The row of the first pattern that matches the message text[start:]; None if none does.

        Raises ValueError if a number is out of its column's range.
        """
        for pattern, template, fields in self._compiled_patterns:
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

    def of_each_partition(self, row: tuple[object, ...]) -> list[tuple[object, ...]]:
        """The rows of a line that lists partitions, one each; of another line its row."""
        number_at, topic_at, partition_at = self._place
        listed = row[topic_at]
        if not isinstance(listed, list):
            return [row]
        rows = []
        for number, (topic, partition) in enumerate(listed):
            partition_row = list(row)
            partition_row[number_at], partition_row[topic_at], partition_row[partition_at] = number, topic, partition
            rows.append(tuple(partition_row))
        return rows


class Log4jLines:
    """Base of the decoders of log4j logs: a line becomes rows by its patterns, or is quarantined."""

    def __init__(self, columns: tuple[str, ...], file: CaptureFile, sink: RowSink) -> None:  # noqa: ARG002  as all decoders
        self._sink = sink
        self._rows = sink.rows(columns)
        self._clock = sink.clock

    def _event(self, patterns: LogPatterns, text: bytes, start: int, byte_offset: int, line: int) -> LineOutcome:
        try:
            row = patterns.row(text, start, byte_offset, line, self._clock.read(text))
        except ValueError:
            return self._quarantine(text, byte_offset, line, "holds a number that is out of its range")
        if row is None:
            return self._quarantine(text, byte_offset, line, fault(text))
        if not patterns.lists_partitions:
            self._rows.append(row)
            return LineOutcome.EVENT
        rows = patterns.of_each_partition(row)
        self._rows.extend(rows)
        return LineOutcome.EVENT if rows else LineOutcome.IGNORED

    def _quarantine(self, text: bytes, byte_offset: int, line: int, reason: str) -> LineOutcome:
        self._sink.quarantine(byte_offset, line, reason, text)
        return LineOutcome.QUARANTINED
