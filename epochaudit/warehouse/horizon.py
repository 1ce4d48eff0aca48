"""How far each recorded file has been read, and which of tonight's files go on from there.

A log is known by its lines, not by its name: it may have been rotated, packed or collected elsewhere since. Files that
are written anew in place (checkpoints, properties, capture.toml) are known by their path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.discovery import LOGS, FoundFile, Inspected
from epochaudit.sources.formats import BY_KIND, NODE_LOGS, is_read
from epochaudit.sources.opening import Damaged, open_stored, pieces
from epochaudit.sources.ranges import ByteRange, blocks

BEGINNING: Final = 1 << 12  # plain bytes that tell a log from others: its first lines, with times to the millisecond
END: Final = 1 << 12  # plain bytes before the horizon that tell whether a file goes on from there
PIECE: Final = 1 << 20
KEY: Final = 64  # bytes of a beginning that files are looked up by
BY_CONTENT: Final = LOGS | {"client-log"}
OF_LINES: Final = NODE_LOGS | {"client-log"}  # two metadata logs may begin alike and part later


@dataclass(frozen=True)
class Part:
    """Rows of one byte range, as one reading of it made them. `bytes`: of the lines that the range owns."""

    number: int
    split: int
    bytes: int


@dataclass(frozen=True)
class Remembered:
    """A file as far as it has been read.

    file: as discovery found it last, its path being its name in the warehouse. read_to: plain bytes that were read.
    end: digest of the bytes before read_to, or of the stored bytes of a compressed file; None if not known.
    time_zone: zone that its times were read in. parts: what of the tables is of it.
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

    before: what is known of it. grown: it holds more than that. present: it lies in tonight's capture.
    """

    file: FoundFile
    before: Remembered | None
    grown: bool
    present: bool


def tracked(seen: Inspected, remembered: Iterable[Remembered]) -> list[Tracked]:
    """All files of the cluster: tonight's, each with what was read of it before, and those that are gone.

    Left out are tonight's files that hold nothing but the first lines of others. A file that is gone while another has
    its path gets another name.
    """
    known = sorted(remembered, key=lambda r: (-r.read_to, r.path))
    of_lines = [r for r in known if r.file.kind in BY_CONTENT]
    logs = [_Tonight(f) for f in seen.files if f.kind in BY_CONTENT and f.stored.path not in seen.copies]
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
    found.extend(_gone([r for r in known if r.path not in done], {one.file.stored.path for one in found}))
    return found


def _gone(left: Iterable[Remembered], taken: set[str]) -> Iterator[Tracked]:
    for r in left:
        file = r.file
        if r.path in taken:
            if file.kind not in BY_CONTENT:
                continue  # it was written anew
            file = _renamed(file, taken)
        taken.add(file.stored.path)
        yield Tracked(file, r, grown=False, present=False)


def to_read(found: Tracked, file: RecordedFile) -> list[ByteRange]:
    """The ranges whose lines are new, or may have been cut when they were read."""
    before = found.before
    if not is_read(file) or (before is not None and not found.present):
        return []
    ranges = blocks(file)
    if before is None or _is_read_otherwise(before, found.file, file):
        return ranges
    if not found.grown:
        return []
    splits = kept_splits(before) if len(ranges) > 1 and before.file.compression is None else ()
    return [part for part in ranges if part.split not in splits]


def kept_splits(before: Remembered) -> Collection[int]:
    """The ranges of a file that stay as they are, however it grows: something followed the last line of each.

    Without that, nobody knows whether the line was whole.
    """
    parts = sorted(before.parts, key=lambda part: part.split)
    ends = accumulate(part.bytes for part in parts)
    return {part.split for part, end in zip(parts, ends, strict=True) if end < before.read_to}


def _is_read_otherwise(before: Remembered, file: FoundFile, recorded: RecordedFile) -> bool:
    """What was read before was read as another format, layout or zone."""
    then = before.file
    return (then.kind, then.layout, before.time_zone) != (file.kind, file.layout, recorded.time_zone)


def _renamed(file: FoundFile, taken: Collection[str]) -> FoundFile:
    """The file under a name that no other has, in its folder, which tells its node, and with the end of its name."""
    folder, slash, name = file.stored.path.rpartition("/")
    mark = _digest(file.beginning)
    names = (f"{folder}{slash}{mark[:length]}~{name}" for length in range(8, len(mark) + 1))
    return replace(file, stored=replace(file.stored, path=next(path for path in names if path not in taken)))


class _Tonight:
    """A log of tonight, with what has to be read of it to compare it: only if its beginning is that of a known file."""

    def __init__(self, file: FoundFile) -> None:
        self.file = file
        self.path = file.stored.path
        self.size = file.stored.size if file.compression is None else -1
        self._ends: dict[int, str] = {}

    def length(self, marks: Iterable[int]) -> int:
        """Its plain bytes; of a compressed file they are counted, and the ends at the marks noted."""
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
    """The plain length of a compressed file, and the ends at some positions."""
    length, ends, held = 0, {}, b""
    with suppress(Damaged):
        for piece in pieces(file.stored, file.compression, PIECE):
            start = length - len(held)  # of what is held
            held += piece
            length += len(piece)
            for mark in marks:
                if length - len(piece) < mark <= length:
                    at = mark - start
                    ends[mark] = _digest(held[max(0, at - END) : at])
            held = held[-END:]
    return length, ends


def _matched(
    logs: Sequence[_Tonight], known: Sequence[Remembered], beginnings: _Beginnings
) -> tuple[dict[str, tuple[Remembered, bool]], set[str]]:
    """path of tonight -> the file that it goes on from, and whether it has grown; and the paths of those that another
    one holds. `known`: the longest first."""
    begins = beginnings.may_begin
    marks: dict[str, list[int]] = {log.path: [r.read_to for r in begins(log.file.beginning)] for log in logs}
    holding: dict[str, list[_Tonight]] = {}
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
        elif r.path in holding and r.file.kind in LOGS:
            superseded.add(r.path)
    return goes_on, superseded


class _Beginnings:
    """Remembered files by what they begin with: few of them begin like one of tonight's."""

    def __init__(self, known: Sequence[Remembered]) -> None:
        self._known = known
        self._keyed: dict[bytes, list[Remembered]] = {}
        self._short: list[Remembered] = []
        for r in known:
            beginning = r.file.beginning
            (self._keyed.setdefault(beginning[:KEY], []) if len(beginning) >= KEY else self._short).append(r)

    def may_begin(self, beginning: bytes) -> Iterator[Remembered]:
        """The files whose own beginning may begin it."""
        for r in (*self._keyed.get(beginning[:KEY], ()), *self._short):
            if r.read_to and beginning.startswith(r.file.beginning[: r.read_to]):
                yield r

    def may_hold(self, beginning: bytes) -> Sequence[Remembered]:
        """The files whose own beginning it may begin: all of them only if it is shorter than KEY."""
        return self._known if len(beginning) < KEY else self._keyed.get(beginning[:KEY], ())


def _goes_on(log: _Tonight, r: Remembered, marks: Iterable[int]) -> bool:
    """The log begins with all that was read of a file; its beginning does."""
    if _is_same_stored(log.file, r):
        return True
    if log.length(marks) < r.read_to:
        return False
    known_end = r.end is not None and r.file.compression is None
    return r.read_to <= BEGINNING or not known_end or log.end_at(r.read_to) == r.end


def _has_grown(log: _Tonight, r: Remembered) -> bool:
    if log.file.compression and r.file.compression:
        return not _is_same_stored(log.file, r)
    return log.size != r.read_to


def _is_same(file: FoundFile, r: Remembered) -> bool:
    """The file is what was read: the same format, and byte for byte the same as far as can be told."""
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
    """The digest of the last stored bytes; None for a member of a compressed archive, where it would be dear."""
    return None if file.stored.tar_compression else end_of(file, file.stored.size)


def _within(file: FoundFile, size: int, r: Remembered) -> bool:
    """A log of `size` plain bytes is an earlier copy of one that has been read.

    What has more lines than one's beginning is believed to be one of lines; two metadata logs may part later.
    """
    if size > r.read_to or not r.file.beginning.startswith(file.beginning):
        return False
    return len(file.beginning) < BEGINNING or r.file.kind in OF_LINES


def remembered_after(found: Tracked, recorded: RecordedFile, read: Mapping[int, Part]) -> Remembered:
    """What is to be remembered of a file after its ranges, by split, have been read."""
    before, file = found.before, found.file
    if before is not None and not read:
        return _located(before, found)
    again = before is None or len(read) == len(blocks(recorded))
    kept = () if again or before is None else tuple(part for part in before.parts if part.split not in read)
    parts = tuple(sorted((*kept, *read.values()), key=lambda part: part.split))
    total = sum(part.bytes for part in parts)
    if file.compression:
        return Remembered(file, total, stored_end(file), recorded.time_zone, parts)
    of_lines = BY_KIND[file.kind].stream_decoder is None
    read_to = min(file.stored.size, total) if of_lines else file.stored.size  # it may have shrunk since it was listed
    if file.kind in BY_CONTENT:
        file = replace(file, beginning=file.beginning[:read_to])  # or grown
    return Remembered(file, read_to, _end_at(file, read_to), recorded.time_zone, parts)


def _located(before: Remembered, found: Tracked) -> Remembered:
    """The file where it is now."""
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
