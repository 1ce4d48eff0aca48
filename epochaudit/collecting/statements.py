"""capture.toml of a collected capture: nodes, versions and zone, which are certain only from the hosts' own folders."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from epochaudit.settings import UsageError
from epochaudit.sources.clock.log_time import LogClock
from epochaudit.sources.discovery.discovery import FoundFile
from epochaudit.sources.discovery.identity import nodes_of
from epochaudit.sources.discovery.manifest import FILE, Manifest, StatedNode, read_manifest
from epochaudit.sources.formats import BY_KIND, MANIFEST

T = TypeVar("T")

_VERSION: Final = re.compile(rb"Kafka version ?: ?(\d+\.\d+\.\d+)")
_LAST_BYTES: Final = 1 << 16
_WRITTEN_WITHIN_SECONDS: Final = 60  # of the last line's printed time to the file's modification time
_LINKED_FROM: Final = "zoneinfo/"


@dataclass(frozen=True)
class CollectedFile:
    """A collected file.

    file: with its path in the capture. label: folder of the command's PATH in the capture. versions: Kafka versions in
    its lines. releases: Kafka releases whose jars lie below PATH. mtime: seconds since the Unix epoch.
    """

    file: FoundFile
    label: str
    kind: str
    versions: set[str]
    releases: frozenset[str]
    mtime: float

    @property
    def path(self) -> str:
        """Its path in the capture."""
        return self.file.stored.path

    @property
    def has_node(self) -> bool:
        """A node wrote it; metadata logs and client logs have none."""
        return BY_KIND[self.kind].has_node


def versions_in(pieces: Iterable[bytes], versions: set[str]) -> Iterator[bytes]:
    """Passes the pieces on and adds the Kafka versions in them to `versions`."""
    for piece in pieces:
        if b"Kafka version" in piece:
            versions.update(version.decode() for version in _VERSION.findall(piece))
        yield piece


def manifest(
    found: Sequence[CollectedFile], time_zone: str | None
) -> tuple[str, dict[int, list[str]], list[str], str | None]:
    """(text of capture.toml, node id -> folders, files of unknown nodes, time zone).

    The text is empty if there is nothing to state.
    """
    stated = _stated_manifest(found)
    cluster = stated.cluster or _cluster(found)
    zone = time_zone or stated.time_zone or (None if any(node.time_zone for node in stated.nodes) else _zone(found))
    nodes = nodes_of({collected.path: (collected.file.kind, collected.file.node_hints) for collected in found})
    nodes |= {
        collected.path: stated_node.id
        for collected in found
        if (stated_node := stated.of(collected.path)) and collected.has_node
    }
    folders = {folder: node for folder, node in _folders(found, nodes).items() if not _is_stated(stated, folder)}
    by_node: dict[int, list[str]] = defaultdict(list)
    for folder, node in folders.items():
        by_node[node].append(folder)
    lines = [*_top(cluster, zone, stated), *(line for table in stated.nodes for line in _table(table, ()))]
    for folder, node in sorted(folders.items(), key=lambda item: (item[1], item[0])):
        versions_in_logs = sorted(
            {v for collected in found if nodes.get(collected.path) == node for v in collected.versions}
        )
        release = None if versions_in_logs else _release(found, nodes, node)
        lines += _table(StatedNode(node, folder, (), release, None, None), versions_in_logs)
    for owner in stated.nodes:
        by_node[owner.id].append(owner.path or "")
    unknown = sorted(collected.path for collected in found if collected.has_node and collected.path not in nodes)
    return "\n".join(lines), dict(sorted(by_node.items())), unknown, zone


def _stated_manifest(found: Iterable[CollectedFile]) -> Manifest:
    """The capture.toml files of the paths, merged."""
    read = [
        (t.label, read_manifest(t.file.beginning)) for t in found if t.kind == MANIFEST and t.path == t.label + FILE
    ]
    if len(read) < 2 and all(not label for label, _ in read):
        return read[0][1] if read else Manifest()
    nodes = tuple(
        StatedNode(
            node.id,
            None if node.path is None else f"{label}{node.path}",
            node.roles,
            node.kafka,
            node.time_zone or path_manifest.time_zone,
            node.pattern or path_manifest.pattern,
        )
        for label, path_manifest in read
        for node in path_manifest.nodes
    )
    return Manifest(
        _single_value({path_manifest.cluster for _, path_manifest in read}, "cluster"),
        _single_value({path_manifest.time_zone for _, path_manifest in read}, "time_zone"),
        nodes,
        _single_value({path_manifest.pattern for _, path_manifest in read}, "pattern"),
        _single_value({path_manifest.metadata_version for _, path_manifest in read}, "metadata_version"),
        _single_value({path_manifest.request_log for _, path_manifest in read}, "request_log"),
    )


def _single_value(values: set[T | None], key: str) -> T | None:
    stated = values - {None}
    if len(stated) > 1:
        listed = ", ".join(sorted(map(str, stated)))
        raise UsageError(f"the paths' {FILE} state several values of {key} ({listed}); collect each path by itself")
    return stated.pop() if stated else None


def _cluster(found: Iterable[CollectedFile]) -> str | None:
    clusters = sorted({collected.file.cluster_id for collected in found if collected.file.cluster_id})
    if len(clusters) > 1:
        raise UsageError(
            f"the paths hold files of {len(clusters)} clusters ({', '.join(clusters)}); collect each by itself"
        )
    return clusters[0] if clusters else None


def _folders(found: Sequence[CollectedFile], nodes: Mapping[str, int]) -> dict[str, int]:
    """folder -> node, for the topmost folders whose node-written files all belong to one known node."""
    below: dict[PurePosixPath, set[int | None]] = defaultdict(set)
    for collected in found:
        if collected.has_node:
            for folder in PurePosixPath(collected.path).parents:
                below[folder].add(nodes.get(collected.path))
    owned = {
        folder: next(iter(nodes_below))
        for folder, nodes_below in below.items()
        if len(nodes_below) == 1 and None not in nodes_below
    }
    return {
        str(folder): node
        for folder, node in owned.items()
        if node is not None and (folder == folder.parent or folder.parent not in owned)
    }


def _is_stated(stated: Manifest, folder: str) -> bool:
    return stated.of(f"{folder}/_") is not None


def _release(found: Iterable[CollectedFile], nodes: Mapping[str, int], node: int) -> str | None:
    """The release of the only Kafka jar below the PATH of a node's files, if no other node has files there."""
    for collected in found:
        if nodes.get(collected.path) == node and len(collected.releases) == 1:
            nodes_there = {
                nodes.get(neighbour.path)
                for neighbour in found
                if neighbour.label == collected.label and neighbour.has_node
            }
            if nodes_there == {node}:
                return next(iter(collected.releases))
    return None


def _top(cluster: str | None, zone: str | None, stated: Manifest) -> Iterator[str]:
    keys = {
        "cluster": cluster,
        "time_zone": zone,
        "pattern": stated.pattern,
        "metadata_version": stated.metadata_version,
        "request_log": stated.request_log,
    }
    yield from (f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None)
    yield ""


def _table(node: StatedNode, versions: Sequence[str]) -> Iterator[str]:
    yield "[[nodes]]"
    keys = {
        "id": node.id,
        "path": node.path,
        "roles": list(node.roles) or None,
        "kafka": node.kafka,
        "time_zone": node.time_zone,
        "pattern": node.pattern,
    }
    yield from (f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None)
    if versions:
        yield f"# kafka: its logs state {', '.join(versions)}"
    yield ""


def _zone(found: Sequence[CollectedFile]) -> str | None:
    """This machine's zone, or UTC, if the last lines of all logs, read in it, agree with the files' modification times."""
    written = [moment for collected in found if (moment := _last_written(collected)) is not None]
    for name in (_own_zone(), "UTC"):
        if name and written and all(_agrees(ZoneInfo(name), *moment) for moment in written):
            return name
    return None


def _agrees(zone: ZoneInfo, printed: float, mtime: float) -> bool:
    offset = datetime.fromtimestamp(mtime, zone).utcoffset()
    return offset is not None and abs(printed - offset.total_seconds() - mtime) < _WRITTEN_WITHIN_SECONDS


def _last_written(collected: CollectedFile) -> tuple[float, float] | None:
    """A log's last printed time, read as UTC, and the file's modification time, both in seconds."""
    file = collected.file
    dated = BY_KIND[collected.kind].has_layout and collected.has_node
    if not dated or file.zoned or file.compression or file.stored.tar_compression:
        return None
    if file.stored.tar_offset is not None or file.layout.envelope is not None or file.layout.pattern is not None:
        return None
    with suppress(OSError), open(file.stored.uri, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _LAST_BYTES))
        read = LogClock().read
        times = [time for line in stream.read().split(b"\n") if (time := read(line)) is not None]
        if times:
            return times[-1] / 1000, collected.mtime
    return None


def _own_zone() -> str | None:
    """The IANA name of this machine's zone; None if not known."""
    zone_name = (
        os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").rpartition(_LINKED_FROM)[2]
    )
    try:
        ZoneInfo(zone_name)
    except (KeyError, ValueError, OSError):
        return None
    return zone_name or None
