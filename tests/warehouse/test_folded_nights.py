"""Nights of large request logs: runs of like rows are folded in the warehouse, and the report is that of one audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit import warehouse
from epochaudit.pipeline import audit
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.report.json_report import render
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.scan import datasource, ranges
from epochaudit.timeline.merge import EventLog, recorded_in, timeline
from tests.warehouse.conftest import OF_FETCHES, audited

pytestmark = pytest.mark.thorough

CAPTURE = "kraft-unclean-truncation-4.1"
ALWAYS_COMPILED = 1e12  # bytes
SMALL_RANGE = 1 << 19
LATE = ("state-change.log", "server.log", "controller.log")  # the logs that state leader epochs and restarts


def delivered(source: Path, target: Path, share: float, late: tuple[str, ...] = ()) -> None:
    """Copy a capture, with that share of each request log's bytes and without the late logs."""
    for path in source.rglob("*"):
        if path.is_file() and path.name not in late:
            content = path.read_bytes()
            end = round(len(content) * share) if path.name == "kafka-request.log" else len(content)
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content[:end])
    (target / "capture.toml").write_text('cluster = "night"\n')


def document(report: Report) -> dict[str, Any]:
    return json.loads(render(report))


def requests(recorded: EventLog) -> list[tuple[str, int, int]]:
    """Of the timeline of the truncated partition: each run of requests, with its node and number of requests."""
    return sorted(
        (row.event["event_type"], row.event["node"], row.event["requests"])
        for life in timeline(recorded, "u", 0).topics
        for section in life.sections
        for row in section.rows
        if row.event["requests"] > 1
    )


def test_two_nights_with_folded_runs_are_one_audit(
    spark: SparkSession, capture: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "BLOCK", SMALL_RANGE)
    monkeypatch.setattr(datasource, "_scanned_cost", lambda _: ALWAYS_COMPILED)
    location = str(tmp_path / "warehouse")
    source, folder = capture(CAPTURE), tmp_path / CAPTURE
    delivered(source, folder, 0.6, LATE)
    audited(spark, location, folder, select=OF_FETCHES)
    delivered(source, folder, 1)
    second = audited(spark, location, folder, select=OF_FETCHES)

    stored = spark.read.format("delta").load(f"{location}/events").where("event_type = 'FETCH'")
    of_warehouse = warehouse.recorded_in(spark, location)
    kept = of_warehouse.events.where("event_type = 'FETCH'").count()
    whole = audit(spark, str(folder), select=OF_FETCHES, fold=False)
    assert document(second) == document(report_of(whole))
    assert kept < whole.events.where("event_type = 'FETCH'").count()
    assert stored.where("run_rows > 1").count()
    whole.release()
    assert requests(of_warehouse) == requests(recorded_in(spark, [discover(str(folder))]))
