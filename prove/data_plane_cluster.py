"""A simulated KRaft cluster whose brokers replicate: leaders, followers that fetch and truncate, producers, consumers.

The controller is that of `quorum_cluster`. Each broker takes over the metadata log late at times, or not at all while it is isolated. The
state machines follow Partition (makeLeader, makeFollower, fetchRecords, maybeIncrementLeaderHW, fetchOffsetForTimestamp),
LeaderEpochFileCache and AbstractFetcherThread (truncateOnFetchResponse). A fault makes a broker break one rule, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from prove.consumer import BEFORE_EPOCHS, JAVA, LIBRDKAFKA, Client, Consumer
from prove.consumer import FAULTS as CONSUMER_FAULTS
from prove.history import (
    FETCH,
    LIST_OFFSETS,
    NO_EPOCH,
    NO_LEADER,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    UNKNOWN_SOFTWARE,
    AlterPartition,
    Event,
    GroupOffset,
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
CLIENTS: Final = ("prober", "lag-exporter")
FETCH_BY_TOPIC_ID: Final = 13
FETCH_FROM_FOLLOWERS: Final = 11
OFFSET_NOT_AVAILABLE: Final = 5
"""Versions of Fetch, and of ListOffsets, since which there is what the name says."""

RELEASES: Final = (
    Release("3.3.2", "kraft", 0, 0, 0, 13, 7, 4, metadata_version=7, alter_partition=2, produce=9, metadata=12),
    Release("3.5.2", "kraft", 0, 0, 0, 15, 8, 4, metadata_version=11, alter_partition=3, produce=9, metadata=12),
    Release("3.9.1", "kraft", 0, 0, 0, 17, 9, 4, metadata_version=21, alter_partition=3, produce=11, metadata=12),
    # its Fetch is that of clients of 3.9
    Release("4.1.2", "kraft", 0, 0, 0, 17, 10, 4, metadata_version=25, alter_partition=3, produce=13, metadata=13),
)

FAULTS: Final = {
    "high watermark falls": 0.05,
    "offsets contradict each other": 0.02,
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
    "older metadata is served": 0.1,
    "older epoch is served": 0.3,
    "older leader is hinted": 0.7,
    "joins below the epoch's start": 1.0,
    "fetches as its former incarnation": 0.4,
    **CONSUMER_FAULTS,
}
"""What a broker or a consumer does wrong, and how often when it can: some chances are rare."""
MOST_FAULTS: Final = 2
POSSIBLE_FAULTS: Final = 6
"""Of so many faults a history may have some: else the frequent ones would leave no room for the rare ones."""


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
    consumers: list[Consumer] = field(default_factory=list)
    offsets: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
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

    def boot(self, broker: int) -> None:
        """A broker's process starts, and registers."""
        node = self.nodes[broker]
        node.up, node.isolated, node.held, node.cache, node.stated_epoch = True, False, {}, {}, None
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
        """A broker's process dies, but never the last one's."""
        active = [broker for broker, one in self.registrations.items() if not one.fenced]
        if len(active) > 1:
            self.lose_broker(self.choices.choice(active))

    def lose_broker(self, broker: int) -> None:
        """A broker's process dies, or is cut off from the controller and runs on. The controller fences it."""
        self.expire(broker)
        if self.choices.random() < 0.3:
            self.nodes[broker].isolated = True
        else:
            self.nodes[broker].up = False
        self.pass_time(900, 1500)
        self.publish_all()
        if self.nodes[broker].isolated and self.choices.random() < 0.5:  # what is committed now, it does not know
            self.produce()
            self.poll()
            self.restart_consumer()

    def lose_isr(self) -> None:
        """The last member of an ISR dies after writes that the other replicas lack. One of those comes back first."""
        led = [one for one in self.partitions if one.leader != NO_LEADER and not self.nodes[one.leader].isolated]
        if not led:
            return
        partition = self.choices.choice(led)
        last, others = partition.leader, [replica for replica in partition.replicas if replica != partition.leader]
        for broker in others:
            if not self.registrations[broker].fenced:
                self.lose_broker(broker)
        for _ in range(self.choices.randint(1, 3)):
            self.produce()
            self.poll()
        self.lose_broker(last)
        for broker in (self.choices.choice(others), *self.choices.choice(((), (last,)))):
            self.boot(broker)
            self.pass_time(900, 1500)
            self.publish_all()
            self.produce()
            if self.choices.random() < 0.5:
                self.restart_consumer()
            self.poll()

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
        if stated >= 0 and stated < held.leader_epoch and log.end and self.takes("logs are not compared"):
            stated = -1
        query = self._fetched(node.id, leader, partition, held.leader_epoch, log.end, stated)
        self._react(node, leader, partition, query)

    def _fetched(self, replica: int, leader: Node, partition: Partition, epoch: int, offset: int, stated: int) -> Query:
        registration, node = self.registrations.get(replica), self.nodes.get(replica)
        broker_epoch = registration.broker_epoch if registration else -1
        if node is not None and node.stated_epoch is not None:
            broker_epoch = node.stated_epoch
        fetcher = f"broker-{replica}-fetcher-0"
        query = self.query(
            FETCH, leader.id, partition, Client(fetcher, fetcher), replica_id=replica, current_leader_epoch=epoch,
            epoch=stated, offset=offset, replica_epoch=broker_epoch,
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
        query.high_watermark = log.high_watermark
        if query.epoch >= 0 and self._diverges(log, held, query):
            return
        if query.offset > log.end:
            query.error_code, query.high_watermark = 1, -1
            return
        query.records_size = 70 * (log.end - query.offset)
        held.ends[query.replica_id] = query.offset
        members = [member for member in held.isr if member != leader.id]
        if query.replica_id in members and query.offset < log.end and self.takes("high watermark ahead of the ISR"):
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
            return
        if query.diverging:
            if self.takes("truncation is ignored"):
                return
            epoch, end = query.diverging
            own, own_end = log.end_of(epoch)  # AbstractFetcherThread.getOffsetTruncationState
            if own_end == -1:
                log.truncate(min(end, log.end))
            elif own != epoch:
                log.truncate(min(own_end, log.end))
            else:
                log.truncate(min(own_end, end, log.end))
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

    def fetch(self, node: Node, partition: Partition, client: Client, epoch: int, offset: int) -> Query:
        """A client's Fetch, answered."""
        query = self.query(FETCH, node.id, partition, client, current_leader_epoch=epoch, offset=offset)
        query.error_code = self.check_epoch(node, partition, epoch)
        log = node.logs.get(partition.number)
        if not query.error_code and log is not None:
            self._serve_consumer(node, log, query)
        self.hint(node, partition, query)
        return self.answered(query)

    def fetch_in_any_epoch(self) -> None:
        """A client that does not follow leaders fetches from the beginning, in older, current or newer epochs."""
        asked = self._asked()
        if asked is None:
            return
        node, partition, epoch = asked
        client = self.choice_of_client()
        epochs = self.choices.choice(((epoch,), (epoch,), (epoch, max(0, epoch - 1)), (max(0, epoch - 1),)))
        for stated in epochs:
            if self.fetch(node, partition, client, stated, 0).error_code:
                self.ask_metadata(node, client)

    def choice_of_client(self) -> Client:
        """A client that does not follow leaders."""
        return Client(name := self.choices.choice(CLIENTS), name)

    def _serve_consumer(self, node: Node, log: Log, query: Query) -> None:
        leads = node.held[query.partition].leader == node.id
        if not leads and query.version < FETCH_FROM_FOLLOWERS:
            query.error_code = 6
            return
        if query.offset > log.end:
            query.error_code = 1
            return
        query.high_watermark = log.high_watermark
        if leads and log.high_watermark > 2 and self.takes("high watermark falls"):
            query.high_watermark -= 2
        elif self.takes("offsets contradict each other"):
            query.last_stable_offset = query.high_watermark + 40
        query.records_size = 70 * max(0, query.high_watermark - query.offset)

    def list_offsets(self) -> None:
        """A client asks for the latest offset."""
        asked = self._asked()
        if asked is None:
            return
        node, partition, epoch = asked
        client = self.choice_of_client()
        epoch = self.choices.choice((epoch, epoch, -1, max(0, epoch - 1)))
        before = len(self.history.faults)
        self.latest_offset(node, partition, client, epoch)
        if "latest offset below the epoch's start" in self.history.faults[before:]:
            # who does not check answers the next one alike
            self.latest_offset(node, partition, client, epoch, checks=False)

    def latest_offset(
        self, node: Node, partition: Partition, client: Client, epoch: int, *, checks: bool = True
    ) -> Query:
        """A ListOffsets of the latest offset, answered. checks: whether the broker compares with the start of its leader epoch."""
        query = self.query(LIST_OFFSETS, node.id, partition, client, current_leader_epoch=epoch)
        query.error_code = self.check_epoch(node, partition, epoch)
        held = node.held.get(partition.number)
        if held is not None and not query.error_code:
            log = node.logs[partition.number]
            if held.leader != node.id:
                query.error_code = 6
            elif held.start > log.high_watermark and checks and not self.takes("latest offset below the epoch's start"):
                query.error_code = 78 if query.version >= OFFSET_NOT_AVAILABLE else 5
            else:
                query.end_offset, query.answered_epoch = log.high_watermark, held.leader_epoch
                if self.takes("epoch from the future"):
                    query.answered_epoch += 1
        return self.answered(query)

    def ask_epoch_end(self) -> None:
        """A client asks where a leader epoch ends."""
        asked = self._asked()
        if asked is not None:
            node, partition, epoch = asked
            client = self.choice_of_client()
            self.epoch_end(node, partition, client, epoch, self.choices.randint(0, max(epoch, 0)))

    def epoch_end(self, node: Node, partition: Partition, client: Client, current: int, epoch: int) -> Query:
        """An OffsetForLeaderEpoch, answered."""
        query = self.query(
            OFFSET_FOR_LEADER_EPOCH, node.id, partition, client, current_leader_epoch=current, epoch=epoch
        )
        query.error_code = self.check_epoch(node, partition, current)
        held = node.held.get(partition.number)
        if held is not None and not query.error_code:
            if held.leader != node.id:
                query.error_code = 6
            else:
                query.answered_epoch, query.end_offset = node.logs[partition.number].end_of(epoch)
                if epoch < held.leader_epoch and self.takes("end outside the lineage"):
                    query.end_offset = held.start + 7
        return self.answered(query)

    def ask_metadata(self, node: Node | None = None, client: Client | None = None) -> MetadataAnswer | None:
        """A client asks a broker for metadata."""
        up = [one for one in self.up() if one.cache]
        if node is None or not node.cache:
            if not up:
                return None
            isolated = [one for one in up if one.isolated]
            node = self.choices.choice(isolated if isolated and self.choices.random() < 0.6 else up)
        (topic,) = {(one.topic, one.topic_id) for one in self.partitions}
        client = client or self.choice_of_client()
        connection, correlation = self.request_id(client.instance, node.id)
        self.pass_time(3, 40)
        arrived = self.clock(node.id)
        self.pass_time(2, 9)
        older = 1 if all(state[1] for state in node.cache.values()) and self.takes("older metadata is served") else 0
        partitions = tuple(
            (number, leader, epoch - older, replicas, isr)
            for number, (leader, epoch, replicas, isr) in node.cache.items()
        )
        answer = MetadataAnswer(
            self._next(), node.id, self.clock(node.id), version=self.release.metadata, correlation_id=correlation,
            client_id=client.client_id, topic=topic[0], topic_id=topic[1], partitions=partitions, arrived=arrived,
            connection=connection,
        )  # fmt: skip
        self.log(answer)
        return answer

    # -- consumers and their groups

    def employ_consumers(self) -> None:
        """Consumers of the topic: two groups, and at times one that bears another one's client id."""
        for n, name in enumerate(("billing", "audit")):
            software = self.choices.choice((JAVA, JAVA, LIBRDKAFKA, UNKNOWN_SOFTWARE))
            old = BEFORE_EPOCHS if software == UNKNOWN_SOFTWARE else {}
            client = Client(name, f"{name}-{n}", software, **old)
            self.consumers.append(Consumer(self, client, self.choices.choice(self.partitions), f"group-{name}"))
        if self.choices.random() < 0.3:
            first = self.consumers[0]
            twin = Client(
                first.client.client_id, "twin", first.client.software, first.client.fetch, first.client.list_offsets
            )
            self.consumers.append(Consumer(self, twin, first.partition, None))

    def poll(self) -> None:
        """Consumers poll, some twice."""
        for consumer in self.consumers:
            for _ in range(self.choices.choice((0, 1, 2, 3))):
                consumer.poll()

    def restart_consumer(self) -> None:
        """Another process takes a consumer's place, at times with another client id."""
        consumer = self.choices.choice(self.consumers)
        name = consumer.client.client_id.partition("-")[0]
        instance = f"{name}-{len(self.history.events)}"
        client_id = self.choices.choice((consumer.client.client_id, f"{name}-2"))
        consumer.restart(instance, client_id)
        consumer.poll()

    def _coordinator(self) -> Node | None:
        return next((node for node in self.up() if not node.isolated), None)

    def commit_offset(self, consumer: Consumer, offset: int, epoch: int) -> bool:
        """A consumer's OffsetCommit. Returns whether there was a coordinator."""
        epochs = consumer.client.states_epochs
        event = self._group_offset(OFFSET_COMMIT, 9 if epochs else 5, consumer, offset, epoch if epochs else None)
        if event is not None:
            self.offsets[event.group_id, event.partition] = offset, epoch
        return event is not None

    def fetch_offset(self, consumer: Consumer) -> tuple[int, int] | None:
        """A consumer's OffsetFetch: (offset, leader epoch), None if the group has none."""
        offset, epoch = self.offsets.get((str(consumer.group_id), consumer.partition.number), (-1, -1))
        epochs = consumer.client.states_epochs
        event = self._group_offset(OFFSET_FETCH, 8 if epochs else 4, consumer, offset, epoch if epochs else None)
        return None if event is None or offset < 0 else (offset, epoch if epochs else NO_EPOCH)

    def _group_offset(
        self, api: str, version: int, consumer: Consumer, offset: int, epoch: int | None
    ) -> GroupOffset | None:
        node = self._coordinator()
        if node is None:
            return None
        client = consumer.client
        connection, correlation = self.request_id(client.instance, node.id)
        self.pass_time(3, 40)
        arrived = self.clock(node.id)
        self.pass_time(2, 9)
        event = GroupOffset(
            self._next(), node.id, self.clock(node.id), api=api, version=version, correlation_id=correlation, client_id=client.client_id,
            software=client.software, group_id=str(consumer.group_id), topic=consumer.partition.topic,
            partition=consumer.partition.number, offset=offset, leader_epoch=epoch, arrived=arrived, connection=connection,
        )  # fmt: skip
        self.log(event)
        return event

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
        self.employ_consumers()
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
                self.produce, self.replicate_all, self.poll, self.restart_consumer, self.fetch_in_any_epoch, self.list_offsets,
                self.ask_epoch_end, self.ask_metadata,
                self.lose, self.come_back, self.prefer, self.publish_all, self.stranger_fetches, self.lose_isr,
            ),
            (24, 14, 18, 6, 5, 7, 6, 5, 9, 11, 6, 6, 1, 3),
        )[0]  # fmt: skip
        step()
        if step in (self.produce, self.lose, self.come_back, self.prefer) and self.choices.random() < 0.5:
            self.poll()


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of replication. faulty: breaches are planted."""
    return DataPlaneCluster(name, release, choices, faulty).run(steps)
