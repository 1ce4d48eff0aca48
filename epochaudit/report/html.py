"""The report as one HTML page: to be mailed, attached to a ticket, read on a phone, printed.

The page needs no network. Its only script filters the findings; without it the page shows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from epochaudit.findings.excerpts import excerpt
from epochaudit.findings.finding import BREACHES, Finding
from epochaudit.inventory.inventory import LOGS
from epochaudit.kafka.errors import error_text
from epochaudit.losses.removal import Reader, Removal
from epochaudit.report.advice import paragraphs
from epochaudit.report.contents import MEANINGS, Repeated, Report, RuleResult, grouped
from epochaudit.report.loss_text import WHAT_TRUNCATED, how_many, new_first, offsets, producer, what_was_lost
from epochaudit.report.losses import (
    OpenQuestions,
    Skipped,
    elections_judged,
    known_since,
    losses_of,
    spares_clients,
    truncations_of,
    undelivered_of,
    why,
    without_elections,
)
from epochaudit.report.migrations import migration_lines
from epochaudit.report.missing_writes import answer, completeness, how, missing_writes, overview
from epochaudit.report.neutral import short
from epochaudit.report.next_steps import next_steps
from epochaudit.report.templates import SHORT, page
from epochaudit.report.text import headline_parts
from epochaudit.rules.messages import stated_topic_id
from epochaudit.rules.rule import INFO, UNVERIFIABLE, VERDICTS

SHOWN: Final = 200  # findings with their lines, among all rules
SHOWN_PER_RULE: Final = 50  # of one rule and verdict
LISTED: Final = 10_000  # findings with a line of their own, among all rules; the rest is counted
SHOWN_CONSEQUENCES: Final = 20  # of a finding
SHOWN_CONSUMERS: Final = 100  # of a loss
SHOWN_FILES: Final = 1_000
STANDING: Final = {"✗": "bad", "✓": "good"}  # by the mark that begins the headline


@dataclass(frozen=True)
class Group:
    """The findings of one rule and verdict, and its repetitions: those that are shown whole, then those that are listed in short.

    advice: (rule, what to do), of this rule and of those whose findings stand inside these only, as consequences.
    """

    severity: str
    rule: str
    verdict: str
    count: int
    result: RuleResult | None
    shown: tuple[Finding, ...]
    listed: tuple[Finding, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    advice: tuple[tuple[str, str], ...] = ()

    @property
    def is_breach(self) -> bool:
        """The rule's title, which names the breach, is true of these findings."""
        return self.verdict in BREACHES

    @property
    def more(self) -> int:
        """How many findings are counted but neither shown nor listed."""
        return self.count - len(self.shown) - len(self.listed)


def render(report: Report) -> str:
    """The page, ending in a newline."""
    breaches = [finding for finding in report.findings if finding.verdict in BREACHES]
    losses, truncations = losses_of(report), truncations_of(report)
    questions = OpenQuestions.of(report)
    parts = headline_parts(report, questions)
    flagged = _groups(report, report.flagged)
    known = _groups(report, [finding for finding in breaches if report.is_known(finding)])
    asked_for = _groups(report, [finding for finding in report.findings if finding.verdict not in BREACHES])
    shown = [finding for group in (*flagged, *known, *asked_for) for finding in group.shown]
    return page(
        "report/page.html.jinja",
        script="report/filter.js",
        functions=(
            by_offsets, offsets, how_many, what_was_lost, overview, how, producer, excerpt, stated_topic_id, migration_lines, paragraphs,
            why, known_since, error_text, without_elections,
        ),
        report=report,
        headline=" ".join(filter(None, parts)),
        headline_parts=parts,
        standing=STANDING.get(parts[0][0], "unsure"),
        losses=new_first(report, losses),
        lost_writes=missing_writes(report),
        answer=answer(report),
        steps=next_steps(report, questions),
        whether_all=completeness(report),
        truncations=_by_what_was_given_out(truncations),
        elections=elections_judged(report),
        undelivered=undelivered_of(report),
        spares_clients=spares_clients(losses, truncations),
        flagged=flagged,
        asked_for=asked_for,
        known=known,
        accepted=[finding for finding in breaches if report.accepts(finding)],
        shown_ids=_linkable(shown),
        pictured=_pictured(report),
        with_subjects=[rule for rule in report.rules if rule.subjects],
        unmet=[rule for rule in report.rules if not rule.subjects],
        doubtful=[rule for rule in report.rules if rule.count(UNVERIFIABLE)],
        verdicts=VERDICTS,
        logs=LOGS,
        meanings=MEANINGS.items(),
        shown_files=SHOWN_FILES,
        shown_consequences=SHOWN_CONSEQUENCES,
        shown_consumers=SHOWN_CONSUMERS,
    )  # fmt: skip


def by_offsets(consumers: Sequence[Reader | Skipped]) -> list[tuple[str, str]]:
    """(names, offsets) of consumers, those with the same offsets together: (`c1 (g1), c2`, `offsets 10 to 29`)."""
    names: dict[str, list[str]] = {}
    for one in consumers:
        group = f" ({short(one.group, SHORT)})" if one.group else ""
        who = f"{short(one.client, SHORT)}{group}" if one.client else f"group{group}"
        names.setdefault(offsets(one.first_offset, one.last_offset), []).append(who)
    return [(", ".join(of_range), stretch) for stretch, of_range in names.items()]


def _linkable(shown: Iterable[Finding]) -> frozenset[str]:
    """The ids of the findings that have an element of their own."""
    return frozenset(
        one.finding_id for finding in shown for one in (finding, *finding.consequences[:SHOWN_CONSEQUENCES])
    )


def _pictured(report: Report) -> dict[str, str]:
    """Finding id -> id of the picture that has a mark of it."""
    return {
        finding_id: f"picture-{number}"
        for number, picture in enumerate(report.pictures, 1)
        for step in picture.steps
        for _, finding_id in step.findings
    }


def _by_what_was_given_out(found: Sequence[Removal]) -> list[tuple[str, list[Removal]]]:
    of_kind = [(what, [one for one in found if one.harmed is given_out]) for given_out, what in WHAT_TRUNCATED.items()]
    return [(what, listed) for what, listed in of_kind if listed]


def _groups(report: Report, found: Iterable[Finding]) -> list[Group]:
    """By severity, rule and verdict, the worst first."""
    results = {rule.rule: rule for rule in report.rules}
    groups = list(grouped(found))
    advice = _advice(groups, results)
    whole = max(1, min(SHOWN_PER_RULE, SHOWN // max(1, len(groups))))
    room = LISTED
    listing = []
    for own, of_group in zip(groups, advice, strict=True):
        listed = own[whole : whole + room]
        room -= len(listed)
        listing.append(
            Group(
                own[0].severity,
                own[0].rule,
                own[0].verdict,
                len(own),
                results.get(own[0].rule),
                tuple(own[:whole]),
                tuple(listed),
                tuple(one for one in report.repeated if (one.rule, one.verdict) == (own[0].rule, own[0].verdict)),
                tuple(of_group),
            )
        )
    return listing


def _advice(groups: Iterable[list[Finding]], results: Mapping[str, RuleResult]) -> list[list[tuple[str, str]]]:
    """For each group (rule, what to do), each rule once: beside its own findings, or else where it is a consequence.

    Nothing for fenced subjects or those that passed, unless the rule observes: there is nothing to mend.
    """
    own = [group[0].rule if _demands(group[0], results) else "" for group in groups]
    inside = [
        [one.rule for finding in group for one in finding.consequences if one.rule not in own] for group in groups
    ]
    shown: set[str] = set()
    advice = []
    for rule, consequences in zip(own, inside, strict=True):
        new = [one for one in dict.fromkeys((rule, *consequences)) if one not in shown]
        shown.update(new)
        advice.append([(one, results[one].what_to_do) for one in new if one in results and results[one].what_to_do])
    return advice


def _demands(finding: Finding, results: Mapping[str, RuleResult]) -> bool:
    observes = finding.rule in results and results[finding.rule].severity == INFO
    return finding.verdict in BREACHES or (observes and finding.verdict != UNVERIFIABLE)
