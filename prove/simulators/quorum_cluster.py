"""A simulated KRaft cluster: its controller, the metadata log that it writes, and the requests of its brokers.

The state machine follows ReplicationControlManager (alterPartition, validateAlterPartitionData, handleBrokerFenced,
handleBrokerUnfenced, handleBrokerInControlledShutdown, handleBrokerShutdown), PartitionChangeBuilder, PartitionRegistration.merge
and ClusterControlManager, without eligible leader replicas or with them. A fault makes the controller break one rule, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from prove.history import (
    KRAFT,
    AlterPartition,
    BrokerRegistration,
    Heartbeat,
    History,
    IsrMember,
    ProcessStarts,
    Record,
    Release,
)
from prove.simulators.simulation import Simulation

CONTROLLER: Final = 100
BROKERS: Final = (1, 2, 3, 4)
NO_BUMP_ON_SHRINK: Final = 12
DIRECTORIES: Final = 17
REPLICA_EPOCHS: Final = 10

RELEASES: Final = (
    Release(KRAFT, "3.3.2", "kraft", metadata_version=7, alter_partition=2),
    Release(KRAFT, "3.5.2", "kraft", metadata_version=11, alter_partition=3),
    Release(KRAFT, "3.6.2", "kraft", metadata_version=14, alter_partition=3),
    Release(KRAFT, "3.9.1", "kraft", metadata_version=21, alter_partition=3),
    Release(KRAFT, "4.1.2", "kraft", metadata_version=25, alter_partition=3),
    Release(KRAFT, "4.1.2", "kraft", metadata_version=27, alter_partition=3, elr=True),
    Release(KRAFT, "4.3.1", "kraft", metadata_version=30, alter_partition=3, elr=True),
)

REQUEST_FAULTS: Final = (
    "ineligible member accepted",
    "stale leader epoch accepted",
    "stale partition epoch accepted",
    "epoch ahead accepted",
    "follower accepted",
    "former incarnation obeyed",
    "current leader refused",
    "foreign code",
    "refused without reason",
    "removed topic altered",
)
"""What the controller does wrong with one request."""

RECORD_FAULTS: Final = (
    "stays in the ISR",
    "fenced broker elected",
    "leader outside the ISR",
    "created on a fenced broker",
    "unclean election not allowed",
    "leader epoch raised without reason",
    "leader epoch not raised",
    "states set back",
    "old broker epoch registered",
    "member that is no replica",
    "quorum epoch falls",
    "topic replaced without deletion",
)
"""What the controller writes wrongly."""

ELR_FAULTS: Final = (
    "eligible replica in the ISR",
    "eligible replica out of nowhere",
    "elected past the ISR",
    "eligible replicas remain above min ISR",
    "unclean incarnation stays eligible",
    "eligible replica forgotten",
)
"""What a controller that keeps eligible leader replicas writes wrongly."""
FORGETS_ON_ASSIGNMENT: Final = 30
"""The first metadata.version without controllers that empty the ELR when a replica is assigned to a log directory."""


@dataclass
class Registration:
    """A broker's registration. alive: its process runs. incarnation: number of its processes so far. registered: offset of its record."""

    broker_epoch: int
    incarnation: int
    fenced: bool = True
    shutting_down: bool = False
    alive: bool = True
    registered: int = 0

    @property
    def active(self) -> bool:
        """It may be a member of ISRs."""
        return not self.fenced and not self.shutting_down


@dataclass
class Partition:
    """A partition's registration."""

    topic: str
    topic_id: str
    number: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False
    elr: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)


@dataclass
class QuorumCluster(Simulation):
    """The cluster and its history so far. choices decides all that is not determined."""

    skew: int = 0
    end: int = 0
    registrations: dict[int, Registration] = field(default_factory=dict)
    former: dict[int, int] = field(default_factory=dict)
    incarnations: int = 0
    partitions: list[Partition] = field(default_factory=list)
    removed: list[Partition] = field(default_factory=list)
    topics_made: int = 0
    quorum_epoch: int = 1
    ended: bool = False
    unclean: dict[str, bool] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)

    # -- records

    def write(self, *records: tuple[str, int, dict[str, Any]]) -> int:
        """Append one batch to the metadata log, and return its base offset."""
        falls = records[0][0] == "NO_OP_RECORD" and self.takes("quorum epoch falls")
        base = self.end
        for kind, version, data in records:
            shown = dict(data)
            if self.end == base:
                shown["__count"] = len(records)
            self.history.events.append(
                Record(
                    self._next(),
                    CONTROLLER,
                    self.now,
                    offset=self.end,
                    epoch=0 if falls else self.quorum_epoch,
                    batch=base,
                    kind=kind,
                    version=version,
                    data=shown,
                )
            )
            self.end += 1
        return base

    def change(self, partition: Partition, **fields: Any) -> tuple[str, int, dict[str, Any]]:
        """A PartitionChangeRecord, which is applied to the partition. fields: isr, leader, replicas, leaderRecoveryState."""
        data: dict[str, Any] = {"partitionId": partition.number, "topicId": partition.topic_id}
        shrinks = "isr" in fields and not set(partition.isr) <= set(fields["isr"])
        removes = "replicas" in fields and not set(partition.replicas) <= set(fields["replicas"])
        old = self.release.metadata_version < NO_BUMP_ON_SHRINK
        raises = (removes or (shrinks and old)) and "leader" not in fields
        without_reason = not raises and "leader" not in fields and "isr" in fields
        if (raises and not self.takes("leader epoch not raised")) or (
            without_reason and self.takes("leader epoch raised without reason")
        ):
            fields["leader"] = partition.leader
        data |= fields
        partition.isr = list(fields.get("isr", partition.isr))
        partition.replicas = list(fields.get("replicas", partition.replicas))
        if "leader" in fields:
            partition.leader = fields["leader"]
            partition.leader_epoch += 1
        if "leaderRecoveryState" in fields:
            partition.recovering = fields["leaderRecoveryState"] == 1
        partition.elr = list(fields.get("eligibleLeaderReplicas", partition.elr))
        partition.last_known_elr = list(fields.get("lastKnownElr", partition.last_known_elr))
        partition.partition_epoch += 1
        version = 2 if self.release.elr else 1 if self.release.metadata_version >= DIRECTORIES else 0
        return "PARTITION_CHANGE_RECORD", version, data

    # -- eligible leader replicas

    def active(self, broker: int) -> bool:
        """A broker may be a member of ISRs."""
        registration = self.registrations.get(broker)
        return registration is not None and registration.active

    def rebuilt(
        self,
        partition: Partition,
        isr: list[int],
        live: Callable[[int], bool],
        unclean_shutdown: int | None = None,
        **fields: Any,
    ) -> list[tuple[str, int, dict[str, Any]]]:
        """PartitionChangeBuilder.build with eligible leader replicas: the record for another ISR, or none if nothing changes.

        live: whether a broker may lead. fields: what else the record sets.
        """
        before = partition.elr
        required = min(self.min_isr[partition.topic_id], self._replicas_of_partition_0(partition))
        complete = {*before, *partition.isr} - {*isr, unclean_shutdown}
        elr = [] if len(isr) >= required else sorted(broker for broker in complete if broker is not None)
        stranger = next((b for b in partition.replicas if b not in isr and b not in complete), None)
        if elr and stranger is not None and self.takes("eligible replica out of nowhere"):
            elr = sorted([*elr, stranger])
        elif len(elr) > 1 and {*before} & {*elr} and self.takes("eligible replica forgotten"):
            elr.remove(next(iter({*before} & {*elr})))
        elif before and len(isr) >= required and {*before} & {*isr} and self.takes("eligible replica in the ISR"):
            elr = sorted({*before} & {*isr})
        elif {*before} - {*isr} and len(isr) >= required and self.takes("eligible replicas remain above min ISR"):
            elr = sorted({*before} - {*isr})
        leader, unclean = self._elected(partition, isr, elr, live)
        if leader != partition.leader:
            fields["leader"] = leader
            if leader in elr:
                isr, elr = [leader], [member for member in elr if member != leader]
            elif unclean:
                isr, elr = [leader], []
                if not partition.recovering:
                    fields["leaderRecoveryState"] = 1
        if isr != partition.isr:
            fields["isr"] = isr
        if elr != before:
            fields["eligibleLeaderReplicas"] = elr
        if fields.get("isr") == [] and partition.last_known_elr != [partition.leader]:
            fields["lastKnownElr"] = [partition.leader]
        elif partition.last_known_elr and (leader >= 0 or partition.leader != -1):
            fields["lastKnownElr"] = []
        return [self.change(partition, **fields)] if fields else []

    def _elected(
        self, partition: Partition, isr: list[int], elr: list[int], live: Callable[[int], bool]
    ) -> tuple[int, bool]:
        """PartitionChangeBuilder.electAnyLeader: (leader, whether the election is unclean)."""
        live = partial(self._acceptable, partition, live)
        eligible = [member for member in elr if live(member)]
        if isr and eligible and partition.leader not in isr and self.takes("elected past the ISR"):
            return eligible[0], False
        may_lead = [r for r in partition.replicas if (r in isr or (not isr and r in elr)) and live(r)]
        if partition.leader in may_lead:
            return partition.leader, False
        if may_lead:
            return may_lead[0], False
        last = partition.last_known_elr
        if not isr and not elr and len(last) == 1 and live(last[0]):
            return last[0], True
        others = [replica for replica in partition.replicas if live(replica)]
        if self.unclean[partition.topic_id] and others:
            return others[0], True
        return -1, False

    def _acceptable(self, partition: Partition, live: Callable[[int], bool], broker: int) -> bool:
        return live(broker) and self.online(broker, partition)

    def online(self, broker: int, partition: Partition) -> bool:
        """A replica's log directory is online: here all are."""
        return broker in partition.replicas

    def may_lead(self, broker: int, partition: Partition) -> bool:
        """A broker may be elected if it is a member of the ISR."""
        return self.active(broker) and self.online(broker, partition)

    def _replicas_of_partition_0(self, partition: Partition) -> int:
        return next(
            len(one.replicas) for one in self.partitions if (one.topic_id, one.number) == (partition.topic_id, 0)
        )

    def assign_directories(self) -> None:
        """A broker assigns a replica to a log directory. Controllers before 4.3 empty the ELR (handleAssignReplicasToDirs)."""
        listed = [one for one in self.partitions if one.elr]
        if not self.release.elr or not listed:
            return
        partition = self.choices.choice(listed)
        fields: dict[str, Any] = {"directories": ["AAAAAAAAAAAAAAAAAAAAAQ" for _ in partition.replicas]}
        if self.release.metadata_version < FORGETS_ON_ASSIGNMENT:
            fields["eligibleLeaderReplicas"] = []
            if partition.last_known_elr:
                fields["lastKnownElr"] = []
        self.write(self.change(partition, **fields))

    # -- brokers

    def register(self, broker: int, *, over: bool = False) -> None:
        """A new process of a broker registers, after the former one has been fenced, or over it. over: its session has just expired."""
        before = self.registrations.get(broker)
        self.incarnations += 1
        clean = before is not None and not over and self.choices.random() < 0.5 if self.release.elr else False
        records = self.taken_out(broker, clean=clean)
        epoch = self.end
        if before is not None:
            self.former[broker] = before.broker_epoch
            if before.fenced and self.takes("old broker epoch registered"):
                epoch = before.broker_epoch
        self.registrations[broker] = Registration(epoch, self.incarnations, registered=self.end + len(records))
        data = self.registration(broker, epoch)
        if self.release.elr:
            self.answer_registration(
                broker, str(data["incarnationId"]), epoch, before.broker_epoch if clean and before is not None else -1
            )
        self.write(*records, ("REGISTER_BROKER_RECORD", 1, data))

    def registration(self, broker: int, epoch: int, *, again: bool = False) -> dict[str, Any]:
        """Fields of the record that registers a broker's incarnation. again: it is registered already."""
        return {
            "brokerId": broker, "incarnationId": f"incarnation{self.registrations[broker].incarnation:06d}AAAAA"[:21] + "A",
            "brokerEpoch": epoch,
            "endPoints": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9090 + broker, "securityProtocol": 0}],
            "features": [], "rack": None, "fenced": not again or self.registrations[broker].fenced, "inControlledShutdown": False,
        }  # fmt: skip

    def taken_out(self, broker: int, *, clean: bool) -> list[tuple[str, int, dict[str, Any]]]:
        """Changes that a registration makes of what a former incarnation is listed in. clean: it was shut down cleanly."""
        if not self.release.elr or clean or self.takes("unclean incarnation stays eligible"):
            return []
        records = []
        for one in [one for one in self.partitions if broker in one.isr or broker in one.elr]:
            isr = [member for member in one.isr if member != broker]
            records += self.rebuilt(one, isr, lambda member: member != broker and self.active(member), broker)
        return records

    def answer_registration(
        self, broker: int, incarnation: str, epoch: int, previous: int, error_code: int = 0
    ) -> None:
        """A BrokerRegistration and its answer."""
        arrived = self.now + self.skew
        self.pass_time(2, 8)
        self.correlation += 1
        self.history.events.append(
            BrokerRegistration(
                self._next(), CONTROLLER, self.now + self.skew, correlation_id=self.correlation, broker_id=broker,
                incarnation_id=incarnation, arrived=arrived, broker_epoch=epoch, previous_broker_epoch=previous,
                error_code=error_code,
            )
        )  # fmt: skip

    def _registration_change(self, broker: int, **fields: int) -> tuple[str, int, dict[str, Any]]:
        data = {"brokerId": broker, "brokerEpoch": self.registrations[broker].broker_epoch} | fields
        return "BROKER_REGISTRATION_CHANGE_RECORD", 1 if "inControlledShutdown" in fields else 0, data

    def unfence(self, broker: int) -> None:
        """A registered broker has caught up: it is unfenced, and may lead what nobody leads."""
        self.write(*self.unfenced(broker))

    def unfenced(self, broker: int) -> list[tuple[str, int, dict[str, Any]]]:
        """Changes that unfence a broker."""
        registration = self.registrations[broker]
        registration.fenced = False
        records = [self._registration_change(broker, fenced=-1)]
        for partition in self.partitions:
            if self.release.elr and partition.leader == -1:
                records += self.rebuilt(partition, partition.isr, self.active)
            elif partition.leader == -1 and broker in partition.replicas:
                records += self._elected_when_unfenced(broker, partition)
        return records

    def _elected_when_unfenced(self, broker: int, partition: Partition) -> list[tuple[str, int, dict[str, Any]]]:
        if not self.online(broker, partition):
            return []
        if broker in partition.isr:
            return [self.change(partition, leader=broker)]
        if self.unclean[partition.topic_id] or self.takes("unclean election not allowed"):
            return [self.change(partition, isr=[broker], leader=broker, leaderRecoveryState=1)]
        return []

    def leave(self, broker: int, only: list[Partition] | None = None) -> list[tuple[str, int, dict[str, Any]]]:
        """Changes that take a broker out of the ISRs and move its leaderships. only: of these partitions."""
        records = []
        for partition in self.partitions if only is None else only:
            if broker not in partition.isr:
                continue
            if len(partition.isr) > 1 and self.takes("stays in the ISR"):
                continue
            isr = [member for member in partition.isr if member != broker]
            if self.release.elr:
                records += self.rebuilt(partition, isr, lambda member: member != broker and self.active(member))
                continue
            active = [member for member in isr if self.may_lead(member, partition)]
            if not isr:
                if partition.leader != -1:
                    records.append(self.change(partition, leader=-1))
                continue
            fields: dict[str, Any] = {"isr": isr}
            if partition.leader == broker or (
                partition.leader != -1 and not self.may_lead(partition.leader, partition)
            ):
                leader = self.choices.choice(active) if active else -1
                if leader != -1 and self.takes("leader outside the ISR"):
                    isr.remove(leader)
                    fields["isr"] = isr or [member for member in partition.replicas if member != leader][:1]
                fields["leader"] = leader
            records.append(self.change(partition, **fields))
        return records

    def fence(self) -> None:
        """A broker's session expires, but never the last one's."""
        active = [broker for broker, one in self.registrations.items() if not one.fenced]
        if len(active) < 2:
            return
        past = [
            one.leader
            for one in self.partitions
            if one.leader in active and one.isr[1:] and any(map(self.active, one.elr))
        ]
        if past and self.fault == "elected past the ISR":
            active = past
        self.expire(self.choices.choice(active))

    def expire(self, broker: int) -> None:
        """A broker's session expires: it is fenced."""
        registration = self.registrations[broker]
        records = self.leave(broker)
        registration.fenced, registration.alive = True, False
        self.write(*records, self._registration_change(broker, fenced=1))

    def shut_down(self) -> None:
        """A broker asks for its controlled shutdown, and later stops."""
        active = [broker for broker, one in self.registrations.items() if one.active]
        if len(active) < 2:
            return
        broker = self.choices.choice(active)
        registration = self.registrations[broker]
        registration.shutting_down = True
        self.write(self._registration_change(broker, inControlledShutdown=1), *self.leave(broker))
        self.heartbeat(broker, registration.broker_epoch, want_shut_down=True)

    def finish_shut_down(self) -> None:
        """A broker in controlled shutdown stops: it is fenced."""
        for broker, registration in self.registrations.items():
            if registration.shutting_down and not registration.fenced:
                records = self.leave(broker)
                registration.fenced, registration.alive = True, False
                self.write(*records, self._registration_change(broker, fenced=1))
                return

    def unregister(self) -> None:
        """An administrator removes a fenced broker."""
        fenced = [broker for broker, one in self.registrations.items() if one.fenced]
        if not fenced:
            return
        broker = self.choices.choice(fenced)
        records = self.leave(broker)
        registration = self.registrations.pop(broker)
        self.former[broker] = registration.broker_epoch
        data = {"brokerId": broker, "brokerEpoch": registration.broker_epoch}
        self.write(*records, ("UNREGISTER_BROKER_RECORD", 0, data))

    def heartbeat(self, broker: int, epoch: int, *, want_shut_down: bool = False) -> None:
        """A BrokerHeartbeat and its answer. It writes no record itself."""
        self.pass_time(250, 600)
        arrived = self.now + self.skew
        registration = self.registrations.get(broker)
        current = registration is not None and registration.broker_epoch == epoch
        code = 0 if current else 77
        if code and self.takes("former incarnation obeyed"):
            code = 0
        self.correlation += 1
        self.pass_time(2, 8)
        fenced = registration is not None and registration.fenced
        self.history.events.append(
            Heartbeat(
                self._next(), CONTROLLER, self.now + self.skew, correlation_id=self.correlation, broker_id=broker,
                broker_epoch=epoch, current_metadata_offset=self.end - 1, want_fence=fenced, want_shut_down=want_shut_down,
                error_code=code, is_fenced=True if code or registration is None else fenced, arrived=arrived,
                decided_at_offset=self.end,
            )
        )  # fmt: skip
        self.pass_time(250, 600)

    # -- topics

    def create_topic(self) -> None:
        """Create a topic. Names come back."""
        names = [name for name in ("orders", "pay.eu-1") if all(p.topic != name for p in self.partitions)]
        active = [broker for broker, one in self.registrations.items() if one.active]
        if not names and active and self.takes("topic replaced without deletion"):
            names = [self.partitions[0].topic]
            self.ended = True  # the settings of a name are no longer those of one topic
        if not names or not active:
            return
        name = self.choices.choice(names)
        self.topics_made += 1
        topic_id = f"topic{self.topics_made:06d}AAAAAAAAAAA"[:21] + "A"
        self.unclean[topic_id] = self.choices.random() < 0.4
        records: list[tuple[str, int, dict[str, Any]]] = [("TOPIC_RECORD", 0, {"name": name, "topicId": topic_id})]
        config = {"resourceType": 2, "resourceName": name, "name": "unclean.leader.election.enable"}
        records.append(("CONFIG_RECORD", 0, config | {"value": str(self.unclean[topic_id]).lower()}))
        if self.release.elr:
            self.min_isr[topic_id] = self.choices.choice((1, 2, 2, 3, 3))
            minimum = {"resourceType": 2, "resourceName": name, "name": "min.insync.replicas"}
            records.append(("CONFIG_RECORD", 0, minimum | {"value": str(self.min_isr[topic_id])}))
        for number in range(self.choices.choice((1, 2))):
            registered = sorted(self.registrations)
            replicas = self.choices.sample(registered, min(len(registered), self.choices.choice((2, 3, 3))))
            isr = [broker for broker in replicas if broker in active]
            if not isr:
                isr = replicas = [active[0]]
            fenced = [broker for broker in replicas if broker not in active]
            if fenced and self.takes("created on a fenced broker"):
                isr = [*isr, fenced[0]]
            partition = Partition(name, topic_id, number, replicas, isr, isr[0])
            self.partitions.append(partition)
            records.append(("PARTITION_RECORD", 0, self.absolute(partition)))
        self.write(*records)

    def absolute(self, partition: Partition) -> dict[str, Any]:
        """The fields of a PartitionRecord."""
        return {
            "partitionId": partition.number, "topicId": partition.topic_id, "replicas": [*partition.replicas],
            "isr": [*partition.isr], "removingReplicas": [], "addingReplicas": [], "leader": partition.leader,
            "leaderEpoch": partition.leader_epoch, "partitionEpoch": partition.partition_epoch,
        }  # fmt: skip

    def delete_topic(self) -> None:
        """Delete a topic."""
        if not self.partitions:
            return
        topic_id = self.choices.choice(self.partitions).topic_id
        self.removed += [one for one in self.partitions if one.topic_id == topic_id]
        self.partitions = [one for one in self.partitions if one.topic_id != topic_id]
        self.write(("REMOVE_TOPIC_RECORD", 0, {"topicId": topic_id}))

    def elect(self) -> None:
        """A preferred leader election, or one that breaks a rule."""
        led = [one for one in self.partitions if one.leader != -1]
        if not led:
            return
        partition = self.choices.choice(led)
        others = [m for m in partition.isr if m != partition.leader and self.may_lead(m, partition)]
        fenced = [r for r in partition.replicas if r not in self.registrations or not self.registrations[r].active]
        if self.fault == "states set back" and partition.partition_epoch > 1 and self.takes("states set back"):
            partition.partition_epoch -= 1
            partition.leader_epoch = max(0, partition.leader_epoch - 1)
            self.write(("PARTITION_RECORD", 0, self.absolute(partition)))
            self.ended = True  # one partition epoch would stand for two states, and answers for either
        elif fenced and self.takes("fenced broker elected"):
            self.write(self.change(partition, leader=fenced[0], isr=[*{*partition.isr, fenced[0]}]))
        elif self.takes("member that is no replica"):
            stranger = next(iter({*BROKERS} - {*partition.replicas}), 9)
            self.write(self.change(partition, isr=[*partition.isr, stranger]))
        elif others:
            self.write(self.change(partition, leader=self.choices.choice(others)))

    def reassign(self) -> None:
        """Replace the replicas: remove one that does not lead."""
        candidates = [one for one in self.partitions if self.may_lead(one.leader, one) and len(one.isr) > 1]
        if not candidates:
            return
        partition = self.choices.choice(candidates)
        removed = self.choice_but(partition.replicas, partition.leader)
        if removed is None:
            return
        fields: dict[str, Any] = {"replicas": [broker for broker in partition.replicas if broker != removed]}
        isr = [member for member in partition.isr if member != removed]
        if self.release.elr:
            self.write(*self.rebuilt(partition, isr, self.active, **fields))
            return
        if removed in partition.isr:
            fields["isr"] = isr
        self.write(self.change(partition, **fields))

    def choice_but(self, values: list[int], excluded: int) -> int | None:
        """One of the values, but not the excluded one."""
        left = [value for value in values if value != excluded]
        return self.choices.choice(left) if left else None

    # -- AlterPartition

    def alter_partition(self, kind: str | None = None) -> None:
        """A leader asks for a new ISR; or a broker that may not, or in other epochs."""
        led = [one for one in self.partitions if one.leader != -1 and one.leader in self.registrations]
        if not led:
            return
        partition = self.choices.choice(led)
        kind = kind or self.choice_of_request()
        # the first one writes a record: by it the log's clock is known
        wanted = [partition.leader] if kind == "first" else self._wanted(partition)
        members = [self._member(broker) for broker in wanted]
        request = self.request_of(partition, members)
        if kind == "stale leader epoch" and partition.leader_epoch:
            request.leader_epoch -= 1
        elif kind == "stale partition epoch" and partition.partition_epoch:
            request.partition_epoch -= 1
        elif kind == "ahead":
            if self.choices.random() < 0.5:
                request.leader_epoch += 1
            else:
                request.partition_epoch += 1
        elif kind == "follower" and (other := self.choice_but(sorted(self.registrations), partition.leader)):
            request.broker_id, request.broker_epoch = other, self.registrations[other].broker_epoch
        elif kind == "former incarnation" and partition.leader in self.former:
            request.broker_epoch = self.former[partition.leader]
        elif kind == "unknown topic":
            request.topic_id = self.removed[-1].topic_id if self.removed else "unknownunknownunknowAA"[:21] + "A"
        elif kind == "stranger in the ISR":
            request.new_isr = (*members, IsrMember(77))
        elif kind == "without the leader":
            request.new_isr = tuple(m for m in members if m.broker_id != partition.leader) or (IsrMember(77),)
        self.answer(partition, request)

    def request_of(self, partition: Partition, members: list[IsrMember]) -> AlterPartition:
        """The request of a partition's leader for an ISR."""
        return AlterPartition(
            0, CONTROLLER, 0, version=self.release.alter_partition, broker_id=partition.leader,
            broker_epoch=self.registrations[partition.leader].broker_epoch, topic=partition.topic, topic_id=partition.topic_id,
            partition=partition.number, leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch,
            new_isr=tuple(members),
        )  # fmt: skip

    def choice_of_request(self) -> str:
        """What kind of request it is."""
        if self.fault == "removed topic altered" and self.removed:
            return "unknown topic"
        if self.fault == "follower accepted" and self.choices.random() < 0.5:
            return "follower"
        return self.choices.choice(
            ("right",) * 10
            + (
                "stale leader epoch", "stale partition epoch", "ahead", "follower", "former incarnation", "unknown topic",
                "stranger in the ISR", "without the leader",
            )
        )  # fmt: skip

    def _wanted(self, partition: Partition) -> list[int]:
        """The ISR that a leader may ask for: it may know less than the controller of who is fenced."""
        wanted = list(partition.isr)
        for replica in partition.replicas:
            registration = self.registrations.get(replica)
            if replica in wanted or replica == partition.leader:
                continue
            if registration is not None and registration.active:
                if self.choices.random() < 0.7:
                    wanted.append(replica)
            elif self.choices.random() < 0.25:
                wanted.append(replica)
        if len(wanted) > 1 and self.choices.random() < 0.25:
            wanted.remove(self.choice_but(wanted, partition.leader) or wanted[-1])
        return wanted

    def _member(self, broker: int) -> IsrMember:
        if self.release.alter_partition < 3:
            return IsrMember(broker)
        registration = self.registrations.get(broker)
        epoch = registration.broker_epoch if registration else self.former.get(broker, 5)
        if broker in self.former and self.choices.random() < 0.2:
            epoch = self.former[broker]
        return IsrMember(broker, self.choices.choice((epoch, epoch, epoch, -1)))

    def answer(self, partition: Partition, request: AlterPartition) -> None:
        """Decide an AlterPartition, and log it."""
        self.pass_time(250, 600)
        request.arrived = self.now + self.skew
        self.correlation += 1
        request.correlation_id = self.correlation
        registration = self.registrations.get(request.broker_id)
        stale = registration is None or registration.broker_epoch != request.broker_epoch
        self.pass_time(3, 9)
        request.decided_at_offset = self.end
        if stale and not self.takes("former incarnation obeyed"):
            request.error_code = 77
        else:
            code = self._validated(partition, request)
            if code == 0 and request.topic_id == partition.topic_id:
                code = self.applied(partition, request)
            elif code == 0:
                removed = self.removed[-1]
                request.leader_after, request.leader_epoch_after = removed.leader, removed.leader_epoch
                request.isr_after, request.partition_epoch_after = tuple(removed.isr), removed.partition_epoch
            request.partition_error = code
        self.pass_time(3, 9)
        request.id, request.at = self._next(), self.now + self.skew
        self.history.events.append(request)
        self.pass_time(250, 600)

    def applied(self, partition: Partition, request: AlterPartition) -> int:
        """Write what an accepted request changes, and return the code of its answer."""
        isr = [member.broker_id for member in request.new_isr]
        changes_recovery = partition.recovering != (request.recovery == 1)
        if self.release.elr:
            recovers = {"leaderRecoveryState": request.recovery} if changes_recovery else {}
            records = self.rebuilt(partition, isr, self.active, **recovers)
            if records:
                self.write(*records)
        elif isr != partition.isr or changes_recovery:
            fields: dict[str, Any] = {"isr": isr} if isr != partition.isr else {}
            if changes_recovery:
                fields["leaderRecoveryState"] = request.recovery
            self.write(self.change(partition, **fields))
        request.leader_after, request.leader_epoch_after = partition.leader, partition.leader_epoch
        request.isr_after, request.partition_epoch_after = tuple(partition.isr), partition.partition_epoch
        return 0

    def _validated(self, partition: Partition, request: AlterPartition) -> int:
        """ReplicationControlManager.validateAlterPartitionData, and one fault."""
        if request.topic_id != partition.topic_id:
            return 0 if self.removed and self.takes("removed topic altered") else 100
        unchanged = [member.broker_id for member in request.new_isr] == partition.isr
        refused = self.fault != "ineligible member accepted" and any(map(self._ineligible, request.new_isr))
        if (unchanged or refused) and str(self.fault).endswith("accepted"):
            self.fault = None  # what changes nothing, or is refused for another reason, breaks nothing
        if request.leader_epoch > partition.leader_epoch or request.partition_epoch > partition.partition_epoch:
            if not self.takes("epoch ahead accepted"):
                return 41
        elif request.leader_epoch < partition.leader_epoch:
            if not self.takes("stale leader epoch accepted"):
                return 74
        elif request.broker_id != partition.leader:
            if not self.takes("follower accepted"):
                return 42
        elif request.partition_epoch < partition.partition_epoch and not self.takes("stale partition epoch accepted"):
            return 95
        members = [member.broker_id for member in request.new_isr]
        if not {*members} <= {*partition.replicas} or partition.leader not in members:
            return 42
        misused = request.recovery and (len(members) > 1 or not partition.recovering)
        if misused and not self.takes("recovery state misused"):
            return 42
        if any(map(self._ineligible, request.new_isr)) and not self.takes("ineligible member accepted"):
            return 55 if self.takes("foreign code") else 107
        if self.takes("current leader refused"):
            return 74
        return 107 if self.takes("refused without reason") else 0

    def _ineligible(self, member: IsrMember) -> bool:
        registration = self.registrations.get(member.broker_id)
        if registration is None or not registration.active:
            return True
        return member.broker_epoch not in (-1, registration.broker_epoch)

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps."""
        self.skew = self.choices.choice((0, 0, 90))
        self.history.events.append(
            ProcessStarts(self._next(), CONTROLLER, self.now + self.skew, version=self.release.version)
        )
        self.pass_time(500, 900)
        level = {"name": "metadata.version", "featureLevel": self.release.metadata_version}
        self.write(("FEATURE_LEVEL_RECORD", 0, level))
        if self.release.elr:
            self.write(("FEATURE_LEVEL_RECORD", 0, {"name": "eligible.leader.replicas.version", "featureLevel": 1}))
            config = {"resourceType": 4, "resourceName": "", "name": "min.insync.replicas", "value": "1"}
            self.write(("CONFIG_RECORD", 0, config))
        for broker in BROKERS[: self.choices.choice((3, 3, 4))]:
            self.pass_time(500, 900)
            self.register(broker)
            self.pass_time(500, 900)
            self.unfence(broker)
        self.pass_time(500, 900)
        self.create_topic()
        self.pass_time(500, 900)
        self.alter_partition("first")
        for _ in range(steps):
            if self.faulty and self.fault is None and self.choices.random() < 0.5:
                self.fault = self.choices.choice(self.faults())
            self._step()
            self.pass_time(1500, 2500)
            if self.ended:
                break
        left, self.fault = self.fault, None
        self.write(("NO_OP_RECORD", 0, {}))  # the log covers the last request
        if left == "quorum epoch falls" or (self.faulty and left is None and self.choices.random() < 0.2):
            self.fault = "quorum epoch falls"
            self.write(("NO_OP_RECORD", 0, {}))
        return self.history

    def faults(self) -> tuple[str, ...]:
        """The breaches that may be planted."""
        return (*REQUEST_FAULTS, *RECORD_FAULTS, *(ELR_FAULTS * 3 if self.release.elr else ()))

    def steps(self) -> dict[Callable[[], None], int]:
        """What may happen next, and how often."""
        return {
            self.alter_partition: 40, self.fence: 14 if self.release.elr else 9, self.shut_down: 6, self.finish_shut_down: 6,
            self._come_back: 18, self.unregister: 2, self.create_topic: 6, self.delete_topic: 3, self.elect: 10,
            self.reassign: 4, self._beat: 8, self.assign_directories: 3 if self.release.elr else 0,
        }  # fmt: skip

    def _step(self) -> None:
        steps = self.steps()
        self.choices.choices([*steps], [*steps.values()])[0]()

    def _come_back(self) -> None:
        """A fenced broker registers anew, or is unfenced."""
        fenced = [broker for broker, one in self.registrations.items() if one.fenced]
        missing = [broker for broker in BROKERS if broker not in self.registrations]
        if not fenced and not missing:
            return
        broker = self.choices.choice(fenced or missing)
        if broker in missing or not self.registrations[broker].alive:
            self.register(broker)
        else:
            self.unfence(broker)

    def _beat(self) -> None:
        broker = self.choices.choice(BROKERS)
        registration = self.registrations.get(broker)
        if registration is None:
            return
        stale = broker in self.former and self.choices.random() < 0.6
        self.heartbeat(broker, self.former[broker] if stale else registration.broker_epoch)


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a KRaft cluster. faulty: breaches are planted."""
    return QuorumCluster(name, release, choices, faulty).run(steps)
