"""Simulated group coordinators: classic groups, groups of KIP-848, and groups that become the other kind.

They follow GroupMetadataManager, ClassicGroup and ConsumerGroup of 3.9 to 4.3, and GroupCoordinator before: classicGroupJoin,
classicGroupSync, consumerGroupHeartbeat, validateOffsetCommit, convertToConsumerGroup, convertToClassicGroup. A classic group's generation
is written when its leader syncs; up to then a new coordinator does not know it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from prove.coordination import TXN_OFFSET_COMMIT, Beats, Commits, Joins, Syncs
from prove.simulators.coordinator_cluster import NOT_COORDINATOR, CoordinatorCluster

TOPIC: Final = "__consumer_offsets"

ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, MEMBER_ID_REQUIRED = 22, 25, 27, 79
FENCED_INSTANCE, FENCED_EPOCH, UNRELEASED_INSTANCE, STALE_EPOCH, GROUP_NOT_FOUND = 82, 110, 111, 113, 69
EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
AWAY: Final = -2
"""The epoch of a static member that has left for a while."""
NEEDS_MEMBER_ID: Final = 4
"""The first version of JoinGroup of which a dynamic member is given its id before it joins."""


@dataclass
class Member:
    """A member. epoch, previous: of KIP-848. classic: it speaks the classic protocol. stale_from: see KIP-1251."""

    instance: str | None = None
    epoch: int = 0
    previous: int = 0
    classic: bool = True
    stale_from: int = 0


@dataclass
class Group:
    """A group. epoch: its generation, or its group epoch. pending: ids that were given to members which have not joined yet."""

    consumer: bool = False
    epoch: int = 0
    state: str = EMPTY
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    joining: dict[str, Joins] = field(default_factory=dict)
    syncing: dict[str, Syncs] = field(default_factory=dict)

    def holder(self, instance: str | None) -> str | None:
        """The member that has a group.instance.id."""
        return next((name for name, one in self.members.items() if instance and one.instance == instance), None)

    def checked(self, member_id: str, instance: str | None) -> int:
        """ClassicGroup.validateMember: 0, or an error code."""
        if instance is not None:
            holder = self.holder(instance)
            if holder is None:
                return UNKNOWN_MEMBER
            return 0 if holder == member_id else FENCED_INSTANCE
        return 0 if member_id in self.members else UNKNOWN_MEMBER


Groups = dict[str, tuple[Group, Group | None]]
"""Group id -> the group in memory, and as it was written last; None: not at all."""


@dataclass
class GroupCluster(CoordinatorCluster):
    """A cluster with group coordinators. ids: so many member ids were given."""

    ids: int = 0

    # -- memory and log

    def groups(self, node: int) -> Groups:
        """The groups of a coordinator."""
        found: Groups = self.nodes[node].memory[TOPIC]
        return found

    def group(self, node: int, group_id: str) -> Group | None:
        """A group in a coordinator's memory."""
        found = self.groups(node).get(group_id)
        return found[0] if found else None

    def _written(self, node: int, group_id: str, group: Group | None) -> int:
        """Write a group, or its tombstone. With an error the group is as it was written before."""
        groups = self.groups(node)
        before = groups.get(group_id)
        if group is None:
            groups.pop(group_id, None)
        else:
            shown = deepcopy(group)
            shown.joining, shown.syncing, shown.pending = {}, {}, set()
            groups[group_id] = group, shown
        code = self.persists(node, TOPIC)
        if code and before is not None:
            groups[group_id] = before
        elif code:
            groups.pop(group_id, None)
        return code

    def loaded(self, stored: Groups) -> Groups:
        """What was written."""
        return {name: (deepcopy(written), written) for name, (_, written) in stored.items() if written is not None}

    def resigned(self, memory: Groups) -> None:
        """Requests that wait are answered to look for another coordinator."""
        for group, _ in memory.values():
            for request in (*group.joining.values(), *group.syncing.values()):
                request.error_code = NOT_COORDINATOR
                self.answered(request)

    def new_member_id(self, prefix: str) -> str:
        """ClassicGroup.generateMemberId."""
        self.ids += 1
        return f"{prefix}-{self.choices.getrandbits(32):08x}-0000-4000-8000-{self.ids:012x}"

    def new_uuid(self) -> str:
        """Uuid.randomUuid, as text."""
        self.ids += 1
        return f"m{self.ids:05d}{self.choices.getrandbits(48):012x}AAAA"[:22]

    # -- classic groups

    def join(self, request: Joins) -> bool:
        """JoinGroup. Returns whether it is answered; else it waits for the others."""
        node, name = request.node, request.group_id
        request.given_member_id = request.member_id
        request.error_code = self.coordinates(node, TOPIC)
        if request.error_code:
            return True
        group = self.group(node, name)
        if group is not None and group.consumer and not group.members and not request.member_id:
            group = None  # maybeDeleteEmptyConsumerGroup
        if group is None and request.member_id:
            request.error_code = UNKNOWN_MEMBER
            return True
        if group is None:
            group = Group()
            request.error_code = self._written(node, name, group)
            if request.error_code:
                return True
        if group.consumer:
            self._join_consumer_group(request, deepcopy(group))
            return True
        if not request.member_id and request.group_instance_id is None and request.version >= NEEDS_MEMBER_ID:
            request.given_member_id = self.new_member_id(request.client_id)
            group.pending.add(request.given_member_id)
            request.error_code = MEMBER_ID_REQUIRED
            return True
        return self._join_classic(request, group)

    def _join_classic(self, request: Joins, group: Group) -> bool:
        node, name, instance = request.node, request.group_id, request.group_instance_id
        member_id = request.member_id
        if member_id and member_id not in group.pending:
            request.error_code = group.checked(member_id, instance)
            if request.error_code:
                return True
        elif not member_id:
            member_id = self.new_member_id(instance or request.client_id)
            holder = group.holder(instance)
            if holder is not None:
                return self._replace_static(request, group, holder, member_id)
        group.pending.discard(member_id)
        known = member_id in group.members
        group.members.setdefault(member_id, Member(instance))
        settled = group.state == COMPLETING or (group.state == STABLE and member_id != group.leader)
        if known and settled and self.chance(0.7):  # its metadata are the same
            self._answer_join(request, group, member_id)
            return True
        return self._rebalance(node, name, group, request, member_id)

    def _replace_static(self, request: Joins, group: Group, holder: str, member_id: str) -> bool:
        """A process without a member id takes over a group.instance.id. In a stable group the generation may remain."""
        node, name = request.node, request.group_id
        before = deepcopy(group)
        group.members = {member_id if one == holder else one: member for one, member in group.members.items()}
        for waiting in (group.joining, group.syncing):
            former = waiting.pop(holder, None)
            if former is not None:
                former.error_code = FENCED_INSTANCE
                self.answered(former)
        if group.leader == holder:
            group.leader = member_id
        if group.state == STABLE and self.chance(0.7):
            request.error_code = self._written(node, name, group)
            if request.error_code:
                self.groups(node)[name] = before, self.groups(node)[name][1]
                request.error_code = UNKNOWN_MEMBER
                return True
            self._answer_join(request, group, member_id)
            return True
        return self._rebalance(node, name, group, request, member_id)

    def _answer_join(self, request: Joins, group: Group, member_id: str) -> None:
        request.given_member_id, request.given_generation, request.leader = member_id, group.epoch, group.leader

    def _rebalance(self, node: int, name: str, group: Group, request: Joins, member_id: str) -> bool:
        """A member waits for the others, unless it is the last one."""
        former = group.joining.pop(member_id, None)
        if former is not None:
            former.error_code = REBALANCING
            self.answered(former)
        self.prepare(group)
        group.joining[member_id] = request
        if group.joining.keys() >= group.members.keys():
            self.complete_join(node, name)
        return request.given_generation >= 0 or request.at > 0

    def prepare(self, group: Group) -> None:
        """A rebalance begins."""
        for waiting in group.syncing.values():
            waiting.error_code = REBALANCING
            self.answered(waiting)
        group.syncing, group.state = {}, PREPARING

    def complete_join(self, node: int, name: str) -> None:
        """completeClassicGroupJoin: members that have not joined are removed, but for static ones."""
        group = self.group(node, name)
        if group is None or group.consumer or group.state != PREPARING:
            return
        group.members = {
            one: member for one, member in group.members.items() if one in group.joining or member.instance is not None
        }
        if group.members and not group.joining:
            return  # it goes on waiting for a static member
        group.epoch += 1
        if not group.joining:
            group.state = EMPTY
            self._written(node, name, group)
            return
        group.state = COMPLETING
        if group.leader not in group.joining:
            group.leader = next(iter(group.joining))
        joined, group.joining = group.joining, {}
        for member_id, request in joined.items():
            self._answer_join(request, group, member_id)
            self.answered(request)

    def sync(self, request: Syncs) -> bool:
        """SyncGroup. Returns whether it is answered; else it waits for the leader."""
        node, name = request.node, request.group_id
        request.error_code = self.coordinates(node, TOPIC)
        if request.error_code:
            return True
        group = self.group(node, name)
        request.error_code = (
            UNKNOWN_MEMBER if group is None else group.checked(request.member_id, request.group_instance_id)
        )
        if request.error_code or group is None:
            return True
        held = group.members[request.member_id].epoch if group.consumer else group.epoch
        if request.generation_id != held:
            request.error_code = ILLEGAL_GENERATION
        elif group.state == PREPARING or (group.consumer and held < group.epoch and self.chance(0.5)):
            request.error_code = REBALANCING
        elif group.state == COMPLETING:
            group.syncing[request.member_id] = request
            if request.member_id == group.leader:
                self._complete_sync(node, name, group)
            return request.at > 0
        return True

    def _complete_sync(self, node: int, name: str, group: Group) -> None:
        waiting, group.syncing = group.syncing, {}
        group.state = STABLE
        code = self._written(node, name, group)
        if code:
            group.state = PREPARING
        for request in waiting.values():
            request.error_code = code
            self.answered(request)

    def remove(self, node: int, name: str, member_id: str) -> None:
        """A member leaves, or its session ends."""
        group = self.group(node, name)
        if group is None or member_id not in group.members:
            return
        if group.consumer:
            self._fence(node, name, deepcopy(group), member_id)
            return
        del group.members[member_id]
        for waiting in (group.joining.pop(member_id, None), group.syncing.pop(member_id, None)):
            if waiting is not None:
                waiting.error_code = UNKNOWN_MEMBER
                self.answered(waiting)
        self.prepare(group)
        if group.joining.keys() >= group.members.keys():
            self.complete_join(node, name)

    # -- groups of KIP-848

    def _join_consumer_group(self, request: Joins, group: Group) -> None:
        """classicGroupJoinToConsumerGroup: a classic member is given an id, or comes back with the one that it had."""
        member_id, instance = request.member_id or self.new_uuid(), request.group_instance_id
        if not request.member_id and instance is None and request.version >= NEEDS_MEMBER_ID:
            request.given_member_id, request.error_code = member_id, MEMBER_ID_REQUIRED
            return
        if instance is not None:
            holder = group.holder(instance)
            if request.member_id:
                request.error_code = group.checked(member_id, instance)
            elif holder is not None:
                group.members[member_id] = group.members.pop(holder)
        if request.error_code:
            return
        if member_id not in group.members:
            group.members[member_id] = Member(instance)
            group.epoch += 1
        self._reconcile(group, member_id)
        request.error_code = self._written(request.node, request.group_id, group)
        if not request.error_code:
            request.given_member_id, request.given_generation = member_id, group.members[member_id].epoch

    def _reconcile(self, group: Group, member_id: str) -> None:
        """CurrentAssignmentBuilder: a member takes over the target at once, or has to give up partitions first."""
        member = group.members[member_id]
        if member.epoch == 0 or (member.epoch < group.epoch and self.chance(0.6)):
            reached = group.epoch if member.epoch == 0 or self.chance(0.8) else member.epoch + 1
            member.previous, member.epoch = member.epoch, reached
            member.stale_from = self.choices.choice((member.previous, member.epoch)) if member.previous else reached
        elif self.chance(0.3):
            member.previous = member.epoch

    def beat(self, request: Beats) -> None:
        """ConsumerGroupHeartbeat."""
        node, name, epoch = request.node, request.group_id, request.generation_id
        request.error_code = self.coordinates(node, TOPIC)
        if request.error_code:
            return
        group = deepcopy(self.group(node, name))
        member_id = request.member_id or self.new_uuid()
        if epoch < 0:
            self._leave(request, group)
            return
        if group is not None and not group.consumer:
            group = self._converted(request, group)
        if group is None and epoch == 0:
            group = Group(consumer=True, state=STABLE)
        if group is None:
            request.error_code = request.error_code or GROUP_NOT_FOUND
            return
        request.error_code = self._admitted(request, group, member_id)
        if request.error_code:
            return
        self._reconcile(group, member_id)
        request.error_code = self._written(node, name, group)
        if not request.error_code:
            request.given_member_id, request.given_epoch = member_id, group.members[member_id].epoch

    def _admitted(self, request: Beats, group: Group, member_id: str) -> int:
        """Whether the member may go on in the epoch that it states, or joins."""
        epoch, instance = request.generation_id, request.group_instance_id
        member = group.members.get(member_id)
        if epoch == 0 and member is None:
            holder = group.holder(instance)
            if holder is not None and group.members[holder].epoch != AWAY:
                return UNRELEASED_INSTANCE
            if holder is not None:
                del group.members[holder]
            group.members[member_id] = Member(instance, classic=False)
            group.epoch += 1 if holder is None else 0
            return 0
        if member is None:
            return UNKNOWN_MEMBER if instance is None or group.holder(instance) is None else FENCED_INSTANCE
        if epoch == 0 and member.epoch == AWAY:
            member.epoch = member.previous = 0
            return 0
        if epoch == 0 and self.release.version >= "4.1":
            return 0
        owned_is_subset = self.chance(0.8)
        if epoch > member.epoch:
            return FENCED_EPOCH
        if epoch < member.epoch and not (epoch == member.previous and owned_is_subset):
            if 0 < epoch < member.previous and self.takes("older member epoch is obeyed"):
                return 0
            return FENCED_EPOCH
        return 0

    def _leave(self, request: Beats, group: Group | None) -> None:
        """consumerGroupLeave: a static member may leave for a while only."""
        if group is None or not group.consumer or request.member_id not in group.members:
            request.error_code = UNKNOWN_MEMBER if group is not None else GROUP_NOT_FOUND
            return
        if request.generation_id == AWAY and request.group_instance_id is not None:
            group.members[request.member_id].epoch = AWAY
            request.error_code = self._written(request.node, request.group_id, group)
        else:
            request.error_code = self._fence(request.node, request.group_id, group, request.member_id)
        if not request.error_code:
            request.given_member_id, request.given_epoch = request.member_id, request.generation_id

    def _fence(self, node: int, name: str, group: Group, member_id: str) -> int:
        """A member is removed. If only classic members remain, the group becomes classic, and begins a rebalance."""
        modern = not group.members.pop(member_id).classic
        if modern and group.members and all(member.classic for member in group.members.values()):
            group.consumer, group.state, group.leader = False, STABLE, next(iter(group.members))
            code = self._written(node, name, group)
            if not code:
                self.prepare(group)
            return code
        group.epoch += 1
        return self._written(node, name, group)

    def _converted(self, request: Beats, group: Group) -> Group | None:
        """convertToConsumerGroup: a member of KIP-848 joins a classic group."""
        if request.generation_id != 0 or self.release.version < "3.9":
            request.error_code = GROUP_NOT_FOUND
            return None
        before = self.group(request.node, request.group_id)
        assert before is not None
        for waiting in (*before.joining.values(), *before.syncing.values()):
            waiting.error_code = REBALANCING
            self.answered(waiting)
        before.joining, before.syncing = {}, {}
        members = {
            one: Member(member.instance, group.epoch, group.epoch, stale_from=group.epoch)
            for one, member in group.members.items()
        }
        return Group(consumer=True, epoch=group.epoch, state=STABLE, members=members)

    # -- commits

    def commit(self, request: Commits) -> None:
        """OffsetCommit and TxnOffsetCommit."""
        code = self.coordinates(request.node, TOPIC)
        if not code:
            group = self.group(request.node, request.group_id)
            code = self._commit_code(request, group)
        if not code:
            code = self.persists(request.node, TOPIC)
        request.codes = tuple((partition, code) for partition, _ in request.codes)

    def _commit_code(self, request: Commits, group: Group | None) -> int:
        transactional, generation = request.api == TXN_OFFSET_COMMIT, request.generation_id
        if group is None:
            return 0 if generation < 0 else ILLEGAL_GENERATION
        if group.consumer:
            return self._commit_to_consumer_group(request, group)
        if generation < 0 and group.state == EMPTY:
            return 0
        if generation >= 0 or request.member_id or request.group_instance_id is not None:
            code = group.checked(request.member_id, request.group_instance_id)
            if code and self._obeyed_static(request, group):
                return 0
            if not code and generation != group.epoch:
                code = ILLEGAL_GENERATION
            if code and 0 <= generation < group.epoch and self.takes("former generation is obeyed"):
                return 0
            if code:
                return code
        elif not transactional:
            return 0 if self.takes("stranger commits to a group with members") else UNKNOWN_MEMBER
        return REBALANCING if group.state == COMPLETING and not transactional else 0

    def _obeyed_static(self, request: Commits, group: Group) -> bool:
        holder = group.holder(request.group_instance_id)
        return holder not in (None, request.member_id) and self.takes("replaced static member is obeyed")

    def _commit_to_consumer_group(self, request: Commits, group: Group) -> int:
        generation = request.generation_id
        if generation < 0 and not group.members:
            return 0
        if (
            generation < 0
            and not request.member_id
            and request.api == TXN_OFFSET_COMMIT
            and self.release.version >= "4"
        ):
            return 0
        member = group.members.get(request.member_id)
        if member is None:
            return UNKNOWN_MEMBER
        if generation == member.epoch:
            return 0
        node = self.nodes[request.node]
        if node.version >= "4.3" and member.stale_from <= generation < member.epoch:
            return 0  # KIP-1251
        if (
            0 < generation < member.epoch
            and not member.classic
            and self.takes("commit in an older member epoch is obeyed")
        ):
            return 0
        return ILLEGAL_GENERATION if member.classic or request.api == TXN_OFFSET_COMMIT else STALE_EPOCH

    # -- administrators

    def delete_group(self) -> None:
        """An administrator deletes a group without members, or its offsets expire."""
        node = self.coordinator(TOPIC)
        if node is None or TOPIC not in self.nodes[node].leads:
            return
        empty = [name for name, (group, _) in self.groups(node).items() if not group.members and not group.pending]
        if empty:
            self._written(node, self.choices.choice(empty), None)

    def expire_members(self) -> None:
        """The session of a member ends, or a rebalance takes too long."""
        for broker in self.nodes.values():
            if not broker.up or TOPIC not in broker.leads:
                continue
            for name in list(self.groups(broker.id)):
                group = self.group(broker.id, name)
                if group is not None and group.state == PREPARING and not group.consumer and self.chance(0.8):
                    self.complete_join(broker.id, name)
                elif group is not None and group.members and self.chance(0.15):
                    self.remove(broker.id, name, self.choices.choice(sorted(group.members)))
