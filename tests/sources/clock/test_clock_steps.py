"""All logs of a node follow the step of its clock that one of them shows in full."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from epochaudit.sources.clock.clock_steps import Correction, corrected, corrections, follows, with_reached
from epochaudit.sources.clock.log_time import LATE_MS, raised_by


def part(file: str, *steps: tuple[int, int], split: int = 0, node: int = 1) -> dict[str, object]:
    shown = [{"latest_ms": latest, "raised_ms": raised_by(lost)} for latest, lost in steps]
    return {"cluster": "c", "node": node, "file": file, "split": split, "clock_steps": shown}


def test_without_a_step_nothing_is_corrected() -> None:
    assert corrections([part("a"), part("b"), {**part("d"), "clock_steps": None}]) == []


def test_a_quiet_log_lacks_what_it_was_silent_for() -> None:
    found = corrections([part("requests", (100_000, 90_000)), part("states", (70_000, 30_000))])
    assert found == [Correction("c", "requests", 0, 100_000, -LATE_MS), Correction("c", "states", 0, 70_000, 60_000)]


def test_a_log_that_shows_no_step_follows_from_the_last_time_before_it() -> None:
    found = corrections([part("requests", (100_000, 90_000)), part("server")])
    assert found == [Correction("c", "requests", 0, 100_000, -LATE_MS), Correction("c", "server", 0, 100_000, 90_000)]


def test_the_later_ranges_of_a_file_stand_behind_its_step() -> None:
    found = corrections([part("r", split=0), part("r", (100_000, 90_000), split=1), part("r", split=2)])
    assert found == [
        Correction("c", "r", 0, 100_000, 90_000),
        Correction("c", "r", 1, 100_000, -LATE_MS),
        Correction("c", "r", 2, -1, 90_000),
    ]


def test_other_nodes_have_clocks_of_their_own() -> None:
    assert corrections([part("a", (100_000, 40_000)), part("b", node=2)]) == []


def test_two_steps_are_distinguished() -> None:
    found = corrections(
        [part("r", (100_000, 10_000), (1_000_000, 20_000)), part("s", (95_000, 5_000), (999_000, 19_000))]
    )
    assert found == [
        Correction("c", "s", 0, 95_000, 5_000),
        Correction("c", "s", 0, 999_000, 1_000),
    ]


@pytest.mark.spark
def test_many_steps_are_one_join(spark: SparkSession) -> None:
    events = spark.range(1000).selectExpr(
        "'c' AS cluster", "'r' AS file", "CAST(id % 2 AS INT) AS split", "id AS time_ms", "id - 10 AS arrival_ms"
    )
    steps = [Correction("c", "r", 0, after, 5000) for after in range(0, 1000, 2)]
    found = corrected(events, [*steps, Correction("c", "other", 0, -1, 500)])
    assert found.columns == events.columns
    # an even time is in range 0, and half of the times below it are steps
    expected = {time + (0 if time % 2 else 5000 * (time // 2)) for time in range(1000)}
    assert {(row.time_ms, row.arrival_ms) for row in found.collect()} == {(time, time - 10) for time in expected}
    assert len(found._jdf.queryExecution().optimizedPlan().toString()) < 20_000


@pytest.mark.spark
def test_a_line_that_is_written_late_after_a_step_is_corrected_like_those_around_it(spark: SparkSession) -> None:
    # the step is after 900; then a line comes two milliseconds late; what is late before the step is not corrected
    times = [800, 899, 900, 898, 901, 899, 950]
    rows = [("c", "r", 0, time, time, place, 0) for place, time in enumerate(times)]
    columns = "cluster string, file string, split int, time_ms bigint, arrival_ms bigint, byte_offset bigint, partition_row int"
    events = with_reached(spark.createDataFrame(rows, columns))
    found = corrected(events, [Correction("c", "r", 0, 900, 5000)], follows)
    by_place = {row.byte_offset: row.time_ms for row in found.collect()}
    assert [by_place[place] for place in range(7)] == [800, 899, 900, 898, 5901, 5899, 5950]


@pytest.mark.spark
def test_without_corrections_the_events_are_the_same(spark: SparkSession) -> None:
    events = spark.range(1)
    assert corrected(events, []) is events
