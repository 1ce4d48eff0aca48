"""Leaders, leader epochs and what they lose: what controllers and brokers of a ZooKeeper cluster log about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from tests.mutations.control_plane import leader_and_isr, one_state, topic_of
from tests.mutations.editing import SERVER_LOG, STATE_CHANGE_LOG, Copy, Line, NotThereError, Request
from tests.mutations.fetching import replica_of
from tests.mutations.planting import Place, mutation

HEALTHY: Final = "zk-healthy-3.9"

_CHANGED: Final = (
    r"Changed partition (?P<topic>\S+)-(?P<partition>\d+) from \S+ to \S+ with state LeaderAndIsr\(leader=(?P<leader>-?\d+), "
    r"leaderEpoch=(?P<epoch>\d+),.*partitionEpoch=(?P<partition_epoch>\d+)"
)
_LEADER: Final = (
    r"Leader (?P<topic>\S+)-(?P<partition>\d+) with topic id Some\((?P<id>\S+)\) starts at leader epoch (?P<epoch>\d+) from offset "
    r"(?P<offset>\d+) "
)
_BEGINS: Final = (
    r"(?P<role>Leader|Follower) (?P<topic>\S+)-(?P<partition>\d+) (?:with .*?)?starts at leader epoch (?P<epoch>\d+) "
)
_APART: Final = timedelta(seconds=2)


def states_by_partition(copy: Copy) -> Iterator[list[Line]]:
    """The lines of the controllers about each partition's new states, in the order of leader epochs."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in copy.lines(STATE_CHANGE_LOG, _CHANGED):
        found.setdefault((line.match["topic"], line.match["partition"]), []).append(line)
    for lines in found.values():
        yield sorted(lines, key=lambda line: line.written_at)


@mutation("EP-01", HEALTHY, fetches=False)
def controller_lowers_a_leader_epoch(copy: Copy) -> Place:
    """A ZooKeeper controller gives a partition a leader epoch below the one before, in which the same broker had led."""
    for lines in states_by_partition(copy):
        for first, second, third in zip(lines, lines[1:], lines[2:], strict=False):
            epochs = [int(line.match["epoch"]) for line in (first, second, third)]
            same = first.match["leader"] == third.match["leader"] and first.match["leader"] != "-1"
            if same and epochs[0] < epochs[1] < epochs[2] and not _epoch_repeated(copy, third):
                third.replace(third.text.replace(f"leaderEpoch={epochs[2]}", f"leaderEpoch={epochs[0]}"))
                return _place(third, epochs[0])
    raise NotThereError("no partition that went back to its former leader")


def _epoch_repeated(copy: Copy, line: Line) -> bool:
    """A later line of a controller repeats the leader epoch, as when a broker leaves the ISR."""
    partition = f"{re.escape(line.match['topic'])}-{line.match['partition']}"
    return any(
        copy.lines(STATE_CHANGE_LOG, rf"Partition {partition} state changed to .*LeaderEpoch:{line.match['epoch']},")
    )


@mutation("EP-02", HEALTHY, fetches=False)
def controller_repeats_a_partition_epoch(copy: Copy) -> Place:
    """A ZooKeeper controller gives a new state of a partition the partition epoch of the state before."""
    for lines in states_by_partition(copy):
        if len(lines) > 2:
            before, line = lines[1], lines[2]
            former_epoch = f"partitionEpoch={before.match['partition_epoch']}"
            line.replace(line.text.replace(f"partitionEpoch={line.match['partition_epoch']}", former_epoch))
            return _place(line, int(line.match["epoch"]))
    raise NotThereError("no partition with three states")


def _place(line: Line, leader_epoch: int) -> Place:
    return Place(
        node=line.node, topic=line.match["topic"], partition=int(line.match["partition"]), leader_epoch=leader_epoch
    )


@mutation("LD-04", HEALTHY, fetches=False)
def two_leaders_named(copy: Copy) -> Place:
    """A controller sends one broker another leader for a leader epoch than the others."""
    for request in leader_and_isr(copy, 0):
        state = one_state(request)
        others = [b for b in state["isr"] if b not in (state["leader"], request.node)]
        if state["leader"] not in (request.node, -1, -2) and others and not state["isNew"]:
            pattern = rf"Follower {topic_of(request)}-{state['partitionIndex']} starts at leader epoch {state['leaderEpoch']} .*leader is"
            for line in copy.lines(STATE_CHANGE_LOG, pattern, request.node):
                line.replace(
                    line.text.replace(f"Current leader is {state['leader']}.", f"Current leader is {others[0]}.")
                )
            state["leader"] = others[0]
            request.write()
            return Place(topic=topic_of(request), partition=state["partitionIndex"], leader_epoch=state["leaderEpoch"])
    raise NotThereError("no LeaderAndIsr of one partition to a follower with another one beside it")


@mutation("TR-06", HEALTHY, also=("TR-03",))
def epoch_starts_below_what_was_exposed(copy: Copy) -> Place:
    """A leader starts its epoch below a high watermark that followers had been given, of a partition without consumers.

    TR-03: followers that had the records fetch on behind them, and get no answer that their logs have diverged.
    """
    read = {topic for request in consumer_fetches(copy) for topic in _topic_ids(request)}
    for line in copy.lines(STATE_CHANGE_LOG, _LEADER):
        if line.match["id"] not in read and int(line.match["epoch"]) > 1 and int(line.match["offset"]) > 1:
            return start_lower(line, int(line.match["offset"]) // 2)
    raise NotThereError("no partition without consumers in which an epoch starts above 1")


@mutation("AW-01", HEALTHY, fetches=False)
def acknowledged_write_missing(copy: Copy) -> Place:
    """A leader acknowledges an offset with acks=all that the log of the next leader does not have."""
    starts = list(copy.lines(STATE_CHANGE_LOG, _LEADER))
    of_epoch = {(line.match["id"], line.match["partition"], int(line.match["epoch"])): line for line in starts}
    for line in starts:
        offset = int(line.match["offset"])
        before = of_epoch.get((line.match["id"], line.match["partition"], int(line.match["epoch"]) - 1))
        if before is None or before.node == line.node:
            continue
        for request in copy.requests("PRODUCE", lambda r: r.asked["acks"] == -1, before.node):
            for answer in _answers_of(request, line.match["topic"], int(line.match["partition"])):
                if answer["baseOffset"] == offset - 1 and before.written_at < request.answered_at < line.written_at:
                    answer["baseOffset"] = offset
                    request.write()
                    return _place(line, int(line.match["epoch"]))
    raise NotThereError("no leader that acknowledged the last record before another one began to lead")


@mutation("AW-02", HEALTHY, fetches=False)
def follower_acknowledges(copy: Copy) -> Place:
    """A follower acknowledges a write as its leader did."""
    for line, until in _followed(copy):
        topic, partition = line.match["topic"], int(line.match["partition"])
        for request in copy.requests("PRODUCE", lambda r: len(r.answered["responses"]) == 1):
            if request.node == line.node or not list(_answers_of(request, topic, partition)):
                continue
            for other in copy.requests("METADATA", node=line.node):
                if other.arrived_at > line.written_at + _APART and other.answered_at < until - _APART:
                    request.write_behind(other)
                    return Place(node=line.node, topic=topic, partition=partition)
    raise NotThereError("no follower of a partition that a producer wrote to")


def _followed(copy: Copy) -> Iterator[tuple[Line, datetime]]:
    """The lines of followers, with the time of the replica's next line, if the same process wrote that about the next leader epoch."""
    starts = [(line.node, line.written_at) for line in copy.lines(SERVER_LOG, r"INFO starting \(kafka\.server")]
    lines: dict[tuple[int, str, str], list[Line]] = {}
    for line in copy.lines(STATE_CHANGE_LOG, _BEGINS):
        lines.setdefault((line.node, line.match["topic"], line.match["partition"]), []).append(line)
    for (node, _, _), of_replica in lines.items():
        for line, following in pairwise(sorted(of_replica, key=lambda one: one.written_at)):
            restarted = any(other == node and line.written_at < at < following.written_at for other, at in starts)
            adjoins = int(following.match["epoch"]) == int(line.match["epoch"]) + 1
            if line.match["role"] == "Follower" and adjoins and not restarted:
                yield line, following.written_at


def _answers_of(request: Request, topic: str, index: int) -> Iterator[dict[str, Any]]:
    """The answers of code 0 to a Produce for the partition."""
    for of_topic in request.answered["responses"]:
        for answer in of_topic["partitionResponses"]:
            if (of_topic["name"], answer["index"], answer["errorCode"]) == (topic, index, 0):
                yield answer


def start_lower(line: Line, by: int) -> Place:
    """Let a leader's line start its epoch so much lower."""
    offset = int(line.match["offset"])
    line.replace(line.text.replace(f"from offset {offset} ", f"from offset {offset - by} "))
    return _place(line, int(line.match["epoch"]))


def consumer_fetches(copy: Copy) -> Iterator[Request]:
    return copy.requests("FETCH", lambda r: replica_of(r) == -1)


def _topic_ids(request: Request) -> set[str]:
    return {topic["topicId"] for topic in request.asked["topics"] if "topicId" in topic}


@mutation("TR-01", HEALTHY, also=("TR-03", "TR-06"))
def consumer_reads_on_unvalidated(copy: Copy) -> Place:
    """A leader epoch starts below a consumer's position, and the consumer goes on without asking for the epoch's end.

    TR-06: what the consumer had read was exposed, so that an epoch that starts below it loses exposed data. TR-03: a follower
    that had it fetches on behind it, and gets no answer that their logs have diverged.
    """
    starts = {
        (line.match["id"], int(line.match["partition"]), int(line.match["epoch"])): line
        for line in copy.lines(STATE_CHANGE_LOG, _LEADER)
    }
    for fetch in consumer_fetches(copy):
        for topic, partition in _asked(fetch):
            line = starts.get((topic, partition["partition"], partition["currentLeaderEpoch"]))
            if line is None or partition["fetchOffset"] != int(line.match["offset"]) or int(line.match["epoch"]) < 2:
                continue
            validated = list(_validations(copy, fetch.client, line))
            if validated and partition["fetchOffset"] > 5 and _answers(fetch, topic, partition["partition"], 0):
                for request in validated:
                    request.drop()
                start = start_lower(line, 3)
                return Place(
                    start.node, start.topic, start.partition, start.leader_epoch, fetch.correlation_id, fetch.client
                )
    raise NotThereError("no consumer that went on at the start of a new epoch after it had validated its position")


def _asked(fetch: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    for topic in fetch.asked["topics"]:
        for partition in topic["partitions"]:
            yield topic.get("topicId", ""), partition


def _answers(fetch: Request, topic_id: str, index: int, code: int) -> bool:
    return any(
        (topic.get("topicId"), partition["partitionIndex"], partition["errorCode"]) == (topic_id, index, code)
        for topic in fetch.answered["responses"]
        for partition in topic["partitions"]
    )


def _validations(copy: Copy, client: str, line: Line) -> Iterator[Request]:
    """The client's questions about the ends of epochs, asked in the leader epoch that the line starts."""
    key = (line.match["topic"], int(line.match["partition"]), int(line.match["epoch"]))
    return copy.requests(
        "OFFSET_FOR_LEADER_EPOCH",
        lambda r: (
            r.client == client
            and key
            in {
                (topic["topic"], asked["partition"], asked["currentLeaderEpoch"])
                for topic in r.asked["topics"]
                for asked in topic["partitions"]
            }
        ),
    )


@mutation("EP-04", HEALTHY, fetches=False)
def epoch_cache_out_of_order(copy: Copy) -> Place:
    """A leader-epoch-checkpoint has an entry that starts below the one before it."""
    for line in copy.lines("leader-epoch-checkpoint", r"^(\d+) (\d+)$"):
        before = line.log.lines[line.index - 1]
        older = re.fullmatch(r"(\d+) (\d+)", before or "")
        if older and int(older[2]) > 0 and int(line.match[2]) > int(older[2]):
            line.replace(f"{line.match[1]} {int(older[2]) - 1}")
            return Place(evidence=f"{line.match[1]} {int(older[2]) - 1}")
    raise NotThereError("no epoch cache with two entries")
