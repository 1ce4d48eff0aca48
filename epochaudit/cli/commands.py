"""What the commands run: Spark is started, the work is done, its results are gathered on the driver.

Spark is imported only here, and only when something runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from epochaudit.cli.progress import progress
from epochaudit.events.times import DAY_MS
from epochaudit.settings import Settings
from epochaudit.spark import run_metrics

PICTURED: Final = "html"  # the report format that has pictures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from epochaudit.doctor.diagnosis import Diagnosis
    from epochaudit.pipeline import Audit
    from epochaudit.report.contents import Report
    from epochaudit.timeline.merge import EventLog
    from epochaudit.warehouse.maintenance import Maintained

    Accepting = Callable[[Report], Report]


@contextmanager
def audited(captures: Sequence[str], chosen: Settings, accepting: Accepting, *, debug: bool) -> Iterator[Report]:
    """Run the audit on Spark and gather its results on the driver; into the warehouse, if one is named.

    A run over a warehouse is completed when the context ends without an exception: deliver the report inside it.
    accepting: applies a baseline to a report. What it accepts is not pictured.
    """
    if chosen.warehouse is not None:
        with _audited_into(chosen.warehouse, captures, chosen, accepting, debug=debug) as report:
            yield report
        return
    from epochaudit.report.assembly import report_of
    from epochaudit.timeline.incidents import events_of, pictured

    result = _run(captures, chosen, debug=debug)
    with (
        progress(f"gathering what was found in {', '.join(captures)}", lines=chosen.progress),
        run_metrics.of_run().stage("gathering"),
    ):
        report = accepting(report_of(result))
        report = pictured(report, lambda: events_of(result)) if PICTURED in chosen.format else report
    yield report


@contextmanager
def _audited_into(
    location: str, captures: Sequence[str], chosen: Settings, accepting: Accepting, *, debug: bool
) -> Iterator[Report]:
    from epochaudit import warehouse
    from epochaudit.sources.discovery.discovery import inspected
    from epochaudit.spark.session import session

    with progress(f"listing {', '.join(captures)}", lines=chosen.progress):
        seen = [inspected(capture) for capture in captures]  # a wrong path is reported before Spark starts
    new = sum(file.stored.plain_size(file.compression) for one in seen for file in one.files)
    known = warehouse.plain_bytes_in(location)
    size = None if known is None else new + known  # all that it keeps is judged
    with progress("starting Spark", lines=chosen.progress), run_metrics.of_run().stage("starting"):
        spark = session(chosen.master, properties(chosen), warehouse=True, plain_bytes=size, debug=debug)
    show_ui(spark, chosen)
    run = warehouse.audited(
        spark,
        location,
        seen,
        select=chosen.select,
        ignore=chosen.ignore,
        show=chosen.show,
        settle_after_ms=round(chosen.settle_after * DAY_MS) or None,
        rejudge_ms=None if chosen.rejudge is None else _milliseconds(chosen.rejudge),
    )
    with ExitStack() as completion:
        with progress(f"auditing {', '.join(captures)} into {location}", lines=chosen.progress):
            report = completion.enter_context(run)
            report = replace(report, known={}, known_writes=(), known_removals=()) if chosen.all else report
            report = _pictured_from(spark, location, accepting(report), chosen)
        yield report


def _milliseconds(printed: datetime) -> int:
    """A time as logs print it, as the events table has it: their time zone may be unknown, and counts as UTC."""
    return round(printed.replace(tzinfo=UTC).timestamp() * 1000)


def reported(
    location: str, cluster: str | None, new: bool | datetime, chosen: Settings, accepting: Accepting, *, debug: bool
) -> Report:
    """The report of a warehouse's last run of each cluster, or of one. new: as at `warehouse.reported`."""
    from epochaudit import warehouse
    from epochaudit.spark.session import session

    with progress("starting Spark"):
        spark = session(chosen.master, chosen.conf, warehouse=True, plain_bytes=0, debug=debug)
    with progress(f"reading {location}"):
        report = accepting(warehouse.reported(spark, location, cluster, new))
        return _pictured_from(spark, location, report, chosen)


def _pictured_from(spark: SparkSession, location: str, report: Report, chosen: Settings) -> Report:
    from epochaudit import warehouse
    from epochaudit.timeline.incidents import pictured

    if PICTURED not in chosen.format:
        return report
    return pictured(report, lambda: warehouse.recorded_in(spark, location))


def diagnosed(captures: Sequence[str], chosen: Settings, *, debug: bool) -> Diagnosis:
    """Run the audit on Spark and diagnose what it could judge."""
    from epochaudit.doctor.assembly import diagnosis_of

    result = _run(captures, chosen, debug=debug)
    with progress(f"examining {', '.join(captures)}"):
        return diagnosis_of(result)


def recorded(captures: Sequence[str], location: str | None, chosen: Settings, *, debug: bool) -> EventLog:
    """The recorded events of captures, or of a warehouse, on Spark."""
    from epochaudit import warehouse
    from epochaudit.pipeline import plain_bytes_of
    from epochaudit.sources.discovery.discovery import discover
    from epochaudit.spark.session import session
    from epochaudit.timeline.merge import recorded_in

    with progress(f"listing {', '.join(captures)}", lines=chosen.progress):
        found = [discover(capture) for capture in captures]  # a wrong path is reported before Spark starts
    size = plain_bytes_of(found) if location is None else warehouse.plain_bytes_in(location)
    with progress("starting Spark"):
        spark = session(chosen.master, chosen.conf, warehouse=location is not None, plain_bytes=size, debug=debug)
    with progress(f"reading {', '.join(captures) or location}"):
        return recorded_in(spark, found) if location is None else warehouse.recorded_in(spark, location)


def maintained(location: str, keep_days: int | None, chosen: Settings, *, debug: bool) -> Maintained:
    """Keep a warehouse small and quick."""
    from epochaudit.spark.session import session
    from epochaudit.warehouse.maintenance import maintain

    with progress("starting Spark"):
        spark = session(chosen.master, chosen.conf, warehouse=True, debug=debug)
    with progress(f"maintaining {location}"):
        return maintain(spark, location, keep_days)


def _run(captures: Sequence[str], chosen: Settings, *, debug: bool) -> Audit:
    from epochaudit.pipeline import audit, plain_bytes_of
    from epochaudit.sources.discovery.discovery import discover
    from epochaudit.spark.session import session

    with progress(f"listing {', '.join(captures)}", lines=chosen.progress):
        found = [discover(capture) for capture in captures]  # a wrong path is reported before Spark starts
    with progress("starting Spark", lines=chosen.progress), run_metrics.of_run().stage("starting"):
        spark = session(chosen.master, properties(chosen), plain_bytes=plain_bytes_of(found), debug=debug)
    show_ui(spark, chosen)
    with progress(f"auditing {', '.join(captures)}", lines=chosen.progress):
        return audit(spark, *found, select=chosen.select, ignore=chosen.ignore, show=chosen.show)


def properties(chosen: Settings) -> dict[str, str]:
    """The session's Spark properties: those that --profile needs, and the given ones."""
    from epochaudit.spark.session import PROFILED

    return ({**PROFILED} if chosen.profile else {}) | chosen.conf


def show_ui(spark: SparkSession, chosen: Settings) -> None:
    """Print the address of Spark's UI to stderr if --profile asks for it; a session of Spark Connect has none."""
    from epochaudit.spark.session import ui_address

    if chosen.profile and (address := ui_address(spark)):
        print(f"Spark's UI, until the audit ends: {address}", file=sys.stderr)
