"""A simulated KRaft cluster to which more happens: second incarnations, completed reassignments, other nodes' copies of the metadata log.

Follows ClusterControlManager.registerBroker, ReplicationControlManager.alterPartition, and KIP-595, by which a raft leader overwrites
what its predecessor could not commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from prove.history import AlterPartition, CopiedRecord, History, IsrMember, Record, Release
from prove.simulators import quorum_cluster
from prove.simulators.quorum_cluster import BROKERS, Partition, QuorumCluster

RELEASES: Final = quorum_cluster.RELEASES
NEW_LEADER_ELECTED: Final = 108
DUPLICATE_BROKER_REGISTRATION: Final = 101

FAULTS: Final = ("partition created again", "topic id created again", "copies disagree")
REGISTRATION_FAULTS: Final = ("both incarnations obeyed",)
"""What a controller does wrongly whose registrations are recorded."""


@dataclass
class QuorumWithIncidents(QuorumCluster):
    """The cluster and its history so far. terms: the offsets at which raft epochs begin. completes: a reassignment is due."""

    terms: list[int] = field(default_factory=list)
    completes: bool = False

    def faults(self) -> tuple[str, ...]:
        """The breaches that may be planted."""
        return (*super().faults(), *FAULTS, *(REGISTRATION_FAULTS * 2 if self.release.elr else ()))

    def steps(self) -> dict[Callable[[], None], int]:
        """What may happen next, and how often."""
        return super().steps() | {
            self.register_twice: 8 if self.release.elr else 0, self.complete_reassignment: 5, self.begin_term: 4,
            self.create_again: 2,
        }  # fmt: skip

    # -- registrations

    def register_twice(self) -> None:
        """Another process registers under a broker's id: while its session is valid, or when it has just expired."""
        unfenced = [broker for broker, one in self.registrations.items() if not one.fenced and one.alive]
        if len(unfenced) < 2:
            return
        broker = self.choices.choice(unfenced)
        epoch = self.registrations[broker].broker_epoch
        if self.fault not in REGISTRATION_FAULTS and self.choices.random() < 0.5:
            self.incarnations += 1
            incarnation = f"incarnation{self.incarnations:06d}AAAAA"[:21] + "A"
            self.pass_time(250, 600)
            self.answer_registration(broker, incarnation, -1, -1, DUPLICATE_BROKER_REGISTRATION)
            self.heartbeat(broker, epoch)
            return
        self.register(broker, over=True)
        if self.takes("both incarnations obeyed"):
            self.fault = "former incarnation obeyed"
            self.heartbeat(broker, epoch)
        elif self.choices.random() < 0.6:
            self.heartbeat(broker, epoch)

    # -- reassignments

    def complete_reassignment(self) -> None:
        """A reassignment replaces the leader by another replica: the leader's own AlterPartition completes it."""
        pairs = [
            (partition, broker)
            for partition in self.partitions
            for broker in BROKERS
            if self.active(partition.leader) and broker not in partition.replicas and self.active(broker)
            if all(map(self.active, partition.isr))
        ]
        if not pairs:
            return
        partition, new = self.choices.choice(pairs)
        fields = {"addingReplicas": [new], "removingReplicas": [partition.leader]}
        self.write(self.change(partition, replicas=[*partition.replicas, new], **fields))
        self.pass_time(900, 1500)
        self.completes = True
        self.answer(partition, self.request_of(partition, [IsrMember(broker) for broker in [*partition.isr, new]]))
        self.completes = False

    def applied(self, partition: Partition, request: AlterPartition) -> int:
        """PartitionReassignmentReplicas.maybeCompleteReassignment: the removed leader is answered 108, without a state."""
        replicas = [broker for broker in partition.replicas if broker != partition.leader]
        isr = [broker for broker in replicas if broker in {member.broker_id for member in request.new_isr}]
        if not self.completes or not isr:
            return super().applied(partition, request)
        fields: dict[str, Any] = {"replicas": replicas, "addingReplicas": [], "removingReplicas": []}
        if self.release.elr:
            self.write(*self.rebuilt(partition, isr, self.active, **fields))
        else:
            self.write(self.change(partition, isr=isr, leader=isr[0], **fields))
        return NEW_LEADER_ELECTED

    # -- the metadata log

    def begin_term(self) -> None:
        """Another controller becomes raft leader."""
        self.quorum_epoch += 1
        self.terms.append(self.end)
        self.write(("NO_OP_RECORD", 0, {}))

    def create_again(self) -> None:
        """The controller writes a partition as new that it has, or a topic with an id that it has removed."""
        changed = [one for one in self.partitions if one.partition_epoch > 0]
        if changed and self.takes("partition created again"):
            partition = self.choices.choice(changed)
            partition.leader_epoch = partition.partition_epoch = 0
            self.write(("PARTITION_RECORD", 0, self.absolute(partition)))
            self.ended = True
        elif self.removed and self.takes("topic id created again"):
            self.write(("TOPIC_RECORD", 0, {"name": "audit", "topicId": self.removed[-1].topic_id}))
            self.ended = True

    def run(self, steps: int) -> History:
        """Let the cluster run; then a broker may have a copy of its metadata log."""
        super().run(steps)
        disagrees = self.faulty and self.fault is None and self.choices.random() < 0.1
        if disagrees or self.choices.random() < 0.4:
            self._copy("copies disagree" if disagrees else None)
        return self.history

    def _copy(self, fault: str | None) -> None:
        """A broker's copy: up to some batch, or up to the end of a term and then what its raft leader could not commit."""
        log = [event for event in self.history.events if type(event) is Record]
        bases = [record.batch for record in log]
        end = self.choices.choice(self.terms or bases) if self.choices.random() < 0.5 else self.choices.choice(bases)
        copied = [record for record in log if record.offset < end]
        node, last = self.choices.choice(BROKERS), copied[-1] if copied else None
        self.fault = fault
        changed = next((record.offset for record in reversed(copied) if record.kind.startswith("PARTITION_")), -1)
        for record in copied:
            data = dict(record.data)
            if record.offset == changed and self.takes("copies disagree"):
                data["addingReplicas"] = [9]
            self._append(node, replace(record, data=data), record.id)
        if last is not None and end in self.terms:
            for offset in range(end, end + self.choices.randint(1, 3)):
                lost = replace(last, offset=offset, batch=offset, kind="NO_OP_RECORD", version=0, data={"__count": 1})
                self._append(node, lost, -1)

    def _append(self, node: int, record: Record, original: int) -> None:
        self.history.events.append(
            CopiedRecord(
                self._next(), node, record.at, offset=record.offset, epoch=record.epoch, batch=record.batch, kind=record.kind,
                version=record.version, data=record.data, original=original,
            )
        )  # fmt: skip


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a KRaft cluster. faulty: breaches are planted."""
    return QuorumWithIncidents(name, release, choices, faulty).run(steps)
