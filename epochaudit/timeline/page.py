"""Renders a partition's timeline as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from epochaudit.kafka.field_values import LEADER_DURING_DELETE, NO_LEADER
from epochaudit.report.page import Page, plural
from epochaudit.timeline.event_text import sentence
from epochaudit.timeline.merge import MOST_ROWS, Row, Section, Timeline, TopicTimeline
from epochaudit.timeline.row_text import is_emphasized, stale_note
from epochaudit.version import VERSION

SCHEMA_VERSION: Final = 2
EPOCH_STARTS: Final = frozenset(
    {"LEADER_STARTS", "FOLLOWER_STARTS", "PARTITION_STATE_CHANGED", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"}
)
FIELDS: Final = (
    "event_type", "source", "node", "client_id", "group_id", "replica_id", "correlation_id", "controller_epoch", "partition_epoch",
    "leader", "isr", "error_code", "request_error_code",
)  # fmt: skip
ORDER: Final = (
    "Each row stands under the newest leader epoch that its host had stated by then. There, rows of one host are in the order in "
    "which it wrote them, requests when they were answered: that is certain, but for lines of two files within a millisecond."
)
UNPROVEN: Final = "only the times that the two hosts printed put them in this order, which proves nothing"


def render(timeline: Timeline, *, width: int = 100, colour: bool = False) -> str:
    """The page, at most `width` columns wide, with terminal colours if asked for."""
    page = Page(width, colour=colour)
    topics = len([topic for topic in timeline.topics if topic.topic_known])
    note = f"{plural(topics, 'topic')} of the name, one after the other" if topics > 1 else ""
    if note and topics < len(timeline.topics):
        note += "; rows that may be of either stand apart"
    page.say((f"{timeline.topic}-{timeline.partition}", "bold"), (f": {note}" if note else "", ""), hang=2)
    page.say((f"{ORDER} A ~ begins a row after one of another host: {UNPROVEN}.", "dim"))
    if timeline.left_out:
        page.say((f"Only the first {MOST_ROWS:,} rows were read, by time: what came later is missing", "bold yellow"))
    for topic in timeline.topics:
        _topic(page, topic)
    return page.text()


def _topic(page: Page, topic: TopicTimeline) -> None:
    if topic.topic_known:
        topic_id = f"topic id {topic.topic_id}" if topic.topic_id else "no topic id is recorded"
        page.heading(f"Cluster {topic.cluster}, {topic_id}")
    else:
        page.heading(f"Cluster {topic.cluster}: rows that may be of either topic of the name")
    known = [section for section in topic.sections if section.leader_epoch is not None]
    if known:
        page.table(("leader epoch", "rows", "from offset", "leader"), [_summary(section) for section in known])
    for section in topic.sections:
        title = "Before any leader epoch was stated" if section.leader_epoch is None else title_of(section)
        _rows(page, title, section.rows)
    _rows(page, "Of hosts that state no leader epoch", topic.silent)
    _copies(page, topic.undated)


def leaders_of(section: Section) -> str:
    """The leaders that the rows name, `none` for an election without one."""
    return ", ".join(
        "none" if leader == NO_LEADER else str(leader) for leader in section.leaders if leader > LEADER_DURING_DELETE
    )


def _summary(section: Section) -> tuple[str, ...]:
    start = "" if section.start_offset is None else f"{section.start_offset:,}"
    return str(section.leader_epoch), f"{len(section.rows):,}", start, leaders_of(section) or "not recorded"


def title_of(section: Section) -> str:
    """`Leader epoch 3: leader 2, from offset 94`."""
    leaders = leaders_of(section)
    leader = "" if not leaders else f": leader {leaders}" if "," not in leaders else f": leaders {leaders}"
    start = "" if section.start_offset is None else f", from offset {section.start_offset}"
    return f"Leader epoch {section.leader_epoch}{leader}{start}"


def _rows(page: Page, title: str, rows: Iterable[Row]) -> None:
    day = None
    for number, row in enumerate(rows):
        if not number:
            page.blank()
            page.say((title, "bold"), hang=2)
        if row.time is not None and row.time[:10] != day:
            day = row.time[:10]
            page.say((day, "dim"), indent=2)
        _row(page, row, number)


def _copies(page: Page, rows: Iterable[Row]) -> None:
    by_file = groupby(rows, key=lambda row: (row.host, row.event["file"]))
    for number, ((host, _), of_file) in enumerate(by_file):
        if not number:
            page.blank()
            page.say(("Copies of state files, of an unknown time", "bold"))
        listed = list(of_file)
        text = "; ".join(sentence(row.event) for row in listed)
        page.say((f"{host}  ", "bold"), (text, ""), (f"  {listed[0].place}", "cyan"), indent=2, hang=4)


def _row(page: Page, row: Row, number: int) -> None:
    time = row.time[11:] if row.time else "no time"
    until = f" to {_later(row)}" if row.until and row.until != row.time else ""
    page.say(
        ("  " if row.ordered or not number else "~ ", "yellow"),
        (f"{time}{until}  ", ""),
        (f"{row.host}  ", "bold"),
        (sentence(row.event), _style(row)),
        (stale_note(row), "bold yellow"),
        (f"  {row.place}", "cyan"),
        hang=6,
    )


def _later(row: Row) -> str:
    first, last = row.time or "", row.until or ""
    return last[11:] if first[:10] == last[:10] else last.replace("T", " ")


def _style(row: Row) -> str:
    kind = row.event["event_type"]
    if is_emphasized(row):
        return "bold red"
    return "bold" if kind in EPOCH_STARTS or row.event["delete_partition"] else ""


def render_json(timeline: Timeline) -> str:
    """One JSON document that ends in a newline. Characters outside ASCII are escaped."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "epochaudit", "version": VERSION},
        "topic": timeline.topic,
        "partition": timeline.partition,
        "left_out": timeline.left_out,
        "topics": [_topic_document(topic) for topic in timeline.topics],
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _topic_document(topic: TopicTimeline) -> Mapping[str, Any]:
    return {
        "cluster": topic.cluster,
        "topic_id": topic.topic_id,
        "topic_known": topic.topic_known,
        "leader_epochs": [
            {
                "leader_epoch": section.leader_epoch,
                "leaders": list(section.leaders),
                "start_offset": section.start_offset,
                "rows": [_row_document(row) for row in section.rows],
            }
            for section in topic.sections
        ],
        "no_leader_epoch": [_row_document(row) for row in topic.silent],
        "undated": [_row_document(row) for row in topic.undated],
    }


def _row_document(row: Row) -> Mapping[str, Any]:
    event, last = row.event, row.event["last"]
    return {
        "host": row.host,
        "time": row.time,
        "until": row.until,
        "order_is_certain": row.ordered,
        "stated_leader_epoch": row.stated_epoch,
        "what": sentence(event),
        "requests": event["requests"],
        "first_offset": event["least"],
        "last_offset": event["greatest"],
        **{name: event[name] for name in FIELDS},
        "file": event["file"],
        "line": row.line,
        "byte_offset": event["byte_offset"],
        "last_file": last["file"] if row.last_line is not None else None,
        "last_line": row.last_line,
    }
