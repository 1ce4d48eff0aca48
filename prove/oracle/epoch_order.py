"""Oracle of the rules of the order of epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prove.history import CopiedRecord, History, Record
from prove.oracle.metadata_image import NO_BUMP_ON_SHRINK, changes, of_change, records
from prove.oracle.verdicts import PASS, VIOLATION, Judged


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
    """The offsets of each copy of the metadata log are consecutive, and the epoch of its quorum does not fall."""
    logs: list[Sequence[Record]] = [records(history), *copies(history)]
    for log in logs:
        before: Record | None = None
        for record in log:
            follows = before is None or (record.offset == before.offset + 1 and record.epoch >= before.epoch)
            original = record.original if isinstance(record, CopiedRecord) else record.id
            yield (PASS if follows else VIOLATION), (record.id if original < 0 else original, None, None)
            before = record


def copies(history: History) -> list[list[CopiedRecord]]:
    """Other nodes' copies of the metadata log. One that is byte for byte its beginning is the same file once more."""
    log = {record.id: record.data for record in records(history)}
    copied = [event for event in history.events if isinstance(event, CopiedRecord)]
    by_node = [[record for record in copied if record.node == node] for node in history.nodes]
    return [one for one in by_node if any(record.data != log.get(record.original) for record in one)]


def ep06(history: History) -> Judged:
    """Copies of the metadata log have the same record at an offset of a Raft epoch."""
    log = {record.offset: record for record in records(history)}
    for copied in (record for copy in copies(history) for record in copy):
        record = log.get(copied.offset)
        if record is None:
            continue
        data: Any = record.data
        differs = record.epoch == copied.epoch and (record.kind, record.data) != (copied.kind, copied.data)
        yield (VIOLATION if differs else PASS), (data.get("topicId"), data.get("partitionId"))
