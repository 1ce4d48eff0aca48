"""JUnit XML: a rule fails, is skipped or passes as the exit code would have it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from xml.etree.ElementTree import Element, fromstring

import junitparser
import pytest

from epochaudit.findings.finding import Finding
from epochaudit.report import junit
from epochaudit.report.contents import Acceptance, Report, RuleResult
from epochaudit.rules.rule import EXPOSED, UNVERIFIABLE


def suite_of(report: Report, fail_on: str = "exposed") -> Element:
    suites = fromstring(junit.render(report, fail_on=fail_on).encode())  # noqa: S314  our own document
    (suite,) = suites
    assert suites.attrib == suite.attrib
    return suite


EVIDENCE = "evidence is complete"


def outcomes(suite: Element) -> dict[str, str]:
    kinds = ("failure", "error", "skipped")
    cases = [case for case in suite.findall("testcase") if case.attrib["name"] != EVIDENCE]
    return {case.attrib["name"][:5]: next((k for k in kinds if case.find(k) is not None), "pass") for case in cases}


def test_rules_fail_pass_or_are_skipped(report: Report) -> None:
    suite = suite_of(report)
    assert outcomes(suite) == {"FF-01": "pass", "SR-01": "failure", "TI-01": "skipped"}
    assert {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "0", "skipped": "1",
    }  # fmt: skip


def test_a_failure_holds_the_finding_with_its_lines(report: Report, finding: Finding) -> None:
    failure = suite_of(report).find("testcase/failure")
    assert failure is not None
    assert failure.attrib["type"] == "violation"
    text = failure.text or ""
    assert finding.finding_id in text
    assert "orders-0, node 2, leader epoch 2, correlation id 17, cluster west" in text
    assert "broker-2/kafka-request.log:96 the StopReplica request and its answer" in text


def test_a_parser_of_junit_reads_what_a_ci_server_shows(lacking: Report) -> None:
    document = junitparser.JUnitXml.fromstring(junit.render(replace(lacking, failures={"FF-01": "it broke"})).encode())
    assert isinstance(document, junitparser.JUnitXml)  # the element `testsuites`
    (suite,) = document
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (4, 1, 1, 2)
    shown = {case.name: [type(result).__name__ for result in case.result] for case in suite}
    assert shown == {
        "FF-01 stale-fetch-served": ["Error"],
        "SR-01 stale-stop-replica-accepted": ["Failure"],
        "TI-01 wrong-topic-id-accepted": ["Skipped"],
        EVIDENCE: ["Skipped"],
    }
    assert {one.name: one.value for one in suite.properties()}["clusters"] == "west"
    before = (suite.tests, suite.failures, suite.errors, suite.skipped)
    document.update_statistics()  # the counts are those of the cases
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == before


def test_missing_evidence_is_a_case_of_its_own_that_is_skipped(report: Report, lacking: Report) -> None:
    complete, incomplete = (suite_of(one).find(f"testcase[@name='{EVIDENCE}']") for one in (report, lacking))
    assert complete is not None
    assert complete.find("skipped") is None
    assert incomplete is not None
    skipped = incomplete.find("skipped")
    assert skipped is not None
    assert "evidence is missing: all logs of node 3" in skipped.attrib["message"]


def test_evidence_is_not_complete_where_nothing_or_no_leader_epoch_was_judged(report: Report) -> None:
    def reason(of: Report) -> str | None:
        skipped = suite_of(of).find(f"testcase[@name='{EVIDENCE}']/skipped")
        return None if skipped is None else skipped.get("message")

    assert reason(replace(report, rules=())) == "nothing was judged"
    elections = RuleResult("TR-06", "n", "t", "KIP-320", "critical")
    without = replace(report.inventory, absent_logs=("state_change_log",))
    unjudged = replace(report, rules=(*report.rules, elections), inventory=without)
    assert (reason(unjudged) or "").startswith("whether records were lost is not known: no node's state-change.log")
    assert reason(replace(unjudged, inventory=report.inventory)) is None


def test_unverifiable_is_no_pass(report: Report) -> None:
    only = RuleResult("SR-02", "n", "t", "KIP-570", "low", {UNVERIFIABLE: 2}, {"no log": 2})
    suite = suite_of(replace(report, rules=(only,), findings=()))
    assert outcomes(suite) == {"SR-02": "skipped"}
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "2 unverifiable: no log"


@pytest.mark.parametrize(
    ("fail_on", "outcome"),
    [("violation", "pass"), ("exposed", "failure"), ("unverifiable", "failure"), ("never", "pass")],
)
def test_the_threshold_decides(report: Report, fail_on: str, outcome: str) -> None:
    exposed = RuleResult("SR-03", "n", "t", "KIP-570", "low", {EXPOSED: 1})
    assert outcomes(suite_of(replace(report, rules=(exposed,), findings=()), fail_on)) == {"SR-03": outcome}


def test_a_rule_that_failed_is_an_error(report: Report) -> None:
    assert outcomes(suite_of(replace(report, failures={"FF-01": "it broke"})))["FF-01"] == "error"


def test_accepted_findings_fail_nothing(report: Report, finding: Finding) -> None:
    accepted = {finding.finding_id: Acceptance("a drill", "storage", date(2027, 2, 20))}
    assert outcomes(suite_of(replace(report, accepted=accepted)))["SR-01"] == "pass"


def test_more_findings_than_are_shown_are_counted(report: Report, finding: Finding) -> None:
    many = tuple(replace(finding, finding_id=f"{n:024x}") for n in range(25))
    failure = suite_of(replace(report, findings=many, left_out={"SR-01": 100})).find("testcase/failure")
    assert failure is not None
    assert (failure.text or "").endswith("and 105 more")


def test_whatever_stands_in_a_log_the_document_is_xml(report: Report, finding: Finding) -> None:
    hostile = replace(finding, observed="]]></failure>\x00\x1b\ufffe\uffff&\ud800", topic="<topic>")
    failure = suite_of(replace(report, findings=(hostile,))).find("testcase/failure")
    assert failure is not None
    assert "]]></failure>\\x00\\x1b\\ufffe\\uffff&\\ud800" in (failure.text or "")
