"""Lines of Java, librdkafka and Python clients as events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochaudit.sources import client_log
from epochaudit.sources.sink import LineOutcome
from tests.sources.decoding import decode, ignored, only_event, quarantine_reason

AT = "[2026-11-21 05:13:13,151] INFO "
CONSUMER = "[Consumer clientId=c1, groupId=g1] "
STATE = " (org.apache.kafka.clients.consumer.internals.SubscriptionState)"
BY: dict[str, object] = {"client_id": "c1", "group_id": "g1"}
U0: dict[str, object] = {"topic": "u", "partition": 0}
ID, OTHER_ID = "H-bSEtZLQ-WhzIXv7P_Paw", "p6fNmoQ8SfKhhYmghxoZwg"


def position(offset: int, epoch: str, leader: str, leader_epoch: str) -> str:
    return f"FetchPosition{{offset={offset}, offsetEpoch={epoch}, currentLeader=LeaderAndEpoch{{leader={leader}, epoch={leader_epoch}}}}}"


LEADER_4 = "Optional[127.0.0.1:23412 (id: 2 rack: null isFenced: false)]"
LEADER_3 = "Optional[127.0.0.1:9092 (id: 2 rack: null)]"
LEADER_2 = "127.0.0.1:9092 (id: 2 rack: null)"
AT_30 = {**BY, **U0, "leader": 2, "current_leader_epoch": 3, "previous_offset": 30, "previous_epoch": 1}
Case = tuple[str, str, dict[str, object]]

JAVA: list[Case] = [
    *(
        (
            f"Truncation detected for partition u-0 at offset {position(30, 'Optional[1]', leader, '3')}, resetting offset to the"
            f" first offset known to diverge {position(10, 'Optional[0]', leader, '3')}",
            "CLIENT_TRUNCATION_DETECTED",
            {**AT_30, "offset": 10, "diverging_epoch": 0, "reason": "diverging_offset"},
        )
        for leader in (LEADER_4, LEADER_3, LEADER_2)
    ),
    (
        f"Truncation detected for partition u-0 at offset {position(30, 'Optional[1]', LEADER_3, '3')}, resetting offset",
        "CLIENT_TRUNCATION_DETECTED",
        {**AT_30, "reason": "reset_policy"},
    ),
    *(
        (
            f"Truncation detected for partition u-0 at offset {position(30, 'Optional[1]', LEADER_3, '3')} (the end offset from the"
            f" broker is {answer}), but no reset policy is set",
            "CLIENT_TRUNCATION_DETECTED",
            {**AT_30, "diverging_epoch": 0, "diverging_end_offset": 10, "reason": "no_reset_policy"},
        )
        for answer in (
            "OffsetAndMetadata{offset=10, leaderEpoch=0, metadata=''}",
            "EpochEndOffset{error=NONE, leaderEpoch=0, endOffset=10}",
        )
    ),
    (
        f"Truncation detected for partition u-0 at offset {position(30, 'Optional[1]', LEADER_3, '3')}, but no reset policy is set",
        "CLIENT_TRUNCATION_DETECTED",
        {**AT_30, "reason": "no_reset_policy"},
    ),
    (
        f"Fetch position {position(30, 'Optional[1]', LEADER_3, '3')} is out of range for partition u-0, resetting offset",
        "CONSUMER_OUT_OF_RANGE",
        {**AT_30, "reason": "reset_policy"},
    ),
    (
        f"Fetch position {position(30, 'Optional[1]', LEADER_3, 'absent')} is out of range for partition u-0, raising error to the"
        " application since no reset policy is configured",
        "CONSUMER_OUT_OF_RANGE",
        {**BY, **U0, "leader": 2, "previous_offset": 30, "previous_epoch": 1, "reason": "no_reset_policy"},
    ),
    (
        "Fetch offset 30 is out of range for partition u-0, resetting offset",
        "CONSUMER_OUT_OF_RANGE",
        {**BY, **U0, "previous_offset": 30, "reason": "reset_policy"},
    ),
    (
        f"Resetting offset for partition u-0 to position {position(0, 'Optional.empty', LEADER_3, '3')}.",
        "CONSUMER_OFFSET_RESET",
        {**BY, **U0, "offset": 0, "leader": 2, "current_leader_epoch": 3},
    ),
    ("Resetting offset for partition u-0 to offset 7.", "CONSUMER_OFFSET_RESET", {**BY, **U0, "offset": 7}),
    (
        f"Setting offset for partition u-0 to the committed offset {position(30, 'Optional[1]', LEADER_3, '3')}",
        "CONSUMER_OFFSET_COMMITTED",
        {**BY, **U0, "offset": 30, "committed_leader_epoch": 1, "leader": 2, "current_leader_epoch": 3},
    ),
    ("Setting offset for partition u-0 to the committed offset 30", "CONSUMER_OFFSET_COMMITTED", {**BY, **U0, "offset": 30}),
    ("Resetting offset for partition u-0 to the committed offset 30", "CONSUMER_OFFSET_COMMITTED", {**BY, **U0, "offset": 30}),
    ("Seeking to offset 10 for partition u-0", "CONSUMER_SEEKS", {**BY, **U0, "offset": 10}),
    (
        "Seeking to offset 10 for partition u-0 with epoch 2",
        "CONSUMER_SEEKS",
        {**BY, **U0, "offset": 10, "committed_leader_epoch": 2},
    ),
    *(
        (f"Seeking to {where} partition u-0", "CONSUMER_SEEKS", {**BY, **U0, "name": name})
        for where, name in (
            ("beginning of", "beginning"),
            ("earliest offset of", "earliest"),
            ("LATEST offset of", "LATEST"),
            ("AutoOffsetResetStrategy{type=earliest} offset of", "earliest"),
            ("AutoOffsetResetStrategy{type=by_duration, duration=Optional[PT1H]} offset of", "by_duration"),
        )
    ),
    *(
        (message, "CLIENT_EPOCH_SEEN", {**BY, **U0, "leader_epoch": 4, **before})
        for message, before in (
            ("Updating last seen epoch for partition u-0 from 3 to epoch 4 from new metadata", {"previous_epoch": 3}),
            ("Updating last seen epoch for partition u-0 from null to epoch 4 from new metadata", {}),
            ("Updating last seen epoch from 3 to 4 for partition u-0", {"previous_epoch": 3}),
            ("Setting the last seen epoch of partition u-0 to 4 since the last known epoch was undefined.", {}),
        )
    ),
    (
        "Got metadata for an older epoch 1 (current is 2) for partition u-0, not updating",
        "CLIENT_EPOCH_IGNORED",
        {**BY, **U0, "leader_epoch": 1, "current_leader_epoch": 2, "reason": "older_epoch"},
    ),
    (
        "Not replacing null epoch with new epoch 1 for partition u-0",
        "CLIENT_EPOCH_IGNORED",
        {**BY, **U0, "leader_epoch": 1, "reason": "no_known_epoch"},
    ),
    (
        f"Resetting the last seen epoch of partition u-0 to 0 since the associated topicId changed from {ID} to {OTHER_ID}",
        "CLIENT_TOPIC_ID_CHANGED",
        {**BY, **U0, "leader_epoch": 0, "topic_id": OTHER_ID, "value": ID},
    ),
    (
        f"Resetting the last seen epoch of partition u-0 to 4 since the associated topicId changed from null to {ID}",
        "CLIENT_TOPIC_ID_CHANGED",
        {**BY, **U0, "leader_epoch": 4, "topic_id": ID},
    ),
    (
        "For u-0 updating leader information, updated metadata is PartitionMetadata(error=NONE, partition=u-0, leader=Optional[2],"
        " leaderEpoch=Optional[7], replicas=1,2,3, isr=1,2,3, offlineReplicas=).",
        "CLIENT_HINT_TAKEN",
        {**BY, **U0, "leader": 2, "leader_epoch": 7},
    ),
    *(
        (
            f"For u-0, incoming leader(LeaderIdAndEpoch{{leaderId=2, epoch=4}}){rest}",
            "CLIENT_HINT_IGNORED",
            {**BY, **U0, "leader": 2, "leader_epoch": 4, **columns},
        )
        for rest, columns in (
            (
                f" is not-newer than the one in the existing metadata LeaderAndEpoch{{leader={LEADER_4}, epoch=5}}, so ignoring.",
                {"current_leader_epoch": 5, "reason": "not_newer"},
            ),
            (
                " is not-newer than the one in the existing metadata LeaderAndEpoch{leader=Optional.empty, epoch=5}, so ignoring.",
                {"current_leader_epoch": 5, "reason": "not_newer"},
            ),
            (
                ", the corresponding node information for node-id 2 is missing, so ignoring.",
                {"reason": "unknown_leader"},
            ),
            (", partition metadata is no longer cached, ignoring.", {"reason": "unknown_partition"}),
        )
    ),
    (
        "Skipping validation of fetch offsets for partitions [u-0, u-1] since the broker does not support the required protocol"
        " version (introduced in Kafka 2.3)",
        "CONSUMER_VALIDATION_SKIPPED",
        {**BY, "value": "u-0, u-1"},
    ),
    *(
        (
            f"Handling OffsetsForLeaderEpoch response for u-0. Got offset 10 for epoch 0{dot}",
            "CONSUMER_EPOCH_END",
            {**BY, **U0, "offset": 10, "response_leader_epoch": 0},
        )
        for dot in ("", ".")
    ),
    (
        "Attempt to fetch offsets for partition u-0 failed due to FENCED_LEADER_EPOCH, retrying.",
        "CONSUMER_LOOKUP_FAILED",
        {**BY, **U0, "value": "FENCED_LEADER_EPOCH"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case[1]}: {case[0][:70]}") for case in JAVA])
def test_a_java_client(case: Case) -> None:
    message, event_type, columns = case
    assert only_event(client_log, AT + CONSUMER + message + STATE) == {"event_type": event_type, **columns}


def snapshot(*partitions: tuple[str, str]) -> str:
    listed = ", ".join(
        f"PartitionMetadata(error=NONE, partition={partition}, leader=Optional[1], leaderEpoch={epoch}, replicas=1,3, isr=1,3,"
        " offlineReplicas=)"
        for partition, epoch in partitions
    )
    return (
        f"{AT}{CONSUMER}Updated cluster metadata updateVersion 2 to MetadataSnapshot{{clusterId='x', nodes={{1=127.0.0.1:9091 (id: 1"
        f" rack: null)}}, partitions=[{listed}], controller=127.0.0.1:9091 (id: 1 rack: null)}} (org.apache.kafka.clients.Metadata)"
    )


def test_partitions_whose_leader_epoch_was_forgotten() -> None:
    line = snapshot(("u-0", "Optional.empty"), ("u-1", "Optional[4]"), ("a.b-c-12", "Optional.empty"))
    found = [
        (event["event_type"], event["client_id"], event["topic"], event["partition"], event["partition_row"])
        for event in decode(client_log, line).events
    ]
    assert found == [("CLIENT_EPOCH_FORGOTTEN", "c1", "u", 0, 0), ("CLIENT_EPOCH_FORGOTTEN", "c1", "a.b-c", 12, 1)]


def test_metadata_with_all_leader_epochs_are_nothing_to_tell() -> None:
    assert ignored(client_log, snapshot(("u-0", "Optional[3]")))


@pytest.mark.parametrize(
    ("prefix", "columns"),
    [
        ("[Consumer clientId=c1, groupId=null] ", {"client_id": "c1"}),
        ("[Consumer clientId=c1, groupId=] ", {"client_id": "c1"}),
        ("[Consumer clientId=c1, groupId=nullable] ", {"client_id": "c1", "group_id": "nullable"}),
        ("[Consumer instanceId=i, clientId=c1, groupId=g1] ", BY),
        ("[Producer clientId=c1] ", {"client_id": "c1"}),
        ("[Producer clientId=c1, transactionalId=t] ", {"client_id": "c1"}),
        ("", {}),
    ],
)
def test_the_client_names_itself(prefix: str, columns: dict[str, str]) -> None:
    found = only_event(client_log, f"{AT}{prefix}Seeking to offset 10 for partition u-0{STATE}")
    assert found == {"event_type": "CONSUMER_SEEKS", **U0, "offset": 10, **columns}


def test_a_layout_with_the_logger_in_front() -> None:
    line = (
        f"[2026-11-21 05:13:13,151] INFO org.apache.kafka.X - {CONSUMER}Resetting offset for partition u-0 to offset 7."
    )
    [event] = decode(client_log, line).events
    assert (event["event_type"], event["offset"], event["time_ms"]) == ("CONSUMER_OFFSET_RESET", 7, 1795237993151)


RD = "%7|1795237995.527|"
RD_CLIENT = {"client_id": "rd-error"}


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (
            "OFFSET|rd-error#consumer-1| [thrd:main]: u [0]: offset reset (at offset INVALID (leader epoch 2), broker 2) to offset"
            " INVALID (leader epoch -1): Partition log truncation detected at offset 30 (leader epoch 0): broker end offset is 10"
            " (offset leader epoch 0). Reset to INVALID.: Local: Partition log truncation detected",
            {
                "event_type": "CLIENT_TRUNCATION_DETECTED",
                "previous_offset": 30,
                "previous_epoch": 0,
                "diverging_epoch": 0,
                "diverging_end_offset": 10,
                "committed_leader_epoch": -1,
                "reason": "reset_policy",
            },
        ),
        (
            "OFFSET|rd-error#consumer-1| [thrd:main]: u [0]: offset reset (at offset BEGINNING (leader epoch -1), broker -1) to"
            " offset BEGINNING (leader epoch -1): update: Success",
            {"event_type": "CONSUMER_OFFSET_RESET", "committed_leader_epoch": -1, "value": "update: Success"},
        ),
        (
            "OFFSET|rd-error#consumer-1| [thrd:main]: u [0]: offset reset (at offset INVALID (leader epoch -1), broker -1) to"
            " cached BEGINNING offset offset 0 (leader epoch -1): no previously committed offset available: Local: No offset"
            " stored",
            {
                "event_type": "CONSUMER_OFFSET_RESET",
                "offset": 0,
                "committed_leader_epoch": -1,
                "value": "no previously committed offset available: Local: No offset stored",
            },
        ),
        (
            "OFFSETVALID|rd-error#consumer-1| [thrd:main]: 127.0.0.1:9092/2: u [0]: offset and epoch validation succeeded: broker"
            " end offset 26 (offset leader epoch 0)",
            {"event_type": "CONSUMER_EPOCH_END", "offset": 26, "response_leader_epoch": 0},
        ),
    ],
)
def test_librdkafka(line: str, columns: dict[str, object]) -> None:
    assert only_event(client_log, RD + line) == {**RD_CLIENT, **U0, **columns}
    [event] = decode(client_log, RD + line).events
    assert event["time_ms"] == 1795237995527


@pytest.mark.parametrize(
    ("message", "columns"),
    [
        (
            "Truncation detected for TopicPartition(topic='u', partition=0) at position 30; seeking to first diverging offset"
            " OffsetAndMetadata(offset=10, metadata='', leader_epoch=0) (kafka.consumer.fetcher)",
            {
                "event_type": "CLIENT_TRUNCATION_DETECTED",
                **U0,
                "previous_offset": 30,
                "offset": 10,
                "diverging_epoch": 0,
                "reason": "diverging_offset",
            },
        ),
        (
            "Resetting offset for partition TopicPartition(topic='u', partition=0) to offset 0. (kafka.consumer.fetcher)",
            {"event_type": "CONSUMER_OFFSET_RESET", **U0, "offset": 0},
        ),
        (
            "Fetch offset 30 is out of range for topic-partition TopicPartition(topic='u', partition=0) (kafka.consumer.fetcher)",
            {"event_type": "CONSUMER_OUT_OF_RANGE", **U0, "previous_offset": 30, "reason": "reset_policy"},
        ),
        (
            "Topic u topic_id changed from 1fe6d212-d64b-43e5-a1cc-85efecffc3db to a7a7cd9a-843c-49f2-a185-89a0871a19c2 -- likely"
            " recreated; resetting cached leader epochs. (kafka.cluster)",
            {
                "event_type": "CLIENT_TOPIC_ID_CHANGED",
                "topic": "u",
                "topic_id": "p6fNmoQ8SfKhhYmghxoZwg",
                "value": "1fe6d212-d64b-43e5-a1cc-85efecffc3db",
            },
        ),
    ],
)
def test_the_python_client(message: str, columns: dict[str, object]) -> None:
    assert only_event(client_log, AT + message) == columns


@pytest.mark.parametrize(
    "line",
    [
        AT + "ConsumerConfig values: ",
        "\tauto.offset.reset = none",
        AT
        + CONSUMER
        + "Not replacing existing epoch 3 with new epoch 3 for partition u-0 (org.apache.kafka.clients.Metadata)",
        RD + "FETCH|rd#consumer-1| [thrd:main]: Partition u [0] start fetching at offset 7 (leader epoch 0)",
        RD
        + "OFFSET|rd#consumer-1| [thrd:main]: GroupCoordinator/1: Enqueue OffsetCommitRequest(v9, 1/1 partition(s))): manual",
        AT + CONSUMER + "For u-0, as the leader was updated, position will be validated." + STATE,
        AT + "Topic u not found in cluster metadata (kafka.cluster)",
        "2026-11-21T04:29:45.694400087Z ASSIGNED",
        "",
    ],
)
def test_other_lines_are_ignored(line: str) -> None:
    assert ignored(client_log, line)


@pytest.mark.parametrize("cut", ["1", "1)", "1\0"])
def test_a_cut_line_is_quarantined_where_lines_end_with_their_logger(cut: str) -> None:
    seeking = f"{AT}{CONSUMER}Seeking to offset 10 for partition u-"
    decoded = decode(client_log, f"{seeking}12{STATE}", f"{seeking}{cut}")
    assert decoded.outcomes == [LineOutcome.EVENT, LineOutcome.QUARANTINED]
    assert decoded.quarantined == [(2, "cut off: does not end with its logger")]


def test_numbers_out_of_range_are_quarantined() -> None:
    line = f"{AT}{CONSUMER}Seeking to offset 99999999999999999999 for partition u-0{STATE}"
    assert quarantine_reason(client_log, line) == "holds a number that is out of its range"


@pytest.mark.parametrize(
    ("head", "recognised"),
    [
        (AT + "ConsumerConfig values: \n\tauto.offset.reset = none\n", True),
        (AT + "[AdminClient clientId=a] Node -1 disconnected. (org.apache.kafka.clients.NetworkClient)\n", True),
        (
            "2026-11-21 05:13:13.151 INFO 1 --- [main] o.a.k.c.c.i.X : [Consumer clientId=c, groupId=g] Cluster ID: x\n",
            True,
        ),
        ("%7|1795237995.527|INIT|rd#consumer-1| [thrd:app]: librdkafka v2.16.0\n", True),
        (AT + "IO loop starting (client_id=gkp) (kafka.net.selector)\n", True),
        (AT + "starting (kafka.server.KafkaServer)\n", False),
        ("2026-11-21T04:43:03.648453337Z ADMIN create u\n", False),
    ],
)
def test_a_client_log_is_recognised(head: str, recognised: bool) -> None:
    assert client_log.recognise_client_log(head.encode()) is recognised


def test_every_event_is_described() -> None:
    described = set(re.findall(r"^\| `([A-Z_]+)` \|", Path("docs/events.md").read_text(), re.MULTILINE))
    assert client_log.event_types() - described == set()
