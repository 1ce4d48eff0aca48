"""Every rule gives exactly the verdicts that its case file demands."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.rule import INFO
from tests.rules.case_files import Case, Expected
from tests.rules.judging import BREACHES, CASES, Verdicts, missing_reasons

REQUIRED = {"pass", "unverifiable"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cluster)
def test_case(case: Case, verdicts: Verdicts) -> None:
    given = [(e, reason) for e, reason in verdicts[case.cluster] if e.rule == case.rule]
    assert sorted(e for e, _ in given) == sorted(Expected(e.rule, e.verdict, e.label, "") for e in case.expected)
    assert missing_reasons(case, given) == []


def test_no_frame_is_left_out_that_has_subjects(case_events: DataFrame, verdicts: Verdicts) -> None:
    frame_of = {rule.id: rule.frame for rule in catalogue()}
    has_rows = (F.max(frame.has_rows()).alias(name) for name, frame in FRAMES.items())
    planned = {row["cluster"]: row.asDict() for row in case_events.groupBy("cluster").agg(*has_rows).collect()}
    judged = {(cluster, frame_of[e.rule]) for cluster, found in verdicts.items() for e, _ in found}
    assert judged
    assert [(cluster, frame) for cluster, frame in sorted(judged) if not planned[cluster][frame]] == []


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
