"""The report as text, for somebody who was just woken up: the verdict first, then the proof, then what to do.

The content is the same on a terminal and in a file; a terminal adds colour and its own width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from epochaudit.findings import Finding
from epochaudit.inventory import Inventory
from epochaudit.report.contents import Reader, Removal, Report, RuleResult
from epochaudit.report.losses import Loss, Skipped, elections_judged, losses_of, truncations_of
from epochaudit.report.page import Page, plural, size_of
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, SEVERITIES, UNVERIFIABLE, VERDICTS, VIOLATION

SHOWN_PER_RULE: Final = 5  # findings of one rule and verdict; the rest is counted
SHOWN_REASONS: Final = 3  # reasons for unverifiable, per rule
SHOWN_LOSSES: Final = 10
SHOWN_CONSUMERS: Final = 8
WHAT_TRUNCATED: Final[Mapping[bool | None, str]] = {
    True: "took records from below a high watermark that clients had been told, though no finding tells of it",
    False: "took records that no client had been told of: nothing that was acknowledged by all replicas",
    None: "took records of which it is not in the evidence whether clients had been told of them",
}
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
    _losses(page, report)
    _read(page, report.inventory)
    _findings(page, report)
    _coverage(page, report)
    _next(page, report)
    return page.text()


def headline(report: Report) -> str:
    """The one line that answers the question, always with what was judged and what could not be."""
    violations, exposed = report.unaccepted(VIOLATION), report.unaccepted(EXPOSED)
    accepted = f"; {plural(len(report.accepted), 'finding')} accepted" if report.accepted else ""
    unverifiable = accepted + _unverifiable(report)
    if violations or exposed:
        found = plural(violations, "violation")
        return f"✗ {found}, {exposed:,} exposed; {report.judged:,} judged{unverifiable}"
    if not report.judged:
        why = unverifiable or ": no subject of any rule was found"
        return f"? Nothing was judged, so this result is not a clean one{why}"
    return f"✓ 0 violations, 0 exposed over {report.judged:,} judged{unverifiable}"


def _unverifiable(report: Report) -> str:
    total = report.count(UNVERIFIABLE)
    if not total:
        return ""
    reasons = report.unverifiable_reasons.most_common()
    main = f": {reasons[0][0]}" if reasons else ""
    others = f" (+{plural(len(reasons) - 1, 'reason')} below)" if len(reasons) > 1 else ""
    return f"; {total:,} unverifiable{main}{others}"


def _verdict(page: Page, report: Report) -> None:
    line = headline(report)
    style = {"✗": "bold red", "✓": "bold green"}.get(line[0], "bold yellow")
    page.say((line, style), hang=2)


def _losses(page: Page, report: Report) -> None:
    page.heading("Was data lost?")
    losses = losses_of(report)
    judged, unjudged = elections_judged(report)
    for loss in losses[:SHOWN_LOSSES]:
        _loss(page, loss)
    if len(losses) > SHOWN_LOSSES:
        page.say((f"and {len(losses) - SHOWN_LOSSES:,} more (see --format json)", "dim"), indent=2)
    kept = f"{plural(judged, 'leader epoch')} judged"
    missing = f"; of {unjudged:,} more it could not be judged" if unjudged else ""
    if losses:
        page.say((f"{kept}{missing}", ""), indent=2, hang=2)
    elif judged:
        page.say((f"none that had been given out to clients: {kept}{missing}", ""), indent=2, hang=2)
    else:
        page.say((f"not known: no leader epoch could be judged{missing}", "bold yellow"), indent=2, hang=2)
    for given_out, what in WHAT_TRUNCATED.items():
        _truncations(page, what, [one for one in truncations_of(report) if one.given_out is given_out])


def _loss(page: Page, loss: Loss) -> None:
    partition = "" if loss.partition is None else f"-{loss.partition}"
    where = f"{loss.topic or loss.topic_id}{partition} of {loss.cluster}"
    stretch = f"{offsets(loss.first_offset, loss.last_offset)}, {plural(loss.records, 'record')} at most"
    how = ", below a high watermark that clients had been told" if loss.given_out else ""
    since = "" if loss.leader_epoch is None or not loss.given_out else f" since leader epoch {loss.leader_epoch}"
    page.say((where, "bold red"), (f": {stretch}, gone{since}{how}", ""), indent=2, hang=2)
    if loss.epochs or loss.replicas:
        page.say((_of_what(loss), ""), indent=4, hang=2)
    for verb, readers in (("had read them", loss.read_by), ("read on without noticing", loss.skipped)):
        if readers:
            page.say((f"{verb}: {_named(readers, loss)}", ""), indent=4, hang=2)


def _truncations(page: Page, what: str, found: Sequence[Removal]) -> None:
    if found:
        page.say((f"{plural(len(found), 'truncation')} {what}", ""), indent=2, hang=2)
    for one in found[:SHOWN_LOSSES]:
        stretch = offsets(one.first_offset, one.last_offset)
        page.say(
            (
                f"{one.topic}-{one.partition} of {one.cluster}: {stretch}, gone since leader epoch {one.leader_epoch}",
                "",
            ),
            (f"; {_of_what(one)}" if one.epochs or one.replicas else "", ""),
            (f"; had read them: {_named(one.read_by, one)}" if one.read_by else "", ""),
            indent=4,
            hang=2,
        )
    if len(found) > SHOWN_LOSSES:
        page.say((f"and {len(found) - SHOWN_LOSSES:,} more (see --format json)", "dim"), indent=4)


def _of_what(removed: Loss | Removal) -> str:
    """`written in leader epochs 0, 1; truncated by broker 1 (its log ended at 30)`."""
    epochs = ", ".join(map(str, removed.epochs))
    written = f"written in leader epoch{'s' if len(removed.epochs) > 1 else ''} {epochs}" if epochs else ""
    brokers = [
        f"broker {one.node}" + ("" if one.log_end is None else f" (its log ended at {one.log_end})")
        for one in removed.replicas
    ]
    return "; ".join(part for part in (written, f"truncated by {', '.join(brokers)}" if brokers else "") if part)


def _named(consumers: Sequence[Reader | Skipped], removed: Loss | Removal) -> str:
    """Clients and their groups, with the offsets where they are not all that was removed."""
    names = []
    for one in consumers[:SHOWN_CONSUMERS]:
        name = f"{one.client} ({one.group})" if one.client and one.group else one.client or f"group {one.group}"
        part = (one.first_offset, one.last_offset)
        whole = part == (removed.first_offset, removed.last_offset)
        names.append(name if whole else f"{name} {offsets(*part)}")
    more = f" and {len(consumers) - SHOWN_CONSUMERS:,} more" if len(consumers) > SHOWN_CONSUMERS else ""
    return f"{', '.join(names)}{more}"


def offsets(first: int, last: int) -> str:
    """`offset 94`, `offsets 10 to 29`."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


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
        page.say(
            (f"node {node.node}{of_cluster}: {roles}, Kafka {node.kafka or 'version unknown'}", ""), indent=2, hang=2
        )
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
            why = f": {accepted.reason} ({accepted.owner}, until {accepted.expires.isoformat()})"
            page.say((f"{finding.rule} {finding.verdict}", "bold"), (f"  {_where(finding)}{why}", ""), indent=2, hang=2)
    if report.expired:
        page.say((f"expired, and counted again: {len(report.expired):,}", "bold yellow"), indent=2)
    if report.unmet:
        page.say((f"accepted, but not found: {len(report.unmet):,}", ""), indent=2)


def _groups(page: Page, found: list[Finding], results: dict[str, RuleResult]) -> None:
    def group(finding: Finding) -> tuple[int, str, int]:
        return SEVERITIES.index(finding.severity), finding.rule, -VERDICTS.index(finding.verdict)

    for number, ((severity, rule, _), members) in enumerate(groupby(sorted(found, key=group), key=group)):
        if number:
            page.blank()
        _group(page, SEVERITIES[severity], results.get(rule), list(members))


def _group(page: Page, severity: str, result: RuleResult | None, members: list[Finding]) -> None:
    first = members[0]
    about = f": {result.title} ({result.kip})" if result else ""
    count = plural(len(members), first.verdict) if first.verdict == VIOLATION else f"{len(members):,} {first.verdict}"
    page.say(
        (f"{severity.upper()} ", "bold"),
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
        place = f"{line.file}:{line.line}" if line.line is not None else f"{line.file} at byte {line.byte_offset}"
        page.say((f"{place}  ", "cyan"), (line.role, "italic"), indent=4, hang=2)
        text = line.text if line.text is not None else "(the file can't be read any more)"
        page.say((excerpt(text, finding), "dim"), indent=6)
    for one in finding.consequences:
        page.field("so also", f"{one.rule} {one.verdict}: {_where(one)}: {one.observed}")


def _where(finding: Finding) -> str:
    parts = [
        finding.subject,
        None if finding.node is None else f"node {finding.node}",
        None if finding.leader_epoch is None else f"leader epoch {finding.leader_epoch}",
        None if finding.client is None else f"client {finding.client}",
        None if finding.group is None else f"group {finding.group}",
        None if finding.correlation_id is None else f"correlation id {finding.correlation_id}",
        f"cluster {finding.cluster}",
    ]
    return ", ".join(part for part in parts if part)


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
    reasons = sorted(rule.unverifiable_reasons.items(), key=lambda item: (-item[1], item[0]))
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
    if report.count(UNVERIFIABLE) or not report.judged:
        page.say(
            ("Where a log is missing, add it and audit again: unverifiable does not mean clean.", ""),
            indent=2,
            hang=2,
        )
    if not flagged and report.judged:
        page.say(("Nothing to fix. `--show fenced` lists what the protocol refused.", ""), indent=2, hang=2)


def _unique(rules: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(rules))
