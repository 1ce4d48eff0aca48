"""Files that hold the same lines twice: a copy, the same file once rotated and once compressed, an earlier copy of one
that grew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from epochaudit.sources.opening import Damaged, Stored, pieces

BEGINNING: Final = 1 << 12  # plain bytes that files have to share before they are read whole
PIECE: Final = 1 << 20

Candidate = tuple[Stored, str | None, bytes]  # the file, its compression, its first BEGINNING plain bytes


def duplicates(candidates: Iterable[Candidate]) -> Mapping[str, str]:
    """path -> path of the file that holds all its lines, for files whose plain bytes begin another's or equal them.

    Of equal ones the first path is kept. Only files whose beginnings are the same are read.
    """
    groups: dict[bytes, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: -len(candidate[2])):
        beginning = candidate[2]
        if len(beginning) < BEGINNING:  # a file so short may begin a longer one
            beginning = next((known for known in groups if known.startswith(beginning)), beginning)
        groups.setdefault(beginning, []).append(candidate)
    found: dict[str, str] = {}
    for group in groups.values():
        found.update(_same(group))
    return found


def _same(group: Sequence[Candidate]) -> dict[str, str]:
    if len(group) < 2:
        return {}
    lengths = {file.path: _length(file, compression) for file, compression, _ in group}
    marks = sorted(set(lengths.values()))
    digests = {file.path: _digests(file, compression, marks) for file, compression, _ in group}
    found: dict[str, str] = {}
    longest_first = sorted(digests, key=lambda path: (-lengths[path], path))
    for number, path in enumerate(longest_first):
        for kept in longest_first[:number]:
            if kept not in found and digests[kept].get(lengths[path]) == digests[path][lengths[path]]:
                found[path] = kept
                break
    return found


def _length(file: Stored, compression: str | None) -> int:
    """The number of plain bytes."""
    if compression is None:
        return file.size
    length = 0
    with suppress(Damaged):
        for piece in pieces(file, compression, PIECE):
            length += len(piece)
    return length


def _digests(file: Stored, compression: str | None, marks: Sequence[int]) -> dict[int, bytes]:
    """The digest of the first n plain bytes for each n of `marks` that is not beyond their end."""
    digest, length, at = blake2b(digest_size=16), 0, {}
    wanted = list(marks)
    with suppress(Damaged):
        for piece in pieces(file, compression, PIECE):
            rest = piece
            while wanted and length + len(rest) >= wanted[0]:
                cut = wanted[0] - length
                digest.update(rest[:cut])
                length, rest = wanted[0], rest[cut:]
                at[wanted.pop(0)] = digest.digest()
            digest.update(rest)
            length += len(rest)
    return at
