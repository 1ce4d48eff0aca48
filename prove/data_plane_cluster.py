"""A simulated KRaft cluster whose brokers replicate: leaders, followers that fetch and truncate, producers, consumers.

The controller is that of `quorum_cluster`. Each broker takes over the metadata log late at times, or not at all while it is isolated. The
state machines follow Partition (makeLeader, makeFollower, fetchRecords, maybeIncrementLeaderHW, fetchOffsetForTimestamp),
LeaderEpochFileCache and AbstractFetcherThread (truncateOnFetchResponse). A fault makes a broker break one rule, once.
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
    History,
    IsrUpdated,
    MetadataAnswer,
    ProcessStarts,
    Produced,
    Query,
    Release,
    Start,
    Started,
)
from prove.quorum_cluster import CONTROLLER, Partition, QuorumCluster
from prove.replica_log import Log

NODES: Final = (1, 2, 3)
STRANGER: Final = 4
HINTS_SINCE: Final = 16
CLIENTS: Final = ("billing", "audit")

RELEASES: Final = (
    Release("3.3.2", "kraft", 0, 0, 0, 13, 7, 4, metadata_version=7, alter_partition=2, produce=9, metadata=12),
    Release("3.5.2", "kraft", 0, 0, 0, 15, 8, 4, metadata_version=11, alter_partition=3, produce=9, metadata=12),
    Release("3.9.1", "kraft", 0, 0, 0, 17, 9, 4, metadata_version=21, alter_partition=3, produce=11, metadata=12),
    # its Fetch is that of clients of 3.9
    Release("4.1.2", "kraft", 0, 0, 0, 17, 10, 4, metadata_version=25, alter_partition=3, produce=13, metadata=13),
)

FAULTS: Final = {
    "high watermark falls": 0.2,
    "offsets contradict each other": 0.1,
    "high watermark ahead of the ISR": 0.05,
    "divergence is overlooked": 0.9,
    "divergence is misplaced": 0.6,
    "truncation is ignored": 0.3,
    "logs are not compared": 0.2,
    "leader lost its records": 0.3,
    "latest offset below the epoch's start": 0.8,
    "epoch from the future": 0.1,
    "end outside the lineage": 0.2,
    "stranger is served": 0.5,
    "fenced epoch is fetched again": 0.3,
    "older metadata is served": 0.4,
    "older epoch is served": 0.3,
    "older leader is hinted": 0.7,
    "joins below the epoch's start": 1.0,
    "fetches as its former incarnation": 0.4,
}
"""What a broker does wrong, and how often when it can: some chances are rare."""
MOST_FAULTS: Final = 2


@dataclass
class Held:
    """What a broker holds in memory of a partition. ends: as its leader, the log end of each follower that has fetched."""

    leader_epoch: int = -1
    partition_epoch: int = -1
    leader: int | None = None
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    start: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    fenced: bool = False


@dataclass
class Node:
    """A broker: memory of its process, and its disk. isolated: it does not see the metadata log.

    stated_epoch: the broker epoch of a former incarnation, under which it fetches; None: it fetches under its own.
    """

    id: int
    skew: int
    up: bool = False
    isolated: bool = False
    stated_epoch: int | None = None
    held: dict[int, Held] = field(default_factory=dict)
    logs: dict[int, Log] = field(default_factory=dict)
    cache: dict[int, tuple[int, int, tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)


@dataclass
class DataPlaneCluster(QuorumCluster):
    """A cluster with one topic, and its history so far."""

    nodes: dict[int, Node] = field(default_factory=dict)
    connections: dict[tuple[object, ...], list[int]] = field(default_factory=dict)
    positions: dict[tuple[str, int], int] = field(default_factory=dict)

    # -- time, events

    def _takes(self, fault: str) -> bool:
        if fault not in FAULTS:
            return super()._takes(fault)
        if not self.faulty or len(self.history.faults) >= MOST_FAULTS or self.choices.random() > FAULTS[fault]:
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

    def boot(self, broker: int) -> None:
        """A broker's process starts, and registers."""
        node = self.nodes[broker]
        node.up, node.isolated, node.held, node.cache, node.stated_epoch = True, False, {}, {}, None
        own = {broker, f"broker-{broker}-fetcher-0"}
        self.connections = {ends: one for ends, one in self.connections.items() if own.isdisjoint(ends)}
        self.log(ProcessStarts(self._next(), broker, self.clock(broker), version=self.release.version, broker_epoch=0))
        self.pass_time(900, 1500)
        self.register(broker)
        if broker in self.former and self._takes("fetches as its former incarnation"):
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
            if leads and log.end > 1 and log.high_watermark > 1 and self._takes("leader lost its records"):
                log.truncate(self.choices.randint(0, log.high_watermark - 1))
            start = Start(
                leads, partition.topic, partition.number, partition.topic_id, partition.leader, partition.leader_epoch,
                partition.partition_epoch, log.end, log.high_watermark, isr, held.leader_epoch, held.leader,
            )  # fmt: skip
            self.log(Started(self._next(), node.id, self.clock(node.id), start=start))
            held.start, held.ends, held.fenced = log.end, {}, False
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

    def lose(self) -> None:
        """A broker's process dies, and the controller fences it."""
        before = {broker for broker, one in self.registrations.items() if one.fenced}
        self.fence()
        for broker in {broker for broker, one in self.registrations.items() if one.fenced} - before:
            node = self.nodes[broker]
            if self.choices.random() < 0.3:  # it runs on, cut off from the controller
                node.isolated = True
            else:
                node.up = False
        self.pass_time(900, 1500)
        self.publish_all()

    def come_back(self) -> None:
        """A dead broker's process starts again. An isolated one sees the controller again, and is stopped and started anew."""
        away = [broker for broker in NODES if not self.nodes[broker].up or self.nodes[broker].isolated]
        if not away:
            return
        broker = self.choices.choice(away)
        self.boot(broker)
        self.pass_time(900, 1500)
        self.publish_all()

    def prefer(self) -> None:
        """The controller elects another member of the ISR."""
        self.elect()
        self.pass_time(900, 1500)
        self.publish_all()

    # -- replication

    def _query(self, api: str, broker: int, partition: Partition, requester: str, **fields: Any) -> Query:
        versions = {
            FETCH: self.release.fetch,
            LIST_OFFSETS: self.release.list_offsets,
            OFFSET_FOR_LEADER_EPOCH: self.release.offset_for_leader_epoch,
        }
        connection, correlation = self.request_id(requester, broker)
        self.pass_time(3, 40)
        query = Query(
            0, broker, 0, api=api, version=versions[api], correlation_id=correlation, client_id=requester, topic=partition.topic,
            topic_id=partition.topic_id, partition=partition.number, connection=connection, arrived=self.clock(broker),
            session_id=1_000_000 + len(self.history.events), **fields,
        )  # fmt: skip
        self.pass_time(2, 9)
        return query

    def _answered(self, query: Query) -> Query:
        self.pass_time(2, 9)
        query.id, query.at = self._next(), self.clock(query.node)
        self.log(query)
        return query

    def _fence(self, node: Node, partition: Partition, epoch: int) -> int:
        held = node.held.get(partition.number)
        if held is None:
            return 6
        if epoch in (-1, held.leader_epoch):
            return 0
        if epoch < held.leader_epoch:
            return 0 if self._takes("older epoch is served") else 74
        return 75

    def replicate(self, node: Node, partition: Partition) -> None:
        """A follower sends one Fetch, and acts on the answer."""
        held = node.held.get(partition.number)
        if held is None or held.leader in (None, -1, node.id) or not node.up:
            return
        if held.fenced and not self._takes("fenced epoch is fetched again"):
            return
        leader = self.nodes.get(held.leader)
        if leader is None or not leader.up:
            return
        log = node.logs[partition.number]
        stated = log.latest_epoch
        if stated >= 0 and stated < held.leader_epoch and log.end and self._takes("logs are not compared"):
            stated = -1
        query = self._fetched(node.id, leader, partition, held.leader_epoch, log.end, stated)
        self._react(node, leader, partition, query)

    def _fetched(self, replica: int, leader: Node, partition: Partition, epoch: int, offset: int, stated: int) -> Query:
        registration, node = self.registrations.get(replica), self.nodes.get(replica)
        broker_epoch = registration.broker_epoch if registration else -1
        if node is not None and node.stated_epoch is not None:
            broker_epoch = node.stated_epoch
        query = self._query(
            FETCH, leader.id, partition, f"broker-{replica}-fetcher-0", replica_id=replica, current_leader_epoch=epoch,
            epoch=stated, offset=offset, replica_epoch=broker_epoch,
        )  # fmt: skip
        self._serve_follower(leader, partition, query)
        return self._answered(query)

    def _serve_follower(self, leader: Node, partition: Partition, query: Query) -> None:
        query.error_code = self._fence(leader, partition, query.current_leader_epoch)
        held = leader.held.get(partition.number)
        if not query.error_code and held is not None:
            if held.leader != leader.id:
                query.error_code = 6
            elif query.replica_id not in held.replicas and not self._takes("stranger is served"):
                query.error_code = 75
        if query.error_code or held is None:
            self._hint(leader, partition, query)
            return
        log = leader.logs[partition.number]
        query.high_watermark = log.high_watermark
        if query.epoch >= 0 and self._diverges(log, held, query):
            return
        if query.offset > log.end:
            query.error_code, query.high_watermark = 1, -1
            return
        query.records_size = 70 * (log.end - query.offset)
        held.ends[query.replica_id] = query.offset
        members = [member for member in held.isr if member != leader.id]
        if query.replica_id in members and query.offset < log.end and self._takes("high watermark ahead of the ISR"):
            log.high_watermark = query.high_watermark = log.end
        self._advance(leader, partition.number)

    def _diverges(self, log: Log, held: Held, query: Query) -> bool:
        """Partition.readRecords: compare the follower's last epoch with the own lineage."""
        epoch, end = log.end_of(query.epoch)
        if end == -1:
            query.error_code, query.high_watermark = 1, -1
            return True
        diverges = epoch < query.epoch or end < query.offset
        below = query.epoch < held.leader_epoch and query.offset > held.start
        if diverges and below and query.offset <= log.end and self._takes("divergence is overlooked"):
            return False
        if diverges:
            if query.epoch < held.leader_epoch and self._takes("divergence is misplaced"):
                end = held.start + 1
            query.diverging = epoch, end
        return diverges

    def _hint(self, node: Node, partition: Partition, query: Query) -> None:
        held = node.held.get(partition.number)
        if query.version < HINTS_SINCE or query.error_code not in (6, 74) or held is None or held.leader is None:
            return
        query.hint = held.leader, held.leader_epoch
        if query.error_code == 74 and self._takes("older leader is hinted"):
            query.hint = query.node, query.current_leader_epoch

    def _react(self, node: Node, leader: Node, partition: Partition, query: Query) -> None:
        held, log = node.held[partition.number], node.logs[partition.number]
        if query.error_code:
            held.fenced = held.fenced or query.error_code == 74
            return
        if query.diverging:
            if self._takes("truncation is ignored"):
                return
            epoch, end = query.diverging
            own = log.epoch_at_or_below(epoch)
            if own == -1:
                log.truncate(min(end, log.end))
            elif own != epoch:
                log.truncate(min(log.end_of(own)[1], log.end))
            else:
                log.truncate(min(log.end_of(epoch)[1], end, log.end))
            return
        log.append(leader.logs[partition.number].records[query.offset :])
        log.high_watermark = min(log.end, query.high_watermark)

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
            if not joins and 0 <= end < held.start and self._takes("joins below the epoch's start"):
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
        self._answer(partition, request)
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

    # -- clients

    def produce(self) -> None:
        """A producer writes to whom it takes for the leader; followers fetch."""
        partition = self.choices.choice(self.partitions)
        leaders = [n for n in self.up() if partition.number in n.held and n.held[partition.number].leader == n.id]
        if not leaders:
            return
        leader = self.choices.choice(leaders)
        log, held = leader.logs[partition.number], leader.held[partition.number]
        acks = self.choices.choice((-1, -1, 1))
        self.pass_time(3, 40)
        connection, correlation = self.request_id("orders-app", leader.id)
        written = Produced(
            0, leader.id, 0, version=self.release.produce, client_id="orders-app", topic=partition.topic,
            topic_id=partition.topic_id, partition=partition.number, acks=acks, connection=connection,
            correlation_id=correlation, arrived=self.clock(leader.id),
        )  # fmt: skip
        base = log.end
        log.append([held.leader_epoch] * self.choices.randint(1, 9))
        self._advance(leader, partition.number)
        end = log.end
        if acks == -1:
            self.fetch_all(partition)
            self.fetch_all(partition)
        if acks == 1 or log.high_watermark >= end:
            written.base_offset = base
        else:
            written.error_code = 7
        self.pass_time(2, 9)
        written.id, written.at = self._next(), self.clock(leader.id)
        self.log(written)
        if self.choices.random() < 0.5:
            self.fetch_all(partition)

    def _asked(self) -> tuple[Node, Partition, int] | None:
        """Whom a client asks, about which partition, and which leader epoch it states."""
        up = self.up()
        partition = self.choices.choice(self.partitions)
        if not up:
            return None
        leaders = [n for n in up if partition.number in n.held and n.held[partition.number].leader == n.id]
        node = self.choices.choice(leaders if leaders and self.choices.random() < 0.8 else up)
        held = node.held.get(partition.number)
        known = held.leader_epoch if held and self.choices.random() < 0.8 else partition.leader_epoch
        return node, partition, known

    def consume(self) -> None:
        """A consumer fetches, from a new connection at times."""
        asked = self._asked()
        if asked is None:
            return
        node, partition, epoch = asked
        client = self.choices.choice(CLIENTS)
        if self.choices.random() < 0.2:
            epoch = max(0, epoch - 1)
        offset = self.positions.get((client, partition.number), 0)
        query = self._query(FETCH, node.id, partition, client, current_leader_epoch=epoch, offset=offset)
        query.error_code = self._fence(node, partition, epoch)
        log = node.logs.get(partition.number)
        if not query.error_code and log is not None:
            self._serve_consumer(node, log, partition, query)
        self._hint(node, partition, query)
        self._answered(query)
        if query.error_code == 0:
            self.positions[client, partition.number] = query.offset + query.records_size // 70
        elif query.error_code == 1:
            self.positions[client, partition.number] = 0
        else:
            self.ask_metadata(node)

    def _serve_consumer(self, node: Node, log: Log, partition: Partition, query: Query) -> None:
        if query.offset > log.end:
            query.error_code = 1
            return
        leads = node.held[partition.number].leader == node.id
        query.high_watermark = log.high_watermark
        if leads and log.high_watermark > 2 and self._takes("high watermark falls"):
            query.high_watermark -= 2
        elif self._takes("offsets contradict each other"):
            query.last_stable_offset = query.high_watermark + 40
        query.records_size = 70 * max(0, query.high_watermark - query.offset)

    def list_offsets(self) -> None:
        """A client asks for the latest offset."""
        asked = self._asked()
        if asked is None:
            return
        node, partition, epoch = asked
        client = self.choices.choice(CLIENTS)
        epoch = self.choices.choice((epoch, epoch, -1, max(0, epoch - 1)))
        if self._latest_offset(node, partition, client, epoch):  # who does not check answers the next one alike
            self._latest_offset(node, partition, client, epoch, checks=False)

    def _latest_offset(self, node: Node, partition: Partition, client: str, epoch: int, *, checks: bool = True) -> bool:
        """Ask for the latest offset, and return whether the broker has overlooked that it may not answer."""
        overlooked = False
        query = self._query(LIST_OFFSETS, node.id, partition, client, current_leader_epoch=epoch)
        query.error_code = self._fence(node, partition, epoch)
        held = node.held.get(partition.number)
        if held is not None and not query.error_code:
            log = node.logs[partition.number]
            if held.leader != node.id:
                query.error_code = 6
            else:
                overlooked = held.start > log.high_watermark and self._takes("latest offset below the epoch's start")
            if not query.error_code and held.start > log.high_watermark and checks and not overlooked:
                query.error_code = 78
            elif not query.error_code:
                query.end_offset, query.answered_epoch = log.high_watermark, held.leader_epoch
                if self._takes("epoch from the future"):
                    query.answered_epoch += 1
        self._answered(query)
        return overlooked

    def ask_epoch_end(self) -> None:
        """A client asks where a leader epoch ends."""
        asked = self._asked()
        if asked is None:
            return
        node, partition, epoch = asked
        client = self.choices.choice(CLIENTS)
        query = self._query(
            OFFSET_FOR_LEADER_EPOCH, node.id, partition, client, current_leader_epoch=epoch,
            epoch=self.choices.randint(0, max(epoch, 0)),
        )  # fmt: skip
        query.error_code = self._fence(node, partition, epoch)
        held = node.held.get(partition.number)
        if held is not None and not query.error_code:
            if held.leader != node.id:
                query.error_code = 6
            else:
                query.answered_epoch, query.end_offset = node.logs[partition.number].end_of(query.epoch)
                if query.epoch < held.leader_epoch and self._takes("end outside the lineage"):
                    query.end_offset = held.start + 7
        self._answered(query)

    def ask_metadata(self, node: Node | None = None) -> None:
        """A client asks a broker for metadata."""
        up = [one for one in self.up() if one.cache]
        if node is None or not node.cache:
            if not up:
                return
            node = self.choices.choice(up)
        (topic,) = {(one.topic, one.topic_id) for one in self.partitions}
        client = self.choices.choice(CLIENTS)
        connection, correlation = self.request_id(client, node.id)
        self.pass_time(3, 40)
        arrived = self.clock(node.id)
        self.pass_time(2, 9)
        older = 1 if all(state[1] for state in node.cache.values()) and self._takes("older metadata is served") else 0
        partitions = tuple(
            (number, leader, epoch - older, replicas, isr)
            for number, (leader, epoch, replicas, isr) in node.cache.items()
        )
        self.log(
            MetadataAnswer(
                self._next(), node.id, self.clock(node.id), version=self.release.metadata, correlation_id=correlation,
                client_id=client, topic=topic[0], topic_id=topic[1], partitions=partitions, arrived=arrived,
                connection=connection,
            )
        )  # fmt: skip

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps."""
        self.nodes = {broker: Node(broker, self.choices.choice((0, 0, 70, -90))) for broker in NODES}
        self.log(ProcessStarts(self._next(), CONTROLLER, self.now, version=self.release.version))
        self.pass_time(500, 900)
        level = {"name": "metadata.version", "featureLevel": self.release.metadata_version}
        self.write(("FEATURE_LEVEL_RECORD", 0, level))
        for broker in NODES:
            self.pass_time(900, 1500)
            self.boot(broker)
        self.pass_time(900, 1500)
        self.create_topic()
        self.pass_time(900, 1500)
        for node in self.up():
            self.publish(node)
        for _ in range(2 * steps):
            self._step()
            self.pass_time(1500, 2500)
        self.pass_time(20_000, 20_001)
        self.write(("NO_OP_RECORD", 0, {}))
        return self.history

    def create_topic(self) -> None:
        """Create the topic, of which each broker has a replica."""
        topic_id = "topic000001AAAAAAAAAAA"[:21] + "A"
        self.unclean[topic_id] = self.choices.random() < 0.6
        config = {"resourceType": 2, "resourceName": "orders", "name": "unclean.leader.election.enable"}
        records: list[tuple[str, int, dict[str, Any]]] = [
            ("TOPIC_RECORD", 0, {"name": "orders", "topicId": topic_id}),
            ("CONFIG_RECORD", 0, config | {"value": str(self.unclean[topic_id]).lower()}),
        ]
        for number in range(self.choices.choice((1, 1, 2))):
            replicas = self.choices.sample(NODES, 3)
            partition = Partition("orders", topic_id, number, replicas, [*replicas], replicas[0])
            self.partitions.append(partition)
            records.append(("PARTITION_RECORD", 0, self._absolute(partition)))
        self.write(*records)

    def _step(self) -> None:
        step = self.choices.choices(
            (
                self.produce, self.replicate_all, self.consume, self.list_offsets, self.ask_epoch_end, self.ask_metadata,
                self.lose, self.come_back, self.prefer, self.publish_all, self.stranger_fetches,
            ),
            (24, 16, 14, 8, 7, 6, 7, 10, 6, 6, 1),
        )[0]  # fmt: skip
        step()


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of replication. faulty: breaches are planted."""
    return DataPlaneCluster(name, release, choices, faulty).run(steps)
