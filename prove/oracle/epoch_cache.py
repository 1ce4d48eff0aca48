"""Oracle of the rule of leader epoch caches: which entries a cache still has, by its lines."""

from __future__ import annotations

from dataclasses import dataclass

from prove.history import CheckpointEntry, History, LogLine, ProcessStarts
from prove.oracle.verdicts import PASS, UNVERIFIABLE, VIOLATION, Judged, place

ENTRIES = ("appended", "conflict", "disorder")
UNTOLD = ("reset to end", "future created")
"""Lines after which the cache has what it had."""


@dataclass
class Known:
    """What is known of a cache: its last entry with the cache's size, None: nothing. process: in which the entry was written."""

    last: LogLine | None = None
    process: int = 0


def ep04(history: History) -> Judged:
    """Leader epochs rise, and start offsets never fall, from one entry of a cache to the next."""
    known: dict[int, Known] = {}
    process = 0
    for event in history.events:
        if isinstance(event, ProcessStarts):
            process += 1
        if not isinstance(event, LogLine):
            continue
        cache = known.setdefault(event.partition, Known())
        if event.kind in ENTRIES:
            yield _judged(history, event, cache, process), place(event, event)
            if event.kind != "disorder":
                cache.last, cache.process = event, process
        elif event.kind not in UNTOLD:
            cache.last = None
    yield from _checkpoints(history)


def _judged(history: History, event: LogLine, cache: Known, process: int) -> str:
    last = cache.last
    if event.kind == "disorder":
        return VIOLATION
    if event.kind == "conflict" or last is None:
        return PASS
    same = (event.epoch, event.offset) == (last.epoch, last.offset)
    if last.kind == "conflict" and same and event.entries == last.entries + 1:
        return PASS  # since 2.7 both lines are about the one entry
    if event.epoch > last.epoch and event.offset >= last.offset:
        return PASS
    if _moves(history, event):
        return UNVERIFIABLE
    if event.entries <= last.entries:
        return PASS
    return UNVERIFIABLE if cache.process != process else VIOLATION


def _moves(history: History, event: LogLine) -> bool:
    """The replica moves between log directories: its two caches write the same lines."""
    steps = [
        one.kind
        for one in history.events
        if isinstance(one, LogLine) and one.name == event.name and one.id < event.id
        and one.kind in ("future created", "future promoted", "deleted")
    ]  # fmt: skip
    return bool(steps) and steps[-1] == "future created"


def _checkpoints(history: History) -> Judged:
    before: dict[str, CheckpointEntry] = {}
    for event in history.events:
        if not isinstance(event, CheckpointEntry):
            continue
        last = before.get(event.folder)
        before[event.folder] = event
        rises = last is None or (event.epoch > last.epoch and event.offset >= last.offset)
        yield (PASS if rises else VIOLATION), place(event, event)
