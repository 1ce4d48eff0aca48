"""Oracle of the rules of broker epochs."""

from __future__ import annotations

from typing import Any

from prove.history import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, AlterPartition, Heartbeat, History
from prove.oracle.broker_memory import controls
from prove.oracle.metadata_image import images, records
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


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
    for event in history.events:
        if not isinstance(event, AlterPartition | Heartbeat) or event.error_code not in (0, 77):
            continue
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
