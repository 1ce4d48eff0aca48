"""A clock that is set while logs are written changes no verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit.cli import app
from tests.clocks import set_clock

NAME = "zk-stale-control-fenced-3.9"
MIDDLE = datetime(2026, 11, 21, 4, 18, 10)


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], dict[str, Any]]:
    def audited(folder: Path) -> dict[str, Any]:
        output = tmp_path_factory.mktemp("clock") / "report.json"
        app.main(["audit", str(folder), "--show", "fenced", "--format", "json", "--output", str(output)])
        spark.catalog.clearCache()
        report: dict[str, Any] = json.loads(output.read_text())
        return report

    return audited


@pytest.fixture(scope="module")
def before(audited: Callable[[Path], dict[str, Any]], capture: Callable[[str], Path]) -> dict[str, Any]:
    return audited(capture(NAME))


@pytest.mark.parametrize("by", [timedelta(seconds=-47), timedelta(hours=-1)], ids=str)
def test_a_clock_set_back_changes_no_verdict(
    by: timedelta,
    before: dict[str, Any],
    audited: Callable[[Path], dict[str, Any]],
    capture: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    set_clock(capture(NAME), tmp_path / "stepped" / NAME, "broker-2", MIDDLE, by)
    after = audited(tmp_path / "stepped" / NAME)
    assert after["rules"] == before["rules"]
    assert [finding["finding_id"] for finding in after["findings"]] == [
        finding["finding_id"] for finding in before["findings"]
    ]
