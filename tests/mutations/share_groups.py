"""Epochs of share groups: of their states at share coordinators, and of their members' sessions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from epochaudit.kafka.errors import Errors
from tests.mutations.editing import Copy, NotThereError, Request
from tests.mutations.planting import Place, mutation

SHARE_GROUP: Final = "kraft-share-group-4.1"
INITIALIZE: Final = "INITIALIZE_SHARE_GROUP_STATE"
WRITE: Final = "WRITE_SHARE_GROUP_STATE"
_APART: Final = timedelta(seconds=2)


def answer_of(request: Request) -> dict[str, Any]:
    """The answer for the only partition of a request about a group's state."""
    answer: dict[str, Any] = request.answered["results"][0]["partitions"][0]
    return answer


def asked_of(request: Request) -> dict[str, Any]:
    """The only partition of a request about a group's state."""
    asked: dict[str, Any] = request.asked["topics"][0]["partitions"][0]
    return asked


def place_of(request: Request) -> Place:
    return Place(
        node=request.node,
        correlation_id=request.correlation_id,
        client=request.client,
        group=request.asked["groupId"],
    )


@mutation("SH-01", SHARE_GROUP, fetches=False)
def former_leader_writes(copy: Copy) -> Place:
    """A share coordinator answers 0 to a write in the leader epoch before the one in which the state was read."""
    write = copy.request(WRITE, lambda r: answer_of(r)["errorCode"] == Errors.FENCED_LEADER_EPOCH)
    answer_of(write).update(errorCode=0, errorMessage=None)
    write.write()
    return place_of(write)


@mutation("SH-02", SHARE_GROUP, fetches=False)
def former_state_written(copy: Copy) -> Place:
    """A share coordinator initializes a state in a higher epoch, and answers 0 to the leader's writes in the former."""
    initialization = copy.request(INITIALIZE, lambda r: answer_of(r)["errorCode"] == 0)
    for write in copy.requests(WRITE, lambda r: answer_of(r)["errorCode"] == 0, initialization.node):
        if write.arrived_at > initialization.answered_at + _APART:
            asked_of(initialization)["stateEpoch"] += 1
            initialization.write()
            return place_of(write)
    raise NotThereError("no write two seconds after the initialization at the same coordinator")


@mutation("SH-03", SHARE_GROUP, fetches=False)
def session_epoch_accepted_twice(copy: Copy) -> Place:
    """A leader answers 0 to a ShareFetch whose session epoch it had accepted in the request before."""
    fetch = copy.request("SHARE_FETCH", lambda r: r.answered["errorCode"] == Errors.INVALID_SHARE_SESSION_EPOCH)
    fetch.answered["errorCode"] = 0
    fetch.write()
    return place_of(fetch)
