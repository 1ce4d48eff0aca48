"""Accepted findings: what the file may hold, until when it counts, and that nothing else is accepted with them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from epochaudit.cli import app
from epochaudit.cli.baseline import BaselineError, read_baseline, written
from epochaudit.findings.finding import Finding
from epochaudit.report import json_report, text
from epochaudit.report.contents import Acceptance, Report
from epochaudit.rules.rule import FENCED

TODAY = date(2026, 11, 22)
ACCEPTED = Acceptance("a drill", "storage on-call", date(2027, 2, 20))


def baseline(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "baseline.toml"
    path.write_text(text, "utf-8")
    return path


def entry(finding_id: str, expires: str = "2027-02-20") -> str:
    return f'[[accepted]]\nfinding_id = "{finding_id}"\nreason = "a drill"\nowner = "storage"\nexpires = {expires}\n'


def test_what_is_written_accepts_what_was_found_and_all_that_it_caused(
    report: Report, finding: Finding, tmp_path: Path
) -> None:
    effect = replace(finding, finding_id="e" * 24, client='q"\\\x1b\n')
    asked_for = replace(finding, finding_id="f" * 24, verdict=FENCED)
    found = (replace(finding, consequences=(effect,)), asked_for)
    read = read_baseline(baseline(tmp_path, written(found, ACCEPTED)))
    assert [(one.finding_id, one.reason, one.owner, one.expires) for one in read.entries] == [
        (id, ACCEPTED.reason, ACCEPTED.owner, ACCEPTED.expires) for id in (finding.finding_id, effect.finding_id)
    ]
    (sr01,) = (rule for rule in report.rules if rule.rule == "SR-01")
    two = replace(report, findings=found[:1], rules=(replace(sr01, verdicts={"violation": 2}),))
    applied = read.applied(two, TODAY)
    assert two.reaches("violation")
    assert not applied.reaches("unverifiable")
    assert (applied.expired, applied.unmatched) == (frozenset(), {})


@pytest.mark.parametrize(("day", "reached"), [("2026-11-22", False), ("2026-11-21", True)])
def test_an_entry_is_good_on_its_last_day_and_no_longer(
    report: Report, finding: Finding, tmp_path: Path, day: str, reached: bool
) -> None:
    read = read_baseline(baseline(tmp_path, entry(finding.finding_id, day)))
    applied = read.applied(report, TODAY)
    assert applied.reaches("violation") is reached
    assert applied.expired == ({finding.finding_id} if reached else frozenset())


def test_another_finding_of_the_rule_still_counts(report: Report, finding: Finding, tmp_path: Path) -> None:
    other = replace(finding, finding_id="a" * 24)
    (sr01,) = (rule for rule in report.rules if rule.rule == "SR-01")
    two = replace(report, findings=(finding, other), rules=(replace(sr01, verdicts={"violation": 2}),))
    applied = read_baseline(baseline(tmp_path, entry(finding.finding_id) + entry("b" * 24))).applied(two, TODAY)
    assert applied.counted("violation") == 1
    assert applied.unmatched.keys() == {"b" * 24}
    page = " ".join(text.render(applied).split())
    assert page.startswith("✗ 1 violation, 0 exposed")
    assert "1 finding accepted" in page
    assert "a drill (storage, until 2027-02-20)" in page
    assert f"accepted, but not found: {'b' * 24}" in page


def test_by_subject_an_entry_accepts_the_finding_of_another_cluster(
    report: Report, finding: Finding, tmp_path: Path
) -> None:
    anew = replace(finding, finding_id="1" * 24, cluster="run-18", topic_id="x", node=1, client="c\x1b")
    elsewhere = replace(anew, finding_id="2" * 24, partition=7)
    file = baseline(tmp_path, written([replace(finding, client="c\x1b")], ACCEPTED))
    two = replace(report, findings=(anew, elsewhere))
    by_id, by_subject = (read_baseline(file, match).applied(two, TODAY) for match in ("id", "subject"))
    assert by_id.accepted == {}
    assert list(by_id.unmatched) == [finding.finding_id]
    assert "SR-01 violation: orders-0 at node 2 of west" in by_id.unmatched[finding.finding_id]
    assert by_subject.accepted == {anew.finding_id: ACCEPTED}
    assert by_subject.unmatched == {}
    assert two.totals["accepted"] == {"violation": 0, "exposed": 0}
    assert by_subject.totals["accepted"] == {"violation": 1, "exposed": 0}


def test_by_subject_an_entry_needs_what_is_compared(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="has no rule or no verdict, which --baseline-match subject compares"):
        read_baseline(baseline(tmp_path, entry("a")), "subject")


def test_a_new_consequence_of_an_accepted_finding_is_shown_and_counts(
    report: Report, finding: Finding, tmp_path: Path
) -> None:
    effect = replace(finding, finding_id="e" * 24, rule="FF-01")
    (ff01,) = (rule for rule in report.rules if rule.rule == "FF-01")
    rules = (replace(ff01, verdicts={"violation": 1}), *report.rules[1:])
    caused = replace(report, findings=(replace(finding, consequences=(effect,)),), rules=rules)
    applied = read_baseline(baseline(tmp_path, entry(finding.finding_id))).applied(caused, TODAY)
    assert applied.reaches("violation")
    assert "caused" in text.render(applied)


def test_json_states_who_accepted_what(report: Report, finding: Finding, tmp_path: Path) -> None:
    document = json_report.document(report)
    assert document["findings"][0]["accepted"] is None
    assert document["baseline"] == {"expired": [], "unmet": []}
    applied = read_baseline(baseline(tmp_path, entry(finding.finding_id))).applied(report, TODAY)
    accepted = json.loads(json_report.render(applied))["findings"][0]["accepted"]
    assert accepted == {"reason": "a drill", "owner": "storage", "expires": "2027-02-20"}


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("[[accepted]", "baseline.toml is not valid TOML: "),
        ("[[rules]]\n", "baseline.toml: unknown key 'rules'; known keys: accepted"),
        ("accepted = 3\n", "baseline.toml: accepted has to be a list of tables, found 3"),
        ("accepted = [3]\n", "baseline.toml, [[accepted]] 1 has to be a table, found 3"),
        (
            entry("a").replace('"a drill"', '" "'),
            "[[accepted]] 1: reason has to be a text that states why the finding is accepted, found ' '",
        ),
        (
            entry("a").replace("owner", "# owner"),
            "[[accepted]] 1: owner is missing; it has to be a text that states who",
        ),
        (entry("a").replace("expires", "# expires"), "expires is missing; it has to be a date like 2027-02-20"),
        (entry("a", '"2027-02-20"'), "expires has to be a date like 2027-02-20, without quotes, found '2027-02-20'"),
        (entry("a", "2027-02-20T00:00:00"), "expires has to be a date like 2027-02-20, without quotes"),
        (entry("a") + "why = 1\n", "[[accepted]] 1: unknown key 'why'; known keys: finding_id, reason, owner"),
        (entry("a") + "ruel = 'SR-01'\n", "unknown key 'ruel'; did you mean 'rule'?"),
        (entry("a") + "about = 3\n", "[[accepted]] 1: about has to be a string, found 3"),
        (entry("a") + entry("a"), "[[accepted]] 2 accepts finding a, as one before does"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, content: str, hint: str) -> None:
    with pytest.raises(BaselineError) as error:
        read_baseline(baseline(tmp_path, content))
    assert hint in str(error.value)


def test_a_baseline_that_was_written_makes_the_same_audit_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], report: Report, tmp_path: Path
) -> None:
    monkeypatch.setattr(app, "audited", lambda _, __, accepting, **___: nullcontext(accepting(report)))
    monkeypatch.chdir(tmp_path)
    assert app.main(["audit", "c"]) == 1
    assert app.main(["baseline", "c", "--output", "accepted.toml", "--owner", "storage"]) == 0
    assert app.main(["audit", "c", "--baseline", "accepted.toml"]) == 0
    capsys.readouterr()
    assert app.main(["baseline", "c", "--output", "old.toml", "--expires", "2020-01-01"]) == 0
    assert app.main(["audit", "c", "--baseline", "old.toml"]) == 1
    assert "expired, and counted again: 1" in capsys.readouterr().out


def test_a_missing_baseline_is_reported_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(app, "audited", lambda *_, **__: pytest.fail("it ran"))
    assert app.main(["audit", "c", "--baseline", str(tmp_path / "none.toml")]) == 2
    assert "can't read baseline" in capsys.readouterr().err


def test_findings_that_are_not_listed_can_not_be_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], report: Report
) -> None:
    monkeypatch.setattr(app, "audited", lambda *_, **__: nullcontext(replace(report, left_out={"SR-01": 9})))
    assert app.main(["baseline", "c"]) == 2
    assert "--ignore the rule" in capsys.readouterr().err
