"""A simulated KRaft cluster whose brokers catch up, are unfenced, shut down, and register over former incarnations.

Its controller is that of `quorum_cluster`. What is added follows BrokerHeartbeatManager.calculateNextBrokerState,
ReplicationControlManager (processBrokerHeartbeat, handleBrokerUncleanShutdown, handleBrokerShutdown, validateAlterPartitionData),
ClusterControlManager.registerBroker, and Partition.handleAlterPartitionError of the leaders.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from prove.history import AlterPartition, Heartbeat, History, IsrReset, IsrUpdated, ProcessStarts
from prove.simulators.quorum_cluster import BROKERS, CONTROLLER, Partition
from prove.simulators.quorum_incidents import QuorumWithIncidents

TAKES_OUT_INCARNATIONS: Final = 22
"""metadata.version of 4.0: since then a registration takes the former incarnation out of the ISRs (KAFKA-18106)."""
AMENDS_REGISTRATIONS: Final = 15
"""metadata.version of 3.7: since then a broker registers again while it runs."""
INELIGIBLE: Final = (55, 107)

LIFECYCLE_FAULTS: Final = (
    "recovery state misused",
    "rejected ISR is sent again",
    "unfenced before it caught up",
    "let go unfenced",
    "new incarnation stays in the ISR",
)
"""What a controller does wrong with brokers that come and go, and a leader whose ISR is refused."""


@dataclass
class LifecycleCluster(QuorumWithIncidents):
    """The cluster and its history so far. logged: brokers whose server.log is recorded.

    resets: (broker, topic id, partition, leader epoch) of ISRs that leaders took back. begun: steps are taken.
    """

    logged: frozenset[int] = frozenset()
    resets: set[tuple[int, str, int, int]] = field(default_factory=set)
    begun: bool = False

    def faults(self) -> tuple[str, ...]:
        """The faults that may be planted."""
        return *super().faults(), *(LIFECYCLE_FAULTS * 2)

    # -- heartbeats

    def beat(
        self, broker: int, offset: int | None = None, records: list[tuple[str, int, dict[str, Any]]] | None = None, **answer: bool
    ) -> None:  # fmt: skip
        """A heartbeat of a registered broker, which makes the controller write the records. offset: that the broker has reached."""
        self.pass_time(250, 600)
        arrived, decided = self.now + self.skew, self.end
        self.pass_time(2, 8)
        if records:
            self.write(*records)
            self.pass_time(2, 8)
        self.correlation += 1
        registration = self.registrations[broker]
        reached = self.choices.randint(min(registration.registered, decided - 1), decided - 1)
        self.history.events.append(
            Heartbeat(
                self._next(), CONTROLLER, self.now + self.skew, correlation_id=self.correlation, broker_id=broker,
                broker_epoch=registration.broker_epoch, current_metadata_offset=reached if offset is None else offset,
                arrived=arrived, decided_at_offset=decided, **answer,
            )
        )  # fmt: skip
        self.pass_time(250, 600)

    def unfence(self, broker: int) -> None:
        """A registered broker catches up, and is unfenced by the heartbeat that states it, at times with others before and after."""
        registration = self.registrations[broker]
        behind = self.choices.randint(max(0, registration.registered - 6), registration.registered - 1)
        if self.choices.random() < 0.4:
            self.beat(broker, behind, is_fenced=True)
        if self.choices.random() < 0.2:
            self.beat(broker, is_fenced=True, want_fence=True)
        if self.takes("unfenced before it caught up"):
            self.beat(broker, behind, self.unfenced(broker), is_fenced=False)
        elif self.choices.random() < 0.6:
            self.beat(broker, None, self.unfenced(broker), is_fenced=False)
        else:
            super().unfence(broker)
        if self.choices.random() < 0.2:
            self.beat(broker, is_fenced=False)

    def shut_down(self) -> None:
        """A broker wants to shut down. Without leaderships, or fenced, it may at once."""
        alive = [broker for broker, one in self.registrations.items() if one.fenced and one.alive]
        if alive and self.choices.random() < 0.3:
            broker = self.choices.choice(alive)
            self.beat(broker, None, self.fenced(broker), want_shut_down=True, is_fenced=True, should_shut_down=True)
            return
        active = [broker for broker, one in self.registrations.items() if one.active]
        if len(active) < 2:
            return
        broker = self.choices.choice(active)
        if all(one.leader != broker for one in self.partitions):
            self._let_go(broker)
            return
        self.registrations[broker].shutting_down = True
        records = [self._registration_change(broker, inControlledShutdown=1), *self.leave(broker)]
        self.beat(broker, None, records, want_shut_down=True, is_fenced=False)

    def finish_shut_down(self) -> None:
        """A broker in controlled shutdown may stop: it is fenced."""
        leaving = [broker for broker, one in self.registrations.items() if one.shutting_down and not one.fenced]
        if leaving:
            if self.choices.random() < 0.3:
                self.beat(leaving[0], want_shut_down=True, is_fenced=False)
            self._let_go(leaving[0])

    def _let_go(self, broker: int) -> None:
        granted = {"want_shut_down": True, "is_fenced": True, "should_shut_down": True}
        if self.takes("let go unfenced"):
            self.beat(broker, None, None, **granted)
            self.pass_time(900, 1500)
            self.register(broker)
        elif self.choices.random() < 0.8:
            self.beat(broker, None, self.fenced(broker), **granted)
        else:  # its heartbeat is not recorded
            self.write(*self.fenced(broker))

    def fenced(self, broker: int) -> list[tuple[str, int, dict[str, Any]]]:
        """Changes that fence a broker."""
        records = self.leave(broker)
        self.registrations[broker].fenced, self.registrations[broker].alive = True, False
        return [*records, self._registration_change(broker, fenced=1)]

    # -- registrations

    def register(self, broker: int, *, over: bool = False) -> None:
        """A broker's process starts and registers."""
        if broker in self.logged:
            self.history.events.append(
                ProcessStarts(self._next(), broker, self.now, version=self.release.version, broker_epoch=0)
            )
            self.pass_time(5, 50)
        super().register(broker, over=over)

    def taken_out(self, broker: int, *, clean: bool) -> list[tuple[str, int, dict[str, Any]]]:
        """Since 4.0 a registration takes a former incarnation that is not fenced out of the ISRs."""
        before = self.registrations.get(broker)
        if before is None or before.fenced or self.release.metadata_version < TAKES_OUT_INCARNATIONS:
            return super().taken_out(broker, clean=clean)
        listed = any(broker in one.isr and len(one.isr) > 1 for one in self.partitions)
        if listed and self.takes("new incarnation stays in the ISR"):
            return []
        if self.release.elr and not clean:
            return super().taken_out(broker, clean=False)
        return self.leave(broker)

    def take_place(self) -> None:
        """A broker dies and registers again before it is fenced: its session has ended."""
        unfenced = [broker for broker, one in self.registrations.items() if not one.fenced]
        if len(unfenced) > 1:
            self.register(self.choices.choice(unfenced))

    def amend(self) -> None:
        """A broker that runs registers again, with the same incarnation."""
        if self.release.metadata_version < AMENDS_REGISTRATIONS:
            return
        broker = self.choices.choice(sorted(self.registrations))
        registration = self.registrations[broker]
        if not registration.alive or registration.shutting_down:
            return
        data = self.registration(broker, registration.broker_epoch, again=True)
        registration.registered = self.write(("REGISTER_BROKER_RECORD", 1, data))

    # -- AlterPartition

    def answer(self, partition: Partition, request: AlterPartition) -> None:
        """A request is answered. The leader takes over the new ISR, or goes back to the committed one."""
        misuses = self.fault == "recovery state misused" or self.choices.random() < (
            0.4 if partition.recovering else 0.05
        )
        if misuses and self.begun:
            request.recovery = 1
        before = partition.partition_epoch, tuple(partition.isr)
        leader = request.broker_id == partition.leader
        super().answer(partition, request)
        if not leader or request.error_code or request.topic_id != partition.topic_id:
            return
        place = request.broker_id, partition.topic_id, partition.number, request.leader_epoch
        if request.partition_error in INELIGIBLE:
            if place not in self.resets and self.takes("rejected ISR is sent again"):
                again = deepcopy(request)
                super().answer(partition, again)
                self.resets.add(place)
                return
            self._reset(request, before[1])
            self.resets.add(place)
        elif (
            request.partition_error == 0 and partition.partition_epoch > before[0] and request.broker_id in self.logged
        ):
            self.history.events.append(
                IsrUpdated(
                    self._next(), request.broker_id, self.now, topic=partition.topic, partition=partition.number,
                    isr=tuple(partition.isr), partition_epoch=partition.partition_epoch,
                )
            )  # fmt: skip

    def _reset(self, request: AlterPartition, committed: tuple[int, ...]) -> None:
        if request.broker_id in self.logged:
            self.history.events.append(
                IsrReset(
                    self._next(), request.broker_id, self.now, topic=request.topic, partition=request.partition,
                    leader_epoch=request.leader_epoch, partition_epoch=request.partition_epoch,
                    error_code=int(request.partition_error or 0), isr=committed,
                    refused=tuple(member.broker_id for member in request.new_isr),
                )
            )  # fmt: skip

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps."""
        self.logged = frozenset(broker for broker in BROKERS if self.choices.random() < 0.75)
        return super().run(steps)

    def _step(self) -> None:
        self.begun = True
        if self.fault == "unfenced before it caught up" and self.choices.random() < 0.5:
            self._come_back()
        elif self.fault == "new incarnation stays in the ISR" or self.choices.random() < 0.06:
            self.take_place()
        elif self.choices.random() < 0.04:
            self.amend()
        else:
            super()._step()
