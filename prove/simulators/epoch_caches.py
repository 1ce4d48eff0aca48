"""Simulated leader epoch caches of a broker's replicas, with the lines that they write at DEBUG.

They follow LeaderEpochFileCache (assign, truncateFromEnd, truncateFromStart, clearAndFlush) of 2.6, which warns of an assignment that is
older than its latest entry, and of 2.7 and later, which write of an entry that replaced others a warning and a line. Logs are truncated,
emptied, deleted, created and moved between directories, followers build their caches from the remote tier, and the broker restarts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from prove.history import EPOCH_CACHES, CheckpointEntry, History, LogLine, ProcessStarts, Release
from prove.simulators.simulation import BEGIN_MS, Simulation

NODE: Final = 1
TOPIC: Final = "orders"

RELEASES: Final = (
    Release(EPOCH_CACHES, "2.6.3", "text"),
    Release(EPOCH_CACHES, "2.8.2", "json"),
    Release(EPOCH_CACHES, "3.3.2", "json"),
    Release(EPOCH_CACHES, "3.9.1", "kraft"),
    Release(EPOCH_CACHES, "4.1.2", "kraft"),
)
KEPT: Final = "older entry is kept beside a newer one"
WARNED: Final = "assignment below the latest entry"
COPIED: Final = "checkpoint out of order"
FAULTS: Final = (KEPT, WARNED, COPIED)
Entry = tuple[int, int]


@dataclass
class Replica:
    """A replica: (epoch, start offset) of its cache, its log end, its newest leader epoch. future: of its move to another directory."""

    number: int
    cache: list[Entry] = field(default_factory=list)
    end: int = 0
    epoch: int = 0
    future: list[Entry] | None = None


@dataclass
class EpochCaches(Simulation):
    """The broker and its history so far. tells_loading: its lines about loaded logs are recorded. at_debug: those of emptied logs."""

    replicas: list[Replica] = field(default_factory=list)
    tells_loading: bool = True
    at_debug: bool = True

    def line(self, replica: Replica, kind: str, epoch: int = -1, offset: int = 0, entries: int = 0) -> None:
        """Write a line."""
        self.history.events.append(
            LogLine(
                self._next(), NODE, self.now, kind=kind, topic=TOPIC, partition=replica.number, epoch=epoch, offset=offset,
                entries=entries,
            )
        )  # fmt: skip
        self.pass_time(1, 9)

    @property
    def is_old(self) -> bool:
        """It warns of an assignment that is older than the latest entry."""
        return self.release.version.startswith("2.6")

    # -- the cache

    def assign(self, replica: Replica, cache: list[Entry], epoch: int, start: int) -> None:
        """LeaderEpochFileCache.assign."""
        if cache and (cache[-1][0] == epoch and start >= cache[-1][1]):
            return
        old = self.is_old
        if old and cache and (epoch < cache[-1][0] or start < cache[-1][1]):
            self.line(replica, "disorder", epoch, start)
        removed = []
        while cache and (cache[-1][0] >= epoch or cache[-1][1] >= start):
            removed.append(cache.pop())
        conflict = len(removed) > 1 or (bool(removed) and removed[0][1] != start)
        if old:
            cache.append((epoch, start))
        if conflict:
            self.line(replica, "conflict", epoch, start, len(cache))
        if not old:
            cache.append((epoch, start))
        if not old or not removed:
            self.line(replica, "appended", epoch, start, len(cache))

    def cut_end(self, replica: Replica, end: int) -> None:
        """LeaderEpochFileCache.truncateFromEnd."""
        kept = [entry for entry in replica.cache if entry[1] < end]
        if len(kept) < len(replica.cache):
            replica.cache = kept
            self.line(replica, "end cut", 0, end, len(kept))

    # -- what happens to a replica

    def begin_epoch(self) -> None:
        """The replica becomes the leader, or fetches the first record of a newer leader epoch."""
        replica = self.choices.choice(self.replicas)
        replica.epoch += self.choices.choice((1, 1, 2))
        if self._keeps_older(replica):
            return
        self.assign(replica, replica.cache, replica.epoch, replica.end)
        replica.end += self.choices.choice((0, 1, 5, 20))

    def _keeps_older(self, replica: Replica) -> bool:
        cache = replica.cache
        if not cache or cache[-1][1] < 2 or cache[-1][0] < 1 or not self.takes(KEPT):
            return False
        epoch, start = cache[-1]
        wrong = self.choices.choice(((epoch - 1, start + 3), (epoch + 1, start - 1), (epoch - 1, start - 1)))
        cache.append(wrong)
        self.line(replica, "appended", *wrong, len(cache))
        cache.sort()
        return True

    def produce(self) -> None:
        """Records are appended in the same epoch."""
        replica = self.choices.choice(self.replicas)
        replica.end += self.choices.choice((1, 5, 20))

    def truncate(self) -> None:
        """A follower truncates its log."""
        replica = self.choices.choice(self.replicas)
        replica.end = self.choices.randint(0, replica.end)
        self.line(replica, "truncated", offset=replica.end)
        self.cut_end(replica, replica.end)

    def lose_file(self) -> None:
        """The log ends earlier than the cache says, and the next epoch starts there. Before 2.7 that is warned of."""
        below = [one for one in self.replicas if one.cache and one.cache[-1][1] > 0]
        if not below or (self.is_old and not self.takes(WARNED)):
            return
        replica = self.choices.choice(below)
        replica.end = self.choices.randint(0, replica.cache[-1][1] - 1)
        replica.epoch += 1
        self.assign(replica, replica.cache, replica.epoch, replica.end)

    def delete_records(self) -> None:
        """The log begins later."""
        replica = self.choices.choice(self.replicas)
        start = self.choices.randint(0, replica.end)
        below = [entry for entry in replica.cache if entry[1] <= start]
        if below:
            replica.cache = [(below[-1][0], start), *(entry for entry in replica.cache if entry[1] > start)]
            self.line(replica, "start cut", below[-1][0], start, len(replica.cache))

    def empty(self) -> None:
        """A follower's offset was out of the leader's range: it truncates all, or goes on at its own log's end."""
        replica = self.choices.choice(self.replicas)
        if self.choices.random() < 0.3:
            self.line(replica, "reset to end", offset=replica.end)
            return
        start = replica.end + self.choices.choice((0, 7, 50))
        if self.at_debug:
            self.line(replica, "emptied", offset=start)
        replica.cache, replica.end = [], start
        self.line(replica, "reset to start", offset=start)
        self.assign(replica, replica.cache, replica.epoch, start)

    def build_from_remote_tier(self) -> None:
        """A follower clears its cache without a line of it, and assigns the entries of the remote log."""
        replica = self.choices.choice(self.replicas)
        if self.release.family != "kraft":
            return
        entries = [*replica.cache]
        if self.choices.random() < 0.5:
            self.line(replica, "segments deleted")
        replica.cache = []
        for entry in entries[: self.choices.randint(0, len(entries))]:
            self.assign(replica, replica.cache, *entry)
        replica.end = max(replica.end, replica.cache[-1][1] if replica.cache else 0)

    def delete(self) -> None:
        """The topic is deleted, and created anew."""
        replica = self.choices.choice(self.replicas)
        self.line(replica, "deleted")
        self.line(replica, "created")
        replica.cache, replica.end, replica.epoch, replica.future = [], 0, 0, None
        self.assign(replica, replica.cache, 0, 0)

    def move(self) -> None:
        """The replica moves to another log directory: its future replica has a cache of its own."""
        replica = self.choices.choice(self.replicas)
        if replica.future is None:
            self.line(replica, "future created")
            replica.future = []
        elif self.choices.random() < 0.2:
            self.line(replica, "deleted")
            replica.future = None
        elif replica.future != replica.cache:
            common = [own for own, other in zip(replica.future, replica.cache, strict=False) if own == other]
            replica.future = common
            for entry in replica.cache[len(common) :]:
                self.assign(replica, replica.future, *entry)
        else:
            self.line(replica, "future promoted")
            replica.future = None

    def restart(self) -> None:
        """The process starts again, and may have rebuilt the caches from the logs."""
        self.pass_time(4000, 9000)
        self._start()
        for replica in self.replicas:
            if self.choices.random() < 0.3:
                replica.cache = replica.cache[: self.choices.randint(0, len(replica.cache))]
                start = replica.cache[-1][1] if replica.cache else 0
                replica.end = self.choices.randint(start, max(start, replica.end))
            if self.tells_loading:
                self.line(replica, "loaded")

    def _start(self) -> None:
        self.history.events.append(
            ProcessStarts(self._next(), NODE, self.now, version=self.release.version, broker_epoch=7)
        )
        self.pass_time(1500, 2500)

    def copy_checkpoints(self) -> None:
        """The files of the caches are copied, at times one that is out of order."""
        for replica in self.replicas:
            cache = list(replica.cache)
            folder = f"{TOPIC}-{replica.number}" + self.choices.choice(("", "", f".{'0' * 31}3-delete"))
            if len(cache) > 1 and self.faulty and self.choices.random() < 0.3:
                self.choices.shuffle(cache)
                self.history.faults += [] if cache == replica.cache else [COPIED]
            for number, (epoch, start) in enumerate(cache):
                self.history.events.append(
                    CheckpointEntry(
                        self._next(), NODE, self.now, folder=folder, topic=TOPIC, partition=replica.number, epoch=epoch,
                        offset=start, number=number, count=len(cache),
                    )
                )  # fmt: skip

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the broker start, and take steps."""
        self.tells_loading = self.choices.random() < 0.5
        self.at_debug = self.choices.random() < 0.5
        self.replicas = [Replica(number) for number in range(2)]
        self._start()
        for replica in self.replicas:
            self.line(replica, "created")
            self.assign(replica, replica.cache, 0, 0)
        for _ in range(4 * steps):
            self.pass_time(100, 3000)
            if self.faulty and self.fault in (None, WARNED) and self.choices.random() < 0.2:
                self.fault = self.choices.choice((KEPT, WARNED))
            step = self.choices.choices(
                (
                    self.begin_epoch, self.produce, self.truncate, self.lose_file, self.delete_records, self.empty,
                    self.build_from_remote_tier, self.delete, self.move, self.restart,
                ),
                (40, 14, 8, 3, 5, 4, 4, 2, 12, 4),
            )[0]  # fmt: skip
            step()
        if self.choices.random() < 0.7:
            self.copy_checkpoints()
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of leader epoch caches. faulty: breaches are planted."""
    return EpochCaches(name, release, choices, faulty, now=BEGIN_MS).run(steps)
