"""Missing evidence: other evidence names or implies it, and the capture lacks it.

A kind of log that no node has is not missing in this sense: the report states what was judged without it. A node that others
name, a log that its neighbours have, a rotated file between two others, or a log that ends while its node still runs is: its
lines could have held findings, so that a result without them is not a clean one. So is a rotated file that was written over, a part
of the metadata log between its records, and a request that the numbers of its sender's other requests imply.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from epochaudit.findings.evidence import iso_time
from epochaudit.inventory.inventory import LOGS, METADATA_LOG, REQUEST_LOG, STATE_CHANGE_LOG, Missing, NodeRead, Process
from epochaudit.kafka.field_values import BROKER
from epochaudit.sources.files.rotation import rotations
from epochaudit.sources.formats import EMPTY

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import CaptureFile

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
LONG_SILENCE_MS: Final = 10 * 60_000
SHORTEST_TAIL_MS: Final = 60_000
FEWEST_ANSWERS: Final = 100  # if fewer were to be expected in the silent time, silence proves nothing
ZONE_STEP_MS: Final = 15 * 60_000  # clocks that print no zone differ by multiples of it
EMPTY_LOG: Final = "its file is empty: no request reached the node, or its logger is off"
_DATED: Final = re.compile(r"(?P<base>.+\.log)\.(?P<date>\d{4}-\d\d-\d\d)(?:-(?P<hour>\d\d))?(?:\.\w{2,4})?$")

Row = Mapping[str, Any]
Spans = Mapping[tuple[str, str], tuple[int, int]]
"""First and last time of each file's dated lines, by cluster and path."""


@dataclass(frozen=True, order=True)
class MetadataHole:
    """Records of a cluster's metadata log that no copy has: from the first to the last offset, or a part of a snapshot, by its path."""

    cluster: str
    first_offset: int = -1
    last_offset: int = -1
    snapshot: str = ""


@dataclass(frozen=True, order=True)
class RequestGap:
    """Requests that a node's log lacks between others, with the columns of `request_gaps`."""

    cluster: str
    node: int
    missing: int
    recorded: int
    from_ms: int
    until_ms: int


@dataclass(frozen=True)
class Seen:
    """What the events show about the nodes.

    rows: events by process and source, of requests the partitions that were answered. last_fetch_ms: when another broker
    last logged a Fetch of this replica; its keys are all nodes that others name. light: the nodes whose request log leaves
    routine answers out on purpose, so that its silence proves nothing. shutdown_ms: when processes began their last shutdown.
    metadata_holes: records that no copy of a metadata log has. request_gaps: requests that senders numbered, and that are not logged.
    """

    rows: Mapping[Process, Mapping[str, int]]
    last_fetch_ms: Mapping[Process, int | None]
    light: AbstractSet[Process] = frozenset()
    shutdown_ms: Mapping[Process, int] = field(default_factory=dict)
    metadata_holes: Sequence[MetadataHole] = ()
    request_gaps: Sequence[RequestGap] = ()


def spans_of(splits: Iterable[Row]) -> dict[tuple[str, str], tuple[int, int]]:
    """`Spans` from the rows of schemas/splits.toml."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for split in splits:
        if split["first_time_ms"] is not None:
            place = split["cluster"], split["file"]
            first, last = spans.get(place, (split["first_time_ms"], split["last_time_ms"]))
            spans[place] = min(first, split["first_time_ms"]), max(last, split["last_time_ms"])
    return spans


def missing_evidence(
    nodes: Sequence[NodeRead],
    missing_nodes: Iterable[Process],
    files: Sequence[CaptureFile],
    spans: Spans,
    seen: Seen,
) -> tuple[Missing, ...]:
    """All missing evidence, nodes first."""
    return (
        *_nodes(missing_nodes, seen),
        *_logs(nodes, files, seen),
        *_holes(seen),
        *_rotated(files),
        *_written_over(files, spans),
        *_silences([file for file in files if (file.cluster, file.node) not in seen.light], spans),
        *_tails(nodes, files, spans, seen),
        *_request_gaps(seen),
    )


def _nodes(missing_nodes: Iterable[Process], seen: Seen) -> Iterator[Missing]:
    for cluster, node in missing_nodes:
        remedy = "collect its log directory, or name the node of its folder in capture.toml"
        yield Missing(
            cluster,
            node,
            f"all logs of node {node}, which others name",
            remedy,
            _usual(cluster, seen),
            as_others=True,
            logs=tuple(LOGS),
        )


def _logs(nodes: Sequence[NodeRead], files: Sequence[CaptureFile], seen: Seen) -> Iterator[Missing]:
    """Logs that a node lacks and another node of its cluster has.

    A state-change.log that is there, but empty, is not missing: a broker without partitions writes nothing to it. An empty request log
    may be of a node that was asked nothing, but nothing shows that its logger is on.
    """
    names = {(file.cluster, os.path.basename(file.path)): file.source for file in files if file.source in LOGS}
    empty = {
        (file.cluster, file.node, names.get((file.cluster, os.path.basename(file.path))))
        for file in files
        if file.kind == EMPTY
    }
    for node in nodes:
        others = [other for other in nodes if other.cluster == node.cluster and other.node != node.node]
        for source in node.missing_logs:
            is_empty = (node.cluster, node.node, source) in empty
            if is_empty and source == STATE_CHANGE_LOG:
                continue
            have = [one.node for one in others if source in seen.rows.get((one.cluster, one.node), {})]
            if have:
                answers = _usual(node.cluster, seen) if source == REQUEST_LOG else None
                others_wrote = f"add it: node{'' if len(have) == 1 else 's'} {', '.join(map(str, have))} wrote one"
                remedy = EMPTY_LOG if is_empty else others_wrote
                what = f"{LOGS[source]} of node {node.node}"
                yield Missing(node.cluster, node.node, what, remedy, answers, as_others=True, logs=(source,))


def _usual(cluster: str, seen: Seen) -> int | None:
    """Average number of answered partitions of the cluster's nodes with a request log."""
    answered = [rows[REQUEST_LOG] for (name, _), rows in seen.rows.items() if name == cluster and REQUEST_LOG in rows]
    return round(mean(answered)) if answered else None


def _rotated(files: Iterable[CaptureFile]) -> Iterator[Missing]:
    """Rotated files whose numbers lie between present ones."""
    numbers: dict[tuple[str, int | None, str], set[int]] = defaultdict(set)
    hours: dict[tuple[str, int | None, str, bool], set[datetime]] = defaultdict(set)
    sources: dict[tuple[str, int | None, str], set[str]] = defaultdict(set)
    for file in files:
        if dated := _period(file):
            base, moment, step = dated
            hours[file.cluster, file.node, base, step == HOUR].add(moment)
        elif not file.absent and (numbered := rotations(file.path)):
            base, number = numbered
            numbers[file.cluster, file.node, base].add(number)
        else:
            continue
        if file.source is not None:
            sources[file.cluster, file.node, base].add(file.source)
    for (cluster, node, base), found in sorted(numbers.items(), key=str):
        logs = tuple(sorted(sources[cluster, node, base]))
        for absent in sorted(set(range(1, max(found))) - found):
            yield Missing(cluster, node, f"{base}.{absent}, between rotated files", logs=logs)
    for (cluster, node, base, hourly), moments in sorted(hours.items(), key=str):
        logs = tuple(sorted(sources[cluster, node, base]))
        step = HOUR if hourly else DAY
        for before, after in pairwise(sorted(moments)):
            if after - before > step:
                shown = "%Y-%m-%d-%H" if hourly else "%Y-%m-%d"
                first, last = (before + step).strftime(shown), (after - step).strftime(shown)
                until = "" if first == last else f" to {last}"
                yield Missing(cluster, node, f"{base}.{first}{until}, between rotated files", logs=logs)


def _period(file: CaptureFile) -> tuple[str, datetime, timedelta] | None:
    """Of a file with a date in its name: the name without it, and begin and length of the hour or day."""
    match = _DATED.fullmatch(file.path)
    if match is None:
        return None
    try:
        begin = datetime.fromisoformat(f"{match['date']}T{match['hour'] or '00'}:00:00")
    except ValueError:
        return None
    return match["base"], begin, HOUR if match["hour"] else DAY


def _written_over(files: Iterable[CaptureFile], spans: Spans) -> Iterator[Missing]:
    """Rotated files that have none of the lines of the hour or day in their name, but those after.

    log4j 2 rotates once more if a process starts again soon after the turn of an hour, and then writes over the file of that hour. The
    host's time zone is known from another file of the node whose lines begin in the hour of its name.
    """
    dated: dict[Process, list[tuple[str, datetime, timedelta, datetime, tuple[str, ...]]]] = defaultdict(list)
    for file in files:
        period, span = _period(file), spans.get((file.cluster, file.path))
        if period is not None and span is not None and file.node is not None:
            _, begin, step = period
            first = datetime.fromtimestamp(span[0] / 1000, UTC).replace(tzinfo=None)
            logs: tuple[str, ...] = () if file.source is None else (file.source,)
            dated[file.cluster, file.node].append((file.path, begin, step, first, logs))
    for (cluster, node), of_node in sorted(dated.items()):
        if not any(begin <= first < begin + step for _, begin, step, first, _ in of_node):
            continue
        for path, begin, step, first, logs in sorted(of_node):
            if begin + step <= first < begin + 2 * step:
                missed = begin.strftime("day %Y-%m-%d" if step == DAY else "hour %Y-%m-%d-%H")
                what = f"the {missed} in {path}, which begins at {iso_time(spans[cluster, path][0], zoned=False)}"
                yield Missing(
                    cluster,
                    node,
                    what,
                    "a restart rotated the log again, over this file: nothing has these lines any more",
                    logs=logs,
                )


def _silences(files: Iterable[CaptureFile], spans: Spans) -> Iterator[Missing]:
    """Request logs of a node that end long before the next one begins."""
    by_node: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    for file in files:
        if file.source == REQUEST_LOG and file.node is not None and (file.cluster, file.path) in spans:
            by_node[file.cluster, file.node].append((*spans[file.cluster, file.path], file.path))
    for (cluster, node), parts in sorted(by_node.items()):
        ended, path = parts[0][1], parts[0][2]
        for first, last, after in sorted(parts):
            if first - ended > LONG_SILENCE_MS:
                minutes = (first - ended) // 60_000
                what = f"{minutes:,} minutes of the request log of node {node}, between {path} and {after}"
                yield Missing(cluster, node, what, logs=(REQUEST_LOG,))
            if last >= ended:
                ended, path = last, after


def _tails(nodes: Iterable[NodeRead], files: Sequence[CaptureFile], spans: Spans, seen: Seen) -> Iterator[Missing]:
    """Logs that end long before other evidence of their node's activity.

    A broker answers fetches as long as it runs, so that its request log ends with the process: with its other logs, and
    with its own fetches at other brokers. A controller may have nothing to answer, nor a broker from the begin of its shutdown.
    """
    ends: dict[Process, dict[str, tuple[int, int]]] = defaultdict(dict)
    for file in files:
        if file.source is not None and file.node is not None and (file.cluster, file.path) in spans:
            first, last = spans[file.cluster, file.path]
            before = ends[file.cluster, file.node].get(file.source, (first, last))
            ends[file.cluster, file.node][file.source] = min(first, before[0]), max(last, before[1])
    for node in nodes:
        process = node.cluster, node.node
        own = ends.get(process, {})
        if BROKER not in node.roles or REQUEST_LOG not in own or process in seen.light:
            continue
        first, last = own[REQUEST_LOG]
        rate = seen.rows.get(process, {}).get(REQUEST_LOG, 0) / max(last - first, 1)
        shortest = max(SHORTEST_TAIL_MS, (last - first) // 10)
        lived = {
            "its other logs go on": max(end for _, end in own.values()),
            "others answered its fetches": _on_its_clock(seen.last_fetch_ms.get(process), last),
        }
        ended = seen.shutdown_ms.get(process)
        for why, until in lived.items():
            until = until if ended is None else min(until, ended)
            answers = round(rate * (until - last))
            if until - last > shortest and answers >= FEWEST_ANSWERS:
                since, last_sign = iso_time(last, zoned=False), iso_time(until, zoned=False)
                what = f"the end of the request log of node {node.node}: it stops at {since}, {why} until {last_sign}"
                yield Missing(
                    node.cluster, node.node, what, "add the newer files of this log", answers, logs=(REQUEST_LOG,)
                )
                break


def _holes(seen: Seen) -> Iterator[Missing]:
    """Records of metadata logs between others, and parts of snapshots."""
    for hole in sorted(seen.metadata_holes):
        if hole.snapshot:
            what, remedy = f"a part of the snapshot {hole.snapshot}", "no record of it is used: copy the file again"
        else:
            first, last = hole.first_offset, hole.last_offset
            offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
            what = f"the part of the metadata log with {offsets}"
            remedy = "no copy has it: add the segment of __cluster_metadata-0, from any controller or broker"
        yield Missing(hole.cluster, None, what, remedy, logs=(METADATA_LOG,))


def _request_gaps(seen: Seen) -> Iterator[Missing]:
    """Requests between others, except of nodes whose request log leaves some out on purpose."""
    for gap in sorted(seen.request_gaps):
        process = gap.cluster, gap.node
        if process in seen.light:
            continue
        requests = "request" if gap.missing == 1 else "requests"
        since, until = iso_time(gap.from_ms, zoned=False), iso_time(gap.until_ms, zoned=False)
        what = f"a part of the request log of node {gap.node}, at least {gap.missing:,} {requests} between {since} and {until}"
        remedy = (
            f"their senders number requests, and {gap.missing:,} of {gap.missing + gap.recorded:,} numbers are skipped: "
            "look for a rate limit, a filter or an appender that drops lines"
        )
        answers = round(seen.rows.get(process, {}).get(REQUEST_LOG, 0) * gap.missing / gap.recorded)
        yield Missing(*process, what, remedy, answers or None, logs=(REQUEST_LOG,))


def _on_its_clock(other_ms: int | None, own_ms: int) -> int:
    """A time of another host; ignored if a different time zone alone could explain the difference."""
    if other_ms is None:
        return own_ms
    beyond_zones = (other_ms - own_ms) % ZONE_STEP_MS
    near_zone = min(beyond_zones, ZONE_STEP_MS - beyond_zones) < SHORTEST_TAIL_MS
    return own_ms if other_ms - own_ms >= ZONE_STEP_MS - SHORTEST_TAIL_MS and near_zone else other_ms


def absent_logs(nodes: Sequence[NodeRead]) -> tuple[str, ...]:
    """The sources of LOGS that no node has."""
    return tuple(source for source in LOGS if nodes and all(source in node.missing_logs for node in nodes))
