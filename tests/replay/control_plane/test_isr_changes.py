"""Position of an AlterPartition in the metadata log, and the states that the controller can have had there."""

from __future__ import annotations

from typing import Any

from epochaudit.replay.control_plane.isr_changes import isr_changes
from tests.replay.control_plane.test_metadata import TOPIC_ID, change, partition, record
from tests.replay.histories import Checks, Event, History, Replay

MINUTE, HOUR = 60_000, 3_600_000

replay = Replay(isr_changes, order=("time_ms",))


def asked(time_ms: int, leader_epoch: int, partition_epoch: int, error_code: int = 0, **columns: Any) -> Event:
    """An AlterPartition for ISR [1, 2] at controller 100, answered at `time_ms` after 50 ms."""
    return {
        "event_id": time_ms, "cluster": "c", "node": 100, "source": "request_log", "event_type": "ALTER_PARTITION",
        "file": "kafka-request.log", "file_order": 0, "byte_offset": time_ms, "split": 0, "line_in_split": time_ms,
        "partition_row": 0, "time_ms": time_ms, "arrival_ms": time_ms - 50, "api_version": 3, "request_error_code": 0,
        "error_code": error_code, "topic_id": TOPIC_ID, "partition": 0, "broker_id": 1, "leader_epoch": leader_epoch,
        "partition_epoch": partition_epoch, "isr": [1, 2],
    } | columns  # fmt: skip


def accepted(time_ms: int, leader_epoch: int, partition_epoch: int) -> Event:
    answer = {"response_leader_epoch": leader_epoch, "response_partition_epoch": partition_epoch + 1}
    return asked(time_ms, leader_epoch, partition_epoch, **answer)


def cluster_and(*events: Event) -> History:
    """These events after brokers 1 to 3 at offsets 0 to 2, the partition at 3, a shrink at 4, an election at 5; a minute between any two.

    A record among the events takes the place of that of its offset.
    """
    brokers = [record("REGISTER_BROKER_RECORD", i, broker_id=i + 1, broker_epoch=i, fenced=False) for i in range(3)]
    created = partition(3, leader=1, leader_epoch=0, partition_epoch=0, isr=[1, 2, 3], replicas=[1, 2, 3])
    idle = [record("NO_OP_RECORD", offset) for offset in range(6, 10)]
    given = {event.get("metadata_offset") for event in events}
    records = [*brokers, created, change(4, isr=[1, 2]), change(5, leader=2), *idle]
    before = [one for one in records if one["metadata_offset"] not in given]
    return [*(one | {"time_ms": one["metadata_offset"] * MINUTE} for one in before), *events]


@replay.test
def test_an_accepted_change_has_the_position_of_the_record_that_it_wrote() -> Checks:
    (row,) = yield cluster_and(accepted(4 * MINUTE + 30, 0, 0))
    assert (row.committed.partition_epoch, row.committed_ref.byte_offset) == (1, 400)
    assert [(state.leader_epoch, state.partition_epoch) for state in row.candidate_states] == [(0, 0)]
    assert (row.current.partition_epoch, row.certainly_stale) == (0, False)


@replay.test
def test_a_refused_request_is_placed_between_arrival_and_answer() -> Checks:
    _, row = yield cluster_and(accepted(4 * MINUTE + 30, 0, 0), asked(6 * MINUTE, 0, 1, error_code=74))
    assert [(state.leader_epoch, state.partition_epoch) for state in row.candidate_states] == [(1, 2)]
    assert (row.current, row.certainly_stale, row.leader_epoch_behind, row.state_leader) == (None, True, True, 2)


@replay.test
def test_near_the_time_of_a_record_both_states_are_candidates() -> Checks:
    _, row = yield cluster_and(accepted(4 * MINUTE + 30, 0, 0), asked(5 * MINUTE + 500, 0, 1, error_code=74))
    assert [(state.leader_epoch, state.partition_epoch) for state in row.candidate_states] == [(0, 1), (1, 2)]
    assert (row.current.partition_epoch, row.certainly_stale, row.leader_epoch_behind) == (1, False, True)


@replay.test
def test_accepted_changes_determine_the_time_zone_of_the_nodes_log() -> Checks:
    first, row = yield cluster_and(
        accepted(4 * MINUTE + 30 - 5 * HOUR, 0, 0), asked(6 * MINUTE - 5 * HOUR, 0, 1, error_code=74)
    )
    assert first.committed.partition_epoch == 1
    assert (row.from_ms, row.to_ms) == (6 * MINUTE - 50, 6 * MINUTE)
    assert [(state.leader_epoch, state.partition_epoch) for state in row.candidate_states] == [(1, 2)]


@replay.test
def test_a_change_of_summer_time_leaves_refused_requests_without_a_time() -> Checks:
    before, after = accepted(4 * MINUTE + 30, 0, 0), accepted(5 * MINUTE + 30 + HOUR, 0, 1)
    rows = yield cluster_and(before, after, asked(7 * MINUTE, 0, 1, error_code=74))
    assert [row.from_ms for row in rows if row.error_code == 74] == [None]
    assert [row.committed.partition_epoch for row in rows if row.error_code == 0] == [1, 2]


@replay.test
def test_a_record_of_another_time_was_not_written_by_the_request() -> Checks:
    _, row = yield cluster_and(accepted(4 * MINUTE + 30, 0, 0), accepted(8 * MINUTE, 0, 0))
    assert (row.committed, row.current, row.certainly_stale) == (None, None, True)


@replay.test
def test_members_are_checked_at_every_possible_position_of_the_request() -> Checks:
    fence = record("BROKER_REGISTRATION_CHANGE_RECORD", 6, broker_id=2, broker_epoch=1, fenced=True, time_ms=6 * MINUTE)
    anchor = accepted(4 * MINUTE + 30, 0, 0)
    requests = [
        asked(at, 1, 2, response_partition_epoch=2) for at in (5 * MINUTE + 30_000, 6 * MINUTE + 20, 7 * MINUTE)
    ]
    _, before, during, after = yield cluster_and(fence, anchor, *requests)
    assert (before.fenced_members, before.maybe_fenced) == ([], False)
    assert (during.fenced_members, during.maybe_fenced) == ([], True)
    assert (after.fenced_members, after.maybe_fenced, after.fenced_ref.byte_offset) == ([2], True, 600)


@replay.test
def test_another_incarnation_is_ineligible_and_minus_one_is_not_compared() -> Checks:
    anchor = accepted(4 * MINUTE + 30, 0, 0)
    stale, unknown = ([0, 7], [0, -1])
    rows = yield cluster_and(
        anchor,
        *(asked(7 * MINUTE + i, 1, 2, error_code=107, isr_broker_epochs=e) for i, e in enumerate((stale, unknown))),
    )
    assert [row.ineligible_members for row in rows[1:]] == [[2], []]
