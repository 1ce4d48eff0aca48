"""Oracle of the rules of how brokers leave the fenced state."""

from __future__ import annotations

from typing import Any

from prove.history import Heartbeat, History, Record
from prove.oracle.metadata_image import images, records
from prove.oracle.verdicts import FENCED, PASS, VIOLATION, Judged, place

Incarnation = tuple[int, int]
"""(broker, broker epoch)."""


def registrations(history: History) -> list[Record]:
    """The records that register brokers."""
    return [record for record in records(history) if record.kind == "REGISTER_BROKER_RECORD"]


def uf01(history: History) -> Judged:
    """A broker that has not read its own registration stays fenced. Of each answer to an incarnation, the lowest offset is judged."""
    first: dict[Incarnation, Record] = {}
    for record in registrations(history):
        data: Any = record.data
        first.setdefault((data["brokerId"], data["brokerEpoch"]), record)
    lowest: dict[tuple[Incarnation, bool], Heartbeat] = {}
    for event in history.events:
        if not isinstance(event, Heartbeat) or event.error_code or event.want_fence or event.want_shut_down:
            continue
        key = (event.broker_id, event.broker_epoch), event.is_fenced
        if key not in lowest or event.current_metadata_offset < lowest[key].current_metadata_offset:
            lowest[key] = event
    for (incarnation, fenced), event in lowest.items():
        record = first[incarnation]
        behind = event.current_metadata_offset < record.offset
        if fenced and behind:
            yield FENCED, place(event)
        elif not fenced:
            live: Any = record.data["fenced"]
            yield (VIOLATION if behind and live else PASS), place(event)


def uf02(history: History) -> Judged:
    """A broker that was let go is fenced, or unregistered, before it registers anew."""
    after = images(history)
    let_go = {
        (event.broker_id, event.broker_epoch)
        for event in history.events
        if isinstance(event, Heartbeat) and event.should_shut_down and not event.error_code
    }
    before: dict[int, tuple[int, str]] = {}
    for record in registrations(history):
        data: Any = record.data
        broker, incarnation = data["brokerId"], data["incarnationId"]
        last = before.get(broker)
        before[broker] = data["brokerEpoch"], incarnation
        if last is None or last[1] == incarnation or (broker, last[0]) not in let_go:
            continue
        standing = after[record.offset - 1].brokers.get(broker)
        yield (PASS if standing is None or standing.fenced else VIOLATION), place(record)
