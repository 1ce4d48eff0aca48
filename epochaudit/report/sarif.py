"""The report as SARIF 2.1.0, the form that code-scanning services and editors read.

A finding is a result at its subject's own line, the other lines of its proof are related locations, and what each host recorded
is a flow of its own: hosts are in no order. What could not be judged, or was left out, is a notification: a log without results is
not a clean one. Sources: OASIS SARIF 2.1.0; the limits are those of GitHub code scanning, which rejects a file beyond them.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from posixpath import isabs, join, normpath
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
SOURCES: Final = "%SRCROOT%"  # the directory in which the audit ran, by convention the checked out repository
FINGERPRINT: Final = "epochauditFindingId/v1"
ALERT: Final = "primaryLocationLineHash"  # the only fingerprint by which GitHub recognises an alert
MOST_RESULTS: Final = 25_000  # of a run
MOST_LOCATIONS: Final = 1_000  # of a result
MOST_BYTES: Final = 10_000_000  # of the compressed file

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
    """The log file, ending in a newline; ASCII only. If it were too large, the last findings are left out."""
    results = MOST_RESULTS
    while True:
        content = document(report, results)
        text = json.dumps(content, indent=2, ensure_ascii=True) + "\n"
        if len(text) <= MOST_BYTES or len(gzip.compress(text.encode("ascii"))) <= MOST_BYTES:
            return text
        results = len(content["runs"][0]["results"]) * 3 // 4


def document(report: Report, most_results: int) -> dict[str, Any]:
    """The report as plain dicts and lists, with the first findings only if there are too many."""
    numbers = {rule.rule: number for number, rule in enumerate(report.rules)}
    found = [(one, root) for root in report.findings for one in (root, *root.consequences)]
    unlisted = max(0, len(found) - most_results)
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
                "originalUriBaseIds": {
                    CAPTURE: {"description": {"text": "The directory that was audited."}},
                    SOURCES: {"description": {"text": "The directory in which the audit ran."}},
                },
                "invocations": [
                    {
                        "executionSuccessful": not report.failures,
                        "properties": {
                            "evidenceComplete": not report.inventory.incomplete,
                            "unsettled": list(unsettled_of(report)),
                        },
                        "toolExecutionNotifications": list(_notifications(report, numbers, unlisted)),
                    }
                ],
                "results": [_result(one, root, numbers, report) for one, root in found[:most_results]],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _rule(rule: RuleResult) -> dict[str, Any]:
    return {
        "id": rule.rule,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": _message(rule.title)},
        "fullDescription": {"text": _message(rule.title)},
        "help": _help(rule),
        "defaultConfiguration": {"level": _level(VIOLATION, rule.severity), "rank": _rank(rule.severity)},
        "properties": {"kip": rule.kip, "severity": rule.severity, "tags": [rule.kip]},
    }


def _help(rule: RuleResult) -> dict[str, str]:
    page = f"`epochaudit explain {rule.rule}` shows the whole page."
    markdown = "\n\n".join([*map(neutral, rule.what_to_do.splitlines()), page])
    return {"text": markdown.replace("`", ""), "markdown": markdown}


def _result(finding: Finding, root: Finding, numbers: Mapping[str, int], report: Report) -> dict[str, Any]:
    accepted = report.accepted.get(finding.finding_id)
    lines = finding.evidence[:MOST_LOCATIONS]
    places = [_location(line, finding.cluster, report) for line in lines] or _somewhere(finding.cluster, report)
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
        "locations": places[:1],
        "relatedLocations": [{**location, "id": number} for number, location in enumerate(places[1:], 1)],
        "codeFlows": _flows(lines, finding.cluster, report),
        "partialFingerprints": {FINGERPRINT: finding.finding_id, ALERT: f"{finding.finding_id}:1"},
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
            "known_since": report.known.get(finding.finding_id),
        },
        "suppressions": [] if accepted is None else [_suppression(accepted)],
    }


def _suppression(accepted: Acceptance) -> dict[str, Any]:
    return {"kind": "external", "status": "accepted", "justification": neutral(str(accepted))}


def _where(finding: Finding) -> str:
    node = "" if finding.node is None else f" at node {finding.node}"
    client = "" if finding.client is None else f", client {finding.client}"
    return f"{finding.subject or 'cluster'}{node} of {finding.cluster}{client}"


def _flows(lines: Sequence[Evidence], cluster: str, report: Report) -> list[dict[str, Any]]:
    """What each host recorded, in the order in which it did: a flow of one thread per host. None for a single line."""
    if len(lines) < 2:
        return []
    of_host: dict[str, list[Evidence]] = defaultdict(list)
    for line in lines:
        of_host["no node" if line.node is None else f"node {line.node}"].append(line)
    threads = [
        {"id": host, "locations": [{"location": _place(line, cluster, report)} for line in sorted(own, key=_printed)]}
        for host, own in of_host.items()
    ]
    return [{"message": {"text": "What each host recorded, in its own order"}, "threadFlows": threads}]


def _printed(line: Evidence) -> tuple[str, str, int]:
    return line.time or "", line.file, line.byte_offset


def _somewhere(cluster: str, report: Report) -> list[dict[str, Any]]:
    """A file of the cluster, where a finding has no line: a result without a location is not shown."""
    files = [file.path for file in report.inventory.files if file.cluster == cluster]
    return [{"physicalLocation": {"artifactLocation": _artifact(path, cluster, report)}} for path in files[:1]]


def _location(line: Evidence, cluster: str, report: Report) -> dict[str, Any]:
    """A place with the recorded text."""
    location = _place(line, cluster, report)
    if line.text is not None:
        location["physicalLocation"]["region"]["snippet"] = {"text": neutral(line.text)}
    return {**location, "properties": {"node": line.node, "time": line.time, "byte_offset": line.byte_offset}}


def _place(line: Evidence, cluster: str, report: Report) -> dict[str, Any]:
    """A line that is known by its number is a region; a record of a binary file is a place in it."""
    region: dict[str, Any] = {"byteOffset": line.byte_offset} if line.line is None else {"startLine": line.line}
    artifact = _artifact(line.file, cluster, report)
    return {
        "physicalLocation": {"artifactLocation": artifact, "region": region},
        "message": {"text": _message(line.role)},
    }


def _artifact(path: str, cluster: str, report: Report) -> dict[str, str]:
    """The file, by the capture's path if that is relative or a URI. Otherwise of several captures the cluster's name shows which."""
    root = report.roots.get(cluster, "")
    base = CAPTURE
    if "://" in path:
        whole = path
    elif "://" in root:
        whole = f"{root.rstrip('/')}/{path}"
    elif root and not isabs(root) and not normpath(root).startswith(".."):
        whole, base = normpath(join(root, path)), SOURCES
    else:
        whole = f"{cluster}/{path}" if len(report.inventory.clusters) > 1 else path
    artifact = {"uri": quote(whole.encode("utf-8", "backslashreplace"), safe="/:" if "://" in whole else "/")}
    return artifact if "://" in whole else {**artifact, "uriBaseId": base}


def _notifications(report: Report, numbers: Mapping[str, int], unlisted: int) -> Iterator[dict[str, Any]]:
    """Why the absence of results does not mean that there are no breaches."""
    if unlisted:
        yield _notification(
            "warning", f"{unlisted} more findings are not in this file, which code scanning would reject"
        )
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
