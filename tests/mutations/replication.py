"""Followers and their leaders: divergences, truncation, the ISR and the high watermark."""

from __future__ import annotations

import copy as copies
from collections.abc import Iterator
from typing import Any, Final

from tests.mutations.control_plane import FENCED_LEADER_EPOCH
from tests.mutations.editing import SERVER_LOG, STATE_CHANGE_LOG, Copy, NotThereError, Request
from tests.mutations.fetching import ZOOKEEPER, joins, replica_of
from tests.mutations.planting import Place, mutation

_NONE: Final = {"epoch": -1, "endOffset": -1}
_NAMED: Final = r"(Leader|Follower) (?P<topic>\S+)-\d+ with topic id Some\((?P<id>\S+)\) starts"


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
def divergence_not_reported(copy: Copy) -> Place:
    """A leader delivers records to a follower whose log has diverged from its own, instead of answering where."""
    for request, _, asked, answer in diverging(copy):
        if answer["divergingEpoch"]["endOffset"] < asked["fetchOffset"]:
            del answer["divergingEpoch"]
            answer["recordsSizeInBytes"] = 100
            request.write()
            return Place(node=request.node, partition=asked["partition"], correlation_id=request.correlation_id)
    raise NotThereError("no divergence below a fetch offset")


@mutation("TR-04", ZOOKEEPER)
def divergence_beyond_the_epoch(copy: Copy) -> Place:
    """A follower is answered that an older epoch ends beyond the start of the leader's own."""
    for request, _, asked, answer in diverging(copy):
        if answer["divergingEpoch"]["epoch"] < asked["lastFetchedEpoch"]:
            answer["divergingEpoch"]["endOffset"] += 5
            request.write()
            return Place(node=request.node, partition=asked["partition"], correlation_id=request.correlation_id)
    raise NotThereError("no divergence with an older epoch")


@mutation("TR-05", ZOOKEEPER)
def epoch_not_forgotten(copy: Copy) -> Place:
    """A follower states an epoch again after its leader has answered that it does not know it."""
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


@mutation("TR-09", ZOOKEEPER)
def epoch_begun_without_comparison(copy: Copy) -> Place:
    """A follower that has records begins a new leader epoch without stating the epoch of the last one."""
    seen: dict[tuple[int, str, int], int] = {}
    for request in copy.requests("FETCH", lambda r: replica_of(r) >= 0):
        for id, asked in listed(request):
            key, epoch = (replica_of(request), id, asked["partition"]), asked["currentLeaderEpoch"]
            codes = {p["errorCode"] for t in request.answered["responses"] for p in t["partitions"]}
            if seen.setdefault(key, epoch) < epoch and asked["lastFetchedEpoch"] >= 0 and codes <= {0}:
                asked["lastFetchedEpoch"] = -1
                request.write()
                return Place(node=request.node, partition=asked["partition"], correlation_id=request.correlation_id)
    raise NotThereError("no follower that fetched in two leader epochs")


def always_in_isr(copy: Copy, request: Request, topic: str, asked: dict[str, Any]) -> bool:
    """The follower that fetches is in the ISR with which the leader epoch begins, and in all that the leader changed."""
    partition, node = f"{topic}-{asked['partition']}", request.node
    start = rf"Leader {partition} with .* leader epoch {asked['currentLeaderEpoch']} .* ISR \[(?P<isr>[\d,]*)\]"
    change = rf"Partition {partition} broker=\d+\] (Shrinking ISR from \S+ to|ISR updated to) (?P<isr>[\d,]+)"
    isrs = [line.match["isr"].split(",") for line in copy.lines(STATE_CHANGE_LOG, start, node)]
    isrs += [line.match["isr"].split(",") for line in copy.lines(SERVER_LOG, change, node)]
    return bool(isrs) and all(str(replica_of(request)) in isr for isr in isrs)


@mutation("HW-05", ZOOKEEPER)
def high_watermark_passes_a_member_by(copy: Copy) -> Place:
    """A member of the ISR fetches below the high watermark that its leader gives out."""
    names = {line.match["id"]: line.match["topic"] for line in copy.lines(STATE_CHANGE_LOG, _NAMED)}
    for request in copy.requests("FETCH", lambda r: replica_of(r) >= 0 and len(list(listed(r))) == 1):
        ((id, asked),) = listed(request)
        answers = [p for t in request.answered["responses"] for p in t["partitions"] if t["topicId"] == id]
        level = [(p["errorCode"], p["highWatermark"]) for p in answers] == [(0, asked["fetchOffset"])]
        compared = asked["lastFetchedEpoch"] >= 0
        if id in names and level and compared and always_in_isr(copy, request, names[id], asked):
            asked["fetchOffset"] -= 1
            request.document["totalTimeMs"] = 1.0  # there is a record to give out, for which no Fetch waits
            request.write()
            return Place(node=request.node, topic=names[id], partition=asked["partition"])
    raise NotThereError("no member of an ISR that fetched at the high watermark")


@mutation("FF-06", ZOOKEEPER, verdict="exposed", fetches=False)
def absent_broker_joins(copy: Copy) -> Place:
    """A leader takes a broker into the ISR that UpdateMetadata does not list as live, as leaders of 2.6 do it."""
    _, joined, replica = next(joins(copy))
    isr = joined.match["isr"].split(",")
    before = ",".join(member for member in isr if member != str(replica))
    topic, partition = joined.match["topic"], joined.match["partition"]
    joined.insert_before(
        f"INFO [Partition {topic}-{partition} broker={joined.node}] Expanding ISR from {before} to {','.join(isr)}"
        " (kafka.cluster.Partition)"
    )
    for request in copy.requests("UPDATE_METADATA", node=joined.node):
        request.asked["liveBrokers"] = [broker for broker in request.asked["liveBrokers"] if broker["id"] != replica]
        request.write()
    return Place(node=joined.node, topic=topic, partition=int(partition), evidence="Expanding ISR")


@mutation("TR-07", ZOOKEEPER, fetches=False)
def committed_records_truncated(copy: Copy) -> Place:
    """A follower truncates below the high watermark with which it began the leader epoch, after clean elections."""
    pattern = (
        r"Truncating partition (?P<topic>\S+)-(?P<partition>\d+) with TruncationState\(offset=(?P<offset>\d+), completed=true\) due to"
        r" leader epoch"
    )
    for line in copy.lines(SERVER_LOG, pattern):
        offset = int(line.match["offset"])
        if offset > 20:
            line.replace(line.text.replace(f"(offset={offset},", f"(offset={offset - 20},"))
            return Place(node=line.node, topic=line.match["topic"], partition=int(line.match["partition"]))
    raise NotThereError("no follower that truncated as its leader had answered")
