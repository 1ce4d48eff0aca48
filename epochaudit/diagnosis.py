"""What a capture can prove: what is in it, what is missing, which rules can be judged and why others can't.

Missing evidence is told by the evidence itself: brokers that requests name but no log is of, correlation ids that a
connection skips, rotated files between others, events that a logger gives only at a level it was not set to.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from epochaudit.inventory import (
    LOGS,
    METADATA_LOG,
    REQUEST_LOG,
    SERVER_LOG,
    STATE_CHANGE_LOG,
    Inventory,
    NodeRead,
    Present,
)
from epochaudit.rules.catalogue import family_title
from epochaudit.rules.rule import UNVERIFIABLE, VERDICTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from epochaudit.report.contents import RuleResult
    from epochaudit.sources.capture import Capture, RecordedFile

JUDGED: Final = "judged"
PARTLY: Final = "partly"
NOT: Final = "not"

CONTROL_REQUESTS: Final = ("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA")
EPOCH_CACHE_MOVED: Final = (3, 5)  # the release from which LeaderEpochFileCache is in org.apache.kafka.storage
LONG_SILENCE_MS: Final = 10 * 60_000
SHOWN_HOLES: Final = 5  # connections with holes that are told one by one
_NUMBERED: Final = re.compile(r"(?P<base>.+\.log)\.(?P<number>\d{1,4})(?:\.\w{2,4})?$")
_DATED: Final = re.compile(r"(?P<base>.+\.log)\.(?P<date>\d{4}-\d\d-\d\d)(?:-(?P<hour>\d\d))?(?:\.\w{2,4})?$")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class FilesOfKind:
    """What there is of one recorded format; times are null where no line has one."""

    kind: str
    files: int
    read: bool
    bytes: int
    lines: int
    nodes: tuple[int, ...]
    first_time_ms: int | None
    last_time_ms: int | None


@dataclass(frozen=True)
class Gap:
    """Evidence that is missing: of a node, or of the cluster where node is null."""

    cluster: str
    node: int | None
    what: str
    remedy: str | None = None


@dataclass(frozen=True)
class Logger:
    """A logger that has to be set, with its lines in both generations of log4j's configuration."""

    name: str
    level: str
    why: str
    log4j: str
    log4j2: str


@dataclass(frozen=True)
class Standing:
    """How far the rules of one family can be judged here. reasons: why subjects could not be, most frequent first."""

    family: str
    title: str
    rules: int
    standing: str
    judged: int
    unverifiable: int
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Diagnosis:
    """What `epochaudit doctor` tells."""

    inventory: Inventory
    kinds: tuple[FilesOfKind, ...]
    notes: tuple[str, ...]  # about single files: duplicates, layouts, what can't be split
    gaps: tuple[Gap, ...]
    standings: tuple[Standing, ...]
    loggers: tuple[Logger, ...]


def logger(name: str, level: str, why: str, appender: str | None) -> Logger:
    """The lines that set a logger, in log4j.properties and log4j2.yaml; `appender` is that of Kafka's stock files."""
    log4j = f"log4j.logger.{name}={level}" + (f", {appender}" if appender else "")
    lines = [f"- name: {name}", f"  level: {level.lower()}"]
    if appender:
        lines += ["  additivity: false", "  AppenderRef:", f"    ref: {appender[:1].upper()}{appender[1:]}"]
    return Logger(name, level, why, log4j, "\n".join(lines))


REQUESTS: Final = logger(
    "kafka.request.logger",
    "DEBUG",
    "every request with its answer; nothing can be judged without it",
    "requestAppender",
)
STATE_CHANGES: Final = logger(
    "state.change.logger", "TRACE", "what a broker applied, in the order of application", "stateChangeAppender"
)
SERVER: Final = logger("kafka", "INFO", "versions, settings, start-up and shutdown, elections", None)
EPOCH_CACHE: Final = tuple(
    logger(name, "DEBUG", "where leader epochs start and are cut off: proves what was truncated", None)
    for name in (
        "kafka.server.epoch.LeaderEpochFileCache",
        "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache",
    )
)
LOGGERS: Final = {REQUEST_LOG: REQUESTS, STATE_CHANGE_LOG: STATE_CHANGES, SERVER_LOG: SERVER}


def correlation_holes(events: DataFrame) -> DataFrame:
    """Connections whose correlation ids skip some: (cluster, node, client_id, connection, missing).

    Only those of replica fetchers and of a ZooKeeper controller's channels to brokers, on which no request goes that
    gives no event row: there a skipped id is a line that is not in the logs.
    """
    from pyspark.sql import functions as F

    only_these = F.col("event_type").isin(*CONTROL_REQUESTS) | F.col("client_id").rlike(r"^broker-\d+-fetcher-\d+$")
    requests = events.where((F.col("source") == REQUEST_LOG) & only_these & (F.col("partition_row") == 0))
    ids = F.max("correlation_id") - F.min("correlation_id") + 1
    return (
        requests.groupBy("cluster", "node", "client_id", "connection")
        .agg((ids - F.count_distinct("correlation_id")).alias("missing"))
        .where("missing > 0")
    )


def diagnosis(
    captures: Sequence[Capture],
    inventory: Inventory,
    rules: Iterable[RuleResult],
    splits: Iterable[Row],
    present: Present,
    holes: Iterable[Row],
) -> Diagnosis:
    """From what was read: `splits` of schemas/splits.toml, `present` of `EventCounts`, `holes` as correlation_holes gives them."""
    files = [file for capture in captures for file in capture.files]
    spans = _spans(splits)
    gaps = [
        *_missing_nodes(inventory, present),
        *_missing_logs(inventory, present),
        *_missing_files(files),
        *_silences(files, spans),
        *_holes(holes),
    ]
    return Diagnosis(
        inventory=inventory,
        kinds=tuple(_kinds(files, inventory, spans)),
        notes=tuple(_notes(files)),
        gaps=tuple(gaps),
        standings=tuple(_standings(rules)),
        loggers=tuple(_loggers(inventory, present)),
    )


Spans = Mapping[tuple[str, str], tuple[int, int]]


def _spans(splits: Iterable[Row]) -> Spans:
    """(cluster, file) -> first and last time of its events."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for split in splits:
        if split["first_time_ms"] is not None:
            place = split["cluster"], split["file"]
            first, last = spans.get(place, (split["first_time_ms"], split["last_time_ms"]))
            spans[place] = min(first, split["first_time_ms"]), max(last, split["last_time_ms"])
    return spans


def _kinds(files: Sequence[RecordedFile], inventory: Inventory, spans: Spans) -> Iterable[FilesOfKind]:
    lines = {file.path: file.lines for file in inventory.files}
    by_kind: dict[str, list[RecordedFile]] = defaultdict(list)
    for file in files:
        by_kind["duplicate" if file.duplicate_of else file.kind].append(file)
    for kind, members in sorted(by_kind.items()):
        times = [spans[file.cluster, file.path] for file in members if (file.cluster, file.path) in spans]
        yield FilesOfKind(
            kind=kind,
            files=len(members),
            read=any(file.path in lines for file in members),
            bytes=sum(file.size for file in members),
            lines=sum(lines.get(file.path, 0) for file in members),
            nodes=tuple(sorted({file.node for file in members if file.node is not None})),
            first_time_ms=min((first for first, _ in times), default=None),
            last_time_ms=max((last for _, last in times), default=None),
        )


def _notes(files: Iterable[RecordedFile]) -> Iterable[str]:
    for file in files:
        if file.duplicate_of:
            yield f"{file.path}: its lines are all in {file.duplicate_of}; it is not read"
        elif file.envelope or file.pattern:
            layout = " in ".join(part for part in (file.pattern, file.envelope) if part)
            yield f"{file.path}: lines are laid out as {layout}"
        if (file.compression or file.tar_compression) and file.size > (1 << 28) and not file.duplicate_of:
            yield f"{file.path}: {file.compression or file.tar_compression} can't be split; it is one task"


def _missing_nodes(inventory: Inventory, present: Present) -> Iterable[Gap]:
    for cluster, node in inventory.missing_nodes:
        yield Gap(
            cluster, node, f"node {node} is named by others, but no log of it is here", "collect its logs directory"
        )
    for cluster in inventory.clusters:
        if REQUEST_LOG in present.get((cluster, None), {}):
            yield Gap(
                cluster, None, "there are request logs of which the node can't be told",
                "name the node of each folder in capture.toml",
            )  # fmt: skip


def _missing_logs(inventory: Inventory, present: Present) -> Iterable[Gap]:
    for node in inventory.nodes:
        for source in node.missing_logs:
            remedy = f"set {LOGGERS[source].name} to {LOGGERS[source].level}"
            yield Gap(node.cluster, node.node, f"no {LOGS[source]} of node {node.node}", remedy)
        if node.kafka is None:
            yield Gap(
                node.cluster, node.node, f"the Kafka version of node {node.node} is not known",
                "add the server.log of its last start, or state `kafka` in capture.toml",
            )  # fmt: skip
    for cluster in inventory.clusters:
        kraft = any("controller" in node.roles and "broker" not in node.roles for node in inventory.nodes)
        if kraft and METADATA_LOG not in present.get((cluster, None), {}):
            yield Gap(
                cluster, None, "no metadata log: what the controller committed can't be judged",
                "add the segments and snapshots of __cluster_metadata-0, or their dump",
            )  # fmt: skip


def _missing_files(files: Iterable[RecordedFile]) -> Iterable[Gap]:
    """Rotated files that stand between others."""
    numbers: dict[tuple[str, int | None, str], set[int]] = defaultdict(set)
    hours: dict[tuple[str, int | None, str, bool], set[datetime]] = defaultdict(set)
    for file in files:
        if match := _DATED.fullmatch(file.path):
            try:
                moment = datetime.fromisoformat(f"{match['date']}T{match['hour'] or '00'}:00:00")
            except ValueError:
                continue
            hours[file.cluster, file.node, match["base"], match["hour"] is not None].add(moment)
        elif match := _NUMBERED.fullmatch(file.path):
            numbers[file.cluster, file.node, match["base"]].add(int(match["number"]))
    for (cluster, node, base), found in sorted(numbers.items(), key=str):
        for absent in sorted(set(range(1, max(found))) - found):
            yield Gap(cluster, node, f"{base}.{absent} is missing between rotated files")
    for (cluster, node, base, hourly), moments in sorted(hours.items(), key=str):
        step = timedelta(hours=1) if hourly else timedelta(days=1)
        for before, after in pairwise(sorted(moments)):
            if after - before > step:
                shown = "%Y-%m-%d-%H" if hourly else "%Y-%m-%d"
                first, last = (before + step).strftime(shown), (after - step).strftime(shown)
                until = "" if first == last else f" to {last}"
                yield Gap(cluster, node, f"{base}.{first}{until} is missing between rotated files")


def _silences(files: Iterable[RecordedFile], spans: Spans) -> Iterable[Gap]:
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
                yield Gap(cluster, node, f"{minutes:,} minutes without a request between {path} and {after}")
            if last >= ended:
                ended, path = last, after


def _holes(holes: Iterable[Row]) -> Iterable[Gap]:
    by_node: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for hole in holes:
        by_node[hole["cluster"], hole["node"]].append(hole)
    for (cluster, node), found in sorted(by_node.items(), key=str):
        worst = sorted(found, key=lambda hole: -hole["missing"])
        for hole in worst[:SHOWN_HOLES]:
            what = f"{hole['missing']:,} correlation ids missing of client {hole['client_id']} on {hole['connection']}"
            yield Gap(cluster, node, what, "look for dropped lines: an asynchronous appender, a full disk")
        if len(worst) > SHOWN_HOLES:
            rest = sum(hole["missing"] for hole in worst[SHOWN_HOLES:])
            yield Gap(cluster, node, f"{rest:,} more on {len(worst) - SHOWN_HOLES:,} other connections")


def _standings(rules: Iterable[RuleResult]) -> Iterable[Standing]:
    families: dict[str, list[RuleResult]] = defaultdict(list)
    for rule in rules:
        families[rule.rule.partition("-")[0]].append(rule)
    for family, members in families.items():
        unverifiable = sum(rule.count(UNVERIFIABLE) for rule in members)
        judged = sum(rule.count(verdict) for rule in members for verdict in VERDICTS if verdict != UNVERIFIABLE)
        reasons: dict[str, int] = defaultdict(int)
        for rule in members:
            for reason, count in rule.unverifiable_reasons.items():
                reasons[reason] += count
        standing = NOT if not judged else PARTLY if unverifiable else JUDGED
        ordered = tuple(sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0])))
        yield Standing(family, family_title(family), len(members), standing, judged, unverifiable, ordered)


def _loggers(inventory: Inventory, present: Present) -> Iterable[Logger]:
    """The loggers that would close the gaps, each once."""
    brokers = [present.get((node.cluster, node.node), {}) for node in inventory.nodes]
    for source, wanted in LOGGERS.items():
        if any(source in node.missing_logs for node in inventory.nodes):
            yield wanted
    epochs_told = any("EPOCH_CACHE" in event for sources in brokers for events in sources.values() for event in events)
    if brokers and not epochs_told:
        moved = {_epoch_cache_moved(node) for node in inventory.nodes}
        yield from (wanted for wanted, after in zip(EPOCH_CACHE, (False, True), strict=True) if {after, None} & moved)


def _epoch_cache_moved(node: NodeRead) -> bool | None:
    """The class is in its later package; null if the version is not known."""
    version = re.match(r"(\d+)\.(\d+)", node.kafka or "")
    return None if version is None else (int(version[1]), int(version[2])) >= EPOCH_CACHE_MOVED
