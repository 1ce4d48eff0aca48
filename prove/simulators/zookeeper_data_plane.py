"""A simulated ZooKeeper-mode cluster whose brokers replicate.

Its data plane is that of `data_plane_cluster`. A controller on one of the brokers sends elections as LeaderAndIsr and UpdateMetadata, and
logs them in its state-change.log. Leaders write their ISRs to ZooKeeper, which no log shows. The state machines follow KafkaController
and ReplicaManager (becomeLeaderOrFollower, makeFollowers).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from prove.history import (
    LEADER_AND_ISR,
    UPDATE_METADATA,
    ZOOKEEPER_DATA_PLANE,
    Control,
    Decision,
    Elected,
    History,
    ProcessStarts,
    Release,
    Start,
    State,
)
from prove.simulators.data_plane_cluster import DataPlaneCluster
from prove.simulators.quorum_cluster import Partition
from prove.simulators.replica_log import Log
from prove.simulators.replicating_cluster import NODES, Held, Node

RELEASES: Final = (
    Release(ZOOKEEPER_DATA_PLANE, "2.8.2", "json", 5, 3, 7, 12, 6, 4, produce=9, metadata=11),
    Release(ZOOKEEPER_DATA_PLANE, "3.3.2", "json", 6, 3, 7, 13, 7, 4, produce=9, metadata=12),
    Release(ZOOKEEPER_DATA_PLANE, "3.9.1", "json", 7, 4, 8, 17, 9, 4, produce=11, metadata=12),
)


@dataclass
class ZooKeeperDataPlane(DataPlaneCluster):
    """The cluster and its history so far. controller: the broker that is it. sent: leader epochs of (broker, partition) that were sent.

    undecided: states that the next controller writes and logs.
    """

    controller: int = 0
    controller_epoch: int = 0
    sent: dict[tuple[int, int], int] = field(default_factory=dict)
    undecided: list[State] = field(default_factory=list)

    def write(self, *records: tuple[str, int, dict[str, Any]]) -> int:
        """There is no metadata log: what would be a record is a write to ZooKeeper."""
        base = self.end
        self.end += len(records)
        return base

    def change(self, partition: Partition, **fields: Any) -> tuple[str, int, dict[str, Any]]:
        """A decision of the controller."""
        record = super().change(partition, **fields)
        self.undecided.append(self._state(partition))
        return record

    def create_topic(self) -> None:
        """Create the topic."""
        super().create_topic()
        self.undecided += map(self._state, self.partitions)

    # -- processes and metadata

    def boot(self, broker: int) -> None:
        """A broker's process starts, and registers in ZooKeeper."""
        node = self.nodes[broker]
        node.up, node.isolated, node.held, node.cache, node.stated_epoch = True, False, {}, {}, None
        self.recover(node)
        self.sent = {key: epoch for key, epoch in self.sent.items() if key[0] != broker}
        own = {broker, f"broker-{broker}-fetcher-0"}
        self.connections = {ends: one for ends, one in self.connections.items() if own.isdisjoint(ends)}
        self.register(broker)
        epoch = self.registrations[broker].broker_epoch
        self.log(
            ProcessStarts(self._next(), broker, self.clock(broker), version=self.release.version, broker_epoch=epoch)
        )
        self.pass_time(1800, 3000)
        if broker in self.former and self.takes("fetches as its former incarnation"):
            node.stated_epoch = self.former[broker]
        self.unfence(broker)
        self.pass_time(900, 1500)
        self.publish(node)

    def publish(self, node: Node) -> None:
        """The controller sends a broker what it does not have yet."""
        live = [one for one in self.up() if not one.isolated]
        if not node.up or node.isolated or not live:
            return
        node.live = frozenset(broker for broker, one in self.registrations.items() if one.active)
        if self.controller not in {one.id for one in live}:
            self.controller, self.controller_epoch = live[0].id, self.controller_epoch + 1
            self.log(Elected(self._next(), live[0].id, self.clock(live[0].id), controller_epoch=self.controller_epoch))
            self.pass_time(3, 30)
        for state in self.undecided:
            self._decide(state)
        self.undecided = []
        own = [one for one in self.partitions if node.id in one.replicas]
        newer = [one for one in own if one.leader_epoch > self.sent.get((node.id, one.number), -1)]
        self.sent |= {(node.id, one.number): one.leader_epoch for one in newer}
        if newer:
            self._send_states(node, newer)
        states = {
            one.number: (one.leader, one.leader_epoch, tuple(one.replicas), tuple(one.isr)) for one in self.partitions
        }
        if states != node.cache:
            node.cache = states
            self._sent(node, UPDATE_METADATA, [*map(self._state, self.partitions)], self.release.update_metadata)
        self.pass_time(600, 900)

    def _decide(self, state: State) -> None:
        self.pass_time(1, 5)
        decided = replace(state, controller_epoch=self.controller_epoch)
        before = "NewPartition" if state.leader_epoch == 0 else "OnlinePartition"
        self.log(
            Decision(
                self._next(), self.controller, self.clock(self.controller), controller_epoch=self.controller_epoch,
                state=decided, before=before,
            )
        )  # fmt: skip

    def _send_states(self, node: Node, partitions: list[Partition]) -> None:
        """ReplicaManager.becomeLeaderOrFollower. A replica whose leader is not alive does not take over the epoch."""
        request = self._sent(node, LEADER_AND_ISR, [*map(self._state, partitions)], self.release.leader_and_isr)
        live = {broker for broker, registration in self.registrations.items() if registration.active}
        starts = [self._begin(node, one) for one in partitions if one.leader in live]
        request.codes = (0,) * len(partitions)
        request.held_epochs = tuple(one.leader_epoch for one in partitions)
        started = {start.partition for start in starts}
        request.starts = tuple(starts)
        request.unavailable = tuple((one.topic, one.number) for one in partitions if one.number not in started)

    def _begin(self, node: Node, partition: Partition) -> Start:
        held = node.held.setdefault(partition.number, Held())
        log = node.logs.setdefault(partition.number, Log(partition.topic_id))
        leads = partition.leader == node.id
        if leads and log.end > 1 and log.high_watermark > 1 and self.takes("leader lost its records"):
            log.truncate(self.choices.randint(0, log.high_watermark - 1))
        start = Start(
            leads, partition.topic, partition.number, partition.topic_id, partition.leader, partition.leader_epoch,
            partition.partition_epoch, log.end, log.high_watermark, tuple(partition.isr), held.leader_epoch, held.leader,
        )  # fmt: skip
        held.start, held.ends, held.starts, held.incarnations, held.fenced = log.end, {}, {}, {}, False
        held.leader_epoch, held.partition_epoch = partition.leader_epoch, partition.partition_epoch
        held.leader, held.isr, held.replicas = partition.leader, tuple(partition.isr), tuple(partition.replicas)
        if leads:
            log.assign(partition.leader_epoch, log.end)
            self._advance(node, partition.number)
        return start

    def _state(self, partition: Partition) -> State:
        return State(
            partition.topic, partition.number, partition.topic_id, self.controller_epoch, partition.leader,
            partition.leader_epoch, tuple(partition.isr), partition.partition_epoch, tuple(partition.replicas),
        )  # fmt: skip

    def _sent(self, node: Node, api: str, states: list[State], version: int) -> Control:
        connection, correlation = self.request_id(f"controller-{self.controller}-{self.controller_epoch}", node.id)
        self.pass_time(3, 30)
        arrived = self.clock(node.id)
        self.pass_time(1, 3)
        handled = self.clock(node.id)
        self.pass_time(8, 30)
        finished = self.clock(node.id)
        self.pass_time(1, 3)
        request = Control(
            self._next(), node.id, self.clock(node.id), api=api, version=version, correlation_id=correlation,
            controller_id=self.controller, controller_epoch=self.controller_epoch,
            broker_epoch=self.registrations[node.id].broker_epoch, partitions=tuple(states),
            live_brokers=tuple(sorted(one.id for one in self.up() if not one.isolated)), arrived=arrived, handled=handled,
            finished=finished, connection=connection, latest_controller_epoch=self.controller_epoch,
        )  # fmt: skip
        self.log(request)
        return request

    def _propose(self, leader: Node, partition: Partition, isr: tuple[int, ...]) -> None:
        held = leader.held[partition.number]
        partition.isr, partition.partition_epoch = [*isr], partition.partition_epoch + 1
        held.isr, held.partition_epoch = isr, partition.partition_epoch
        self._advance(leader, partition.number)
        self.pass_time(1200, 1800)

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps."""
        self.nodes = {broker: Node(broker, self.choices.choice((0, 0, 70, -90))) for broker in NODES}
        self.end = 20
        for broker in NODES:
            self.boot(broker)
        self.create_topic()
        self.pass_time(900, 1500)
        self.take_steps(2 * steps)
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of replication in ZooKeeper mode. faulty: breaches are planted."""
    return ZooKeeperDataPlane(name, release, choices, faulty).run(steps)
