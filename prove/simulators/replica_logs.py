"""Simulated folders of replicas of one topic, copied from its brokers, whose batches can be compared.

Leaders append batches, and brokers that follow have the same ones. A leader that fails leaves batches that no follower has; a broker that
is down has a shorter log; an unclean election makes the shorter log the partition's. The log cleaner removes batches of one replica, and
old segments go. Each broker's high watermark is at most what it knows to be committed (UnifiedLog, Partition, ReplicationControlManager).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from prove.history import (
    REPLICA_LOGS,
    BatchRun,
    CheckpointEntry,
    History,
    OffsetCheckpoint,
    PartitionMetadata,
    Record,
    Release,
)
from prove.simulators.simulation import Simulation

TOPIC: Final = "orders"
TOPIC_ID: Final = "replicaAAAAAAAAAAAAAAA"
FORMER_ID: Final = "formerAAAAAAAAAAAAAAAA"
BROKERS: Final = (1, 2, 3)
CONTROLLER: Final = 100
CORRUPTED: Final = "a replica has other bytes"
NOT_TRUNCATED: Final = "an older epoch's records remain"
FAULTS: Final = (CORRUPTED, NOT_TRUNCATED)
RELEASES: Final = (Release(REPLICA_LOGS, "3.9.1", "kraft"), Release(REPLICA_LOGS, "4.1.2", "kraft"))


@dataclass(frozen=True)
class Batch:
    """A batch of a log. content: what its records hold."""

    epoch: int
    base: int
    last: int
    content: int = 0


@dataclass
class Replica:
    """A broker's log of the partition. known: the offset up to which it knows that batches are committed.

    follows: it is up, and in the ISR. is_former: its folder is of the topic before this one of the same name.
    """

    node: int
    log: list[Batch] = field(default_factory=list)
    known: int = 0
    follows: bool = True
    is_former: bool = False

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.log[-1].last + 1 if self.log else 0


@dataclass
class ReplicaLogs(Simulation):
    """The partitions so far. changes: of each partition, the fields of its metadata records, in order."""

    changes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    # -- a partition

    def partition(self, number: int, steps: int) -> list[Replica]:
        """The replicas of a partition at the end."""
        replicas = [Replica(node) for node in BROKERS]
        leader, epoch = self.choices.choice(replicas), self.choices.choice((0, 0, 4))
        self.changes[number] = [{"leader": leader.node, "leaderEpoch": epoch, "isr": [*BROKERS]}]
        is_long = self.choices.random() < 0.15
        for _ in range(steps):
            self._append(replicas, leader, epoch, is_long)
            happens = self.choices.random()
            if happens < 0.25:
                self._leave(replicas, leader, number)
            elif happens < 0.45:
                self._return(replicas, leader, number)
            elif happens < 0.8:
                leader, epoch = self._elect(replicas, leader, epoch, number)
        self._append(replicas, leader, epoch, is_long)
        return replicas

    def _append(self, replicas: list[Replica], leader: Replica, epoch: int, is_long: bool) -> None:
        """The leader appends, and who follows it has it, too. Some learn later that it is committed."""
        for _ in range(self.choices.randint(1, 4)):
            records = self.choices.randint(200, 1500) if is_long else self.choices.randint(1, 9)
            batch = Batch(epoch, leader.end, leader.end + records - 1, self.choices.randrange(1000))
            for one in replicas:
                if one.follows:
                    one.log.append(batch)
        for one in replicas:
            if one.follows and (one is leader or self.choices.random() < 0.8):
                one.known = leader.end

    def _isr(self, replicas: list[Replica]) -> list[int]:
        return [one.node for one in replicas if one.follows]

    def _leave(self, replicas: list[Replica], leader: Replica, number: int) -> None:
        """A follower fails: its log ends here."""
        followers = [one for one in replicas if one.follows and one is not leader]
        if followers:
            self.choices.choice(followers).follows = False
            self.changes[number].append({"isr": self._isr(replicas)})

    def _return(self, replicas: list[Replica], leader: Replica, number: int) -> None:
        """A broker comes back, and makes its log that of the leader."""
        away = [one for one in replicas if not one.follows]
        if away:
            one = self.choices.choice(away)
            self._catch_up(one, leader)
            self.changes[number].append({"isr": self._isr(replicas)})

    def _catch_up(self, one: Replica, leader: Replica) -> None:
        one.follows = True
        common = [mine for mine, its in zip(one.log, leader.log, strict=False) if mine == its]
        rest = leader.log[len(common) :]
        if len(common) < len(one.log) and rest and self.takes(NOT_TRUNCATED):
            own = one.log[len(common) :]
            follow = [batch for batch in rest if batch.base > own[-1].last]
            if follow:  # what was appended since joins on, where a batch begins
                own[-1] = replace(own[-1], last=follow[0].base - 1)
                one.log, one.known = common + own + follow, leader.known
                return
        one.log, one.known = (
            common + rest,
            min(leader.known, one.known) if self.choices.random() < 0.3 else leader.known,
        )

    def _elect(self, replicas: list[Replica], leader: Replica, epoch: int, number: int) -> tuple[Replica, int]:
        """Another leader, of the ISR or, uncleanly, of the other replicas. Some leaders fail just after they have appended."""
        followers = [one for one in replicas if one.follows and one is not leader]
        away = [one for one in replicas if not one.follows]
        unclean = bool(away) and self.choices.random() < 0.4
        if not followers and not unclean:
            return leader, epoch
        fails = unclean or self.choices.random() < 0.5
        if fails and not unclean:
            for _ in range(self.choices.choice((0, 1, 2))):
                leader.log.append(
                    Batch(
                        epoch, leader.end, leader.end + self.choices.randint(0, 8), 5000 + self.choices.randrange(1000)
                    )
                )
        elected = self.choices.choice(away if unclean else followers)
        if unclean:
            for one in replicas:
                one.follows = one is elected
            self.changes[number].append({"leader": -1, "isr": [leader.node]})
            epoch = self.epoch_of(number) + 1
            self.changes[number].append({"leader": elected.node, "isr": [elected.node], "leaderRecoveryState": 1})
        else:
            leader.follows = not fails
            epoch = self.epoch_of(number) + 1
            self.changes[number].append({"leader": elected.node, "isr": self._isr(replicas)})
        return elected, epoch

    def epoch_of(self, number: int) -> int:
        """The partition's leader epoch: each change of the leader raises it."""
        changes = self.changes[number]
        return int(changes[0]["leaderEpoch"]) + sum("leader" in change for change in changes[1:])

    # -- copies

    def copy(self, replicas: list[Replica], number: int) -> dict[int, int]:
        """Copy the partition's folders. Returns the high watermarks that the brokers write."""
        if self.fault == CORRUPTED:
            self._corrupt(replicas)
        high_watermarks = {}
        for one in replicas:
            if one.node > 1 and self.choices.random() < 0.15:
                continue
            if self.choices.random() < 0.05:
                one.is_former = True
            known = min(one.known, one.end)
            high_watermarks[one.node] = known if self.choices.random() < 0.8 else self.choices.randint(0, known)
            entries = [
                (batch.epoch, batch.base)
                for n, batch in enumerate(one.log)
                if n == 0 or batch.epoch > one.log[n - 1].epoch
            ]
            if self.choices.random() < 0.1:  # the log is truncated after it was copied, and another epoch begins there
                cut = self.choices.randint(0, one.end)
                entries = [entry for entry in entries if entry[1] < cut] + [(one.log[-1].epoch + 1, cut)]
                high_watermarks[one.node] = min(known, cut)
            self._write(one, number, self._cleaned(one.log), entries if self.choices.random() < 0.8 else [])
        return high_watermarks

    def _corrupt(self, replicas: list[Replica]) -> None:
        """A batch of one replica has other records."""
        one = self.choices.choice(replicas)
        committed = [n for n, batch in enumerate(one.log) if batch.last < min(other.known for other in replicas)]
        if committed and self.takes(CORRUPTED):
            n = self.choices.choice(committed)
            one.log[n] = replace(one.log[n], content=9999)

    def _cleaned(self, log: list[Batch]) -> list[Batch]:
        """The log as it is copied: its first batches may be gone, and the log cleaner may have removed some in between."""
        log = log[self.choices.randrange(len(log)) :] if self.choices.random() < 0.2 else log
        if self.choices.random() < 0.1:
            log = [batch for batch in log[:-1] if self.choices.random() < 0.7] + log[-1:]
        return log

    def _write(self, one: Replica, number: int, log: list[Batch], entries: list[tuple[int, int]]) -> None:
        folder, segment = f"{TOPIC}-{number}", log[0].base
        for batch in log:
            if self.choices.random() < 0.1:
                segment = batch.base
            self.history.events.append(
                BatchRun(
                    self._next(), one.node, self.now, folder=folder, topic=TOPIC, partition=number, segment=segment, epoch=batch.epoch,
                    base=batch.base, last=batch.last, batch_records=batch.last + 1 - batch.base, content=batch.content,
                )
            )  # fmt: skip
        for place, (epoch, start) in enumerate(entries):
            self.history.events.append(
                CheckpointEntry(
                    self._next(), one.node, self.now, folder=folder, topic=TOPIC, partition=number, epoch=epoch, offset=start,
                    number=place, count=len(entries),
                )
            )  # fmt: skip
        if one.is_former or self.choices.random() < 0.6:
            topic_id = FORMER_ID if one.is_former else TOPIC_ID
            self.history.events.append(
                PartitionMetadata(self._next(), one.node, self.now, folder=folder, topic_id=topic_id)
            )

    # -- the metadata log

    def record(self, *, begins_late: bool) -> None:
        """The controller's metadata log. begins_late: the first record of a partition has the state of a later time."""
        records: list[tuple[str, dict[str, Any]]] = []
        if self.choices.random() < 0.15:
            records += [
                ("TOPIC_RECORD", {"name": TOPIC, "topicId": FORMER_ID}),
                ("REMOVE_TOPIC_RECORD", {"topicId": FORMER_ID}),
            ]
        records.append(("TOPIC_RECORD", {"name": TOPIC, "topicId": TOPIC_ID}))
        for number, changes in self.changes.items():
            first = self.choices.randrange(len(changes)) if begins_late else 0
            state: dict[str, Any] = {}
            for n, change in enumerate(changes):
                epoch = state.get("leaderEpoch", -1)
                state |= change
                if n > 0 and "leader" in change:
                    state["leaderEpoch"] = epoch + 1
                state["leaderRecoveryState"] = change.get("leaderRecoveryState", 0)
                place = {"partitionId": number, "topicId": TOPIC_ID}
                if n == first:
                    replicas = {
                        "replicas": [*BROKERS],
                        "removingReplicas": [],
                        "addingReplicas": [],
                        "partitionEpoch": n,
                    }
                    records.append(("PARTITION_RECORD", place | replicas | state))
                elif n > first:
                    recovered = state["leaderRecoveryState"] == 0 and changes[n - 1].get("leaderRecoveryState", 0) == 1
                    records.append(
                        ("PARTITION_CHANGE_RECORD", place | change | ({"leaderRecoveryState": 0} if recovered else {}))
                    )
        for offset, (kind, data) in enumerate([*records, ("NO_OP_RECORD", {})]):
            one = Record(
                self._next(), CONTROLLER, self.now, offset=offset, batch=offset, kind=kind, data=data | {"__count": 1}
            )
            self.history.events.append(one)

    def run(self, steps: int) -> History:
        """Let partitions live, and copy their folders from three brokers."""
        high_watermarks: dict[int, list[tuple[str, int, int]]] = {node: [] for node in BROKERS}
        for number in range(self.choices.choice((1, 1, 2))):
            if self.faulty and self.fault is None:
                self.fault = self.choice_of_fault()
            replicas = self.partition(number, steps)
            for node, high_watermark in self.copy(replicas, number).items():
                high_watermarks[node].append((TOPIC, number, high_watermark))
        for node, entries in high_watermarks.items():
            if self.choices.random() < 0.9 and entries:
                self.history.events.append(
                    OffsetCheckpoint(self._next(), node, self.now, high_watermarks=tuple(entries))
                )
        if self.choices.random() < 0.75:
            self.record(begins_late=self.choices.random() < 0.2)
        return self.history

    def choice_of_fault(self) -> str:
        """What goes wrong next."""
        return self.choices.choice(FAULTS)


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of replicas' logs. faulty: breaches are planted."""
    return ReplicaLogs(name, release, choices, faulty).run(steps)
