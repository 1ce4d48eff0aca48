"""Which partitions a report pictures, and what their pictures have of the findings."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding
from epochaudit.losses.removal import Reader, Removal, Replica
from epochaudit.report.contents import Acceptance, Report
from epochaudit.report.pictures import picture as marks
from epochaudit.report.pictures.picture import CUT, LOG, READ, SKIPPED
from epochaudit.timeline import incidents
from epochaudit.timeline.incidents import incidents_of, pictured
from epochaudit.timeline.merge import EventLog, Timeline
from tests.timeline.facts import topics_of
from tests.timeline.incident import UNCLEAN


def nothing_recorded() -> EventLog:
    raise AssertionError("nothing is to be read")


@pytest.fixture
def timelines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitions' rows, without Spark: orders-0 has those of an unclean election, others have none."""

    def found(_: EventLog, partitions: list[tuple[str, int]]) -> tuple[Timeline, ...]:
        topics = tuple(topics_of(*UNCLEAN))
        return tuple(Timeline(*one, topics if one == ("orders", 0) else ()) for one in partitions)

    monkeypatch.setattr(incidents, "timelines", found)


@pytest.fixture
def lost(finding: Finding) -> Finding:
    """A finding about the lost records, with a consumer that read on as its consequence."""
    elected = Evidence("the leader's line", 2, "broker-2/state_change_log", 10, 9_000, None, "")
    fetched = Evidence("the request", 2, "broker-2/request_log", 12, 11_000, None, "")
    crossed = replace(
        finding,
        finding_id="c",
        rule="TR-01",
        client="c2",
        leader_epoch=3,
        evidence=(fetched,),
        first_offset=10,
        last_offset=29,
    )
    return replace(
        finding, finding_id="r", rule="TR-06", leader_epoch=3, evidence=(elected,), first_offset=10, last_offset=29, consequences=(crossed,)
    )  # fmt: skip


def test_nothing_is_read_for_a_report_without_findings_about_partitions(report: Report, finding: Finding) -> None:
    clean = replace(report, findings=())
    assert pictured(clean, nothing_recorded) is clean
    of_broker = replace(report, findings=(replace(finding, topic=None, partition=None),))
    assert pictured(of_broker, nothing_recorded) is of_broker
    of_another = replace(report, findings=(replace(finding, verdict="fenced"),))
    assert pictured(of_another, nothing_recorded) is of_another


def test_accepted_findings_are_not_pictured(report: Report, finding: Finding) -> None:
    known = {finding.finding_id: Acceptance("known", "kafka team", date(2027, 1, 31))}
    accepted = report.accepting(known, expired=frozenset(), unmatched={})
    assert pictured(accepted, nothing_recorded) is accepted


def test_findings_without_a_topic_id_are_those_of_the_one_topic_of_the_name(report: Report, finding: Finding) -> None:
    of_one = replace(finding, finding_id="a", topic_id="A")
    assert [len(one.findings) for one in incidents_of(replace(report, findings=(finding, of_one)))] == [2]
    of_another = replace(finding, finding_id="b", topic_id="B")
    assert len(incidents_of(replace(report, findings=(finding, of_one, of_another)))) == 3


def test_a_picture_has_the_losses_of_its_partition_and_rings_the_findings_lines(
    report: Report, lost: Finding, timelines: None
) -> None:
    removal = Removal(
        "west", "orders", None, 0, 3, 10, 29, (1,), True, (Replica(1, 30, 10),), (Reader("c1", None, 10, 29),)
    )
    found = replace(report, findings=(lost,), removals=(removal,))
    [picture] = pictured(found, lambda: EventLog(None, ())).pictures  # type: ignore[arg-type]
    assert [(one.kind, one.label, one.first, one.last) for one in picture.stretches] == [
        (LOG, "epoch 1", 0, 9),
        (LOG, "epoch 3", 10, None),
        (CUT, "epoch 1, node 1", 10, 29),
        (READ, "read: c1", 10, 29),
        (SKIPPED, "skip: c2", 10, 29),
    ]
    assert [(step.mark, step.findings) for step in picture.steps if step.findings] == [
        (marks.LEADER, (("TR-06", "r"),)),
        (marks.CROSSED, (("TR-01", "c"),)),
    ]


def test_the_leader_of_an_epoch_without_acknowledged_writes_read_on_nowhere(
    report: Report, lost: Finding, timelines: None
) -> None:
    acknowledged = replace(lost, finding_id="a", rule="AW-01", consequences=lost.consequences)
    [picture] = pictured(replace(report, findings=(acknowledged,)), lambda: EventLog(None, ())).pictures  # type: ignore[arg-type]
    steps = {finding: step for step in picture.steps for _, finding in step.findings}
    assert steps["a"].mark != marks.CROSSED
    assert "read on" not in steps["a"].sentence
    assert steps["c"].sentence.endswith("; read on without noticing the truncation")


def test_a_consumer_of_a_topic_that_was_created_again_met_no_truncation(
    report: Report, lost: Finding, timelines: None
) -> None:
    [crossed] = lost.consequences
    carried = replace(crossed, rule="TI-09")
    [picture] = pictured(replace(report, findings=(carried,)), lambda: EventLog(None, ())).pictures  # type: ignore[arg-type]
    [step] = [step for step in picture.steps if step.findings]
    assert step.sentence.endswith("; read on without noticing the new topic")


def test_a_request_within_a_run_of_equal_requests_is_found(report: Report, lost: Finding, timelines: None) -> None:
    """The run of c1 at node 1 begins at byte 5,000; the finding is about one of its later requests."""
    later = Evidence("the request", 1, "broker-1/request_log", 6, 5_500, None, "")
    within = replace(lost, client="c1", evidence=(later,), consequences=())
    [picture] = pictured(replace(report, findings=(within,)), lambda: EventLog(None, ())).pictures  # type: ignore[arg-type]
    assert [step.host for step in picture.steps if step.findings] == ["node 1"]


def test_the_worst_partitions_are_pictured_and_the_others_counted(
    report: Report, lost: Finding, finding: Finding, timelines: None
) -> None:
    others = tuple(
        replace(finding, finding_id=f"o{number}", partition=number + 1, severity="low") for number in range(20)
    )
    found = replace(report, findings=(*others, lost))
    assert min(incidents_of(found), key=lambda one: one.rank).partition == 0
    drawn = pictured(found, lambda: EventLog(None, ()))  # type: ignore[arg-type]
    assert [one.title for one in drawn.pictures] == ["orders-0 of west"]
    assert drawn.undrawn == 20
