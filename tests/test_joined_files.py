"""However the files of a cluster's logs were put together, each line counts once and in its node's order.

Simulated clusters with breaches: rotated files are joined by their names, a log is appended to itself, two files share lines. The
findings are those of the logs as they were written.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.histories import history_of
from prove.holes import HARMS, LONGER, with_holes
from prove.rendering.files import write
from tests.side_by_side import named, reports_side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from epochaudit.report.contents import Report
    from epochaudit.sources.files.capture import Capture

pytestmark = pytest.mark.thorough

SEEDS = (90003, 90030, 90049)
"""Simulated clusters of ZooKeeper and KRaft, of brokers and of producers."""
HARMED = ("joined", "again", "overlap")

STANDARD_OUTPUT = "kafkaServer.out"


def beside_standard_output(whole: Path, name: str) -> Capture:
    """A copy in which each broker's standard output has the lines of its server.log, too."""
    copy = shutil.copytree(whole, whole.with_name(name))
    for log in copy.glob("node-*/server.log"):
        log.with_name(STANDARD_OUTPUT).write_bytes(
            b"OpenJDK 64-Bit Server VM warning: a line of its own\n" + log.read_bytes()
        )
    return named(name, copy)


def facts(report: Report) -> list[tuple[str, ...]]:
    """The findings without the places of their lines."""
    return sorted(
        (
            one.rule,
            one.verdict,
            str((one.node, one.topic, one.partition, one.leader_epoch, one.client, one.observed, one.because)),
        )
        for one in report.findings
    )


def test_files_that_were_put_together_give_the_same_findings(spark: SparkSession, tmp_path: Path) -> None:
    clusters = []
    for seed in SEEDS:
        write(history_of(seed, LONGER, faulty=True), tmp_path / f"{seed} whole")
        clusters.append(named(f"{seed} whole", tmp_path / f"{seed} whole"))
        for harm in HARMED:
            name = f"{seed} {harm}"
            missing = with_holes(tmp_path / f"{seed} whole", tmp_path / name, HARMS[harm], 1.0, seed)
            assert (missing == 0) == (harm == "joined")
            clusters.append(named(name, tmp_path / name))
        clusters.append(beside_standard_output(tmp_path / f"{seed} whole", f"{seed} {STANDARD_OUTPUT}"))
    reports = reports_side_by_side(spark, clusters, show=("fenced",))
    found = 0
    for seed in SEEDS:
        whole = facts(reports[f"{seed} whole"])
        found += len(whole)
        for harm in (*HARMED, STANDARD_OUTPUT):
            assert facts(reports[f"{seed} {harm}"]) == whole, f"{seed} {harm}"
    assert found > 20
