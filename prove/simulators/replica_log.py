"""A replica's log: the leader epochs of its records, its epoch cache, its high watermark."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Log:
    """A replica's log on disk. start: the log start offset. records: the leader epoch of each, also of deleted ones.

    base: where its first segment begins: no older checkpoint of the log start offset counts (LogLoader).

    epochs: (leader epoch, start offset) of its epoch cache.
    """

    topic_id: str | None
    records: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0
    start: int = 0
    base: int = 0

    @property
    def end(self) -> int:
        """The log end offset."""
        return len(self.records)

    def assign(self, epoch: int, start: int) -> None:
        """LeaderEpochFileCache.assign."""
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [entry for entry in self.epochs if entry[1] < start] + [(epoch, start)]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """LeaderEpochFileCache.endOffsetFor: (epoch, end offset), (-1, -1) if undefined."""
        if epoch == -1 or not self.epochs or epoch > self.epochs[-1][0]:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        higher = next(entry for entry in self.epochs if entry[0] > epoch)
        floor = [entry for entry in self.epochs if entry[0] <= epoch]
        return (floor[-1][0], higher[1]) if floor else (epoch, higher[1])

    def truncate(self, end: int) -> None:
        """Discard the records from `end` on."""
        del self.records[end:]
        self.epochs = [entry for entry in self.epochs if entry[1] < end]
        self.high_watermark = min(self.high_watermark, end)
        self.start = min(self.start, end)
        self.base = min(self.base, self.start)

    def raise_start(self, offset: int) -> None:
        """UnifiedLog.maybeIncrementLogStartOffset, LeaderEpochFileCache.truncateFromStart."""
        self.start = offset
        removed = [entry for entry in self.epochs if entry[1] <= offset]
        if removed:
            self.epochs = [(removed[-1][0], offset), *self.epochs[len(removed) :]]

    def begin_at(self, leader: Log) -> None:
        """UnifiedLog.truncateFullyAndStartAt: an empty log that starts where the leader's does."""
        self.records, self.epochs = leader.records[: leader.start], []
        self.base = self.start = self.high_watermark = leader.start

    @property
    def epoch_of_start(self) -> int:
        """The leader epoch of an answer with the earliest offset, -1: not known."""
        return self.epochs[0][0] if self.epochs and self.epochs[0][1] <= self.start else -1

    @property
    def latest_epoch(self) -> int:
        """The newest epoch of the cache, -1 if it is empty: a follower states it as its last fetched epoch."""
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, epochs: list[int]) -> None:
        """Append a leader's records."""
        for epoch in epochs:
            self.assign(epoch, self.end)
            self.records.append(epoch)

    def copy(self, leader: Log) -> None:
        """What fetching from a leader does: truncate to the common beginning, and append."""
        common = 0
        while common < min(self.end, leader.end) and self.records[common] == leader.records[common]:
            common += 1
        self.truncate(common)
        for offset in range(common, leader.end):
            self.assign(leader.records[offset], offset)
            self.records.append(leader.records[offset])
