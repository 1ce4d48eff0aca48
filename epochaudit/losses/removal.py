"""A truncation, the replicas that had its records, and the consumers that had read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Replica:
    """A replica that had truncated records.

    log_end: its log end offset when it began to follow, null where it logged none (before 2.6). truncated_to: the offset that
    its log states, null where it states none.
    """

    node: int
    log_end: int | None
    truncated_to: int | None


@dataclass(frozen=True)
class Reader:
    """A consumer that had read removed records, or committed offsets beyond them: at most first_offset to last_offset."""

    client: str | None
    group: str | None
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class Removal:
    """A truncation: records first_offset to last_offset of a partition that the log of leader_epoch began without.

    epochs: the leader epochs in which they were written.
    committed: some lay below a high watermark, or in the log of a replica that was the whole ISR. False if the log of an ISR
    member proves that none was committed; null if the evidence does not show it.
    given_out: some lay below a high watermark that a leader returned to clients; null if the evidence does not show it.
    read_by: consumers that had read some of them.
    counted: the number of records, by the batch headers of a copy that still has all of them; null if the capture has none.
    """

    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    epochs: tuple[int, ...] = ()
    given_out: bool | None = None
    replicas: tuple[Replica, ...] = ()
    read_by: tuple[Reader, ...] = ()
    committed: bool | None = None
    counted: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies it in several runs over one warehouse."""
        partition = (self.cluster, self.topic, self.topic_id, self.partition)
        return *partition, self.leader_epoch, self.first_offset, self.last_offset

    @property
    def records(self) -> int:
        """The number of offsets: an upper bound of the number of records."""
        return self.last_offset - self.first_offset + 1

    @property
    def harmed(self) -> bool | None:
        """Whether some of the records had been committed or given out; null if the evidence does not show it."""
        known = (self.committed, self.given_out)
        return True if True in known else False if False in known else None


@dataclass(frozen=True)
class Segments:
    """Data segments that the capture lacks, of a partition whose logs were truncated.

    records: the number of truncated records, at most. committed: some had been committed; null if the evidence does not show it.
    """

    cluster: str
    topic: str
    partition: int
    records: int
    committed: bool | None

    def __str__(self) -> str:
        most = f"{self.records:,} record{'' if self.records == 1 else 's'} at most"
        verb = "was" if self.records == 1 else "were"
        known = f"{verb} lost" if self.committed else f"{verb} truncated, and whether committed is not known"
        return (
            f"data segments of {self.topic}-{self.partition}, where {most} {known}, would show how many there were, of which"
            " leader epochs, and which replicas still have them"
        )

    @property
    def cost(self) -> str:
        """What it takes to collect them."""
        return "`epochaudit collect` on each host of a replica takes the headers of their batches; no record leaves the host"
