"""capture.toml: statements of the capture's author, which take precedence over all that is detected.

cluster = "payments"
time_zone = "Europe/Berlin"      # of all nodes that do not name their own
pattern = "%d %p %c: %m%n"       # log4j conversion pattern of the logs, or "json"; detected if not stated
metadata_version = 25            # level of metadata.version, where no metadata log tells it
request_log = "light"            # routine answers were filtered on purpose, and the lines do not show it

[[nodes]]
id = 1
path = "broker-1"                # folder of its files, or a single file
roles = ["broker"]
kafka = "3.9.1"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from zoneinfo import ZoneInfo

from epochaudit.kafka.field_values import ROLES
from epochaudit.sources.files.capture import CaptureError
from epochaudit.sources.lines.conversion_pattern import ConversionPattern, PatternError
from epochaudit.sources.lines.layouts import JSON

FILE: Final = "capture.toml"
LIGHT: Final = "light"
_TOP: Final = {
    "cluster": str,
    "time_zone": str,
    "pattern": str,
    "metadata_version": int,
    "request_log": str,
    "nodes": list,
}
_NODE: Final = {"id": int, "path": str, "roles": list, "kafka": str, "time_zone": str, "pattern": str}


@dataclass(frozen=True)
class StatedNode:
    """One `[[nodes]]` table."""

    id: int
    path: str | None
    roles: tuple[str, ...]
    kafka: str | None
    time_zone: str | None
    pattern: str | None


@dataclass(frozen=True)
class Manifest:
    """The statements of capture.toml; all empty if there is none."""

    cluster: str | None = None
    time_zone: str | None = None
    nodes: tuple[StatedNode, ...] = ()
    pattern: str | None = None
    metadata_version: int | None = None
    request_log: str | None = None

    def of(self, path: str) -> StatedNode | None:
        """The node that a file belongs to: the one with the longest path that contains it; None if no path does."""
        parts = PurePosixPath(path).parts
        owners = [
            (len(stated), node)
            for node in self.nodes
            if node.path is not None and parts[: len(stated := PurePosixPath(node.path).parts)] == stated
        ]
        return max(owners, key=lambda owner: owner[0])[1] if owners else None

    def patterns(self) -> bool:
        """At least one pattern is stated."""
        return self.pattern is not None or any(node.pattern for node in self.nodes)

    def pattern_of(self, path: str) -> str | None:
        """The stated pattern of a file's lines; None if none is stated."""
        node = self.of(path)
        return (node.pattern if node else None) or self.pattern


def read_manifest(text: bytes) -> Manifest:
    """Parses a capture.toml. Raises CaptureError, which names the wrong key and what is expected."""
    try:
        stated = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CaptureError(f"{FILE} is not valid TOML: {error}") from error
    _checked(stated, _TOP, FILE)
    nodes = tuple(_node(table, number) for number, table in enumerate(stated.get("nodes", []), 1))
    paths = [node.path for node in nodes if node.path is not None]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise CaptureError(f"{FILE} gives the path {twice!r} to two nodes; give each node its own")
    if stated.get("request_log") not in (None, LIGHT):
        raise CaptureError(f'{FILE}: request_log can only be "{LIGHT}", found {stated["request_log"]!r}; leave it out')
    return Manifest(
        stated.get("cluster"),
        stated.get("time_zone"),
        nodes,
        stated.get("pattern"),
        stated.get("metadata_version"),
        stated.get("request_log"),
    )


def _node(table: Any, number: int) -> StatedNode:
    where = f"{FILE}, node {number}"
    if not isinstance(table, dict):
        raise CaptureError(f"{where}: expected a [[nodes]] table, found {table!r}")
    _checked(table, _NODE, where)
    if "id" not in table:
        raise CaptureError(f"{where}: `id` is missing; it is the broker.id or node.id")
    roles = tuple(table.get("roles", ()))
    if unknown := [role for role in roles if role not in ROLES]:
        raise CaptureError(f"{where}: role {unknown[0]!r} is unknown; roles are {' and '.join(ROLES)}")
    return StatedNode(
        table["id"], table.get("path"), roles, table.get("kafka"), table.get("time_zone"), table.get("pattern")
    )


def _checked(table: dict[str, Any], keys: Mapping[str, type], where: str) -> None:
    for key, value in table.items():
        if key not in keys:
            raise CaptureError(f"{where}: unknown key {key!r}; known are {', '.join(keys)}")
        if not isinstance(value, keys[key]) or isinstance(value, bool):
            raise CaptureError(f"{where}: {key!r} has to be of type {keys[key].__name__}, found {value!r}")
    if (pattern := table.get("pattern")) not in (None, JSON):
        try:
            ConversionPattern(pattern)
        except PatternError as error:
            raise CaptureError(f"{where}: {error}") from error
    if zone := table.get("time_zone"):
        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError) as error:
            raise CaptureError(f"{where}: time zone {zone!r} is unknown; use a name such as Europe/Berlin") from error
