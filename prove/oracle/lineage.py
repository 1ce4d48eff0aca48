"""The leader epochs of a partition: who was elected, how, and where the epoch starts in the leader's log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prove.history import NO_LEADER, History, Started
from prove.oracle.metadata_image import changes
from prove.oracle.replication import starts
from prove.oracle.verdicts import since

CLEAN = "clean"
UNCLEAN = "unclean"


@dataclass(frozen=True)
class Epoch:
    """A leader epoch after the first. isr: of the state before. start: None if no line states it.

    never_begun: its leader began a later epoch straight after an earlier one.
    """

    partition: int
    topic: str
    leader_epoch: int
    leader: int
    isr: tuple[int, ...]
    start: int | None
    never_begun: bool

    @property
    def election(self) -> str:
        """Clean: the leader was a member of the ISR."""
        return CLEAN if self.leader in self.isr else UNCLEAN


def epochs(history: History) -> Iterator[Epoch]:
    """The leader epochs that records begin, without the first of each partition."""
    begun = starts(history)
    for change in changes(history):
        before, after = change.before, change.after
        if before is None or after.leader_epoch == before.leader_epoch:
            continue
        key = after.number, after.leader_epoch
        start = begun.get(key)
        never = start is None and after.leader != NO_LEADER and _never_begun(history, after.leader, *key)
        yield Epoch(after.number, after.topic, after.leader_epoch, after.leader, tuple(before.isr), start, never)


def _never_begun(history: History, leader: int, partition: int, epoch: int) -> bool:
    """Whether a line of the leader names an earlier epoch as the one before a later one."""
    old = not since(history.release.version, 3, 6)  # later ones print of a follower what it has just assigned
    return any(
        -1 < event.start.previous_epoch < epoch < event.start.leader_epoch
        for event in history.of(leader)
        if isinstance(event, Started) and event.start is not None and event.start.partition == partition
        and (event.start.leads or old)
    )  # fmt: skip


def unknown_between(all_epochs: list[Epoch], partition: int, low: int, high: int) -> bool:
    """Whether an epoch between two others may have begun, with a leader, and no line states where."""
    return any(
        one.partition == partition
        and low < one.leader_epoch < high
        and one.start is None
        and one.leader != NO_LEADER
        and not one.never_begun
        for one in all_epochs
    )


def lowest_start_between(all_epochs: list[Epoch], partition: int, low: int, high: int) -> int | None:
    """The lowest start of the epochs between two others: what was committed above is no longer in the log. None: nothing was removed."""
    found = [
        one.start
        for one in all_epochs
        if one.partition == partition and low < one.leader_epoch < high and one.start is not None
    ]
    return min(found, default=None)
