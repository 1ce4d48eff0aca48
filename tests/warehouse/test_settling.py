"""Nights whose older days are settled: judged once, included in later reports, and their requests not read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit import warehouse
from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import FileRead
from epochaudit.pipeline import Audit, Reading, audit, evaluate_rules
from epochaudit.report import text
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import LateFile, Report
from epochaudit.report.json_report import document
from epochaudit.report.losses import unsettled_of
from epochaudit.rules.judge import Tally
from epochaudit.rules.rule import HIGH, VERDICTS, VIOLATION
from epochaudit.warehouse import nightly, settling
from epochaudit.warehouse.settling import added, as_listed, files_read_again, has_line_before, stored
from tests.warehouse.conftest import CLUSTER, OF_FETCHES, SELECT, Put, appended, audited

pytestmark = pytest.mark.thorough

DAY_MS = 86_400_000
CAPTURE = "kraft-unclean-truncation-4.1"


def on_day(day: int, lines: str) -> str:
    """Lines of conftest, printed on another day of November 2026."""
    return lines.replace("2026-11-21", f"2026-11-{day:02}")


def counts(report: Report) -> dict[str, dict[str, int]]:
    return {rule.rule: {verdict: rule.count(verdict) for verdict in VERDICTS} for rule in report.rules}


def found(report: Report) -> list[str]:
    return sorted(one.finding_id for one in report.findings)


def test_settled_days_are_included_and_not_judged_again(spark: SparkSession, put: Put, tmp_path: Path) -> None:
    location = str(tmp_path / "warehouse")

    def night(folder: Path, **options: int | None) -> Report:
        return audited(spark, location, folder, select=SELECT, **options)

    breach = appended(1, 4, 100) + appended(2, 3, 120)
    first = night(put("broker-1/server.log", on_day(2, breach)))
    assert (len(first.findings), first.settled_until, first.late) == (1, None, ())

    folder = put("broker-1/server.log.1", on_day(2, breach))
    second = night(put("broker-1/server.log", on_day(10, appended(5, 5, 130))))
    one = report_of(audit(spark, str(folder), select=SELECT))
    assert (found(second), counts(second)) == (found(one), counts(one))
    assert second.settled_until is None or second.settled_until < "2026-11-02"

    # what the second night settled is included, with its finding as known, although its line is judged no more
    put("broker-1/server.log.2", on_day(2, breach))
    put("broker-1/server.log.1", on_day(10, appended(5, 5, 130)))
    third = night(put("broker-1/server.log", on_day(12, appended(6, 6, 140) + appended(7, 6, 139))))
    one = report_of(audit(spark, str(folder), select=SELECT))
    assert third.settled_until == "2026-11-08T04:00:00.000"
    assert (found(third), counts(third)) == (found(one), counts(one))
    assert [*third.known] == [first.findings[0].finding_id]
    assert "were judged by earlier runs; their verdicts are included" in " ".join(text.render(third).split())
    assert document(third)["settled_until"] == third.settled_until

    # the findings that a report renders again are the same
    again = warehouse.reported(spark, location)
    assert (found(again), counts(again), again.settled_until) == (found(third), counts(third), third.settled_until)

    # a file that comes too late is told, and not judged
    late = LateFile(CLUSTER, "broker-2/server.log", "2026-11-03T04:00:01.000")
    put("broker-2/server.log", on_day(3, appended(1, 9, 10, partition=1) + appended(2, 8, 20, partition=1)))
    fourth = night(folder)
    assert (found(fourth), fourth.late) == (found(third), (late,))
    assert any("broker-2/server.log came late" in why for why in unsettled_of(fourth))
    # and told again, until it is judged
    put("broker-1/server.log", on_day(12, appended(6, 6, 140) + appended(7, 6, 139) + appended(8, 7, 150)))
    assert night(folder).late == (late,)
    rejudged = night(folder, rejudge_ms=at(3))
    one = report_of(audit(spark, str(folder), select=SELECT))
    assert (found(rejudged), counts(rejudged), rejudged.late) == (found(one), counts(one), ())
    assert len(rejudged.findings) == len(third.findings) + 1
    put(
        "broker-1/server.log",
        on_day(12, appended(6, 6, 140) + appended(7, 6, 139) + appended(8, 7, 150) + appended(9, 8, 160)),
    )
    after = night(folder)
    one = report_of(audit(spark, str(folder), select=SELECT))
    assert (found(after), counts(after), after.late) == (found(one), counts(one), ())


def test_only_request_lines_are_not_read_again() -> None:
    record = Evidence("the setting", None, "metadata/0.log", 1, 0, "2026-11-01T00:00:00.000Z", None)
    answer = Evidence("the answer", 1, "broker-1/kafka-request.log", 1, 0, "2026-11-20T00:00:00.000", None)
    one = Finding("id", "LD-03", VIOLATION, HIGH, CLUSTER, *(None,) * 8, "", "", (), (answer, record))
    read = (
        FileRead("metadata/0.log", "metadata-log-segment", None, *(0,) * 5, cluster=CLUSTER),
        FileRead("broker-1/kafka-request.log", "request-log-json", 1, *(0,) * 5, cluster=CLUSTER),
    )
    read_again = files_read_again(read)
    assert not has_line_before(one, "2026-11-20T00:00:00.000", read_again)
    assert has_line_before(one, "2026-11-20T00:00:00.001", read_again)
    # a file that is not known, or of another cluster
    assert has_line_before(one, "2026-11-02T00:00:00.000", files_read_again(read[1:]))
    assert has_line_before(replace(one, cluster="other"), "2026-11-02T00:00:00.000", read_again)


def at(day: int) -> int:
    """Midnight of a day of November 2026, in milliseconds."""
    return round(datetime(2026, 11, day, tzinfo=UTC).timestamp() * 1000)


def test_a_night_reads_no_requests_of_settled_days(
    spark: SparkSession, capture: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real incident, cut in time: the second night judges its last part, with the findings of one audit of all."""
    source, folder, location = capture(CAPTURE), tmp_path / CAPTURE, str(tmp_path / "warehouse")
    monkeypatch.setattr(settling, "SETTLED_TO_MS", 10_000)
    monkeypatch.setattr(settling, "LOOK_BACK_MS", 45_000)  # less than the capture has before what is settled
    whole = report_of(audit(spark, str(source), select=OF_FETCHES))
    earliest: list[int] = []  # of the request lines that each night judged

    def judging(read: Reading, *options: Any) -> Audit:
        earliest.append(read.events.where("source = 'request_log'").agg(F.min("time_ms")).collect()[0][0])
        return evaluate_rules(read, *options)

    monkeypatch.setattr(nightly, "evaluate_rules", judging)

    def delivered(share: float) -> Report:
        for path in source.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                copy = folder / path.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                end = round(len(content) * share) if path.name == "kafka-request.log" else len(content)
                copy.write_bytes(content[:end])
        return audited(spark, location, folder, select=OF_FETCHES, settle_after_ms=10_000)

    first = delivered(0.7)
    second = delivered(1)
    assert first.settled_until is None
    assert second.settled_until is not None
    assert set(found(second)) >= set(found(first))
    assert found(second) == found(whole)
    assert earliest[-1] - earliest[0] >= 10_000
    breaches = [(rule.rule, rule.count("violation"), rule.count("exposed")) for rule in second.rules]
    assert breaches == [(rule.rule, rule.count("violation"), rule.count("exposed")) for rule in whole.rules]


def test_tallies_add_up() -> None:
    some = Tally("SR-01", {"pass": 2, "violation": 1}, {})
    more = Tally("SR-01", {"pass": 3, "unverifiable": 2}, {"why": 2})
    other = Tally("IS-01", {"pass": 0}, {})
    sums = added({"SR-01": some}, [more, other])
    assert sums["SR-01"] == Tally("SR-01", {"pass": 5, "violation": 1, "unverifiable": 2}, {"why": 2})
    assert stored(sums.values()) == (
        '{"SR-01":{"unverifiable_reasons":{"why":2},"verdicts":{"pass":5,"unverifiable":2,"violation":1}}}'
    )


def test_settled_breaches_are_as_many_as_their_open_findings() -> None:
    listed = {("SR-01", "violation"): 3}
    tally = Tally("SR-01", {"pass": 7, "violation": 4, "exposed": 2_001, "unverifiable": 1}, {"why": 1})
    assert as_listed(tally, listed, ("violation", "exposed")) == Tally(
        "SR-01", {"pass": 7, "violation": 3, "exposed": 2_001, "unverifiable": 1}, {"why": 1}
    )
