"""The patterns of log lines, each with the loggers whose lines it reads and the beginning that leads to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from epochaudit.sources import client_log, state_change_log
from epochaudit.sources.lines.log4j import LOGGER, LogPattern
from epochaudit.sources.server_log.messages import BY_CLASS

STATE_CHANGES: Final = "state.change.logger"
CLIENTS: Final = "org.apache.kafka.clients"
_REPEATED: Final = 50  # more is without an end
_PREFIX: Final = re.compile(r"\A\(?\[[^\]]*\](?:\(,\)\?)?,?(?: \)\?| )")


@dataclass(frozen=True)
class Read:
    """A pattern. logger: the simple name of the class, or one of the two names above. mark: its messages begin with no fixed text."""

    logger: str
    beginning: str
    mark: bool
    pattern: LogPattern

    @property
    def event_type(self) -> str:
        return self.pattern.event_type

    @property
    def message(self) -> bytes:
        """The regular expression, without what it has for the prefix of a client's lines, which may be absent."""
        return self.pattern.pattern.pattern.removeprefix(client_log.CLIENT_PREFIX)

    @property
    def words(self) -> frozenset[str]:
        """Words that each message has, where the pattern does not leave them open."""
        constant = "".join(
            chr(value) if kind is op.LITERAL else "\0"
            for kind, value in _parser.parse(self.message.removesuffix(LOGGER))
        )
        return frozenset(words(_PREFIX.sub("", constant)))

    @property
    def text(self) -> str:
        """The pattern to read, without its prefix in brackets: columns and other values in braces, what may be absent as `( )?`."""
        return _PREFIX.sub("", _shown(_parser.parse(self.message.removesuffix(LOGGER))))


def words(text: str) -> list[str]:
    """Words of three letters and more."""
    return re.findall(r"[A-Za-z]{3,}", text)


def patterns() -> Iterator[Read]:
    """All patterns of lines that Kafka's own classes write."""
    for logger, messages in BY_CLASS.items():
        for beginnings in messages.by_first_word.values():
            for beginning, found in beginnings:
                for pattern in found.listed:
                    yield Read(logger.decode(), beginning.decode(), False, pattern)
        if messages.marked is not None:
            mark, found = messages.marked
            for pattern in found.listed:
                yield Read(logger.decode(), mark.decode(), True, pattern)
    for beginning, found in state_change_log.LINES.items():
        for pattern in found.listed:
            yield Read(STATE_CHANGES, beginning.decode(), False, pattern)
    for table in client_log.LINES:
        for beginning, of_beginning in table.items():
            for pattern in of_beginning:
                if not isinstance(pattern, client_log.OtherClientsPattern):
                    yield Read(CLIENTS, beginning.decode(), False, pattern)


def _shown(items: Any) -> str:
    names = {number: name for name, number in items.state.groupdict.items()}
    return _joined(items, names)


def _joined(items: Any, names: dict[int, str]) -> str:
    return "".join(_item(kind, value, names) for kind, value in items)


def _item(kind: Any, value: Any, names: dict[int, str]) -> str:
    if kind is op.LITERAL:
        return chr(value)
    if kind is op.SUBPATTERN:
        group, _, _, inner = value
        return "{" + names[group] + "}" if group in names else _joined(inner, names)
    if kind is op.GROUPREF:
        return "{" + names[value] + "}"
    if kind is op.BRANCH:
        return "(" + "|".join(_joined(one, names) for one in value[1]) + ")"
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
        least, most, inner = value
        shown = _joined(inner, names)
        if (least, most) == (0, 1) and shown in ("-", "{}"):  # of a value
            return "" if shown == "-" else "{}"
        if most > _REPEATED or shown == "{}":
            return "{}"
        return shown * most if least == most else f"({shown})?"
    if kind is op.IN and len(value) > 1 and all(one is op.LITERAL for one, _ in value):
        return "(" + "|".join(chr(one) for _, one in value) + ")"
    return "{}" if kind in (op.IN, op.ANY, op.NOT_LITERAL) else ""
