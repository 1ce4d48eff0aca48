"""Lines of the metadata quorum: its requests, the states of its nodes, and its control records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from prove.history import FETCH, RaftRequest, RaftTransition, Record, since

CONTROL_RECORDS: Final = {"LEADER_CHANGE": "LeaderChange", "KRAFT_VOTERS": "KRaftVoters"}
CLUSTERS: Final = ("2WQl209Lv0VYX5In0tcBEA", "9oC6O2IuRkGc4D-6SecI8g")
LOG: Final = "__cluster_metadata"
LOG_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
DIRECTORY: Final = "cjkPhVwRQwmpnGVmvVs2BA"
FIRST_WITH_REPLICA_STATE: Final = 15
FIRST_WITH_DIRECTORIES: Final = 17

Json = dict[str, Any]
Header = tuple[str, int, int, str]


def raft_request(event: RaftRequest) -> tuple[Header, Json, Json]:
    """(header, request, response) of a request to a controller of the quorum."""
    header = event.api, event.version, event.correlation_id, f"raft-client-{event.sender}"
    if event.api == FETCH:
        return header, *_fetch(event)
    if event.api == "FETCH_SNAPSHOT":
        return header, *_fetch_snapshot(event)
    known: Json = {
        "partitionIndex": 0, "errorCode": event.error_code, "leaderId": event.answered_leader, "leaderEpoch": event.answered_epoch,
    }  # fmt: skip
    asked: Json
    if event.api == "VOTE":
        names = ("replicaEpoch", "replicaId") if event.version >= 2 else ("candidateEpoch", "candidateId")
        asked = {"partitionIndex": 0, names[0]: event.asked, names[1]: event.sender}
        if event.version >= 1:
            asked |= {names[1].replace("Id", "DirectoryId"): DIRECTORY, "voterDirectoryId": DIRECTORY}
        asked |= {"lastOffsetEpoch": event.last_epoch, "lastOffset": event.offset}
        asked |= {"preVote": event.pre_vote} if event.version >= 2 else {}
        known["voteGranted"] = event.vote_granted
    else:
        asked = {"partitionIndex": 0, "leaderId": event.sender, "leaderEpoch": event.asked}
        if event.version >= 1 and event.api == "BEGIN_QUORUM_EPOCH":
            asked["voterDirectoryId"] = DIRECTORY
        if event.api == "END_QUORUM_EPOCH":
            asked |= {"preferredCandidates": []} if event.version >= 1 else {"preferredSuccessors": []}
    request: Json = {"clusterId": CLUSTERS[event.cluster]}
    if event.version >= 1 and event.api != "END_QUORUM_EPOCH":
        request["voterId"] = event.node
    request["topics"] = [{"topicName": LOG, "partitions": [asked]}]
    if event.version >= 1 and event.api != "VOTE":
        request["leaderEndpoints"] = []
    return header, request, {"errorCode": 0, "topics": [{"topicName": LOG, "partitions": [known]}]}


def _leader(event: RaftRequest) -> Json:
    return {"leaderId": event.answered_leader, "leaderEpoch": event.answered_epoch}


def _fetch(event: RaftRequest) -> tuple[Json, Json]:
    asked: Json = {
        "partition": 0, "currentLeaderEpoch": event.asked, "fetchOffset": event.offset, "lastFetchedEpoch": event.last_epoch,
        "logStartOffset": -1, "partitionMaxBytes": 0,
    }  # fmt: skip
    if event.version >= FIRST_WITH_DIRECTORIES:
        asked["replicaDirectoryId"] = DIRECTORY
    request: Json = {"clusterId": CLUSTERS[event.cluster]}
    if event.version >= FIRST_WITH_REPLICA_STATE:
        request["replicaState"] = {"replicaId": event.sender, "replicaEpoch": -1}
    else:
        request["replicaId"] = event.sender
    request |= {
        "maxWaitMs": 500, "minBytes": 0, "maxBytes": 8388608, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1,
        "topics": [{"topicId": LOG_ID, "partitions": [asked]}], "forgottenTopicsData": [], "rackId": "",
    }  # fmt: skip
    answered: Json = {
        "partitionIndex": 0, "errorCode": event.error_code, "highWatermark": event.high_watermark, "lastStableOffset": -1,
        "logStartOffset": 0 if event.error_code == 0 else -1,
    }  # fmt: skip
    if event.diverging is not None:
        answered["divergingEpoch"] = {"epoch": event.diverging[0], "endOffset": event.diverging[1]}
    answered |= {
        "currentLeader": _leader(event),
        "abortedTransactions": [],
        "preferredReadReplica": -1,
        "recordsSizeInBytes": 0,
    }
    response = {
        "throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": [{"topicId": LOG_ID, "partitions": [answered]}],
    }  # fmt: skip
    return request, response


def _fetch_snapshot(event: RaftRequest) -> tuple[Json, Json]:
    snapshot = {"endOffset": 4, "epoch": 1}
    asked = {"partition": 0, "currentLeaderEpoch": event.asked, "snapshotId": snapshot, "position": 0}
    request = {
        "clusterId": CLUSTERS[event.cluster], "replicaId": event.sender, "maxBytes": 1024, "topics": [{"name": LOG, "partitions": [asked]}],
    }  # fmt: skip
    answered = {
        "index": 0, "errorCode": event.error_code, "snapshotId": snapshot, "currentLeader": _leader(event), "size": 0,
        "position": 0, "unalignedRecordsSizeInBytes": 0,
    }  # fmt: skip
    return request, {"throttleTimeMs": 0, "errorCode": 0, "topics": [{"name": LOG, "partitions": [answered]}]}


def raft_transition(event: RaftTransition, version: str) -> str:
    """QuorumState: a node's new state."""
    old = version == "3.3.2"
    vote = event.stated_vote(version)
    voted = f", votedKey={_key(vote, optional=since(version, 4, 0))}" if not old else ""
    no_leader = ", leaderId=OptionalInt.empty" if since(version, 4, 0) else ""
    follower_voted = voted if since(version, 4, 0) else ""
    prefix = f"[RaftManager {'nodeId' if old else 'id'}={event.node}] Completed transition to "
    epoch, own = f"epoch={event.epoch}", f"localId={event.node}"
    texts = {
        "Leader": f"Leader({own}, {epoch}, epochStartOffset=4, highWatermark=Optional.empty, voterStates={{}})",
        "Follower": f"FollowerState(fetchTimeoutMs=2000, {epoch}, {'leaderId' if old else 'leader'}={event.leader}{follower_voted},"
        " voters=[])",
        "Candidate": f"CandidateState({own}, {'' if old else 'localDirectoryId=' + DIRECTORY + ','}{epoch}, retries=1)",
        "Prospective": f"ProspectiveState({epoch}, leaderId=OptionalInt.empty{voted}, electionTimeoutMs=1500)",
        "Voted": f"Voted({epoch}, votedId={vote}, voters=[], electionTimeoutMs=1500)",
        "Unattached": f"Unattached{'State' if since(version, 4, 0) else ''}({epoch}{no_leader}{voted}, voters=[], electionTimeoutMs=1500)",
        "Resigned": f"ResignedState({own}, {epoch}, voters=[], electionTimeoutMs=1500, unackedVoters=[], preferredSuccessors=[])",
    }
    former = f" from UnattachedState(epoch=0, leaderId=OptionalInt.empty, votedKey={_key(9, optional=True)}, voters=[])"
    return prefix + texts[event.state] + ("" if old else former)


def _key(node: int | None, *, optional: bool) -> str:
    """ReplicaKey: of whom a node has voted for, as 3.9 prints it, or (optional) 4.0 and later."""
    if node is None:
        return "Optional.empty" if optional else "null"
    key = f"ReplicaKey(id={node}, directoryId={DIRECTORY})"
    return f"Optional[{key}]" if optional else key


def vote_answered(event: RaftRequest, version: str) -> str:
    """KafkaRaftClient.handleVoteRequest: what a node answers to a Vote request."""
    replica = "replica" if since(version, 4, 0) else "candidate"
    keys = f", {replica}DirectoryId={DIRECTORY}, voterDirectoryId={DIRECTORY}" if event.version >= 1 else ""
    pre_vote = f", preVote={str(event.pre_vote).lower()}" if event.version >= 2 else ""
    voter = f" voterId={event.node}," if event.version >= 1 else ""
    return (
        f"[RaftManager {'nodeId' if version == '3.3.2' else 'id'}={event.node}] Vote request VoteRequestData("
        f"clusterId='{CLUSTERS[event.cluster]}',{voter} topics=[TopicData(topicName='{LOG}', partitions=[PartitionData("
        f"partitionIndex=0, {replica}Epoch={event.asked}, {replica}Id={event.sender}{keys}, lastOffsetEpoch={event.last_epoch},"
        f" lastOffset={event.offset}{pre_vote})])]) with epoch {event.asked} is {'granted' if event.vote_granted else 'rejected'}"
    )


def control_record(event: Record, data: Mapping[str, object], *, with_leader: bool) -> str:
    """DumpLogSegments: a control record. with_leader: it prints the leader of a LeaderChange (4.1 on)."""
    head = f"| offset: {event.offset} CreateTime: {event.at} keySize: 4 valueSize: 19 sequence: -1 headerKeys: []"
    if event.kind == "LEADER_CHANGE" and not with_leader:
        return f"{head} controlType: LEADER_CHANGE(2)"
    return f"{head} {CONTROL_RECORDS[event.kind]}{':' * with_leader} {json.dumps({'version': 0} | dict(data), separators=(',', ':'))}"
