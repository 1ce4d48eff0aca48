"""The report as JUnit XML, the form in which CI servers show test results: a test case for each rule.

A rule fails where it has a verdict at or above the threshold of --fail-on, and is skipped where it judged nothing: no
subject, or none that the evidence was enough for. Only what was judged passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from epochaudit.findings.finding import Finding, with_consequences
from epochaudit.report.contents import THRESHOLDS, Report, RuleResult
from epochaudit.report.losses import OpenQuestions
from epochaudit.report.neutral import neutral, short
from epochaudit.rules.rule import UNVERIFIABLE, VERDICTS

SHOWN: Final = 20  # findings of a rule that are listed; the rest is counted
NAME: Final = "epochaudit"


def render(report: Report, *, fail_on: str = "exposed") -> str:
    """The document, ending in a newline. `fail_on`: the threshold, one of contents.THRESHOLDS."""
    cases = [*(_case(report, rule, THRESHOLDS[fail_on]) for rule in report.rules), _evidence(report)]
    counts = {"tests": str(len(cases)), **{kind: str(_with(cases, tag)) for kind, tag in _KINDS}}
    suites = Element("testsuites", {"name": NAME, **counts})
    suite = SubElement(suites, "testsuite", {"name": NAME, **counts})
    properties = SubElement(suite, "properties")
    for name, value in _properties(report):
        SubElement(properties, "property", name=name, value=_text(value))
    suite.extend(cases)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


_KINDS: Final = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))


def _with(cases: Iterable[Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _properties(report: Report) -> Iterable[tuple[str, str]]:
    inventory = report.inventory
    return (
        ("version", report.version),
        ("clusters", ", ".join(inventory.clusters)),
        ("lines", str(inventory.lines)),
        ("quarantined", str(inventory.quarantined)),
        ("evidence", "; ".join(OpenQuestions.of(report).reasons) or "complete"),
        *((verdict, str(report.count(verdict))) for verdict in VERDICTS),
    )


def _evidence(report: Report) -> Element:
    """A test case that passes where nothing is missing: what was not recorded can't fail any other."""
    case = Element("testcase", classname=NAME, name="evidence is complete", time="0")
    if unsettled := OpenQuestions.of(report).reasons:
        SubElement(case, "skipped", message=_text("; ".join(unsettled)))
        SubElement(case, "system-out").text = "\n".join(_text(str(one)) for one in report.inventory.missing)
    return case


def _case(report: Report, rule: RuleResult, failing: tuple[str, ...]) -> Element:
    case = Element("testcase", classname=f"{NAME}.{rule.kip}", name=f"{rule.rule} {rule.name}", time="0")
    failed = {verdict: count for verdict in failing if (count := report.counted(verdict, rule.rule)) > 0}
    counts = ", ".join(f"{rule.count(verdict):,} {verdict}" for verdict in VERDICTS if rule.count(verdict))
    if why := report.failures.get(rule.rule):
        SubElement(case, "error", message=_text(why), type="failed")
    elif failed:
        failure = SubElement(case, "failure", message=_text(f"{rule.title}: {counts}"), type=next(iter(failed)))
        failure.text = "\n".join(_findings(report, rule.rule, failed))
    elif rule.subjects == rule.count(UNVERIFIABLE):
        SubElement(case, "skipped", message=_text("; ".join(_reasons(rule)) or "no subject in this capture"))
    if any(rule.count(verdict) for verdict in THRESHOLDS["unverifiable"]):
        SubElement(case, "system-out").text = "\n".join([_text(counts), *map(_text, _reasons(rule))])
    return case


def _reasons(rule: RuleResult) -> list[str]:
    return [f"{subjects:,} unverifiable: {reason}" for reason, subjects in rule.reasons]


def _findings(report: Report, rule: str, failed: Iterable[str]) -> list[str]:
    own = [
        one
        for one in with_consequences(report.findings)
        if one.rule == rule and one.verdict in failed and one.finding_id not in {**report.accepted, **report.known}
    ]
    lines = [line for finding in own[:SHOWN] for line in _finding(finding)]
    more = max(0, len(own) - SHOWN) + report.left_out.get(rule, 0)
    return [*lines, f"and {more:,} more"] if more else lines


def _finding(finding: Finding) -> list[str]:
    lines = [
        f"{finding.verdict} {finding.finding_id}: {', '.join(filter(None, (finding.subject, finding.where)))}",
        f"  expected {finding.expected}",
        f"  observed {finding.observed}",
        *(f"  because {reason}" for reason in finding.because),
        *(f"  {line.file}:{line.line or f'byte {line.byte_offset}'} {line.role}" for line in finding.evidence),
    ]
    return list(map(_text, lines))


def _text(text: str) -> str:
    return neutral(short(text))
