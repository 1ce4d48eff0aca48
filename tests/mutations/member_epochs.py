"""Members of groups with the protocol of KIP-848, and their epochs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from uuid import UUID

from tests.mutations.editing import Copy, NotThereError, Request
from tests.mutations.groups import COMMIT
from tests.mutations.metadata_records import HEALTHY
from tests.mutations.planting import Place, mutation

HEARTBEAT: Final = "CONSUMER_GROUP_HEARTBEAT"
_API_KEY: Final = 68
_APART: Final = timedelta(seconds=1)
_UUID: Final = 36


def use_new_protocol(copy: Copy) -> str:
    """Write the members of classic groups as members of KIP-848 groups, with their generations as epochs. Returns the first one's id.

    SyncGroup becomes the heartbeat with which a member joins, and Heartbeat the ones that follow. JoinGroup and LeaveGroup are dropped.
    """
    for api in ("JOIN_GROUP", "LEAVE_GROUP"):
        for request in copy.requests(api):
            request.drop()
    joins = list(copy.requests("SYNC_GROUP"))
    for request in (*joins, *copy.requests("HEARTBEAT")):
        if request.answered["errorCode"] == 0:
            _as_heartbeat(request, joins=request in joins)
        else:
            request.drop()
    for commit in copy.requests(COMMIT, lambda r: r.asked["memberId"]):
        commit.asked["memberId"] = _new_id(commit.asked["memberId"])
        commit.write()
    return str(copy.request(HEARTBEAT, lambda _: True).asked["memberId"])


def _as_heartbeat(request: Request, *, joins: bool) -> None:
    epoch, member = request.asked["generationId"], _new_id(request.asked["memberId"])
    request.document["requestHeader"] |= {
        "requestApiKey": _API_KEY, "requestApiVersion": 1, "requestApiKeyName": HEARTBEAT,
    }  # fmt: skip
    request.document["request"] = {
        "groupId": request.asked["groupId"], "memberId": member, "memberEpoch": 0 if joins else epoch, "instanceId": None,
        "rackId": None, "rebalanceTimeoutMs": -1, "subscribedTopicNames": None, "subscribedTopicRegex": None, "serverAssignor": None,
        "topicPartitions": [] if joins else None,
    }  # fmt: skip
    request.document["response"] = {
        "throttleTimeMs": 0, "errorCode": 0, "errorMessage": None, "memberId": member, "memberEpoch": epoch,
        "heartbeatIntervalMs": 5000, "assignment": None,
    }  # fmt: skip
    request.write()


def _new_id(classic_id: str) -> str:
    """An id as org.apache.kafka.common.Uuid prints it, of the same UUID."""
    return base64.urlsafe_b64encode(UUID(classic_id[-_UUID:]).bytes).decode().rstrip("=")


def heartbeats_of(copy: Copy, member: str) -> list[Request]:
    """The member's heartbeats at its first coordinator, from its last join there on."""
    found = list(copy.requests(HEARTBEAT, lambda r: r.asked["memberId"] == member))
    found = [one for one in found if one.node == found[0].node]
    last_join = max(number for number, one in enumerate(found) if one.asked["memberEpoch"] == 0)
    return found[last_join:]


def raise_epoch(copy: Copy, heartbeats: list[Request], number: int) -> None:
    """Raise the member's epoch by one in the answer to this heartbeat, and in all that the member does afterwards."""
    raised = heartbeats[number]
    for heartbeat in heartbeats[number:]:
        heartbeat.asked["memberEpoch"] += heartbeat is not raised
        heartbeat.answered["memberEpoch"] += 1
        heartbeat.write()
    for commit in commits_after(copy, raised):
        commit.asked["generationIdOrMemberEpoch"] += 1
        commit.write()


def commits_after(copy: Copy, heartbeat: Request) -> Iterator[Request]:
    """The member's commits that arrived at the coordinator after it had answered the heartbeat."""
    member = heartbeat.asked["memberId"]
    of_member = copy.requests(COMMIT, lambda r: r.asked["memberId"] == member, heartbeat.node)
    return (one for one in of_member if one.arrived_at > heartbeat.answered_at)


@mutation("GE-05", HEALTHY, fetches=False)
def former_member_epoch_commits(copy: Copy) -> Place:
    """A coordinator answers a heartbeat with a higher member epoch, and answers 0 to the member's commit in the epoch before."""
    heartbeats = heartbeats_of(copy, use_new_protocol(copy))
    raise_epoch(copy, heartbeats, 1)
    for commit in commits_after(copy, heartbeats[1]):
        later = commit.arrived_at > heartbeats[1].answered_at + _APART
        if later and commit.answered_at < heartbeats[-1].arrived_at - _APART:
            commit.asked["generationIdOrMemberEpoch"] -= 1
            commit.write()
            return Place(
                node=commit.node,
                client=commit.client,
                correlation_id=commit.correlation_id,
                group=commit.asked["groupId"],
            )
    raise NotThereError("no commit a second after the second heartbeat of a member, and a second before its last")


@mutation("GE-04", HEALTHY, fetches=False)
def older_member_epoch_states_itself(copy: Copy) -> Place:
    """A coordinator answers two higher member epochs, and then accepts a heartbeat in the epoch before both."""
    heartbeats = heartbeats_of(copy, use_new_protocol(copy))
    for number in (1, 2):
        raise_epoch(copy, heartbeats, number)
    stale = heartbeats[3]
    if stale.arrived_at < heartbeats[2].answered_at + _APART:
        raise NotThereError("the fourth heartbeat of the member arrives within a second of the answer before")
    stale.asked["memberEpoch"] -= 2
    stale.write()
    return Place(
        node=stale.node, client=stale.client, correlation_id=stale.correlation_id, group=stale.asked["groupId"]
    )
