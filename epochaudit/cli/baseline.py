"""Findings that somebody has looked at and accepts, for a while: they do not count towards the exit code.

The file is TOML, one table for each finding. What it is about stands beside for readers; only the id is compared.

    [[accepted]]
    finding_id = "8b1f0c6e2d0e4a55b2c1a9d7"
    rule = "SR-01"
    about = "violation: orders-0 at node 2 of west: error 0 NONE: the replica was stopped and its log deleted"
    reason = "drill"
    owner = "storage on-call"
    expires = 2027-02-20
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from epochaudit.findings.finding import BREACHES, Finding, with_consequences
from epochaudit.report.contents import Acceptance, Report
from epochaudit.report.neutral import neutral
from epochaudit.settings import read_toml

KEYS: Final[Mapping[str, type]] = {
    "finding_id": str, "rule": str, "about": str, "reason": str, "owner": str, "expires": date,
}  # fmt: skip
NEEDED: Final = ("finding_id", "reason", "owner", "expires")
HEAD: Final = """\
# Findings that are known and accepted: `epochaudit audit CAPTURE --baseline FILE` tells them, but does not fail for them.
# Each needs a reason, an owner and a day after which it counts again.
"""


class BaselineError(Exception):
    """A baseline that can't be used; the message names the entry, what was found and what is needed."""


@dataclass(frozen=True)
class Baseline:
    """The entries of a file, by finding id."""

    entries: Mapping[str, Acceptance]

    def applied(self, report: Report, today: date) -> Report:
        """The report with findings accepted by the entries. An entry is still valid on the day it expires."""
        found = {one.finding_id for one in with_consequences(report.findings)}
        met = {id: entry for id, entry in self.entries.items() if id in found}
        accepted = {id: entry for id, entry in met.items() if today <= entry.expires}
        return report.accepting(accepted, expired=met.keys() - accepted.keys(), unmet=self.entries.keys() - met.keys())


def read_baseline(path: Path) -> Baseline:
    """The entries of a file. Raises BaselineError."""
    table = read_toml(path, "baseline", BaselineError)
    listed = table.pop("accepted", [])
    if table or not isinstance(listed, list):
        raise BaselineError(f"{path}: a baseline holds [[accepted]] tables only; `epochaudit baseline` writes one")
    entries: dict[str, Acceptance] = {}
    for number, entry in enumerate(listed, 1):
        where = f"{path}: entry {number}"
        id, acceptance = _entry(where, entry)
        if id in entries:
            raise BaselineError(f"{where} accepts finding {id}, as one before does; keep one of them")
        entries[id] = acceptance
    return Baseline(entries)


def _entry(where: str, entry: Any) -> tuple[str, Acceptance]:
    if not isinstance(entry, dict):
        raise BaselineError(f"{where} is no [[accepted]] table")
    if unknown := sorted(entry.keys() - KEYS.keys()):
        raise BaselineError(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(KEYS)}")
    for key, value in entry.items():
        if type(value) is not KEYS[key]:
            kind = "a date like 2027-02-20, without quotes" if KEYS[key] is date else "a string"
            raise BaselineError(f"{where}: {key} has to be {kind}, found {value!r}")
    for key in NEEDED:
        if key not in entry or (KEYS[key] is str and not entry[key].strip()):
            raise BaselineError(f"{where} has no {key}: who accepts a finding says why, who and until when")
    return entry["finding_id"], Acceptance(entry["reason"], entry["owner"], entry["expires"])


def written(findings: Iterable[Finding], acceptance: Acceptance) -> str:
    """A file that accepts all breaches among the findings and their consequences, in their order."""
    found = (one for one in with_consequences(findings) if one.verdict in BREACHES)
    return "\n".join([HEAD, *(_table(finding, acceptance) for finding in found)])


def _table(finding: Finding, acceptance: Acceptance) -> str:
    node = "" if finding.node is None else f" at node {finding.node}"
    about = f"{finding.verdict}: {finding.subject or 'cluster'}{node} of {finding.cluster}: {finding.observed}"
    told = {
        "finding_id": finding.finding_id,
        "rule": finding.rule,
        "about": about,
        "reason": acceptance.reason,
        "owner": acceptance.owner,
    }
    lines = (f"{key} = {_quoted(value)}" for key, value in told.items())
    return "\n".join(["[[accepted]]", *lines, f"expires = {acceptance.expires.isoformat()}", ""])


def _quoted(text: str) -> str:
    """A basic string of TOML: as JSON's, once no control characters are left."""
    return json.dumps(neutral(text), ensure_ascii=False)
