"""Every rule gives exactly the verdicts that its case file demands."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from pyspark.sql import DataFrame

from epochaudit.events.schema import EVENTS
from epochaudit.replay.frames import FRAMES, has_rows, presence
from epochaudit.replay.state.inferred_topic_ids import with_inferred_topic_ids
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.judge import by_frame, judge
from epochaudit.rules.messages import UNKNOWN
from epochaudit.rules.rule import INFO, VERDICTS
from tests.rules.case_files import Case, case_of
from tests.rules.judging import BREACHES, CASES, Verdicts, keys, reasons

pytestmark = pytest.mark.minutes

REQUIRED = {"pass", "unverifiable"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cluster)
def test_case(case: Case, verdicts: Verdicts) -> None:
    given = [e for e in verdicts[case.cluster] if e.rule == case.rule]
    assert keys(given) == keys(case.expected)
    assert reasons(given) == reasons(case.expected)
    assert sorted(e.sentences for e in given) == sorted(e.sentences for e in case.expected), (
        f"read them, then run `python -m tests.rules {case.rule}`"
    )


def test_no_sentence_prints_an_unknown_value() -> None:
    """A verdict without some value has a branch with sentences that do not need it."""
    sentences = ((case.cluster, line) for case in CASES for e in case.expected for line in e.sentences)
    assert [(cluster, line) for cluster, line in sentences if re.search(rf"\b{UNKNOWN}\b", line)] == []


def test_no_frame_is_left_out_that_has_subjects(case_events: DataFrame, verdicts: Verdicts) -> None:
    frame_of = {rule.id: rule.frame for rule in catalogue()}
    by_type = defaultdict(list)
    for row in case_events.groupBy("cluster", "event_type").agg(*presence(FRAMES)).collect():
        by_type[row["cluster"]].append(row)
    judged = {(cluster, frame_of[e.rule]) for cluster, found in verdicts.items() for e in found}
    assert judged
    assert [(cluster, frame) for cluster, frame in sorted(judged) if not has_rows(frame, by_type[cluster])] == []


def test_a_finding_about_a_request_names_no_partition(case_events: DataFrame) -> None:
    """Its row stands for all partitions of the request, and has the columns of the first one."""
    about_requests = [rule for rule in catalogue() if rule.per_request]
    with_partitions = [case.cluster for case in CASES if case.rule in {rule.id for rule in about_requests}]
    events = with_inferred_topic_ids(case_events.where(case_events.cluster.isin(with_partitions)))
    subjects = [
        subject
        for frame, rules in by_frame(about_requests).items()
        for subject in judge(FRAMES[frame].of(events), rules, VERDICTS).rows.collect()
    ]
    assert {subject.rule for subject in subjects} == {rule.id for rule in about_requests}
    named = {(one.topic, one.topic_id, one.partition, one.leader_epoch) for one in subjects}
    assert named == {(None, None, None, None)}


@pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.id)
def test_every_rule_has_cases_for_breach_and_pass_and_missing_evidence(rule) -> None:
    shown = {e.verdict for case in CASES if case.rule == rule.id for e in case.expected}
    assert shown >= REQUIRED
    assert bool(shown & BREACHES) == (rule.severity != INFO)


@pytest.mark.parametrize("rule", [rule for rule in catalogue() if rule.severity == INFO], ids=lambda rule: rule.id)
@pytest.mark.usefixtures("spark")
def test_an_observation_never_counts_as_a_finding(rule) -> None:
    assert not BREACHES & {arm.verdict for arm in rule.verdict()}
    assert rule.severity_of() is None
    assert rule.title.startswith("Observation: ")


@pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.id)
@pytest.mark.usefixtures("spark")
def test_a_page_states_when_a_finding_has_another_severity(rule) -> None:
    assert (rule.severity_of() is None) == (re.search(r"\bseverity\s+is\b", rule.page) is None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (["| # | event_type |", "|---|---|", "| a | FETCH |", "- TR-01 pass at a", "epochaudit: killed"], "among the verdicts"),
        (["| # | event_type | partition |", "|---|---|---|", "| a | FETCH | 1700000000000 |"], "no 32-bit number"),
    ],
)  # fmt: skip
def test_a_case_that_nobody_can_have_meant_is_rejected(body: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        case_of("TR-01", "a case", body, EVENTS)
