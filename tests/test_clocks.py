"""A clock that is set while logs are written changes no verdict."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.rules.rule import VERDICTS
from tests.clocks import set_clock
from tests.side_by_side import named, reports_side_by_side

pytestmark = pytest.mark.thorough

NAME = "zk-stale-control-fenced-3.9"
MIDDLE = datetime(2026, 11, 21, 4, 18, 10)
STEPS = (timedelta(seconds=-47), timedelta(hours=-1))


def test_a_clock_set_back_changes_no_verdict(
    spark: SparkSession, capture: Callable[[str], Path], tmp_path: Path
) -> None:
    """One audit of the copies gives as many verdicts of each kind as they are, and to each copy the same findings."""
    copies = []
    for number, by in enumerate(STEPS):
        set_clock(capture(NAME), tmp_path / str(number), "broker-2", MIDDLE, by)
        copies.append(named(f"set by {by}", tmp_path / str(number)))
    [before] = reports_side_by_side(spark, [named(NAME, capture(NAME))], show=("fenced",)).values()
    after = reports_side_by_side(spark, copies, show=("fenced",))
    expected = [(rule.rule, verdict, len(STEPS) * rule.count(verdict)) for rule in before.rules for verdict in VERDICTS]
    findings = [(one.rule, one.verdict, one.observed) for one in before.findings]
    assert findings
    for report in after.values():
        assert [(rule.rule, verdict, rule.count(verdict)) for rule in report.rules for verdict in VERDICTS] == expected
        assert [(one.rule, one.verdict, one.observed) for one in report.findings] == findings
