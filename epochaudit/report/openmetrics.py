"""Metrics of the last run as OpenMetrics text, for a file that node_exporter's textfile collector reads.

All are gauges, since a run counts from zero, and have no time of their own, which the collector refuses. So the text is valid in
Prometheus's older text format, too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from epochaudit.findings.finding import with_consequences
from epochaudit.report.contents import Report
from epochaudit.report.losses import losses_of
from epochaudit.report.neutral import neutral
from epochaudit.rules.rule import VERDICTS
from epochaudit.spark.run_metrics import Metrics
from epochaudit.version import VERSION

PREFIX: Final = "epochaudit"
READ: Final[Mapping[str, str]] = {
    "files": "Files",
    "bytes": "Stored bytes",
    "lines": "Lines",
    "rows": "Rows of events",
    "quarantined": "Lines that could not be read, and are in quarantine,",
}

Values = Iterable[tuple[tuple[str, ...], float]]  # label values, and the number


class _OfRun(Collector):
    """The families of one run, for the library's registry."""

    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._families


def render(report: Report | None, metrics: Metrics, exit_code: int) -> str:
    """The text. A run that failed has no report: then it has no verdicts and no findings, and exit code 2."""
    registry = CollectorRegistry()
    registry.register(_OfRun([*_run(metrics, exit_code), *(_judged(report) if report is not None else ())]))
    text: bytes = generate_latest(registry)
    return text.decode("utf-8")


def _run(metrics: Metrics, exit_code: int) -> Iterator[GaugeMetricFamily]:
    yield _gauge("build_info", "The version that ran; always 1.", ("version",), [((VERSION,), 1)])
    yield _gauge(
        "run_exit_code",
        "Exit code of the last run: 0 clean, 1 findings, 2 failed, 3 incomplete.",
        (),
        [((), exit_code)],
    )
    yield _gauge(
        "run_start_timestamp", "When the last run began.", (), [((), metrics.started_at.timestamp())], "seconds"
    )
    yield _gauge("run_finish_timestamp", "When it ended.", (), [((), time.time())], "seconds")
    durations = [((stage,), seconds) for stage, seconds in metrics.seconds.items()]
    yield _gauge("run_stage_duration", "Wall time of each stage.", ("stage",), durations, "seconds")
    for name, meaning in READ.items():
        if name in metrics.read:
            unit = name if name == "bytes" else ""
            yield _gauge(f"read_{name}", f"{meaning} that the last run read.", (), [((), metrics.read[name])], unit)


def _judged(report: Report) -> Iterator[GaugeMetricFamily]:
    clusters = report.inventory.clusters
    subjects = [((rule.rule, verdict), rule.count(verdict)) for rule in report.rules for verdict in VERDICTS]
    yield _gauge("subjects", "Subjects that each rule judged, by verdict.", ("rule", "verdict"), subjects)
    found = Counter(
        (
            one.rule,
            one.verdict,
            one.severity,
            one.cluster,
            *(_flag(one.finding_id in ids) for ids in (report.accepted, report.known)),
        )
        for one in with_consequences(report.findings)
    )
    labels = ("rule", "verdict", "severity", "cluster", "accepted", "known")
    meaning = "Findings that the report lists; accepted: by the baseline; known: an earlier run over the warehouse reported them."
    yield _gauge("findings", meaning, labels, found.items())
    left_out = [((rule,), count) for rule, count in report.left_out.items()]
    yield _gauge("findings_left_out", "Findings that are counted in subjects, but not listed.", ("rule",), left_out)
    losses = losses_of(report)
    lost = [((cluster,), sum(one.records for one in losses if one.cluster == cluster)) for cluster in clusters]
    yield _gauge("lost_records", "Records that the findings prove lost, at most.", ("cluster",), lost)
    missing = Counter(one.cluster for one in report.inventory.missing)
    absent = [((cluster,), missing[cluster]) for cluster in clusters]
    yield _gauge("missing_evidence", "Logs that other evidence names, and that are not there.", ("cluster",), absent)
    yield _gauge("failed_rules", "Rules that could not be computed.", (), [((), len(report.failures))])


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _gauge(name: str, meaning: str, labels: tuple[str, ...], values: Values, unit: str = "") -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=labels, unit=unit)
    for of_labels, value in values:
        family.add_metric([neutral(label) for label in of_labels], value)
    return family
