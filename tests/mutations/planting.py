"""What a mutation is, and the list of all."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import tests.mutations as mutations_package
from tests.mutations.editing import Copy


@dataclass(frozen=True)
class Place:
    """Where a finding has to be: the fields given have to be equal, and an evidence line has to contain `evidence`."""

    node: int | None = None
    topic: str | None = None
    partition: int | None = None
    leader_epoch: int | None = None
    correlation_id: int | None = None
    client: str | None = None
    group: str | None = None
    evidence: str | None = None


@dataclass(frozen=True)
class Mutation:
    """An operator: plants the defect that `rule` is about in a copy of `capture` and returns where it then is.

    verdict: the rule's expected verdict. also: other rules that cannot but find it, too; the docstring states why.
    fetches: the copy keeps the Fetch requests, most of a request log; false where they are no part of the defect.
    """

    rule: str
    capture: str
    verdict: str
    also: tuple[str, ...]
    fetches: bool
    plant: Callable[[Copy], Place]

    @property
    def name(self) -> str:
        """The operator's name, which is also that of the copy's cluster."""
        return self.plant.__name__

    @property
    def summary(self) -> str:
        """First line of the docstring: what is planted."""
        return inspect.cleandoc(self.plant.__doc__ or "").splitlines()[0]


_PLANTED: list[Mutation] = []


def mutation(
    rule: str, capture: str, *, verdict: str = "violation", also: tuple[str, ...] = (), fetches: bool = True
) -> Callable[[Callable[[Copy], Place]], Callable[[Copy], Place]]:
    """Make a function a mutation of the list."""

    def declare(plant: Callable[[Copy], Place]) -> Callable[[Copy], Place]:
        _PLANTED.append(Mutation(rule, capture, verdict, also, fetches, plant))
        return plant

    return declare


@cache
def mutations() -> tuple[Mutation, ...]:
    """All mutations, by rule and name."""
    for module in pkgutil.iter_modules(mutations_package.__path__):
        if module.name != "__main__":
            importlib.import_module(f"{mutations_package.__name__}.{module.name}")
    return tuple(sorted(_PLANTED, key=lambda planted: (planted.rule, planted.name)))
