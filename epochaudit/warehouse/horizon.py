"""How far each recorded file has been read, and which of tonight's files continue it.

A log is identified by its lines, not by its name: it may have been rotated, compressed or collected elsewhere since. Files
that are rewritten in place (checkpoints, properties, capture.toml) are identified by their path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from epochaudit.sources.discovery.discovery import FoundFile, Inspected
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.files.opening import Damaged, open_stored, pieces
from epochaudit.sources.formats import BY_KIND, DATA_SEGMENT, Identity, is_read
from epochaudit.sources.scan.ranges import ByteRange, blocks

BEGINNING: Final = 1 << 12  # decompressed bytes that identify a log: its first lines, with times to the millisecond
END: Final = 1 << 12  # decompressed bytes before the horizon, compared to check that a file continues there
PIECE: Final = 1 << 20
KEY: Final = 64  # bytes of a beginning by which files are looked up


@dataclass(frozen=True)
class Part:
    """The rows of one reading of a byte range. `bytes`: size of the lines that the range owns."""

    number: int
    split: int
    bytes: int


@dataclass(frozen=True)
class Remembered:
    """A file of horizon: what has been read of it.

    file: as discovery last found it; its path is its name in the warehouse. read_to: decompressed bytes that were read.
    end: digest of the bytes before read_to, or of the stored bytes of a compressed file; None if unknown.
    time_zone: the zone in which its times were read. parts: its parts in the tables.
    """

    file: FoundFile
    read_to: int
    end: str | None
    time_zone: str | None
    parts: tuple[Part, ...]

    @property
    def path(self) -> str:
        """Its name in the warehouse."""
        return self.file.stored.path


@dataclass(frozen=True)
class Tracked:
    """A file of the warehouse after tonight.

    before: what had been read of it. grown: it has more bytes than that. present: it is in tonight's capture.
    """

    file: FoundFile
    before: Remembered | None
    grown: bool
    present: bool


def tracked(seen: Inspected, remembered: Iterable[Remembered]) -> list[Tracked]:
    """All files of the cluster: tonight's, each with what had been read of it, and earlier ones that are absent tonight.

    Tonight's files that have only the first lines of others are left out. An absent file whose path another file has now gets
    another name.
    """
    known = sorted(remembered, key=lambda r: (-r.read_to, r.path))
    of_lines = [r for r in known if not _has_fixed_path(r.file)]
    logs = [_LogOfTonight(f) for f in seen.files if not _has_fixed_path(f) and f.stored.path not in seen.copies]
    beginnings = _Beginnings(of_lines)
    goes_on, superseded = _matched(logs, of_lines, beginnings)
    sizes = {log.path: log.size for log in logs}
    by_path = {r.path: r for r in known}
    found = []
    for file in seen.files:
        path = file.stored.path
        if path in goes_on:
            found.append(Tracked(file, *goes_on[path], present=True))
        elif path not in sizes:
            same = by_path.get(path)
            same = same if same is not None and _is_same(file, same) else None
            found.append(Tracked(file, same, grown=same is None, present=True))
        elif not any(_within(file, sizes[path], r) for r in beginnings.may_hold(file.beginning)):
            found.append(Tracked(file, None, grown=True, present=True))
    done = {before.path for before, _ in goes_on.values()} | superseded
    paths = {found_file.file.stored.path for found_file in found}
    logs_of_tonight = {
        os.path.dirname(found_file.file.stored.path) for found_file in found if found_file.file.kind == DATA_SEGMENT
    }
    unmatched = (r for r in known if r.path not in done)
    found.extend(_absent([r for r in unmatched if not _is_cut_off(r, logs_of_tonight)], paths))
    return found


def _has_fixed_path(file: FoundFile) -> bool:
    """The file is known by its path; others are known by their content."""
    return BY_KIND[file.kind].identity is Identity.PATH


def _is_cut_off(r: Remembered, folders: Collection[str]) -> bool:
    """A segment that its log no longer has: retention or a truncation removed it, and other segments are present."""
    return r.file.kind == DATA_SEGMENT and os.path.dirname(r.path) in folders


def _absent(unmatched: Iterable[Remembered], taken: set[str]) -> Iterator[Tracked]:
    for r in unmatched:
        file = r.file
        if r.path in taken:
            if _has_fixed_path(file):
                continue  # it was written anew
            file = _renamed(file, taken)
        taken.add(file.stored.path)
        yield Tracked(file, r, grown=False, present=False)


def to_read(found: Tracked, file: CaptureFile) -> list[ByteRange]:
    """The ranges with new lines, or with lines that may have been incomplete when they were read."""
    before = found.before
    if not is_read(file) or (before is not None and not found.present):
        return []
    ranges = blocks(file)
    if before is None or _is_read_otherwise(before, found.file, file):
        return ranges
    if not found.grown:
        return []
    splits = reusable_splits(before) if len(ranges) > 1 and before.file.compression is None else ()
    return [part for part in ranges if part.split not in splits]


def reusable_splits(before: Remembered) -> Collection[int]:
    """The ranges of a file that do not change when it grows: bytes followed the last line of each.

    Without such bytes the last line may be incomplete.
    """
    parts = sorted(before.parts, key=lambda part: part.split)
    ends = accumulate(part.bytes for part in parts)
    return {part.split for part, end in zip(parts, ends, strict=True) if end < before.read_to}


def _is_read_otherwise(before: Remembered, file: FoundFile, recorded: CaptureFile) -> bool:
    """The earlier reading assumed another format, layout or time zone."""
    then = before.file
    return (then.kind, then.layout, before.time_zone) != (file.kind, file.layout, recorded.time_zone)


def _renamed(file: FoundFile, taken: Collection[str]) -> FoundFile:
    """The file with a unique name in its folder, which identifies its node; the old name remains as suffix."""
    folder, slash, name = file.stored.path.rpartition("/")
    mark = _digest(file.beginning)
    names = (f"{folder}{slash}{mark[:length]}~{name}" for length in range(8, len(mark) + 1))
    return replace(file, stored=replace(file.stored, path=next(path for path in names if path not in taken)))


class _LogOfTonight:
    """A log of tonight. Its length and ends are read only if its beginning matches a known file."""

    def __init__(self, file: FoundFile) -> None:
        self.file = file
        self.path = file.stored.path
        self.size = file.stored.size if file.compression is None else -1
        self._ends: dict[int, str] = {}

    def length(self, marks: Iterable[int]) -> int:
        """Its decompressed size. For a compressed file this reads it once, and stores the digests at the marks."""
        if self.size < 0:
            self.size, self._ends = _measured(self.file, sorted(marks))
        return self.size

    def end_at(self, position: int) -> str | None:
        """The digest of the bytes before a position."""
        if position not in self._ends and self.file.compression is None:
            self._ends[position] = _end_at(self.file, position)
        return self._ends.get(position)


def end_of(file: FoundFile, position: int) -> str:
    """The digest of the END bytes, as stored, before a position."""
    start = max(0, position - END)
    with open_stored(file.stored) as stream:
        if stream.seekable():
            stream.seek(start)
        else:
            _skip(stream.read, start)
        return _digest(stream.read(position - start))


def _skip(read: Callable[[int], bytes], size: int) -> None:
    while size > 0 and (piece := read(min(PIECE, size))):
        size -= len(piece)


def _measured(file: FoundFile, marks: Sequence[int]) -> tuple[int, dict[int, str]]:
    """The decompressed size of a compressed file, and the digests before some positions."""
    length, ends, tail = 0, {}, b""
    with suppress(Damaged):
        for piece in pieces(file.stored, file.compression, PIECE):
            start = length - len(tail)  # of what is held
            tail += piece
            length += len(piece)
            for mark in marks:
                if length - len(piece) < mark <= length:
                    at = mark - start
                    ends[mark] = _digest(tail[max(0, at - END) : at])
            tail = tail[-END:]
    return length, ends


def _matched(
    logs: Sequence[_LogOfTonight], known: Sequence[Remembered], beginnings: _Beginnings
) -> tuple[dict[str, tuple[Remembered, bool]], set[str]]:
    """Path of tonight -> (the file that it continues, whether it has grown), and the paths of files that another one contains.

    `known`: the longest first.
    """
    begins = beginnings.may_begin
    marks: dict[str, list[int]] = {log.path: [r.read_to for r in begins(log.file.beginning)] for log in logs}
    holding: dict[str, list[_LogOfTonight]] = {}
    for log in logs:
        for r in begins(log.file.beginning):
            if _goes_on(log, r, marks[log.path]):
                holding.setdefault(r.path, []).append(log)
    goes_on: dict[str, tuple[Remembered, bool]] = {}
    superseded = set()
    for r in known:
        free = [log for log in holding.get(r.path, ()) if log.path not in goes_on]
        if free:
            log = min(free, key=lambda log: (log.path != r.path, -log.size, log.path))
            goes_on[log.path] = (r, _has_grown(log, r))
        elif r.path in holding and BY_KIND[r.file.kind].deduplicated:
            superseded.add(r.path)
    return goes_on, superseded


class _Beginnings:
    """Known files by their beginnings, as few of them begin like one of tonight's."""

    def __init__(self, known: Sequence[Remembered]) -> None:
        self._known = known
        self._keyed: dict[bytes, list[Remembered]] = {}
        self._short: list[Remembered] = []
        for r in known:
            beginning = r.file.beginning
            (self._keyed.setdefault(beginning[:KEY], []) if len(beginning) >= KEY else self._short).append(r)

    def may_begin(self, beginning: bytes) -> Iterator[Remembered]:
        """The known files whose beginning is a prefix of this one."""
        for r in (*self._keyed.get(beginning[:KEY], ()), *self._short):
            if r.read_to and beginning.startswith(r.file.beginning[: r.read_to]):
                yield r

    def may_hold(self, beginning: bytes) -> Sequence[Remembered]:
        """The known files of whose beginning this one may be a prefix; all of them if it is shorter than KEY."""
        return self._known if len(beginning) < KEY else self._keyed.get(beginning[:KEY], ())


def _goes_on(log: _LogOfTonight, r: Remembered, marks: Iterable[int]) -> bool:
    """The log begins with all bytes that were read of a file. Their beginnings match already."""
    if _is_same_stored(log.file, r):
        return True
    if log.length(marks) < r.read_to:
        return False
    known_end = r.end is not None and r.file.compression is None
    return r.read_to <= BEGINNING or not known_end or log.end_at(r.read_to) == r.end


def _has_grown(log: _LogOfTonight, r: Remembered) -> bool:
    if log.file.compression and r.file.compression:
        return not _is_same_stored(log.file, r)
    return log.size != r.read_to


def _is_same(file: FoundFile, r: Remembered) -> bool:
    """The file is the one that was read: the same format, and the same bytes as far as they are compared."""
    if file.kind != r.file.kind or file.beginning != r.file.beginning:
        return False
    if file.compression is None and r.file.compression is None:
        return file.stored.size == r.read_to and _end_at(file, r.read_to) == r.end
    return _is_same_stored(file, r)


def _is_same_stored(file: FoundFile, r: Remembered) -> bool:
    """Both are compressed, and stored alike."""
    packed = file.compression is not None and file.compression == r.file.compression
    return packed and file.stored.size == r.file.stored.size and stored_end(file) == r.end


def stored_end(file: FoundFile) -> str | None:
    """The digest of the last stored bytes; None for a member of a compressed archive, where reading it is expensive."""
    return None if file.stored.tar_compression else end_of(file, file.stored.size)


def _within(file: FoundFile, size: int, r: Remembered) -> bool:
    """A log of `size` plain bytes is an earlier copy of one that has been read.

    A log of lines that is longer than BEGINNING is taken for a copy. Two metadata logs may diverge later.
    """
    if size > r.read_to or not r.file.beginning.startswith(file.beginning):
        return False
    return len(file.beginning) < BEGINNING or BY_KIND[r.file.kind].identity is Identity.FIRST_LINES


def remembered_after(found: Tracked, recorded: CaptureFile, read: Mapping[int, Part]) -> Remembered:
    """The file's entry in horizon after the ranges `read`, by split, have been read."""
    before, file = found.before, found.file
    if before is not None and not read:
        return _located(before, found)
    again = before is None or len(read) == len(blocks(recorded))
    retained = () if again or before is None else tuple(part for part in before.parts if part.split not in read)
    parts = tuple(sorted((*retained, *read.values()), key=lambda part: part.split))
    total = sum(part.bytes for part in parts)
    if file.compression:
        return Remembered(file, total, stored_end(file), recorded.time_zone, parts)
    of_lines = BY_KIND[file.kind].stream_decoder is None
    read_to = min(file.stored.size, total) if of_lines else file.stored.size  # it may have shrunk since it was listed
    if not _has_fixed_path(file):
        file = replace(file, beginning=file.beginning[:read_to])  # or grown
    return Remembered(file, read_to, _end_at(file, read_to), recorded.time_zone, parts)


def _located(before: Remembered, found: Tracked) -> Remembered:
    """The entry with the file's present path and stored form."""
    file = found.file
    if not found.present:
        return replace(before, file=file)
    file = replace(file, beginning=before.file.beginning)
    if file.compression == before.file.compression:
        return replace(before, file=file)
    end = stored_end(file) if file.compression else _end_at(file, before.read_to)
    return replace(before, file=file, end=end)


def _end_at(file: FoundFile, position: int) -> str:
    if position <= len(file.beginning):
        return _digest(file.beginning[max(0, position - END) : position])
    return end_of(file, position)


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
