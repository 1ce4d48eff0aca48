"""What a history consists of: the events that hosts logged, each in the order of its host.

A simulator makes histories, `rendering` writes them as the lines that Kafka would have written, and the oracles judge them.
All times are milliseconds of the host's own clock. Fields have Kafka's names in snake_case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

LEADER_AND_ISR: Final = "LEADER_AND_ISR"
STOP_REPLICA: Final = "STOP_REPLICA"
UPDATE_METADATA: Final = "UPDATE_METADATA"
FETCH: Final = "FETCH"
LIST_OFFSETS: Final = "LIST_OFFSETS"
OFFSET_FOR_LEADER_EPOCH: Final = "OFFSET_FOR_LEADER_EPOCH"
OFFSET_COMMIT: Final = "OFFSET_COMMIT"
OFFSET_FETCH: Final = "OFFSET_FETCH"

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
EPOCH_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1


def since(version: str, *parts: int) -> bool:
    """Whether the version of Kafka is this one or a later one."""
    return tuple(int(part) for part in version.split(".")) >= parts


TopicPartition = tuple[str, int]
Verdict = tuple[str, str, "Key"]
"""(rule, verdict, subject): what the oracle and the product are compared by."""
Software = tuple[str, str]
"""(name, version) of a client's software, as its ApiVersions request states them."""
UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")
Key = tuple[object, ...]
"""A subject: (id of its own event, topic, partition) where it has a line of its own, or the values that name it."""


class OfPartition:
    """What is about one partition: a state, a line or a request."""

    topic: str
    partition: int

    @property
    def name(self) -> TopicPartition:
        """The topic's name and the partition's number."""
        return self.topic, self.partition


@dataclass(frozen=True)
class State(OfPartition):
    """A partition's state as a ZooKeeper controller knows it. replicas, isr: broker ids."""

    topic: str
    partition: int
    topic_id: str | None
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    is_new: bool = False


@dataclass(frozen=True)
class Stop(OfPartition):
    """A partition of a StopReplica. leader_epoch: -2 while the topic is deleted."""

    topic: str
    partition: int
    leader_epoch: int
    delete: bool


@dataclass(frozen=True)
class Start(OfPartition):
    """The line with which a replica starts at a leader epoch. offset: its log end. previous_epoch: the epoch that it held."""

    leads: bool
    topic: str
    partition: int
    topic_id: str | None
    leader: int
    leader_epoch: int
    partition_epoch: int
    offset: int
    high_watermark: int
    isr: tuple[int, ...]
    previous_epoch: int
    previous_leader: int | None


@dataclass
class Event:
    """Something that a host logged. id: unique in the history. node: the host's id. at: when its own line was written."""

    id: int
    node: int
    at: int


@dataclass
class ProcessStarts(Event):
    """A broker's process starts and registers. version: Kafka's. broker_epoch: czxid of its znode."""

    version: str = ""
    broker_epoch: int = -1


@dataclass
class Registered(Event):
    """A broker's process registers again, as its ZooKeeper session had expired. broker_epoch: czxid of its znode."""

    broker_epoch: int = -1


@dataclass
class ShutsDown(Event):
    """A broker's process begins a controlled shutdown."""


@dataclass
class Control(Event):
    """A request of a ZooKeeper controller that a broker handled and answered.

    `at` is the time of the request log's line. arrived, handled, finished: milliseconds. error_code: of the whole response.
    codes: error code of each partition, in the order of `partitions`; empty if the response lists none. starts: replicas
    that started while it was handled; skipped: those that do not, as their leader epoch is not higher. unavailable: partitions
    whose new leader was not alive. seen: it has lines in state-change.log.
    """

    api: str = ""
    version: int = 0
    correlation_id: int = 0
    controller_id: int = 0
    controller_epoch: int = 0
    broker_epoch: int = -1
    partitions: tuple[State | Stop, ...] = ()
    live_brokers: tuple[int, ...] = ()
    error_code: int = 0
    codes: tuple[int, ...] = ()
    starts: tuple[Start, ...] = ()
    skipped: tuple[Start, ...] = ()
    unavailable: tuple[TopicPartition, ...] = ()
    arrived: int = 0
    handled: int = 0
    finished: int = 0
    seen: bool = True
    connection: int = 0
    latest_controller_epoch: int = 0
    held_epochs: tuple[int, ...] = ()


@dataclass
class Query(Event, OfPartition):
    """A Fetch, ListOffsets or OffsetForLeaderEpoch for one partition, answered by a broker.

    replica_id: -1 of a consumer. current_leader_epoch: which the requester knows, -1: none. epoch: which an
    OffsetForLeaderEpoch asks about, or the last fetched epoch of a Fetch. offset: fetch offset. answered_epoch, end_offset: of the
    answer. diverging: (epoch, end offset) or None. high_watermark, last_stable_offset: of a Fetch's answer. A Fetch begins a new session.
    replica_epoch: broker epoch that a follower states; replica_log_start: its log start offset. hint: (leader, leader epoch) of a refusal.
    timestamp: of a ListOffsets, -1: the latest offset, -2: the earliest.
    """

    api: str = FETCH
    version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    replica_id: int = -1
    topic: str = ""
    topic_id: str | None = None
    partition: int = 0
    current_leader_epoch: int = -1
    epoch: int = -1
    offset: int = 0
    error_code: int = 0
    answered_epoch: int = -1
    end_offset: int = -1
    high_watermark: int = -1
    last_stable_offset: int | None = None
    log_start_offset: int = 0
    replica_epoch: int = -1
    replica_log_start: int = 0
    timestamp: int = -1
    hint: tuple[int, int] | None = None
    records_size: int = 0
    diverging: tuple[int, int] | None = None
    session_id: int = 0
    arrived: int = 0
    connection: int = 0
    software: Software = UNKNOWN_SOFTWARE


@dataclass
class GroupOffset(Event, OfPartition):
    """An OffsetCommit or OffsetFetch of a group for one partition, answered 0 by its coordinator.

    offset: the committed one, -1 of an OffsetFetch: the group has none. leader_epoch: of the record before it, -1: none, None: the
    version has no such field.
    """

    api: str = OFFSET_COMMIT
    version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    software: Software = UNKNOWN_SOFTWARE
    group_id: str = ""
    topic: str = ""
    partition: int = 0
    offset: int = -1
    leader_epoch: int | None = None
    arrived: int = 0
    connection: int = 0


@dataclass
class Started(Event):
    """A KRaft broker's line: a replica starts at a leader epoch."""

    start: Start | None = None


@dataclass
class PartitionCreated(Event, OfPartition):
    """A KRaft broker's line: it creates a replica of a topic that is new to it."""

    topic: str = ""
    topic_id: str = ""
    partition: int = 0


@dataclass
class IsrUpdated(Event):
    """A leader's line: the ISR that it has taken over."""

    topic: str = ""
    partition: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = 0


@dataclass
class IsrReset(Event):
    """A leader's line: it has gone back to the committed ISR, as the controller has refused another one as ineligible."""

    topic: str = ""
    partition: int = 0
    leader_epoch: int = 0
    partition_epoch: int = 0
    error_code: int = 0
    isr: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()


@dataclass
class LogTruncated(Event, OfPartition):
    """A follower's line: it truncates to an offset, as its leader has answered that an epoch ends at another one."""

    topic: str = ""
    partition: int = 0
    leader: int = 0
    offset: int = 0
    diverging_epoch: int = 0
    diverging_end_offset: int = 0


@dataclass
class HighWatermarkLowered(Event, OfPartition):
    """A replica's line: its high watermark falls."""

    topic: str = ""
    partition: int = 0
    before: int = 0
    after: int = 0


@dataclass
class Produced(Event, OfPartition):
    """A Produce of one batch for one partition, answered by a broker. acks: -1 for all. base_offset: of an answer 0.

    hint: (leader, leader epoch) of a refusal.
    """

    version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    topic: str = ""
    topic_id: str = ""
    partition: int = 0
    acks: int = -1
    error_code: int = 0
    base_offset: int = -1
    log_start_offset: int = 0
    hint: tuple[int, int] | None = None
    arrived: int = 0
    connection: int = 0


@dataclass
class RecordsDeleted(Event, OfPartition):
    """A DeleteRecords for one partition, answered by a broker. offset: records below it are deleted, -1: below the high watermark."""

    version: int = 2
    correlation_id: int = 0
    client_id: str = ""
    topic: str = ""
    partition: int = 0
    offset: int = -1
    low_watermark: int = -1
    error_code: int = 0
    arrived: int = 0
    connection: int = 0


@dataclass
class LogStartRaised(Event, OfPartition):
    """A replica's line: its log starts at a higher offset. follows: as its leader's does."""

    topic: str = ""
    partition: int = 0
    offset: int = 0
    follows: bool = False


METADATA_STATES_EPOCHS: Final = 7
METADATA_IS_RELIABLE: Final = 9
"""Versions of Metadata since which it has leader epochs, and since which clients rely on them."""
CLIENT_HOST: Final = 0
"""The host of clients, which is no node."""
FIRST_EPOCH_SEEN: Final = "first epoch"
EPOCH_SEEN: Final = "epoch of metadata"
EPOCH_RAISED: Final = "epoch of another answer"
EPOCH_IGNORED: Final = "older epoch"
EPOCH_NOT_KNOWN: Final = "no epoch to compare"
HINT_TAKEN: Final = "hint taken"
HINT_IGNORED: Final = "hint not newer"
HINT_OF_UNKNOWN_BROKER: Final = "hint at an unknown broker"
TRUNCATION_DIVERGED: Final = "truncation, from the diverging offset on"
TRUNCATION_RESET: Final = "truncation, reset"
OUT_OF_RANGE_RESET: Final = "position out of range"
POSITION_RESET: Final = "new position"


@dataclass
class ClientLine(Event, OfPartition):
    """A line of a client's log. log: its file. instance: the process. kind: one of the above.

    known: the leader epoch that the client knew before, None: none. leader, leader_epoch: of the answer, or of the leader of a position.
    position: (offset, leader epoch of the record before); new_position: where a line says that it went.
    """

    kind: str = ""
    log: str = ""
    client_id: str = ""
    group_id: str = ""
    instance: str = ""
    topic: str = ""
    partition: int = 0
    leader: int = -1
    leader_epoch: int = -1
    known: int | None = None
    position: tuple[int, int] | None = None
    new_position: tuple[int, int] | None = None


@dataclass
class MetadataAnswer(Event):
    """A Metadata request for one topic. partitions: (number, leader, leader epoch, replicas, ISR) of the answer."""

    version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    topic: str = ""
    topic_id: str = ""
    partitions: tuple[tuple[int, int, int, tuple[int, ...], tuple[int, ...]], ...] = ()
    arrived: int = 0
    connection: int = 0


@dataclass
class Decision(Event):
    """A controller's line: a partition's state has changed. target: the state's name. uncommitted: the kind of state before."""

    controller_epoch: int = 0
    state: State | None = None
    before: str = "OnlinePartition"


@dataclass
class Elected(Event):
    """A controller's line: it was elected under a controller epoch."""

    controller_epoch: int = 0


@dataclass
class Record(Event):
    """A record of the KRaft metadata log. offset: its place. epoch: of the quorum. batch: base offset of its batch.

    kind: Kafka's name of the record type. data: its fields in Kafka's JSON names; defaults are left out.
    """

    offset: int = 0
    epoch: int = 1
    batch: int = 0
    kind: str = ""
    version: int = 0
    data: dict[str, object] = field(default_factory=dict)


@dataclass
class CopiedRecord(Record):
    """A record in another node's copy of the metadata log. original: id of the record that it copies, -1: it was never committed."""

    original: int = -1


@dataclass(frozen=True)
class IsrMember:
    """A member of a requested ISR. broker_epoch: -1 if the request states none."""

    broker_id: int
    broker_epoch: int = -1


@dataclass
class AlterPartition(Event):
    """A leader's request for a new ISR, of one partition, answered by the KRaft controller.

    recovery: leaderRecoveryState, 1: RECOVERING. partition_epoch_after: of the answer.
    records_until: the first metadata offset that was written after the decision.
    """

    version: int = 3
    correlation_id: int = 0
    broker_id: int = 0
    broker_epoch: int = 0
    topic: str = ""
    topic_id: str = ""
    partition: int = 0
    leader_epoch: int = 0
    partition_epoch: int = 0
    new_isr: tuple[IsrMember, ...] = ()
    recovery: int = 0
    error_code: int = 0
    partition_error: int | None = None
    leader_after: int = 0
    leader_epoch_after: int = 0
    isr_after: tuple[int, ...] = ()
    partition_epoch_after: int = 0
    arrived: int = 0
    decided_at_offset: int = 0


@dataclass
class BrokerRegistration(Event):
    """A BrokerRegistration, answered by the KRaft controller. previous_broker_epoch: of the last clean shutdown, -1: none."""

    correlation_id: int = 0
    broker_id: int = 0
    incarnation_id: str = ""
    previous_broker_epoch: int = -1
    broker_epoch: int = 0
    error_code: int = 0
    arrived: int = 0


@dataclass
class Heartbeat(Event):
    """A BrokerHeartbeat, answered by the KRaft controller.

    current_metadata_offset: of the last record that the broker has read. decided_at_offset: the metadata log's end when it was answered.
    """

    correlation_id: int = 0
    broker_id: int = 0
    broker_epoch: int = 0
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    error_code: int = 0
    is_fenced: bool = False
    should_shut_down: bool = False
    arrived: int = 0
    decided_at_offset: int = 0


@dataclass
class RaftRequest(Event):
    """A request of the metadata quorum, or a Fetch of the metadata log, answered by a controller.

    sender: the candidate, leader or follower. asked: the epoch that it states. answered_leader, answered_epoch: of the answer.
    offset, last_epoch: the sender's log end, and the epoch of its last record. waits: the answer waited for records.
    cluster: number of the cluster id that it states.
    """

    api: str = ""
    cluster: int = 0
    version: int = 0
    correlation_id: int = 0
    sender: int = 0
    asked: int = 0
    pre_vote: bool = False
    offset: int = 0
    last_epoch: int = 0
    error_code: int = 0
    answered_leader: int = -1
    answered_epoch: int = -1
    vote_granted: bool = False
    high_watermark: int = -1
    diverging: tuple[int, int] | None = None
    waits: bool = False
    arrived: int = 0


@dataclass
class RaftTransition(Event):
    """A line of a controller of the quorum: its new state. leader: of the epoch, -1 if it knows none. voted: for whom, in the epoch."""

    state: str = ""
    epoch: int = 0
    leader: int = -1
    voted: int | None = None

    def stated_vote(self, version: str) -> int | None:
        """For whom the line says that the node has voted: states print that since other releases."""
        if self.state == "Candidate":
            return self.node
        since_4, since_3_9 = since(version, 4, 0), since(version, 3, 9)
        states = ("Unattached", "Follower", "Prospective") if since_4 else ("Unattached",) if since_3_9 else ("Voted",)
        return self.voted if self.state in states else None


@dataclass
class SessionFetch(Event):
    """A Fetch of a session, answered by a broker. listed, forgotten, answered: partitions of the one topic.

    session_id: of the session that it creates or belongs to. session_epoch: 0 creates one. error_code: of the whole request.
    """

    version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    session_id: int = 0
    session_epoch: int = 0
    listed: tuple[int, ...] = ()
    forgotten: tuple[int, ...] = ()
    answered: tuple[int, ...] = ()
    error_code: int = 0
    arrived: int = 0


@dataclass
class SettingPrinted(Event):
    """A broker's lines about a setting, which it prints as it starts."""

    name: str = ""
    value: str = ""


@dataclass
class IsrLine(Event, OfPartition):
    """A leader's line about an ISR that it writes to ZooKeeper. kind: `expanding`, `shrinking`, `updated` or `skipped`.

    before: the ISR before. partition_epoch: the znode's version, which the leader has.
    """

    kind: str = ""
    topic: str = ""
    partition: int = 0
    isr: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    partition_epoch: int = 0


@dataclass
class LogLine(Event, OfPartition):
    """A broker's line about a replica's log or its leader epoch cache.

    kind: names the line (`prove.rendering.server_log`). epoch, offset: of the entry, or the offset to which something was cut.
    entries: how many the cache has then.
    """

    kind: str = ""
    topic: str = ""
    partition: int = 0
    epoch: int = -1
    offset: int = 0
    entries: int = 0


@dataclass
class StrayFound(Event, OfPartition):
    """A broker's line: it has the folder of a replica that it should not have. reason: `deleted`, `unassigned` or `no id`.

    topic_id: None if the folder has none.
    """

    topic: str = ""
    topic_id: str | None = None
    partition: int = 0
    reason: str = ""


@dataclass
class StrayRenamed(Event, OfPartition):
    """A broker's line: it has renamed the folder of such a replica."""

    topic: str = ""
    partition: int = 0


@dataclass
class CheckpointEntry(Event, OfPartition):
    """An entry of a copied leader-epoch-checkpoint, of count entries in all: the number of it. folder: of the replica."""

    folder: str = ""
    topic: str = ""
    partition: int = 0
    epoch: int = 0
    offset: int = 0
    number: int = 0
    count: int = 0


@dataclass
class BatchRun(Event, OfPartition):
    """Batches of one leader epoch in a copied segment, from offset base to last. folder: of the replica. segment: its base offset.

    batch_records: of a batch, at most. content: batches with another content have another checksum.
    """

    folder: str = ""
    topic: str = ""
    partition: int = 0
    segment: int = 0
    epoch: int = 0
    base: int = 0
    last: int = 0
    batch_records: int = 9
    content: int = 0


@dataclass
class OffsetCheckpoint(Event):
    """A copied replication-offset-checkpoint. high_watermarks: (topic, partition, high watermark) of each entry."""

    high_watermarks: tuple[tuple[str, int, int], ...] = ()


@dataclass
class PartitionMetadata(Event):
    """A copied partition.metadata. folder: of the replica."""

    folder: str = ""
    topic_id: str = ""


@dataclass
class LiveBrokersLine(Event):
    """A ZooKeeper controller's line about the brokers that it knows, with their broker epochs.

    kind: `Initialized` as it is elected, `changed` as it reads from ZooKeeper who is registered, `Updated` when it has taken that over,
    `leaving` as it begins a controlled shutdown: leaving is then the broker.
    """

    kind: str = ""
    live: tuple[tuple[int, int], ...] = ()
    added: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()
    bounced: tuple[int, ...] = ()
    leaving: int = -1


ZOOKEEPER: Final = "ZooKeeper"
ZOOKEEPER_DATA_PLANE: Final = "ZooKeeper data plane"
ISR_IN_ZOOKEEPER: Final = "ISR in ZooKeeper"
ISR_AT_ZOOKEEPER_CONTROLLER: Final = "ISR at a ZooKeeper controller"
KRAFT: Final = "KRaft"
KRAFT_DATA_PLANE: Final = "data plane"
CONTROLLER_QUORUM: Final = "quorum"
FETCH_SESSIONS: Final = "fetch sessions"
STRAY_REPLICAS: Final = "stray replicas"
LOGS_ON_DISK: Final = "logs on disk"
REPLICA_LOGS: Final = "logs of replicas"
TIERED_TOPICS: Final = "tiered topics"
EPOCH_CACHES: Final = "epoch caches"
RECREATED_TOPICS: Final = "recreated topics"
PRODUCERS: Final = "producers"
GROUP_MEMBERS: Final = "group members"
SHARE_GROUPS: Final = "share groups"

Family = Literal["text", "json", "kraft"]


@dataclass(frozen=True)
class Release:
    """A release of Kafka in one kind of history: the kind decides the simulator and the rules.

    family: how its request log prints, or KRaft. Versions of APIs are the highest that it speaks.
    elr: its controllers keep eligible leader replicas (KIP-966). protocol: inter.broker.protocol.version, if it is an older one.
    """

    kind: str
    version: str
    family: Family
    leader_and_isr: int = 0
    stop_replica: int = 0
    update_metadata: int = 0
    fetch: int = 0
    list_offsets: int = 0
    offset_for_leader_epoch: int = 0
    refuses_equal_stop: bool = False
    metadata_version: int = 0
    alter_partition: int = 3
    produce: int = 0
    metadata: int = 0
    elr: bool = False
    protocol: str = ""

    @property
    def skips_equal_epochs(self) -> bool:
        """A replica starts by a higher leader epoch only."""
        return since(self.version, 3, 3)


@dataclass
class History:
    """Events of one cluster, in the order in which they happened. faults: names of the breaches that were planted."""

    name: str
    release: Release
    events: list[Event] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def of(self, node: int) -> list[Event]:
        """The events that a host logged, in the order in which it handled them."""
        return [event for event in self.events if event.node == node]

    @property
    def nodes(self) -> list[int]:
        """The ids of the hosts that logged something."""
        return sorted({event.node for event in self.events})
