"""A simulated leader that writes its ISRs to ZooKeeper itself (inter.broker.protocol.version below 2.7-IV2).

It follows Partition (maybeExpandIsr, maybeShrinkIsr) and ZkIsrManager: it takes in a follower that has caught up, whether the
controller's last UpdateMetadata lists it as live or not. Followers lose their ZooKeeper session and fetch on, or come back; ZooKeeper
refuses an ISR that is based on an older version.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from prove.history import (
    ISR_IN_ZOOKEEPER,
    LEADER_AND_ISR,
    UPDATE_METADATA,
    Control,
    History,
    IsrLine,
    ProcessStarts,
    Release,
    SettingPrinted,
    Start,
    State,
)
from prove.simulators.simulation import Simulation

LEADER: Final = 1
CONTROLLER: Final = 4
REPLICAS: Final = (1, 2, 3)
TOPIC: Final = "orders"
ANNOUNCES: Final = "2.6.3"
PROTOCOL: Final = "inter.broker.protocol.version"

RELEASES: Final = (
    Release(ISR_IN_ZOOKEEPER, ANNOUNCES, "text", 4, 2, 6, 11, 5, 3),
    Release(ISR_IN_ZOOKEEPER, "2.8.2", "json", 5, 3, 7, 12, 6, 4),
    Release(ISR_IN_ZOOKEEPER, "3.3.2", "json", 6, 3, 7, 13, 7, 4),
)


@dataclass
class ZooKeeperLeader(Simulation):
    """The leader and its history so far. live: brokers that the controller lists. sent: those of its last UpdateMetadata."""

    isr: tuple[int, ...] = REPLICAS
    version: int = 0
    leader_epoch: int = 0
    live: frozenset[int] = frozenset((*REPLICAS, CONTROLLER))
    sent: frozenset[int] = frozenset()
    protocol: str | None = None

    # -- the controller

    def update_metadata(self) -> None:
        """The controller sends the brokers that are live."""
        self.sent = self.live
        self._control(UPDATE_METADATA, self.release.update_metadata)

    def begin_epoch(self) -> None:
        """The controller elects the leader again."""
        self.leader_epoch, self.version = self.leader_epoch + 1, self.version + 1
        self._control(LEADER_AND_ISR, self.release.leader_and_isr)

    def _control(self, api: str, version: int) -> None:
        self.correlation += 1
        topic_id = "topic000001AAAAAAAAAAA" if self.release.family != "text" else None
        state = State(TOPIC, 0, topic_id, 1, LEADER, self.leader_epoch, self.isr, self.version, REPLICAS)
        starts = (
            Start(
                True, TOPIC, 0, topic_id, LEADER, self.leader_epoch, self.version, 40, 40, self.isr, self.leader_epoch - 1, LEADER
            ),
        )  # fmt: skip
        arrived = self.now
        self.pass_time(8, 20)
        led = api == LEADER_AND_ISR
        self.history.events.append(
            Control(
                self._next(), LEADER, self.now + 2, api=api, version=version, correlation_id=self.correlation,
                controller_id=CONTROLLER, controller_epoch=1, broker_epoch=7, partitions=(state,), codes=(0,) if led else (),
                held_epochs=(self.leader_epoch,) if led else (), starts=starts if led else (),
                live_brokers=tuple(sorted(self.live)), arrived=arrived, handled=arrived + 2, finished=self.now,
                connection=51_000, latest_controller_epoch=1,
            )
        )  # fmt: skip
        self.pass_time(3, 9)

    def lose(self) -> None:
        """A broker loses its session. Another one at times with it."""
        for _ in range(self.choices.choice((1, 1, 2))):
            self.live -= {self.choices.choice((2, 3))}
        self._maybe_send()

    def come_back(self) -> None:
        """A broker registers anew."""
        self.live |= {self.choices.choice((2, 3))}
        self._maybe_send()

    def _maybe_send(self) -> None:
        if self.choices.random() < 0.85:
            self.update_metadata()

    # -- the leader

    def start(self) -> None:
        """The leader's process starts, and prints its settings."""
        self.history.events.append(
            ProcessStarts(self._next(), LEADER, self.now, version=self.release.version, broker_epoch=7)
        )
        self.pass_time(700, 900)
        if self.protocol is not None:
            self.history.events.append(
                SettingPrinted(self._next(), LEADER, self.now, name=PROTOCOL, value=self.protocol)
            )
        self.pass_time(700, 900)

    def shrink(self) -> None:
        """The leader takes a follower out."""
        others = [one for one in self.isr if one != LEADER]
        if others:
            self._change(tuple(one for one in self.isr if one != self.choices.choice(others)))

    def expand(self) -> None:
        """The leader takes in a follower that has caught up, but for those that are away: it fetches from others no more."""
        missing = [one for one in REPLICAS if one not in self.isr]
        if missing:
            self._change((*self.isr, self.choices.choice(missing)))

    def _change(self, isr: tuple[int, ...]) -> None:
        expands, before = len(isr) > len(self.isr), self.isr
        if self.release.version == ANNOUNCES:
            self._line("expanding" if expands else "shrinking", isr, before)
            self.pass_time(2, 9)
            if self.choices.random() < 0.2:
                self._line("skipped", isr, before)
                return
        self.isr, self.version = isr, self.version + 1
        self._line("updated", isr, before)

    def _line(self, kind: str, isr: tuple[int, ...], before: tuple[int, ...]) -> None:
        self.history.events.append(
            IsrLine(
                self._next(), LEADER, self.now, kind=kind, topic=TOPIC, partition=0, isr=isr, before=before,
                partition_epoch=self.version,
            )
        )  # fmt: skip

    def run(self, steps: int) -> History:
        """Let the leader start, and take steps."""
        self.protocol = self.choices.choice(("2.6-IV0", "2.6-IV0", "2.7-IV1", "2.7-IV2", None))
        self.start()
        if self.choices.random() < 0.9:
            self.update_metadata()
        self.begin_epoch()
        for _ in range(3 * steps):
            self.pass_time(*self.choice_of_pause())
            step = self.choices.choices(
                (self.lose, self.come_back, self.shrink, self.expand, self.update_metadata, self.begin_epoch),
                (16, 12, 20, 30, 4, 5),
            )[0]
            step()
        return self.history

    def choice_of_pause(self) -> tuple[int, int]:
        """How long it takes until the next step: not about a second, on which verdicts would hang."""
        return self.choices.choice(((60, 400), (2500, 6000), (2500, 6000), (9000, 14000)))


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a leader that writes its ISRs to ZooKeeper. It has no planted breaches: what it does wrong is its release's."""
    del faulty
    return ZooKeeperLeader(name, release, choices, faulty=False).run(steps)
