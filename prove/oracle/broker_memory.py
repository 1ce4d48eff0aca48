"""What a broker's log shows of its process's memory, replayed line by line.

An epoch is held from the line that it starts with until the process ends or the replica is deleted or created again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prove.history import (
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    UPDATE_METADATA,
    Control,
    Event,
    History,
    PartitionCreated,
    ProcessStarts,
    Registered,
    Started,
    State,
    Stop,
    TopicPartition,
)


@dataclass
class Memory:
    """What a broker's log shows of its process's memory at a line.

    held: the leader epoch that a replica has started at. deleted: replicas that a StopReplica deleted, none having started since.
    accepted: the highest leader epoch of LeaderAndIsr requests answered 0, of this process. before_deletion: the same, when
    the replica was deleted. ids: topic id of each replica on disk; None where it has none for certain. named: those whose id came
    to this process. unstored: those whose id 2.8 has not stored; uncompared: nor compared with that of a log which it may have had.
    opened: replicas that have a log, or have none. announced_ids: topic ids whose deletion the broker received, also before its start.
    arrived: the last correlation id of each connection. gaps: how often some are missing in between; of when a replica started
    (held_at), and was given its topic id (ids_at).
    """

    version: str = ""
    broker_epoch: int | None = None
    controller_epoch: int | None = None
    held: dict[TopicPartition, int] = field(default_factory=dict)
    deleted: set[TopicPartition] = field(default_factory=set)
    accepted: dict[TopicPartition, int] = field(default_factory=dict)
    before_deletion: dict[TopicPartition, tuple[int, str | None]] = field(default_factory=dict)
    ids: dict[TopicPartition, str | None] = field(default_factory=dict)
    accepted_id: dict[TopicPartition, str | None] = field(default_factory=dict)
    published: dict[TopicPartition, State] = field(default_factory=dict)
    announced: set[TopicPartition] = field(default_factory=set)
    announced_ids: set[tuple[TopicPartition, str]] = field(default_factory=set)
    arrived: dict[int, int] = field(default_factory=dict)
    gaps: int = 0
    held_at: dict[TopicPartition, int] = field(default_factory=dict)
    ids_at: dict[TopicPartition, int] = field(default_factory=dict)
    named: set[TopicPartition] = field(default_factory=set)
    unstored: set[TopicPartition] = field(default_factory=set)
    uncompared: set[TopicPartition] = field(default_factory=set)
    opened: dict[TopicPartition, bool] = field(default_factory=dict)

    def restarted(self, event: ProcessStarts) -> None:
        """A process forgets all but its disk."""
        ids, ids_at, opened, arrived, gaps = self.ids, self.ids_at, self.opened, self.arrived, self.gaps
        unstored, uncompared, announced_ids = self.unstored, self.uncompared, self.announced_ids
        self.__init__(event.version, event.broker_epoch)  # type: ignore[misc]
        self.ids, self.ids_at, self.opened, self.arrived, self.gaps = ids, ids_at, opened, arrived, gaps
        self.unstored, self.uncompared, self.announced_ids = unstored, uncompared, announced_ids

    def comes(self, event: Control) -> None:
        """Count what is missing before a request on its connection."""
        last = self.arrived.get(event.connection, event.correlation_id)
        self.gaps += event.correlation_id > last + 1
        self.arrived[event.connection] = max(last, event.correlation_id)

    def identified(self, state: State) -> None:
        """Take over the topic id of an accepted LeaderAndIsr. 2.8 looks at it before it opens the log."""
        unstored = self.version.startswith("2.8") and state.name not in self.accepted
        had_none = state.is_new or not self.opened.get(state.name, True)
        self.opened[state.name] = True
        if state.topic_id:
            self.ids[state.name] = state.topic_id
            self.ids_at[state.name] = self.gaps
            self.named.add(state.name)
            (self.unstored.add if unstored else self.unstored.discard)(state.name)
            (self.uncompared.add if unstored and not had_none else self.uncompared.discard)(state.name)

    def _is_of_former(self, deletion: State) -> bool:
        """It announces once more the deletion of a topic with another id than the replica has."""
        id = deletion.topic_id
        another = self.accepted_id.get(deletion.name) not in (None, id)
        return id is not None and another and (deletion.name, id) in self.announced_ids

    def applied(self, event: Control) -> None:
        """Take over what a request changed."""
        if event.error_code:
            return
        self.controller_epoch = max(event.controller_epoch, self.controller_epoch or 0)
        if event.api == UPDATE_METADATA:
            for state in event.partitions:
                assert isinstance(state, State)
                self.published[state.name] = state
                if state.leader == LEADER_DURING_DELETE and not self._is_of_former(state):
                    self.announced.add(state.name)
                    self.before_deletion.pop(state.name, None)
                if state.leader == LEADER_DURING_DELETE and state.topic_id is not None:
                    self.announced_ids.add((state.name, state.topic_id))
        elif event.api == LEADER_AND_ISR:
            for state, code in zip(event.partitions, event.codes, strict=True):
                assert isinstance(state, State)
                if code == 0:
                    self.identified(state)
                    self.accepted[state.name] = max(state.leader_epoch, self.accepted.get(state.name, -1))
                    self.accepted_id[state.name] = state.topic_id
                    self.deleted.discard(state.name)
                    self.announced.discard(state.name)
                    self.before_deletion.pop(state.name, None)
            for start in event.starts:
                self.held[start.name] = start.leader_epoch
                self.held_at[start.name] = self.gaps
        else:
            for stop, code in zip(event.partitions, event.codes, strict=True):
                assert isinstance(stop, Stop)
                if code == 0 and stop.delete:
                    if stop.name in self.accepted and stop.name not in self.announced:
                        self.before_deletion[stop.name] = (self.accepted[stop.name], self.accepted_id.get(stop.name))
                    self.accepted.pop(stop.name, None)
                    self.held.pop(stop.name, None)
                    self.ids[stop.name] = None
                    self.opened[stop.name] = False
                    self.deleted.add(stop.name)


def replayed(history: History) -> Iterator[tuple[Event, Memory]]:
    """Each event of a broker's process, with what its log shows before it. The memory changes afterwards."""
    for node in history.nodes:
        memory = Memory()
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                memory.restarted(event)
            if isinstance(event, Control):
                memory.comes(event)
            yield event, memory
            if isinstance(event, Control):
                memory.applied(event)
            elif isinstance(event, Registered):
                memory.broker_epoch = event.broker_epoch
            elif isinstance(event, PartitionCreated):
                memory.held.pop(event.name, None)
            elif isinstance(event, Started) and event.start is not None:
                memory.held[event.start.name] = event.start.leader_epoch
                memory.held_at[event.start.name] = memory.gaps


def controls(history: History, *apis: str) -> Iterator[tuple[Control, Memory]]:
    """The requests of controllers of these APIs, with the memory before each."""
    for event, memory in replayed(history):
        if isinstance(event, Control) and event.api in apis:
            yield event, memory


def partitions(event: Control) -> Iterator[tuple[Any, int]]:
    """(partition, error code) of a request that was not refused as a whole."""
    if not event.error_code:
        yield from zip(event.partitions, event.codes, strict=True)
