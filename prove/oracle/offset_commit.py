"""Oracle of the rules of committed offsets."""

from __future__ import annotations

from collections import defaultdict

from prove.history import NO_LEADER, OFFSET_COMMIT, Decision, GroupOffset, History, MetadataAnswer
from prove.oracle.lineage import CLEAN, epochs
from prove.oracle.metadata_image import changes
from prove.oracle.replication import starts
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

LATE_MS = 500
SETTLED_MS = 30_000

Committer = tuple[int, str, int, str, int]
"""(coordinator, group, partition, client id, committed leader epoch)."""


def commits(history: History) -> dict[Committer, list[GroupOffset]]:
    """The accepted commits of versions that have a leader epoch."""
    found: dict[Committer, list[GroupOffset]] = defaultdict(list)
    for event in history.events:
        if isinstance(event, GroupOffset) and event.api == OFFSET_COMMIT and event.leader_epoch is not None:
            found[event.node, event.group_id, event.partition, event.client_id, event.leader_epoch].append(event)
    return found


def co01(history: History) -> Judged:
    """A committed leader epoch has existed."""
    begun = starts(history)
    stated: dict[int, set[int]] = defaultdict(set)
    for change in changes(history):
        stated[change.after.number].add(change.after.leader_epoch)
    for event in history.events:
        if isinstance(event, Decision) and event.state is not None:
            stated[event.state.partition].add(event.state.leader_epoch)
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for event in history.events:
        if isinstance(event, MetadataAnswer):
            for number, _, epoch, _, _ in event.partitions:
                stated[number].add(epoch)
                last[event.node, number] = event.arrived, epoch
    for (node, _, partition, _, epoch), events in commits(history).items():
        if epoch < 0:
            continue
        key = place(events[-1], events[-1])
        if epoch <= max(stated[partition]):
            yield PASS, key
            continue
        arrived, answered = last.get((node, partition), (0, epoch))
        settled = arrived > events[-1].at + SETTLED_MS
        yield (VIOLATION if settled and answered < epoch and (partition, answered) in begun else UNVERIFIABLE), key


def co03(history: History) -> Judged:
    """A group does not commit a higher offset in an older leader epoch than before."""
    begun = starts(history)
    found = commits(history)
    lineage = list(epochs(history))
    for (node, group, partition, _, epoch), events in found.items():
        if epoch < 0:
            continue
        last = events[-1]
        before = [
            (of, others[0].offset)
            for (coordinator, its_group, number, _, of), others in found.items()
            if (coordinator, its_group, number) == (node, group, partition)
            and of > epoch and others[0].offset < last.offset and others[0].at + LATE_MS < last.arrived
        ]  # fmt: skip
        if not before:
            yield PASS, place(last, last)
            continue
        newer, offset = max(before)
        start = begun.get((partition, newer))
        unclean = any(
            one.partition == partition and epoch < one.leader_epoch and one.leader != NO_LEADER
            and one.election != CLEAN
            for one in lineage
        )  # fmt: skip
        if start is None or start >= offset:
            yield UNVERIFIABLE, place(last, last)
        else:
            yield (EXPOSED if unclean else VIOLATION), place(last, last)


def co05(history: History) -> Judged:
    """Commits without a leader epoch are counted."""
    for key, events in commits(history).items():
        if key[-1] < 0:
            yield PASS, place(events[-1], events[-1])
