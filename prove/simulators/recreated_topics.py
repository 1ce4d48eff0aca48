"""A simulated topic that is deleted and created again while consumers read it, and commit to a group's coordinator.

Consumers follow the Java client (SubscriptionState, OffsetFetcherUtils): whether a Fetch names the topic, and reaches the next one without
an error, or has its id, and is refused with 103 or 100 until the metadata is new, the position stays. Coordinators follow
GroupCoordinator.handleDeletedPartitions and GroupCoordinatorService.onPartitionsDeleted: they drop the offsets of a topic when they
learn of its deletion. A ZooKeeper coordinator that was cut off at that time never does, one of KRaft does when it has caught up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from prove.history import (
    FETCH,
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    LIST_OFFSETS,
    NO_EPOCH,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    RECREATED_TOPICS,
    STOP_REPLICA,
    UPDATE_METADATA,
    Control,
    Event,
    GroupOffset,
    History,
    MetadataAnswer,
    PartitionCreated,
    ProcessStarts,
    Query,
    Record,
    Release,
    Software,
    Start,
    Started,
    State,
    Stop,
)
from prove.simulators.replica_log import Log
from prove.simulators.simulation import BEGIN_MS, Simulation

BROKERS: Final = (1, 2, 3)
CONTROLLER: Final = 100
TOPIC: Final = "orders"
BY_ID: Final = 13
STATES_EPOCHS: Final = 9
COMPARES: Final = 12
RECORD_BYTES: Final = 70
SOFTWARE: Final[tuple[Software, ...]] = (("apache-kafka-java", "3.9.1"), ("librdkafka", "2.6.0"))

RELEASES: Final = (
    Release(RECREATED_TOPICS, "2.8.2", "json", 5, 3, 7, 12, 6, 4, metadata=11),
    Release(RECREATED_TOPICS, "3.9.1", "json", 7, 4, 8, 17, 9, 4, metadata=12),
    Release(RECREATED_TOPICS, "3.9.1", "kraft", fetch=17, list_offsets=9, metadata=12),
)


@dataclass
class Topic:
    """A topic of the name, with one partition. log: of its leader; all replicas have the same."""

    topic_id: str
    replicas: tuple[int, ...]
    leader: int
    log: Log
    leader_epoch: int = 0
    partition_epoch: int = 0
    log_start: int = 0


@dataclass
class Host:
    """A broker. topic: which it knows, None after its deletion. held: the leader epoch of its replica. offsets: of groups."""

    id: int
    topic: Topic | None = None
    leader: int = -1
    held: int = -1
    cut_off: bool = False
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Reader:
    """A consumer. known: (topic, leader, leader epoch) of its metadata. position: None until it has one. epoch: of the record before."""

    name: str
    instance: str
    software: Software
    version: int
    group_id: str | None
    compares: bool = False
    resets_to_end: bool = False
    known: tuple[Topic, int, int] | None = None
    position: int | None = None
    epoch: int = NO_EPOCH


@dataclass
class RecreatedTopics(Simulation):
    """The cluster and its history so far. topics: how many had the name. topic: the one that has it. coordinator: of all groups."""

    topics: int = 0
    topic: Topic | None = None
    coordinator: int = 3
    records: int = 0
    log_recorded: bool = True
    readers: list[Reader] = field(default_factory=list)
    connections: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def log(self, event: Event) -> None:
        """Append an event to the history."""
        self.history.events.append(event)

    @property
    def is_kraft(self) -> bool:
        """There is a metadata log instead of control requests."""
        return self.release.family == "kraft"

    # -- the controller

    def create(self) -> None:
        """Create the topic."""
        if self.topic is not None:
            return
        self.topics += 1
        hosts = [broker for broker in BROKERS if broker != self.coordinator or self.choices.random() < 0.5]
        replicas = tuple(self.choices.sample(hosts, self.choices.randint(2, len(hosts))))
        leader = next((broker for broker in replicas if not self.hosts[broker].cut_off), replicas[0])
        self.topic = Topic(f"topic{self.topics:06d}AAAAAAAAAAA", replicas, leader, Log(None))
        self._record(
            ("TOPIC_RECORD", {"name": TOPIC, "topicId": self.topic.topic_id}), ("PARTITION_RECORD", self._absolute(self.topic))
        )  # fmt: skip
        self._publish_all()

    def delete(self) -> None:
        """Delete the topic. In ZooKeeper mode that waits until all its replicas' brokers are there."""
        topic = self.topic
        if topic is None or (not self.is_kraft and any(self.hosts[broker].cut_off for broker in topic.replicas)):
            return
        self._record(("REMOVE_TOPIC_RECORD", {"topicId": topic.topic_id}))
        self.topic = None
        if self.is_kraft:
            self._publish_all()
            return
        deleted = State(
            TOPIC, 0, topic.topic_id, 1, LEADER_DURING_DELETE, 0, topic.replicas, topic.partition_epoch, topic.replicas
        )
        for host in self.hosts.values():
            if host.cut_off:
                continue
            self._control(host, UPDATE_METADATA, self.release.update_metadata, (deleted,))
            if host.id in topic.replicas:
                self._control(host, STOP_REPLICA, self.release.stop_replica, (Stop(TOPIC, 0, -2, delete=True),))
            host.topic, host.held, host.offsets = None, -1, {}

    def recreate(self) -> None:
        """Delete the topic, and create it anew, at times at once."""
        self.delete()
        if self.choices.random() < 0.3:
            self.pass_time(1500, 3000)
            self.poll()
        self.create()
        for _ in range(self.choices.choice((0, 0, 1, 2))):
            self.produce()

    def elect(self) -> None:
        """The partition gets another leader, or the same one in a new epoch."""
        topic = self.topic
        candidates = [] if topic is None else [one for one in topic.replicas if not self.hosts[one].cut_off]
        if topic is None or not candidates:
            return
        topic.leader, topic.leader_epoch = self.choices.choice(candidates), topic.leader_epoch + 1
        topic.partition_epoch += 1
        change = {"partitionId": 0, "topicId": topic.topic_id, "leader": topic.leader}
        self._record(("PARTITION_CHANGE_RECORD", change))
        self._publish_all()

    def cut_off(self) -> None:
        """A broker loses the controller, but never the leader, nor all."""
        others = [h for h in self.hosts.values() if self.topic is None or h.id != self.topic.leader]
        if not any(host.cut_off for host in self.hosts.values()):
            self.choices.choice(others).cut_off = True

    def come_back(self) -> None:
        """A broker that was cut off learns of the present state. In ZooKeeper mode it learns of no deletions in between."""
        for host in self.hosts.values():
            if host.cut_off:
                host.cut_off = False
                self._publish(host)
                self.pass_time(1500, 3000)

    def miss_deletion(self) -> None:
        """The coordinator is cut off while the topic is created anew."""
        host = self.hosts[self.coordinator]
        if self.topic is None or self.topic.leader == host.id:
            return
        host.cut_off = True
        self.delete()
        self.create()
        self.come_back()
        for _ in range(self.choices.choice((0, 1, 2))):
            self.produce()
            self.restart()
            self.pass_time(1500, 3000)

    def move_coordinator(self) -> None:
        """Another broker becomes the coordinator, and loads the offsets."""
        before = self.hosts[self.coordinator]
        self.coordinator = self.choices.choice(BROKERS)
        self.hosts[self.coordinator].offsets = dict(before.offsets)

    def _publish_all(self) -> None:
        for host in self.hosts.values():
            if not host.cut_off:
                self._publish(host)
        self.pass_time(1500, 3000)

    def _publish(self, host: Host) -> None:
        """A broker learns of the present topic."""
        topic = self.topic
        if self.is_kraft and host.topic is not topic:
            host.offsets = {}
        if topic is None:
            if self.is_kraft:
                host.topic, host.held = None, -1
            return
        previous = host.held if host.topic is topic else -1
        host.topic, host.leader = topic, topic.leader
        if host.id in topic.replicas and topic.leader_epoch > previous:
            start = Start(
                topic.leader == host.id, TOPIC, 0, topic.topic_id, topic.leader, topic.leader_epoch, topic.partition_epoch,
                topic.log.end, topic.log.end, topic.replicas, previous, topic.leader,
            )  # fmt: skip
            if topic.leader == host.id:
                topic.log.assign(topic.leader_epoch, topic.log.end)
            host.held = topic.leader_epoch
            if self.is_kraft:
                self.pass_time(3, 9)
                if previous < 0:
                    self.log(PartitionCreated(self._next(), host.id, self.now, topic=TOPIC, topic_id=topic.topic_id))
                    self.pass_time(3, 9)
                self.log(Started(self._next(), host.id, self.now, start=start))
            else:
                self._control(host, LEADER_AND_ISR, self.release.leader_and_isr, (self._state(topic),), (start,))
        if not self.is_kraft:
            self._control(host, UPDATE_METADATA, self.release.update_metadata, (self._state(topic),))
        self.pass_time(300, 500)

    def _state(self, topic: Topic) -> State:
        return State(
            TOPIC, 0, topic.topic_id, 1, topic.leader, topic.leader_epoch, topic.replicas, topic.partition_epoch, topic.replicas
        )  # fmt: skip

    def _control(
        self, host: Host, api: str, version: int, partitions: tuple[State | Stop, ...], starts: tuple[Start, ...] = ()
    ) -> None:
        self.correlation += 1
        self.pass_time(5, 30)
        arrived = self.now
        self.pass_time(8, 20)
        answers = api != UPDATE_METADATA
        self.log(
            Control(
                self._next(), host.id, self.now + 2, api=api, version=version, correlation_id=self.correlation, controller_id=1,
                controller_epoch=1, broker_epoch=7 + host.id, partitions=partitions, codes=(0,) if answers else (),
                held_epochs=(0,) if answers else (), starts=starts, live_brokers=BROKERS, arrived=arrived, handled=arrived + 2,
                finished=self.now, connection=51_000, latest_controller_epoch=1,
            )
        )  # fmt: skip
        self.pass_time(3, 9)

    def _record(self, *records: tuple[str, dict[str, Any]]) -> None:
        if not self.is_kraft or not self.log_recorded:
            return
        for n, (kind, data) in enumerate(records):
            count = {"__count": len(records)} if n == 0 else {}
            self.log(
                Record(
                    self._next(), CONTROLLER, self.now, offset=self.records + n, batch=self.records, kind=kind,
                    data=data | count,
                )
            )  # fmt: skip
        self.records += len(records)

    def _absolute(self, topic: Topic) -> dict[str, Any]:
        return {
            "partitionId": 0, "topicId": topic.topic_id, "replicas": [*topic.replicas], "isr": [*topic.replicas],
            "removingReplicas": [], "addingReplicas": [], "leader": topic.leader, "leaderEpoch": 0, "partitionEpoch": 0,
        }  # fmt: skip

    # -- records

    def produce(self) -> None:
        """The leader appends records."""
        if self.topic is not None:
            count = self.choices.choice((1, 4, 9, 20))
            self.topic.log.append([self.topic.leader_epoch] * count)

    def delete_records(self) -> None:
        """The log begins later."""
        if self.topic is not None:
            self.topic.log_start = self.choices.randint(self.topic.log_start, self.topic.log.end)

    # -- consumers

    def poll(self) -> None:
        """Consumers poll, some twice."""
        for reader in self.readers:
            for _ in range(self.choices.choice((0, 1, 1, 2, 4))):
                self._poll(reader)
                self.pass_time(20, 90)

    def restart(self) -> None:
        """Another process takes a consumer's place, at times with another client id."""
        reader = self.choices.choice(self.readers)
        reader.instance = f"{reader.name}-{len(self.history.events)}"
        if self.choices.random() < 0.2:
            reader.name = self.choices.choice(("billing", "audit", "billing-2"))
        reader.position, reader.known, reader.epoch = None, None, NO_EPOCH
        self._poll(reader)

    def _poll(self, reader: Reader) -> None:
        if reader.known is None or self.choices.random() < 0.03:
            self._refresh(reader)
        if reader.known is None:
            return
        topic, leader, epoch = reader.known
        host = self.hosts[leader]
        if reader.position is None:
            self._begin(reader, host)
        if reader.position is not None and reader.known is not None:
            self._fetch(reader, host, topic, epoch)

    def _refresh(self, reader: Reader) -> None:
        host = self.hosts[self.choices.choice(BROKERS)]
        topic = host.topic
        if topic is None:
            reader.known = None
            return
        epoch = host.held if host.held >= 0 else topic.leader_epoch
        leader = host.leader
        connection, arrived = self._request(reader, host)
        partitions = ((0, leader, epoch, topic.replicas, topic.replicas),)
        self.log(
            MetadataAnswer(
                self._next(), host.id, self.now, version=self.release.metadata, correlation_id=self.correlation,
                client_id=reader.name, topic=TOPIC, topic_id=topic.topic_id, partitions=partitions, arrived=arrived,
                connection=connection,
            )
        )  # fmt: skip
        reader.known = topic, leader, epoch

    def _begin(self, reader: Reader, host: Host) -> None:
        """Resume from the group's offset, else reset."""
        if reader.group_id is not None:
            found = self._group_offset(reader, OFFSET_FETCH, -1, -1)
            if found is not None:
                reader.position, reader.epoch = found
                return
        self._reset(reader, host)

    def _reset(self, reader: Reader, host: Host) -> None:
        """ListOffsets, for the end or the beginning of the log."""
        query = self._query(reader, host, LIST_OFFSETS)
        topic = host.topic
        if topic is None or host.held < 0 or host.leader != host.id:
            query.error_code = 6
            reader.known = None
        else:
            query.end_offset = topic.log.end if reader.resets_to_end else topic.log_start
            query.answered_epoch = host.held
            reader.position, reader.epoch = query.end_offset, NO_EPOCH
        self._answer(query)

    def _fetch(self, reader: Reader, host: Host, topic: Topic, epoch: int) -> None:
        query = self._query(reader, host, FETCH)
        query.topic_id = topic.topic_id
        query.offset = reader.position or 0
        query.current_leader_epoch = epoch if reader.version >= STATES_EPOCHS else NO_EPOCH
        if reader.compares and reader.version >= COMPARES:
            query.epoch = reader.epoch
        here = host.topic
        query.error_code = self._code(query, host, here)
        if query.error_code or here is None:
            self._answer(query)
            reader.known = None
            if query.error_code == 1:
                self._reset(reader, host)
            return
        log = here.log
        query.high_watermark, query.log_start_offset = log.end, here.log_start
        ends = log.end_of(query.epoch) if query.epoch >= 0 else (-1, -1)
        if query.epoch >= 0 and (ends[1] < query.offset or ends[0] < query.epoch):
            query.diverging = ends
            reader.position, reader.epoch = ends[1], ends[0]
        else:
            count = min(log.end - query.offset, self.choices.choice((1, 3, 50)))
            query.records_size = RECORD_BYTES * count
            reader.position = query.offset + count
            if count:
                reader.epoch = log.records[reader.position - 1]
        self._answer(query)
        if reader.group_id is not None and self.choices.random() < 0.5:
            self._group_offset(reader, OFFSET_COMMIT, reader.position, reader.epoch)

    def _code(self, query: Query, host: Host, here: Topic | None) -> int:
        by_id = query.version >= BY_ID
        if here is None or (by_id and here.topic_id != query.topic_id):
            hosts = here is not None and host.held >= 0
            return (103 if hosts and self.choices.random() < 0.5 else 100) if by_id else 3
        if host.held < 0:
            return 6
        if query.current_leader_epoch not in (NO_EPOCH, host.held):
            return 74 if query.current_leader_epoch < host.held else 75
        if host.leader != host.id:
            return 6
        unknown = query.epoch >= 0 and -1 in here.log.end_of(query.epoch)
        return 1 if unknown or not here.log_start <= query.offset <= here.log.end else 0

    def _group_offset(self, reader: Reader, api: str, offset: int, epoch: int) -> tuple[int, int] | None:
        host = self.hosts[self.coordinator]
        connection, arrived = self._request(reader, host)
        group = str(reader.group_id)
        if api == OFFSET_COMMIT:
            host.offsets[group] = offset, epoch
        else:
            offset, epoch = host.offsets.get(group, (-1, -1))
        version = (9 if api == OFFSET_COMMIT else 8) if reader.version >= STATES_EPOCHS else 5
        self.log(
            GroupOffset(
                self._next(), host.id, self.now, api=api, version=version, correlation_id=self.correlation,
                client_id=reader.name, software=reader.software, group_id=group, topic=TOPIC, offset=offset,
                leader_epoch=epoch if reader.version >= STATES_EPOCHS else None, arrived=arrived, connection=connection,
            )
        )  # fmt: skip
        return None if offset < 0 else (offset, epoch)

    def _request(self, reader: Reader, host: Host) -> tuple[int, int]:
        """The connection of a request, and its arrival. The clock is then at its answer."""
        self.pass_time(3, 40)
        self.correlation += 1
        ends = reader.instance, host.id
        connection = self.connections.setdefault(ends, [52_000 + 7 * len(self.connections)])[0]
        arrived = self.now
        self.pass_time(2, 9)
        return connection, arrived

    def _query(self, reader: Reader, host: Host, api: str) -> Query:
        connection, arrived = self._request(reader, host)
        version = reader.version if api == FETCH else 3 if reader.version < STATES_EPOCHS else 6
        return Query(
            0, host.id, self.now, api=api, version=version, correlation_id=self.correlation, client_id=reader.name, topic=TOPIC,
            current_leader_epoch=NO_EPOCH, connection=connection, arrived=arrived, software=reader.software,
            session_id=1_000_000 + self.correlation,
        )  # fmt: skip

    def _answer(self, query: Query) -> None:
        query.id = self._next()
        self.log(query)

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the brokers start, and take steps."""
        self.hosts = {broker: Host(broker) for broker in BROKERS}
        self.log_recorded = self.choices.random() < 0.7
        for broker in BROKERS:
            self.log(
                ProcessStarts(self._next(), broker, self.now, version=self.release.version, broker_epoch=7 + broker)
            )
            self.pass_time(1500, 2500)
        self._record(("NO_OP_RECORD", {}))
        self.create()
        versions = [version for version in (8, 11, 12, self.release.fetch) if version <= self.release.fetch]
        for n, name in enumerate(self.choices.choice((("billing",), ("billing", "audit"), ("billing", "billing")))):
            self.readers.append(
                Reader(
                    name, f"{name}-{n}", self.choices.choice(SOFTWARE), self.choice_of_version(versions),
                    self.choices.choice((None, "g", "g", "h")), self.choices.random() < 0.2, self.choices.random() < 0.3,
                )
            )  # fmt: skip
        for _ in range(3 * steps):
            step = self.choices.choices(
                (
                    self.produce, self.poll, self.recreate, self.delete, self.create, self.elect, self.restart, self.cut_off,
                    self.come_back, self.move_coordinator, self.delete_records, self.miss_deletion,
                ),
                (18, 30, 9, 2, 4, 6, 9, 4, 8, 1, 3, 7),
            )[0]  # fmt: skip
            step()
            self.pass_time(1500, 3000)
        self._record(("NO_OP_RECORD", {}))
        return self.history

    def choice_of_version(self, versions: list[int]) -> int:
        """A consumer's version of Fetch."""
        return self.choices.choice(versions)


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a topic that is created again. It has no planted breaches: no version of the protocol has a fence to break."""
    del faulty
    return RecreatedTopics(name, release, choices, faulty=False, now=BEGIN_MS).run(steps)
