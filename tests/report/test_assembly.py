"""An audit's tables on Spark become one report on the driver."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit.events.schema import EVENTS
from epochaudit.events.views import REF_FIELDS
from epochaudit.inventory.inventory import FileRead, NodeRead
from epochaudit.report.assembly import report_of, rule_results
from epochaudit.report.contents import Report
from epochaudit.rules.catalogue import selected
from epochaudit.rules.judge import Tally
from epochaudit.sources.files.capture import Capture, CaptureFile, Node

REQUESTS = ("first line\n", "the stale request\n")
SPLITS = (
    "cluster string, file string, split int, lines bigint, event_lines bigint, ignored_lines bigint, "
    "quarantined_lines bigint, requests map<string, bigint>, partition_rows map<string, bigint>, "
    "error_codes map<string, bigint>, bytes bigint, rows bigint, first_time_ms bigint, last_time_ms bigint"
)
UNTOLD = (
    "topic_id",
    "partition",
    "leader_epoch",
    "client_id",
    "group_id",
    "correlation_id",
    "reason",
    "first_offset",
    "last_offset",
)


def event(source: str, event_type: str, **columns: Any) -> dict[str, Any]:
    place = {"file": "f", "file_order": 0, "byte_offset": 0, "split": 0, "line_in_split": 1, "partition_row": 0}
    return {"cluster": "c", "node": 2, "source": source, "event_type": event_type, **place, **columns}


def rows(spark: SparkSession, schema: Any, given: list[dict[str, Any]]) -> DataFrame:
    names = spark.createDataFrame([], schema).columns
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in given], schema)


@pytest.fixture(scope="module")
def assembled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    root: Path = tmp_path_factory.mktemp("capture")
    (root / "kafka-request.log").write_text("".join(REQUESTS))
    files = (
        CaptureFile(
            "kafka-request.log", str(root / "kafka-request.log"), "request-log-json", "c", 29, 2, "request_log"
        ),
        CaptureFile("empty.log", str(root / "empty.log"), "server-log", "c", 0, 2, "server_log"),
        CaptureFile("notes.txt", str(root / "notes.txt"), "unknown", "c", 5),
        CaptureFile(
            "copy.log", str(root / "copy.log"), "server-log", "c", 0, 2, "server_log", duplicate_of="empty.log"
        ),
    )
    events = [
        event("request_log", "FETCH", partition=0, in_request=True, error_code=0),
        event("request_log", "FETCH", partition=1, in_request=False, error_code=74),
        event("request_log", "FETCH"),
        event("server_log", "KAFKA_VERSION", name="kafka", value="3.9.1", byte_offset=10),
        event("server_log", "KAFKA_VERSION", name="kafka", value="3.8.0", byte_offset=5),
        event("server_log", "CONFIG_VALUE", name="process.roles", value="[broker]"),
        event("metadata_log", "TOPIC_RECORD", node=None),
        event("metadata_log", "PARTITION_RECORD", node=None, replicas=[2, 3]),
    ]
    counts = {"ignored_lines": 0, "quarantined_lines": 0, "bytes": 29, "rows": 1}
    split = {"cluster": "c", "file": "kafka-request.log", **counts}
    produced = {"partition_rows": {"PRODUCE": 2}, "error_codes": {"PRODUCE:0": 1, "PRODUCE:6": 1}}
    splits = [
        {**split, "split": 0, "lines": 1, "event_lines": 1, "requests": {"FETCH": 3, "PRODUCE": 1}, **produced},
        {**split, "split": 1, "lines": 1, "event_lines": 1, "requests": {"FETCH": 1}},
    ]
    place = dict(zip(REF_FIELDS, (2, "kafka-request.log", 1, len(REQUESTS[0]), 1, 0), strict=True))
    finding = dict.fromkeys(UNTOLD) | {
        "cluster": "c",
        "node": 2,
        "topic": "t",
        "rule": "SR-01",
        "verdict": "violation",
        "severity": "critical",
        "expected": "74",
        "observed": "0",
        "because": ["why"],
        "evidence": [{"role": "the request", "place": place}],
    }
    audit = SimpleNamespace(
        captures=(Capture(str(root), "c", files, (Node(2),)),),
        rules=selected(["SR-01"]),
        tallies=(Tally("SR-01", {"violation": 1, "unverifiable": 2}, {"no log": 2}),),
        events=rows(spark, EVENTS, events),
        splits=rows(spark, SPLITS, splits),
        listed=lambda: [finding],
        tuned=nullcontext,
        repeated=list,
        left_out={"IS-06": 2},
        failures={},
    )
    return report_of(cast(Any, audit))


def test_every_file_is_listed_with_the_sums_of_its_splits(assembled: Report) -> None:
    assert assembled.inventory.files == (
        FileRead("empty.log", "server-log", 2, 0, 0, 0, 0, 0, "c"),
        FileRead("kafka-request.log", "request-log-json", 2, 29, 2, 2, 0, 0, "c"),
    )


def test_counts_by_api_and_record_come_from_one_aggregate(assembled: Report) -> None:
    read = assembled.inventory
    assert read.requests == {"FETCH": 4, "PRODUCE": 1}
    assert read.partition_rows == {"FETCH": 1, "PRODUCE": 2}
    assert read.error_codes == {"FETCH": {0: 1, 74: 1}, "PRODUCE": {0: 1, 6: 1}}
    assert read.metadata_records == {"PARTITION_RECORD": 1, "TOPIC_RECORD": 1}
    assert read.left_out == {"duplicate": 1, "unknown": 1}
    assert read.nodes == (NodeRead("c", 2, ("broker",), ("3.8.0", "3.9.1"), ("state_change_log",)),)
    assert read.missing_nodes == (("c", 3),)


def test_rules_carry_their_tallies(assembled: Report) -> None:
    (rule,) = assembled.rules
    assert (rule.rule, rule.count("violation"), rule.count("pass")) == ("SR-01", 1, 0)
    assert rule.unverifiable_reasons == {"no log": 2}


def test_rules_carry_what_to_do_about_their_findings() -> None:
    rules = selected(["SR-01"])
    (result,) = rule_results(rules, map(Tally.of_none, rules))
    assert result.what_to_do == rules[0].what_to_do != ""


def test_a_findings_line_is_read_back_with_its_number_in_the_whole_file(assembled: Report) -> None:
    (line,) = assembled.findings[0].evidence
    assert (line.file, line.line, line.text) == ("kafka-request.log", 2, "the stale request")
