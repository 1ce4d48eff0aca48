"""server.log and controller.log: messages of a node about its process, partitions, logs and, as a controller, other nodes.

Both files have one format, and loggers moved between them, so one decoder reads both. The logger at the end of a line
selects its patterns; text that a message quotes, such as client ids or topic names, can't. `messages` has the patterns.

A message may have further lines without a date: stack traces, and the `key = value` lines after `KafkaConfig values:`.
Of the latter the settings in `SETTINGS` are events, with the time of the dated line.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.lines.log4j import IDENTITY, Log4jLines, fault, first_logger, looks_cut, message_start
from epochaudit.sources.server_log.messages import BEGINNINGS, BY_CLASS, UNLESS, MessagesOf
from epochaudit.sources.server_log.messages.parts import COLUMNS
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink

SETTING_COLUMNS: Final = (*IDENTITY, "name", "value")

SETTINGS: Final = frozenset(
    {
        b"advertised.listeners",
        b"auto.leader.rebalance.enable",
        b"broker.heartbeat.interval.ms",
        b"broker.id",
        b"broker.rack",
        b"broker.session.timeout.ms",
        b"controlled.shutdown.enable",
        b"controller.quorum.bootstrap.servers",
        b"controller.quorum.voters",
        b"inter.broker.protocol.version",
        b"listeners",
        b"log.dir",
        b"log.dirs",
        b"log.message.format.version",
        b"metadata.log.dir",
        b"min.insync.replicas",
        b"node.id",
        b"process.roles",
        b"producer.id.expiration.ms",
        b"replica.fetch.wait.max.ms",
        b"replica.lag.time.max.ms",
        b"replica.selector.class",
        b"transactional.id.expiration.ms",
        b"unclean.leader.election.enable",
        b"zookeeper.connect",
        b"zookeeper.metadata.migration.enable",
    }
)
"""The settings that are read from config dumps and properties files."""

_CONFIG_DUMP: Final = b"KafkaConfig values:"
_CLOSING: Final = b" ("  # a dump's last line is its logger
_UNPRINTED: Final = b"null"
_NOWHERE: Final = b"\n"  # occurs in no line

_CACHED_LOGGERS: Final = 1_000
_ALSO_LOGGED_BY_CLIENTS: Final = b"AppInfoParser"
# Classes of the server: the Python client's loggers also begin with kafka. The second alternative is for layouts that drop
# or abbreviate the package.
_SERVER_CLASS: Final = re.compile(
    rb" \((?:(?:kafka\.(?:cluster|controller|coordinator|log|migration|network|raft|server|utils|zk|zookeeper)"
    rb"|org\.apache\.kafka\.(?:controller|coordinator|image|metadata|raft|server|storage))\.[\w.]*[A-Z][\w$]*"
    rb"|(?:\w\.)*(?:" + b"|".join(re.escape(name) for name in BY_CLASS if name != _ALSO_LOGGED_BY_CLIENTS) + rb"))\)"
)
_OTHER_LOGS: Final = (b"kafka.request.logger", b"kafka.authorizer.logger")


def recognise(head: bytes) -> bool:
    """Dated lines, the first not from another log's logger, some from classes of the server."""
    first = first_logger(head)
    if first is None or first in _OTHER_LOGS or first == b"state.change.logger":
        return False
    return _SERVER_CLASS.search(head) is not None


def _begin(text: bytes, start: int) -> int:
    """The index of the message after its `[...] ` prefix."""
    return text.find(b"] ", start) + 2 if text[start : start + 1] == b"[" else start


class ServerLog(Log4jLines):
    """One row per line that is an event; clock: line order within the file, time to the millisecond as printed.

    A byte range that begins within a config dump gives its settings without a time.
    """

    kind: ClassVar[str] = "server-log"
    splittable: ClassVar[bool] = True

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(COLUMNS, file, sink)
        self._settings = sink.rows(SETTING_COLUMNS)
        self._in_config_dump = True
        self._dump_time_ms: int | None = None
        self._messages_by_logger: dict[bytes, MessagesOf | None] = {}

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        if text[24:26] != b"] " or text[:1] != b"[":
            return self._undated(text, byte_offset, line_in_split)
        self._in_config_dump = False
        if text[-1:] != b")":
            return self._unclosed(text, byte_offset, line_in_split)
        logger = text[text.rfind(b"(") + 1 : -1]
        messages = self._messages_by_logger[logger] if logger in self._messages_by_logger else self._messages_of(logger)
        return LineOutcome.IGNORED if messages is None else self._message(messages, text, byte_offset, line_in_split)

    def _messages_of(self, logger: bytes) -> MessagesOf | None:
        """The patterns of a logger's messages; None if none are read."""
        messages = BY_CLASS.get(logger.rpartition(b".")[2])
        if len(self._messages_by_logger) < _CACHED_LOGGERS:
            self._messages_by_logger[logger] = messages
        return messages

    def _message(self, messages: MessagesOf, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        start = message_start(text)
        begin = _begin(text, start)
        for beginning, patterns in messages.by_first_word.get(text[begin : text.find(b" ", begin)], ()):
            if text.startswith(beginning, begin):
                if beginning in UNLESS and UNLESS[beginning] in text:
                    return LineOutcome.IGNORED
                return self._event(patterns, text, start, byte_offset, line)
        if (
            messages.marked is None
            or messages.marked[0] not in text
            or UNLESS.get(messages.marked[0], _NOWHERE) in text
        ):
            return LineOutcome.IGNORED
        return self._event(messages.marked[1], text, start, byte_offset, line)

    def _unclosed(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        """A message of several lines, or a line that was cut off; quarantined only if it begins like an event."""
        start = message_start(text)
        if not start:
            return self._undated(text, byte_offset, line)
        if text.startswith(_CONFIG_DUMP, start):
            self._in_config_dump, self._dump_time_ms = True, self._clock.read(text)
            return LineOutcome.IGNORED
        begin = _begin(text, start)
        if text.startswith(BEGINNINGS.get(text[begin : text.find(b" ", begin)], ()), begin):
            return self._quarantine(text, byte_offset, line, fault(text))
        return LineOutcome.IGNORED

    def _undated(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        if self._in_config_dump and text[:1] == b"\t":
            return self._setting(text, byte_offset, line)
        if text.startswith(_CLOSING):
            self._in_config_dump = False
        return self._quarantine(text, byte_offset, line, fault(text)) if looks_cut(text) else LineOutcome.IGNORED

    def _setting(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        key, separator, value = text[1:].partition(b" = ")
        if not separator or key not in SETTINGS:
            return LineOutcome.IGNORED
        try:
            printed = None if value == _UNPRINTED else value.decode()
        except UnicodeDecodeError:
            return self._quarantine(text, byte_offset, line, fault(text))
        self._settings.append(("CONFIG_VALUE", byte_offset, line, 0, self._dump_time_ms, key.decode(), printed))
        return LineOutcome.EVENT


DECODER: type[LineDecoder] = ServerLog
