"""Findings as CSV and Parquet: one row each, the same columns, and no cell that a spreadsheet computes."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochaudit.events.schema import arrow_schema
from epochaudit.findings.finding import Finding
from epochaudit.report.contents import Acceptance, Report
from epochaudit.report.findings_table import COLUMNS, render_csv, render_parquet

NAMES = [column.name for column in COLUMNS]


def rows_of_csv(report: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(report))))


def table_of(report: Report) -> pa.Table:
    return pq.read_table(pa.BufferReader(render_parquet(report)))


def rows_of_parquet(report: Report) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table_of(report).to_pylist()
    return rows


@pytest.fixture
def caused(report: Report, finding: Finding) -> Report:
    """A finding with a consequence, of which the first is accepted."""
    effect = replace(finding, finding_id="e" * 24, rule="TI-01", evidence=())
    accepted = {finding.finding_id: Acceptance("a drill", "storage", date(2027, 2, 20))}
    known = {effect.finding_id: "2026-11-20T02:00:00"}
    return replace(report, findings=(replace(finding, consequences=(effect,)),), accepted=accepted, known=known)


def test_each_finding_is_a_row_and_a_consequence_names_its_cause(caused: Report, finding: Finding) -> None:
    for rows in (rows_of_csv(caused), rows_of_parquet(caused)):
        assert [list(row) for row in rows] == [NAMES, NAMES]
        assert [row["finding_id"] for row in rows] == [finding.finding_id, "e" * 24]
        assert [row["caused_by"] or None for row in rows] == [None, finding.finding_id]
        assert [row["accepted_reason"] or None for row in rows] == ["a drill", None]
        assert [row["known_since"] or None for row in rows] == [None, "2026-11-20T02:00:00"]
        assert [row["time"] or None for row in rows] == ["2026-11-21T04:08:14.133", None]


def test_parquet_has_the_types_of_the_warehouse_and_a_description_of_each_column(caused: Report) -> None:
    schema, stored = table_of(caused).schema, arrow_schema("findings")
    shared = [name for name in NAMES if name in stored.names]
    assert len(shared) >= 20
    assert [schema.field(name).type for name in shared] == [stored.field(name).type for name in shared]
    assert [name for name in NAMES if not schema.field(name).metadata[b"description"].endswith(b".")] == []
    first, _ = rows_of_parquet(caused)
    assert first["accepted_expires"] == date(2027, 2, 20)
    assert first["evidence"][1]["line"] == 264
    assert first["because"][0] == "broker 2 had installed leader epoch 3"


def test_a_list_is_one_cell_of_csv(caused: Report) -> None:
    first, _ = rows_of_csv(caused)
    assert first["because"].startswith("broker 2 had installed leader epoch 3; the StopReplica carries")
    assert first["evidence"].endswith("; the leader epoch that was installed: broker-2/state-change.log:264")


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", " =", "\r=", "＝", "\n@"])  # noqa: RUF001
def test_no_cell_is_a_formula(report: Report, finding: Finding, begin: str) -> None:
    topic = f"{begin}HYPERLINK(1)"
    hostile = replace(finding, topic=topic, because=(topic,), leader_epoch=-2)
    (row,) = rows_of_csv(replace(report, findings=(hostile,)))
    assert not row["topic"].lstrip().startswith(("=", "+", "-", "@", "＝"))  # noqa: RUF001
    assert not row["because"].lstrip().startswith(("=", "+", "-", "@", "＝"))  # noqa: RUF001
    assert row["leader_epoch"] == "-2"
    (kept,) = rows_of_parquet(replace(report, findings=(hostile,)))
    assert kept["topic"] == topic


def test_whatever_stands_in_a_log_each_finding_is_one_line_of_csv(report: Report, finding: Finding) -> None:
    hostile = replace(finding, client='a"b,\nc\x00\x1b[2J\ud800', group="\u202ex")
    text = render_csv(replace(report, findings=(hostile, finding)))
    assert text.count("\n") == 3
    assert "\x1b" not in text
    (first, _) = rows_of_csv(replace(report, findings=(hostile, finding)))
    assert first["client"] == 'a"b,\\x0ac\\x00\\x1b[2J\\ud800'
    (kept, _) = rows_of_parquet(replace(report, findings=(hostile, finding)))
    assert kept["client"] == 'a"b,\nc\x00\x1b[2J\\ud800'


def test_without_findings_the_columns_are_there(report: Report) -> None:
    empty = replace(report, findings=())
    assert render_csv(empty) == ",".join(NAMES) + "\n"
    assert table_of(empty).schema.names == NAMES
