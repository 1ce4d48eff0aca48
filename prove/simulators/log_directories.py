"""A simulated KRaft cluster whose brokers have several log directories, which fail (KIP-858).

Its controller is that of `quorum_cluster`, its brokers those of `broker_lifecycle`. What is added follows ReplicationControlManager
(handleDirectoriesOffline, handleAssignReplicasToDirs, LeaderAcceptor), PartitionChangeBuilder, ClusterControlManager.defaultDir and
DirectoryId.isOnline. Before metadata.version 3.7-IV2 there are no directories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from prove.history import History, Release
from prove.simulators.broker_lifecycle import LifecycleCluster
from prove.simulators.quorum_cluster import DIRECTORIES, FORGETS_ON_ASSIGNMENT, RELEASES, Partition

__all__ = ["DIRECTORY_FAULTS", "RELEASES", "simulate"]

MIGRATING: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNASSIGNED: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
LOST: Final = "AAAAAAAAAAAAAAAAAAAAAg"

DIRECTORY_FAULTS: Final = (
    "replica stays on an offline directory",
    "elected on an offline directory",
    "directories out of step",
    "directory of another broker registered",
)
"""What the controller does wrong with log directories."""


@dataclass
class DirectoriesCluster(LifecycleCluster):
    """The cluster and its history so far. disks: the directories of each broker that work. known: those with which it is registered."""

    disks: dict[int, list[str]] = field(default_factory=dict)
    known: dict[int, list[str]] = field(default_factory=dict)
    disks_made: int = 0

    def faults(self) -> tuple[str, ...]:
        """The faults that may be planted."""
        return *super().faults(), *(DIRECTORY_FAULTS * 2 if self.has_directories else ())

    @property
    def has_directories(self) -> bool:
        """The metadata.version in force knows log directories."""
        return self.release.metadata_version >= DIRECTORIES

    # -- disks

    def _disk(self) -> str:
        self.disks_made += 1
        return f"directory{self.disks_made:06d}AAAAAAA"[:21] + "A"

    def online(self, broker: int, partition: Partition) -> bool:
        """DirectoryId.isOnline of a replica's directory."""
        if broker not in partition.replicas or not partition.directories:
            return broker in partition.replicas
        number = partition.replicas.index(broker)
        directory = partition.directories[number] if number < len(partition.directories) else UNASSIGNED
        known = self.known.get(broker, [])
        return directory in (MIGRATING, UNASSIGNED) or (directory != LOST and (not known or directory in known))

    def default(self, broker: int) -> str:
        """ClusterControlManager.defaultDir."""
        known = self.known.get(broker, [])
        return MIGRATING if not known else known[0] if len(known) == 1 else UNASSIGNED

    def registration(self, broker: int, epoch: int, *, again: bool = False) -> dict[str, Any]:
        """Fields of the record that registers a broker's incarnation. A new one has the disks that work, and new ones at times."""
        data = super().registration(broker, epoch, again=again)
        if not self.has_directories:
            return data
        if again:
            return data | {"logDirs": [*self.known[broker]]}
        disks = self.disks.setdefault(broker, [self._disk() for _ in range(self.choices.choice((1, 2, 2, 3)))])
        if not disks or self.choices.random() < 0.15:
            disks.append(self._disk())
        others = sorted(other for other, known in self.known.items() if other != broker and known)
        self.known[broker] = [*disks]
        if others and self.takes("directory of another broker registered"):
            self.known[broker].append(self.known[self.choices.choice(others)][0])
        return data | {"logDirs": [*self.known[broker]]}

    def unregister(self) -> None:
        """An administrator removes a fenced broker."""
        super().unregister()
        self.known = {broker: known for broker, known in self.known.items() if broker in self.registrations}

    def lose_disk(self) -> None:
        """A disk fails. The broker reports it with its next heartbeat, and the controller moves the replicas away, but for the last one."""
        able = [b for b, one in self.registrations.items() if one.active and len(self.known.get(b, [])) > 1]
        if not able:
            return
        broker = self.choices.choice(able)
        failed = self.choices.choice(self.known[broker])
        self.disks[broker] = [disk for disk in self.disks[broker] if disk != failed]
        records = []
        for partition in self.partitions:
            on_disk = dict(zip(partition.replicas, partition.directories, strict=False))
            if on_disk.get(broker) == failed:
                records += self.taken_off(broker, partition)
        self.known[broker] = [disk for disk in self.known[broker] if disk != failed]
        kind, _, data = self._registration_change(broker)
        self.beat(broker, None, [*records, (kind, 2, data | {"logDirs": [*self.known[broker]]})], is_fenced=False)

    def taken_off(self, broker: int, partition: Partition) -> list[tuple[str, int, dict[str, Any]]]:
        """Changes that take a broker out of one partition's ISR, and its leadership from it."""
        listed = broker in partition.isr and (len(partition.isr) > 1 or partition.leader == broker)
        if listed and self.takes("replica stays on an offline directory"):
            return []
        return self.leave(broker, [partition])

    # -- partitions

    def write(self, *records: tuple[str, int, dict[str, Any]]) -> int:
        """Append one batch to the metadata log: records with directories have versions of their own."""
        if not self.has_directories:
            return super().write(*records)
        versions = {"REGISTER_BROKER_RECORD": 3, "PARTITION_RECORD": 1}
        return super().write(*((kind, versions.get(kind, version), data) for kind, version, data in records))

    def absolute(self, partition: Partition) -> dict[str, Any]:
        if not self.has_directories:
            return super().absolute(partition)
        if not partition.directories:
            partition.directories = [self.default(replica) for replica in partition.replicas]
        return super().absolute(partition) | {"directories": [*partition.directories]}

    def change(self, partition: Partition, **fields: Any) -> tuple[str, int, dict[str, Any]]:
        """A change of a partition. Other replicas have other directories."""
        if self.has_directories and "replicas" in fields and "directories" not in fields:
            had = dict(zip(partition.replicas, partition.directories, strict=False))
            if not self.takes("directories out of step"):
                fields["directories"] = [had.get(one) or self.default(one) for one in fields["replicas"]]
        partition.directories = fields.get("directories", partition.directories)
        return super().change(partition, **fields)

    def assign_directories(self) -> None:
        """A broker assigns a replica to a log directory, or has moved it to another one. Controllers before 4.3 empty the ELR."""
        if not self.has_directories:
            return
        found = [
            (one, replica)
            for one in self.partitions
            for replica in one.replicas
            if replica in self.registrations and self.registrations[replica].alive and self.known.get(replica)
            and len(one.directories) == len(one.replicas)
        ]  # fmt: skip
        if not found:
            return
        partition, broker = self.choices.choice(found)
        directories = [*partition.directories]
        directories[partition.replicas.index(broker)] = self.choices.choice(self.known[broker])
        if directories == partition.directories:
            return
        fields: dict[str, Any] = {"directories": directories}
        if partition.elr and self.release.metadata_version < FORGETS_ON_ASSIGNMENT:
            fields["eligibleLeaderReplicas"] = []
            if partition.last_known_elr:
                fields["lastKnownElr"] = []
        self.write(self.change(partition, **fields))

    def elect(self) -> None:
        """A preferred leader election, or one that breaks a rule."""
        offline = [
            (one, replica)
            for one in self.partitions
            for replica in one.replicas
            if one.leader != replica and self.active(replica) and not self.online(replica, one)
        ]
        if offline and self.takes("elected on an offline directory"):
            partition, broker = self.choices.choice(offline)
            self.write(self.change(partition, leader=broker, isr=[*{*partition.isr, broker}]))
            return
        super().elect()

    def _step(self) -> None:
        wants_offline = self.fault in ("replica stays on an offline directory", "elected on an offline directory")
        chance = 0.3 if wants_offline else 0.06
        if self.has_directories and self.choices.random() < chance:
            self.lose_disk()
        elif self.has_directories and self.choices.random() < 0.1:
            self.assign_directories()
        elif self.fault == "elected on an offline directory" and self.choices.random() < 0.3:
            self.elect()
        else:
            super()._step()


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a KRaft cluster with log directories. faulty: breaches are planted."""
    return DirectoriesCluster(name, release, choices, faulty).run(steps)
