"""Maintenance: what is released, removed and retained."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.report.contents import Report
from epochaudit.warehouse import maintenance
from tests.sources.decoding import json_request
from tests.warehouse.conftest import SELECT, Put, appended, audited

RULES = (*SELECT, "HW-02")


def answered(high_watermark: int, offset: int) -> str:
    """A line of a request log: a Fetch whose answer has this high watermark."""
    position = {
        "partition": 0,
        "currentLeaderEpoch": 5,
        "fetchOffset": offset,
        "lastFetchedEpoch": 4,
        "logStartOffset": -1,
    }
    asked = {"isolationLevel": 1, "sessionId": 0, "sessionEpoch": -1, "forgottenTopicsData": [], "replicaId": -1}
    partition = {
        "partition": 0, "errorCode": 0, "highWatermark": high_watermark, "lastStableOffset": high_watermark, "logStartOffset": 0,
        "preferredReadReplica": -1, "recordSetSizeInBytes": 70,
    }  # fmt: skip
    answer = {"errorCode": 0, "sessionId": 0, "responses": [{"topic": "t", "partitionResponses": [partition]}]}
    return json_request("FETCH", 12, {**asked, "topics": [{"topic": "t", "partitions": [position]}]}, answer) + "\n"


@pytest.mark.thorough
def test_old_request_logs_go_whole_and_are_not_read_again(
    spark: SparkSession, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other logs stay, and a line from the future makes no log old."""
    put("broker-1/kafka-request.log.1", answered(-1, 0).replace("2026-11-21", "2026-11-10"))
    put("broker-1/kafka-request.log", answered(8, 8))
    put("broker-2/server.log", appended(1, 8, 200).replace("2026", "2099"))
    folder = put("broker-1/server.log", appended(1, 8, 200).replace("2026-11-21", "2026-11-09"))
    location = tmp_path / "warehouse"

    def night() -> Report:
        return audited(spark, location, folder, select=RULES)

    def parts(table: str) -> int:
        return spark.read.format("delta").load(f"{location}/{table}").select("part").distinct().count()

    assert [finding.node for finding in night().findings] == [1]
    before = parts("splits")
    monkeypatch.setattr(maintenance, "UNDISTURBED_HOURS", -1)
    assert maintenance.maintain(spark, str(location), keep_days=5) == maintenance.Maintained(1, 1)
    assert parts("splits") == before - 1
    [finding] = spark.read.format("delta").load(f"{location}/findings").collect()
    assert (finding["state"], [change["state"] for change in finding["history"]]) == ("retired", ["open", "retired"])
    after = night()
    assert (after.findings, [file.path for file in after.inventory.files]) == (
        (),
        ["broker-1/kafka-request.log", "broker-1/server.log", "broker-2/server.log", "capture.toml"],
    )
    [finding] = spark.read.format("delta").load(f"{location}/findings").collect()
    assert finding["state"] == "retired"
