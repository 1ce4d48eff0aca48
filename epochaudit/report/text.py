"""The report as text, for somebody who was just woken up: the verdict first, then the proof, then what to do.

The content is the same on a terminal and in a file; a terminal adds colour and its own width.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epochaudit.findings import Finding
from epochaudit.inventory import LOGS, Inventory
from epochaudit.report.contents import Report, RuleResult, grouped
from epochaudit.report.loss_text import say_losses
from epochaudit.report.page import Page, plural, size_of
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, UNVERIFIABLE, VERDICTS, VIOLATION

SHOWN_PER_RULE: Final = 5  # findings of one rule and verdict; the rest is counted
SHOWN_REASONS: Final = 3  # reasons for unverifiable, per rule
EXCERPT: Final = 400  # characters of an evidence line

VERDICT_STYLE: Final = {
    VIOLATION: "bold red",
    EXPOSED: "bold yellow",
    FENCED: "green",
    PASS: "green",
    UNVERIFIABLE: "cyan",
}


def render(report: Report, *, width: int = 100, colour: bool = False) -> str:
    """The page, at most `width` columns wide, with terminal colours if asked for."""
    page = Page(width, colour=colour)
    _verdict(page, report)
    say_losses(page, report)
    _read(page, report.inventory)
    _findings(page, report)
    _coverage(page, report)
    _next(page, report)
    return page.text()


def headline(report: Report) -> str:
    """The one line that answers the question, always with what was judged and what could not be."""
    violations, exposed = report.unaccepted(VIOLATION), report.unaccepted(EXPOSED)
    accepted = f"; {plural(len(report.accepted), 'finding')} accepted" if report.accepted else ""
    unverifiable = accepted + _unverifiable(report) + _incomplete(report.inventory)
    if violations or exposed:
        found = plural(violations, "violation")
        return f"✗ {found}, {exposed:,} exposed; {report.judged:,} judged{unverifiable}"
    if not report.judged:
        why = unverifiable or ": no subject of any rule was found"
        return f"? Nothing was judged, so this result is not a clean one{why}"
    mark = "?" if report.inventory.incomplete else "✓"
    return f"{mark} 0 violations, 0 exposed over {report.judged:,} judged{unverifiable}"


def _unverifiable(report: Report) -> str:
    total = report.count(UNVERIFIABLE)
    if not total:
        return ""
    reasons = report.unverifiable_reasons.most_common()
    main = f": {reasons[0][0]}" if reasons else ""
    others = f" (+{plural(len(reasons) - 1, 'reason')} below)" if len(reasons) > 1 else ""
    return f"; {total:,} unverifiable{main}{others}"


def _incomplete(inventory: Inventory) -> str:
    """What a node did that its own logs would tell is no subject of any rule where they are missing."""
    nodes = [node for _, node in inventory.missing_nodes]
    nodes += [node.node for node in inventory.nodes if node.missing_logs]
    if not nodes:
        return ""
    return f"; logs of {'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, sorted(nodes)))} are missing"


def _verdict(page: Page, report: Report) -> None:
    line = headline(report)
    style = {"✗": "bold red", "✓": "bold green"}.get(line[0], "bold yellow")
    page.say((line, style), hang=2)


def _read(page: Page, inventory: Inventory) -> None:
    page.heading("What was read")
    clusters = ", ".join(inventory.clusters) or "no cluster"
    size = f"{plural(len(inventory.files), 'file')}, {inventory.lines:,} lines, {size_of(inventory.bytes)}"
    page.say((f"{clusters}: {size}", ""), indent=2)
    lines = (
        f"{inventory.events:,} lines with events, {inventory.ignored:,} ignored, {inventory.quarantined:,} quarantined"
    )
    page.say((lines, "bold yellow" if inventory.quarantined else ""), indent=2)
    for node in inventory.nodes:
        of_cluster = f" of {node.cluster}" if len(inventory.clusters) > 1 else ""
        roles = ", ".join(node.roles) or "role unknown"
        versions = ", then ".join(node.versions) or "version unknown"
        missing = "".join(f", no {LOGS[source]}" for source in node.missing_logs)
        page.say(
            (f"node {node.node}{of_cluster}: {roles}, Kafka {versions}", ""), (missing, "yellow"), indent=2, hang=2
        )
    for cluster, node_id in inventory.missing_nodes:
        of_cluster = f" of {cluster}" if len(inventory.clusters) > 1 else ""
        page.say((f"node {node_id}{of_cluster}: named by others, but no log of it is here", "yellow"), indent=2, hang=2)
    if inventory.left_out:
        kinds = ", ".join(f"{files:,} {kind}" for kind, files in inventory.left_out.items())
        page.say((f"files not read: {kinds}", ""), indent=2, hang=2)
    for file in inventory.files:
        if file.quarantined:
            page.say(
                (f"{file.path}: {file.quarantined:,} of {file.lines:,} lines quarantined", "yellow"), indent=2, hang=2
            )


def _findings(page: Page, report: Report) -> None:
    results = {rule.rule: rule for rule in report.rules}
    breaches = [finding for finding in report.findings if finding.verdict in (VIOLATION, EXPOSED)]
    flagged = [finding for finding in breaches if not report.accepts(finding)]
    asked_for = [finding for finding in report.findings if finding.verdict not in (VIOLATION, EXPOSED)]
    if flagged:
        page.heading("Findings")
        _groups(page, flagged, results)
    if asked_for:
        page.heading("Shown on request")
        _groups(page, asked_for, results)
    _accepted(page, report, breaches)
    for rule, count in report.left_out.items():
        page.blank()
        page.say((f"{rule}: {count:,} more are counted but not listed", "bold yellow"), indent=2, hang=2)


def _accepted(page: Page, report: Report, breaches: Iterable[Finding]) -> None:
    """What the baseline says about the findings; those that count again are told, and those that are gone."""
    if not (report.accepted or report.expired or report.unmet):
        return
    page.heading("Accepted by the baseline")
    for finding in breaches:
        if report.accepts(finding):
            accepted = report.accepted[finding.finding_id]
            told = f"  {_where(finding)}: {accepted}"
            page.say((f"{finding.rule} {finding.verdict}", "bold"), (told, ""), indent=2, hang=2)
    if report.expired:
        page.say((f"expired, and counted again: {len(report.expired):,}", "bold yellow"), indent=2)
    if report.unmet:
        page.say((f"accepted, but not found: {len(report.unmet):,}", ""), indent=2)


def _groups(page: Page, found: Iterable[Finding], results: dict[str, RuleResult]) -> None:
    for number, members in enumerate(grouped(found)):
        if number:
            page.blank()
        _group(page, results.get(members[0].rule), members)


def _group(page: Page, result: RuleResult | None, members: list[Finding]) -> None:
    first = members[0]
    about = f": {result.title} ({result.kip})" if result else ""
    count = plural(len(members), first.verdict) if first.verdict == VIOLATION else f"{len(members):,} {first.verdict}"
    page.say(
        (f"{first.severity.upper()} ", "bold"),
        (first.rule, "bold"),
        (about, ""),
        (f", {count}", VERDICT_STYLE[first.verdict]),
        hang=2,
    )
    for finding in members[:SHOWN_PER_RULE]:
        page.blank()
        _finding(page, finding)
    if len(members) > SHOWN_PER_RULE:
        page.blank()
        page.say(
            (f"and {len(members) - SHOWN_PER_RULE:,} more {first.rule} {first.verdict} (see --format json)", "dim"),
            indent=2,
        )


def _finding(page: Page, finding: Finding) -> None:
    page.say((finding.verdict, VERDICT_STYLE[finding.verdict]), (f"  {_where(finding)}", "bold"), indent=2, hang=2)
    page.field("expected", finding.expected)
    page.field("observed", finding.observed)
    for number, reason in enumerate(finding.because):
        page.field("because" if number == 0 else "", reason)
    for line in finding.evidence:
        page.say((f"{line.place}  ", "cyan"), (line.role, "italic"), indent=4, hang=2)
        text = line.text if line.text is not None else "(the file can't be read any more)"
        page.say((excerpt(text, finding), "dim"), indent=6)
    for one in finding.consequences:
        page.field("so also", f"{one.rule} {one.verdict}: {_where(one)}: {one.observed}")


def _where(finding: Finding) -> str:
    return ", ".join(part for part in (finding.subject, finding.where) if part)


def excerpt(text: str, finding: Finding) -> str:
    """Of a long line its beginning and the surroundings of the finding's topic, where it is named further back."""
    if len(text) <= EXCERPT:
        return text
    head = EXCERPT * 2 // 5
    at = text.find(finding.topic, head) if finding.topic else -1
    if at < 0:
        return text[:EXCERPT] + " …"
    start = max(head, at - 20)
    tail = text[start : start + EXCERPT - head]
    return text[:head] + (" … " if start > head else "") + tail + (" …" if start + len(tail) < len(text) else "")


def _coverage(page: Page, report: Report) -> None:
    page.heading("What was judged")
    met = [rule for rule in report.rules if rule.subjects]
    if met:
        page.table(("rule", *VERDICTS, ""), [_counts(rule) for rule in met])
    else:
        page.say(("no rule met a subject in this capture", "bold yellow"), indent=2)
    unmet = [rule.rule for rule in report.rules if not rule.subjects]
    if unmet and met:
        page.say((f"no subject in this capture: {', '.join(unmet)}", ""), indent=2, hang=2)
    doubtful = [rule for rule in met if rule.count(UNVERIFIABLE)]
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


def _next(page: Page, report: Report) -> None:
    flagged = _unique(
        finding.rule
        for finding in report.findings
        if finding.verdict in (VIOLATION, EXPOSED) and not report.accepts(finding)
    )
    page.heading("What to do next")
    for rule in flagged[:3]:
        page.say(
            (f"epochaudit explain {rule}", "bold"),
            (": what the rule means, and what to do about it", ""),
            indent=2,
            hang=2,
        )
    if report.count(UNVERIFIABLE) or report.inventory.incomplete or not report.judged:
        page.say(
            ("Where a log is missing, add it and audit again: unverifiable does not mean clean. ", ""),
            ("epochaudit doctor", "bold"),
            (" tells what is missing.", ""),
            indent=2,
            hang=2,
        )
    if not flagged and report.judged:
        page.say(("Nothing to fix. `--show fenced` lists what the protocol refused.", ""), indent=2, hang=2)


def _unique(rules: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(rules))
