"""Oracle of the rules of StopReplica."""

from __future__ import annotations

from collections.abc import Iterator

from prove.history import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    STOP_REPLICA,
    Control,
    History,
    Stop,
    TopicPartition,
    since,
)
from prove.oracle.broker_memory import Memory, controls, partitions
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


def sr01(history: History) -> Judged:
    """A StopReplica with an older leader epoch is refused with 74."""
    for event, memory in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            if stop.leader_epoch < 0:
                continue
            held = memory.held.get(stop.name)
            if stop.name in memory.deleted:
                yield (PASS if code == 0 else UNVERIFIABLE), place(event, stop)
            elif held is None:
                yield UNVERIFIABLE, place(event, stop)
            elif stop.leader_epoch < held:
                yield {74: FENCED}.get(code, VIOLATION), place(event, stop)
            elif stop.leader_epoch > held:
                yield (PASS if code == 0 else VIOLATION), place(event, stop)


def sr02(history: History) -> Judged:
    """A StopReplica at the current leader epoch is refused from 2.6.0 to 3.4.0, and accepted from 3.4.1 on."""
    for event, memory in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            if stop.leader_epoch >= 0 and memory.held.get(stop.name) == stop.leader_epoch and code in (0, 74):
                refuses = memory.version < "3.4.1"
                right = FENCED if refuses else PASS
                wrong = UNVERIFIABLE if code == 74 and _may_hold_a_newer_one(memory, stop) else VIOLATION
                yield (right if (code == 74) == refuses else wrong), place(event, stop)


def _may_hold_a_newer_one(memory: Memory, stop: Stop) -> bool:
    """Since 3.6 a follower takes over an accepted epoch before it writes the line, which then may be missing."""
    return since(memory.version, 3, 6) and memory.accepted.get(stop.name, -1) > stop.leader_epoch


def sr05(history: History) -> Judged:
    """A partition of a StopReplica is answered 0, 56, 74 in leader epochs, or what failed when it was deleted."""
    for event, memory in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            unexpected = code == -1 and stop.delete and since(memory.version, 2, 7)
            if code in (0, 56) or (code == 74 and event.version >= 3) or unexpected:
                verdict = PASS
            elif code not in (11, 74) and stop.delete and stop.leader_epoch == EPOCH_DURING_DELETE:
                verdict = UNVERIFIABLE if since(memory.version, 3, 6) else VIOLATION
            else:
                verdict = VIOLATION
            yield verdict, place(event, stop)


def sr08(history: History) -> Judged:
    """Each accepted StopReplica above all leader epochs that the broker had accepted counts as one pass."""
    for event, _ in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            if code or stop.leader_epoch < 0:
                continue
            accepted = [*_leader_epochs(history, event.node, stop.name)]
            if any(epoch >= stop.leader_epoch for _, epoch in accepted):
                continue
            yield (PASS if any(id > event.id for id, _ in accepted) else UNVERIFIABLE), place(event, stop)


def _leader_epochs(history: History, node: int, name: TopicPartition) -> Iterator[tuple[int, int]]:
    """(event's id, leader epoch) of all requests about a partition that a broker accepted."""
    for event in history.of(node):
        if isinstance(event, Control) and not event.error_code and event.api != STOP_REPLICA:
            codes = event.codes or tuple(0 for _ in event.partitions)
            for state, code in zip(event.partitions, codes, strict=True):
                if state.name == name and code == 0 and getattr(state, "leader", None) != LEADER_DURING_DELETE:
                    yield event.id, state.leader_epoch
