"""A simulated KRaft cluster whose brokers are coordinators of producers and of groups.

The controller is that of `quorum_cluster`. The coordinators' log is one partition: its leader coordinates. Brokers take over elections
late, or not at all while they are cut off from the controller; a former coordinator still answers what needs no write. A write reaches the
replicas of the ISR or is not acknowledged, and a new coordinator loads what its replica has. An unclean election loses the rest.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from prove.coordination import Exchange
from prove.history import NO_LEADER, ProcessStarts, Record, Start, Started
from prove.simulators.quorum_cluster import CONTROLLER, Partition, QuorumCluster

NODES: Final = (1, 2, 3)
LOADING: Final = 14
NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
"""Error codes of a coordinator that moves."""

MOST_FAULTS: Final = 2
POSSIBLE_FAULTS: Final = 6
"""Of so many faults a history may have some: else the frequent ones would leave no room for the rare ones."""

Sent = TypeVar("Sent", bound=Exchange)


@dataclass
class Broker:
    """A broker's process. isolated: it does not see the controller. leads: topic -> leader epoch in which it coordinates."""

    id: int
    skew: int
    version: str
    up: bool = False
    isolated: bool = False
    leads: dict[str, int] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    """Topic -> what it has loaded, and written since."""


@dataclass
class CoordinatorCluster(QuorumCluster):
    """Brokers and their coordinators' logs. chances: what may be planted, and how often when it can."""

    chances: dict[str, float] = field(default_factory=dict)
    nodes: dict[int, Broker] = field(default_factory=dict)
    stores: dict[tuple[str, int], Any] = field(default_factory=dict)
    connections: dict[tuple[object, ...], list[int]] = field(default_factory=dict)
    possible_faults: frozenset[str] = frozenset()
    slow: list[tuple[int, Exchange]] = field(default_factory=list)
    """Answers that are not logged yet, with the time at which they are."""

    # -- faults, time, requests

    def takes(self, fault: str) -> bool:
        if fault not in self.chances:
            return super().takes(fault)
        if not self.faulty or len(self.history.faults) >= MOST_FAULTS:
            return False
        if not self.possible_faults:
            self.possible_faults = frozenset(
                self.choices.sample(sorted(self.chances), min(POSSIBLE_FAULTS, len(self.chances)))
            )
        if fault not in self.possible_faults or self.choices.random() > self.chances[fault]:
            return False
        self.history.faults.append(fault)
        return True

    def clock(self, node: int) -> int:
        """What a host's clock shows."""
        return self.now + (self.skew if node == CONTROLLER else self.nodes[node].skew)

    def chance(self, probability: float) -> bool:
        """Whether something happens."""
        return self.choices.random() < probability

    def sent(self, event: Sent, *ends: object) -> Sent:
        """A request arrives at its node. ends: the client's process, and what else distinguishes its connections."""
        one = self.connections.setdefault((event.node, *ends), [51_000 + len(self.history.events), -1])
        one[1] += 1
        event.connection, event.correlation_id = one
        self.pass_time(3, 40)
        event.arrived = self.clock(event.node)
        self.pass_time(2, 9)
        return event

    def answered(self, event: Sent) -> Sent:
        """A request is answered, and logged. Some answers are slow: then its line is written later, or never if the broker dies."""
        self.pass_time(2, 9)
        if event.node != CONTROLLER and self.chance(0.05):
            self.slow.append((self.now + self.choices.randint(300, 6000), event))
        else:
            self._log(event)
        for due, late in sorted(self.slow, key=lambda one: one[0]):
            if due <= self.now:
                self.slow.remove((due, late))
                self._log(late)
        return event

    def log_slow_answers(self) -> None:
        """The rest of the slow answers are logged: the evidence ends after them."""
        for due, late in sorted(self.slow, key=lambda one: one[0]):
            self.now = max(self.now, due)
            self._log(late)
        self.slow.clear()

    def _log(self, event: Exchange) -> None:
        if event.node == CONTROLLER or self.nodes[event.node].up:
            event.id, event.at = self._next(), self.clock(event.node)
            self.history.events.append(event)

    def heard(self, event: Exchange) -> bool:
        """Whether the client has got the answer: it is not lost, and not slow."""
        return event.at > 0 and not self.chance(0.15)

    # -- coordinators

    def make_log(self, topic: str, empty: Any) -> None:
        """Create a coordinators' log."""
        self.topics_made += 1
        topic_id = f"topic{self.topics_made:06d}AAAAAAAAAAA"[:21] + "A"
        self.unclean[topic_id] = self.chance(0.5)
        replicas = self.choices.sample(NODES, 3)
        partition = Partition(topic, topic_id, 0, replicas, [*replicas], replicas[0])
        self.partitions.append(partition)
        self.write(
            ("TOPIC_RECORD", 0, {"name": topic, "topicId": topic_id}),
            ("PARTITION_RECORD", 0, self.absolute(partition)),
        )
        for node in replicas:
            self.stores[topic, node] = deepcopy(empty)

    def partition_of(self, topic: str) -> Any:
        """The partition that is the log."""
        return next(one for one in self.partitions if one.topic == topic)

    def coordinates(self, node: int, topic: str) -> int:
        """0, or the error code with which a broker answers that it does not coordinate."""
        broker = self.nodes[node]
        if topic not in broker.leads:
            return NOT_COORDINATOR
        return LOADING if self.chance(0.02) else 0

    def persists(self, node: int, topic: str) -> int:
        """Write a coordinator's memory to its log. 0, or an error code: then the caller restores what was in memory.

        A write that is not acknowledged may have reached the log.
        """
        broker, partition = self.nodes[node], self.partition_of(topic)
        if partition.leader != node or broker.leads.get(topic) != partition.leader_epoch:
            return self.choices.choice((NOT_AVAILABLE, NOT_COORDINATOR))
        unacknowledged = self.chance(0.02)
        for member in partition.isr:
            self.stores[topic, member] = deepcopy(broker.memory[topic])
        return NOT_AVAILABLE if unacknowledged else 0

    def coordinator(self, topic: str, *, current: bool = True) -> int | None:
        """Whom a client takes for the coordinator: the elected one, or any that runs."""
        up = [node.id for node in self.nodes.values() if node.up]
        leader: int = self.partition_of(topic).leader
        if current and leader in up:
            return leader
        others = [node for node in up if topic in self.nodes[node].leads] or up
        return self.choices.choice(others) if others else None

    # -- processes and elections

    def boot(self, broker: int) -> None:
        """A broker's process starts, and registers."""
        node = self.nodes[broker]
        node.up, node.isolated, node.leads, node.memory = True, False, {}, {}
        self.connections = {ends: one for ends, one in self.connections.items() if broker not in ends}
        self.slow = [(due, event) for due, event in self.slow if event.node != broker]
        self.booted(broker)
        self.history.events.append(
            ProcessStarts(self._next(), broker, self.clock(broker), version=node.version, broker_epoch=0)
        )
        self.pass_time(900, 1500)
        self.register(broker)
        self.pass_time(900, 1500)
        self.unfence(broker)
        self.publish_all()

    def booted(self, broker: int) -> None:
        """A process is about to start: it knows nothing of the former one's memory."""

    def publish_all(self) -> None:
        """Brokers take over the metadata log, but for those that are late."""
        for node in self.nodes.values():
            if node.up and not node.isolated and self.chance(0.9):
                self.publish(node)

    def publish(self, node: Broker) -> None:
        """A broker takes over the metadata log: it loads what it is to coordinate, and resigns from the rest."""
        for partition in self.partitions:
            topic = partition.topic
            if (topic, node.id) not in self.stores:
                continue
            if node.leads.get(topic) == partition.leader_epoch:
                continue
            if node.leads.pop(topic, None) is not None:
                self.resigned(node.memory.pop(topic))
            if partition.leader == node.id:
                node.leads[topic] = partition.leader_epoch
                self._start(node, partition)
                node.memory[topic] = self.loaded(deepcopy(self.stores[topic, node.id]))

    def _start(self, node: Broker, partition: Partition) -> None:
        """A broker's line: it leads. Some are missing from what was recorded."""
        start = Start(
            True, partition.topic, partition.number, partition.topic_id, node.id, partition.leader_epoch, partition.partition_epoch,
            len(self.history.events), len(self.history.events), tuple(partition.isr), partition.leader_epoch - 1, None,
        )  # fmt: skip
        if self.chance(0.95):
            self.history.events.append(Started(self._next(), node.id, self.clock(node.id), start=start))

    def resigned(self, memory: Any) -> None:
        """A broker coordinates no more: what it had in memory is dropped."""

    def loaded(self, stored: Any) -> Any:
        """What a coordinator has in memory once it has loaded its log."""
        return stored

    def follow(self) -> None:
        """Followers catch up with the leaders, and join the ISRs."""
        for partition in self.partitions:
            if partition.leader == NO_LEADER or (partition.topic, partition.leader) not in self.stores:
                continue
            for member in partition.replicas:
                if member not in partition.isr and self.active(member) and self.chance(0.6):
                    self.stores[partition.topic, member] = deepcopy(self.stores[partition.topic, partition.leader])
                    self.write(self.change(partition, isr=[*partition.isr, member]))

    def lose(self) -> None:
        """A broker's process dies, or is cut off from the controller and runs on; but never the last one."""
        active = [broker for broker in NODES if self.active(broker)]
        if len(active) > 1:
            self.lose_broker(self.choices.choice(active))

    def lose_broker(self, broker: int) -> None:
        """The controller fences a broker."""
        self.expire(broker)
        if self.chance(0.5):
            self.nodes[broker].isolated = True
        else:
            self.nodes[broker].up = False
        self.pass_time(300, 2500)
        self.publish_all()

    def lose_isr(self) -> None:
        """All members of an ISR die one after the other, and another comes back first."""
        for broker in self.choices.sample(NODES, 3):
            if sum(map(self.active, NODES)) > 1 and self.active(broker):
                self.lose_broker(broker)
                self.act()
        last = next((broker for broker in NODES if self.active(broker)), None)
        if last is None:
            return
        self.expire(last)
        self.nodes[last].up = False
        self.boot(self.choices.choice([broker for broker in NODES if broker != last]))

    def act(self) -> None:
        """Clients do something."""

    def come_back(self) -> None:
        """A broker that was lost starts again, or sees the controller again."""
        away = [broker for broker in NODES if not self.active(broker)]
        if not away:
            return
        node = self.nodes[self.choices.choice(away)]
        if node.up and self.chance(0.5):
            node.isolated = False
            self.unfence(node.id)
            self.publish_all()
        else:
            self.boot(node.id)

    def prefer(self) -> None:
        """The controller elects another member of the ISR."""
        self.elect()
        self.pass_time(300, 1500)
        self.publish_all()

    def disturb(self) -> None:
        """Something happens to brokers."""
        step = self.choices.choices(
            (self.lose, self.come_back, self.prefer, self.follow, self.publish_all, self.lose_isr),
            (5, 12, 8, 20, 20, 1),
        )[0]
        step()

    def begin(self) -> None:
        """The cluster starts. Rolling upgrades may leave brokers at another release."""
        self.skew = self.choices.choice((0, 0, 90))
        self.history.events.append(
            ProcessStarts(self._next(), CONTROLLER, self.now + self.skew, version=self.release.version)
        )
        level = {"name": "metadata.version", "featureLevel": self.release.metadata_version}
        self.write(("FEATURE_LEVEL_RECORD", 0, level))
        for broker in NODES:
            self.nodes[broker] = Broker(broker, self.choices.choice((0, 40, -700, 65_000)), self.release.version)
            self.boot(broker)

    def end_history(self) -> None:
        """Leave evidence out at times: the metadata log, or a request log or its beginning."""
        events = self.history.events
        if self.chance(0.15):
            events = [event for event in events if not isinstance(event, Record)]
        requests = [event for event in events if isinstance(event, Exchange)]
        if requests and self.chance(0.25):
            first, whole = self.choices.choice(requests), self.chance(0.5)
            events = [
                e
                for e in events
                if not isinstance(e, Exchange) or e.node != first.node or (e.at >= first.at and not whole)
            ]
        self.history.events = events
