"""What replicas wrote of their leader epochs, and what of it was given up."""

from __future__ import annotations

from typing import Any

import pytest

from epochaudit.report.contents import Removal, Replica
from epochaudit.report.histories import History, of_one_topic

LEADS, FOLLOWS, TRUNCATES = "LEADER_STARTS", "FOLLOWER_STARTS", "FOLLOWER_TRUNCATING"


def _line(node: int, at: int, kind: str, epoch: int | None, offset: int, **more: Any) -> dict[str, Any]:
    told = {"node": node, "time_ms": at, "event_type": kind, "leader_epoch": epoch, "start_offset": offset}
    return {"topic_id": None, "high_watermark": None, "epoch_before": None, **told, **more}


def _histories(*lines: dict[str, Any]) -> list[History]:
    ordered = sorted(lines, key=lambda line: (line["node"], line["time_ms"]))
    return list(of_one_topic({"cluster": "c", "topic": "t", "partition": 0, "lines": ordered}))


def _given_up(*lines: dict[str, Any]) -> list[tuple[int, int, int, tuple[int, ...], tuple[Replica, ...]]]:
    return [
        (one.leader_epoch, one.first_offset, one.last_offset, one.epochs, one.replicas)
        for history in _histories(*lines)
        for one in history.given_up()
    ]


def test_what_a_returning_leader_had_beyond_the_start_of_the_epoch_is_gone() -> None:
    assert _given_up(
        _line(1, 1, LEADS, 0, 0),
        _line(1, 2, LEADS, 1, 10),
        _line(2, 3, LEADS, 3, 10),
        _line(1, 4, FOLLOWS, 3, 30, epoch_before=1),
        _line(1, 5, TRUNCATES, None, 10),
    ) == [(3, 10, 29, (1,), (Replica(1, 30, 10),))]


def test_the_records_may_be_of_several_epochs_and_of_several_replicas() -> None:
    assert _given_up(
        _line(1, 1, LEADS, 0, 0),
        _line(1, 2, LEADS, 1, 20),
        _line(1, 3, FOLLOWS, 2, 25, epoch_before=1),
        _line(2, 3, LEADS, 2, 15),
        _line(3, 1, FOLLOWS, 0, 0),
        _line(3, 4, FOLLOWS, 2, 22, epoch_before=1),
    ) == [(2, 15, 24, (0, 1), (Replica(1, 25, None), Replica(3, 22, None)))]


def test_a_replica_that_comes_back_late_gave_them_up_to_the_epoch_that_began_without_them() -> None:
    """The epoch in which it begins to follow starts above the end of its log."""
    assert _given_up(
        _line(1, 1, LEADS, 0, 0),
        _line(2, 2, LEADS, 1, 10),
        _line(2, 3, LEADS, 2, 50),
        _line(1, 4, FOLLOWS, 2, 30, epoch_before=0),
    ) == [(1, 10, 29, (0,), (Replica(1, 30, None),))]


@pytest.mark.parametrize(
    "follower",
    [
        _line(1, 4, FOLLOWS, 1, 10, epoch_before=0),  # all that it has is in the new history
        _line(1, 4, FOLLOWS, 1, 30, epoch_before=1),  # it has records of the epoch itself
        _line(1, 4, FOLLOWS, 1, 30),  # it may have
    ],
)
def test_what_is_no_truncation(follower: dict[str, Any]) -> None:
    assert _given_up(_line(1, 1, LEADS, 0, 0), _line(2, 2, LEADS, 1, 10), follower) == []


def test_epochs_that_were_left_before_are_not_those_of_the_records() -> None:
    (history,) = _histories(
        _line(1, 1, LEADS, 0, 0), _line(2, 2, LEADS, 1, 10), _line(1, 3, LEADS, 2, 10), _line(2, 4, LEADS, 3, 30)
    )
    assert history.epochs_of(20, 29, left_in=3) == (2,)
    assert history.epochs_of(5, 29, left_in=3) == (0, 2)
    assert history.epochs_of(5, 9, left_in=0) == ()


def test_topics_of_one_name_are_told_apart_by_id_and_nothing_is_said_of_lines_that_may_be_of_either() -> None:
    first, second = _histories(
        _line(1, 1, LEADS, 0, 0, topic_id="A"),
        _line(1, 2, FOLLOWS, 1, 9, epoch_before=0),
        _line(1, 5, FOLLOWS, 0, 0, epoch_before=1),
        _line(1, 6, LEADS, 1, 4, topic_id="B"),
        _line(2, 2, LEADS, 1, 5, topic_id="A"),
        _line(2, 5, LEADS, 0, 0, topic_id="B"),
        _line(3, 1, FOLLOWS, 0, 0),
    )
    assert (first.topic_id, sorted(first.starts), first.follows) == ("A", [0, 1], frozenset())
    assert (second.topic_id, sorted(second.starts), second.follows) == ("B", [0, 1], frozenset({1, 2}))
    assert [(one.topic_id, one.first_offset, one.last_offset) for one in first.given_up()] == [("A", 5, 8)]
    assert second.given_up() == []


def test_without_topic_ids_nothing_is_said_of_a_name_that_had_several_topics() -> None:
    assert _histories(_line(1, 1, LEADS, 3, 9), _line(1, 2, LEADS, 0, 0), _line(2, 3, FOLLOWS, 0, 5)) == []


def test_a_removal_counts_its_records() -> None:
    assert Removal("c", "t", None, 0, 3, 10, 29).records == 20
