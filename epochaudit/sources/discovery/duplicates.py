"""Duplicate files: copies, a rotated file and its compressed copy, earlier copies of a file that grew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from epochaudit.sources.files.opening import Damaged, Stored, pieces

BEGINNING: Final = 1 << 12  # files are compared completely only if so many first plain bytes are equal
PIECE: Final = 1 << 20

Candidate = tuple[Stored, str | None, bytes]  # the file, its compression, its first BEGINNING plain bytes


def duplicates(candidates: Iterable[Candidate]) -> Mapping[str, str]:
    """path -> path of the file that holds all its lines, for files whose plain bytes begin another's or equal them.

    Of equal files the first by path is the original. Only files with equal beginnings are read.
    """
    groups: dict[bytes, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: -len(candidate[2])):
        beginning = candidate[2]
        if len(beginning) < BEGINNING:  # a short file may be the beginning of a longer one
            beginning = next((known for known in groups if known.startswith(beginning)), beginning)
        groups.setdefault(beginning, []).append(candidate)
    found: dict[str, str] = {}
    for group in groups.values():
        found.update(_contained(group))
    return found


def _contained(group: Sequence[Candidate]) -> dict[str, str]:
    if len(group) < 2:
        return {}
    lengths = {file.path: _length(file, compression) for file, compression, _ in group}
    marks = sorted(set(lengths.values()))
    digests = {file.path: _digests(file, compression, marks) for file, compression, _ in group}
    found: dict[str, str] = {}
    longest_first = sorted(digests, key=lambda path: (-lengths[path], path))
    for number, path in enumerate(longest_first):
        for longer in longest_first[:number]:
            if longer not in found and digests[longer].get(lengths[path]) == digests[path][lengths[path]]:
                found[path] = longer
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
    """n -> digest of the first n plain bytes, for each n of `marks` up to the file's end."""
    digest, length, by_length = blake2b(digest_size=16), 0, {}
    remaining_marks = list(marks)
    with suppress(Damaged):
        for piece in pieces(file, compression, PIECE):
            rest = piece
            while remaining_marks and length + len(rest) >= remaining_marks[0]:
                cut = remaining_marks[0] - length
                digest.update(rest[:cut])
                length, rest = remaining_marks[0], rest[cut:]
                by_length[remaining_marks.pop(0)] = digest.digest()
            digest.update(rest)
            length += len(rest)
    return by_length
