"""A sender of raw requests collects what it sent, from the lists of a client that answers as the Java one does."""

from __future__ import annotations

import json
from typing import Any, cast

from lab.cluster import Cluster
from lab.comparison import Judged
from lab.raw_requests import RawSender
from lab.truth import RAW_FROM


class _Client:
    """Answers `state` with one broker and one partition, and each request with the next codes."""

    def __init__(self, *codes: list[int]) -> None:
        self._codes, self._events = list(codes), list[dict[str, Any]]()
        self.sent: list[list[str]] = []

    def tell(self, command: str) -> None:
        words = command.split(" ")
        if words[0] == "state":
            broker = {"broker_epoch": 31, "fenced": True, "in_controlled_shutdown": False}
            partition = {"topic": "orders", "partition": 0, "leader": 1}
            self._events.append({"event": "state", "brokers": {"3": broker}, "partitions": [partition]})
            return
        self.sent.append(words)
        codes = self._codes.pop(0)
        number = RAW_FROM + len(self.sent) - 1
        self._events.append({"event": "answered", "correlation_id": number, "codes": codes})

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        return [one for one in self._events if not kind or one["event"] == kind]

    def wait(self, kind: str, count: int) -> list[dict[str, Any]]:
        found = self.events(kind)
        assert len(found) >= count
        return found


class _Cluster:
    def __init__(self, client: _Client) -> None:
        self._client = client

    def raw_requests(self, name: str, controller: int) -> _Client:
        assert (name, controller) == ("raw", 100)
        return self._client


def test_a_request_is_listed_with_what_it_must_be_answered_and_not_with_what_it_was() -> None:
    client = _Client([77], [0, 0])
    raw = RawSender(cast("Cluster", _Cluster(client)), "raw", 100)
    raw.send("a former incarnation", "BROKER_HEARTBEAT", 0, {"broker_id": 3}, (77,), "BE-03")
    answer = raw.send("older leader epoch", "ALTER_PARTITION", 3, {"topics": [{"a": 1}]}, (0, 74), "IS-12")
    assert answer["codes"] == [0, 0]
    assert raw.requests == [
        Judged(100, 900001, "BROKER_HEARTBEAT 0: a former incarnation", (77,), frozenset({("BE-03", "fenced")})),
        Judged(100, 900002, "ALTER_PARTITION 3: older leader epoch", (0, 74), frozenset({("IS-12", "fenced")})),
    ]
    assert [len(words) for words in client.sent] == [5, 5]  # the client splits a command at blanks
    assert json.loads(client.sent[1][-1]) == {"topics": [{"a": 1}]}


def test_the_state_is_that_of_brokers_and_partitions_by_their_numbers() -> None:
    raw = RawSender(cast("Cluster", _Cluster(_Client())), "raw", 100)
    state = raw.state()
    assert (state.broker_epoch(3), state.is_fenced(3), state.is_shutting_down(3)) == (31, True, False)
    assert state.partitions["orders", 0]["leader"] == 1
