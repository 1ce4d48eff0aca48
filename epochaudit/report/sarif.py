"""The report as SARIF 2.1.0, the form that code-scanning services and editors read.

A finding is a result at its subject's own line, the other lines of its proof are related locations. What could not be
judged, or was left out, is a notification: a log without results is not a clean one. Source: OASIS SARIF 2.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import LOGS
from epochaudit.report.contents import Acceptance, Report, RuleResult
from epochaudit.report.losses import unsettled_of
from epochaudit.report.neutral import neutral
from epochaudit.rules.rule import EXPOSED, FENCED, INFO, PASS, SEVERITIES, UNVERIFIABLE, VIOLATION

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
CAPTURE: Final = "CAPTURE"  # what paths are relative to: the directory that was audited
FINGERPRINT: Final = "epochauditFindingId/v1"

# kind and, of those that failed, level
KINDS: Final[Mapping[str, str]] = {
    VIOLATION: "fail",
    EXPOSED: "fail",
    UNVERIFIABLE: "open",
    FENCED: "pass",
    PASS: "pass",
}
LEVELS: Final[Mapping[str, str]] = {VIOLATION: "error", EXPOSED: "warning"}


def render(report: Report) -> str:
    """The log file, ending in a newline; ASCII only."""
    return json.dumps(document(report), indent=2, ensure_ascii=True) + "\n"


def document(report: Report) -> dict[str, Any]:
    """The report as plain dicts and lists."""
    numbers = {rule.rule: number for number, rule in enumerate(report.rules)}
    found = [(one, root) for root in report.findings for one in (root, *root.consequences)]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "epochaudit",
                        "version": report.version,
                        "rules": [_rule(rule) for rule in report.rules],
                    }
                },
                "originalUriBaseIds": {CAPTURE: {"description": {"text": "The directory that was audited."}}},
                "invocations": [
                    {
                        "executionSuccessful": not report.failures,
                        "properties": {
                            "evidenceComplete": not report.inventory.incomplete,
                            "unsettled": list(unsettled_of(report)),
                        },
                        "toolExecutionNotifications": list(_notifications(report, numbers)),
                    }
                ],
                "results": [_result(one, root, numbers, report.accepted.get(one.finding_id)) for one, root in found],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _rule(rule: RuleResult) -> dict[str, Any]:
    return {
        "id": rule.rule,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": _message(rule.title)},
        "help": {"text": f"epochaudit explain {rule.rule}"},
        "defaultConfiguration": {"level": _level(VIOLATION, rule.severity), "rank": _rank(rule.severity)},
        "properties": {"kip": rule.kip, "severity": rule.severity, "tags": [rule.kip]},
    }


def _result(finding: Finding, root: Finding, numbers: Mapping[str, int], accepted: Acceptance | None) -> dict[str, Any]:
    own, *others = (_location(line) for line in finding.evidence) if finding.evidence else (None,)
    because = "".join(f" Because {reason}." for reason in finding.because)
    cause = "" if finding is root else f" Caused by {root.rule} {root.finding_id}."
    text = f"{_where(finding)}: expected {finding.expected}, observed {finding.observed}.{because}{cause}"
    return {
        "ruleId": finding.rule,
        **({"ruleIndex": numbers[finding.rule]} if finding.rule in numbers else {}),
        "kind": KINDS[finding.verdict],
        "level": _level(finding.verdict, finding.severity),
        "rank": _rank(finding.severity),
        "message": {"text": _message(text)},
        "locations": [own] if own else [],
        "relatedLocations": [{**location, "id": number} for number, location in enumerate(others, 1)],
        "partialFingerprints": {FINGERPRINT: finding.finding_id},
        "properties": {
            "verdict": finding.verdict,
            "severity": finding.severity,
            "cluster": finding.cluster,
            "node": finding.node,
            "topic": finding.topic,
            "partition": finding.partition,
            "leader_epoch": finding.leader_epoch,
            "client": finding.client,
            "group": finding.group,
            "correlation_id": finding.correlation_id,
            "caused_by": None if finding is root else root.finding_id,
        },
        "suppressions": [] if accepted is None else [_suppression(accepted)],
    }


def _suppression(accepted: Acceptance) -> dict[str, Any]:
    return {"kind": "external", "status": "accepted", "justification": neutral(str(accepted))}


def _where(finding: Finding) -> str:
    node = "" if finding.node is None else f" at node {finding.node}"
    client = "" if finding.client is None else f", client {finding.client}"
    return f"{finding.subject or 'cluster'}{node} of {finding.cluster}{client}"


def _location(line: Evidence) -> dict[str, Any]:
    """A line that is known by its number is a region with its text; a record of a binary file is a place in it."""
    region: dict[str, Any] = {"byteOffset": line.byte_offset} if line.line is None else {"startLine": line.line}
    if line.text is not None:
        region["snippet"] = {"text": neutral(line.text)}
    artifact = {"uri": quote(line.file, safe="/:")}
    if "://" not in line.file:
        artifact["uriBaseId"] = CAPTURE
    return {
        "physicalLocation": {"artifactLocation": artifact, "region": region},
        "message": {"text": _message(line.role)},
        "properties": {"node": line.node, "time": line.time, "byte_offset": line.byte_offset},
    }


def _notifications(report: Report, numbers: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Why the absence of results does not mean that there are no breaches."""
    for rule in report.rules:
        for reason, subjects in sorted(rule.unverifiable_reasons.items()):
            yield _notification("note", f"{subjects} of {rule.rule} could not be judged: {reason}", rule.rule, numbers)
    for rule_id, count in report.left_out.items():
        yield _notification("warning", f"{count} more findings are counted but not listed", rule_id, numbers)
    for rule_id, why in report.failures.items():
        yield _notification("error", f"the rule failed: {why}", rule_id, numbers)
    if report.inventory.quarantined:
        yield _notification("warning", f"{report.inventory.quarantined} lines could not be read and are in quarantine")
    for missing in report.inventory.missing:
        yield _notification("warning", f"evidence of {missing.cluster} is missing: {missing}")
    for source in report.inventory.absent_logs:
        yield _notification("note", f"no node's {LOGS[source]} was read")
    if report.expired:
        yield _notification("warning", f"{len(report.expired)} findings are no longer accepted: their time is over")
    if not report.judged:
        yield _notification("warning", "nothing was judged, so that no result is not a clean one")


def _notification(
    level: str, text: str, rule: str | None = None, numbers: Mapping[str, int] | None = None
) -> dict[str, Any]:
    notification: dict[str, Any] = {"level": level, "message": {"text": _message(text)}}
    if rule is not None and numbers and rule in numbers:
        notification["associatedRule"] = {"id": rule, "index": numbers[rule]}
    return notification


def _level(verdict: str, severity: str) -> str:
    """`none` where nothing failed, as the standard asks."""
    level = LEVELS.get(verdict, "none")
    return "note" if level != "none" and severity == INFO else level


def _rank(severity: str) -> float:
    """Importance from 0 to 100."""
    return 100.0 - 100.0 * SEVERITIES.index(severity) / (len(SEVERITIES) - 1)


def _message(text: str) -> str:
    """Text from logs may not become a link in a viewer, nor anything else than text."""
    return neutral(text).replace("](", "] (")
