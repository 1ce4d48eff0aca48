"""What the simulators have in common: a clock, a `Random` that decides, and the history so far."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from prove.history import History, Release

BEGIN_MS: Final = 1_770_000_000_000


@dataclass
class Simulation:
    """A history that is being made. choices decides all that is not determined. faulty: breaches may be planted. fault: the next one.

    now: in milliseconds. correlation: the last correlation id.
    """

    name: str
    release: Release
    choices: Random
    faulty: bool
    now: int = BEGIN_MS
    correlation: int = 0
    fault: str | None = None

    def __post_init__(self) -> None:
        """Begin the history."""
        self.history = History(self.name, self.release)

    def pass_time(self, low: int, high: int) -> None:
        """Let some milliseconds pass."""
        self.now += self.choices.randint(low, high)

    def takes(self, fault: str) -> bool:
        if self.fault != fault:
            return False
        self.fault = None
        self.history.faults.append(fault)
        return True

    def _next(self) -> int:
        return len(self.history.events)
