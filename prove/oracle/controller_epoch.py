"""Oracle of the rules of controller epochs."""

from __future__ import annotations

from prove.history import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, Control, Decision, Elected, History, State
from prove.oracle.broker_memory import controls
from prove.oracle.topics_of_name import had_several_topics
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


def judged_controller_epoch(history: History, *apis: str) -> Judged:
    for event, memory in controls(history, *apis):
        if event.error_code == 77:
            continue
        known = memory.controller_epoch
        if known is None:
            yield UNVERIFIABLE, place(event)
        elif event.controller_epoch < known:
            yield (FENCED if event.error_code == 11 else VIOLATION), place(event)
        else:
            yield (UNVERIFIABLE if event.error_code == 11 else PASS), place(event)


def ce01(history: History) -> Judged:
    """A LeaderAndIsr or StopReplica of an older controller epoch than accepted before is refused with 11."""
    return judged_controller_epoch(history, LEADER_AND_ISR, STOP_REPLICA)


def ce03(history: History) -> Judged:
    """No partition state is of a newer controller than the one that sends it."""
    for event, _ in controls(history, LEADER_AND_ISR, UPDATE_METADATA):
        if event.error_code:
            continue
        for state in event.partitions:
            assert isinstance(state, State)
            newer = state.controller_epoch > event.controller_epoch
            yield (VIOLATION if newer else PASS), place(event, state)


def ce02(history: History) -> Judged:
    """A controller epoch has one controller. Two hosts must have stated something of it."""
    controllers: dict[int, set[int]] = {}
    hosts: dict[int, set[int]] = {}
    for event in history.events:
        if isinstance(event, Elected | Decision):
            controller = event.node
        elif isinstance(event, Control) and not event.error_code:
            controller = event.controller_id
        else:
            continue
        controllers.setdefault(event.controller_epoch, set()).add(controller)
        hosts.setdefault(event.controller_epoch, set()).add(event.node)
    for epoch, named in controllers.items():
        if len(named) > 1:
            yield VIOLATION, ()
        else:
            yield (PASS if len(hosts[epoch]) > 1 else UNVERIFIABLE), ()


def ce04(history: History) -> Judged:
    """Each controller epoch whose last report of a partition is above the first one of the next counts as one pass."""
    decisions = [event for event in history.events if isinstance(event, Decision) and event.state is not None]
    last = {(event.state.name, event.controller_epoch): event for event in decisions if event.state is not None}
    for event in last.values():
        assert event.state is not None
        later = [
            one
            for one in decisions
            if one.state is not None
            and one.state.name == event.state.name
            and one.controller_epoch > event.controller_epoch
        ]
        if not later:
            continue
        first = min(later, key=lambda one: one.controller_epoch).state
        assert first is not None
        if 0 < first.partition_epoch < event.state.partition_epoch:
            several = had_several_topics(history, event.state.topic)
            yield (UNVERIFIABLE if several else PASS), place(event, event.state)
