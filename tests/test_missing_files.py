"""Files and lines of one node that are missing accuse nobody and are named: a result without them is no clean one."""

from __future__ import annotations

import shutil
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

pytestmark = pytest.mark.thorough

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
WITHOUT_LINES = {"lines of node 2": ("zk-healthy-3.9", 2), "KRaft, lines of node 3": ("kraft-k1-healthy", 3)}
"""Captures, of which every fiftieth line of a node's request log is missing."""


@pytest.fixture(scope="module")
def reports(
    spark: SparkSession, capture: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Report]:
    """The report of each of WITHOUT and WITHOUT_LINES, from one audit of all."""
    lacking = [without_lines(name, capture, tmp_path_factory.mktemp("lines") / "capture") for name in WITHOUT_LINES]
    return reports_side_by_side(spark, [*(without(name, capture) for name in WITHOUT), *lacking])


def without(name: str, capture: Callable[[str], Path]) -> Capture:
    """The capture without the files of WITHOUT."""
    base, node, logs = WITHOUT[name]
    kinds = {LOGS.get(log, log) for log in logs}
    found = named(name, capture(base))
    left = tuple(file for file in found.files if file.node != node or file.kind not in kinds)
    assert len(left) < len(found.files)
    return replace(found, files=left)


def without_lines(name: str, capture: Callable[[str], Path], copy: Path) -> Capture:
    """A copy of the capture without the lines of WITHOUT_LINES."""
    base, node = WITHOUT_LINES[name]
    shutil.copytree(capture(base), copy)
    logs = [file for file in named(name, copy).files if file.node == node and file.kind == LOGS["request log"]]
    assert logs
    for file in logs:
        lines = (copy / file.path).read_bytes().splitlines(keepends=True)
        (copy / file.path).write_bytes(b"".join(line for number, line in enumerate(lines) if number % 50 != 25))
    return named(name, copy)


@pytest.mark.parametrize("name", [*WITHOUT, *WITHOUT_LINES])
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


@pytest.mark.parametrize("name", WITHOUT_LINES)
def test_a_log_of_which_lines_are_missing_is_named(name: str, reports: dict[str, Report]) -> None:
    [missing] = reports[name].inventory.missing
    assert (missing.node, missing.logs) == (WITHOUT_LINES[name][1], ("request_log",))
    assert f"a part of the request log of node {missing.node}, at least" in headline(reports[name])
