"""Simulated share sessions: what members of share groups send to a broker, and whether it accepts it (KIP-932).

The broker follows SharePartitionManager.newContext and acknowledgeSessionUpdate of 4.1 to 4.3: epoch 0 of a ShareFetch opens a session, -1
closes it, and any other must be the next. Clients send again what may have been answered, leave epochs out, and use two connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from prove.coordination import SHARE_ACKNOWLEDGE, SHARE_FETCH, UsesShareSession

NOT_FOUND, INVALID_EPOCH, UNKNOWN_ERROR = 122, 123, -1
HIGHEST_EPOCH: Final = 2**31 - 1
FAULT: Final = "share session epoch out of order is accepted"
MOST_BREACHES: Final = 2


def following(epoch: int) -> int:
    """The epoch after this one (ShareRequestMetadata.nextEpoch)."""
    return -1 if epoch < 0 else 1 if epoch == HIGHEST_EPOCH else epoch + 1


@dataclass
class Member:
    """A member of a share group and the broker that it fetches from. epoch: what it sends next. expected: by the broker, None: no session.

    connections: (number, correlation id of the last request) of each that it uses.
    """

    node: int
    member_id: str
    client_id: str
    epoch: int
    expected: int | None
    connections: list[list[int]]


@dataclass
class ShareSessions:
    """Members of a share group at brokers. now: by node, what its clock shows. one_connection: a member uses one at a time.

    Where lines are missing, nothing shows that a request of another connection lay between two.
    """

    choices: Random
    now: dict[int, int]
    faulty: bool
    one_connection: bool
    breaches: int = 0
    made: int = 0

    def chance(self, probability: float) -> bool:
        """Whether something happens."""
        return self.choices.random() < probability

    def begin(self, number: int) -> Member:
        """A member, perhaps one whose session is older than the log."""
        node, goes_on = self.choices.choice(sorted(self.now)), self.chance(0.3)
        epoch = self.choices.choice((7, HIGHEST_EPOCH - 1, HIGHEST_EPOCH)) if goes_on else 0
        member = Member(node, f"member-{number}", f"picker-{number}", epoch, epoch if goes_on else None, [])
        self.connect(member, self.choices.randint(3, 90) if goes_on else 0)
        return member

    def connect(self, member: Member, correlation_id: int = 0) -> None:
        """The member opens a connection."""
        self.made += 1
        member.connections.append([70_000 + self.made, correlation_id])

    def run(self, steps: int) -> Iterator[UsesShareSession]:
        """The requests, in the order in which brokers answer them. Some members stop, others begin."""
        members = [self.begin(number) for number in range(3)]
        for step in range(steps):
            member = self.choices.choice(members)
            if self.chance(0.03):
                members.remove(member)
                members.append(self.begin(10 + step))
                continue
            yield self.sends(member)

    def sends(self, member: Member) -> UsesShareSession:
        """One request and its answer."""
        if self.chance(0.04):
            member.expected = None  # the broker drops the session: its cache is full, or all connections broke
        if self.chance(0.05):
            self.connect(member)
        connection = self.choice_of_connection(member)
        epoch = self.choice_of_epoch(member)
        api = SHARE_FETCH if epoch == 0 or self.chance(0.6) else SHARE_ACKNOWLEDGE
        connection[1] += 1
        code = self.handled(member, epoch)
        arrived = self.now[member.node] + self.choices.randint(1, 40)
        at = self.now[member.node] = arrived + self.choices.randint(1, 600)
        self.heard(member, epoch, code)
        return UsesShareSession(
            0, member.node, at, api=api, version=self.choices.choice((1, 1, 2)), correlation_id=connection[1], client_id=member.client_id,
            connection=connection[0], arrived=arrived, error_code=code, group_id="pickers", member_id=member.member_id, session_epoch=epoch,
        )  # fmt: skip

    def choice_of_connection(self, member: Member) -> list[int]:
        """The last connection, or one before."""
        return (
            member.connections[-1]
            if self.one_connection or self.chance(0.9)
            else self.choices.choice(member.connections)
        )

    def choice_of_epoch(self, member: Member) -> int:
        """The next epoch, or another by mistake."""
        if self.chance(0.05):
            return -1
        if self.chance(0.06) and member.epoch > 0:
            return self.choices.choice(
                (member.epoch + 1 if member.epoch < HIGHEST_EPOCH else 2, max(1, member.epoch - 1))
            )
        return member.epoch

    def handled(self, member: Member, epoch: int) -> int:
        """The error code of the answer; 0: the session has changed."""
        if self.chance(0.02):
            if self.chance(0.5):
                member.expected = None
            return UNKNOWN_ERROR
        if epoch == 0:
            member.expected = 1
            return 0
        known = member.expected is not None
        if not known or (epoch > 0 and epoch != member.expected):
            if not (epoch > 0 and self.faulty and self.breaches < MOST_BREACHES and self.chance(0.5)):
                return INVALID_EPOCH if known else NOT_FOUND
            self.breaches += 1
        member.expected = None if epoch < 0 else following(epoch)
        return 0

    def heard(self, member: Member, epoch: int, code: int) -> None:
        """What the member sends next: it may not have got the answer, and send the same again, or begin anew."""
        if code or epoch < 0 or self.chance(0.04):
            member.epoch = 0
        elif self.chance(0.9):
            member.epoch = following(epoch)
