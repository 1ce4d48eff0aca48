"""Which node wrote a file.

Evidence in order of precedence: the file's own lines, files in its folder, connections, the folder's name. If the evidence
names two nodes or none, the node is unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from epochaudit.sources.formats import EMPTY

_LOG_KINDS: Final = frozenset({"request-log-json", "request-log-text", "state-change-log", "server-log"})
_NAMED_BY_PARTITION: Final = {
    "leader-epoch-checkpoint": "leader-epoch-checkpoint",
    "partition-metadata": "partition.metadata",
}
_REPLICA_KINDS: Final = frozenset({*_NAMED_BY_PARTITION, "data-segment", "data-segment-dump"})
_NODE_KINDS: Final = _LOG_KINDS | {*_REPLICA_KINDS, "offset-checkpoint", "meta-properties", "server-properties", EMPTY}
# files of a partition's log, of removed replicas, too; many of them are empty
_IN_PARTITION_FOLDER: Final = re.compile(
    r"\d{20}(?:-[\w-]{22})?\.(?:log|index|timeindex|txnindex|snapshot)(?:\.\w+)*"
    r"|leader-epoch-checkpoint(?:\.tmp)?|partition\.metadata(?:\.tmp)?"
)
_NODE_IN_NAME: Final = re.compile(r"(?:^|[._-])(?:broker|node|kafka)[-_]?(\d{1,9})(?=[._-]|$)")
_BROKERS: Final = rb"(Broker|KafkaServer|BrokerServer|BrokerLifecycleManager|ReplicaManager|GroupCoordinator|KafkaApi)"
_CONTROLLERS: Final = rb"(ControllerServer|QuorumController|ControllerRegistrationManager)"
_SHARED_CLASSES: Final = rb"(?:SharedServer|KafkaRaftServer|RaftManager|MetadataLoader|SnapshotGenerator)"
_LOG_PREFIX: Final = re.compile(  # the prefix of a message; after it, a controller may name another broker
    rb"^\[[^\]\n]*\] [A-Z]+ +\[(?:(?:" + _BROKERS + rb"|" + _CONTROLLERS + rb"|" + _SHARED_CLASSES + rb"|Controller)"
    rb"(?: (?:id|nodeId|brokerId|broker)=| |-)|(?:Partition \S+|ReplicaFetcherManager on) broker[ =])(\d{1,9})\b",
    re.MULTILINE,
)  # fmt: skip
_QUORUM_CONTROLLER: Final = re.compile(rb"^\[[^\]\n]*\] [A-Z]+ +\[Controller \d{1,9}\] ", re.MULTILINE)  # 2.8 to 3.5
_SETTING: Final = re.compile(rb"^\s*(?:broker|node)\.id ?[=:] ?(\d{1,9})\s*$", re.MULTILINE)
_ROLES: Final = re.compile(rb"^\s*process\.roles ?= ?\[?([a-z, ]+)\]?\s*$", re.MULTILINE)
_LISTENERS: Final = re.compile(rb"^\s*(?:advertised\.)?listeners ?=(.*)$", re.MULTILINE)
_VOTERS: Final = re.compile(rb"^\s*controller\.quorum\.voters ?= ?(.*)$", re.MULTILINE)
_VOTER: Final = re.compile(rb"(\d{1,9})@([^:,\s]+):(\d{1,5})")
_ENDPOINT: Final = re.compile(rb"://([^\s,/]*?):(\d{1,5})")
# In JSON and text lines. Two patterns that each begin with a literal are ten times as fast as one with alternatives.
_LOCAL_ENDS: Final = tuple(
    re.compile(before + rb'([^\s"]*?):(\d{1,5})-') for before in (rb'"connection":"', rb" from connection ")
)
_FOLDER: Final = re.compile(r"(?:.*[A-Za-z][-_.]?)?(\d{1,9})")  # broker-1, node2, 3; no date, no version
_SETTING_KINDS: Final = frozenset({"server-log", "meta-properties", "server-properties"})

Endpoint = tuple[str, int]


@dataclass(frozen=True)
class NodeHints:
    """Evidence in a file's head: ids and roles of its writer, local end points of connections, end points of brokers."""

    ids: frozenset[int] = frozenset()
    roles: frozenset[str] = frozenset()
    local: frozenset[Endpoint] = frozenset()
    brokers: frozenset[tuple[Endpoint, int]] = frozenset()


def node_hints(kind: str, head: bytes) -> NodeHints:
    """The hints in a file's head. kind: its format. head: lines in the stock layout."""
    ids: set[int] = set()
    roles: set[str] = set()
    local: frozenset[Endpoint] = frozenset()
    brokers: frozenset[tuple[Endpoint, int]] = frozenset()
    if kind in _LOG_KINDS:
        prefixes = set(_LOG_PREFIX.findall(head))
        ids.update(int(number) for *_, number in prefixes)
        roles.update("broker" for broker, _, _ in prefixes if broker)
        roles.update("controller" for _, controller, _ in prefixes if controller)
        if b"[Controller " in head and _QUORUM_CONTROLLER.search(head):
            roles.add("controller")
        local = frozenset(_endpoint(*end) for pattern in _LOCAL_ENDS for end in pattern.findall(head))
        brokers = frozenset((*_announced(head), *_announced_as_text(head)))
    if kind in _SETTING_KINDS:
        ids.update(int(number) for number in _SETTING.findall(head))
        for setting in _ROLES.findall(head):
            roles.update(role.strip().decode() for role in setting.split(b",") if role.strip())
        brokers |= frozenset(_configured(head, ids))
    return NodeHints(frozenset(ids), frozenset(roles), local, brokers)


def _configured(head: bytes, ids: Collection[int]) -> Iterable[tuple[Endpoint, int]]:
    """(end point, node id) in a node's settings: its own listeners and the controllers'."""
    for setting in _VOTERS.findall(head):
        yield from ((_endpoint(host, port), int(node)) for node, host, port in _VOTER.findall(setting))
    if len(ids) == 1:
        node = next(iter(ids))
        for setting in _LISTENERS.findall(head):
            yield from ((_endpoint(*end), node) for end in _ENDPOINT.findall(setting))


def _endpoint(host: bytes, port: bytes) -> Endpoint:
    return host.decode(errors="replace"), int(port)


class _End(Struct, rename="camel"):
    host: str
    port: int


class _Broker(Struct, rename="camel"):
    id: int | None = None
    node_id: int | None = None
    host: str | None = None
    port: int | None = None
    endpoints: list[_End] = []


class _Announcement(Struct, rename="camel"):
    live_brokers: list[_Broker] = []
    brokers: list[_Broker] = []
    broker_id: int | None = None
    listeners: list[_End] = []


class _Announcing(Struct):
    request: _Announcement
    response: _Announcement


_ANNOUNCING: Final = re.compile(
    rb'Completed request:(\{[^\n]*"requestApiKeyName":"(?:UPDATE_METADATA|BROKER_REGISTRATION|METADATA)"[^\n]*\})'
)


def _announced(head: bytes) -> Iterable[tuple[Endpoint, int]]:
    """(end point, broker id) in UpdateMetadata, BrokerRegistration and Metadata lines in JSON."""
    decoder = Decoder(_Announcing)
    for line in _ANNOUNCING.findall(head):
        try:
            line = decoder.decode(line)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        for broker in (*line.request.live_brokers, *line.response.brokers):
            number = broker.node_id if broker.id is None else broker.id
            ends = [*broker.endpoints]
            if broker.host is not None and broker.port is not None:
                ends.append(_End(broker.host, broker.port))
            if number is not None:
                yield from (((end.host, end.port), number) for end in ends)
        if line.request.broker_id is not None:
            yield from (((end.host, end.port), line.request.broker_id) for end in line.request.listeners)


_TEXT_REQUEST: Final = re.compile(rb"Completed request:RequestHeader\(apiKey=(UPDATE_METADATA|METADATA),([^\n]*)")
_LIVE_BROKER: Final = re.compile(rb"\{id=(\d{1,9}),(?:v0_\w+=[^,{}]*,)*end_?points=\[([^\]]*)\]")
_LIVE_END: Final = re.compile(rb"port=(\d{1,5}),host=([^,{}]*)")
_BROKER_OF_CLUSTER: Final = re.compile(rb"\{node_id=(\d{1,9}),host=([^,{}]*),port=(\d{1,5})")


def _announced_as_text(head: bytes) -> Iterable[tuple[Endpoint, int]]:
    """(end point, broker id) in UpdateMetadata and Metadata lines as text, up to 2.7."""
    for api, line in _TEXT_REQUEST.findall(head):
        if api == b"METADATA":
            for broker, host, port in _BROKER_OF_CLUSTER.findall(line):
                yield _endpoint(host, port), int(broker)
        else:
            for broker, ends in _LIVE_BROKER.findall(line):
                yield from ((_endpoint(host, port), int(broker)) for port, host in _LIVE_END.findall(ends))


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
        if path not in nodes and kind in _NODE_KINDS and (by_name := _by_folder_name(path, kind)) is not None:
            nodes[path] = by_name
    return {path: node for path, node in nodes.items() if files[path][0] in _NODE_KINDS}


def _by_neighbours(files: Mapping[str, tuple[str, NodeHints]], own: Mapping[str, int]) -> dict[str, int]:
    folders: dict[PurePosixPath, _Folder] = defaultdict(_Folder)
    for path, (kind, _) in files.items():
        parent = PurePosixPath(path).parent
        if path in own:
            folders[parent].ids.add(own[path])
        for folder in (parent, *parent.parents):
            if path in own:
                folders[folder].ids_below.add(own[path])
            if kind in _LOG_KINDS:
                folders[folder].log_folders.add(parent)
    assigned = dict(own)
    for path in files:
        node = _neighbour(PurePosixPath(path).parent, folders)
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


def _by_folder_name(path: str, kind: str) -> int | None:
    """The number at the end of the nearest folder's name that ends with one; a partition's folder is skipped."""
    *folders, name = PurePosixPath(path).parts
    if kind == "data-segment-dump" and (node_in_name := _NODE_IN_NAME.search(name)):
        return int(node_in_name[1])
    own = name == _NAMED_BY_PARTITION.get(kind) or _IN_PARTITION_FOLDER.fullmatch(name)
    for folder in reversed(folders[:-1] if own else folders):
        if match := _FOLDER.fullmatch(folder):
            return int(match[1])
    return None
