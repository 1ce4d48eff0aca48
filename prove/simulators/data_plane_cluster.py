"""A simulated KRaft cluster with producers, consumers and other clients.

Its brokers replicate as those of `replicating_cluster`. What clients get follows Partition (fetchRecords, fetchOffsetForTimestamp) and
the consumer of `consumer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from prove.history import (
    FETCH,
    KRAFT_DATA_PLANE,
    LIST_OFFSETS,
    NO_EPOCH,
    NO_LEADER,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    UNKNOWN_SOFTWARE,
    GroupOffset,
    History,
    MetadataAnswer,
    ProcessStarts,
    Produced,
    Query,
    RecordsDeleted,
    Release,
)
from prove.simulators.client_metadata import JAVA, LIBRDKAFKA, Client, ClientMetadata
from prove.simulators.consumer import BEFORE_EPOCHS, Consumer
from prove.simulators.quorum_cluster import CONTROLLER, Partition
from prove.simulators.replica_log import Log
from prove.simulators.replicating_cluster import (
    EARLIEST,
    FETCH_FROM_FOLLOWERS,
    NODES,
    OFFSET_NOT_AVAILABLE,
    Node,
    ReplicatingCluster,
)

HINTS_OF_PRODUCE_SINCE: Final = 10
CLIENTS: Final = ("prober", "lag-exporter")

KRAFT_RELEASE: Final = partial(Release, KRAFT_DATA_PLANE, family="kraft", offset_for_leader_epoch=4)
RELEASES: Final = (
    KRAFT_RELEASE("3.3.2", fetch=13, list_offsets=7, metadata_version=7, alter_partition=2, produce=9, metadata=12),
    KRAFT_RELEASE("3.5.2", fetch=15, list_offsets=8, metadata_version=11, produce=9, metadata=12),
    KRAFT_RELEASE("3.9.1", fetch=17, list_offsets=9, metadata_version=21, produce=11, metadata=12),
    # its Fetch is that of clients of 3.9
    KRAFT_RELEASE("4.1.2", fetch=17, list_offsets=10, metadata_version=25, produce=13, metadata=13),
)


@dataclass
class DataPlaneCluster(ReplicatingCluster):
    """A cluster with one topic and its clients, and its history so far."""

    consumers: list[Consumer] = field(default_factory=list)
    offsets: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    producer_is_stale: bool = True

    def __post_init__(self) -> None:
        """Begin the history."""
        super().__post_init__()
        self.producer = ClientMetadata(self, Client("checkout", "checkout", JAVA, log="checkout.log"))

    # -- brokers that die and come back

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

    def prefer_unheard(self) -> None:
        """The controller elects another member of the ISR; clients learn of it before some of the brokers do."""
        self.elect()
        self.pass_time(900, 1500)
        for node in self.up():
            if self.choices.random() < 0.5:
                self.publish(node)
        for _ in range(2):
            self.producer_is_stale = self.producer_is_stale or self.choices.random() < 0.5
            self.produce_by_metadata()
        for _ in range(self.choices.randint(0, 3)):  # each of two leaders may take writes
            self.produce()
            self.poll()
        for _ in range(self.choices.randint(0, 2)):
            self.restart_consumer()
        self.publish_all()

    # -- clients

    def produce(self) -> None:
        """A producer writes to a leader; followers fetch."""
        partition = self.choices.choice(self.partitions)
        leaders = [n for n in self.up() if partition.number in n.held and n.held[partition.number].leader == n.id]
        if not leaders:
            return
        leader = self.choices.choice(leaders)
        client = Client("orders-app", "orders-app")
        followers = [
            n for n in self.up() if partition.number in n.held and n.held[partition.number].leader not in (None, n.id)
        ]
        if followers and self.takes("follower acknowledges a write"):
            follower = self.choices.choice(followers)
            written = self._written(follower, partition, client)
            written.base_offset = follower.logs[partition.number].end
            self._answer(written)
        self._write(leader, partition, self._written(leader, partition, client))

    def _written(self, node: Node, partition: Partition, client: Client) -> Produced:
        """A Produce, not answered yet."""
        acks = self.choices.choice((-1, -1, 1))
        self.pass_time(3, 40)
        connection, correlation = self.request_id(client.instance, node.id)
        return Produced(
            0, node.id, 0, version=min(self.release.produce, client.produce), client_id=client.client_id, topic=partition.topic,
            topic_id=partition.topic_id, partition=partition.number, acks=acks, connection=connection,
            correlation_id=correlation, arrived=self.clock(node.id),
        )  # fmt: skip

    def _answer(self, written: Produced) -> None:
        self.pass_time(2, 9)
        written.id, written.at = self._next(), self.clock(written.node)
        self.log(written)

    def _write(self, leader: Node, partition: Partition, written: Produced) -> None:
        """A leader appends, and answers."""
        log, held = leader.logs[partition.number], leader.held[partition.number]
        base, written.log_start_offset = log.end, log.start
        log.append([held.leader_epoch] * self.choices.randint(1, 9))
        self._advance(leader, partition.number)
        end = log.end
        if written.acks == -1:
            self.fetch_all(partition)
            self.fetch_all(partition)
        if written.acks == 1 or log.high_watermark >= end:
            written.base_offset = base
        else:
            written.error_code = 7
        self._answer(written)
        if self.choices.random() < 0.5:
            self.fetch_all(partition)

    def produce_by_metadata(self) -> None:
        """A Java producer writes to whom its metadata names, some batches at once. A broker that does not lead hints at the leader."""
        partition, known = self.choices.choice(self.partitions), self.producer
        for _ in range(self.choices.randint(1, 3)):
            if self.producer_is_stale or partition.number not in known.leaders:
                answer = self.ask_metadata(client=known.client)
                self.producer_is_stale = answer is None or partition.number not in known.update(answer)
            leader = known.leaders.get(partition.number)
            node = self.nodes[leader[0]] if leader is not None else None
            if node is None or not node.up:
                self.producer_is_stale = True
                return
            written, held = self._written(node, partition, known.client), node.held.get(partition.number)
            if held is not None and held.leader == node.id:
                self._write(node, partition, written)
                continue
            written.error_code = 3 if held is None else 6
            if held is not None and held.leader is not None and written.version >= HINTS_OF_PRODUCE_SINCE:
                written.hint = held.leader, held.leader_epoch
            self._answer(written)
            known.hinted(partition.number, written.hint)
            self.producer_is_stale = True

    def delete_records(self) -> None:
        """An administrator deletes the oldest records; the answer waits until live replicas have deleted them, or too long."""
        partition = self.choices.choice(self.partitions)
        asked = [node for node in self.up() if partition.number in node.held]
        leaders = [node for node in asked if node.held[partition.number].leader == node.id]
        if not asked:
            return
        node = self.choices.choice(leaders if leaders and self.choices.random() < 0.9 else asked)
        log, held = node.logs[partition.number], node.held[partition.number]
        offset = self.choices.choice((-1, self.choices.randint(0, log.end + 2), log.high_watermark))
        self.pass_time(3, 40)
        connection, correlation = self.request_id("admin", node.id)
        deletion = RecordsDeleted(
            0, node.id, 0, client_id="admin", topic=partition.topic, partition=partition.number, offset=offset, connection=connection,
            correlation_id=correlation, arrived=self.clock(node.id),
        )  # fmt: skip
        below = log.high_watermark if offset < 0 else offset
        if held.leader != node.id:
            deletion.error_code = 6
        elif below > log.high_watermark:
            deletion.error_code = 1
        else:
            self.raise_start(node, partition, below)
            deletion.low_watermark = self._low_watermark(node, partition)
            for _ in range(self.choices.choice((0, 2, 3))):
                self.fetch_all(partition)
            reached = self._low_watermark(node, partition)
            if reached >= below:
                deletion.low_watermark = reached
            elif offset < 0 or not self.takes("deletion is confirmed early"):
                deletion.error_code = 7
        self.pass_time(2, 9)
        deletion.id, deletion.at = self._next(), self.clock(node.id)
        self.log(deletion)

    def _low_watermark(self, node: Node, partition: Partition) -> int:
        """Partition.lowWatermarkIfLeader: the lowest log start offset of the replicas on live brokers."""
        held = node.held[partition.number]
        others = [held.starts.get(one, -1) for one in held.replicas if one != node.id and one in node.live]
        return min([node.logs[partition.number].start, *others])

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
            log = node.logs.get(partition.number)
            offset = log.start if log is not None and self.choices.random() < 0.9 else 0
            refused = offset and self.earliest_offset(node, partition, client, stated).error_code
            if refused or self.fetch(node, partition, client, stated, offset).error_code:
                self.ask_metadata(node, client)

    def choice_of_client(self) -> Client:
        """A client that does not follow leaders."""
        return Client(name := self.choices.choice(CLIENTS), name, metadata=self.choices.choice((99, 99, 8, 7)))

    def _serve_consumer(self, node: Node, log: Log, query: Query) -> None:
        leads = node.held[query.partition].leader == node.id
        if not leads and query.version < FETCH_FROM_FOLLOWERS:
            query.error_code = 6
            return
        if not log.start <= query.offset <= log.end:
            query.error_code = 1
            return
        if leads and log.start and self.takes("log start falls"):
            log.start = self.choices.randint(0, log.start - 1)
        query.high_watermark, query.log_start_offset = log.high_watermark, log.start
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
        if self.choices.random() < 0.2:
            self.earliest_offset(node, partition, client, epoch)
            return
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

    def earliest_offset(self, node: Node, partition: Partition, client: Client, epoch: int) -> Query:
        """A ListOffsets of the earliest offset, answered."""
        query = self.query(LIST_OFFSETS, node.id, partition, client, current_leader_epoch=epoch, timestamp=EARLIEST)
        query.error_code = self.check_epoch(node, partition, epoch)
        held = node.held.get(partition.number)
        if held is not None and not query.error_code:
            log = node.logs[partition.number]
            if held.leader != node.id:
                query.error_code = 6
            else:
                query.end_offset, query.answered_epoch = log.start, log.epoch_of_start
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
            self._next(), node.id, self.clock(node.id), correlation_id=correlation, version=min(self.release.metadata, client.metadata),
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
            log = f"{name}.log" if software == JAVA and self.choices.random() < 0.8 else ""
            client = Client(name, f"{name}-{n}", software, **old, log=log, group_id=f"group-{name}")
            earliest = self.choices.random() < 0.5
            self.consumers.append(
                Consumer(self, client, self.choices.choice(self.partitions), f"group-{name}", earliest=earliest)
            )
        if self.choices.random() < 0.3:
            first = self.consumers[0]
            log = self.choices.choice((first.client.log, "twin.log" if first.client.log else ""))
            twin = replace(first.client, instance="twin", log=log, group_id="")
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
        self.take_steps(2 * steps)
        self.pass_time(20_000, 20_001)
        self.write(("NO_OP_RECORD", 0, {}))
        return self.history

    def take_steps(self, count: int) -> None:
        """Tell all brokers of the topic, start the consumers, and take so many steps."""
        for node in self.up():
            self.publish(node)
        self.employ_consumers()
        for _ in range(count):
            self._step()
            self.pass_time(1500, 2500)

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
            records.append(("PARTITION_RECORD", 0, self.absolute(partition)))
        self.write(*records)

    def _step(self) -> None:
        step = self.choices.choices(
            (
                self.produce, self.replicate_all, self.poll, self.restart_consumer, self.fetch_in_any_epoch, self.list_offsets,
                self.ask_epoch_end, self.ask_metadata,
                self.lose, self.come_back, self.prefer, self.publish_all, self.stranger_fetches, self.lose_isr,
                self.delete_records, self.produce_by_metadata, self.prefer_unheard,
            ),
            (20, 14, 18, 6, 5, 7, 6, 5, 9, 11, 4, 6, 1, 3, 5, 8, 5),
        )[0]  # fmt: skip
        step()
        if step in (self.produce, self.lose, self.come_back, self.prefer) and self.choices.random() < 0.5:
            self.poll()


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of replication. faulty: breaches are planted."""
    return DataPlaneCluster(name, release, choices, faulty).run(steps)
