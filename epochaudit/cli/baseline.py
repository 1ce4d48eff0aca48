"""Findings that somebody has looked at and accepts, for a while: they do not count towards the exit code.

The file is TOML, one table for each finding. By default only the id is compared, which depends on cluster, node and offsets.
With --baseline-match subject rule, verdict, topic, partition, client and group are compared instead: clusters that tests
start anew have other ids each time.

    [[accepted]]
    finding_id = "8b1f0c6e2d0e4a55b2c1a9d7"
    rule = "SR-01"
    verdict = "violation"
    topic = "orders"
    partition = 0
    about = "orders-0 at node 2 of west: error 0 NONE: the replica was stopped and its log deleted"
    reason = "drill"
    owner = "storage on-call"
    expires = 2027-02-20
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from epochaudit import toml
from epochaudit.findings.finding import BREACHES, Finding, with_consequences
from epochaudit.report.contents import Acceptance, Report
from epochaudit.report.neutral import neutral
from epochaudit.settings import BaselineMatch

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
    verdict: str = ""
    topic: str | None = None
    partition: int | None = None
    client: str | None = None
    group: str | None = None
    about: str = ""

    def __str__(self) -> str:
        return f"{self.rule} {self.verdict}: {self.about}" if self.about else self.finding_id


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """A baseline file."""

    accepted: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """The entries of a file. match: `id`, or `subject` if an entry accepts every finding about the same."""

    entries: Sequence[Entry]
    match: BaselineMatch = "id"

    def applied(self, report: Report, today: date) -> Report:
        """The report with findings accepted by the entries. An entry is still valid on the day it expires.

        Of entries about one subject the last to expire holds.
        """
        key = _subject if self.match == "subject" else _id
        entries = {key(entry): entry for entry in sorted(self.entries, key=lambda entry: entry.expires)}
        found = list(with_consequences(report.findings))
        matched = {one.finding_id: entries[key(one)] for one in found if key(one) in entries}
        accepted = {
            id: Acceptance(one.reason, one.owner, one.expires) for id, one in matched.items() if today <= one.expires
        }
        in_report = {key(one) for one in found}
        return report.accepting(
            accepted,
            expired=matched.keys() - accepted.keys(),
            unmatched={entry.finding_id: str(entry) for entry in self.entries if key(entry) not in in_report},
        )


def _id(one: Entry | Finding) -> Hashable:
    return one.finding_id


def _subject(one: Entry | Finding) -> Hashable:
    texts = (one.rule, one.verdict, one.topic, one.client, one.group)
    return one.partition, *(text if text is None else neutral(text) for text in texts)


def read_baseline(path: Path, match: BaselineMatch = "id") -> Baseline:
    """The entries of a file. Raises BaselineError."""
    entries: dict[str, Entry] = {}
    for number, entry in enumerate(toml.read(path, "baseline", File, BaselineError).accepted, 1):
        if entry.finding_id in entries:
            raise BaselineError(
                f"{path}, [[accepted]] {number} accepts finding {entry.finding_id}, as one before does; keep one of them"
            )
        if match == "subject" and not (entry.rule and entry.verdict):
            raise BaselineError(
                f"{path}, [[accepted]] {number} has no rule or no verdict, which --baseline-match subject compares; "
                "write the file again with `epochaudit baseline`"
            )
        entries[entry.finding_id] = entry
    return Baseline(tuple(entries.values()), match)


def written(findings: Iterable[Finding], acceptance: Acceptance) -> str:
    """A file that accepts all breaches among the findings and their consequences, in their order."""
    found = (one for one in with_consequences(findings) if one.verdict in BREACHES)
    return "\n".join([HEAD, *(_table(finding, acceptance) for finding in found)])


def _table(finding: Finding, acceptance: Acceptance) -> str:
    node = "" if finding.node is None else f" at node {finding.node}"
    values = {
        "finding_id": finding.finding_id,
        "rule": finding.rule,
        "verdict": finding.verdict,
        "topic": finding.topic,
        "partition": finding.partition,
        "client": finding.client,
        "group": finding.group,
        "about": f"{finding.subject or 'cluster'}{node} of {finding.cluster}: {finding.observed}",
        "reason": acceptance.reason,
        "owner": acceptance.owner,
    }
    stated = {key: value for key, value in values.items() if value is not None}
    lines = (f"{key} = {value if isinstance(value, int) else _quoted(value)}" for key, value in stated.items())
    return "\n".join(["[[accepted]]", *lines, f"expires = {acceptance.expires.isoformat()}", ""])


def _quoted(text: str) -> str:
    """A basic string of TOML: as JSON's, once no control characters are left."""
    return json.dumps(neutral(text), ensure_ascii=False)
