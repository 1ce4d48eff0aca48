"""Which topic a name stands for, at a broker and at a time: by topic id, or before 2.8 by the deletions that the broker received.

Without ids, two brokers' topics of a name are distinguished by their ordinal, if each had as many as controllers created.
"""

from __future__ import annotations

from collections.abc import Iterator

from prove.history import LEADER_DURING_DELETE, STOP_REPLICA, Control, Decision, History, State

Identity = tuple[str, object]


def stated(history: History, node: int | None = None) -> Iterator[tuple[Control, State]]:
    """(request, state) of each partition in the requests of controllers that brokers accepted."""
    for event in history.events:
        if (
            isinstance(event, Control)
            and event.api != STOP_REPLICA
            and not event.error_code
            and node in (None, event.node)
        ):
            codes = event.codes or (0,) * len(event.partitions)
            for state, code in zip(event.partitions, codes, strict=True):
                if code == 0 and isinstance(state, State):
                    yield event, state


def created(history: History, topic: str) -> int:
    """How often controllers created a partition of the name, at most."""
    names = [
        event.state.name
        for event in history.events
        if isinstance(event, Decision) and event.state is not None and event.state.topic == topic
        if (event.state.leader_epoch, event.state.partition_epoch) == (0, 0)
    ]
    return max((names.count(name) for name in names), default=0)


def had_several_topics(history: History, topic: str) -> bool:
    """The name stood for several topics: it had several ids, or a controller created a partition of it twice."""
    names: dict[str, str] = {}
    for _, state in stated(history):
        if state.topic_id:  # an id of two topics is evidence about one of them
            names[state.topic_id] = min(state.topic, names.get(state.topic_id, state.topic))
    return [*names.values()].count(topic) > 1 or created(history, topic) > 1


def identity_at(history: History, node: int, before: int, topic: str) -> Identity | None:
    """The topic of a name without ids at a broker before an event: its ordinal.

    None: the broker missed one, or got a late request about one that was deleted.
    """
    count, known, deleted = 0, 0, True
    for request, state in stated(history, node):
        if state.topic != topic:
            continue
        if state.leader == LEADER_DURING_DELETE:
            deleted = True
        elif (state.leader_epoch, state.partition_epoch) == (0, 0) and deleted:
            count, deleted = count + 1, False
        elif deleted:
            return None
        if request.id < before:
            known = count
    return (topic, known) if count == created(history, topic) else None


def is_deleted(history: History, node: int, request: int, state: State) -> bool:
    """Some broker received that the topic of a state is being deleted: the state of a broker's request."""
    own = (state.topic_id, None) if state.topic_id else identity_at(history, node, request + 1, state.topic)
    for received, other in stated(history):
        if other.leader != LEADER_DURING_DELETE:
            continue
        if state.topic_id:
            if other.topic_id == state.topic_id:
                return True
        elif other.topic == state.topic:
            one = identity_at(history, received.node, received.id + 1, state.topic)
            if own is None or one is None or one == own:
                return True
    return False
