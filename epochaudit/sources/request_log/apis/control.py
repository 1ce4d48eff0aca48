"""The ZooKeeper-mode controller's requests: LEADER_AND_ISR 0-7, STOP_REPLICA 0-4, UPDATE_METADATA 0-8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import field

from epochaudit.kafka.api_versions import TOPIC_ID_LEADER_AND_ISR_VERSION, TYPE_UPDATE_METADATA_VERSION
from epochaudit.kafka.field_values import UNKNOWN_TYPE
from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id
from epochaudit.sources.request_log.apis.joining import joined

CONTROLLER_COLUMNS: Final = ("controller_id", "controller_epoch", "is_kraft_controller", "broker_epoch")
Key = tuple[str | None, int]


class ControlRequest(Json):
    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64 | None = None
    is_kraft_controller: bool | None = field(default=None, name="isKRaftController")

    def sender(self) -> Row:
        return (self.controller_id, self.controller_epoch, self.is_kraft_controller, self.broker_epoch)


class PartitionState(Json):
    """Partition state of LeaderAndIsr and UpdateMetadata. UpdateMetadata, and LeaderAndIsr up to 3.2, print zkVersion."""

    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    replicas: list[Int32]
    topic_name: str | None = None
    partition_epoch: Int32 | None = None
    zk_version: Int32 | None = None
    adding_replicas: list[Int32] | None = None
    removing_replicas: list[Int32] | None = None
    offline_replicas: list[Int32] | None = None
    is_new: bool | None = None
    leader_recovery_state: Int32 | None = None

    def installed(self) -> Row:
        epoch = self.zk_version if self.partition_epoch is None else self.partition_epoch
        return (self.controller_epoch, self.leader, self.leader_epoch, epoch, self.isr, self.replicas)


class TopicState(Json):
    topic_name: str
    partition_states: list[PartitionState]
    topic_id: str | None = None


class StatesRequest(ControlRequest):
    topic_states: list[TopicState] = []
    ungrouped_partition_states: list[PartitionState] = []
    type: Int32 | None = None

    def states(self) -> Iterator[tuple[str | None, str | None, PartitionState]]:
        """(topic, topic id, state) in request order. Older versions list states without topics."""
        for topic in self.topic_states:
            topic_id = named_id(topic.topic_id)
            for state in topic.partition_states:
                yield topic.topic_name, topic_id, state
        for state in self.ungrouped_partition_states:
            yield state.topic_name, None, state


class PartitionError(Json):
    partition_index: Int32
    error_code: Int32
    topic_name: str | None = None


class TopicErrors(Json):
    topic_id: str
    partition_errors: list[PartitionError]


class ControlResponse(Json):
    error_code: Int32
    partition_errors: list[PartitionError] = []
    topics: list[TopicErrors] = []


STATE_COLUMNS: Final = ("topic", "topic_id", "partition", "in_request", "in_response", "error_code")
INSTALLED_COLUMNS: Final = (
    "partition_controller_epoch", "leader", "leader_epoch", "partition_epoch", "isr", "replicas",
)  # fmt: skip
LEADER_AND_ISR_COLUMNS: Final = (
    *CONTROLLER_COLUMNS, "request_type", *STATE_COLUMNS, *INSTALLED_COLUMNS,
    "adding_replicas", "removing_replicas", "is_new", "leader_recovery_state",
)  # fmt: skip
NO_PARTITION: Final = (None, None, None, False, False, None)


def leader_and_isr(version: int, request: StatesRequest, response: ControlResponse | None) -> Iterable[Row]:
    """One row per partition state. From version 5 the response lists partitions by topic id."""
    sender, by_id = (*request.sender(), request.type), version >= TOPIC_ID_LEADER_AND_ISR_VERSION
    names: dict[str | None, str | None] = {}
    states: list[tuple[Key, tuple[str | None, str | None, PartitionState]]] = []
    for topic, topic_id, state in request.states():
        names[topic_id] = topic
        states.append(((topic_id if by_id else topic, state.partition_index), (topic, topic_id, state)))
    found: list[Row] = []
    for (listed, partition), asked, code in joined(states, _codes(response)):
        answer = (code is not None, None if code is None else code[0])
        if asked is None:
            topic, topic_id = (names.get(listed), listed) if by_id else (listed, None)
            found.append((*sender, topic, topic_id, partition, False, *answer, *(None,) * 10))
        else:
            topic, topic_id, state = asked
            more = (state.adding_replicas, state.removing_replicas, state.is_new, state.leader_recovery_state)
            found.append((*sender, topic, topic_id, partition, True, *answer, *state.installed(), *more))
    return found or [(*sender, *NO_PARTITION, *(None,) * 10)]


def _codes(response: ControlResponse | None) -> Iterable[tuple[Key, tuple[int | None]]]:
    """Error codes of the response. Topics without id share one key: if their codes differ, the code is None."""
    if response is None:
        return []
    codes: dict[Key, tuple[int | None]] = {}
    for topic in response.topics:
        for p in topic.partition_errors:
            key = (named_id(topic.topic_id), p.partition_index)
            is_same = codes.get(key, (p.error_code,)) == (p.error_code,)
            codes[key] = (p.error_code,) if is_same else (None,)
    for p in response.partition_errors:
        codes[p.topic_name, p.partition_index] = (p.error_code,)
    return codes.items()


class Broker(Json):
    id: Int32


class UpdateMetadataRequest(StatesRequest):
    live_brokers: list[Broker] = []


UPDATE_METADATA_COLUMNS: Final = (
    *CONTROLLER_COLUMNS, "request_type", "live_brokers", *STATE_COLUMNS, *INSTALLED_COLUMNS, "offline_replicas",
)  # fmt: skip


def update_metadata(version: int, request: UpdateMetadataRequest, _: ControlResponse | None) -> Iterable[Row]:
    """One row per partition state; the response lists no partitions."""
    given = request.type is not None or version < TYPE_UPDATE_METADATA_VERSION
    kind = request.type if given else UNKNOWN_TYPE
    sender = (*request.sender(), kind, [broker.id for broker in request.live_brokers])
    found = [
        (*sender, topic, topic_id, state.partition_index, True, False, None, *state.installed(), state.offline_replicas)
        for topic, topic_id, state in request.states()
    ]
    return found or [(*sender, *NO_PARTITION, *(None,) * 7)]


class StoppedPartition(Json):
    partition_index: Int32
    topic_name: str | None = None
    leader_epoch: Int32 | None = None
    delete_partition: bool | None = None


class StoppedTopic(Json):
    topic_name: str
    partition_states: list[StoppedPartition]


class UnversionedTopic(Json):
    name: str
    partition_indexes: list[Int32]


class StopReplicaRequest(ControlRequest):
    delete_partitions: bool | None = None
    ungrouped_partitions: list[StoppedPartition] = []
    topics: list[UnversionedTopic] = []
    topic_states: list[StoppedTopic] = []

    def stopped(self) -> Iterator[tuple[Key, tuple[int | None, bool | None]]]:
        """((topic, partition), (leader epoch, delete)) in request order, in all versions."""
        for state in self.topic_states:
            for p in state.partition_states:
                yield (state.topic_name, p.partition_index), (p.leader_epoch, p.delete_partition)
        for topic in self.topics:
            for partition in topic.partition_indexes:
                yield (topic.name, partition), (None, self.delete_partitions)
        for p in self.ungrouped_partitions:
            yield (p.topic_name, p.partition_index), (None, self.delete_partitions)


STOP_REPLICA_COLUMNS: Final = (
    *CONTROLLER_COLUMNS,
    "topic", "partition", "in_request", "in_response", "error_code", "leader_epoch", "delete_partition",
)  # fmt: skip


def stop_replica(_: int, request: StopReplicaRequest, response: ControlResponse | None) -> Iterable[Row]:
    """One row per partition to stop; leader_epoch is null below version 3."""
    sender = request.sender()
    found: list[Row] = []
    for (topic, partition), asked, code in joined(request.stopped(), _codes(response)):
        answer = (asked is not None, code is not None, None if code is None else code[0])
        found.append((*sender, topic, partition, *answer, *(asked or (None, None))))
    return found or [(*sender, None, None, False, False, None, None, request.delete_partitions)]


LeaderAndIsr = Completed[StatesRequest, ControlResponse]
StopReplica = Completed[StopReplicaRequest, ControlResponse]
UpdateMetadata = Completed[UpdateMetadataRequest, ControlResponse]
APIS: Final = (
    Api("LEADER_AND_ISR", 7, LeaderAndIsr, LEADER_AND_ISR_COLUMNS, leader_and_isr),
    Api("STOP_REPLICA", 4, StopReplica, STOP_REPLICA_COLUMNS, stop_replica),
    Api("UPDATE_METADATA", 8, UpdateMetadata, UPDATE_METADATA_COLUMNS, update_metadata),
)
