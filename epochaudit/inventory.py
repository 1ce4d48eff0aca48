"""What an audit has read: nodes, files, lines and the counts by API that a capture's own truth can be held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    pass

METADATA_LOG: Final = "metadata_log"
REQUEST_LOG: Final = "request_log"


@dataclass(frozen=True)
class NodeRead:
    """One process of the capture; `kafka` is the version that it printed last, null when no log says."""

    node: int
    roles: tuple[str, ...]
    kafka: str | None


@dataclass(frozen=True)
class FileRead:
    """One file of the capture. lines = events' lines + ignored + quarantined; `events` counts rows, of which a line may give many."""

    path: str
    kind: str
    node: int | None
    bytes: int
    lines: int
    events: int
    ignored: int
    quarantined: int


@dataclass(frozen=True)
class Inventory:
    """Totals of the capture.

    requests: request-log lines by API. partition_rows: rows of the partitions that requests list, by API. error_codes: answered
    partitions by API and code, the rows of a fetch session included. metadata_records: committed records by type.
    """

    clusters: tuple[str, ...] = ()
    nodes: tuple[NodeRead, ...] = ()
    files: tuple[FileRead, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    partition_rows: Mapping[str, int] = field(default_factory=dict)
    error_codes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    metadata_records: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Size of the files as they lie on disk."""
        return sum(file.bytes for file in self.files)

    @property
    def lines(self) -> int:
        """Lines read."""
        return sum(file.lines for file in self.files)

    @property
    def events(self) -> int:
        """Event rows made of them."""
        return sum(file.events for file in self.files)

    @property
    def ignored(self) -> int:
        """Lines that are no events: other log lines, stack traces, APIs of no interest."""
        return sum(file.ignored for file in self.files)

    @property
    def quarantined(self) -> int:
        """Bad lines: cut off, binary, invalid."""
        return sum(file.quarantined for file in self.files)
