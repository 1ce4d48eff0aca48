"""Finds a capture's files and tells what each is, who wrote it and when: by content, with capture.toml outranking."""

from __future__ import annotations

import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from epochaudit.sources.archives import is_tar, members
from epochaudit.sources.capture import Capture, CaptureError, Node, RecordedFile
from epochaudit.sources.duplicates import BEGINNING, Candidate, duplicates
from epochaudit.sources.formats import BY_KIND, EMPTY, FORMATS, HEAD, MANIFEST, NODE_LOGS, UNKNOWN, recognised
from epochaudit.sources.identity import Words, nodes_of, words
from epochaudit.sources.layouts import STOCK, Layout, layout_of, plain
from epochaudit.sources.log_time import LogClock
from epochaudit.sources.manifest import FILE, Manifest, read_manifest
from epochaudit.sources.opening import (
    DAMAGED,
    Damaged,
    Stored,
    compression_of,
    file_uri,
    head_of,
    listing,
    open_plain,
    open_stored,
    pieces,
)

_CLUSTER_ID: Final = re.compile(rb"^\s*cluster\.id\s*=\s*(\S+)\s*$", re.MULTILINE)
_ROTATED: Final = re.compile(r"\.(\d{1,4})(?:\.\w{2,4})?$")
_LATEST: Final = 1 << 62
_OF_NO_NODE: Final = ("metadata_log", "client_log", "manifest")
LOGS: Final = NODE_LOGS | {"metadata-log-dump", "metadata-log-segment"}
"""What an audit is of: their lines are told apart by content, wherever they lie."""


@dataclass(frozen=True)
class FoundFile:
    """A file as its head tells it.

    beginning: its first plain bytes as recorded, at most 4 KiB; all of capture.toml. said: what it tells of nodes.
    first_time_ms: of its first dated line, far in the future if there is none. cluster_id: as meta.properties states it.
    zoned: its times have a zone.
    """

    stored: Stored
    kind: str
    compression: str | None
    beginning: bytes  # plain, as recorded
    said: Words
    first_time_ms: int
    cluster_id: str | None
    layout: Layout
    zoned: bool


@dataclass(frozen=True)
class Inspected:
    """What lies in a directory: the files, their cluster, and what capture.toml states.

    copies: path -> path of the file that holds the same lines. stated: the cluster's name is not just the directory's.
    """

    root: str
    cluster: str
    stated: bool
    manifest: Manifest
    files: tuple[FoundFile, ...]
    copies: Mapping[str, str]


def discover(path: str) -> Capture:
    """The capture in a directory, a tar archive or a file: a local path or a URI. Reads the first 64 KiB of each file.

    Archives in it are read as directories, and a directory that holds all of an archive is its root. Raises
    CaptureError when the path holds no known kind of file, files of two clusters, or a capture.toml that is wrong.
    """
    return capture_of(inspected(path))


def inspected(path: str) -> Inspected:
    """The files of a directory, a tar archive or a file, each by itself. Raises CaptureError as `discover` does."""
    manifest, found = _found(path)
    stated = manifest.cluster or _cluster_id(path, found)
    copies = duplicates((file.stored, file.compression, file.beginning) for file in found if file.kind in LOGS)
    return Inspected(path, stated or _directory_name(path), stated is not None, manifest, tuple(found), copies)


def capture_of(seen: Inspected) -> Capture:
    """The files as those of one cluster: whose each is, and their order. Raises CaptureError if none is a log."""
    manifest, found, copies, cluster = seen.manifest, seen.files, seen.copies, seen.cluster
    if not any(file.kind in LOGS for file in found):
        raise CaptureError(_nothing_known(seen.root, found))
    nodes = nodes_of({file.stored.path: (file.kind, file.said) for file in found})
    recorded = [
        _recorded(file, cluster, manifest, nodes.get(file.stored.path), copies.get(file.stored.path)) for file in found
    ]
    ordered = _ordered(recorded, {file.stored.path: file.first_time_ms for file in found})
    return Capture(seen.root, cluster, ordered, _nodes(found, ordered, manifest))


def _found(path: str) -> tuple[Manifest, list[FoundFile]]:
    """What capture.toml states, and all files. Archives tell their root and manifest only once they are read."""
    stated, root, found = _pass(path, Manifest(), "")
    if stated.patterns():
        _, _, found = _pass(path, stated, root)
    return stated, [replace(file, stored=_below(root, file.stored)) for file in found]


def _pass(path: str, stated: Manifest, root: str) -> tuple[Manifest, str, list[FoundFile]]:
    """What the manifest states, the directory that holds everything, and all files; read as `stated` says."""
    found, manifests = [], {}
    for file, compression, head in _candidates(path):
        if os.path.basename(file.path) == FILE:
            manifests[file.path] = (file, head)
        else:
            found.append(_inspected(file, compression, head, stated.pattern_of(_below(root, file).path)))
    found.sort(key=lambda file: file.stored.path)
    root = _common_root(path, [file.stored for file in found])
    manifest = manifests.get(f"{root}{FILE}")
    if manifest is None:
        return Manifest(), root, found
    file, text = manifest
    found.append(FoundFile(file, MANIFEST, None, text, Words(), _LATEST, None, STOCK, zoned=False))
    return read_manifest(text), root, found


def _candidates(path: str) -> Iterator[Candidate]:
    """Each file, its compression and its plain head; archives opened."""
    for file in _listed(path):
        head = _read(file, HEAD)
        compression = compression_of(head)
        plain_head = _plain_head(file, compression) if compression else head
        if is_tar(plain_head):
            yield from _members(file, compression, "" if file.uri == file_uri(path) else f"{file.path}/")
        else:
            yield file, compression, plain_head


def _common_root(path: str, files: Sequence[Stored]) -> str:
    """`top/` if the capture is an archive with everything in one directory, as most are packed."""
    tops = {file.path.partition("/")[::2] for file in files}
    names = {top for top, _ in tops}
    in_archive = all(file.tar_offset is not None and file.uri == file_uri(path) for file in files)
    return f"{names.pop()}/" if in_archive and len(names) == 1 and all(rest for _, rest in tops) else ""


def _below(root: str, file: Stored) -> Stored:
    return replace(file, path=file.path.removeprefix(root))


def _members(archive: Stored, compression: str | None, below: str) -> Iterator[Candidate]:
    """The files of a tar archive, by its order. One that is damaged gives the files before the defect."""
    with suppress(*DAMAGED, tarfile.TarError), open_plain(archive, compression) as stream:
        for path, offset, size, head in members(stream, HEAD):
            file = Stored(f"{below}{path}", archive.uri, size, offset, compression)
            inner = compression_of(head)
            yield file, inner, head_of(head, inner, HEAD) if inner else head


def _listed(path: str) -> list[Stored]:
    try:
        stored = listing(path)
    except FileNotFoundError:
        raise CaptureError(f"{path}: no such file or directory") from None
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} can't be listed: {error}") from error
    if not stored:
        raise CaptureError(f"{path} is empty; expected a cluster's logs, such as kafka-request.log of each broker")
    return stored


def _read(file: Stored, size: int) -> bytes:
    try:
        with open_stored(file) as stream:
            return bytes(stream.read(size))
    except (OSError, ValueError) as error:
        raise CaptureError(f"{file.path} can't be read: {error}") from error


def _inspected(file: Stored, compression: str | None, recorded: bytes, pattern: str | None) -> FoundFile:
    layout = layout_of(recorded, pattern)
    head, zoned = plain(recorded, layout)
    kind = recognised(head)
    if kind == EMPTY and compression:
        kind = UNKNOWN  # nothing of it could be decompressed
    cluster_id = _CLUSTER_ID.search(head) if kind == "meta-properties" else None
    return FoundFile(
        file,
        kind,
        compression,
        recorded[:BEGINNING],
        words(kind, head),
        _first_time(head),
        cluster_id[1].decode(errors="replace") if cluster_id else None,
        layout if kind in NODE_LOGS or kind == "client-log" else STOCK,
        zoned,
    )


def _plain_head(file: Stored, compression: str) -> bytes:
    head = b""
    with suppress(Damaged, *DAMAGED):  # what came before a defect is enough to recognise the file by
        for piece in pieces(file, compression, HEAD):
            head += piece
            if len(head) >= HEAD:
                break
    return head[:HEAD]


def _first_time(head: bytes) -> int:
    read = LogClock().read
    return next((time for line in head.split(b"\n") if (time := read(line)) is not None), _LATEST)


def _nothing_known(path: str, found: Sequence[FoundFile]) -> str:
    kinds: dict[str, int] = defaultdict(int)
    for file in found:
        kinds[file.kind] += 1
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    expected = ", ".join(known.kind for known in FORMATS if known.kind in LOGS)
    return f"{path} holds nothing that can be audited: found {listed} among {len(found)} files; expected {expected}"


def _cluster_id(path: str, found: Sequence[FoundFile]) -> str | None:
    clusters = sorted({file.cluster_id for file in found if file.cluster_id})
    if len(clusters) > 1:
        raise CaptureError(
            f"{path} holds files of {len(clusters)} clusters ({', '.join(clusters)}); audit each cluster's directory, "
            f"or name the one cluster in {FILE}"
        )
    return clusters[0] if clusters else None


def _directory_name(path: str) -> str:
    return os.path.basename((path if "://" in path else os.path.abspath(path)).rstrip("/")) or "capture"


def _recorded(
    file: FoundFile, cluster: str, manifest: Manifest, node: int | None, duplicate_of: str | None
) -> RecordedFile:
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
        node=None if known.source in _OF_NO_NODE else node,
        source=known.source,
        compression=file.compression,
        time_zone="UTC" if file.zoned else zone or manifest.time_zone,
        envelope=file.layout.envelope,
        pattern=file.layout.pattern,
        tar_offset=file.stored.tar_offset,
        tar_compression=file.stored.tar_compression,
        duplicate_of=duplicate_of,
    )


def _ordered(files: Sequence[RecordedFile], first_times: dict[str, int]) -> tuple[RecordedFile, ...]:
    """The files by path, each with its rank by first timestamp among its node's files: some hold several sources.

    Of files that begin in the same millisecond, as in a burst of lines, the one that was rotated most often is the oldest.
    """
    ranks: dict[int | None, int] = defaultdict(int)
    ranked = []
    for file in sorted(files, key=lambda file: (first_times[file.path], -_rotations(file.path), file.path)):
        ranked.append(replace(file, file_order=ranks[file.node]))
        ranks[file.node] += 1
    return tuple(sorted(ranked, key=lambda file: file.path))


def _rotations(path: str) -> int:
    """`kafka-request.log.12.gz` -> 12; 0 for a log that is written to."""
    rotated = _ROTATED.search(path)
    return int(rotated[1]) if rotated else 0


def _nodes(found: Sequence[FoundFile], files: Sequence[RecordedFile], manifest: Manifest) -> tuple[Node, ...]:
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
