"""Recorded clusters: the report of each holds exactly what is known to have happened there, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit import cli
from epochaudit.exit_codes import CLEAN, FINDINGS
from epochaudit.rules.catalogue import catalogue
from tests.conftest import capture_names
from tests.expected import REPORTED, differences, not_required

CATALOGUE = [rule.id for rule in catalogue()]


@pytest.mark.parametrize("name", capture_names())
def test_capture(
    name: str,
    spark: SparkSession,
    capture: Callable[[str], Path],
    expected: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    output = tmp_path / "report.json"
    code = cli.main(["audit", str(capture(name)), "--show", "fenced", "--format", "json", "--output", str(output)])
    assert code in (CLEAN, FINDINGS)
    spark.catalog.clearCache()  # a process audits once; here the session lives on
    report = json.loads(output.read_text("utf-8"))
    record_property("not required, no such rule", not_required(expected(name), CATALOGUE))
    found = differences(report, expected(name), CATALOGUE)
    assert not found, f"{name} differs from its truth:\n" + "\n".join(found)
    assert code == (FINDINGS if any(finding["verdict"] in REPORTED for finding in report["findings"]) else CLEAN)
    assert_every_line_is_accounted_for(report["capture"])
    assert_evidence_can_be_checked_by_hand(report, capture(name))


def assert_every_line_is_accounted_for(read: dict[str, Any]) -> None:
    """Lines are events, ignored or quarantined, file by file."""
    for file in read["files"]:
        assert file["lines"] == file["events"] + file["ignored"] + file["quarantined"], file


def assert_evidence_can_be_checked_by_hand(report: dict[str, Any], folder: Path) -> None:
    """Opening the named file at the named line shows the text that the report quotes."""
    lines: dict[str, list[str]] = {}
    for finding in [one for root in report["findings"] for one in (root, *root["consequences"])]:
        assert finding["evidence"], finding
        for proof in finding["evidence"]:
            if proof["file"] not in lines:
                lines[proof["file"]] = (folder / proof["file"]).read_text("utf-8", errors="replace").split("\n")
            recorded = lines[proof["file"]][proof["line"] - 1]
            assert recorded.startswith(proof["text"].removesuffix("…")), proof
