"""What is done when a frame can't be computed, and when too much is found to be listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from epochaudit import auditing
from epochaudit.rules.judge import JUDGED_ROW


class Events:
    """Events that nobody reads."""

    sparkSession = None  # noqa: N815  Spark's name


@dataclass(frozen=True)
class Judged:
    """A judgement whose rows are there at once."""

    rules: tuple[Any, ...]
    rows: Any = None

    def persist(self, *_: object) -> Judged:
        return self


@dataclass(frozen=True)
class Named:
    """A rule, as far as it matters here."""

    id: str


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The rules of each attempt to judge; two rules of one frame."""
    made: list[tuple[str, ...]] = []

    class Frame:
        @staticmethod
        def of(events: Events) -> Events:
            return events

    def judge(frame: Events, rules: list[Named], keep: object) -> Judged:
        made.append(tuple(rule.id for rule in rules))
        return Judged(tuple(rules), Judged(()))

    monkeypatch.setattr(auditing, "FRAMES", {"frame": Frame})
    monkeypatch.setattr(auditing, "judge", judge)
    monkeypatch.setattr(auditing, "copies", lambda _: None)
    return made


def judged(events: Events) -> tuple[list[Any], dict[str, str]]:
    return auditing._judged(events, {"frame": [Named("A"), Named("B")]}, set())  # type: ignore[arg-type, list-item]


def test_what_an_executor_took_with_it_is_computed_anew(
    monkeypatch: pytest.MonkeyPatch, attempts: list[tuple[str, ...]]
) -> None:
    def compute(rows: object) -> None:
        if len(attempts) == 1:
            raise RuntimeError(f"Job aborted: [{auditing.LOST}] Checkpoint block rdd_1_0 not found!")

    monkeypatch.setattr(auditing, "_compute", compute)
    found, failures = judged(Events())
    assert (attempts, len(found), failures) == ([("A", "B"), ("A", "B")], 1, {})


def test_a_rule_that_fails_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch, attempts: list[tuple[str, ...]]
) -> None:
    def compute(rows: object) -> None:
        if "B" in attempts[-1]:
            raise RuntimeError("no such column")

    monkeypatch.setattr(auditing, "_compute", compute)
    found, failures = judged(Events())
    assert (attempts, len(found)) == ([("A", "B"), ("A",), ("B",)], 1)
    assert failures == {"B": "RuntimeError: no such column"}


def test_of_each_rule_the_first_findings_are_listed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "LISTED", 3)
    names = StructType.fromDDL(JUDGED_ROW).names
    subjects = [
        ("A", "t", 2),
        ("A", "s", 7),
        ("A", None, None),
        ("B", "u", 0),
        ("A", "t", 1),
        ("A", "t", 3),
        ("B", "u", 1),
    ]
    rows = [{"rule": rule, "topic": topic, "partition": partition, "arm": 0} for rule, topic, partition in subjects]
    made = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], JUDGED_ROW)
    listed = auditing._first_of_each_rule(made)
    assert listed.schema == made.schema
    assert {(row["rule"], row["topic"], row["partition"]) for row in listed.collect()} == {
        *(("A", None, None), ("A", "s", 7), ("A", "t", 1)),
        *(("B", "u", 0), ("B", "u", 1)),
    }
