"""ALTER_PARTITION 0-3 and ALTER_ISR 0 (its name up to 3.1): a leader asks the controller to change the ISR."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id
from epochaudit.sources.request_log.apis.joining import joined


class BrokerState(Json):
    broker_id: Int32
    broker_epoch: Int64 = -1


class Partition(Json):
    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[Int32] | None = None
    new_isr_with_epochs: list[BrokerState] | None = None
    leader_recovery_state: Int32 | None = None
    partition_epoch: Int32 | None = None
    current_isr_version: Int32 | None = None  # the partition epoch's name in ALTER_ISR

    def asked(self) -> Row:
        epoch = self.current_isr_version if self.partition_epoch is None else self.partition_epoch
        if self.new_isr_with_epochs is None:
            return (self.leader_epoch, epoch, self.new_isr, None, self.leader_recovery_state)
        isr = [member.broker_id for member in self.new_isr_with_epochs]
        epochs = [member.broker_epoch for member in self.new_isr_with_epochs]
        return (self.leader_epoch, epoch, isr, epochs, self.leader_recovery_state)


class Answer(Json):
    partition_index: Int32
    error_code: Int32
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    partition_epoch: Int32 | None = None
    current_isr_version: Int32 | None = None

    def answered(self) -> Row:
        epoch = self.current_isr_version if self.partition_epoch is None else self.partition_epoch
        return (self.error_code, self.leader_id, self.leader_epoch, epoch, self.isr)


class TopicKey(Json):
    """`name` to 3.2, `topicName` since, `topicId` from version 2."""

    name: str | None = None
    topic_name: str | None = None
    topic_id: str | None = None

    def key(self) -> tuple[str | None, str | None]:
        return (self.topic_name or self.name, named_id(self.topic_id))


class Topic(TopicKey, kw_only=True):
    partitions: list[Partition]


class AnsweredTopic(TopicKey, kw_only=True):
    partitions: list[Answer]


class Request(Json):
    broker_id: Int32
    broker_epoch: Int64
    topics: list[Topic]


class Response(Json):
    error_code: Int32
    topics: list[AnsweredTopic] = []


COLUMNS: Final = (
    "broker_id", "broker_epoch", "topic", "topic_id", "partition", "in_request", "in_response",
    "leader_epoch", "partition_epoch", "isr", "isr_broker_epochs", "leader_recovery_state",
    "error_code", "response_leader", "response_leader_epoch", "response_partition_epoch", "response_isr",
)  # fmt: skip


def rows(_: int, request: Request, response: Response | None) -> Iterable[Row]:
    """One row per partition. The response to a refused partition has zeros in place of its state."""
    sender = (request.broker_id, request.broker_epoch)
    asked = (((*t.key(), p.partition_index), p.asked()) for t in request.topics for p in t.partitions)
    topics = () if response is None else response.topics
    answered = (((*t.key(), p.partition_index), p.answered()) for t in topics for p in t.partitions)
    found = [
        (*sender, *key, question is not None, answer is not None, *(question or (None,) * 5), *(answer or (None,) * 5))
        for key, question, answer in joined(asked, answered)
    ]
    return found or [(*sender, None, None, None, False, False, *(None,) * 10)]


APIS: Final = tuple(
    Api(name, versions, Completed[Request, Response], COLUMNS, rows, "ALTER_PARTITION")
    for name, versions in (("ALTER_PARTITION", 3), ("ALTER_ISR", 0))
)
