"""Nights made of a recorded capture: its files cut, rotated, packed, delivered late or twice, in any order."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

COPY = " copy"


@dataclass(frozen=True)
class Delivery:
    """A file of a night: which it is, where it lies and what is in it by then."""

    of: str
    path: str
    content: bytes


@dataclass(frozen=True)
class Nights:
    """Nights, and what lies there if nothing is ever removed: each file as it was delivered last."""

    nights: tuple[tuple[Delivery, ...], ...]

    @property
    def everything(self) -> tuple[Delivery, ...]:
        """The last delivery of each file; one whose path another has gets a name of its own in the same folder."""
        last = {file.of: file for night in self.nights for file in night if not file.of.endswith(COPY)}
        taken: set[str] = set()
        whole = []
        for night in reversed(self.nights):
            for file in night:
                if last.get(file.of) == file:
                    del last[file.of]
                    folder, slash, name = file.path.rpartition("/")
                    path = f"{folder}{slash}earlier~{name}" if file.path in taken else file.path
                    taken.add(path)
                    whole.append(Delivery(file.of, path, file.content))
        return tuple(whole)


def contents_of(folder: Path, most: int) -> dict[str, bytes]:
    """The files of a capture by path, cut to their first `most` bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    return {str(path.relative_to(folder)): path.read_bytes()[:most] for path in files}


def nights_of(contents: dict[str, bytes], random: Random, *, packing: bool = False, absences: bool = False) -> Nights:
    """Two or three nights by whose end all of the contents have been delivered.

    Logs grow, cut anywhere; some are rotated: from some night on another has their name. Some come late, some twice.
    With `packing` some that were rotated are compressed; with `absences` some unchanged files are missing.
    """
    count = random.choice((2, 2, 3))
    nights: list[list[Delivery]] = [[] for _ in range(count)]
    for path, content in contents.items():
        by_night = _log(path, content, random, count, packing=packing) if path.endswith(".log") else None
        for file in by_night or _settled(path, content, random.randrange(count), count):
            before: Delivery | None = None
            for night, delivery in enumerate(file):
                changed = before is None or delivery is None or before.content != delivery.content
                if delivery is not None and (changed or not absences or random.random() < 0.3):
                    nights[night].append(delivery)
                    nights[night].extend(_copies(delivery, random))
                before = delivery
    for night in nights:
        random.shuffle(night)
    return Nights(tuple(map(tuple, nights)))


ByNight = Sequence[Delivery | None]


def _settled(path: str, content: bytes, first: int, count: int) -> Iterator[ByNight]:
    """A file that does not change from the night on in which it comes."""
    yield [Delivery(path, path, content) if night >= first else None for night in range(count)]


def _log(path: str, content: bytes, random: Random, count: int, *, packing: bool) -> Iterator[ByNight]:
    """A log: whole by the last night, in one file or, where it is rotated, in two."""
    cut = content.find(b"\n", random.randint(0, len(content))) + 1 if random.random() < 0.5 else 0
    rotated_in = random.randrange(1, count) if cut else count
    first, rest = (content[:cut], content[cut:]) if cut else (content, b"")
    growth = sorted(random.randint(0, len(first)) for _ in range(min(rotated_in, count - 1)))
    packed = packing and random.random() < 0.5

    def rotated(night: int) -> Delivery:
        name = f"{path}.{night - rotated_in + 1}"
        return Delivery(path, f"{name}.gz", gzip.compress(first, mtime=0)) if packed else Delivery(path, name, first)

    old: list[Delivery | None] = [Delivery(path, path, first[:size]) for size in growth]
    old += [rotated(night) if cut else Delivery(path, path, first) for night in range(len(old), count)]
    yield old
    if cut:
        growth = [*sorted(random.randint(0, len(rest)) for _ in range(count - rotated_in - 1)), len(rest)]
        new = [Delivery(f"{path} again", path, rest[:size]) for size in growth]
        yield [*[None] * rotated_in, *new]


def _copies(file: Delivery, random: Random) -> Iterator[Delivery]:
    """Now and then a broker's log comes twice, whole or as it was earlier."""
    if file.content and file.path.startswith("broker") and ".log" in file.path and random.random() < 0.1:
        size = random.choice((len(file.content), len(file.content) // 2))
        if not file.path.endswith(".gz") or size == len(file.content):
            yield Delivery(f"{file.of}{COPY}", f"{file.path}.copy", file.content[:size])


def written(folder: Path, night: Sequence[Delivery]) -> Path:
    """The night as a folder of files."""
    for file in night:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
    return folder
