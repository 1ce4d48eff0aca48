"""A simulated client's metadata: the leaders that it knows, and the lines that it logs about their epochs.

It follows the Java client as of 3.9: Metadata (updateLatestMetadata, updateLastSeenEpochIfNewer, updatePartitionLeadership).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from prove.history import (
    CLIENT_HOST,
    EPOCH_IGNORED,
    EPOCH_NOT_KNOWN,
    EPOCH_RAISED,
    EPOCH_SEEN,
    FIRST_EPOCH_SEEN,
    HINT_IGNORED,
    HINT_OF_UNKNOWN_BROKER,
    HINT_TAKEN,
    NO_LEADER,
    UNKNOWN_SOFTWARE,
    ClientLine,
    MetadataAnswer,
    Software,
)

if TYPE_CHECKING:
    from prove.simulators.data_plane_cluster import DataPlaneCluster

JAVA: Final[Software] = "apache-kafka-java", "3.9.1"
LIBRDKAFKA: Final[Software] = "librdkafka", "2.6.0"


@dataclass(frozen=True)
class Client:
    """Who sends requests. instance: names its connections; two clients may have one client id. fetch: its highest version of Fetch."""

    client_id: str
    instance: str
    software: Software = UNKNOWN_SOFTWARE
    fetch: int = 99
    list_offsets: int = 99
    metadata: int = 99
    produce: int = 11
    log: str = ""
    group_id: str = ""

    @property
    def states_epochs(self) -> bool:
        """It speaks versions that have leader epochs (KIP-320)."""
        return self.fetch >= 9


@dataclass
class ClientMetadata:
    """What a client knows. seen: the newest leader epoch of each partition. leaders: (broker, leader epoch) of each, None: it has none."""

    cluster: DataPlaneCluster
    client: Client
    seen: dict[int, int] = field(default_factory=dict)
    leaders: dict[int, tuple[int, int] | None] = field(default_factory=dict)

    def update(self, answer: MetadataAnswer) -> set[int]:
        """Metadata.updateLatestMetadata: an older leader epoch than the newest one seen is ignored. Returns the partitions taken over."""
        taken = set()
        for number, leader, epoch, _, _ in answer.partitions:
            known = self.seen.get(number)
            older = known is not None and epoch < known
            if self.client.states_epochs and older and not self.takes("older metadata is taken over"):
                self.write(EPOCH_IGNORED, number, leader_epoch=epoch, known=known)
                continue
            if self.client.states_epochs:
                self.write(FIRST_EPOCH_SEEN if known is None else EPOCH_SEEN, number, leader_epoch=epoch, known=known)
                self.seen[number] = epoch
            self.leaders[number] = None if leader == NO_LEADER else (leader, epoch)
            taken.add(number)
        return taken

    def raise_epoch(self, partition: int, epoch: int) -> bool:
        """Metadata.updateLastSeenEpochIfNewer. Returns whether it was newer."""
        known = self.seen.get(partition)
        if known is None:
            self.write(EPOCH_NOT_KNOWN, partition, leader_epoch=epoch)
        elif epoch > known:
            self.write(EPOCH_RAISED, partition, leader_epoch=epoch, known=known)
            self.seen[partition] = epoch
            return True
        return False

    def hinted(self, partition: int, hint: tuple[int, int] | None) -> bool:
        """Metadata.updatePartitionLeadership, of a Java client. Returns whether the leader was taken over."""
        if self.client.software != JAVA or hint is None or -1 in hint:
            return False
        leader, epoch = hint
        known = self.seen.get(partition)
        fields = {"leader": leader, "leader_epoch": epoch, "known": known}
        if known is not None and epoch <= known and not self.takes("older hint is taken"):
            self.write(HINT_IGNORED, partition, **fields)
            return False
        if self.cluster.choices.random() < 0.1:
            self.write(HINT_OF_UNKNOWN_BROKER, partition, **fields)
            return False
        self.write(HINT_TAKEN, partition, **fields)
        self.seen[partition], self.leaders[partition] = epoch, hint
        return True

    def takes(self, fault: str) -> bool:
        """Whether the client makes a mistake. Without a log nothing would show it."""
        return bool(self.client.log) and self.cluster.takes(fault)

    def write(self, kind: str, partition: int, **fields: Any) -> None:
        """Write a line to the client's log, if it has one."""
        if self.client.log:
            self.cluster.log(
                ClientLine(
                    len(self.cluster.history.events), CLIENT_HOST, self.cluster.now, kind=kind, log=self.client.log,
                    client_id=self.client.client_id, group_id=self.client.group_id, topic=self.cluster.partitions[0].topic,
                    partition=partition, instance=self.client.instance, **fields,
                )
            )  # fmt: skip
