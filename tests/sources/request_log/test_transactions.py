"""Requests about producer ids and transactions, version by version, as events."""

from __future__ import annotations

import pytest

from tests.sources.request_log.test_json import ANSWERED, ASKED, BOTH, row, rows

PRODUCER = {"transactional_id": "pay", "producer_id": 7, "producer_epoch": 3}
CALLER = {"transactionalId": "pay", "producerId": 7, "producerEpoch": 3}
ADDED = {**PRODUCER, "verify_only": False, "topic": "t"}


def test_what_a_producer_is_given() -> None:
    given = {"errorCode": 0, "producerId": 8, "producerEpoch": 0}
    columns = {"response_producer_id": 8, "response_producer_epoch": 0, "request_error_code": 0}
    assert row("INIT_PRODUCER_ID", 6, {**CALLER, "keepPreparedTxn": True}, given) == {
        **PRODUCER, **columns, "keep_prepared_txn": True,
    }  # fmt: skip
    assert row("INIT_PRODUCER_ID", 1, {"transactionalId": None, "transactionTimeoutMs": 1}, given) == columns
    ended = row("END_TXN", 5, {**CALLER, "committed": True}, given)
    assert ended == {**PRODUCER, **columns, "committed": True}
    refused = row("END_TXN", 4, {**CALLER, "committed": False}, {"throttleTimeMs": 0, "errorCode": 90})
    assert refused == {**PRODUCER, "committed": False, "request_error_code": 90}


def test_a_block_of_producer_ids() -> None:
    block = {"errorCode": 0, "producerIdStart": 2000, "producerIdLen": 1000}
    assert row("ALLOCATE_PRODUCER_IDS", 0, {"brokerId": 3, "brokerEpoch": 31}, block) == {
        "broker_id": 3, "broker_epoch": 31, "producer_id_start": 2000, "producer_id_len": 1000, "request_error_code": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("version", "request_names", "results", "result", "code"),
    [
        (3, "{}", "resultsByTopicV3AndBelow", "resultsByPartition", "partitionErrorCode"),
        (2, "", "results", "results", "errorCode"),
    ],
)
def test_partitions_of_one_transaction(version: int, request_names: str, results: str, result: str, code: str) -> None:
    topics = [{"name": "t", "partitions": [0, 1]}]
    if request_names:
        asked = {
            "v3AndBelowTransactionalId": "pay", "v3AndBelowProducerId": 7, "v3AndBelowProducerEpoch": 3,
            "v3AndBelowTopics": topics,
        }  # fmt: skip
    else:
        asked = {**CALLER, "topics": topics}
    answered = {results: [{"name": "t", result: [{"partitionIndex": 1, code: 47}]}]}
    assert rows("ADD_PARTITIONS_TO_TXN", version, asked, answered) == [
        {**ADDED, "partition": 0, **ASKED},
        {**ADDED, "partition": 1, **BOTH, "error_code": 47},
    ]


def test_partitions_of_several_transactions() -> None:
    topics = [{"name": "t", "partitions": [0]}]
    other = {"transactionalId": "ship", "producerId": 9, "producerEpoch": 0, "verifyOnly": True, "topics": topics}
    asked = {"transactions": [{**CALLER, "verifyOnly": False, "topics": topics}, other]}
    answered = {
        "errorCode": 0,
        "resultsByTransaction": [
            {
                "transactionalId": name,
                "topicResults": [{"name": "t", "resultsByPartition": [{"partitionIndex": 0, "partitionErrorCode": code}]}],
            }
            for name, code in (("ship", 120), ("pay", 0), ("none", 3))
        ],
    }  # fmt: skip
    assert rows("ADD_PARTITIONS_TO_TXN", 5, asked, answered) == [
        {**ADDED, "partition": 0, **BOTH, "error_code": 0, "request_error_code": 0},
        {
            "transactional_id": "ship", "producer_id": 9, "producer_epoch": 0, "verify_only": True, "topic": "t", "partition": 0,
            **BOTH, "error_code": 120, "request_error_code": 0,
        },
        {"transactional_id": "none", "topic": "t", "partition": 0, **ANSWERED, "error_code": 3, "request_error_code": 0},
    ]  # fmt: skip


def test_offsets_of_a_transaction() -> None:
    added = row("ADD_OFFSETS_TO_TXN", 4, {**CALLER, "groupId": "g"}, {"throttleTimeMs": 0, "errorCode": 51})
    assert added == {**PRODUCER, "group_id": "g", "request_error_code": 51}


def marker(producer_id: int, epoch: int, *, committed: bool, partitions: list[int], **more: int) -> dict[str, object]:
    topics = [{"name": "t", "partitionIndexes": partitions}]
    return {
        "producerId": producer_id, "producerEpoch": epoch, "transactionResult": committed, "topics": topics,
        "coordinatorEpoch": 5, **more,
    }  # fmt: skip


def written(producer_id: int, codes: dict[int, int]) -> dict[str, object]:
    partitions = [{"partitionIndex": index, "errorCode": code} for index, code in codes.items()]
    return {"producerId": producer_id, "topics": [{"name": "t", "partitions": partitions}]}


def test_markers() -> None:
    asked = {"markers": [marker(7, 4, committed=True, partitions=[0, 1], transactionVersion=2)]}
    columns = {
        "producer_id": 7, "producer_epoch": 4, "committed": True, "coordinator_epoch": 5, "transaction_version": 2, "topic": "t",
    }  # fmt: skip
    assert rows("WRITE_TXN_MARKERS", 2, asked, {"markers": [written(7, {0: 0, 1: 52})]}) == [
        {**columns, "partition": 0, **BOTH, "error_code": 0},
        {**columns, "partition": 1, **BOTH, "error_code": 52},
    ]


def test_an_answer_that_may_be_that_of_another_marker_is_none() -> None:
    asked = {
        "markers": [marker(7, 4, committed=True, partitions=[0]), marker(7, 5, committed=False, partitions=[0, 1])]
    }
    found = rows("WRITE_TXN_MARKERS", 1, asked, {"markers": [written(7, {0: 0, 1: 0})]})
    assert [(m["producer_epoch"], m["partition"], m.get("error_code"), m["in_response"]) for m in found] == [
        (4, 0, None, False), (5, 0, None, False), (5, 1, 0, True),
    ]  # fmt: skip
