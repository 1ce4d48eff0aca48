"""Oracle of the rules of topic ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prove.history import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    Control,
    Decision,
    History,
    Started,
    State,
)
from prove.oracle.broker_memory import controls, partitions
from prove.oracle.metadata_image import asked, changes, of_change, records
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


def stated(history: History, node: int | None = None) -> Iterator[tuple[int, State]]:
    """(event's id, state) of each partition in the requests of controllers that brokers accepted."""
    for event in history.events:
        if isinstance(event, Control) and event.api != STOP_REPLICA and not event.error_code and node in (None, event.node):
            codes = event.codes or (0,) * len(event.partitions)
            for state, code in zip(event.partitions, codes, strict=True):
                if code == 0 and isinstance(state, State):
                    yield event.id, state


def had_several_topics(history: History, topic: str) -> bool:
    """The name stood for several topics: it had several ids, or none, and a controller created a partition of it twice."""
    names: dict[str, str] = {}
    for _, state in stated(history):
        if state.topic_id:  # an id of two topics is evidence about one of them
            names[state.topic_id] = min(state.topic, names.get(state.topic_id, state.topic))
    created = [
        event.state.name
        for event in history.events
        if isinstance(event, Decision) and event.state is not None and event.state.topic == topic
        if (event.state.leader_epoch, event.state.partition_epoch) == (0, 0)
    ]
    return [*names.values()].count(topic) > 1 or (not names and len(created) > len({*created}))


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
        earlier = [one.state for one in decisions[:n] if one.state is not None and one.state.name == state.name]
        if not earlier or (earlier[-1].leader_epoch, earlier[-1].partition_epoch) == (0, 0):
            yield PASS, place(event, state)
        else:
            yield _begun_again(history, event, state), place(event, state)


def _begun_again(history: History, event: Decision, state: State) -> str:
    """The topic ids that the controller's own broker was told before and after."""
    told = [(id, one) for id, one in stated(history, event.node) if one.topic == state.topic]
    before = [one.topic_id for id, one in told if id < event.id]
    after = [one.topic_id for id, one in told if id > event.id]
    if before and after and before[-1] is not None and before[-1] == after[0]:
        return VIOLATION
    return PASS if had_several_topics(history, state.topic) else UNVERIFIABLE


UNKNOWN_TOPIC_ID = 100
