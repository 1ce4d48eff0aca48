"""What a capture is: one cluster's recorded files, and the nodes that wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from epochaudit.sources.opening import Stored, open_plain


class CaptureError(Exception):
    """The path is no readable capture; the message says what was found and what is expected."""


@dataclass(frozen=True)
class RecordedFile:
    """One file of a capture.

    path: relative to the capture's root, with slashes. uri: where to open it. kind: the recorded format.
    node: id of the process that wrote it, None if unknown or if the file belongs to the cluster (metadata log).
    size: bytes as stored. source: the events table's name for the stream of events, None for kinds that give none.
    file_order: rank among the files of the node, oldest first. compression: None, gzip, zstd, bz2 or xz.
    time_zone: IANA name of the zone that its times are printed in, None if not known (read as UTC).
    tar_offset, tar_compression: where it lies in a tar archive, which `uri` then names. duplicate_of: path of the file
    that holds the same lines; of the two only that one is read.
    envelope, pattern: the layout of its lines (layouts.Layout), both None for Kafka's stock layout.
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
    envelope: str | None = None
    pattern: str | None = None
    tar_offset: int | None = None
    tar_compression: str | None = None
    duplicate_of: str | None = None

    @property
    def stored(self) -> Stored:
        """Where its bytes lie."""
        return Stored(self.path, self.uri, self.size, self.tar_offset, self.tar_compression)

    def open(self) -> BinaryIO:
        """The decompressed bytes; seekable only if neither the file nor its archive is compressed."""
        return open_plain(self.stored, self.compression)


@dataclass(frozen=True)
class Node:
    """A process of the cluster.

    roles: broker, controller or both, as far as told. kafka, time_zone: what capture.toml states of them.
    """

    id: int
    roles: tuple[str, ...] = ()
    kafka: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True)
class Capture:
    """A cluster's recorded files.

    files: all regular files of the directory, by path, those of no known kind included. nodes: by id.
    """

    root: str
    cluster: str
    files: tuple[RecordedFile, ...]
    nodes: tuple[Node, ...]

    def file(self, path: str) -> RecordedFile:
        """The file at a path relative to the root. Raises KeyError."""
        for file in self.files:
            if file.path == path:
                return file
        raise KeyError(path)
