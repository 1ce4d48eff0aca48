"""METADATA 0-13: leaders and leader epochs that a broker sends to clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Json, Row, named_id


class Request(Json):
    """Not read: the response lists all partitions."""


class Partition(Json):
    partition_index: Int32
    error_code: Int32
    leader_id: Int32
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    leader_epoch: Int32 | None = None
    offline_replicas: list[Int32] | None = None


class Topic(Json):
    error_code: Int32
    partitions: list[Partition]
    name: str | None = None
    topic_id: str | None = None


class Response(Json):
    topics: list[Topic]
    error_code: Int32 | None = None  # version 13


COLUMNS: Final = (
    "topic", "topic_id", "partition", "in_request", "in_response", "error_code",
    "response_leader", "response_leader_epoch", "replicas", "response_isr", "offline_replicas",
)  # fmt: skip


def rows(_: int, __: Request, response: Response | None) -> Iterable[Row]:
    """One row per partition of the response; a topic without partitions gives one row with the topic's error code."""
    found: list[Row] = []
    for topic in () if response is None else response.topics:
        name, topic_id = topic.name, named_id(topic.topic_id)
        if not topic.partitions:
            found.append((name, topic_id, None, False, True, topic.error_code, *(None,) * 5))
        for p in topic.partitions:
            state = (p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
            found.append((name, topic_id, p.partition_index, False, True, p.error_code, *state))
    return found or [(None, None, None, False, False, *(None,) * 6)]


APIS: Final = (Api("METADATA", 13, Completed[Request, Response], COLUMNS, rows),)
