"""Files of one node that are missing accuse nobody and are named: a result without them is no clean one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.report.contents import Report
from epochaudit.report.text import headline
from epochaudit.rules.rule import EXPOSED, VIOLATION
from epochaudit.sources.files.capture import Capture
from tests.side_by_side import named, reports_side_by_side

LOGS = {"request log": "request-log-json", "state-change.log": "state-change-log", "server.log": "server-log"}
CHECKPOINTS = ("partition-metadata", "leader-epoch-checkpoint", "offset-checkpoint")


WITHOUT = {
    "no request log of node 1": ("zk-healthy-3.9", 1, ("request log",)),
    "no server.log of node 2": ("zk-healthy-3.9", 2, ("server.log",)),
    "no logs of node 3": ("zk-healthy-3.9", 3, tuple(LOGS)),
    "KRaft, no request log of node 2": ("kraft-k1-healthy", 2, ("request log",)),
    "KRaft, no state-change.log of node 3": ("kraft-k1-healthy", 3, ("state-change.log",)),
    "no checkpoints": ("zk-healthy-3.9", 1, CHECKPOINTS),
    "KRaft, no checkpoints": ("kraft-k1-healthy", 1, CHECKPOINTS),
}
"""Captures, of which these files of a node are missing."""


@pytest.fixture(scope="module")
def reports(spark: SparkSession, capture: Callable[[str], Path]) -> dict[str, Report]:
    """The report of each of WITHOUT, from one audit of all."""
    return reports_side_by_side(spark, [without(name, capture) for name in WITHOUT])


def without(name: str, capture: Callable[[str], Path]) -> Capture:
    """The capture without the files of WITHOUT."""
    base, node, logs = WITHOUT[name]
    kinds = {LOGS.get(log, log) for log in logs}
    found = named(name, capture(base))
    left = tuple(file for file in found.files if file.node != node or file.kind not in kinds)
    assert len(left) < len(found.files)
    return replace(found, files=left)


@pytest.mark.parametrize("name", WITHOUT)
def test_missing_files_of_one_node_accuse_nobody(name: str, reports: dict[str, Report]) -> None:
    found = reports[name].findings
    assert [f"{one.rule} {one.observed}" for one in found if one.verdict in (VIOLATION, EXPOSED)] == []


@pytest.mark.parametrize("name", [name for name, (_, _, logs) in WITHOUT.items() if logs != CHECKPOINTS])
def test_a_missing_log_is_named_in_the_first_line(name: str, reports: dict[str, Report]) -> None:
    _, node, logs = WITHOUT[name]
    report = reports[name]
    assert (f"{logs[0]} of node {node}" if len(logs) == 1 else f"of node {node}") in headline(report)
    assert headline(report).startswith("?")
    assert {missing.node for missing in report.inventory.missing} == {node}


@pytest.mark.parametrize("name", [name for name, (_, _, logs) in WITHOUT.items() if logs == CHECKPOINTS])
def test_nothing_is_missing_of_a_whole_capture(name: str, reports: dict[str, Report]) -> None:
    assert reports[name].inventory.missing == ()
