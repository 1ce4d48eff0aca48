"""The frame `positions`: a consumer's first fetch under a new leader epoch, and where its position came from."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit.replay.data_plane.client_epochs import client_epochs
from epochaudit.replay.data_plane.positions import positions
from tests.replay.histories import history

TRUNCATED = """
| # | event_type | node | topic | partition | leader_epoch | start_offset | client_id | group_id | api_version | fetch_offset | offset | error_code | high_watermark | records_size |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| a | LEADER_STARTS | 1 | t | 0 | 1 | 0 | | | | | | | | |
| x | LEADER_AND_ISR_FINISHED | 1 | | | | | | | | | | | | |
| f | FETCH | 1 | t | 0 | | | c | | 8 | 10 | | 0 | 30 | 500 |
| k | OFFSET_COMMIT | 3 | t | 0 | | | c | g | 5 | | 30 | 0 | | |
| b | LEADER_STARTS | 2 | t | 0 | 2 | 12 | | | | | | | | |
| y | LEADER_AND_ISR_FINISHED | 2 | | | | | | | | | | | | |
| g | FETCH | 2 | t | 0 | | | c | | 8 | 30 | | 0 | 50 | 500 |
| o | OFFSET_FETCH | 3 | t | 0 | | | d | g | 4 | | 30 | 0 | | |
| h | FETCH | 2 | t | 0 | | | d | | 8 | 30 | | 0 | 50 | 500 |
| i | FETCH | 2 | t | 0 | | | new | | 8 | 30 | | 0 | 50 | 500 |
"""  # noqa: E501


def test_a_position_comes_from_the_clients_own_reads_or_from_the_member_that_committed_it(spark: SparkSession) -> None:
    rows = positions(history(spark, TRUNCATED)).select(
        "client_id",
        "group_id",
        "node",
        "leader_epoch",
        "position_epoch",
        "resumed",
        "crossed",
        "divergence_offset",
        "last_lost_offset",
    )
    assert sorted(tuple(row) for row in rows.collect()) == [
        ("c", None, 2, 2, 1, False, True, 12, 29),
        ("d", "g", 2, 2, 1, True, True, 12, 29),
    ]


def test_the_fetch_the_read_it_came_from_and_the_commit_are_referenced(spark: SparkSession) -> None:
    refs = ("fetch_ref", "position_ref", "committed_ref", "commit_ref")
    rows = positions(history(spark, TRUNCATED)).select("client_id", *(f"{name}.byte_offset" for name in refs))
    assert sorted(tuple(row) for row in rows.collect()) == [("c", 700, 300, None, None), ("d", 900, 300, 800, 400)]


REWOUND = """
| # | event_type | node | topic | partition | leader_epoch | start_offset | client_id | connection | correlation_id | api_version | current_leader_epoch | fetch_offset | error_code | high_watermark | records_size |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| a | LEADER_STARTS | 1 | t | 0 | 1 | 0 | | | | | | | | | |
| x | LEADER_AND_ISR_FINISHED | 1 | | | | | | | | | | | | | |
| f | FETCH | 1 | t | 0 | | | c | k1 | 1 | 12 | 1 | 10 | 0 | 30 | 500 |
| b | LEADER_STARTS | 2 | t | 0 | 2 | 12 | | | | | | | | | |
| y | LEADER_AND_ISR_FINISHED | 2 | | | | | | | | | | | | | |
| g | FETCH | 2 | t | 0 | | | c | k2 | 1 | 12 | 2 | 30 | 0 | 50 | 500 |
| h | FETCH | 2 | t | 0 | | | c | k2 | 2 | 12 | 2 | 20 | 0 | 50 | 500 |
"""  # noqa: E501


def test_rows_do_not_depend_on_how_logs_were_rotated(spark: SparkSession) -> None:
    whole = history(spark, REWOUND)
    rotated = whole.withColumns({"file_order": (F.col("byte_offset") / 100).cast("int"), "byte_offset": F.lit(0)})
    rotated = rotated.withColumn("file", F.concat_ws(".", "file", "file_order"))
    for events in (whole, rotated):
        (moved,) = positions(events).select("fetch_offset", "position_epoch", "crossed", "shared_client_id").collect()
        assert tuple(moved) == (30, 1, True, False)
        stated = client_epochs(events).select("node", "leader_epoch", "correlation_id").collect()
        assert sorted(map(tuple, stated)) == [(1, 1, 1), (2, 2, 1)]
    (read,) = positions(rotated).select("fetch_ref.file", "position_ref.file").collect()
    assert [name.rpartition(".")[2] for name in read] == ["6", "3"]


CREATED_TWICE_AGAIN = """
| # | event_type | node | topic | topic_id | partition | leader_epoch | start_offset | client_id | api_version | fetch_offset | error_code | high_watermark | records_size |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| a | LEADER_STARTS | 1 | t | A | 0 | 1 | 0 | | | | | | |
| x | LEADER_AND_ISR_FINISHED | 1 | | | | | | | | | | | |
| f | FETCH | 1 | | A | 0 | | | c | 17 | 0 | 0 | 30 | 500 |
| b | LEADER_STARTS | 1 | t | B | 0 | 0 | 0 | | | | | | |
| y | LEADER_AND_ISR_FINISHED | 1 | | | | | | | | | | | |
| g | FETCH | 1 | | B | 0 | | | c | 17 | 0 | 0 | 20 | 500 |
| d | LEADER_STARTS | 1 | t | C | 0 | 0 | 0 | | | | | | |
| z | LEADER_AND_ISR_FINISHED | 1 | | | | | | | | | | | |
| h | FETCH | 1 | | C | 0 | | | c | 17 | 20 | 0 | 50 | 500 |
"""  # noqa: E501


def test_a_carried_position_is_of_the_newest_topic_that_it_was_held_in(spark: SparkSession) -> None:
    carried = positions(history(spark, CREATED_TWICE_AGAIN)).where("crossed_topic_recreation")
    rows = carried.select("topic_id", "fetch_offset", "previous_topic_id", "position_ref.byte_offset").collect()
    assert sorted(map(tuple, rows)) == [("B", 0, "A", 300), ("C", 20, "B", 600)]
