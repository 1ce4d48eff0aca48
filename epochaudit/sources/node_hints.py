"""Evidence of a file's node in its first bytes: node ids, roles and end points in the lines of logs and properties."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

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

Endpoint = tuple[str, int]


@dataclass(frozen=True)
class NodeHints:
    """Evidence in a file's head: ids and roles of its writer, local end points of connections, end points of brokers."""

    ids: frozenset[int] = frozenset()
    roles: frozenset[str] = frozenset()
    local: frozenset[Endpoint] = frozenset()
    brokers: frozenset[tuple[Endpoint, int]] = frozenset()


NO_HINTS: Final = NodeHints()


def hints_of_log(head: bytes) -> NodeHints:
    """The hints in a node's log lines in the stock layout: prefixes of messages, connections, announced brokers."""
    prefixes = set(_LOG_PREFIX.findall(head))
    roles = {"broker" for broker, _, _ in prefixes if broker} | {
        "controller" for _, controller, _ in prefixes if controller
    }
    if b"[Controller " in head and _QUORUM_CONTROLLER.search(head):
        roles.add("controller")
    return NodeHints(
        frozenset(int(number) for *_, number in prefixes),
        frozenset(roles),
        frozenset(_endpoint(*end) for pattern in _LOCAL_ENDS for end in pattern.findall(head)),
        frozenset((*_announced(head), *_announced_as_text(head))),
    )


def hints_of_settings(head: bytes, known: NodeHints = NO_HINTS) -> NodeHints:
    """`known`, and the hints in a node's settings: its id, roles, listeners, and the controllers' end points."""
    ids = known.ids.union(int(number) for number in _SETTING.findall(head))
    roles = (role.strip().decode() for setting in _ROLES.findall(head) for role in setting.split(b",") if role.strip())
    return replace(known, ids=ids, roles=known.roles.union(roles), brokers=known.brokers.union(_configured(head, ids)))


def hints_of_server_log(head: bytes) -> NodeHints:
    """The hints in the lines of a server.log, which prints the node's settings when it starts."""
    return hints_of_settings(head, hints_of_log(head))


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
