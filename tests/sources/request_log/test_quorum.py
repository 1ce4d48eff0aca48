"""Requests of the metadata quorum, version by version, as events."""

from __future__ import annotations

import pytest

from tests.sources.request_log.test_json import ANSWERED, ASKED, BOTH, row, rows

OF_LOG = {"topic": "__cluster_metadata", "partition": 0}
CLUSTER = "9oC6O2IuRkGc4D-6SecI8g"


def topics(partition: dict[str, object]) -> list[dict[str, object]]:
    return [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0, **partition}]}]


def answer(**partition: object) -> dict[str, object]:
    return {"errorCode": 0, "topics": topics({"errorCode": 0, "leaderId": -1, "leaderEpoch": 5, **partition})}


@pytest.mark.parametrize(
    ("version", "asked", "pre_vote"),
    [
        (0, {"candidateEpoch": 5, "candidateId": 1, "lastOffsetEpoch": 4, "lastOffset": 9}, False),
        (1, {"candidateEpoch": 5, "candidateId": 1, "candidateDirectoryId": "d", "voterDirectoryId": "v"}, False),
        (2, {"replicaEpoch": 5, "replicaId": 1, "replicaDirectoryId": "d", "preVote": True}, True),
    ],
)
def test_a_candidacy_and_its_vote(version: int, asked: dict[str, object], pre_vote: bool) -> None:
    request = {"clusterId": CLUSTER, "voterId": 2, "topics": topics(asked)}
    assert row("VOTE", version, request, answer(voteGranted=True)) == {
        "cluster_id": CLUSTER, **OF_LOG, **BOTH, "raft_epoch": 5, "replica_id": 1, "pre_vote": pre_vote, "error_code": 0,
        "response_leader": -1, "response_leader_epoch": 5, "vote_granted": True, "request_error_code": 0,
    }  # fmt: skip


def test_a_candidacy_of_another_cluster_has_no_vote() -> None:
    request = {"clusterId": "other", "topics": topics({"candidateEpoch": 5, "candidateId": 1})}
    assert row("VOTE", 0, request, {"errorCode": 104, "topics": []}) == {
        "cluster_id": "other", **OF_LOG, **ASKED, "raft_epoch": 5, "replica_id": 1, "pre_vote": False, "request_error_code": 104,
    }  # fmt: skip


@pytest.mark.parametrize("api", ["BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_leader_begins_and_ends_its_epoch(api: str, version: int) -> None:
    request = {"clusterId": None, "topics": topics({"leaderId": 1, "leaderEpoch": 4}), "leaderEndpoints": []}
    assert row(api, version, request, answer(errorCode=74, leaderId=3)) == {
        **OF_LOG, **BOTH, "leader": 1, "raft_epoch": 4, "error_code": 74, "response_leader": 3, "response_leader_epoch": 5,
        "request_error_code": 0,
    }  # fmt: skip


def test_a_partition_of_the_answer_alone_is_a_row() -> None:
    request = {"topics": topics({"leaderId": 1, "leaderEpoch": 4})}
    other = [
        {"topicName": "other", "partitions": [{"partitionIndex": 7, "errorCode": 0, "leaderId": 1, "leaderEpoch": 4}]}
    ]
    _, second = rows("BEGIN_QUORUM_EPOCH", 0, request, {"errorCode": 0, "topics": other})
    assert second == {
        **ANSWERED, "topic": "other", "partition": 7, "error_code": 0, "response_leader": 1, "response_leader_epoch": 4,
        "request_error_code": 0,
    }  # fmt: skip


def test_a_snapshot_is_fetched_in_a_leader_epoch() -> None:
    asked = {"partition": 0, "currentLeaderEpoch": 4, "snapshotId": {"endOffset": 9, "epoch": 3}, "position": 0}
    request = {"clusterId": CLUSTER, "replicaId": 2, "topics": [{"name": "__cluster_metadata", "partitions": [asked]}]}
    given = {"index": 0, "errorCode": 74, "currentLeader": {"leaderId": 1, "leaderEpoch": 5}}
    response = {"errorCode": 0, "topics": [{"name": "__cluster_metadata", "partitions": [given]}]}
    known = {
        **OF_LOG, **BOTH, "cluster_id": CLUSTER, "replica_id": 2, "current_leader_epoch": 4, "error_code": 74,
        "request_error_code": 0,
    }  # fmt: skip
    assert row("FETCH_SNAPSHOT", 1, request, response) == {**known, "hinted_leader": 1, "hinted_leader_epoch": 5}
    del given["currentLeader"]
    assert row("FETCH_SNAPSHOT", 0, request, response) == {**known, "hinted_leader": -1, "hinted_leader_epoch": -1}
