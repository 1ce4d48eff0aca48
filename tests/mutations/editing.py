"""Edits of a recorded capture: lines of its logs, requests in them, and records of its metadata log.

Nothing is found by line number: an operator looks for a line, request or record by its content.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from tests.mutations.metadata_log import MetadataLog

REQUEST_LOG: Final = "kafka-request.log"
STATE_CHANGE_LOG: Final = "state-change.log"
SERVER_LOG: Final = "server.log"
CONTROLLER_LOG: Final = "controller.log"

_REQUEST: Final = "Completed request:"
_FETCH: Final = '"requestApiKeyName":"FETCH"'
_END: Final = " (kafka.request.logger)"
_TIME: Final = "%Y-%m-%d %H:%M:%S,%f"
_METADATA: Final = ("metadata/00000000000000000000.log", "metadata/cluster-metadata.dump.txt")


class NotThereError(LookupError):
    """The capture holds no line, request or record of the kind that a mutation needs."""


@dataclass
class Log:
    """A text file of the copy. Lines keep their index while it is edited; a dropped one is None."""

    path: str
    lines: list[str | None]
    changed: bool = False


@dataclass(frozen=True)
class Line:
    """A line of a log."""

    log: Log
    index: int
    text: str
    match: re.Match[str]

    @property
    def node(self) -> int:
        return _node(self.log.path)

    @property
    def written_at(self) -> datetime:
        return datetime.fromisoformat(self.text[1:24])

    def replace(self, text: str) -> None:
        self._set(text)

    def drop(self) -> None:
        self._set(None)

    def insert_after(self, *messages: str) -> None:
        """Put lines behind it, of its time, each given as level, message and logger."""
        self._set("\n".join([self.log.lines[self.index] or "", *(f"{self.text[:25]} {one}" for one in messages)]))

    def insert_before(self, *messages: str) -> None:
        """Put lines before it, of its time, each given as level, message and logger."""
        self._set("\n".join([*(f"{self.text[:25]} {one}" for one in messages), self.log.lines[self.index] or ""]))

    def _set(self, text: str | None) -> None:
        self.log.lines[self.index] = text
        self.log.changed = True


@dataclass(frozen=True)
class Request:
    """A line of a request log. `document` is what it prints, to be changed in place and then written."""

    log: Log
    index: int
    head: str
    document: dict[str, Any]

    @property
    def node(self) -> int:
        """Id of the node that answered."""
        return _node(self.log.path)

    @property
    def header(self) -> dict[str, Any]:
        return dict(self.document["requestHeader"])

    @property
    def correlation_id(self) -> int:
        return int(self.header["correlationId"])

    @property
    def client(self) -> str:
        return str(self.header["clientId"])

    @property
    def asked(self) -> dict[str, Any]:
        asked: dict[str, Any] = self.document["request"]
        return asked

    @property
    def answered(self) -> dict[str, Any]:
        answered: dict[str, Any] = self.document["response"]
        return answered

    @property
    def answered_at(self) -> datetime:
        """When the line was written."""
        return datetime.fromisoformat(self.head[1:24])

    @property
    def answered_ms(self) -> int:
        """The same, milliseconds since the Unix epoch: the captures' nodes print UTC."""
        return int(self.answered_at.replace(tzinfo=UTC).timestamp() * 1000)

    @property
    def arrived_at(self) -> datetime:
        return self.answered_at - timedelta(milliseconds=self.document["totalTimeMs"])

    def write(self) -> None:
        """Put the changed document into the log."""
        self._set(self._text(self.head))

    def write_behind(self, other: Request) -> None:
        """Put the changed document into the log behind another line and with its time; the line itself stays."""
        other._set(f"{other.log.lines[other.index]}\n{self._text(other.head)}")

    def write_before(self, other: Request) -> None:
        """Put the changed document into the log before another line, answered just before that one arrived."""
        moment = f"{other.arrived_at - timedelta(milliseconds=2):{_TIME}}"[:-3]
        other._set(f"{self._text(f'[{moment}{other.head[24:]}')}\n{other.log.lines[other.index]}")

    def drop(self) -> None:
        """Take the line out of the log."""
        self._set(None)

    def _text(self, head: str) -> str:
        return f"{head}{_REQUEST}{json.dumps(self.document, separators=(',', ':'))}{_END}"

    def _set(self, text: str | None) -> None:
        self.log.lines[self.index] = text
        self.log.changed = True


Wanted = Callable[[Request], Any]
Found = TypeVar("Found")


@dataclass
class Copy:
    """A copy of a capture that is being edited; `write` lays it down as a cluster of its own.

    segment_as_it_was: of the metadata log only the dump is written, which is then the dump of another copy. added: files that
    the capture does not have, by path.
    """

    base: Path
    segment_as_it_was: bool = False
    added: dict[str, bytes] = field(default_factory=dict)
    _logs: dict[str, Log] = field(default_factory=dict)
    _metadata: MetadataLog | None = None

    def requests(self, api: str, wanted: Wanted = lambda _: True, node: int | None = None) -> Iterator[Request]:
        """The requests of an API, as the nodes' request logs list them."""
        named = f'"requestApiKeyName":"{api}"'
        for log in self._of_nodes(REQUEST_LOG, node):
            for index, line in enumerate(log.lines):
                if line and named in line:
                    head, _, rest = line.partition(_REQUEST)
                    request = Request(log, index, head, msgspec.json.decode(rest.removesuffix(_END)))
                    if wanted(request):
                        yield request

    def request(self, api: str, wanted: Wanted, node: int | None = None) -> Request:
        """The first of them."""
        return _first(self.requests(api, wanted, node), f"{api} that is wanted")

    def lines(self, name: str, pattern: str, node: int | None = None) -> Iterator[Line]:
        """The lines of the nodes' logs of that name in which the pattern is found."""
        compiled = re.compile(pattern)
        for log in self._of_nodes(name, node):
            for index, line in enumerate(log.lines):
                if line and (match := compiled.search(line)):
                    yield Line(log, index, line, match)

    def line(self, name: str, pattern: str, node: int | None = None) -> Line:
        """The first of them."""
        return _first(self.lines(name, pattern, node), f"line of {name} with {pattern!r}")

    @property
    def metadata(self) -> MetadataLog:
        """The metadata log: raw segment and dump, with the same records."""
        if self._metadata is None:
            segment, dump = (self.base / path for path in _METADATA)
            self._metadata = MetadataLog.read(segment.read_bytes(), dump.read_text("utf-8"))
        return self._metadata

    def log(self, path: str) -> Log:
        """A text file of the capture by its path."""
        if path not in self._logs:
            text = (self.base / path).read_text("utf-8", errors="surrogateescape")
            self._logs[path] = Log(path, list(text.split("\n")))
        return self._logs[path]

    def drop_fetches(self) -> None:
        """Take all Fetch requests out of the request logs."""
        for log in self._of_nodes(REQUEST_LOG, None):
            for index, line in enumerate(log.lines):
                if line and _FETCH in line:
                    others = [part for part in line.split("\n") if _FETCH not in part]
                    log.lines[index] = "\n".join(others) if others else None
                    log.changed = True

    def write(self, folder: Path, cluster: str) -> None:
        """The copy in a new folder, as a cluster of that name; files that were not edited are the base's own (hard links)."""
        edited = {path: _encoded(log) for path, log in self._logs.items() if log.changed}
        if self._metadata is not None:
            segment, dump = _METADATA
            edited[dump] = self._metadata.dump().encode()
            if not self.segment_as_it_was:
                edited[segment] = self._metadata.segment()
        for file in self.base.rglob("*"):
            path = file.relative_to(self.base).as_posix()
            if file.is_file():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                if path in edited:
                    (folder / path).write_bytes(edited[path])
                else:
                    os.link(file, folder / path)
        for path, content in self.added.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        (folder / "capture.toml").write_text(f'cluster = "{cluster}"\n')

    def _of_nodes(self, name: str, node: int | None) -> Iterator[Log]:
        for file in sorted(self.base.glob(f"*/**/{name}")):
            path = file.relative_to(self.base).as_posix()
            if node is None or _node(path) == node:
                yield self.log(path)


def _first(found: Iterator[Found], what: str) -> Found:
    for one in found:
        return one
    raise NotThereError(f"the capture has no {what}")


def _node(path: str) -> int:
    return int(path.partition("/")[0].rpartition("-")[2])


def _encoded(log: Log) -> bytes:
    return "\n".join(line for line in log.lines if line is not None).encode("utf-8", errors="surrogateescape")
