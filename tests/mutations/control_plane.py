"""Control requests that a broker should have refused, or refused otherwise (ZooKeeper mode)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from epochaudit.kafka.field_values import EPOCH_DURING_DELETE
from tests.mutations.editing import STATE_CHANGE_LOG, Copy, Line, NotThereError, Request
from tests.mutations.planting import Place, mutation

STALE: Final = "zk-stale-control-fenced-3.9"
HEALTHY: Final = "zk-healthy-3.9"

STALE_CONTROLLER_EPOCH: Final = 11
FENCED_LEADER_EPOCH: Final = 74
STALE_BROKER_EPOCH: Final = 77
INCONSISTENT_TOPIC_ID: Final = 103
LOGGER: Final = "(state.change.logger)"

_STATE: Final = re.compile(r"(?:LeaderAndIsr|UpdateMetadata)PartitionState\(.*?\)(?= correlation id| for partition)")


def stop_errors(request: Request) -> list[dict[str, Any]]:
    """The partitions in the answer to a StopReplica."""
    errors: list[dict[str, Any]] = request.answered["partitionErrors"]
    return errors


def one_state(request: Request) -> dict[str, Any]:
    """The partition of a request that has one."""
    ((state,),) = (topic["partitionStates"] for topic in request.asked["topicStates"])
    found: dict[str, Any] = state
    return found


def of_one_partition(request: Request) -> bool:
    return [len(topic["partitionStates"]) for topic in request.asked["topicStates"]] == [1]


def topic_of(request: Request) -> str:
    return str(request.asked["topicStates"][0]["topicName"])


def place_of(request: Request) -> Place:
    """Where a finding about a request of one partition has to be."""
    partition = one_state(request)["partitionIndex"]
    return Place(node=request.node, topic=topic_of(request), partition=partition, correlation_id=request.correlation_id)


def place_of_request(request: Request) -> Place:
    """Where a finding about a whole request has to be."""
    return Place(node=request.node, correlation_id=request.correlation_id)


def stops(copy: Copy, code: int) -> Iterator[Request]:
    """StopReplica requests of one partition with a leader epoch that were answered so."""
    return copy.requests(
        "STOP_REPLICA",
        lambda r: (
            [error["errorCode"] for error in stop_errors(r)] == [code]
            and of_one_partition(r)
            and one_state(r)["leaderEpoch"] >= 0
        ),
    )


def leader_and_isr(copy: Copy, code: int) -> Iterator[Request]:
    """LeaderAndIsr requests of one partition that were answered so."""
    return copy.requests(
        "LEADER_AND_ISR",
        lambda r: (
            of_one_partition(r)
            and r.answered["errorCode"] == 0
            and [error["errorCode"] for topic in r.answered["topics"] for error in topic["partitionErrors"]] == [code]
        ),
    )


def answer(request: Request, code: int) -> None:
    """Set the partition's error code of a LeaderAndIsr of one partition."""
    request.answered["topics"][0]["partitionErrors"][0]["errorCode"] = code
    request.write()


def about(copy: Copy, request: Request, pattern: str) -> Line:
    """The broker's line about the request in its state-change.log."""
    return copy.line(STATE_CHANGE_LOG, rf"{pattern}.* correlation id {request.correlation_id}\b", request.node)


def handled(copy: Copy, request: Request, api: str) -> None:
    """Add the lines by which state-change.log records the handling of the request; a refused request has none."""
    before = [
        line for line in copy.lines(STATE_CHANGE_LOG, r"^\[", request.node) if line.written_at <= request.arrived_at
    ]
    controller = request.asked["controllerId"]
    before[-1].insert_after(
        f"INFO [Broker id={request.node}] Handling {api} request correlationId {request.correlation_id} "
        f"from controller {controller} for 1 partitions {LOGGER}"
    )


def accept_stop(request: Request) -> None:
    """Answer a StopReplica of one partition that was refused as a whole with 0."""
    state = one_state(request)
    error = {"topicName": topic_of(request), "partitionIndex": state["partitionIndex"], "errorCode": 0}
    request.answered.update(errorCode=0, partitionErrors=[error])
    request.write()


@mutation("SR-01", STALE)
def stale_stop_replica_applied(copy: Copy) -> Place:
    """A StopReplica below the installed leader epoch is answered 0 instead of 74, and not ignored in state-change.log."""
    request = next(stops(copy, FENCED_LEADER_EPOCH))
    about(copy, request, "Ignoring StopReplica").drop()
    accept_stop(request)
    return place_of(request)


@mutation("SR-02", HEALTHY, fetches=False)
def equal_epoch_stop_replica_refused(copy: Copy) -> Place:
    """A StopReplica at the installed leader epoch is refused with 74 by 3.9, as releases up to 3.4.0 did."""
    request = next(r for r in stops(copy, 0) if installed(copy, r)[0] == one_state(r)["leaderEpoch"])
    state, topic = one_state(request), topic_of(request)
    stop_errors(request)[0]["errorCode"] = FENCED_LEADER_EPOCH
    request.write()
    controller, epoch = request.asked["controllerId"], request.asked["controllerEpoch"]
    about(copy, request, "Received StopReplica").insert_after(
        f"INFO [Broker id={request.node}] Ignoring StopReplica request (delete=false) from controller {controller} with "
        f"correlation id {request.correlation_id} epoch {epoch} for partition {topic}-{state['partitionIndex']} since its "
        f"associated leader epoch {state['leaderEpoch']} matches the current leader epoch {LOGGER}"
    )
    return place_of(request)


@mutation("SR-03", STALE, fetches=False)
def deletion_epoch_for_a_living_topic(copy: Copy) -> Place:
    """A StopReplica of a topic that is not deleted carries -2, the epoch of a deletion, which no fence stops."""
    request = next(stops(copy, 0))
    state = one_state(request)
    line = about(copy, request, "Received StopReplica")
    line.replace(line.text.replace(f"leaderEpoch={state['leaderEpoch']}", f"leaderEpoch={EPOCH_DURING_DELETE}"))
    state["leaderEpoch"] = EPOCH_DURING_DELETE
    request.write()
    return place_of(request)


@mutation("SR-04", STALE, verdict="exposed")
def stale_stop_replica_without_epoch(copy: Copy) -> Place:
    """A late StopReplica comes in version 2, which has no leader epoch, and is applied."""
    request = next(stops(copy, FENCED_LEADER_EPOCH))
    state, place = one_state(request), place_of(request)
    received = about(copy, request, "Received StopReplica")
    received.replace(received.text.replace(f"leaderEpoch={state['leaderEpoch']}", "leaderEpoch=-1"))
    about(copy, request, "Ignoring StopReplica").drop()
    accept_stop(request)
    request.document["requestHeader"]["requestApiVersion"] = 2
    topics = [{"name": topic_of(request), "partitionIndexes": [state["partitionIndex"]]}]
    for name in ("topicStates", "isKRaftController"):
        del request.asked[name]
    request.asked.update(deletePartitions=state["deletePartition"], topics=topics)
    request.write()
    return place


@mutation("SR-07", STALE, verdict="exposed")
def deletion_delivered_again_to_the_new_topic(copy: Copy) -> Place:
    """The StopReplica that deleted a replica is delivered again after the topic of the same name was created anew."""
    deletion, rebirth = next(_recreations(copy))
    handling = copy.line(
        STATE_CHANGE_LOG, rf"Handling StopReplica request correlationId {deletion.correlation_id}\b", deletion.node
    )
    finished = about_finish(copy, rebirth)
    finished.insert_after(handling.text[25:].lstrip())
    deletion.write_behind(rebirth)
    return place_of(deletion)


def about_finish(copy: Copy, request: Request) -> Line:
    """The line that ends the handling of a LeaderAndIsr."""
    return copy.line(
        STATE_CHANGE_LOG, rf"Finished LeaderAndIsr request .*correlationId {request.correlation_id} from", request.node
    )


def _recreations(copy: Copy) -> Iterator[tuple[Request, Request]]:
    """A deletion of one replica and the later LeaderAndIsr of the same name, with a new topic id, at the same broker."""
    deletions = copy.requests(
        "STOP_REPLICA",
        lambda r: of_one_partition(r) and one_state(r)["deletePartition"] and one_state(r)["leaderEpoch"] < 0,
    )
    for deletion in deletions:
        for created in leader_and_isr(copy, 0):
            same = (created.node, topic_of(created)) == (deletion.node, topic_of(deletion))
            if same and created.index > deletion.index and one_state(created)["isNew"]:
                yield deletion, created


@mutation("LI-01", STALE, fetches=False)
def older_leader_and_isr_accepted(copy: Copy) -> Place:
    """A LeaderAndIsr that the broker had accepted in an older leader epoch comes again and is answered 0, not 11.

    Behind the epoch fence stands the partition epoch's (3.3+), which leaves the replica as it is: a Skipped line.
    """
    for late in leader_and_isr(copy, STALE_CONTROLLER_EPOCH):
        if not list(copy.lines(STATE_CHANGE_LOG, _ignored(late) + r".* is smaller than the current", late.node)):
            continue
        key = (topic_of(late), one_state(late)["partitionIndex"])
        for before in leader_and_isr(copy, 0):
            state = one_state(before)
            is_older = state["leaderEpoch"] <= one_state(late)["leaderEpoch"]
            if (before.node, topic_of(before), state["partitionIndex"]) == (late.node, *key) and is_older:
                one_state(late).update(state)
                _, epoch = installed(copy, late)
                _skip(copy, late, f"the follower is already at a newer partition epoch {epoch}")
                answer(late, 0)
                return place_of(late)
    raise NotThereError("no LeaderAndIsr that was refused for its leader epoch after an older one had been accepted")


def _ignored(request: Request) -> str:
    return rf"Ignoring LeaderAndIsr .* correlation id {request.correlation_id}\b"


def _skip(copy: Copy, request: Request, reason: str) -> None:
    """Replace the line about ignoring the partition by one about skipping it; the Received line states the new content."""
    state = print_state(copy, request)
    line = copy.line(STATE_CHANGE_LOG, _ignored(request), request.node)
    partition, topic_id = partition_of(request), request.asked["topicStates"][0]["topicId"]
    line.replace(
        f"{line.text[:25]} INFO [Broker id={request.node}] Skipped the become-follower state change for {partition} with "
        f"topic id Some({topic_id}) and partition state {state} since {reason}. {LOGGER}"
    )


def print_state(copy: Copy, request: Request) -> str:
    """Bring the lines about what the request brought for its partition in line with what it asks; returns the state."""
    state = ""
    for line in copy.lines(STATE_CHANGE_LOG, rf" correlation id {request.correlation_id}\b", request.node):
        state_match = _STATE.search(line.text)
        if state_match and line.written_at >= request.arrived_at - timedelta(seconds=1):
            state = _printed(state_match[0], one_state(request))
            line.replace(line.text.replace(state_match[0], state))
    return state


def _printed(state: str, values: dict[str, Any]) -> str:
    """A partition state as the log prints it, with these values."""
    for name, value in values.items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        names = "partitionEpoch|zkVersion" if name == "partitionEpoch" else name
        state = re.sub(rf"\b({names})=(\[.*?\]|[^,)]*)", rf"\g<1>={shown}", state)
    return state


def partition_of(request: Request) -> str:
    return f"{topic_of(request)}-{one_state(request)['partitionIndex']}"


def installed(copy: Copy, request: Request) -> tuple[int, int]:
    """Leader epoch and partition epoch that the broker had last installed for the partition of the request."""
    pattern = rf"(?:Leader|Follower) {partition_of(request)} .*starts at leader epoch (\d+) .*partition epoch (\d+)"
    lines = copy.lines(STATE_CHANGE_LOG, pattern, request.node)
    starts = [line for line in lines if line.written_at <= request.answered_at]
    return (int(starts[-1].match[1]), int(starts[-1].match[2])) if starts else (-1, -1)


@mutation("LI-02", STALE, fetches=False)
def equal_leader_and_isr_accepted(copy: Copy) -> Place:
    """A LeaderAndIsr at the installed leader epoch is answered 0 instead of 11."""
    for request in leader_and_isr(copy, STALE_CONTROLLER_EPOCH):
        if list(copy.lines(STATE_CHANGE_LOG, _ignored(request) + ".* matches the current leader epoch", request.node)):
            epoch = one_state(request)["leaderEpoch"]
            _skip(copy, request, f"it is already a follower with leader epoch {epoch}")
            answer(request, 0)
            return place_of(request)
    raise NotThereError("no LeaderAndIsr of one partition that was refused at an equal leader epoch")


@mutation("CE-01", STALE, fetches=False)
def old_controller_obeyed(copy: Copy) -> Place:
    """A StopReplica of a controller that had been replaced is answered 0 instead of 11."""
    request = copy.request("STOP_REPLICA", lambda r: r.answered["errorCode"] == STALE_CONTROLLER_EPOCH)
    about(copy, request, "Ignoring StopReplica").drop()
    accept_stop(request)
    return place_of_request(request)


@mutation("BE-01", STALE, fetches=False)
def request_for_former_incarnation_obeyed(copy: Copy) -> Place:
    """A StopReplica for the broker's incarnation before its restart is answered 0 instead of 77."""
    request = copy.request("STOP_REPLICA", lambda r: r.answered["errorCode"] == STALE_BROKER_EPOCH)
    one_state(request)["deletePartition"] = False
    accept_stop(request)
    handled(copy, request, "StopReplica")
    return place_of_request(request)


@mutation("TI-01", STALE, fetches=False)
def other_topic_id_accepted(copy: Copy) -> Place:
    """A LeaderAndIsr of the former topic of the same name is answered 0 instead of 103.

    It names a leader for the former topic's last leader epoch, in which the controller had stated that there is none: not
    LD-04, as the controller's line has no topic id. The replica does not start in the epoch of the former topic, else all
    that follows would disagree with it.
    """
    request = list(leader_and_isr(copy, INCONSISTENT_TOPIC_ID))[-1]
    for line in copy.lines(STATE_CHANGE_LOG, rf"received: {request.asked['topicStates'][0]['topicId']}", request.node):
        line.drop()
    answer(request, 0)
    return place_of(request)
