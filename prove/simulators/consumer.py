"""A simulated consumer: its position, how it learns of leaders, validates, resets, commits and resumes.

It follows the Java client as of 3.9 (SubscriptionState, OffsetFetcherUtils, Metadata.updateLatestMetadata,
ConsumerUtils.refreshCommittedOffsets). A position with a leader epoch is validated by OffsetForLeaderEpoch whenever the leader or
its epoch changes, and after it was resumed from a commit. A position that was reset has no leader epoch until a record is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from prove.history import NO_EPOCH, OUT_OF_RANGE_RESET, POSITION_RESET, TRUNCATION_DIVERGED, TRUNCATION_RESET
from prove.simulators.client_metadata import Client, ClientMetadata

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


BEFORE_EPOCHS: Final = {"fetch": 8, "list_offsets": 3, "metadata": 6}
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
    """A consumer of one partition. earliest: its policy of resets, else `latest`."""

    cluster: DataPlaneCluster
    client: Client
    partition: Partition
    group_id: str | None
    position: Position | None = None
    awaits_reset: bool = False
    stale: bool = True
    committed: Position | None = None
    earliest: bool = False

    def __post_init__(self) -> None:
        """Begin with no metadata."""
        self.metadata = ClientMetadata(self.cluster, self.client)

    @property
    def leader(self) -> tuple[int, int] | None:
        """(broker, leader epoch) of its metadata."""
        return self.metadata.leaders.get(self.partition.number)

    @property
    def seen_epoch(self) -> int:
        """The newest leader epoch that it knows of."""
        return self.metadata.seen.get(self.partition.number, NO_EPOCH)

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
        answer = self.cluster.ask_metadata(client=self.client)
        if answer is not None and self.partition.number in self.metadata.update(answer):
            self.stale = False

    def _begin(self) -> None:
        """Resume from the group's offset, or begin where auto.offset.reset sends it."""
        found = self.cluster.fetch_offset(self) if self.group_id else None
        if found is None:
            self.awaits_reset = self.cluster.choices.random() < 0.4
            self.position = None if self.awaits_reset else Position(0)
            return
        self.position = Position(*found)
        epoch = found[1]
        newer = NO_EPOCH < self.seen_epoch < epoch
        if newer and self.leader is not None and self.cluster.takes("committed epoch is ignored"):
            self.position.leader, self.position.validated = self.leader, True
        elif epoch >= 0 and self.metadata.raise_epoch(self.partition.number, epoch):
            self.stale = True

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
            self._write(TRUNCATION_RESET, leader, position)
            self.position, self.awaits_reset = None, True
            return False
        if answer.end_offset < position.offset:
            new = Position(answer.end_offset, answer.answered_epoch)
            self._write(TRUNCATION_DIVERGED, leader, position, new)
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
        self._write(POSITION_RESET, leader, None, self.position)
        if self.client.states_epochs and answer.answered_epoch >= 0:
            self.stale = self.metadata.raise_epoch(self.partition.number, answer.answered_epoch) or self.stale

    def _fetch(self, node: Node, leader: tuple[int, int], position: Position) -> None:
        epoch = leader[1] if self.client.states_epochs else NO_EPOCH
        answer = self.cluster.fetch(node, self.partition, self.client, epoch, position.offset)
        if answer.error_code == 1:
            self._write(OUT_OF_RANGE_RESET, leader, position)
            self.position, self.awaits_reset = None, True
            return
        if answer.error_code:
            self.stale = True
            self.metadata.hinted(self.partition.number, answer.hint)
            return
        records = node.logs[self.partition.number].records
        position.offset += answer.records_size // RECORD_BYTES
        if answer.records_size and self.client.states_epochs:
            position.offset_epoch = records[position.offset - 1]
        if self.group_id and self.cluster.choices.random() < 0.5:
            self._commit(position)

    def _write(
        self, kind: str, leader: tuple[int, int], position: Position | None, new: Position | None = None
    ) -> None:
        """Write a line about a position. One that was reset has the leader that it was reset for."""
        before, after = (None if one is None else (one.offset, one.offset_epoch) for one in (position, new))
        broker, epoch = leader
        self.metadata.write(
            kind, self.partition.number, leader=broker, leader_epoch=epoch, position=before, new_position=after
        )

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
        self.client = replace(self.client, client_id=client_id, instance=instance)
        self.metadata = ClientMetadata(self.cluster, self.client)
        self.position, self.awaits_reset, self.stale = None, False, True
