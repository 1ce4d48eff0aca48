"""A capture: one cluster's recorded files, and the nodes that wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import BinaryIO

from epochaudit.sources.files.opening import Stored, open_plain


class CaptureError(Exception):
    """The path is no readable capture; the message states what was found and what is expected."""


class ReplacedFileError(FileNotFoundError):
    """Another file has the name now: logs are rotated while they are read."""


@dataclass(frozen=True)
class Beginning:
    """The first plain bytes of a file when it was found: their number, and a digest of them."""

    size: int
    digest: str

    @classmethod
    def of(cls, recorded: bytes) -> Beginning:
        """Of these bytes."""
        return cls(len(recorded), blake2b(recorded, digest_size=16).hexdigest())


@dataclass(frozen=True)
class CaptureFile:
    """One file of a capture.

    path: relative to the capture's root, with slashes. uri: where to open it. kind: the recorded format.
    node: id of the process that wrote it, None if unknown or if the file belongs to the cluster (metadata log).
    size: bytes as stored. source: value of the events table's column, None for kinds without events.
    file_order: rank among the files of the node, oldest first. compression: None, gzip, zstd, bz2 or xz.
    time_zone: IANA name of the zone that its times are printed in, None if not known (read as UTC).
    tar_offset, tar_compression: its place in the tar archive that `uri` names. duplicate_of: path of a file that holds
    the same lines and is read instead.
    envelope, pattern: the layout of its lines (layouts.Layout), both None for Kafka's stock layout.
    gaps_before: times that files are missing before it in its log (rotation.gaps_before). newer_missing: a newer one is missing.
    absent: an earlier run read it, and it is no longer in the capture. beginning: of a log, and of an absent file; None for others, which
    may be rewritten at any time.
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
    gaps_before: int = 0
    newer_missing: bool = False
    absent: bool = False
    beginning: Beginning | None = None

    @property
    def stored(self) -> Stored:
        """The place of its bytes."""
        return Stored(self.path, self.uri, self.size, self.tar_offset, self.tar_compression)

    def open(self) -> BinaryIO:
        """The decompressed bytes; seekable only if neither the file nor its archive is compressed. Raises ReplacedFileError."""
        stream = open_plain(self.stored, self.compression)
        if self.beginning is None:
            return stream
        if Beginning.of(stream.read(self.beginning.size)) != self.beginning:
            stream.close()
            raise ReplacedFileError(f"{self.path} was replaced after it was found")
        if stream.seekable():
            stream.seek(0)
            return stream
        stream.close()
        return open_plain(self.stored, self.compression)


@dataclass(frozen=True)
class Node:
    """A process of the cluster.

    roles: broker, controller or both, as far as known. kafka, time_zone: from capture.toml.
    """

    id: int
    roles: tuple[str, ...] = ()
    kafka: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True)
class Capture:
    """A cluster's recorded files.

    root: path or URI. files: all regular files by path, including those of unknown kinds. nodes: by id.
    """

    root: str
    cluster: str
    files: tuple[CaptureFile, ...]
    nodes: tuple[Node, ...]

    def file(self, path: str) -> CaptureFile:
        """The file at a path relative to the root. Raises KeyError."""
        for file in self.files:
            if file.path == path:
                return file
        raise KeyError(path)
