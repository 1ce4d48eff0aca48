"""Members of groups that are stuck, from the events to the report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit.findings.evidence import Evidence
from epochaudit.inventory.inventory import Inventory, Missing, NodeRead
from epochaudit.replay.data_plane.stuck_members import reads_of_clients, unanswered_members
from epochaudit.report import html, json_report, text
from epochaudit.report.contents import Report, StuckMember
from epochaudit.report.stuck_members import reads_on, whole_clusters
from tests.replay.histories import history

# Node 1 coordinates all groups and leads t-0 to t-9, once created again (topic ids A, B). Each client asks three times.
#   stuck        joined, its group had committed: asks, and reads nothing; its reads of A are older
#   member       the same with a member epoch, by the topic's id (KIP-848)
#   resets       asks a leader for an offset afterwards
#   reads        fetches afterwards
#   session      its fetch session, which has the partition, goes on
#   elsewhere    fetched by name at another broker: whether before is not known
#   monitor      never joined
#   fresh        its group had no offset
#   recovers     its group gets an offset afterwards
#   twice        asks only twice
#   refused      is refused: the coordinator moves
#   moved        its group had committed at another coordinator, too
#   epochless    never joined, and states a member id without an epoch
EVENTS = """
| # | event_type | node | api_version | topic | topic_id | partition | client_id | group_id | member_id | generation_id | offset | error_code | fetch_offset | replica_id | session_id | session_epoch |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| a | METADATA | 1 | 12 | t | A | 0 |  |  |  |  |  | 0 |  |  |  |  |
| fa | FETCH | 2 | 17 |  | A | 0 | stuck |  |  |  |  | 0 | 20 | -1 | 7 | 1 |
| fs | FETCH | 1 | 12 | t |  | 0 | session |  |  |  |  | 0 | 20 | -1 | 8 | 1 |
| fe | FETCH | 2 | 12 | t |  | 0 | elsewhere |  |  |  |  | 0 | 20 | -1 | 9 | 1 |
{commits}
| m2 | OFFSET_COMMIT | 2 | 8 | t |  | 0 | old | of-moved | m | 1 | 20 | 0 |  |  |  |  |
| b | METADATA | 1 | 12 | t | B | 0 |  |  |  |  |  | 0 |  |  |  |  |
{asks}
| r1 | LIST_OFFSETS | 1 | 7 | t |  | 0 | resets |  |  |  | 0 | 0 |  | -1 |  |  |
| r2 | FETCH | 1 | 17 |  | B | 0 | reads |  |  |  |  | 0 | 0 | -1 | 0 | 0 |
| r3 | FETCH | 1 | 12 |  |  |  | session |  |  |  |  |  |  | -1 | 8 | 2 |
| r4 | OFFSET_COMMIT | 1 | 8 | t |  | 0 | other | of-recovers | m | 2 | 1 | 0 |  |  |  |  |
"""  # noqa: E501
CLIENTS = (
    "stuck", "member", "resets", "reads", "session", "elsewhere", "monitor", "fresh", "recovers", "twice", "refused", "moved", "epochless",
)  # fmt: skip


def _events() -> str:
    commits, asks = [], []
    for client in CLIENTS:
        group = f"of-{client}"
        if client not in ("monitor", "member", "epochless"):
            asks.append(f"| j-{client} | JOIN_GROUP | 1 | 9 | | | | {client} | {group} | m | 1 | | | | | | |")
        if client != "fresh":
            named = "| A" if client == "member" else "t |"
            commits.append(
                f"| c-{client} | OFFSET_COMMIT | 1 | 8 | {named} | 0 | old | {group} | m | 1 | 20 | 0 | | | | |"
            )
        member = {"member": "m | 4", "epochless": "m | -1"}.get(client, "|")
        code = 16 if client == "refused" else 0
        named = "| B" if client == "member" else "t |"
        asks += [
            f"| {client}-{n} | OFFSET_FETCH | 1 | 9 | {named} | 0 | {client} | {group} | {member} | -1 | {code} | | | | |"
            for n in range(2 if client == "twice" else 3)
        ]
    return EVENTS.format(commits="\n".join(commits), asks="\n".join(asks))


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return history(spark, _events())


def test_members_that_ask_in_vain_and_read_nothing_are_stuck(events: DataFrame) -> None:
    asking = [row.asDict(recursive=True) for row in unanswered_members(events).collect()]
    reads = [row.asDict() for row in reads_of_clients(events, CLIENTS).collect()]
    assert {row["client_id"] for row in asking} == {"stuck", "member", "resets", "reads", "session", "elsewhere"}
    stuck = {row["client_id"]: row for row in asking if not reads_on(row, reads)}
    assert stuck.keys() == {"stuck", "member"}
    one = stuck["stuck"]
    assert (one["node"], one["group_id"], one["topic"], one["partition"]) == (1, "of-stuck", "t", 0)
    assert (one["asks"], one["committed_offset"]) == (3, 20)
    places = [one[name]["line_in_split"] for name in ("committed_ref", "joined_ref", "first_ref", "last_ref")]
    assert places == sorted(places)
    assert stuck["member"]["joined_ref"] is None


@pytest.mark.parametrize(
    ("changed", "whole"),
    [
        ({}, True),
        ({"missing": (Missing("west", 2, "request log of node 2"),)}, False),
        ({"light_nodes": (("west", 1),)}, False),
        ({"nodes": (NodeRead("west", 1, ("broker",), (), ("request_log",)),)}, False),
        ({"nodes": (NodeRead("west", 1, ("controller",), (), ("request_log",)),)}, True),
    ],
)
def test_silence_proves_something_only_where_all_request_logs_are_there(changed: dict[str, Any], whole: bool) -> None:
    inventory = Inventory(clusters=("west",), nodes=(NodeRead("west", 1, ("broker",)),))
    assert whole_clusters(replace(inventory, **changed)) == ({"west"} if whole else set())


MEMBER = StuckMember(
    "west", "g", "c", "orders", 0, node=1, committed_offset=20, asks=27, since="2026-11-21T04:55:03.360",
    until="2026-11-21T04:55:16.446",
    evidence=(Evidence("the first answer without an offset", 1, "broker-1/kafka-request.log", 7, 0, None, "line"),),
)  # fmt: skip


def test_all_formats_name_the_group_the_member_and_the_lines(report: Report) -> None:
    stuck = replace(report, stuck=(MEMBER,))
    sentence = "asked broker 1 for it 27 times from 2026-11-21T04:55:03.360 until 2026-11-21T04:55:16.446"
    page = " ".join(text.render(stuck).split())
    assert "orders-0: group g is stuck: it had committed offset 20; its member c" in page
    assert sentence in page
    assert "the first answer without an offset: broker-1/kafka-request.log:7" in page
    assert sentence in html.render(stuck)
    (one,) = json.loads(json_report.render(stuck))["stuck"]
    assert list(one) == [
        *(
            "cluster",
            "group",
            "client",
            "topic",
            "partition",
            "node",
            "committed_offset",
            "asks",
            "since",
            "until",
            "evidence",
        )
    ]
    assert one["evidence"][0]["line"] == 7
