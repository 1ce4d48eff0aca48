"""Oracle of the rules of broker epochs."""

from __future__ import annotations

from typing import Any, Final

from prove.history import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    AlterPartition,
    Heartbeat,
    History,
    IsrUpdated,
    MetadataAnswer,
    Produced,
    Query,
)
from prove.oracle.broker_memory import controls
from prove.oracle.isr import fetches_of, joined, supersedes
from prove.oracle.metadata_image import changes, images, records
from prove.oracle.replication import starts
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

STATED_SINCE: Final = 15
"""Version of Fetch in which followers state their broker epoch."""


def be01(history: History) -> Judged:
    """A request for a former incarnation of the broker is refused with 77."""
    for event, memory in controls(history, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA):
        if memory.broker_epoch is None:
            yield UNVERIFIABLE, place(event)
        elif event.broker_epoch < memory.broker_epoch:
            yield (FENCED if event.error_code == 77 else VIOLATION), place(event)
        else:
            yield (VIOLATION if event.error_code == 77 else PASS), place(event)


def be03(history: History) -> Judged:
    """A request of another incarnation than the registered one is refused."""
    after = images(history)
    replaced = {
        (record.data["brokerId"], after[record.offset - 1].brokers[record.data["brokerId"]].broker_epoch)  # type: ignore[index]
        for record in records(history)
        if supersedes(after, record)
    }
    for event in history.events:
        if not isinstance(event, AlterPartition | Heartbeat) or event.error_code not in (0, 77):
            continue
        if event.error_code == 0 and (event.broker_id, event.broker_epoch) in replaced:
            continue  # BE-05 judges accepted requests of an incarnation that was replaced while it was alive
        registration = after[event.decided_at_offset - 1].brokers.get(event.broker_id)
        if registration is not None and registration.broker_epoch == event.broker_epoch:
            yield (PASS if event.error_code == 0 else UNVERIFIABLE), place(event)
        else:
            yield (VIOLATION if event.error_code == 0 else FENCED), place(event)


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
        fetches = fetches_of(history, updated, member, held)
        key = updated.node, updated.partition, held.leader_epoch
        if start is None:
            yield UNVERIFIABLE, key
        elif any(query.offset >= start and query.replica_epoch == epoch for query in fetches):
            yield PASS, key
        else:
            older = any(query.offset >= start and query.replica_epoch < epoch for query in fetches)
            yield (VIOLATION if older and _goes_on(history, updated) else UNVERIFIABLE), key


def _goes_on(history: History, updated: IsrUpdated) -> bool:
    """Whether the leader's request log reaches beyond a join: no Fetch before it is missing."""
    requests = (Query, Produced, MetadataAnswer)
    return any(isinstance(later, requests) and later.id > updated.id for later in history.of(updated.node))
