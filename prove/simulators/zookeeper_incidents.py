"""A simulated ZooKeeper-mode cluster to which more happens: sessions expire, and requests have old versions or no leader epoch.

Brokers with an older inter.broker.protocol.version get control requests without broker epochs (before 2.2), without leader epochs
(StopReplica before 2.6) and without topic ids (before 2.8). Follows KafkaController, ControllerChannelManager and KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from prove.history import (
    EPOCH_DURING_DELETE,
    FETCH,
    NO_EPOCH,
    NO_LEADER,
    STOP_REPLICA,
    ZOOKEEPER,
    Decision,
    History,
    Query,
    Registered,
    Release,
    State,
    Stop,
)
from prove.simulators import zookeeper_cluster
from prove.simulators.zookeeper_cluster import Broker, ZooKeeperCluster

RELEASES: Final = (
    *zookeeper_cluster.RELEASES,
    Release(ZOOKEEPER, "2.8.2", "json", 1, 0, 4, 10, 5, 2, refuses_equal_stop=True, protocol="2.1"),
    Release(ZOOKEEPER, "2.8.2", "json", 4, 2, 6, 11, 5, 3, refuses_equal_stop=True, protocol="2.5"),
    Release(ZOOKEEPER, "3.3.2", "json", 4, 2, 6, 11, 5, 3, refuses_equal_stop=True, protocol="2.4"),
)

FAULTS: Final = (
    "living topic deleted",
    "leader epoch withheld",
    "deleted replica served",
    "former topic id served",
    "replaced controller writes",
    "epochs begin again",
    "topic id used again",
)


class ZooKeeperWithIncidents(ZooKeeperCluster):
    """The cluster and its history so far."""

    def faults(self) -> tuple[str, ...]:
        """The breaches that may be planted."""
        return (*super().faults(), *FAULTS)

    def steps(self) -> dict[Callable[[], None], int]:
        """What may happen next, and how often."""
        return super().steps() | {
            self.expire_session: 6, self.cancel_leaderless: 4, self.move_replica_away_and_back: 5, self.recreate_topic: 5,
            self.ask_former_replica: 8, self.send_wrong_stop: 3, self.begin_again: 1,
        }  # fmt: skip

    # -- what follows the protocol

    def expire_session(self) -> None:
        """A broker's ZooKeeper session expires; it registers again in the same process, perhaps after the controller knows."""
        up = [broker for broker in self._up() if broker != self.controller]
        if not up:
            return
        broker = self.brokers[self.choices.choice(up)]
        broker.is_registered = False
        self.late += [message for message in self.queue if message.broker == broker.id]
        self.queue = [message for message in self.queue if message.broker != broker.id]
        self.disconnect(broker)
        self.pass_time(2000, 7000)
        self.broker_failed(broker.id)
        if self.choices.random() < 0.7:
            self.deliver()
        if self.choices.random() < 0.5:
            self.deliver_late()
        self.zxid += self.choices.randint(3, 40)
        broker.is_registered, broker.znode_epoch = True, self.zxid
        known_first = self.choices.random() < 0.5
        if known_first:
            self._learn_own_epoch(broker)
        self.welcome(broker)
        if not known_first:
            self.deliver()
            self._learn_own_epoch(broker)

    def welcome(self, broker: Broker) -> None:
        """A request of before the registration may arrive first: the controller sends it again on the next connection."""
        super().welcome(broker)
        if self.choices.random() < 0.4:
            self.deliver_late_to(broker.id)

    def _learn_own_epoch(self, broker: Broker) -> None:
        self.pass_time(900, 1500)
        broker.broker_epoch = broker.znode_epoch
        self.log(Registered(self._next(), broker.id, self.clock(broker.id), broker_epoch=broker.znode_epoch))
        self.pass_time(900, 1500)

    def cancel_leaderless(self) -> None:
        """The reassignment of a partition that never had a leader is cancelled: its new replica is stopped without a leader epoch."""
        for topic, partition in self.leaderless[:1]:
            broker = self.choices.choice(self._up())
            for delete in (False, True):
                self.send(broker, STOP_REPLICA, [Stop(topic, partition, NO_EPOCH, delete)])

    def move_replica_away_and_back(self) -> None:
        """A reassignment takes a replica from a broker, and the next one gives it back."""
        states = [
            state
            for state in self.states.values()
            if state.leader != NO_LEADER and len(state.replicas) == len(self.brokers)
        ]
        if not states:
            return
        chosen = self.choices.choice(states)
        self.reassign_one(chosen)
        if self.choices.random() < 0.5:
            self.deliver()
        self.pass_time(20, 1500)
        self.reassign_one(self.states[chosen.name])

    def recreate_topic(self) -> None:
        """A topic is deleted, and created again at once."""
        self.delete_topic()
        self.deliver()
        self.pass_time(20, 1500)
        self.create_topic()

    def ask_former_replica(self) -> None:
        """A client or follower asks a broker for a replica that it has deleted, of this topic or an earlier one of the name."""
        former = [
            (state, broker.id)
            for broker in self.brokers.values()
            for state in broker.former.values()
            if broker.id in self._up()
        ]
        if former:
            state, broker = self.choices.choice(former)
            self.ask(state, [broker])

    # -- breaches

    def _hosting(self) -> tuple[Broker, State] | None:
        """A broker with a replica of a living topic."""
        pairs = [
            (self.brokers[broker], state)
            for state in self.states.values()
            for broker in state.replicas
            if broker in self._up() and state.name in self.brokers[broker].hosted
        ]
        return self.choices.choice(pairs) if pairs else None

    def send_wrong_stop(self) -> None:
        """The controller stops a replica of a living topic, and states that the topic is being deleted, or no leader epoch."""
        hosting = self._hosting()
        if hosting is None or self.release.stop_replica < zookeeper_cluster.LEADER_EPOCHS:
            return
        broker, state = hosting
        delete = self.choices.random() < 0.5
        if self._takes("living topic deleted"):
            self.send(broker.id, STOP_REPLICA, [Stop(state.topic, state.partition, EPOCH_DURING_DELETE, delete)])
        elif self._takes("leader epoch withheld"):
            self.send(broker.id, STOP_REPLICA, [Stop(state.topic, state.partition, NO_EPOCH, delete)])
        else:
            return
        self.deliver()
        if self.choices.random() < 0.7:
            new = self.elect(self.states[state.name])
            if new:
                self.decide(new)
                self.publish([new])

    def begin_again(self) -> None:
        """The controller writes a partition's state as if its topic were new."""
        states = [state for state in self.states.values() if state.partition_epoch > 0]
        if states and self._takes("epochs begin again"):
            new = self.changed(self.choices.choice(states), leader_epoch=0, partition_epoch=0)
            self.decide(new)
            self.publish([new])

    def fail_over(self) -> None:
        """Another broker becomes controller. The one before may go on writing."""
        former, epoch = self.controller, self.controller_epoch
        super().fail_over()
        if self.controller == former or not self.states or self.choices.random() < 0.5:
            return
        self.move_leader()
        written = [state for state in self.states.values() if state.controller_epoch == self.controller_epoch]
        if written and self._takes("replaced controller writes"):
            state = replace(self.changed(self.choices.choice(written)), controller_epoch=epoch)
            self.states[state.name] = state
            self.pass_time(1, 5)
            self.log(Decision(self._next(), former, self.clock(former), controller_epoch=epoch, state=state))

    def new_topic_id(self) -> str | None:
        """A topic id that no topic has had, except by a breach."""
        new = super().new_topic_id()
        others = [state.topic_id for state in self.states.values() if state.topic_id]
        return others[0] if others and self._takes("topic id used again") else new

    def answer_without_replica(self, query: Query) -> None:
        """A broker without a replica refuses, except by a breach."""
        super().answer_without_replica(query)
        if (
            query.api == FETCH
            and query.name in self.brokers[query.node].former
            and self._takes("deleted replica served")
        ):
            query.error_code, query.high_watermark, query.records_size = 0, 0, 0


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a ZooKeeper-mode cluster. faulty: breaches are planted."""
    return ZooKeeperWithIncidents(name, release, choices, faulty).run(steps)
