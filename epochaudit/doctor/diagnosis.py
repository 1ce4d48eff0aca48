"""What a capture can prove: what is in it, what is missing, which rules can be judged and why others can't.

The evidence itself names what is missing: brokers that requests name but no log is of, correlation ids that a
connection skips, rotated files between others, events that a logger gives only at a level it was not set to.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from epochaudit.doctor.remedies import Remedy, remedies
from epochaudit.events.event_types import CONTROLLER_ELECTED
from epochaudit.inventory.inventory import (
    METADATA_LOG,
    REQUEST_LOG,
    SERVER_LOG,
    STATE_CHANGE_LOG,
    Inventory,
    NodeRead,
    Present,
)
from epochaudit.inventory.missing_evidence import Spans, spans_of
from epochaudit.kafka.field_values import BROKER, CONTROLLER
from epochaudit.kafka.releases import VERSION, release
from epochaudit.losses.removal import Segments
from epochaudit.rules.catalogue import catalogue, family_title
from epochaudit.rules.rule import UNVERIFIABLE, VERDICTS

if TYPE_CHECKING:
    from epochaudit.report.contents import RuleResult
    from epochaudit.sources.files.capture import Capture, CaptureFile

JUDGED: Final = "judged"
PARTLY: Final = "partly"
NOT: Final = "not"

OF_METADATA_LOG: Final = (
    "broker_records", "eligible_replicas", "log_copies", "log_directories", "log_order", "metadata", "offline_directories",
)  # fmt: skip
"""Frames whose subjects are the records that every copy of the metadata log has, whatever logs of nodes are missing."""
EPOCH_CACHE_MOVED: Final = release("3.5")  # the release from which LeaderEpochFileCache is in org.apache.kafka.storage

Row = Mapping[str, Any]


@dataclass(frozen=True)
class FilesOfKind:
    """The evidence of one recorded format; times are null if no line has one."""

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
    """Missing evidence of a node, or of the cluster if node is null."""

    cluster: str
    node: int | None
    what: str
    remedy: str | None = None


@dataclass(frozen=True)
class Logger:
    """A logger to configure, with its lines for log4j 1 and log4j 2."""

    name: str
    level: str
    why: str
    log4j: str
    log4j2: str


@dataclass(frozen=True)
class Standing:
    """How many subjects of a family's rules can be judged. reasons: why the others can't, most frequent first."""

    family: str
    title: str
    rules: int
    standing: str
    judged: int
    unverifiable: int
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Diagnosis:
    """The content of `epochaudit doctor`."""

    inventory: Inventory
    kinds: tuple[FilesOfKind, ...]
    notes: tuple[str, ...]  # about single files: duplicates, layouts, what can't be split
    gaps: tuple[Gap, ...]
    standings: tuple[Standing, ...]
    loggers: tuple[Logger, ...]
    remedies: tuple[Remedy, ...] = ()
    segments: tuple[Segments, ...] = ()


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
    "every request with its answer: what clients and followers were given, which writes were acknowledged, and what was refused",
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


def diagnosis(
    captures: Sequence[Capture],
    inventory: Inventory,
    rules: Iterable[RuleResult],
    splits: Iterable[Row],
    present: Present,
    segments: Iterable[Segments] = (),
) -> Diagnosis:
    """From what was read: `splits` of schemas/splits.toml, `present` of `EventCounts`.

    segments: those that would show more of what was truncated.
    """
    files, listed = [file for capture in captures for file in capture.files], list(rules)
    spans = spans_of(splits)
    gaps = [*_missing(inventory), *_unknown(inventory, present)]
    return Diagnosis(
        inventory=inventory,
        kinds=tuple(_kinds(files, inventory, spans)),
        notes=(*_light(inventory), *_notes(files)),
        gaps=tuple(gaps),
        standings=tuple(_standings(listed, incomplete=inventory.incomplete)),
        loggers=tuple(_loggers(inventory, present)),
        remedies=remedies(inventory, listed, _logged_for(files, spans)),
        segments=tuple(segments),
    )


def _kinds(files: Sequence[CaptureFile], inventory: Inventory, spans: Spans) -> Iterable[FilesOfKind]:
    lines = {file.path: file.lines for file in inventory.files}
    by_kind: dict[str, list[CaptureFile]] = defaultdict(list)
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


def _light(inventory: Inventory) -> Iterable[str]:
    for _, node in inventory.light_nodes:
        yield (
            f"request log of node {node}: routine answers are left out on purpose, and do not count as missing; it is not known "
            "what clients read between the recorded answers, what leaders gave out, and which writes they acknowledged"
        )


def _notes(files: Iterable[CaptureFile]) -> Iterable[str]:
    for file in files:
        if file.duplicate_of:
            yield f"{file.path}: its lines are all in {file.duplicate_of}; it is not read"
        elif file.envelope or file.pattern:
            layout = " in ".join(part for part in (file.pattern, file.envelope) if part)
            yield f"{file.path}: lines are laid out as {layout}"
        if (file.compression or file.tar_compression) and file.size > (1 << 28) and not file.duplicate_of:
            yield f"{file.path}: {file.compression or file.tar_compression} can't be split; it is one task"


def _logged_for(files: Iterable[CaptureFile], spans: Spans) -> int:
    """Milliseconds from the first to the last request that any node logged; 0 without a request log."""
    logged = [spans[f.cluster, f.path] for f in files if f.source == REQUEST_LOG and (f.cluster, f.path) in spans]
    return max(last for _, last in logged) - min(first for first, _ in logged) if logged else 0


def _missing(inventory: Inventory) -> Iterable[Gap]:
    """Gaps for evidence that other evidence names or implies."""
    for one in inventory.missing:
        are = "are" if one.what.startswith("all logs") else "is"
        yield Gap(one.cluster, one.node, f"{one} {are} missing", one.remedy)


def _unknown(inventory: Inventory, present: Present) -> Iterable[Gap]:
    """Gaps for facts that no file states and that rules need."""
    for node in inventory.nodes:
        if node.kafka is None:
            yield Gap(
                node.cluster, node.node, f"the Kafka version of node {node.node} is not known",
                "add the server.log of its last start, or state `kafka` in capture.toml",
            )  # fmt: skip
    for cluster in inventory.clusters:
        if REQUEST_LOG in present.get((cluster, None), {}):
            yield Gap(
                cluster, None, "there are request logs whose node is unknown",
                "name the node of each folder in capture.toml",
            )  # fmt: skip
        kraft = any(
            CONTROLLER in node.roles and BROKER not in node.roles and not _elected_by_zookeeper(node, present)
            for node in inventory.nodes
        )
        if kraft and METADATA_LOG not in present.get((cluster, None), {}):
            yield Gap(
                cluster, None, "no metadata log: what the controller committed can't be judged",
                "add the segments and snapshots of __cluster_metadata-0, or their dump",
            )  # fmt: skip


def _elected_by_zookeeper(node: NodeRead, present: Present) -> bool:
    """Whether the node logged that ZooKeeper made it the controller: such a cluster has no metadata log."""
    return any(CONTROLLER_ELECTED in types for types in present.get((node.cluster, node.node), {}).values())


def _standings(rules: Iterable[RuleResult], *, incomplete: bool) -> Iterable[Standing]:
    frames = {rule.id: rule.frame for rule in catalogue()}
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
        of_nodes = any(frames.get(rule.rule) not in OF_METADATA_LOG for rule in members)
        standing = NOT if not judged else PARTLY if unverifiable or (incomplete and of_nodes) else JUDGED
        ordered = tuple(sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0])))
        yield Standing(family, family_title(family), len(members), standing, judged, unverifiable, ordered)


def _loggers(inventory: Inventory, present: Present) -> Iterable[Logger]:
    """The loggers that would close the gaps, each once."""
    brokers = [present.get((node.cluster, node.node), {}) for node in inventory.nodes]
    for source, wanted in LOGGERS.items():
        if any(source in node.missing_logs for node in inventory.nodes):
            yield wanted
    epoch_lines_recorded = any(
        "EPOCH_CACHE" in event for sources in brokers for events in sources.values() for event in events
    )
    if brokers and not epoch_lines_recorded:
        moved = {_epoch_cache_moved(node) for node in inventory.nodes}
        yield from (wanted for wanted, after in zip(EPOCH_CACHE, (False, True), strict=True) if {after, None} & moved)


def _epoch_cache_moved(node: NodeRead) -> bool | None:
    """True if the class is in its later package; None if the version is unknown."""
    version = re.match(VERSION, node.kafka or "")
    return None if version is None else release(version[0]) >= EPOCH_CACHE_MOVED
