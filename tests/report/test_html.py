"""The HTML page: what it shows, that others' text cannot act in it, that it needs nothing else, that it is well formed."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from datetime import date
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import Inventory, Migration, Mode
from epochaudit.losses.removal import Reader, Removal, Replica
from epochaudit.report import html
from epochaudit.report.contents import Acceptance, Repeated, Report
from epochaudit.report.losses import OpenQuestions
from epochaudit.report.next_steps import next_steps
from epochaudit.report.text import headline, headline_parts
from tests.hostile import UNSAFE, hostile_report

VOID = frozenset({"meta", "br", "img", "link", "input", "hr", "base", "source", "area", "col", "embed", "track", "wbr"})


class Page(HTMLParser):
    """A page that is read strictly: its elements nest, ids are there once."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def elements(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.seen if tag in tags]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_the_page_states_a_migration_from_zookeeper(report: Report) -> None:
    migration = Migration(
        "west", (("dual-write", 7_000), ("KRaft", 12_000)), (Mode(1, "zookeeper", 1_000), Mode(1, "kraft", 9_000))
    )
    text = Page(html.render(replace(report, inventory=replace(report.inventory, migrations=(migration,))))).text
    assert (
        "migration from ZooKeeper to KRaft: dual-write from 1970-01-01 00:00:07 UTC, KRaft from 1970-01-01 00:00:12 UTC."
        in text
    )
    assert (
        "node 1 was a ZooKeeper broker from 1970-01-01 00:00:01, then a KRaft broker from 1970-01-01 00:00:09." in text
    )


def test_the_verdict_comes_first_and_is_the_title(report: Report) -> None:
    page = Page(html.render(report))
    assert page.text.count(headline(report)) >= 2
    assert [attributes.get("class") for attributes in page.elements("h1")] == ["bad"]


def test_what_was_judged_and_what_is_missing_is_smaller_than_the_answer(report: Report, lacking: Report) -> None:
    answer, rest = headline_parts(lacking, OpenQuestions.of(lacking))
    assert (answer, f"{answer} {rest}") == ("✗ 1 violation, 0 exposed.", headline(lacking))
    assert f'<h1 class="bad">{answer} <small>41,034 judged; evidence is missing: all logs of node 3' in html.render(
        lacking
    )
    assert rest.endswith("(+1 reason below).")
    nothing = Report("0.1.0", Inventory(), (), ())
    assert headline_parts(nothing, OpenQuestions.of(nothing))[1] == "No subject of any rule was found."
    clean = replace(report, findings=(), rules=report.rules[:1])
    assert headline_parts(clean, OpenQuestions.of(clean)) == (headline(clean), "")
    assert "<small>" not in html.render(clean)


def test_what_to_do_stands_once_beside_the_findings_of_a_rule(report: Report, finding: Finding) -> None:
    advice = {"SR-01": "Restart `broker 2`.\nThen <wait>.", "FF-01": "Ask the client.", "TI-01": "Move the folder."}
    rules = tuple(replace(rule, what_to_do=advice[rule.rule]) for rule in report.rules)
    consequence = replace(finding, finding_id="b", rule="FF-01")
    exposed = replace(finding, finding_id="c", verdict="exposed", consequences=(replace(consequence, finding_id="d"),))
    found = (replace(finding, consequences=(consequence,)), exposed)
    page = html.render(replace(report, rules=rules, findings=found))
    assert "<p><strong>What to do:</strong> Restart <code>broker 2</code>.</p>\n<p>Then &lt;wait&gt;.</p>" in page
    assert "<p><strong>What to do about FF-01:</strong> Ask the client.</p>" in page
    assert page.count("<strong>What to do") == 2
    assert "Move the folder" not in page


def test_what_to_do_is_shown_for_observations_but_not_for_what_was_fenced(report: Report, finding: Finding) -> None:
    def shown(verdict: str, severity: str) -> bool:
        rules = tuple(replace(rule, what_to_do="Restart it.", severity=severity) for rule in report.rules)
        return "Restart it." in html.render(replace(report, rules=rules, findings=(replace(finding, verdict=verdict),)))

    assert shown("exposed", "low")
    assert shown("pass", "info")
    assert not shown("fenced", "critical")
    assert not shown("unverifiable", "info")


def test_a_rule_that_says_nothing_to_do_has_no_advice(report: Report) -> None:
    assert "<strong>What to do" not in html.render(report)


def test_missing_logs_are_listed(report: Report, lacking: Report) -> None:
    assert "missing" not in Page(html.render(report)).text.split("What was read")[-1]
    read = Page(html.render(lacking)).text.split("What was read")[-1]
    assert "all logs of node 3, which others name (about 4,100 answers); collect its log directory" in read
    assert "version unknown 3 named by others no log" in read
    assert "Not here for any node: request log; verdicts rest on the other logs." in read


def test_the_page_says_what_to_do_next_before_it_proves_anything(lacking: Report) -> None:
    page = html.render(lacking)
    steps = page[page.index('<h2 id="next">What to do next</h2>') : page.index('<h2 id="findings">')]
    for step in next_steps(lacking, OpenQuestions.of(lacking)):
        assert all(words in unescape(steps) for words, _ in step)
    assert "<code>epochaudit explain SR-01</code>: " in steps
    assert "Evidence is missing: all logs of node 3, which others name" in steps
    assert "<code>epochaudit doctor</code> lists what is missing." in steps
    assert '<a href="#next">' in page


def test_what_was_read_has_its_time_span_its_filtered_logs_and_the_names_of_error_codes(report: Report) -> None:
    inventory = replace(
        report.inventory,
        first_time="2026-11-21T04:00:00.000",
        last_time="2026-11-21T04:20:00.000",
        light_nodes=(("west", 1), ("west", 2)),
    )
    read = Page(html.render(replace(report, inventory=inventory))).text.split("What was read")[-1]
    assert "Logs from 2026-11-21T04:00:00.000 to 2026-11-21T04:20:00.000 , as the nodes print their times." in read
    assert "Request log of nodes 1, 2: routine answers are left out on purpose; the recorded ones are judged." in read
    assert "0 NONE: 3,999 ; 74 FENCED_LEADER_EPOCH: 1" in read


def test_clients_that_were_refused_over_and_over_are_linked(report: Report) -> None:
    loop = Repeated("FETCH", "error 3 UNKNOWN_TOPIC_OR_PARTITION", "west", "orders-0", "app", 2, 6_749, None, None)
    assert '<a href="#loops">' in html.render(replace(report, loops=(loop,)))
    assert '<a href="#loops">' not in html.render(report)


def test_a_finding_is_shown_with_its_lines(report: Report) -> None:
    text = Page(html.render(report)).text
    for expected in (
        "SR-01 Stale StopReplica accepted",
        "partition error 74 FENCED_LEADER_EPOCH",
        "broker 2 had installed leader epoch 3",
        "broker-2/state-change.log:264",
        "Follower orders-0 starts at leader epoch 3",
    ):
        assert expected in text


def test_what_could_not_be_judged_has_its_reasons(report: Report) -> None:
    assert (
        "SR-01 2 no state-change.log for the broker SR-01 1 the response was not logged"
        in Page(html.render(report)).text
    )


def test_a_report_without_subjects_is_not_a_clean_one() -> None:
    page = Page(html.render(Report("0.1.0", Inventory(), (), ())))
    assert "Nothing was judged" in page.text
    assert [attributes.get("class") for attributes in page.elements("h1")] == ["unsure"]


def test_text_of_others_stays_text(report: Report, finding: Finding) -> None:
    text = html.render(hostile_report(report, finding))
    page = Page(text)
    assert not any(name.startswith("on") for _, attributes in page.seen for name in attributes)
    assert "<script>window.hacked=1</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "\\x1b[2J" in page.text
    assert not set(text) & UNSAFE


def test_the_page_needs_nothing_from_elsewhere(report: Report, finding: Finding) -> None:
    text = html.render(hostile_report(report, finding))
    page = Page(text)
    assert not page.elements("link", "img", "iframe", "object", "embed", "base")
    assert all((attributes.get("href") or "").startswith("#") for attributes in page.elements("a"))
    assert not any("src" in attributes or "style" in attributes for _, attributes in page.seen)
    assert not re.search(r"url\(|@import", text)


def test_the_policy_permits_the_pages_own_style_and_script_only(report: Report) -> None:
    text = html.render(report)
    [policy] = [a["content"] for a in Page(text).elements("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    directives = dict(directive.split(" ", 1) for directive in (policy or "").split("; "))
    assert directives.pop("default-src") == directives.pop("base-uri") == directives.pop("form-action") == "'none'"
    for element in ("style", "script"):
        [content] = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert directives.pop(f"{element}-src") == f"'sha256-{digest}'"
    assert not directives


def test_it_can_be_walked_without_eyes(report: Report) -> None:
    """One h1, no level of headings left out, headers that state what they head, links that lead somewhere."""
    page = Page(html.render(report))
    levels = [int(tag[1]) for tag, _ in page.seen if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.elements("th"))
    ids = [attributes["id"] for _, attributes in page.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {(a.get("href") or "")[1:] for a in page.elements("a")} <= set(ids)
    assert page.elements("html")[0]["lang"] == "en"


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("selector", "grounds"), [(":root", ("ground", "raised")), (".picture", ("p-ground",))])
def test_all_that_is_written_can_be_read_by_day_by_night_and_on_paper(
    report: Report, selector: str, grounds: tuple[str, ...]
) -> None:
    palettes = re.findall(rf"{re.escape(selector)} \{{(.*?)\}}", html.render(report), re.DOTALL)
    assert len(palettes) == 3
    for palette in palettes:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", palette))
        inks = set(colours) - {*grounds, "line", "p-line"}
        assert len(inks) >= 7
        for ink in inks:
            for ground in grounds:
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


def test_known_findings_stand_apart_and_are_collapsed(report: Report, finding: Finding) -> None:
    known = replace(report, findings=(finding,), known={finding.finding_id: "2026-11-20T02:00:00+00:00"})
    page = Page(html.render(known))
    assert "Known from earlier runs" in page.text
    assert "1 finding that earlier runs reported, the first at 2026-11-20T02:00:00+00:00" in page.text
    assert len(page.elements("article")) == 1
    assert 'id="findings"' not in html.render(known)
    assert 'id="known"' not in html.render(replace(known, known={}))


def test_of_many_findings_some_are_shown_whole_and_the_others_in_short(report: Report, finding: Finding) -> None:
    many = tuple(replace(finding, finding_id=f"{number:024x}") for number in range(html.SHOWN_PER_RULE + 7))
    page = Page(html.render(replace(report, findings=many)))
    assert "7 more SR-01 violation, in short" in page.text
    assert len(page.elements("article")) == html.SHOWN_PER_RULE
    assert len([1 for _, attributes in page.seen if "data-finding" in attributes]) == len(many)


@pytest.mark.slow
def test_ten_thousand_findings_are_a_page_of_less_than_5_mb(report: Report, finding: Finding) -> None:
    text = html.render(replace(report, findings=many_findings(finding, html.LISTED + html.SHOWN + 100)))
    assert len(text.encode()) < 5_000_000
    page = Page(text)
    assert len([1 for _, attributes in page.seen if "data-finding" in attributes]) == html.LISTED + html.SHOWN
    assert "100 more FF-04 violation, in the JSON report." in page.text
    assert len(page.seen) < 60_000


def many_findings(finding: Finding, number: int) -> tuple[Finding, ...]:
    """Findings of five rules, each of another client with a long line."""
    line = replace(finding.evidence[0], text=(finding.evidence[0].text or "") * 4)
    return tuple(
        replace(
            finding,
            finding_id=f"{one:024x}",
            rule=f"FF-0{one % 5}",
            client=f"consumer-payments-{one % 700}",
            partition=one % 64,
            observed="error 0 NONE: the leader served records to a client whose leader epoch 4 was older than its own, 7",
            evidence=(line, *finding.evidence),
        )
        for one in range(number)
    )


def test_accepted_findings_are_listed_with_who_accepts_them(report: Report, finding: Finding) -> None:
    known = {finding.finding_id: Acceptance("known since the last upgrade", "kafka team", date(2027, 1, 31))}
    text = Page(
        html.render(report.accepting(known, expired=frozenset(), unmatched={"x": "TR-06 exposed: orders-1"}))
    ).text
    assert "known since the last upgrade kafka team 2027-01-31" in text
    assert "Accepted, but not found: 1" in text


@pytest.mark.parametrize("first", [0, 1])
def test_a_loss_is_reported_before_everything_else(report: Report, finding: Finding, first: int) -> None:
    lost = replace(finding, rule="TR-06", first_offset=first, last_offset=29)
    reader = replace(lost, rule="TR-01", finding_id="r", client="c1", group="g1", first_offset=10)
    removal = Removal(
        "west", "orders", None, 0, 2, first, 29, (0, 1), True, (Replica(1, 30, 10),), (Reader("c2", None, 10, 12),)
    )
    harmless = replace(removal, leader_epoch=1, partition=7, given_out=False)
    text = Page(html.render(replace(report, findings=(lost, reader), removals=(removal, harmless)))).text
    assert "Read on without noticing: c1 (g1), offsets 10 to 29" in text
    assert "written in leader epochs 0, 1; truncated by broker 1 (its log ended at 30)" in text
    assert "Had read them: c2, offsets 10 to 12" in text
    assert "orders-7: offsets" in text
    assert f"Offsets {first} to 29, {30 - first} records at most, discarded when leader epoch 2 began" in text
    assert text.index("records at most") < text.index("the StopReplica carries leader epoch 2")
