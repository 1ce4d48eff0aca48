"""Writes a capture: a folder, or a tar archive if the name ends like one. It gets its name once it is complete."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, Protocol, cast

import pyarrow as pa

from epochaudit.settings import UsageError

_COMPRESSED: Final = {
    ".tar.gz": "gzip",
    ".tgz": "gzip",
    ".tar.zst": "zstd",
    ".tar.xz": "xz",
    ".tar.bz2": "bz2",
    ".tar": None,
}


class Capture(Protocol):
    """Takes files. Paths are relative, with slashes."""

    def add(self, path: str, pieces: Iterable[bytes], mtime: float, compression: str | None = None) -> int:
        """Write a file and return its size in bytes as stored. compression: gzip, zstd, bz2, xz or None."""
        ...


@contextmanager
def writing(output: str, sources: Iterable[str]) -> Iterator[Capture]:
    """The capture at `output`, which appears only if the block succeeds. Raises UsageError if `output` exists."""
    whole = os.path.abspath(output)
    partial = f"{whole}.partial"
    _checked(output, whole, partial, sources)
    compression = next(((kind,) for end, kind in _COMPRESSED.items() if whole.endswith(end)), None)
    try:
        os.makedirs(partial)
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror}; choose another --output") from error
    try:
        if compression is None:
            yield Folder(partial)
            os.rename(partial, whole)
        else:
            archive_path = os.path.join(partial, "archive")
            with (
                open(archive_path, "wb") as raw,
                compressed(raw, compression[0]) as stream,
                tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
            ):
                yield Archive(archive, _name(whole), os.path.join(partial, "member"))
            os.rename(archive_path, whole)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _checked(output: str, whole: str, partial: str, sources: Iterable[str]) -> None:
    for existing in (whole, partial):
        if os.path.lexists(existing):
            raise UsageError(f"{existing} exists; choose another --output, or move it away")
    real = os.path.realpath(whole)
    for source in sources:
        if os.path.commonpath([real, os.path.realpath(source)]) == os.path.realpath(source):
            raise UsageError(f"--output {output} lies in {source}, of which is collected; choose a place outside of it")


def _name(whole: str) -> str:
    """The folder that an archive unpacks to."""
    name = os.path.basename(whole)
    return next(name.removesuffix(end) for end in _COMPRESSED if name.endswith(end))


@contextmanager
def compressed(raw: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    """A stream that compresses what is written to it."""
    if compression is None:
        yield raw
        return
    with cast(BinaryIO, _compressing(raw, compression)) as stream:
        yield stream


def _compressing(raw: BinaryIO, compression: str) -> object:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0, filename="")
    if compression == "zstd":
        return pa.CompressedOutputStream(raw, "zstd")
    return bz2.BZ2File(raw, "wb") if compression == "bz2" else lzma.LZMAFile(raw, "wb")


class Folder:
    """A capture as a folder."""

    def __init__(self, root: str) -> None:
        self._root = root

    def add(self, path: str, pieces: Iterable[bytes], mtime: float, compression: str | None = None) -> int:
        """See Capture."""
        whole = os.path.join(self._root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        return _write(whole, pieces, mtime, compression)


class Archive:
    """A capture as a tar archive of one folder. member: temporary file that holds each file until its size is known."""

    def __init__(self, archive: tarfile.TarFile, name: str, member: str) -> None:
        self._archive, self._name, self._member = archive, name, member

    def add(self, path: str, pieces: Iterable[bytes], mtime: float, compression: str | None = None) -> int:
        """See Capture."""
        size = _write(self._member, pieces, mtime, compression)
        header = tarfile.TarInfo(f"{self._name}/{path}")
        header.size, header.mtime, header.mode = size, mtime, 0o644
        with open(self._member, "rb") as stream:
            self._archive.addfile(header, stream)
        os.unlink(self._member)
        return size


def _write(whole: str, pieces: Iterable[bytes], mtime: float, compression: str | None) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(whole, flags, 0o644), "wb") as raw, compressed(raw, compression) as stream:
        for piece in pieces:
            stream.write(piece)
    os.utime(whole, (mtime, mtime))
    return os.path.getsize(whole)
