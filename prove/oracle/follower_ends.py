"""What followers' lines tell of how far a partition had been committed: their high watermarks, and the log end of the whole ISR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from prove.history import Event, History, IsrLine, IsrUpdated, LogStartRaised, LogTruncated, ProcessStarts, Start, since
from prove.oracle.lineage import Epoch
from prove.oracle.replication import starts_of

COMMITS_ALONE_UNTIL = 3, 7
"""Before this release an ISR of one commits, whatever min.insync.replicas is."""


@dataclass
class Stretch:
    """A replica's line that begins a leader epoch, and what follows until the next one.

    before: the line before. same_process: of the same process. since: the leader epoch in which it may have learned its high watermark.
    led_alone: it led until then, and had last learned that no other replica was in the ISR. truncated_to: the lowest offset to which it
    truncated.
    """

    node: int
    start: Start
    before: Start | None
    same_process: bool
    since: int
    led_alone: bool = False
    truncated_to: int | None = None


@dataclass
class _Replica:
    """What is known of a replica while its lines are read."""

    last: Start | None = None
    isr: tuple[int, ...] = ()
    known_since: int = -1
    process: int = 0
    stretches: list[Stretch] = field(default_factory=list)


def stretches(history: History) -> Iterator[Stretch]:
    """The stretches of all replicas."""
    for node in history.nodes:
        replicas: dict[int, _Replica] = {}
        process = 0
        for event in history.of(node):
            process += isinstance(event, ProcessStarts)
            _read(node, event, process, replicas)
        for replica in replicas.values():
            yield from replica.stretches


def _read(node: int, event: Event, process: int, replicas: dict[int, _Replica]) -> None:
    if isinstance(event, LogTruncated) and replicas.get(event.partition):
        last = replicas[event.partition].stretches[-1]
        last.truncated_to = min(event.offset, event.offset if last.truncated_to is None else last.truncated_to)
    if (
        isinstance(event, IsrUpdated) or (isinstance(event, IsrLine) and event.kind == "updated")
    ) and event.partition in replicas:
        replicas[event.partition].isr = event.isr
    for start in starts_of(event):
        replica = replicas.setdefault(start.partition, _Replica())
        before = replica.last
        if before is None or start.high_watermark > before.high_watermark:
            replica.known_since = start.leader_epoch if before is None else before.leader_epoch
        same_process = before is not None and replica.process == process
        led_alone = before is not None and before.leads and replica.isr == (node,)
        replica.stretches.append(Stretch(node, start, before, same_process, replica.known_since, led_alone))
        replica.last, replica.process, replica.isr = start, process, start.isr


def log_starts_of(history: History, partition: int) -> set[int]:
    """The log start offsets of a partition that brokers' lines state."""
    return {
        event.offset for event in history.events if isinstance(event, LogStartRaised) and event.partition == partition
    }


def committed_by_followers(history: History, lineage: list[Epoch]) -> Iterator[tuple[int, int, int, int]]:
    """(partition, leader epoch that begins below, epoch in which it was learned, offset), at most one of each stretch."""
    for one in stretches(history):
        start, to = one.start, one.truncated_to
        if start.leads or one.before is None or one.before.leader_epoch >= start.leader_epoch:
            continue
        own = next((e for e in lineage if (e.partition, e.leader_epoch) == (start.partition, start.leader_epoch)), None)
        more = one.same_process and own is not None and own.start is not None and start.high_watermark > own.start
        fewer = to is not None and to < max(start.high_watermark, start.offset)
        if not more and not fewer:
            continue
        alone = not since(history.release.version, *COMMITS_ALONE_UNTIL)
        found = []
        # a leader answers the start of its log if it has no record of the epoch or an older one
        lowest = 0 if to is None or to in log_starts_of(history, start.partition) else to
        for epoch in lineage:
            if epoch.partition != start.partition or not one.since < epoch.leader_epoch <= start.leader_epoch:
                continue
            # in an epoch before its line, it may have appended what it had by then
            began_after = epoch.leader_epoch > one.before.leader_epoch
            whole = alone and one.led_alone and began_after and epoch.known and epoch.isr == (one.node,)
            reach = max(start.high_watermark, start.offset) if whole else start.high_watermark
            if epoch.start is not None and lowest <= epoch.start < reach:
                found.append((epoch.start, epoch.leader_epoch, reach))
        if found:
            _, leader_epoch, reach = min(found)
            yield start.partition, leader_epoch, one.since, reach
