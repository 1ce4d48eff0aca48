"""The leader epochs of a partition: who was elected, how, and where the epoch starts in the leader's log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prove.history import NO_LEADER, Decision, History, State
from prove.oracle.metadata_image import changes
from prove.oracle.replication import PartitionEpoch, starts, starts_of, states_epoch_before

CLEAN = "clean"
UNCLEAN = "unclean"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Epoch:
    """A leader epoch after the first. isr: of the state before. start: None if no line states it.

    never_begun: its leader began a later epoch straight after an earlier one. known: the state just before is recorded. goes_on: its
    leader had led the epoch directly before, and so was a member of the ISR.
    """

    partition: int
    topic: str
    leader_epoch: int
    leader: int
    isr: tuple[int, ...]
    start: int | None
    never_begun: bool
    known: bool = True
    goes_on: bool = False

    @property
    def election(self) -> str:
        """Clean: the leader was a member of the ISR just before."""
        if not self.known:
            return UNKNOWN
        return CLEAN if self.leader in self.isr else UNCLEAN

    @property
    def from_isr(self) -> bool:
        """The leader is known to have been a member of the ISR just before."""
        return self.election == CLEAN or (not self.known and self.goes_on)


def epochs(history: History) -> Iterator[Epoch]:
    """The leader epochs that controllers begin, without the first of each partition."""
    begun = starts(history)
    yield from _decided(history, begun)
    for change in changes(history):
        before, after = change.before, change.after
        if before is None or after.leader_epoch == before.leader_epoch:
            continue
        key = after.number, after.leader_epoch
        start = begun.get(key)
        never = start is None and after.leader != NO_LEADER and _never_begun(history, after.leader, *key)
        yield Epoch(after.number, after.topic, after.leader_epoch, after.leader, tuple(before.isr), start, never)


def _decided(history: History, begun: dict[PartitionEpoch, int]) -> Iterator[Epoch]:
    """ZooKeeper: what controllers decided. Leaders change the ISR in between, and raise the partition epoch: no log shows their ISRs."""
    before: dict[int, State] = {}
    for event in history.events:
        if not isinstance(event, Decision) or event.state is None:
            continue
        state = event.state
        last = before.get(state.partition)
        before[state.partition] = state
        if last is None or state.leader_epoch == last.leader_epoch:
            continue
        key = state.partition, state.leader_epoch
        start = begun.get(key)
        never = start is None and state.leader != NO_LEADER and _never_begun(history, state.leader, *key)
        adjacent = state.partition_epoch == last.partition_epoch + 1
        goes_on = state.leader == last.leader != NO_LEADER and state.leader_epoch == last.leader_epoch + 1
        yield Epoch(
            state.partition, state.topic, state.leader_epoch, state.leader, last.isr, start, never, adjacent, goes_on
        )


def _never_begun(history: History, leader: int, partition: int, epoch: int) -> bool:
    """Whether a line of the leader names an earlier epoch as the one before a later one."""
    return any(
        -1 < start.previous_epoch < epoch < start.leader_epoch
        and start.partition == partition
        and states_epoch_before(start, history)
        for event in history.of(leader)
        for start in starts_of(event)
    )


def leaders(history: History) -> dict[PartitionEpoch, int]:
    """Who was elected in each leader epoch; -1: nobody."""
    found = {(change.after.number, change.after.leader_epoch): change.after.leader for change in changes(history)}
    for event in history.events:
        if isinstance(event, Decision) and event.state is not None:
            found[event.state.partition, event.state.leader_epoch] = event.state.leader
    return found


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
