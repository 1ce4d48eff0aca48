"""Oracle of the rules of topic ids."""

from __future__ import annotations

from typing import Any

from prove.history import (
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    Decision,
    Elected,
    History,
    Started,
)
from prove.oracle.broker_memory import controls, partitions
from prove.oracle.metadata_image import asked, changes, of_change, records
from prove.oracle.topics_of_name import identity_at, stated
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


def ti01(history: History) -> Judged:
    """A LeaderAndIsr with another topic id than the replica's is refused with 103."""
    for event, memory in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            if state.topic_id is None or code == 56:
                continue
            known = memory.ids.get(state.name)
            if known is None:
                certain = state.name in memory.ids or state.is_new
                yield (VIOLATION if code == 103 else PASS if certain else UNVERIFIABLE), place(event, state)
            elif known == state.topic_id:
                yield (VIOLATION if code == 103 else PASS), place(event, state)
            else:
                yield (FENCED if code == 103 else VIOLATION), place(event, state)


def ti03(history: History) -> Judged:
    """An ISR change for a topic that no longer exists is refused with 100."""
    for one in asked(history):
        if one.request.partition_error == UNKNOWN_TOPIC_ID:
            yield FENCED, one.subject
        elif one.request.partition_error == 0:
            yield (VIOLATION if one.partition is None else PASS), one.subject


def ti04(history: History) -> Judged:
    """A name gets another topic id only after its topic was deleted."""
    living: dict[str, str] = {}
    for record in records(history):
        data: Any = record.data
        if record.kind == "REMOVE_TOPIC_RECORD":
            living = {name: topic_id for name, topic_id in living.items() if topic_id != data["topicId"]}
        elif record.kind == "TOPIC_RECORD":
            yield (VIOLATION if data["name"] in living else PASS), (data["topicId"],)
            living[data["name"]] = data["topicId"]


def ti05(history: History) -> Judged:
    """An id is of one topic."""
    names: dict[str, set[str]] = {}
    twice: set[str] = set()
    removed: set[str] = set()
    for _, state in stated(history):
        if state.topic_id:
            names.setdefault(state.topic_id, set()).add(state.topic)
    for event in history.events:
        if isinstance(event, Started) and event.start is not None and event.start.topic_id:
            names.setdefault(event.start.topic_id, set()).add(event.start.topic)
    for record in records(history):
        data: Any = record.data
        if record.kind == "REMOVE_TOPIC_RECORD":
            removed.add(data["topicId"])
        elif record.kind == "TOPIC_RECORD":
            names.setdefault(data["topicId"], set()).add(data["name"])
            twice |= {data["topicId"]} & removed
    for topic_id, of_id in names.items():
        yield (VIOLATION if len(of_id) > 1 or topic_id in twice else PASS), (topic_id,)


def ti06(history: History) -> Judged:
    """Leader epoch 0 with partition epoch 0 comes once for a topic id."""
    for change in changes(history):
        if change.record.kind == "PARTITION_RECORD":
            before = change.before
            again = before is not None and (before.leader_epoch, before.partition_epoch) != (0, 0)
            yield (VIOLATION if again else PASS), of_change(change)
    decisions = [event for event in history.events if isinstance(event, Decision) and event.state is not None]
    for n, event in enumerate(decisions):
        state = event.state
        assert state is not None
        if (state.leader_epoch, state.partition_epoch) != (0, 0):
            continue
        earlier = [one for one in decisions[:n] if one.state is not None and one.state.name == state.name]
        before = earlier[-1].state if earlier else None
        if before is None or (before.leader_epoch, before.partition_epoch) == (0, 0):
            yield PASS, place(event, state)
        else:
            yield _begun_again(history, earlier[-1], event), place(event, state)


def _begun_again(history: History, before: Decision, event: Decision) -> str:
    """What the controller's own broker is told between the two states, and from a second after the second one."""
    assert event.state is not None
    told = [(request, one) for request, one in stated(history, event.node) if one.topic == event.state.topic]
    since = before.id
    if before.node != event.node:
        elected = (one.id for one in history.of(event.node) if isinstance(one, Elected) and one.id < event.id)
        since = max(elected)
    former = {one.topic_id for request, one in told if request.id < since}
    latter = [(request, one.topic_id) for request, one in told if request.id > since]
    if any(topic_id not in former for _, topic_id in latter if topic_id):
        return PASS
    if not any(topic_id for _, topic_id in latter):
        ordinals = [identity_at(history, event.node, id, event.state.topic) for id in (since, len(history.events))]
        if None not in ordinals and ordinals[0] != ordinals[1]:
            return PASS
    if any(since < request.id < event.id and one.leader == LEADER_DURING_DELETE for request, one in told):
        return PASS
    same = any(topic_id and request.at > event.at + IN_FLIGHT_MS for request, topic_id in latter)
    return VIOLATION if same and before.node == event.node else UNVERIFIABLE


UNKNOWN_TOPIC_ID = 100
IN_FLIGHT_MS = 1000
"""So long after a new state, requests about the one before may still arrive."""
