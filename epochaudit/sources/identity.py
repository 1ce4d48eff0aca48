"""Which node wrote a file.

Believed in this order: its own words, its neighbours', its connections, its folder's name. Never a guess: where the
evidence names two nodes or none, the node stays unknown.
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

_LOGS: Final = frozenset({"request-log-json", "request-log-text", "state-change-log", "server-log"})
_NAMED_BY_PARTITION: Final = {
    "leader-epoch-checkpoint": "leader-epoch-checkpoint",
    "partition-metadata": "partition.metadata",
}
_OF_A_NODE: Final = _LOGS | {*_NAMED_BY_PARTITION, "offset-checkpoint", "meta-properties", "server-properties", EMPTY}
_BROKERS: Final = rb"(Broker|KafkaServer|BrokerServer|BrokerLifecycleManager|ReplicaManager|GroupCoordinator|KafkaApi)"
_CONTROLLERS: Final = rb"(ControllerServer|QuorumController|ControllerRegistrationManager)"
_OTHERS: Final = rb"(?:SharedServer|KafkaRaftServer|RaftManager|MetadataLoader|SnapshotGenerator)"
_SPEAKER: Final = re.compile(  # the beginning of a message; a controller's may name another broker after its own id
    rb"^\[[^\]\n]*\] [A-Z]+ +\[(?:(?:" + _BROKERS + rb"|" + _CONTROLLERS + rb"|" + _OTHERS + rb"|Controller)"
    rb"(?: (?:id|nodeId|brokerId|broker)=| |-)|(?:Partition \S+|ReplicaFetcherManager on) broker[ =])(\d{1,9})\b",
    re.MULTILINE,
)  # fmt: skip
_QUORUM: Final = re.compile(rb"^\[[^\]\n]*\] [A-Z]+ +\[Controller \d{1,9}\] ", re.MULTILINE)  # 2.8 to 3.5
_SETTING: Final = re.compile(rb"^\s*(?:broker|node)\.id ?[=:] ?(\d{1,9})\s*$", re.MULTILINE)
_ROLES: Final = re.compile(rb"^\s*process\.roles ?= ?\[?([a-z, ]+)\]?\s*$", re.MULTILINE)
_LISTENERS: Final = re.compile(rb"^\s*(?:advertised\.)?listeners ?=(.*)$", re.MULTILINE)
_VOTERS: Final = re.compile(rb"^\s*controller\.quorum\.voters ?= ?(.*)$", re.MULTILINE)
_VOTER: Final = re.compile(rb"(\d{1,9})@([^:,\s]+):(\d{1,5})")
_ENDPOINT: Final = re.compile(rb"://([^\s,/]*?):(\d{1,5})")
# Of a line in JSON and in text: a pattern that begins with one literal is searched for ten times as fast as one with two.
_LOCAL_ENDS: Final = tuple(
    re.compile(before + rb'([^\s"]*?):(\d{1,5})-') for before in (rb'"connection":"', rb" from connection ")
)
_FOLDER: Final = re.compile(r"(?:.*[A-Za-z][-_.]?)?(\d{1,9})")  # broker-1, node2, 3; no date, no version
_SETTING_KINDS: Final = frozenset({"server-log", "meta-properties", "server-properties"})

Endpoint = tuple[str, int]


@dataclass(frozen=True)
class Words:
    """What a file's head says of nodes: ids and roles of its writer, its end points, and those of all brokers."""

    ids: frozenset[int] = frozenset()
    roles: frozenset[str] = frozenset()
    local: frozenset[Endpoint] = frozenset()
    brokers: frozenset[tuple[Endpoint, int]] = frozenset()


def words(kind: str, head: bytes) -> Words:
    """Reads the head of a recognised file, its lines in the stock layout."""
    ids: set[int] = set()
    roles: set[str] = set()
    local: frozenset[Endpoint] = frozenset()
    brokers: frozenset[tuple[Endpoint, int]] = frozenset()
    if kind in _LOGS:
        spoken = set(_SPEAKER.findall(head))
        ids.update(int(number) for *_, number in spoken)
        roles.update("broker" for broker, _, _ in spoken if broker)
        roles.update("controller" for _, controller, _ in spoken if controller)
        if b"[Controller " in head and _QUORUM.search(head):
            roles.add("controller")
        local = frozenset(_endpoint(*end) for pattern in _LOCAL_ENDS for end in pattern.findall(head))
        brokers = frozenset((*_announced(head), *_announced_as_text(head)))
    if kind in _SETTING_KINDS:
        ids.update(int(number) for number in _SETTING.findall(head))
        for listed in _ROLES.findall(head):
            roles.update(role.strip().decode() for role in listed.split(b",") if role.strip())
        brokers |= frozenset(_configured(head, ids))
    return Words(frozenset(ids), frozenset(roles), local, brokers)


def _configured(head: bytes, ids: Collection[int]) -> Iterable[tuple[Endpoint, int]]:
    """End points that a node's settings, in a file or a dump, tell of itself and of the controllers."""
    for listed in _VOTERS.findall(head):
        yield from ((_endpoint(host, port), int(node)) for node, host, port in _VOTER.findall(listed))
    if len(ids) == 1:
        node = next(iter(ids))
        for listed in _LISTENERS.findall(head):
            yield from ((_endpoint(*end), node) for end in _ENDPOINT.findall(listed))


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
    """End points of brokers that UpdateMetadata, BrokerRegistration and Metadata lines tell."""
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
    """The same of requests up to 2.7, which are printed as text."""
    for api, line in _TEXT_REQUEST.findall(head):
        if api == b"METADATA":
            for broker, host, port in _BROKER_OF_CLUSTER.findall(line):
                yield _endpoint(host, port), int(broker)
        else:
            for broker, ends in _LIVE_BROKER.findall(line):
                yield from ((_endpoint(host, port), int(broker)) for port, host in _LIVE_END.findall(ends))


@dataclass
class _Folder:
    ids: set[int] = field(default_factory=set)  # named by files in it
    ids_below: set[int] = field(default_factory=set)  # and in the folders below
    log_folders: set[PurePosixPath] = field(default_factory=set)  # it and those below that hold logs of nodes


def nodes_of(files: Mapping[str, tuple[str, Words]]) -> dict[str, int]:
    """The node of each file, for those that can be told. `files`: path -> (kind, words)."""
    own = {path: next(iter(said.ids)) for path, (_, said) in files.items() if len(said.ids) == 1}
    told = _by_neighbours(files, own)
    connected = _by_connections({path: said for path, (_, said) in files.items() if path not in told}, files)
    told = _by_neighbours(files, {**own, **connected})
    for path, (kind, _) in files.items():
        if path not in told and kind in _OF_A_NODE and (named := _by_folder_name(path, kind)) is not None:
            told[path] = named
    return {path: node for path, node in told.items() if files[path][0] in _OF_A_NODE}


def _by_neighbours(files: Mapping[str, tuple[str, Words]], own: Mapping[str, int]) -> dict[str, int]:
    folders: dict[PurePosixPath, _Folder] = defaultdict(_Folder)
    for path, (kind, _) in files.items():
        parent = PurePosixPath(path).parent
        if path in own:
            folders[parent].ids.add(own[path])
        for folder in (parent, *parent.parents):
            if path in own:
                folders[folder].ids_below.add(own[path])
            if kind in _LOGS:
                folders[folder].log_folders.add(parent)
    told = dict(own)
    for path in files:
        node = _neighbour(PurePosixPath(path).parent, folders)
        if path not in told and node is not None:
            told[path] = node
    return told


def _neighbour(folder: PurePosixPath, folders: Mapping[PurePosixPath, _Folder]) -> int | None:
    """The only node that the nearest folder with any evidence names; a folder with logs in several is no node's own."""
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


def _by_connections(unknown: Mapping[str, Words], files: Mapping[str, tuple[str, Words]]) -> dict[str, int]:
    """Nodes of request logs by the end that their connections have in common with an announced broker.

    The port alone counts only where several nodes are announced, each has ports of its own, and connections use it on
    one host.
    """
    by_end: dict[Endpoint, set[int]] = defaultdict(set)
    by_port: dict[int, set[int]] = defaultdict(set)
    hosts: dict[int, set[str]] = defaultdict(set)
    for _, said in files.values():
        for (host, port), node in said.brokers:
            by_end[host, port].add(node)
            by_port[port].add(node)
        for host, port in said.local:
            hosts[port].add(host)
    if len(set().union(*by_port.values())) < 2 or any(len(nodes) > 1 for nodes in by_port.values()):
        by_port.clear()
    own_port = {port: nodes for port, nodes in by_port.items() if len(hosts[port]) == 1}
    told = {}
    for path, said in unknown.items():
        nodes = set().union(*(by_end.get(end) or own_port.get(end[1]) or set() for end in said.local))
        if len(nodes) == 1:
            told[path] = nodes.pop()
    return told


def _by_folder_name(path: str, kind: str) -> int | None:
    """The number at the end of the nearest folder's name that has one; a partition's own folder is no node's."""
    *folders, name = PurePosixPath(path).parts
    own = name == _NAMED_BY_PARTITION.get(kind)
    for folder in reversed(folders[:-1] if own else folders):
        if match := _FOLDER.fullmatch(folder):
            return int(match[1])
    return None
