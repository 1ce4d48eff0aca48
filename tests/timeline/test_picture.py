"""What a picture of a partition shows, and what it leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from epochaudit.report.pictures import picture as marks
from epochaudit.report.pictures.picture import CUT, LOG, READ, Picture, Step
from epochaudit.timeline.marked_rows import Proof, Proofs
from epochaudit.timeline.picture import MOST_CLIENTS, MOST_NODES, MOST_STEPS, picture_of
from tests.timeline.facts import Event, fact, topics_of
from tests.timeline.incident import UNCLEAN, fetch, state


def drawn(*events: Event, **options: Any) -> Picture:
    [topic] = topics_of(*events)
    return picture_of(topic, "orders", 0, **options)


ID = "AAAAAAAAAAAAAAAAAAAAtA"


def marked(picture: Picture, *kinds: str) -> list[Step]:
    return [step for step in picture.steps if step.mark in kinds]


def lanes_of(picture: Picture, step: Step) -> tuple[str, str | None]:
    return picture.lanes[step.lane].name, None if step.asker is None else picture.lanes[step.asker].name


def test_steps_are_in_the_order_of_leader_epochs_with_lanes_for_nodes_and_clients() -> None:
    picture = drawn(*UNCLEAN)
    assert [lane.name for lane in picture.lanes] == ["node 1", "node 2", "node 3", "client c1", "client c2"]
    assert [(span.first_epoch, span.leaders, span.leading) for span in picture.spans] == [
        (1, (1,), (0,)),
        (2, (1,), (0,)),
        (3, (2,), (1,)),
    ]
    [refused] = marked(picture, marks.REFUSED)
    assert (lanes_of(picture, refused), refused.label) == (("node 2", "client c1"), "refused 74")
    assert refused.place == "broker-2/request_log:11"
    assert "REFUSED with 74 FENCED_LEADER_EPOCH" in refused.sentence
    assert picture.left_out == 0


def test_an_election_is_unclean_if_the_leader_was_in_no_isr_before_it() -> None:
    picture = drawn(*UNCLEAN)
    assert [step.label for step in marked(picture, marks.UNCLEAN)] == ["unclean: 2 leads"]
    assert len(marked(picture, marks.ELECTION)) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (state(1, 1, 1, [1, 2], 4), state(2, 2, 2, [2], 5)),
        (state(1, 1, 1, [1], 3), state(2, 2, 2, [2], 5)),  # the state before is not recorded
        (state(1, 1, 1, [1], 4), state(2, 2, -1, [1], 5)),
    ],
)
def test_no_other_election_is_called_unclean(before: Event, after: Event) -> None:
    assert not marked(drawn(before, after), marks.UNCLEAN, marks.UNKNOWN)


def record(kind: str, offset: int, **columns: Any) -> Event:
    """A record of the metadata log."""
    of_log = {"source": "metadata_log", "file": "00000000000000000000.log", "topic_id": ID, "holes_before": 0}
    return fact(kind, None, offset, **{**of_log, "position": 2 * offset + 1, **columns})


FULL = record("PARTITION_RECORD", 1, leader=1, leader_epoch=0, partition_epoch=4, isr=[1], replicas=[1, 2])
EMPTIED = record("PARTITION_CHANGE_RECORD", 2, leader=-1, isr=[], elr=[2])
ELECTS = record("PARTITION_CHANGE_RECORD", 3, leader=2, isr=[2], elr=[])
MARKED = {**ELECTS, "leader_recovery_state": 1}


@pytest.mark.parametrize(
    ("events", "unclean"),
    [
        ([FULL, ELECTS], True),
        ([FULL, MARKED], True),
        ([FULL, EMPTIED, ELECTS], False),  # eligible without being in the ISR: KIP-966
        ([FULL, EMPTIED, MARKED], True),  # by the record's own mark
        ([FULL, record("PARTITION_CHANGE_RECORD", 2, leader=-1, isr=[], elr=[1]), ELECTS], True),
        ([{**FULL, "elr": [2]}, ELECTS], False),
        # Kafka before 4.3 may empty the list in the batch that elects
        ([{**FULL, "elr": [2]}, record("PARTITION_CHANGE_RECORD", 2, leader=-1, isr=[], elr=[]), ELECTS], False),
    ],
)
def test_records_show_the_eligible_leader_replicas(events: list[Event], unclean: bool) -> None:
    picture = drawn(*events)
    assert [step.label for step in marked(picture, marks.UNCLEAN)] == ["unclean: 2 leads"] * unclean
    assert not marked(picture, marks.UNKNOWN)


def replayed(second: float, epoch: int, leader: int, isr: list[int], partition_epoch: int) -> Event:
    """What a controller logs about a state of the partition, without the eligible leader replicas."""
    columns = {"leader_epoch": epoch, "leader": leader, "isr": isr, "partition_epoch": partition_epoch}
    return fact("PARTITION_CHANGE_REPLAYED", 3, second, source="controller_log", topic_id=ID, **columns)


@pytest.mark.parametrize(
    "events",
    [
        [replayed(1, 1, 1, [1], 4), replayed(2, 2, 2, [2], 5)],
        [
            replayed(1, 1, 1, [1], 3),
            {**FULL, "partition_epoch": 5},
            replayed(2, 2, -1, [1], 6),
            replayed(3, 3, 2, [2], 7),
        ],
        [
            FULL,
            {**ELECTS, "replicas": [2], "adding_replicas": [], "removing_replicas": []},
        ],  # may complete a reassignment
    ],
)
def test_an_election_is_of_unknown_kind_where_the_eligible_leader_replicas_are_not_known(events: list[Event]) -> None:
    picture = drawn(*events)
    assert [step.label for step in marked(picture, marks.UNKNOWN)] == ["unclean or not: 2 leads"]
    assert "the evidence does not show whether it was eligible" in marked(picture, marks.UNKNOWN)[0].sentence
    assert not marked(picture, marks.UNCLEAN)


def test_a_hole_of_the_metadata_log_leaves_the_state_unknown() -> None:
    after = {**ELECTS, "holes_before": 1}
    assert not marked(drawn(FULL, after), marks.UNCLEAN, marks.UNKNOWN)
    snapshot = {**FULL, "position": 4, "leader": -1, "isr": [], "elr": [2], "holes_before": 1, "in_snapshot": True}
    assert not marked(drawn(FULL, snapshot, after), marks.UNCLEAN, marks.UNKNOWN)


def test_a_truncation_to_the_logs_own_end_removes_nothing() -> None:
    assert [(step.host, step.label) for step in marked(drawn(*UNCLEAN), marks.TRUNCATED)] == [
        ("node 1", "truncated to 10")
    ]


def test_the_offsets_of_epochs_truncations_and_readers_are_stated_by_the_rows() -> None:
    picture = drawn(*UNCLEAN)
    assert [(one.kind, one.label, one.first, one.last) for one in picture.stretches] == [
        (LOG, "epoch 1", 0, 9),
        (LOG, "epoch 3", 10, None),
        (CUT, "node 1 cut", 10, 29),
        (READ, "read: c1", 0, 29),
    ]


def test_lines_of_findings_are_ringed_and_who_crossed_is_a_mark() -> None:
    own = {("west", "broker-2/request_log", 11_000): (Proof("TR-01", "f1", crossed=True),)}
    picture = drawn(*UNCLEAN, proofs=Proofs(own, {("west", "broker-1/server_log", 13_000)}), most=2)
    [crossed] = marked(picture, marks.CROSSED)
    assert crossed.findings == (("TR-01", "f1"),)
    assert lanes_of(picture, crossed) == ("node 2", "client c2")
    assert [step.mark for step in picture.steps] == [marks.CROSSED, marks.TRUNCATED]
    assert picture.left_out == len(UNCLEAN) - 2


def test_ten_thousand_rows_are_few_steps_that_count_them_all() -> None:
    many = [
        fetch(
            1,
            10 + number / 10,
            f"c{number % 50}",
            number,
            error_code=74 if number % 3 else 0,
            current_leader_epoch=number % 7,
        )
        for number in range(9_000)
    ]
    states = [state(number, number, number % 20 + 1, [number % 20 + 1], number) for number in range(1_000)]
    picture = drawn(*many, *states)
    assert len(picture.steps) <= MOST_STEPS
    assert sum(step.rows for step in picture.steps) + picture.left_out == 10_000
    assert len(picture.lanes) <= MOST_NODES + MOST_CLIENTS + 2
    assert len(picture.spans) <= 2 * MOST_STEPS + 1
    assert sum(span.left_out for span in picture.spans) == picture.left_out


def test_requests_of_many_clients_that_are_alike_are_one_step_if_there_is_no_room() -> None:
    refusals = [fetch(1, number, f"c{number}", 5, error_code=74, current_leader_epoch=0) for number in range(60)]
    picture = drawn(fact("LEADER_STARTS", 1, 0, leader_epoch=1, leader=1, start_offset=0), *refusals)
    [refused] = marked(picture, marks.REFUSED)
    assert refused.label == "refused 74, 60\u00d7"
    assert "60 alike of 60 clients" in refused.sentence
    assert lanes_of(picture, refused) == ("node 1", "other clients")


def test_rows_of_hosts_without_a_leader_epoch_stand_apart() -> None:
    picture = drawn(
        fact("LEADER_STARTS", 1, 9, leader_epoch=1, leader=1, start_offset=0),
        fact("CLIENT_TRUNCATION_DETECTED", None, 1, source="client_log", client_id="c", file="c.log", offset=3),
    )
    assert [span.title for span in picture.spans] == [
        "leader epoch 1: leader 1, from offset 0",
        "hosts that state no leader epoch",
    ]
    assert [step.mark for step in picture.spans[1].steps] == [marks.DETECTED]
