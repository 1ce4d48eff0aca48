"""The warehouse holds each run once, under the columns and comments of the contracts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit import warehouse
from epochaudit.auditing import VERDICT_SCHEMA, Audit
from epochaudit.events.schema import EVENTS, columns, contract, spark_schema
from epochaudit.evidence import Evidence
from epochaudit.findings import Finding
from epochaudit.inventory import FileRead, Inventory
from epochaudit.report.contents import Report
from epochaudit.rules.judge import Tally
from epochaudit.sources.capture import Capture, RecordedFile

NOON = 1_795_262_400_000  # 2026-11-21 12:00 UTC, in milliseconds
TABLES = ("events", "quarantine", "verdicts", "findings", "runs")

Written = Callable[[str, str], tuple[Audit, Report]]


def _rows(spark: SparkSession, table: str, *given: dict[str, Any]) -> DataFrame:
    schema = EVENTS if table == "events" else spark_schema(table)
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in given], schema)


def _finding(cluster: str, observed: str) -> Finding:
    line = Evidence("the request", 2, "request.log", 1, 0, "2026-11-21T12:00:00.000", "it's a \\ line")
    return Finding(
        "8b1f", "SR-01", "violation", "critical", cluster, 2, "orders", None, 0, 3, None, None, 17,
        "error 74", observed, ("first", "second"), (line,),
    )  # fmt: skip


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """audited(cluster, observed) -> an audit of one line of that cluster, and its report."""

    def make(cluster: str, observed: str) -> tuple[Audit, Report]:
        recorded = tmp_path_factory.mktemp("capture") / "request.log"
        recorded.write_text(f"one line of {cluster}\n")
        file = RecordedFile("request.log", str(recorded), "request-log-json", cluster, 20, 2, "request_log")
        event = {"event_id": 1, "cluster": cluster, "node": 2, "event_type": "STOP_REPLICA", "time_ms": NOON}
        tally = Tally("SR-01", dict.fromkeys(("pass", "fenced", "violation", "exposed", "unverifiable"), 1), {"why": 1})
        verdicts = spark.createDataFrame([("SR-01", 0, 0, 1, 0, 2, {"no state-change.log": 2})], VERDICT_SCHEMA)
        audit = Audit(
            captures=(Capture(str(recorded.parent), cluster, (file,), ()),),
            rules=(),
            events=_rows(spark, "events", event, {**event, "event_type": "FETCH", "time_ms": None}),
            quarantine=_rows(spark, "quarantine", {"cluster": cluster, "file": "request.log", "reason": "cut off"}),
            splits=_rows(spark, "splits"),
            verdicts=verdicts,
            findings=_rows(spark, "findings"),
            tallies=(tally,),
        )
        read = FileRead("request.log", "request-log-json", 2, 20, 3, 2, 0, 1)
        return audit, Report("1", Inventory(clusters=(cluster,), files=(read,)), (), (_finding(cluster, observed),))

    return make


@pytest.fixture(scope="module")
def directory(spark: SparkSession, audited: Written, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the runs of two clusters, one of them audited twice."""
    directory = tmp_path_factory.mktemp("it's a warehouse")
    for cluster, observed in (("west", "error 0"), ("east", "error 0"), ("west", "error 6")):
        warehouse.write(spark, str(directory), *audited(cluster, observed))
    return directory


def _table(spark: SparkSession, directory: Path, table: str) -> DataFrame:
    return spark.read.format("delta").load(str(directory / table))


def test_a_second_audit_of_a_capture_replaces_the_first(spark: SparkSession, directory: Path) -> None:
    found = _table(spark, directory, "findings").select("cluster", "observed").collect()
    assert sorted(map(tuple, found)) == [("east", "error 0"), ("west", "error 6")]
    counts = [_table(spark, directory, table).groupBy("run_id").count().toArrow().to_pylist() for table in TABLES]
    assert [sorted(row["count"] for row in of_table) for of_table in counts] == [[2, 2], [1, 1], [1, 1], [1, 1], [1, 1]]


def test_a_finding_comes_back_as_it_was(spark: SparkSession, directory: Path) -> None:
    (row,) = _table(spark, directory, "findings").where("cluster = 'west'").drop("run_id").collect()
    read = row.asDict(recursive=True)
    expected = _finding("west", "error 6")
    assert read.pop("because") == list(expected.because)
    assert [Evidence(**line) for line in read.pop("evidence")] == list(expected.evidence)
    assert read.pop("caused_by") is None
    assert read == {name: getattr(expected, name) for name in read}


def test_a_consequence_names_its_cause(spark: SparkSession, audited: Written, tmp_path: Path) -> None:
    audit, report = audited("west", "error 0")
    (cause,) = report.findings
    effect = replace(cause, finding_id="0" * 24, rule="IS-06")
    warehouse.write(spark, str(tmp_path), audit, replace(report, findings=(replace(cause, consequences=(effect,)),)))
    found = _table(spark, tmp_path, "findings").select("finding_id", "caused_by").collect()
    assert sorted(map(tuple, found), key=str) == [("0" * 24, cause.finding_id), (cause.finding_id, None)]


def test_events_are_filed_under_the_day_of_their_time(spark: SparkSession, directory: Path) -> None:
    west = _table(spark, directory, "events").where("cluster = 'west'").select("event_type", "day").collect()
    assert sorted(map(tuple, west)) == [("FETCH", None), ("STOP_REPLICA", date(2026, 11, 21))]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_tells_what_it_holds(spark: SparkSession, directory: Path, table: str) -> None:
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{directory / table}`").collect()[0]
    assert detail["description"] == contract(table).grain
    assert tuple(detail["partitionColumns"]) == contract(table).partitioned_by
    fields = _table(spark, directory, table).schema.fields
    comments = {field.name: field.metadata.get("comment") for field in fields}
    assert {c.name: comments[c.name] for c in columns(table)} == {c.name: c.doc for c in columns(table)}
    assert fields[0].name == "run_id"


def test_a_relative_directory_is_one_of_the_working_directory(
    spark: SparkSession, audited: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    warehouse.write(spark, "kept/", *audited("west", "error 0"))
    assert _table(spark, tmp_path / "kept", "runs").count() == 1


def test_a_directory_that_cannot_be_written_is_told(spark: SparkSession, audited: Written, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(warehouse.WarehouseError, match="can't write the warehouse"):
        warehouse.write(spark, str(tmp_path / "file"), *audited("west", "error 0"))


def test_a_run_is_known_by_what_it_read(audited: Written) -> None:
    west, again, east = (warehouse.run_id_of(audited(cluster, "error 0")[0]) for cluster in ("west", "west", "east"))
    assert west == again != east
