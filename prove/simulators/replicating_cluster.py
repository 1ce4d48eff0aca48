"""A simulated KRaft cluster whose brokers replicate: leaders, and followers that fetch and truncate.

The controller is that of `quorum_cluster`. Each broker takes over the metadata log late at times, or not at all while it is isolated. The
state machines follow Partition (makeLeader, makeFollower, fetchRecords, maybeIncrementLeaderHW), LeaderEpochFileCache and
AbstractFetcherThread (truncateOnFetchResponse). A fault makes a broker break one rule, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from prove.history import (
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    AlterPartition,
    Event,
    HighWatermarkLowered,
    IsrUpdated,
    LogStartRaised,
    LogTruncated,
    ProcessStarts,
    Query,
    Start,
    Started,
)
from prove.simulators.client_metadata import Client
from prove.simulators.consumer import FAULTS as CONSUMER_FAULTS
from prove.simulators.quorum_cluster import CONTROLLER, Partition, QuorumCluster
from prove.simulators.replica_log import Log

NODES: Final = (1, 2, 3)
STRANGER: Final = 4
HINTS_SINCE: Final = 16
FETCH_BY_TOPIC_ID: Final = 13
FETCH_FROM_FOLLOWERS: Final = 11
OFFSET_NOT_AVAILABLE: Final = 5
"""Versions of Fetch, and of ListOffsets, since which there is what the name says."""
LATEST: Final = -1
EARLIEST: Final = -2
"""Timestamps of a ListOffsets."""
LOGS_TRUNCATIONS: Final = "3.1"
"""Since this release a follower logs its truncations by leader epochs."""

FAULTS: Final = {
    "high watermark falls": 0.05,
    "offsets contradict each other": 0.02,
    "high watermark ahead of the ISR": 0.05,
    "divergence is overlooked": 0.9,
    "divergence is misplaced": 0.6,
    "truncation is ignored": 0.3,
    "follower truncates too far": 0.7,
    "logs are not compared": 0.2,
    "leader lost its records": 0.3,
    "latest offset below the epoch's start": 0.8,
    "epoch from the future": 0.1,
    "end outside the lineage": 0.2,
    "stranger is served": 0.5,
    "fenced epoch is fetched again": 0.3,
    "older metadata is served": 0.1,
    "older epoch is served": 0.3,
    "older leader is hinted": 0.7,
    "joins below the epoch's start": 1.0,
    "fetches as its former incarnation": 0.4,
    "follower acknowledges a write": 0.3,
    "log start falls": 1.0,
    "deletion is confirmed early": 0.8,
    "older hint is taken": 1.0,
    "older metadata is taken over": 0.3,
    **CONSUMER_FAULTS,
}
"""What a broker or a consumer does wrong, and how often when it can: some chances are rare."""
MOST_FAULTS: Final = 2
POSSIBLE_FAULTS: Final = 6
"""Of so many faults a history may have some: else the frequent ones would leave no room for the rare ones."""


@dataclass
class Held:
    """What a broker holds in memory of a partition.

    ends, starts, incarnations: as its leader, the log end and the log start offset of each follower that has fetched, and the broker
    epoch of the incarnation that did.
    """

    leader_epoch: int = -1
    partition_epoch: int = -1
    leader: int | None = None
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    start: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    incarnations: dict[int, int] = field(default_factory=dict)
    fenced: bool = False


@dataclass
class Node:
    """A broker: memory of its process, and its disk. isolated: it does not see the metadata log.

    stated_epoch: the broker epoch of a former incarnation, under which it fetches; None: it fetches under its own. live: the brokers
    that it takes for alive.
    """

    id: int
    skew: int
    up: bool = False
    isolated: bool = False
    stated_epoch: int | None = None
    live: frozenset[int] = frozenset()
    held: dict[int, Held] = field(default_factory=dict)
    logs: dict[int, Log] = field(default_factory=dict)
    cache: dict[int, tuple[int, int, tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)


@dataclass
class ReplicatingCluster(QuorumCluster):
    """A cluster with one topic, and its history so far."""

    nodes: dict[int, Node] = field(default_factory=dict)
    connections: dict[tuple[object, ...], list[int]] = field(default_factory=dict)
    possible_faults: frozenset[str] = frozenset()

    # -- time, events

    def takes(self, fault: str) -> bool:
        if fault not in FAULTS:
            return super().takes(fault)
        if not self.faulty or len(self.history.faults) >= MOST_FAULTS:
            return False
        if not self.possible_faults:
            self.possible_faults = frozenset(self.choices.sample(sorted(FAULTS), POSSIBLE_FAULTS))
        if fault not in self.possible_faults or self.choices.random() > FAULTS[fault]:
            return False
        self.history.faults.append(fault)
        return True

    def clock(self, node: int) -> int:
        """What a broker's clock shows."""
        return self.now + self.nodes[node].skew

    def log(self, event: Event) -> None:
        """Append an event to the history."""
        self.history.events.append(event)

    def request_id(self, *ends: object) -> tuple[int, int]:
        """(connection, correlation id) of the next request between two ends."""
        one = self.connections.setdefault(ends, [51_000 + len(self.history.events), -1])
        one[1] += 1
        return one[0], one[1]

    def up(self) -> list[Node]:
        """The brokers that run."""
        return [node for node in self.nodes.values() if node.up]

    # -- processes and metadata

    def recover(self, node: Node) -> None:
        """A replica begins with the high watermark and the log start offset of its checkpoints, which are older at times."""
        for log in node.logs.values():
            if log.start > log.base and self.choices.random() < 0.25:
                log.start = self.choices.randint(log.base, log.start)
            if self.choices.random() < 0.25:
                log.high_watermark = self.choices.randint(log.start, log.high_watermark)

    def boot(self, broker: int) -> None:
        """A broker's process starts, and registers."""
        node = self.nodes[broker]
        node.up, node.isolated, node.held, node.cache, node.stated_epoch = True, False, {}, {}, None
        self.recover(node)
        own = {broker, f"broker-{broker}-fetcher-0"}
        self.connections = {ends: one for ends, one in self.connections.items() if own.isdisjoint(ends)}
        self.log(ProcessStarts(self._next(), broker, self.clock(broker), version=self.release.version, broker_epoch=0))
        self.pass_time(900, 1500)
        self.register(broker)
        if broker in self.former and self.takes("fetches as its former incarnation"):
            node.stated_epoch = self.former[broker]
        self.pass_time(900, 1500)
        self.publish(node)
        self.unfence(broker)

    def publish_all(self) -> None:
        """Brokers take over the metadata log, but for those that are late."""
        for node in self.up():
            if self.choices.random() < 0.9:
                self.publish(node)

    def publish(self, node: Node) -> None:
        """A broker takes over the metadata log."""
        if not node.up or node.isolated:
            return
        node.live = frozenset(broker for broker, one in self.registrations.items() if one.active)
        for partition in self.partitions:
            state = partition.leader, partition.leader_epoch, tuple(partition.replicas), tuple(partition.isr)
            node.cache[partition.number] = state
            if node.id in partition.replicas:
                self.pass_time(2, 30)
                self._take_over(node, partition)
        self.pass_time(600, 900)

    def _take_over(self, node: Node, partition: Partition) -> None:
        held = node.held.setdefault(partition.number, Held())
        log = node.logs.setdefault(partition.number, Log(partition.topic_id))
        if partition.partition_epoch <= held.partition_epoch:
            return
        leads = partition.leader == node.id
        isr, replicas = tuple(partition.isr), tuple(partition.replicas)
        if partition.leader_epoch > held.leader_epoch:
            if leads and log.end > 1 and log.high_watermark > 1 and self.takes("leader lost its records"):
                log.truncate(self.choices.randint(0, log.high_watermark - 1))
            start = Start(
                leads, partition.topic, partition.number, partition.topic_id, partition.leader, partition.leader_epoch,
                partition.partition_epoch, log.end, log.high_watermark, isr, held.leader_epoch, held.leader,
            )  # fmt: skip
            self.log(Started(self._next(), node.id, self.clock(node.id), start=start))
            held.start, held.ends, held.starts, held.incarnations, held.fenced = log.end, {}, {}, {}, False
            if leads:
                log.assign(partition.leader_epoch, log.end)
        held.leader_epoch, held.partition_epoch = partition.leader_epoch, partition.partition_epoch
        held.leader, held.isr, held.replicas = partition.leader, isr, replicas
        if leads:
            self._advance(node, partition.number)

    def _advance(self, node: Node, number: int) -> None:
        """Partition.maybeIncrementLeaderHW: followers that are caught up count as members, as they are about to join."""
        held, log = node.held[number], node.logs[number]
        ends = [held.ends.get(member, -1) for member in held.isr if member != node.id]
        log.high_watermark = max(log.high_watermark, min([log.end, *ends]))

    # -- replication

    def query(self, api: str, broker: int, partition: Partition, client: Client, **fields: Any) -> Query:
        """A client's or a follower's request, which is not answered yet."""
        version = {
            FETCH: min(client.fetch, self.release.fetch),
            LIST_OFFSETS: min(client.list_offsets, self.release.list_offsets),
            OFFSET_FOR_LEADER_EPOCH: self.release.offset_for_leader_epoch,
        }[api]
        connection, correlation = self.request_id(client.instance, broker)
        self.pass_time(3, 40)
        query = Query(
            0, broker, 0, api=api, version=version, correlation_id=correlation, client_id=client.client_id, topic=partition.topic,
            topic_id=None if api == FETCH and version < FETCH_BY_TOPIC_ID else partition.topic_id, partition=partition.number,
            connection=connection, arrived=self.clock(broker), software=client.software,
            session_id=1_000_000 + len(self.history.events), **fields,
        )  # fmt: skip
        self.pass_time(2, 9)
        return query

    def answered(self, query: Query) -> Query:
        self.pass_time(2, 9)
        query.id, query.at = self._next(), self.clock(query.node)
        self.log(query)
        return query

    def check_epoch(self, node: Node, partition: Partition, epoch: int) -> int:
        held = node.held.get(partition.number)
        if held is None:
            return 6
        if epoch in (-1, held.leader_epoch):
            return 0
        if epoch < held.leader_epoch:
            return 0 if self.takes("older epoch is served") else 74
        return 75

    def replicate(self, node: Node, partition: Partition) -> None:
        """A follower sends one Fetch, and acts on the answer."""
        held = node.held.get(partition.number)
        if held is None or held.leader in (None, -1, node.id) or not node.up:
            return
        if held.fenced and not self.takes("fenced epoch is fetched again"):
            return
        leader = self.nodes.get(held.leader)
        if leader is None or not leader.up:
            return
        log = node.logs[partition.number]
        stated = log.latest_epoch
        if stated > held.leader_epoch:
            return  # it was served in an older epoch, and is about to learn of the newer one
        if stated >= 0 and stated < held.leader_epoch and log.end and self.takes("logs are not compared"):
            stated = -1
        query = self._fetched(node.id, leader, partition, held.leader_epoch, log.end, stated)
        self._react(node, leader, partition, query)

    def _out_of_range(self, node: Node, leader: Node, partition: Partition) -> None:
        """AbstractFetcherThread.fetchOffsetAndTruncate, of a follower whose log ends before its leader's begins."""
        log, others = node.logs[partition.number], leader.logs[partition.number]
        held = leader.held[partition.number]
        fetcher = f"broker-{node.id}-fetcher-0"
        for timestamp in (LATEST, EARLIEST):
            query = self.query(
                LIST_OFFSETS, leader.id, partition, Client(fetcher, fetcher), replica_id=node.id, timestamp=timestamp,
                current_leader_epoch=node.held[partition.number].leader_epoch,
            )  # fmt: skip
            query.end_offset, query.answered_epoch = others.end, held.leader_epoch
            if timestamp == EARLIEST:
                query.end_offset, query.answered_epoch = others.start, others.epoch_of_start
            self.answered(query)
        log.begin_at(others)

    def _fetched(self, replica: int, leader: Node, partition: Partition, epoch: int, offset: int, stated: int) -> Query:
        registration, node = self.registrations.get(replica), self.nodes.get(replica)
        broker_epoch = registration.broker_epoch if registration else -1
        if node is not None and node.stated_epoch is not None:
            broker_epoch = node.stated_epoch
        fetcher = f"broker-{replica}-fetcher-0"
        query = self.query(
            FETCH, leader.id, partition, Client(fetcher, fetcher), replica_id=replica, current_leader_epoch=epoch,
            epoch=stated, offset=offset, replica_epoch=broker_epoch,
            replica_log_start=node.logs[partition.number].start if node is not None else 0,
        )  # fmt: skip
        self._serve_follower(leader, partition, query)
        return self.answered(query)

    def _serve_follower(self, leader: Node, partition: Partition, query: Query) -> None:
        query.error_code = self.check_epoch(leader, partition, query.current_leader_epoch)
        held = leader.held.get(partition.number)
        if not query.error_code and held is not None:
            if held.leader != leader.id:
                query.error_code = 6
            elif query.replica_id not in held.replicas and not self.takes("stranger is served"):
                query.error_code = 75
        if query.error_code or held is None:
            self.hint(leader, partition, query)
            return
        log = leader.logs[partition.number]
        query.high_watermark, query.log_start_offset = log.high_watermark, log.start
        if query.epoch >= 0 and self._diverges(log, held, query):
            return
        if not log.start <= query.offset <= log.end:
            query.error_code, query.high_watermark = 1, -1
            return
        query.records_size = 70 * (log.end - query.offset)
        held.ends[query.replica_id], held.starts[query.replica_id] = query.offset, query.replica_log_start
        registration = self.registrations.get(query.replica_id)
        held.incarnations[query.replica_id] = registration.broker_epoch if registration else -1
        members = [member for member in held.isr if member != leader.id]
        if query.replica_id in members and query.offset < log.end and self.takes("high watermark ahead of the ISR"):
            log.high_watermark = query.high_watermark = log.end
        self._advance(leader, partition.number)

    def _diverges(self, log: Log, held: Held, query: Query) -> bool:
        """Partition.readRecords: compare the follower's last epoch with the own lineage."""
        epoch, end = log.end_of(query.epoch)
        if end == -1 or query.offset < log.start:
            query.error_code, query.high_watermark = 1, -1
            return True
        diverges = epoch < query.epoch or end < query.offset
        below = query.epoch < held.leader_epoch and query.offset > held.start
        if diverges and below and query.offset <= log.end and self.takes("divergence is overlooked"):
            return False
        if diverges:
            if query.epoch < held.leader_epoch and self.takes("divergence is misplaced"):
                end = held.start + 1
            query.diverging = epoch, end
        return diverges

    def hint(self, node: Node, partition: Partition, query: Query) -> None:
        held = node.held.get(partition.number)
        if query.version < HINTS_SINCE or query.error_code not in (6, 74) or held is None or held.leader is None:
            return
        query.hint = held.leader, held.leader_epoch
        if query.error_code == 74 and self.takes("older leader is hinted"):
            query.hint = query.node, query.current_leader_epoch

    def _react(self, node: Node, leader: Node, partition: Partition, query: Query) -> None:
        held, log = node.held[partition.number], node.logs[partition.number]
        if query.error_code:
            held.fenced = held.fenced or query.error_code == 74
            if query.error_code == 1 and log.end < leader.logs[partition.number].start:
                self._out_of_range(node, leader, partition)
            return
        if query.diverging:
            if self.takes("truncation is ignored"):
                return
            self._truncate(node, leader, partition, query.diverging)
            return
        log.append(leader.logs[partition.number].records[query.offset :])
        before, log.high_watermark = log.high_watermark, max(log.start, min(log.end, query.high_watermark))
        self._lowered(node, partition, before)
        self.raise_start(node, partition, query.log_start_offset)

    def raise_start(self, node: Node, partition: Partition, offset: int) -> None:
        """UnifiedLog.maybeIncrementLogStartOffset."""
        log = node.logs[partition.number]
        if not log.start < offset <= log.high_watermark:
            return
        log.raise_start(offset)
        self.log(
            LogStartRaised(
                self._next(), node.id, self.clock(node.id), topic=partition.topic, partition=partition.number, offset=offset,
                follows=node.held[partition.number].leader != node.id,
            )
        )  # fmt: skip

    def _truncate(self, node: Node, leader: Node, partition: Partition, diverging: tuple[int, int]) -> None:
        """AbstractFetcherThread.getOffsetTruncationState."""
        log, before = node.logs[partition.number], node.logs[partition.number].high_watermark
        epoch, end = diverging
        own, own_end = log.end_of(epoch)
        if own_end == -1:
            offset = min(end, log.end)
        elif own != epoch:
            offset = min(own_end, log.end)
        else:
            offset = min(own_end, end, log.end)
        if before > 0 and self.takes("follower truncates too far"):
            offset = min(offset, self.choices.randint(0, before - 1))
        self.pass_time(1, 4)
        if self.release.version >= LOGS_TRUNCATIONS:
            self.log(
                LogTruncated(
                    self._next(), node.id, self.clock(node.id), topic=partition.topic, partition=partition.number,
                    leader=leader.id, offset=offset, diverging_epoch=epoch, diverging_end_offset=end,
                )
            )  # fmt: skip
        log.truncate(offset)
        self._lowered(node, partition, before)

    def _lowered(self, node: Node, partition: Partition, before: int) -> None:
        """UnifiedLog.updateHighWatermarkMetadata writes a line if the high watermark falls."""
        after = node.logs[partition.number].high_watermark
        if after < before:
            self.pass_time(1, 3)
            self.log(
                HighWatermarkLowered(
                    self._next(), node.id, self.clock(node.id), topic=partition.topic, partition=partition.number,
                    before=before, after=after,
                )
            )  # fmt: skip

    def fetch_all(self, partition: Partition) -> None:
        """Each follower fetches, some not."""
        for node in self.up():
            if self.choices.random() < 0.8:
                self.replicate(node, partition)

    def replicate_all(self) -> None:
        """Followers fetch, and leaders change ISRs."""
        for partition in self.partitions:
            self.fetch_all(partition)
            if self.choices.random() < 0.7:
                self.fetch_all(partition)
            if self.choices.random() < 0.6:
                self._expand(partition)

    def stranger_fetches(self) -> None:
        """A broker that is no replica fetches."""
        partition = self.choices.choice(self.partitions)
        leader = self.nodes.get(partition.leader)
        if leader is not None and leader.up and partition.number in leader.held:
            self._fetched(STRANGER, leader, partition, leader.held[partition.number].leader_epoch, 0, -1)

    def _expand(self, partition: Partition) -> None:
        """Partition.maybeExpandIsr: a follower that reached the high watermark and the epoch's start joins the ISR."""
        leader = self.nodes.get(partition.leader)
        if leader is None or not leader.up or leader.isolated:
            return
        held, log = leader.held[partition.number], leader.logs[partition.number]
        if held.partition_epoch != partition.partition_epoch:
            return
        for member in held.replicas:
            registration = self.registrations.get(member)
            if member in held.isr or registration is None or not registration.active:
                continue
            end = held.ends.get(member, -1)
            joins = end >= log.high_watermark and end >= held.start
            joins = joins and held.incarnations.get(member) == registration.broker_epoch
            if not joins and 0 <= end < held.start and self.takes("joins below the epoch's start"):
                joins = True
            if joins:
                self._propose(leader, partition, (*held.isr, member))
                return

    def _propose(self, leader: Node, partition: Partition, isr: tuple[int, ...]) -> None:
        held = leader.held[partition.number]
        request = AlterPartition(
            0, CONTROLLER, 0, version=self.release.alter_partition, broker_id=leader.id,
            broker_epoch=self.registrations[leader.id].broker_epoch, topic=partition.topic, topic_id=partition.topic_id,
            partition=partition.number, leader_epoch=held.leader_epoch, partition_epoch=held.partition_epoch,
            new_isr=tuple(self._current(member) for member in isr),
        )  # fmt: skip
        self.answer(partition, request)
        if request.error_code or request.partition_error:
            return
        held.isr, held.partition_epoch = request.isr_after, request.partition_epoch_after
        self.log(
            IsrUpdated(
                self._next(), leader.id, self.clock(leader.id), topic=partition.topic, partition=partition.number,
                isr=held.isr, partition_epoch=held.partition_epoch,
            )
        )  # fmt: skip
        self._advance(leader, partition.number)
        self.pass_time(1200, 1800)

    def _current(self, member: int) -> Any:
        choices, self.choices = self.choices, Random(1)
        former, self.former = self.former, {}
        made = self._member(member)
        self.choices, self.former = choices, former
        return made
