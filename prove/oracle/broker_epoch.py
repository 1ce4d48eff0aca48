"""Oracle of the rules of broker epochs."""

from __future__ import annotations

from typing import Any, Final

from prove.history import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    AlterPartition,
    BrokerRegistration,
    Heartbeat,
    History,
    IsrUpdated,
    MetadataAnswer,
    Produced,
    Query,
)
from prove.oracle.broker_memory import controls
from prove.oracle.isr import fetches_of, joined
from prove.oracle.metadata_image import changes, images, records
from prove.oracle.replication import starts
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

STATED_SINCE: Final = 15
"""Version of Fetch in which followers state their broker epoch."""


def be01(history: History) -> Judged:
    """A request for a former incarnation of the broker is refused with 77."""
    for event, memory in controls(history, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA):
        if event.broker_epoch < 0:
            continue
        if memory.broker_epoch is None:
            yield UNVERIFIABLE, place(event)
        elif event.broker_epoch < memory.broker_epoch:
            yield (FENCED if event.error_code == 77 else VIOLATION), place(event)
        else:
            yield (VIOLATION if event.error_code == 77 else PASS), place(event)


def be02(history: History) -> Judged:
    """Each request for a newer incarnation than the broker knows of itself counts as one pass."""
    for event, memory in controls(history, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA):
        if memory.broker_epoch is not None and event.broker_epoch > memory.broker_epoch:
            yield PASS, place(event)


def be03(history: History) -> Judged:
    """A request of another incarnation than the registered one is refused."""
    after = images(history)
    for event in history.events:
        if not isinstance(event, AlterPartition | Heartbeat) or event.error_code not in (0, 77):
            continue
        if event.error_code == 0 and _replaced_alive(history, event.broker_id, event.broker_epoch):
            continue  # BE-05 judges what is answered to that incarnation
        registration = after[event.decided_at_offset - 1].brokers.get(event.broker_id)
        if registration is not None and registration.broker_epoch == event.broker_epoch:
            yield (PASS if event.error_code == 0 else UNVERIFIABLE), place(event)
        else:
            yield (VIOLATION if event.error_code == 0 else FENCED), place(event)


def _replaced_alive(history: History, broker: int, broker_epoch: int) -> bool:
    """A registration replaced that of the broker epoch, which was not fenced."""
    after = images(history)
    for n, record in enumerate(records(history)):
        data: Any = record.data
        if record.kind == "REGISTER_BROKER_RECORD" and data["brokerId"] == broker and n:
            before = after[n - 1].brokers.get(broker)
            another = before is not None and before.incarnation != data["incarnationId"]
            if before is not None and another and before.broker_epoch == broker_epoch and not before.fenced:
                return True
    return False


def be04(history: History) -> Judged:
    """Broker epochs rise."""
    before: dict[int, tuple[int, str]] = {}
    for record in records(history):
        if record.kind != "REGISTER_BROKER_RECORD":
            continue
        data: Any = record.data
        epoch, incarnation = data["brokerEpoch"], data["incarnationId"]
        last = before.get(data["brokerId"])
        wrong = epoch > record.offset or (
            last is not None and (epoch < last[0] or (incarnation != last[1] and epoch == last[0]))
        )
        before[data["brokerId"]] = epoch, incarnation
        yield (VIOLATION if wrong else PASS), place(record)


def be06(history: History) -> Judged:
    """The incarnation that joins the ISR has itself fetched up to the start of the leader epoch."""
    if history.release.fetch < STATED_SINCE:
        return
    begun = starts(history)
    after = images(history)
    for updated, member, held in joined(history):
        record = next(
            change.record
            for change in changes(history)
            if (change.after.number, change.after.partition_epoch) == (updated.partition, updated.partition_epoch)
        )
        epoch = after[record.offset].brokers[member].broker_epoch
        start = begun.get((updated.partition, held.leader_epoch))
        fetches = [query for query in fetches_of(history, updated, member, held) if query.diverging is None]
        key = updated.node, updated.partition, held.leader_epoch
        if start is None:
            yield UNVERIFIABLE, key
        elif any(query.offset >= start and query.replica_epoch == epoch for query in fetches):
            yield PASS, key
        elif any(query.replica_epoch == epoch for query in fetches) and all(query.offset < start for query in fetches):
            yield PASS, key  # it joined too early, whatever its incarnation: IS-15 judges that
        else:
            older = any(query.offset >= start and query.replica_epoch < epoch for query in fetches)
            yield (VIOLATION if older and _goes_on(history, updated) else UNVERIFIABLE), key


def _goes_on(history: History, updated: IsrUpdated) -> bool:
    """Whether the leader's request log reaches beyond a join: no Fetch before it is missing."""
    requests = (Query, Produced, MetadataAnswer)
    return any(isinstance(later, requests) and later.id > updated.id for later in history.of(updated.node))


def be05(history: History) -> Judged:
    """A registration over a living incarnation is refused with 101, or the former incarnation is not obeyed any more."""
    after = images(history)
    for event in history.events:
        if not isinstance(event, BrokerRegistration):
            continue
        offset = max((record.offset for record in records(history) if record.id < event.id), default=-1)
        before = after[offset].brokers.get(event.broker_id) if offset >= 0 else None
        if event.error_code == DUPLICATE_BROKER_REGISTRATION:
            yield (UNVERIFIABLE if before is None else FENCED), place(event)
            continue
        obeyed = any(
            isinstance(later, Heartbeat | AlterPartition)
            and (later.broker_id == event.broker_id and later.broker_epoch < event.broker_epoch)
            and (later.error_code == 0 and later.arrived > event.at)
            for later in history.events
        )
        is_registered = before is not None and not before.fenced
        yield (VIOLATION if is_registered and obeyed else PASS), place(event)


DUPLICATE_BROKER_REGISTRATION: Final = 101
