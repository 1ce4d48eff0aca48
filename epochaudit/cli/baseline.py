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
from typing import Annotated, Final

from msgspec import Meta, Struct

from epochaudit import toml
from epochaudit.findings.finding import BREACHES, Finding, with_consequences
from epochaudit.report.contents import Acceptance, Report
from epochaudit.report.neutral import neutral

HEAD: Final = """\
# Findings that are known and accepted: `epochaudit audit CAPTURE --baseline FILE` lists them without failing.
# Each needs a reason, an owner and a day after which it counts again.
"""


class BaselineError(Exception):
    """A baseline that can't be used; the message names the entry, what was found and what is needed."""


def _text(meaning: str) -> Meta:
    return Meta(pattern=r"\S", description=f"a text that states {meaning}")


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[accepted]]` table."""

    finding_id: Annotated[str, _text("which finding is accepted")]
    reason: Annotated[str, _text("why the finding is accepted")]
    owner: Annotated[str, _text("who accepts the finding")]
    expires: date
    rule: str = ""
    about: str = ""


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """A baseline file."""

    accepted: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """The entries of a file, by finding id."""

    entries: Mapping[str, Acceptance]

    def applied(self, report: Report, today: date) -> Report:
        """The report with findings accepted by the entries. An entry is still valid on the day it expires."""
        found = {one.finding_id for one in with_consequences(report.findings)}
        matched = {id: entry for id, entry in self.entries.items() if id in found}
        accepted = {id: entry for id, entry in matched.items() if today <= entry.expires}
        return report.accepting(
            accepted, expired=matched.keys() - accepted.keys(), unmet=self.entries.keys() - matched.keys()
        )


def read_baseline(path: Path) -> Baseline:
    """The entries of a file. Raises BaselineError."""
    entries: dict[str, Acceptance] = {}
    for number, entry in enumerate(toml.read(path, "baseline", File, BaselineError).accepted, 1):
        if entry.finding_id in entries:
            raise BaselineError(
                f"{path}, [[accepted]] {number} accepts finding {entry.finding_id}, as one before does; keep one of them"
            )
        entries[entry.finding_id] = Acceptance(entry.reason, entry.owner, entry.expires)
    return Baseline(entries)


def written(findings: Iterable[Finding], acceptance: Acceptance) -> str:
    """A file that accepts all breaches among the findings and their consequences, in their order."""
    found = (one for one in with_consequences(findings) if one.verdict in BREACHES)
    return "\n".join([HEAD, *(_table(finding, acceptance) for finding in found)])


def _table(finding: Finding, acceptance: Acceptance) -> str:
    node = "" if finding.node is None else f" at node {finding.node}"
    about = f"{finding.verdict}: {finding.subject or 'cluster'}{node} of {finding.cluster}: {finding.observed}"
    values = {
        "finding_id": finding.finding_id,
        "rule": finding.rule,
        "about": about,
        "reason": acceptance.reason,
        "owner": acceptance.owner,
    }
    lines = (f"{key} = {_quoted(value)}" for key, value in values.items())
    return "\n".join(["[[accepted]]", *lines, f"expires = {acceptance.expires.isoformat()}", ""])


def _quoted(text: str) -> str:
    """A basic string of TOML: as JSON's, once no control characters are left."""
    return json.dumps(neutral(text), ensure_ascii=False)
