"""The text report: verdict first, proof next, harmless in a terminal, the same content everywhere."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import Inventory
from epochaudit.losses.removal import Removal
from epochaudit.report import text
from epochaudit.report.contents import Repeated, Report, RuleResult
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, UNVERIFIABLE, VERDICTS, VIOLATION


def judged(**verdicts: int) -> RuleResult:
    reasons = {"no state-change.log for node 3": verdicts["unverifiable"]} if "unverifiable" in verdicts else {}
    return RuleResult(
        "SR-01", "stale-stop-replica-accepted", "Stale StopReplica accepted", "KIP-570", "critical", verdicts, reasons
    )


def report_of(*rules: RuleResult) -> Report:
    return Report("0.1.0", Inventory(), rules, ())


def unwrapped(page: str) -> str:
    return re.sub(r"\s+", " ", page)


def test_a_clean_headline_states_what_was_judged_and_what_could_not_be() -> None:
    report = report_of(judged(**{PASS: 41_000, FENCED: 233, UNVERIFIABLE: 212}))
    assert text.headline(report) == (
        "✓ 0 violations, 0 exposed over 41,233 judged. 212 unverifiable: no state-change.log for node 3."
    )


def test_findings_lead_the_headline() -> None:
    assert (
        text.headline(report_of(judged(**{VIOLATION: 1, EXPOSED: 5, PASS: 10})))
        == "✗ 1 violation, 5 exposed. 16 judged."
    )


def test_nothing_judged_is_not_presented_as_clean() -> None:
    line = text.headline(report_of(judged(**{UNVERIFIABLE: 4})))
    assert line.startswith("? Nothing was judged")
    assert line.endswith("4 unverifiable: no state-change.log for node 3.")
    assert "✓" not in text.render(report_of())


def test_a_node_without_its_logs_is_listed_first_and_by_name(lacking: Report) -> None:
    page = text.render(replace(lacking, findings=(), rules=(judged(**{PASS: 7}),)))
    assert unwrapped(page).startswith(
        "? 0 violations, 0 exposed over 7 judged. Evidence is missing: all logs of node 3, which others name "
        "(about 4,100 answers) and 1 more. "
    )
    printed = unwrapped(page)
    assert "missing: all logs of node 3, which others name (about 4,100 answers); collect its log directory" in printed
    assert "missing: state-change.log of node 2; add it: node 1 wrote one" in printed
    assert "not here for any node: request log; verdicts rest on the other logs" in printed
    assert "epochaudit doctor lists what is missing" in printed
    assert "Nothing to fix" not in printed


def test_a_truncation_that_may_be_a_loss_is_no_clean_result() -> None:
    one = Removal("west", "orders", None, 3, 7, 10, 29, (6,), None)
    harmless = replace(one, partition=4, given_out=False)
    report = replace(report_of(judged(**{PASS: 7})), removals=(one, harmless))
    assert text.headline(report) == (
        "? 0 violations, 0 exposed over 7 judged. 20 records at most were truncated from orders-3; "
        "whether committed is not in the evidence."
    )
    assert "Nothing to fix" not in text.render(report)
    assert "Nothing to fix" in text.render(replace(report, removals=(harmless,)))


def test_of_harmless_truncations_a_few_are_listed_and_all_counted() -> None:
    removals = tuple(Removal("west", "orders", None, n, 7, 10, 29, (6,), False) for n in range(8))
    page = unwrapped(text.render(replace(report_of(judged(**{PASS: 7})), removals=removals)))
    assert "8 truncations" in page
    assert page.count("discarded when leader epoch 7 began") == 3
    assert "and 5 more (see --format json)" in page


def test_consequences_are_counted_apart_from_the_findings_that_hold_them(report: Report, finding: Finding) -> None:
    rules = (judged(**{VIOLATION: 3, PASS: 2}),)
    root = replace(finding, consequences=(replace(finding, rule="TR-01"), replace(finding, rule="TR-02")))
    line = text.headline(replace(report, rules=rules, findings=(root,)))
    assert line == "✗ 3 violations, 0 exposed (1 finding, which caused the other 2). 5 judged."


def test_a_client_in_a_loop_is_one_line(report: Report, finding: Finding) -> None:
    loop = Repeated(
        "SR-01", FENCED, "west", "orders-0", "app", 2, 6_749, "2026-11-21T04:00:00.000", "2026-11-21T04:05:00.000"
    )
    page = unwrapped(text.render(replace(report, findings=(replace(finding, verdict=FENCED),), repeated=(loop,))))
    assert (
        "SR-01: 1 fenced by the rule against “Stale StopReplica accepted” (KIP-570) client app, orders-0 at node 2: "
        "6,749 times, 2026-11-21T04:00:00.000 to 2026-11-21T04:05:00.000, 22.5 a second"
    ) in page
    assert "CRITICAL" not in page


def test_several_reasons_are_counted_in_the_headline(report: Report) -> None:
    assert text.headline(report).endswith("3 unverifiable: no state-change.log for the broker (+1 reason below).")


def test_the_page_starts_with_the_verdict_and_holds_the_chain_of_proof(report: Report) -> None:
    page = text.render(report)
    assert page.startswith("✗ 1 violation, 0 exposed. 41,034 judged")
    printed = unwrapped(page)
    assert "CRITICAL SR-01: Stale StopReplica accepted (KIP-570), 1 violation" in printed
    assert "violation orders-0, node 2, leader epoch 2, correlation id 17, 2026-11-21T04:08:14.133 expected" in printed
    assert "expected partition error 74 FENCED_LEADER_EPOCH" in printed
    assert "because broker 2 had installed leader epoch 3 the StopReplica carries leader epoch 2" in printed
    assert "broker-2/state-change.log:264 the leader epoch that was installed" in printed
    assert "Follower orders-0 starts at leader epoch 3" in printed
    assert "epochaudit explain SR-01" in printed


def test_coverage_names_unjudged_subjects_with_reasons_and_rules_without_subjects(report: Report) -> None:
    printed = unwrapped(text.render(report, detail=text.Detail.VERBOSE))
    assert "SR-01 2: no state-change.log for the broker" in printed
    assert "no subject in this capture: TI-01" in printed
    assert "node 2: broker, Kafka version unknown" in printed
    assert "files not read: 2 metadata-log-segment, 1 unknown (broker-1/notes.txt)" in printed
    assert "broker-2/state-change.log: 1 of 400 lines quarantined" in printed


def test_what_was_judged_is_summed_by_family_unless_each_rule_is_asked_for(report: Report) -> None:
    page = text.render(report)
    printed = unwrapped(page)
    assert re.search(r"SR StopReplica +20 +1 +1 +0 +3 +1 of 1\n", page)
    assert re.search(r"FF fetch fencing +41,000 +12 +0 +0 +0 +1 of 1\n", page)
    assert "no subject in this capture: TI" in printed
    assert "2 of SR-01: no state-change.log for the broker" in printed
    assert "stale-stop-replica-accepted" not in page
    assert "stale-stop-replica-accepted" in text.render(report, detail=text.Detail.VERBOSE)


def test_reasons_of_several_rules_are_added_and_the_rarest_are_counted() -> None:
    results = [
        RuleResult(id, id, id, "KIP-320", "high", {UNVERIFIABLE: sum(reasons.values())}, reasons)
        for id, reasons in (("FF-01", {"a": 5, "b": 1}), ("FF-02", {"a": 4, "c": 2, "d": 3, "e": 1}))
    ]
    printed = unwrapped(text.render(report_of(*results)))
    assert "9 of FF-01, FF-02: a 3 of FF-02: d 2 of FF-02: c 2 for 2 more reasons (see --verbose)" in printed


def test_quiet_prints_the_first_line_only(report: Report) -> None:
    assert text.render(report, detail=text.Detail.QUIET).splitlines() == [text.headline(report)]


def test_a_report_of_a_large_clean_cluster_fits_a_screen(report: Report) -> None:
    families = ("BE", "CE", "CO", "EP", "FF", "HW", "IS", "LD", "LI", "LO", "MD", "OE", "SR", "TI", "TR", "UM")
    rules = tuple(
        RuleResult(
            f"{family}-{number:02}",
            "name",
            "title",
            "KIP-320",
            "high",
            {PASS: 4_000, UNVERIFIABLE: 1},
            {f"reason {number}": 1},
        )
        for family in families
        for number in range(7)
    )
    nodes = tuple(replace(report.inventory.nodes[0], node=number) for number in range(30))
    clean = replace(report, rules=rules, findings=(), inventory=replace(report.inventory, nodes=nodes))
    assert len(text.render(clean).splitlines()) <= 48


def test_the_time_span_and_the_time_of_a_finding_are_printed(report: Report) -> None:
    inventory = replace(report.inventory, first_time="2026-11-21T04:00:00.000", last_time="2026-11-21T04:20:00.000")
    printed = unwrapped(text.render(replace(report, inventory=inventory)))
    assert "west, 2026-11-21T04:00:00.000 to 2026-11-21T04:20:00.000" in printed
    assert "correlation id 17, 2026-11-21T04:08:14.133" in printed


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("detail", [text.Detail.NORMAL, text.Detail.VERBOSE])
def test_lines_keep_within_the_width(report: Report, width: int, detail: text.Detail) -> None:
    assert max(map(len, text.render(report, width=width, detail=detail).splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_table_cuts_neither_titles_nor_numbers(report: Report, width: int) -> None:
    counts = {PASS: 41_000, FENCED: 12, VIOLATION: 1_234_567, UNVERIFIABLE: 3}
    wide = replace(report.rules[0], rule="OE-01", verdicts=counts)
    for detail in (text.Detail.NORMAL, text.Detail.VERBOSE):
        page = text.render(replace(report, rules=(wide,)), width=width, detail=detail)
        table = page[page.index("What was judged") :]
        assert "…" not in table
        for shown in (*VERDICTS, "41,000", "1,234,567"):
            assert shown in table


def test_colour_changes_nothing_but_colour(report: Report) -> None:
    coloured = text.render(report, colour=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == text.render(report).splitlines()


def test_a_long_run_of_similar_findings_is_counted_not_listed(report: Report, finding: Finding) -> None:
    many = tuple(replace(finding, correlation_id=number) for number in range(30))
    page = text.render(replace(report, findings=many))
    assert page.count("expected  ") == text.SHOWN_PER_RULE
    assert "and 25 more SR-01 violation (see --format json)" in page


def test_what_was_asked_for_stands_apart_from_what_is_wrong(report: Report, finding: Finding) -> None:
    page = text.render(replace(report, findings=(replace(finding, verdict=FENCED), finding)))
    assert (
        page.index("Findings")
        < page.index("1 violation\n")
        < page.index("Shown on request")
        < page.index("1 fenced by")
    )


def test_a_client_that_is_refused_without_end_is_named_though_no_rule_judges_it(report: Report) -> None:
    loop = Repeated(
        "FETCH",
        "error 3 UNKNOWN_TOPIC_OR_PARTITION",
        "west",
        "orders-0",
        "app",
        2,
        15_043,
        "2026-11-21T04:00:00.000",
        "2026-11-21T04:05:00.000",
    )
    page = unwrapped(text.render(replace(report, loops=(loop,))))
    assert (
        "Fetches that were refused over and over error 3 UNKNOWN_TOPIC_OR_PARTITION client app, orders-0 at node 2: 15,043 times"
        in page
    )
    assert "refused over and over" not in text.render(report)


def test_escape_sequences_and_bidi_controls_are_shown_not_sent(report: Report, finding: Finding) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp\u2028\x9b31m\r[red]"
    hostile = replace(
        finding,
        topic=evil,
        client=evil,
        observed=evil,
        because=(evil,),
        evidence=tuple(replace(line, text=evil, file=evil) for line in finding.evidence),
    )
    page = text.render(replace(report, findings=(hostile,)), width=120)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]", page)
    assert r"\x1b]0;owned\x07" in page
    assert "[red]" in page


def test_findings_that_are_too_many_to_be_listed_are_counted(report: Report) -> None:
    assert "listed in no format" not in text.render(report)
    page = unwrapped(text.render(replace(report, left_out={"SR-01": 990_000})))
    assert "SR-01: 990,000 more are counted, but listed in no format" in page


def test_every_rule_that_found_something_is_named_under_what_to_do(report: Report, finding: Finding) -> None:
    found = tuple(replace(finding, rule=rule) for rule in ("SR-01", "TR-01", "TR-06", "TI-09", "FF-01"))
    page = unwrapped(text.render(replace(report, findings=found)))
    plain = "what the rule means and what led to it"
    assert f"explain SR-01: {plain} epochaudit explain TR-01: {plain} epochaudit explain TR-06: {plain}" in page
    assert "The same command explains TI-09, FF-01." in page


def test_what_to_do_begins_with_the_rules_own_advice(report: Report, finding: Finding) -> None:
    long = "Restart `broker 2`. Then look. " + "Later, read on and on about all that can be mended. " * 5
    advised = tuple(replace(rule, what_to_do=long) if rule.rule == "SR-01" else rule for rule in report.rules)
    page = text.render(replace(report, rules=advised, findings=(finding, replace(finding, rule="FF-01"))))
    advice = unwrapped(page.partition("What to do next")[2])
    assert "epochaudit explain SR-01: Restart broker 2. Then look. Later, read on" in advice
    assert advice.count("Later, read on") < 5
    assert "epochaudit explain FF-01: what the rule means" in advice


def test_the_beginning_of_every_rules_advice_is_short_enough_for_a_page(report: Report, finding: Finding) -> None:
    for rule in catalogue():
        result = replace(judged(**{VIOLATION: 1}), rule=rule.id, what_to_do=rule.what_to_do)
        page = text.render(replace(report, rules=(result,), findings=(replace(finding, rule=rule.id),)))
        told = page.partition("What to do next\n")[2].rstrip()
        assert told.startswith(f"  epochaudit explain {rule.id}: "), rule.id
        assert told.endswith("."), rule.id
        assert told.count("\n") < 3, rule.id


def test_findings_begin_with_what_their_verdicts_mean(report: Report, finding: Finding) -> None:
    printed = unwrapped(text.render(report))
    assert "Findings violation: accepted what had to be refused, refused with a wrong code, or" in printed
    assert "exposed: stale input was applied or data was lost" not in printed
    inside = replace(finding, consequences=(replace(finding, verdict=EXPOSED),))
    both = unwrapped(text.render(replace(report, findings=(inside,))))
    assert both.index("Findings violation: ") < both.index("exposed: stale input was applied or data was lost")
    assert "exposed: stale" not in unwrapped(text.render(replace(report, findings=())))
