"""Oracle of the rules of StopReplica requests that no broker compares with its leader epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prove.history import (
    EPOCH_DURING_DELETE,
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    STOP_REPLICA,
    UPDATE_METADATA,
    Control,
    History,
    ProcessStarts,
    ShutsDown,
    State,
    Stop,
    TopicPartition,
)
from prove.oracle.broker_memory import partitions
from prove.oracle.topics_of_name import is_deleted
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

LEADER_EPOCHS = 3


@dataclass(frozen=True)
class Received:
    """An accepted LeaderAndIsr or UpdateMetadata of a partition. process: how many starts of the broker came before it."""

    request: Control
    state: State
    process: int

    @property
    def deletes(self) -> bool:
        """It announces the topic's deletion."""
        return self.state.leader == LEADER_DURING_DELETE


@dataclass(frozen=True)
class Stopped:
    """An accepted StopReplica of a partition, with what its broker's log has before and after it.

    held: the LeaderAndIsr that the replica is there by, none having deleted it since; of a deletion see `_of_records`. published: the
    last UpdateMetadata before. announced: since that LeaderAndIsr the broker received that the topic is being deleted. ids: topic ids of
    the name, in the order in which the broker first heard of them. deleted_before: a topic of the name was, before that LeaderAndIsr. next:
    the next request that treats the partition as living, and is not out of date. failed: the process has answered 56 to a LeaderAndIsr
    since the held one.
    """

    request: Control
    stop: Stop
    process: int
    shuts_down: bool
    held: Received | None
    published: Received | None
    announced: bool
    ids: tuple[str, ...]
    deleted_before: bool
    next: Received | None
    failed: bool

    @property
    def meets_successor(self) -> bool:
        """It belongs to the deletion of a topic, and the replica is of the next topic of the name, which nobody deletes."""
        if self.held is None or self.stop.leader_epoch != EPOCH_DURING_DELETE or self.announced:
            return False
        return self.held.state.topic_id != self.ids[0] if self.ids else self.deleted_before


def _received(history: History, node: int, name: TopicPartition) -> Iterator[Received]:
    process = 0
    for event in history.of(node):
        process += isinstance(event, ProcessStarts)
        if not isinstance(event, Control) or event.api == STOP_REPLICA or event.error_code:
            continue
        codes = event.codes or (0,) * len(event.partitions)
        for state, code in zip(event.partitions, codes, strict=True):
            if isinstance(state, State) and state.name == name and code == 0:
                yield Received(event, state, process)


def _stopped(history: History) -> Iterator[Stopped]:
    for node in history.nodes:
        process, shuts_down = 0, False
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                process, shuts_down = process + 1, False
            shuts_down = shuts_down or isinstance(event, ShutsDown)
            if isinstance(event, Control) and event.api == STOP_REPLICA:
                for stop, code in partitions(event):
                    if code == 0:
                        yield _seen(history, event, stop, process, shuts_down)


def _seen(history: History, event: Control, stop: Stop, process: int, shuts_down: bool) -> Stopped:
    received = [*_received(history, event.node, stop.name)]
    before = [one for one in received if one.request.id < event.id]
    accepted = [one for one in before if one.request.api == LEADER_AND_ISR]
    deleted = [
        one.id
        for one in history.of(event.node)
        if isinstance(one, Control) and one.api == STOP_REPLICA and one.id < event.id
        for other, code in partitions(one)
        if other.name == stop.name and other.delete and code == 0
    ]
    deletes = stop.leader_epoch == EPOCH_DURING_DELETE
    last = (_of_records(event.id, before, deleted) if deletes else accepted[-1]) if accepted else None
    held = last if last is not None and last.request.id > max(deleted, default=-1) else None
    published = [one for one in before if one.request.api == UPDATE_METADATA]
    if last is not None:
        announced = any(
            one.deletes
            and one.request.id > last.request.id
            and not _is_of_former(one, _of_records(one.request.id, before, deleted) if deletes else last, before)
            for one in published
        )
    else:
        announced = bool(published) and published[-1].deletes
    ids = dict.fromkeys(one.state.topic_id for one in before if one.state.topic_id)
    after = [one for one in received if one.request.id > event.id and not one.deletes and not _is_old(one, received)]
    return Stopped(
        event, stop, process, shuts_down, held, published[-1] if published else None, announced, tuple(ids),
        held is not None and any(one.deletes and one.request.id < held.request.id for one in before),
        after[0] if after else None, _has_failed(history, event, stop, accepted[-1].request.id if accepted else -1),
    )  # fmt: skip


def _of_records(id: int, received: list[Received], deleted: list[int]) -> Received:
    """The last LeaderAndIsr before a request that is of the topic whose records the replica has.

    That is the last of all, unless the broker had received that the topic with its id is being deleted: then the replica of another topic
    has that topic's records still.
    """
    accepted = [one for one in received if one.request.id < id and one.request.api == LEADER_AND_ISR]
    since = max((at for at in deleted if at < id), default=-1)
    late = [one for one in accepted if _was_announced(one.state.topic_id, one, received)]
    owned = [one for one in accepted if one not in late and one.request.id > since]
    ids = {one.state.topic_id for one in (*owned[-1:], accepted[-1])}
    return owned[-1] if len(ids) == 2 and None not in ids else accepted[-1]


def _was_announced(id: str | None, before: Received, received: list[Received]) -> bool:
    """The broker had received before that the topic with this id is being deleted."""
    earlier = [one for one in received if one.request.id < before.request.id]
    return id is not None and any(one.deletes and one.state.topic_id == id for one in earlier)


def _is_of_former(deletion: Received, held: Received, received: list[Received]) -> bool:
    """It announces once more the deletion of a topic with another id than the replica has."""
    id = deletion.state.topic_id
    return held.state.topic_id not in (None, id) and _was_announced(id, deletion, received)


def _has_failed(history: History, event: Control, stop: Stop, accepted: int) -> bool:
    """The log directory of the replica had failed, as an answer since the accepted LeaderAndIsr shows, and no restart since."""
    failed = False
    for one in history.of(event.node):
        if accepted < one.id < event.id:
            if isinstance(one, ProcessStarts):
                failed = False
            elif isinstance(one, Control) and one.api == LEADER_AND_ISR:
                failed = failed or any(state.name == stop.name and code == 56 for state, code in partitions(one))
    return failed


def _is_old(one: Received, received: list[Received]) -> bool:
    """Its leader epoch is below that of the LeaderAndIsr which the process had accepted last, of the same topic."""
    before = [other for other in received if other.request.id < one.request.id and other.request.api == LEADER_AND_ISR]
    if not before or before[-1].process != one.process:
        return False
    last = before[-1]
    deleted = any(
        last.request.id < other.request.id < one.request.id
        and other.deletes
        and not _is_of_former(other, last, received)
        for other in received
    )
    return (
        one.state.leader_epoch < last.state.leader_epoch and one.state.topic_id == last.state.topic_id and not deleted
    )


def _is_alive_afterwards(history: History, one: Stopped) -> bool:
    """The topic of the replica is known to exist after the request, or nothing shows that it was ever deleted."""
    assert one.held is not None
    held, request = one.held.state, one.held.request
    same = one.next is not None and one.next.state.topic_id == held.topic_id
    return same or not is_deleted(history, request.node, request.id, held)


def _is_of_deleted(history: History, one: Received) -> bool:
    """Its broker had received before that the topic is being deleted, or one of the name, if one of them states no topic id."""
    return any(
        other.deletes
        and other.request.id < one.request.id
        and _may_be_one_topic(other.state.topic_id, one.state.topic_id)
        for other in _received(history, one.request.node, one.state.name)
    )


def _may_be_one_topic(id: str | None, other: str | None) -> bool:
    return id is None or other is None or id == other


def sr03(history: History) -> Judged:
    """-2 is for topics that are being deleted, and -1 from a controller that has sent the broker no leader epoch of the partition."""
    for one in _stopped(history):
        if (
            one.request.version < LEADER_EPOCHS
            or one.stop.leader_epoch >= 0
            or (one.meets_successor and one.stop.delete)
        ):
            continue
        epoch = one.request.controller_epoch
        if one.stop.leader_epoch == EPOCH_DURING_DELETE:
            wrong = one.held is not None and _is_alive_afterwards(history, one)
            breach = EXPOSED if one.meets_successor else VIOLATION
            verdict = PASS if one.announced else breach if wrong else UNVERIFIABLE
        else:
            published = None if one.published is None or one.published.deletes else one.published
            known = [sent for sent in (one.held, published) if sent is not None and not _is_of_deleted(history, sent)]
            verdict = VIOLATION if any(sent.request.controller_epoch == epoch for sent in known) else UNVERIFIABLE
        yield verdict, place(one.request, one.stop)


def sr04(history: History) -> Judged:
    """A StopReplica without leader epochs does not stop a replica that the broker was sent, and is to keep."""
    for one in _stopped(history):
        if one.request.version >= LEADER_EPOCHS:
            continue
        node = one.request.node
        others = [received for received in (one.published, one.next) if received is not None]
        moved = any(node not in received.state.replicas for received in others)
        offline = one.failed and not one.stop.delete
        if (
            one.announced
            or moved
            or one.shuts_down
            or offline
            or (one.held is not None and node not in one.held.state.replicas)
        ):
            verdict = PASS
        elif one.held is None or one.held.process != one.process or not others:
            verdict = UNVERIFIABLE
        else:
            verdict = EXPOSED
        yield verdict, place(one.request, one.stop)


def sr07(history: History) -> Judged:
    """The deletion of a topic does not delete a replica of the next topic of its name."""
    for one in _stopped(history):
        if one.request.version < LEADER_EPOCHS or one.stop.leader_epoch != EPOCH_DURING_DELETE or not one.stop.delete:
            continue
        survives = one.meets_successor and _is_alive_afterwards(history, one)
        yield (PASS if not one.meets_successor else EXPOSED if survives else UNVERIFIABLE), place(one.request, one.stop)
