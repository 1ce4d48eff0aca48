"""Topic ids: topics that were created anew under their name, deleted, or mixed up."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any, Final

from tests.mutations.control_effects import published
from tests.mutations.control_plane import HEALTHY, STALE, one_state, place_of
from tests.mutations.editing import SERVER_LOG, STATE_CHANGE_LOG, Copy, Line, NotThereError, Request
from tests.mutations.fetching import one_answer, replica_of
from tests.mutations.isr import CHANGE, changes
from tests.mutations.leadership import states_by_partition
from tests.mutations.metadata_records import HEALTHY as KRAFT
from tests.mutations.metadata_records import partitions
from tests.mutations.planting import Place, mutation

UNKNOWN_TOPIC_ID: Final = 100

_A_WHILE: Final = timedelta(seconds=5)
_NEW_ID: Final = "AbCdEfGhIjKlMnOpQrStUv"


def ids_by_name(copy: Copy) -> dict[str, list[str]]:
    """Topic ids of each name, in the order in which accepted LeaderAndIsr requests brought them."""
    found: dict[str, list[str]] = {}
    requests = sorted(copy.requests("LEADER_AND_ISR"), key=lambda request: request.answered_at)
    for request in requests:
        accepted = {
            topic["topicId"]
            for topic in request.answered["topics"]
            if 0 in {error["errorCode"] for error in topic["partitionErrors"]}
        }
        for topic in request.asked["topicStates"]:
            ids = found.setdefault(topic["topicName"], [])
            if topic["topicId"] in accepted and topic["topicId"] not in ids:
                ids.append(topic["topicId"])
    return found


@mutation("TI-02", STALE)
def deleted_topic_served_from_its_successor(copy: Copy) -> Place:
    """A Fetch for the id of a deleted topic is answered 0 with records of the topic that has its name now."""
    former = {ids[0] for ids in ids_by_name(copy).values() if len(ids) > 1}
    for request in copy.requests("FETCH", lambda r: len(r.answered["responses"]) == 1):
        (topic,) = request.answered["responses"]
        if topic.get("topicId") in former and [p["errorCode"] for p in topic["partitions"]] == [UNKNOWN_TOPIC_ID]:
            answer = one_answer(request)
            answer.update(errorCode=0, highWatermark=2, lastStableOffset=2, logStartOffset=0, recordsSizeInBytes=68)
            request.write()
            return Place(node=request.node, partition=answer["partitionIndex"], correlation_id=request.correlation_id)
    raise NotThereError("no Fetch for a deleted topic's id")


@mutation("TI-03", KRAFT, fetches=False)
def removed_topic_altered(copy: Copy) -> Place:
    """A leader asks for the ISR of a partition whose topic was removed, and is answered 0 with the state it had."""
    removal = copy.metadata.record("REMOVE_TOPIC_RECORD")
    state: dict[str, Any] = {}
    for record, _ in partitions(copy):
        if record.data["topicId"] == removal.data["topicId"] and record.data["partitionId"] == 0:
            state.update(record.data)
            if record.type == CHANGE:
                state["leaderEpoch"] += "leader" in record.data
                state["partitionEpoch"] += 1
    removed_ms = removal.batch.time_ms
    for change in changes(copy):
        request = change.request
        late = request.answered_ms > removed_ms + _A_WHILE.total_seconds() * 1000
        if late and request.asked["brokerId"] == state["leader"] and change.code == 0:
            _ask(request, removal.data["topicId"], state)
            request.document["requestHeader"]["correlationId"] += 1
            request.write_behind(request)
            return Place(node=request.node, correlation_id=request.correlation_id)
    raise NotThereError("no AlterPartition of the removed topic's leader after the removal")


def _ask(request: Request, topic_id: str, state: dict[str, Any]) -> None:
    """Let an AlterPartition ask for a partition as it is, and be answered so."""
    epochs = {name: state[name] for name in ("leaderEpoch", "partitionEpoch")}
    epoch_of = {
        member["brokerId"]: member["brokerEpoch"]
        for topic in request.asked["topics"]
        for partition in topic["partitions"]
        for member in partition["newIsrWithEpochs"]
    }
    members = [{"brokerId": broker, "brokerEpoch": epoch_of.get(broker, -1)} for broker in state["isr"]]
    asked = {"partitionIndex": 0, **epochs, "newIsrWithEpochs": members, "leaderRecoveryState": 0}
    answered = {"partitionIndex": 0, "errorCode": 0, "leaderId": state["leader"], "isr": state["isr"], **epochs}
    request.asked["topics"] = [{"topicId": topic_id, "partitions": [asked]}]
    request.answered["topics"] = [{"topicId": topic_id, "partitions": [answered | {"leaderRecoveryState": 0}]}]


@mutation("TI-04", HEALTHY, fetches=False)
def topic_id_replaced(copy: Copy) -> Place:
    """The last UpdateMetadata of a topic brings a new topic id, though the topic was never deleted."""
    request = _last_published(copy)
    request.asked["topicStates"][0]["topicId"] = _NEW_ID
    request.write()
    return Place(topic=place_of(request).topic, evidence=f'"correlationId":{request.correlation_id},')


@mutation("TI-05", HEALTHY, fetches=False)
def topic_id_used_twice(copy: Copy) -> Place:
    """An UpdateMetadata states a topic's id for a topic of another name."""
    request = _last_published(copy)
    name, topic = place_of(request).topic, request.asked["topicStates"][0]
    topic["topicName"] = f"{name}-again"
    request.write()
    for line in copy.lines(
        STATE_CHANGE_LOG, rf"topicName='{name}'.* correlation id {request.correlation_id}\b", request.node
    ):
        text = line.text.replace(f"topicName='{name}'", f"topicName='{name}-again'")
        line.replace(text.replace(f"for partition {name}-", f"for partition {name}-again-"))
    return Place(topic=name)


def _last_published(copy: Copy) -> Request:
    """The last UpdateMetadata of one partition, of a topic that was created once and never deleted."""
    once = {name for name, ids in ids_by_name(copy).items() if len(ids) == 1}
    deleted = {place_of(r).topic for r in published(copy) if one_state(r)["leader"] < -1}
    found = [r for r in published(copy) if place_of(r).topic in once - deleted]
    return max(found, key=lambda request: request.answered_at)


@mutation("TI-06", HEALTHY, fetches=False)
def epochs_start_again(copy: Copy) -> Place:
    """A controller gives a partition leader epoch 0 and partition epoch 0 again, under its first leader."""
    for lines in states_by_partition(copy):
        for line in lines[1:]:
            match, first = line.match, lines[0].match
            if match["leader"] == first["leader"] and int(match["epoch"]) > 1 and _last(copy, line, lines):
                text = line.text.replace(f"leaderEpoch={match['epoch']},", "leaderEpoch=0,")
                line.replace(text.replace(f"partitionEpoch={match['partition_epoch']}", "partitionEpoch=0"))
                return Place(line.node, match["topic"], int(match["partition"]), 0)
    raise NotThereError("no partition that went back to its first leader")


def _last(copy: Copy, line: Line, lines: list[Line]) -> bool:
    """No controller logs the line's leader epoch again."""
    pattern = rf"Partition {line.match['topic']}-{line.match['partition']} state changed to .*LeaderEpoch:{line.match['epoch']},"
    return not any(copy.lines(STATE_CHANGE_LOG, pattern))


@mutation("TI-07", KRAFT)
def stray_replica_served(copy: Copy) -> Place:
    """A broker finds at its start that a replica's topic does not exist any more, and serves the replica all the same."""
    topic = copy.metadata.record("TOPIC_RECORD").data
    for start in copy.lines(STATE_CHANGE_LOG, rf"Leader {topic['name']}-(\d+) with topic id"):
        started = [
            line
            for line in copy.lines(SERVER_LOG, r"Kafka version: ", start.node)
            if line.written_at < start.written_at
        ]
        if len(started) > 1:
            partition = int(start.match[1])
            folder = f"{topic['name']}-{partition}"
            started[-1].insert_after(
                f"INFO Found stray log dir Log(dir=/data/{folder}, topicId={topic['topicId']}, topic={topic['name']}, "
                f"partition={partition}, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=0): the topicId "
                f"{topic['topicId']} does not exist in the metadata image (kafka.log.LogManager)"
            )
            return Place(node=start.node, topic=topic["name"], partition=partition)
    raise NotThereError("no broker that led a partition after it had started anew")


def enter_successor(copy: Copy, fetch: Request, former: str, name: str) -> None:
    """Let a consumer that enters a topic from its start come there from the topic that had the name before."""
    (topic,) = fetch.asked["topics"]
    (asked,) = topic["partitions"]
    pattern = rf"Leader {name}-{asked['partition']} with topic id Some\({former}\) starts at leader epoch (\d+) "
    led = copy.line(STATE_CHANGE_LOG, pattern, fetch.node)
    behind = copy.request(
        "FETCH",
        lambda r: r.answered_at > led.written_at + _A_WHILE and high_watermark(r, former, asked["partition"]) > 5,
        fetch.node,
    )
    document = deepcopy(fetch.document)
    (served,) = fetch.answered["responses"][0]["partitions"]
    served["highWatermark"] = served["lastStableOffset"] = high_watermark(behind, former, asked["partition"])
    topic["topicId"] = fetch.answered["responses"][0]["topicId"] = former
    asked["currentLeaderEpoch"] = int(led.match[1])
    fetch.document["totalTimeMs"] = 1.0
    fetch.answered["sessionId"] += 1
    fetch.write_behind(behind)
    fetch.document.clear()
    fetch.document.update(document)
    fetch.asked["topics"][0]["partitions"][0]["fetchOffset"] = 5
    fetch.write()
    for request in copy.requests("LIST_OFFSETS", lambda r: r.client == fetch.client):
        if name in {listed["name"] for listed in request.asked["topics"]}:
            request.drop()


def high_watermark(fetch: Request, topic_id: str, partition: int) -> int:
    """The one that an answer states of the partition; -1 if it states none."""
    listed = (p for t in fetch.answered["responses"] if t.get("topicId") == topic_id for p in t["partitions"])
    return next((p["highWatermark"] for p in listed if p["partitionIndex"] == partition), -1)


def entries(copy: Copy) -> Iterator[tuple[Request, str, str]]:
    """Consumers' first fetches of a topic that had a predecessor, from offset 0, with the predecessor's id and the name."""
    predecessors = {ids[1]: (ids[0], name) for name, ids in ids_by_name(copy).items() if len(ids) == 2}
    for fetch in copy.requests("FETCH", lambda r: replica_of(r) == -1 and len(r.asked["topics"]) == 1):
        (topic,) = fetch.asked["topics"]
        known = predecessors.get(topic.get("topicId", ""))
        served = [p for t in fetch.answered["responses"] for p in t["partitions"] if p.get("highWatermark", -1) > 5]
        if known and served and [p["fetchOffset"] for p in topic["partitions"]] == [0]:
            yield fetch, *known


@mutation("TI-09", HEALTHY, verdict="exposed")
def position_carried_to_the_successor(copy: Copy) -> Place:
    """A consumer that has read a topic goes on at offset 5 of the topic that was created anew, without a new position."""
    fetch, former, name = next(entries(copy))
    enter_successor(copy, fetch, former, name)
    return Place(node=fetch.node, topic=name, correlation_id=fetch.correlation_id, client=fetch.client)


@mutation("TI-08", HEALTHY, verdict="exposed", also=("TI-09",))
def successor_reached_by_name(copy: Copy) -> Place:
    """The same consumer goes on by Fetch 12, which names the topic and has no topic ids.

    TI-09: it carries its position along, whichever way it names the topic.
    """
    fetch, former, name = next(entries(copy))
    enter_successor(copy, fetch, former, name)
    fetch.document["requestHeader"]["requestApiVersion"] = 12
    fetch.document["request"] = {"replicaId": -1, **fetch.asked}
    fetch.asked["topics"][0] = {"topic": name, "partitions": fetch.asked["topics"][0]["partitions"]}
    fetch.answered["responses"][0] = {"topic": name, "partitions": fetch.answered["responses"][0]["partitions"]}
    fetch.write()
    return Place(node=fetch.node, topic=name, correlation_id=fetch.correlation_id, client=fetch.client)
