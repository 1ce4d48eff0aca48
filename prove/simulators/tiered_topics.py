"""Simulated fetches of a topic with tiered storage: the leader has the first records only remotely (KIP-405).

The leader follows ReplicaManager.handleOffsetOutOfRangeError of 3.6 to 4.1: it reads such records from the remote storage for consumers,
and answers followers with 109, OFFSET_MOVED_TO_TIERED_STORAGE, so that they build their log from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from prove.history import TIERED_TOPICS, History, ProcessStarts, Query, Release
from prove.simulators.simulation import Simulation

MOVED: Final = 109
OUT_OF_RANGE: Final = 1
TOPICS: Final = (("orders", "tieredordersAAAAAAAAAA"), ("audit", "tieredauditAAAAAAAAAAA"))
LEADERS: Final = (1, 2)
FAULT: Final = "consumer is sent to tiered storage"
FAULT_CHANCE: Final = 0.2
RELEASES: Final = (
    Release(TIERED_TOPICS, "3.6.2", "json", fetch=15),
    Release(TIERED_TOPICS, "3.9.1", "kraft", fetch=17),
    Release(TIERED_TOPICS, "4.1.2", "kraft", fetch=17),
)


@dataclass
class TieredTopics(Simulation):
    """The fetches so far."""

    def fetch(self, node: int, number: int) -> None:
        """A consumer or follower fetches from one of the leaders."""
        topic, topic_id = TOPICS[number]
        start, local_start, end = 10 * number, 40 + 10 * node, 120
        replica = self.choices.choice((-1, -1, 3, 4))
        client = self.choices.choice(("billing", "audit")) if replica < 0 else f"broker-{replica}-fetcher-0"
        offset = self.choices.choice((start - 1, start, start + 7, local_start - 1, local_start, end, end + 1))
        code, served = 0, start <= offset <= end
        if not served:
            code = OUT_OF_RANGE
        elif offset < local_start and (replica >= 0 or self._sends_away()):
            code = MOVED
        self.correlation += 1
        self.pass_time(0, 400)
        self.history.events.append(
            Query(
                self._next(), node, self.now, version=self.release.fetch, correlation_id=self.correlation, client_id=client,
                replica_id=replica, topic=topic, topic_id=topic_id, partition=self.choices.choice((0, 1)), current_leader_epoch=3,
                epoch=3 if replica >= 0 else -1, offset=offset, error_code=code, high_watermark=end, log_start_offset=start,
                replica_epoch=7, records_size=70, arrived=self.now - 3, connection=50_000 + replica,
            )
        )  # fmt: skip

    def _sends_away(self) -> bool:
        return self.faulty and self.choices.random() < FAULT_CHANCE

    def run(self, steps: int) -> History:
        """Let the leaders start, and serve."""
        for node in LEADERS:
            self.history.events.append(
                ProcessStarts(self._next(), node, self.now, version=self.release.version, broker_epoch=7)
            )
        self.pass_time(1500, 2500)
        for _ in range(4 * steps):
            self.fetch(self.choices.choice(LEADERS), self.choices.choice((0, 0, 1)))
        if any(one.error_code == MOVED and one.replica_id < 0 for one in self.history.events if isinstance(one, Query)):
            self.history.faults.append(FAULT)
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of fetches of topics with tiered storage. faulty: breaches are planted."""
    return TieredTopics(name, release, choices, faulty).run(steps)
