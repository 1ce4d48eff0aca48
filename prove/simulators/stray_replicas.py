"""A simulated KRaft broker that finds folders of replicas which the cluster took from it while it was down.

It follows BrokerMetadataPublisher of 3.6 and LogManager.isStrayKraftReplica of 3.7 and later: such a folder is renamed, and its topic id
is not served. A replica that is assigned again starts anew; a topic that was created again starts under another id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from prove.history import (
    FETCH,
    STRAY_REPLICAS,
    Event,
    History,
    PartitionCreated,
    ProcessStarts,
    Query,
    Release,
    Start,
    Started,
    StrayFound,
    StrayRenamed,
)
from prove.simulators.simulation import BEGIN_MS, Simulation

NODE: Final = 1
TOPICS: Final = ("orders", "pay.eu-1")

RELEASES: Final = (
    Release(STRAY_REPLICAS, "3.6.2", "kraft", fetch=15),
    Release(STRAY_REPLICAS, "3.9.1", "kraft", fetch=17),
)
SERVED: Final = "stray replica is served"
STARTED: Final = "stray replica of a deleted topic is started"
FAULTS: Final = (SERVED, STARTED)


@dataclass
class StrayReplicas(Simulation):
    """The broker and its history so far.

    topics: name -> id of the topic that exists. assigned: names of which the broker has the replica. disk: name -> id of its folder.
    hosted: the same of the replicas that run. ids: name and id of all topics so far. epochs: by id. gone: found stray: (name, id).
    """

    topics: dict[str, str] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    disk: dict[str, str] = field(default_factory=dict)
    hosted: dict[str, str] = field(default_factory=dict)
    ids: list[tuple[str, str]] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    gone: list[tuple[str, str]] = field(default_factory=list)
    tells_starts: bool = True
    tells_renaming: bool = True

    def log(self, event: Event) -> None:
        """Append an event to the history, and let the clock go on."""
        self.history.events.append(event)
        self.pass_time(2, 9)

    # -- the cluster, of which the broker learns at once if it runs

    def create(self) -> None:
        """Create a topic, with a replica on the broker or without."""
        for name in TOPICS:
            if name not in self.topics:
                self.topics[name] = f"topic{len(self.ids):06d}AAAAAAAAAAA"
                self.ids.append((name, self.topics[name]))
                self.epochs[self.topics[name]] = 0
                if self.choices.random() < 0.8:
                    self.assigned.add(name)

    def delete(self) -> None:
        """Delete a topic."""
        if self.topics:
            name = self.choice_of(self.topics)
            del self.topics[name]
            self.assigned.discard(name)

    def reassign(self) -> None:
        """Take a replica from the broker, or give it one."""
        if self.topics:
            self.assigned ^= {self.choice_of(self.topics)}

    def elect(self) -> None:
        """Another leader epoch begins."""
        if self.topics:
            self.epochs[self.topics[self.choice_of(self.topics)]] += 1

    def choice_of(self, names: dict[str, str]) -> str:
        """A name."""
        return self.choices.choice(sorted(names))

    # -- the broker

    def publish(self) -> None:
        """The broker takes over what it has learned."""
        before = dict(self.hosted)
        for name, topic_id in before.items():
            if self.topics.get(name) != topic_id or name not in self.assigned:
                del self.hosted[name], self.disk[name]
        for name in sorted(self.assigned):
            topic_id = self.topics[name]
            if before.get(name) != topic_id or self.choices.random() < 0.3:
                self._start_replica(name, topic_id, new=before.get(name) != topic_id)

    def _start_replica(self, name: str, topic_id: str, *, new: bool) -> None:
        epoch, leads = self.epochs[topic_id], self.choices.random() < 0.5
        self.hosted[name] = self.disk[name] = topic_id
        if not self.tells_starts:
            return
        if new:
            self.log(PartitionCreated(self._next(), NODE, self.now, topic=name, topic_id=topic_id))
        start = Start(leads, name, 0, topic_id, NODE if leads else 2, epoch, epoch, 9, 9, (1, 2), epoch - 1, 2)
        self.log(Started(self._next(), NODE, self.now, start=start))

    def restart(self) -> None:
        """The broker is down for a while, in which more happens, and starts."""
        self.hosted = {}
        for _ in range(self.choices.choice((0, 1, 1, 2, 3))):
            self._change()
        self.pass_time(4000, 9000)
        self.log(ProcessStarts(self._next(), NODE, self.now, version=self.release.version, broker_epoch=7))
        self.pass_time(1500, 2500)
        for name, topic_id in sorted(self.disk.items()):
            if self.topics.get(name) == topic_id and name in self.assigned:
                continue
            reason = "unassigned" if self.topics.get(name) == topic_id else "deleted"
            if self.release.version != "3.6.2" and self.choices.random() < 0.1:
                reason = "no id"
            known = None if reason == "no id" else topic_id
            self.log(StrayFound(self._next(), NODE, self.now, topic=name, topic_id=known, reason=reason))
            self.gone.append((name, topic_id))
            del self.disk[name]
            if self.tells_renaming:
                self.log(StrayRenamed(self._next(), NODE, self.now, topic=name))
        self.pass_time(1500, 3000)
        self.publish()

    def fetch(self) -> None:
        """Clients fetch by topic id, also of topics that are gone."""
        for _ in range(self.choices.randint(1, 4)):
            name, topic_id = self.choices.choice(self.ids)
            self.correlation += 1
            query = Query(
                0, NODE, 0, api=FETCH, version=self.release.fetch, correlation_id=self.correlation, client_id="billing", topic=name,
                topic_id=topic_id, arrived=self.now, connection=51_000, session_id=1_000_000 + self.correlation,
            )  # fmt: skip
            self.pass_time(2, 9)
            query.error_code = 0 if self.hosted.get(name) == topic_id else 100
            stray = query.error_code and (name, topic_id) in self.gone
            if stray and self.takes(SERVED):
                query.error_code = 0
            query.high_watermark = 9
            query.at, query.id = self.now, self._next()
            self.log(query)

    def start_stray(self) -> None:
        """The broker starts a replica that it had found to be stray, of a topic that does not exist."""
        dead = [(name, topic_id) for name, topic_id in self.gone if name not in self.topics and name not in self.hosted]
        if dead and self.takes(STARTED):
            name, topic_id = self.choices.choice(dead)
            self._start_replica(name, topic_id, new=True)
            self.assigned.discard(name)

    # -- the whole

    def _change(self) -> None:
        self.choices.choices((self.create, self.delete, self.reassign, self.elect), (5, 4, 4, 2))[0]()

    def change(self) -> None:
        """Something changes while the broker runs."""
        self._change()
        self.publish()

    def run(self, steps: int) -> History:
        """Let the broker start, and take steps."""
        self.tells_starts = self.choices.random() < 0.85
        self.tells_renaming = self.choices.random() < 0.7
        self.create()
        self.restart()
        for _ in range(2 * steps):
            self.pass_time(1500, 3000)
            if self.faulty and self.fault is None and self.choices.random() < 0.3:
                self.fault = self.choices.choice(FAULTS)
            step = self.choices.choices(
                (self.change, self.restart, self.fetch, self.start_stray, self.create), (8, 9, 12, 3, 2)
            )[0]
            step()
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of stray replicas. faulty: breaches are planted."""
    return StrayReplicas(name, release, choices, faulty, now=BEGIN_MS).run(steps)
