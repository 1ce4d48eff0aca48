"""Oracle of the rules of controller epochs."""

from __future__ import annotations

from prove.history import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, History, State
from prove.oracle.broker_memory import controls
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
