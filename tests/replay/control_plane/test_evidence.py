"""References of frames beside the first of a rule's evidence: no case compares them."""

from __future__ import annotations

from pyspark.sql import SparkSession

from epochaudit.replay.control_plane.heartbeats import heartbeats
from epochaudit.replay.control_plane.log_copies import log_copies
from epochaudit.replay.control_plane.registrations import registrations
from tests.replay.histories import histories, history


def test_the_other_copy_is_the_first_that_differs_else_the_next(spark: SparkSession) -> None:
    events = history(
        spark,
        """
| # | event_type | metadata_offset | raft_epoch | file | broker_id | broker_epoch |
|---|---|---|---|---|---|---|
| a0 | FENCE_BROKER_RECORD | 0 | 1 | a.txt | 1 | 11 |
| b0 | FENCE_BROKER_RECORD | 0 | 1 | b.txt | 1 | 11 |
| c0 | FENCE_BROKER_RECORD | 0 | 1 | c.txt | 2 | 12 |
| a1 | FENCE_BROKER_RECORD | 1 | 1 | a.txt | 1 | 11 |
| b1 | FENCE_BROKER_RECORD | 1 | 1 | b.txt | 1 | 11 |
| c1 | FENCE_BROKER_RECORD | 1 | 1 | c.txt | 1 | 11 |
""",
    )
    rows = log_copies(events).select("metadata_offset", "record_ref.file", "other_ref.file").collect()
    assert sorted(tuple(row) for row in rows) == [(0, "a.txt", "c.txt"), (1, "a.txt", "b.txt")]


def test_an_unregistered_broker_has_no_registration_before(spark: SparkSession) -> None:
    table = """
| # | event_type | topic | topic_id | partition | leader | leader_epoch | partition_epoch | isr | elr | replicas | broker_id | broker_epoch | incarnation_id | fenced | metadata_offset | name | value |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| e | FEATURE_LEVEL_RECORD | | | | | | | | | | | | | | 0 | eligible.leader.replicas.version | 1 |
| t | TOPIC_RECORD | t | T | | | | | | | | | | | | 1 | | |
| p | PARTITION_RECORD | | T | 0 | 1 | 0 | 0 | 1 | 2 | 1,2 | | | | | 2 | | |
| b | REGISTER_BROKER_RECORD | | | | | | | | | | 2 | 3 | A | false | 3 | | |
{between}| c | REGISTER_BROKER_RECORD | | | | | | | | | | 2 | 5 | B | false | 5 | | |
"""  # noqa: E501
    unregistered = "| u | UNREGISTER_BROKER_RECORD | | | | | | | | | | 2 | 3 | | | 4 | | |\n"
    fenced = unregistered.replace("UNREGISTER", "FENCE")
    tables = {name: table.format(between=line) for name, line in (("unregistered", unregistered), ("fenced", fenced))}
    rows = registrations(histories(spark, tables)).where("incarnation_id = 'B'")
    found = rows.select("cluster", "previous_broker_epoch", "previous_ref.byte_offset").collect()
    assert sorted(tuple(row) for row in found) == [("case fenced", 3, 400), ("case unregistered", None, None)]


def test_a_heartbeat_has_the_record_of_its_registration_unless_a_snapshot_has_it(spark: SparkSession) -> None:
    events = history(
        spark,
        """
| # | event_type | node | broker_id | broker_epoch | incarnation_id | fenced | want_fence | want_shut_down | current_metadata_offset | metadata_offset | in_snapshot |
|---|---|---|---|---|---|---|---|---|---|---|---|
| r1 | REGISTER_BROKER_RECORD | | 1 | 90 | A | true | | | | 100 | true |
| r2 | REGISTER_BROKER_RECORD | | 2 | 498 | B | true | | | | 500 | |
| h1 | BROKER_HEARTBEAT | 100 | 1 | 90 | | false | false | false | 510 | | |
| h2 | BROKER_HEARTBEAT | 100 | 2 | 498 | | false | false | false | 510 | | |
""",  # noqa: E501
    )
    rows = heartbeats(events).select("broker_id", "registered_offset", "registered_ref.byte_offset").collect()
    assert sorted(tuple(row) for row in rows) == [(1, None, None), (2, 500, 200)]
