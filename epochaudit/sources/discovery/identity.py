"""Which node wrote a file.

Evidence in order of precedence: the file's own lines, files in its folder, connections, the folder's name. If the evidence
names two nodes or none, the node is unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from epochaudit.sources.formats import BY_KIND, Format
from epochaudit.sources.node_hints import Endpoint, NodeHints

# files of a partition's log, of removed replicas, too; many of them are empty
_IN_PARTITION_FOLDER: Final = re.compile(
    r"\d{20}(?:-[\w-]{22})?\.(?:log|index|timeindex|txnindex|snapshot)(?:\.\w+)*"
    r"|leader-epoch-checkpoint(?:\.tmp)?|partition\.metadata(?:\.tmp)?"
)
_NODE_IN_NAME: Final = re.compile(r"(?:^|[._-])(?:broker|node|kafka)[-_]?(\d{1,9})(?=[._-]|$)")
_FOLDER: Final = re.compile(r"(?:.*[A-Za-z][-_.]?)?(\d{1,9})")  # broker-1, node2, 3; no date, no version


@dataclass
class _Folder:
    ids: set[int] = field(default_factory=set)  # ids in files of the folder
    ids_below: set[int] = field(default_factory=set)  # ids in files of the folder and those below
    log_folders: set[PurePosixPath] = field(default_factory=set)  # folders with node logs: this one and those below


def nodes_of(files: Mapping[str, tuple[str, NodeHints]]) -> dict[str, int]:
    """path -> node id, for files whose node is known. files: path -> (kind, node hints)."""
    own = {path: next(iter(node_hints.ids)) for path, (_, node_hints) in files.items() if len(node_hints.ids) == 1}
    nodes = _by_neighbours(files, own)
    connected = _by_connections(
        {path: node_hints for path, (_, node_hints) in files.items() if path not in nodes}, files
    )
    nodes = _by_neighbours(files, {**own, **connected})
    for path, (kind, _) in files.items():
        if path not in nodes and (by_name := _by_name(path, BY_KIND[kind])) is not None:
            nodes[path] = by_name
    return {path: node for path, node in nodes.items() if _is_attributed(BY_KIND[files[path][0]])}


def _is_attributed(known: Format) -> bool:
    """A node is looked for: files that are not read, such as indexes, lie in any folder and affect no verdict."""
    return known.has_node and known.is_read


def _by_neighbours(files: Mapping[str, tuple[str, NodeHints]], own: Mapping[str, int]) -> dict[str, int]:
    folders: dict[PurePosixPath, _Folder] = defaultdict(_Folder)
    parents = {path: PurePosixPath(path).parent for path in files}
    for path, (kind, _) in files.items():
        parent = parents[path]
        if path in own:
            folders[parent].ids.add(own[path])
        for folder in (parent, *parent.parents):
            if path in own:
                folders[folder].ids_below.add(own[path])
            if BY_KIND[kind].is_node_log:
                folders[folder].log_folders.add(parent)
    assigned = dict(own)
    near = {folder: _neighbour(folder, folders) for folder in {*parents.values()}}
    for path in files:
        node = near[parents[path]]
        if path not in assigned and node is not None:
            assigned[path] = node
    return assigned


def _neighbour(folder: PurePosixPath, folders: Mapping[PurePosixPath, _Folder]) -> int | None:
    """The only node named in the nearest folder with evidence. A folder whose logs lie in several folders is shared."""
    if len(folders[folder].ids) == 1:
        return next(iter(folders[folder].ids))
    for near in (folder, *folder.parents):
        here = folders[near]
        shared = near != folder and (near == PurePosixPath() or len(here.log_folders) > 1)
        if shared or len(here.ids_below) > 1:
            return None
        if here.ids_below:
            return next(iter(here.ids_below))
    return None


def _by_connections(unknown: Mapping[str, NodeHints], files: Mapping[str, tuple[str, NodeHints]]) -> dict[str, int]:
    """Nodes of request logs whose connections end at an announced broker's end point.

    A port without its host counts only if several nodes are announced, no two share a port, and connections use it on a
    single host.
    """
    by_end: dict[Endpoint, set[int]] = defaultdict(set)
    by_port: dict[int, set[int]] = defaultdict(set)
    hosts: dict[int, set[str]] = defaultdict(set)
    for _, node_hints in files.values():
        for (host, port), node in node_hints.brokers:
            by_end[host, port].add(node)
            by_port[port].add(node)
        for host, port in node_hints.local:
            hosts[port].add(host)
    if len(set().union(*by_port.values())) < 2 or any(len(nodes) > 1 for nodes in by_port.values()):
        by_port.clear()
    own_port = {port: nodes for port, nodes in by_port.items() if len(hosts[port]) == 1}
    connected = {}
    for path, node_hints in unknown.items():
        nodes = set().union(*(by_end.get(end) or own_port.get(end[1]) or set() for end in node_hints.local))
        if len(nodes) == 1:
            connected[path] = nodes.pop()
    return connected


def _by_name(path: str, known: Format) -> int | None:
    """The node in the file's own name, else the number at the end of the nearest folder's name that ends with one.

    A partition's folder is skipped.
    """
    *folders, name = PurePosixPath(path).parts
    if known.node_in_name and (node_in_name := _NODE_IN_NAME.search(name)):
        return int(node_in_name[1])
    in_partition = _IN_PARTITION_FOLDER.fullmatch(name)
    for folder in reversed(folders[:-1] if in_partition else folders):
        if match := _FOLDER.fullmatch(folder):
            return int(match[1])
    return None
