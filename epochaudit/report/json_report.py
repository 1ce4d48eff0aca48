"""The report as one JSON document, the form that other programs read.

Field names are stable within a `schema_version`. Everything outside ASCII is escaped, so that the document is valid
UTF-8 and harmless in a terminal whatever the logs contain.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any, Final

from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import LOGS, Inventory
from epochaudit.losses.removal import Removal
from epochaudit.report.contents import LostWrites, Report, RuleResult
from epochaudit.report.losses import (
    Loss,
    Undelivered,
    known_since,
    losses_of,
    truncations_of,
    undelivered_of,
    unsettled_of,
)
from epochaudit.report.missing_writes import answer, by_acks, completeness
from epochaudit.report.text import headline
from epochaudit.rules.messages import stated_topic_id
from epochaudit.rules.rule import VERDICTS

SCHEMA_VERSION: Final = 1


def render(report: Report) -> str:
    """The document, ending in a newline."""
    return json.dumps(document(report), indent=2, ensure_ascii=True) + "\n"


def document(report: Report) -> dict[str, Any]:
    """The report as plain dicts and lists."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "epochaudit", "version": report.version},
        "headline": headline(report),
        "missing_writes": {
            "acks_all": by_acks(report.lost_writes)["all"],
            "acks_1": by_acks(report.lost_writes)["1"],
            "summary": answer(report) if report.lost_writes else None,
            "completeness": completeness(report) if report.lost_writes else None,
        },
        "capture": _capture(report.inventory),
        "rules": [_rule(rule) for rule in report.rules],
        "findings": [
            {**_finding(finding, report), "consequences": [_finding(one, report) for one in finding.consequences]}
            for finding in report.findings
        ],
        "left_out": dict(report.left_out),
        "repeated": [asdict(one) for one in report.repeated],
        "loops": [asdict(one) for one in report.loops],
        "unsettled": list(unsettled_of(report)),
        "settled_until": report.settled_until,
        "late_files": [asdict(one) for one in report.late],
        "baseline": {"expired": sorted(report.expired), "unmet": sorted(report.unmatched)},
        "losses": [{**_removed(one), "known_since": known_since(report, one)} for one in losses_of(report)],
        "lost_writes": [{**_lost_writes(one), "known": one in report.known_writes} for one in report.lost_writes],
        "undelivered": [_removed(one) for one in undelivered_of(report)],
        "stuck": [asdict(one) for one in report.stuck],
        "truncations": [{**_removed(one), "known": one in report.known_removals} for one in truncations_of(report)],
    }


def _removed(one: Loss | Undelivered | Removal) -> dict[str, Any]:
    return {**_stated(one), "records": one.records}


def _lost_writes(one: LostWrites) -> dict[str, Any]:
    """With what its lines state: who acknowledged the last one and when, who began the epoch and when."""
    return {
        **_stated(one),
        "acknowledged_by": one.acknowledged_by,
        "acknowledged_until": one.acknowledged_until,
        "begun_by": one.begun_by,
        "begun_at": one.begun_at,
    }


def _stated(one: Loss | Undelivered | Removal | LostWrites) -> dict[str, Any]:
    return {**asdict(one), "topic_id": stated_topic_id(one.topic_id)}


def _capture(inventory: Inventory) -> dict[str, Any]:
    return {
        "clusters": list(inventory.clusters),
        "first_time": inventory.first_time,
        "last_time": inventory.last_time,
        "nodes": [
            {
                "cluster": node.cluster,
                "node": node.node,
                "roles": list(node.roles),
                "kafka": node.kafka,
                "missing_logs": [LOGS[source] for source in node.missing_logs],
            }
            for node in inventory.nodes
        ],
        "bytes": inventory.bytes,
        "lines": inventory.lines,
        "events": inventory.events,
        "ignored": inventory.ignored,
        "quarantined": inventory.quarantined,
        "files": [
            {
                "cluster": file.cluster,
                "path": file.path,
                "kind": file.kind,
                "node": file.node,
                "lines": file.lines,
                "events": file.events,
                "ignored": file.ignored,
                "quarantined": file.quarantined,
            }
            for file in inventory.files
        ],
        "requests": dict(inventory.requests),
        "partition_rows": dict(inventory.partition_rows),
        "error_codes": {
            api: {str(code): rows for code, rows in codes.items()} for api, codes in inventory.error_codes.items()
        },
        "metadata_records": dict(inventory.metadata_records),
        "missing_nodes": [{"cluster": cluster, "node": node} for cluster, node in inventory.missing_nodes],
        "complete": not inventory.incomplete,
        "missing": [
            asdict(one) | {"logs": [LOGS.get(source, source.replace("_", " ")) for source in one.logs]}
            for one in inventory.missing
        ],
        "absent_logs": [LOGS[source] for source in inventory.absent_logs],
        "unknown_files": list(inventory.unknown_files),
        "migrations": [asdict(migration) for migration in inventory.migrations],
        "light_request_logs": [{"cluster": cluster, "node": node} for cluster, node in inventory.light_nodes],
    }


def _rule(rule: RuleResult) -> dict[str, Any]:
    counts = {verdict: rule.count(verdict) for verdict in VERDICTS}
    return {"rule": rule.rule, "name": rule.name, **counts, "unverifiable_reasons": dict(rule.unverifiable_reasons)}


def _finding(finding: Finding, report: Report) -> dict[str, Any]:
    """Those that are consequences have no `consequences` themselves. accepted: null, or by whom, why and until when.

    known_since: when an earlier run first reported it; null if none did.
    """
    fields = asdict(replace(finding, consequences=()))
    del fields["consequences"]
    fields["topic_id"] = stated_topic_id(finding.topic_id)
    fields["because"] = list(finding.because)
    fields["evidence"] = [asdict(line) for line in finding.evidence]
    accepted = report.accepted.get(finding.finding_id)
    fields["accepted"] = accepted and {**asdict(accepted), "expires": accepted.expires.isoformat()}
    fields["known_since"] = report.known.get(finding.finding_id)
    return fields
