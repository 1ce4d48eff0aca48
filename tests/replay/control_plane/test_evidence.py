"""References of frames beside the first of a rule's evidence: no case compares them."""

from __future__ import annotations

from epochaudit.replay.control_plane.heartbeats import heartbeats
from epochaudit.replay.control_plane.log_copies import log_copies
from epochaudit.replay.control_plane.registrations import registrations
from tests.replay.histories import Checks, Replay, of_table

of_copies = Replay(log_copies, order=("metadata_offset",))
of_registrations = Replay(registrations, order=("metadata_offset",))
of_heartbeats = Replay(heartbeats, order=("broker_id",))


@of_copies.test
def test_the_other_copy_is_the_first_that_differs_else_the_next() -> Checks:
    rows = yield of_table(
        """
| # | event_type | metadata_offset | raft_epoch | file | broker_id | broker_epoch |
|---|---|---|---|---|---|---|
| a0 | FENCE_BROKER_RECORD | 0 | 1 | a.txt | 1 | 11 |
| b0 | FENCE_BROKER_RECORD | 0 | 1 | b.txt | 1 | 11 |
| c0 | FENCE_BROKER_RECORD | 0 | 1 | c.txt | 2 | 12 |
| a1 | FENCE_BROKER_RECORD | 1 | 1 | a.txt | 1 | 11 |
| b1 | FENCE_BROKER_RECORD | 1 | 1 | b.txt | 1 | 11 |
| c1 | FENCE_BROKER_RECORD | 1 | 1 | c.txt | 1 | 11 |
"""
    )
    assert [(row.metadata_offset, row.record_ref.file, row.other_ref.file) for row in rows] == [
        (0, "a.txt", "c.txt"),
        (1, "a.txt", "b.txt"),
    ]


@of_registrations.test
def test_an_unregistered_broker_has_no_registration_before() -> Checks:
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
    after_fencing, after_removal = yield tuple(of_table(table.format(between=line)) for line in (fenced, unregistered))
    [fenced_before] = (row for row in after_fencing if row.incarnation_id == "B")
    [removed_before] = (row for row in after_removal if row.incarnation_id == "B")
    assert (fenced_before.previous_broker_epoch, fenced_before.previous_ref.byte_offset) == (3, 400)
    assert (removed_before.previous_broker_epoch, removed_before.previous_ref) == (None, None)


@of_heartbeats.test
def test_a_heartbeat_has_the_record_of_its_registration_unless_a_snapshot_has_it() -> Checks:
    of_snapshot, of_record = yield of_table(
        """
| # | event_type | node | broker_id | broker_epoch | incarnation_id | fenced | want_fence | want_shut_down | current_metadata_offset | metadata_offset | in_snapshot |
|---|---|---|---|---|---|---|---|---|---|---|---|
| r1 | REGISTER_BROKER_RECORD | | 1 | 90 | A | true | | | | 100 | true |
| r2 | REGISTER_BROKER_RECORD | | 2 | 498 | B | true | | | | 500 | |
| h1 | BROKER_HEARTBEAT | 100 | 1 | 90 | | false | false | false | 510 | | |
| h2 | BROKER_HEARTBEAT | 100 | 2 | 498 | | false | false | false | 510 | | |
"""  # noqa: E501
    )
    assert (of_snapshot.broker_id, of_snapshot.registered_offset, of_snapshot.registered_ref) == (1, None, None)
    assert (of_record.broker_id, of_record.registered_offset, of_record.registered_ref.byte_offset) == (2, 500, 200)
