"""Verdicts, and the names of their subjects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prove.history import Event, Key

PASS: Final = "pass"
FENCED: Final = "fenced"
VIOLATION: Final = "violation"
EXPOSED: Final = "exposed"
UNVERIFIABLE: Final = "unverifiable"


Judged = Iterator[tuple[str, Key]]
"""(verdict, subject) of each subject of a rule."""


def place(event: Event, one: Any = None) -> Key:
    """A subject with a line of its own."""
    return event.id, getattr(one, "topic", None), getattr(one, "partition", None)


def at(event: Event, topic: str | None, partition: int | None) -> Key:
    """A subject with a line of its own, of a partition."""
    return event.id, topic, partition


def key_of_line(event: int | None, row: Mapping[str, Any]) -> Key:
    """The same of a row of epochaudit."""
    return event, row["topic"], row["partition"]


def key_of_request(event: int | None, _: Mapping[str, Any]) -> Key:
    """The same, where the subject is a whole request."""
    return event, None, None


def key_of_fetch(event: int | None, row: Mapping[str, Any]) -> Key:
    """The same of a Fetch, which is for one partition. By topic id it names no topic, and epochaudit may not know the name."""
    return event, None, row["partition"]


def key_of_leader_epoch(_: int | None, row: Mapping[str, Any]) -> Key:
    """The same, where the subject is a leader epoch of a partition."""
    return row["topic_id"], row["topic"], row["partition"], row["leader_epoch"]


def key_of_epoch_at_broker(_: int | None, row: Mapping[str, Any]) -> Key:
    """The same, where the subject is a leader epoch of a partition at a broker."""
    return row["node"], row["partition"], row["leader_epoch"]


def key_of_broker(_: int | None, row: Mapping[str, Any]) -> Key:
    """The same, where the subject belongs to a broker."""
    return (row["node"],)


def key_of_epoch(_: int | None, row: Mapping[str, Any]) -> Key:
    """The same, where the subject is a leader epoch of a partition with one topic of its name."""
    return None, row["topic"], row["partition"], row["leader_epoch"]


def key_of_topic_id(_: int | None, row: Mapping[str, Any]) -> Key:
    """The same, where the subject is a topic id."""
    return (row["topic_id"],)


def key_of_partition(_: int | None, row: Mapping[str, Any]) -> Key:
    """The same, where rows name the partition alone: verdicts of a partition are counted."""
    return row["topic_id"], row["partition"]


def key_of_none(_: int | None, __: Mapping[str, Any]) -> Key:
    """The same, where a row has no column that names the subject: verdicts are counted."""
    return ()
