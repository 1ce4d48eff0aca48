"""A simulated ZooKeeper controller that leaders ask for new ISRs (AlterPartition, AlterIsr up to 3.1).

It follows KafkaController (tryProcessAlterPartition, processBrokerChange, doControlledShutdown, onControllerFailover). Brokers die, come
back and shut down; the controller learns of it late, or while it has a request. Since 3.3 it refuses an ISR with a member that is not live.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from prove.history import (
    ISR_AT_ZOOKEEPER_CONTROLLER,
    NO_EPOCH,
    NO_LEADER,
    UPDATE_METADATA,
    AlterPartition,
    Control,
    Decision,
    Elected,
    Event,
    History,
    IsrMember,
    LiveBrokersLine,
    ProcessStarts,
    Release,
    State,
)
from prove.simulators.simulation import BEGIN_MS, Simulation

CONTROLLERS: Final = (1, 2)
BROKERS: Final = (1, 2, 3, 4)
TOPIC: Final = "orders"
TOPIC_ID: Final = "topic000001AAAAAAAAAAA"
ASSIGNED: Final = ((2, 3, 4), (3, 4, 1), (4, 3))

RELEASES: Final = (
    Release(ISR_AT_ZOOKEEPER_CONTROLLER, "2.8.2", "json", update_metadata=7, alter_partition=0),
    Release(ISR_AT_ZOOKEEPER_CONTROLLER, "3.2.3", "json", update_metadata=7, alter_partition=1),
    Release(ISR_AT_ZOOKEEPER_CONTROLLER, "3.3.2", "json", update_metadata=7, alter_partition=1),
    Release(ISR_AT_ZOOKEEPER_CONTROLLER, "3.3.2", "json", update_metadata=7, alter_partition=2, protocol="3.3"),
    Release(ISR_AT_ZOOKEEPER_CONTROLLER, "3.9.1", "json", update_metadata=8, alter_partition=3),
)
FAULTS: Final = ("dead replica accepted",)


@dataclass
class ZooKeeperController(Simulation):
    """The controller and its history so far.

    registered: broker epochs in ZooKeeper. live: those that the controller has read. leaving: brokers that it is shutting down.
    unrecorded: some lines about live brokers are missing, which can make a breach of what was
    right: never without faulty.
    """

    registered: dict[int, int] = field(default_factory=dict)
    live: dict[int, int] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    states: list[State] = field(default_factory=list)
    controller: int = CONTROLLERS[0]
    controller_epoch: int = 0
    zxid: int = 20
    unrecorded: bool = False
    tells_release: bool = True

    def log(self, event: Event) -> None:
        """Append an event to the history, and let the clock go on."""
        self.history.events.append(event)

    # -- brokers

    def start(self, broker: int) -> None:
        """A broker registers. The processes of those that may be controllers are recorded."""
        self.zxid += self.choices.randint(3, 40)
        self.registered[broker] = self.zxid
        if broker in CONTROLLERS and self.tells_release:
            self.log(
                ProcessStarts(self._next(), broker, self.now, version=self.release.version, broker_epoch=self.zxid)
            )
            self.pass_time(1200, 2000)

    def die(self) -> None:
        """A broker loses its registration."""
        others = [broker for broker in self.registered if broker != self.controller]
        if len(others) > 1:
            del self.registered[self.choices.choice(others)]
            self._maybe_learn()

    def come_back(self) -> None:
        """A broker registers again, at times before the controller has learned that its session had ended."""
        away = [broker for broker in BROKERS if broker not in self.registered]
        if away:
            self.start(self.choices.choice(away))
            self._maybe_learn()

    def leave(self) -> None:
        """A broker asks for a controlled shutdown."""
        others = [one for one in self.live if one != self.controller and self.registered.get(one) == self.live[one]]
        if others:
            broker = self.choices.choice(others)
            self._line("leaving", leaving=broker)
            self.leaving.add(broker)
            for state in self.states:
                self._without(state, broker)

    # -- the controller

    def elect(self) -> None:
        """A broker becomes controller, and reads ZooKeeper."""
        candidates = [broker for broker in CONTROLLERS if broker in self.registered]
        self.controller, self.controller_epoch = self.choices.choice(candidates), self.controller_epoch + 1
        host = self.controller
        self.log(Elected(self._next(), host, self.now, controller_epoch=self.controller_epoch))
        self.pass_time(4, 30)
        self.live, self.leaving = dict(self.registered), set()
        self._line("Initialized")
        self.update_metadata()

    def fail_over(self) -> None:
        """The controller's process ends, and starts again later."""
        del self.registered[self.controller]
        if self.choices.random() < 0.5 or not any(broker in self.registered for broker in CONTROLLERS):
            self.pass_time(3000, 6000)
            self.start(self.controller)
        self.elect()

    def learn(self) -> None:
        """The controller reads who is registered: it takes over who came, elects for who went."""
        known, now = self.live, dict(self.registered)
        added = tuple(sorted(now.keys() - known.keys()))
        deleted = tuple(sorted(known.keys() - now.keys()))
        bounced = tuple(sorted(broker for broker in now.keys() & known.keys() if now[broker] > known[broker]))
        if not added and not deleted and not bounced:
            return
        self._line("changed", live=now, added=added, deleted=deleted, bounced=bounced)
        self.leaving -= {*deleted, *bounced}
        self.live = now
        for broker in (*bounced, *deleted):
            for state in self.states:
                self._without(state, broker)
        for state in self.states:
            if state.leader == NO_LEADER and state.isr[0] in now:
                self._decide(state, leader=state.isr[0])
        self._line("Updated")
        self.update_metadata()

    def _maybe_learn(self) -> None:
        self.pass_time(40, 400)
        if self.choices.random() < 0.8:
            self.learn()

    def update_metadata(self) -> None:
        """The controller sends all brokers the list of live ones, also those that shut down: its own broker's request is recorded."""
        if self.unrecorded and self.choices.random() < 0.3:
            return
        self.correlation += 1
        arrived = self.now
        self.pass_time(4, 12)
        self.log(
            Control(
                self._next(), self.controller, self.now + 2, api=UPDATE_METADATA, version=self.release.update_metadata,
                correlation_id=self.correlation, controller_id=self.controller, controller_epoch=self.controller_epoch,
                broker_epoch=self.live[self.controller], partitions=tuple(self.states), live_brokers=tuple(sorted(self.live)),
                arrived=arrived, handled=arrived + 2, finished=self.now, connection=51_000,
                latest_controller_epoch=self.controller_epoch,
            )
        )  # fmt: skip
        self.pass_time(5, 12)

    def _line(
        self,
        kind: str,
        *,
        live: dict[int, int] | None = None,
        added: tuple[int, ...] = (),
        deleted: tuple[int, ...] = (),
        bounced: tuple[int, ...] = (),
        leaving: int = -1,
    ) -> None:
        epochs = tuple(sorted((self.live if live is None else live).items()))
        line = LiveBrokersLine(
            self._next(), self.controller, self.now, kind=kind, live=epochs, added=added, deleted=deleted, bounced=bounced,
            leaving=leaving,
        )  # fmt: skip
        if not self.unrecorded or self.choices.random() < 0.6:
            self.log(line)
        self.pass_time(4, 12)

    def _without(self, state: State, broker: int) -> None:
        """A broker goes: it leaves the ISR unless it is its last member, and leads no more."""
        if broker not in state.isr:
            return
        isr = tuple(one for one in state.isr if one != broker) or state.isr
        live = [one for one in isr if one in self.live and one not in self.leaving and one != broker]
        leader = state.leader if state.leader != broker else live[0] if live else NO_LEADER
        if leader != state.leader or isr != state.isr:
            self._decide(state, leader=leader, isr=isr)

    def _decide(self, state: State, **fields: object) -> None:
        epochs = {"leader_epoch": state.leader_epoch + 1, "partition_epoch": state.partition_epoch + 1}
        new = replace(state, controller_epoch=self.controller_epoch, **(epochs | fields))  # type: ignore[arg-type]
        self.states[state.partition] = new
        self.log(Decision(self._next(), self.controller, self.now, controller_epoch=self.controller_epoch, state=new))
        self.pass_time(1, 3)

    # -- requests of leaders

    def ask(self) -> None:
        """A leader asks for an ISR: in the current epochs or in others, of live members or others."""
        led = [state for state in self.states if state.leader != NO_LEADER]
        if not led:
            return
        known = self.choice_of_state(led)
        leader = known.leader
        others = [broker for broker in known.replicas if broker != leader]
        isr = (leader, *self.choices.sample(others, self.choices.randint(0, len(others))))
        if self.choices.random() < 0.15:
            isr = known.isr
        request = AlterPartition(
            self._next(), self.controller, 0, version=self.release.alter_partition, broker_id=leader,
            broker_epoch=self.registered.get(leader, self.live.get(leader, 19)), topic=TOPIC, topic_id=TOPIC_ID,
            partition=known.partition, leader_epoch=known.leader_epoch, partition_epoch=known.partition_epoch,
            new_isr=tuple(IsrMember(broker, self._stated(broker)) for broker in isr), arrived=self.now,
        )  # fmt: skip
        self.correlation += 1
        request.correlation_id = self.correlation
        self._between(request, before=True)
        self._answer(request)
        self._between(request, before=False)
        self.pass_time(3, 30)
        request.at, request.id = self.now, self._next()
        self.log(request)

    def choice_of_state(self, states: list[State]) -> State:
        """A state as its leader knows it: at times an older one, or one of a controller that has resigned."""
        state = self.choices.choice(states)
        change = self.choices.choices((0, 1, 2), (90, 6, 4))[0]
        if change == 1 and state.partition_epoch:
            return replace(state, partition_epoch=state.partition_epoch - 1)
        return replace(state, partition_epoch=state.partition_epoch + 1) if change == 2 else state

    def _stated(self, broker: int) -> int:
        return self.choices.choice((NO_EPOCH, self.live.get(broker, NO_EPOCH)))

    def _between(self, request: AlterPartition, *, before: bool) -> None:
        """What happens at the controller between arrival and decision, or decision and answer."""
        if self.choices.random() < (0.12 if before else 0.08):
            self.pass_time(0, 9)
            self.choices.choice((self.learn, self.leave, self.die_and_learn, self.come_back))()
            self.pass_time(0, 5)
        if request.node != self.controller:
            raise AssertionError(request)

    def die_and_learn(self) -> None:
        """A broker dies, and the controller hears of it at once."""
        others = [broker for broker in self.registered if broker != self.controller]
        if len(others) > 1:
            del self.registered[self.choices.choice(others)]
            self.learn()

    def _answer(self, request: AlterPartition) -> None:
        if self.live.get(request.broker_id) != request.broker_epoch:
            request.error_code = 77
            return
        state = self.states[request.partition]
        isr = tuple(member.broker_id for member in request.new_isr)
        checks = not self.release.version.startswith(("2.", "3.2"))
        request.leader_after, request.leader_epoch_after = state.leader, state.leader_epoch
        request.isr_after, request.partition_epoch_after = state.isr, state.partition_epoch
        same = (request.broker_id, request.leader_epoch, isr) == (state.leader, state.leader_epoch, state.isr)
        code = 0
        if checks and (request.partition_epoch > state.partition_epoch or request.leader_epoch > state.leader_epoch):
            code = 41
        elif request.leader_epoch < state.leader_epoch:
            code = 74
        elif not same and request.partition_epoch != state.partition_epoch:
            code = 95
        elif not same and checks and not {*isr} <= self.live.keys() - self.leaving:
            code = 55 if request.version < 2 else 107
            code = 0 if self.takes("dead replica accepted") else code
        request.partition_error = code
        if code:
            request.leader_after = request.leader_epoch_after = request.partition_epoch_after = 0
            request.isr_after = ()
        elif not same:
            new = replace(
                state,
                leader=request.broker_id,
                isr=isr,
                partition_epoch=state.partition_epoch + 1,
                controller_epoch=self.controller_epoch,
            )
            self.states[state.partition] = new
            request.isr_after, request.partition_epoch_after = isr, new.partition_epoch

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the brokers start, and take steps."""
        self.unrecorded = self.faulty and self.choices.random() < 0.3
        self.tells_release = self.choices.random() < 0.9
        for broker in BROKERS:
            self.start(broker)
        topic_id = TOPIC_ID if self.release.alter_partition >= 2 else None
        self.states = [
            State(TOPIC, number, topic_id, 1, replicas[0], 0, replicas, 0, replicas)
            for number, replicas in enumerate(ASSIGNED)
        ]
        self.elect()
        for _ in range(4 * steps):
            self.pass_time(*self.choices.choice(((20, 90), (200, 900), (2000, 5000))))
            if self.faulty and self.fault is None and self.choices.random() < 0.2:
                self.fault = self.choices.choice(FAULTS)
            step = self.choices.choices(
                (self.ask, self.die, self.come_back, self.leave, self.learn, self.fail_over, self.update_metadata),
                (50, 9, 14, 7, 8, 3, 4),
            )[0]
            step()
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a ZooKeeper controller that decides about ISRs. faulty: breaches are planted."""
    return ZooKeeperController(name, release, choices, faulty, now=BEGIN_MS).run(steps)
