"""Frames that can't be computed, and rules with more findings than a report lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from epochaudit import pipeline
from epochaudit.pipeline import audit
from epochaudit.rules.judge import EVERYTHING, VERDICT_ROW
from epochaudit.sources.files.capture import CaptureError
from epochaudit.spark.run_metrics import measured


class Events:
    """Events that no test reads."""

    sparkSession = None  # noqa: N815  Spark's name


@dataclass(frozen=True)
class StubJudgement:
    """A judgement whose rows need no computation."""

    rules: tuple[Any, ...]
    rows: Any = None

    def persist(self, *_: object) -> StubJudgement:
        return self

    def unpersist(self) -> None:
        """Nothing is stored."""

    def frame_rows(self) -> int:
        return 7


@dataclass(frozen=True)
class Named:
    """A rule with an id only."""

    id: str


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The rules of each call of `judge`. The frame has two rules."""
    made: list[tuple[str, ...]] = []

    class Frame:
        @staticmethod
        def of(events: Events) -> Events:
            return events

    def judge(frame: Events, rules: list[Named], verdicts: object, span: object) -> StubJudgement:
        made.append(tuple(rule.id for rule in rules))
        return StubJudgement(tuple(rules), StubJudgement(()))

    monkeypatch.setattr(pipeline, "FRAMES", {"frame": Frame})
    monkeypatch.setattr(pipeline, "judge", judge)
    monkeypatch.setattr(pipeline, "storage_level", lambda _: None)
    monkeypatch.setattr(pipeline, "as_leaf", lambda rows: rows)
    monkeypatch.setattr(pipeline, "name_jobs", lambda *_: None)
    return made


def evaluated(events: Events) -> tuple[list[Any], dict[str, str]]:
    return pipeline._evaluate_frames(events, {"frame": [Named("A"), Named("B")]}, set(), EVERYTHING)  # type: ignore[arg-type, list-item]


def test_a_table_that_died_with_its_executor_is_computed_anew(
    monkeypatch: pytest.MonkeyPatch, attempts: list[tuple[str, ...]]
) -> None:
    def compute(rows: object) -> None:
        if len(attempts) == 1:
            raise RuntimeError(f"Job aborted: [{pipeline.LOST_CHECKPOINT}] Checkpoint block rdd_1_0 not found!")

    monkeypatch.setattr(pipeline, "_compute", compute)
    with measured() as metrics:
        found, failures = evaluated(Events())
    assert (attempts, len(found), failures) == ([("A", "B"), ("A", "B")], 1, {})
    assert metrics.frames["frame"].rows == 7


def test_a_failing_rule_does_not_affect_the_others(
    monkeypatch: pytest.MonkeyPatch, attempts: list[tuple[str, ...]]
) -> None:
    def compute(rows: object) -> None:
        if "B" in attempts[-1]:
            raise RuntimeError("no such column")

    monkeypatch.setattr(pipeline, "_compute", compute)
    found, failures = evaluated(Events())
    assert (attempts, len(found)) == ([("A", "B"), ("A",), ("B",)], 1)
    assert failures == {"B": "RuntimeError: no such column"}


def test_the_first_findings_of_each_rule_are_listed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "LISTED", 3)
    names = StructType.fromDDL(VERDICT_ROW).names
    subjects = [
        ("A", "t", 2),
        ("A", "s", 7),
        ("A", None, None),
        ("B", "u", 0),
        ("A", "t", 1),
        ("A", "t", 3),
        ("B", "u", 1),
    ]
    rows = [{"rule": rule, "topic": topic, "partition": partition, "branch": 0} for rule, topic, partition in subjects]
    made = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], VERDICT_ROW)
    listed = pipeline._first_of_each_rule(made)
    assert listed.schema == made.schema
    assert {(row["rule"], row["topic"], row["partition"]) for row in listed.collect()} == {
        *(("A", None, None), ("A", "s", 7), ("A", "t", 1)),
        *(("B", "u", 0), ("B", "u", 1)),
    }


def test_two_captures_of_one_cluster_are_refused(spark: SparkSession, capture: Callable[[str], Path]) -> None:
    path = str(capture("zk-stopreplica-bypass-3.9"))
    with pytest.raises(
        CaptureError, match=r"two of the captures are of cluster .*: put the files of one cluster below one"
    ):
        audit(spark, path, path)
