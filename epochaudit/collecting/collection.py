"""Lists the files of hosts, copies those that an audit reads, and writes capture.toml with what the files do not state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from epochaudit.collecting import headers, statements
from epochaudit.collecting.metadata import MetadataLog
from epochaudit.collecting.secrets import Log, log_pieces, properties
from epochaudit.collecting.selection import (
    OF_NO_KIND,
    VANISHED,
    Listing,
    found_files,
    kind_of,
    list_files,
)
from epochaudit.collecting.writing import Capture, writing
from epochaudit.settings import UsageError
from epochaudit.sources.discovery.discovery import FoundFile
from epochaudit.sources.discovery.manifest import FILE
from epochaudit.sources.files.capture import CaptureError
from epochaudit.sources.files.opening import DAMAGED, Stored, is_remote, open_plain
from epochaudit.sources.formats import BY_KIND, CollectedAs

_ROUNDS: Final = 4  # listings per host: logs are rotated while others are copied
_EXAMPLES: Final = 5


class CollectError(Exception):
    """Something can't be read, so nothing was collected; the message names it."""


@dataclass
class Collected:
    """What was collected and what was skipped.

    taken: kind -> [files, bytes at the host, bytes in the capture]. skipped: reason -> [files, bytes].
    examples: reason -> some of the skipped paths. nodes: node id -> folders in the capture.
    unknown: files whose node is not known. masked: number of overwritten values that may be secrets.
    damaged: bytes of metadata logs that are no records.
    """

    output: str
    taken: dict[str, list[int]] = field(default_factory=dict)
    skipped: dict[str, list[int]] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[int, list[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    time_zone: str | None = None
    masked: int = 0
    damaged: int = 0

    def add_file(self, kind: str, stored: int, written: int) -> None:
        """Count a collected file."""
        counts = self.taken.setdefault(kind, [0, 0, 0])
        for column, amount in enumerate((1, stored, written)):
            counts[column] += amount

    def skip(self, path: str, size: int, reason: str) -> None:
        """Count a skipped file."""
        counts = self.skipped.setdefault(reason, [0, 0])
        counts[0] += 1
        counts[1] += size
        examples = self.examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(path)


def collect(paths: Sequence[str], output: str, *, time_zone: str | None = None) -> Collected:
    """Collect directories of one cluster's hosts into a capture.

    paths: directories mounted on this machine. output: a folder, or an archive if its name ends like one.
    time_zone: IANA name of the zone that the hosts print. Raises UsageError for wrong arguments, CollectError if
    anything can't be read. After an error nothing exists at `output`.
    """
    roots = _roots(paths)
    result = Collected(output)
    with writing(output, roots) as capture:
        found = [file for root, label in roots.items() for file in _collect_host(root, label, capture, result)]
        if not result.taken:
            raise CollectError(
                f"nothing to collect in {', '.join(paths)}: no file there is of a kind that an audit reads"
            )
        _add_manifest(found, time_zone, capture, result)
    return result


def _roots(paths: Sequence[str]) -> dict[str, str]:
    """path -> its folder in the capture: empty for a single path, else the shortest ends that differ."""
    absolute_paths = []
    for path in paths:
        if is_remote(path):
            raise UsageError(f"{path}: only what is mounted here can be collected from; audit it where it is")
        absolute = os.path.abspath(path.removeprefix("file://"))
        if not os.path.lexists(absolute):
            raise UsageError(f"{path}: no such file or directory")
        absolute_paths.append(absolute)
    for absolute in absolute_paths:
        enclosing = [
            other for other in absolute_paths if other != absolute and os.path.commonpath([absolute, other]) == other
        ]
        if enclosing or absolute_paths.count(absolute) > 1:
            raise UsageError(
                f"{absolute} lies in {(enclosing or [absolute])[0]}, which is named, too; name each directory once"
            )
    if len(absolute_paths) == 1:
        return {absolute_paths[0]: ""}
    parts = {absolute: PurePosixPath(absolute).parts[1:] for absolute in absolute_paths}
    for length in range(1, max(map(len, parts.values())) + 1):
        labels = {absolute: "-".join(part[-length:]) for absolute, part in parts.items()}
        if len(set(labels.values())) == len(absolute_paths):
            return {absolute: f"{label}/" for absolute, label in labels.items()}
    return {absolute: f"{number}/" for number, absolute in enumerate(absolute_paths, 1)}


def _collect_host(root: str, label: str, capture: Capture, result: Collected) -> Iterator[statements.CollectedFile]:
    """Copy the files of a path that an audit reads; yields what capture.toml needs to know of them."""
    seen: set[tuple[int, int]] = set()
    names: set[str] = set()
    listing = Listing()
    for number in range(_ROUNDS):
        listing = list_files(root)
        if listing.unreadable:
            raise CollectError(_unreadable(listing.unreadable))
        new = {inode: file for inode, file in listing.files.items() if inode not in seen}
        for inode, file in sorted(new.items(), key=lambda item: item[1].path):
            suffix = f".rotated-{number}" if file.path in names else ""
            names.add(file.path)
            yield from _collect_file(root, label, file, suffix, listing, capture, result)
            if _inode(file) == inode:  # else it was rotated meanwhile, and either file may have been read
                seen.add(inode)
        if not new:
            break
    for path, size, reason in listing.skipped:
        result.skip(path, size, reason)


def _unreadable(what: Sequence[str]) -> str:
    more = f", and {len(what) - _EXAMPLES} more" if len(what) > _EXAMPLES else ""
    return f"can't read {'; '.join(what[:_EXAMPLES])}{more}: run it as a user who can; nothing was collected"


def _inode(file: Stored) -> tuple[int, int]:
    try:
        status = os.stat(file.uri)
    except OSError:
        return -1, -1
    return status.st_dev, status.st_ino


def _collect_file(
    root: str, label: str, file: Stored, suffix: str, listing: Listing, capture: Capture, result: Collected
) -> Iterator[statements.CollectedFile]:
    """Copy a file, or the files in an archive."""
    try:
        for found in found_files(root, file):
            kind = kind_of(found)
            if kind is None:
                result.skip(found.stored.path, found.stored.size, OF_NO_KIND)
                continue
            collected_as = BY_KIND[kind].collected_as
            suffix_in_capture = headers.SUFFIX if collected_as is CollectedAs.BATCH_HEADERS else suffix
            target = replace(found, stored=replace(found.stored, path=f"{label}{found.stored.path}{suffix_in_capture}"))
            versions: set[str] = set()
            if collected_as is not CollectedAs.STATEMENTS:
                written = _copy(found, collected_as, target.stored.path, versions, capture, result)
                result.add_file(kind, found.stored.size, written)
            yield statements.CollectedFile(
                target, label, kind, versions, frozenset(listing.releases), os.stat(file.uri).st_mtime
            )
    except FileNotFoundError:
        result.skip(file.path, file.size, VANISHED)
    except (OSError, CaptureError) as error:
        raise CollectError(_unreadable([str(error)])) from error


def _copy(
    found: FoundFile,
    collected_as: CollectedAs | None,
    path: str,
    versions: set[str],
    capture: Capture,
    result: Collected,
) -> int:
    file, mtime = found.stored, os.stat(found.stored.uri).st_mtime
    if collected_as is CollectedAs.BATCH_HEADERS:
        with open_plain(file, None) as stream:
            return capture.add(path, headers.dump(stream, file.path), mtime)
    if collected_as is CollectedAs.METADATA_RECORDS:
        log = MetadataLog()
        with open_plain(file, found.compression) as stream, open_plain(file, found.compression) as again:
            written = capture.add(path, log.pieces(stream, again), mtime, found.compression)
        result.masked += log.masked
        result.damaged += log.damaged
        return written
    if collected_as in (CollectedAs.WHOLE, CollectedAs.SETTINGS):
        with open_plain(file, found.compression) as stream:
            text = stream.read()
        if collected_as is CollectedAs.SETTINGS:
            text, _ = properties(text)
        return capture.add(path, [text], mtime, found.compression)
    return _copy_log(found, path, mtime, versions, capture, result)


def _copy_log(
    found: FoundFile, path: str, mtime: float, versions: set[str], capture: Capture, result: Collected
) -> int:
    log = Log()
    with open_plain(found.stored, found.compression) as stream:
        size = found.stored.size if found.compression is None else None
        pieces = statements.versions_in(_before_defect(log_pieces(stream, log, size)), versions)
        written = capture.add(path, pieces, mtime, found.compression)
    result.masked += log.masked
    return written


def _before_defect(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces before the first defect of a compressed file."""
    while True:
        try:
            piece = next(pieces, None)
        except FileNotFoundError:
            raise
        except DAMAGED:
            return
        if piece is None:
            return
        yield piece


def _add_manifest(
    found: Sequence[statements.CollectedFile], time_zone: str | None, capture: Capture, result: Collected
) -> None:
    text, result.nodes, result.unknown, result.time_zone = statements.manifest(found, time_zone)
    if text:
        capture.add(FILE, [text.encode()], max(file.mtime for file in found))
