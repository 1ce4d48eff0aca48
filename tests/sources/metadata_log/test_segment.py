"""Raw metadata logs: the same events as the dump of the same log, and every record accounted for."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.metadata_log import dump as metadata_dump
from epochaudit.sources.metadata_log import segment as metadata_segment
from epochaudit.sources.metadata_log.segment import MetadataSegment, recognise, texts
from epochaudit.sources.sink import RowSink
from tests.conftest import names_with_dump
from tests.sources.batch_writer import (
    CODECS,
    TIME,
    Written,
    batch,
    control,
    leader_change,
    metadata,
    snapshot_header,
    unsigned,
)
from tests.sources.decoding import decode

ID = "GNxFFp-2TSGEYZnA4byTpQ"
FENCE = metadata("FENCE_BROKER_RECORD", id=1, epoch=4)
NO_OP = metadata("NO_OP_RECORD")
TOPIC = metadata("TOPIC_RECORD", name="elig", topicId=ID)
CHANGE = metadata("PARTITION_CHANGE_RECORD", partitionId=2, topicId=ID, isr=[3, 1], leader=3)
LOG = [leader_change(101), batch(1, FENCE, TOPIC), batch(3, NO_OP), batch(4, CHANGE, NO_OP, FENCE), batch(7, NO_OP)]
PLACE = {"byte_offset", "line_in_split", "partition_row"}
Event = dict[str, Any]


@dataclass(frozen=True)
class Read:
    """`events`: the columns that are not null, by line. `quarantined`: (byte offset, line, reason)."""

    events: list[Event]
    quarantined: list[tuple[int, int, str]]
    tally: tuple[int, ...]


def read(data: bytes, path: str = "00000000000000000000.log") -> Read:
    file = CaptureFile(path=path, uri=path, kind=MetadataSegment.kind, cluster="c", size=len(data))
    sink = RowSink(file, split=0)
    size, tally, events, quarantined = 0, (0, 0, 0), [], []
    for consumed, outcome in MetadataSegment(file, sink).read(BytesIO(data)):
        size += consumed
        tally = tuple(map(sum, zip(tally, outcome, strict=True)))  # type: ignore[assignment]
        for rows in sink.drain():
            for row in rows.to_pylist():
                if row["row_kind"] == "event":
                    events.append({column: value for column, value in row.items() if value is not None})
                else:
                    quarantined.append((row["byte_offset"], row["line_in_split"], row["quarantined"]["reason"]))
    assert size == len(data)
    assert tally[2] == len(quarantined)
    return Read(sorted(events, key=lambda event: event["line_in_split"]), quarantined, tally)


def placeless(event: Event) -> Event:
    place = {"row_kind", "cluster", "file", "file_order", "split", *PLACE}
    return {column: value for column, value in event.items() if column not in place}


def offsets(found: Read) -> list[int]:
    return [event["metadata_offset"] for event in found.events]


@pytest.mark.parametrize("name", names_with_dump())
def test_a_log_and_its_dump_give_the_same_events(name: str, capture: Callable[[str], Path]) -> None:
    folder = capture(name) / "metadata"
    raw = (folder / "00000000000000000000.log").read_bytes()
    dump = (folder / "cluster-metadata.dump.txt").read_text()
    found = read(raw)
    assert not found.quarantined
    assert found.tally == (len(found.events), 0, 0)
    of_log, of_dump = ([placeless(event) for event in events] for events in (found.events, decode_dump(dump)))
    if re.search(r"controlType: LEADER_CHANGE", dump):  # Kafka before 4.1 does not print who became leader
        assert (of_log[0].pop("leader"), of_log[0].pop("api_version")) == (100, 0)
    assert of_log == of_dump
    assert recognise(raw[: 1 << 16])


def decode_dump(dump: str) -> list[Event]:
    events = decode(metadata_dump, *dump.splitlines()).events
    return sorted(events, key=lambda event: int(str(event["metadata_offset"])))


@pytest.mark.parametrize("name", names_with_dump())
def test_a_record_reads_as_the_dump_prints_it(name: str, capture: Callable[[str], Path]) -> None:
    folder = capture(name) / "metadata"
    dump = (folder / "cluster-metadata.dump.txt").read_text()
    printed = re.findall(r"^\| offset: (\d+) CreateTime: (\d+) .* payload: (.*)$", dump, re.MULTILINE)
    with (folder / "00000000000000000000.log").open("rb") as stream:
        shown = dict(texts(stream, range(100_000)))
    for offset, time, payload in printed:
        text = shown[int(offset) + 1]
        assert text.startswith(f"offset: {offset} CreateTime: {time} ")
        assert json.loads(text.split(" payload: ")[1]) == json.loads(payload)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_has_its_place_its_batch_and_its_columns(codec: str) -> None:
    found = read(LOG[0] + batch(1, FENCE, CHANGE, codec=codec, epoch=6))
    assert [placeless(event) for event in found.events[1:]] == [
        {
            "event_type": "FENCE_BROKER_RECORD",
            "time_ms": TIME,
            "api_version": 0,
            "metadata_offset": 1,
            "batch_base_offset": 1,
            "batch_last_offset": 2,
            "raft_epoch": 6,
            "in_snapshot": False,
            "broker_id": 1,
            "broker_epoch": 4,
            "fenced": True,
        },
        {
            "event_type": "PARTITION_CHANGE_RECORD",
            "time_ms": TIME,
            "api_version": 2,
            "metadata_offset": 2,
            "batch_base_offset": 1,
            "batch_last_offset": 2,
            "raft_epoch": 6,
            "in_snapshot": False,
            "topic_id": ID,
            "partition": 2,
            "isr": [3, 1],
            "leader": 3,
        },
    ]
    assert [tuple(event[name] for name in sorted(PLACE)) for event in found.events] == [
        (0, 1, 0),
        (len(LOG[0]), 2, 0),
        (len(LOG[0]), 3, 1),
    ]


def test_a_new_raft_leader_is_an_event() -> None:
    [found] = read(leader_change(101, epoch=7)).events
    assert placeless(found)["leader"] == 101
    assert placeless(found)["event_type"] == "LEADER_CHANGE"
    assert placeless(found)["raft_epoch"] == 7


def test_a_new_raft_leader_of_2_8_is_an_event() -> None:
    preview = batch(0, control(2, struct.pack(">i", 101) + unsigned(1) * 2 + unsigned(0)), control=True, epoch=7)
    [found] = read(preview).events
    assert placeless(found)["leader"] == 101
    assert recognise(preview + batch(1, TOPIC))


@pytest.mark.parametrize("path", ["00000000000000000120-0000000003.checkpoint", "x.checkpoint.gz", "renamed"])
def test_records_of_a_snapshot_are_distinguished_from_records_of_the_log(path: str) -> None:
    found = read((snapshot_header() if path == "renamed" else b"") + batch(1, TOPIC), path)
    assert all(event["in_snapshot"] for event in found.events)
    assert not any(event["in_snapshot"] for event in read(LOG[0] + LOG[1]).events)


@pytest.mark.parametrize(
    ("value", "event_type", "version"),
    [
        (b"\1" + unsigned(99) + b"\0rest", "UNKNOWN_RECORD_99", 0),
        (b"\1\5\7rest", "PARTITION_CHANGE_RECORD", 7),
        (b"\1\x0b\0rest", "USER_SCRAM_CREDENTIAL_RECORD", 0),
    ],
)
def test_unknown_types_and_versions_are_counted_without_columns(value: bytes, event_type: str, version: int) -> None:
    found = read(batch(1, FENCE, value, FENCE))
    assert not found.quarantined
    event = placeless(found.events[1])
    assert (event["event_type"], event["api_version"]) == (event_type, version)
    assert not {"topic_id", "partition", "broker_id", "name"} & set(event)
    assert [event["event_type"] for event in found.events][::2] == ["FENCE_BROKER_RECORD"] * 2


def test_records_of_a_transaction_are_events_whatever_becomes_of_it() -> None:
    begin, abort = metadata("BEGIN_TRANSACTION_RECORD", name="x"), metadata("ABORT_TRANSACTION_RECORD", reason="y")
    found = read(batch(1, begin, FENCE) + batch(3, TOPIC, abort, NO_OP))
    assert offsets(found) == [1, 2, 3, 4, 5]


def test_a_record_that_cannot_be_read_costs_only_itself() -> None:
    found = read(batch(1, FENCE, b"\1\2\0\x7fname", FENCE) + LOG[4])
    assert offsets(found) == [1, 3, 7]
    assert found.quarantined == [(0, 2, "a length reaches past the end of the record")]
    assert found.tally == (3, 0, 1)


def test_a_value_that_fits_no_column_costs_only_its_record() -> None:
    config = metadata("CONFIG_RECORD", resourceType=4, resourceName="9" * 12, name="a", value=None)
    found = read(batch(1, config, FENCE))
    assert offsets(found) == [2]
    assert found.quarantined == [(0, 1, "a field that is out of its range")]


def test_a_batch_that_cannot_be_taken_apart_is_one_entry() -> None:
    found = read(LOG[0] + batch(1, FENCE, content=b"\x7e\0") + LOG[4])
    assert offsets(found) == [0, 7]
    assert found.quarantined == [(len(LOG[0]), 2, "a record reaches past the end of its batch")]


def test_a_damaged_stretch_is_one_entry_with_its_size() -> None:
    data = bytearray(b"".join(LOG))
    data[len(LOG[0]) + 70] ^= 1
    found = read(bytes(data))
    assert offsets(found) == [0, 3, 4, 5, 6, 7]
    assert found.quarantined == [(len(LOG[0]), 2, "the checksum of the batch does not match")]
    assert [event["line_in_split"] for event in found.events] == [1, 3, 4, 5, 6, 7]


def test_an_active_segment_ends_in_zeros() -> None:
    found = read(b"".join(LOG) + bytes(10_000))
    assert offsets(found) == list(range(8))
    assert not found.quarantined


@pytest.mark.slow
def test_a_log_cut_at_any_byte_keeps_its_whole_batches() -> None:
    data = b"".join(LOG)
    ends = [len(b"".join(LOG[: count + 1])) for count in range(len(LOG))]
    firsts = [0, 1, 3, 4, 7, 8]
    for length in range(len(data)):
        found = read(data[:length])
        whole = sum(end <= length for end in ends)
        assert offsets(found) == list(range(firsts[whole]))
        assert len(found.quarantined) <= 1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_flipped_bytes_lose_only_the_batches_they_hit(data: st.DataObject) -> None:
    content = bytearray(b"".join(LOG))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    found = read(bytes(content))
    assert Counter(event["event_type"] for event in found.events) >= Counter(
        {"NO_OP_RECORD": 1, "FENCE_BROKER_RECORD": 1}
    )
    assert len(found.events) >= 8 - 3


def test_what_is_recognised() -> None:
    assert recognise(LOG[0])
    assert recognise(snapshot_header() + batch(1, TOPIC))
    assert recognise(b"".join(LOG[2:]))  # a later segment does not begin with a control record
    assert recognise(b"damaged" * 30 + b"".join(LOG))
    assert recognise(batch(1, *[CHANGE] * 5_000)[: 1 << 16])  # the first batch is larger than what is looked at
    assert recognise(batch(1, b"\1\x12\0acl", TOPIC))
    assert not recognise(batch(1, b"hello", b"world"))
    assert not recognise(batch(1, TOPIC, b"hello"))
    assert not recognise(batch(1, Written(TOPIC, key=b"key")))
    assert not recognise(batch(1, TOPIC, producer_id=5))
    assert not recognise(batch(1, control(1, b"\0\0\0\0\0\0"), control=True))
    assert not recognise(b"")
    assert not recognise(bytes(1 << 16))
    assert not recognise(b"[2026-01-01 00:00:00,000] INFO text (logger)\n" * 1_000)


def test_records_are_found_again_by_their_number() -> None:
    data = LOG[0] + b"garbage" * 20 + LOG[1] + batch(3, CHANGE, append_time_ms=99, codec="zstd")
    shown = dict(texts(BytesIO(data), {2, 3, 5}))
    assert set(shown) == {3, 5}
    assert shown[3].endswith(' payload: {"type":"FENCE_BROKER_RECORD","version":0,"data":{"id":1,"epoch":4}}')
    assert shown[5].startswith("offset: 3 LogAppendTime: 99 partitionLeaderEpoch: 3 payload: ")
    assert dict(texts(BytesIO(data), {1}))[1].startswith(
        f"offset: 0 CreateTime: {TIME} partitionLeaderEpoch: 3 control: "
    )


def test_the_decoder_is_the_module_s() -> None:
    assert metadata_segment.DECODER is MetadataSegment
