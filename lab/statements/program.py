"""The classes of a Kafka release, and the texts that each logger may write."""

from __future__ import annotations

import zipfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from lab.statements.class_file import ClassFile
from lab.statements.patterns import CLIENTS, STATE_CHANGES
from lab.statements.texts import Statement, Text, begins_with_name, printed, statements

WRITE_FOR: Final = {
    "Log": ("LogTruncation$",),
    "LocalLog": ("LogTruncation",),
    "KafkaRaftServer": ("KafkaBroker$",),
    "ReplicationControlManager": ("PartitionRegistration",),
}
"""Logger -> classes that write with it, as they are given it, or that have the constant which it writes."""

_PACKAGES: Final = ("kafka/", "org/apache/kafka/")
_SCALA_LOGGING: Final = "kafka/utils/Logging"
_STATE_CHANGE_LOGGER: Final = b"StateChangeLogger"
_GIVES_PREFIXES: Final = (b"LogContext", b"logIdent")


class Program:
    """A release. Its classes are read when they are asked for."""

    def __init__(self, jars: Iterable[Path]) -> None:
        self._data: dict[str, bytes] = {}
        for jar in jars:
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    if name.startswith(_PACKAGES) and name.endswith(".class"):
                        self._data[name.removesuffix(".class")] = archive.read(name)
        self._by_simple_name: dict[str, list[str]] = defaultdict(list)
        for name in self._data:
            self._by_simple_name[name.rpartition("/")[2]].append(name)
        self._class = cache(self._read_class)
        self._statements = cache(self._read_statements)
        self.written_by = cache(self._written_by)
        self.printed_by = cache(self._printed_by)

    def _read_class(self, name: str) -> ClassFile:
        return ClassFile(self._data[name])

    def _read_statements(self, name: str) -> Sequence[Statement]:
        return statements(self._class(name))

    def _written_by(self, logger: str) -> Sequence[tuple[str, Statement]]:
        """(class, text) of all that a logger may write: a class's own texts, those that it inherits, those of classes within it.

        logger: the simple name of a class, or a name of `patterns`.
        """
        return [(name, statement) for name in sorted(self._classes_of(logger)) for statement in self._statements(name)]

    @cached_property
    def prefixes(self) -> Sequence[Text]:
        """What loggers put before messages: `[Broker id={}] `."""
        classes = [
            name for name, data in self._data.items() if b"]" in data and any(mark in data for mark in _GIVES_PREFIXES)
        ]
        texts = {statement.text: None for name in classes for statement in self._statements(name)}
        return [text for text in texts if _is_prefix(text)]

    def _classes_of(self, logger: str) -> set[str]:
        if logger == STATE_CHANGES:
            return {name for name, data in self._data.items() if _STATE_CHANGE_LOGGER in data}
        if logger == CLIENTS:
            return {name for name in self._data if name.startswith("org/apache/kafka/clients/")}
        own = [name for simple in (logger, *WRITE_FOR.get(logger, ())) for name in self._by_simple_name.get(simple, ())]
        outer = tuple(f"{name}$" for name in own if not name.endswith("$"))
        within = [name for name in self._data if outer and name.startswith(outer) and not self._has_own_logger(name)]
        return {ancestor for name in (*own, *within) for ancestor in (name, *self._ancestors(name))}

    def _ancestors(self, name: str) -> list[str]:
        """The classes of Kafka that a class inherits from, and their traits."""
        found, queue = [], [name]
        while queue:
            of = self._class(queue.pop())
            for parent in (of.parent, *of.interfaces):
                if parent in self._data and parent not in found and parent != _SCALA_LOGGING:
                    found.append(parent)
                    queue.append(parent)
        return found

    def _has_own_logger(self, name: str) -> bool:
        """A class of Scala with a logger of its own name, as objects have."""
        return any(_SCALA_LOGGING in self._class(one).interfaces for one in (name, *self._ancestors(name)))

    def _printed_by(self, name: str) -> Sequence[Text] | None:
        """What classes print that begins with this name and a bracket; None if the release has such a class, but not the text."""
        marks = [f"{name}{bracket}".encode() for bracket in "([{"]
        own = {
            one for simple, found in self._by_simple_name.items() if simple.rpartition("$")[2] == name for one in found
        }
        classes = own | {
            one for one, data in self._data.items() if b"toString" in data and any(mark in data for mark in marks)
        }
        texts = [text for one in sorted(classes) for text in printed(self._class(one)) if begins_with_name(text, name)]
        return texts or (None if own else ())


def _is_prefix(text: Text) -> bool:
    first, last = text[0], text[-1]
    return isinstance(first, str) and isinstance(last, str) and first.startswith("[") and last.endswith(("] ", "], "))
