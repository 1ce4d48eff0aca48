"""The leader epochs that replicas logged, and the records that they truncated."""

from __future__ import annotations

from typing import Any

import pytest

from epochaudit.losses.epoch_log import History, of_one_topic
from epochaudit.losses.removal import Removal, Replica

LEADS, FOLLOWS, TRUNCATES = "LEADER_STARTS", "FOLLOWER_STARTS", "LOG_TRUNCATED"


def _line(node: int, at: int, kind: str, epoch: int | None, offset: int, **more: Any) -> dict[str, Any]:
    line = {"node": node, "time_ms": at, "event_type": kind, "leader_epoch": epoch, "start_offset": offset}
    more = {"topic_id": None, "high_watermark": None, "epoch_before": None, "log_end": None, **more}
    return {"is_truncation": kind == TRUNCATES, **line, **more}


def _histories(*lines: dict[str, Any]) -> list[History]:
    ordered = sorted(lines, key=lambda line: (line["node"], line["time_ms"]))
    return list(of_one_topic({"cluster": "c", "topic": "t", "partition": 0, "lines": ordered}))


def _truncations(*lines: dict[str, Any]) -> list[tuple[int, int, int, tuple[int, ...], tuple[Replica, ...]]]:
    return [
        (removal.leader_epoch, removal.first_offset, removal.last_offset, removal.epochs, removal.replicas)
        for history in _histories(*lines)
        for removal in history.truncations()
    ]


def test_before_26_a_former_leader_that_truncates_is_a_replica_that_had_them() -> None:
    (history,) = _histories(
        _line(1, 1, LEADS, 0, 0),
        _line(1, 2, LEADS, 1, 10),
        _line(1, 3, TRUNCATES, None, 10),
        _line(2, 4, LEADS, 3, 10),
        _line(1, 5, TRUNCATES, None, 10),
        _line(1, 6, LEADS, 4, 50),
    )
    assert history.removal(3, 10, 29, {}).replicas == (Replica(1, None, 10),)
    assert history.removal(4, 10, 29, {}).replicas == (Replica(1, None, 10),)
    assert history.removal(3, 12, 29, {}).replicas == ()


def test_what_a_returning_leader_truncates_is_removed() -> None:
    assert _truncations(
        _line(1, 1, LEADS, 0, 0),
        _line(1, 2, LEADS, 1, 10),
        _line(2, 3, LEADS, 3, 10),
        _line(1, 4, FOLLOWS, 3, 30, epoch_before=1),
        _line(1, 5, TRUNCATES, None, 20, log_end=30),  # in two steps
        _line(1, 6, TRUNCATES, None, 10, log_end=30),
    ) == [(3, 10, 29, (1,), (Replica(1, 30, 10),))]


def test_the_records_may_be_of_several_epochs_and_of_several_replicas() -> None:
    assert _truncations(
        _line(1, 1, LEADS, 0, 0),
        _line(1, 2, LEADS, 1, 20),
        _line(1, 3, FOLLOWS, 2, 25, epoch_before=1),
        _line(1, 4, TRUNCATES, None, 15, log_end=25),
        _line(2, 3, LEADS, 2, 15),
        _line(3, 1, FOLLOWS, 0, 0),
        _line(3, 2, FOLLOWS, 2, 22, epoch_before=1),
        _line(3, 3, FOLLOWS, 2, 22, epoch_before=2),  # once more, after a restart
        _line(3, 4, TRUNCATES, None, 15, log_end=22),
    ) == [(2, 15, 24, (0, 1), (Replica(1, 25, 15), Replica(3, 22, 15)))]


def test_the_truncation_of_a_replica_that_returns_late_counts_for_the_epoch_that_began_without_the_records() -> None:
    """The epoch in which it begins to follow starts above the end of its log."""
    assert _truncations(
        _line(1, 1, LEADS, 0, 0),
        _line(2, 2, LEADS, 1, 10),
        _line(2, 3, LEADS, 2, 50),
        _line(1, 4, FOLLOWS, 2, 30, epoch_before=0),
        _line(1, 5, TRUNCATES, None, 10, log_end=30),
    ) == [(1, 10, 29, (0,), (Replica(1, 30, 10),))]


def test_a_leader_that_no_replica_could_follow_truncates_its_own_records() -> None:
    """Broker 1 began to follow in epoch 1 and was elected again before it had truncated: its records stayed."""
    assert _truncations(
        _line(1, 1, LEADS, 0, 0),
        _line(1, 2, FOLLOWS, 1, 27, epoch_before=0),
        _line(1, 4, LEADS, 2, 27),
        _line(2, 3, LEADS, 1, 19),
        _line(2, 5, FOLLOWS, 2, 33, epoch_before=1),
        _line(2, 6, TRUNCATES, None, 19, log_end=33),
    ) == [(2, 19, 32, (1,), (Replica(2, 33, 19),))]


@pytest.mark.parametrize("to", [{"start_offset": 30}, {"log_end": None}])
def test_a_line_above_the_log_end_or_without_a_log_end_is_no_truncation(to: dict[str, Any]) -> None:
    follower = _line(1, 4, FOLLOWS, 1, 30, epoch_before=0)
    truncation = _line(1, 5, TRUNCATES, None, 10, log_end=30) | to
    assert _truncations(_line(1, 1, LEADS, 0, 0), _line(2, 2, LEADS, 1, 10), follower, truncation) == []


def test_epochs_that_an_earlier_truncation_removed_are_not_those_of_the_records() -> None:
    (history,) = _histories(
        _line(1, 1, LEADS, 0, 0), _line(2, 2, LEADS, 1, 10), _line(1, 3, LEADS, 2, 10), _line(2, 4, LEADS, 3, 30)
    )
    assert history.epochs_of(20, 29, before_epoch=3) == (2,)
    assert history.epochs_of(5, 29, before_epoch=3) == (0, 2)
    assert history.epochs_of(5, 9, before_epoch=0) == ()


def test_topic_ids_separate_topics_of_one_name_and_ambiguous_lines_are_left_out() -> None:
    first, second = _histories(
        _line(1, 1, LEADS, 0, 0, topic_id="A"),
        _line(1, 2, FOLLOWS, 1, 9, epoch_before=0),
        _line(1, 3, TRUNCATES, None, 5, log_end=9),
        _line(1, 5, FOLLOWS, 0, 0, epoch_before=1),
        _line(1, 6, LEADS, 1, 4, topic_id="B"),
        _line(2, 2, LEADS, 1, 5, topic_id="A"),
        _line(2, 5, LEADS, 0, 0, topic_id="B"),
        _line(3, 1, FOLLOWS, 0, 0),
    )
    assert (first.topic_id, sorted(first.starts), first.had_earlier_topic) == ("A", [0, 1], frozenset())
    assert (second.topic_id, sorted(second.starts), second.had_earlier_topic) == ("B", [0, 1], frozenset({1, 2}))
    assert [(removal.topic_id, removal.first_offset, removal.last_offset) for removal in first.truncations()] == [
        ("A", 5, 8)
    ]
    assert second.truncations() == []


def test_without_topic_ids_a_name_that_had_several_topics_has_no_history() -> None:
    assert _histories(_line(1, 1, LEADS, 3, 9), _line(1, 2, LEADS, 0, 0), _line(2, 3, FOLLOWS, 0, 5)) == []


def test_a_removal_counts_its_records() -> None:
    assert Removal("c", "t", None, 0, 3, 10, 29).records == 20
