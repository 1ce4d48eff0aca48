"""OpenMetrics: what node_exporter reads, and what an alert can rely on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from epochaudit.findings.finding import Finding
from epochaudit.report import openmetrics
from epochaudit.report.contents import Acceptance, Report
from epochaudit.spark.run_metrics import Metrics


def measured() -> Metrics:
    return Metrics(seconds={"reading": 1.5, "judging": 4.0}, read={"files": 2, "bytes": 2_550_000, "quarantined": 1})


def families(report: Report | None, code: int = 1) -> dict[str, Metric]:
    text = openmetrics.render(report, measured(), code)
    return {family.name: family for family in openmetrics_parser.text_string_to_metric_families(text)}


def samples(report: Report | None, name: str) -> Iterator[tuple[dict[str, str], float]]:
    return ((sample.labels, sample.value) for sample in families(report)[name].samples)


def test_verdicts_have_their_rule(report: Report) -> None:
    counts = {tuple(labels.values()): value for labels, value in samples(report, "epochaudit_subjects")}
    assert counts["FF-01", "pass"] == 41_000
    assert counts["SR-01", "violation"] == 1
    assert counts["TI-01", "violation"] == 0


def test_accepted_and_known_findings_are_told_apart(report: Report, finding: Finding) -> None:
    found = (finding, replace(finding, finding_id="a" * 24), replace(finding, finding_id="b" * 24))
    accepted = {finding.finding_id: Acceptance("a drill", "storage", date(2027, 2, 20))}
    given = replace(report, findings=found, accepted=accepted, known={"a" * 24: "2026-11-20T02:00:00"})
    subject = {"rule": "SR-01", "verdict": "violation", "severity": "critical", "cluster": "west"}
    assert [*samples(given, "epochaudit_findings")] == [
        ({**subject, "accepted": accepts, "known": known}, 1)
        for accepts, known in (("true", "false"), ("false", "true"), ("false", "false"))
    ]


def test_lost_records_and_missing_logs_have_their_cluster(lacking: Report, finding: Finding) -> None:
    lost = replace(finding, rule="TR-06", first_offset=10, last_offset=29)
    assert [*samples(replace(lacking, findings=(lost,)), "epochaudit_lost_records")] == [({"cluster": "west"}, 20)]
    assert [*samples(lacking, "epochaudit_missing_evidence")] == [({"cluster": "west"}, 2)]


def test_names_end_in_their_units(report: Report) -> None:
    units = {name: family.unit for name, family in families(report).items() if family.unit}
    assert units == {
        "epochaudit_run_start_timestamp_seconds": "seconds",
        "epochaudit_run_finish_timestamp_seconds": "seconds",
        "epochaudit_run_stage_duration_seconds": "seconds",
        "epochaudit_read_bytes": "bytes",
    }


def test_a_run_that_failed_has_its_exit_code_and_no_verdicts() -> None:
    assert [*samples(None, "epochaudit_run_exit_code")] == [({}, 1)]
    assert "epochaudit_subjects" not in families(None)


def test_the_older_text_format_that_node_exporter_reads_has_the_same_samples(report: Report) -> None:
    text = openmetrics.render(report, measured(), 1)
    older = {family.name: family for family in text_string_to_metric_families(text)}
    newer = families(report)
    assert older.keys() == newer.keys()
    same = newer.keys() - {"epochaudit_run_finish_timestamp_seconds", "epochaudit_run_start_timestamp_seconds"}
    assert all(older[name].samples == newer[name].samples for name in same)
    assert {family.type for family in older.values()} == {"gauge"}
    assert not any(
        sample.timestamp for family in older.values() for sample in family.samples
    )  # the collector refuses one


@pytest.mark.parametrize("cluster", ['we"st', "we\\st", "we\nst", "we\x1b[2Jst", "\ud800", '"} 1\nevil 1'])
def test_whatever_a_cluster_is_called_its_label_is_one(report: Report, finding: Finding, cluster: str) -> None:
    given = replace(report, findings=(replace(finding, cluster=cluster),))
    ((labels, value),) = samples(given, "epochaudit_findings")
    assert value == 1
    assert labels["cluster"].startswith(("we", "\\ud800", '"} 1'))
    assert "evil" not in families(given)
