"""Oracle of the rules of topic ids."""

from __future__ import annotations

from typing import Any

from prove.history import (
    FETCH,
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    AlterPartition,
    Control,
    Decision,
    Elected,
    History,
    ProcessStarts,
    Query,
    Started,
    TopicPartition,
)
from prove.oracle.broker_memory import controls, partitions
from prove.oracle.fetch import after_deletions
from prove.oracle.leader_epoch_fence import of_query
from prove.oracle.metadata_image import MADE, asked, changes, of_change, records
from prove.oracle.topics_of_name import identity_at, stated
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


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
            elif state.name in memory.uncompared and (code == 103 or known != state.topic_id):
                yield UNVERIFIABLE, place(event, state)
            elif known == state.topic_id:
                yield (VIOLATION if code == 103 else PASS), place(event, state)
            else:
                missing = memory.gaps > memory.ids_at[state.name] or state.name not in memory.named
                accepted = EXPOSED if state.name in memory.unstored else VIOLATION
                yield (FENCED if code == 103 else UNVERIFIABLE if missing else accepted), place(event, state)


def ti02(history: History) -> Judged:
    """A Fetch for the id of a topic that is not the replica's gets no data."""
    deleted = {query.id for query in after_deletions(history)}
    for node in history.nodes:
        held: dict[TopicPartition, tuple[str | None, int]] = {}
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                held = {}
            for start in event.starts if isinstance(event, Control) else ():
                held[start.name] = start.topic_id, event.at
            if not isinstance(event, Query) or event.api != FETCH or event.version < BY_ID or event.topic_id is None:
                continue
            has_replica = held.get(event.name, (None, 0))[0] == event.topic_id
            if event.error_code == INCONSISTENT_TOPIC_ID:
                yield FENCED, of_query(event)
            elif event.error_code == UNKNOWN_TOPIC_ID:
                follows = any(
                    start.name == event.name and start.topic_id == event.topic_id
                    for later in history.of(node)
                    if isinstance(later, Control) and later.id > event.id
                    for start in later.starts
                )
                yield (PASS if has_replica or follows else FENCED), of_query(event)
            elif event.error_code == 0 and event.id in deleted:
                yield UNVERIFIABLE, of_query(event)
            elif event.error_code == 0:
                yield (PASS if has_replica else _by_successor(history, event)), of_query(event)


def _by_successor(history: History, event: Query) -> str:
    """Whether a line shows that another topic of the name had replaced the replica of the requested id."""
    ids = [
        (start.topic_id, control.at)
        for control in history.of(event.node)
        if isinstance(control, Control)
        for start in control.starts
        if start.name == event.name
    ]
    own = [at for topic_id, at in ids if topic_id == event.topic_id]
    since = [at for topic_id, at in ids if topic_id != event.topic_id and own and at > max(own)]
    return VIOLATION if since and min(since) < event.arrived - LATE_MS else UNVERIFIABLE


def ti03(history: History) -> Judged:
    """An ISR change for a topic that no longer exists is refused with 100."""
    requests, log = list(asked(history)), records(history)
    epochs = [log[one.request.decided_at_offset].epoch if _writes(one.request) else None for one in requests]
    for n, one in enumerate(requests):
        if one.request.partition_error == UNKNOWN_TOPIC_ID:
            yield FENCED, one.subject
        elif one.request.partition_error in MADE:
            # the log names no leader of an epoch: records of the controller are those in an epoch in which it wrote for a request
            before, after = (next(filter(None, side), None) for side in (reversed(epochs[:n]), epochs[n + 1 :]))
            of_controller = [record for record in log if record.epoch in (before, epochs[n], after)]
            covered = any(record.at > one.request.at for record in of_controller)
            yield (
                (VIOLATION if one.partition is None else PASS if _writes(one.request) or covered else UNVERIFIABLE),
                one.subject,
            )


def _writes(request: AlterPartition) -> bool:
    """The controller wrote a record for the request."""
    made, elects = MADE
    grows = request.partition_error == made and request.partition_epoch_after > request.partition_epoch
    return grows or request.partition_error == elects


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
        before, after = change.before, change.after
        if change.record.kind == "PARTITION_RECORD" and (after.leader_epoch, after.partition_epoch) == (0, 0):
            again = before is not None and (before.leader_epoch, before.partition_epoch) != (0, 0)
            yield (VIOLATION if again else PASS), of_change(change)
    decisions = [event for event in history.events if isinstance(event, Decision) and event.state is not None]
    for n, event in enumerate(decisions):
        state = event.state
        assert state is not None
        if (state.leader_epoch, state.partition_epoch) != (0, 0):
            continue
        earlier = [one for one in decisions[:n] if one.state is not None and one.state.name == state.name]
        last = earlier[-1].state if earlier else None
        if last is None or (last.leader_epoch, last.partition_epoch) == (0, 0):
            yield PASS, place(event, state)
        else:
            yield _begun_again(history, earlier[-1], event), place(event, state)


def _begun_again(history: History, before: Decision, event: Decision) -> str:
    """What the controller's own broker receives between the two states, and from a second after the second one."""
    assert event.state is not None
    received = [(request, one) for request, one in stated(history, event.node) if one.topic == event.state.topic]
    since = before.id
    if before.node != event.node:
        elected = (one.id for one in history.of(event.node) if isinstance(one, Elected) and one.id < event.id)
        since = max(elected)
    former = {one.topic_id for request, one in received if request.id < since}
    latter = [(request, one.topic_id) for request, one in received if request.id > since]
    if any(topic_id not in former for _, topic_id in latter if topic_id):
        return PASS
    if not any(topic_id for _, topic_id in latter):
        ordinals = [identity_at(history, event.node, id, event.state.topic) for id in (since, len(history.events))]
        if None not in ordinals and ordinals[0] != ordinals[1]:
            return PASS
    if any(since < request.id < event.id and one.leader == LEADER_DURING_DELETE for request, one in received):
        return PASS
    same = any(topic_id and request.at > event.at + IN_FLIGHT_MS for request, topic_id in latter)
    return VIOLATION if same and before.node == event.node else UNVERIFIABLE


UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103
BY_ID = 13
"""The first Fetch with topic ids."""
LATE_MS = 500
IN_FLIGHT_MS = 1000
"""So long after a new state, requests about the one before may still arrive."""
