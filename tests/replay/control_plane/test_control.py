"""The frame `control`: the state at the broker when a control request arrived."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from epochaudit.events.schema import EVENTS
from epochaudit.replay.control_plane.control import control
from tests.replay.histories import history as history_of
from tests.rules.case_files import read_cases

HISTORY = """## history

| # | event_type | topic | partition | leader_epoch | controller_id | controller_epoch | correlation_id | error_code |arrival_ms|time_ms|
|---|---|---|---|---|---|---|---|---|---|---|
| up | PROCESS_STARTING | | | | | | | | | 500 |
| h1 | LEADER_AND_ISR_HANDLING | | | | 1 | | 7 | | | 1000 |
| s1 | FOLLOWER_STARTS | t | 0 | 3 | | | | | | 1010 |
| r1 | LEADER_AND_ISR | t | 0 | 3 | 1 | 1 | 7 | 0 | 990 | 1020 |
| h2 | LEADER_AND_ISR_HANDLING | | | | 2 | | 7 | | | 5000 |
| s2 | LEADER_STARTS | t | 0 | 4 | | | | | | 5010 |
| h3 | LEADER_AND_ISR_HANDLING | | | | 2 | | 8 | | | 5020 |
| r3 | LEADER_AND_ISR | t | 0 | 4 | 2 | 2 | 8 | 11 | 5019 | 5025 |
| r2 | LEADER_AND_ISR | t | 0 | 4 | 2 | 2 | 7 | 0 | 4990 | 5200 |
"""


@pytest.fixture
def history(spark: SparkSession, tmp_path: Path) -> DataFrame:
    (tmp_path / "kip").mkdir()
    (tmp_path / "kip" / "LI-01.md").write_text(HISTORY)
    (case,) = read_cases(tmp_path, EVENTS)
    return spark.createDataFrame(case.events, EVENTS)


def test_requests_are_ordered_by_state_change_log_and_not_by_their_completion(
    spark: SparkSession, history: DataFrame
) -> None:
    requests = control(history).where("is_request")
    actual = requests.select(
        "controller_id", "correlation_id", "installed_leader_epoch", "highest_controller_epoch", "ordered_by"
    )
    expected = spark.createDataFrame(
        [
            (1, 7, None, None, "state_change_log"),
            (2, 7, 3, 1, "state_change_log"),
            (2, 8, 4, 2, "state_change_log"),
        ],
        actual.schema,
    )
    assert_df_equality(actual, expected, ignore_row_order=True, ignore_nullable=True)


def test_the_same_correlation_id_of_another_controller_is_another_request(history: DataFrame) -> None:
    lines = {
        (row.controller_id, row.correlation_id): row.line_ref.time_ms
        for row in control(history).where("is_request").select("controller_id", "correlation_id", "line_ref").collect()
    }
    assert lines == {(1, 7): 1000, (2, 7): 5000, (2, 8): 5020}


def test_clusters_do_not_mix(history: DataFrame) -> None:
    other = history.withColumn("cluster", F.lit("other")).where(F.col("event_type") != "FOLLOWER_STARTS")
    both = control(history.unionByName(other)).where((F.col("controller_id") == 2) & (F.col("correlation_id") == 7))
    assert {row.cluster: row.installed_leader_epoch for row in both.collect()} == {"LI-01 history": 3, "other": None}


UP_TO_2_5 = """
| # | event_type | source | topic | partition | leader | leader_epoch | controller_id | correlation_id | error_code | arrival_ms | time_ms |
|---|---|---|---|---|---|---|---|---|---|---|---|
| up | PROCESS_STARTING | | | | | | | | | | 500 |
| s1 | LEADER_STARTS | server_log | t | 0 | 1 | 3 | | | | | 1000 |
| l0 | LEADER_AND_ISR_RECEIVED | | o | 0 | 2 | 1 | 1 | 7 | | | 1000 |
| l1 | LEADER_AND_ISR_RECEIVED | | t | 0 | 1 | 3 | 1 | 7 | | | 1000 |
| l2 | LEADER_AND_ISR_RECEIVED | | t | 0 | 1 | 3 | 1 | 8 | | | 1001 |
| r2 | LEADER_AND_ISR | | t | 0 | 1 | 3 | 1 | 8 | 11 | 1001 | 1002 |
| r1 | LEADER_AND_ISR | | t | 0 | 1 | 3 | 1 | 7 | 0 | 999 | 1010 |
| l3 | LEADER_AND_ISR_RECEIVED | | t | 0 | 1 | 4 | 2 | 7 | | | 9000 |
| r3 | LEADER_AND_ISR | | t | 0 | 1 | 4 | 2 | 7 | 0 | 8999 | 9010 |
"""


def test_up_to_2_5_a_start_in_server_log_follows_the_request_that_stated_its_epoch(spark: SparkSession) -> None:
    installed = {
        (row.controller_id, row.correlation_id): (row.installed_leader_epoch, row.line_ref.time_ms)
        for row in control(history_of(spark, UP_TO_2_5)).where("is_request AND topic = 't'").collect()
    }
    assert installed == {(1, 7): (None, 1000), (1, 8): (3, 1001), (2, 7): (3, 9000)}
