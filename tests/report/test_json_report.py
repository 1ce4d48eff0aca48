"""The JSON report: the fields that other programs rely on."""

from __future__ import annotations

import json
from dataclasses import replace

from epochaudit.findings.finding import Finding
from epochaudit.report import json_report
from epochaudit.report.contents import Report


def test_the_document_has_the_fields_of_its_schema_version(report: Report) -> None:
    document = json.loads(json_report.render(report))
    assert list(document) == [
        "schema_version",
        "tool",
        "headline",
        "missing_writes",
        "capture",
        "rules",
        "findings",
        "left_out",
        "repeated",
        "loops",
        "unsettled",
        "settled_until",
        "late_files",
        "baseline",
        "losses",
        "lost_writes",
        "undelivered",
        "stuck",
        "truncations",
    ]
    assert document["schema_version"] == 1
    assert document["tool"] == {"name": "epochaudit", "version": "0.1.0"}
    assert list(document["capture"]) == [
        *("clusters", "first_time", "last_time", "nodes", "bytes", "lines", "events", "ignored", "quarantined"),
        *("files", "requests", "partition_rows", "error_codes", "metadata_records", "missing_nodes"),
        *("complete", "missing", "absent_logs", "unknown_files", "migrations", "light_request_logs"),
    ]
    assert list(document["findings"][0]) == [
        *(
            "finding_id",
            "rule",
            "verdict",
            "severity",
            "cluster",
            "node",
            "topic",
            "topic_id",
            "partition",
            "leader_epoch",
        ),
        *("client", "group", "correlation_id", "expected", "observed", "because", "evidence"),
        *("first_offset", "last_offset", "accepted", "known_since", "consequences"),
    ]
    assert list(document["findings"][0]["evidence"][0]) == [
        "role",
        "node",
        "file",
        "line",
        "byte_offset",
        "time",
        "text",
    ]


def test_findings_that_are_too_many_to_be_listed_are_counted(report: Report) -> None:
    assert json_report.document(report)["left_out"] == {}
    assert json_report.document(replace(report, left_out={"SR-01": 990_000}))["left_out"] == {"SR-01": 990_000}


def test_missing_evidence_is_listed(lacking: Report) -> None:
    capture = json_report.document(lacking)["capture"]
    assert [node["missing_logs"] for node in capture["nodes"]] == [[], ["request log", "state-change.log"]]
    assert not capture["complete"]
    assert capture["missing"][0] == {
        "cluster": "west", "node": 3, "what": "all logs of node 3, which others name", "remedy": "collect its log directory",
        "answers": 4_100, "as_others": False, "logs": ["request log", "server.log"],
    }  # fmt: skip
    assert capture["absent_logs"] == ["request log"]
    assert capture["missing_nodes"] == [{"cluster": "west", "node": 3}]


def test_losses_are_listed_beside_the_findings(report: Report, finding: Finding) -> None:
    lost = replace(finding, rule="TR-06", first_offset=10, last_offset=29)
    (loss,) = json.loads(json_report.render(replace(report, findings=(lost,))))["losses"]
    assert (loss["topic"], loss["first_offset"], loss["last_offset"], loss["records"]) == ("orders", 10, 29, 20)
    assert loss["finding_ids"] == [lost.finding_id]


def test_capture_totals_are_sums_over_the_files(report: Report) -> None:
    capture = json_report.document(report)["capture"]
    assert capture["bytes"] == 2_550_000
    assert (capture["lines"], capture["events"], capture["ignored"], capture["quarantined"]) == (2_400, 2_200, 199, 1)
    assert capture["nodes"][1] == {
        "cluster": "west",
        "node": 2,
        "roles": ["broker"],
        "kafka": None,
        "missing_logs": [],
    }
    assert capture["error_codes"]["FETCH"] == {"0": 3_999, "74": 1}
    assert capture["files"][1] == {
        "cluster": "west",
        "path": "broker-2/state-change.log",
        "kind": "state-change-log",
        "node": 2,
        "lines": 400,
        "events": 300,
        "ignored": 99,
        "quarantined": 1,
    }


def test_every_rule_is_listed_with_all_verdicts(report: Report) -> None:
    rules = json_report.document(report)["rules"]
    assert [rule["rule"] for rule in rules] == ["FF-01", "SR-01", "TI-01"]
    assert rules[2] == {
        "rule": "TI-01",
        "name": "wrong-topic-id-accepted",
        "pass": 0,
        "fenced": 0,
        "violation": 0,
        "exposed": 0,
        "unverifiable": 0,
        "unverifiable_reasons": {},
    }


def test_log_text_reaches_the_reader_unchanged_and_the_terminal_never(report: Report, finding: Finding) -> None:
    evil = "\x1b[2J\u202e\x9b31m"
    rendered = json_report.render(replace(report, findings=(replace(finding, observed=evil),)))
    assert rendered.isascii()
    assert "\x1b" not in rendered
    assert json.loads(rendered)["findings"][0]["observed"] == evil
