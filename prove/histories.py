"""The history of a seed: which kind of cluster, which release, how many steps, and whether breaches are planted."""

from __future__ import annotations

from random import Random
from typing import Final

from prove import quorum_cluster, zookeeper_cluster
from prove.history import History, Release

SIMULATORS: Final = (zookeeper_cluster, quorum_cluster)
RELEASES: Final = {release.version + release.family: release for one in SIMULATORS for release in one.RELEASES}


def simulated(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of this release's kind of cluster."""
    simulator = quorum_cluster if release.family == "kraft" else zookeeper_cluster
    return simulator.simulate(name, release, choices, steps, faulty=faulty)


def history_of(seed: int, most_steps: int) -> History:
    """The history of a seed. Half of them have breaches."""
    choices = Random(seed)
    simulator = choices.choice(SIMULATORS)
    release = choices.choice(simulator.RELEASES)
    return simulated(
        f"history-{seed}", release, choices, choices.randint(3, most_steps), faulty=choices.random() < 0.5
    )
