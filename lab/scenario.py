"""A scenario: what happens to a cluster, and what a report of it must say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.releases import KRAFT, KRAFT_FROM, OLDEST, ZOOKEEPER, Release

Run = Callable[[Cluster], Expected]
BOTH = (KRAFT, ZOOKEEPER)


@dataclass(frozen=True)
class Scenario:
    """A function of lab/scenarios, with its docstring as description.

    topics: what is read back at the end. modes, since, kraft_since: where it can run, from which release on, and from which with KRaft.
    layouts: the nodes, where a mode needs others than usual. settings: see `NodeSettings.of_scenario`. test_jars: artifacts of
    Kafka whose classes for tests the nodes need, too. upgrades: it needs a newer release.
    """

    name: str
    run: Run
    topics: tuple[str, ...]
    modes: tuple[str, ...] = BOTH
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    since: tuple[int, int] = OLDEST
    kraft_since: tuple[int, int] = KRAFT_FROM
    settings: Mapping[str, object] = field(default_factory=dict)
    test_jars: tuple[str, ...] = ()
    upgrades: bool = False

    @property
    def description(self) -> str:
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def title(self) -> str:
        return self.description.splitlines()[0]

    def layout(self, mode: str) -> Layout:
        return self.layouts.get(mode, Layout())

    def can_run(self, release: Release, mode: str) -> bool:
        since = max(self.since, self.kraft_since) if mode == KRAFT else self.since
        return mode in self.modes and mode in release.modes and release.number >= since


def scenario(
    *topics: str,
    modes: tuple[str, ...] = BOTH,
    layouts: Mapping[str, Layout] | None = None,
    since: tuple[int, int] = OLDEST,
    kraft_since: tuple[int, int] = KRAFT_FROM,
    settings: Mapping[str, object] | None = None,
    test_jars: tuple[str, ...] = (),
    upgrades: bool = False,
) -> Callable[[Run], Scenario]:
    """Make a function the scenario of its name."""

    def made(run: Run) -> Scenario:
        name = run.__name__.replace("_", "-")
        return Scenario(
            name, run, topics, modes, layouts or {}, since, kraft_since, settings or {}, test_jars, upgrades
        )

    return made
