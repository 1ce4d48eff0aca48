"""Files of one node that are missing accuse nobody and are named: a result without them is no clean one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.pipeline import audit
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.report.losses import unsettled_of
from epochaudit.report.text import headline
from epochaudit.rules.rule import EXPOSED, VIOLATION
from epochaudit.sources.discovery.discovery import discover

HEALTHY = ("zk-healthy-3.9", "kraft-k1-healthy")
LOGS = {"request log": "request-log-json", "state-change.log": "state-change-log", "server.log": "server-log"}


def without(spark: SparkSession, folder: Path, node: int, kinds: tuple[str, ...]) -> Report:
    """The report of a capture from which these files of a node were taken away."""
    found = discover(str(folder))
    left = tuple(file for file in found.files if file.node != node or file.kind not in kinds)
    assert len(left) < len(found.files)
    result = audit(spark, replace(found, files=left))
    report = report_of(result)
    result.release()
    spark.catalog.clearCache()
    return report


@pytest.mark.parametrize(
    ("name", "node", "log"),
    [
        ("zk-healthy-3.9", 1, "request log"),
        ("zk-healthy-3.9", 2, "server.log"),
        ("kraft-k1-healthy", 2, "request log"),
        ("kraft-k1-healthy", 3, "state-change.log"),
    ],
)
def test_a_log_of_one_node_is_missing(
    name: str, node: int, log: str, spark: SparkSession, capture: Callable[[str], Path]
) -> None:
    report = without(spark, capture(name), node, (LOGS[log],))
    assert [f"{one.rule} {one.observed}" for one in report.findings if one.verdict in (VIOLATION, EXPOSED)] == []
    assert unsettled_of(report)
    assert f"{log} of node {node}" in headline(report)
    assert headline(report).startswith("?")


def test_all_logs_of_one_node_are_missing(spark: SparkSession, capture: Callable[[str], Path]) -> None:
    report = without(spark, capture("zk-healthy-3.9"), 3, tuple(LOGS.values()))
    assert [f"{one.rule} {one.observed}" for one in report.findings if one.verdict in (VIOLATION, EXPOSED)] == []
    assert "of node 3" in headline(report)
    assert headline(report).startswith("?")


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_missing_of_a_whole_capture(name: str, spark: SparkSession, capture: Callable[[str], Path]) -> None:
    report = without(spark, capture(name), 1, ("partition-metadata", "leader-epoch-checkpoint", "offset-checkpoint"))
    assert report.inventory.missing == ()
