"""Tar archives, plain or compressed: members are read in place, nothing is unpacked to disk.

A member of a plain archive is a range of its bytes. In a compressed one all bytes before a member must be decompressed, so
members are read in the archive's order, each from the end of the last.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, cast

MAGIC_AT: Final = 257
MAGIC: Final = b"ustar"
SKIP: Final = 1 << 20


def is_tar(head: bytes) -> bool:
    """The plain bytes begin a tar archive."""
    return head[MAGIC_AT : MAGIC_AT + len(MAGIC)] == MAGIC


def members(stream: BinaryIO, head: int) -> Iterator[tuple[str, int, int, bytes]]:
    """(path, offset of its bytes, size, first `head` bytes) of each regular file, in the archive's order.

    Paths are relative; members whose names lead out of the archive are skipped. Raises tarfile.TarError for a damaged
    archive, and the stream's errors.
    """
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            path = posixpath.normpath(member.name.lstrip("/"))
            if not member.isreg() or member.issparse() or path.startswith("..") or path == ".":
                continue
            opened = archive.extractfile(member)
            yield path, member.offset_data, member.size, opened.read(head) if opened else b""


class Slice(io.RawIOBase):
    """A range of a seekable stream's bytes as a stream."""

    def __init__(self, stream: BinaryIO, offset: int, size: int) -> None:
        super().__init__()
        self._stream, self._offset, self._size, self._position = stream, offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        self._stream.seek(self._offset + self._position)
        read = self._stream.read(max(0, min(len(view), self._size - self._position)))
        view[: len(read)] = read
        self._position += len(read)
        return len(read)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Cursor(threading.local):
    """The compressed archive that this thread read last, and its position."""

    uri: str | None = None
    stream: BinaryIO | None = None
    position: int = 0


_CURSOR: Final = _Cursor()


class Forward(io.RawIOBase):
    """A member of a compressed archive; continues from the member read last if that one lies before it."""

    def __init__(self, uri: str, opened: BinaryIO, offset: int, size: int) -> None:
        """opened: the archive's plain bytes from the beginning; closed unused if this thread is already within the archive."""
        super().__init__()
        self._uri, self._left = uri, size
        if _CURSOR.uri == uri and _CURSOR.stream is not None and _CURSOR.position <= offset:
            opened.close()
            self._stream, position = _CURSOR.stream, _CURSOR.position
        else:
            if _CURSOR.stream is not None:
                _CURSOR.stream.close()
            self._stream, position = opened, 0
        _CURSOR.uri = _CURSOR.stream = None
        self._position = position
        while self._position < offset and (skipped := self._stream.read(min(SKIP, offset - self._position))):
            self._position += len(skipped)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        read = self._stream.read(min(len(view), self._left))
        view[: len(read)] = read
        self._left -= len(read)
        self._position += len(read)
        return len(read)

    def close(self) -> None:
        if not self.closed:
            _CURSOR.uri, _CURSOR.stream, _CURSOR.position = self._uri, self._stream, self._position
        super().close()


def buffered(raw: io.RawIOBase) -> BinaryIO:
    """The raw stream with a buffer."""
    return cast(BinaryIO, io.BufferedReader(raw, SKIP))
