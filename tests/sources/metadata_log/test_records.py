"""Binary metadata records: every type and version of the table of layouts, and what is not in it."""

from __future__ import annotations

import string
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochaudit.sources.metadata_log.records import (
    COLUMNS,
    PLACE,
    columns_of_fields,
    columns_of_json,
)
from epochaudit.sources.metadata_log.schema import Content, read_control_record, read_record, record_types
from epochaudit.sources.record_batches.batches import BadRecordError
from tests.sources.batch_writer import LAYOUTS, Layout, body, has, layouts, metadata, metadata_record, unsigned

RECORDS = list(layouts("records"))
CONTROL = list(layouts("control"))
ID = "GNxFFp-2TSGEYZnA4byTpQ"
NUMBERS = {"int8": (-128, 127), "int16": (-(1 << 15), (1 << 15) - 1), "uint16": (0, 65535),
           "int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}  # fmt: skip


def values_of(layout: Layout) -> st.SearchStrategy[dict[str, Any]]:
    return struct_of(list(layout.fields), layout)


def struct_of(fields: list[dict[str, Any]], layout: Layout) -> st.SearchStrategy[dict[str, Any]]:
    inside = [field for field in fields if has(field, layout.version)]
    always = {f["name"]: value_of(f["type"], f.get("nullable", False), layout) for f in inside if "tag" not in f}
    tagged = {f["name"]: value_of(f["type"], f.get("nullable", False), layout) for f in inside if "tag" in f}
    return st.fixed_dictionaries(always, optional=tagged)


def value_of(kind: str, nullable: bool, layout: Layout) -> st.SearchStrategy[Any]:
    if kind in NUMBERS:
        return st.integers(*NUMBERS[kind])
    if kind == "bool":
        return st.booleans()
    if kind in LAYOUTS["structs"]:
        return struct_of(LAYOUTS["structs"][kind], layout)
    if kind == "uuid":
        return st.just(ID)
    found: st.SearchStrategy[Any]
    if kind == "string":
        found = st.text(string.ascii_letters + "ü\u4e2d", max_size=200)
    else:
        found = st.lists(value_of(kind[2:], False, layout), max_size=3)
    return st.none() | found if nullable else found


@pytest.mark.parametrize("layout", RECORDS, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_version_of_every_record_type_round_trips(layout: Layout, data: st.DataObject) -> None:
    values = data.draw(values_of(layout))
    if "maxFeatureLevel" in values:
        values["maxFeatureLevel"] %= 256  # a larger one could pass for the tagged fields of the current layout
    unknown_tag = data.draw(st.sampled_from([None, 30, 500])) if layout.flexible else None
    assert read_record(metadata_record(layout, values, unknown_tag)) == Content(layout.name, layout.version, values)


@pytest.mark.parametrize("layout", CONTROL, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_control_record_round_trips(layout: Layout, data: st.DataObject) -> None:
    values = data.draw(values_of(layout)) | ({"version": layout.version} if layout.frame else {})
    read = read_control_record(b"\0\0" + layout.key.to_bytes(2), body(layout, values, 9))
    assert read == Content(layout.name, layout.version, values)


def test_the_table_names_each_key_once() -> None:
    for kind in ("records", "control"):
        keys = [layout["key"] for layout in LAYOUTS[kind].values()]
        assert len(set(keys)) == len(keys)
        assert set(record_types(kind)) == set(keys)
    assert set(record_types("records")) == set(range(30)) - {13}


def test_fields_are_in_the_order_of_the_layout_tagged_ones_too() -> None:
    read = read_record(
        metadata("PARTITION_RECORD", partitionId=0, topicId=ID, replicas=[1], isr=[1], removingReplicas=[],
                 addingReplicas=[], leader=1, leaderRecoveryState=1, leaderEpoch=0, partitionEpoch=0, directories=[])
    )  # fmt: skip
    assert read.fields is not None
    assert list(read.fields)[6:9] == ["leader", "leaderRecoveryState", "leaderEpoch"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\1" + unsigned(99) + b"\0whatever", Content("UNKNOWN_RECORD_99", 0, None)),
        (b"\1" + unsigned(300) + b"\3", Content("UNKNOWN_RECORD_300", 3, None)),
        (b"\1\5\7whatever", Content("PARTITION_CHANGE_RECORD", 7, None)),
        (b"\1\x0b\0salt and keys", Content("USER_SCRAM_CREDENTIAL_RECORD", 0, None)),
        (b"\0\5\1whatever", Content("PARTITION_CHANGE_RECORD", 1, None)),
    ],
    ids=["type", "large type", "version", "type by name only", "version in 2.8"],
)
def test_what_is_not_in_the_table_has_its_name_or_number(value: bytes, expected: Content) -> None:
    assert read_record(value) == expected


@pytest.mark.parametrize("leader", [0, 1, 257, 3000, 70_000, 1 << 30])
def test_a_leader_change_of_2_8_has_no_version(leader: int) -> None:
    [preview] = [one for one in CONTROL if one.name == "LEADER_CHANGE" and not one.frame]
    voters = [{"voterId": leader + one} for one in range(3)]
    values = {"leaderId": leader, "voters": voters, "grantingVoters": voters[:2]}
    assert read_control_record(b"\0\0\0\2", body(preview, values)) == Content("LEADER_CHANGE", 0, values)


def test_a_control_record_of_an_unknown_type_or_version_has_its_number() -> None:
    assert read_control_record(b"\0\0\0\x0c", b"\0\0rest") == Content("UNKNOWN_CONTROL_RECORD_12", 0, None)
    assert read_control_record(b"\0\0\0\2", b"\0\x09rest") == Content("LEADER_CHANGE", 9, None)
    with pytest.raises(BadRecordError):
        read_control_record(None, b"\0\0")
    with pytest.raises(BadRecordError):
        read_control_record(b"\0\0\0\2", None)
    with pytest.raises(BadRecordError, match="cut off"):
        read_control_record(b"\0\0\0\2", b"\0\0\0\0\0\1\2\0")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\2\0\0", "frame version"),
        (b"\1" + unsigned(1 << 16) + b"\0", "out of its range"),
        (b"\1\x14\0\0more", "bytes follow"),
        (b"\1\2\0\3\xff\xfe" + bytes(16) + b"\0", "not UTF-8"),
        (b"\1\2\0\x7fname", "past the end"),
        (b"\1\2\0\0" + bytes(17), "past the end"),
        (b"\1\7\0\0\0", "cut off"),
        (b"\1\x14\0\1\0\5", "past the end"),
        (b"\1\x17\0\1\0\4\2nn\0", "not as long"),
        (b"", "cut off"),
    ],
)
def test_bad_records_are_reported(value: bytes, reason: str) -> None:
    with pytest.raises(BadRecordError, match=reason):
        read_record(value)


def test_a_hostile_count_costs_nothing() -> None:
    with pytest.raises(BadRecordError):
        read_record(b"\1\0\3" + bytes(4 + 1 + 16 + 8) + unsigned((1 << 31) - 1) + b"\0")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    for head in (b"", b"\1\0\3", b"\1\3\2", b"\1\5\2"):
        try:
            content = read_record(head + value)
            columns_of_fields(content.type, content.fields or {"not": "read"})
        except (BadRecordError, msgspec.ValidationError):
            continue


@pytest.mark.parametrize("layout", [one for one in RECORDS if one.frame], ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_fields_and_their_json_give_the_same_columns(layout: Layout, data: st.DataObject) -> None:
    values = data.draw(values_of(layout))
    if layout.name == "CONFIG_RECORD":
        values["resourceType"] = data.draw(st.sampled_from([2, 4, 8]))
    if layout.name == "FEATURE_LEVEL_RECORD" and "featureLevel" not in values:
        return
    columns = columns_of_fields(layout.name, values)
    assert columns == columns_of_json(layout.name, msgspec.json.encode(values))
    assert set(columns) <= set(COLUMNS[len(PLACE) :])


def test_absent_fields_have_the_defaults_of_the_table() -> None:
    registered = {"brokerId": 1, "incarnationId": ID, "brokerEpoch": 5, "endPoints": [], "features": [], "rack": None}
    columns = columns_of_fields("REGISTER_BROKER_RECORD", registered)
    fields = {field["name"]: field.get("default") for field in LAYOUTS["records"]["REGISTER_BROKER_RECORD"]["fields"]}
    assert (columns["fenced"], columns["in_controlled_shutdown"]) == (fields["fenced"], fields["inControlledShutdown"])
    partition = columns_of_fields("PARTITION_RECORD", {"partitionId": 0, "topicId": ID})
    fields = {field["name"]: field.get("default") for field in LAYOUTS["records"]["PARTITION_RECORD"]["fields"]}
    for column, name in {"leader": "leader", "leader_epoch": "leaderEpoch", "partition_epoch": "partitionEpoch",
                         "leader_recovery_state": "leaderRecoveryState", "elr": "eligibleLeaderReplicas"}.items():  # fmt: skip
        assert partition[column] == fields[name]
