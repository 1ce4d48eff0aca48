"""Member epochs of KIP-848 groups: when a member certainly had one, and the frames `group_heartbeats` and `member_commits`."""

from __future__ import annotations

from epochaudit.replay.data_plane.group_heartbeats import group_heartbeats
from epochaudit.replay.data_plane.member_commits import member_commits
from epochaudit.replay.state.member_epochs import member_epochs
from tests.replay.histories import Checks, Replay, of_table

of_epochs = Replay(member_epochs, order=("since_ms",))
of_commits = Replay(member_commits, order=("group_id", "correlation_id"))
of_heartbeats = Replay(group_heartbeats, order=("correlation_id",))

# Member one goes from epoch 7 to 9 and is refused then; it joins again in epoch 4. Member two of another group has the same id.
MEMBERS = """
| # | event_type | node | group_id | member_id | member_epoch | response_member_epoch | request_error_code | api_version | generation_id | error_code | client_id | correlation_id | topic | partition | time_ms | arrival_ms |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| a | CONSUMER_GROUP_HEARTBEAT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | 0 | 7 | 0 | 1 | | | one | 1 | | | 10000 | 9990 |
| b | CONSUMER_GROUP_HEARTBEAT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | 7 | 9 | 0 | 1 | | | one | 2 | | | 20000 | 19990 |
| c | OFFSET_COMMIT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | | | 0 | 9 | 7 | 0 | one | 3 | t | 0 | 20500 | 20400 |
| d | OFFSET_COMMIT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | | | 0 | 9 | 7 | 0 | one | 4 | t | 0 | 25010 | 25000 |
| e | OFFSET_COMMIT | 1 | audit | yJvS79DvSJWiK93V6VMBmQ | | | 0 | 9 | 7 | 0 | two | 5 | t | 0 | 25020 | 25005 |
| f | CONSUMER_GROUP_HEARTBEAT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | 9 | 9 | 0 | 1 | | | one | 6 | | | 30000 | 29990 |
| g | CONSUMER_GROUP_HEARTBEAT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | 9 | | 25 | 1 | | | one | 7 | | | 40000 | 39990 |
| h | CONSUMER_GROUP_HEARTBEAT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | 0 | 4 | 0 | 1 | | | one | 8 | | | 41000 | 40990 |
| i | CONSUMER_GROUP_HEARTBEAT | 1 | billing | yJvS79DvSJWiK93V6VMBmQ | 4 | 4 | 0 | 1 | | | one | 9 | | | 50000 | 49990 |
"""  # noqa: E501
SLACK_MS = 1_000


@of_epochs.test
def test_an_epoch_is_certain_as_long_as_each_heartbeat_states_what_was_answered_before() -> Checks:
    names = ("epoch", "since_ms", "until_ms", "certain_until_ms", "former_epoch")
    first, second, third = [tuple(row[name] for name in names) for row in (yield of_table(MEMBERS))]
    assert first == (7, 10_000 + SLACK_MS, 20_000 + SLACK_MS, 29_990 - SLACK_MS, None)
    # the refused heartbeat ends the run: from its line on nothing shows that the member still had epoch 9
    assert second == (9, 20_000 + SLACK_MS, 40_000, 29_990 - SLACK_MS, 7)
    assert (third[0], third[3], third[4]) == (4, 49_990 - SLACK_MS, None)


@of_commits.test
def test_a_commit_is_stale_a_second_after_the_newer_epoch_and_in_its_own_group() -> Checks:
    rows = yield of_table(MEMBERS)
    names = ("group_id", "correlation_id", "generation_id", "just_after_newer", "is_stale", "newer_epoch", "certain")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("audit", 5, 7, False, False, None, False),
        ("billing", 3, 7, True, False, 9, False),
        ("billing", 4, 7, False, True, 9, True),
    ]


@of_heartbeats.test
def test_a_heartbeat_is_compared_with_the_answer_before() -> Checks:
    rows = yield of_table(MEMBERS)
    assert [(row.correlation_id, row.member_epoch, row.error_code, row.standing) for row in rows] == [
        (2, 7, 0, "current"),
        (7, 9, 25, None),
    ]
