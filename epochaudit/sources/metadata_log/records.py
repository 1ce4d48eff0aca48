"""Records of the KRaft metadata log as rows of the events table, from dumps and raw logs.

Kafka does not write tagged fields that hold their default. In a PARTITION_CHANGE_RECORD the default means "unchanged" and
becomes null, as do leader -2 and leaderRecoveryState -1. In other records the column gets the default.

Records of metadata transactions (KIP-868) are ordinary rows, as another file may hold the record that ends or aborts the
transaction. The replay of the log drops those of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from epochaudit.kafka.field_values import NO_LEADER_CHANGE, NO_TOPIC_ID, TOPIC_RESOURCE
from epochaudit.sources.lines.log4j import IDENTITY

PLACE: Final = (
    *IDENTITY, "api_version", "metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch", "in_snapshot",
)  # fmt: skip
COLUMNS: Final = (
    *PLACE, "topic", "topic_id", "partition", "replicas", "isr", "adding_replicas", "removing_replicas", "leader",
    "leader_epoch", "partition_epoch", "leader_recovery_state", "elr", "last_known_elr", "directories", "broker_id", "broker_epoch",
    "incarnation_id", "fenced", "in_controlled_shutdown", "log_dirs", "name", "value", "next_producer_id",
    "voters",
)  # fmt: skip


Row = tuple[object, ...]
Columns = dict[str, object]
Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

_UNCHANGED_RECOVERY_STATE: Final = -1
_BROKER_RESOURCE: Final = 4
_FENCING: Final = {1: True, -1: False}


class _Record(msgspec.Struct, rename="camel"):
    """Fields of a record type with columns in the events table. Defaults are those of Kafka's record schemas."""

    def columns(self) -> Columns:
        """Column name -> value."""
        return msgspec.structs.asdict(self)


class _Topic(_Record):
    name: str
    topic_id: str

    def columns(self) -> Columns:
        return {"topic": self.name, "topic_id": self.topic_id}


class _RemoveTopic(_Record):
    topic_id: str


class _ClearElr(_Record):
    topic_name: str | None = None

    def columns(self) -> Columns:
        return {"topic": self.topic_name}


class _Partition(_Record):
    partition_id: Int32
    topic_id: str
    replicas: list[Int32] | None = None
    isr: list[Int32] | None = None
    adding_replicas: list[Int32] | None = None
    removing_replicas: list[Int32] | None = None
    leader: Int32 | None = -1
    leader_epoch: Int32 | None = -1
    partition_epoch: Int32 | None = -1
    leader_recovery_state: Int32 | None = 0
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    last_known_elr_of_3_7: list[Int32] | None = msgspec.field(default=None, name="lastKnownELR")
    directories: list[str] | None = None

    def columns(self) -> Columns:
        columns = msgspec.structs.asdict(self)
        columns["partition"] = columns.pop("partition_id")
        columns["elr"] = columns.pop("eligible_leader_replicas")
        formerly = columns.pop("last_known_elr_of_3_7")
        if formerly is not None:
            columns["last_known_elr"] = formerly
        return columns


class _PartitionChange(_Partition):
    leader: Int32 | None = None
    leader_epoch: Int32 | None = None
    partition_epoch: Int32 | None = None
    leader_recovery_state: Int32 | None = None

    def columns(self) -> Columns:
        if self.leader == NO_LEADER_CHANGE:
            self.leader = None
        if self.leader_recovery_state == _UNCHANGED_RECOVERY_STATE:
            self.leader_recovery_state = None
        return super().columns()


class _RegisterBroker(_Record):
    broker_id: Int32
    broker_epoch: Int64
    incarnation_id: str
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: list[str] | None = None


class _UnregisterBroker(_Record):
    broker_id: Int32
    broker_epoch: Int64


class _BrokerRegistrationChange(_Record):
    broker_id: Int32
    broker_epoch: Int64
    fenced: Int32 = 0
    in_controlled_shutdown: Int32 = 0
    log_dirs: list[str] | None = None

    def columns(self) -> Columns:
        return {
            "broker_id": self.broker_id,
            "broker_epoch": self.broker_epoch,
            "fenced": _FENCING.get(self.fenced),
            "in_controlled_shutdown": True if self.in_controlled_shutdown == 1 else None,
            "log_dirs": self.log_dirs,
        }


class _FenceBroker(_Record):
    id: Int32
    epoch: Int64

    def columns(self) -> Columns:
        return {"broker_id": self.id, "broker_epoch": self.epoch, "fenced": True}


class _UnfenceBroker(_FenceBroker):
    def columns(self) -> Columns:
        return {**super().columns(), "fenced": False}


class _FeatureLevel(_Record):
    name: str
    feature_level: Int32 | None = None

    def columns(self) -> Columns:
        return {"name": self.name, "value": None if self.feature_level is None else str(self.feature_level)}


class _ZkMigrationState(_Record):
    zk_migration_state: Int32

    def columns(self) -> Columns:
        return {"value": str(self.zk_migration_state)}


class _Config(_Record):
    resource_type: Int32
    resource_name: str
    name: str
    value: str | None = None

    def columns(self) -> Columns:
        columns: Columns = {"name": self.name, "value": self.value}
        if self.resource_type == TOPIC_RESOURCE:
            columns["topic"] = self.resource_name
        elif self.resource_type == _BROKER_RESOURCE and self.resource_name.isdecimal():
            columns["broker_id"] = msgspec.convert(self.resource_name, Int32, strict=False)
        return columns


class _ProducerIds(_Record):
    """The first id after the block has two names: producerIdsEnd in dumps of 3.0 and 3.1, nextProducerId from 3.2 on."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    producer_ids_end: Int64 | None = None
    next_producer_id: Int64 | None = None

    def __post_init__(self) -> None:
        if self.producer_ids_end is None and self.next_producer_id is None:
            raise ValueError("Object missing required field `nextProducerId`")

    def columns(self) -> Columns:
        first_after = self.producer_ids_end if self.next_producer_id is None else self.next_producer_id
        return {"broker_id": self.broker_id, "broker_epoch": self.broker_epoch, "next_producer_id": first_after}


class _LeaderChange(_Record):
    leader_id: Int32

    def columns(self) -> Columns:
        return {"leader": self.leader_id}


class _Voter(_Record):
    voter_id: Int32
    voter_directory_id: str


class _Voters(_Record):
    voters: list[_Voter]

    def columns(self) -> Columns:
        return {"voters": sorted(f"{voter.voter_id}:{voter.voter_directory_id}" for voter in self.voters)}


_FIELDS: Final = {
    "TOPIC_RECORD": _Topic,
    "REMOVE_TOPIC_RECORD": _RemoveTopic,
    "CLEAR_ELR_RECORD": _ClearElr,
    "PARTITION_RECORD": _Partition,
    "PARTITION_CHANGE_RECORD": _PartitionChange,
    "REGISTER_BROKER_RECORD": _RegisterBroker,
    "UNREGISTER_BROKER_RECORD": _UnregisterBroker,
    "BROKER_REGISTRATION_CHANGE_RECORD": _BrokerRegistrationChange,
    "FENCE_BROKER_RECORD": _FenceBroker,
    "UNFENCE_BROKER_RECORD": _UnfenceBroker,
    "FEATURE_LEVEL_RECORD": _FeatureLevel,
    "ZK_MIGRATION_STATE_RECORD": _ZkMigrationState,
    "CONFIG_RECORD": _Config,
    "PRODUCER_IDS_RECORD": _ProducerIds,
    "LEADER_CHANGE": _LeaderChange,
    "KRAFT_VOTERS": _Voters,
}
_DECODERS: Final = {record_type: msgspec.json.Decoder(fields) for record_type, fields in _FIELDS.items()}


def columns_of_json(record_type: str, data: msgspec.Raw | bytes) -> Columns:
    """The columns of a record's data in JSON; none for other types. Raises msgspec.MsgspecError, UnicodeDecodeError."""
    decoder = _DECODERS.get(record_type)
    return {} if decoder is None else _columns(decoder.decode(data))


def columns_of_fields(record_type: str, fields: Mapping[str, object]) -> Columns:
    """The columns of a record's fields, as `schema.read_record` returns them. Raises msgspec.MsgspecError."""
    known = _FIELDS.get(record_type)
    return {} if known is None else _columns(msgspec.convert(fields, known))


def _columns(record: _Record) -> Columns:
    columns = record.columns()
    if columns.get("topic_id") == NO_TOPIC_ID:
        columns["topic_id"] = None
    return columns


def values(columns: Columns) -> Row:
    """The values of a row after those of PLACE."""
    return tuple(map(columns.get, COLUMNS[len(PLACE) :]))
