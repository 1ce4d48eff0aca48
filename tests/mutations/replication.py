"""Followers and their leaders: divergences, truncation, the ISR and the high watermark."""

from __future__ import annotations

import copy as copies
from collections.abc import Iterator
from typing import Any, Final

from tests.mutations.control_plane import FENCED_LEADER_EPOCH
from tests.mutations.editing import Copy, NotThereError, Request
from tests.mutations.fetching import ZOOKEEPER, replica_of
from tests.mutations.planting import Place, mutation

_NONE: Final = {"epoch": -1, "endOffset": -1}


def listed(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """The partitions that a Fetch asks for, each with its topic id."""
    for topic in request.asked["topics"]:
        for partition in topic["partitions"]:
            yield topic["topicId"], partition


def diverging(copy: Copy) -> Iterator[tuple[Request, str, dict[str, Any], dict[str, Any]]]:
    """Fetches that were answered with a divergence: topic id, what is asked and what is answered."""
    for request in copy.requests("FETCH", lambda r: "divergingEpoch" in str(r.answered)):
        for id, asked in listed(request):
            for topic in request.answered["responses"]:
                for answer in topic["partitions"]:
                    same = (topic["topicId"], answer["partitionIndex"]) == (id, asked["partition"])
                    if same and answer.get("divergingEpoch", _NONE) != _NONE:
                        yield request, id, asked, answer


def next_listing(copy: Copy, request: Request, id: str, partition: int) -> tuple[Request, dict[str, Any]]:
    """The next Fetch on the same connection that lists the partition."""
    connection = request.document["connection"]
    for later in copy.requests("FETCH", lambda r: r.document["connection"] == connection, request.node):
        if later.index > request.index:
            for other, asked in listed(later):
                if (other, asked["partition"]) == (id, partition):
                    return later, asked
    raise NotThereError("no later Fetch of the partition on the connection")


@mutation("TR-03", ZOOKEEPER)
def divergence_kept_silent(copy: Copy) -> Place:
    """A leader delivers records to a follower whose log has parted from its own, instead of telling where."""
    for request, _, asked, answer in diverging(copy):
        if answer["divergingEpoch"]["endOffset"] < asked["fetchOffset"]:
            del answer["divergingEpoch"]
            answer["recordsSizeInBytes"] = 100
            request.write()
            return Place(node=request.node, partition=asked["partition"], correlation_id=request.correlation_id)
    raise NotThereError("no divergence below a fetch offset")


@mutation("TR-04", ZOOKEEPER)
def divergence_beyond_the_epoch(copy: Copy) -> Place:
    """A follower is told that an older epoch ends beyond the start of the leader's own."""
    for request, _, asked, answer in diverging(copy):
        if answer["divergingEpoch"]["epoch"] < asked["lastFetchedEpoch"]:
            answer["divergingEpoch"]["endOffset"] += 5
            request.write()
            return Place(node=request.node, partition=asked["partition"], correlation_id=request.correlation_id)
    raise NotThereError("no divergence with an older epoch")


@mutation("TR-05", ZOOKEEPER)
def epoch_not_forgotten(copy: Copy) -> Place:
    """A follower states the epoch again of which its leader has told it that it does not know it."""
    for request, id, asked, answer in diverging(copy):
        if answer["divergingEpoch"]["epoch"] < asked["lastFetchedEpoch"]:
            later, again = next_listing(copy, request, id, asked["partition"])
            again["lastFetchedEpoch"] = asked["lastFetchedEpoch"]
            later.write()
            return Place(node=replica_of(request), partition=asked["partition"], correlation_id=request.correlation_id)
    raise NotThereError("no divergence with an older epoch")


@mutation("FF-07", ZOOKEEPER)
def refused_and_asked_again(copy: Copy) -> Place:
    """A follower whose leader epoch was refused as old fetches in it again."""
    for request in copy.requests("FETCH", lambda r: replica_of(r) >= 0 and len(list(listed(r))) == 1):
        codes = [p["errorCode"] for t in request.answered["responses"] for p in t["partitions"]]
        if codes == [FENCED_LEADER_EPOCH]:
            ((_, asked),) = listed(request)
            again = copies.deepcopy(request)
            again.document["requestHeader"]["correlationId"] += 1
            again.asked.update({"sessionId": 0, "sessionEpoch": -1})
            again.answered["sessionId"] = 0
            again.write_behind(request)
            return Place(node=replica_of(request), partition=asked["partition"], correlation_id=request.correlation_id)
    raise NotThereError("no Fetch of a follower for one partition that was refused with 74")
