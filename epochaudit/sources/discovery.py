"""Finds a capture's files and tells what each is, who wrote it and when: by content, with capture.toml outranking."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from epochaudit.sources.capture import Capture, CaptureError, Node, RecordedFile
from epochaudit.sources.formats import BY_KIND, EMPTY, FORMATS, HEAD, NODE_LOGS, UNKNOWN, recognised
from epochaudit.sources.identity import Words, nodes_of, words
from epochaudit.sources.layouts import STOCK, Layout, layout_of, plain
from epochaudit.sources.log_time import LogClock
from epochaudit.sources.manifest import FILE, Manifest, read_manifest
from epochaudit.sources.opening import DAMAGED, Damaged, Stored, compression_of, listing, open_stored, pieces

_CLUSTER_ID: Final = re.compile(rb"^\s*cluster\.id\s*=\s*(\S+)\s*$", re.MULTILINE)
_LATEST: Final = 1 << 62


@dataclass(frozen=True)
class _Found:
    stored: Stored
    kind: str
    compression: str | None
    said: Words
    first_time_ms: int
    cluster_id: str | None
    layout: Layout
    zoned: bool


def discover(path: str) -> Capture:
    """The capture in a directory, a local path or a URI. Reads the first 64 KiB of each file.

    Raises CaptureError when the path is no directory, holds no known kind of file, files of two clusters, or a
    capture.toml that is wrong.
    """
    stored = _listed(path)
    manifest = _manifest(stored)
    found = [_inspected(file, manifest.pattern_of(file.path)) for file in stored if file.path != FILE]
    if not any(BY_KIND[file.kind].is_read and file.kind != EMPTY for file in found):
        raise CaptureError(_nothing_known(path, found))
    cluster = manifest.cluster or _cluster_id(path, found) or _directory_name(path)
    nodes = nodes_of({file.stored.path: (file.kind, file.said) for file in found})
    recorded = [_recorded(file, cluster, manifest, nodes.get(file.stored.path)) for file in found]
    ordered = _ordered(recorded, {file.stored.path: file.first_time_ms for file in found})
    return Capture(path, cluster, ordered, _nodes(found, ordered, manifest))


def _listed(path: str) -> list[Stored]:
    try:
        stored = listing(path)
    except FileNotFoundError:
        raise CaptureError(f"{path}: no such directory") from None
    except NotADirectoryError:
        raise CaptureError(f"{path} is a file; a capture is the directory that holds a cluster's logs") from None
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} can't be listed: {error}") from error
    if not stored:
        raise CaptureError(f"{path} is empty; expected a cluster's logs, such as kafka-request.log of each broker")
    return stored


def _manifest(stored: Sequence[Stored]) -> Manifest:
    for file in stored:
        if file.path == FILE:
            return read_manifest(_read(file, 1 << 20))
    return Manifest()


def _read(file: Stored, size: int) -> bytes:
    try:
        with open_stored(file.uri) as stream:
            return bytes(stream.read(size))
    except (OSError, ValueError) as error:
        raise CaptureError(f"{file.path} can't be read: {error}") from error


def _inspected(file: Stored, pattern: str | None) -> _Found:
    head = _read(file, HEAD)
    compression = compression_of(head)
    if compression:
        head = _plain_head(file, compression)
    layout = layout_of(head, pattern)
    head, zoned = plain(head, layout)
    kind = recognised(head)
    if kind == EMPTY and compression:
        kind = UNKNOWN  # nothing of it could be decompressed
    cluster_id = _CLUSTER_ID.search(head) if kind == "meta-properties" else None
    return _Found(
        file,
        kind,
        compression,
        words(kind, head),
        _first_time(head),
        cluster_id[1].decode(errors="replace") if cluster_id else None,
        layout if kind in NODE_LOGS or kind == "client-log" else STOCK,
        zoned,
    )


def _plain_head(file: Stored, compression: str) -> bytes:
    head = b""
    try:
        for piece in pieces(file.uri, compression, HEAD):
            head += piece
            if len(head) >= HEAD:
                break
    except (Damaged, *DAMAGED):
        pass  # what came before the defect is enough to recognise the file by
    return head[:HEAD]


def _first_time(head: bytes) -> int:
    read = LogClock().read
    return next((time for line in head.split(b"\n") if (time := read(line)) is not None), _LATEST)


def _nothing_known(path: str, found: Sequence[_Found]) -> str:
    kinds: dict[str, int] = defaultdict(int)
    for file in found:
        kinds[file.kind] += 1
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    expected = ", ".join(known.kind for known in FORMATS if known.is_read and known.kind != EMPTY)
    return f"{path} holds nothing that can be audited: found {listed} among {len(found)} files; expected {expected}"


def _cluster_id(path: str, found: Sequence[_Found]) -> str | None:
    clusters = sorted({file.cluster_id for file in found if file.cluster_id})
    if len(clusters) > 1:
        raise CaptureError(
            f"{path} holds files of {len(clusters)} clusters ({', '.join(clusters)}); audit each cluster's directory, "
            f"or name the one cluster in {FILE}"
        )
    return clusters[0] if clusters else None


def _directory_name(path: str) -> str:
    return os.path.basename((path if "://" in path else os.path.abspath(path)).rstrip("/")) or "capture"


def _recorded(file: _Found, cluster: str, manifest: Manifest, node: int | None) -> RecordedFile:
    known, stated = BY_KIND[file.kind], manifest.of(file.stored.path)
    if stated is not None:
        node = stated.id
    zone = stated.time_zone if stated else next((n.time_zone for n in manifest.nodes if n.id == node), None)
    return RecordedFile(
        path=file.stored.path,
        uri=file.stored.uri,
        kind=file.kind,
        cluster=cluster,
        size=file.stored.size,
        node=None if known.source == "metadata_log" else node,
        source=known.source,
        compression=file.compression,
        time_zone="UTC" if file.zoned else zone or manifest.time_zone,
        envelope=file.layout.envelope,
        pattern=file.layout.pattern,
    )


def _ordered(files: Sequence[RecordedFile], first_times: dict[str, int]) -> tuple[RecordedFile, ...]:
    """The files by path, each with its rank by first timestamp among its node's files: some hold several sources."""
    ranks: dict[int | None, int] = defaultdict(int)
    ranked = []
    for file in sorted(files, key=lambda file: (first_times[file.path], file.path)):
        ranked.append(replace(file, file_order=ranks[file.node]))
        ranks[file.node] += 1
    return tuple(sorted(ranked, key=lambda file: file.path))


def _nodes(found: Sequence[_Found], files: Sequence[RecordedFile], manifest: Manifest) -> tuple[Node, ...]:
    roles: dict[int, set[str]] = defaultdict(set)
    said = {file.stored.path: file.said for file in found}
    for file in files:
        if file.node is not None:
            roles[file.node].update(said[file.path].roles)
    stated = {node.id: node for node in manifest.nodes}
    nodes = []
    for number in sorted({*roles, *stated}):
        node = stated.get(number)
        told = (node.roles if node else ()) or tuple(sorted(roles[number]))
        zone = (node.time_zone if node else None) or manifest.time_zone
        nodes.append(Node(number, told, node.kafka if node else None, zone))
    return tuple(nodes)
