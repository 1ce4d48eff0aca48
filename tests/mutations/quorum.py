"""Answers of controllers that a quorum should not have given (KRaft, KIP-595)."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tests.mutations.editing import SERVER_LOG, Copy, Request
from tests.mutations.planting import Place, mutation

QUORUM: Final = "kraft-transactions-4.1"
"""Its three controllers are brokers, too; controller 1 leads epoch 1 and resigns at the end."""

BEGIN: Final = "BEGIN_QUORUM_EPOCH"
LATER_EPOCH: Final = 2


def partition(side: dict[str, Any]) -> dict[str, Any]:
    """The only partition of a request of the quorum, or of its answer."""
    found: dict[str, Any] = side["topics"][0]["partitions"][0]
    return found


def last_begin(copy: Copy) -> Request:
    """The last BeginQuorumEpoch of the recording."""
    return list(copy.requests(BEGIN))[-1]


def place_of(request: Request) -> Place:
    """Where a finding about a request has to be."""
    return Place(node=request.node, correlation_id=request.correlation_id)


def stated(side: dict[str, Any], leader: int, epoch: int) -> None:
    """Let a request or answer state this leader and epoch."""
    partition(side).update(leaderId=leader, leaderEpoch=epoch)


@mutation("RA-01", QUORUM, fetches=False)
def stale_quorum_leader_accepted(copy: Copy) -> Place:
    """A BeginQuorumEpoch of epoch 0 arrives in epoch 1, and the controller answers 0."""
    begin = last_begin(copy)
    begin.document["requestHeader"]["correlationId"] += 1
    leader = partition(begin.asked)["leaderId"]
    stated(begin.asked, leader, partition(begin.asked)["leaderEpoch"] - 1)
    begin.write_behind(begin)
    return place_of(begin)


@mutation("RA-02", QUORUM, fetches=False)
def second_leader_of_the_quorum(copy: Copy) -> Place:
    """Another controller begins the same epoch, and the controller that follows the leader accepts it."""
    begin = last_begin(copy)
    begin.document["requestHeader"].update(correlationId=1, clientId="raft-client-2")
    epoch = partition(begin.asked)["leaderEpoch"]
    stated(begin.asked, 2, epoch)
    stated(begin.answered, 2, epoch)
    begin.write_behind(begin)
    return Place(evidence='"clientId":"raft-client-2"')


@mutation("RA-03", QUORUM, fetches=False)
def voter_votes_twice(copy: Copy) -> Place:
    """A controller that voted for controller 1 grants its vote to controller 3 in the same epoch."""
    vote = copy.request(
        "VOTE", lambda r: partition(r.answered)["voteGranted"] and not partition(r.asked)["preVote"] and r.node == 2
    )
    vote.document["requestHeader"].update(correlationId=1, clientId="raft-client-3")
    partition(vote.asked)["replicaId"] = 3
    vote.write_behind(vote)
    return Place(node=2, evidence='"clientId":"raft-client-3"')


@mutation("RA-04", QUORUM, fetches=False)
def voter_starts_with_an_older_copy(copy: Copy) -> Place:
    """A controller reaches epoch 9, and its next line about its Raft state has epoch 8, as if its directory had been restored."""
    voted = copy.line(SERVER_LOG, r"Completed transition to UnattachedState\(epoch=1, .*votedKey=Optional\[", node=2)
    states = [re.sub(r"\bepoch=1\b", f"epoch={epoch}", voted.text[26:]) for epoch in (9, 8)]
    copy.line(SERVER_LOG, r"Completed transition to FollowerState\(", node=2).insert_after(*states)
    return Place(node=2, evidence="Completed transition to UnattachedState(epoch=8, ")


@mutation("RA-05", QUORUM)
def next_leader_has_less(copy: Copy) -> Place:
    """After the leader has resigned, controller 2 leads the next epoch with a high watermark below that of epoch 1."""
    fetch = list(copy.requests("FETCH", lambda r: r.client == "raft-client-3" and answers(r)["errorCode"] == 0))[-1]
    end = copy.request("END_QUORUM_EPOCH", lambda _: True)
    fetch.document["requestHeader"]["correlationId"] = end.correlation_id
    asked, answered = fetch.asked["topics"][0]["partitions"][0], answers(fetch)
    below = answered["highWatermark"] // 2
    asked.update(currentLeaderEpoch=LATER_EPOCH, fetchOffset=below, highWatermark=below)
    answered.update(highWatermark=below, currentLeader={"leaderId": 2, "leaderEpoch": LATER_EPOCH})
    fetch.write_behind(list(copy.requests("FETCH", node=2))[-1])
    return Place(node=2, evidence=f'"highWatermark":{below},"lastStableOffset"')


@mutation("RA-07", QUORUM)
def later_leader_began_below(copy: Copy) -> Place:
    """The metadata log was begun anew in epoch 2, at offset 0, after leaders had given out high watermarks in epoch 1."""
    for batch in copy.metadata.batches:
        batch.set_raft_epoch(LATER_EPOCH)
    return Place(evidence="LeaderChange")


@mutation("RA-08", QUORUM, fetches=False)
def two_voters_replaced_at_once(copy: Copy) -> Place:
    """A dump of the metadata log, which goes on where the other one ends, states the voters, and then a set with two others."""
    last = copy.metadata.batches[-1]
    offset = last.records[-1].offset + 1
    sets = [(1, 2, 3), (1, 4, 5)]
    batch = re.sub(r"(baseOffset|lastOffset): \d+", lambda m: f"{m[1]}: {offset + (m[1] == 'lastOffset')}", last.line)
    lines = [batch.replace("count: 1 ", "count: 2 ").replace("isControl: false", "isControl: true")]
    for place, voters in enumerate(sets, offset):
        listed = [
            {"voterId": voter, "voterDirectoryId": f"DOApkBc9u2_aH2klXlAt{voter}w", "endpoints": []} for voter in voters
        ]
        content = json.dumps({"version": 0, "voters": listed}, separators=(",", ":"))
        head = f"| offset: {place} CreateTime: {last.time_ms} keySize: 4 valueSize: 99 sequence: -1 headerKeys: []"
        lines.append(f"{head} KRaftVoters: {content}")
    recorded = [last.line, *(record.line for record in last.records)]
    copy.added["metadata/voters.dump.txt"] = "\n".join([*copy.metadata.head, *recorded, *lines, ""]).encode()
    return Place(evidence=f"offset: {offset + 1} ")


def answers(fetch: Request) -> dict[str, Any]:
    """The only partition of the answer to a Fetch of the metadata log."""
    found: dict[str, Any] = fetch.answered["responses"][0]["partitions"][0]
    return found
