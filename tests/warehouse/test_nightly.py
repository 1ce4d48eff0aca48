"""Nights on Spark: what a warehouse holds and reports after each."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit import warehouse
from epochaudit.events.schema import columns, contract
from epochaudit.pipeline import audit
from epochaudit.report import text
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.sources.discovery.discovery import discover, inspected
from epochaudit.timeline.merge import EventLog, recorded_in, timeline
from epochaudit.warehouse import nightly, tables
from epochaudit.warehouse.ledger import Opened
from epochaudit.warehouse.tables import TABLES, described
from tests.warehouse.conftest import CLUSTER, SELECT, Put, appended, audited, truncated

pytestmark = pytest.mark.minutes

Night = Callable[..., Report]


def rows(spark: SparkSession, location: Path, table: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame(spark, location, table).collect()]


def frame(spark: SparkSession, location: Path, table: str) -> DataFrame:
    return spark.read.format("delta").load(str(location / table))


@pytest.fixture
def night(spark: SparkSession, tmp_path: Path) -> Night:
    """night(capture) reads a capture into the warehouse and gives the report."""

    def run(folder: Path, select: Collection[str] = SELECT) -> Report:
        return audited(spark, tmp_path / "warehouse", folder, select=select)

    return run


def summary(report: Report) -> tuple[list[str], list[int]]:
    """Ids of the findings, and counts."""
    read = report.inventory
    return [f.finding_id for f in report.findings], [read.lines, read.events, read.ignored, read.quarantined]


def test_nights_end_as_one_audit_of_everything(spark: SparkSession, put: Put, night: Night, tmp_path: Path) -> None:
    location = tmp_path / "warehouse"
    first = appended(1, 4, 100) + appended(2, 5, 120)
    put("broker-1/server.log", first[:-70])
    put("broker-2/server.log", appended(3, 7, 10, partition=1))
    assert summary(night(put("broker-2/state-change.log", ""))) == ([], [4, 2, 1, 1])

    # it grew and was rotated; of another one comes an earlier copy; another broker's is missing
    put("broker-1/server.log.1", first)
    put("broker-1/copy-of-server.log", first[:200])
    folder = put("broker-1/server.log", appended(10, 3, 90))
    (folder / "broker-2/server.log").unlink()
    second = night(folder)
    assert [(f.node, f.observed) for f in second.findings] == [(1, "epoch 3 from offset 90")]
    assert [line.file for line in second.findings[0].evidence] == ["broker-1/server.log", "broker-1/server.log.1"]
    put("broker-2/server.log", appended(3, 7, 10, partition=1))  # nothing new
    one = report_of(audit(spark, str(folder), select=SELECT))
    third = night(folder)
    assert summary(third) == summary(one)
    assert [(r.rule, r.verdicts) for r in third.rules] == [(r.rule, r.verdicts) for r in one.rules]

    # a night with nothing new changes nothing, and gives the report again
    before = {table: sorted(map(str, rows(spark, location, table))) for table in TABLES}
    assert night(folder) == third
    assert (second.known, [*third.known]) == ({}, [second.findings[0].finding_id])
    assert (second.reaches("exposed"), third.reaches("exposed")) == (True, False)
    assert {table: sorted(map(str, rows(spark, location, table))) for table in TABLES} == before

    # a late file shows that the log was truncated in between
    assert night(put("broker-1/server.log.late", truncated(5, 80))).findings == ()
    [finding] = rows(spark, location, "findings")
    assert finding["state"] == "overturned"
    assert [change["state"] for change in finding["history"]] == ["open", "overturned"]
    assert finding["first_run_id"] == finding["history"][0]["run_id"] < finding["history"][1]["run_id"]
    runs = sorted(rows(spark, location, "runs"), key=lambda run: run["run_id"])
    assert [run["lines_read"] for run in runs] == [4, 3, 1]
    assert [run["outcome"] for run in runs] == ["clean", "findings", "clean"]
    assert {row["day"] for row in rows(spark, location, "events") if row["time_ms"]} == {date(2026, 11, 21)}
    assert_described(spark, location)

    # what it holds is what the logs hold
    of_logs, of_tables = recorded_in(spark, [discover(str(folder))]), warehouse.recorded_in(spark, str(location))
    assert lines_about(of_tables) == lines_about(of_logs)
    assert len(lines_about(of_logs)) == 4


def lines_about(recorded: EventLog) -> list[tuple[str, str | None, str, int | None]]:
    """The timeline of t-0."""
    return [
        (row.host, row.time, row.event["file"], row.line)
        for life in timeline(recorded, "t", 0).topics
        for row in (*(row for section in life.sections for row in section.rows), *life.silent)
    ]


def assert_described(spark: SparkSession, location: Path) -> None:
    """Each table's comment describes its content."""
    for table in TABLES:
        detail = spark.sql(f"DESCRIBE DETAIL delta.`{location / table}`").collect()[0]
        assert detail["description"] == contract(table).grain
        assert tuple(detail["partitionColumns"]) == contract(table).partitioned_by
        comments = {field.name: field.metadata.get("comment") for field in frame(spark, location, table).schema.fields}
        assert comments == {c.name: c.doc for c in described(table)}


def test_a_line_that_was_read_once_is_shown_when_its_file_is_missing(
    spark: SparkSession, put: Put, night: Night, tmp_path: Path
) -> None:
    folder = put("broker-1/server.log", appended(1, 5, 100) + appended(2, 4, 120))
    shown = night(folder).findings[0].evidence
    folder.joinpath("broker-1/server.log").write_text(appended(600, 9, 900))  # another file in its place
    [finding] = night(folder).findings
    assert [line.text for line in finding.evidence] == [line.text for line in shown]
    assert all(line.file.startswith("broker-1/") and line.file.endswith("~server.log") for line in finding.evidence)
    assert warehouse.reported(spark, str(tmp_path / "warehouse")).findings == (finding,)


@pytest.mark.thorough
def test_what_earlier_runs_reported_is_known(spark: SparkSession, put: Put, night: Night, tmp_path: Path) -> None:
    location = str(tmp_path / "warehouse")
    put("broker-1/server.log.1", appended(1, 5, 100))
    first = night(put("broker-1/server.log", appended(3, 4, 120)))
    assert first.known == {}
    both = night(put("broker-2/server.log", appended(4, 5, 100) + appended(5, 3, 120)))
    assert [finding.node for finding in both.findings if finding.finding_id not in both.known] == [2]
    assert both.counted("violation") == 1
    assert both.count("violation") == 2
    lines = text.render(both)
    assert lines.startswith("✗ 1 new violation, 0 new exposed. ")
    assert "Known from earlier runs" in lines

    # another cluster's run does not hide it
    other = tmp_path / "other"
    (other / "broker-9").mkdir(parents=True)
    (other / "capture.toml").write_text('cluster = "orders"\n')
    (other / "broker-9" / "server.log").write_text(appended(1, 5, 100) + appended(2, 4, 120))
    night(other)
    whole = warehouse.reported(spark, location)
    assert (whole.inventory.clusters, whole.count("violation"), whole.known) == (("orders", CLUSTER), 3, {})
    assert whole.inventory.lines == 8  # with two lines of capture.toml
    alone = warehouse.reported(spark, location, CLUSTER)
    assert alone == replace(both, known={})
    new = warehouse.reported(spark, location, new=True)
    assert new.counted("violation") == 2
    since = [warehouse.reported(spark, location, new=datetime(year, 1, 1)) for year in (2000, 3000)]
    assert [report.counted("violation") for report in since] == [3, 0]
    with pytest.raises(warehouse.WarehouseError, match="no completed run over cluster west"):
        warehouse.reported(spark, location, "west")

    # evidence that comes late settles one of them
    settled = night(put("broker-1/server.log.late", truncated(2, 80)))
    assert [finding.node for finding in settled.findings] == [2]
    assert settled.counted("violation") == 0


@pytest.mark.thorough
def test_lost_writes_without_a_finding_are_known_in_the_next_night(
    spark: SparkSession, capture: Callable[[str], Path], night: Night, tmp_path: Path
) -> None:
    location = str(tmp_path / "warehouse")
    folder = tmp_path / "logs"
    copytree(capture("kraft-acks-one-lost-4.1"), folder)
    first = night(folder, ("AW-01", "TR-06"))
    assert first.lost_writes
    assert {one.acks for one in first.lost_writes} == {1}
    assert first.known_writes == ()
    same = night(folder, ("AW-01", "TR-06"))  # nothing new
    assert same.known_writes == same.lost_writes == first.lost_writes
    (folder / "broker-1" / "server.log.late").write_text(appended(1, 5, 100))
    second = night(folder, ("AW-01", "TR-06"))
    assert second.known_writes == second.lost_writes == first.lost_writes
    assert "Nothing new. Known from earlier runs:" in text.render(second)
    last = [
        warehouse.reported(spark, location, new=new)
        for new in (False, True, datetime(2000, 1, 1), datetime(3000, 1, 1))
    ]
    assert [len(report.known_writes) for report in last] == [0, len(first.lost_writes)] * 2


@pytest.mark.thorough
def test_truncations_are_known_in_the_next_night(capture: Callable[[str], Path], night: Night, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    copytree(capture("kraft-k1-healthy"), folder)
    first = night(folder, ("TR-05", "TR-07"))
    assert first.removals
    assert first.known_removals == ()
    (folder / "broker-1" / "server.log.late").write_text(appended(1, 5, 100))
    second = night(folder, ("TR-05", "TR-07"))
    assert second.known_removals == second.removals == first.removals


def test_a_finding_is_new_again_when_it_is_found_again() -> None:
    changes = [("a", "open"), ("b", "open"), ("c", "overturned"), ("d", "open"), ("e", "open")]
    history = [{"run_id": run, "at": f"at {run}", "state": state} for run, state in changes]
    assert [Opened.of(history[:number]).run_id for number in (1, 2, 4, 5)] == ["a", "a", "d", "d"]


def test_what_a_killed_run_found_is_reported_by_the_next_one() -> None:
    opened = Opened("b", "at b")
    assert [opened.reported_by(completed) for completed in (["a", "b", "c"], ["a", "c", "d"], ["a"])] == ["b", "c", "b"]


def test_of_two_runs_at_once_one_stops(put: Put, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put("broker-1/server.log", appended(1, 4, 100))
    reading = nightly.write

    def and_meanwhile_another(*arguments: Any) -> Any:
        monkeypatch.setattr(nightly, "write", reading)
        night(folder)
        return reading(*arguments)

    monkeypatch.setattr(nightly, "write", and_meanwhile_another)
    with pytest.raises(warehouse.WarehouseError, match=r"another run wrote to the warehouse .* at the same time"):
        night(folder)
    assert summary(night(folder)) == ([], [2, 1, 1, 0])


def test_findings_are_new_until_a_run_has_delivered_them(spark: SparkSession, put: Put, tmp_path: Path) -> None:
    folder, location = put("broker-1/server.log", appended(1, 5, 100) + appended(2, 4, 120)), tmp_path / "warehouse"

    class DiskFullError(Exception):
        pass

    with (
        pytest.raises(DiskFullError),
        warehouse.audited(spark, str(location), [inspected(str(folder))], select=SELECT) as undelivered,
    ):
        raise DiskFullError
    assert rows(spark, location, "runs") == []
    delivered = audited(spark, location, folder, select=SELECT)
    assert [f.finding_id for f in delivered.findings] == [f.finding_id for f in undelivered.findings]
    assert len(delivered.findings) == 1
    assert not delivered.known
    assert [*audited(spark, location, folder, select=SELECT).known] == [delivered.findings[0].finding_id]


def test_a_warehouse_that_cannot_be_used_is_reported(spark: SparkSession, put: Put, tmp_path: Path) -> None:
    folder = put("broker-1/server.log", appended(1, 4, 100))
    (tmp_path / "file").touch()
    with pytest.raises(warehouse.WarehouseError, match="can't"):
        audited(spark, tmp_path / "file", folder)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/old/runs` (run_id string) USING delta")
    with pytest.raises(warehouse.WarehouseError, match=r"written by epochaudit 0\.1\.0"):
        audited(spark, tmp_path / "old", folder)
    with pytest.raises(warehouse.WarehouseError, match="is no warehouse"):
        warehouse.reported(spark, f"{tmp_path}/none")
    with pytest.raises(warehouse.WarehouseError, match=f"two of the captures are of cluster {CLUSTER}"):
        audited(spark, tmp_path / "warehouse", folder, folder)


LAYOUT, SCHEMA = tables.LAYOUT_PROPERTY, tables.VERSION_PROPERTY


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({LAYOUT: "9", SCHEMA: "1"}, r"newer version of epochaudit \(layout 9, where this one knows 6\); upgrade"),
        ({LAYOUT: "6", SCHEMA: "99"}, r"newer version of epochaudit \(version 99 of horizon, .*\); upgrade epochaudit"),
        ({LAYOUT: "2", SCHEMA: "1"}, "has layout 2 and this version of epochaudit uses layout 6"),
        ({"made.by": "another"}, "does not tell its layout: it was not written by epochaudit"),
    ],
)
def test_a_warehouse_of_another_version_is_never_misread(
    spark: SparkSession, put: Put, tmp_path: Path, properties: dict[str, str], message: str
) -> None:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/w/horizon` (path string) USING delta TBLPROPERTIES ({listed})")
    with pytest.raises(warehouse.WarehouseError, match=message):
        audited(spark, tmp_path / "w", put("broker-1/server.log", ""))
    with pytest.raises(warehouse.WarehouseError, match=message):
        warehouse.reported(spark, f"{tmp_path}/w")


def test_all_that_is_read_is_stored() -> None:
    from_horizon = {"event_id", "file_order", "gaps_before", "newer_missing", "split"}
    stored = {c.name for c in described("events")}
    assert {c.name for c in columns("events")} - stored == from_horizon


def test_a_warehouse_gets_the_columns_that_it_lacks(
    spark: SparkSession, put: Put, night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_now = tables.described
    with monkeypatch.context() as earlier:
        earlier.setattr(tables, "described", lambda table: [c for c in as_now(table) if c.name != "because"])
        tables.opened(spark, str(tmp_path / "warehouse"))
    folder = put("broker-1/server.log", appended(1, 5, 100) + appended(2, 4, 120))
    [finding] = night(folder).findings
    assert [row["because"] for row in rows(spark, tmp_path / "warehouse", "findings")] == [list(finding.because)]
    assert tables.existing(spark, str(tmp_path / "warehouse"))


def test_the_queries_of_the_documentation_run(spark: SparkSession, put: Put, night: Night, tmp_path: Path) -> None:
    """Those of docs/warehouse.md, over a warehouse with a finding and a bad line."""
    put("broker-1/server.log", appended(1, 5, 100) + appended(2, 6, 110)[:-70] + "\n")
    assert night(put("broker-2/server.log", appended(3, 5, 100))).findings == ()
    [finding] = night(put("broker-1/server.log.1", appended(4, 4, 120))).findings
    results = {}
    for query in queries(Path("docs/warehouse.md").read_text("utf-8")):
        result = spark.sql(query.replace("/tables/kafka", str(tmp_path / "warehouse")))
        results[" ".join(query.split())] = [row.asDict() for row in result.collect()]

    def of(words: str) -> list[dict[str, Any]]:
        [found] = [result for query, result in results.items() if words in query]
        return found

    assert [row["rule"] for row in of("SELECT severity, rule")] == [finding.rule]
    assert min(row["quarantined"] for row in of("quarantined > 0.01 * lines_read")) > 0
    assert [row["outcome"] for row in of("SELECT run_id, outcome")] == ["findings", "clean"]
    assert sorted(row["count(1)"] for row in of("SELECT live.node, event_type")) == [1, 2]


def queries(page: str) -> list[str]:
    """The SQL statements of a page, without their semicolons."""
    fences = re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [statement.strip() for fence in fences for statement in fence.split(";") if statement.strip()]
