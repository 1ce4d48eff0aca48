"""capture.toml: statements of the capture's author, which take precedence over all that is detected.

cluster = "payments"
time_zone = "Europe/Berlin"      # of all nodes that do not name their own
pattern = "%d %p %c: %m%n"       # log4j conversion pattern of the logs, or "json"; detected if not stated
metadata_version = 25            # level of metadata.version, where no metadata log states it
request_log = "light"            # routine answers were filtered on purpose, and the lines do not show it

[[nodes]]
id = 1
path = "broker-1"                # folder of its files, or a single file
roles = ["broker"]
kafka = "3.9.1"
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct

from epochaudit import toml
from epochaudit.kafka.field_values import Role
from epochaudit.sources.files.capture import CaptureError
from epochaudit.sources.lines.conversion_pattern import ConversionPattern, PatternError
from epochaudit.sources.lines.layouts import JSON

FILE: Final = "capture.toml"
LIGHT: Final = "light"

NodeId = Annotated[int, Meta(description="an integer, the broker.id or node.id")]


class StatedNode(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[nodes]]` table."""

    id: NodeId
    path: str | None = None
    roles: tuple[Role, ...] = ()
    kafka: str | None = None
    time_zone: str | None = None
    pattern: str | None = None


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The statements of capture.toml; all empty if there is none."""

    cluster: str | None = None
    time_zone: str | None = None
    nodes: tuple[StatedNode, ...] = ()
    pattern: str | None = None
    metadata_version: int | None = None
    request_log: Literal["light"] | None = None

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
    manifest = toml.parsed(text, FILE, Manifest, CaptureError)
    _check(FILE, manifest)
    for number, node in enumerate(manifest.nodes, 1):
        _check(f"{FILE}, [[nodes]] {number}", node)
    paths = [node.path for node in manifest.nodes if node.path is not None]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise CaptureError(f"{FILE} gives the path {twice!r} to two nodes; give each node its own")
    return manifest


def _check(where: str, stated: Manifest | StatedNode) -> None:
    """Raises CaptureError for a pattern or a time zone that can't be used."""
    if stated.pattern not in (None, JSON):
        try:
            ConversionPattern(stated.pattern)
        except PatternError as error:
            raise CaptureError(f"{where}: {error}") from error
    if stated.time_zone:
        try:
            ZoneInfo(stated.time_zone)
        except (KeyError, ValueError, OSError) as error:
            raise CaptureError(
                f"{where}: time zone {stated.time_zone!r} is unknown; use a name such as Europe/Berlin"
            ) from error
