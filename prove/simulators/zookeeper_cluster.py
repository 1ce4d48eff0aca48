"""A simulated ZooKeeper-mode cluster: one controller at a time, three brokers, and clients that query them.

The state machines follow KafkaController, ReplicaManager (becomeLeaderOrFollower, stopReplicas, maybeUpdateMetadataCache), Partition
and LeaderEpochFileCache. Requests wait in a queue per connection. They may be late, doubled or lost, and those of a replaced
controller may arrive after those of its successor. A fault makes a broker or a controller break one rule, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from prove.history import (
    EPOCH_DURING_DELETE,
    FETCH,
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    LIST_OFFSETS,
    NO_EPOCH,
    NO_LEADER,
    OFFSET_FOR_LEADER_EPOCH,
    STOP_REPLICA,
    UPDATE_METADATA,
    ZOOKEEPER,
    Control,
    Decision,
    Elected,
    Event,
    History,
    ProcessStarts,
    Query,
    Release,
    ShutsDown,
    Start,
    State,
    Stop,
    TopicPartition,
)
from prove.simulators.replica_log import Log
from prove.simulators.simulation import BEGIN_MS

BROKERS: Final = (1, 2, 3)
FETCHES_FROM_FOLLOWERS: Final = 11
"""The first Fetch that lets a consumer read from a follower (KIP-392)."""
LEADER_EPOCHS: Final = 3
"""The first StopReplica with leader epochs."""
BROKER_EPOCHS: Final = {LEADER_AND_ISR: 2, STOP_REPLICA: 1, UPDATE_METADATA: 5}
"""The first version with a broker epoch."""
IDS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

RELEASES: Final = (
    Release(ZOOKEEPER, "2.6.3", "text", 4, 3, 6, 11, 5, 3, refuses_equal_stop=True),
    Release(ZOOKEEPER, "2.8.2", "json", 5, 3, 7, 12, 6, 4, refuses_equal_stop=True),
    Release(ZOOKEEPER, "3.3.2", "json", 6, 3, 7, 13, 7, 4, refuses_equal_stop=True),
    Release(ZOOKEEPER, "3.4.0", "json", 7, 4, 8, 13, 7, 4, refuses_equal_stop=True),
    Release(ZOOKEEPER, "3.4.1", "json", 7, 4, 8, 13, 7, 4),
    Release(ZOOKEEPER, "3.9.1", "json", 7, 4, 8, 17, 9, 4),
)

CONTROL_FAULTS: Final = (
    "stale leader epoch accepted",
    "newer leader epoch refused",
    "equal leader epoch misjudged",
    "stale controller epoch accepted",
    "stale broker epoch accepted",
    "own broker epoch refused",
    "foreign topic id accepted",
    "foreign topic id refused by the epoch",
    "stranger accepted",
    "answered but not applied",
    "foreign code",
)
"""What a broker does wrong with one request of the controller."""

QUERY_FAULTS: Final = ("fence is open", "wrong way round", "current epoch refused", "follower serves a follower")
"""What a broker does wrong with one request of a client or a follower."""

CONTROLLER_FAULTS: Final = (
    "state of a newer controller",
    "two leaders in one epoch",
    "leader outside the ISR",
    "leader epoch falls",
    "two controllers in one epoch",
    "records lost by an election",
)
"""What a controller does wrong."""


@dataclass
class Hosted:
    """What a broker holds in memory of a partition."""

    topic_id: str | None
    leader_epoch: int = -1
    partition_epoch: int = -1
    leader: int | None = None
    state: State | None = None


@dataclass
class Broker:
    """A broker: memory of its process, and its disk. znode_epoch: broker epoch in ZooKeeper, before the broker knows it.

    former: last state of each replica that it has deleted.
    """

    id: int
    is_up: bool = False
    is_registered: bool = False
    znode_epoch: int = -1
    broker_epoch: int = -1
    controller_epoch: int = 0
    live: frozenset[int] = frozenset()
    hosted: dict[TopicPartition, Hosted] = field(default_factory=dict)
    cache: dict[TopicPartition, State] = field(default_factory=dict)
    disk: dict[TopicPartition, Log] = field(default_factory=dict)
    former: dict[TopicPartition, State] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """A request on its way to a broker. connection: number of the TCP connection that it came on."""

    api: str
    controller_id: int
    controller_epoch: int
    correlation_id: int
    broker: int
    broker_epoch: int
    partitions: tuple[State | Stop, ...]
    live_brokers: tuple[int, ...]
    connection: int

    @property
    def announces_deletion(self) -> bool:
        """It is an UpdateMetadata without which no StopReplica of the deletion arrives: they come on one connection."""
        return any(isinstance(one, State) and one.leader == LEADER_DURING_DELETE for one in self.partitions)


class ZooKeeperCluster:
    """The cluster and its history so far. choices decides all that is not determined."""

    def __init__(self, name: str, release: Release, choices: Random, faulty: bool) -> None:
        self.choices = choices
        self.release = release
        self.history = History(name, release)
        self.now = BEGIN_MS
        self.skew = {broker: choices.choice((0, 0, 170, -900, 40_000)) for broker in BROKERS}
        self.brokers = {broker: Broker(broker) for broker in BROKERS}
        self.states: dict[TopicPartition, State] = {}
        self.controller = 0
        self.controller_epoch = 0
        self.zxid = 20
        self.correlations: dict[tuple[int, int, int], int] = {}
        self.connections: dict[tuple[int, int, int], int] = {}
        self.busy: dict[tuple[int, int], int] = {}
        self.queue: list[Message] = []
        self.late: list[Message] = []
        self.leaderless: list[TopicPartition] = []
        self.queries = 0
        self.topics_made = 0
        self.faulty = faulty
        self.fault: str | None = None
        self.unclean = choices.random() < 0.4

    # -- time and events

    def pass_time(self, low: int, high: int) -> None:
        """Let some milliseconds pass."""
        self.now += self.choices.randint(low, high)

    def clock(self, node: int) -> int:
        """What a host's clock shows."""
        return self.now + self.skew[node]

    def log(self, event: Event) -> None:
        """Append an event to the history."""
        self.history.events.append(event)

    def _next(self) -> int:
        return len(self.history.events)

    def _takes(self, fault: str) -> bool:
        """Whether this is the moment of the planted fault; it happens once."""
        if self.fault != fault:
            return False
        self.fault = None
        self.history.faults.append(fault)
        return True

    # -- processes

    def start(self, broker: Broker) -> None:
        """A broker's process starts and registers in ZooKeeper."""
        self.zxid += self.choices.randint(3, 40)
        broker.is_up, broker.broker_epoch, broker.controller_epoch = True, self.zxid, 0
        broker.is_registered, broker.znode_epoch = True, self.zxid
        broker.live, broker.hosted, broker.cache = frozenset(), {}, {}
        self.disconnect(broker)
        self.pass_time(5, 30)
        self.log(
            ProcessStarts(
                self._next(), broker.id, self.clock(broker.id), version=self.release.version, broker_epoch=self.zxid
            )
        )
        self.pass_time(900, 2000)

    def disconnect(self, broker: Broker) -> None:
        """The controller's next request comes on another connection."""
        for connection in [key for key in self.connections if key[2] == broker.id]:
            del self.connections[connection]

    def elect_controller(self, host: int) -> None:
        """A broker becomes controller, and sends all that it knows to all live brokers."""
        if self._takes("two controllers in one epoch"):
            self.controller_epoch = max(self.controller_epoch, 1)
        else:
            self.controller_epoch += 1
        self.controller = host
        self.log(Elected(self._next(), host, self.clock(host), controller_epoch=self.controller_epoch))
        self.pass_time(3, 30)
        up = self._up()
        for broker in up:
            self.send(broker, UPDATE_METADATA, self.states.values())
        for broker in up:
            self.send_states(broker, [state for state in self.states.values() if broker in state.replicas])

    def _up(self) -> list[int]:
        return [broker.id for broker in self.brokers.values() if broker.is_up and broker.is_registered]

    # -- the controller

    def send(self, broker: int, api: str, partitions: Iterable[State | Stop]) -> None:
        """Queue a request for a broker, under the broker epoch that the controller knows."""
        if broker not in self._up():
            return
        key = (self.controller, self.controller_epoch, broker)
        self.correlations[key] = self.correlations.get(key, -1) + 1
        states = tuple(partitions)
        if states and isinstance(states[0], State) and self._takes("state of a newer controller"):
            states = (replace(states[0], controller_epoch=self.controller_epoch + 1), *states[1:])
        version = self._version(api)
        if api == STOP_REPLICA and version < LEADER_EPOCHS:
            states = tuple(replace(stop, leader_epoch=NO_EPOCH) for stop in states)
        fenced = version >= BROKER_EPOCHS[api]
        self.queue.append(
            Message(
                api, *key[:2], self.correlations[key], broker, self.brokers[broker].znode_epoch if fenced else -1, states,
                tuple(self._up()), self._connection(key),
            )
        )  # fmt: skip

    def _connection(self, key: tuple[int, int, int]) -> int:
        if key not in self.connections:
            self.connections[key] = 40_000 + len(self.history.events) + 7 * len(self.connections)
        return self.connections[key]

    def send_states(self, broker: int, states: list[State]) -> None:
        """Queue a LeaderAndIsr with these states, if there are any."""
        if states:
            self.send(broker, LEADER_AND_ISR, states)

    def decide(self, state: State, before: str = "OnlinePartition") -> None:
        """Write a new state to ZooKeeper, and log it."""
        self.states[state.name] = state
        self.pass_time(1, 5)
        host = self.controller
        self.log(
            Decision(
                self._next(), host, self.clock(host), controller_epoch=self.controller_epoch, state=state, before=before
            )
        )

    def publish(self, states: list[State]) -> None:
        """Send states to their replicas, and to all brokers' metadata caches."""
        if states and len(states[0].isr) > 1 and self._takes("two leaders in one epoch"):
            other = next(member for member in states[0].isr if member != states[0].leader)
            self.send_states(other, [replace(states[0], leader=other)])
        for broker in BROKERS:
            self.send_states(broker, [state for state in states if broker in state.replicas])
        for broker in BROKERS:
            self.send(broker, UPDATE_METADATA, states)

    def changed(self, state: State, **values: object) -> State:
        """The state after a change of the controller: both epochs rise."""
        fields = {"leader_epoch": state.leader_epoch + 1, "partition_epoch": state.partition_epoch + 1, "is_new": False}
        return replace(state, controller_epoch=self.controller_epoch, **(fields | values))  # type: ignore[arg-type]

    def create_topic(self) -> None:
        """Create a topic of one or two partitions. Names come back."""
        names = [name for name in ("orders", "pay.eu-1") if name not in {topic for topic, _ in self.states}]
        up = self._up()
        if not names or not up:
            return
        name = self.choices.choice(names)
        self.leaderless = [one for one in self.leaderless if one[0] != name]
        topic_id, states = self.new_topic_id(), []
        for partition in range(self.choices.choice((1, 1, 2))):
            replicas = self.choices.sample(BROKERS, self.choices.choice((2, 3, 3)))
            isr = [broker for broker in replicas if broker in up]
            if not isr:
                self.leaderless.append((name, partition))
                continue
            states.append(
                State(
                    name, partition, topic_id, self.controller_epoch, isr[0], 0, tuple(isr), 0, tuple(replicas), is_new=True
                )
            )  # fmt: skip
        for state in states:
            self.decide(state, "NewPartition")
        self.publish(states)
        for state in states:
            self.states[state.name] = replace(state, is_new=False)

    def new_topic_id(self) -> str | None:
        """A topic id that no topic has had."""
        self.topics_made += 1
        digits = "".join(self.choices.choice(IDS) for _ in range(12))
        return f"{self.topics_made:04d}{digits}topicA"[:21] + "A" if self.release.leader_and_isr >= 5 else None

    def delete_topic(self) -> None:
        """Delete a topic: announce it, stop its replicas, delete them."""
        if not self.states:
            return
        topic = self.choices.choice(sorted({name for name, _ in self.states}))
        states = [state for state in self.states.values() if state.topic == topic]
        deleted = [replace(s, leader=LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0) for s in states]
        for broker in BROKERS:
            self.send(broker, UPDATE_METADATA, deleted)
        for delete in (False, True):
            for broker in BROKERS:
                stops = [
                    Stop(s.topic, s.partition, EPOCH_DURING_DELETE, delete) for s in states if broker in s.replicas
                ]
                if stops:
                    self.send(broker, STOP_REPLICA, stops)
        for state in states:
            del self.states[state.name]
        self.leaderless = [name for name in self.leaderless if name[0] != topic]
        self.deliver()  # the topic is gone when the brokers have answered

    def elect(self, state: State, without: int | None = None) -> State | None:
        """Elect another leader from the live ISR; without one, perhaps from the live replicas."""
        live = [broker for broker in self._up() if broker != without]
        isr = [broker for broker in state.isr if broker in live]
        if isr:
            leader = self.choices.choice(isr)
            if self._takes("leader outside the ISR"):
                isr = [broker for broker in isr if broker != leader] or [max(BROKERS) + 1]
            return self.changed(state, leader=leader, isr=tuple(isr))
        outside = [broker for broker in state.replicas if broker in live]
        if outside and self.unclean:
            return self.changed(state, leader=outside[0], isr=(outside[0],))
        if state.leader == NO_LEADER:
            return None
        return self.changed(state, leader=NO_LEADER, isr=state.isr if len(state.isr) == 1 else state.isr[:1])

    def move_leader(self) -> None:
        """Elect, as a preferred leader election or a new leader would."""
        if not self.states:
            return
        state = self.choices.choice(list(self.states.values()))
        if self._takes("leader epoch falls") and state.leader_epoch > 1:
            lower = replace(self.changed(state), leader_epoch=state.leader_epoch - 1)
            self.decide(lower)
            return
        new = self.elect(state)
        if new:
            self.decide(new)
            self.publish([new])

    def broker_failed(self, broker: int) -> None:
        """Move leaderships away from a dead broker, and take it out of the ISRs."""
        changes = []
        for state in list(self.states.values()):
            if state.leader == broker:
                new = self.elect(state, without=broker)
            elif broker in state.isr and len(state.isr) > 1:
                new = self.changed(state, isr=tuple(member for member in state.isr if member != broker))
            else:
                continue
            if new:
                self.decide(new, "OfflinePartition" if state.leader == broker else "OnlinePartition")
                changes.append(new)
        self.publish(changes)

    def stop_broker(self) -> None:
        """A broker stops: it is killed, or shuts down in order."""
        up = self._up()
        if len(up) < 2:
            return
        broker = self.choices.choice(up)
        if self.choices.random() < 0.5 and self.controller != broker:
            self.controlled_shutdown(broker)
            self.deliver()
        self.brokers[broker].is_up = False
        self.queue = [message for message in self.queue if message.broker != broker]
        self.pass_time(3000, 9000)
        if self.controller == broker:
            self.elect_controller(self.choices.choice(self._up()))
        self.broker_failed(broker)

    def controlled_shutdown(self, broker: int) -> None:
        """KafkaController.doControlledShutdown: move its leaderships, stop its followers."""
        self.log(ShutsDown(self._next(), broker, self.clock(broker)))
        self.pass_time(600, 900)
        changes = []
        for state in list(self.states.values()):
            if broker not in state.replicas:
                continue
            if state.leader == broker and any(member != broker for member in state.isr):
                new = self.elect(state, without=broker)
                if new:
                    self.decide(new)
                    changes.append(new)
            elif state.leader != broker:
                self.send(broker, STOP_REPLICA, [Stop(state.topic, state.partition, state.leader_epoch, False)])
        self.publish(changes)

    def start_broker(self) -> None:
        """A stopped broker starts; the controller sends it everything."""
        down = [broker for broker in self.brokers.values() if not broker.is_up]
        if not down:
            return
        broker = self.choices.choice(down)
        self.start(broker)
        self.welcome(broker)

    def welcome(self, broker: Broker) -> None:
        """KafkaController.onBrokerStartup: send a broker everything, and elect where it makes that possible."""
        for other in self._up():
            self.send(other, UPDATE_METADATA, self.states.values() if other == broker.id else ())
        self.send_states(broker.id, [state for state in self.states.values() if broker.id in state.replicas])
        changes = []
        for state in list(self.states.values()):
            if state.leader == NO_LEADER:
                new = self.elect(state)
                if new and new.leader != NO_LEADER:
                    self.decide(new, "OfflinePartition")
                    changes.append(new)
        self.publish(changes)

    def fail_over(self) -> None:
        """Another broker becomes controller. What the old one has sent may still be on its way."""
        others = [broker for broker in self._up() if broker != self.controller]
        if not others:
            return
        if self.choices.random() < 0.6:  # the old controller loses its session before its requests have arrived
            self.late += self.queue
            self.queue = []
        self.elect_controller(self.choices.choice(others))

    def reassign(self) -> None:
        """Move a replica away, or back."""
        if not self.states:
            return
        self.reassign_one(self.choices.choice(list(self.states.values())))

    def reassign_one(self, state: State) -> None:
        """Move a replica of a partition away, or back."""
        absent = [broker for broker in BROKERS if broker not in state.replicas]
        removable = [broker for broker in state.replicas if broker != state.leader]
        if absent:
            new = self.changed(state, replicas=(*state.replicas, absent[0]))
            self.decide(new)
            self.publish([new])
        elif removable and len(state.replicas) > 1:
            removed = self.choices.choice(removable)
            isr = tuple(member for member in state.isr if member != removed)
            if not isr:
                return
            new = self.changed(state, isr=isr, replicas=tuple(r for r in state.replicas if r != removed))
            self.decide(new)
            if self.choices.random() < 0.2:  # a broker that is no replica any more hears of the state
                self.send_states(removed, [new])
            self.publish([new])
            self.send(removed, STOP_REPLICA, [Stop(new.topic, new.partition, new.leader_epoch, False)])
            self.send(removed, STOP_REPLICA, [Stop(new.topic, new.partition, new.leader_epoch, True)])

    # -- delivery

    def deliver(self) -> None:
        """Deliver what is queued: in order on each connection; late, doubled or lost at times."""
        while self.queue:
            connections = sorted({message.connection for message in self.queue})
            chosen = self.choices.choice(connections)
            message = next(message for message in self.queue if message.connection == chosen)
            self.queue.remove(message)
            fate = self.choices.random()
            if fate < 0.06 and not message.announces_deletion:
                self.late.append(message)  # the controller sends it again on another connection
                if self.choices.random() < 0.8:
                    self._arrives(self._again(message))
            elif fate < 0.10:
                self._arrives(message)
                self.late.append(message)
            elif fate < 0.12 and not message.announces_deletion:
                pass
            else:
                self._arrives(message)

    def deliver_late(self) -> None:
        """Something arrives that was sent long ago. What came on one connection keeps its order."""
        if self.late:
            self.deliver_late_to(self.choices.choice(self.late).broker)

    def deliver_late_to(self, broker: int) -> None:
        """Something arrives at a broker that was sent to it long ago."""
        late = [message for message in self.late if message.broker == broker]
        if late:
            connection = self.choices.choice(late).connection
            message = next(message for message in late if message.connection == connection)
            self.late.remove(message)
            self._arrives(self._again(message))

    def _again(self, message: Message) -> Message:
        """The same request on a new connection, with a correlation id of its own."""
        key = (message.controller_id, message.controller_epoch, message.broker)
        self.correlations[key] += 1
        connection = 60_000 + len(self.history.events) + self.correlations[key]
        return replace(message, correlation_id=self.correlations[key], connection=connection)

    def _arrives(self, message: Message) -> None:
        broker = self.brokers[message.broker]
        if not broker.is_up:
            return
        request = self._handle(broker, message)
        self.log(request)

    # -- brokers: requests of the controller

    def _handle(self, broker: Broker, message: Message) -> Control:
        self.pass_time(2, 40)
        request = Control(
            self._next(), broker.id, 0, api=message.api, version=self._version(message.api),
            correlation_id=message.correlation_id, controller_id=message.controller_id,
            controller_epoch=message.controller_epoch, broker_epoch=message.broker_epoch, partitions=message.partitions,
            live_brokers=message.live_brokers, connection=message.connection,
        )  # fmt: skip
        request.arrived = self.clock(broker.id)
        self.pass_time(1, 4)
        request.handled = self.clock(broker.id)
        request.latest_controller_epoch = broker.controller_epoch
        self._judge(broker, request)
        self.pass_time(2, 30)
        request.finished = self.clock(broker.id)
        self.pass_time(1, 4)
        request.at = self.clock(broker.id)
        return request

    def _version(self, api: str) -> int:
        return {
            LEADER_AND_ISR: self.release.leader_and_isr,
            STOP_REPLICA: self.release.stop_replica,
            UPDATE_METADATA: self.release.update_metadata,
        }[api]

    def _judge(self, broker: Broker, request: Control) -> None:
        stale = NO_EPOCH < request.broker_epoch < broker.broker_epoch
        if stale and self._takes("stale broker epoch accepted"):
            stale = False
        elif not stale and request.broker_epoch == broker.broker_epoch and self._takes("own broker epoch refused"):
            stale = True
        if stale:
            request.error_code, request.seen = 77, False
        elif request.controller_epoch < broker.controller_epoch and not self._takes("stale controller epoch accepted"):
            request.error_code = 11
        if request.error_code:
            if request.api == LEADER_AND_ISR:
                request.codes = tuple(request.error_code for _ in request.partitions)
            return
        broker.controller_epoch = request.controller_epoch
        if request.api == LEADER_AND_ISR:
            self._become(broker, request)
        elif request.api == STOP_REPLICA:
            self._stop(broker, request)
        else:
            broker.live = frozenset(request.live_brokers)
            for state in request.partitions:
                assert isinstance(state, State)
                if state.leader == LEADER_DURING_DELETE:
                    broker.cache.pop(state.name, None)
                else:
                    broker.cache[state.name] = state

    def _become(self, broker: Broker, request: Control) -> None:
        codes, unavailable, held = [], [], []
        starts: list[Start] = []
        skipped: list[Start] = []
        for state in request.partitions:
            assert isinstance(state, State)
            log = broker.disk.get(state.name)
            hosted = broker.hosted.setdefault(state.name, Hosted(log.topic_id if log else None))
            current = hosted.leader_epoch
            held.append(current)
            other_id = None not in (hosted.topic_id, state.topic_id) and hosted.topic_id != state.topic_id
            newer = state.leader_epoch > current
            if other_id and self._takes("foreign topic id accepted"):
                broker.disk[state.name] = Log(state.topic_id)
                hosted.topic_id, newer = state.topic_id, True
            elif other_id and self._takes("foreign topic id refused by the epoch"):
                codes.append(11)
                continue
            elif other_id:
                codes.append(103)
                continue
            if (state.leader_epoch < current and self._takes("stale leader epoch accepted")) or (
                state.leader_epoch == current and self._takes("equal leader epoch misjudged")
            ):
                newer = True
            elif newer and self._takes("newer leader epoch refused"):
                newer = False
            if not newer:
                codes.append(11)
                continue
            if broker.id not in state.replicas and not self._takes("stranger accepted"):
                codes.append(3)
                continue
            codes.append(0)
            if self._takes("answered but not applied"):
                continue
            if state.leader != broker.id and state.leader not in broker.live:
                unavailable.append(state.name)
                if state.name not in broker.disk:
                    broker.disk[state.name] = Log(state.topic_id)
                hosted.topic_id = broker.disk[state.name].topic_id = hosted.topic_id or state.topic_id
                continue
            # Partition.makeFollower and makeLeader from 3.3 on
            same = self.release.skips_equal_epochs and state.leader_epoch <= current
            (skipped if same else starts).append(self._starts(broker, hosted, state))
        request.codes, request.starts, request.unavailable = tuple(codes), tuple(starts), tuple(unavailable)
        request.skipped = tuple(skipped)
        request.held_epochs = tuple(held)

    def _starts(self, broker: Broker, hosted: Hosted, state: State) -> Start:
        log = broker.disk.setdefault(state.name, Log(state.topic_id))
        if log.topic_id is None:
            log.topic_id = state.topic_id
        leads = state.leader == broker.id
        if leads and log.end and self._takes("records lost by an election"):
            log.truncate(log.end // 2)
        start = Start(
            leads, state.topic, state.partition, state.topic_id, state.leader, state.leader_epoch, state.partition_epoch,
            log.end, log.high_watermark, state.isr, hosted.leader_epoch, hosted.leader,
        )  # fmt: skip
        if leads:
            log.assign(state.leader_epoch, log.end)
        hosted.topic_id, hosted.leader_epoch = log.topic_id, state.leader_epoch
        hosted.partition_epoch, hosted.leader, hosted.state = state.partition_epoch, state.leader, state
        return start

    def _stop(self, broker: Broker, request: Control) -> None:
        codes, held = [], []
        for stop in request.partitions:
            assert isinstance(stop, Stop)
            hosted = broker.hosted.get(stop.name)
            current = hosted.leader_epoch if hosted else None
            held.append(-1 if current is None else current)
            if current is not None and stop.leader_epoch >= 0:
                fenced = stop.leader_epoch < current
                if stop.leader_epoch == current:
                    fenced = self.release.refuses_equal_stop
                    if self._takes("equal leader epoch misjudged"):
                        fenced = not fenced
                elif (fenced and self._takes("stale leader epoch accepted")) or (
                    not fenced and self._takes("newer leader epoch refused")
                ):
                    fenced = not fenced
                if fenced:
                    codes.append(11 if self._takes("foreign code") else 74)
                    continue
            codes.append(0)
            if stop.delete:
                if hosted and hosted.state:
                    broker.former[stop.name] = hosted.state
                broker.hosted.pop(stop.name, None)
                broker.disk.pop(stop.name, None)
        request.codes, request.held_epochs = tuple(codes), tuple(held)

    # -- records

    def produce(self) -> None:
        """Leaders append records; followers of the same leader epoch fetch them."""
        for state in list(self.states.values()):
            leader = self.brokers.get(state.leader)
            if leader is None or not leader.is_up or self.choices.random() < 0.3:
                continue
            hosted = leader.hosted.get(state.name)
            if hosted is None or hosted.state is None or hosted.leader != leader.id:
                continue
            log = leader.disk[state.name]
            log.records += [hosted.leader_epoch] * self.choices.randint(0, 9)
            followers = [
                other
                for other in self.brokers.values()
                if other.id != leader.id and self._follows(other, leader, state)
            ]
            for _ in range(2):
                for follower in followers:
                    if self.choices.random() < 0.15:
                        continue
                    own = follower.disk[state.name]
                    own.copy(log)
                    caught_up = [b.disk[state.name].end for b in followers if b.id in hosted.state.isr]
                    waits = [m for m in hosted.state.isr if m != leader.id and m not in {b.id for b in followers}]
                    if not waits:
                        log.high_watermark = max(log.high_watermark, min([log.end, *caught_up]))
                    own.high_watermark = min(own.end, log.high_watermark)
            self.pass_time(2000, 3000)

    def _follows(self, follower: Broker, leader: Broker, state: State) -> bool:
        hosted, leading = follower.hosted.get(state.name), leader.hosted[state.name]
        return (
            follower.is_up
            and hosted is not None
            and hosted.leader == leader.id
            and hosted.leader_epoch == leading.leader_epoch
            and follower.disk[state.name].topic_id == leader.disk[state.name].topic_id
        )

    # -- brokers: requests of clients and followers

    def query(self) -> None:
        """A client or follower asks a broker, in the leader epoch that it knows."""
        up = self._up()
        if not self.states or not up:
            return
        self.ask(self.choices.choice(list(self.states.values())), up)

    def ask(self, state: State, up: list[int]) -> None:
        """A client or follower that knows a partition's state asks one of some brokers a few times."""
        self.pass_time(4000, 9000)
        for _ in range(self.choices.randint(1, 4)):
            broker = self.brokers[self.choices.choice(up)]
            api = self.choices.choice((FETCH, FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH))
            known = state.leader_epoch
            epoch = self.choices.choice((known, known, known - 1, known + 1, -1))
            self.log(self._answer(broker, api, state, max(epoch, -1)))
        self.pass_time(4000, 9000)

    def _answer(self, broker: Broker, api: str, state: State, epoch: int) -> Query:
        self.pass_time(3, 60)
        self.queries += 1
        follows = [b for b in state.replicas if b != broker.id]
        replica_id = self.choices.choice(follows) if api == FETCH and follows and self.choices.random() < 0.5 else -1
        query = Query(
            self._next(), broker.id, 0, api=api, version=self._query_version(api), correlation_id=self.queries,
            client_id=f"broker-{replica_id}-fetcher-0" if replica_id >= 0 else self.choices.choice(("billing", "audit")),
            replica_id=replica_id, topic=state.topic, topic_id=state.topic_id, partition=state.partition,
            current_leader_epoch=epoch, connection=51_000 + self.queries, session_id=1_000_000 + self.queries,
        )  # fmt: skip
        query.arrived = self.clock(broker.id)
        self._decide_answer(broker, state, query)
        self.pass_time(2, 9)
        query.at = self.clock(broker.id)
        return query

    def answer_without_replica(self, query: Query) -> None:
        """What a broker answers that has no replica of the partition."""
        query.error_code = 6

    def _query_version(self, api: str) -> int:
        return {
            FETCH: self.release.fetch,
            LIST_OFFSETS: self.release.list_offsets,
            OFFSET_FOR_LEADER_EPOCH: self.release.offset_for_leader_epoch,
        }[api]

    def _decide_answer(self, broker: Broker, state: State, query: Query) -> None:
        hosted = broker.hosted.get(state.name)
        by_id = query.api == FETCH and query.version >= 13
        cached = broker.cache.get(state.name)
        if by_id and hosted and hosted.topic_id != state.topic_id and self._takes("former topic id served"):
            query.error_code, query.high_watermark, query.records_size = 0, 70, 70
            return
        if cached is None or (by_id and cached.topic_id != state.topic_id):
            query.error_code = 100 if by_id else 3
            return
        if hosted is None:
            self.answer_without_replica(query)
            return
        if by_id and hosted.topic_id != state.topic_id:
            query.error_code = 103
            return
        epoch, current = query.current_leader_epoch, hosted.leader_epoch
        code = 0 if epoch in (-1, current) else 74 if epoch < current else 75
        if code and self._takes("fence is open"):
            code = 0
        elif code and self._takes("wrong way round"):
            code = 149 - code
        elif epoch == current and current >= 0 and self._takes("current epoch refused"):
            code = 74
        plain = query.api != FETCH or query.replica_id >= 0 or query.version < FETCHES_FROM_FOLLOWERS
        if not code and hosted.leader != broker.id and plain:
            serves = query.api == FETCH and hosted.leader is not None and self._takes("follower serves a follower")
            code = 0 if serves else 6
        if not code and hosted.leader is None:
            code = 6
        query.error_code = code
        if code:
            return
        log = broker.disk[state.name]
        if query.api == FETCH:
            query.offset = self.choices.randint(0, log.high_watermark)
            query.high_watermark = log.high_watermark
            query.records_size = 70 * (log.high_watermark - query.offset)
        elif query.api == LIST_OFFSETS:
            query.end_offset, query.answered_epoch = log.high_watermark, current
        else:
            query.epoch = self.choices.randint(0, max(current, 0))
            query.answered_epoch, query.end_offset = log.end_of(query.epoch)

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps."""
        for broker in self.brokers.values():
            self.start(broker)
        self.elect_controller(self.choices.choice(BROKERS))
        self.create_topic()
        self.deliver()
        faults = self.faults()
        for _ in range(steps):
            if self.faulty and self.fault is None and self.choices.random() < 0.35:
                self.fault = self.choices.choice(faults)
            self._step()
        return self.history

    def faults(self) -> tuple[str, ...]:
        """The breaches that may be planted."""
        return (*CONTROL_FAULTS, *QUERY_FAULTS, *CONTROLLER_FAULTS)

    def steps(self) -> dict[Callable[[], None], int]:
        """What may happen next, and how often."""
        return {
            self.move_leader: 14, self.stop_broker: 6, self.start_broker: 10, self.fail_over: 7, self.reassign: 9,
            self.create_topic: 6, self.delete_topic: 4, self.deliver_late: 18, self.query: 18, self.produce: 8,
        }  # fmt: skip

    def _step(self) -> None:
        steps = self.steps()
        self.choices.choices([*steps], [*steps.values()])[0]()
        if self.choices.random() < 0.85:
            self.deliver()
        self.pass_time(20, 1500)


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a ZooKeeper-mode cluster. faulty: breaches are planted."""
    return ZooKeeperCluster(name, release, choices, faulty).run(steps)
