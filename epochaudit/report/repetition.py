"""Repetition: equal verdicts of one client or replica at one partition.

A client in a loop is one fact, not a thousand: the report has one line for it, with number, time span and rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final

from epochaudit.events.event_types import FETCH
from epochaudit.findings.evidence import iso_time
from epochaudit.findings.finding import Finding
from epochaudit.kafka.errors import Errors, error_text
from epochaudit.report.contents import Repeated

FEWEST: Final = 10  # verdicts that make a line of their own
FEWEST_IN_A_LOOP: Final = 1_000  # fetches with the same error
LONGEST: Final = 20  # loops that a report lists
MOST: Final = 200  # lines of a report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]


def repeated_in(
    findings: Iterable[Finding], counted: Iterable[Row], left_out: AbstractSet[str]
) -> tuple[Repeated, ...]:
    """Repeated verdicts, the most frequent first: from `findings`, and for rules in `left_out` from `counted`.

    counted: rows of `epochaudit.pipeline.Audit.repeated`. left_out: rules whose findings are not all listed.
    """
    times: dict[tuple[str, ...], list[str | None]] = defaultdict(list)
    for one in findings:
        if one.rule not in left_out:
            key = (
                one.rule,
                one.verdict,
                one.cluster,
                one.subject,
                one.client or "",
                "" if one.node is None else str(one.node),
            )
            times[key].append(one.evidence[0].time if one.evidence else None)
    rows = []
    for (rule, verdict, cluster, subject, client, node), at in times.items():
        times_known = sorted(time for time in at if time is not None)
        first, last = (times_known[0], times_known[-1]) if times_known else (None, None)
        who = client or None, int(node) if node else None
        rows.append(Repeated(rule, verdict, cluster, subject, *who, len(at), first, last))
    rows += [_counted(row) for row in counted]
    frequent = [one for one in rows if one.count >= FEWEST]
    return tuple(sorted(frequent, key=lambda one: (-one.count, one.rule, *_in_order(one)))[:MOST])


def fetch_loops(events: DataFrame) -> DataFrame:
    """Clients whose fetches were answered with the same error over and over, the most frequent first.

    Grain: (cluster, node, client_id, topic, topic_id, partition, error_code). Needs the events table.
    Columns: count, first_time_ms and last_time_ms (milliseconds, when the first and the last was answered).
    """
    from pyspark.sql import functions as F

    refused = events.where((F.col("event_type") == FETCH) & (F.col("error_code") != Errors.NONE))
    grain = ("cluster", "node", "client_id", "topic", "topic_id", "partition", "error_code")
    groups = refused.groupBy(*grain)
    times = F.min("time_ms").alias("first_time_ms"), F.max("time_ms").alias("last_time_ms")
    loops = groups.agg(F.count("*").alias("count"), *times).where(F.col("count") >= FEWEST_IN_A_LOOP)
    return loops.orderBy(F.desc("count"), *grain).limit(LONGEST)


def loops_in(rows: Iterable[Row]) -> tuple[Repeated, ...]:
    """The rows of `fetch_loops`, the longest first."""
    loops = (_counted({**row, "rule": "FETCH", "verdict": f"error {error_text(row['error_code'])}"}) for row in rows)
    return tuple(sorted(loops, key=lambda one: (-one.count, *_in_order(one))))


def _in_order(one: Repeated) -> tuple[str | int, ...]:
    times = one.first_time or "", one.last_time or ""
    return one.subject, one.client or "", one.node or 0, one.cluster, one.verdict, *times


def _counted(row: Row) -> Repeated:
    topic = row["topic"] or row["topic_id"] or ""
    subject = topic if row["partition"] is None else f"{topic}-{row['partition']}"
    first, last = (iso_time(row[name], zoned=False) for name in ("first_time_ms", "last_time_ms"))
    return Repeated(
        row["rule"], row["verdict"], row["cluster"], subject, row["client_id"], row["node"], row["count"], first, last
    )
