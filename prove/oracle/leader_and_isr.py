"""Oracle of the rules of LeaderAndIsr."""

from __future__ import annotations

from prove.history import (
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    STOP_REPLICA,
    UPDATE_METADATA,
    Control,
    History,
    ProcessStarts,
    Start,
    State,
    Stop,
    TopicPartition,
    since,
)
from prove.oracle.broker_memory import Memory, controls, partitions
from prove.oracle.topics_of_name import identity_at, is_deleted
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


def li01(history: History) -> Judged:
    """A LeaderAndIsr with an older leader epoch is refused with 11."""
    for event, memory in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            held = memory.held.get(state.name)
            if code in (56, 103) or held == state.leader_epoch:
                continue
            if held is None:
                yield _first_of_process(history, event, memory, state, code), place(event, state)
            elif state.leader_epoch < held:
                yield (FENCED if code == 11 else _unless_missing(memory, state)), place(event, state)
            elif code == 11:
                published = memory.published.get(state.name)
                known = (memory.accepted.get(state.name, -1), published.leader_epoch if published else -1)
                is_known = state.leader_epoch <= max(known)
                yield (UNVERIFIABLE if is_known else _unless_missing(memory, state)), place(event, state)
            else:
                yield PASS, place(event, state)


def _unless_missing(memory: Memory, state: State) -> str:
    """A violation, unless a request that came since the replica started is not recorded."""
    return UNVERIFIABLE if memory.gaps > memory.held_at[state.name] else VIOLATION


def _first_of_process(history: History, event: Control, memory: Memory, state: State, code: int) -> str:
    if code == 11:
        return UNVERIFIABLE
    epoch, topic_id = memory.before_deletion.get(state.name, (-1, None))
    if code or state.leader_epoch >= epoch:
        return PASS
    if topic_id is not None:
        return EXPOSED if topic_id == state.topic_id else PASS
    return EXPOSED if _lives_on(history, event, state, epoch) else UNVERIFIABLE


def _lives_on(history: History, event: Control, state: State, epoch: int) -> bool:
    """Whether a later request at the broker shows a topic without id in this leader epoch or a newer one."""
    for later in history.of(event.node):
        if not isinstance(later, Control) or later.id <= event.id or later.error_code:
            continue
        for one in later.partitions:
            if isinstance(one, State) and one.name == state.name:
                if one.leader == LEADER_DURING_DELETE:
                    return False
                if one.leader_epoch >= epoch:
                    return True
    return False


def li02(history: History) -> Judged:
    """A LeaderAndIsr at the leader epoch that the replica has started at is refused with 11."""
    for event, memory in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            if memory.held.get(state.name) == state.leader_epoch and code not in (56, 103):
                yield (PASS if code == 11 else VIOLATION), place(event, state)


def li03(history: History) -> Judged:
    """Without a broker epoch, no LeaderAndIsr of before a restart is accepted after it."""
    for node in history.nodes:
        process = 0
        last: dict[TopicPartition, tuple[int, Control, State]] = {}
        for event in history.of(node):
            process += isinstance(event, ProcessStarts)
            if not isinstance(event, Control) or event.api == UPDATE_METADATA:
                continue
            for one, code in partitions(event):
                if code:
                    continue
                if isinstance(one, Stop):
                    if one.delete:
                        last.pop(one.name, None)
                    continue
                before = last.get(one.name)
                if event.broker_epoch < 0 and (before is None or before[0] < process):
                    yield _after_restart(history, before, event, one), place(event, one)
                last[one.name] = process, event, one


def _after_restart(history: History, before: tuple[int, Control, State] | None, event: Control, state: State) -> str:
    if before is None:
        return PASS if state.is_new else UNVERIFIABLE
    _, request, former = before
    identities = [identity_at(history, event.node, one.id + 1, state.topic) for one in (request, event)]
    if state.leader_epoch >= former.leader_epoch or (None not in identities and identities[0] != identities[1]):
        return PASS
    return UNVERIFIABLE if is_deleted(history, event.node, request.id, former) else EXPOSED


def li04(history: History) -> Judged:
    """A LeaderAndIsr whose replicas do not name the broker is refused with 3."""
    for event, _ in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            if event.node in state.replicas:
                yield (UNVERIFIABLE if code == 3 else PASS), place(event, state)
            else:
                yield {0: VIOLATION, 3: FENCED}.get(code, PASS), place(event, state)


def li06(history: History) -> Judged:
    """What was answered 0 has a line that states what became of it."""
    for event, memory in controls(history, LEADER_AND_ISR):
        if not since(memory.version, 2, 7):
            continue
        for state, code in partitions(event):
            if code or event.node not in state.replicas or memory.held.get(state.name) == state.leader_epoch:
                continue
            is_stated = state.name in event.unavailable or any(
                start.name == state.name and start.leader_epoch == state.leader_epoch
                for start in (*event.starts, *event.skipped)
            )
            yield (PASS if is_stated else _stated_later(history, event, state)), place(event, state)


def _stated_later(history: History, event: Control, state: State) -> str:
    """Whether a later request at the same leader epoch shows that it was installed: accepted again, it was not."""
    for later in history.of(event.node):
        if later.id <= event.id:
            continue
        if isinstance(later, ProcessStarts):
            break
        if not isinstance(later, Control) or later.api == UPDATE_METADATA:
            continue
        if any(start.name == state.name and start.leader_epoch > state.leader_epoch for start in later.starts):
            break  # what is refused from here on is older
        for one, code in partitions(later):
            if one.name != state.name:
                continue
            if isinstance(one, Stop):
                if code == 0 and one.delete:
                    return UNVERIFIABLE
            elif one.leader_epoch == state.leader_epoch and one.topic_id == state.topic_id:
                if code == 11:
                    return PASS
                if code == 0:
                    return VIOLATION if one.topic_id else UNVERIFIABLE
    return UNVERIFIABLE


def li05(history: History) -> Judged:
    """Since 3.3 the partition epochs at which a replica starts do not fall within a process."""
    if not since(history.release.version, 3, 3):
        return
    for node in history.nodes:
        last: dict[TopicPartition, Start] = {}
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                last = {}
            if not isinstance(event, Control) or event.error_code:
                continue
            for start in sorted(event.starts, key=lambda start: not start.leads):
                before = last.get(start.name)
                if before is not None:
                    fell = start.partition_epoch < before.partition_epoch and start.topic_id == before.topic_id
                    yield (VIOLATION if fell else PASS), (None, *start.name)
                last[start.name] = start
            if event.api == STOP_REPLICA:
                for stop, code in partitions(event):
                    if code == 0 and stop.delete:
                        last.pop(stop.name, None)
