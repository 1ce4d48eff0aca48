"""Opens stored files: the one place that turns a URI into a file system, and compressed bytes into plain ones."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import pyarrow as pa
from pyarrow import fs

MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
}
DAMAGED: Final = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)
SMALL_READ: Final = 1 << 12


@dataclass(frozen=True)
class Stored:
    """A regular file below a root: its path from there with slashes, where to open it, and its size in bytes."""

    path: str
    uri: str
    size: int


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it."""
    if is_remote(uri):
        system, path = fs.FileSystem.from_uri(uri)
        return system, path
    return fs.LocalFileSystem(), os.path.abspath(uri.removeprefix("file://"))


def is_remote(uri: str) -> bool:
    """A URI of a file system other than this machine's."""
    return "://" in uri and not uri.startswith("file://")


def listing(root: str) -> list[Stored]:
    """The regular files below a directory, by path.

    Symbolic links are not followed: they may lead out of it, or to the same file twice. Raises FileNotFoundError or
    NotADirectoryError.
    """
    files = _remote(root) if is_remote(root) else _local(root.removeprefix("file://"))
    return sorted(files, key=lambda file: file.path)


def _local(root: str) -> Iterator[Stored]:
    if not os.path.exists(root):
        raise FileNotFoundError(root)
    if not os.path.isdir(root):
        raise NotADirectoryError(root)
    for folder, _, names in os.walk(root):
        for name in names:
            whole = os.path.join(folder, name)
            status = os.lstat(whole)
            if stat.S_ISREG(status.st_mode):
                yield Stored(os.path.relpath(whole, root).replace(os.sep, "/"), os.path.abspath(whole), status.st_size)


def _remote(root: str) -> Iterator[Stored]:
    system, path = file_system(root)
    kind = system.get_file_info(path).type
    if kind == fs.FileType.NotFound:
        raise FileNotFoundError(root)
    if kind != fs.FileType.Directory:
        raise NotADirectoryError(root)
    for info in system.get_file_info(fs.FileSelector(path, recursive=True)):
        if info.is_file:
            relative = info.path.removeprefix(path).lstrip("/")
            yield Stored(relative, f"{root.rstrip('/')}/{relative}", info.size)


def open_stored(uri: str) -> pa.NativeFile:
    """The file's bytes as stored, seekable."""
    system, path = file_system(uri)
    return system.open_input_file(path)


def compression_of(head: bytes) -> str | None:
    """The compression that a file's first bytes announce."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def open_plain(uri: str, compression: str | None) -> BinaryIO:
    """The file's decompressed bytes. Seekable only if it is not compressed."""
    stored = open_stored(uri)
    if compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, stored)))
    if compression == "bz2":
        return cast(BinaryIO, bz2.BZ2File(cast(BinaryIO, stored)))
    if compression == "xz":
        return cast(BinaryIO, lzma.LZMAFile(cast(BinaryIO, stored)))
    if compression == "zstd":
        return cast(BinaryIO, pa.CompressedInputStream(stored, "zstd"))
    return cast(BinaryIO, stored)


class Damaged(Exception):
    """The compressed stream ends early or is corrupt; what came before it has been delivered."""


def pieces(uri: str, compression: str, size: int) -> Iterator[bytes]:
    """A compressed file's plain bytes in pieces of at most `size`, in constant memory. Raises Damaged at a defect."""
    delivered = 0
    with open_plain(uri, compression) as stream:
        read = getattr(stream, "read1", stream.read)  # read1 gives what there is before it meets the defect
        try:
            while piece := read(size):
                delivered += len(piece)
                yield piece
            return
        except DAMAGED as error:
            defect = error
    if compression == "zstd":
        yield from _before_defect(uri, delivered)
    truncated = isinstance(defect, EOFError) or "truncated" in str(defect).lower()
    raise Damaged("truncated" if truncated else "corrupt") from defect


def _before_defect(uri: str, skip: int) -> Iterator[bytes]:
    """What Arrow's stream holds between `skip` and a defect: a large read that meets one delivers nothing of it."""
    for step in (SMALL_READ, 1):
        with open_plain(uri, "zstd") as stream:
            position = 0
            try:
                while position < skip:
                    position += len(stream.read(min(SMALL_READ, skip - position)))
                while piece := stream.read(step):
                    skip += len(piece)
                    yield piece
            except DAMAGED:
                continue
