"""Completed requests as text, as each release prints them, give the rows of the same requests as JSON."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.request_log import json as request_log
from epochaudit.sources.request_log import text as text_request_log
from epochaudit.sources.request_log.apis import produce
from epochaudit.sources.sink import LineOutcome, RowSink
from tests.sources.decoding import PLACE, Decoded, decode, ignored, json_request, quarantine_reason

# API, version, releases, request, response: protocol structs filled with made-up values and printed by kafka-clients
PRINTED = [line.split("\t") for line in (Path(__file__).parent / "printed_by_kafka.tsv").read_text().splitlines()]
TAIL = (
    " from connection 10.0.0.1:9092-10.0.0.2:40000-3;totalTime:1.5,requestQueueTime:0.25,localTime:1.0,remoteTime:0.0,"
    "throttleTime:0.1,responseQueueTime:0.05,sendTime:0.1,securityProtocol:PLAINTEXT,principal:User:ANONYMOUS,"
    "listener:PLAINTEXT"
)
LOGGER = " (kafka.request.logger)"
# columns that state whether the request and the response have a row, where an API's rows have only one of them, or none
SIDES: dict[str, tuple[str, ...]] = {
    "METADATA": ("in_response",), "CONTROLLED_SHUTDOWN": ("in_response",), "UPDATE_METADATA": ("in_request",),
    "JOIN_GROUP": (), "SYNC_GROUP": (), "INIT_PRODUCER_ID": (), "ADD_OFFSETS_TO_TXN": (), "END_TXN": (),
}  # fmt: skip
AMBIGUOUS = re.compile(r".*(?:or ambiguous|cut off.*|garbled.*)")


def line(api: str, version: int, request: str, response: str, client: str = "c", tail: str = TAIL) -> str:
    header = f"RequestHeader(apiKey={api}, apiVersion={version}, clientId={client}, correlationId=7)"
    return f"[2026-11-21 04:18:07,602] DEBUG Completed request:{header} -- {request},response:{response}{tail}{LOGGER}"


# Names by which the JSON log knows what older releases print otherwise, by API; `request.` or `response.` of one side.
NAMES: dict[str, dict[str, str]] = {
    "FETCH": {
        "request.epoch": "session_epoch", "forgetten_topics_data": "forgotten_topics_data", "record_set": "record_set_size_in_bytes",
        "_0": "diverging_epoch", "_1": "current_leader",
    },
    "LIST_OFFSETS": {"topic": "name", "partition": "partition_index", "responses": "topics", "partition_responses": "partitions"},
    "METADATA": {
        "topic_metadata": "topics", "topic": "name", "partition_metadata": "partitions", "partition": "partition_index",
        "leader": "leader_id", "replicas": "replica_nodes", "isr": "isr_nodes",
    },
    "LEADER_AND_ISR": {"topic": "topic_name", "partition": "partition_index", "response.partitions": "partition_errors"},
    "UPDATE_METADATA": {"topic": "topic_name", "partition": "partition_index"},
    "STOP_REPLICA": {"topic": "topic_name", "partition": "partition_index", "response.partitions": "partition_errors"},
    "CONTROLLED_SHUTDOWN": {
        "partitions_remaining": "remaining_partitions", "topic": "topic_name", "partition": "partition_index",
    },
    "OFFSET_COMMIT": {
        "topic": "name", "partition": "partition_index", "offset": "committed_offset", "leader_epoch": "committed_leader_epoch",
        "responses": "topics", "partition_responses": "partitions",
    },
    "JOIN_GROUP": {"leader_id": "leader"},
    "CREATE_TOPICS": {
        "create_topic_requests": "topics", "topic": "name", "config_entries": "configs", "config_name": "name",
        "config_value": "value", "topic_errors": "topics",
    },
    "DELETE_RECORDS": {"topic": "name", "partition": "partition_index"},
    "ADD_PARTITIONS_TO_TXN": {
        "topic": "name", "partition": "partition_index", "errors": "results", "partition_errors": "results",
    },
    "END_TXN": {"transaction_result": "committed"},
    "WRITE_TXN_MARKERS": {
        "transaction_markers": "markers", "topic": "name", "partition": "partition_index", "request.partitions": "partition_indexes",
    },
    "DELETE_TOPICS": {"topic_error_codes": "responses", "topic": "name", "request.topics": "topic_names"},
}  # fmt: skip
NAMES["TXN_OFFSET_COMMIT"] = NAMES["OFFSET_FETCH"] = NAMES["OFFSET_COMMIT"]


def plain(text: str) -> Any:
    """The printed struct as JSON-like values; for text without odd strings only."""
    tokens = re.findall(r"\w+Records\([^)]*\)|java\.nio\.\w+\[[^\]]*\]|[{}\[\],=]|[^{}\[\],=]+", text)

    def value(at: int) -> tuple[Any, int]:
        if tokens[at] == "{":
            struct, at = {}, at + 1
            while tokens[at] != "}":
                name = tokens[at].strip(", ")
                if tokens[at] == ",":
                    at += 1
                    continue
                struct[f"_{name}" if name.isdigit() else name], at = value(at + 2)
            return struct, at + 1
        if tokens[at] == "[":
            array, at = [], at + 1
            while tokens[at] != "]":
                if tokens[at] == ",":
                    at += 1
                    continue
                element, at = value(at)
                array.append(element)
            return array, at + 1
        scalar = tokens[at]
        if re.fullmatch(r"-?\d+", scalar):
            return int(scalar), at + 1
        return {"null": None, "true": True, "false": False}.get(scalar, scalar), at + 1

    found, end = value(0)
    assert end == len(tokens)
    return found


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def as_json(api: str, side: str, printed: Any) -> Any:
    """The same with the JSON log's names."""
    if isinstance(printed, list):
        return [as_json(api, side, element) for element in printed]
    if not isinstance(printed, dict):
        return printed
    struct: dict[str, Any] = {}
    for name, value in printed.items():
        if name in ("partition_header", "_tagged_fields"):
            struct.update(as_json(api, side, {k: v for k, v in value.items() if api == "FETCH" and side == "response"}
                                  if name == "_tagged_fields" else value))  # fmt: skip
            continue
        names = NAMES.get(api, {})
        known = next((names[key] for key in (f"{side}.{name}", name) if key in names), str(name))
        if name == "record_set":
            size = re.match(r"MemoryRecords\(size=(\d+)", str(value))
            struct[camel(known)] = int(size[1]) if size else 0
        else:
            struct[camel(known)] = as_json(api, side, value)
    return struct


def request_as_json(api: str, version: int, text: str) -> Any:
    request = as_json(api, "request", plain(text))
    if api in ("LEADER_AND_ISR", "UPDATE_METADATA") and "partitionStates" in request:
        request["ungroupedPartitionStates"] = request.pop("partitionStates")
    if api == "STOP_REPLICA" and "partitions" in request:
        if version == 0:
            request["ungroupedPartitions"] = request.pop("partitions")
        else:
            request["topics"] = [
                {"name": topic["topicName"], "partitionIndexes": topic["partitionIds"]}
                for topic in request["partitions"]
            ]
    if api == "OFFSET_FETCH":
        for topic in request["topics"]:
            if "partitions" in topic:
                topic["partitionIndexes"] = [wrapped["partitionIndex"] for wrapped in topic["partitions"]]
    return request


def without_place(decoded: Decoded) -> list[dict[str, object]]:
    """The rows of one line, in order."""
    rows = sorted(decoded.events, key=lambda event: int(str(event["partition_row"])))
    return [{column: value for column, value in row.items() if column not in PLACE - {"partition_row"}} for row in rows]


def rows(text: str) -> list[dict[str, Any]]:
    decoded = decode(text_request_log, text)
    assert decoded.outcomes == [LineOutcome.EVENT], decoded.quarantined
    return without_place(decoded)


def printed(value: Any, name: str = "") -> str:
    """The text of what `plain` read."""
    if isinstance(value, dict):
        separator = ", " if name == "_tagged_fields" else ","
        return "{" + separator.join(f"{key.removeprefix('_') if key[1:].isdigit() else key}={printed(inner, key)}"
                                    for key, inner in value.items()) + "}"  # fmt: skip
    if isinstance(value, list):
        return "[" + ",".join(map(printed, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def shortened(value: Any, length: int) -> Any:
    """The same with arrays of structs of that length."""
    if isinstance(value, dict):
        return {name: shortened(inner, length) for name, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shortened(inner, length) for inner in value[:length]]
    return value


@pytest.mark.parametrize("length", [2, 1, 0])
@pytest.mark.parametrize(
    ("api", "version", "request_text", "response_text"),
    [(api, int(version), asked, answered) for api, version, _, asked, answered in PRINTED if api != "PRODUCE"],
    ids=["-".join(row[:3]) for row in PRINTED if row[0] != "PRODUCE"],
)
def test_what_kafka_prints_gives_the_rows_of_the_same_request_as_json(
    api: str, version: int, request_text: str, response_text: str, length: int
) -> None:
    known = api.replace("ELECT_PREFERRED_LEADERS", "ELECT_LEADERS")
    asked, answered = plain(request_text), plain(response_text)
    assert (printed(asked), printed(answered)) == (request_text, response_text)
    asked, answered = printed(shortened(asked, length)), printed(shortened(answered, length))
    in_json = json_request(
        known, version, request_as_json(api, version, asked), as_json(api, "response", plain(answered))
    )
    from_json = decode(request_log, in_json)
    assert from_json.outcomes == [LineOutcome.EVENT], from_json.quarantined
    found = rows(line(api, version, asked, answered))
    assert found == without_place(from_json)
    assert not length or all(any(row[side] for row in found) for side in SIDES.get(api, ("in_request", "in_response")))


FETCH = (
    "{replica_id=-1,max_wait_time=500,min_bytes=1,max_bytes=52428800,isolation_level=0,session_id=9,session_epoch=260,"
    "topics=[{topic=d,partitions=[{partition=0,current_leader_epoch=3,fetch_offset=297,log_start_offset=-1,"
    "partition_max_bytes=1048576}]}],forgotten_topics_data=[{topic=g,partitions=[4,5]}],rack_id=}"
)
FETCHED = (
    "{throttle_time_ms=0,error_code=0,session_id=9,responses=[{topic=d,partition_responses=[{partition_header="
    "{partition=0,error_code=0,high_watermark=298,last_stable_offset=298,log_start_offset=0,aborted_transactions=null,"
    "preferred_read_replica=-1},record_set=FileRecords(file= /var/lib/kafka/d-0/00000000000000000000.log, start=20715, "
    "end=20787)}]}]}"
)
COMMIT = (
    "{group_id=g,generation_id=1,member_id=m,retention_time=-1,topics=[{topic=u,partitions=[{partition=0,offset=30,"
    "metadata=},{partition=1,offset=31,metadata=null}]}]}"
)
COMMITTED = "{throttle_time_ms=0,responses=[{topic=u,partition_responses=[{partition=0,error_code=0},{partition=1,error_code=0}]}]}"
STOP = "{controller_id=3,controller_epoch=1,delete_partitions=false,partitions=[{topic=u,partition=0}]}"
STOPPED = "{error_code=0,partitions=[{topic=u,partition=0,error_code=0}]}"
ISR = (
    "{controller_id=2,controller_epoch=2,broker_epoch=25,topic_states=[{topic=o,partition_states=[{partition=0,"
    "controller_epoch=2,leader=1,leader_epoch=2,isr=[1,2],zk_version=3,replicas=[1,3,2],is_new=false}]}],"
    "live_leaders=[{id=1,host=127.0.0.1,port=9091},{id=2,host=127.0.0.1,port=9092}]}"
)
ISR_ANSWER = "{error_code=0,partitions=[{topic=o,partition=0,error_code=11}]}"
METADATA = "{topics=[u],allow_auto_topic_creation=true}"
METADATA_ANSWER = (
    "{throttle_time_ms=0,brokers=[{node_id=2,host=127.0.0.1,port=9092,rack=null},{node_id=1,host=h,port=9091,rack=a,b}],"
    "cluster_id=v5M8exx5QYyswYkftlfE6A,controller_id=3,topic_metadata=[{error_code=0,topic=u,is_internal=false,"
    "partition_metadata=[{error_code=0,partition=0,leader=1,replicas=[1,2],isr=[1],offline_replicas=[]}]}]}"
)
LINES = {
    "fetch": line("FETCH", 11, FETCH, FETCHED),
    "commit": line("OFFSET_COMMIT", 4, COMMIT, COMMITTED),
    "stop replica": line("STOP_REPLICA", 0, STOP, STOPPED),
    "leader and isr": line("LEADER_AND_ISR", 2, ISR, ISR_ANSWER),
    "metadata": line("METADATA", 6, METADATA, METADATA_ANSWER),
}


@pytest.mark.parametrize(
    ("api", "configs", "answers"),
    [
        ("ALTER_CONFIGS", "config_entries=[{config_name=a,config_value=b,c}]", "resources"),
        ("ALTER_CONFIGS", "configs=[{name=a,value=b,c}]", "responses"),
        ("INCREMENTAL_ALTER_CONFIGS", "configs=[{name=a,config_operation=0,value=b,c}]", "responses"),
    ],
)
def test_settings_that_are_changed(api: str, configs: str, answers: str) -> None:
    asked = "{resources=[{resource_type=2,resource_name=t," + configs + "}],validate_only=false}"
    answered = (
        "{throttle_time_ms=0," + answers + "=[{error_code=0,error_message=null,resource_type=2,resource_name=t}]}"
    )
    (found,) = rows(line(api, 0, asked, answered))
    assert (found["topic"], found["name"], found["value"], found["error_code"]) == ("t", "a", "b,c", 0)


def test_alter_configs_without_settings() -> None:
    asked = "{resources=[{resource_type=2,resource_name=t,config_entries=[]}],validate_only=false}"
    answered = "{throttle_time_ms=0,resources=[{error_code=0,error_message=null,resource_type=2,resource_name=t}]}"
    (found,) = rows(line("ALTER_CONFIGS", 1, asked, answered))
    assert (found["topic"], found["in_request"], found["error_code"]) == ("t", True, 0)
    assert "name" not in found


def test_a_creation_that_is_only_validated() -> None:
    asked = (
        "{topics=[{name=t,num_partitions=1,replication_factor=1,assignments=[],configs=[{name=a,value=b}]}],"
        "timeout_ms=1000,validate_only=true}"
    )
    (found,) = rows(
        line("CREATE_TOPICS", 4, asked, "{throttle_time_ms=0,topics=[{name=t,error_code=0,error_message=null}]}")
    )
    assert not found["in_request"]
    assert "topic" not in found


def test_the_rows_hold_all_values_of_a_fetch() -> None:
    asked, forgotten, also_forgotten = decode(text_request_log, LINES["fetch"]).events
    assert asked == {
        "row_kind": "event", "cluster": "c", "file": "log", "file_order": 0, "split": 0, "byte_offset": 0, "line_in_split": 1,
        "partition_row": 0, "time_ms": 1795234687602, "event_type": "FETCH", "api_version": 11, "correlation_id": 7,
        "client_id": "c", "connection": "10.0.0.1:9092-10.0.0.2:40000-3", "total_time_us": 1500,
        "request_queue_time_us": 250, "local_time_us": 1000, "remote_time_us": 0, "arrival_ms": 1795234687600, "request_error_code": 0,
        "in_request": True, "in_response": True, "forgotten": False, "topic": "d", "partition": 0, "error_code": 0,
        "replica_id": -1, "isolation_level": 0, "session_id": 9, "session_epoch": 260, "current_leader_epoch": 3,
        "fetch_offset": 297, "requester_log_start_offset": -1, "high_watermark": 298, "last_stable_offset": 298,
        "log_start_offset": 0, "preferred_read_replica": -1, "records_size": 72,
    }  # fmt: skip
    assert (forgotten["topic"], forgotten["partition"], also_forgotten["partition"]) == ("g", 4, 5)


@pytest.mark.parametrize(
    ("records", "size"),
    [
        ("null", None),
        ("[]", 0),
        ("FileRecords(file= /d/a,b (1)/t-0/0.log, start=365, end=574)", 209),
        ("FileRecords(size=77, file=/d/t-0/0.log, start=0, end=2147483647)", 77),
        ("MemoryRecords(size=12, buffer=java.nio.HeapByteBuffer[pos=0 lim=12 cap=12])", 12),
        ("LazyDownConversionRecords(size=31, underlying=FileRecords(size=40, file=/d/0.log, start=0, end=40), toMagic=1, "
         "firstOffset=3)", 31),
        ("org.apache.kafka.common.record.LazyDownConversionRecords@1b2c3d", None),
        ("[(record=DefaultRecord(offset=0, timestamp=15, key=0 bytes, value=3 bytes)), CORRUPTED]", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_size_of_a_record_set_is_known_where_its_text_states_it(
    records: str, size: int | None, partitions: int
) -> None:
    header = "partition_header={partition=%d,error_code=0,high_watermark=8,last_stable_offset=8,log_start_offset=0,"
    header += "aborted_transactions=[{producer_id=1,first_offset=2}]}"
    answered = ",".join(f"{{{header % partition},record_set={records}}}" for partition in range(partitions))
    response = (
        f"{{throttle_time_ms=0,error_code=0,session_id=9,responses=[{{topic=d,partition_responses=[{answered}]}}]}}"
    )
    request = FETCH.replace("current_leader_epoch=3,", "").replace(",rack_id=", "").replace("session_epoch", "epoch")
    found = [row for row in rows(line("FETCH", 8, request, response)) if row["in_response"]]
    assert [row.get("records_size") for row in found] == [size] * partitions
    assert [row["high_watermark"] for row in found] == [8] * partitions


PRODUCED = [(int(version), answered) for api, version, _, _, answered in PRINTED if api == "PRODUCE"]


@pytest.mark.parametrize(("version", "answered"), PRODUCED)
def test_what_leaders_acknowledged_becomes_rows(version: int, answered: str) -> None:
    """Each partition of these answers has its own base offset, so that each is a run."""
    decoded = decode(text_request_log, line("PRODUCE", version, "{acks=-1,timeout=8000,numPartitions=4}", answered))
    assert decoded.outcomes == [LineOutcome.EVENT]
    answers = [
        (topic["topic"], answer["partition"], -1, None, [answer["base_offset"]], answer.get("log_start_offset"))
        for topic in plain(answered)["responses"]
        for answer in topic["partition_responses"]
        if answer["error_code"] == 0
    ]
    names = ("topic", "partition", "acks", "transactional_id", "base_offsets", "log_start_offset")
    assert [tuple(event.get(name) for name in names) for event in decoded.events] == answers


@pytest.mark.parametrize(
    ("harmed", "number"),
    [
        ("acks=-1", "acks=2147483648"),
        ("partition=0", "partition=-2147483649"),
        ("base_offset=", "base_offset=9223372036854775808"),
    ],
)
def test_a_number_that_no_column_can_hold_costs_that_line_only(harmed: str, number: str) -> None:
    answered = next(text for version, text in PRODUCED if version == 7)
    whole = line("PRODUCE", 7, "{acks=-1,timeout=8000,numPartitions=4}", answered)
    broken = re.sub(rf"{re.escape(harmed)}\d*", number, whole, count=1)
    assert broken != whole
    decoded = decode(text_request_log, broken, whole)
    assert decoded.outcomes == [LineOutcome.QUARANTINED, LineOutcome.EVENT]
    assert decoded.quarantined == [(1, "a number is out of its range")]
    offsets = [event["base_offsets"] for event in decode(text_request_log, whole).events]
    assert [event["base_offsets"] for event in decoded.events] == offsets != []


def test_produce_is_counted_with_its_partitions_and_their_errors() -> None:
    answered = next(text for version, text in PRODUCED if version == 7)
    quiet = line("PRODUCE", 7, "{acks=1,timeout=8000,numPartitions=4}", answered)
    verbose = line("PRODUCE", 7, "{acks=1,timeout=8000,partitionSizes=[t.0-0=78,t.0-1=8,t.1-0=7,t.1-1=9]}", answered)
    unanswered = line("PRODUCE", 7, "{acks=0,timeout=8000,numPartitions=1}", "")
    of_sizes = line("PRODUCE", 7, "{acks=0,timeout=8000,partitionSizes=[t.0-0=78,t.0-1=8]}", "")
    file, sink = place()
    decoder = text_request_log.TextRequestLogDecoder(file, sink)
    for text in (quiet, verbose, unanswered, of_sizes):
        assert decoder.line(text.encode(), 0, 1) == LineOutcome.EVENT
    sink.finish()
    codes = [f"PRODUCE:{code}" for code in re.findall(r"error_code=(\d+)", answered)]
    assert decoder.counts.requests == {"PRODUCE": 4}
    assert decoder.counts.partition_rows == {"PRODUCE": 4 + 4 + 1 + 2}
    assert decoder.counts.error_codes == {code: 2 * codes.count(code) for code in codes}


@pytest.mark.parametrize("partitions", [produce.MOST_PARTITIONS + 1, 2147483647, 10**18])
def test_a_printed_number_of_partitions_takes_no_memory(partitions: int) -> None:
    broken = line("PRODUCE", 7, f"{{acks=0,timeout=8000,numPartitions={partitions}}}", "")
    decoded = decode(text_request_log, broken, broken.replace(str(partitions), "1"))
    assert decoded.outcomes == [LineOutcome.QUARANTINED, LineOutcome.EVENT]
    assert decoded.quarantined == [(1, "a number is out of its range")]


def place() -> tuple[CaptureFile, RowSink]:
    file = CaptureFile(path="log", uri="log", kind="request-log-text", cluster="c", size=0)
    return file, RowSink(file, split=0)


def test_a_request_without_response_has_rows_as_asked() -> None:
    [row] = rows(line("STOP_REPLICA", 0, STOP, ""))
    assert (row["in_request"], row["in_response"], row.get("error_code")) == (True, False, None)


def test_the_end_names_the_software_of_the_client() -> None:
    for conversions in ("", ",temporaryMemoryBytes:81,messageConversionsTime:0.1"):
        client = ",clientInformation:ClientInformation(softwareName=apache-kafka-java, softwareVersion=2.5.1)"
        [row] = rows(line("STOP_REPLICA", 0, STOP, STOPPED, tail=TAIL + client + conversions))
        assert (row["software_name"], row["software_version"]) == ("apache-kafka-java", "2.5.1")


@pytest.mark.parametrize("principal", ["User:CN=a,OU=b;x={y}", "User:a from connection b", "User:listener"])
def test_a_principal_may_hold_any_sign(principal: str) -> None:
    [row] = rows(line("STOP_REPLICA", 0, STOP, STOPPED, tail=TAIL.replace("User:ANONYMOUS", principal)))
    assert row["connection"] == "10.0.0.1:9092-10.0.0.2:40000-3"


def test_topics_whose_names_hold_commas_cannot_be_distinguished_from_more_topics() -> None:
    asked, answered = "{topic_names=[a,b],timeout_ms=1}", "{throttle_time_ms=0,responses=[{name=%s,error_code=3}%s]}"
    two = rows(line("DELETE_TOPICS", 1, asked, answered % ("a", ",{name=b,error_code=3}")))
    assert [(row["topic"], row["error_code"]) for row in two] == [("a", 3), ("b", 3)]
    reason = quarantine_reason(text_request_log, line("DELETE_TOPICS", 1, asked, answered % ("a,b", "")))
    assert reason == "the response is not one of DELETE_TOPICS 1 as text, or ambiguous"


def test_a_client_without_id_has_none() -> None:
    [row] = rows(line("STOP_REPLICA", 0, STOP, STOPPED, client="null"))
    assert "client_id" not in row
    [row] = rows(line("STOP_REPLICA", 0, STOP, STOPPED, client=""))
    assert row["client_id"] == ""


HARMLESS = [
    "a,b", "{x}", "}", "]", "[1,2]", "a=b", '"q"', "'", "\\", "response:{", ",response:{", "},response:{", " -- {", "b) -- {y",
    " from connection ", "x,y=z", ",,", "]}]}", "}}}}}}", "(kafka.request.logger)", "\u00e4\u20ac", " ", "null,x", ";totalTime:1",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_strings_that_clients_choose_are_read_as_they_are(text: str) -> None:
    [row] = rows(line("STOP_REPLICA", 0, STOP, STOPPED, client=text))
    assert row["client_id"] == text
    found = rows(line("OFFSET_COMMIT", 4, COMMIT.replace("group_id=g", f"group_id={text}"), COMMITTED))
    assert {row["group_id"] for row in found} == {text}
    found = rows(line("OFFSET_COMMIT", 4, COMMIT.replace("member_id=m", f"member_id={text}"), COMMITTED))
    assert {row["member_id"] for row in found} == {text}


@pytest.mark.parametrize("text", HARMLESS)
def test_an_odd_string_at_the_end_of_a_struct_is_read_past_or_refused(text: str) -> None:
    expected = rows(LINES["commit"])
    for before in ("metadata=}", "metadata=null"):
        decoded = decode(
            text_request_log,
            LINES["commit"].replace(
                before, before.replace("null", "").rstrip("}") + text + ("}" if before[-1] == "}" else "")
            ),
        )
        if decoded.outcomes == [LineOutcome.EVENT]:
            assert without_place(decoded) == expected
        else:
            assert AMBIGUOUS.fullmatch(decoded.quarantined[0][1])


FAKE_TAIL = TAIL.replace("ANONYMOUS", "ANONYMOUS").replace("10.0.0.2", "6.6.6.6")
DECEITFUL = [
    "x,generation_id=9", "x,member_id=evil", "x,topics=[]", "x,topics=[{topic=u,partitions=[]}]", "{group_id=x",
    f"g,generation_id=1,member_id=m,retention_time=-1,topics=[]}},response:{COMMITTED}{FAKE_TAIL}",
    f"x, correlationId=5) -- {COMMIT},response:{COMMITTED}{FAKE_TAIL}",
    f"x, correlationId=5) -- {COMMIT},response:{COMMITTED}{FAKE_TAIL}{LOGGER}",
    f"x, correlationId=5) -- {COMMIT},response:{COMMITTED}{FAKE_TAIL.removesuffix('ANONYMOUS,listener:PLAINTEXT')}",
    "x, correlationId=5) -- {group_id=evil", "x, correlationId=5) -- {group_id=evil,generation_id=1,member_id=",
]  # fmt: skip


@pytest.mark.parametrize("text", DECEITFUL)
@pytest.mark.parametrize("field", ["client", "group_id=g", "member_id=m", "metadata=}", "topic=u", "User:ANONYMOUS"])
def test_a_string_that_looks_like_fields_is_never_taken_for_them(text: str, field: str) -> None:
    """The line is refused, or read as what was asked."""
    if field == "client":
        deceiving = line("OFFSET_COMMIT", 4, COMMIT, COMMITTED, client=text)
    else:
        chosen = field.removesuffix("}").removesuffix("g").removesuffix("m").removesuffix("u")
        deceiving = LINES["commit"].replace(field, chosen + text + field[len(field.rstrip("}")) :])
    decoded = decode(text_request_log, deceiving)
    if decoded.outcomes == [LineOutcome.QUARANTINED]:
        assert AMBIGUOUS.fullmatch(decoded.quarantined[0][1])
        return
    for row in without_place(decoded):
        assert (row["offset"], row["correlation_id"], row["generation_id"]) in ((30, 7, 1), (31, 7, 1))
        assert row["connection"] == "10.0.0.1:9092-10.0.0.2:40000-3"
        assert row["client_id"] == (text if field == "client" else "c")
        assert row["topic"] == (text if field == "topic=u" else "u")
        assert row["member_id"] == (text if field == "member_id=m" else "m")


@pytest.mark.parametrize("name", LINES)
def test_a_line_cut_anywhere_is_put_aside(name: str) -> None:
    whole = LINES[name].encode()
    mark = whole.index(b"Completed request:") + len(text_request_log.MARK)
    for end in range(mark, len(whole)):
        decoder = text_request_log.TextRequestLogDecoder(*place())
        assert decoder.line(whole, 0, 1) == LineOutcome.EVENT
        assert decoder.line(whole[:end], len(whole), 2) == LineOutcome.QUARANTINED, whole[:end]
        assert sum(decoder.counts.requests.values()) == 1


def test_a_layout_without_a_logger_is_whole() -> None:
    decoder = text_request_log.TextRequestLogDecoder(*place())
    for name, line in LINES.items():
        for client in (
            "softwareName=apache-kafka-java, softwareVersion=2.7.2",
            "softwareName=librdkafka, softwareVersion=1.6.1",
        ):
            whole = re.sub(r" \([\w.]+\)$", f",clientInformation:ClientInformation({client})", line)
            assert decoder.line(whole.encode(), 0, 1) == LineOutcome.EVENT, name


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_a_line_with_a_byte_missing_never_fails(name: str) -> None:
    whole = LINES[name].encode()
    for at in range(len(whole)):
        decode(text_request_log, whole[:at] + whole[at + 1 :])
        decode(text_request_log, whole[:at] + b"\xff" + whole[at + 1 :])


def test_a_carriage_return_ends_a_line_too() -> None:
    assert decode(text_request_log, LINES["fetch"] + "\r").outcomes == [LineOutcome.EVENT]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line("FETCH", 99, FETCH, FETCHED), "unknown version 99 of FETCH: 18 is the highest known"),
        (line("FETCH", 10, FETCH, FETCHED), "the request is not one of FETCH 10 as text, or ambiguous"),
        (line("FETCH", 11, FETCH, FETCHED.replace("error_code=0,session", "session")),
         "the response is not one of FETCH 11 as text, or ambiguous"),
        (line("STOP_REPLICA", 0, STOP.replace("partition=0", "partition=1-1"), STOPPED),
         "garbled: what should be a number is none"),
        (LINES["fetch"].replace("2026-11-21", "2026-99-21"), "no readable timestamp"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_put_aside_with_the_reason(text: str, reason: str) -> None:
    assert quarantine_reason(text_request_log, text) == reason


def test_a_number_that_its_column_cannot_hold_is_put_aside() -> None:
    text = line("STOP_REPLICA", 0, STOP.replace("partition=0", "partition=99999999999"), STOPPED)
    decoded = decode(text_request_log, text, LINES["stop replica"])
    assert [(number, reason.partition(":")[0]) for number, reason in decoded.quarantined] == [(1, "unfit value")]
    assert {event["line_in_split"] for event in decoded.events} == {2}


def test_other_requests_are_counted_and_other_lines_ignored() -> None:
    assert ignored(text_request_log, line("HEARTBEAT", 3, "{group_id=g}", "{error_code=0}"))
    assert ignored(
        text_request_log, "[2026-11-21 04:18:07,602] TRACE Processor 1 received request: x (kafka.network.R)"
    )
    assert ignored(text_request_log, "\tat kafka.server.KafkaApis.handle(KafkaApis.scala:100)")


def hostile_lines() -> Iterator[str]:
    for unit in (
        "}",
        "{",
        ",",
        "]}",
        "},{",
        ",topic=",
        ", correlationId=1) -- {",
        " from connection ",
        ",response:{",
        "{a=",
    ):
        text = unit * (200_000 // len(unit))
        yield line("OFFSET_COMMIT", 4, COMMIT, COMMITTED, client=text)
        yield line("OFFSET_COMMIT", 4, COMMIT.replace("group_id=g", f"group_id={text}"), COMMITTED)
        yield line("OFFSET_COMMIT", 4, COMMIT.replace("metadata=}", f"metadata={text}}}"), COMMITTED)
        yield line("FETCH", 11, FETCH.replace("topic=d", f"topic={text}"), FETCHED)
        yield line("FETCH", 11, FETCH, FETCHED.replace("FileRecords", text))
        yield line("STOP_REPLICA", 0, STOP, STOPPED, tail=TAIL.replace("User:ANONYMOUS", text))
        yield line("HEARTBEAT", 0, STOP, STOPPED, tail=TAIL.replace("User:ANONYMOUS", text))


def test_time_is_linear_in_the_length_of_a_hostile_line() -> None:
    for text in hostile_lines():
        started = time.process_time()
        decode(text_request_log, text)
        assert time.process_time() - started < 2, text[:300]


def test_text_request_logs_are_recognised_by_their_lines() -> None:
    assert text_request_log.recognise("\n".join(LINES.values()).encode())
    assert not text_request_log.recognise(json_request("FETCH", 11, {}, {}).encode())
    assert not text_request_log.recognise(
        b"\n".join([LINES["fetch"].encode(), b"[2026-11-21 04:18:07,602] INFO x (y)"] * 2 + [b"z"])
    )
