"""Simulated folders of replicas, with their segments and leader-epoch-checkpoint, as a copy of a running broker has them.

They follow LeaderEpochFileCache and UnifiedLog: an epoch is in the checkpoint before its first batch is in the log. A copy takes one file
after the other: meanwhile an epoch begins, or the log is truncated. The beginning of a log is removed from the checkpoint first.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from prove.history import LOGS_ON_DISK, BatchRun, CheckpointEntry, History, ProcessStarts, Release
from prove.simulators.simulation import BEGIN_MS, Simulation

TOPIC: Final = "orders"
RELEASES: Final = (Release(LOGS_ON_DISK, "3.9.1", "kraft"),)
FALLS: Final = "older epoch behind a newer one"
MISSING: Final = "epoch missing from the checkpoint"
LATE: Final = "epoch begins late in the checkpoint"
FAULTS: Final = (FALLS, MISSING, LATE)
Run = tuple[int, int, int]
"""(leader epoch, first offset, last offset)."""


@dataclass
class LogsOnDisk(Simulation):
    """The copies so far."""

    def _runs(self, steps: int) -> list[Run]:
        runs, offset, epoch = [], self.choices.choice((0, 0, 40)), self.choices.randint(0, 3)
        for _ in range(self.choices.randint(1, steps)):
            last = offset + self.choices.choice((0, 3, 9, 30))
            runs.append((epoch, offset, last))
            offset, epoch = last + 1, epoch + self.choices.choice((1, 1, 2))
        risen = [number for number in range(1, len(runs)) if runs[number - 1][0] > 0]
        if risen and self.takes(FALLS):
            number = self.choices.choice(risen)
            runs[number] = (runs[number - 1][0] - 1, *runs[number][1:])
        return runs

    def copy(self, node: int, number: int, steps: int) -> None:
        """Copy the folder of a replica."""
        runs = self._runs(steps)
        entries: list[tuple[int, int]] = []
        for epoch, base, _ in runs:
            if not entries or epoch > entries[-1][0]:
                entries.append((epoch, base))
        end = runs[-1][2] + 1
        incident = self.choices.choices(("", "starts later", "copied before", "copied after", "none"), (8, 3, 2, 2, 1))[
            0
        ]
        if incident == "starts later":
            start = self.choices.randint(runs[0][1], end)
            below = [entry for entry in entries if entry[1] <= start]
            entries = [(below[-1][0], start), *(entry for entry in entries if entry[1] > start)]
        elif incident == "copied before" and len(entries) > 1:
            entries = entries[: self.choices.randint(1, len(entries) - 1)]
        elif incident == "copied after":  # the log was truncated, and another epoch began
            cut = self.choices.randint(runs[0][1], end)
            entries = [entry for entry in entries if entry[1] < cut] + [(runs[-1][0] + 1, cut)]
        elif incident == "none":
            entries = []
        if len(entries) > 2 and incident == "" and self.takes(MISSING):
            del entries[self.choices.randrange(1, len(entries) - 1)]
        elif len(entries) > 1 and incident == "" and self.takes(LATE):
            entries[-1] = (entries[-1][0], entries[-1][1] + 1)
        self._write(node, number, runs, entries)

    def _write(self, node: int, number: int, runs: list[Run], entries: list[tuple[int, int]]) -> None:
        folder, segment = f"{TOPIC}-{number}", runs[0][1]
        for epoch, base, last in runs:
            if base > segment and self.choices.random() < 0.3:
                segment = base
            self.history.events.append(
                BatchRun(
                    self._next(), node, self.now, folder=folder, topic=TOPIC, partition=number, segment=segment, epoch=epoch,
                    base=base, last=last,
                )
            )  # fmt: skip
        for place, (epoch, start) in enumerate(entries):
            self.history.events.append(
                CheckpointEntry(
                    self._next(), node, self.now, folder=folder, topic=TOPIC, partition=number, epoch=epoch, offset=start,
                    number=place, count=len(entries),
                )
            )  # fmt: skip

    def run(self, steps: int) -> History:
        """Copy the folders of three brokers."""
        for node in (1, 2, 3):
            self.history.events.append(
                ProcessStarts(self._next(), node, self.now, version=self.release.version, broker_epoch=7)
            )
            self.pass_time(1500, 2500)
            for number in range(self.choices.choice((1, 2, 3))):
                if self.faulty and self.fault is None and self.choices.random() < 0.5:
                    self.fault = self.choices.choice(FAULTS)
                self.copy(node, number, steps)
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of logs on disk. faulty: breaches are planted."""
    return LogsOnDisk(name, release, choices, faulty, now=BEGIN_MS).run(steps)
