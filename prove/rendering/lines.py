"""What a line of a log is, and how log4j lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

STATE_CHANGE: Final = "state-change.log"
REQUESTS: Final = "kafka-request.log"
SERVER: Final = "server.log"
CONTROLLER: Final = "controller.log"
METADATA: Final = "cluster-metadata.dump.txt"


@dataclass(frozen=True)
class Line:
    """A line of a host's log. own: the id of the event whose own line it is, or None. raw: bytes of a binary file, in place of the text."""

    file: str
    at: int
    text: str
    own: int | None = None
    raw: bytes | None = None


def logged(file: str, at: int, level: str, text: str, logger: str, own: int | None = None) -> Line:
    """A line as log4j's pattern of Kafka lays it out. logger: the class's name."""
    return Line(file, at, f"[{printed_time(at)}] {level} {text} ({logger})", own)


def printed_time(at: int) -> str:
    """A time of log4j's pattern, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S,") + f"{at % 1000:03d}"
