"""Oracle of the rules of share groups' states.

Requests are counted once per coordinator, group, partition, kind, epochs, error code and what the coordinator knew: the first one is the
subject.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prove.coordination import DELETE, INITIALIZE, READ, WRITE, SharesState
from prove.history import History
from prove.oracle.coordinator_log import SECOND_MS, Order, before, breach, may_have_returned, seems_before
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, Judged, at

SHARE_GROUP_STATE = "__share_group_state"
FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH = 74, 124
WITHOUT_EFFECT = (FENCED_STATE_EPOCH, 14, 16)


@dataclass(frozen=True)
class _Known:
    """What a coordinator had answered about a state. read, initialized: the newest answer that binds a request, None if there is none."""

    read: SharesState | None
    initialized: SharesState | None
    recorded: bool
    deleted_elsewhere: bool
    initialized_elsewhere: bool


def _epoch(event: SharesState) -> int:
    """The state epoch of a request, or of the answer to a read."""
    return event.answered_epoch if event.api == READ else event.state_epoch


def _known(event: SharesState, of_state: list[SharesState], order: Order = before) -> _Known:
    own = [one for one in of_state if one.node == event.node]
    changes = [one for one in of_state if one.api in (DELETE, INITIALIZE) and one.error_code not in WITHOUT_EFFECT]

    def undone(since: SharesState, change: SharesState) -> bool:
        return change.node == event.node and change.at + SECOND_MS > since.arrived and change.arrived < event.at

    reads = [
        one for one in own
        if one.api == READ and not one.error_code and one.leader_epoch > event.leader_epoch and order(one, event.arrived)
        and not any(undone(one, change) for change in changes)
    ]  # fmt: skip
    states = [
        one for one in own
        if one.api == INITIALIZE and not one.error_code and one.state_epoch > _epoch(event) and order(one, event.arrived)
        and not any(undone(one, change) for change in changes if change.api == DELETE or change.state_epoch < 0)
    ]  # fmt: skip
    if event.api == READ and event.error_code:
        states = []
    read = max(reads, key=lambda one: (one.leader_epoch, one.answered_epoch), default=None)
    elsewhere = [one for one in changes if one.node != event.node]
    return _Known(
        read if event.api in (READ, WRITE) else None, max(states, key=lambda one: one.state_epoch, default=None),
        any(one.api in (READ, INITIALIZE) and not one.error_code and one.at < event.arrived for one in own),
        any(one.api == DELETE for one in elsewhere),
        read is not None and any(one.state_epoch > read.answered_epoch for one in elsewhere if one.api == INITIALIZE),
    )  # fmt: skip


@dataclass(frozen=True)
class _Just:
    """A newer answer binds an accepted request only if no line was written late."""

    read: bool
    initialized: bool


def _first_ones(history: History) -> Iterator[tuple[SharesState, _Known, _Just]]:
    events = [event for event in history.events if isinstance(event, SharesState)]
    seen = set()
    for event in sorted(events, key=lambda one: one.at):
        if event.api == DELETE:
            continue
        of_state = [one for one in events if (one.group_id, one.partition) == (event.group_id, event.partition)]
        known = _known(event, of_state)
        perhaps = _known(event, of_state, seems_before)
        just = _Just(
            not event.error_code and known.read is None and perhaps.read is not None,
            not event.error_code and known.initialized is None and perhaps.initialized is not None,
        )
        epoch = None if event.api == READ and event.error_code else _epoch(event)
        leader_epoch = event.leader_epoch if event.api in (READ, WRITE) else None
        kind = (
            event.node, event.group_id, event.partition, event.api, leader_epoch, epoch, event.error_code,
            known.read is not None, known.initialized is not None, known.recorded, just,
        )  # fmt: skip
        if kind not in seen:
            seen.add(kind)
            yield event, known, just


def sh01(history: History) -> Judged:
    """Once a newer leader has read a state, requests of an older one are refused."""
    for event, known, just in _first_ones(history):
        key = at(event, None, event.partition)
        if event.api == INITIALIZE or event.leader_epoch < 0:
            continue
        if event.error_code == FENCED_LEADER_EPOCH:
            yield FENCED, key
        elif event.error_code == 0 and known.read is not None:
            elsewhere = known.deleted_elsewhere or known.initialized_elsewhere
            unsure = elsewhere or may_have_returned(history, SHARE_GROUP_STATE, known.read, event)
            yield (UNVERIFIABLE if unsure else breach(history, SHARE_GROUP_STATE)), key
        elif event.error_code == 0:
            yield (PASS if known.recorded and not just.read else UNVERIFIABLE), key


def sh02(history: History) -> Judged:
    """Once a state was initialized in a newer state epoch, older ones are refused, and not returned."""
    for event, known, just in _first_ones(history):
        key = at(event, None, event.partition)
        if event.error_code == 0 and _epoch(event) < 0:
            continue
        if event.error_code == FENCED_STATE_EPOCH and event.api != READ:
            yield FENCED, key
        elif event.error_code == 0 and known.initialized is not None:
            unsure = known.deleted_elsewhere or may_have_returned(history, SHARE_GROUP_STATE, known.initialized, event)
            yield (UNVERIFIABLE if unsure else breach(history, SHARE_GROUP_STATE)), key
        elif event.error_code == 0:
            yield (PASS if known.recorded and not just.initialized else UNVERIFIABLE), key
