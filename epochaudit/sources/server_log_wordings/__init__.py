"""The wordings of server.log and controller.log, a module per topic.

A line is found by the class that logs it, then by how its message begins. Classes go by their simple names: packages
moved between releases (kafka.log.UnifiedLog became org.apache.kafka.storage.internals.log.UnifiedLog), and layouts may
abbreviate them. Wordings of Kafka 1.0 to 4.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from epochaudit.sources.log4j import Wordings
from epochaudit.sources.server_log_wordings import (
    kraft_controller,
    kraft_records,
    logs,
    partitions,
    processes,
    settings,
    zookeeper_controller,
)
from epochaudit.sources.server_log_wordings.parts import COLUMNS

_TOPICS: Final = (processes, zookeeper_controller, kraft_controller, kraft_records, partitions, logs, settings)

BeginsWith = tuple[bytes, Wordings]

UNLESS: Final = {
    b"The request from broker ": b" yet be granted",
    b" below high watermark ": b"] Truncating future ",  # of a replica that moves between directories
    b" successfully completed": b" Deletion successfully completed for replicas ",  # of a topic, at DEBUG
}
"""Of a beginning or mark: what only those lines hold that tell nothing."""


@dataclass
class MessagesOf:
    """A class's messages: beginnings by their first word, and a mark of those that begin with no fixed word."""

    by_first_word: dict[bytes, tuple[BeginsWith, ...]] = field(default_factory=dict)
    marked: BeginsWith | None = None


def _by_class() -> dict[bytes, MessagesOf]:
    found: dict[bytes, MessagesOf] = defaultdict(MessagesOf)
    for topic in _TOPICS:
        for logging_class, told in topic.TOLD.items():
            words = found[logging_class].by_first_word
            for beginning, wordings in told.items():
                word = beginning.split(b" ", 1)[0]
                words[word] = (*words.get(word, ()), (beginning, Wordings(COLUMNS, wordings)))
    for marked in (partitions.MARKED, zookeeper_controller.MARKED, logs.MARKED):
        for logging_class, (mark, wording) in marked.items():
            found[logging_class].marked = (mark, Wordings(COLUMNS, (wording,)))
    return dict(found)


def _beginnings() -> dict[bytes, tuple[bytes, ...]]:
    by_word: dict[bytes, set[bytes]] = defaultdict(set)
    for messages in BY_CLASS.values():
        for word, told in messages.by_first_word.items():
            by_word[word].update(beginning for beginning, _ in told)
    return {word: tuple(beginnings) for word, beginnings in by_word.items()}


BY_CLASS: Final[Mapping[bytes, MessagesOf]] = _by_class()

BEGINNINGS: Final[Mapping[bytes, tuple[bytes, ...]]] = _beginnings()
"""All beginnings by their first word, for lines whose class was cut off."""

EVENT_TYPES: Final[frozenset[str]] = frozenset().union(
    *(
        wordings.event_types
        for messages in BY_CLASS.values()
        for told in messages.by_first_word.values()
        for _, wordings in told
    ),
    *(messages.marked[1].event_types for messages in BY_CLASS.values() if messages.marked),
    {"CONFIG_VALUE"},
)
"""All that a line of server.log or controller.log can be."""
