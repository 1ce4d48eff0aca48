"""Maintenance: what is released, removed and retained."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit import warehouse
from epochaudit.report.contents import Report
from epochaudit.sources.discovery.discovery import inspected
from epochaudit.warehouse import maintenance
from tests.warehouse.conftest import SELECT, Put, appended


@pytest.mark.thorough
def test_old_logs_go_whole_and_are_not_read_again(
    spark: SparkSession, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = (appended(1, 5, 100) + appended(2, 4, 120)).replace("2026-11-21", "2026-11-10")
    put("broker-1/server.log.1", old)
    folder = put("broker-1/server.log", appended(1, 8, 200))
    location = tmp_path / "warehouse"

    def night() -> Report:
        return warehouse.audited(spark, str(location), [inspected(str(folder))], select=SELECT)

    def parts(table: str) -> int:
        return spark.read.format("delta").load(f"{location}/{table}").select("part").distinct().count()

    assert [finding.node for finding in night().findings] == [1]
    before = parts("splits")
    monkeypatch.setattr(maintenance, "UNDISTURBED_HOURS", -1)
    assert maintenance.maintain(spark, str(location), keep_days=5) == maintenance.Maintained(1, 1)
    assert (parts("splits"), parts("events")) == (before - 1, 1)
    [finding] = spark.read.format("delta").load(f"{location}/findings").collect()
    assert (finding["state"], [change["state"] for change in finding["history"]]) == ("retired", ["open", "retired"])
    after = night()
    assert (after.findings, [file.path for file in after.inventory.files]) == (
        (),
        ["broker-1/server.log", "capture.toml"],
    )
    [finding] = spark.read.format("delta").load(f"{location}/findings").collect()
    assert finding["state"] == "retired"
