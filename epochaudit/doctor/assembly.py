"""The diagnosis of an audit: small aggregates are collected on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochaudit.doctor.diagnosis import Diagnosis, diagnosis
from epochaudit.inventory.assembly import (
    SPLIT_COLUMNS,
    counted_events,
    gaps_of_requests,
    holes_of_metadata_logs,
    inventory,
    last_fetches_of_named_nodes,
)
from epochaudit.losses.truncations import removals_of, segments_wanted
from epochaudit.report.assembly import rule_results

if TYPE_CHECKING:
    from epochaudit.pipeline import Audit


def diagnosis_of(audit: Audit) -> Diagnosis:
    """The diagnosis of an audit; collects small aggregates on the driver."""
    with audit.tuned():
        return _diagnosis_of(audit)


def _diagnosis_of(audit: Audit) -> Diagnosis:
    splits = [row.asDict() for row in audit.splits.select(*SPLIT_COLUMNS).collect()]
    counts = counted_events(audit)
    return diagnosis(
        audit.captures,
        inventory(
            audit.captures,
            splits,
            counts,
            last_fetches_of_named_nodes(audit),
            holes_of_metadata_logs(audit),
            gaps_of_requests(audit),
        ),
        rule_results(audit.rules, audit.tallies),
        splits,
        counts.present,
        segments_wanted(audit, removals_of(audit, audit.listed())),
    )
