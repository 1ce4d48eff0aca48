"""Runs that are killed: the next one completes, with what one that was not killed gives."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.report.contents import Report
from tests.warehouse.conftest import SELECT, Put, appended, audited

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ROOT = Path(__file__).parents[2]


def killed(location: Path, capture: Path, *point: str) -> None:
    """A run in a process of its own, which has to die at that point."""
    command = [sys.executable, "-m", "tests.warehouse.killed", str(location), str(capture), *point]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr


def nights(put: Put) -> Path:
    """A capture whose second state has a line that is whole by then, a bad one, a finding."""
    put("broker-1/server.log", appended(1, 5, 100) + appended(2, 4, 120) + "[2026-11-21 04:")
    return put("broker-2/server.log", appended(1, 7, 7, partition=1))


def run(spark: SparkSession, location: Path, capture: Path) -> Report:
    return audited(spark, location, capture, select=SELECT)


def contents(spark: SparkSession, location: Path) -> list[tuple[object, ...]]:
    """The content of the tables without ids and times of runs."""
    compared = {
        "findings": ("finding_id", "state", "observed", "evidence"),
        "horizon": ("path", "node", "file_order", "read_to", "end"),
        "runs": ("outcome", "violations", "report"),
        "verdicts": ("rule", "pass", "violation"),
    }
    tables = (spark.read.format("delta").load(f"{location}/{name}").select(*of) for name, of in compared.items())
    return [tuple(sorted(map(str, table.collect()))) for table in tables]


def test_a_run_that_follows_killed_ones_ends_as_if_nothing_had_happened(
    spark: SparkSession, put: Put, tmp_path: Path
) -> None:
    capture = nights(put)
    expected = run(spark, tmp_path / "undisturbed", capture)
    location = tmp_path / "warehouse"
    for point in (("after", "events"), ("after", "horizon"), ("before", "runs")):
        killed(location, capture, *point)
    assert run(spark, location, capture) == expected
    after = contents(spark, location)
    assert after[:3] == contents(spark, tmp_path / "undisturbed")[:3]
    assert len(after[3]) == 2  # a killed run's counts are there, too, but it has no row in runs
