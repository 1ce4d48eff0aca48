"""Finds a capture's files, and their formats, nodes and order by content; capture.toml takes precedence."""

from __future__ import annotations

import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from epochaudit.events.times import FOREVER
from epochaudit.sources.clock.log_time import LogClock, newest_first
from epochaudit.sources.discovery.duplicates import BEGINNING, Candidate, duplicates
from epochaudit.sources.discovery.identity import nodes_of
from epochaudit.sources.discovery.manifest import FILE, Manifest, read_manifest
from epochaudit.sources.files.archives import is_tar, members
from epochaudit.sources.files.capture import Beginning, Capture, CaptureError, CaptureFile, Node
from epochaudit.sources.files.opening import (
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
from epochaudit.sources.files.rotation import gaps_before, log_name, rotations, without_newer
from epochaudit.sources.formats import BY_KIND, EMPTY, HEAD, MANIFEST, UNKNOWN, Identity, applied, recognised
from epochaudit.sources.lines.layouts import STOCK, Layout, layout_of, plain
from epochaudit.sources.node_hints import NO_HINTS, NodeHints

NAMED: Final = 3  # files in the message about a path without logs
OTHER_ARCHIVES: Final = (".zip", ".7z", ".rar")
EXPECTED: Final = (
    "expected Kafka's own logs, such as server.log, state-change.log and kafka-request.log (docs/captures.md)"
)
_ROTATED: Final = re.compile(r"\.(\d{1,4})(?:\.\w{2,4})?$")


@dataclass(frozen=True)
class FoundFile:
    """A file and what its head states.

    beginning: its first plain bytes as recorded, at most 4 KiB; all of capture.toml. node_hints: ids, roles and end
    points. first_time_ms: time of the first dated line, FOREVER if there is none. cluster_id: from meta.properties.
    zoned: its times have a zone. newest_first: its lines go back in time.
    """

    stored: Stored
    kind: str
    compression: str | None
    beginning: bytes  # plain, as recorded
    node_hints: NodeHints
    first_time_ms: int
    cluster_id: str | None
    layout: Layout
    zoned: bool
    newest_first: bool = False


@dataclass(frozen=True)
class Inspected:
    """The files of a directory, their cluster, and capture.toml.

    copies: path -> path of the file that holds the same lines. stated: the cluster's name is stated by a file; otherwise
    it is the directory's. absent: paths of files that an earlier run read, and that are no longer there.
    """

    root: str
    cluster: str
    stated: bool
    manifest: Manifest
    files: tuple[FoundFile, ...]
    copies: Mapping[str, str]
    absent: frozenset[str] = frozenset()


def discover(path: str) -> Capture:
    """The capture in a directory, a tar archive or a file: a local path or a URI. Reads the first 64 KiB of each file.

    Archives in it are read as directories. If one directory holds everything in an archive, it is the root. Raises
    CaptureError if the path has no file of a known kind, files of two clusters, a file whose lines are newest first, or an invalid
    capture.toml, and FormatError for a plug-in's format that can't be used.
    """
    return capture_of(inspected(path))


def inspected(path: str) -> Inspected:
    """The files of a directory, a tar archive or a file, without nodes. Raises CaptureError as `discover` does."""
    manifest, found = _inspected_files(path)
    stated = manifest.cluster or _cluster_id(path, found)
    copies = duplicates(
        (file.stored, file.compression, file.beginning) for file in found if BY_KIND[file.kind].deduplicated
    )
    return Inspected(path, stated or _directory_name(path), stated is not None, manifest, tuple(found), copies)


def capture_of(inspection: Inspected) -> Capture:
    """The files with their nodes and order. Raises CaptureError if no file can be audited, or the lines of one are newest first."""
    manifest, found, copies, cluster = inspection.manifest, inspection.files, inspection.copies, inspection.cluster
    if not any(BY_KIND[file.kind].sufficient for file in found):
        raise CaptureError(_nothing_known(inspection.root, found))
    if backwards := [file.stored.path for file in found if file.newest_first]:
        raise CaptureError(
            f"{inspection.root}: the lines of {', '.join(backwards)} are newest first, as log searches export them; order them by time, "
            "oldest first"
        )
    nodes = nodes_of({file.stored.path: (file.kind, file.node_hints) for file in found})
    recorded = [
        _recorded(
            file,
            cluster,
            manifest,
            nodes.get(file.stored.path),
            copies.get(file.stored.path),
            absent=file.stored.path in inspection.absent,
        )
        for file in found
    ]
    ordered = _ordered(recorded, {file.stored.path: file.first_time_ms for file in found})
    return Capture(inspection.root, cluster, ordered, _nodes(found, ordered, manifest))


def _inspected_files(path: str) -> tuple[Manifest, list[FoundFile]]:
    """capture.toml and all files. They are read again if it states patterns: an archive's manifest is found only by reading."""
    stated, root, found = _read_files(path, Manifest(), "")
    if stated.patterns():
        _, _, found = _read_files(path, stated, root)
    return stated, [replace(file, stored=_relative_to(root, file.stored)) for file in found]


def _read_files(path: str, stated: Manifest, root: str) -> tuple[Manifest, str, list[FoundFile]]:
    """(capture.toml, root directory, files), read with the patterns of `stated`."""
    found, manifests = [], {}
    for file, compression, head in _candidates(path, _listed(path)):
        if os.path.basename(file.path) == FILE:
            manifests[file.path] = (file, head)
        else:
            found.append(_inspected(file, compression, head, stated.pattern_of(_relative_to(root, file).path)))
    found.sort(key=lambda file: file.stored.path)
    root = _common_root(path, [file.stored for file in found])
    manifest = manifests.get(f"{root}{FILE}")
    if manifest is None:
        return Manifest(), root, found
    file, text = manifest
    found.append(FoundFile(file, MANIFEST, None, text, NO_HINTS, FOREVER, None, STOCK, zoned=False))
    return read_manifest(text), root, found


def examined(path: str, file: Stored) -> Iterator[FoundFile]:
    """A file below a path, or each file in it if it is an archive. Raises CaptureError."""
    for member, compression, head in _candidates(path, [file]):
        if os.path.basename(member.path) == FILE:
            yield FoundFile(member, MANIFEST, compression, head, NO_HINTS, FOREVER, None, STOCK, zoned=False)
        else:
            yield _inspected(member, compression, head, None)


def _candidates(path: str, files: Iterable[Stored]) -> Iterator[Candidate]:
    """(file, compression, plain head) of each file, including those in archives."""
    for file in files:
        head = _read(file, HEAD)
        compression = compression_of(head)
        plain_head = _plain_head(file, compression) if compression else head
        if is_tar(plain_head):
            yield from _members(file, compression, "" if file.uri == file_uri(path) else f"{file.path}/")
        else:
            yield file, compression, plain_head


def _common_root(path: str, files: Sequence[Stored]) -> str:
    """`top/` if the capture is an archive with everything in one directory, as is usual."""
    tops = {file.path.partition("/")[::2] for file in files}
    names = {top for top, _ in tops}
    in_archive = all(file.tar_offset is not None and file.uri == file_uri(path) for file in files)
    return f"{names.pop()}/" if in_archive and len(names) == 1 and all(rest for _, rest in tops) else ""


def _relative_to(root: str, file: Stored) -> Stored:
    return replace(file, path=file.path.removeprefix(root))


def _members(archive: Stored, compression: str | None, below: str) -> Iterator[Candidate]:
    """The files of a tar archive in its order; of a damaged one those before the defect."""
    with suppress(*DAMAGED, tarfile.TarError), open_plain(archive, compression) as stream:
        for path, offset, size, head in members(stream, HEAD):
            file = Stored(f"{below}{path}", archive.uri, size, offset, compression)
            inner = compression_of(head)
            yield file, inner, head_of(head, inner, HEAD) if inner else head


def _listed(path: str) -> list[Stored]:
    try:
        stored = listing(path)
    except FileNotFoundError:
        raise CaptureError(f"{path}: no such file or directory{_nearest(path)}") from None
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} can't be listed: {error}") from error
    if not stored:
        raise CaptureError(f"{path} is empty; expected a cluster's logs, such as kafka-request.log of each broker")
    return stored


def _nearest(path: str) -> str:
    """A local path that exists and differs from this one in the spelling of its first unknown part."""
    if "://" in path:
        return ""
    parent, _, name = path.rstrip("/").rpartition("/")
    if parent and not os.path.isdir(parent):
        return _nearest(parent)
    try:
        near = get_close_matches(name, os.listdir(parent or ("/" if path.startswith("/") else ".")), n=1)
    except OSError:
        return ""
    return f"; did you mean {os.path.join(parent, near[0])}?" if near else ""


def _read(file: Stored, size: int) -> bytes:
    try:
        with open_stored(file) as stream:
            return bytes(stream.read(size))
    except (OSError, ValueError) as error:
        raise CaptureError(f"{file.path} can't be read: {error}") from error


def _inspected(file: Stored, compression: str | None, recorded: bytes, pattern: str | None) -> FoundFile:
    layout = layout_of(recorded, pattern)
    head, zoned = plain(recorded, layout)
    kind = recognised(head, file.path)
    if kind == EMPTY and compression:
        kind = UNKNOWN  # nothing could be decompressed
    known = BY_KIND[kind]
    return FoundFile(
        file,
        kind,
        compression,
        recorded[:BEGINNING],
        applied(known, known.node_hints, head, file.path),
        _first_time(head),
        applied(known, known.cluster_id, head, file.path),
        layout if known.has_layout else STOCK,
        zoned,
        known.has_layout and newest_first(head.split(b"\n")),
    )


def _plain_head(file: Stored, compression: str) -> bytes:
    head = b""
    with suppress(Damaged, *DAMAGED):  # the bytes before a defect identify the file
        for piece in pieces(file, compression, HEAD):
            head += piece
            if len(head) >= HEAD:
                break
    return head[:HEAD]


def _first_time(head: bytes) -> int:
    read = LogClock().read
    return next((time for line in head.split(b"\n") if (time := read(line)) is not None), FOREVER)


def _nothing_known(path: str, found: Sequence[FoundFile]) -> str:
    kinds: dict[str, int] = defaultdict(int)
    for file in found:
        kinds[file.kind] += 1
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    unknown = sorted(file.stored.path for file in found if file.kind == UNKNOWN)
    named = ", ".join(unknown[:NAMED]) + (f" and {len(unknown) - NAMED:,} more" if len(unknown) > NAMED else "")
    what = f"found {listed}{f' ({named})' if named else ''}"
    packed = [name for name in unknown if name.lower().endswith(OTHER_ARCHIVES)]
    advice = f"unpack {packed[0]}: of archives only tar is read" if packed else EXPECTED
    return f"{path} holds nothing that can be audited: {what}; {advice}"


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
    file: FoundFile, cluster: str, manifest: Manifest, node: int | None, duplicate_of: str | None, *, absent: bool
) -> CaptureFile:
    known, stated = BY_KIND[file.kind], manifest.of(file.stored.path)
    if stated is not None:
        node = stated.id
    zone = stated.time_zone if stated else next((n.time_zone for n in manifest.nodes if n.id == node), None)
    return CaptureFile(
        path=file.stored.path,
        uri=file.stored.uri,
        kind=file.kind,
        cluster=cluster,
        size=file.stored.size,
        node=node if known.has_node else None,
        source=known.source,
        compression=file.compression,
        time_zone="UTC" if file.zoned else zone or manifest.time_zone,
        envelope=file.layout.envelope,
        pattern=file.layout.pattern,
        tar_offset=file.stored.tar_offset,
        tar_compression=file.stored.tar_compression,
        duplicate_of=duplicate_of,
        absent=absent,
        beginning=Beginning.of(file.beginning) if absent or known.identity is Identity.FIRST_LINES else None,
    )


def _ordered(files: Sequence[CaptureFile], first_times: dict[str, int]) -> tuple[CaptureFile, ...]:
    """The files by path, with their file_order, rank by first timestamp among the node's files, and what is missing.

    If files begin in the same millisecond, as in a burst of lines, the one that was rotated most often is the oldest. The numbers of
    absent files are those of an earlier day: they say nothing about what is missing today. But if a log's current file is absent, it was
    written on and deleted later, and lines are missing after it.
    """
    present = [file.path for file in files if not file.absent]
    gaps, last = gaps_before(present), without_newer(present)
    ranks: dict[int | None, int] = defaultdict(int)
    deleted: dict[tuple[int | None, str], int] = defaultdict(int)
    ranked = []
    in_order = sorted(
        files, key=lambda file: (first_times[file.path], not file.absent, -_rotations(file.path), file.path)
    )
    for file in in_order:
        place = rotations(file.path)
        log = (file.node, log_name(file.path))
        before, order = gaps.get(file.path, 0) + deleted[log], ranks[file.node]
        ranked.append(replace(file, file_order=order, gaps_before=before))
        ranks[file.node] += 1
        was_current = place is not None and place[1] == 0 and BY_KIND[file.kind].is_node_log
        deleted[log] += file.absent and was_current

    def newer_missing(file: CaptureFile) -> bool:
        deleted_before = file.gaps_before - gaps.get(file.path, 0)
        return file.path in last or deleted_before < deleted[file.node, log_name(file.path)]

    found = (replace(file, newer_missing=newer_missing(file)) for file in ranked)
    return tuple(sorted(found, key=lambda file: file.path))


def _rotations(path: str) -> int:
    """`kafka-request.log.12.gz`, `kafka-request.12.log` -> 12; 0 for the current log."""
    rotated = _ROTATED.search(path)
    return int(rotated[1]) if rotated else 0


def _nodes(found: Sequence[FoundFile], files: Sequence[CaptureFile], manifest: Manifest) -> tuple[Node, ...]:
    roles: dict[int, set[str]] = defaultdict(set)
    node_hints = {file.stored.path: file.node_hints for file in found}
    for file in files:
        if file.node is not None:
            roles[file.node].update(node_hints[file.path].roles)
    stated = {node.id: node for node in manifest.nodes}
    nodes = []
    for number in sorted({*roles, *stated}):
        node = stated.get(number)
        stated_roles: tuple[str, ...] = node.roles if node and node.roles else tuple(sorted(roles[number]))
        zone = (node.time_zone if node else None) or manifest.time_zone
        nodes.append(Node(number, stated_roles, node.kafka if node else None, zone))
    return tuple(nodes)
