"""What every cluster has: server.log, state-change.log, controller.log, checkpoints, the metadata log; no request logs, no clients' logs.

Kafka writes no request log unless it is configured to. The losses of the recorded clusters are reported without it, with where they begin
and end, when, and who truncated; and none of healthy ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit.report.losses import unsettled_of
from tests.side_by_side import as_json, named, reports_side_by_side

HEALTHY = ("kraft-k1-healthy", "zk-healthy-3.9")
ABOUT_LOSSES = ("TR-06", "TR-07", "LD-03")

# topic, partition, the leader epoch that began without the records, first and last of them, the epochs they were written in, who had
# them and truncated them
LOST = {
    "kraft-acknowledged-writes-lost-4.1": [("exposed", "payments", 0, 2, 475, 565, [0], [2])],
    "kraft-unclean-truncation-4.1": [("exposed", "u", 0, 2, 10, 29, [0], [1])],
    "zk-kraft-migration-3.9": [("exposed", "u", 0, 6, 10, 29, [4], [1])],
    "zk-recreate-unclean-2.5": [("exposed", "u", 0, 3, 10, 29, [1], [1])],
    "zk-stopreplica-bypass-3.9": [("violation", "ld", 0, 5, 0, 9, [0], [])],
    "zk-unclean-truncation-2.0": [("exposed", "u", 0, 3, 10, 29, [1], [1])],
    "zk-unclean-truncation-3.9": [("exposed", "u", 0, 3, 10, 29, [1], [1])],
}


def default_logs(source: Path, target: Path) -> Path:
    """A copy of a capture without what Kafka does not log by default."""

    def unusual(_: str, names: list[str]) -> set[str]:
        return {name for name in names if name.startswith("kafka-request.log") or name == "clients"}

    shutil.copytree(source, target, ignore=unusual)
    return target


@pytest.fixture(scope="module")
def reports(
    spark: SparkSession, capture: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """The report of each cluster with losses, as JSON, from one audit of all."""
    folder = tmp_path_factory.mktemp("default")
    captures = [named(name, default_logs(capture(name), folder / name)) for name in LOST]
    found = reports_side_by_side(spark, captures, select=ABOUT_LOSSES)
    return {name: as_json(report) for name, report in found.items()}


@pytest.mark.parametrize("name", sorted(LOST))
def test_losses_are_reported_without_request_logs(name: str, reports: dict[str, dict[str, Any]]) -> None:
    report = reports[name]
    verdicts = {one["finding_id"]: one["verdict"] for one in report["findings"]}
    losses = [
        (
            *(verdicts[one["finding_ids"][0]], one["topic"], one["partition"], one["leader_epoch"]),
            *(one["first_offset"], one["last_offset"], one["epochs"]),
            sorted({replica["node"] for replica in one["replicas"] if replica["truncated_to"] is not None}),
        )
        for one in report["losses"]
    ]
    assert losses == LOST[name]
    assert [(one["committed"], one["given_out"]) for one in report["losses"]] == [(True, None)]


def test_healthy_clusters_are_not_accused(spark: SparkSession, capture: Callable[[str], Path], tmp_path: Path) -> None:
    """One audit of both, by all rules."""
    copies = [named(name, default_logs(capture(name), tmp_path / name)) for name in HEALTHY]
    for name, report in reports_side_by_side(spark, copies).items():
        assert [(one.rule, one.observed) for one in report.findings] == [], name
        assert report.inventory.missing == ()
        # if nothing recorded shows whether a truncation took committed records, the result is no clean one
        assert all("whether committed is not in the evidence" in reason for reason in unsettled_of(report))
        elections = next(rule for rule in report.rules if rule.rule == "TR-06")
        assert elections.count("pass") > 30 * len(HEALTHY)
