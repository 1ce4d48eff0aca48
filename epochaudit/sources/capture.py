"""A capture: one cluster's recorded files in a directory, recognised by content, each with the node that wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SOURCES: Final = {
    "request-log-json": "request_log",
    "request-log-text": "request_log",
    "state-change-log": "state_change_log",
    "server-log": "server_log",
    "metadata-log-dump": "metadata_log",
    "metadata-log-segment": "metadata_log",
}


class CaptureError(Exception):
    """The path is no readable capture; the message says what was found and what is expected."""


@dataclass(frozen=True)
class RecordedFile:
    """One file of a capture.

    path: relative to the capture's root, with slashes. uri: where to open it. kind: the recorded format.
    node: id of the process that wrote it, None if unknown or if the file belongs to the cluster (metadata log).
    size: bytes as stored. source: the events table's name for the stream of events, None for kinds that give none.
    file_order: rank among the files of the node and source, oldest first. compression: None, gzip, zstd, bz2 or xz.
    time_zone: IANA name of the zone that its times are printed in, None if not known (read as UTC).
    """

    path: str
    uri: str
    kind: str
    cluster: str
    size: int
    node: int | None = None
    source: str | None = None
    file_order: int = 0
    compression: str | None = None
    time_zone: str | None = None
