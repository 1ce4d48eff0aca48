"""Reads the histories: a page per bug, with cases in the format of the rules' case files.

    # KAFKA-9539 What failed

    Affected: releases

    Fixed: releases

    ## 2.5.1, affected

A bug without an issue in Kafka's tracker has the number of the pull request that mends it: `# PR-20716 What failed`.
Headings of cases end in `affected` or `fixed`. Their verdicts are those of all rules that have to do with the bug.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from epochaudit.events.schema import EVENTS
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.rule import EXPOSED, INFO, PASS, VIOLATION
from tests.rules.case_files import Case, read_cases

FOLDER: Final = Path(__file__).parent
_HEAD: Final = re.compile(
    r"# (?P<bug_id>(?:KAFKA|PR)-\d+) (?P<failed>.+)\n\nAffected: (?P<affected>.+)\n\nFixed: (?P<fixed>.+)\n\n"
)


@dataclass(frozen=True)
class History:
    """One bug: `affected` and `fixed` are the releases, as text; `cases` its histories."""

    bug_id: str
    failed: str
    affected: str
    fixed: str
    cases: tuple[Case, ...]

    def of_kind(self, kind: str) -> tuple[Case, ...]:
        """Its cases of the kind `affected` or `fixed`."""
        return tuple(case for case in self.cases if case.cluster.endswith(f", {kind}"))

    def caught_by(self) -> dict[str, str]:
        """Rule -> verdict: what is flagged where the bug is, and is not where it is mended; or an observation of it."""
        found = _flagged(self.of_kind("affected"))
        found = {rule: verdict for rule, verdict in found.items() if rule not in _flagged(self.of_kind("fixed"))}
        observing = {rule.id for rule in catalogue() if rule.severity == INFO}
        seen = {e.rule for case in self.of_kind("affected") for e in case.expected if e.verdict == PASS}
        return found or dict.fromkeys(sorted(seen & observing), "observation")


@dataclass(frozen=True)
class Unreplayed:
    """A bug without a history: `rules` are those that it is about, `why` states what keeps them from reporting it."""

    bug_id: str
    affected: str
    failed: str
    rules: tuple[str, ...]
    why: str


def histories() -> list[History]:
    """All histories, by the number of the bug."""
    cases = list(read_cases(FOLDER, EVENTS, "*-*.md"))
    found = []
    for path in sorted(FOLDER.glob("*-*.md"), key=lambda path: number(path.stem)):
        head = _HEAD.match(path.read_text("utf-8"))
        if not head or head["bug_id"] != path.stem:
            raise ValueError(f"{path.name}: does not begin with the bug, what failed and the releases")
        found.append(History(**head.groupdict(), cases=tuple(case for case in cases if case.rule == path.stem)))
    return found


def unreplayed() -> list[Unreplayed]:
    """The bugs of `unreplayed.toml`, by their numbers."""
    listed = tomllib.loads((FOLDER / "unreplayed.toml").read_text("utf-8"))["bugs"]
    bugs = [Unreplayed(**{**bug, "rules": tuple(bug["rules"])}) for bug in listed]
    return sorted(bugs, key=lambda bug: number(bug.bug_id))


def _flagged(cases: tuple[Case, ...]) -> dict[str, str]:
    return {e.rule: e.verdict for case in cases for e in case.expected if e.verdict in (VIOLATION, EXPOSED)}


def number(bug_id: str) -> int:
    """9539 of `KAFKA-9539`, and of `KAFKA-9539, KAFKA-9999`."""
    return int(re.findall(r"\d+", bug_id)[0])
