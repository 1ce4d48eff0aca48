"""The timeline of a partition: its order, the topic id that each row is about, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.report.pictures import picture as marks
from epochaudit.report.pictures.picture import CUT
from epochaudit.sources.discovery.discovery import discover
from epochaudit.timeline import page
from epochaudit.timeline.event_text import sentence
from epochaudit.timeline.merge import (
    Row,
    Timeline,
    TimelineError,
    narrowed,
    recorded_in,
    subject_of,
    timeline,
    timelines,
)
from epochaudit.timeline.picture import picture_of
from tests.json_schemas import complaints
from tests.timeline.facts import START, fact, topics_of


def hosts_and_types(rows: Iterable[Row]) -> list[tuple[str, str]]:
    return [(row.host, row.event["event_type"]) for row in rows]


@pytest.mark.parametrize(
    ("text", "subject"), [("orders-3", ("orders", 3)), ("orders-eu-0", ("orders-eu", 0)), ("--1", ("-", 1))]
)
def test_a_topics_name_may_have_dashes(text: str, subject: tuple[str, int]) -> None:
    assert subject_of(text) == subject


@pytest.mark.parametrize("text", ["orders", "orders-", "-3", "orders-x", "orders-¹", "orders-99999999999"])
def test_a_text_that_names_no_partition_is_refused(text: str) -> None:
    with pytest.raises(TimelineError, match="TOPIC-PARTITION"):
        subject_of(text)


def test_a_row_stands_under_the_newest_leader_epoch_that_its_host_knew() -> None:
    """A clock that runs late on one host does not move its rows into another leader epoch."""
    [topic] = topics_of(
        fact("LEADER_STARTS", 1, 10, leader_epoch=3, leader=1, start_offset=5),
        fact("LOG_TRUNCATED", 2, 90, offset=5),
        fact("FOLLOWER_STARTS", 2, 80, leader_epoch=3, leader=1),
        fact("LEADER_STARTS", 1, 20, leader_epoch=4, leader=1, start_offset=9),
    )
    assert [(section.leader_epoch, section.leaders, section.start_offset) for section in topic.sections] == [
        (3, (1,), 5),
        (4, (1,), 9),
    ]
    assert hosts_and_types(topic.sections[0].rows) == [
        ("node 1", "LEADER_STARTS"),
        ("node 2", "FOLLOWER_STARTS"),
        ("node 2", "LOG_TRUNCATED"),
    ]
    assert [row.ordered for row in topic.sections[0].rows] == [False, False, True]


def test_a_stale_request_is_in_the_section_of_the_epoch_that_its_host_knew() -> None:
    [topic] = topics_of(
        fact("FOLLOWER_STARTS", 2, 1, leader_epoch=4, leader=1),
        fact("STOP_REPLICA", 2, 2, leader_epoch=3, delete_partition=True, controller_id=1, controller_epoch=1),
    )
    [section] = topic.sections
    assert section.leader_epoch == 4
    text = page.render(Timeline("orders", 0, (topic,)))
    assert "leader epoch 3 is OLDER than 4, which node 2 had" in " ".join(text.split())


def test_a_stop_at_the_replicas_own_epoch_is_not_stale_by_what_the_metadata_say() -> None:
    """As in a controlled shutdown: UpdateMetadata brings the next leader epoch, which the replica never gets."""
    [topic] = topics_of(
        fact("FOLLOWER_STARTS", 2, 1, leader_epoch=0, leader=1),
        fact("UPDATE_METADATA", 2, 2, leader_epoch=1, leader=1, controller_id=1, controller_epoch=1),
        fact("STOP_REPLICA", 2, 3, leader_epoch=0, delete_partition=False, controller_id=1, controller_epoch=1),
    )
    assert [section.leader_epoch for section in topic.sections] == [0, 1]
    assert "OLDER" not in page.render(Timeline("orders", 0, (topic,)))


def test_the_first_state_of_a_topic_created_again_is_no_repeat() -> None:
    written = {
        "leader_epoch": 0,
        "partition_epoch": 0,
        "leader": 1,
        "controller_epoch": 1,
        "source": "state_change_log",
    }
    first, second = topics_of(
        fact("PARTITION_STATE_CHANGED", 1, 1, **written),
        fact("CREATE_TOPICS", 1, 2, topic_id="A"),
        fact("PARTITION_STATE_CHANGED", 1, 3, **written),
        fact("TOPIC_DELETION_COMPLETED", 1, 4, source="server_log"),
        fact("PARTITION_STATE_CHANGED", 1, 5, **written),
        fact("CREATE_TOPICS", 1, 6, topic_id="B"),
    )
    assert hosts_and_types(first.sections[0].rows) == [
        ("node 1", "PARTITION_STATE_CHANGED"),
        ("node 1", "CREATE_TOPICS"),
        ("node 1", "TOPIC_DELETION_COMPLETED"),
    ]
    assert hosts_and_types(second.sections[0].rows) == [
        ("node 1", "PARTITION_STATE_CHANGED"),
        ("node 1", "CREATE_TOPICS"),
    ]


def test_one_start_is_one_row() -> None:
    broker = {"name": "broker", "source": "server_log"}
    [topic] = topics_of(
        fact("PROCESS_STARTING", 1, 0, **broker),
        fact("PROCESS_STARTING", 1, 0.1, **broker),
        fact("PROCESS_STARTED", 1, 2, **broker),
        fact("PROCESS_STARTING", 1, 5, **broker),
        fact("LEADER_STARTS", 1, 9, leader_epoch=0),
    )
    assert hosts_and_types(topic.sections[0].rows) == [("node 1", "PROCESS_STARTING")] * 2


def test_rows_that_may_be_of_either_topic_are_no_topic_of_their_own() -> None:
    found = topics_of(
        fact("LEADER_STARTS", 1, 1, topic_id="A", leader_epoch=0),
        fact("LOG_TRUNCATED", 1, 2),
        fact("LEADER_STARTS", 1, 5, topic_id="B", leader_epoch=0),
    )
    text = " ".join(page.render(Timeline("orders", 0, tuple(found))).split())
    assert "orders-0: 2 topics of the name, one after the other; rows that may be of either stand apart" in text
    assert "rows that may be of either topic of the name" in text


def test_a_sentinel_is_no_leader_epoch() -> None:
    [topic] = topics_of(
        fact("LEADER_STARTS", 2, 1, leader_epoch=4, leader=2),
        fact("STOP_REPLICA", 2, 2, leader_epoch=-2, delete_partition=True, correlation_id=7),
    )
    text = " ".join(page.render(Timeline("orders", 0, (topic,))).split())
    assert "leader epoch -2 (the topic is being deleted), delete yes: accepted" in text
    assert "OLDER" not in text


def test_a_refused_request_begins_no_leader_epoch() -> None:
    [topic] = topics_of(
        fact("LEADER_STARTS", 1, 1, leader_epoch=4, leader=1),
        fact("LEADER_AND_ISR", 1, 2, leader_epoch=9, leader=2, error_code=74),
    )
    assert [section.leader_epoch for section in topic.sections] == [4]
    assert sentence(topic.sections[0].rows[1].event).endswith("REFUSED with 74 FENCED_LEADER_EPOCH")


def test_hosts_that_state_no_leader_epoch_stand_apart() -> None:
    [topic] = topics_of(
        fact("LEADER_STARTS", 1, 1, leader_epoch=0, leader=1),
        fact("OFFSET_COMMIT", 3, 2, group_id="g", client_id="c", least=7, greatest=7),
        fact("LOG_CREATED", 1, 0),
    )
    assert [section.leader_epoch for section in topic.sections] == [None, 0]
    assert hosts_and_types(topic.silent) == [("node 3", "OFFSET_COMMIT")]


def test_rows_of_processes_appear_only_if_their_host_has_the_partition() -> None:
    [topic] = topics_of(
        fact("PROCESS_STARTING", 1, 0), fact("PROCESS_STARTING", 2, 0), fact("LEADER_STARTS", 1, 1, leader_epoch=0)
    )
    assert hosts_and_types(topic.sections[0].rows) == [("node 1", "PROCESS_STARTING")]


def test_a_topic_that_was_created_again_has_two_timelines() -> None:
    """A row without an id is about the topic that its host had, until the host deleted it."""
    first, second = topics_of(
        fact("LEADER_STARTS", 1, 1, topic_id="B", leader_epoch=0, leader=1),
        fact("LOG_TRUNCATED", 1, 2),
        fact("LOG_DELETION_SCHEDULED", 1, 3),
        fact("LOG_CREATED", 1, 4),
        fact("LEADER_STARTS", 1, 5, topic_id="A", leader_epoch=0, leader=1),
    )
    assert (first.topic_id, second.topic_id) == ("B", "A")
    assert hosts_and_types(first.sections[0].rows) == [
        ("node 1", "LEADER_STARTS"),
        ("node 1", "LOG_TRUNCATED"),
        ("node 1", "LOG_DELETION_SCHEDULED"),
    ]
    assert [hosts_and_types(section.rows) for section in second.sections] == [
        [("node 1", "LOG_CREATED")],
        [("node 1", "LEADER_STARTS")],
    ]


def test_rows_that_may_be_of_either_topic_are_not_attributed_to_one() -> None:
    found = topics_of(
        fact("LEADER_STARTS", 1, 1, topic_id="A", leader_epoch=0),
        fact("LOG_TRUNCATED", 1, 2),
        fact("LEADER_STARTS", 1, 5, topic_id="B", leader_epoch=0),
        fact("LOG_TRUNCATED", 2, 3),
    )
    assert [(topic.topic_id, topic.topic_known) for topic in found] == [("A", True), ("B", True), (None, False)]
    assert hosts_and_types([*(row for section in found[2].sections for row in section.rows), *found[2].silent]) == [
        ("node 1", "LOG_TRUNCATED"),
        ("node 2", "LOG_TRUNCATED"),
    ]


def test_records_are_folded_and_raise_the_leader_epoch_only_where_they_set_a_leader() -> None:
    of_log = {"source": "metadata_log", "file": "log", "topic": None, "topic_id": "A"}
    [topic] = topics_of(
        fact(
            "PARTITION_RECORD", None, 1, position=1, leader=1, leader_epoch=0, partition_epoch=0, isr=[1, 2], **of_log
        ),
        fact("PARTITION_CHANGE_RECORD", None, 2, position=3, isr=[1], **of_log),
        fact("PARTITION_CHANGE_RECORD", None, 3, position=5, leader=2, isr=[2], **of_log),
    )
    assert [(s.leader_epoch, len(s.rows), s.leaders) for s in topic.sections] == [(0, 2, (1,)), (1, 1, (2,))]
    assert "leader 1, leader epoch 0, ISR [1], partition epoch 1" in sentence(topic.sections[0].rows[1].event)


def test_a_run_of_fetches_is_one_line_with_both_its_ends() -> None:
    run = fact(
        "FETCH", 1, 1, client_id="c", replica_id=-1, current_leader_epoch=0, last_fetched_epoch=-1, requests=1200, least=10,
        greatest=90, diverging_epoch=-1,
    )  # fmt: skip
    run["last"] |= {"time_ms": START + 60_000, "line_in_split": 77, "high_watermark": 95}
    [topic] = topics_of(run)
    text = " ".join(page.render(Timeline("orders", 0, (topic,)), width=200).split())
    assert "client c: 1,200 \u00d7 Fetch, leader epoch 0, offsets 10 to 90: served, high watermark 95" in text
    assert "broker-1/request_log:2 to 77" in text


def test_a_divergence_is_stated_also_in_leader_epoch_0() -> None:
    diverging = fact(
        "FETCH", 1, 1, client_id="f", replica_id=2, current_leader_epoch=3, diverging_epoch=0, diverging_end_offset=10
    )
    assert sentence(diverging).endswith("answered that its log DIVERGES after leader epoch 0, which ends at 10")


@pytest.mark.parametrize(
    ("timestamp", "asked"),
    [(-1, "ListOffsets latest"), (-6, "ListOffsets earliest pending upload"), (7, "ListOffsets by timestamp 7")],
)
def test_what_a_list_offsets_asks_for(timestamp: int, asked: str) -> None:
    assert asked in sentence(fact("LIST_OFFSETS", 1, 1, timestamp=timestamp))


def test_rows_can_be_selected_by_leader_epoch_and_time() -> None:
    found = Timeline(
        "orders", 0,
        tuple(topics_of(fact("LEADER_STARTS", 1, 1, leader_epoch=0), fact("LEADER_STARTS", 1, 100, leader_epoch=1))),
    )  # fmt: skip
    assert [section.leader_epoch for section in narrowed(found, [1]).topics[0].sections] == [1]
    time = found.topics[0].sections[1].rows[0].time
    assert time is not None
    assert [s.leader_epoch for s in narrowed(found, since=time[:16]).topics[0].sections] == [1]
    assert [s.leader_epoch for s in narrowed(found, until="2026-11-21T04:23:21").topics[0].sections] == [0]


def test_a_selection_without_rows_states_what_is_recorded() -> None:
    found = Timeline("orders", 0, tuple(topics_of(fact("LEADER_STARTS", 1, 1, leader_epoch=4))))
    with pytest.raises(
        TimelineError,
        match="no row of orders-0 is of that epoch or time; recorded are leader epochs 4 and times from 2026-",
    ):
        narrowed(found, [9])


def test_client_ids_cannot_move_the_cursor() -> None:
    hostile = fact("FETCH", 1, 1, client_id="\x1b[2J\u202eevil", topic="orders", current_leader_epoch=0)
    found = Timeline("orders", 0, tuple(topics_of(hostile)))
    text = page.render(found)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert page.render_json(found).isascii()
    assert complaints("timeline", json.loads(page.render_json(found))) == []


def test_a_recorded_truncation_is_in_the_timeline(spark: SparkSession, capture: Callable[[str], Path]) -> None:
    recorded = recorded_in(spark, [discover(str(capture("zk-unclean-truncation-3.9")))])
    found = timeline(recorded, "u", 0)
    [topic] = found.topics
    begun = {section.leader_epoch: (section.leaders, section.start_offset) for section in topic.sections}
    assert begun[0] == ((1,), 0)
    assert begun[1] == ((1,), 10)
    assert begun[3] == ((2,), 10)
    assert begun[4] == ((1,), 50)
    rows = [
        (row.host, sentence(row.event), row.event["file"], row.line)
        for section in topic.sections
        for row in section.rows
    ]
    assert ("node 1", "TRUNCATED its log to offset 10", "broker-1/server.log", 247) in [
        row for row in rows if "TRUNCATED" in row[1]
    ]
    picture = picture_of(topic, "u", 0)
    [unclean] = [step for step in picture.steps if step.mark == marks.UNCLEAN]
    assert (unclean.host, unclean.label) == ("node 3", "unclean: 2 leads")
    assert [(one.label, one.first, one.last) for one in picture.stretches if one.kind == CUT] == [
        ("node 1 cut", 10, 29)
    ]
    several = timelines(recorded, [("u", 7), ("u", 0), ("__consumer_offsets", 0)])
    assert several[0].topics == ()
    assert page.render(several[1]) == page.render(found)
    assert len(several[2].topics) == 1
    document = json.loads(page.render_json(found))
    assert complaints("timeline", document) == []
    assert document["topics"][0]["leader_epochs"][1]["leader_epoch"] == 0
    with pytest.raises(TimelineError, match="u-0"):
        timeline(recorded, "u", 7)
    with pytest.raises(TimelineError, match="did you mean u-0"):
        timeline(recorded, "uu", 0)
