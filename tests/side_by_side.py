"""One audit of several captures, and the report of each: planning frames is most of an audit of a small capture."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from epochaudit.inventory.assembly import (
    SPLIT_COLUMNS,
    gaps_of_requests,
    holes_of_metadata_logs,
    inventory,
    last_fetches_of_named_nodes,
)
from epochaudit.inventory.inventory import Inventory, event_counts, event_groups
from epochaudit.pipeline import Audit, audit
from epochaudit.report import json_report
from epochaudit.report.assembly import report_of
from epochaudit.sources.discovery.discovery import capture_of, inspected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from epochaudit.report.contents import Report
    from epochaudit.sources.files.capture import Capture


def named(name: str, path: Path) -> Capture:
    """The capture in a folder, as of a cluster of this name."""
    return capture_of(replace(inspected(str(path)), cluster=name))


def reports_side_by_side(
    spark: SparkSession, captures: Iterable[Capture], *, select: Iterable[str] = (), show: Collection[str] = ()
) -> dict[str, Report]:
    """The report on each cluster of one audit. Counts of verdicts are those of all clusters."""
    audited = audit(spark, *captures, select=select, show=show)
    assert not audited.failures, audited.failures
    whole, inventories = report_of(audited), inventories_of(audited)
    audited.release()
    spark.catalog.clearCache()  # a process audits once; here the session goes on
    return {
        cluster: replace(
            whole,
            inventory=of_cluster,
            findings=tuple(one for one in whole.findings if one.cluster == cluster),
            removals=tuple(one for one in whole.removals if one.cluster == cluster),
            repeated=tuple(one for one in whole.repeated if one.cluster == cluster),
            loops=tuple(one for one in whole.loops if one.cluster == cluster),
            stuck=tuple(one for one in whole.stuck if one.cluster == cluster),
            lost_writes=tuple(one for one in whole.lost_writes if one.cluster == cluster),
        )
        for cluster, of_cluster in inventories.items()
    }


def as_json(report: Report) -> dict[str, Any]:
    """The JSON report, as a program reads it."""
    return cast(dict[str, Any], json.loads(json_report.render(report)))


def inventories_of(audited: Audit) -> Mapping[str, Inventory]:
    """The inventory of each cluster."""
    splits = [row.asDict() for row in audited.splits.select(*SPLIT_COLUMNS).collect()]
    groups = [row.asDict(recursive=True) for row in event_groups(audited.events).collect()]
    nodes = last_fetches_of_named_nodes(audited)
    holes, gaps = holes_of_metadata_logs(audited), gaps_of_requests(audited)
    return {
        capture.cluster: inventory(
            [capture],
            [split for split in splits if split["cluster"] == capture.cluster],
            event_counts(group for group in groups if group["cluster"] == capture.cluster),
            {node: last for node, last in nodes.items() if node[0] == capture.cluster},
            [hole for hole in holes if hole.cluster == capture.cluster],
            [gap for gap in gaps if gap.cluster == capture.cluster],
        )
        for capture in audited.captures
    }
