"""Which files of a host are collected, and as which kind: by content, as in an audit.

Files of partitions' logs are the exception: a broker has hundreds of thousands, and Kafka names them by their first
offset in 20 digits. Of these only segments are opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from epochaudit.sources.checkpoints import partition_of
from epochaudit.sources.data_log.batch_runs import is_segment
from epochaudit.sources.discovery.discovery import FoundFile, examined
from epochaudit.sources.files.capture import CaptureError
from epochaudit.sources.files.opening import Stored
from epochaudit.sources.formats import BY_KIND, DATA_SEGMENT, EMPTY, CollectedAs

OF_NO_KIND: Final = "no audit reads such files"
OF_A_LOG: Final = "indexes and producer snapshots of partitions: no audit reads them"
LINK: Final = "symbolic links, which are not followed: name their targets"
SPECIAL: Final = "neither a file nor a directory"
VANISHED: Final = "disappeared while the rest was collected"

_PARTITION_FILE: Final = re.compile(r"\d{20}(?:-\d{10})?(\.\w+)(?:\.\w+)*")
_SEGMENT: Final = ".log"
_SNAPSHOT: Final = ".checkpoint"
_JAR: Final = re.compile(r"kafka_2\.\d\d-(\d+\.\d+\.\d+)\.jar")


@dataclass
class Listing:
    """The files below a path. files: by device and inode, so that a renamed file is not collected twice.

    skipped: (path, bytes, reason). unreadable: paths that can't be listed, with the system's message.
    releases: Kafka releases, from the names of jars.
    """

    files: dict[tuple[int, int], Stored] = field(default_factory=dict)
    skipped: list[tuple[str, int, str]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    releases: set[str] = field(default_factory=set)


def list_files(root: str) -> Listing:
    """The regular files below a directory, or the file itself. The path may be a link; links below it are skipped."""
    listing = Listing()
    real_root = os.path.realpath(root)
    if not os.path.isdir(real_root):
        _entry(real_root, os.path.basename(root), listing)
        return listing
    for folder, folders, names in os.walk(
        real_root, onerror=lambda error: listing.unreadable.append(_system_message(error))
    ):
        for name in sorted((*names, *(name for name in folders if os.path.islink(os.path.join(folder, name))))):
            whole = os.path.join(folder, name)
            _entry(whole, os.path.relpath(whole, real_root).replace(os.sep, "/"), listing)
    return listing


def _entry(whole: str, path: str, listing: Listing) -> None:
    try:
        status = os.lstat(whole)
    except FileNotFoundError:
        return  # rotated or deleted since it was listed
    except OSError as error:
        listing.unreadable.append(_system_message(error))
        return
    if release := _JAR.fullmatch(os.path.basename(whole)):
        listing.releases.add(release[1])
    reason = _reason_to_skip(path, status.st_mode)
    if reason is None:
        listing.files.setdefault((status.st_dev, status.st_ino), Stored(path, whole, status.st_size))
    else:
        listing.skipped.append((path, status.st_size if stat.S_ISREG(status.st_mode) else 0, reason))


def _system_message(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}"


def _reason_to_skip(path: str, mode: int) -> str | None:
    """Why a file is skipped without being opened; None if it is opened."""
    if stat.S_ISLNK(mode):
        return LINK
    if not stat.S_ISREG(mode):
        return SPECIAL
    match = _PARTITION_FILE.fullmatch(os.path.basename(path))
    if match is None or not is_in_partition(path):
        return None
    return None if match[1] in (_SEGMENT, _SNAPSHOT) else OF_A_LOG


def is_in_partition(path: str) -> bool:
    """The file's folder is named like that of a partition's log."""
    return partition_of(f"{PurePosixPath(path).parent}/_", "_") is not None


def found_files(root: str, file: Stored) -> Iterator[FoundFile]:
    """The file, or the files in it if it is an archive. Raises CaptureError if unreadable, FileNotFoundError if deleted."""
    try:
        yield from examined(root, file)
    except CaptureError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from None
        raise


def kind_of(file: FoundFile) -> str | None:
    """The kind that a file is collected as; None if it is skipped."""
    collected_as = BY_KIND[file.kind].collected_as
    if collected_as is not CollectedAs.METADATA_RECORDS and is_segment(file.stored.path):
        return None if file.compression else EMPTY if file.stored.size == 0 else DATA_SEGMENT
    readable = collected_as not in (None, CollectedAs.BATCH_HEADERS)  # segments are known by their names
    return file.kind if readable else None
