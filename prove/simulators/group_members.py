"""Simulated members of groups: consumers of the classic protocol and of KIP-848, and committers that are in no group.

They join, sync, commit and leave, lose answers and ask again, are frozen past their sessions and wake up, and have static names that
another process takes. A consumer of KIP-848 keeps its member id when it leaves and joins again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from prove.coordination import (
    CONSUMER_GROUP_HEARTBEAT,
    JOIN_GROUP,
    NO_GENERATION,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    Beats,
    Commits,
    Exchange,
    Joins,
    Syncs,
)
from prove.history import GROUP_MEMBERS, OFFSET_COMMIT, History, Release
from prove.simulators.coordinator_cluster import NOT_AVAILABLE, NOT_COORDINATOR
from prove.simulators.group_coordinators import (
    AWAY,
    FENCED_EPOCH,
    FENCED_INSTANCE,
    GROUP_NOT_FOUND,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    PREPARING,
    STALE_EPOCH,
    TOPIC,
    UNKNOWN_MEMBER,
    GroupCluster,
)

RELEASES: Final = (
    Release(GROUP_MEMBERS, "3.3.2", "kraft", metadata_version=7),
    Release(GROUP_MEMBERS, "3.9.1", "kraft", metadata_version=21),
    Release(GROUP_MEMBERS, "4.1.2", "kraft", metadata_version=25),
    Release(GROUP_MEMBERS, "4.2.1", "kraft", metadata_version=27),
    Release(GROUP_MEMBERS, "4.3.1", "kraft", metadata_version=30),
)
FAULTS: Final = {
    "former generation is obeyed": 0.8,
    "stranger commits to a group with members": 0.5,
    "replaced static member is obeyed": 0.9,
    "older member epoch is obeyed": 0.9,
    "commit in an older member epoch is obeyed": 0.8,
}
"""What a group coordinator does wrong, and how often when it can."""
OUT, JOINING, JOINED, SYNCING, MEMBER = "out", "joining", "joined", "syncing", "member"


@dataclass
class Consumer:
    """A consumer's process. modern: it speaks the protocol of KIP-848. waits_for: its request that is not answered yet."""

    group_id: str
    client_id: str
    process: str
    modern: bool
    join: int
    commit: int
    instance: str | None = None
    member_id: str = ""
    generation: int = NO_GENERATION
    phase: str = OUT
    coordinator: int | None = None
    frozen: int = 0
    waits_for: Exchange | None = None


@dataclass
class GroupMemberCluster(GroupCluster):
    """A cluster with consumers."""

    consumers: list[Consumer] = field(default_factory=list)
    group_ids: tuple[str, ...] = ("billing", "audit-1")
    delayed: list[tuple[int, str, Beats | Commits]] = field(default_factory=list)
    """Requests on their way: when they arrive, and whose they are."""

    def new_consumer(self) -> None:
        """A process starts. It may take the static name of another one."""
        number = len(self.history.events)
        modern_group = self.chance(0.5)
        group_id = self.group_ids[modern_group]
        modern = self.release.version >= "3.9" and self.chance(0.85 if modern_group else 0.1)
        one = Consumer(
            group_id, self.choices.choice((f"consumer-{group_id}", f"consumer-{number}")), f"c{number}", modern,
            self.choices.choice((3, 5, 7, 9)), 9 if modern else self.choices.choice((6, 7, 8, 9)),
        )  # fmt: skip
        if one.join >= 5 and one.commit >= 7 and self.chance(0.4):
            one.instance = self.choices.choice(("till-1", "till-2"))
        if modern and (self.release.version >= "4" or self.chance(0.5)):
            one.member_id = self.new_uuid()
        self.consumers.append(one)
        self.consumers = self.consumers[-6:]

    def act(self) -> None:
        """A consumer does what comes next, or somebody who is in no group commits."""
        if len(self.consumers) < 3 or self.chance(0.04):
            self.new_consumer()
        if self.chance(0.06):
            self.commit_simply()
        self.deliver_late()
        one = self.choices.choice(self.consumers)
        if one.frozen:
            one.frozen -= 1
        elif self.chance(0.05):
            one.frozen = self.choices.randint(2, 12)
        else:
            self._go_on(one)
        if self.chance(0.12):
            self.expire_members()

    def _go_on(self, one: Consumer) -> None:
        if one.coordinator is None or self.chance(0.05) or not self.nodes[one.coordinator].up:
            one.coordinator = self.coordinator(TOPIC, current=self.chance(0.93))
            one.waits_for = None
            one.phase = OUT if one.phase in (JOINING, SYNCING) else one.phase
        if one.coordinator is None:
            return
        if one.waits_for is not None:
            self._await(one)
        elif one.phase == OUT and one.modern:
            self._heartbeat(one, 0)
        elif one.phase == OUT:
            self._join(one)
        elif one.phase == JOINED:
            self._sync(one)
        elif one.modern:
            self._go_on_modern(one)
        else:
            self._go_on_classic(one)

    # -- what a consumer does with an answer

    def _await(self, one: Consumer) -> None:
        """The answer has come, or the consumer gives up waiting."""
        request = one.waits_for
        if request is None or (request.at == 0 and self.chance(0.85)):
            return
        one.waits_for = None
        if not request.at or self.chance(0.1):
            one.phase = OUT
        elif isinstance(request, Joins):
            self._joined(one, request)
        elif request.error_code:
            self._failed(one, request.error_code)
        else:
            one.phase = MEMBER

    def _joined(self, one: Consumer, request: Joins) -> None:
        if request.error_code == MEMBER_ID_REQUIRED:
            one.member_id, one.phase = request.given_member_id, OUT
        elif request.error_code:
            self._failed(one, request.error_code)
        else:
            one.member_id, one.generation, one.phase = request.given_member_id, request.given_generation, JOINED

    def _failed(self, one: Consumer, code: int) -> None:
        """The consumer joins anew, looks for the coordinator, or does not care."""
        if code in (NOT_AVAILABLE, NOT_COORDINATOR):
            one.coordinator = self.coordinator(TOPIC)
            one.phase = OUT if one.phase in (JOINING, SYNCING) else one.phase
            return
        if one.phase == MEMBER and self.chance(0.2):
            return
        one.phase = OUT
        if code in (UNKNOWN_MEMBER, FENCED_INSTANCE, GROUP_NOT_FOUND) and not one.modern:
            one.member_id = ""
        if code == FENCED_INSTANCE and self.chance(0.7):
            one.frozen = 50

    # -- requests

    def _join(self, one: Consumer) -> None:
        assert one.coordinator is not None
        request = Joins(
            0, one.coordinator, 0, api=JOIN_GROUP, version=one.join, client_id=one.client_id, group_id=one.group_id,
            group_instance_id=one.instance, member_id=one.member_id,
        )  # fmt: skip
        one.phase, one.waits_for = JOINING, self.sent(request, one.process)
        if self.join(request) and not self._is_logged(request):
            self.answered(request)
        self._await(one)

    def _sync(self, one: Consumer) -> None:
        assert one.coordinator is not None
        request = Syncs(
            0, one.coordinator, 0, api=SYNC_GROUP, version=5 if one.join >= 7 else 3 if one.join >= 5 else 2, client_id=one.client_id,
            group_id=one.group_id, group_instance_id=one.instance, member_id=one.member_id, generation_id=one.generation,
        )  # fmt: skip
        one.phase, one.waits_for = SYNCING, self.sent(request, one.process)
        if self.sync(request) and not self._is_logged(request):
            self.answered(request)
        self._await(one)

    def _is_logged(self, request: Exchange) -> bool:
        """It was answered with others, or is about to be."""
        return request.at > 0 or any(event is request for _, event in self.slow)

    def _heartbeat(self, one: Consumer, epoch: int) -> None:
        assert one.coordinator is not None
        request = Beats(
            0, one.coordinator, 0, api=CONSUMER_GROUP_HEARTBEAT, version=1 if one.member_id and self.release.version >= "4" else 0,
            client_id=one.client_id, group_id=one.group_id, group_instance_id=one.instance, member_id=one.member_id,
            generation_id=epoch,
        )  # fmt: skip
        if epoch > 0 and self.chance(0.05):
            self.delayed.append((self.now + self.choices.randint(800, 9000), one.process, request))
            return
        self.deliver(request, one.process)
        if epoch < 0:
            one.phase, one.generation = OUT, NO_GENERATION
        elif not self.heard(request):
            return
        elif request.error_code:
            self._failed(one, request.error_code)
        else:
            one.member_id, one.generation, one.phase = request.given_member_id or "", request.given_epoch, MEMBER

    def _commit(self, one: Consumer) -> None:
        assert one.coordinator is not None
        transactional = self.chance(0.15)
        request = Commits(
            0, one.coordinator, 0, api=TXN_OFFSET_COMMIT if transactional else OFFSET_COMMIT, version=3 if transactional else one.commit,
            client_id=one.client_id, group_id=one.group_id, group_instance_id=one.instance, member_id=one.member_id,
            generation_id=one.generation, codes=self._partitions(), offset=len(self.history.events),
        )  # fmt: skip
        if one.modern and self.chance(0.5):
            request.group_instance_id = None
        if self.chance(0.12):
            self.delayed.append((self.now + self.choices.randint(800, 9000), one.process, request))
            return
        self.deliver(request, one.process)
        code = max(code for _, code in request.codes)
        if self.heard(request) and code in (
            ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE, STALE_EPOCH, FENCED_EPOCH, NOT_AVAILABLE, NOT_COORDINATOR,
        ):  # fmt: skip
            self._failed(one, code)

    def deliver(self, request: Beats | Commits, process: str) -> None:
        """A request reaches its coordinator, and is answered."""
        self.sent(request, process)
        if isinstance(request, Beats):
            self.beat(request)
        else:
            self.commit(request)
        self.answered(request)

    def deliver_late(self) -> None:
        """Requests that the network has held up arrive. Their senders have given them up."""
        for late in [one for one in self.delayed if one[0] <= self.now]:
            self.delayed.remove(late)
            if self.nodes[late[2].node].up:
                self.deliver(late[2], f"{late[1]}-late")

    def _partitions(self) -> tuple[tuple[tuple[str, int], int], ...]:
        return tuple((("orders", number), 0) for number in range(self.choices.choice((1, 1, 2))))

    def commit_simply(self) -> None:
        """A consumer that assigns partitions to itself commits, or an administrator sets offsets."""
        group_id = self.choices.choice((*self.group_ids, "assigned"))
        node = self.coordinator(TOPIC, current=self.chance(0.9))
        if node is None:
            return
        request = Commits(
            0, node, 0, api=OFFSET_COMMIT, version=self.choices.choice((2, 7, 8)), group_id=group_id, codes=self._partitions(),
            client_id=self.choices.choice(("assigner", "adminclient-1")), offset=len(self.history.events),
        )  # fmt: skip
        self.deliver(request, request.client_id)

    # -- members

    def _go_on_classic(self, one: Consumer) -> None:
        """A member commits, leaves, or joins the next rebalance, of which it learns by a heartbeat."""
        assert one.coordinator is not None
        broker = self.nodes[one.coordinator]
        group = self.group(one.coordinator, one.group_id) if TOPIC in broker.leads else None
        rebalances = group is not None and (group.state == PREPARING or (group.consumer and self.chance(0.3)))
        if rebalances and self.chance(0.6):
            one.phase = OUT
        elif self.chance(0.04):
            self._leave_classic(one)
        elif self.chance(0.04):
            one.phase = OUT
        else:
            self._commit(one)

    def _leave_classic(self, one: Consumer) -> None:
        """LeaveGroup, but for static members; then another process may take the consumer's place."""
        assert one.coordinator is not None
        if one.instance is None and TOPIC in self.nodes[one.coordinator].leads:
            self.remove(one.coordinator, one.group_id, one.member_id)
        one.member_id, one.phase, one.generation = "", OUT, NO_GENERATION
        one.process = f"c{len(self.history.events)}"

    def _go_on_modern(self, one: Consumer) -> None:
        if self.chance(0.05):
            self._heartbeat(one, AWAY if one.instance and self.chance(0.7) else NO_GENERATION)
        elif self.chance(0.45):
            self._heartbeat(one, one.generation)
        else:
            self._commit(one)

    def leave_all(self) -> None:
        """An application stops and starts again. Its coordinator may move, and the group may be deleted meanwhile."""
        group_id = self.choices.choice(self.group_ids)
        if self.chance(0.6):
            self.prefer()
        node = self.coordinator(TOPIC)
        for one in self.consumers:
            if node is None or one.group_id != group_id:
                continue
            one.coordinator, one.waits_for = node, None
            if one.modern:
                self._heartbeat(one, NO_GENERATION)
            else:
                self._leave_classic(one)
        if self.chance(0.7):
            self.pass_time(10, 3000)
            self.delete_group()

    # -- the whole

    def booted(self, broker: int) -> None:
        """A broker may come back with the next release."""
        if self.release.version == "4.2.1" and self.chance(0.3):
            self.nodes[broker].version = "4.3.1"

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps."""
        self.begin()
        self.make_log(TOPIC, {})
        self.publish_all()
        for _ in range(10 * steps):
            step = self.choices.choices(
                (self.act, self.disturb, self.delete_group, self.leave_all), (20, 1.5, 0.4, 0.25)
            )[0]
            step()
            self.pass_time(*self.choices.choice(((10, 90), (10, 900), (1100, 2500), (1500, 4000))))
        self.end_history()
        self.log_slow_answers()
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a cluster with groups. faulty: breaches are planted."""
    return GroupMemberCluster(name, release, choices, faulty, chances=FAULTS).run(steps)
