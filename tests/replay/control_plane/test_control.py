"""The frame `control`: the state at the broker when a control request arrived."""

from __future__ import annotations

from pyspark.sql import Row

from epochaudit.replay.control_plane.control import control
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(control, order=("correlation_id", "controller_id"))

HISTORY = """
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


def requests_of(rows: list[Row]) -> dict[tuple[int, int], Row]:
    """The requests by controller and correlation id, each of which has one row."""
    requests = [row for row in rows if row.is_request]
    found = {(row.controller_id, row.correlation_id): row for row in requests}
    assert len(found) == len(requests)
    return found


@replay.test
def test_requests_are_ordered_by_state_change_log_and_not_by_their_completion() -> Checks:
    requests = requests_of((yield of_table(HISTORY)))
    assert {key: (row.installed_leader_epoch, row.highest_controller_epoch) for key, row in requests.items()} == {
        (1, 7): (None, None),
        (2, 7): (3, 1),
        (2, 8): (4, 2),
    }
    assert {row.ordered_by for row in requests.values()} == {"state_change_log"}


@replay.test
def test_the_same_correlation_id_of_another_controller_is_another_request() -> Checks:
    requests = requests_of((yield of_table(HISTORY)))
    times = {key: row.line_ref.time_ms for key, row in requests.items()}
    assert times == {(1, 7): 1000, (2, 7): 5000, (2, 8): 5020}


@replay.test
def test_clusters_do_not_mix() -> Checks:
    one, other = of_table(HISTORY, "one"), of_table(HISTORY, "other")
    rows = yield [*one, *(event for event in other if event["event_type"] != "FOLLOWER_STARTS")]
    of_each = {name: requests_of([row for row in rows if row.cluster == name]) for name in ("one", "other")}
    assert {name: found[2, 7].installed_leader_epoch for name, found in of_each.items()} == {"one": 3, "other": None}


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


@replay.test
def test_up_to_2_5_a_start_in_server_log_follows_the_request_that_stated_its_epoch() -> Checks:
    requests = requests_of([row for row in (yield of_table(UP_TO_2_5)) if row.topic == "t"])
    assert {key: (row.installed_leader_epoch, row.line_ref.time_ms) for key, row in requests.items()} == {
        (1, 7): (None, 1000),
        (1, 8): (3, 1001),
        (2, 7): (3, 9000),
    }


HANDLING = """
| # | event_type | file | topic | partition | leader | leader_epoch | controller_id | correlation_id | error_code |
|---|---|---|---|---|---|---|---|---|---|
| begin | LEADER_AND_ISR_HANDLING | a.log | | | | | 1 | 7 | |
| end | LEADER_AND_ISR_FINISHED | a.log | | | | | 1 | 7 | |
| one | LEADER_AND_ISR | | t | 0 | 2 | 4 | 1 | 7 | 0 |
| begin2 | LEADER_AND_ISR_HANDLING | a.log | | | | | 1 | 8 | |
| end2 | LEADER_AND_ISR_FINISHED | b.log | | | | | 1 | 8 | |
| two | LEADER_AND_ISR | | t | 0 | 2 | 5 | 1 | 8 | 0 |
"""


@replay.test
def test_the_handling_of_a_request_is_recorded_if_it_begins_and_ends_in_one_file() -> Checks:
    requests = requests_of((yield of_table(HANDLING)))
    recorded = {number: (row.handling_recorded, row.finished_ref is not None) for (_, number), row in requests.items()}
    assert recorded == {7: (True, True), 8: (False, False)}
