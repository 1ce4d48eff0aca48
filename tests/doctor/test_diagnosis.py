"""What a capture holds shows what it lacks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from epochaudit.doctor.diagnosis import (
    JUDGED,
    NOT,
    PARTLY,
    Diagnosis,
    Gap,
    diagnosis,
)
from epochaudit.doctor.page import RAISE, render, render_json
from epochaudit.inventory.inventory import (
    FileRead,
    Inventory,
    Missing,
    NodeRead,
    Present,
    event_counts,
    event_groups,
    named_nodes,
)
from epochaudit.losses.removal import Segments
from epochaudit.report.contents import RuleResult
from epochaudit.sources.files.capture import Capture, CaptureFile
from tests.json_schemas import complaints
from tests.replay.histories import event_rows

ALL_SOURCES = ("request_log", "state_change_log", "server_log")
FULL: Present = {("c", node): {source: {"EPOCH_CACHE_X"} for source in ALL_SOURCES} for node in (1, 2)}


def diagnosed(
    *paths: str,
    present: Present = FULL,
    missing: tuple[int, ...] = (),
    missing_logs: tuple[str, ...] = (),
    spans: dict[str, tuple[int, int]] | None = None,
    rules: tuple[RuleResult, ...] = (),
    versions: tuple[str, ...] = ("3.9.1",),
    **file: object,
) -> Diagnosis:
    files = tuple(
        CaptureFile(path, path, "request-log-json", "c", 100, 1, "request_log", **file)  # type: ignore[arg-type]
        for path in paths
    )
    inventory = Inventory(
        clusters=("c",),
        nodes=(NodeRead("c", 1, ("broker",), versions), NodeRead("c", 2, ("broker",), versions, missing_logs)),
        missing=tuple(Missing("c", node, f"all logs of node {node}", "collect them") for node in missing),
        files=tuple(FileRead(path, "request-log-json", 1, 100, 7, 7, 0, 0) for path in paths),
    )
    splits = [
        {"cluster": "c", "file": path, "first_time_ms": first, "last_time_ms": last}
        for path, (first, last) in (spans or {}).items()
    ]
    return diagnosis([Capture("/x", "c", files, ())], inventory, rules, splits, present)


def gaps(found: Diagnosis) -> list[str]:
    return [gap.what for gap in found.gaps]


def test_full_evidence_has_no_gap_and_needs_no_logger() -> None:
    found = diagnosed("a/kafka-request.log")
    assert (gaps(found), found.loggers) == ([], ())


def test_missing_evidence_is_a_gap() -> None:
    assert gaps(diagnosed(missing=(3,))) == ["all logs of node 3 are missing"]


def test_a_log_that_a_node_lacks_has_its_logger_named() -> None:
    found = diagnosed(missing_logs=("state_change_log",))
    [logger] = found.loggers
    assert logger.log4j == "log4j.logger.state.change.logger=TRACE, stateChangeAppender"
    assert logger.log4j2.splitlines()[0] == "- name: state.change.logger"
    assert "    ref: StateChangeAppender" in logger.log4j2.splitlines()


@pytest.mark.parametrize(
    ("versions", "names"),
    [
        (("3.4.0",), ["kafka.server.epoch.LeaderEpochFileCache"]),
        (("3.4.0", "3.5.1"), ["org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache"]),
        (
            (),
            [
                "kafka.server.epoch.LeaderEpochFileCache",
                "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache",
            ],
        ),
    ],
)
def test_the_epoch_cache_is_named_as_the_release_names_it(versions: tuple[str, ...], names: list[str]) -> None:
    found = diagnosed(present={node: {source: {"FETCH"} for source in ALL_SOURCES} for node in FULL}, versions=versions)
    assert [logger.name for logger in found.loggers] == names
    assert ("the Kafka version of node 1 is not known" in gaps(found)) == (not versions)


def test_families_are_judged_partly_judged_or_not() -> None:
    def rule(rule: str, verdicts: dict[str, int], **reasons: int) -> RuleResult:
        return RuleResult(rule, rule, rule, "KIP-570", "high", verdicts, reasons)

    found = diagnosed(
        rules=(
            rule("SR-01", {"pass": 3}),
            rule("SR-02", {"fenced": 1}),
            rule("LI-01", {"pass": 1, "unverifiable": 3}, rare=1, often=2),
            rule("TR-01", {"unverifiable": 4}, often=4),
            rule("XX-01", {}),
        )
    )
    assert [(s.family, s.title, s.standing, s.rules, s.judged, s.unverifiable) for s in found.standings] == [
        ("SR", "StopReplica", JUDGED, 2, 4, 0),
        ("LI", "LeaderAndIsr", PARTLY, 1, 1, 3),
        ("TR", "truncation", NOT, 1, 0, 4),
        ("XX", "XX", NOT, 1, 0, 0),
    ]
    assert found.standings[1].reasons == (("often", 2), ("rare", 1))


def test_a_family_is_judged_partly_where_evidence_of_its_subjects_is_missing() -> None:
    rules = tuple(RuleResult(rule, rule, rule, "KIP-841", "high", {"pass": 1}) for rule in ("FF-01", "EP-05"))
    assert [s.standing for s in diagnosed(rules=rules).standings] == [JUDGED, JUDGED]
    assert [s.standing for s in diagnosed(rules=rules, missing=(3,)).standings] == [PARTLY, JUDGED]


def test_notes_tell_what_is_odd_about_a_file() -> None:
    assert diagnosed("a", duplicate_of="b").notes == ("a: its lines are all in b; it is not read",)
    assert diagnosed("a", envelope="cri", pattern="json").notes == ("a: lines are laid out as json in cri",)


def test_segments_that_would_tell_more_are_recommended() -> None:
    found = replace(diagnosed(), segments=(Segments("c", "orders", 3, 20, None), Segments("c", "bills", 0, 1, True)))
    page = " ".join(render(found).split())
    assert (
        "data segments of orders-3, where 20 records at most were truncated, and whether committed is not known" in page
    )
    assert "data segments of bills-0, where 1 record at most was lost" in page
    assert "`epochaudit collect` on each host of a replica takes the headers of their batches" in page
    document = json.loads(render_json(found))
    assert [one["partition"] for one in document["segments"]] == [3, 0]
    assert complaints("doctor", document) == []


def test_the_page_and_json_hold_it_all() -> None:
    found = diagnosed("a/kafka-request.log", missing=(3,), spans={"a/kafka-request.log": (0, 86_400_000)})
    page = render(found)
    assert "1 gap in the evidence" in page
    assert "all logs of node 3 are missing: collect them" in page
    assert "1970-01-01 00:00:00 to 1970-01-02 00:00:00" in " ".join(page.split())
    document = json.loads(render_json(found))
    assert complaints("doctor", document) == []
    assert [gap["node"] for gap in document["gaps"]] == [3]
    assert document["kinds"][0]["first_time"] == "1970-01-01T00:00:00.000"
    assert document["capture"]["clusters"] == ["c"]


def test_the_first_line_names_logs_that_no_node_has() -> None:
    found = diagnosed()
    assert "no node's" not in render(found).splitlines()[0]
    inventory = replace(found.inventory, absent_logs=("request_log", "state_change_log"))
    first = render(replace(found, inventory=inventory), width=200).splitlines()[0]
    assert first.endswith("; 0 gaps in the evidence; no node's request log or state-change.log is here")


def test_gaps_that_differ_in_the_node_only_are_one_line() -> None:
    found = diagnosed("a", present={}, versions=())
    assert [gap.node for gap in found.gaps[:2]] == [1, 2]
    other = Gap("c", 7, "a part of the request log of node 7 is missing", "look at node 7")
    page = " ".join(render(replace(found, gaps=(*found.gaps, other))).split())
    assert page.count("Kafka version of node") == 1
    assert "the Kafka version of nodes 1, 2 is not known: add the server.log of its last start" in page
    assert "a part of the request log of node 7 is missing: look at node 7" in page


def test_families_without_a_subject_are_one_line() -> None:
    rules = tuple(RuleResult(f"{family}-01", "n", "t", "KIP-320", "high") for family in ("SR", "LI"))
    page = " ".join(render(diagnosed(rules=rules)).split())
    assert "not, as the evidence has no subject of their rules: SR StopReplica, LI LeaderAndIsr" in page
    assert page.count("no subject") == 1


def test_lines_to_be_copied_are_never_wrapped() -> None:
    found = diagnosed(missing_logs=("request_log",), present={("c", 1): {"request_log": {"FETCH"}}})
    lines = render(found, width=60).splitlines()
    assert "    log4j.properties:  log4j.logger.kafka.request.logger=DEBUG, requestAppender" in lines
    assert f"    {RAISE} kafka.request.logger=DEBUG" in lines
    assert max(map(len, lines[: lines.index("What to log")])) <= 60


@pytest.mark.parametrize(("event", "is_kraft"), [("CONTROLLER_ELECTED", False), ("CONTROLLER_ACTIVE", True)])
def test_a_controller_that_zookeeper_elected_lacks_no_metadata_log(event: str, is_kraft: bool) -> None:
    present: Present = {("c", 1): {"server_log": {event}}}
    found = diagnosed()
    inventory = replace(found.inventory, nodes=(NodeRead("c", 1, ("controller",), ("3.9.1",)),))
    what = gaps(diagnosis([], inventory, (), (), present))
    assert ("no metadata log: what the controller committed can't be judged" in what) is is_kraft


def test_what_the_events_name(spark: SparkSession) -> None:
    common = {"event_id": 1, "cluster": "c", "file": "f", "file_order": 0, "byte_offset": 0, "split": 0,
              "line_in_split": 1, "partition_row": 0, "source": "request_log", "node": 1}  # fmt: skip
    rows = [
        {**common, "event_type": "UPDATE_METADATA", "live_brokers": [1, 2], "leader": 4, "correlation_id": 1, "connection": "x"},
        {**common, "event_type": "LEADER_AND_ISR", "replicas": [1, 3], "leader": -1, "correlation_id": 4, "connection": "x"},
        {**common, "event_type": "FETCH", "replica_id": 5, "correlation_id": 9, "client_id": "broker-5-fetcher-0", "connection": "y"},
        {**common, "event_type": "FETCH", "replica_id": -1, "correlation_id": 1, "client_id": "app", "connection": "z"},
        {**common, "event_type": "FETCH", "replica_id": -1, "correlation_id": 9, "client_id": "app", "connection": "z"},
    ]  # fmt: skip
    events = event_rows(spark, rows)
    assert {row["named"] for row in named_nodes(events).collect()} == {1, 2, 3, 4, 5}
    counts = event_counts(row.asDict(recursive=True) for row in event_groups(events).collect())
    assert counts.present == {("c", 1): {"request_log": {"UPDATE_METADATA", "LEADER_AND_ISR", "FETCH"}}}
