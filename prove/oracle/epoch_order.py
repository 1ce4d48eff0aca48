"""Oracle of the rules of the order of epochs."""

from __future__ import annotations

from prove.history import History, Record
from prove.oracle.metadata_image import NO_BUMP_ON_SHRINK, changes, of_change, records
from prove.oracle.verdicts import PASS, VIOLATION, Judged, place


def ep01(history: History) -> Judged:
    """The leader epoch of a topic id does not fall."""
    for change in changes(history):
        fell = change.before is not None and change.after.leader_epoch < change.before.leader_epoch
        yield (VIOLATION if fell else PASS), of_change(change)


def ep02(history: History) -> Judged:
    """The partition epoch of a topic id does not fall."""
    for change in changes(history):
        before, after = change.before, change.after
        fell = before is not None and (
            after.partition_epoch < before.partition_epoch
            or (after.partition_epoch == before.partition_epoch and after.leader_epoch != before.leader_epoch)
        )
        yield (VIOLATION if fell else PASS), of_change(change)


def ep03(history: History) -> Judged:
    """The leader epoch rises if and only if the leader changes, a replica leaves, or, below 3.6, the ISR shrinks."""
    for change in changes(history):
        before, after = change.before, change.after
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None:
            continue
        shrinks = not set(before.isr) <= set(after.isr)
        removes = not set(before.replicas) <= set(after.replicas)
        old = change.image.metadata_version < NO_BUMP_ON_SHRINK
        reason = after.leader != before.leader or removes or (shrinks and old)
        yield (PASS if reason == (after.leader_epoch > before.leader_epoch) else VIOLATION), of_change(change)


def ep05(history: History) -> Judged:
    """The offsets of the metadata log are consecutive, and the epoch of its quorum does not fall."""
    before: Record | None = None
    for record in records(history):
        follows = before is None or (record.offset == before.offset + 1 and record.epoch >= before.epoch)
        yield (PASS if follows else VIOLATION), place(record)
        before = record
