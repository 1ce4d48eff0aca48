"""The report as one HTML page: to be mailed, attached to a ticket, read on a phone, printed.

The page needs no network and no script, and its policy forbids both. Content of logs reaches it only as text: everything
that the template prints is escaped for HTML, and made visible where it is a control or bidirectional character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from epochaudit.findings.finding import BREACHES, Finding
from epochaudit.inventory.inventory import LOGS
from epochaudit.losses.removal import Removal
from epochaudit.report.advice import paragraphs
from epochaudit.report.contents import Repeated, Report, RuleResult, grouped
from epochaudit.report.excerpts import excerpt
from epochaudit.report.loss_text import WHAT_TRUNCATED, how_many, offsets
from epochaudit.report.losses import elections_judged, losses_of, spares_clients, truncations_of, undelivered_of
from epochaudit.report.migrations import migration_lines
from epochaudit.report.neutral import neutral
from epochaudit.report.page import plural, size_of
from epochaudit.report.text import headline
from epochaudit.rules.messages import stated_topic_id
from epochaudit.rules.rule import INFO, UNVERIFIABLE, VERDICTS

SHOWN_PER_RULE: Final = 50  # findings of one rule and verdict; the rest is counted
SHOWN_CONSEQUENCES: Final = 50  # of a finding
SHOWN_CONSUMERS: Final = 100  # of a loss
SHOWN_FILES: Final = 1_000
TEMPLATE: Final = "page.html.jinja"
STANDING: Final = {"✗": "bad", "✓": "good"}  # by the mark that begins the headline
MEANINGS: Final = (
    ("violation", "accepted what had to be refused, refused with a wrong code, or reached a forbidden state"),
    ("exposed", "the protocol version in use has no fence, and stale input was applied or data was lost"),
    ("fenced", "stale or ineligible, and refused with the right code: the protocol worked"),
    ("pass", "accepted, and rightly so"),
    ("unverifiable", "the state, version or response needed is not in the evidence; it never counts as pass"),
)


@dataclass(frozen=True)
class Group:
    """The findings of one rule and verdict, and its repetitions. `more`: number of findings that are not shown.

    advice: (rule, what to do), of this rule and of those whose findings stand inside these only, as consequences.
    """

    severity: str
    rule: str
    verdict: str
    count: int
    result: RuleResult | None
    shown: tuple[Finding, ...]
    repeated: tuple[Repeated, ...] = ()
    advice: tuple[tuple[str, str], ...] = ()

    @property
    def is_breach(self) -> bool:
        """The rule's title, which names the breach, is true of these findings."""
        return self.verdict in BREACHES

    @property
    def more(self) -> int:
        """How many findings are counted but not shown."""
        return self.count - len(self.shown)


def render(report: Report) -> str:
    """The page, ending in a newline."""
    breaches = [finding for finding in report.findings if finding.verdict in BREACHES]
    line, losses, truncations = headline(report), losses_of(report), truncations_of(report)
    return _environment().from_string(_template()).render(
        report=report,
        headline=line,
        standing=STANDING.get(line[0], "unsure"),
        losses=losses,
        truncations=_by_what_was_given_out(truncations),
        elections=elections_judged(report),
        undelivered=undelivered_of(report),
        spares_clients=spares_clients(losses, truncations),
        flagged=_groups(report, [finding for finding in breaches if not report.accepts(finding)]),
        asked_for=_groups(report, [finding for finding in report.findings if finding.verdict not in BREACHES]),
        accepted=[finding for finding in breaches if report.accepts(finding)],
        with_subjects=[rule for rule in report.rules if rule.subjects],
        unmet=[rule for rule in report.rules if not rule.subjects],
        doubtful=[rule for rule in report.rules if rule.count(UNVERIFIABLE)],
        verdicts=VERDICTS,
        logs=LOGS,
        meanings=MEANINGS,
        shown_files=SHOWN_FILES,
        shown_consequences=SHOWN_CONSEQUENCES,
        shown_consumers=SHOWN_CONSUMERS,
    )  # fmt: skip


def _template() -> str:
    return (files("epochaudit.report") / TEMPLATE).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    own = (plural, size_of, offsets, how_many, excerpt, quantity, stated_topic_id, migration_lines, paragraphs)
    environment.globals.update({function.__name__: function for function in own})
    return environment


def _shown(value: Any) -> Any:
    """What an expression of the template prints; text is neutralised before it is escaped."""
    if value is None:
        return ""
    is_markup = hasattr(value, "__html__")  # what a macro made, of parts that were shown before
    return neutral(value) if isinstance(value, str) and not is_markup else value


def _by_what_was_given_out(found: Sequence[Removal]) -> list[tuple[str, list[Removal]]]:
    of_kind = [(what, [one for one in found if one.harmed is given_out]) for given_out, what in WHAT_TRUNCATED.items()]
    return [(what, listed) for what, listed in of_kind if listed]


def _groups(report: Report, found: Iterable[Finding]) -> list[Group]:
    """By severity, rule and verdict, the worst first."""
    results = {rule.rule: rule for rule in report.rules}
    groups = list(grouped(found))
    advice = _advice(groups, results)
    return [
        Group(
            own[0].severity,
            own[0].rule,
            own[0].verdict,
            len(own),
            results.get(own[0].rule),
            tuple(own[:SHOWN_PER_RULE]),
            tuple(one for one in report.repeated if (one.rule, one.verdict) == (own[0].rule, own[0].verdict)),
            tuple(of_group),
        )
        for own, of_group in zip(groups, advice, strict=True)
    ]


def _advice(groups: Iterable[list[Finding]], results: Mapping[str, RuleResult]) -> list[list[tuple[str, str]]]:
    """For each group (rule, what to do), each rule once: beside its own findings, or else where it is a consequence.

    Nothing for fenced subjects or those that passed, unless the rule observes: there is nothing to mend.
    """
    own = [group[0].rule if _demands(group[0], results) else "" for group in groups]
    inside = [
        [one.rule for finding in group for one in finding.consequences if one.rule not in own] for group in groups
    ]
    said: set[str] = set()
    advice = []
    for rule, consequences in zip(own, inside, strict=True):
        new = [one for one in dict.fromkeys((rule, *consequences)) if one not in said]
        said.update(new)
        advice.append([(one, results[one].what_to_do) for one in new if one in results and results[one].what_to_do])
    return advice


def _demands(finding: Finding, results: Mapping[str, RuleResult]) -> bool:
    observes = finding.rule in results and results[finding.rule].severity == INFO
    return finding.verdict in BREACHES or (observes and finding.verdict != UNVERIFIABLE)


def quantity(number: int) -> str:
    """`12,345`."""
    return f"{number:,}"
