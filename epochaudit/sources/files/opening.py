"""Opens stored files: maps URIs to file systems, and decompresses. No other module does."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Final, cast

import fsspec
import pyarrow as pa
from pyarrow import fs

from epochaudit.sources.files.archives import Forward, Slice, buffered

MAGIC: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
ARROW_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names of file systems that Arrow names otherwise
EXPANDS: Final = 20  # plain bytes per compressed byte: request logs have 15 to 25 with gzip
DAMAGED: Final = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)
SMALL_READ: Final = 1 << 12


@dataclass(frozen=True)
class Stored:
    """A regular file below a root. path: relative, with slashes. uri: where to open it. size: in bytes.

    Of a file in a tar archive: uri is the archive's, tar_offset its offset in the plain archive, tar_compression the
    archive's compression.
    """

    path: str
    uri: str
    size: int
    tar_offset: int | None = None
    tar_compression: str | None = None

    def plain_size(self, compression: str | None) -> int:
        """The estimated number of plain bytes. compression: of the file itself."""
        return self.size * (1 if compression is None else EXPANDS)


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it. Raises ValueError for an unknown scheme."""
    if not is_remote(uri):
        return fs.LocalFileSystem(), os.path.abspath(uri.removeprefix("file://"))
    scheme, rest = uri.split("://", 1)
    scheme = ARROW_SCHEMES.get(scheme, scheme)
    authority, _, path = rest.partition("/")
    system, root = _remote_system(f"{scheme}://{authority}/")
    return system, f"{root.rstrip('/')}/{path}".rstrip("/") or root


@cache
def _remote_system(root: str) -> tuple[fs.FileSystem, str]:
    """Arrow's own file system (s3, gs, abfs, hdfs), or fsspec's for other schemes.

    Credentials, regions and endpoints come from the environment, as for each service's own tools. Raises ValueError.
    """
    try:
        system, path = fs.FileSystem.from_uri(root)
    except OSError as error:
        if missing := re.search("lib(jvm|hdfs)", str(error)):
            raise ValueError(
                f"hdfs needs Hadoop's native client, and {missing[0]} is not found here: set JAVA_HOME, ARROW_LIBHDFS_DIR "
                "(the directory of libhdfs.so) and CLASSPATH (`hadoop classpath --glob`), or name the files by "
                "webhdfs://HOST:9870/PATH, which needs the package requests only"
            ) from error
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as unknown:
        try:
            fsspec_system, path = fsspec.core.url_to_fs(root)
        except (ImportError, ValueError) as error:
            raise ValueError(f"{root.split('://')[0]}: no file system for this scheme ({error})") from unknown
        system = fs.PyFileSystem(fs.FSSpecHandler(fsspec_system))
    return system, path


def is_remote(uri: str) -> bool:
    """A URI of a file system other than this machine's."""
    return "://" in uri and not uri.startswith("file://")


def listing(root: str) -> list[Stored]:
    """The regular files below a directory, by path; the root itself if it is a file.

    Symbolic links are not followed: they may lead out of it, or to a file twice. Raises FileNotFoundError and OSError.
    """
    files = _remote(root) if is_remote(root) else _local(root.removeprefix("file://"))
    return sorted(files, key=lambda file: file.path)


def file_uri(path: str) -> str:
    """The `uri` of a Stored that is the file at this path or URI."""
    return path if is_remote(path) else os.path.abspath(path.removeprefix("file://"))


def _local(root: str) -> Iterator[Stored]:
    if not os.path.exists(root):
        raise FileNotFoundError(root)
    if not os.path.isdir(root):
        yield Stored(os.path.basename(root), os.path.abspath(root), os.path.getsize(root))
        return
    for folder, _, names in os.walk(root, onerror=_raise):
        for name in names:
            whole = os.path.join(folder, name)
            status = os.lstat(whole)
            if stat.S_ISREG(status.st_mode):
                yield Stored(os.path.relpath(whole, root).replace(os.sep, "/"), os.path.abspath(whole), status.st_size)


def _raise(error: OSError) -> None:
    """Raises errors that os.walk would ignore: files of an unreadable directory would look as if they did not exist."""
    raise error


def _remote(root: str) -> Iterator[Stored]:
    system, path = file_system(root)
    root_info = system.get_file_info(path)
    if root_info.type == fs.FileType.NotFound:
        raise FileNotFoundError(root)
    if root_info.is_file:
        yield Stored(root_info.base_name, root, root_info.size)
        return
    for info in system.get_file_info(fs.FileSelector(path, recursive=True)):
        if info.is_file:
            relative = info.path.lstrip("/").removeprefix(path.lstrip("/")).lstrip("/")
            yield Stored(relative, f"{root.rstrip('/')}/{relative}", info.size)


def open_stored(file: Stored) -> BinaryIO:
    """The file's bytes as stored; seekable unless it lies in a compressed archive."""
    system, path = file_system(file.uri)
    if file.tar_offset is None:
        return cast(BinaryIO, system.open_input_file(path))
    if file.tar_compression is None:
        whole = cast(BinaryIO, system.open_input_file(path))
        return buffered(Slice(whole, file.tar_offset, file.size))
    archive = open_plain(Stored(file.path, file.uri, 0), file.tar_compression)
    return buffered(Forward(file.uri, archive, file.tar_offset, file.size))


def compression_of(head: bytes) -> str | None:
    """The compression by a file's first bytes; None if it is plain."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def head_of(stored: bytes, compression: str, size: int) -> bytes:
    """The first plain bytes, at most `size`, of a compressed file. stored: its first bytes."""
    with suppress(*DAMAGED), _decompressed(io.BytesIO(stored), compression) as stream:
        return stream.read(size) if compression == "zstd" else _readable_head(stream, size)
    return b""


def _readable_head(stream: BinaryIO, size: int) -> bytes:
    read = getattr(stream, "read1", stream.read)
    head = b""
    with suppress(*DAMAGED):
        while len(head) < size and (piece := read(size - len(head))):
            head += piece
    return head


def open_plain(file: Stored, compression: str | None) -> BinaryIO:
    """The file's decompressed bytes. Seekable only if neither it nor its archive is compressed."""
    return _decompressed(open_stored(file), compression)


def _decompressed(stored: BinaryIO, compression: str | None) -> BinaryIO:
    if compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=stored))
    if compression == "bz2":
        return cast(BinaryIO, bz2.BZ2File(stored))
    if compression == "xz":
        return cast(BinaryIO, lzma.LZMAFile(stored))
    if compression == "zstd":
        return cast(BinaryIO, pa.CompressedInputStream(stored, "zstd"))
    return stored


class Damaged(Exception):
    """The compressed stream is truncated or corrupt; all bytes before the defect were delivered."""


def pieces(file: Stored, compression: str | None, size: int) -> Iterator[bytes]:
    """A compressed file's plain bytes in pieces of at most `size`, in constant memory. Raises Damaged at a defect."""
    delivered = 0
    with open_plain(file, compression) as stream:
        read = getattr(stream, "read1", stream.read)  # read1 delivers the bytes before a defect
        try:
            while piece := read(size):
                delivered += len(piece)
                yield piece
            return
        except DAMAGED as error:
            defect = error
    if compression == "zstd":
        yield from _before_defect(file, delivered)
    truncated = isinstance(defect, EOFError) or "truncated" in str(defect).lower()
    raise Damaged("truncated" if truncated else "corrupt") from defect


def _before_defect(file: Stored, skip: int) -> Iterator[bytes]:
    """The plain bytes between `skip` and a defect: a large read of Arrow's stream that meets one delivers nothing."""
    for step in (SMALL_READ, 1):
        with open_plain(file, "zstd") as stream:
            position = 0
            try:
                while position < skip:
                    position += len(stream.read(min(SMALL_READ, skip - position)))
                while piece := stream.read(step):
                    skip += len(piece)
                    yield piece
            except DAMAGED:
                continue
