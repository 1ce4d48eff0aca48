"""The page docs/mutations.md: which planted defect each rule found, and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from epochaudit.findings.finding import Finding
from epochaudit.rules.catalogue import catalogue
from tests.mutations.audited import Outcome

PAGE: Final = Path(__file__).parents[2] / "docs" / "mutations.md"

_HEAD: Final = """\
# Planted defects

For each rule that reports breaches, an operator in `tests/mutations/` writes the rule's defect into a copy of a real, healthy
recording, as Kafka would have written it: it rewrites requests, log lines and metadata records. One audit of all copies
then has to find each defect, by its rule, at its place, and nothing else: the recordings themselves hold no breach. Findings
of other rules that a defect cannot but cause are listed with it; the operator's docstring states why. Copies lack
the Fetch requests, most of a request log, where fetches are no part of the defect.

`python -m tests.mutations` writes this page from such a run; `tests/test_mutations.py` keeps it true.

| rule | planted | in | found |
|---|---|---|---|
"""
_WITHOUT: Final = """
## Rules without a planted defect

"""

OBSERVES: Final = "an observation, which reports no breach"


def page(outcomes: Sequence[Outcome]) -> str:
    """The page, Markdown."""
    rows = "".join(f"{_row(outcome)}\n" for outcome in outcomes)
    missing = without_mutation({outcome.mutation.rule for outcome in outcomes})
    listed = "".join(f"* {rule}: {reason}\n" for rule, reason in missing.items())
    return f"{_HEAD}{rows}{_WITHOUT}{listed}" if listed else f"{_HEAD}{rows}"


def without_mutation(planted: Iterable[str]) -> dict[str, str]:
    """Rules that no mutation plants a defect for, with the reason; empty where there is none."""
    known = set(planted)
    return {
        rule.id: OBSERVES if rule.title.startswith("Observation:") else ""
        for rule in catalogue()
        if rule.id not in known
    }


def _row(outcome: Outcome) -> str:
    mutation = outcome.mutation
    found = "<br>".join(_found(finding) for finding in outcome.found) or "nothing"
    more = "".join(f"; also {rule}" for rule in sorted(mutation.also))
    return f"| {mutation.rule} | {mutation.summary} | {mutation.capture} | {found}{more} |"


def _found(finding: Finding) -> str:
    """Verdict, subject and the place of the finding's own line."""
    node = f" on node {finding.node}" if finding.node is not None else ""
    about = f" of {finding.subject}" if finding.subject else ""
    line = finding.evidence[0]
    return f"{finding.verdict}{about}{node}: {line.file}:{line.line}"
