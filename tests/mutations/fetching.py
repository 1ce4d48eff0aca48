"""Fetches: in wrong leader epochs, of replicas that had not caught up, of former incarnations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from tests.mutations.control_plane import FENCED_LEADER_EPOCH, STALE
from tests.mutations.editing import SERVER_LOG, STATE_CHANGE_LOG, Copy, Line, NotThereError, Request
from tests.mutations.isr import CHANGE, changes
from tests.mutations.metadata_records import HEALTHY, REGISTRATION
from tests.mutations.planting import Place, mutation

ZOOKEEPER: Final = "zk-healthy-3.9"

UNKNOWN_LEADER_EPOCH: Final = 75
_SLACK: Final = timedelta(seconds=1)  # a request's line may be written so late


def one_answer(request: Request) -> dict[str, Any]:
    """The partition in the answer to a Fetch of one partition."""
    (topic,) = request.answered["responses"]
    (partition,) = topic["partitions"]
    found: dict[str, Any] = partition
    return found


def refused(copy: Copy, code: int) -> Request:
    """The last Fetch of a consumer for one partition that was refused so, in an epoch that it states itself."""
    fetches = copy.requests(
        "FETCH",
        lambda r: (
            [p["errorCode"] for t in r.answered["responses"] for p in t["partitions"]] == [code]
            and [p["currentLeaderEpoch"] >= 0 for t in r.asked["topics"] for p in t["partitions"]] == [True]
            and replica_of(r) == -1
        ),
    )
    return list(fetches)[-1]


def replica_of(request: Request) -> int:
    state = request.asked.get("replicaState") or {}
    return int(state.get("replicaId", request.asked.get("replicaId", -1)))


def serve(copy: Copy, request: Request) -> Place:
    """Answer a refused Fetch as the node answered one of the same partition that it served."""
    topic, answer = request.answered["responses"][0]["topicId"], one_answer(request)
    for served in copy.requests("FETCH", node=request.node):
        for other in served.answered["responses"]:
            for partition in other["partitions"]:
                key = (other.get("topicId"), partition["partitionIndex"], partition["errorCode"])
                if key == (topic, answer["partitionIndex"], 0):
                    answer.clear()
                    answer.update(partition)
                    request.write()
                    return Place(
                        node=request.node,
                        partition=partition["partitionIndex"],
                        correlation_id=request.correlation_id,
                        client=request.client,
                    )
    raise NotThereError("no Fetch of the partition that the node served")


@mutation("FF-01", STALE)
def older_epoch_served(copy: Copy) -> Place:
    """A consumer's Fetch in an older leader epoch is served instead of refused with 74."""
    return serve(copy, refused(copy, FENCED_LEADER_EPOCH))


@mutation("FF-02", STALE)
def newer_epoch_served(copy: Copy) -> Place:
    """A consumer's Fetch in a newer leader epoch than the broker's is served instead of refused with 75."""
    return serve(copy, refused(copy, UNKNOWN_LEADER_EPOCH))


_UPDATED: Final = (
    r"Partition (?P<topic>\S+)-(?P<partition>\d+) broker=\d+\] ISR updated to (?P<isr>[\d,]+) .*version updated to"
)
_STARTS: Final = (
    r"Leader (?P<topic>\S+)-(?P<partition>\d+) with topic id Some\((?P<id>\S+)\) starts at leader epoch (?P<epoch>\d+) from offset "
    r"(?P<offset>\d+) .* ISR \[(?P<isr>[\d,]*)\]"
)


def joins(copy: Copy) -> Iterator[tuple[Line, Line, int]]:
    """A leader's line that starts its epoch, its first one about a new ISR in it, and the replica that joined."""
    for start in copy.lines(STATE_CHANGE_LOG, _STARTS):
        key = (start.match["topic"], start.match["partition"])
        later = [
            line
            for line in copy.lines(SERVER_LOG, _UPDATED, start.node)
            if (line.match["topic"], line.match["partition"]) == key and line.written_at >= start.written_at
        ]
        again = [
            line
            for line in copy.lines(STATE_CHANGE_LOG, _STARTS, start.node)
            if (line.match["topic"], line.match["partition"]) == key and line.written_at > start.written_at
        ]
        if later and not (again and again[0].written_at <= later[0].written_at):
            new = set(later[0].match["isr"].split(",")) - set(start.match["isr"].split(","))
            if len(new) == 1:
                yield start, later[0], int(new.pop())


def fetches_until(copy: Copy, start: Line, joined: Line, replica: int) -> Iterator[tuple[Request, dict[str, Any]]]:
    """The replica's fetches of the partition that arrived before it joined, each with what it asks."""
    for request in copy.requests("FETCH", lambda r: replica_of(r) == replica, start.node):
        if start.written_at - _SLACK <= request.arrived_at <= joined.written_at + _SLACK:
            for topic in request.asked["topics"]:
                for partition in topic["partitions"]:
                    if (topic.get("topicId"), partition["partition"]) == (
                        start.match["id"],
                        int(start.match["partition"]),
                    ):
                        yield request, partition


@mutation("IS-15", ZOOKEEPER)
def joined_before_the_start_of_the_epoch(copy: Copy) -> Place:
    """A leader takes a replica into the ISR whose fetches all lie below the start of the leader epoch."""
    for start, joined, replica in joins(copy):
        offset = int(start.match["offset"])
        found = [fetch for fetch in fetches_until(copy, start, joined, replica) if offset]
        epochs = {asked["currentLeaderEpoch"] for _, asked in found}
        if int(start.match["epoch"]) in epochs:
            for request, asked in found:
                asked["fetchOffset"] = min(asked["fetchOffset"], offset - 1)
                request.write()
            return Place(node=start.node, topic=start.match["topic"], partition=int(start.match["partition"]))
    raise NotThereError("no replica that joined an ISR after it had fetched in the leader epoch")


@mutation("BE-06", HEALTHY, also=("BE-06",))
def joined_by_fetches_of_the_former_incarnation(copy: Copy) -> Place:
    """A leader takes a restarted replica into ISRs although all of its fetches bear the former broker epoch."""
    for registration in reversed(list(copy.metadata.records(REGISTRATION))):
        broker, epoch = registration.data["brokerId"], registration.data["brokerEpoch"]
        former = [
            r
            for r in copy.metadata.records(REGISTRATION)
            if (r.data["brokerId"], r.offset < registration.offset) == (broker, True)
        ]
        stated = [
            change
            for change in changes(copy)
            if change.changed and {"brokerId": broker, "brokerEpoch": epoch} in change.asked.get("newIsrWithEpochs", [])
        ]
        if former and stated:
            leader, old = stated[0].request.asked["brokerId"], former[-1].data["brokerEpoch"]
            for request in copy.requests("FETCH", node=leader):
                if (request.asked.get("replicaState") or {}).get("replicaEpoch") == epoch:
                    request.asked["replicaState"]["replicaEpoch"] = old
                    request.write()
            return Place(node=leader, evidence=f'"replicaEpoch":{old}')
    raise NotThereError("no broker that came back and joined an ISR")


@mutation("BE-05", HEALTHY, fetches=False)
def former_incarnation_still_obeyed(copy: Copy) -> Place:
    """After a broker was registered over its live incarnation, a heartbeat of the former one is answered 0."""
    for registration in copy.metadata.records(REGISTRATION):
        broker, epoch = registration.data["brokerId"], registration.data["brokerEpoch"]
        former = [
            record.data["brokerEpoch"]
            for record in copy.metadata.records(REGISTRATION, brokerId=broker)
            if record.offset < registration.offset
        ]
        if former and CHANGE in {record.type for record in registration.batch.records}:
            accepted = next(r for r in copy.requests("BROKER_REGISTRATION") if r.answered["brokerEpoch"] == epoch)
            beats = [r for r in copy.requests("BROKER_HEARTBEAT") if r.asked["brokerEpoch"] == epoch]
            late = next(r for r in beats if r.arrived_at > accepted.answered_at + _SLACK)
            late.asked["brokerEpoch"] = former[-1]
            late.write_behind(late)
            return Place(node=accepted.node, correlation_id=accepted.correlation_id)
    raise NotThereError("no registration over a live incarnation")
