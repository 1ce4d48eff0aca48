"""Simulated share coordinators, and the brokers that read and write the states of share groups there (KIP-932).

They follow ShareCoordinatorShard of 4.1 to 4.3 (maybeGetReadStateError, readStateAndMaybeUpdateLeaderEpoch, maybeGetWriteStateError,
maybeGetInitializeStateError, maybeGetDeleteStateError). Leaders of partitions are replaced and do not know it, groups are reset, deleted
and created again.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Final

from prove.coordination import DELETE, INITIALIZE, READ, WRITE, SharesState
from prove.history import SHARE_GROUPS, History, Release
from prove.simulators import share_sessions
from prove.simulators.coordinator_cluster import NODES, CoordinatorCluster
from prove.simulators.share_sessions import ShareSessions

TOPIC: Final = "__share_group_state"
TOPIC_ID: Final = "sharedAAAAAAAAAAAAAAAA"
FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH = 74, 124

RELEASES: Final = (
    Release(SHARE_GROUPS, "4.1.2", "kraft", metadata_version=25),
    Release(SHARE_GROUPS, "4.2.1", "kraft", metadata_version=27),
    Release(SHARE_GROUPS, "4.3.1", "kraft", metadata_version=30),
)
FAULTS: Final = {
    "older leader reads or writes a share group's state": 0.8,
    "older state epoch is accepted": 0.8,
    "older state epoch is returned": 0.1,
}
"""What a share coordinator does wrong, and how often when it can."""


@dataclass
class State:
    """A share group's state of a partition. leader_epoch: the highest one in which it was read. snapshot: of these, what is written."""

    state_epoch: int = 0
    leader_epoch: int = -1
    snapshot: int = -1
    former_state_epoch: int = -1


Key = tuple[str, int]
"""(group, partition)."""


@dataclass
class Leader:
    """A broker that leads a partition, or takes itself for its leader, and what it knows of the groups' states."""

    partition: int
    epoch: int
    broker: int
    states: dict[str, int] = field(default_factory=dict)
    """Group -> state epoch that it has read."""


@dataclass
class ShareCluster(CoordinatorCluster):
    """A cluster with share groups. group_epochs: group -> its epoch; leaders: the present and former ones."""

    group_epochs: dict[str, int] = field(default_factory=dict)
    leaders: list[Leader] = field(default_factory=list)

    def states(self, node: int) -> dict[Key, State]:
        """What a share coordinator has in memory."""
        found: dict[Key, State] = self.nodes[node].memory[TOPIC]
        return found

    def loaded(self, stored: dict[Key, State]) -> dict[Key, State]:
        """An initialization writes a snapshot without the leader epoch: a new coordinator does not know it."""
        for one in stored.values():
            one.leader_epoch = one.snapshot
        return stored

    # -- the coordinator

    def handle(self, request: SharesState) -> None:
        """Check a request, and write what it changes."""
        node, key = request.node, (request.group_id, request.partition)
        request.error_code = self.coordinates(node, TOPIC)
        if request.error_code:
            return
        states = self.states(node)
        before = deepcopy(states.get(key))
        state = deepcopy(before) or State()
        request.error_code = self._change(request, state, known=before is not None)
        if request.error_code:
            return
        if request.api == DELETE:
            states.pop(key, None)
        else:
            states[key] = state
        request.error_code = self.persists(node, TOPIC)
        if request.error_code and before is not None:
            states[key] = before
        elif request.error_code:
            states.pop(key, None)
        elif request.api == READ:
            request.answered_epoch = state.state_epoch
            if 0 <= state.former_state_epoch < state.state_epoch and self.takes("older state epoch is returned"):
                request.answered_epoch = state.former_state_epoch

    def _change(self, request: SharesState, state: State, *, known: bool) -> int:
        """The error code, or 0: then the state is changed."""
        if request.api == DELETE:
            return 0
        reads_or_writes = request.api in (READ, WRITE)
        if reads_or_writes and request.leader_epoch < state.leader_epoch:
            if not self.takes("older leader reads or writes a share group's state"):
                return FENCED_LEADER_EPOCH
        elif request.api != READ and known and request.state_epoch < state.state_epoch:
            if not self.takes("older state epoch is accepted"):
                return FENCED_STATE_EPOCH
        elif request.api == INITIALIZE:
            state.former_state_epoch, state.state_epoch, state.snapshot = state.state_epoch, request.state_epoch, -1
        elif request.api == READ or self.release.version < "4.2":  # KAFKA-19456
            state.leader_epoch = state.snapshot = request.leader_epoch
        return 0

    def ask(self, api: str, group_id: str, partition: int, client_id: str, **fields: int) -> SharesState | None:
        """A broker asks the coordinator, or one that it takes for it."""
        node = self.coordinator(TOPIC, current=self.chance(0.9))
        if node is None:
            return None
        request = SharesState(
            0, node, 0, api=api, version=0, client_id=client_id, group_id=group_id, topic_id=TOPIC_ID, partition=partition, **fields,
        )  # fmt: skip
        self.sent(request, client_id)
        self.handle(request)
        return self.answered(request)

    # -- brokers

    def act(self) -> None:
        """A leader reads or writes, or a group is created, reset or deleted."""
        steps = (self.leader_acts, self.change_leader, self.change_group, self.delete_group)
        self.choices.choices(steps, (20, 2, 3, 1))[0]()

    def change_leader(self) -> None:
        """A partition gets another leader. The former one may go on for a while."""
        partition = self.choices.choice((0, 1))
        epoch = max((one.epoch for one in self.leaders if one.partition == partition), default=-1) + 1
        self.leaders.append(Leader(partition, epoch, self.choices.choice((1, 2, 3))))
        self.leaders = self.leaders[-4:]

    def leader_acts(self) -> None:
        """A leader reads a group's state that it does not know yet, and writes it then."""
        if not self.leaders or not self.group_epochs:
            return
        weights = [1] * (len(self.leaders) - 1) + [3]
        one = self.choices.choices(self.leaders, weights)[0]
        group_id = self.choices.choice(sorted(self.group_epochs))
        client_id = f"Persister-client-{one.broker}"
        if group_id not in one.states or self.chance(0.15):
            read = self.ask(READ, group_id, one.partition, client_id, leader_epoch=one.epoch)
            if read is not None and self.heard(read) and not read.error_code:
                one.states[group_id] = read.answered_epoch
            return
        written = self.ask(
            WRITE, group_id, one.partition, client_id, leader_epoch=one.epoch, state_epoch=one.states[group_id]
        )
        if written is not None and written.error_code == FENCED_STATE_EPOCH and self.chance(0.6):
            del one.states[group_id]

    def change_group(self) -> None:
        """A group begins with a topic, or an administrator sets its offsets: the group coordinator initializes the states."""
        group_id = self.choice_of_group()
        self.group_epochs[group_id] = self.group_epochs.get(group_id, 0) + self.choices.choice((1, 1, 2))
        for partition in (0, 1):
            self.ask(INITIALIZE, group_id, partition, "Persister-client-9", state_epoch=self.group_epochs[group_id])

    def choice_of_group(self) -> str:
        """One of two groups."""
        return self.choices.choice(("pickers", "packers"))

    def delete_group(self) -> None:
        """A group is deleted, and its states with it. The coordinator may move before or after. Its epochs begin anew."""
        group_id = self.choice_of_group()
        if group_id not in self.group_epochs:
            return
        if self.chance(0.5):
            self.prefer()
        for partition in (0, 1):
            deleted = self.ask(DELETE, group_id, partition, "Persister-client-9")
            if deleted is None or deleted.error_code or not deleted.at:
                return
        del self.group_epochs[group_id]
        for one in self.leaders:
            if self.chance(0.8):
                one.states.pop(group_id, None)
        if self.chance(0.4):
            self.change_group()
            self.leader_acts()
        if self.chance(0.5):
            self.prefer()

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps."""
        self.begin()
        self.make_log(TOPIC, {})
        self.publish_all()
        self.change_leader()
        self.change_group()
        for _ in range(5 * steps):
            self.choices.choices((self.act, self.disturb), (20, 1.5))[0]()
            self.pass_time(*self.choices.choice(((10, 90), (10, 900), (1100, 2500), (1500, 4000))))
        self.end_history()
        self.log_slow_answers()
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a cluster with share groups. faulty: breaches are planted."""
    cluster = ShareCluster(name, release, choices, faulty, chances=FAULTS)
    history = cluster.run(steps)
    missing = choices.choice((0, 0, 0.05))
    clocks = {node: cluster.clock(node) for node in NODES}
    sessions = ShareSessions(choices, clocks, faulty and cluster.chance(0.3), one_connection=missing > 0)
    first = max((event.id for event in history.events), default=0) + 1
    for number, event in enumerate(sessions.run(4 * steps), first):
        event.id = number
        if choices.random() >= missing:
            history.events.append(event)
    if sessions.breaches:
        history.faults.append(share_sessions.FAULT)
    return history
