"""A simulated consumer: its position, how it learns of leaders, validates, resets, commits and resumes.

It follows the Java client as of 3.9 (SubscriptionState, OffsetFetcherUtils, Metadata.updateLatestMetadata,
ConsumerUtils.refreshCommittedOffsets). A position with a leader epoch is validated by OffsetForLeaderEpoch whenever the leader or
its epoch changes, and after it was resumed from a commit. A position that was reset has no leader epoch until a record is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prove.history import NO_EPOCH, NO_LEADER, UNKNOWN_SOFTWARE, Software

if TYPE_CHECKING:
    from prove.simulators.data_plane_cluster import DataPlaneCluster
    from prove.simulators.quorum_cluster import Partition
    from prove.simulators.replicating_cluster import Node

FAULTS: Final = {
    "position is not validated": 0.6,
    "committed epoch is ignored": 0.9,
    "epoch from the future is committed": 0.05,
    "older epoch is committed": 0.5,
}
"""What a consumer does wrong, and how often when it can."""
RECORD_BYTES: Final = 70


@dataclass(frozen=True)
class Client:
    """Who sends requests. instance: names its connections; two clients may have one client id. fetch: its highest version of Fetch."""

    client_id: str
    instance: str
    software: Software = UNKNOWN_SOFTWARE
    fetch: int = 99
    list_offsets: int = 99

    @property
    def states_epochs(self) -> bool:
        """It speaks versions that have leader epochs (KIP-320)."""
        return self.fetch >= 9


JAVA: Final[Software] = "apache-kafka-java", "3.9.1"
LIBRDKAFKA: Final[Software] = "librdkafka", "2.6.0"
BEFORE_EPOCHS: Final = {"fetch": 8, "list_offsets": 3}
"""The versions of a client that knows no leader epochs."""


@dataclass
class Position:
    """Where a consumer reads. offset_epoch: of the record before, -1: not known. leader: (broker, leader epoch) that it was taken for."""

    offset: int
    offset_epoch: int = NO_EPOCH
    leader: tuple[int, int] | None = None
    validated: bool = False


@dataclass
class Consumer:
    """A consumer of one partition. seen_epoch: the newest leader epoch that it knows of. leader: of its metadata.

    earliest: its policy of resets, else `latest`.
    """

    cluster: DataPlaneCluster
    client: Client
    partition: Partition
    group_id: str | None
    leader: tuple[int, int] | None = None
    seen_epoch: int = NO_EPOCH
    position: Position | None = None
    awaits_reset: bool = False
    stale: bool = True
    committed: Position | None = None
    earliest: bool = False

    def poll(self) -> None:
        """Do what the next poll does: refresh metadata, find the position, validate it, reset it, or fetch."""
        if self.stale:
            self._refresh()
        if self.position is None and not self.awaits_reset:
            self._begin()
        if self.leader is None or self.leader[1] < self.seen_epoch:
            self.stale = True
            return
        node = self.cluster.nodes.get(self.leader[0])
        if node is None or not node.up:
            self.stale = True
        elif self.awaits_reset:
            self._reset(node, self.leader)
        elif self.position is not None:
            if self.position.leader != self.leader:
                self.position.leader = self.leader
                self.position.validated = not self.client.states_epochs or self.position.offset_epoch == NO_EPOCH
            if self.position.validated or self._validate(node, self.leader, self.position):
                self._fetch(node, self.leader, self.position)

    def _refresh(self) -> None:
        """Metadata.updateLatestMetadata: an older leader epoch than the newest one seen is ignored."""
        answer = self.cluster.ask_metadata(client=self.client)
        if answer is None:
            return
        for number, leader, epoch, _, _ in answer.partitions:
            if number != self.partition.number or (self.client.states_epochs and epoch < self.seen_epoch):
                continue
            self.leader = None if leader == NO_LEADER else (leader, epoch)
            self.stale = False
            if self.client.states_epochs:
                self.seen_epoch = epoch

    def _begin(self) -> None:
        """Resume from the group's offset, or begin where auto.offset.reset sends it."""
        found = self.cluster.fetch_offset(self) if self.group_id else None
        if found is None:
            self.awaits_reset = self.cluster.choices.random() < 0.4
            self.position = None if self.awaits_reset else Position(0)
            return
        self.position = Position(*found)
        epoch = found[1]
        if self.seen_epoch == NO_EPOCH or epoch <= self.seen_epoch:
            return
        if self.leader is not None and self.cluster.takes("committed epoch is ignored"):
            self.position.leader, self.position.validated = self.leader, True
            return
        self.seen_epoch, self.stale = epoch, True

    def _validate(self, node: Node, leader: tuple[int, int], position: Position) -> bool:
        """SubscriptionState.maybeCompleteValidation. Returns whether the position may be fetched."""
        if self.cluster.takes("position is not validated"):
            position.validated = True
            return True
        answer = self.cluster.epoch_end(node, self.partition, self.client, leader[1], position.offset_epoch)
        if answer.error_code:
            self.stale = True
            return False
        if -1 in (answer.answered_epoch, answer.end_offset):
            self.position, self.awaits_reset = None, True
            return False
        if answer.end_offset < position.offset:
            position.offset, position.offset_epoch = answer.end_offset, answer.answered_epoch
        position.validated = True
        return True

    def _reset(self, node: Node, leader: tuple[int, int]) -> None:
        """OffsetFetcherUtils.resetPositionIfNeeded: the position has no leader epoch, which skips validation."""
        ask = self.cluster.earliest_offset if self.earliest else self.cluster.latest_offset
        answer = ask(node, self.partition, self.client, leader[1] if self.client.states_epochs else -1)
        if answer.error_code:
            self.stale = True
            return
        self.position, self.awaits_reset = Position(answer.end_offset, NO_EPOCH, leader, validated=True), False
        if self.client.states_epochs and answer.answered_epoch > self.seen_epoch:
            self.seen_epoch, self.stale = answer.answered_epoch, True

    def _fetch(self, node: Node, leader: tuple[int, int], position: Position) -> None:
        epoch = leader[1] if self.client.states_epochs else NO_EPOCH
        answer = self.cluster.fetch(node, self.partition, self.client, epoch, position.offset)
        if answer.error_code == 1:
            self.position, self.awaits_reset = None, True
            return
        if answer.error_code:
            self.stale = True
            return
        records = node.logs[self.partition.number].records
        position.offset += answer.records_size // RECORD_BYTES
        if answer.records_size and self.client.states_epochs:
            position.offset_epoch = records[position.offset - 1]
        if self.group_id and self.cluster.choices.random() < 0.5:
            self._commit(position)

    def _commit(self, position: Position) -> None:
        epoch, last = position.offset_epoch, self.committed
        rises = last is not None and last.offset < position.offset and last.offset_epoch > 0
        if epoch >= 0 and self.cluster.takes("epoch from the future is committed"):
            epoch += 50
        elif rises and last is not None and self.cluster.takes("older epoch is committed"):
            epoch = last.offset_epoch - 1
        if self.cluster.commit_offset(self, position.offset, epoch):
            self.committed = Position(position.offset, epoch)

    def restart(self, instance: str, client_id: str) -> None:
        """A new process takes the consumer's place, with connections of its own."""
        before = self.client
        self.client = Client(client_id, instance, before.software, before.fetch, before.list_offsets)
        self.leader, self.seen_epoch, self.position, self.awaits_reset, self.stale = None, NO_EPOCH, None, False, True
