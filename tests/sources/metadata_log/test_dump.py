"""Dumps of the KRaft metadata log, record type by record type, as events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochaudit.sources.metadata_log import dump as metadata_dump
from epochaudit.sources.sink import LineOutcome
from tests.conftest import names_with_dump
from tests.sources.decoding import Decoded, decode

DUMPING = "Dumping /data/__cluster_metadata-0/00000000000000000000.log"
TOPIC_ID = "GNxFFp-2TSGEYZnA4byTpQ"


def batch(base: int, last: int, *, valid: str = "true") -> str:
    return (
        f"baseOffset: {base} lastOffset: {last} count: {last - base + 1} baseSequence: -1 lastSequence: -1 producerId: -1"
        " producerEpoch: -1 partitionLeaderEpoch: 6 isTransactional: false isControl: false deleteHorizonMs:"
        " OptionalLong.empty position: 91 CreateTime: 1795237742707 size: 130 magic: 2 compresscodec: none crc: 2639730912"
        f" isvalid: {valid}"
    )


def record(offset: int, record_type: str, data: str = "{}", version: int = 0) -> str:
    return (
        f"| offset: {offset} CreateTime: 1795237742700 keySize: -1 valueSize: 61 sequence: -1 headerKeys: [] payload:"
        f' {{"type":"{record_type}","version":{version},"data":{data}}}'
    )


def control(offset: int, content: str) -> str:
    return (
        f"| offset: {offset} CreateTime: 1795237742700 keySize: 4 valueSize: 19 sequence: -1 headerKeys: [] {content}"
    )


PLACE = {
    "row_kind", "cluster", "file", "file_order", "split", "byte_offset", "line_in_split", "partition_row", "time_ms",
    "api_version", "metadata_offset", "batch_base_offset", "batch_last_offset", "raft_epoch", "in_snapshot",
}  # fmt: skip


def columns_of(decoded: Decoded) -> list[dict[str, object]]:
    return [{column: value for column, value in event.items() if column not in PLACE} for event in decoded.events]


def test_a_record_has_its_offset_its_batch_and_its_time() -> None:
    decoded = decode(
        metadata_dump, DUMPING, "Log starting offset: 0", batch(20, 22), record(21, "NO_OP_RECORD", version=3)
    )
    ignored = LineOutcome.IGNORED
    assert decoded.outcomes == [ignored, ignored, ignored, LineOutcome.EVENT]
    [found] = decoded.events
    assert {column: found[column] for column in PLACE - {"row_kind", "cluster", "file", "file_order", "split"}} == {
        "byte_offset": len(DUMPING) + len("Log starting offset: 0") + len(batch(20, 22)) + 3,
        "line_in_split": 4,
        "partition_row": 0,
        "time_ms": 1795237742700,
        "api_version": 3,
        "metadata_offset": 21,
        "batch_base_offset": 20,
        "batch_last_offset": 22,
        "raft_epoch": 6,
        "in_snapshot": False,
    }


def test_a_record_whose_batch_line_is_missing_has_no_raft_epoch() -> None:
    decoded = decode(metadata_dump, batch(20, 22), record(23, "NO_OP_RECORD"))
    [found] = decoded.events
    assert found["metadata_offset"] == 23
    assert not {"raft_epoch", "batch_base_offset", "batch_last_offset"} & set(found)


PARTITION = (
    f'"partitionId":0,"topicId":"{TOPIC_ID}","replicas":[1,2,3],"isr":[1,2],"removingReplicas":[3],"addingReplicas":[4],'
    '"leader":1,"leaderEpoch":5,"partitionEpoch":9'
)


@pytest.mark.parametrize(
    ("record_type", "data", "columns"),
    [
        ("TOPIC_RECORD", f'{{"name":"elig","topicId":"{TOPIC_ID}"}}', {"topic": "elig", "topic_id": TOPIC_ID}),
        ("REMOVE_TOPIC_RECORD", f'{{"topicId":"{TOPIC_ID}"}}', {"topic_id": TOPIC_ID}),
        ("CLEAR_ELR_RECORD", '{"topicName":"elig"}', {"topic": "elig"}),
        (
            "PARTITION_RECORD",
            "{" + PARTITION + ',"directories":["DOApkBc9u2_aH2klXlAtZQ"]}',
            {
                "topic_id": TOPIC_ID,
                "partition": 0,
                "replicas": [1, 2, 3],
                "isr": [1, 2],
                "removing_replicas": [3],
                "adding_replicas": [4],
                "leader": 1,
                "leader_epoch": 5,
                "partition_epoch": 9,
                "leader_recovery_state": 0,
                "directories": ["DOApkBc9u2_aH2klXlAtZQ"],
            },
        ),
        (
            "BROKER_REGISTRATION_CHANGE_RECORD",
            '{"brokerId":1,"brokerEpoch":5,"logDirs":["DOApkBc9u2_aH2klXlAtZQ"]}',
            {"broker_id": 1, "broker_epoch": 5, "log_dirs": ["DOApkBc9u2_aH2klXlAtZQ"]},
        ),
        (
            "PARTITION_CHANGE_RECORD",
            f'{{"partitionId":2,"topicId":"{TOPIC_ID}","isr":[],"leader":-1,"leaderRecoveryState":1,'
            '"eligibleLeaderReplicas":[1],"lastKnownElr":[2]}',
            {
                "topic_id": TOPIC_ID,
                "partition": 2,
                "isr": [],
                "leader": -1,
                "leader_recovery_state": 1,
                "elr": [1],
                "last_known_elr": [2],
            },
        ),
        (  # 3.7
            "PARTITION_CHANGE_RECORD",
            f'{{"partitionId":2,"topicId":"{TOPIC_ID}","eligibleLeaderReplicas":[1],"lastKnownELR":[2]}}',
            {"topic_id": TOPIC_ID, "partition": 2, "elr": [1], "last_known_elr": [2]},
        ),
        (
            "PARTITION_CHANGE_RECORD",
            f'{{"partitionId":2,"topicId":"{TOPIC_ID}","leader":-2,"leaderRecoveryState":-1,"isr":null}}',
            {"topic_id": TOPIC_ID, "partition": 2},
        ),
        (
            "REGISTER_BROKER_RECORD",
            '{"brokerId":1,"incarnationId":"o1mXrfaDTfKBSBrJGZN1sA","brokerEpoch":0,"endPoints":[{"name":"PLAINTEXT"}],'
            '"features":[],"rack":null}',
            {
                "broker_id": 1,
                "broker_epoch": 0,
                "incarnation_id": "o1mXrfaDTfKBSBrJGZN1sA",
                "fenced": True,
                "in_controlled_shutdown": False,
            },
        ),
        ("UNREGISTER_BROKER_RECORD", '{"brokerId":3,"brokerEpoch":218}', {"broker_id": 3, "broker_epoch": 218}),
        (
            "BROKER_REGISTRATION_CHANGE_RECORD",
            '{"brokerId":1,"brokerEpoch":13,"fenced":-1}',
            {"broker_id": 1, "broker_epoch": 13, "fenced": False},
        ),
        (
            "BROKER_REGISTRATION_CHANGE_RECORD",
            '{"brokerId":1,"brokerEpoch":13,"fenced":1,"inControlledShutdown":0}',
            {"broker_id": 1, "broker_epoch": 13, "fenced": True},
        ),
        (
            "BROKER_REGISTRATION_CHANGE_RECORD",
            '{"brokerId":1,"brokerEpoch":13,"inControlledShutdown":1}',
            {"broker_id": 1, "broker_epoch": 13, "in_controlled_shutdown": True},
        ),
        ("FENCE_BROKER_RECORD", '{"id":1,"epoch":4}', {"broker_id": 1, "broker_epoch": 4, "fenced": True}),
        ("UNFENCE_BROKER_RECORD", '{"id":1,"epoch":4}', {"broker_id": 1, "broker_epoch": 4, "fenced": False}),
        (
            "FEATURE_LEVEL_RECORD",
            '{"name":"metadata.version","featureLevel":27}',
            {"name": "metadata.version", "value": "27"},
        ),
        (
            "CONFIG_RECORD",
            '{"resourceType":2,"resourceName":"elig","name":"min.insync.replicas","value":"1"}',
            {"topic": "elig", "name": "min.insync.replicas", "value": "1"},
        ),
        (
            "CONFIG_RECORD",
            '{"resourceType":4,"resourceName":"3","name":"unclean.leader.election.enable","value":null}',
            {"broker_id": 3, "name": "unclean.leader.election.enable"},
        ),
        (
            "CONFIG_RECORD",
            '{"resourceType":4,"resourceName":"","name":"unclean.leader.election.enable","value":"true"}',
            {"name": "unclean.leader.election.enable", "value": "true"},
        ),
        ("ZK_MIGRATION_STATE_RECORD", '{"zkMigrationState":0}', {"value": "0"}),
        ("NO_OP_RECORD", "{}", {}),
        (
            "PRODUCER_IDS_RECORD",
            '{"brokerId":3,"brokerEpoch":5,"nextProducerId":1000}',
            {"broker_id": 3, "broker_epoch": 5, "next_producer_id": 1000},
        ),
        (  # 3.0 and 3.1
            "PRODUCER_IDS_RECORD",
            '{"brokerId":3,"brokerEpoch":5,"producerIdsEnd":1000}',
            {"broker_id": 3, "broker_epoch": 5, "next_producer_id": 1000},
        ),
        ("RECORD_OF_A_LATER_KAFKA", '{"any":[{"thing":1}]}', {}),
    ],
)
def test_a_record_becomes_columns(record_type: str, data: str, columns: dict[str, object]) -> None:
    decoded = decode(metadata_dump, batch(7, 7), record(7, record_type, data))
    assert columns_of(decoded) == [{"event_type": record_type, **columns}]


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (
            'LeaderChange: {"version":0,"leaderId":100,"voters":[{"voterId":100}],"grantingVoters":[{"voterId":100}]}',
            {"event_type": "LEADER_CHANGE", "leader": 100},
        ),
        ("controlType: LEADER_CHANGE(2)", {"event_type": "LEADER_CHANGE"}),
        ('SnapshotFooter {"version":0}', {"event_type": "SNAPSHOT_FOOTER"}),
        ('KRaftVersion {"version":0,"kRaftVersion":1}', {"event_type": "KRAFT_VERSION"}),
        (
            'KRaftVoters {"version":0,"voters":[{"voterId":2,"voterDirectoryId":"zW-Yy47l4lVAmHWmN5nF0A","endpoints":[],'
            '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}},{"voterId":1,"voterDirectoryId":'
            '"DOApkBc9u2_aH2klXlAtZQ","endpoints":[],"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}',
            {"event_type": "KRAFT_VOTERS", "voters": ["1:DOApkBc9u2_aH2klXlAtZQ", "2:zW-Yy47l4lVAmHWmN5nF0A"]},
        ),
    ],
    ids=["4.1", "up to 4.0", "snapshot", "3.9", "voters"],
)
def test_a_control_record(content: str, columns: dict[str, object]) -> None:
    assert columns_of(decode(metadata_dump, batch(0, 0), control(0, content))) == [columns]


@pytest.mark.parametrize(
    "heading",
    [
        ["Dumping 00000000000000000120-0000000003.checkpoint"],
        ["Dumping x", "Snapshot end offset: 120, epoch: 3"],
        ["Dumping x", "KRaft bootstrap snapshot"],
        ["Dumping x", batch(0, 0), control(0, 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1}')],
    ],
)
def test_records_of_a_snapshot_are_distinguished_from_records_of_the_log(heading: list[str]) -> None:
    snapshot_record, log_record = record(1, "NO_OP_RECORD"), record(2, "NO_OP_RECORD")
    decoded = decode(metadata_dump, *heading, batch(1, 1), snapshot_record, DUMPING, batch(2, 2), log_record)
    assert [event["in_snapshot"] for event in decoded.events if event["event_type"] == "NO_OP_RECORD"] == [True, False]


def offsets(decoded: Decoded) -> list[object]:
    return sorted(event["metadata_offset"] for event in decoded.events)  # type: ignore[type-var]


def test_records_of_a_transaction_are_events_whatever_becomes_of_it() -> None:
    decoded = decode(
        metadata_dump,
        batch(1, 3),
        record(1, "BEGIN_TRANSACTION_RECORD", '{"name":"Bootstrap records"}'),
        record(2, "FEATURE_LEVEL_RECORD", '{"name":"metadata.version","featureLevel":27}'),
        record(3, "ABORT_TRANSACTION_RECORD", '{"reason":"failed over"}'),
    )
    assert offsets(decoded) == [1, 2, 3]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (record(7, "TOPIC_RECORD", f'{{"name":"elig","topicId":"{TOPIC_ID}"}}')[:-9], "not a whole metadata record"),
        (record(7, "TOPIC_RECORD", '{"name":"elig"}'), "not a whole metadata record"),
        (record(7, "TOPIC_RECORD", '{"name":7,"topicId":""}'), "not a whole metadata record"),
        (record(7, "FENCE_BROKER_RECORD", '{"id":2147483648,"epoch":1}'), "not a whole metadata record"),
        (record(7, "PRODUCER_IDS_RECORD", '{"brokerId":3,"brokerEpoch":5}'), "not a whole metadata record"),
        (record(7, "X", '{"a":' * 5000), "not a whole metadata record"),
        (record(7, "X").encode() + b"\0", "not a whole metadata record"),
        (
            record(7, "TOPIC_RECORD", '{"name":"\udcff"}').encode(errors="surrogateescape"),
            "not a whole metadata record",
        ),
        (record(7, "X").split(" payload")[0], "cut off"),
        ("| offset: 7", "cut off"),
        ('| payload: {"type":"NO_OP_RECORD","version":0,"data":{}}', "--skip-record-metadata"),
        (
            record(7, "X").split(" payload")[0] + " payload: Error at 7, skipping. Unknown metadata id 99",
            "could not decode",
        ),
        (control(7, "SnapshotHeader {"), "unknown kind"),
        (control(7, 'LeaderChange: {"version":0}'), "not whole"),
        (batch(8, 9)[:60], "batch line is cut off"),
        ("baseOff", "cut off"),
        ("Found 17 invalid bytes at the end of 00000000000000000000.log", "invalid bytes"),
    ],
)
def test_bad_lines_are_quarantined_with_a_reason(line: str | bytes, reason: str) -> None:
    decoded = decode(metadata_dump, batch(7, 7), line)
    assert decoded.outcomes[-1] is LineOutcome.QUARANTINED
    assert not decoded.events
    [(number, found)] = decoded.quarantined
    assert number == 2
    assert reason in found


def test_an_invalid_batch_is_quarantined_with_its_records() -> None:
    decoded = decode(
        metadata_dump,
        batch(7, 7, valid="false"),
        record(7, "NO_OP_RECORD"),
        batch(8, 8),
        record(8, "NO_OP_RECORD"),
    )
    assert offsets(decoded) == [8]
    assert [number for number, _ in decoded.quarantined] == [1, 2]


def test_a_dump_of_a_data_topic_is_not_recognised() -> None:
    metadata = "\n".join([DUMPING, "Log starting offset: 0", batch(0, 0), record(0, "NO_OP_RECORD")])
    assert metadata_dump.recognise(metadata.encode())
    assert not metadata_dump.recognise(f"{DUMPING}\n{batch(0, 0)}\n| offset: 0 payload: hello".encode())


@pytest.mark.parametrize("name", names_with_dump())
def test_recorded_dumps_hold_the_known_number_of_records(
    name: str, capture: Callable[[str], Path], expected: Callable[[str], dict[str, Any]]
) -> None:
    dump = (capture(name) / "metadata" / "cluster-metadata.dump.txt").read_bytes()
    assert metadata_dump.recognise(dump[:65536])
    decoded = decode(metadata_dump, *dump.splitlines())
    found = Counter(str(event["event_type"]) for event in decoded.events)
    del found["LEADER_CHANGE"]
    assert found == expected(name)["counts"]["metadata_records"]
    assert not decoded.quarantined
    assert offsets(decoded) == list(range(len(decoded.events)))
