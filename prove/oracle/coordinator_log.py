"""Whether a coordinators' log can have lost records, by the elections of its leaders."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from prove.history import NO_LEADER, Event, History, Start, Started
from prove.oracle.metadata_image import Partition, changes
from prove.oracle.verdicts import EXPOSED, VIOLATION

SECOND_MS = 1000
"""What was logged a second before a request arrived, its coordinator knew."""


def before(earlier: Event, arrived: int) -> bool:
    """Whether the line of an event was written a second before something arrived at the same host."""
    return earlier.at + SECOND_MS < arrived


def seems_before(earlier: Event, arrived: int) -> bool:
    """The same, unless the line was written late."""
    return earlier.at < arrived


Order = Callable[[Event, int], bool]
"""`before` or `seems_before`."""


def breach(history: History, topic: str) -> str:
    """The verdict on a breach that a lost part of the log would explain.

    A violation, if it is known that each recorded leader was elected from an ISR of several, as one of its members, or from the ELR
    after the last member of the ISR had left.
    """
    recorded = [change for change in changes(history) if change.after.topic == topic]
    if not recorded:
        return _breach_by_lines(history, topic)
    for change in recorded:
        elected = change.before is not None and change.before.leader_epoch < change.after.leader_epoch
        if change.before is None or not elected or change.after.leader == NO_LEADER:
            continue
        isr, leader = change.before.isr, change.after.leader
        from_elr = len(isr) < 2 and leader in change.before.elr
        if isr == [leader] or (leader not in isr and not from_elr):
            return EXPOSED
    return VIOLATION


def _breach_by_lines(history: History, topic: str) -> str:
    """The same without the metadata log: by the lines with which leaders began.

    The ISR is known if the states are adjacent. Before a first line of an epoch above 0 another may have led.
    """
    begun = _begun(history, topic)
    if begun and begun[0].leader_epoch > 0:
        return EXPOSED
    for last, start in pairwise(begun):
        adjacent = last.partition_epoch + 1 == start.partition_epoch
        if not adjacent or start.leader not in last.isr or len(last.isr) < 2:
            return EXPOSED
    return VIOLATION if begun else EXPOSED


def _begun(history: History, topic: str) -> list[Start]:
    """The lines with which leaders of a topic with one partition began, by leader epoch."""
    begun = [
        event.start for event in history.events
        if isinstance(event, Started) and event.start is not None and event.start.topic == topic
    ]  # fmt: skip
    return sorted(begun, key=lambda start: start.leader_epoch)


def may_have_returned(history: History, topic: str, earlier: Event, later: Event) -> bool:
    """Whether a broker may have begun to lead the log again between two of its lines, after another led it.

    What it coordinates may be another's work since. That a broker begins to lead, its own line states; if that is missing, it is not
    known when.
    """
    node = later.node
    elected: list[Partition | Start] = [
        change.after for change in changes(history) if change.after.topic == topic and change.after.leader != NO_LEADER
    ]
    elected = elected or [*_begun(history, topic)]  # without a metadata log
    last = None
    reigns = 0
    for state in elected:
        if state.leader == node != last:
            reigns += 1
            begun = [
                event.at for event in history.of(node)
                if isinstance(event, Started) and event.start is not None and event.start.topic == topic
                and event.start.leader_epoch == state.leader_epoch
            ]  # fmt: skip
            if reigns > 1 and (not begun or earlier.at - SECOND_MS < begun[0] <= later.at):
                return True
        last = state.leader
    return False
