"""The frame `positions`: a consumer's first fetch under a new leader epoch, and where its position came from."""

from __future__ import annotations

from epochaudit.replay.data_plane.client_epochs import client_epochs
from epochaudit.replay.data_plane.positions import positions
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(positions, order=("client_id", "fetch_offset"))
of_clients = Replay(client_epochs, order=("node",))

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


@replay.test
def test_a_position_comes_from_the_clients_own_reads_or_from_the_member_that_committed_it() -> Checks:
    rows = yield of_table(TRUNCATED)
    names = (
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
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("c", None, 2, 2, 1, False, True, 12, 29),
        ("d", "g", 2, 2, 1, True, True, 12, 29),
    ]


@replay.test
def test_the_fetch_the_read_it_came_from_and_the_commit_are_referenced() -> Checks:
    rows = yield of_table(TRUNCATED)
    names = ("fetch_ref", "position_ref", "committed_ref", "commit_ref")
    refs = [(row.client_id, *(row[name] and row[name].byte_offset for name in names)) for row in rows]
    assert refs == [("c", 700, 300, None, None), ("d", 900, 300, 800, 400)]


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


ROTATED = [
    event | {"file": f"{event['file']}.{number}", "file_order": number, "byte_offset": 0}
    for number, event in enumerate(of_table(REWOUND), 1)
]


@replay.test
def test_positions_do_not_depend_on_how_logs_were_rotated() -> Checks:
    for (moved,) in (yield of_table(REWOUND), ROTATED):
        assert (moved.fetch_offset, moved.position_epoch, moved.crossed, moved.shared_client_id) == (30, 1, True, False)
    assert [ref.file.rpartition(".")[2] for ref in (moved.fetch_ref, moved.position_ref)] == ["6", "3"]


@of_clients.test
def test_client_epochs_do_not_depend_on_how_logs_were_rotated() -> Checks:
    for stated in (yield of_table(REWOUND), ROTATED):
        assert [(row.node, row.leader_epoch, row.correlation_id) for row in stated] == [(1, 1, 1), (2, 2, 1)]


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


@replay.test
def test_a_carried_position_is_of_the_newest_topic_that_it_was_held_in() -> Checks:
    carried = [row for row in (yield of_table(CREATED_TWICE_AGAIN)) if row.crossed_topic_recreation]
    assert [
        (row.topic_id, row.fetch_offset, row.previous_topic_id, row.position_ref.byte_offset) for row in carried
    ] == [
        ("B", 0, "A", 300),
        ("C", 20, "B", 600),
    ]
