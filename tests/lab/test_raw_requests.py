"""Senders of raw requests collect what they sent, from the lists of a client that answers as the Java one does."""

from __future__ import annotations

import json
from typing import Any, cast

from lab.cluster import Client
from lab.comparison import Judged
from lab.raw_requests import RawSender, fenced_by
from lab.truth import RAW_FROM


class _Client:
    """Answers `state` with one broker and one partition, and each request with the next codes."""

    def __init__(self, *codes: list[int], zookeeper: bool = False) -> None:
        self._zookeeper = zookeeper
        self._codes, self._events = list(codes), list[dict[str, Any]]()
        self.sent: list[list[str]] = []

    def tell(self, command: str) -> None:
        words = command.split(" ")
        if words[0] == "state":
            broker = {"broker_epoch": 31, "fenced": True, "in_controlled_shutdown": False}
            partition = {"topic": "orders", "partition": 0, "leader": 1}
            of_zookeeper = {"controller": 2, "controller_epoch": 6} if self._zookeeper else {}
            self._events.append({"event": "state", "brokers": {"3": broker}, "partitions": [partition], **of_zookeeper})
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


def test_a_request_is_listed_with_what_it_must_be_answered_and_not_with_what_it_was() -> None:
    client = _Client([77], [0, 0])
    raw = RawSender(cast("Client", client))
    raw.send(100, "a former incarnation", "BROKER_HEARTBEAT", 0, {"broker_id": 3}, (77,), fenced_by("BE-03"))
    older = {"topics": [{"a": 1}]}
    answer = raw.send(2, "older leader epoch", "ALTER_PARTITION", 3, older, (0, 74), fenced_by("IS-12"), client_id="7")
    assert answer["codes"] == [0, 0]
    assert raw.requests == [
        Judged(100, 900001, "BROKER_HEARTBEAT 0: a former incarnation", (77,), frozenset({("BE-03", "fenced")})),
        Judged(2, 900002, "ALTER_PARTITION 3: older leader epoch", (0, 74), frozenset({("IS-12", "fenced")})),
    ]
    assert [words[2:4] for words in client.sent] == [["100", "raw"], ["2", "7"]]
    assert [len(words) for words in client.sent] == [7, 7]  # the client splits a command at blanks
    assert json.loads(client.sent[1][-1]) == {"topics": [{"a": 1}]}


def test_the_state_is_that_of_brokers_and_partitions_by_their_numbers() -> None:
    raw = RawSender(cast("Client", _Client()))
    state = raw.state()
    assert (state.broker_epoch(3), state.is_fenced(3), state.is_shutting_down(3)) == (31, True, False)
    assert state.partitions["orders", 0]["leader"] == 1
    assert (state.controller, state.controller_epoch) == (None, None)


def test_zookeeper_also_has_the_controller() -> None:
    state = RawSender(cast("Client", _Client(zookeeper=True))).state()
    assert (state.controller, state.controller_epoch) == (2, 6)
