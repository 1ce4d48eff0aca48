"""Commits at group coordinators: who had a static member's name, and which members a group had (`group_generations`, `simple_commits`)."""

from __future__ import annotations

from epochaudit.replay.data_plane.group_generations import group_generations
from epochaudit.replay.data_plane.simple_commits import simple_commits
from tests.replay.histories import Checks, Replay, of_table

of_generations = Replay(group_generations, order=("correlation_id",))
of_simple_commits = Replay(simple_commits, order=("group_id", "correlation_id"))

ONE, TWO = "till-1-11111111-1111-1111-1111-111111111111", "till-1-22222222-2222-2222-2222-222222222222"
HEADER = """
| # | event_type | node | group_id | group_instance_id | member_id | generation_id | group_leader | request_error_code | error_code | api_version | client_id | correlation_id | topic | partition | time_ms | arrival_ms |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501
# Both members have the name till-1; the second takes it from the first with the SyncGroup at 20,000.
STATIC = f"""{HEADER}
| a | JOIN_GROUP | 1 | billing | till-1 | {ONE} | 4 | {ONE} | 0 | | 9 | one | 1 | | | 10000 | 9990 |
| b | SYNC_GROUP | 1 | billing | till-1 | {ONE} | 4 | | 0 | | 5 | one | 2 | | | 10020 | 10010 |
| c | JOIN_GROUP | 1 | billing | till-1 | {TWO} | 4 | {ONE} | 0 | | 9 | two | 3 | | | 19990 | 19980 |
| d | SYNC_GROUP | 1 | billing | till-1 | {TWO} | 4 | | 0 | | 5 | two | 4 | | | 20000 | 19995 |
| e | OFFSET_COMMIT | 1 | billing | till-1 | {ONE} | 4 | | 0 | 0 | 9 | one | 5 | t | 0 | 21000 | 20995 |
| f | OFFSET_COMMIT | 1 | billing | till-1 | {ONE} | 4 | | 0 | 0 | 9 | one | 6 | t | 0 | 21010 | 21001 |
| g | OFFSET_COMMIT | 1 | billing | till-1 | {TWO} | 4 | | 0 | 0 | 9 | two | 7 | t | 0 | 22000 | 21990 |
"""
# The member commits in generation 4 from 10,000 to 30,000, and in generation 5 once.
SIMPLE = f"""{HEADER}
| a | OFFSET_COMMIT | 1 | billing | | {ONE} | 4 | | 0 | 0 | 9 | one | 1 | t | 0 | 10000 | 9990 |
| b | OFFSET_COMMIT | 1 | billing | | | -1 | | 0 | 0 | 9 | admin | 2 | t | 0 | 10990 | 10980 |
| c | OFFSET_COMMIT | 1 | billing | | | -1 | | 0 | 0 | 9 | admin | 3 | t | 0 | 20000 | 19990 |
| d | OFFSET_COMMIT | 1 | billing | | {ONE} | 4 | | 0 | 0 | 9 | one | 4 | t | 0 | 30010 | 30000 |
| e | OFFSET_COMMIT | 1 | billing | | | -1 | | 0 | 0 | 9 | admin | 5 | t | 0 | 29500 | 29490 |
| f | OFFSET_COMMIT | 1 | billing | | {ONE} | 5 | | 0 | 0 | 9 | one | 6 | t | 0 | 40000 | 39990 |
| g | OFFSET_COMMIT | 1 | alone | | | -1 | | 0 | 0 | 9 | admin | 7 | t | 0 | 20000 | 19990 |
"""


@of_generations.test
def test_a_static_member_is_replaced_a_second_after_another_one_synchronised() -> Checks:
    rows = yield of_table(STATIC)
    names = (
        "member_id",
        "correlation_id",
        "group_instance_id",
        "just_after_replacement",
        "after_replacement",
        "replaced_by",
    )
    assert [tuple(row[name] for name in names) for row in rows] == [
        (ONE, 5, "till-1", True, False, TWO),
        (ONE, 6, "till-1", False, True, TWO),
        (TWO, 7, "till-1", False, False, None),
    ]


@of_simple_commits.test
def test_a_commit_without_generation_is_enclosed_by_those_of_a_member_in_one_generation() -> Checks:
    rows = yield of_table(SIMPLE)
    names = ("group_id", "correlation_id", "enclosed", "member_id", "member_generation", "has_members")
    # the commits at 10,990 and 29,490 are within a second of the member's first and last one
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("alone", 7, False, None, None, False),
        ("billing", 2, False, None, None, True),
        ("billing", 3, True, ONE, 4, True),
    ]
