"""What was lost, put together from findings."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from epochaudit.findings.finding import Finding
from epochaudit.losses.removal import Reader, Removal, Replica
from epochaudit.report import html
from epochaudit.report.contents import Acceptance, LostWrites, Report, RuleResult
from epochaudit.report.json_report import document
from epochaudit.report.losses import (
    Skipped,
    elections_judged,
    losses_of,
    truncations_of,
    undelivered_of,
    unsettled_of,
    why,
)
from epochaudit.report.text import headline, render
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, UNVERIFIABLE


def _removed(finding: Finding, **fields: object) -> Finding:
    fields_of_loss = {
        "finding_id": "e",
        "rule": "TR-06",
        "verdict": EXPOSED,
        "leader_epoch": 3,
        "first_offset": 10,
        "last_offset": 29,
    }
    return replace(finding, **{**fields_of_loss, **fields})


def _skipped(finding: Finding, client: str, **fields: object) -> Finding:
    fields_of_skip = {"finding_id": client, "rule": "TR-01", "client": client, "first_offset": 10, "last_offset": 24}
    return replace(finding, **{**fields_of_skip, **fields})


@pytest.fixture
def judged(report: Report) -> Report:
    counts = {PASS: 3, EXPOSED: 1, UNVERIFIABLE: 2}
    return replace(report, rules=(RuleResult("TR-06", "n", "t", "KIP-320", "critical", counts),))


def test_consumers_that_skipped_what_an_election_removed_are_listed_with_it(judged: Report, finding: Finding) -> None:
    (loss,) = losses_of(replace(judged, findings=(_removed(finding), _skipped(finding, "a", group="g"))))
    assert (loss.first_offset, loss.last_offset, loss.records, loss.leader_epoch) == (10, 29, 20, 3)
    assert loss.committed
    assert loss.skipped == (Skipped("a", "g", 10, 24, "a"),)


def test_a_consequence_of_a_finding_counts_as_well(judged: Report, finding: Finding) -> None:
    root = replace(_removed(finding), consequences=(_skipped(finding, "a"),))
    (loss,) = losses_of(replace(judged, findings=(root,)))
    assert [consumer.client for consumer in loss.skipped] == ["a"]


def test_a_consumer_that_two_rules_report_is_listed_once(judged: Report, finding: Finding) -> None:
    twice = (_skipped(finding, "a"), _skipped(finding, "a", rule="CO-04", finding_id="b"))
    (loss,) = losses_of(replace(judged, findings=(_removed(finding), *twice)))
    assert [consumer.finding_id for consumer in loss.skipped] == ["a"]


def test_losses_that_only_consumers_show_are_listed_once(judged: Report, finding: Finding) -> None:
    found = (_skipped(finding, "a"), _skipped(finding, "b", first_offset=8))
    (loss,) = losses_of(replace(judged, findings=found))
    assert not loss.committed
    assert (loss.first_offset, loss.last_offset) == (8, 24)
    assert {consumer.client for consumer in loss.skipped} == {"a", "b"}


@pytest.mark.parametrize(
    "other", [{"partition": 1}, {"topic": "bills"}, {"cluster": "east"}, {"first_offset": 30, "last_offset": 40}]
)
def test_another_stretch_is_another_loss(judged: Report, finding: Finding, other: dict[str, object]) -> None:
    assert len(losses_of(replace(judged, findings=(_removed(finding), _skipped(finding, "a", **other))))) == 2


def test_what_was_refused_lost_nothing(judged: Report, finding: Finding) -> None:
    assert losses_of(replace(judged, findings=(_removed(finding, verdict=FENCED),))) == ()


def test_the_page_answers_the_question(judged: Report, finding: Finding) -> None:
    page = " ".join(render(replace(judged, findings=(_removed(finding), _skipped(finding, "a", group="g")))).split())
    assert "orders-0: offsets 10 to 29, 20 records at most, discarded when leader epoch 3 began" in page
    assert "read on without noticing, and skipped offsets 10 to 24 of the new log: a (g)" in page
    assert "4 leader epochs judged; 2 more could not be judged" in page
    assert elections_judged(judged) == (4, 2)
    removal = Removal("west", "orders", None, 0, 3, 10, 29, counted=18)
    page = " ".join(render(replace(judged, findings=(_removed(finding),), removals=(removal,))).split())
    assert "orders-0: offsets 10 to 29, 18 records, discarded when leader epoch 3 began" in page


def _two_losses(finding: Finding) -> tuple[Finding, ...]:
    return _removed(finding), _removed(finding, finding_id="f", partition=1, last_offset=10)


def _two_exposed(report: Report) -> Report:
    return replace(report, rules=tuple(replace(one, verdicts={PASS: 3, EXPOSED: 2}) for one in report.rules))


def test_a_page_about_a_loss_says_first_that_and_how_much_was_lost(judged: Report, finding: Finding) -> None:
    lost = replace(_two_exposed(judged), findings=_two_losses(finding))
    discarded = "21 records at most were discarded from 2 partitions"
    assert headline(lost).startswith(f"✗ 0 violations, 2 exposed; {discarded}. 5 judged")
    assert render(lost).splitlines()[4].startswith(f"  Yes: {discarded}.")
    assert f"<p><strong>Yes: {discarded}.</strong></p>" in html.render(lost)
    removals = tuple(Removal("west", "orders", None, n, 3, 10, last, counted=n + 1) for n, last in ((0, 29), (1, 10)))
    assert "  Yes: 3 records were discarded from 2 partitions." in render(replace(lost, removals=removals))
    assert "Yes:" not in render(replace(judged, findings=()))
    assert document(lost)["missing_writes"]["summary"] is None


def test_the_headline_counts_no_loss_that_is_accepted_or_known(judged: Report, finding: Finding) -> None:
    lost = replace(_two_exposed(judged), findings=_two_losses(finding))
    known = replace(lost, known={"e": "2026-11-20T02:00:00"})
    accepted = lost.accepting({"e": Acceptance("drill", "me", date(2027, 1, 1))}, expired=set(), unmatched={})
    for report in (known, accepted):
        assert "; 1 record at most was discarded from 1 partition. " in headline(report)
    assert "Yes: 21 records at most were discarded from 2 partitions." in render(accepted)


def test_a_loss_that_an_earlier_run_reported_stands_apart_from_what_is_new(judged: Report, finding: Finding) -> None:
    lost = replace(_two_exposed(judged), findings=_two_losses(finding))
    known, new = "20 records at most were discarded from 1 partition", "1 record at most was discarded from 1 partition"
    one_known = replace(lost, known={"e": "2026-11-20T02:00:00"})
    assert f"  Yes: {new}. Known from earlier runs: {known}.\n" in render(one_known, width=200)
    page = render(one_known, width=200)
    assert page.index("  orders-1: offset 10,") < page.index("  orders-0 (known since 2026-11-20): offsets 10 to 29,")
    rendered = html.render(one_known)
    assert f"<p><strong>Yes: {new}. Known from earlier runs: {known}.</strong></p>" in rendered
    assert rendered.index("<h3>orders-1</h3>") < rendered.index(
        "<h3>orders-0 <small>known since 2026-11-20</small></h3>"
    )
    all_known = replace(lost, known={"e": "2026-11-20T02:00:00", "f": "2026-11-21T02:00:00"})
    both = "Nothing new. Known from earlier runs: 21 records at most were discarded from 2 partitions."
    assert f"  {both}\n" in render(all_known, width=200)
    assert f"<p><strong>{both}</strong></p>" in html.render(all_known)
    assert "Yes:" not in render(all_known)
    assert headline(all_known).startswith(
        "✓ 0 new violations, 0 new exposed over 5 judged. 2 findings known since 2026"
    )
    assert [one["known_since"] for one in document(one_known)["losses"]] == ["2026-11-20T02:00:00", None]


def test_a_new_loss_with_a_finding_that_is_known_is_new(judged: Report, finding: Finding) -> None:
    written = _removed(finding, rule="AW-01", finding_id="w")
    lost = replace(_two_exposed(judged), findings=(_removed(finding), written), known={"e": "2026-11-20T02:00:00"})
    assert "Yes: 20 records at most were discarded from 1 partition." in render(lost)
    assert "Known from earlier runs:" not in render(lost)


def test_a_loss_has_the_reasons_of_its_finding_unless_its_missing_writes_have_them(
    judged: Report, finding: Finding
) -> None:
    lost = replace(judged, findings=(_removed(finding, because=("the ISR was [1]", "the election was unclean")),))
    (loss,) = losses_of(lost)
    assert why(lost, loss) == "the ISR was [1]; the election was unclean"
    assert "    because the ISR was [1]; the election was unclean\n" in render(lost)
    assert "<p>because the ISR was [1]; the election was unclean</p>" in html.render(lost)
    written = LostWrites("west", "orders", None, 0, 3, 10, -1, "web", None, None, 5, 10, 14)
    assert why(replace(lost, lost_writes=(written,)), loss) == ""
    assert why(replace(lost, lost_writes=(replace(written, leader_epoch=4),)), loss)
    consumers_only = replace(judged, findings=(_skipped(finding, "a"),))
    assert why(consumers_only, losses_of(consumers_only)[0]) == ""


def test_committed_records_that_were_truncated_without_a_finding_are_no_clean_result(judged: Report) -> None:
    counts = {PASS: 3, UNVERIFIABLE: 2}
    passed = replace(judged, findings=(), rules=tuple(replace(one, verdicts=counts) for one in judged.rules))
    one = replace(REMOVED, given_out=None, committed=True)
    found = replace(passed, removals=(one, replace(one, partition=1)))
    first = headline(found)
    assert first.startswith(
        "? 0 violations, 0 exposed over 3 judged. 44 records at most, some of them committed, were truncated from orders-0 "
        "and 1 more partition; whether the new leader has them is not in the evidence"
    )
    answer = (
        "Perhaps: 44 records at most, some of them committed, were truncated from 2 partitions. "
        "What the new leader does not have is lost."
    )
    assert answer in " ".join(render(found).split())
    assert answer in html.render(found)
    assert "Nothing to fix" not in render(found)
    alone = replace(passed, removals=(replace(one, last_offset=10),))
    assert ". 1 committed record was truncated from orders-0; whether the new leader has it is not in" in headline(
        alone
    )
    assert "Perhaps:" not in render(replace(passed, removals=(replace(one, committed=None),)))


def test_truncations_that_an_earlier_run_reported_leave_a_clean_result(judged: Report) -> None:
    rules = tuple(replace(one, verdicts={PASS: 3}) for one in judged.rules)
    one = replace(REMOVED, given_out=None, committed=True)
    other = replace(one, partition=1)
    known = replace(judged, findings=(), rules=rules, removals=(one, other), known_removals=(one, other))
    assert unsettled_of(known) == ()
    assert headline(known).startswith("✓ 0 new violations, 0 new exposed over 3 judged. 2 known truncations")
    page = " ".join(render(known).split())
    answer = (
        "Nothing new. Known from earlier runs: 44 records at most, some of them committed, were truncated from 2 partitions."
        " What the new leader does not have is lost."
    )
    assert answer in page
    assert "orders-1 (known): offsets" in page
    assert "orders-1 (known): offsets" in html.render(known)
    assert [one["known"] for one in document(known)["truncations"]] == [True, True]

    one_new = replace(known, known_removals=(one,))
    assert len(unsettled_of(one_new)) == 1
    assert headline(one_new).startswith("? 0 new violations, 0 new exposed over 3 judged. 22 records at most")
    page = " ".join(render(one_new).split())
    assert "Perhaps: 22 records at most, some of them committed, were truncated from 1 partition." in page
    assert "Known from earlier runs: 22 records at most" in page
    assert [one["known"] for one in document(one_new)["truncations"]] == [True, False]


def test_without_state_change_logs_no_headline_is_a_clean_one(judged: Report) -> None:
    counts = {"HW-04": {PASS: 7}, "TR-06": {}}
    rules = tuple(RuleResult(rule, "n", "t", "KIP-320", "high", verdicts) for rule, verdicts in counts.items())
    quiet = replace(judged, rules=rules, findings=())
    assert headline(quiet) == "✓ 0 violations, 0 exposed over 7 judged."
    assert "  not known: no leader epoch that follows another is recorded\n" in render(quiet)
    absent = ("request_log", "state_change_log")
    without = replace(quiet, inventory=replace(quiet.inventory, absent_logs=absent))
    reason = "no node's state-change.log is here, so no leader epoch could be judged"
    assert (
        headline(without)
        == f"? 0 violations, 0 exposed over 7 judged. Whether records were lost is not known: {reason}."
    )
    printed = " ".join(render(without).split())
    assert f"Was data lost? not known: {reason}" in printed
    assert (
        "What to do next No node's state-change.log is here. Kafka writes it by default: collect it from all" in printed
    )
    assert "No node's request log is here. Kafka writes none by default" in printed
    assert "Nothing to fix" not in printed
    assert "Not known: no node&#39;s state-change.log is here" in html.render(without)
    selected = replace(without, rules=rules[:1])
    assert headline(selected) == "✓ 0 violations, 0 exposed over 7 judged."
    assert "  not asked: TR-06, which judges it, is not among the selected rules\n" in render(selected)


def test_no_loss_is_claimed_only_as_far_as_was_judged(judged: Report, report: Report) -> None:
    unjudged = replace(
        report, rules=(RuleResult("TR-06", "n", "t", "KIP-320", "critical", {UNVERIFIABLE: 2}),), findings=()
    )
    assert "no record that had been given out to clients left a log: 4 leader epochs judged" in render(
        replace(judged, findings=())
    )
    assert "not known: no leader epoch of 2 could be judged" in render(unjudged)


def test_what_consumers_skip_of_a_topic_that_was_created_again_is_no_loss_but_listed(
    judged: Report, finding: Finding
) -> None:
    skipped = [
        _skipped(finding, client, rule="TI-09", topic_id="new", first_offset=0, last_offset=19) for client in ("a", "b")
    ]
    report = replace(judged, findings=tuple(skipped))
    assert losses_of(report) == ()
    (one,) = undelivered_of(report)
    assert (one.topic, one.topic_id, one.records, [who.client for who in one.skipped]) == (
        "orders",
        "new",
        20,
        ["a", "b"],
    )
    page = " ".join(render(report).split())
    assert (
        "orders-0: offsets 0 to 19, 20 records at most of the topic created again (topic id new) are in its log, "
        "but never reached a, b"
    ) in page


def test_no_format_prints_an_inferred_topic_id(judged: Report, finding: Finding) -> None:
    skipped = _skipped(finding, "a", rule="TI-09", topic_id="orders#2", first_offset=0, last_offset=19)
    report = replace(judged, findings=(skipped,))
    page = " ".join(render(report).split())
    assert "20 records at most of the topic created again are in its log, but never reached a" in page
    assert [one["topic_id"] for one in document(report)["undelivered"]] == [None]
    assert "orders#2" not in page + html.render(report)


REMOVED = Removal(
    "west",
    "orders",
    None,
    0,
    leader_epoch=3,
    first_offset=10,
    last_offset=31,
    epochs=(1, 2),
    given_out=True,
    replicas=(Replica(1, 32, 10), Replica(4, None, 10)),
    read_by=(Reader("a", "g", 10, 29), Reader("b", "g", 12, 31), Reader(None, "h", 10, 31), Reader("c", None, 10, 31)),
)


def test_a_loss_names_the_epochs_the_replicas_and_all_who_had_read_the_records(
    judged: Report, finding: Finding
) -> None:
    report = replace(judged, findings=(_removed(finding),), removals=(REMOVED,))
    (loss,) = losses_of(report)
    assert (loss.epochs, loss.replicas, loss.read_by) == ((1, 2), REMOVED.replicas, REMOVED.read_by)
    assert truncations_of(report) == ()
    page = " ".join(render(report).split())
    assert "written in leader epochs 1, 2 truncated by broker 1 (its log ended at 32), broker 4" in page
    assert "had read them: groups g (offsets 10 to 31), h (offsets 10 to 31); without a group c" in page


def test_a_loss_that_only_a_consumer_shows_may_be_of_an_earlier_epoch(judged: Report, finding: Finding) -> None:
    found = (_skipped(finding, "a", leader_epoch=4),)
    (loss,) = losses_of(replace(judged, findings=found, removals=(REMOVED, replace(REMOVED, leader_epoch=5))))
    assert loss.replicas == REMOVED.replicas


@pytest.mark.parametrize(
    "other", [{"partition": 1}, {"topic": "bills"}, {"cluster": "east"}, {"leader_epoch": 4}, {"first_offset": 11}]
)
def test_another_truncation_is_listed_by_itself(judged: Report, finding: Finding, other: dict[str, object]) -> None:
    another = replace(REMOVED, **other)  # type: ignore[arg-type]
    report = replace(judged, findings=(_removed(finding),), removals=(another,))
    assert truncations_of(report) == (another,)
    assert losses_of(report)[0].epochs == ()


@pytest.mark.parametrize(
    ("given_out", "sentence"),
    [
        (False, "1 truncation removed records that no client could read: harmless"),
        (None, "1 truncation removed records; whether they had been committed is not in the evidence"),
        (True, "1 truncation removed committed records, which are lost unless the new leader has them"),
    ],
)
def test_the_page_distinguishes_truncations(judged: Report, given_out: bool | None, sentence: str) -> None:
    one = replace(REMOVED, given_out=given_out, last_offset=10, epochs=(2,), replicas=(Replica(1, 11, 10),), read_by=())
    page = " ".join(render(replace(judged, findings=(), removals=(one,))).split())
    assert sentence in page
    assert (
        "orders-0: offset 10, discarded when leader epoch 3 began; written in leader epoch 2; truncated by broker 1"
        in page
    )
