"""The timeline of a partition: what order is told, which topic of a name a row is about, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit.replay.partition_history import CONTENT, PLACE
from epochaudit.report import timeline as page
from epochaudit.report.event_words import words
from epochaudit.sources.discovery import discover
from epochaudit.timeline import (
    Life,
    Recorded,
    Row,
    Timeline,
    TimelineError,
    lives_of,
    narrowed,
    recorded_in,
    subject_of,
    timeline,
)

START = 1_795_235_000_000
SOURCES = {"LEADER_STARTS": "state_change_log", "FOLLOWER_STARTS": "state_change_log"}
SERVER_LOG = ("LOG_TRUNCATED", "PROCESS_STARTING", "LOG_CREATED", "LOG_DELETION_SCHEDULED")

Event = dict[str, Any]


def fact(event_type: str, node: int | None, second: float, **told: Any) -> Event:
    """A row of the history of orders-0; requests are accepted if nothing else is told."""
    source = SOURCES.get(event_type, "server_log" if event_type in SERVER_LOG else "request_log")
    of_topic = not event_type.startswith("PROCESS")
    row: Event = {
        **dict.fromkeys((*PLACE, *CONTENT)),
        "cluster": "west", "node": node, "source": source, "event_type": event_type, "time_ms": START + int(second * 1000),
        "file_order": 0, "file": f"broker-{node}/{source}", "byte_offset": int(second * 1000), "split": 0, "partition_row": 0,
        "line_in_split": int(second) + 1, "topic": "orders" if of_topic else None, "partition": 0 if of_topic else None,
        "requests": 1, "least": None, "greatest": None,
    }  # fmt: skip
    if source == "request_log":
        row |= {"error_code": 0, "request_error_code": 0}
    row |= told
    return row | {"last": {name: row[name] for name in (*PLACE, "fetch_offset", "offset", "high_watermark")}}


def lives(*events: Event) -> list[Life]:
    splits = [{"cluster": "west", "file": event["file"], "split": 0, "lines": 100} for event in events]
    return list(lives_of(events, Recorded(None, splits)))  # type: ignore[arg-type]


def told(rows: Iterable[Row]) -> list[tuple[str, str]]:
    return [(row.host, row.event["event_type"]) for row in rows]


@pytest.mark.parametrize(
    ("text", "subject"), [("orders-3", ("orders", 3)), ("orders-eu-0", ("orders-eu", 0)), ("--1", ("-", 1))]
)
def test_a_topics_name_may_have_dashes(text: str, subject: tuple[str, int]) -> None:
    assert subject_of(text) == subject


@pytest.mark.parametrize("text", ["orders", "orders-", "-3", "orders-x", "orders-¹", "orders-99999999999"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(TimelineError, match="TOPIC-PARTITION"):
        subject_of(text)


def test_a_row_stands_under_the_newest_leader_epoch_that_its_host_knew() -> None:
    """A clock that runs late on one host does not move its rows into another leader epoch."""
    [life] = lives(
        fact("LEADER_STARTS", 1, 10, leader_epoch=3, leader=1, start_offset=5),
        fact("LOG_TRUNCATED", 2, 90, offset=5),
        fact("FOLLOWER_STARTS", 2, 80, leader_epoch=3, leader=1),
        fact("LEADER_STARTS", 1, 20, leader_epoch=4, leader=1, start_offset=9),
    )
    assert [(section.leader_epoch, section.leaders, section.start_offset) for section in life.sections] == [
        (3, (1,), 5),
        (4, (1,), 9),
    ]
    assert told(life.sections[0].rows) == [
        ("node 1", "LEADER_STARTS"),
        ("node 2", "FOLLOWER_STARTS"),
        ("node 2", "LOG_TRUNCATED"),
    ]
    assert [row.ordered for row in life.sections[0].rows] == [False, False, True]


def test_a_stale_request_stands_behind_what_its_host_knew_already() -> None:
    [life] = lives(
        fact("FOLLOWER_STARTS", 2, 1, leader_epoch=4, leader=1),
        fact("STOP_REPLICA", 2, 2, leader_epoch=3, delete_partition=True, controller_id=1, controller_epoch=1),
    )
    [section] = life.sections
    assert section.leader_epoch == 4
    text = page.render(Timeline("orders", 0, (life,)))
    assert "leader epoch 3 is OLDER than 4, which node 2 knew" in " ".join(text.split())


def test_a_sentinel_is_no_leader_epoch() -> None:
    [life] = lives(
        fact("LEADER_STARTS", 2, 1, leader_epoch=4, leader=2),
        fact("STOP_REPLICA", 2, 2, leader_epoch=-2, delete_partition=True, correlation_id=7),
    )
    text = " ".join(page.render(Timeline("orders", 0, (life,))).split())
    assert "leader epoch -2 (the topic is being deleted), delete yes: accepted" in text
    assert "OLDER" not in text


def test_a_refused_request_begins_no_leader_epoch() -> None:
    [life] = lives(
        fact("LEADER_STARTS", 1, 1, leader_epoch=4, leader=1),
        fact("LEADER_AND_ISR", 1, 2, leader_epoch=9, leader=2, error_code=74),
    )
    assert [section.leader_epoch for section in life.sections] == [4]
    assert words(life.sections[0].rows[1].event).endswith("REFUSED with 74 (FENCED_LEADER_EPOCH)")


def test_hosts_that_state_no_leader_epoch_stand_apart() -> None:
    [life] = lives(
        fact("LEADER_STARTS", 1, 1, leader_epoch=0, leader=1),
        fact("OFFSET_COMMIT", 3, 2, group_id="g", client_id="c", least=7, greatest=7),
        fact("LOG_CREATED", 1, 0),
    )
    assert [section.leader_epoch for section in life.sections] == [None, 0]
    assert told(life.silent) == [("node 3", "OFFSET_COMMIT")]


def test_processes_stand_in_only_where_their_host_has_the_partition() -> None:
    [life] = lives(
        fact("PROCESS_STARTING", 1, 0), fact("PROCESS_STARTING", 2, 0), fact("LEADER_STARTS", 1, 1, leader_epoch=0)
    )
    assert told(life.sections[0].rows) == [("node 1", "PROCESS_STARTING")]


def test_a_topic_that_was_created_anew_has_two_lives() -> None:
    """What states no id belongs to the topic that its host had, until it deleted that."""
    first, second = lives(
        fact("LEADER_STARTS", 1, 1, topic_id="B", leader_epoch=0, leader=1),
        fact("LOG_TRUNCATED", 1, 2),
        fact("LOG_DELETION_SCHEDULED", 1, 3),
        fact("LOG_CREATED", 1, 4),
        fact("LEADER_STARTS", 1, 5, topic_id="A", leader_epoch=0, leader=1),
    )
    assert (first.topic_id, second.topic_id) == ("B", "A")
    assert told(first.sections[0].rows) == [
        ("node 1", "LEADER_STARTS"),
        ("node 1", "LOG_TRUNCATED"),
        ("node 1", "LOG_DELETION_SCHEDULED"),
    ]
    assert [told(section.rows) for section in second.sections] == [
        [("node 1", "LOG_CREATED")],
        [("node 1", "LEADER_STARTS")],
    ]


def test_what_may_be_of_either_topic_is_not_given_to_one() -> None:
    found = lives(
        fact("LEADER_STARTS", 1, 1, topic_id="A", leader_epoch=0),
        fact("LOG_TRUNCATED", 1, 2),
        fact("LEADER_STARTS", 1, 5, topic_id="B", leader_epoch=0),
        fact("LOG_TRUNCATED", 2, 3),
    )
    assert [(life.topic_id, life.told) for life in found] == [("A", True), ("B", True), (None, False)]
    assert told([*(row for section in found[2].sections for row in section.rows), *found[2].silent]) == [
        ("node 1", "LOG_TRUNCATED"),
        ("node 2", "LOG_TRUNCATED"),
    ]


def test_records_are_folded_and_raise_the_leader_epoch_only_where_they_set_a_leader() -> None:
    of_log = {"source": "metadata_log", "file": "log", "topic": None, "topic_id": "A"}
    [life] = lives(
        fact(
            "PARTITION_RECORD", None, 1, position=1, leader=1, leader_epoch=0, partition_epoch=0, isr=[1, 2], **of_log
        ),
        fact("PARTITION_CHANGE_RECORD", None, 2, position=3, isr=[1], **of_log),
        fact("PARTITION_CHANGE_RECORD", None, 3, position=5, leader=2, isr=[2], **of_log),
    )
    assert [(s.leader_epoch, len(s.rows), s.leaders) for s in life.sections] == [(0, 2, (1,)), (1, 1, (2,))]
    assert "leader 1, leader epoch 0, ISR [1], partition epoch 1" in words(life.sections[0].rows[1].event)


def test_a_run_of_fetches_is_one_line_with_both_its_ends() -> None:
    run = fact(
        "FETCH", 1, 1, client_id="c", replica_id=-1, current_leader_epoch=0, last_fetched_epoch=-1, requests=1200, least=10,
        greatest=90, diverging_epoch=-1,
    )  # fmt: skip
    run["last"] |= {"time_ms": START + 60_000, "line_in_split": 77, "high_watermark": 95}
    [life] = lives(run)
    text = " ".join(page.render(Timeline("orders", 0, (life,)), width=200).split())
    assert "client c: 1,200 \u00d7 Fetch, leader epoch 0, offsets 10 to 90: served, high watermark 95" in text
    assert "broker-1/request_log:2 to 77" in text


def test_a_log_that_diverges_is_told_also_in_leader_epoch_0() -> None:
    told_so = fact(
        "FETCH", 1, 1, client_id="f", replica_id=2, current_leader_epoch=3, diverging_epoch=0, diverging_end_offset=10
    )
    assert words(told_so).endswith("told that its log DIVERGES after leader epoch 0, which ends at 10")


def test_some_of_the_rows_can_be_asked_for() -> None:
    found = Timeline(
        "orders", 0,
        tuple(lives(fact("LEADER_STARTS", 1, 1, leader_epoch=0), fact("LEADER_STARTS", 1, 100, leader_epoch=1))),
    )  # fmt: skip
    assert [section.leader_epoch for section in narrowed(found, [1]).lives[0].sections] == [1]
    time = found.lives[0].sections[1].rows[0].time
    assert time is not None
    assert [s.leader_epoch for s in narrowed(found, since=time[:16]).lives[0].sections] == [1]
    assert [s.leader_epoch for s in narrowed(found, until="2026-11-21T04:23:21").lives[0].sections] == [0]


def test_asking_for_what_is_not_there_tells_what_is() -> None:
    found = Timeline("orders", 0, tuple(lives(fact("LEADER_STARTS", 1, 1, leader_epoch=4))))
    with pytest.raises(TimelineError, match="there are leader epochs 4 and times from 2026-"):
        narrowed(found, [9])


def test_names_of_others_cannot_move_the_cursor() -> None:
    hostile = fact("FETCH", 1, 1, client_id="\x1b[2J\u202eevil", topic="orders", current_leader_epoch=0)
    found = Timeline("orders", 0, tuple(lives(hostile)))
    text = page.render(found)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert page.render_json(found).isascii()


def test_a_recorded_truncation_can_be_read_off(spark: SparkSession, capture: Callable[[str], Path]) -> None:
    recorded = recorded_in(spark, [discover(str(capture("zk-unclean-truncation-3.9")))])
    found = timeline(recorded, "u", 0)
    [life] = found.lives
    begun = {section.leader_epoch: (section.leaders, section.start_offset) for section in life.sections}
    assert begun[0] == ((1,), 0)
    assert begun[1] == ((1,), 10)
    assert begun[3] == ((2,), 10)
    assert begun[4] == ((1,), 50)
    told_once = [
        (row.host, words(row.event), row.event["file"], row.line) for section in life.sections for row in section.rows
    ]
    assert ("node 1", "TRUNCATED its log to offset 10", "broker-1/server.log", 247) in [
        one for one in told_once if "TRUNCATED" in one[1]
    ]
    document = json.loads(page.render_json(found))
    assert document["lives"][0]["leader_epochs"][1]["leader_epoch"] == 0
    with pytest.raises(TimelineError, match="u-0"):
        timeline(recorded, "u", 7)
    with pytest.raises(TimelineError, match="did you mean u-0"):
        timeline(recorded, "uu", 0)
