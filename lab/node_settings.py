"""Settings of brokers and controllers: server.properties of ZooKeeper mode, of KRaft, and of the migration between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.network import Link
from lab.releases import SHARE_GROUPS_FROM, Release

SESSION_MS: Final = 6000  # a node that is silent for so long is dead to the controller, and a member to its group
RECORD_LOCK_MS: Final = 6000  # a member of a share group that does not acknowledge a record for so long has lost it
NEW_GROUPS_FROM: Final = (4, 0)  # KIP-848: the group coordinator with sessions of its own
COMMON: Final[Mapping[str, object]] = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2097152,
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "replica.lag.time.max.ms": SESSION_MS,
    "min.insync.replicas": 1,
}


@dataclass(frozen=True)
class NodeSettings:
    """What the settings of a cluster's nodes depend on.

    factor: replication factor of internal topics. of_scenario: settings of all nodes; `{folder}` is the run's, `{node}` the node's id.
    broker_ports, controller_ports: by node id.
    links: node id -> port -> the link by which the node reaches it.
    """

    release: Release
    factor: int
    folder: Path
    of_scenario: Mapping[str, object]
    broker_ports: Mapping[int, int]
    controller_ports: Mapping[int, int]
    zookeeper_port: int
    links: Mapping[int, Mapping[int, Link]]

    def with_zookeeper(self, number: int) -> dict[str, object]:
        """Of a broker in ZooKeeper mode."""
        return {
            **self._of_all_modes(number),
            "broker.id": number,
            "listeners": self._client_listener(number),
            "zookeeper.connect": f"127.0.0.1:{self._port_for(number, self.zookeeper_port)}",
            "zookeeper.session.timeout.ms": SESSION_MS,
            "controlled.shutdown.retry.backoff.ms": 500,
        }

    def with_kraft(self, number: int) -> dict[str, object]:
        """Of a broker, a controller, or both, in KRaft mode."""
        roles = {
            "broker": self._client_listener(number),
            "controller": f"CONTROLLER://127.0.0.1:{self.controller_ports.get(number)}",
        }
        if number not in self.controller_ports:
            del roles["controller"]
        if number not in self.broker_ports:
            del roles["broker"]
        settings = self._of_all_modes(number)
        if self.release.number >= NEW_GROUPS_FROM:
            settings |= {
                "group.consumer.session.timeout.ms": SESSION_MS,
                "group.consumer.min.session.timeout.ms": SESSION_MS,
            }
        if self.release.number >= SHARE_GROUPS_FROM:
            settings |= {
                "share.coordinator.state.topic.num.partitions": 1,
                "share.coordinator.state.topic.replication.factor": self.factor,
                "share.coordinator.state.topic.min.isr": 1,
                "group.share.record.lock.duration.ms": RECORD_LOCK_MS,
                "group.share.min.record.lock.duration.ms": RECORD_LOCK_MS,
                "group.share.heartbeat.interval.ms": 1000,
                "group.share.min.heartbeat.interval.ms": 1000,
            }
        return {
            **settings,
            **self._quorum(number),
            "node.id": number,
            "process.roles": ",".join(roles),
            "listeners": ",".join(roles.values()),
            "broker.session.timeout.ms": SESSION_MS,
            "broker.heartbeat.interval.ms": 1000,
        }

    def migrating_broker(self, number: int) -> dict[str, object]:
        """Of a broker in ZooKeeper mode that registers with the KRaft controllers, too (KIP-866)."""
        return {**self.with_zookeeper(number), **self._quorum(number), "zookeeper.metadata.migration.enable": "true"}

    def migrating_controller(self, number: int) -> dict[str, object]:
        """Of a KRaft controller that takes over from ZooKeeper (KIP-866)."""
        return {
            **self.with_kraft(number),
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
            "zookeeper.metadata.migration.enable": "true",
        }

    def _of_all_modes(self, number: int) -> dict[str, object]:
        return {
            **COMMON,
            "offsets.topic.replication.factor": self.factor,
            "transaction.state.log.replication.factor": self.factor,
            **{name: str(value).format(folder=self.folder, node=number) for name, value in self.of_scenario.items()},
        }

    def _quorum(self, number: int) -> dict[str, object]:
        voters = [f"{one}@127.0.0.1:{self._port_for(number, port)}" for one, port in self.controller_ports.items()]
        return {
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": ",".join(voters),
        }

    def _client_listener(self, number: int) -> str:
        return f"PLAINTEXT://127.0.0.1:{self.broker_ports.get(number)}"

    def _port_for(self, number: int, port: int) -> int:
        """The port by which a node reaches a controller or ZooKeeper."""
        link = self.links.get(number, {}).get(port)
        return port if link is None else link.port
