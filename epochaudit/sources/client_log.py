"""Logs of clients: consumers' positions and resets, and the leader epochs that clients know.

These clients are read: Java clients of 1.0 to 4.4 with lines `[Consumer clientId=..., groupId=...] message` (lines of static methods have
no such prefix and name no client), librdkafka's `%7|time|FACILITY|client#consumer-1|` lines, and the Python client. Any
layout whose lines begin with their time is read. If lines end with their logger, a line without one was cut off.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.lines.log4j import (
    IDENTITY,
    TOPIC_PARTITION,
    UNCLOSED,
    Log4jLines,
    LogPattern,
    LogPatterns,
    fault,
    looks_cut,
    message_start,
)
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink

COLUMNS: Final = (
    *IDENTITY, "client_id", "group_id", "topic", "topic_id", "partition", "leader", "leader_epoch", "current_leader_epoch",
    "previous_epoch", "previous_offset", "offset", "diverging_epoch", "diverging_end_offset", "committed_leader_epoch",
    "response_leader_epoch", "name", "value", "reason",
)  # fmt: skip

CLIENT_PREFIX: Final = (
    rb"(?:\[\w+ (?:instanceId=[^,\]]*, )?clientId=(?P<client_id>[^,\]]*)"
    rb"(?:, groupId=(?:null\b|(?P<group_id>[^,\]]+))?)?(?:, transactionalId=[^\]]*)?\] )?"
)
_NUMBER: Final = rb"(?:null|(?P<%b>-?\d+))"
_OPTIONAL: Final = rb"Optional(?:\.empty|\[(?P<%b>-?\d+)\])"
_PYTHON_PARTITION: Final = rb"TopicPartition\(topic='(?P<topic>[\w.-]+)', partition=(?P<partition>\d+)\)"
_RD_PARTITION: Final = rb"(?P<topic>[\w.-]+) \[(?P<partition>\d+)\]"
_RD_OFFSET: Final = rb"(?:(?P<%b>\d+)|[A-Z]+)(?: \(leader epoch (?P<%b>-?\d+)\))?"


def _position(offset: bytes, epoch: bytes, *, of_leader: bool = True) -> bytes:
    """SubscriptionState.FetchPosition: offset, epoch of the record before it, and leader."""
    leader, current = (rb"(?P<leader>-?\d+)", rb"(?P<current_leader_epoch>-?\d+)") if of_leader else (rb"-?\d+",) * 2
    return (
        rb"FetchPosition\{offset=(?P<" + offset + rb">\d+), offsetEpoch=" + _OPTIONAL % epoch
        + rb", currentLeader=LeaderAndEpoch\{leader=(?:[^{}]*?\(id: " + leader + rb"\b)?[^{}]*, epoch=(?:Optional\[)?(?:absent|"
        + current + rb")\]?\}\}"
    )  # fmt: skip


class OtherClientsPattern(LogPattern):
    """A message of a client that is not Kafka's own: librdkafka, the Python client."""


def _java(event_type: str, pattern: bytes, **constants: str) -> LogPattern:
    return LogPattern(event_type, CLIENT_PREFIX + pattern, b"", **constants)


def _python(event_type: str, pattern: bytes, **constants: str) -> LogPattern:
    return OtherClientsPattern(event_type, CLIENT_PREFIX + pattern, b"", **constants)


_BEFORE: Final = _position(b"previous_offset", b"previous_epoch")
_AFTER: Final = _position(b"offset", b"committed_leader_epoch")
_TRUNCATED: Final = rb"Truncation detected for partition " + TOPIC_PARTITION + rb" at offset " + _BEFORE
_OUT_OF_RANGE: Final = rb"Fetch position " + _BEFORE + rb" is out of range for partition " + TOPIC_PARTITION + rb", "
_PLAIN_OUT_OF_RANGE: Final = (
    rb"Fetch offset (?P<previous_offset>\d+) is out of range for partition " + TOPIC_PARTITION + rb", "
)

_POSITIONS: Final = {
    b"Truncation detected for partition ": (
        _java(
            "CLIENT_TRUNCATION_DETECTED",
            _TRUNCATED + rb", resetting offset to the first offset known to diverge "
            + _position(b"offset", b"diverging_epoch", of_leader=False),
            reason="diverging_offset",
        ),
        _java("CLIENT_TRUNCATION_DETECTED", _TRUNCATED + rb", resetting offset", reason="reset_policy"),
        _java(
            "CLIENT_TRUNCATION_DETECTED",
            _TRUNCATED + rb" \(the end offset from the broker is OffsetAndMetadata\{offset=(?P<diverging_end_offset>-?\d+),"
            rb" leaderEpoch=" + _NUMBER % b"diverging_epoch" + rb", .*\}\), but no reset policy is set",
            reason="no_reset_policy",
        ),
        _java(  # 2.3 to 2.5
            "CLIENT_TRUNCATION_DETECTED",
            _TRUNCATED + rb" \(the end offset from the broker is EpochEndOffset\{error=\w+, leaderEpoch="
            rb"(?P<diverging_epoch>-?\d+), endOffset=(?P<diverging_end_offset>-?\d+)\}\), but no reset policy is set",
            reason="no_reset_policy",
        ),
        _java("CLIENT_TRUNCATION_DETECTED", _TRUNCATED + rb", but no reset policy is set", reason="no_reset_policy"),
    ),
    b"Fetch position ": (
        _java("CONSUMER_OUT_OF_RANGE", _OUT_OF_RANGE + rb"resetting offset", reason="reset_policy"),
        _java("CONSUMER_OUT_OF_RANGE", _OUT_OF_RANGE + rb"raising error to the application .*", reason="no_reset_policy"),
    ),
    b"Fetch offset ": (
        _java("CONSUMER_OUT_OF_RANGE", _PLAIN_OUT_OF_RANGE + rb"resetting offset", reason="reset_policy"),  # up to 2.5
        _python(  # kafka-python logs it only if it resets the offset
            "CONSUMER_OUT_OF_RANGE",
            rb"Fetch offset (?P<previous_offset>\d+) is out of range for topic-partition " + _PYTHON_PARTITION,
            reason="reset_policy",
        ),
    ),
    b"Resetting offset for partition ": (
        _java(
            "CONSUMER_OFFSET_RESET",
            rb"Resetting offset for partition " + TOPIC_PARTITION + rb" to position " + _AFTER + rb"\.",
        ),
        _java(  # up to 2.6
            "CONSUMER_OFFSET_RESET",
            rb"Resetting offset for partition " + TOPIC_PARTITION + rb" to offset (?P<offset>\d+)\.",
        ),
        _java(  # 1.0
            "CONSUMER_OFFSET_COMMITTED",
            rb"Resetting offset for partition " + TOPIC_PARTITION + rb" to the committed offset (?P<offset>\d+)",
        ),
        _python("CONSUMER_OFFSET_RESET", rb"Resetting offset for partition " + _PYTHON_PARTITION + rb" to offset (?P<offset>\d+)\."),
    ),
    b"Setting offset for partition ": (
        _java(
            "CONSUMER_OFFSET_COMMITTED",
            rb"Setting offset for partition " + TOPIC_PARTITION + rb" to the committed offset " + _AFTER,
        ),
        _java(  # 1.1 to 2.2
            "CONSUMER_OFFSET_COMMITTED",
            rb"Setting offset for partition " + TOPIC_PARTITION + rb" to the committed offset (?P<offset>\d+)",
        ),
    ),
    b"Seeking to ": (
        _java(
            "CONSUMER_SEEKS",
            rb"Seeking to offset (?P<offset>\d+) for partition " + TOPIC_PARTITION
            + rb"(?: with epoch (?P<committed_leader_epoch>-?\d+))?",
        ),
        _java("CONSUMER_SEEKS", rb"Seeking to (?:\w+\{type=)?(?P<name>\w+)(?:[,}].*)? (?:offset )?of partition " + TOPIC_PARTITION),
    ),
}  # fmt: skip

_INCOMING: Final = (
    rb"For " + TOPIC_PARTITION + rb", incoming leader\(LeaderIdAndEpoch\{leaderId=(?P<leader>-?\d+),"
    rb" epoch=(?P<leader_epoch>-?\d+)\}\)"
)
SNAPSHOT: Final = b"Updated cluster metadata updateVersion "
_NO_EPOCH: Final = b"leaderEpoch=Optional.empty"
_EPOCHS: Final = {
    b"Updating last seen epoch ": (
        _java(
            "CLIENT_EPOCH_SEEN",
            rb"Updating last seen epoch for partition " + TOPIC_PARTITION + rb" from " + _NUMBER % b"previous_epoch"
            + rb" to epoch (?P<leader_epoch>-?\d+) from new metadata",
        ),
        _java(
            "CLIENT_EPOCH_SEEN",
            rb"Updating last seen epoch from " + _NUMBER % b"previous_epoch" + rb" to (?P<leader_epoch>-?\d+) for partition "
            + TOPIC_PARTITION,
        ),
    ),
    b"Setting the last seen epoch of partition ": (
        _java(
            "CLIENT_EPOCH_SEEN",
            rb"Setting the last seen epoch of partition " + TOPIC_PARTITION + rb" to (?P<leader_epoch>-?\d+) since the last known"
            rb" epoch was undefined\.",
        ),
    ),
    b"Got metadata for an older epoch ": (
        _java(
            "CLIENT_EPOCH_IGNORED",
            rb"Got metadata for an older epoch (?P<leader_epoch>-?\d+) \(current is (?P<current_leader_epoch>-?\d+)\) for"
            rb" partition " + TOPIC_PARTITION + rb", not updating",
            reason="older_epoch",
        ),
    ),
    b"Not replacing null epoch ": (
        _java(
            "CLIENT_EPOCH_IGNORED",
            rb"Not replacing null epoch with new epoch (?P<leader_epoch>-?\d+) for partition " + TOPIC_PARTITION,
            reason="no_known_epoch",
        ),
    ),
    b"Resetting the last seen epoch of partition ": (
        _java(
            "CLIENT_TOPIC_ID_CHANGED",
            rb"Resetting the last seen epoch of partition " + TOPIC_PARTITION + rb" to (?P<leader_epoch>-?\d+) since the associated"
            rb" topicId changed from (?:null|(?P<value>[\w-]{22})) to (?P<topic_id>[\w-]{22})",
        ),
    ),
    b"For ": (  # from 3.7 (KIP-951): leader hints in Fetch and Produce responses
        _java(
            "CLIENT_HINT_TAKEN",
            rb"For " + TOPIC_PARTITION + rb" updating leader information, updated metadata is PartitionMetadata\(error=\w+,"
            rb" partition=[\w.-]+, leader=Optional\[(?P<leader>-?\d+)\], leaderEpoch=Optional\[(?P<leader_epoch>-?\d+)\], .*\)\.",
        ),
        _java(
            "CLIENT_HINT_IGNORED",
            _INCOMING + rb" is not-newer than the one in the existing metadata LeaderAndEpoch\{leader=[^{}]*,"
            rb" epoch=(?:Optional\[)?(?P<current_leader_epoch>-?\d+)\]?\}, so ignoring\.",
            reason="not_newer",
        ),
        _java(
            "CLIENT_HINT_IGNORED",
            _INCOMING + rb", the corresponding node information for node-id -?\d+ is missing, so ignoring\.",
            reason="unknown_leader",
        ),
        _java(
            "CLIENT_HINT_IGNORED",
            _INCOMING + rb", partition metadata is no longer cached, ignoring\.",
            reason="unknown_partition",
        ),
    ),
    SNAPSHOT: (  # lists all partitions of the client; each is read as a message of its own
        _java(
            "CLIENT_EPOCH_FORGOTTEN",
            rb"error=\w+, partition=" + TOPIC_PARTITION + rb", leader=[^,]*, " + re.escape(_NO_EPOCH) + rb", .*",
        ),
    ),
    b"Skipping validation of fetch offsets ": (
        _java(
            "CONSUMER_VALIDATION_SKIPPED",
            rb"Skipping validation of fetch offsets for partitions \[(?P<value>[^\[\]]*)\] since the broker does not support .*",
        ),
    ),
    b"Handling OffsetsForLeaderEpoch response ": (
        _java(
            "CONSUMER_EPOCH_END",
            rb"Handling OffsetsForLeaderEpoch response for " + TOPIC_PARTITION + rb"\. Got offset (?P<offset>-?\d+) for epoch"
            rb" (?P<response_leader_epoch>-?\d+)\.?",
        ),
    ),
    b"Attempt to fetch offsets for partition ": (
        _java(
            "CONSUMER_LOOKUP_FAILED",
            rb"Attempt to fetch offsets for partition " + TOPIC_PARTITION + rb" failed due to (?P<value>\w+)(?:, retrying\.|\b.*)",
        ),
    ),
}  # fmt: skip

_PYTHON: Final = {
    b"Truncation detected for TopicPartition(topic=": (
        _python(
            "CLIENT_TRUNCATION_DETECTED",
            rb"Truncation detected for " + _PYTHON_PARTITION + rb" at position (?P<previous_offset>\d+); seeking to first diverging"
            rb" offset OffsetAndMetadata\(offset=(?P<offset>\d+), .*leader_epoch=(?P<diverging_epoch>-?\d+)\)",
            reason="diverging_offset",
        ),
    ),
    b"Topic ": (
        _python(
            "CLIENT_TOPIC_ID_CHANGED",
            rb"Topic (?P<topic>[\w.-]+) topic_id changed from (?P<value>[\w-]+) to (?P<topic_id>[0-9a-f-]{36}) -- .*",
        ),
    ),
}  # fmt: skip

_REQUIRED_MARKS: Final = {  # marks of messages whose first words other messages have, too
    b"Topic ": (b" topic_id changed from ",),
    b"For ": (b" updating leader information, ", b", incoming leader("),
    SNAPSHOT: (_NO_EPOCH,),
}


def _librdkafka(event_type: str, pattern: bytes, **constants: str) -> LogPattern:
    prefix = rb"%\d\|[\d.]+\|[A-Z]+\|(?P<client_id>[^|]*)#(?:consumer|producer)-\d+\| (?:\[thrd:[^\]]*\]: )?(?:\S+: )?"
    return OtherClientsPattern(event_type, prefix + pattern, b"", **constants)


_RESET: Final = (
    _RD_PARTITION + rb": offset reset \(at offset (?:\d+|[A-Z]+)(?: \(leader epoch -?\d+\))?, broker -?\d+\)"
    rb" to (?:cached [A-Z]+ offset )?offset "
    + _RD_OFFSET % (b"offset", b"committed_leader_epoch") + rb": "
)  # fmt: skip
_FACILITIES: Final = {
    b"OFFSET": (
        b": offset reset (at offset ",
        (
            _librdkafka(
                "CLIENT_TRUNCATION_DETECTED",
                _RESET + rb"Partition log truncation detected at offset (?P<previous_offset>\d+) \(leader epoch"
                rb" (?P<previous_epoch>-?\d+)\): broker end offset is (?P<diverging_end_offset>-?\d+) \(offset leader epoch"
                rb" (?P<diverging_epoch>-?\d+)\).*",
                reason="reset_policy",
            ),
            _librdkafka("CONSUMER_OFFSET_RESET", _RESET + rb"(?P<value>.*)"),
        ),
    ),
    b"OFFSETVALID": (
        b": offset and epoch validation succeeded: ",
        (
            _librdkafka(
                "CONSUMER_EPOCH_END",
                _RD_PARTITION + rb": offset and epoch validation succeeded: broker end offset (?P<offset>-?\d+) \(offset leader"
                rb" epoch (?P<response_leader_epoch>-?\d+)\)",
            ),
        ),
    ),
}  # fmt: skip
_BY_FACILITY: Final = {
    facility: (mark, LogPatterns(COLUMNS, patterns)) for facility, (mark, patterns) in _FACILITIES.items()
}


def _by_first_word(
    *tables: Mapping[bytes, tuple[LogPattern, ...]],
) -> dict[bytes, tuple[tuple[bytes, LogPatterns], ...]]:
    by_word: dict[bytes, list[tuple[bytes, LogPatterns]]] = defaultdict(list)
    for beginning, patterns in (item for table in tables for item in table.items()):
        by_word[beginning.split(b" ", 1)[0]].append((beginning, LogPatterns(COLUMNS, patterns)))
    return {word: tuple(found) for word, found in by_word.items()}


LINES: Final = (_POSITIONS, _EPOCHS, _PYTHON)
"""Patterns by the beginning of the message after its prefix: of positions, of leader epochs, of the Python client."""

_BY_FIRST_WORD: Final = _by_first_word(*LINES)
_CLOSING_LOGGER: Final = re.compile(rb" \([\w.$]+\)\Z")
_PARTITION_ROW: Final = IDENTITY.index("partition_row")
_PREFIX_WITHIN: Final = 200  # bytes of a line in which a client's prefix begins
_UNIX_TIME: Final = re.compile(rb"%\d\|(\d{1,12})\.(\d{3})\|([A-Z]+)\|")
_DATED: Final = rb"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
_LINE: Final = re.compile(
    _DATED + rb"[^\n]*(?:\(org\.apache\.kafka\.clients\.|\[(?:Consumer|Producer|AdminClient) (?:instanceId=[^\n,]*, )?clientId="
    rb"|(?:Consumer|Producer|AdminClient)Config values:)"
    rb"|^%\d\|\d+\.\d+\|[A-Z]+\|[^\n|]*#(?:consumer|producer)-\d+\|"
    rb"|" + _DATED + rb"[^\n]*\(kafka\.(?:net|conn|client|coordinator\.consumer|consumer|producer|cluster)\b",
    re.MULTILINE,
)  # fmt: skip


def recognise_client_log(head: bytes) -> bool:
    """A log of a Java, librdkafka or Python client. Brokers run clients, too, so FORMATS lists their logs before this one."""
    return _LINE.search(head) is not None


def event_types() -> frozenset[str]:
    """All event types of client logs."""
    all_patterns: Iterable[LogPatterns] = (
        *(patterns for table in _BY_FIRST_WORD.values() for _, patterns in table),
        *(patterns for _, patterns in _BY_FACILITY.values()),
    )
    return frozenset().union(*(patterns.event_types for patterns in all_patterns))


class ClientLog(Log4jLines):
    """One row per line that is an event, per partition if it lists several; clock: line order, time in ms as printed."""

    kind: ClassVar[str] = "client-log"
    splittable: ClassVar[bool] = True

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(COLUMNS, file, sink)
        self._prints_logger = False  # whether lines end with their logger

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        if text[:1] == b"%":
            return self._librdkafka(text, byte_offset, line_in_split)
        name = text.find(b" clientId=", 0, _PREFIX_WITHIN)
        start = text.rfind(b"[", 0, name) if name > 0 else message_start(text)
        begin = text.find(b"] ", start) + 2 if name > 0 else start
        for beginning, patterns in _BY_FIRST_WORD.get(text[begin : text.find(b" ", begin)], ()):
            if text.startswith(beginning, begin) and any(
                mark in text for mark in _REQUIRED_MARKS.get(beginning, (b"",))
            ):
                return self._message(patterns, text, start, begin, byte_offset, line_in_split)
        if looks_cut(text):
            return self._quarantine(text, byte_offset, line_in_split, fault(text))
        if self._clock.is_uncertain:
            self._clock.read(text)
        return LineOutcome.IGNORED

    def _message(
        self, patterns: LogPatterns, text: bytes, start: int, begin: int, byte_offset: int, line: int
    ) -> LineOutcome:
        closing = _CLOSING_LOGGER.search(text)
        self._prints_logger = self._prints_logger or closing is not None
        if closing is None and self._prints_logger:
            return self._quarantine(text, byte_offset, line, UNCLOSED)
        end = closing.start() if closing else None
        messages = [text[start:end]]
        if text.startswith(SNAPSHOT, begin):
            partitions = text[begin:end].split(b"PartitionMetadata(")[1:]
            messages = [text[start:begin] + partition for partition in partitions if _NO_EPOCH in partition]
        return self._rows_of(patterns, messages, byte_offset, line, self._clock.read(text))

    def _librdkafka(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        match = _UNIX_TIME.match(text)
        if match is None or match[3] not in _BY_FACILITY:
            return LineOutcome.IGNORED
        mark, patterns = _BY_FACILITY[match[3]]
        if mark not in text:
            return LineOutcome.IGNORED
        return self._rows_of(patterns, [text], byte_offset, line, int(match[1]) * 1000 + int(match[2]))

    def _rows_of(
        self, patterns: LogPatterns, messages: Sequence[bytes], byte_offset: int, line: int, time_ms: int | None
    ) -> LineOutcome:
        rows = []
        for number, message in enumerate(messages):
            try:
                row = patterns.row(message, 0, byte_offset, line, time_ms)
            except ValueError:
                return self._quarantine(message, byte_offset, line, "holds a number that is out of its range")
            if row is None:
                return self._quarantine(message, byte_offset, line, fault(message + b")"))
            rows.append((*row[:_PARTITION_ROW], number, *row[_PARTITION_ROW + 1 :]) if number else row)
        self._rows.extend(rows)
        return LineOutcome.EVENT


DECODER: type[LineDecoder] = ClientLog
