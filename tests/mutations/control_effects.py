"""What controllers publish and brokers make of it: epochs of requests, states that move back, replicas (ZooKeeper mode)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from tests.mutations.control_plane import (
    HEALTHY,
    STALE,
    STALE_CONTROLLER_EPOCH,
    installed,
    leader_and_isr,
    of_one_partition,
    one_state,
    partition_of,
    place_of,
    place_of_request,
    print_state,
    stop_errors,
    stops,
)
from tests.mutations.editing import SERVER_LOG, STATE_CHANGE_LOG, Copy, Line, NotThereError, Request
from tests.mutations.planting import Place, mutation

_LATE: Final = timedelta(seconds=1)


def published(copy: Copy) -> Iterator[Request]:
    """UpdateMetadata requests of one partition that were answered 0."""
    return copy.requests("UPDATE_METADATA", lambda r: of_one_partition(r) and r.answered["errorCode"] == 0)


def earlier_states(copy: Copy, request: Request) -> list[dict[str, Any]]:
    """The partition's states in earlier accepted UpdateMetadata requests to the broker, in order."""
    key = partition_of(request)
    return [
        state
        for other in copy.requests("UPDATE_METADATA", node=request.node)
        if other.index < request.index and other.answered["errorCode"] == 0
        for topic in other.asked["topicStates"]
        for state in topic["partitionStates"]
        if f"{topic['topicName']}-{state['partitionIndex']}" == key
    ]


@mutation("UM-01", STALE, fetches=False)
def metadata_of_an_old_controller_taken(copy: Copy) -> Place:
    """An UpdateMetadata of a controller that had been replaced is answered 0 instead of 11; it changes nothing."""
    request = copy.request("UPDATE_METADATA", lambda r: r.answered["errorCode"] == STALE_CONTROLLER_EPOCH)
    one_state(request).update(earlier_states(copy, request)[-1])
    request.answered["errorCode"] = 0
    request.write()
    print_state(copy, request)
    asked = request.asked
    line = copy.line(
        STATE_CHANGE_LOG, rf"update metadata request with correlation id {request.correlation_id}\b", request.node
    )
    line.replace(
        f"{line.text[:25]} INFO [Broker id={request.node}] Add 1 partitions and deleted 0 partitions from metadata cache in "
        f"response to UpdateMetadata request sent by controller {asked['controllerId']} epoch {asked['controllerEpoch']} "
        f"with correlation id {request.correlation_id} (state.change.logger)"
    )
    return place_of_request(request)


@mutation("UM-02", STALE, verdict="exposed", fetches=False)
def older_metadata_published(copy: Copy) -> Place:
    """An UpdateMetadata brings a state of an older leader epoch, which the broker had received before."""
    for request in list(published(copy))[::-1]:
        older = [s for s in earlier_states(copy, request) if s["leaderEpoch"] < one_state(request)["leaderEpoch"]]
        if older and older[-1]["leader"] >= 0 and one_state(request)["leader"] >= 0:
            one_state(request).update(older[-1])
            request.write()
            print_state(copy, request)
            return place_of(request)
    raise NotThereError("no UpdateMetadata that raised a leader epoch")


@mutation("CE-02", HEALTHY, fetches=False)
def two_controllers_of_one_epoch(copy: Copy) -> Place:
    """A broker is sent an UpdateMetadata by another controller in the controller epoch of the elected one."""
    request = next(published(copy))
    epoch, elected = request.asked["controllerEpoch"], request.asked["controllerId"]
    other = min({1, 2, 3} - {elected})
    request.asked["controllerId"] = other
    request.write()
    pattern = rf"by controller {elected} epoch {epoch} with correlation id {request.correlation_id}\b"
    for line in copy.lines(STATE_CHANGE_LOG, pattern, request.node):
        line.replace(line.text.replace(f"by controller {elected} epoch", f"by controller {other} epoch"))
    return Place(evidence=f'"correlationId":{request.correlation_id},')


@mutation("CE-03", HEALTHY, fetches=False)
def state_of_a_later_controller_published(copy: Copy) -> Place:
    """A controller publishes a partition state of a controller epoch above its own."""
    request = next(published(copy))
    one_state(request)["controllerEpoch"] = request.asked["controllerEpoch"] + 1
    request.write()
    print_state(copy, request)
    return place_of(request)


@mutation("SR-05", HEALTHY, fetches=False)
def stop_replica_answered_with_11(copy: Copy) -> Place:
    """A StopReplica is answered 11 for its partition, a code that only a whole request is refused with."""
    request = next(r for r in stops(copy, 0) if installed(copy, r)[0] == one_state(r)["leaderEpoch"])
    stop_errors(request)[0]["errorCode"] = STALE_CONTROLLER_EPOCH
    request.write()
    return place_of(request)


@mutation("SR-06", HEALTHY)
def deleted_replica_served(copy: Copy) -> Place:
    """A Fetch of a replica is answered 0 once more after a StopReplica has deleted the replica."""
    for deletion in copy.requests("STOP_REPLICA", lambda r: r.answered["errorCode"] == 0):
        for topic in deletion.asked["topicStates"]:
            for state in topic["partitionStates"]:
                if not state["deletePartition"]:
                    continue
                served = _served_before(copy, deletion, topic["topicName"], state["partitionIndex"])
                later = _fetch_while_deleted(copy, deletion, topic["topicName"])
                if served and later:
                    pattern = rf"{topic['topicName']}-{state['partitionIndex']} .*starts at leader epoch (\d+) "
                    held = list(copy.lines(STATE_CHANGE_LOG, pattern, served.node))
                    served.asked["topics"][0]["partitions"][0]["currentLeaderEpoch"] = int(held[-1].match[1])
                    served.document["totalTimeMs"] = 1.0
                    served.write_behind(later)
                    return Place(
                        node=served.node,
                        topic=topic["topicName"],
                        partition=state["partitionIndex"],
                        correlation_id=served.correlation_id,
                    )
    raise NotThereError("no deletion of a replica that had been fetched from")


def _served_before(copy: Copy, deletion: Request, topic: str, partition: int) -> Request | None:
    """The last Fetch of the partition alone that the broker answered 0 before it deleted its replica."""
    ids = {
        topic_state["topicId"]
        for request in copy.requests("LEADER_AND_ISR", node=deletion.node)
        for topic_state in request.asked["topicStates"]
        if topic_state["topicName"] == topic and request.answered_at < deletion.arrived_at
    }
    wanted = {(id, partition, 0) for id in ids}
    found = None
    for fetch in copy.requests("FETCH", lambda r: r.answered_at < deletion.arrived_at, deletion.node):
        answers = [
            (t.get("topicId"), p["partitionIndex"], p["errorCode"])
            for t in fetch.answered["responses"]
            for p in t["partitions"]
        ]
        if len(answers) == 1 and answers[0] in wanted and fetch.asked["topics"]:
            found = fetch
    return found


def _fetch_while_deleted(copy: Copy, deletion: Request, topic: str) -> Request | None:
    """Some Fetch that came a good while after the deletion, if the broker did not get a replica of that name again."""
    hosted = copy.requests(
        "LEADER_AND_ISR",
        lambda r: (
            r.arrived_at > deletion.answered_at
            and topic in {topic_state["topicName"] for topic_state in r.asked["topicStates"]}
        ),
        deletion.node,
    )
    if next(hosted, None) is not None:
        return None
    return next(copy.requests("FETCH", lambda r: r.answered_at > deletion.answered_at + _LATE, deletion.node), None)


@mutation("LI-03", HEALTHY, verdict="exposed", fetches=False)
def leader_and_isr_of_before_a_restart(copy: Copy) -> Place:
    """A LeaderAndIsr of before a broker's restart comes again right after it, without a broker epoch, and is applied."""
    for started in copy.lines(SERVER_LOG, r"starting \(kafka\.server"):
        requests = list(copy.requests("LEADER_AND_ISR", node=started.node))
        first = next((r for r in requests if r.arrived_at > started.written_at), None)
        before = [r for r in leader_and_isr(copy, 0) if r.node == started.node and r.answered_at < started.written_at]
        for old in before if first else ():
            epochs = [one_state(r)["leaderEpoch"] for r in before if _replica(r) == _replica(old)]
            follows = one_state(old)["leader"] != old.node
            if first and follows and one_state(old)["leaderEpoch"] < max(epochs) and _replica(old) in _replicas(first):
                lines = _handling(copy, old)
                about_handling(copy, first).insert_before(*(line.text[25:].lstrip() for line in lines))
                old.asked["brokerEpoch"] = -1
                old.document["totalTimeMs"] = 1.0
                old.write_before(first)
                return place_of(old)
    raise NotThereError("no broker that had accepted two leader epochs of a partition before it restarted")


def _replica(request: Request) -> tuple[str, int]:
    """Topic id and partition of a LeaderAndIsr of one partition."""
    return next(iter(_replicas(request)))


def _replicas(request: Request) -> set[tuple[str, int]]:
    return {
        (topic["topicId"], state["partitionIndex"])
        for topic in request.asked["topicStates"]
        for state in topic["partitionStates"]
    }


def about_handling(copy: Copy, request: Request) -> Line:
    """The line that begins the handling of a LeaderAndIsr: the last of its correlation id before the answer."""
    pattern = rf"Handling LeaderAndIsr request correlationId {request.correlation_id} from controller \d+ for \d+ part"
    lines = copy.lines(STATE_CHANGE_LOG, pattern, request.node)
    return [line for line in lines if line.written_at <= request.answered_at][-1]


def _handling(copy: Copy, request: Request) -> list[Line]:
    """The lines from the beginning to the end of the handling of a LeaderAndIsr."""
    begins = about_handling(copy, request)
    lines = []
    for line in copy.lines(STATE_CHANGE_LOG, r"\[Broker id=", request.node):
        if line.index >= begins.index:
            lines.append(line)
            if "Finished LeaderAndIsr request" in line.text:
                break
    return lines


@mutation("LI-04", HEALTHY, fetches=False)
def leader_and_isr_accepted_by_a_stranger(copy: Copy) -> Place:
    """A broker answers 0 to a LeaderAndIsr whose replicas do not name it."""
    for request in leader_and_isr(copy, 0):
        state = one_state(request)
        if request.node not in state["isr"] and len(state["replicas"]) > 1 and request.node in state["replicas"]:
            state["replicas"] = [broker for broker in state["replicas"] if broker != request.node]
            request.write()
            print_state(copy, request)
            return place_of(request)
    raise NotThereError("no accepted LeaderAndIsr to a replica outside the ISR")


@mutation("LI-05", HEALTHY, fetches=False)
def replica_took_an_older_state(copy: Copy) -> Place:
    """A follower starts with a partition epoch below the one that it had in the same process."""
    pattern = r"Follower (?P<partition>\S+) starts at leader epoch (?P<epoch>\d+) .*partition epoch (?P<state>\d+)"
    latest: dict[tuple[int, str], Line] = {}
    for line in copy.lines(STATE_CHANGE_LOG, pattern):
        before = latest.get((line.node, line.match["partition"]))
        latest[line.node, line.match["partition"]] = line
        if before is None or int(before.match["state"]) < 1 or _restarted(copy, before, line):
            continue
        if int(before.match["epoch"]) < int(line.match["epoch"]):
            old = int(before.match["state"]) - 1
            line.replace(line.text.replace(f"partition epoch {line.match['state']} ", f"partition epoch {old} "))
            topic, _, partition = line.match["partition"].rpartition("-")
            return Place(line.node, topic, int(partition), int(line.match["epoch"]))
    raise NotThereError("no follower that started twice in one process")


def _restarted(copy: Copy, before: Line, after: Line) -> bool:
    starts = copy.lines(SERVER_LOG, r"starting \(kafka\.server", before.node)
    return any(before.written_at <= line.written_at <= after.written_at for line in starts)


@mutation("LI-06", HEALTHY, fetches=False)
def accepted_leader_and_isr_lost(copy: Copy) -> Place:
    """A LeaderAndIsr is answered 0, and nothing is written of the partition: it did not start.

    A new controller sends the leader epoch again, and the broker takes it.
    """
    for request in leader_and_isr(copy, 0):
        state, partition = one_state(request), re.escape(partition_of(request))
        pattern = rf"Follower {partition} starts at leader epoch {state['leaderEpoch']} "
        lines = [line for line in _handling(copy, request) if re.search(pattern, line.text)]
        matches = rf"partition {partition} since its associated leader epoch {state['leaderEpoch']} matches"
        again = next(_sent_again(copy, request), None)
        if len(lines) == 1 and again is not None:
            later, error = again
            for line in (*lines, *copy.lines(STATE_CHANGE_LOG, matches, request.node)):
                line.drop()
            error["errorCode"] = 0
            later.write()
            return place_of(request)
    raise NotThereError("no accepted LeaderAndIsr that a follower started by, and that came again")


def _sent_again(copy: Copy, request: Request) -> Iterator[tuple[Request, dict[str, Any]]]:
    """The requests to the broker that bring the partition's leader epoch again and are answered 11, and that answer."""
    key, epoch = _replica(request), one_state(request)["leaderEpoch"]
    for later in copy.requests("LEADER_AND_ISR", node=request.node):
        if later.index <= request.index or later.answered["errorCode"] != 0:
            continue
        epochs = {
            (topic["topicId"], state["partitionIndex"]): state["leaderEpoch"]
            for topic in later.asked["topicStates"]
            for state in topic["partitionStates"]
        }
        errors = {
            (topic["topicId"], error["partitionIndex"]): error
            for topic in later.answered["topics"]
            for error in topic["partitionErrors"]
        }
        if key in epochs and key in errors:
            if epochs[key] == epoch and errors[key]["errorCode"] == STALE_CONTROLLER_EPOCH:
                yield later, errors[key]
            return
