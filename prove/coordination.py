"""Requests to coordinators, and their answers, as events of a history: producers, groups, share groups. Fields have Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prove.history import Event

INIT_PRODUCER_ID: Final = "INIT_PRODUCER_ID"
ADD_PARTITIONS_TO_TXN: Final = "ADD_PARTITIONS_TO_TXN"
ADD_OFFSETS_TO_TXN: Final = "ADD_OFFSETS_TO_TXN"
END_TXN: Final = "END_TXN"
WRITE_TXN_MARKERS: Final = "WRITE_TXN_MARKERS"
ALLOCATE_PRODUCER_IDS: Final = "ALLOCATE_PRODUCER_IDS"
JOIN_GROUP: Final = "JOIN_GROUP"
SYNC_GROUP: Final = "SYNC_GROUP"
CONSUMER_GROUP_HEARTBEAT: Final = "CONSUMER_GROUP_HEARTBEAT"
TXN_OFFSET_COMMIT: Final = "TXN_OFFSET_COMMIT"
INITIALIZE: Final = "INITIALIZE_SHARE_GROUP_STATE"
READ: Final = "READ_SHARE_GROUP_STATE"
WRITE: Final = "WRITE_SHARE_GROUP_STATE"
DELETE: Final = "DELETE_SHARE_GROUP_STATE"
SHARE_FETCH: Final = "SHARE_FETCH"
SHARE_ACKNOWLEDGE: Final = "SHARE_ACKNOWLEDGE"

NO_PRODUCER: Final = -1
"""Of a producer id, and of a producer epoch."""
LAST_EPOCH: Final = 32766
"""The last producer epoch that clients are given (TransactionMetadata.isEpochExhausted)."""
EPOCH_BUMP: Final = 5
"""The first version of EndTxn that raises the producer epoch (KIP-890)."""

NO_GENERATION: Final = -1
"""Of a commit without a generation."""

TopicPartition = tuple[str, int]
Codes = tuple[tuple[TopicPartition, int], ...]
"""Error code of each partition."""


@dataclass
class Exchange(Event):
    """A request and its answer. arrived: milliseconds. error_code: of the whole answer."""

    api: str = ""
    version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    connection: int = 0
    arrived: int = 0
    error_code: int = 0


@dataclass
class OfProducer(Exchange):
    """A producer's request to its coordinator, with the producer id and epoch that it states."""

    transactional_id: str | None = None
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER


@dataclass
class GivesEpoch(OfProducer):
    """A request whose answer may give a producer id and epoch: InitProducerId, and EndTxn. committed: of an EndTxn."""

    given_id: int = NO_PRODUCER
    given_epoch: int = NO_PRODUCER
    committed: bool = False

    @property
    def gives(self) -> bool:
        """The answer gives a producer id and epoch."""
        return self.error_code == 0 and self.given_id != NO_PRODUCER


@dataclass
class Initialized(Event):
    """A coordinator's line about the producer id and epoch with which it is about to answer InitProducerId of a transactional id."""

    transactional_id: str = ""
    given_id: int = NO_PRODUCER
    given_epoch: int = NO_PRODUCER


@dataclass
class AddsPartitions(OfProducer):
    """An AddPartitionsToTxn for one transactional id. verify_only: it asks only whether the partitions are in the transaction."""

    verify_only: bool = False
    codes: Codes = ()


@dataclass
class AddsOffsets(OfProducer):
    """An AddOffsetsToTxn."""

    group_id: str = ""


@dataclass
class WritesMarkers(Exchange):
    """A WriteTxnMarkers of one marker. transaction_version: None if the version of the request has no such field."""

    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER
    committed: bool = False
    coordinator_epoch: int = 0
    transaction_version: int | None = None
    codes: Codes = ()


@dataclass
class AllocatesIds(Exchange):
    """An AllocateProducerIds: the block of producer ids that a controller gives a broker."""

    broker_id: int = 0
    broker_epoch: int = 0
    start: int = NO_PRODUCER
    length: int = 0


@dataclass
class OfMember(Exchange):
    """A group member's request to its coordinator. member_id: as the request states it. generation_id: or member epoch, as it does."""

    group_id: str = ""
    group_instance_id: str | None = None
    member_id: str = ""
    generation_id: int = NO_GENERATION


@dataclass
class Joins(OfMember):
    """A JoinGroup. given_member_id, given_generation: of the answer. leader: empty in groups of KIP-848."""

    given_member_id: str = ""
    given_generation: int = NO_GENERATION
    leader: str = ""


@dataclass
class Syncs(OfMember):
    """A SyncGroup."""


@dataclass
class Beats(OfMember):
    """A ConsumerGroupHeartbeat. given_member_id, given_epoch: of the answer."""

    given_member_id: str | None = None
    given_epoch: int = 0


@dataclass
class Commits(OfMember):
    """An OffsetCommit or TxnOffsetCommit of partitions, with the error code of each. offset: what is committed."""

    codes: Codes = ()
    offset: int = 0


@dataclass
class SharesState(Exchange):
    """A request about a share group's state of one partition, to its share coordinator.

    leader_epoch: of a read and a write. state_epoch: of an initialization and a write; answered_epoch: of the answer to a read. The code of
    the partition is `error_code`.
    """

    group_id: str = ""
    topic_id: str = ""
    partition: int = 0
    leader_epoch: int = -1
    state_epoch: int = -1
    answered_epoch: int = 0


@dataclass
class UsesShareSession(Exchange):
    """A ShareFetch or ShareAcknowledge of a share group's member. session_epoch: 0 opens a session, -1 closes it."""

    group_id: str = ""
    member_id: str = ""
    session_epoch: int = 0
