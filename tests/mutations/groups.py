"""What consumer groups commit, receive again, and do with it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from tests.mutations.editing import STATE_CHANGE_LOG, Copy, NotThereError, Request
from tests.mutations.fetching import ZOOKEEPER
from tests.mutations.metadata_records import HEALTHY
from tests.mutations.offsets import BY_EPOCH
from tests.mutations.planting import Place, mutation

COMMIT: Final = "OFFSET_COMMIT"
OFFSET_FETCH: Final = "OFFSET_FETCH"
_APART: Final = timedelta(seconds=1)
_SETTLED: Final = timedelta(seconds=31)
_FAR: Final = 50


def committed(copy: Copy) -> Iterator[tuple[Request, str, dict[str, Any]]]:
    """The offsets that groups committed: request, topic, partition."""
    for request in copy.requests(COMMIT):
        for topic in request.asked["topics"]:
            for partition in topic["partitions"]:
                if partition["committedLeaderEpoch"] >= 0:
                    yield request, topic["name"], partition


def resumed_offsets(copy: Copy) -> Iterator[tuple[Request, str, dict[str, Any], Request, dict[str, Any]]]:
    """The committed offsets that consumers resumed from: request, topic, partition, and their first fetch there with its own."""
    for request in copy.requests(OFFSET_FETCH):
        for group in request.answered["groups"]:
            for topic in group["topics"]:
                for partition in topic["partitions"]:
                    if partition["committedOffset"] >= 0:
                        for fetch, asked in fetches_at(copy, request.client, partition):
                            yield request, topic["name"], partition, fetch, asked


def fetches_at(copy: Copy, client: str, committed_offset: dict[str, Any]) -> Iterator[tuple[Request, dict[str, Any]]]:
    """The client's fetches that begin a session with the partition at the offset that it received."""
    for fetch in copy.requests("FETCH", lambda r: r.client == client and r.asked["sessionEpoch"] == 0):
        for topic in fetch.asked["topics"]:
            for asked in topic["partitions"]:
                key = (asked["partition"], asked["fetchOffset"])
                if key == (committed_offset["partitionIndex"], committed_offset["committedOffset"]):
                    yield fetch, asked


def place_of(request: Request, topic: str, partition: int, group: str) -> Place:
    """Where a finding about the request has to be."""
    return Place(
        node=request.node, topic=topic, partition=partition, correlation_id=request.correlation_id, group=group
    )


def start_of(copy: Copy, topic: str, partition: int, epoch: int) -> int:
    """Where a leader epoch starts."""
    pattern = rf"Leader {topic}-{partition} .*starts at leader epoch {epoch} from offset (?P<offset>\d+)"
    return int(copy.line(STATE_CHANGE_LOG, pattern).match["offset"])


def drop_validation(copy: Copy, fetch: Request, topic: str, partition: int) -> None:
    """Take out the client's questions about the partition by OffsetForLeaderEpoch at the broker, before the fetch."""
    for question in copy.requests(BY_EPOCH, lambda r: r.client == fetch.client, fetch.node):
        asked = {(t["topic"], p["partition"]) for t in question.asked["topics"] for p in t["partitions"]}
        if asked == {(topic, partition)} and question.answered_at <= fetch.answered_at:
            question.drop()


@mutation("CO-01", ZOOKEEPER, fetches=False)
def committed_with_a_future_epoch(copy: Copy) -> Place:
    """A consumer commits an offset with a leader epoch that the partition never had."""
    for request, topic, partition in committed(copy):
        for answer in copy.requests("METADATA", node=request.node):
            later = answer.arrived_at > request.answered_at + _SETTLED
            if later and topic in {t["name"] for t in answer.answered["topics"]}:
                partition["committedLeaderEpoch"] += _FAR
                request.write()
                return place_of(request, topic, partition["partitionIndex"], request.asked["groupId"])
    raise NotThereError("no commit at a broker that answered clients about the partition half a minute later")


@mutation("CO-03", ZOOKEEPER, fetches=False)
def committed_in_two_histories(copy: Copy) -> Place:
    """A consumer commits a higher offset with an older leader epoch than its group has committed."""
    before: dict[tuple[int, str, str, int], tuple[Request, dict[str, Any]]] = {}
    for request, topic, partition in committed(copy):
        key = (request.node, request.asked["groupId"], topic, partition["partitionIndex"])
        first, earlier = before.setdefault(key, (request, partition))
        if partition["committedLeaderEpoch"] > earlier["committedLeaderEpoch"]:
            before[key] = (request, partition)
        elif earlier["committedLeaderEpoch"] > 0 and request.arrived_at > first.answered_at + _APART:
            partition["committedLeaderEpoch"] = earlier["committedLeaderEpoch"] - 1
            request.write()
            return place_of(request, topic, partition["partitionIndex"], request.asked["groupId"])
    raise NotThereError("no two commits of a group a second apart in one leader epoch above 0")


@mutation("CO-04", ZOOKEEPER, also=("TR-01", "TR-02"))
def truncated_commit_resumed(copy: Copy) -> Place:
    """A consumer is answered an offset of the leader epoch before, beyond that epoch's end, and fetches there without a question.

    TR-01: so it crosses a truncation. TR-02: it does not validate in the new epoch.
    """
    for request, topic, partition, fetch, asked in resumed_offsets(copy):
        if partition["committedLeaderEpoch"] == asked["currentLeaderEpoch"] > 0:
            partition["committedLeaderEpoch"] -= 1
            request.write()
            drop_validation(copy, fetch, topic, asked["partition"])
            return Place(node=fetch.node, partition=asked["partition"], correlation_id=fetch.correlation_id)
    raise NotThereError("no consumer that resumed in the leader epoch of its committed offset")


@mutation("TR-02", ZOOKEEPER)
def validation_skipped(copy: Copy) -> Place:
    """A consumer resumes at the end of the leader epoch before and fetches in the new one without a question."""
    for request, topic, partition, fetch, asked in resumed_offsets(copy):
        if partition["committedLeaderEpoch"] == asked["currentLeaderEpoch"] > 0:
            start = start_of(copy, topic, asked["partition"], asked["currentLeaderEpoch"])
            partition["committedOffset"] = asked["fetchOffset"] = start
            partition["committedLeaderEpoch"] -= 1
            request.write()
            fetch.write()
            drop_validation(copy, fetch, topic, asked["partition"])
            return Place(node=fetch.node, partition=asked["partition"], correlation_id=fetch.correlation_id)
    raise NotThereError("no consumer that resumed in the leader epoch of its committed offset")


@mutation("CO-02", ZOOKEEPER)
def fetched_before_committed_epoch(copy: Copy) -> Place:
    """A consumer is answered an offset of a newer leader epoch than the one that it states in its fetch."""
    for request, _, partition, fetch, asked in resumed_offsets(copy):
        partition["committedLeaderEpoch"] = asked["currentLeaderEpoch"] + _FAR
        request.write()
        return Place(node=fetch.node, partition=asked["partition"], correlation_id=fetch.correlation_id)
    raise NotThereError("no consumer that resumed from a committed offset")


@mutation("CO-06", ZOOKEEPER, verdict="exposed", fetches=False)
def deleted_topics_offset_returned(copy: Copy) -> Place:
    """A coordinator returns to a group the offset that it had committed of a topic that was deleted and created again since."""
    deletion = copy.request("DELETE_TOPICS", lambda r: r.answered["responses"][0]["errorCode"] == 0)
    name = deletion.answered["responses"][0]["name"]
    early = [commit for commit in committed(copy) if commit[0].answered_at < deletion.arrived_at]
    settled = deletion.answered_at + _SETTLED / 3
    for answer in copy.requests(OFFSET_FETCH, lambda r: r.answered_at < deletion.answered_at):
        of_group = (one for one in early if (one[0].client, one[0].node) == (answer.client, answer.node))
        for commit, _, partition in of_group:
            for later in copy.requests(COMMIT, lambda r: r.arrived_at > settled, commit.node):
                return _answer_again(name, commit, partition, answer, later)
    raise NotThereError("no coordinator that took commits before and after the deletion of a topic")


def _answer_again(name: str, commit: Request, partition: dict[str, Any], answer: Request, later: Request) -> Place:
    commit.asked["topics"][0]["name"] = commit.answered["topics"][0]["name"] = name
    commit.asked["topics"][0]["partitions"] = [partition | {"partitionIndex": 0}]
    commit.answered["topics"][0]["partitions"] = [{"partitionIndex": 0, "errorCode": 0}]
    commit.write()
    (group,) = answer.answered["groups"]
    (asked,) = answer.asked["groups"]
    asked["topics"] = [{"name": name, "partitionIndexes": [0]}]
    committed_offset = {key: partition[key] for key in ("committedOffset", "committedLeaderEpoch")}
    group["topics"] = [
        {"name": name, "partitions": [committed_offset | {"partitionIndex": 0, "metadata": "", "errorCode": 0}]}
    ]
    answer.write_behind(later)
    return place_of(answer, name, 0, group["groupId"])


@mutation("GE-01", HEALTHY, fetches=False)
def zombie_consumer_commits(copy: Copy) -> Place:
    """A coordinator answers 0 to a commit in the generation before, of a member that had joined that one."""
    for join in copy.requests("JOIN_GROUP", lambda r: r.answered["errorCode"] == 0):
        group, generation = join.asked["groupId"], join.answered["generationId"]
        newer = (r for r in copy.requests("SYNC_GROUP", node=join.node) if r.answered["errorCode"] == 0)
        for sync in (r for r in newer if r.asked["groupId"] == group and r.asked["generationId"] > generation):
            for commit, _, partition in committed(copy):
                of_group = (commit.node, commit.asked["groupId"]) == (join.node, group)
                late = commit.arrived_at > sync.answered_at + _APART
                if of_group and late and _is_accepted(commit, partition):
                    commit.asked["memberId"] = join.answered["memberId"]
                    commit.asked["generationIdOrMemberEpoch"] = generation
                    commit.write()
                    return Place(node=commit.node, client=commit.client, group=group)
    raise NotThereError("no group that committed a second after it had synchronised in a newer generation")


def _is_accepted(commit: Request, partition: dict[str, Any]) -> bool:
    answers = [p for topic in commit.answered["topics"] for p in topic["partitions"]]
    return {"partitionIndex": partition["partitionIndex"], "errorCode": 0} in answers


@mutation("GE-02", HEALTHY, fetches=False)
def offsets_of_live_group_reset(copy: Copy) -> Place:
    """A coordinator answers 0 to a commit without a generation, while a member commits in its generation before and after."""
    of_member: dict[tuple[int, str, str, int], list[Request]] = {}
    for commit, _, partition in committed(copy):
        member, generation = commit.asked["memberId"], commit.asked["generationIdOrMemberEpoch"]
        if member and _is_accepted(commit, partition):
            of_member.setdefault((commit.node, commit.asked["groupId"], member, generation), []).append(commit)
    for (node, group, _, _), commits in of_member.items():
        for commit in commits[1:-1]:
            after = commit.arrived_at > commits[0].answered_at + _APART
            if after and commit.answered_at < commits[-1].arrived_at - _APART:
                commit.asked.update(memberId="", generationIdOrMemberEpoch=-1)
                commit.write()
                return Place(node=node, client=commit.client, correlation_id=commit.correlation_id, group=group)
    raise NotThereError("no member with three commits in one generation, a second apart")


@mutation("GE-03", HEALTHY, fetches=False)
def replaced_static_member_commits(copy: Copy) -> Place:
    """A coordinator answers 0 to a commit of a static member after it has given the member's name to another one."""
    for sync in copy.requests("SYNC_GROUP", lambda r: r.answered["errorCode"] == 0):
        group, member = sync.asked["groupId"], sync.asked["memberId"]
        earlier = (r for r in copy.requests("METADATA", node=sync.node) if r.answered_at < sync.arrived_at - _APART)
        for commit, _, partition in committed(copy):
            of_member = (commit.node, commit.asked["groupId"], commit.asked["memberId"]) == (sync.node, group, member)
            late = commit.arrived_at > sync.answered_at + _APART
            if of_member and late and _is_accepted(commit, partition) and (before := next(earlier, None)):
                return _take_the_name(_join_of(copy, member, sync.node), before, sync, commit)
    raise NotThereError("no member that committed a second after its SyncGroup")


def _join_of(copy: Copy, member: str, node: int) -> Request:
    """The answer that gave a member its generation; one before it may have given the id, with an error."""
    joined = {"errorCode": 0, "memberId": member}
    return copy.request("JOIN_GROUP", lambda r: joined.items() <= r.answered.items(), node)


def _take_the_name(join: Request, before: Request, sync: Request, commit: Request) -> Place:
    """Let another static member join before, and commit in place of the one that takes its name."""
    former = replace(join, document=deepcopy(join.document))
    for request in (former, join, sync, commit):
        request.asked["groupInstanceId"] = "till-1"
    former.answered["memberId"] = commit.asked["memberId"] = f"till-1-{UUID(int=1)}"
    former.write_before(before)
    for request in (join, sync, commit):
        request.write()
    return Place(node=commit.node, client=commit.client, group=commit.asked["groupId"])
