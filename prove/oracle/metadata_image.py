"""The KRaft metadata log, replayed record by record, and the requests that were decided in its images.

A request that wrote a record is judged by the state before that record. Any other request is judged by the state in which the
controller answered it: histories keep a quarter of a second between requests and records.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from prove.history import AlterPartition, History, Key, Record
from prove.oracle.verdicts import at

NO_BUMP_ON_SHRINK: Final = 12
MADE: Final = (0, 108)
"""Codes of an AlterPartition whose change is made; with 108 it has taken the leadership from the sender."""
MIN_ISR: Final = "min.insync.replicas"


@dataclass
class Registration:
    """A broker's registration as the records leave it."""

    broker_epoch: int
    incarnation: str
    fenced: bool
    shutting_down: bool
    log_dirs: list[str] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """It may be a member of ISRs."""
        return not self.fenced and not self.shutting_down


@dataclass
class Partition:
    """A partition as the records leave it."""

    topic: str
    topic_id: str
    number: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int = 0
    elr: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)

    def change(self, data: dict[str, Any]) -> None:
        """Apply a PartitionChangeRecord."""
        self.isr = data.get("isr", self.isr)
        self.replicas = data.get("replicas", self.replicas)
        self.recovery = data.get("leaderRecoveryState", self.recovery)
        self.elr = data.get("eligibleLeaderReplicas", self.elr)
        self.directories = data.get("directories", self.directories)
        self.last_known_elr = data.get("lastKnownElr", self.last_known_elr)
        self.adding = data.get("addingReplicas", self.adding)
        self.removing = data.get("removingReplicas", self.removing)
        if "leader" in data:
            self.leader = data["leader"]
            self.leader_epoch += 1
        self.partition_epoch += 1


@dataclass
class Image:
    """The metadata image after some records. over: fenced brokers that registered over an incarnation that was not fenced."""

    brokers: dict[int, Registration] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)
    unclean: dict[str, bool] = field(default_factory=dict)
    metadata_version: int = 0
    elr_level: int = 0
    min_isr: dict[str, int] = field(default_factory=dict)

    def apply(self, record: Record) -> Partition | None:
        """Apply a record, and return the partition that it changed."""
        data: Any = record.data
        if record.kind == "FEATURE_LEVEL_RECORD" and data["name"] == "metadata.version":
            self.metadata_version = data["featureLevel"]
        elif record.kind == "FEATURE_LEVEL_RECORD":
            self.elr_level = data["featureLevel"]
        elif record.kind == "REGISTER_BROKER_RECORD":
            former = self.brokers.get(data["brokerId"])
            if former is not None and not former.fenced and former.incarnation != data["incarnationId"]:
                self.over.add(data["brokerId"])
            self.brokers[data["brokerId"]] = Registration(
                data["brokerEpoch"],
                data["incarnationId"],
                data["fenced"],
                data["inControlledShutdown"],
                data.get("logDirs", []),
            )
        elif record.kind == "UNREGISTER_BROKER_RECORD":
            del self.brokers[data["brokerId"]]
            self.over.discard(data["brokerId"])
        elif record.kind == "BROKER_REGISTRATION_CHANGE_RECORD":
            registration = self.brokers[data["brokerId"]]
            if data.get("fenced", 0) == -1:
                self.over.discard(data["brokerId"])
            registration.fenced = {1: True, -1: False}.get(data.get("fenced", 0), registration.fenced)
            registration.log_dirs = data.get("logDirs") or registration.log_dirs
            registration.shutting_down = registration.shutting_down or data.get("inControlledShutdown", 0) == 1
        elif record.kind == "TOPIC_RECORD":
            self.names[data["topicId"]] = data["name"]
        elif record.kind == "CONFIG_RECORD" and data["name"] == MIN_ISR:
            self.min_isr[data["resourceName"]] = int(data["value"])
        elif record.kind == "CONFIG_RECORD":
            self.unclean[data["resourceName"]] = data["value"] == "true"
        elif record.kind == "REMOVE_TOPIC_RECORD":
            self.min_isr.pop(self.names[data["topicId"]], None)
            self.unclean.pop(self.names[data["topicId"]], None)
            self.partitions = {key: one for key, one in self.partitions.items() if key[0] != data["topicId"]}
        elif record.kind == "PARTITION_RECORD":
            key = data["topicId"], data["partitionId"]
            self.partitions[key] = Partition(
                self.names[key[0]], *key, data["replicas"], data["isr"], data["leader"], data["leaderEpoch"],
                data["partitionEpoch"], directories=data.get("directories", []), adding=data.get("addingReplicas", []),
                removing=data.get("removingReplicas", []),
            )  # fmt: skip
            return self.partitions[key]
        elif record.kind == "PARTITION_CHANGE_RECORD":
            partition = self.partitions[data["topicId"], data["partitionId"]]
            partition.change(data)
            return partition
        return None


@dataclass(frozen=True)
class Change:
    """A record of a partition. image: after the record. before: the partition before it, None if the record creates it."""

    record: Record
    image: Image
    before: Partition | None
    after: Partition


def records(history: History) -> list[Record]:
    """The metadata log."""
    return [event for event in history.events if type(event) is Record]


def images(history: History) -> list[Image]:
    """The image after each offset. Copies: slow and plain."""
    image, result = Image(), []
    for record in records(history):
        image.apply(record)
        result.append(deepcopy(image))
    return result


def changes(history: History) -> Iterator[Change]:
    """Each record of a partition."""
    image = Image()
    for record in records(history):
        before = deepcopy(image)
        partition = image.apply(record)
        if partition is not None:
            key = partition.topic_id, partition.number
            yield Change(record, deepcopy(image), before.partitions.get(key), deepcopy(partition))


def of_change(change: Change) -> Key:
    """The subject of a partition's record."""
    return at(change.record, change.after.topic, change.after.number)


@dataclass(frozen=True)
class Asked:
    """An AlterPartition with the image in which it was decided. partition: None if the topic is not there."""

    request: AlterPartition
    image: Image
    partition: Partition | None

    @property
    def subject(self) -> Key:
        """The request's line and partition."""
        name = self.image.names.get(self.request.topic_id)
        return at(self.request, name, self.request.partition)


def asked(history: History) -> Iterator[Asked]:
    """The AlterPartition requests that were not refused as a whole."""
    after = images(history)
    for event in history.events:
        if isinstance(event, AlterPartition) and event.error_code == 0:
            image = after[event.decided_at_offset - 1]
            yield Asked(event, image, image.partitions.get((event.topic_id, event.partition)))


def is_active(image: Image, broker: int) -> bool:
    registration = image.brokers.get(broker)
    return registration is not None and registration.active
