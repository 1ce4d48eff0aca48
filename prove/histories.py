"""The history of a seed: which kind of cluster, which release, how many steps, and whether breaches are planted."""

from __future__ import annotations

from random import Random
from typing import Final

from prove import (
    data_plane_cluster,
    fetch_sessions,
    group_members,
    log_directories,
    producers,
    raft_quorum,
    share_coordinators,
    zookeeper_data_plane,
    zookeeper_incidents,
    zookeeper_isr,
)
from prove.history import History, Release

KINDS: Final = (
    zookeeper_incidents.RELEASES,
    log_directories.RELEASES,
    data_plane_cluster.RELEASES,
    zookeeper_data_plane.RELEASES,
    raft_quorum.RELEASES,
    fetch_sessions.RELEASES,
    zookeeper_isr.RELEASES,
)
COORDINATORS: Final = (producers, group_members, share_coordinators)
EVERY: Final = 5
"""Of so many seeds one is a history of coordinators."""
RELEASES: Final = (
    {f"{release.version} {release.protocol}".strip(): release for release in zookeeper_incidents.RELEASES}
    | {f"KRaft {release.version}{' with ELR' * release.elr}": release for release in log_directories.RELEASES}
    | {f"data plane {release.version}": release for release in data_plane_cluster.RELEASES}
    | {f"fetch sessions {release.version}": release for release in fetch_sessions.RELEASES}
    | {f"ISR in ZooKeeper {release.version}": release for release in zookeeper_isr.RELEASES}
    | {f"quorum {release.version}": release for release in raft_quorum.RELEASES}
    | {f"ZooKeeper data plane {release.version}": release for release in zookeeper_data_plane.RELEASES}
    | {f"{release.coordinates} {release.version}": release for module in COORDINATORS for release in module.RELEASES}
)
"""Name -> release, of all kinds of clusters."""


def simulated(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of this release's kind of cluster."""
    for module in COORDINATORS:
        if release in module.RELEASES:
            history: History = module.simulate(name, release, choices, steps, faulty=faulty)
            return history
    if release.raft:
        return raft_quorum.simulate(name, release, choices, steps, faulty=faulty)
    if release.writes_isr:
        return zookeeper_isr.simulate(name, release, choices, steps, faulty=faulty)
    if release.sessions:
        return fetch_sessions.simulate(name, release, choices, steps, faulty=faulty)
    if release.replicates and release.family != "kraft":
        return zookeeper_data_plane.simulate(name, release, choices, steps, faulty=faulty)
    if release.replicates:
        return data_plane_cluster.simulate(name, release, choices, steps, faulty=faulty)
    if release.family == "kraft":
        return log_directories.simulate(name, release, choices, steps, faulty=faulty)
    return zookeeper_incidents.simulate(name, release, choices, steps, faulty=faulty)


def history_of(seed: int, most_steps: int) -> History:
    """The history of a seed. Half of them have breaches."""
    choices = Random(seed)
    kinds = KINDS if seed % EVERY else [module.RELEASES for module in COORDINATORS]
    release = choices.choice(choices.choice(kinds))
    steps = choices.randint(3, most_steps)
    return simulated(f"history-{seed}", release, choices, steps, faulty=choices.random() < 0.5)
