"""The inventory of an audit, from its splits table and small aggregates of its events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from epochaudit.findings.evidence import iso_time
from epochaudit.inventory.inventory import (
    LOGS,
    METADATA_LOG,
    REQUEST_LOG,
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
from epochaudit.inventory.missing_evidence import (
    MetadataHole,
    RequestGap,
    Seen,
    absent_logs,
    missing_evidence,
    spans_of,
)
from epochaudit.inventory.request_gaps import request_gaps
from epochaudit.kafka.field_values import CONTROLLER
from epochaudit.replay.state.metadata_log import missing_offsets
from epochaudit.sources.formats import UNKNOWN, is_read

if TYPE_CHECKING:
    from epochaudit.pipeline import Audit
    from epochaudit.sources.files.capture import Capture, CaptureFile


SPLIT_COLUMNS: Final = (
    *("cluster", "file", "split", "lines", "event_lines", "ignored_lines", "quarantined_lines"),
    *("requests", "partition_rows", "error_codes", "bytes", "rows", "first_time_ms", "last_time_ms"),
)


Row = Mapping[str, Any]


def read_totals(splits: Sequence[Row]) -> dict[str, int]:
    """Numbers of files, bytes, lines, rows and quarantined lines that a run has read, from its splits table."""
    files = len({(split["cluster"], split["file"]) for split in splits})
    summed = {"bytes": "bytes", "lines": "lines", "rows": "rows", "quarantined": "quarantined_lines"}
    return {"files": files, **{name: sum(split[column] for split in splits) for name, column in summed.items()}}


def counted_events(audit: Audit) -> EventCounts:
    """Events of an audit, counted by node, source, API and code."""
    return event_counts(row.asDict(recursive=True) for row in event_groups(audit.events).collect())


def last_fetches_of_named_nodes(audit: Audit) -> dict[Process, int | None]:
    """The nodes that events name, with the time of each node's last Fetch that another node logged."""
    return {(row["cluster"], row["named"]): row["last_fetch_ms"] for row in named_nodes(audit.events).collect()}


def holes_of_metadata_logs(audit: Audit) -> list[MetadataHole]:
    """What no copy of a metadata log has, and snapshots of which a part is missing."""
    if not any(file.source == METADATA_LOG for capture in audit.captures for file in capture.files):
        return []
    return [
        MetadataHole(row["cluster"], snapshot=row["file"])
        if row["file"] is not None
        else MetadataHole(row["cluster"], row["first_offset"], row["last_offset"])
        for row in missing_offsets(audit.events).collect()
    ]


def gaps_of_requests(audit: Audit) -> list[RequestGap]:
    """Requests that are missing between recorded ones, by node."""
    if not any(file.source == REQUEST_LOG for capture in audit.captures for file in capture.files):
        return []
    return [RequestGap(**row.asDict()) for row in request_gaps(audit.events).collect()]


def inventory(
    captures: Sequence[Capture],
    splits: Sequence[Row],
    counts: EventCounts,
    named: Mapping[Process, int | None],
    metadata_holes: Sequence[MetadataHole] = (),
    gaps: Sequence[RequestGap] = (),
) -> Inventory:
    """What was read, from the captures' files, the splits table, the event counts, the nodes that events name (when each was last seen
    to fetch from another, null where it was not), the holes of metadata logs, and the requests that are missing between others.

    PRODUCE, of which a row is a run of answers, is counted by the splits, all other APIs by the events.
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
    nodes = tuple(_nodes(captures, counts, read))
    missing_nodes = tuple(sorted(named.keys() - counts.present.keys()))
    light = counts.light_nodes((node.cluster, node.node) for node in nodes)
    answered = {(cluster, node): rows for (cluster, node), rows in counts.rows.items() if node is not None}
    seen = Seen(answered, named, frozenset(light), counts.shutdown_ms, metadata_holes, gaps)
    first_time, last_time = _time_span(read, splits)
    return Inventory(
        clusters=tuple(sorted({capture.cluster for capture in captures})),
        nodes=nodes,
        files=tuple(_file_read(file, by_file[file.cluster, file.path]) for file in read),
        left_out=dict(sorted(Counter(_left_out_as(file) for file in recorded if not is_read(file)).items())),
        requests=dict(sorted(requests.items())),
        partition_rows=dict(sorted(partition_rows.items())),
        error_codes=_nested(error_codes),
        metadata_records=counts.metadata_records,
        missing_nodes=missing_nodes,
        missing=missing_evidence(nodes, missing_nodes, recorded, spans_of(splits), seen),
        absent_logs=absent_logs(nodes),
        unknown_files=tuple(file.path for file in recorded if file.kind == UNKNOWN),
        migrations=counts.migrations,
        light_nodes=light,
        first_time=first_time,
        last_time=last_time,
    )


def _time_span(recorded: Iterable[CaptureFile], splits: Sequence[Row]) -> tuple[str | None, str | None]:
    """The first and the last time in the nodes' logs; metadata logs and data are older, and count without any log only."""
    logs = {(file.cluster, file.path) for file in recorded if file.source in LOGS}
    timed = [split for split in splits if split["first_time_ms"] is not None]
    of_logs = [split for split in timed if (split["cluster"], split["file"]) in logs] or timed
    if not of_logs:
        return None, None
    first, last = min(split["first_time_ms"] for split in of_logs), max(split["last_time_ms"] for split in of_logs)
    return iso_time(first, zoned=False), iso_time(last, zoned=False)


def _left_out_as(file: CaptureFile) -> str:
    return "duplicate" if file.duplicate_of else file.kind


def _by_api_and_code(rows: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """`PRODUCE:0` -> rows as (PRODUCE, 0) -> rows."""
    return {(name.rpartition(":")[0], int(name.rpartition(":")[2])): count for name, count in rows.items()}


def _nested(error_codes: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    nested: dict[str, dict[int, int]] = defaultdict(dict)
    for (api, code), rows in sorted(error_codes.items()):
        nested[api][code] = rows
    return dict(nested)


def _nodes(captures: Iterable[Capture], counts: EventCounts, read: Iterable[CaptureFile]) -> Iterable[NodeRead]:
    """The nodes by cluster and id. A version in capture.toml takes precedence over logged versions.

    A log of which no line is an event is there all the same: nobody fetches from a broker that leads no partition.
    """
    written = {(file.cluster, file.node, file.source) for file in read}
    known = {(capture.cluster, node.id): node for capture in captures for node in capture.nodes}
    for cluster, node in sorted(known):
        process = known[cluster, node]
        roles = {*process.roles, *counts.roles.get((cluster, node), ())}
        versions = (process.kafka,) if process.kafka else counts.versions.get((cluster, node), ())
        wanted = [source for source in LOGS if source != STATE_CHANGE_LOG or roles != {CONTROLLER}]
        present = counts.present.get((cluster, node), {})
        missing = tuple(source for source in wanted if source not in present and (cluster, node, source) not in written)
        yield NodeRead(cluster, node, tuple(sorted(roles)), versions, missing)


def _file_read(file: CaptureFile, splits: Iterable[Row]) -> FileRead:
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
        cluster=file.cluster,
    )
