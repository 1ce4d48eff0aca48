"""Builds the report of an audit from what the inventory, the losses and the rules collect on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from epochaudit.findings.evidence import LineNumbers, Place
from epochaudit.findings.finding import EvidenceReader, findings, with_consequences
from epochaudit.inventory.assembly import (
    SPLIT_COLUMNS,
    counted_events,
    gaps_of_requests,
    holes_of_metadata_logs,
    inventory,
    last_fetches_of_named_nodes,
    read_totals,
)
from epochaudit.inventory.inventory import (
    METADATA_LOG,
)
from epochaudit.losses.truncations import removals_of
from epochaudit.report.contents import Report, RuleResult
from epochaudit.report.lost_writes import lost_writes_of
from epochaudit.report.repetition import fetch_loops, loops_in, repeated_in
from epochaudit.report.stuck_members import stuck_members_of
from epochaudit.sources.formats import BY_KIND, Unit
from epochaudit.spark.run_metrics import of_run
from epochaudit.version import VERSION

if TYPE_CHECKING:
    from epochaudit.pipeline import Audit
    from epochaudit.rules.judge import Tally
    from epochaudit.rules.rule import Rule
    from epochaudit.sources.files.capture import Capture, CaptureFile


Row = Mapping[str, Any]


def report_of(audit: Audit) -> Report:
    """The report of an audit. Collects small aggregates and the listed findings, and reads the findings' lines."""
    with audit.tuned():
        return _report_of(audit)


def _report_of(audit: Audit) -> Report:
    with ThreadPoolExecutor() as pool:  # small jobs, of which Spark plans one while it runs another
        listing, counting, naming, finding_holes, finding_gaps, looping = (
            pool.submit(audit.listed),
            pool.submit(counted_events, audit),
            pool.submit(last_fetches_of_named_nodes, audit),
            pool.submit(holes_of_metadata_logs, audit),
            pool.submit(gaps_of_requests, audit),
            pool.submit(lambda: [row.asDict() for row in fetch_loops(audit.events).collect()]),
        )
        splits = [row.asDict() for row in audit.splits.select(*SPLIT_COLUMNS).collect()]
        rows, counts, named = listing.result(), counting.result(), naming.result()
        holes, gaps = finding_holes.result(), finding_gaps.result()
    of_run().read = read_totals(splits)
    recorded, read = recording(audit.captures, splits), inventory(audit.captures, splits, counts, named, holes, gaps)
    lost_writes, lost_writes_cut = lost_writes_of(audit, recorded)
    found = findings(rows, recorded, {rule.id: rule.caused_by for rule in audit.rules})
    return Report(
        version=VERSION,
        inventory=read,
        rules=rule_results(audit.rules, audit.tallies),
        findings=found,
        failures=audit.failures,
        left_out=audit.left_out,
        removals=removals_of(audit, rows),
        repeated=repeated_in(with_consequences(found), audit.repeated(), audit.left_out.keys()),
        loops=loops_in(looping.result()),
        stuck=stuck_members_of(audit.events, read, recorded),
        lost_writes=lost_writes,
        lost_writes_cut=lost_writes_cut,
        roots={capture.cluster: capture.root for capture in audit.captures},
    )


def recording(captures: Iterable[Capture], splits: Iterable[Row]) -> EvidenceReader:
    """Access to the evidence in the captures' files. Needs cluster, file, split and lines of `splits`."""
    by_place = {(file.cluster, file.path): file for capture in captures for file in capture.files}

    def file_of(place: Place) -> CaptureFile:
        return by_place[place.cluster, place.file]

    def unit_of(place: Place) -> Unit:
        return BY_KIND[file_of(place).kind].unit

    return EvidenceReader(
        open_file=lambda place: file_of(place).open(),
        numbers=LineNumbers({(split["cluster"], split["file"], split["split"]): split["lines"] for split in splits}),
        zoned=lambda place: file_of(place).time_zone is not None or file_of(place).source == METADATA_LOG,
        holds_records=lambda place: unit_of(place) is Unit.RECORD,
        holds_batches=lambda place: unit_of(place) is Unit.BATCH,
    )


def rule_results(rules: Iterable[Rule], tallies: Iterable[Tally]) -> tuple[RuleResult, ...]:
    """The result of each rule, in the catalogue's order, including rules without subjects."""
    tally_of = {tally.rule: tally for tally in tallies}
    return tuple(
        RuleResult(
            rule=rule.id,
            name=rule.name,
            title=rule.title,
            kip=rule.kip,
            severity=rule.severity,
            verdicts=dict(tally_of[rule.id].counts),
            unverifiable_reasons=dict(tally_of[rule.id].reasons),
            what_to_do=rule.what_to_do,
        )
        for rule in rules
    )
