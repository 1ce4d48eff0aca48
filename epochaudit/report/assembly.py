"""From an audit's tables to a report: the only place where results are brought to the driver."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from epochaudit.diagnosis import Diagnosis, correlation_holes, diagnosis
from epochaudit.evidence import LineNumbers, Place
from epochaudit.findings import Recording, findings
from epochaudit.inventory import (
    LOGS,
    METADATA_LOG,
    STATE_CHANGE_LOG,
    EventCounts,
    FileRead,
    Inventory,
    NodeRead,
    Process,
    event_counts,
    event_groups,
    named_nodes,
)
from epochaudit.metrics import of_run
from epochaudit.report.contents import Report, RuleResult
from epochaudit.report.removals import removals_of
from epochaudit.sources.formats import is_read
from epochaudit.sources.metadata_segment import MetadataSegment
from epochaudit.version import VERSION

if TYPE_CHECKING:
    from epochaudit.auditing import Audit
    from epochaudit.rules.judge import Tally
    from epochaudit.rules.rule import Rule
    from epochaudit.sources.capture import Capture, RecordedFile

SPLIT_COLUMNS: Final = (
    *("cluster", "file", "split", "lines", "event_lines", "ignored_lines", "quarantined_lines"),
    *("requests", "partition_rows", "error_codes", "bytes", "rows"),
)
CONTROLLER: Final = "controller"
SPAN_COLUMNS: Final = ("first_time_ms", "last_time_ms")

Row = Mapping[str, Any]


def report_of(audit: Audit) -> Report:
    """The report of an audit: small aggregates and the listed findings are collected, their lines read back."""
    with ThreadPoolExecutor() as pool:  # small jobs, of which Spark plans one while it runs another
        listing, counting, naming = (
            pool.submit(audit.listed),
            pool.submit(_event_counts, audit),
            pool.submit(_named, audit),
        )
        splits = [row.asDict() for row in audit.splits.select(*SPLIT_COLUMNS).collect()]
        rows, counts, named = listing.result(), counting.result(), naming.result()
    of_run().read = _read(splits)
    return Report(
        version=VERSION,
        inventory=inventory(audit.captures, splits, counts, named),
        rules=rule_results(audit.rules, audit.tallies),
        findings=findings(rows, recording(audit.captures, splits), {rule.id: rule.caused_by for rule in audit.rules}),
        failures=audit.failures,
        left_out=audit.left_out,
        removals=removals_of(audit, rows),
    )


def _read(splits: Sequence[Row]) -> dict[str, int]:
    files = len({(split["cluster"], split["file"]) for split in splits})
    summed = {"bytes": "bytes", "lines": "lines", "rows": "rows", "quarantined": "quarantined_lines"}
    return {"files": files, **{name: sum(split[column] for split in splits) for name, column in summed.items()}}


def diagnosis_of(audit: Audit) -> Diagnosis:
    """The diagnosis of what an audit has read: some small aggregates are collected."""
    splits = [row.asDict() for row in audit.splits.select(*SPLIT_COLUMNS, *SPAN_COLUMNS).collect()]
    counts = _event_counts(audit)
    return diagnosis(
        audit.captures,
        inventory(audit.captures, splits, counts, _named(audit)),
        rule_results(audit.rules, audit.tallies),
        splits,
        counts.present,
        [row.asDict() for row in correlation_holes(audit.events).collect()],
    )


def _event_counts(audit: Audit) -> EventCounts:
    return event_counts(row.asDict(recursive=True) for row in event_groups(audit.events).collect())


def _named(audit: Audit) -> frozenset[Process]:
    return frozenset((row["cluster"], row["named"]) for row in named_nodes(audit.events).collect())


def rule_results(rules: Iterable[Rule], tallies: Iterable[Tally]) -> tuple[RuleResult, ...]:
    """What each rule judged, in the catalogue's order, rules without any subject included."""
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
        )
        for rule in rules
    )


def inventory(
    captures: Sequence[Capture], splits: Iterable[Row], counts: EventCounts, named: AbstractSet[Process]
) -> Inventory:
    """What was read, from the captures' files, the splits table, the event counts and the nodes that events name.

    APIs without event rows (PRODUCE) are counted by the splits, all others by the events.
    """
    by_file: dict[tuple[str, str], list[Row]] = defaultdict(list)
    requests, partition_rows, error_codes = Counter[str](), Counter(counts.partition_rows), Counter(counts.error_codes)
    for split in splits:
        by_file[split["cluster"], split["file"]].append(split)
        requests.update(split["requests"] or {})
        partition_rows.update(split["partition_rows"] or {})
        error_codes.update(_by_api_and_code(split["error_codes"] or {}))
    recorded = sorted(
        (file for capture in captures for file in capture.files), key=lambda file: (file.cluster, file.path)
    )
    read = [file for file in recorded if is_read(file)]
    return Inventory(
        clusters=tuple(sorted({capture.cluster for capture in captures})),
        nodes=tuple(_nodes(captures, counts)),
        files=tuple(_file_read(file, by_file[file.cluster, file.path]) for file in read),
        left_out=dict(sorted(Counter(_left_out_as(file) for file in recorded if not is_read(file)).items())),
        requests=dict(sorted(requests.items())),
        partition_rows=dict(sorted(partition_rows.items())),
        error_codes=_nested(error_codes),
        metadata_records=counts.metadata_records,
        missing_nodes=tuple(sorted(named - counts.present.keys())),
    )


def _left_out_as(file: RecordedFile) -> str:
    return "duplicate" if file.duplicate_of else file.kind


def _by_api_and_code(rows: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """`PRODUCE:0` -> rows as (PRODUCE, 0) -> rows."""
    return {(name.rpartition(":")[0], int(name.rpartition(":")[2])): count for name, count in rows.items()}


def _nested(error_codes: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    nested: dict[str, dict[int, int]] = defaultdict(dict)
    for (api, code), rows in sorted(error_codes.items()):
        nested[api][code] = rows
    return dict(nested)


def _nodes(captures: Iterable[Capture], counts: EventCounts) -> Iterable[NodeRead]:
    """The nodes by cluster and id; what capture.toml says of a version goes before what a log printed."""
    told = {(capture.cluster, node.id): node for capture in captures for node in capture.nodes}
    for cluster, node in sorted(told):
        process = told[cluster, node]
        roles = {*process.roles, *counts.roles.get((cluster, node), ())}
        versions = (process.kafka,) if process.kafka else counts.versions.get((cluster, node), ())
        wanted = [source for source in LOGS if source != STATE_CHANGE_LOG or roles != {CONTROLLER}]
        present = counts.present.get((cluster, node), {})
        missing = tuple(source for source in wanted if source not in present)
        yield NodeRead(cluster, node, tuple(sorted(roles)), versions, missing)


def _file_read(file: RecordedFile, splits: Iterable[Row]) -> FileRead:
    total: dict[str, int] = defaultdict(int)
    for split in splits:
        for name in ("lines", "event_lines", "ignored_lines", "quarantined_lines"):
            total[name] += split[name] or 0
    return FileRead(
        path=file.path,
        kind=file.kind,
        node=file.node,
        bytes=file.size,
        lines=total["lines"],
        events=total["event_lines"],
        ignored=total["ignored_lines"],
        quarantined=total["quarantined_lines"],
    )


def recording(captures: Iterable[Capture], splits: Iterable[Row]) -> Recording:
    """How to read the evidence of these files back."""
    by_place = {(file.cluster, file.path): file for capture in captures for file in capture.files}

    def file_of(place: Place) -> RecordedFile:
        return by_place[place.cluster, place.file]

    return Recording(
        open_file=lambda place: file_of(place).open(),
        numbers=LineNumbers({(split["cluster"], split["file"], split["split"]): split["lines"] for split in splits}),
        zoned=lambda place: file_of(place).time_zone is not None or file_of(place).source == METADATA_LOG,
        holds_records=lambda place: file_of(place).kind == MetadataSegment.kind,
    )
