"""The message patterns of server.log and controller.log, a module per topic, for Kafka 1.0 to 4.4.

Patterns are looked up by the logging class, then by the beginning of the message. Classes have their simple names, as
packages changed between releases (kafka.log.UnifiedLog became org.apache.kafka.storage.internals.log.UnifiedLog) and
layouts may abbreviate them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from epochaudit.sources.lines.log4j import LogPatterns
from epochaudit.sources.server_log.messages import (
    coordinators,
    kraft_controller,
    kraft_records,
    logs,
    partitions,
    processes,
    settings,
    zookeeper_controller,
)
from epochaudit.sources.server_log.messages.parts import COLUMNS

_TOPICS: Final = (
    processes, zookeeper_controller, kraft_controller, kraft_records, partitions, logs, settings, coordinators,
)  # fmt: skip

BeginsWith = tuple[bytes, LogPatterns]

UNLESS: Final = {
    b"The request from broker ": b" yet be granted",
    b" below high watermark ": b"] Truncating future ",  # of a replica that moves between directories
    b" successfully completed": b" Deletion successfully completed for replicas ",  # of a topic, at DEBUG
}
"""Beginning or mark -> text of lines with it that are no events."""


@dataclass
class MessagesOf:
    """The patterns of a class: by the first word of the message, and by a mark if messages begin with no fixed word."""

    by_first_word: dict[bytes, tuple[BeginsWith, ...]] = field(default_factory=dict)
    marked: BeginsWith | None = None


def _by_class() -> dict[bytes, MessagesOf]:
    found: dict[bytes, MessagesOf] = defaultdict(MessagesOf)
    for topic in _TOPICS:
        for logging_class, beginnings in topic.PATTERNS.items():
            by_word = found[logging_class].by_first_word
            for beginning, patterns_of_beginning in beginnings.items():
                word = beginning.split(b" ", 1)[0]
                by_word[word] = (*by_word.get(word, ()), (beginning, LogPatterns(COLUMNS, patterns_of_beginning)))
    for marked in (partitions.MARKED, zookeeper_controller.MARKED, logs.MARKED):
        for logging_class, (mark, pattern) in marked.items():
            found[logging_class].marked = (mark, LogPatterns(COLUMNS, (pattern,)))
    return dict(found)


def _beginnings() -> dict[bytes, tuple[bytes, ...]]:
    by_word: dict[bytes, set[bytes]] = defaultdict(set)
    for messages in BY_CLASS.values():
        for word, patterns in messages.by_first_word.items():
            by_word[word].update(beginning for beginning, _ in patterns)
    return {word: tuple(beginnings) for word, beginnings in by_word.items()}


BY_CLASS: Final[Mapping[bytes, MessagesOf]] = _by_class()

BEGINNINGS: Final[Mapping[bytes, tuple[bytes, ...]]] = _beginnings()
"""First word -> beginnings of all classes, for lines whose class was cut off."""

EVENT_TYPES: Final[frozenset[str]] = frozenset().union(
    *(
        patterns_of_beginning.event_types
        for messages in BY_CLASS.values()
        for beginnings in messages.by_first_word.values()
        for _, patterns_of_beginning in beginnings
    ),
    *(messages.marked[1].event_types for messages in BY_CLASS.values() if messages.marked),
    {"CONFIG_VALUE"},
)
"""All event types of server.log and controller.log."""
