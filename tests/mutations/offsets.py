"""What brokers answer about offsets, epochs and metadata: ListOffsets, OffsetForLeaderEpoch, Fetch, Metadata."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from tests.mutations.control_plane import FENCED_LEADER_EPOCH, STALE
from tests.mutations.editing import STATE_CHANGE_LOG, Copy, NotThereError, Request
from tests.mutations.fetching import UNKNOWN_LEADER_EPOCH, ZOOKEEPER, one_answer, replica_of, serve
from tests.mutations.metadata_records import HEALTHY
from tests.mutations.planting import Place, mutation

BY_TIME: Final = "LIST_OFFSETS"
BY_EPOCH: Final = "OFFSET_FOR_LEADER_EPOCH"
NOT_LEADER_OR_FOLLOWER: Final = 6
_NAME: Final = {BY_TIME: "name", BY_EPOCH: "topic"}
_NUMBER: Final = {BY_TIME: "partitionIndex", BY_EPOCH: "partition"}
_STRANGER: Final = 9
_APART: Final = timedelta(seconds=2)  # more than a request's line may be late
_SOON: Final = timedelta(seconds=5)
_SPAN_SECONDS: Final = 10


_Answer = tuple[Request, dict[str, Any]]
"""A Fetch, and its answer about a partition."""


def queries(copy: Copy, api: str) -> Iterator[tuple[Request, str, dict[str, Any], dict[str, Any]]]:
    """The requests about one partition: topic, what is asked and what is answered."""
    for request in copy.requests(api):
        topics = request.asked["topics"]
        if [len(topic["partitions"]) for topic in topics] == [1]:
            (answers,) = request.answered["topics"]
            yield request, topics[0][_NAME[api]], topics[0]["partitions"][0], answers["partitions"][0]


def place_of(request: Request, topic: str | None, partition: int) -> Place:
    return Place(node=request.node, topic=topic, partition=partition, correlation_id=request.correlation_id)


def answered_all_the_same(copy: Copy, api: str, code: int) -> Place:
    """Answer a query that was refused as the node answered another one about the partition."""
    for request, topic, asked, answer in queries(copy, api):
        if answer["errorCode"] == code:
            for other, name, other_asked, other_answer in queries(copy, api):
                if (other.node, name, other_answer["errorCode"]) == (request.node, topic, 0):
                    epoch = asked["currentLeaderEpoch"]
                    asked.update(other_asked | {"currentLeaderEpoch": epoch})
                    answer.update(other_answer)
                    request.write()
                    return place_of(request, topic, asked[_NUMBER[api]])
    raise NotThereError(f"no {api} answered {code} at a node that answered another one")


@mutation("LO-01", STALE, fetches=False)
def older_epoch_list_offsets(copy: Copy) -> Place:
    """A ListOffsets in an older leader epoch is answered instead of refused with 74."""
    return answered_all_the_same(copy, BY_TIME, FENCED_LEADER_EPOCH)


@mutation("LO-02", STALE, fetches=False)
def newer_epoch_list_offsets(copy: Copy) -> Place:
    """A ListOffsets in a newer leader epoch than the broker's is answered instead of refused with 75."""
    return answered_all_the_same(copy, BY_TIME, UNKNOWN_LEADER_EPOCH)


@mutation("OE-01", STALE, fetches=False)
def older_epoch_end_offset(copy: Copy) -> Place:
    """An OffsetForLeaderEpoch in an older leader epoch is answered instead of refused with 74."""
    return answered_all_the_same(copy, BY_EPOCH, FENCED_LEADER_EPOCH)


@mutation("OE-02", STALE, fetches=False)
def newer_epoch_end_offset(copy: Copy) -> Place:
    """An OffsetForLeaderEpoch in a newer leader epoch than the broker's is answered instead of refused with 75."""
    return answered_all_the_same(copy, BY_EPOCH, UNKNOWN_LEADER_EPOCH)


@mutation("LO-03", ZOOKEEPER, fetches=False)
def latest_offset_before_the_epoch(copy: Copy) -> Place:
    """A consumer is answered a latest offset below the start of the leader's epoch."""
    for request, topic, asked, answer in queries(copy, BY_TIME):
        partition = asked["partitionIndex"]
        pattern = rf"(Leader|Follower) {topic}-{partition} .*starts at leader epoch \d+ from offset (?P<offset>\d+)"
        before = [
            line
            for line in copy.lines(STATE_CHANGE_LOG, pattern, request.node)
            if line.written_at < request.arrived_at - _APART
        ]
        if answer["errorCode"] == 0 and before and "Leader" in before[-1].match[1] and int(before[-1].match["offset"]):
            asked["timestamp"] = -1
            request.asked.update({"replicaId": -1, "isolationLevel": 0})
            answer["offset"] = int(before[-1].match["offset"]) - 1
            request.write()
            return place_of(request, topic, partition)
    raise NotThereError("no ListOffsets at a leader whose epoch starts above 0")


@mutation("LO-04", ZOOKEEPER, fetches=False)
def list_offsets_names_a_future_epoch(copy: Copy) -> Place:
    """A ListOffsets is answered with a leader epoch above the broker's."""
    for request, topic, asked, answer in queries(copy, BY_TIME):
        if answer["errorCode"] == 0 and answer["leaderEpoch"] >= 0:
            answer["leaderEpoch"] += 50
            request.write()
            return place_of(request, topic, asked["partitionIndex"])
    raise NotThereError("no ListOffsets answered with a leader epoch")


@mutation("OE-03", ZOOKEEPER, fetches=False)
def end_of_a_later_epoch(copy: Copy) -> Place:
    """An OffsetForLeaderEpoch is answered with the epoch after the one that was asked for."""
    for request, topic, asked, answer in queries(copy, BY_EPOCH):
        if answer["errorCode"] == 0 and answer["endOffset"] >= 0:
            answer["leaderEpoch"] = asked["leaderEpoch"] + 1
            request.write()
            return place_of(request, topic, asked["partition"])
    raise NotThereError("no OffsetForLeaderEpoch that was answered")


def lone_fetches(copy: Copy, *, listed: bool | None = None) -> Iterator[Request]:
    """Fetches whose answer is one partition of a user's topic with code 0; listed or left to the session by the request."""
    for request in copy.requests("FETCH", lambda r: len(r.answered["responses"]) == 1):
        topic = request.answered["responses"][0]
        if topic.get("topicId") != "AAAAAAAAAAAAAAAAAAAAAQ" and len(topic["partitions"]) == 1:
            asked = [(t.get("topicId"), p["partition"]) for t in request.asked["topics"] for p in t["partitions"]]
            answer = one_answer(request)
            is_listed = (topic.get("topicId"), answer["partitionIndex"]) in asked
            if answer["errorCode"] == 0 and listed in (None, is_listed):
                yield request


@mutation("FF-03", HEALTHY)
def stranger_served(copy: Copy) -> Place:
    """A broker that is no replica of the partition fetches from the leader and gets records."""
    for request in lone_fetches(copy, listed=True):
        answer = one_answer(request)
        if replica_of(request) >= 0 and answer["recordsSizeInBytes"] > 0:
            request.asked["replicaState"] = {"replicaId": _STRANGER, "replicaEpoch": -1}
            request.document["requestHeader"]["clientId"] = f"broker-{_STRANGER}-fetcher-0"
            request.write()
            return Place(node=request.node, partition=answer["partitionIndex"], client=f"broker-{_STRANGER}-fetcher-0")
    raise NotThereError("no follower's Fetch that delivered records")


@mutation("FF-04", STALE)
def follower_serves_a_follower(copy: Copy) -> Place:
    """A follower serves another follower's Fetch instead of refusing it with 6."""
    refused = copy.requests(
        "FETCH",
        lambda r: (
            replica_of(r) >= 0
            and [p["errorCode"] for t in r.answered["responses"] for p in t["partitions"]] == [NOT_LEADER_OR_FOLLOWER]
            and r.asked["sessionEpoch"] <= 0
        ),
    )
    for request in refused:
        try:
            return serve(copy, request)
        except NotThereError:
            continue
    raise NotThereError("no Fetch of a follower that a follower refused, and none of the partition that it served")


@mutation("FF-05", HEALTHY)
def partition_of_no_session(copy: Copy) -> Place:
    """An answer of a fetch session lists a partition that the session never held."""
    begun = {r.answered["sessionId"] for r in copy.requests("FETCH", lambda r: r.asked["sessionEpoch"] == 0)} - {0}
    for request in lone_fetches(copy, listed=False):
        if request.asked["sessionId"] in begun and not request.asked["topics"]:
            one_answer(request)["partitionIndex"] += 70
            request.write()
            return Place(node=request.node, partition=one_answer(request)["partitionIndex"])
    raise NotThereError("no answer of a session that began in the capture")


@mutation("HW-01", ZOOKEEPER)
def high_watermark_falls(copy: Copy) -> Place:
    """A leader gives out a lower high watermark than two seconds before, in one leader epoch."""
    given: dict[tuple[int, str, int], Request] = {}
    changes = [(line.node, line.written_at) for line in copy.lines(STATE_CHANGE_LOG, r"starts at leader epoch")]
    for request in lone_fetches(copy):
        answer, topic = one_answer(request), request.answered["responses"][0]["topicId"]
        first = given.setdefault((request.node, topic, answer["partitionIndex"]), request)
        since, until = first.arrived_at - _APART, request.answered_at
        if any(node == request.node and since <= at <= until for node, at in changes):
            given[request.node, topic, answer["partitionIndex"]] = request
        elif one_answer(first)["highWatermark"] > 0 and request.arrived_at > first.answered_at + _APART:
            answer["highWatermark"] = answer["lastStableOffset"] = 0
            request.write()
            return Place(node=request.node, partition=answer["partitionIndex"])
    raise NotThereError("no partition that was fetched for two seconds in one leader epoch")


@mutation("LS-01", HEALTHY)
def log_start_offset_falls(copy: Copy) -> Place:
    """A leader gives out a log start offset, and a lower one in the next ten seconds, in one leader epoch."""
    changes = [(line.node, line.written_at) for line in copy.lines(STATE_CHANGE_LOG, r"starts at leader epoch")]
    for (node, _, partition), spans in _answers_by_span(copy).items():
        highest = [max(answers, key=_high) for _, answers in sorted(spans.items())]
        if len(highest) == 1:
            continue
        (first, answer), (second, _) = highest[-2:]
        changed = any(other == node and first.arrived_at <= at <= second.answered_at for other, at in changes)
        apart = second.arrived_at > first.answered_at + _APART
        if apart and not changed and answer["highWatermark"] > answer["logStartOffset"]:
            answer["logStartOffset"] += 1
            first.write()
            return Place(node=node, partition=partition)
    raise NotThereError("no partition that was fetched for ten seconds in one leader epoch")


def _answers_by_span(copy: Copy) -> dict[tuple[int, str, int], dict[int, list[_Answer]]]:
    """The answers of code 0 by broker, topic, partition, and ten seconds."""
    found: dict[tuple[int, str, int], dict[int, list[_Answer]]] = {}
    for request in copy.requests("FETCH"):
        for topic in request.answered["responses"]:
            for answer in topic["partitions"]:
                if answer["errorCode"] == 0:
                    of_partition = found.setdefault((request.node, topic["topicId"], answer["partitionIndex"]), {})
                    span = int(request.answered_at.timestamp()) // _SPAN_SECONDS
                    of_partition.setdefault(span, []).append((request, answer))
    return found


def _high(one: _Answer) -> tuple[int, int]:
    """The highest high watermark, and of equal ones the last line."""
    request, answer = one
    return answer["highWatermark"], request.index


@mutation("HW-02", HEALTHY)
def log_starts_above_the_high_watermark(copy: Copy) -> Place:
    """A Fetch is answered with a log start offset above the high watermark."""
    for request in lone_fetches(copy):
        answer = one_answer(request)
        answer["logStartOffset"] = answer["highWatermark"] + 10
        request.write()
        return Place(node=request.node, partition=answer["partitionIndex"])
    raise NotThereError("no Fetch that was answered")


@mutation("MD-03", HEALTHY, fetches=False)
def metadata_goes_back(copy: Copy) -> Place:
    """A KRaft broker returns an older leader epoch, and its leader, to a client than it had returned seconds before."""
    first_answers: dict[tuple[int, str, int, int], Request] = {}
    leaders: dict[tuple[str, int, int], int] = {}
    for request in copy.requests("METADATA"):
        for topic in request.answered["topics"]:
            for partition in topic["partitions"]:
                epoch = partition["leaderEpoch"]
                key = (request.node, topic["topicId"], partition["partitionIndex"], epoch)
                first = first_answers.setdefault(key, request)
                leaders[topic["topicId"], partition["partitionIndex"], epoch] = partition["leaderId"]
                leader = leaders.get((topic["topicId"], partition["partitionIndex"], epoch - 1), -1)
                if leader >= 0 and first.answered_at + _APART < request.arrived_at < first.answered_at + _SOON:
                    partition["leaderEpoch"], partition["leaderId"] = epoch - 1, leader
                    request.write()
                    return place_of(request, topic["name"], partition["partitionIndex"])
    raise NotThereError("no partition of which a broker returned a leader epoch twice")
