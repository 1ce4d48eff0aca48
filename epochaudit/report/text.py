"""The report as text, for somebody who was just woken up: the verdict first, then the proof, then what to do.

The content is the same on a terminal and in a file; a terminal adds colour and its own width.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from epochaudit.findings.excerpts import excerpt
from epochaudit.findings.finding import BREACHES, Finding, with_consequences
from epochaudit.inventory.inventory import LOGS, Inventory
from epochaudit.report.contents import MEANINGS, Repeated, Report, RuleResult, grouped
from epochaudit.report.loss_text import say_losses
from epochaudit.report.losses import OpenQuestions, known_truncations
from epochaudit.report.migrations import migration_lines
from epochaudit.report.missing_writes import discarded_in_short, in_short
from epochaudit.report.next_steps import next_steps
from epochaudit.report.page import Page, plural, size_of
from epochaudit.rules.catalogue import family_title
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, UNVERIFIABLE, VERDICTS, VIOLATION

SHOWN_PER_RULE: Final = 5  # findings of one rule and verdict; the rest is counted
SHOWN_REASONS: Final = 3  # reasons for unverifiable, per rule
SHOWN_MISSING: Final = 10
SHOWN_REPEATED: Final = 5
SHOWN_UNKNOWN: Final = 5
SHOWN_RULES: Final = 5
SHOWN_KNOWN: Final = 5
SHOWN_UNMATCHED: Final = 10
UNWRAPPED: Final = 100_000  # columns
NO_SUBJECT: Final = "no rule has a subject in this capture"


class Detail(Enum):
    """How much the text report prints: the first line only, what was judged by family, or each rule."""

    QUIET = auto()
    NORMAL = auto()
    VERBOSE = auto()


VERDICT_STYLE: Final = {
    VIOLATION: "bold red",
    EXPOSED: "bold yellow",
    FENCED: "green",
    PASS: "green",
    UNVERIFIABLE: "cyan",
}


def render(report: Report, *, width: int = 100, colour: bool = False, detail: Detail = Detail.NORMAL) -> str:
    """The page, at most `width` columns wide unless it is one line, with terminal colours if asked for."""
    page = Page(UNWRAPPED if detail is Detail.QUIET else width, colour=colour)
    questions = OpenQuestions.of(report)
    _verdict(page, report, questions)
    if detail is Detail.QUIET:
        return page.text()
    _clusters(page, report.inventory)
    say_losses(page, report)
    _read(page, report.inventory)
    _settled(page, report)
    _findings(page, report)
    _loops(page, report)
    if detail is Detail.VERBOSE:
        _rules(page, report)
    else:
        _families(page, report)
    _next(page, report, questions)
    return page.text()


def headline(report: Report) -> str:
    """The line that answers the question, always with what was judged, what could not be, and what is missing: one or two sentences."""
    return " ".join(filter(None, headline_parts(report, OpenQuestions.of(report))))


def headline_parts(report: Report, questions: OpenQuestions) -> tuple[str, str]:
    """The headline's answer, and what else it states, a sentence each; the second is empty if there is nothing else."""
    answer, rest = ("; ".join(parts) for parts in _headline(report, questions))
    return f"{answer}.", f"{rest[:1].upper()}{rest[1:].removesuffix('.')}." if rest else ""


def _headline(report: Report, questions: OpenQuestions) -> tuple[list[str], list[str]]:
    """The phrases of the answer, and those of the rest."""
    violations, exposed = report.counted(VIOLATION), report.counted(EXPOSED)
    truncations = known_truncations(report)
    new = "new " if report.known or report.known_writes or truncations else ""
    missing = in_short(report)
    rest = [*_known_in_short(report, len(truncations)), *_unverifiable(report)]
    if violations or exposed:
        found = f"{plural(violations, f'{new}violation')}, {exposed:,} {new}exposed{_consequences(report)}"
        lost = [what for what in (discarded_in_short(report), missing) if what]
        return [f"✗ {found}", *lost], [f"{report.judged:,} judged", *questions.unsettled, *rest]
    if questions.nothing_judged:
        why = [*questions.unsettled, *rest] or ["no subject of any rule was found"]
        return ["? Nothing was judged, so this result is not a clean one"], why
    unknown = [f"whether records were lost is not known: {questions.losses}"] if questions.losses else []
    rest = [*questions.unsettled, *unknown, *rest]
    none = f"0 {new}violations, 0 {new}exposed over {report.judged:,} judged"
    mark = "?" if questions.unsettled or unknown else "!" if missing else "✓"
    return ([f"{mark} {missing}"], [none, *rest]) if missing else ([f"{mark} {none}"], rest)


def _known_in_short(report: Report, truncations: int) -> list[str]:
    """What earlier runs reported, and what the baseline accepts."""
    writes = sum(one.batches for one in report.known_writes)
    since = f" since {min(report.known.values())[:10]}" if report.known else ""
    return [
        *([f"{plural(len(report.known), 'finding')} known{since}"] if report.known else []),
        *([f"{plural(writes, 'acknowledged write')} known to be missing"] if writes else []),
        *([f"{plural(truncations, 'known truncation')}"] if truncations else []),
        *([f"{plural(len(report.accepted), 'finding')} accepted"] if report.accepted else []),
    ]


def _consequences(report: Report) -> str:
    """How many of them stand below inside others, as what those led to."""
    flagged = report.flagged
    inside = sum(len(finding.consequences) for finding in flagged)
    return f" ({plural(len(flagged), 'finding')}, which caused the other {inside:,})" if inside else ""


def _unverifiable(report: Report) -> list[str]:
    total = report.count(UNVERIFIABLE)
    if not total:
        return []
    reasons = report.unverifiable_reasons.most_common()
    main = f": {reasons[0][0]}" if reasons else ""
    others = f" (+{plural(len(reasons) - 1, 'reason')} below)" if len(reasons) > 1 else ""
    return [f"{total:,} unverifiable{main}{others}"]


def _verdict(page: Page, report: Report, questions: OpenQuestions) -> None:
    line = " ".join(filter(None, headline_parts(report, questions)))
    style = {"✗": "bold red", "✓": "bold green"}.get(line[0], "bold yellow")
    page.say((line, style), hang=2)


def _clusters(page: Page, inventory: Inventory) -> None:
    """Which clusters the report is about, and from when: findings of a single cluster do not name it again."""
    clusters = ", ".join(inventory.clusters)
    named = f"cluster{'' if len(inventory.clusters) == 1 else 's'} {clusters}" if clusters else "no cluster"
    span = f", {inventory.first_time} to {inventory.last_time}" if inventory.first_time else ""
    page.say((f"{named}{span}", ""), indent=2, hang=2)


def _read(page: Page, inventory: Inventory) -> None:
    page.heading("What was read")
    size = f"{plural(len(inventory.files), 'file')}, {inventory.lines:,} lines, {size_of(inventory.bytes)}"
    lines = (
        f"{inventory.events:,} lines have events, {inventory.ignored:,} ignored, {inventory.quarantined:,} quarantined"
    )
    page.say((f"{size}: ", ""), (lines, "bold yellow" if inventory.quarantined else ""), indent=2, hang=2)
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for node in inventory.nodes:
        of_cluster = f" of {node.cluster}" if len(inventory.clusters) > 1 else ""
        roles = ", ".join(node.roles) or "role unknown"
        versions = ", then ".join(node.versions) or "version unknown"
        alike[of_cluster, f"{roles}, Kafka {versions}"].append(node.node)
    for (of_cluster, what), ids in alike.items():
        name = f"node{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}{of_cluster}"
        page.say((f"{name}: {what}", ""), indent=2, hang=2)
    for one in inventory.missing[:SHOWN_MISSING]:
        page.say((f"missing: {one}", "bold yellow"), (f"; {one.remedy}" if one.remedy else "", ""), indent=2, hang=2)
    if len(inventory.missing) > SHOWN_MISSING:
        page.say((f"and {len(inventory.missing) - SHOWN_MISSING:,} more (see epochaudit doctor)", "dim"), indent=2)
    if inventory.absent_logs:
        logs = ", ".join(LOGS[source] for source in inventory.absent_logs)
        page.say((f"not here for any node: {logs}; verdicts rest on the other logs", ""), indent=2, hang=2)
    for line in migration_lines(inventory):
        page.say((line, ""), indent=2, hang=2)
    if inventory.light_nodes:
        nodes = ", ".join(str(node) for _, node in inventory.light_nodes)
        text = f"request log of node{'' if len(inventory.light_nodes) == 1 else 's'} {nodes}: routine answers are left out on purpose"
        page.say((f"{text}; the recorded ones are judged", ""), indent=2, hang=2)
    if inventory.left_out:
        kinds = ", ".join(f"{files:,} {kind}" for kind, files in inventory.left_out.items())
        page.say((f"files not read: {kinds}{_unknown(inventory)}", ""), indent=2, hang=2)
    for file in inventory.files:
        if file.quarantined:
            page.say(
                (f"{file.path}: {file.quarantined:,} of {file.lines:,} lines quarantined", "yellow"), indent=2, hang=2
            )


def _settled(page: Page, report: Report) -> None:
    """Until when earlier runs over the warehouse judged, and the files that came too late for them."""
    if report.settled_until is None:
        return
    page.say(
        (f"events before {report.settled_until} were judged by earlier runs; their verdicts are included", ""),
        indent=2,
        hang=2,
    )
    for one in report.late[:SHOWN_MISSING]:
        page.say(
            (f"{one.path} came later: its events from {one.since} until then were not judged", "bold yellow"),
            indent=2,
            hang=2,
        )


def _unknown(inventory: Inventory) -> str:
    """The files of no known format, by name: one of them may be a log that ought to be read."""
    shown = ", ".join(inventory.unknown_files[:SHOWN_UNKNOWN])
    more = len(inventory.unknown_files) - SHOWN_UNKNOWN
    return f" ({shown}{f' and {more:,} more' if more > 0 else ''})" if shown else ""


def _findings(page: Page, report: Report) -> None:
    breaches = [finding for finding in report.findings if finding.verdict in BREACHES]
    flagged = report.flagged
    asked_for = [finding for finding in report.findings if finding.verdict not in BREACHES]
    if flagged:
        page.heading("Findings")
        given = {one.verdict for one in with_consequences(flagged)}
        for verdict in (verdict for verdict in BREACHES if verdict in given):
            page.say((verdict, VERDICT_STYLE[verdict]), (f": {MEANINGS[verdict]}", "dim"), indent=2, hang=2)
        page.blank()
        _groups(page, report, flagged)
    if asked_for:
        page.heading("Shown on request")
        _groups(page, report, asked_for)
    _known(page, report)
    _accepted(page, report, breaches)
    for rule, count in report.left_out.items():
        page.blank()
        page.say(
            (f"{rule}: {count:,} more are counted, but listed in no format", "bold yellow"),
            ("; the library's Audit.findings has them all", ""),
            indent=2,
            hang=2,
        )


def _loops(page: Page, report: Report) -> None:
    """Clients that were refused without end: no breach by itself, but somebody waits there."""
    if report.loops:
        page.heading("Fetches that were refused over and over")
    for one in report.loops[:SHOWN_REPEATED]:
        page.say((f"{one.verdict}  ", "bold"), (f"{one}", ""), indent=2, hang=2)
    if len(report.loops) > SHOWN_REPEATED:
        page.say((f"and {len(report.loops) - SHOWN_REPEATED:,} more (see --format json)", "dim"), indent=2)


def _known(page: Page, report: Report) -> None:
    """What earlier runs over the warehouse reported, a line per rule and verdict."""
    known = [finding for finding in report.findings if report.is_known(finding)]
    if not known:
        return
    page.heading("Known from earlier runs")
    for members in grouped(known):
        rule, verdict = members[0].rule, members[0].verdict
        subjects = _unique(finding.subject or finding.cluster for finding in members)
        more = f" and {len(subjects) - SHOWN_KNOWN:,} more" if len(subjects) > SHOWN_KNOWN else ""
        about = f"{', '.join(subjects[:SHOWN_KNOWN])}{more}"
        since = min(report.known[finding.finding_id] for finding in members)
        page.say(
            (f"{rule} {verdict}", "bold"),
            (f"  {about}: {plural(len(members), 'finding')}", ""),
            (f", since {since}", ""),
            indent=2,
            hang=2,
        )


def _accepted(page: Page, report: Report, breaches: Iterable[Finding]) -> None:
    """The findings that the baseline accepts, how many have expired, and the entries that match no finding."""
    if not (report.accepted or report.expired or report.unmatched):
        return
    page.heading("Accepted by the baseline")
    for finding in breaches:
        if report.accepts(finding):
            accepted = report.accepted[finding.finding_id]
            acceptance = f"  {_where(report, finding)}: {accepted}"
            page.say((f"{finding.rule} {finding.verdict}", "bold"), (acceptance, ""), indent=2, hang=2)
    if report.expired:
        page.say((f"expired, and counted again: {len(report.expired):,}", "bold yellow"), indent=2)
    for about in list(report.unmatched.values())[:SHOWN_UNMATCHED]:
        page.say((f"accepted, but not found: {about}", ""), indent=2, hang=2)
    if len(report.unmatched) > SHOWN_UNMATCHED:
        page.say(
            (
                f"and {len(report.unmatched) - SHOWN_UNMATCHED:,} more entries without a finding (see --format json)",
                "dim",
            ),
            indent=2,
        )


def _groups(page: Page, report: Report, found: Iterable[Finding]) -> None:
    results = {rule.rule: rule for rule in report.rules}
    for number, members in enumerate(grouped(found)):
        if number:
            page.blank()
        of_group = (members[0].rule, members[0].verdict)
        repeated = [one for one in report.repeated if (one.rule, one.verdict) == of_group]
        _group(page, report, results.get(members[0].rule), members, repeated)


def _group(
    page: Page, report: Report, result: RuleResult | None, members: list[Finding], repeated: list[Repeated]
) -> None:
    first = members[0]
    style = VERDICT_STYLE[first.verdict]
    count = plural(len(members), first.verdict) if first.verdict == VIOLATION else f"{len(members):,} {first.verdict}"
    if first.verdict in (VIOLATION, EXPOSED):
        title = f": {result.title} ({result.kip})" if result else ""
        severity = (f"{first.severity.upper()} ", "bold")
        page.say(severity, (first.rule, "bold"), (title, ""), (f", {count}", style), hang=2)
    else:  # the title names the breach that did not happen, or is not proved
        against = f" by the rule against “{result.title}” ({result.kip})" if result else ""
        page.say((first.rule, "bold"), (": ", ""), (count, style), (against, ""), hang=2)
    for one in repeated[:SHOWN_REPEATED]:
        page.say((f"{one}", ""), indent=2, hang=2)
    for finding in members[:SHOWN_PER_RULE]:
        page.blank()
        _finding(page, report, finding)
    if len(members) > SHOWN_PER_RULE:
        page.blank()
        page.say(
            (f"and {len(members) - SHOWN_PER_RULE:,} more {first.rule} {first.verdict} (see --format json)", "dim"),
            indent=2,
        )


def _finding(page: Page, report: Report, finding: Finding) -> None:
    page.say(
        (finding.verdict, VERDICT_STYLE[finding.verdict]), (f"  {_where(report, finding)}", "bold"), indent=2, hang=2
    )
    page.field("expected", finding.expected)
    page.field("observed", finding.observed)
    for number, reason in enumerate(finding.because):
        page.field("because" if number == 0 else "", reason)
    for line in finding.evidence:
        page.say((f"{line.place}  ", "cyan"), (line.role, "italic"), indent=4, hang=2)
        text = line.text if line.text is not None else "(the file can't be read any more)"
        page.say((excerpt(text, finding), "dim"), indent=6)
    for one in finding.consequences:
        page.field("caused", f"{one.rule} {one.verdict}: {_where(report, one)}: {one.observed}")


def _where(report: Report, finding: Finding) -> str:
    return ", ".join(part for part in (finding.subject, report.where(finding), finding.time) if part)


def _families(page: Page, report: Report) -> None:
    """What was judged, by family, and the most frequent reasons why some subjects could not be judged."""
    page.heading("What was judged")
    families: dict[str, list[RuleResult]] = defaultdict(list)
    for rule in report.rules:
        families[rule.rule.partition("-")[0]].append(rule)
    rows = [
        (
            f"{family} {family_title(family)}",
            *(f"{sum(rule.count(verdict) for rule in rules):,}" for verdict in VERDICTS),
            f"{sum(bool(rule.subjects) for rule in rules)} of {len(rules)}",
        )
        for family, rules in families.items()
        if any(rule.subjects for rule in rules)
    ]
    if rows:
        page.table(("family", *VERDICTS, "rules"), rows)
    else:
        page.say((NO_SUBJECT, "bold yellow"), indent=2)
    without = [family for family, rules in families.items() if not any(rule.subjects for rule in rules)]
    if rows and without:
        page.say((f"no subject in this capture: {', '.join(without)}", ""), indent=2, hang=2)
    reasons: Counter[str] = Counter()
    of_rules: dict[str, list[str]] = defaultdict(list)
    for rule in report.rules:
        for reason, subjects in rule.reasons:
            reasons[reason] += subjects
            of_rules[reason].append(rule.rule)
    if reasons:
        page.heading("What could not be judged")
    for reason, subjects in reasons.most_common(SHOWN_REASONS):
        names = ", ".join(of_rules[reason])
        if len(of_rules[reason]) > SHOWN_RULES:
            names = plural(len(of_rules[reason]), "rule")
        page.say((f"{subjects:,} ", "bold"), (f"of {names}: {reason}", ""), indent=2, hang=2)
    if len(reasons) > SHOWN_REASONS:
        rest = sum(reasons.values()) - sum(subjects for _, subjects in reasons.most_common(SHOWN_REASONS))
        more = plural(len(reasons) - SHOWN_REASONS, "more reason")
        page.say((f"{rest:,} for {more} (see --verbose)", "dim"), indent=2)


def _rules(page: Page, report: Report) -> None:
    """What each rule judged, and why it could not judge some of its subjects."""
    page.heading("What was judged")
    with_subjects = [rule for rule in report.rules if rule.subjects]
    if with_subjects:
        page.table(("rule", *VERDICTS, ""), [_counts(rule) for rule in with_subjects])
    else:
        page.say((NO_SUBJECT, "bold yellow"), indent=2)
    without = [rule.rule for rule in report.rules if not rule.subjects]
    if without and with_subjects:
        page.say((f"no subject in this capture: {', '.join(without)}", ""), indent=2, hang=2)
    doubtful = [rule for rule in with_subjects if rule.count(UNVERIFIABLE)]
    if doubtful:
        page.heading("What could not be judged")
    for rule in doubtful:
        _reasons(page, rule)


def _counts(rule: RuleResult) -> tuple[str, ...]:
    return (rule.rule, *(f"{rule.count(verdict):,}" for verdict in VERDICTS), rule.name)


def _reasons(page: Page, rule: RuleResult) -> None:
    reasons = rule.reasons
    for reason, subjects in reasons[:SHOWN_REASONS]:
        page.say((f"{rule.rule}  ", "bold"), (f"{subjects:,}: {reason}", ""), indent=2, hang=len(rule.rule) + 2)
    if len(reasons) > SHOWN_REASONS:
        page.say(
            (f"{rule.rule}  {plural(len(reasons) - SHOWN_REASONS, 'more reason')} (see --format json)", "dim"),
            indent=2,
        )


def _next(page: Page, report: Report, questions: OpenQuestions) -> None:
    page.heading("What to do next")
    for step in next_steps(report, questions):
        page.say(*((text, "bold" if is_command else "") for text, is_command in step), indent=2, hang=2)


def _unique(rules: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(rules))
