"""A simulated quorum of controllers: elections, fetches and high watermarks of the metadata log (KIP-595, KIP-853, KIP-996).

The state machine follows KafkaRaftClient (handleVoteRequest, handleBeginQuorumEpochRequest, handleEndQuorumEpochRequest,
tryCompleteFetchRequest, maybeTransition), QuorumState and LeaderState.maybeUpdateHighWatermark. Controllers die, restart, are cut
off and come back; requests are lost, or arrive when their epoch has passed. A fault makes a controller break one rule, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from prove.history import CONTROLLER_QUORUM, FETCH, History, ProcessStarts, RaftRequest, RaftTransition, Record, Release
from prove.simulators.simulation import Simulation

VOTERS: Final = (101, 102, 103)
OBSERVERS: Final = (1, 2)
VOTE: Final = "VOTE"
BEGIN: Final = "BEGIN_QUORUM_EPOCH"
END: Final = "END_QUORUM_EPOCH"
FETCH_SNAPSHOT: Final = "FETCH_SNAPSHOT"
LEADER_CHANGE: Final = "LEADER_CHANGE"
VOTER_SET: Final = "KRAFT_VOTERS"
NO_OP: Final = "NO_OP_RECORD"

RELEASES: Final = (
    Release(CONTROLLER_QUORUM, "3.3.2", "kraft", fetch=13),
    Release(CONTROLLER_QUORUM, "3.9.1", "kraft", fetch=17),
    Release(CONTROLLER_QUORUM, "4.1.2", "kraft", fetch=17),
)
RAFT_FAULTS: Final = (
    "older quorum epoch served",
    "own quorum epoch refused",
    "voter votes twice",
    "two quorum leaders in one epoch",
    "quorum high watermark falls",
    "committed metadata is overwritten",
    "several voters change at once",
    "controller starts with an older copy",
)
"""What a controller of the quorum does wrong."""


@dataclass(frozen=True)
class Entry:
    """A record of a controller's copy of the log. written: CreateTime."""

    epoch: int
    kind: str
    written: int
    data: tuple[tuple[Any, Any], ...] = ()


@dataclass
class Controller:
    """A controller: memory of its process, and its disk. ends: as the leader, the log end of each voter that has fetched.

    copies: of its disk, each with epoch, vote, leader and log.
    """

    id: int
    skew: int
    up: bool = True
    cut_off: bool = False
    epoch: int = 0
    voted: int | None = None
    leader: int = -1
    leads: bool = False
    log: list[Entry] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    high_watermark: int = -1
    copies: list[tuple[int, int | None, int, list[Entry]]] = field(default_factory=list)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 of an empty log."""
        return self.log[-1].epoch if self.log else 0


@dataclass
class RaftQuorum(Simulation):
    """The quorum and its history so far. delayed: requests that have not arrived yet."""

    nodes: dict[int, Controller] = field(default_factory=dict)
    delayed: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    voters: list[int] = field(default_factory=lambda: [*VOTERS])
    committed: int = 0
    cluster: int = 0

    def moves(self, node: Controller, state: str, leader: int = -1) -> None:
        """QuorumState.durableTransitionTo: a node changes its state."""
        node.leads, node.leader = state == "Leader", leader
        node.copies.append((node.epoch, node.voted, leader, [*node.log]))
        if state != "Leader":
            node.high_watermark, node.ends = -1, {}
        self.history.events.append(
            RaftTransition(
                self._next(), node.id, self.now + node.skew, state=state, epoch=node.epoch, leader=leader, voted=node.voted
            )
        )  # fmt: skip

    def reachable(self, one: Controller, other: Controller) -> bool:
        """Two controllers reach each other."""
        return one.up and other.up and not one.cut_off and not other.cut_off

    # -- requests

    def ask(self, api: str, to: int, **fields: Any) -> RaftRequest:
        """A request is handled and answered."""
        node = self.nodes[to]
        self.correlation += 1
        self.pass_time(2, 40)
        request = RaftRequest(
            0, to, 0, api=api, version=self._version(api), correlation_id=self.correlation, arrived=self.now + node.skew,
            cluster=self.cluster, **fields,
        )  # fmt: skip
        self.pass_time(1, 5)
        {VOTE: self._vote, BEGIN: self._begun, END: self._begun}.get(api, self._served)(node, request)
        request.answered_leader, request.answered_epoch = node.leader, node.epoch
        if request.waits and request.error_code == 0:
            self.pass_time(450, 550)
            self._waited(node, request)
        self.pass_time(1, 5)
        request.id, request.at = self._next(), self.now + node.skew
        self.history.events.append(request)
        return request

    def _waited(self, node: Controller, request: RaftRequest) -> None:
        """Up to 3.3 another thread answers a Fetch that has waited: a candidate's higher epoch may come between."""
        if self.release.version == "3.3.2" and self.choices.random() < 0.06:
            node.epoch, node.voted = node.epoch + 1, None
            self.moves(node, "Unattached")
            request.answered_leader, request.answered_epoch = node.leader, node.epoch

    def _version(self, api: str) -> int:
        if api == FETCH:
            return self.release.fetch
        dynamic = self.release.version != "3.3.2"
        return 2 if api == VOTE and self.release.version == "4.1.2" else int(dynamic)

    def _fenced(self, node: Controller, request: RaftRequest) -> bool:
        """KafkaRaftClient.validateVoterOnlyRequest."""
        old = request.asked < node.epoch
        refused = old and not (request.api == BEGIN and self.takes("older quorum epoch served"))
        if refused or (request.asked == node.epoch and self.takes("own quorum epoch refused")):
            request.error_code = 74
        return old or request.error_code != 0

    def _vote(self, node: Controller, request: RaftRequest) -> None:
        if self._fenced(node, request):
            return
        if request.asked > node.epoch:
            node.epoch, node.voted = request.asked, None
            self.moves(node, "Unattached")
        complete = (request.last_epoch, request.offset) >= (node.last_epoch, len(node.log))
        if not complete and not request.pre_vote and self.takes("committed metadata is overwritten"):
            complete = True
        if request.pre_vote:
            request.vote_granted = complete and node.leader == -1
            return
        free = node.leader == -1 and node.voted in (None, request.sender)
        if complete and not free and node.voted not in (None, request.sender) and self.takes("voter votes twice"):
            free = True
        request.vote_granted = free and complete
        if request.vote_granted and node.voted is None:
            node.voted = request.sender
            self.moves(node, "Voted" if self.release.version == "3.3.2" else "Unattached")

    def _begun(self, node: Controller, request: RaftRequest) -> None:
        """KafkaRaftClient.maybeTransition."""
        if self._fenced(node, request):
            return
        if request.asked > node.epoch or node.leader == -1:
            if request.asked > node.epoch:
                node.voted = None
            node.epoch = request.asked
            self.moves(node, "Follower", request.sender)

    def _served(self, node: Controller, request: RaftRequest) -> None:
        """KafkaRaftClient.validateLeaderOnlyRequest, tryCompleteFetchRequest."""
        if request.asked < node.epoch:
            request.error_code = 74
        elif request.asked > node.epoch:
            request.error_code = 75
        elif not node.leads:
            request.error_code = 6
        elif self.takes("own quorum epoch refused"):
            request.error_code = 74
        if request.error_code or request.api == FETCH_SNAPSHOT:
            request.error_code = request.error_code or 98
            return
        if request.offset > len(node.log) or (
            request.offset and node.log[request.offset - 1].epoch != request.last_epoch
        ):
            same = [n for n, one in enumerate(node.log) if one.epoch <= request.last_epoch]
            end = same[-1] + 1 if same else 0
            request.diverging = node.log[end - 1].epoch if end else 0, end
        elif request.sender in self.voters:
            node.ends[request.sender] = request.offset
            self._advance(node)
        request.high_watermark = node.high_watermark
        if node.high_watermark > 2 and self._led_before(node) and self.takes("quorum high watermark falls"):
            request.high_watermark = self.choices.randint(0, 1)
        request.waits = request.diverging is None and request.offset == len(node.log) and self.choices.random() < 0.5

    def _led_before(self, node: Controller) -> bool:
        """Leaders of earlier epochs have given out a high watermark above 1."""
        return any(
            isinstance(one, RaftRequest) and one.api == FETCH and one.error_code == 0 and one.high_watermark > 1
            and one.asked < node.epoch
            for one in self.history.events
        )  # fmt: skip

    def _advance(self, node: Controller) -> None:
        """LeaderState.maybeUpdateHighWatermark: a majority has a record of the leader's own epoch."""
        ends = sorted((len(node.log) if one == node.id else node.ends.get(one, 0) for one in self.voters), reverse=True)
        reached = ends[len(self.voters) // 2]
        begins = next(n for n, one in enumerate(node.log) if one.epoch == node.epoch)
        if reached > begins:
            node.high_watermark = max(node.high_watermark, reached)
            self.committed = max(self.committed, node.high_watermark)

    # -- steps

    def elect(self, wanted: int | None = None) -> None:
        """A controller misses its leader, and asks for votes."""
        able = [self.nodes[one] for one in self.voters if self.nodes[one].up and not self.nodes[one].leads]
        if wanted is not None:
            able = [node for node in able if node.id == wanted]
        if not able:
            return
        node = self.choices.choice(able)
        if self.release.version == "4.1.2":
            asked = {"asked": node.epoch, "pre_vote": True}
            self.moves(node, "Prospective", -1)
            if 1 + sum(one.vote_granted for one in self._polled(node, asked)) <= len(self.voters) // 2:
                return
        node.epoch, node.voted = node.epoch + 1, node.id
        self.moves(node, "Candidate")
        granted = 1 + sum(one.vote_granted for one in self._polled(node, {"asked": node.epoch}))
        if node.voted != node.id or node.leader != -1:
            return
        if granted > len(self.voters) // 2:
            self._lead(node)

    def _polled(self, node: Controller, asked: dict[str, Any]) -> list[RaftRequest]:
        answers = []
        for other in self.voters:
            fields = {"sender": node.id, "last_epoch": node.last_epoch, "offset": len(node.log), **asked}
            if other == node.id:
                continue
            if self.reachable(node, self.nodes[other]) and self.choices.random() < 0.9:
                answers.append(self.ask(VOTE, other, **fields))
            elif self.choices.random() < 0.5:
                self.delayed.append((VOTE, other, fields))
        return answers

    def _lead(self, node: Controller) -> None:
        """KafkaRaftClient.onBecomeLeader."""
        self.moves(node, "Leader", node.id)
        self.pass_time(1, 4)
        node.log.append(Entry(node.epoch, LEADER_CHANGE, self.now + node.skew, (("leaderId", node.id),)))
        if self.release.version != "3.3.2" and not any(one.kind == VOTER_SET for one in node.log):
            self._append_voters(node, self.voters)
        self._tell(node, BEGIN, 0.8)
        if self.takes("two quorum leaders in one epoch"):
            other = next(one for one in self.voters if one != node.id and self.nodes[one].up)
            self.moves(self.nodes[other], "Leader", other)
            self.moves(self.nodes[other], "Follower", node.id)

    def _tell(self, node: Controller, api: str, chance: float) -> None:
        for other in self.voters:
            fields = {"sender": node.id, "asked": node.epoch}
            if other == node.id:
                continue
            if self.reachable(node, self.nodes[other]) and self.choices.random() < chance:
                self.ask(api, other, **fields)
            elif self.choices.random() < 0.6:
                self.delayed.append((api, other, fields))

    def deliver(self) -> None:
        """A request arrives late, or again."""
        arrive = [one for one in self.delayed if self.nodes[one[1]].up]
        if not arrive:
            return
        one = self.choices.choice(arrive)
        if self.choices.random() < 0.7:
            self.delayed.remove(one)
        api, to, fields = one
        current = self.nodes[to].epoch
        if api == VOTE and fields["asked"] >= current and not fields.get("pre_vote"):
            candidate = self.nodes[fields["sender"]]  # its vote still counts if it has not gone on
            if candidate.epoch != fields["asked"]:
                self.ask(api, to, **fields)
            return
        if api == END and fields["asked"] > current:
            return
        self.ask(api, to, **fields)

    def resign(self) -> None:
        """A leader shuts down: it ends its epoch."""
        for node in self.nodes.values():
            if node.leads and node.up:
                self.moves(node, "Resigned", node.id)
                self._tell(node, END, 0.8)
                node.up = self.choices.random() < 0.3
                return

    def write(self) -> None:
        """The active controller appends records."""
        for node in self.nodes.values():
            if node.leads and node.up:
                for _ in range(self.choices.randint(1, 4)):
                    self.pass_time(1, 9)
                    node.log.append(Entry(node.epoch, NO_OP, self.now + node.skew))

    def replicate(self) -> None:
        """Followers and observers fetch from whom they take for the leader."""
        for sender in (*self.nodes, *OBSERVERS):
            if self.choices.random() < 0.8:
                self.fetch(sender)

    def fetch(self, sender: int) -> None:
        """A Fetch of the metadata log, and what its sender makes of the answer."""
        node = self.nodes.get(sender)
        leaders = [one for one in self.nodes.values() if one.leads and one.up and not one.cut_off]
        if node is None:
            asked = self.choices.choice([*self.nodes.values()])
            if asked.up:
                epoch = max(0, asked.epoch + self.choices.choice((0, 0, 0, -1, 1)))
                offset = self.choices.randint(0, len(asked.log))
                last = asked.log[offset - 1].epoch if offset else 0
                self.ask(FETCH, asked.id, sender=sender, asked=max(epoch, last), offset=offset, last_epoch=last)
            return
        if not node.up or node.cut_off or node.leads:
            return
        leader = self.nodes.get(node.leader) or (self.choices.choice(leaders) if leaders else None)
        if leader is None or leader is node or not self.reachable(node, leader):
            return
        answer = self.ask(
            FETCH, leader.id, sender=sender, asked=node.epoch, offset=len(node.log), last_epoch=node.last_epoch
        )
        self._learn(node, leader, answer)

    def _learn(self, node: Controller, leader: Controller, answer: RaftRequest) -> None:
        if answer.error_code == 0 and answer.diverging is not None:
            epoch, end = answer.diverging
            matching = [n for n, one in enumerate(node.log) if one.epoch <= epoch]
            del node.log[min(end, matching[-1] + 1 if matching else 0) :]
        elif answer.error_code == 0:
            node.log += leader.log[answer.offset :]
        elif answer.answered_epoch > node.epoch or (answer.answered_epoch == node.epoch and node.leader == -1):
            if answer.answered_epoch > node.epoch:
                node.epoch, node.voted = answer.answered_epoch, None
            known = answer.answered_leader not in (-1, node.id)
            self.moves(node, "Follower" if known else "Unattached", answer.answered_leader if known else -1)

    def ask_snapshot(self) -> None:
        """A FetchSnapshot, in the right epoch or another."""
        node = self.choices.choice([*self.nodes.values()])
        if node.up:
            asked = max(0, node.epoch + self.choices.choice((0, 0, -1, 1)))
            self.ask(FETCH_SNAPSHOT, node.id, sender=self.choices.choice(OBSERVERS), asked=asked)

    def stop(self) -> None:
        """A controller dies, or is cut off."""
        node = self.choices.choice([*self.nodes.values()])
        if self.choices.random() < 0.5:
            node.up = False
        else:
            node.cut_off = True

    def come_back(self) -> None:
        """A controller's process starts with what its disk has, or it is reached again."""
        away = [node for node in self.nodes.values() if not node.up or node.cut_off]
        if not away:
            return
        node = self.choices.choice(away)
        if node.up:
            node.cut_off = False
            return
        node.up, node.cut_off = True, False
        older = [copy for copy in node.copies if 0 < copy[0] < node.epoch]
        if older and self.takes("controller starts with an older copy"):
            node.epoch, node.voted, node.leader, log = self.choices.choice(older)
            node.log = [*log]
        self._start(node)
        if node.leader == node.id:
            self.moves(node, "Resigned", node.id)
        elif node.leader != -1:
            self.moves(node, "Follower", node.leader)
        else:
            self.moves(node, "Candidate" if node.voted == node.id else "Unattached")

    def format_anew(self) -> None:
        """All controllers are stopped, formatted with another cluster id, and started, with the request logs that they had."""
        if self.cluster or self.choices.random() < 0.5:
            return
        self.cluster, self.delayed, self.committed = 1, [], 0
        for node in self.nodes.values():
            node.up, node.cut_off, node.epoch, node.voted, node.leader, node.log = True, False, 0, None, -1, []
            self._start(node)
            self.moves(node, "Unattached")

    def _start(self, node: Controller) -> None:
        node.leads, node.high_watermark, node.ends = False, -1, {}
        self.history.events.append(
            ProcessStarts(self._next(), node.id, self.now + node.skew, version=self.release.version)
        )
        self.pass_time(5, 50)

    def change_voters(self) -> None:
        """An administrator adds or removes a voter, or replaces its disk."""
        leaders = [node for node in self.nodes.values() if node.leads and node.up and node.high_watermark > 0]
        if self.release.version == "3.3.2" or not leaders:
            return
        leader, several = leaders[0], self.takes("several voters change at once")
        disks = {
            one: f"{one}-{self.choices.choice('ab')}" for one in (*self.voters[1:2], *([104, 105] if several else []))
        }
        self._append_voters(leader, self.voters, disks)

    def _append_voters(self, node: Controller, voters: list[int], disks: dict[int, str] | None = None) -> None:
        named = {one: f"{one}-a" for one in voters} | (disks or {})
        self.pass_time(1, 4)
        listed = tuple((one, f"directory{disk}AAAAAAAAAAAA"[:21] + "A") for one, disk in sorted(named.items()))
        node.log.append(Entry(node.epoch, VOTER_SET, self.now + node.skew, listed))

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the quorum start, and take steps. At the end each controller's copy of the log is printed."""
        for one in VOTERS:
            self.nodes[one] = Controller(one, self.choices.choice((0, 0, 60, -80)))
            self._start(self.nodes[one])
            self.moves(self.nodes[one], "Unattached")
        self.elect()
        for _ in range(3 * steps):
            if self.faulty and self.fault is None and self.choices.random() < 0.3 and len(self.history.faults) < 2:
                self.fault = self.choices.choice(RAFT_FAULTS)
            self._step()
            self.pass_time(300, 2500)
        for node in self.nodes.values():
            self._print(node)
        return self.history

    def _step(self) -> None:
        if not any(node.leads and node.up and not node.cut_off for node in self.nodes.values()):
            self.choices.choice((self.elect, self.elect, self.come_back, self.deliver, self.replicate))()
            return
        step = self.choices.choices(
            (
                self.write, self.replicate, self.elect, self.deliver, self.resign, self.stop, self.come_back, self.ask_snapshot,
                self.change_voters, self.format_anew,
            ),
            (20, 40, 3, 10, 4, 6, 12, 4, 4, 0.5),
        )[0]  # fmt: skip
        step()

    def _print(self, node: Controller) -> None:
        for offset, one in enumerate(node.log):
            data: dict[str, Any] = dict(one.data) if one.kind == LEADER_CHANGE else {}
            if one.kind == VOTER_SET:
                data["voters"] = [{"voterId": voter, "voterDirectoryId": disk} for voter, disk in one.data]
            self.history.events.append(
                Record(
                    self._next(), node.id, one.written, offset=offset, epoch=one.epoch, batch=offset, kind=one.kind, data=data
                )
            )  # fmt: skip


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a quorum of controllers. faulty: breaches are planted."""
    return RaftQuorum(name, release, choices, faulty).run(steps)
