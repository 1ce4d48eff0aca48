"""Like verdicts of one client are one line, and so are its fetches with the same error."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from epochaudit.findings.finding import Finding
from epochaudit.report.repetition import FEWEST, FEWEST_IN_A_LOOP, fetch_loops, loops_in, repeated_in
from epochaudit.rules.rule import FENCED
from tests.replay.histories import event_rows


def test_like_verdicts_of_one_client_are_counted_with_their_span(finding: Finding) -> None:
    def fenced(client: str, second: int) -> Finding:
        line = replace(finding.evidence[0], time=f"2026-11-21T04:00:{second:02}.000")
        return replace(finding, verdict=FENCED, client=client, evidence=(line,))

    found = [fenced("app", n) for n in range(FEWEST + 1)] + [fenced("other", n) for n in range(FEWEST - 1)]
    (one,) = repeated_in(found, (), set())
    assert (one.client, one.count, one.seconds) == ("app", FEWEST + 1, FEWEST)
    assert str(one).endswith(", 1.1 a second")


def test_of_rules_that_are_not_listed_whole_all_are_counted(finding: Finding) -> None:
    counted = {
        "rule": "SR-01", "verdict": FENCED, "cluster": "west", "topic": "orders", "topic_id": None, "partition": 0,
        "client_id": "app", "node": 2, "count": 6_749, "first_time_ms": 0, "last_time_ms": 60_000,
    }  # fmt: skip
    (one,) = repeated_in([replace(finding, client="app")] * 20, [counted], {"SR-01"})
    assert (one.count, one.subject, one.seconds) == (6_749, "orders-0", 60)


def test_a_loop_is_many_fetches_with_one_error(spark: SparkSession) -> None:
    place = {"file": "f", "file_order": 0, "split": 0, "line_in_split": 1, "partition_row": 0, "event_id": 0}
    fetch = {
        **place,
        "cluster": "c",
        "node": 1,
        "source": "request_log",
        "event_type": "FETCH",
        "topic": "t",
        "partition": 0,
    }
    rows = [
        {**fetch, "client_id": "app", "error_code": 3, "time_ms": n, "byte_offset": n} for n in range(FEWEST_IN_A_LOOP)
    ]
    rows += [{**row, "client_id": "few"} for row in rows[1:]] + [{**row, "error_code": 0} for row in rows]
    events = event_rows(spark, rows)
    (loop,) = loops_in(row.asDict() for row in fetch_loops(events).collect())
    assert (loop.verdict, loop.client, loop.subject, loop.count) == (
        "error 3 UNKNOWN_TOPIC_OR_PARTITION",
        "app",
        "t-0",
        FEWEST_IN_A_LOOP,
    )
