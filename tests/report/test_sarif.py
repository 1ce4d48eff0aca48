"""SARIF: what code-scanning services rely on, and that text from logs stays text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

from epochaudit.findings.finding import Finding
from epochaudit.report import sarif
from epochaudit.report.contents import Acceptance, Report
from epochaudit.rules.rule import EXPOSED, FENCED, UNVERIFIABLE


def run_of(report: Report) -> dict[str, Any]:
    (run,) = json.loads(sarif.render(report))["runs"]
    return run


def test_a_finding_is_a_result_at_its_own_line_with_the_proof_beside_it(report: Report, finding: Finding) -> None:
    run = run_of(report)
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "SR-01"
    assert (result["kind"], result["level"], result["rank"]) == ("fail", "error", 100)
    own, (proof,) = result["locations"][0]["physicalLocation"], result["relatedLocations"]
    assert own["artifactLocation"] == {"uri": "broker-2/kafka-request.log", "uriBaseId": "CAPTURE"}
    assert own["region"]["startLine"] == 96
    assert own["region"]["snippet"]["text"] == finding.evidence[0].text
    assert proof["physicalLocation"]["region"]["startLine"] == 264
    assert result["partialFingerprints"] == {"epochauditFindingId/v1": finding.finding_id}
    assert "broker 2 had installed leader epoch 3" in result["message"]["text"]


def test_levels_and_kinds_follow_the_verdict(report: Report, finding: Finding) -> None:
    found = tuple(replace(finding, verdict=verdict) for verdict in (EXPOSED, FENCED, UNVERIFIABLE))
    levels = [(one["kind"], one["level"]) for one in run_of(replace(report, findings=found))["results"]]
    assert levels == [("fail", "warning"), ("pass", "none"), ("open", "none")]


def test_a_consequence_is_a_result_that_names_its_cause(report: Report, finding: Finding) -> None:
    effect = replace(finding, finding_id="e" * 24, rule="TI-01")
    root, caused = run_of(replace(report, findings=(replace(finding, consequences=(effect,)),)))["results"]
    assert root["properties"]["caused_by"] is None
    assert caused["properties"]["caused_by"] == finding.finding_id
    assert f"Caused by SR-01 {finding.finding_id}" in caused["message"]["text"]


def test_missing_logs_are_notifications(lacking: Report) -> None:
    (invocation,) = run_of(lacking)["invocations"]
    texts = [one["message"]["text"] for one in invocation["toolExecutionNotifications"] if one["level"] == "warning"]
    assert texts[-2:] == [
        "evidence of west is missing: all logs of node 3, which others name (about 4,100 answers)",
        "evidence of west is missing: state-change.log of node 2",
    ]
    assert not invocation["properties"]["evidenceComplete"]


def test_what_could_not_be_judged_is_a_notification(report: Report) -> None:
    incomplete = replace(report, failures={"FF-01": "it broke"}, left_out={"SR-01": 7})
    (invocation,) = run_of(incomplete)["invocations"]
    assert invocation["executionSuccessful"] is False
    texts = {one["message"]["text"]: one["level"] for one in invocation["toolExecutionNotifications"]}
    assert texts == {
        "2 of SR-01 could not be judged: no state-change.log for the broker": "note",
        "1 of SR-01 could not be judged: the response was not logged": "note",
        "7 more findings are counted but not listed": "warning",
        "the rule failed: it broke": "error",
        "1 lines could not be read and are in quarantine": "warning",
    }


def test_an_accepted_finding_is_suppressed(report: Report, finding: Finding) -> None:
    accepted = {finding.finding_id: Acceptance("a drill", "storage", date(2027, 2, 20))}
    (result,) = run_of(replace(report, accepted=accepted))["results"]
    assert result["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "a drill (storage, until 2027-02-20)"}
    ]


def test_text_of_logs_becomes_no_link_no_escape_sequence_and_no_other_path(report: Report, finding: Finding) -> None:
    line = replace(finding.evidence[0], file="broker 2/a#b?c%.log", text="\x1b[2Jred")
    hostile = replace(finding, client="[here](https://evil.example)\x1b]0;", evidence=(line,), topic="‮rm")
    (result,) = run_of(replace(report, findings=(hostile,)))["results"]
    assert "](" not in result["message"]["text"]
    assert "\\x1b]0;" in result["message"]["text"]
    assert "\\u202erm" in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "broker%202/a%23b%3Fc%25.log"
    assert place["region"]["snippet"]["text"] == "\\x1b[2Jred"


def test_a_record_of_a_binary_file_is_placed_by_its_byte(report: Report, finding: Finding) -> None:
    line = replace(finding.evidence[0], line=None, file="s3://logs/west/0.log")
    (result,) = run_of(replace(report, findings=(replace(finding, evidence=(line,)),)))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "s3://logs/west/0.log"}
    assert place["region"]["byteOffset"] == 51234
    assert "startLine" not in place["region"]
