"""The history of a seed: which kind of cluster, which release, how many steps, and whether breaches are planted."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Final

from prove.history import (
    CONTROLLER_QUORUM,
    EPOCH_CACHES,
    FETCH_SESSIONS,
    GROUP_MEMBERS,
    ISR_AT_ZOOKEEPER_CONTROLLER,
    ISR_IN_ZOOKEEPER,
    KRAFT,
    KRAFT_DATA_PLANE,
    LOGS_ON_DISK,
    PRODUCERS,
    RECREATED_TOPICS,
    REPLICA_LOGS,
    SHARE_GROUPS,
    STRAY_REPLICAS,
    TIERED_TOPICS,
    ZOOKEEPER,
    ZOOKEEPER_DATA_PLANE,
    History,
    Release,
)
from prove.simulators import (
    data_plane_cluster,
    epoch_caches,
    fetch_sessions,
    group_members,
    log_directories,
    logs_on_disk,
    producers,
    raft_quorum,
    recreated_topics,
    replica_logs,
    share_coordinators,
    stray_replicas,
    tiered_topics,
    zookeeper_controller,
    zookeeper_data_plane,
    zookeeper_incidents,
    zookeeper_isr,
)

KINDS: Final[tuple[str, ...]] = (
    ZOOKEEPER, KRAFT, KRAFT_DATA_PLANE, ZOOKEEPER_DATA_PLANE, CONTROLLER_QUORUM, FETCH_SESSIONS, ISR_IN_ZOOKEEPER,
)  # fmt: skip
COORDINATORS: Final = (PRODUCERS, GROUP_MEMBERS, SHARE_GROUPS)
EVERY: Final = 5
"""Of so many seeds one is a history of coordinators."""
SMALL: Final = (
    ISR_AT_ZOOKEEPER_CONTROLLER,
    RECREATED_TOPICS,
    EPOCH_CACHES,
    STRAY_REPLICAS,
    LOGS_ON_DISK,
    REPLICA_LOGS,
    TIERED_TOPICS,
)
EVERY_SMALL: Final = 7
"""Of so many of the other seeds one is a history of a small part of a cluster."""
SIMULATORS: Final[dict[str, ModuleType]] = {
    ZOOKEEPER: zookeeper_incidents,
    ZOOKEEPER_DATA_PLANE: zookeeper_data_plane,
    ISR_IN_ZOOKEEPER: zookeeper_isr,
    ISR_AT_ZOOKEEPER_CONTROLLER: zookeeper_controller,
    KRAFT: log_directories,
    KRAFT_DATA_PLANE: data_plane_cluster,
    CONTROLLER_QUORUM: raft_quorum,
    FETCH_SESSIONS: fetch_sessions,
    EPOCH_CACHES: epoch_caches,
    LOGS_ON_DISK: logs_on_disk,
    REPLICA_LOGS: replica_logs,
    TIERED_TOPICS: tiered_topics,
    STRAY_REPLICAS: stray_replicas,
    RECREATED_TOPICS: recreated_topics,
    PRODUCERS: producers,
    GROUP_MEMBERS: group_members,
    SHARE_GROUPS: share_coordinators,
}
"""Kind of history -> the module whose `RELEASES` have it and whose `simulate` makes it."""
RELEASES: Final[dict[str, Release]] = {
    f"{kind} {release.version} {release.protocol}".strip() + " with ELR" * release.elr: release
    for kind, module in SIMULATORS.items()
    for release in module.RELEASES
}
"""Name -> release, of all kinds of histories."""


def simulated(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of the release's kind."""
    history: History = SIMULATORS[release.kind].simulate(name, release, choices, steps, faulty=faulty)
    return history


def history_of(seed: int, most_steps: int, *, kind: str | None = None, faulty: bool | None = None) -> History:
    """The history of a seed. kind: by default the seed chooses. faulty: it may have breaches; by default half of them may."""
    choices = Random(seed)
    others = KINDS if seed % EVERY_SMALL else SMALL
    kind = kind or choices.choice(others if seed % EVERY else COORDINATORS)
    release = choices.choice(SIMULATORS[kind].RELEASES)
    steps = choices.randint(3, most_steps)
    return simulated(
        f"history-{seed}", release, choices, steps, faulty=choices.random() < 0.5 if faulty is None else faulty
    )
