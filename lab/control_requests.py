"""Requests that a controller sends to brokers, and what a release of Kafka does with each.

Written from Kafka's source, and independent of the rules: KafkaApis.isBrokerEpochStale; ReplicaManager.becomeLeaderOrFollower, stopReplicas
and maybeUpdateMetadataCache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lab.comparison import EXPOSED, FENCED, VIOLATION

LEADER_AND_ISR: Final = "LEADER_AND_ISR"
STOP_REPLICA: Final = "STOP_REPLICA"
UPDATE_METADATA: Final = "UPDATE_METADATA"

NONE: Final = 0
STALE_CONTROLLER_EPOCH: Final = 11
FENCED_LEADER_EPOCH: Final = 74
STALE_BROKER_EPOCH: Final = 77
INCONSISTENT_TOPIC_ID: Final = 103

EPOCH_DURING_DELETE: Final = -2
LEADER_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1

# The newest version of each that the controllers of a release send, and the first release that does.
VERSIONS: Final[Mapping[str, tuple[tuple[tuple[int, int], int], ...]]] = {
    LEADER_AND_ISR: (((3, 4), 7), ((3, 2), 6), ((2, 8), 5), ((2, 4), 4), ((2, 2), 2)),
    STOP_REPLICA: (((3, 4), 4), ((2, 6), 3), ((2, 4), 2), ((2, 2), 1)),
    UPDATE_METADATA: (((3, 4), 8), ((2, 8), 7), ((2, 4), 6), ((2, 2), 5)),
}
LEADER_EPOCH_IN_STOP_REPLICA: Final = 3  # KIP-570
TOPIC_ID_IN_LEADER_AND_ISR: Final = 5  # KIP-516
TOPIC_ID_IN_UPDATE_METADATA: Final = 7
EQUAL_EPOCHS_STOP_FROM: Final = (3, 4, 1)  # KAFKA-13972
# before, the log is opened after the topic id was compared (Partition.checkOrSetTopicId)
FIRST_TOPIC_ID_STORED_FROM: Final = (3, 0)


def version_of(api: str, release: tuple[int, int]) -> int:
    """The version in which the controllers of a release send this request."""
    return next(version for first, version in VERSIONS[api] if release >= first)


@dataclass(frozen=True)
class Epochs:
    """The epochs of a request, or those that ZooKeeper had. A request has no leader epoch if its version has none."""

    controller_epoch: int
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int
    topic_id: str | None = None


@dataclass(frozen=True)
class ControlRequest:
    """A LeaderAndIsr, StopReplica or UpdateMetadata for one partition.

    stated: the epochs of the request. current: those that ZooKeeper has at that moment.
    """

    api: str
    version: int
    broker: int
    topic: str
    partition: int
    stated: Epochs
    current: Epochs
    delete_partition: bool = False

    @property
    def replica(self) -> tuple[int, str, int]:
        return self.broker, self.topic, self.partition

    def fields(self, sender: Mapping[str, int], state: Mapping[str, Any], ports: Mapping[int, int]) -> dict[str, Any]:
        """Those of all versions, by the names of Kafka's schemas.

        sender: `controller_id`, and the `leader` that the request names. state: the partition, as ZooKeeper has it. ports: of all brokers.
        """
        stated = self.stated
        partition = {
            "partition_index": self.partition,
            "controller_epoch": min(state["controller_epoch"], stated.controller_epoch),  # of who wrote the state
            "leader": sender["leader"],
            "leader_epoch": stated.leader_epoch,
            "isr": state["isr"],
            "partition_epoch": stated.partition_epoch,
            "zk_version": stated.partition_epoch,  # by its name in UpdateMetadata
            "replicas": state["replicas"],
            "adding_replicas": [],
            "removing_replicas": [],
            "offline_replicas": [],
            "is_new": False,
            "leader_recovery_state": 0,
            "delete_partition": self.delete_partition,
        }
        topic = {"topic_name": self.topic, "topic_id": stated.topic_id, "partition_states": [partition]}
        host = "127.0.0.1"
        return {
            "controller_id": sender["controller_id"],
            "is_kraft_controller": False,
            "controller_epoch": stated.controller_epoch,
            "broker_epoch": stated.broker_epoch,
            "type": 0,
            "topic_states": [topic],
            "delete_partitions": self.delete_partition,
            "topics": [{"name": self.topic, "partition_indexes": [self.partition]}],  # of StopReplica below version 3
            "live_leaders": [{"broker_id": one, "host_name": host, "port": port} for one, port in ports.items()],
            "live_brokers": [
                {
                    "id": one,
                    "endpoints": [{"port": port, "host": host, "listener": "PLAINTEXT", "security_protocol": 0}],
                    "rack": None,
                }
                for one, port in ports.items()
            ],
        }


@dataclass(frozen=True)
class Outcome:
    """What a release does with a request: the error codes of its answer, and all findings that must name it, as (rule, verdict)."""

    codes: tuple[int, ...]
    findings: frozenset[tuple[str, str]] = frozenset()


@dataclass
class Replicas:
    """What the brokers of a release (major, minor, patch) hold, as control requests change it.

    A replica that no request has changed is as ZooKeeper says. recreated: topics that were deleted and created again. published: topic id
    and leader epoch in the metadata cache.
    """

    release: tuple[int, ...]
    recreated: set[str] = field(default_factory=set)
    deleted: set[tuple[int, str, int]] = field(default_factory=set)
    leader_epochs: dict[tuple[int, str, int], int] = field(default_factory=dict)
    published: dict[tuple[int, str, int], tuple[str | None, int]] = field(default_factory=dict)

    def receive(self, request: ControlRequest) -> Outcome:
        """A broker checks its broker epoch, then the controller epoch, then what the API has."""
        if request.stated.broker_epoch < request.current.broker_epoch:
            return _refused_whole(request, STALE_BROKER_EPOCH, "BE-01")
        if request.stated.controller_epoch < request.current.controller_epoch:
            rule = "UM-01" if request.api == UPDATE_METADATA else "CE-01"
            return _refused_whole(request, STALE_CONTROLLER_EPOCH, rule)
        of_api = {LEADER_AND_ISR: _leader_and_isr, STOP_REPLICA: _stop_replica, UPDATE_METADATA: _update_metadata}
        return of_api[request.api](request, self)


def _refused_whole(request: ControlRequest, code: int, rule: str) -> Outcome:
    """The answer of LeaderAndIsr repeats the code for each partition; that of StopReplica has no partitions."""
    return Outcome((code, code) if request.api == LEADER_AND_ISR else (code,), frozenset({(rule, FENCED)}))


def _leader_and_isr(request: ControlRequest, replicas: Replicas) -> Outcome:
    """Topic id before leader epoch. A broker that has no replica compares neither.

    2.8 has no topic id of a replica that got one LeaderAndIsr, as those of a topic that was created again have.
    """
    sent, held = request.stated, replicas.leader_epochs.get(request.replica, request.current.leader_epoch)
    if request.replica in replicas.deleted:
        replicas.deleted.remove(request.replica)
        replicas.leader_epochs[request.replica] = sent.leader_epoch
        return _applied({("LI-01", EXPOSED)} if sent.leader_epoch < held else set())
    of_another_topic = request.version >= TOPIC_ID_IN_LEADER_AND_ISR and sent.topic_id != request.current.topic_id
    if of_another_topic and (replicas.release >= FIRST_TOPIC_ID_STORED_FROM or request.topic not in replicas.recreated):
        return _refused(INCONSISTENT_TOPIC_ID, "TI-01")
    if sent.leader_epoch < held:
        return _refused(STALE_CONTROLLER_EPOCH, "LI-01")
    if sent.leader_epoch == held:
        return Outcome((NONE, STALE_CONTROLLER_EPOCH))  # the answer to a repetition, whatever its partition epoch
    replicas.leader_epochs[request.replica] = sent.leader_epoch
    return _applied({("TI-01", EXPOSED)} if of_another_topic else set())


def _stop_replica(request: ControlRequest, replicas: Replicas) -> Outcome:
    """Version 3 has a leader epoch. -1 and -2 pass its fence. No version has a topic id: -2 may be meant for a former topic of the name."""
    sent, held = request.stated.leader_epoch, replicas.leader_epochs.get(request.replica, request.current.leader_epoch)
    if request.version < LEADER_EPOCH_IN_STOP_REPLICA:
        findings = {("SR-04", EXPOSED)}
    elif sent == EPOCH_DURING_DELETE and request.topic in replicas.recreated:
        findings = {("SR-07" if request.delete_partition else "SR-03", EXPOSED)}
    elif sent in (NO_EPOCH, EPOCH_DURING_DELETE):
        findings = {("SR-03", VIOLATION)}
    elif sent < held:
        return _refused(FENCED_LEADER_EPOCH, "SR-01")
    elif sent == held and replicas.release < EQUAL_EPOCHS_STOP_FROM:
        return _refused(FENCED_LEADER_EPOCH, "SR-02")
    else:
        findings = set()
    if request.delete_partition:
        replicas.deleted.add(request.replica)
    return _applied(findings)


def _update_metadata(request: ControlRequest, replicas: Replicas) -> Outcome:
    """The metadata cache compares neither topic ids nor leader epochs."""
    current = (request.current.topic_id, request.current.leader_epoch)
    id, epoch = replicas.published.get(request.replica, current)
    sent_id = request.stated.topic_id if request.version >= TOPIC_ID_IN_UPDATE_METADATA else id
    of_former_topic = sent_id not in (id, request.current.topic_id)
    older = sent_id == id and request.stated.leader_epoch < epoch
    replicas.published[request.replica] = sent_id, request.stated.leader_epoch
    return Outcome((NONE,), frozenset({("UM-02", EXPOSED)} if of_former_topic or older else set()))


def _refused(code: int, rule: str) -> Outcome:
    return Outcome((NONE, code), frozenset({(rule, FENCED)}))


def _applied(findings: set[tuple[str, str]]) -> Outcome:
    return Outcome((NONE, NONE), frozenset(findings))
