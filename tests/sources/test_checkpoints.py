"""Checkpoints of leader epochs and offsets, partition.metadata and properties, as events."""

from __future__ import annotations

import pytest

from epochaudit.sources import checkpoints
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink
from tests.sources.decoding import drained

PLACE = {"row_kind", "cluster", "file", "file_order", "split", "byte_offset", "line_in_split", "partition_row"}
Rows = list[dict[str, object]]


def decode(decoder_type: type[LineDecoder], path: str, text: str) -> tuple[Rows, list[str], list[LineOutcome]]:
    """The events, the reasons of quarantined lines and the lines' outcomes, of a file at a path."""
    file = CaptureFile(path, path, decoder_type.kind, "c", len(text), source="checkpoint")
    sink = RowSink(file, 0)
    decoder = decoder_type(file, sink)
    outcomes, offset = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        outcomes.append(decoder.line(line.encode(), offset, number))
        offset += len(line) + 1
    if isinstance(decoder, checkpoints._Entries):
        decoder.finish()
    rows, quarantined = drained(sink)
    events = [{name: value for name, value in row.items() if name not in PLACE} for row in rows]
    return events, [reason for _, reason in quarantined], outcomes


EPOCHS = "0\n2\n0 0\n3 24\n"


@pytest.mark.parametrize(
    ("path", "topic", "more"),
    [
        ("broker-1/data/orders-0/leader-epoch-checkpoint", "orders", {}),
        ("broker-1/checkpoints/orders.eu-1-0.leader-epoch-checkpoint", "orders.eu-1", {}),
        ("b/orders-0.2db743c043e14fa3990ad0b5d6effa41-delete/leader-epoch-checkpoint", "orders", {"name": "delete"}),
        ("b/orders-0.2db743c043e14fa3990ad0b5d6effa41-stray.leader-epoch-checkpoint", "orders", {"name": "stray"}),
        ("b/orders-0.2db743c043e14fa3990ad0b5d6effa41-future/leader-epoch-checkpoint", "orders", {"name": "future"}),
    ],
)
def test_the_folder_names_the_partition_of_an_epoch_checkpoint(path: str, topic: str, more: dict[str, str]) -> None:
    events, reasons, _ = decode(checkpoints.EPOCH_CHECKPOINT, path, EPOCHS)
    row = {"event_type": "EPOCH_CHECKPOINT", "source": "checkpoint", "topic": topic, "partition": 0, **more}
    assert events == [{**row, "leader_epoch": 0, "start_offset": 0}, {**row, "leader_epoch": 3, "start_offset": 24}]
    assert not reasons


@pytest.mark.parametrize(
    "path",
    [
        "leader-epoch-checkpoint",
        "broker-1/backup/leader-epoch-checkpoint",
        "orders-0/checkpoint.txt",
        "orders-0.12-delete/leader-epoch-checkpoint",
        f"{'o' * 213}-0.2db743c043e14fa3990ad0b5d6effa41-delete/leader-epoch-checkpoint",
    ],
    ids=["no folder", "another folder", "another name", "no unique id", "a topic that Kafka may have cut"],
)
def test_a_partition_is_not_guessed(path: str) -> None:
    events, reasons, outcomes = decode(checkpoints.EPOCH_CHECKPOINT, path, EPOCHS)
    assert not events
    assert not reasons
    assert set(outcomes) == {LineOutcome.IGNORED}


def test_an_epoch_checkpoint_may_be_empty() -> None:
    assert decode(checkpoints.EPOCH_CHECKPOINT, "t-0/leader-epoch-checkpoint", "0\n0\n") == (
        [],
        [],
        [LineOutcome.IGNORED] * 2,
    )


def test_a_damaged_checkpoint_keeps_its_good_entries() -> None:
    events, reasons, _ = decode(
        checkpoints.EPOCH_CHECKPOINT, "t-0/leader-epoch-checkpoint", "0\n5\n0 0\nx\n3 24\n9999999999 1\n"
    )
    assert [event["leader_epoch"] for event in events] == [0, 3]
    assert reasons == [
        "is no entry of a checkpoint",
        "holds a number that is out of its range",
        "cut off: holds 3 of 5 entries",
    ]


OFFSETS = "0\n2\norders.eu-1 0 7\n__consumer_offsets 12 1212\n"


@pytest.mark.parametrize(
    ("name", "event_type", "column"),
    [
        ("replication-offset-checkpoint", "HIGH_WATERMARK_CHECKPOINT", "high_watermark"),
        ("node1.replication-offset-checkpoint", "HIGH_WATERMARK_CHECKPOINT", "high_watermark"),
        ("log-start-offset-checkpoint", "LOG_START_CHECKPOINT", "log_start_offset"),
    ],
)
def test_the_name_states_what_offsets_are(name: str, event_type: str, column: str) -> None:
    events, _, _ = decode(checkpoints.OFFSET_CHECKPOINT, f"broker-1/{name}", OFFSETS)
    row = {"event_type": event_type, "source": "checkpoint"}
    assert events == [
        {**row, "topic": "orders.eu-1", "partition": 0, column: 7},
        {**row, "topic": "__consumer_offsets", "partition": 12, column: 1212},
    ]


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "cleaner-offset-checkpoint", "offsets.txt"])
def test_other_offsets_are_ignored(name: str) -> None:
    events, reasons, outcomes = decode(checkpoints.OFFSET_CHECKPOINT, f"broker-1/{name}", OFFSETS)
    assert not events
    assert not reasons
    assert set(outcomes) == {LineOutcome.IGNORED}


def test_partition_metadata_states_the_topics_id() -> None:
    events, reasons, _ = decode(
        checkpoints.PARTITION_METADATA, "d/orders-0/partition.metadata", "version: 0\ntopic_id: 9gDNO0PzRlKeeIAaGyFvow"
    )
    assert events == [
        {
            "event_type": "TOPIC_ID_CHECKPOINT",
            "source": "checkpoint",
            "topic": "orders",
            "partition": 0,
            "topic_id": "9gDNO0PzRlKeeIAaGyFvow",
        }
    ]
    assert not reasons


def test_properties_give_the_settings_of_interest() -> None:
    events, _, _ = decode(
        checkpoints.PROPERTIES,
        "broker-1/server.properties",
        "# a comment\nnode.id=1\nnum.io.threads=3\nlisteners : PLAINTEXT://h:1\nmin.insync.replicas = 2 \nbroker.rack=\n",
    )
    assert [(event["event_type"], event["name"], event["value"]) for event in events] == [
        ("CONFIG_VALUE", "node.id", "1"),
        ("CONFIG_VALUE", "listeners", "PLAINTEXT://h:1"),
        ("CONFIG_VALUE", "min.insync.replicas", "2"),
        ("CONFIG_VALUE", "broker.rack", ""),
    ]


META = b"#\n#Sat Nov 21 04:08:12 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=1ZzHL5ZuQM6HUL59PDWJag\n"
SERVER = b"node.id=1\nprocess.roles=broker\nlog.dirs=/kafka/data\nsasl.jaas.config=a \\\n  b;\n"


@pytest.mark.parametrize(
    ("head", "recognised"),
    [
        (EPOCHS.encode(), "epoch_checkpoint"),
        (b"0\n0\n", "epoch_checkpoint"),
        (b"0\r\n1\r\n0 0\r\n", "epoch_checkpoint"),
        (b"0\n9999\n0 0\n3 2", "epoch_checkpoint"),
        (OFFSETS.encode(), "offset_checkpoint"),
        (b"0\n9999\norders 0 7\npay", "offset_checkpoint"),
        (b"version: 0\ntopic_id: 9gDNO0PzRlKeeIAaGyFvow", "partition_metadata"),
        (META, "meta_properties"),
        (SERVER, "server_properties"),
        (b"0\n1\nsome words of text\n", None),
        (b"bootstrap.servers=h:1\ngroup.id=g\n", None),
        (b"", None),
    ],
)
def test_files_are_recognised_by_content(head: bytes, recognised: str | None) -> None:
    kinds = ("epoch_checkpoint", "offset_checkpoint", "partition_metadata", "meta_properties", "server_properties")
    assert [kind for kind in kinds if getattr(checkpoints, f"recognise_{kind}")(head)] == (
        [recognised] if recognised else []
    )
