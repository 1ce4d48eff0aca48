"""The fence of Fetch, ListOffsets and OffsetForLeaderEpoch, and what a log may lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prove.history import (
    FETCH,
    LEADER_AND_ISR,
    Control,
    Decision,
    Event,
    History,
    Key,
    PartitionCreated,
    ProcessStarts,
    Produced,
    Query,
    Started,
    since,
)
from prove.oracle.broker_memory import replayed
from prove.oracle.replication import starts_of, states_epoch_before
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged

BEFORE_EPOCH: Final = (3, 6, 56)
LATE_MS: Final = 500
"""How much later than its answer the line of a request may be written."""


def fence(history: History, api: str, before_check: tuple[int, ...], *, newer: bool) -> Judged:
    """The fence of one API, against older or newer leader epochs.

    Each rule judges what was served and its own code; a refusal the wrong way round belongs to the rule about that epoch.
    """
    right, wrong = (75, 74) if newer else (74, 75)
    for event, memory in replayed(history):
        if not isinstance(event, Query) or event.api != api:
            continue
        epoch, code = event.current_leader_epoch, event.error_code
        held = memory.held.get(event.name)
        if epoch < 0 or code in before_check:
            continue
        if held is None:
            if code != wrong:
                yield (FENCED if code == right else UNVERIFIABLE), of_query(event)
            continue
        beyond = epoch > held if newer else epoch < held
        behind = epoch < held if newer else epoch > held
        if code == right and not behind:
            if beyond:
                yield FENCED, of_query(event)
            elif newer and _may_not_know(history, event):
                yield PASS, of_query(event)
            elif newer:
                yield (UNVERIFIABLE if lacks_a_line(history, event, held) else VIOLATION), of_query(event)
            elif lacks_a_line(history, event, held):
                yield FENCED, of_query(event)
            else:
                yield (VIOLATION if _goes_on(history, event) else UNVERIFIABLE), of_query(event)
        elif code == wrong and beyond:
            yield (
                (UNVERIFIABLE if newer and lacks_a_line(history, event, held, stated=epoch) else VIOLATION),
                of_query(event),
            )
        elif code not in (right, wrong):
            lacks = beyond and newer and lacks_a_line(history, event, held, stated=epoch)
            yield (UNVERIFIABLE if lacks else VIOLATION if beyond else PASS), of_query(event)


def _may_not_know(history: History, query: Query) -> bool:
    """Whether a broker may answer 75 at its own epoch: to a follower that is no replica, or as the line precedes its effect."""
    lines = (event.at for event in history.of(query.node) for start in starts_of(event)
             if event.id < query.id and start.name == query.name)  # fmt: skip
    return (query.api == FETCH and query.replica_id >= 0) or max(lines, default=0) + LATE_MS >= query.arrived


def _goes_on(history: History, event: Query | Produced) -> bool:
    """Whether the broker's state-change.log has a line from after the answer."""
    return any(
        written > event.at for later in history.of(event.node) for written in _state_change_lines(later, history)
    )


def _state_change_lines(event: Event, history: History) -> Iterator[int]:
    """Times of lines of state-change.log that an event leaves: of a control request the first one, and the last one since 2.7."""
    if isinstance(event, Control) and event.seen and (event.partitions or event.error_code):
        yield event.handled
        if event.api == LEADER_AND_ISR and since(history.release.version, 2, 7):
            yield event.finished
    elif isinstance(event, Started | PartitionCreated) or (isinstance(event, Decision) and event.state):
        yield event.at


def of_query(event: Query) -> Key:
    return event.id, None if event.api == FETCH else event.topic, event.partition


def lacks_a_line(
    history: History, event: Query | Produced, held: int, recorded: Iterable[int] = (), *, stated: int = -1
) -> bool:
    """Whether other brokers have started at a newer leader epoch, and no later line shows that the broker's log is complete up to it.

    recorded: leader epochs that controllers began. stated: the leader epoch of the request or its answer, which counts if the broker's
    state-change.log has no line from after it.
    """
    if stated > held and not _goes_on(history, event):
        return True
    others = {
        start.leader_epoch
        for other in history.events
        if other.node != event.node
        for start in starts_of(other)
        if start.name == event.name and start.leader_epoch > held
        and (event.topic_id is None or start.topic_id == event.topic_id)
    }  # fmt: skip
    others.update(epoch for epoch in recorded if epoch > held)
    if not others:
        return False
    for later in history.of(event.node):
        if later.id <= event.id:
            continue
        if isinstance(later, ProcessStarts):
            return True
        for start in starts_of(later):
            if start.name == event.name and start.leader_epoch > held:
                adjoins = states_epoch_before(start, history) and start.previous_epoch == held
                return min(others) < start.leader_epoch and not adjoins
    return True
