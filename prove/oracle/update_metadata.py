"""Oracle of the rules of UpdateMetadata."""

from __future__ import annotations

from prove.history import (
    LEADER_DURING_DELETE,
    UPDATE_METADATA,
    Control,
    History,
    ProcessStarts,
    State,
    TopicPartition,
)
from prove.oracle.controller_epoch import judged_controller_epoch
from prove.oracle.topics_of_name import identity_at, is_deleted
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, Judged, place


def um01(history: History) -> Judged:
    """The same for UpdateMetadata."""
    return judged_controller_epoch(history, UPDATE_METADATA)


def um02(history: History) -> Judged:
    """Under one topic id the leader epoch of a metadata cache does not fall, and no deleted topic replaces its successor."""
    for node in history.nodes:
        cached: dict[TopicPartition, tuple[int, State]] = {}
        deleted: set[tuple[TopicPartition, str]] = set()
        published: set[tuple[TopicPartition, str]] = set()
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                cached = {}
            if not isinstance(event, Control) or event.api != UPDATE_METADATA or event.error_code:
                continue
            for state in event.partitions:
                assert isinstance(state, State)
                former = cached.get(state.name)
                verdict = _came_back(former, state, deleted, published)
                if state.leader != LEADER_DURING_DELETE:
                    yield verdict or _fell(history, former, event, state), place(event, state)
                elif verdict == EXPOSED:
                    yield verdict, place(event, state)
                if state.topic_id is not None:
                    published.add((state.name, state.topic_id))
                    if state.leader == LEADER_DURING_DELETE:
                        deleted.add((state.name, state.topic_id))
                cached[state.name] = event.id, state


def _came_back(
    cached: tuple[int, State] | None,
    state: State,
    deleted: set[tuple[TopicPartition, str]],
    published: set[tuple[TopicPartition, str]],
) -> str:
    """Of a topic id that the broker had before the one that it has; empty for other states."""
    if cached is None or cached[1].leader == LEADER_DURING_DELETE or None in (cached[1].topic_id, state.topic_id):
        return ""
    former, own = (state.name, cached[1].topic_id or ""), (state.name, state.topic_id or "")
    if own == former or own not in published or former in deleted:
        return ""
    return EXPOSED if own in deleted else UNVERIFIABLE


def _fell(history: History, cached: tuple[int, State] | None, event: Control, state: State) -> str:
    if cached is None or cached[1].leader == LEADER_DURING_DELETE or cached[1].topic_id != state.topic_id:
        return PASS
    id, before = cached
    if state.leader_epoch >= before.leader_epoch:
        return PASS
    if state.topic_id is not None:
        return EXPOSED
    topics = [identity_at(history, event.node, one + 1, state.topic) for one in (id, event.id)]
    if None in topics:
        return UNVERIFIABLE if is_deleted(history, event.node, id, before) else EXPOSED
    return EXPOSED if topics[0] == topics[1] else PASS
