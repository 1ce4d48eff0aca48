"""The frame `leadership`: the leaders that all sources state for an epoch."""

from __future__ import annotations

from epochaudit.replay.control_plane.leadership import leadership
from tests.replay.histories import Checks, Replay, of_table

replay = Replay(leadership, order=("topic", "topic_id", "leader_epoch"))


@replay.test
def test_epochs_belong_to_a_topic_id_and_every_source_counts() -> Checks:
    rows = yield of_table(
        """
| # | event_type | node | topic | topic_id | partition | leader | leader_epoch | partition_epoch | response_leader_epoch | api_version | error_code | isr | metadata_offset | response_leader |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| n | TOPIC_RECORD |  | t | A |  |  |  |  |  |  |  |  | 4 |  |
| r | PARTITION_RECORD |  |  | A | 0 | 1 | 0 | 0 |  |  |  | 1,2 | 5 |  |
| c | PARTITION_CHANGE_RECORD |  |  | A | 0 | 2 |  |  |  |  |  | 2 | 6 |  |
| l | LEADER_STARTS | 2 | t | A | 0 |  | 1 |  |  |  |  |  |  |  |
| m | METADATA | 3 | t | A | 0 |  |  |  | 1 | 12 | 0 |  |  | 2 |
| o | METADATA | 3 | t | A | 0 |  |  |  | 1 | 8 | 0 |  |  | 9 |
| d | LEADER_STARTS | 3 | t | B | 0 |  | 0 |  |  |  |  |  |  |  |
"""  # noqa: E501
    )
    names = ("topic", "topic_id", "leader_epoch", "lowest_leader", "highest_leader", "statements")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("t", "A", 0, 1, 1, 1),
        ("t", "A", 1, 2, 2, 3),
        ("t", "B", 0, 3, 3, 1),
    ]
