"""Judges all cases, those of the rules and the histories of bugs, in one run of all rules."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from epochaudit.events.schema import EVENTS
from epochaudit.replay.frames import FRAMES
from epochaudit.replay.lives import with_lives
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.judge import by_frame, judge
from epochaudit.rules.rule import EXPOSED, VERDICTS, VIOLATION
from epochaudit.rules.wording import worded
from tests.history.histories import histories
from tests.rules.case_files import Case, Expected, read_cases

BREACHES: Final = {VIOLATION, EXPOSED}
CASES: Final = list(read_cases(Path(__file__).parent, EVENTS))
HISTORIES: Final = histories()

Verdicts = dict[str, list[tuple[Expected, str]]]
"""Per case, all verdicts of all rules, each with its reason."""


def all_cases() -> list[Case]:
    """The rules' cases and those of the histories."""
    return [*CASES, *(case for history in HISTORIES for case in history.cases)]


def events_of(spark: SparkSession, cases: list[Case]) -> DataFrame:
    """The events of the cases, each of which is a cluster."""
    return spark.createDataFrame([event for case in cases for event in case.events], EVENTS).persist()


def verdicts_of(events: DataFrame, cases: list[Case]) -> Verdicts:
    """What one run of all rules over all cases gives."""
    told = with_lives(events)
    judged = [judge(FRAMES[frame].of(told), rules, VERDICTS) for frame, rules in by_frame(catalogue()).items()]
    words = {id: of_rule for judgement in judged for id, of_rule in judgement.words().items()}
    rows = reduce(DataFrame.unionByName, [judgement.rows for judgement in judged])
    labels = {case.cluster: case.labels for case in cases}
    found: Verdicts = defaultdict(list)
    for row in worded(rows, words).collect():
        place = row.evidence[0].place if row.evidence else None
        label = labels[row.cluster].get((place.file, place.byte_offset), "?") if place else ""
        found[row.cluster].append((Expected(row.rule, row.verdict, label, ""), row.reason or ""))
    return found


def missing_reasons(case: Case, given: list[tuple[Expected, str]]) -> list[Expected]:
    """The expected verdicts whose reason, where the case gives one, is not the rule's."""
    reasons = {(e.rule, e.verdict, e.label): reason for e, reason in given}
    return [e for e in case.expected if e.reason and reasons.get((e.rule, e.verdict, e.label)) != e.reason]
