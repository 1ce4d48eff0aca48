"""An audit has the same result whether runs of like rows are folded or not: on healthy clusters and on broken ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit import pipeline
from epochaudit.events.views import RangeId
from epochaudit.pipeline import audit
from epochaudit.report.assembly import report_of
from epochaudit.report.json_report import render
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.scan import datasource, ranges
from epochaudit.sources.scan.datasource import Scan
from epochaudit.sources.sink import Edges

pytestmark = pytest.mark.thorough

ALWAYS_COMPILED = 1e12  # bytes
SMALL_RANGE = 1 << 19
BROKEN = ("kraft-unclean-truncation-4.1", "kraft-acknowledged-writes-lost-4.1")


def test_folding_changes_nothing_but_the_number_of_rows(
    spark: SparkSession, capture: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "BLOCK", SMALL_RANGE)
    monkeypatch.setattr(datasource, "_scanned_cost", lambda _: ALWAYS_COMPILED)
    again: set[str] = set()  # clusters of which runs were read again between edges

    def read_again(
        spark: SparkSession, read: Scan, ranges: Collection[RangeId], edges: Edges | None = None, *others: Any
    ) -> Scan:
        if edges is not None:
            again.update(cluster for cluster, *_ in ranges)
        return datasource.read_again(spark, read, ranges, edges, *others)

    monkeypatch.setattr(pipeline, "read_again", read_again)
    results = [_result(spark, [str(capture(name)) for name in BROKEN], fold=fold) for fold in (False, True)]
    whole, folded = (rows for _, rows in results)
    assert results[0][0] == results[1][0]
    assert whole.keys() == folded.keys()
    assert len(whole) == len(BROKEN)
    assert all(folded[cluster] < whole[cluster] for cluster in whole)
    assert again == whole.keys(), "no run was read again, though states changed"


def _result(spark: SparkSession, paths: Sequence[str], *, fold: bool) -> tuple[dict[str, Any], dict[str, int]]:
    """The report, and the number of Fetch and Produce rows of the events, by cluster."""
    audited = audit(spark, *map(discover, paths), fold=fold)
    requests = audited.events.where("event_type in ('FETCH', 'PRODUCE')")
    rows = {row["cluster"]: row["count"] for row in requests.groupBy("cluster").count().collect()}
    report = json.loads(render(report_of(audited)))
    audited.release()
    return report, rows


def test_runs_among_the_findings_are_read_in_full(
    spark: SparkSession, capture: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --show pass nothing is folded; here rules list what passed without saying so beforehand."""
    monkeypatch.setattr(datasource, "_scanned_cost", lambda _: ALWAYS_COMPILED)
    monkeypatch.setattr(ranges, "BLOCK", SMALL_RANGE)
    monkeypatch.setattr(pipeline, "REPORTED", (*pipeline.REPORTED, "pass"))
    path = str(capture("zk-healthy-3.9"))
    counts = []
    for fold in (False, True):
        audited = audit(spark, path, select=["FF-01", "FF-04"], fold=fold)
        counts.append((audited.findings.count(), audited.events.where("event_type = 'FETCH'").count()))
        audited.release()
    (findings, whole), (folded_findings, read) = counts
    assert findings == folded_findings > 0
    assert read <= whole
