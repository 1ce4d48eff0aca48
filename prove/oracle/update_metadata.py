"""Oracle of the rules of UpdateMetadata."""

from __future__ import annotations

from prove.history import LEADER_DURING_DELETE, UPDATE_METADATA, History, State
from prove.oracle.broker_memory import controls
from prove.oracle.controller_epoch import judged_controller_epoch
from prove.oracle.verdicts import EXPOSED, PASS, Judged, place


def um01(history: History) -> Judged:
    """The same for UpdateMetadata."""
    return judged_controller_epoch(history, UPDATE_METADATA)


def um02(history: History) -> Judged:
    """Under one topic id the leader epoch of a metadata cache does not fall."""
    for event, memory in controls(history, UPDATE_METADATA):
        if event.error_code:
            continue
        for state in event.partitions:
            assert isinstance(state, State)
            if state.leader == LEADER_DURING_DELETE:
                continue
            before = memory.published.get(state.name)
            if before is None or before.leader == LEADER_DURING_DELETE or before.topic_id != state.topic_id:
                yield PASS, place(event, state)
            else:
                yield (EXPOSED if state.leader_epoch < before.leader_epoch else PASS), place(event, state)
