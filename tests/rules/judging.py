"""Evaluates cases, of rules and of histories of bugs: each frame once over all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import chain
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession

from epochaudit.events.schema import EVENTS
from epochaudit.replay.frames import FRAMES
from epochaudit.replay.state.inferred_topic_ids import with_inferred_topic_ids
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.judge import by_frame, judge
from epochaudit.rules.messages import with_messages
from epochaudit.rules.rule import EXPOSED, VERDICTS, VIOLATION
from tests.history.histories import histories
from tests.rules.case_files import Case, Expected, read_cases

BREACHES: Final = {VIOLATION, EXPOSED}
CASES: Final = list(read_cases(Path(__file__).parent, EVENTS))
HISTORIES: Final = histories()
OWN_SEVERITY: Final = {rule.id: rule.severity for rule in catalogue()}

Verdicts = dict[str, list[Expected]]
"""Cluster of a case -> the verdicts of all evaluated rules, with their reasons and sentences."""


def all_cases() -> list[Case]:
    """The rules' cases and those of the histories."""
    return [*CASES, *(case for history in HISTORIES for case in history.cases)]


def events_of(spark: SparkSession, cases: list[Case]) -> DataFrame:
    """The events of the cases, each of which is a cluster."""
    return spark.createDataFrame([event for case in cases for event in case.events], EVENTS).persist()


def verdicts_of(events: DataFrame, cases: list[Case], only: Collection[str] | None = None) -> Verdicts:
    """The verdicts of one run over all cases, of all rules or of the rule ids in `only`."""
    identified = with_inferred_topic_ids(events)
    chosen = [rule for rule in catalogue() if only is None or rule.id in only]
    judgements = [judge(FRAMES[frame].of(identified), rules, VERDICTS) for frame, rules in by_frame(chosen).items()]
    labels = {case.cluster: case.labels for case in cases}
    found: Verdicts = defaultdict(list)
    # not a union of all frames, which Spark would analyse anew with each of them
    for row in chain.from_iterable(with_messages(one.rows, one.messages()).collect() for one in judgements):
        found[row.cluster].append(given_verdict(row.rule, row, labels[row.cluster]))
    return found


def given_verdict(rule: str, row: Row, labels: dict[tuple[str, int], str]) -> Expected:
    """A row of FINDING_ROW, of the rule of that id, as a case states it; `labels` are the case's."""
    lines = [(labels.get((line.place.file, line.place.byte_offset), "?"), line.role) for line in row.evidence or ()]
    label = lines[0][0] if lines else ""
    sentences = [
        f"expected: {row.expected}",
        f"observed: {row.observed}",
        *(f"because: {line}" for line in row.because),
    ]
    if row.verdict in BREACHES:
        if row.severity != OWN_SEVERITY[rule]:
            sentences.append(f"severity: {row.severity}")
        if row.first_offset is not None or row.last_offset is not None:
            sentences.append(f"lost: {row.first_offset} to {row.last_offset}")
        sentences += (f"line {label}: {role}" for label, role in lines)
    return Expected(rule, row.verdict, label, row.reason or "", tuple(sentences))


def agrees(case: Case, given: list[Expected]) -> bool:
    """Whether these are the verdicts that the case demands, with their reasons and sentences."""
    return reasons(given) == reasons(case.expected) and sorted(e.sentences for e in given) == sorted(
        e.sentences for e in case.expected
    )


def keys(verdicts: Iterable[Expected]) -> list[tuple[str, str, str]]:
    """Which verdicts at which events, in order."""
    return sorted(one.key for one in verdicts)


def reasons(verdicts: Iterable[Expected]) -> list[tuple[tuple[str, str, str], str]]:
    """Which verdicts at which events, for which reason, in order."""
    return sorted((one.key, one.reason) for one in verdicts)


def missing_reasons(case: Case, given: list[Expected]) -> list[Expected]:
    """The expected verdicts whose reason, where the case gives one, is not the rule's."""
    reasons = {one.key: one.reason for one in given}
    return [e for e in case.expected if e.reason and reasons.get(e.key) != e.reason]
