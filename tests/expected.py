"""Compares an audit's JSON report with the truth of a capture, its expected.json.

`must_flag` and `may_flag` together are everything that may be reported as violation or exposed. An entry matches a
finding when the rule is in `any_rule`, the verdict in `verdict` (if the entry has one), and every field of the entry
that is not null is equal. A finding without a correlation id of its own matches if an evidence line carries it.

What must be flagged must be a finding of its own; consequences listed inside another must be allowed all the same.

Only rules that exist can fire: an entry of `must_flag` or `must_fence` none of whose `any_rule` is in the catalogue
is not required. `not_required` names those entries, so that a test can state how much of the truth it held the tool to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

FIELDS: Final = ("topic", "partition", "node", "leader_epoch", "client", "group", "correlation_id")
REPORTED: Final = ("violation", "exposed")

Entry = Mapping[str, Any]
Document = Mapping[str, Any]


def differences(report: Document, expected: Document, catalogue: Collection[str]) -> list[str]:
    """Every way in which the report (made with `--show fenced`) differs from the truth; empty when it holds exactly."""
    return [
        *finding_differences(report["findings"], expected, catalogue),
        *_counts(report["capture"], expected["counts"]),
    ]


def finding_differences(findings: Iterable[Entry], expected: Document, catalogue: Collection[str]) -> list[str]:
    """Every way in which findings (with those that were fenced) differ from the truth, however much was read for them."""
    findings = list(findings)
    reported = [finding for finding in findings if finding["verdict"] in REPORTED]
    consequences = [one for finding in reported for one in finding.get("consequences", ())]
    fenced = [finding for finding in findings if finding["verdict"] == "fenced"]
    return [
        *_missing("must_flag", expected["must_flag"], reported, catalogue),
        *_missing("must_fence", expected["must_fence"], fenced, catalogue),
        *_false_positives(expected, [*reported, *consequences]),
        *_forbidden(expected["must_not_flag"], [*reported, *consequences]),
    ]


def not_required(expected: Document, catalogue: Collection[str]) -> list[str]:
    """Ids of the entries that no rule of the catalogue could satisfy."""
    required = (*expected["must_flag"], *expected["must_fence"])
    return [entry["id"] for entry in required if not set(entry["any_rule"]) & set(catalogue)]


def matches(entry: Entry, finding: Entry) -> bool:
    """Whether a finding is what an entry describes."""
    if finding["rule"] not in entry["any_rule"]:
        return False
    if entry.get("verdict") and finding["verdict"] not in entry["verdict"]:
        return False
    return all(_agrees(field, entry[field], finding) for field in FIELDS if entry.get(field) is not None)


def _agrees(field: str, wanted: object, finding: Entry) -> bool:
    if field == "correlation_id" and finding[field] is None:
        carried = re.compile(rf"correlation[ _]?id\W{{0,4}}{wanted}\b", re.IGNORECASE)
        return any(carried.search(line["text"] or "") for line in finding["evidence"])
    return bool(finding[field] == wanted)


def _missing(kind: str, entries: Iterable[Entry], found: list[Entry], catalogue: Collection[str]) -> Iterable[str]:
    for entry in entries:
        if set(entry["any_rule"]) & set(catalogue) and not any(matches(entry, finding) for finding in found):
            yield f"{kind} {entry['id']} not found: {_fields(entry)} ({entry.get('why', '')})"


def _false_positives(expected: Document, reported: list[Entry]) -> Iterable[str]:
    allowed = (*expected["must_flag"], *expected["may_flag"])
    for finding in reported:
        if not any(matches(entry, finding) for entry in allowed):
            yield f"false positive: {finding['rule']} {finding['verdict']} {_fields(finding)}: {finding['observed']}"


def _forbidden(entries: Iterable[Entry], reported: list[Entry]) -> Iterable[str]:
    for entry in entries:
        for finding in reported:
            if matches(entry, finding):
                yield f"must_not_flag: {finding['rule']} {finding['verdict']} {_fields(finding)} ({entry['why']})"


def _fields(entry: Entry) -> str:
    rules = "/".join(entry.get("any_rule", ()))
    return " ".join([rules, *(f"{field}={entry[field]}" for field in FIELDS if entry.get(field) is not None)]).strip()


def _counts(capture: Document, counts: Document) -> Iterable[str]:
    lines = {file["path"]: file["lines"] for file in capture["files"]}
    yield from _compare("lines", {path: lines.get(path) for path in counts["lines"]}, counts["lines"])
    yield from _compare("requests", capture["requests"], counts["requests_by_api"])
    yield from _compare("metadata_records", capture["metadata_records"], counts.get("metadata_records", {}))
    for name in ("partition_rows", "error_codes"):
        listed = {api: capture[name].get(api) for api in counts[name]}
        yield from _compare(name, listed, counts[name])


def _compare(name: str, found: Document, wanted: Document) -> Iterable[str]:
    for key in sorted({*found, *wanted}):
        if found.get(key) != wanted.get(key):
            yield f"counts.{name}[{key}]: {found.get(key)}, expected {wanted.get(key)}"
