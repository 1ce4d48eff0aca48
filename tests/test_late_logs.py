"""Brokers lead for longer than their logs are kept: a loss is found although no line shows in which leader epoch the records were written.

Of clusters that lost records, all lines before the last moments before the loss are cut off, but those of request logs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.side_by_side import as_json, named, reports_side_by_side

pytestmark = pytest.mark.minutes

# the time from which lines are left, and the loss: topic, partition, the leader epoch without it, its start, the end of what was lost
LOSSES = {
    "kraft-unclean-truncation-4.1": ("2026-11-21 05:12:58", ("u", 0, 2, 10, 29)),
    "zk-unclean-truncation-3.9": ("2026-11-21 04:36:57", ("u", 0, 3, 10, 29)),
    # what was acknowledged last was never read: only its writes show the loss
    "kraft-acknowledged-writes-lost-4.1": ("2026-11-23 15:47:33", ("payments", 0, 2, 475, 565)),
}
LINES = ("server.log", "state-change.log", "controller.log")


@pytest.fixture(scope="module")
def reports(
    spark: SparkSession, capture: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("late")
    for name, (since, _) in LOSSES.items():
        shutil.copytree(capture(name), folder / name, ignore=shutil.ignore_patterns("clients"))
        for path in (folder / name).rglob("*.log"):
            if path.name in LINES:
                begin_at(path, since)
    captures = [named(name, folder / name) for name in LOSSES]
    found = reports_side_by_side(spark, captures, select=("TR-06", "AW-01"), show=("pass",))
    return {name: as_json(report) for name, report in found.items()}


def begin_at(log: Path, since: str) -> None:
    lines = log.read_text("utf-8").splitlines(keepends=True)
    late = [number for number, line in enumerate(lines) if line.startswith("[") and line[1:20] >= since]
    log.write_text("".join(lines[late[0] :] if late else []), "utf-8")


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_found_where_the_leaders_log_begins_after_its_epoch(
    name: str, reports: dict[str, dict[str, Any]]
) -> None:
    topic, partition, epoch, start, last = LOSSES[name][1]
    of_epoch = [
        one
        for one in reports[name]["findings"]
        if (one["topic"], one["partition"], one["leader_epoch"]) == (topic, partition, epoch)
    ]
    assert "pass" not in {one["verdict"] for one in of_epoch}
    lost = [one for one in of_epoch if one["verdict"] == "exposed"]
    assert [(one["first_offset"], one["last_offset"]) for one in lost] == [(start, last)]
    assert any("unclean" in sentence for sentence in lost[0]["because"])
