"""What brokers' logs show of replication: which replica led when, from where, and who had committed how much.

A replica holds a leader epoch from its line on until the process ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prove.history import (
    FETCH,
    Control,
    Event,
    History,
    LogStartRaised,
    LogTruncated,
    ProcessStarts,
    Query,
    Start,
    Started,
    since,
)

PartitionEpoch = tuple[int, int]
"""(partition, leader epoch)."""


@dataclass(frozen=True)
class Served:
    """A request at a broker. start: the broker's last line about the partition, None before its first. process: number of its process."""

    query: Query
    start: Start | None
    process: int

    @property
    def leads(self) -> bool:
        """The broker leads by its last line."""
        return self.start is not None and self.start.leads


def starts_of(event: Event) -> tuple[Start, ...]:
    """The replicas that start by an event."""
    if isinstance(event, Control):
        return event.starts
    return (event.start,) if isinstance(event, Started) and event.start is not None else ()


def states_epoch_before(start: Start, history: History) -> bool:
    """Whether the line names the leader epoch that the replica had begun before. Followers of 3.6 to 4.1 print the new one there."""
    return start.leads or not since(history.release.version, 3, 6) or since(history.release.version, 4, 2)


def started(history: History) -> Iterator[tuple[Event, Start]]:
    """The lines of replicas that start at a leader epoch."""
    for event in history.events:
        for start in starts_of(event):
            yield event, start


def roles(history: History) -> Iterator[tuple[Event, dict[int, Start], int]]:
    """Each event of a broker with its replicas' last lines before it, and the number of its process."""
    for node in history.nodes:
        held: dict[int, Start] = {}
        process = 0
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                held, process = {}, process + 1
            yield event, held, process
            for start in starts_of(event):
                held[start.partition] = start


def served(history: History, api: str) -> Iterator[Served]:
    """The requests of an API."""
    for event, held, process in roles(history):
        if isinstance(event, Query) and event.api == api:
            yield Served(event, held.get(event.partition), process)


def starts(history: History) -> dict[PartitionEpoch, int]:
    """Where leader epochs start, by the lines of those who lead them."""
    found: dict[PartitionEpoch, int] = {}
    for _, start in started(history):
        if start.leads:
            key = start.partition, start.leader_epoch
            found[key] = min(start.offset, found.get(key, start.offset))
    return found


def start_times(history: History) -> dict[PartitionEpoch, int]:
    """When leader epochs start, by the first line of those who lead them."""
    found: dict[PartitionEpoch, int] = {}
    for event, start in started(history):
        if start.leads:
            at = event.handled if isinstance(event, Control) else event.at
            found.setdefault((start.partition, start.leader_epoch), at)
    return found


def requests_recorded_since(history: History, node: int, at: int | None) -> bool:
    """Whether a node's request log begins at a time or before, and ends after it. False if the time is not known (None)."""
    requests = [one for one in history.of(node) if hasattr(one, "arrived")]
    if at is None:
        return False
    return any(one.arrived <= at for one in requests) and any(one.at >= at for one in requests)


def shown_starts(history: History) -> set[PartitionEpoch]:
    """The leader epochs whose leader's first line shows that it began there.

    A leader that restarts in its epoch writes the line with its log end offset, and -1 for the epoch that it held.
    """
    first: dict[tuple[int, PartitionEpoch], Start] = {}
    for event, start in started(history):
        if start.leads:
            first.setdefault((event.node, (start.partition, start.leader_epoch)), start)
    return {
        key for (_, key), start in first.items()
        if 0 <= start.previous_epoch < start.leader_epoch or start.offset == 0
    }  # fmt: skip


def answered_fetches(history: History) -> Iterator[Served]:
    """Fetches that were answered without an error."""
    return (one for one in served(history, FETCH) if one.query.error_code == 0)


def began_at(history: History, answer: Query, offset: int) -> bool:
    """Whether the log of an answer's broker began at the offset at some time.

    Its lines or Fetch answers state that, or it truncated the log to the offset when it began above.
    """
    stated = {start for _, start in log_starts(history, answer)}
    cut = any(
        isinstance(event, LogTruncated) and (event.partition, event.offset) == (answer.partition, offset)
        for event in history.of(answer.node)
    )
    return offset in stated or (cut and max(stated, default=-1) > offset)


def log_starts(history: History, answer: Query) -> Iterator[tuple[int, int]]:
    """(event, log start offset) of each that the broker of an answer states of its partition, in lines and Fetch answers."""
    for one in answered_fetches(history):
        if (one.query.node, one.query.partition) == (answer.node, answer.partition):
            yield one.query.id, one.query.log_start_offset
    for event in history.of(answer.node):
        if isinstance(event, LogStartRaised) and event.partition == answer.partition:
            yield event.id, event.offset
