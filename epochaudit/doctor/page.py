"""The diagnosis of a capture as text and as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from epochaudit.doctor.diagnosis import JUDGED, NOT, PARTLY, Diagnosis, FilesOfKind, Gap
from epochaudit.findings.evidence import iso_time
from epochaudit.inventory.inventory import LOGS
from epochaudit.report.migrations import migration_lines
from epochaudit.report.page import Page, plural, size_of
from epochaudit.version import VERSION

SCHEMA_VERSION: Final = 1
SHOWN_REASONS: Final = 3  # of a family
SHOWN_NOTES: Final = 20
SHOWN_GAPS: Final = 40
SHOWN_REMEDIES: Final = 5
RAISE: Final = (
    "kafka-configs.sh --bootstrap-server HOST:9092 --alter --entity-type broker-loggers --entity-name N --add-config"
)
"""KIP-412: what is set so lasts until the broker restarts."""
NODE: Final = re.compile(r"\bnode \d+")
STYLE: Final = {JUDGED: "green", PARTLY: "yellow", NOT: "cyan"}


def render_json(diagnosis: Diagnosis) -> str:
    """One document, ending in a newline; its field names are those of the dataclasses in `epochaudit.doctor.diagnosis`."""
    capture = asdict(diagnosis.inventory)
    capture["error_codes"] = {
        api: {str(code): rows for code, rows in codes.items()} for api, codes in capture["error_codes"].items()
    }
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "epochaudit", "version": VERSION},
        "capture": capture,
        "kinds": [
            {
                **asdict(kind),
                "first_time": iso_time(kind.first_time_ms, zoned=False),
                "last_time": iso_time(kind.last_time_ms, zoned=False),
            }
            for kind in diagnosis.kinds
        ],
        "notes": diagnosis.notes,
        "gaps": [asdict(gap) for gap in diagnosis.gaps],
        "families": [{**asdict(standing), "reasons": dict(standing.reasons)} for standing in diagnosis.standings],
        "remedies": [{**asdict(one), "what": str(one)} for one in diagnosis.remedies],
        "segments": [{**asdict(one), "what": str(one)} for one in diagnosis.segments],
        "loggers": [asdict(logger) for logger in diagnosis.loggers],
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def render(diagnosis: Diagnosis, *, width: int = 100, colour: bool = False) -> str:
    """The page, at most `width` columns wide, with terminal colours if asked for."""
    page = Page(width, colour=colour)
    _headline(page, diagnosis)
    _here(page, diagnosis)
    _missing(page, diagnosis.gaps)
    _judged(page, diagnosis)
    _remedies(page, diagnosis)
    _loggers(page, diagnosis)
    return page.text()


def _headline(page: Page, diagnosis: Diagnosis) -> None:
    standings = Counter(standing.standing for standing in diagnosis.standings)
    judged = f"{standings[JUDGED]} can be judged, {standings[PARTLY]} partly, {standings[NOT]} not"
    families = f"{len(diagnosis.standings)} families of rules: {judged}"
    gaps = f"; {plural(len(diagnosis.gaps), 'gap')} in the evidence"
    absent = [LOGS[source] for source in diagnosis.inventory.absent_logs]
    without = f"; no node's {' or '.join(absent)} is here" if absent else ""
    page.say((f"{families}{gaps}{without}", "bold"), hang=2)


def _here(page: Page, diagnosis: Diagnosis) -> None:
    inventory = diagnosis.inventory
    page.heading("What is here")
    page.say((", ".join(inventory.clusters), "bold"), indent=2)
    header = ("kind", "files", "size", "lines", "nodes", "time")
    page.table(header, [_kind_row(kind) for kind in diagnosis.kinds])
    page.blank()
    for node in inventory.nodes:
        roles, versions = ", ".join(node.roles) or "role unknown", ", then ".join(node.versions) or "version unknown"
        page.say((f"node {node.node}: {roles}, Kafka {versions}", ""), indent=2, hang=2)
    for line in migration_lines(inventory):
        page.say((line, ""), indent=2, hang=2)
    if inventory.quarantined:
        worst = sorted((file for file in inventory.files if file.quarantined), key=lambda file: -file.quarantined)
        for file in worst[:SHOWN_NOTES]:
            page.say((f"{file.path}: {file.quarantined:,} of {file.lines:,} lines can't be read", "yellow"), indent=2)
    for note in diagnosis.notes[:SHOWN_NOTES]:
        page.say((note, ""), indent=2, hang=2)
    if len(diagnosis.notes) > SHOWN_NOTES:
        page.say((f"and {len(diagnosis.notes) - SHOWN_NOTES:,} more notes, in --format json", ""), indent=2)


def _kind_row(kind: FilesOfKind) -> Sequence[str]:
    nodes = ", ".join(map(str, kind.nodes)) or "-"
    lines = f"{kind.lines:,}" if kind.read else "not read"
    return (kind.kind, f"{kind.files:,}", size_of(kind.bytes), lines, nodes, _span(kind))


def _span(kind: FilesOfKind) -> str:
    first, last = (iso_time(time, zoned=False) for time in (kind.first_time_ms, kind.last_time_ms))
    if first is None or last is None:
        return "-"
    day, time = first[:10], first[11:19]
    return f"{day} {time} to {last[11:19] if last[:10] == day else last[:19].replace('T', ' ')}"


def _missing(page: Page, gaps: Sequence[Gap]) -> None:
    page.heading("What is missing")
    if not gaps:
        page.say(("Nothing that the evidence itself names.", ""), indent=2)
    alike = _of_several_nodes(gaps)
    for what, remedy in alike[:SHOWN_GAPS]:
        page.say((what, "yellow"), (f": {remedy}" if remedy else "", ""), indent=2, hang=2)
    if len(alike) > SHOWN_GAPS:
        page.say((f"and {len(alike) - SHOWN_GAPS:,} more, in --format json", ""), indent=2)


def _of_several_nodes(gaps: Iterable[Gap]) -> list[tuple[str, str | None]]:
    """What is missing and the remedy, once where only the node differs."""
    nodes: dict[tuple[str, str, str | None], list[int]] = defaultdict(list)
    for gap in gaps:
        of_one = NODE.sub("node {}", gap.what, count=1) if gap.node is not None else gap.what
        nodes[gap.cluster, of_one, gap.remedy] += [] if gap.node is None else [gap.node]
    found = []
    for (_, what, remedy), ids in nodes.items():
        several = "nodes" if len(ids) > 1 else "node"
        found.append((what.replace("node {}", f"{several} {', '.join(map(str, ids))}", 1) if ids else what, remedy))
    return found


def _judged(page: Page, diagnosis: Diagnosis) -> None:
    page.heading("What can be judged")
    without = [one for one in diagnosis.standings if not one.judged and not one.unverifiable]
    for standing in diagnosis.standings:
        if standing in without:
            continue
        verdicts = f"{standing.judged:,} judged"
        if standing.unverifiable:
            verdicts += f", {standing.unverifiable:,} unverifiable"
        page.say(
            (f"{standing.family} {standing.title}: ", ""),
            (standing.standing, STYLE[standing.standing]),
            (f", {verdicts}", ""),
            indent=2,
            hang=2,
        )
        for reason, count in standing.reasons[:SHOWN_REASONS]:
            page.say((f"{count:,} {reason}", ""), indent=6, hang=2)
    if without:
        names = ", ".join(f"{one.family} {one.title}" for one in without)
        page.say((NOT, STYLE[NOT]), (f", as the evidence has no subject of their rules: {names}", ""), indent=2, hang=2)


def _remedies(page: Page, diagnosis: Diagnosis) -> None:
    """The remedies, by the number of subjects that they would settle."""
    absent = [LOGS[source] for source in diagnosis.inventory.absent_logs]
    if not diagnosis.remedies and not absent and not diagnosis.segments:
        return
    page.heading("What would settle more")
    if absent:
        judged = sum(standing.judged for standing in diagnosis.standings)
        without = f"No node's {' or '.join(absent)} is here: {judged:,} subjects were judged by other logs."
        page.say((without, ""), indent=2, hang=2)
    for one in diagnosis.remedies[:SHOWN_REMEDIES]:
        page.say((f"{one}", "bold"), indent=2, hang=2)
        page.say((f"costs: {one.cost}", ""), indent=4, hang=2)
    for of in diagnosis.segments[:SHOWN_REMEDIES]:
        page.say((f"{of}", "bold"), indent=2, hang=2)
        page.say((of.cost, ""), indent=4, hang=2)
    if len(diagnosis.segments) > SHOWN_REMEDIES:
        more = len(diagnosis.segments) - SHOWN_REMEDIES
        page.say((f"and those of {more:,} more partitions, in --format json", ""), indent=2)


def _loggers(page: Page, diagnosis: Diagnosis) -> None:
    if not diagnosis.loggers:
        return
    page.heading("What to log")
    for logger in diagnosis.loggers:
        page.say((f"{logger.name} at {logger.level}", "bold"), (f": {logger.why}", ""), indent=2, hang=2)
        page.copied(f"log4j.properties:  {logger.log4j}", indent=4)
        for number, line in enumerate(logger.log4j2.splitlines()):
            page.copied(("log4j2.yaml:       " if not number else " " * 19) + line, indent=4)
    page.say(
        ("For a short while, without a restart (Kafka 2.4 and newer, each broker N by itself):", ""), indent=2, hang=2
    )
    for logger in diagnosis.loggers:
        page.copied(f"{RAISE} {logger.name}={logger.level}", indent=4)
    page.say(("and afterwards the same with --delete-config and the logger's name.", ""), indent=2, hang=2)
    page.say(("The shipped conf/kafka-log4j.properties and conf/kafka-log4j2.yaml hold them all.", ""), indent=2)
