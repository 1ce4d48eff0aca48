"""Oracle of the rules of logs on disk: the leader epochs of their batches, and of the checkpoint beside them."""

from __future__ import annotations

from prove.history import BatchRun, CheckpointEntry, History
from prove.oracle.verdicts import PASS, UNVERIFIABLE, VIOLATION, Judged, place


def ep08(history: History) -> Judged:
    """A replica's checkpoint has the leader epoch of each batch of its log, from its offset or below."""
    for run in history.events:
        if not isinstance(run, BatchRun):
            continue
        entries = [one for one in history.of(run.node) if isinstance(one, CheckpointEntry) and one.folder == run.folder]
        yield _covered(run, entries), place(run, run)


def _covered(run: BatchRun, entries: list[CheckpointEntry]) -> str:
    if not entries:
        return UNVERIFIABLE
    begins = min(entry.offset for entry in entries)
    own = [entry.offset for entry in entries if entry.epoch == run.epoch]
    if run.last < begins:
        return PASS  # the beginning of the log was removed
    if own:
        return PASS if own[0] <= run.base or own[0] == begins else VIOLATION
    later = [entry.offset for entry in entries if entry.epoch > run.epoch]
    return UNVERIFIABLE if not later or min(later) <= run.base else VIOLATION


def ep09(history: History) -> Judged:
    """Leader epochs never fall along a log."""
    for node in history.nodes:
        highest: dict[str, int] = {}
        for run in history.of(node):
            if isinstance(run, BatchRun):
                falls = run.epoch < highest.get(run.folder, run.epoch)
                yield (VIOLATION if falls else PASS), place(run, run)
                highest[run.folder] = max(run.epoch, highest.get(run.folder, run.epoch))
