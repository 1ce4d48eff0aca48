"""Tests of frames: each gives a history of events and checks the rows that the frame makes of it.

Spark plans a frame, and the tables that it shares with others, for seconds; it computes them in a moment. So the histories of all
selected tests are one events table, each history a cluster of its own, and each frame is planned once:

    replay = Replay(metadata, order=("clock",))

    @replay.test
    def test_the_first_record_has_no_state_before() -> Checks:
        (row,) = yield [record("PARTITION_RECORD", 0, topic_id=TOPIC_ID, partition=0)]
        assert row.previous_leader is None
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from epochaudit.events.schema import EVENTS
from tests.rules.case_files import case_of

Event = dict[str, Any]
History = list[Event]
Checks = Generator[History | tuple[History, ...], Any, None]
"""A test that yields a history and gets the frame's rows, or several histories and gets a tuple of their rows."""
Test = Callable[[SparkSession, pytest.FixtureRequest], None]

_IDS: Final = 1 << 40  # the event_ids of one history


def of_table(table: str, cluster: str = "c") -> History:
    """The events of one table in the format of the rules' case files."""
    rows = case_of("frame", "history", table.splitlines(), EVENTS).events
    return [dict(zip(EVENTS.names, row, strict=True)) | {"cluster": cluster} for row in rows]


def history(spark: SparkSession, table: str) -> DataFrame:
    """The events of one table; the cluster is named `case history`."""
    return histories(spark, {"history": table})


def histories(spark: SparkSession, tables: Mapping[str, str]) -> DataFrame:
    """The events of several tables, each of a cluster `case <name>`."""
    return event_rows(spark, [event for name, table in tables.items() for event in of_table(table, f"case {name}")])


def event_rows(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """The events as a DataFrame; columns that an event lacks are null."""
    return spark.createDataFrame([tuple(event.get(name) for name in EVENTS.names) for event in events], EVENTS)


@dataclass(frozen=True)
class _Waiting:
    """A test that has given its histories and waits for their rows. numbers: those of its histories among all."""

    checks: Checks
    numbers: range
    gives_one: bool


class Replay:
    """The tests about one frame, or about another function of the events.

    order: the columns by which a test gets the rows of a history, after the name of the cluster.
    """

    _all: Final[list[Replay]] = []

    def __init__(self, frame: Callable[[DataFrame], DataFrame], order: tuple[str, ...]) -> None:
        self._frame = frame
        self._order = order
        self._tests: dict[Test, Callable[[], Checks]] = {}
        self._failures: dict[Test, Exception | None] = {}
        self._all.append(self)

    def test(self, checks: Callable[[], Checks]) -> Test:
        """The test as pytest runs it. The first one that runs gives all selected ones their rows."""

        def test(spark: SparkSession, request: pytest.FixtureRequest) -> None:
            if test not in self._failures:
                _run(self._all, {getattr(item, "function", None) for item in request.session.items}, spark)
            failure = self._failures[test]
            if failure is not None:
                raise failure

        test.__name__, test.__qualname__ = checks.__name__, checks.__qualname__
        test.__doc__, test.__module__ = checks.__doc__, checks.__module__
        self._tests[test] = checks
        return test

    def begin(self, selected: Container[object], histories: list[History]) -> dict[Test, _Waiting]:
        """Begin the selected tests, and append what they give to the histories of all."""
        waiting = {}
        for test, begin in self._tests.items():
            if test in selected:
                checks = begin()
                given = next(checks)
                before, gives_one = len(histories), isinstance(given, list)
                histories += [given] if gives_one else given
                waiting[test] = _Waiting(checks, range(before, len(histories)), gives_one)
        return waiting

    def answer(self, waiting: Mapping[Test, _Waiting], events: DataFrame) -> None:
        """Let each test check its rows."""
        try:
            rows = self._frame(events).orderBy("cluster", *self._order).collect() if waiting else []
        except Exception as failure:
            self._failures |= dict.fromkeys(waiting, failure)
            return
        found = defaultdict(list)
        for row in rows:
            number, _, cluster = row.cluster.partition(" ")
            found[int(number)].append(Row(**row.asDict() | {"cluster": cluster}))
        for test, one in waiting.items():
            of_test = tuple(found[number] for number in one.numbers)
            self._failures[test] = _failure(one.checks, of_test[0] if one.gives_one else of_test)


def _failure(checks: Checks, rows: list[Row] | tuple[list[Row], ...]) -> Exception | None:
    """What the test raises when it gets these rows."""
    try:
        checks.send(rows)
    except StopIteration:
        return None
    except Exception as failure:
        return failure
    return AssertionError("a test yields once")


def _run(replays: Iterable[Replay], selected: Container[object], spark: SparkSession) -> None:
    """Run the selected tests of all frames over one events table. The name of each cluster begins with the number of its history."""
    histories: list[History] = []
    begun = [(replay, replay.begin(selected, histories)) for replay in replays]
    events = event_rows(
        spark,
        (
            event | {"cluster": f"{number} {event['cluster']}", "event_id": number * _IDS + event["event_id"]}
            for number, history in enumerate(histories)
            for event in history
        ),
    )
    for replay, waiting in begun:
        replay.answer(waiting, events)
