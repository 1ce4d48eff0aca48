"""A migration from ZooKeeper to KRaft in words: from when to when, and what each node was meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.findings.evidence import iso_time
from epochaudit.inventory.inventory import Inventory, Migration

_MODES: Final = {
    "zookeeper": "ZooKeeper broker",
    "zookeeper_in_migration": "ZooKeeper broker in migration",
    "kraft": "KRaft broker",
    "kraft_controller": "KRaft controller",
}
_DUAL_WRITE: Final = "dual-write"
_KRAFT: Final = "KRaft"


def migration_lines(inventory: Inventory) -> Iterable[str]:
    """A line for each migration, and one for each of its nodes. Times are those of each host's log, records' in UTC."""
    for migration in inventory.migrations:
        of_cluster = f" of {migration.cluster}" if len(inventory.clusters) > 1 else ""
        yield f"migration from ZooKeeper to KRaft{of_cluster}: {_course(migration)}"
        for node in sorted({mode.node for mode in migration.modes}):
            run = ", then a ".join(
                _MODES[mode.mode]
                + (f" from {_second(mode.since_ms, zoned=False)}" if mode.since_ms is not None else "")
                for mode in migration.modes
                if mode.node == node
            )
            yield f"node {node}{of_cluster} was a {run}"


def _course(migration: Migration) -> str:
    if not migration.states:
        return "its course is not in the evidence (metadata log)"
    at = {state: _second(since, zoned=True) for state, since in migration.states}
    course = ", ".join(f"{state} from {since}" for state, since in at.items())
    if _KRAFT in at:
        return course
    return f"{course}; its end is not in the evidence" if _DUAL_WRITE in at else f"{course}; it did not begin"


def _second(time_ms: int | None, *, zoned: bool) -> str:
    return (iso_time(time_ms, zoned=zoned) or "an unknown time").replace("T", " ").partition(".")[0] + (
        " UTC" if zoned else ""
    )
