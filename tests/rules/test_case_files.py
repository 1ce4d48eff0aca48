"""Every rule gives exactly the verdicts that its case file demands."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from epochaudit.events.schema import EVENTS
from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.judge import by_frame, judge
from epochaudit.rules.rule import EXPOSED, INFO, VERDICTS, VIOLATION
from tests.rules.case_files import Case, Expected, read_cases

CASES = list(read_cases(Path(__file__).parent, EVENTS))
REQUIRED = {"pass", "unverifiable"}
BREACHES = {VIOLATION, EXPOSED}


@pytest.fixture(scope="session")
def events(spark: SparkSession) -> DataFrame:
    """The events of all cases, each of which is a cluster."""
    return spark.createDataFrame([event for case in CASES for event in case.events], EVENTS).persist()


@pytest.fixture(scope="session")
def verdicts(events: DataFrame) -> dict[str, list[tuple[Expected, str]]]:
    """Per case, all verdicts of all rules, from one run over all cases."""
    judged = [judge(FRAMES[frame].of(events), rules, VERDICTS).rows for frame, rules in by_frame(catalogue()).items()]
    labels = {case.cluster: case.labels for case in CASES}
    found: dict[str, list[tuple[Expected, str]]] = defaultdict(list)
    for row in reduce(DataFrame.unionByName, judged).collect():
        place = row.evidence[0].place if row.evidence else None
        label = labels[row.cluster].get((place.file, place.byte_offset), "?") if place else ""
        found[row.cluster].append((Expected(row.rule, row.verdict, label, ""), row.reason or ""))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cluster)
def test_case(case: Case, verdicts: dict[str, list[tuple[Expected, str]]]) -> None:
    expected = sorted(Expected(e.rule, e.verdict, e.label, "") for e in case.expected)
    found = sorted(e for e, _ in verdicts[case.cluster] if e.rule == case.rule)
    assert found == expected
    reasons = {(e.verdict, e.label): reason for e, reason in verdicts[case.cluster] if e.rule == case.rule}
    for e in case.expected:
        if e.reason:
            assert reasons[e.verdict, e.label] == e.reason


def test_no_frame_is_left_out_that_has_subjects(
    events: DataFrame, verdicts: dict[str, list[tuple[Expected, str]]]
) -> None:
    frame_of = {rule.id: rule.frame for rule in catalogue()}
    has_rows = (F.max(frame.has_rows()).alias(name) for name, frame in FRAMES.items())
    planned = {row["cluster"]: row.asDict() for row in events.groupBy("cluster").agg(*has_rows).collect()}
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
