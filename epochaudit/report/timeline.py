"""A partition's timeline as a page of text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from epochaudit.report.event_words import NOT_GIVEN, refused, words
from epochaudit.report.page import Page, plural
from epochaudit.timeline import MOST_ROWS, Life, Row, Section, Timeline
from epochaudit.version import VERSION

SCHEMA_VERSION: Final = 1
LOUD: Final = frozenset({
    "UNCLEAN_ELECTION", "LOG_TRUNCATED", "LOG_EMPTIED", "TRUNCATION_BELOW_HIGH_WATERMARK", "HIGH_WATERMARK_LOWERED",
    "FETCHER_FENCED", "FETCHER_FAILED", "CLIENT_TRUNCATION_DETECTED", "CONSUMER_OUT_OF_RANGE", "EPOCH_CACHE_CONFLICT",
    "EPOCH_CACHE_DISORDER", "ALTER_PARTITION_FAILED", "ALTER_PARTITION_REJECTED", "ISR_UPDATE_SKIPPED", "FETCH_OFFSET_OUT_OF_RANGE",
})  # fmt: skip
TURNS: Final = frozenset(
    {"LEADER_STARTS", "FOLLOWER_STARTS", "PARTITION_STATE_CHANGED", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"}
)
FIELDS: Final = (
    "event_type", "source", "node", "client_id", "group_id", "replica_id", "correlation_id", "controller_epoch", "partition_epoch",
    "leader", "isr", "error_code", "request_error_code",
)  # fmt: skip
ORDER: Final = (
    "Each row stands under the newest leader epoch that its host had stated by then. There, rows of one host are in the order in "
    "which it wrote them, requests when they were answered: that is certain, but for lines of two files within a millisecond. A ~ "
    "begins a row after one of another host: only the times that the two hosts printed put them in this order, which proves nothing."
)


def render(timeline: Timeline, *, width: int = 100, colour: bool = False) -> str:
    """The page, at most `width` columns wide, with terminal colours if asked for."""
    page = Page(width, colour=colour)
    lives = (
        plural(len(timeline.lives), "topic") + " of the name, one after the other" if len(timeline.lives) > 1 else ""
    )
    page.say((f"{timeline.topic}-{timeline.partition}", "bold"), (f": {lives}" if lives else "", ""), hang=2)
    page.say((ORDER, "dim"))
    if timeline.left_out:
        page.say((f"Only the first {MOST_ROWS:,} rows were read, by time: what came later is missing", "bold yellow"))
    for life in timeline.lives:
        _life(page, life)
    return page.text()


def _life(page: Page, life: Life) -> None:
    if life.told:
        which = f"topic id {life.topic_id}" if life.topic_id else "no topic id is recorded"
        page.heading(f"Cluster {life.cluster}, {which}")
    else:
        page.heading(f"Cluster {life.cluster}: not told which topic of the name")
    known = [section for section in life.sections if section.leader_epoch is not None]
    if known:
        page.table(("leader epoch", "rows", "from offset", "leader"), [_summary(section) for section in known])
    for section in life.sections:
        title = "Before any leader epoch was stated" if section.leader_epoch is None else _title(section)
        _rows(page, title, section.rows, section.leader_epoch)
    _rows(page, "Of hosts that state no leader epoch", life.silent, None)
    _copies(page, life.undated)


def _leaders(section: Section) -> str:
    return ", ".join("none" if leader == NOT_GIVEN else str(leader) for leader in section.leaders if leader > -2)


def _summary(section: Section) -> tuple[str, ...]:
    start = "" if section.start_offset is None else f"{section.start_offset:,}"
    return str(section.leader_epoch), f"{len(section.rows):,}", start, _leaders(section) or "not told"


def _title(section: Section) -> str:
    leaders = _leaders(section)
    leader = "" if not leaders else f": leader {leaders}" if "," not in leaders else f": leaders {leaders}"
    start = "" if section.start_offset is None else f", from offset {section.start_offset}"
    return f"Leader epoch {section.leader_epoch}{leader}{start}"


def _rows(page: Page, title: str, rows: Iterable[Row], leader_epoch: int | None) -> None:
    day = None
    for number, row in enumerate(rows):
        if not number:
            page.blank()
            page.say((title, "bold"), hang=2)
        if row.time is not None and row.time[:10] != day:
            day = row.time[:10]
            page.say((day, "dim"), indent=2)
        _row(page, row, leader_epoch, number)


def _copies(page: Page, rows: Iterable[Row]) -> None:
    by_file = groupby(rows, key=lambda row: (row.host, row.event["file"]))
    for number, ((host, _), of_file) in enumerate(by_file):
        if not number:
            page.blank()
            page.say(("Copies of state files, of an unknown time", "bold"))
        listed = list(of_file)
        told = "; ".join(words(row.event) for row in listed)
        page.say((f"{host}  ", "bold"), (told, ""), (f"  {_place(listed[0])}", "cyan"), indent=2, hang=4)


def _row(page: Page, row: Row, leader_epoch: int | None, number: int) -> None:
    time = row.time[11:] if row.time else "no time"
    until = f" to {_later(row)}" if row.until and row.until != row.time else ""
    page.say(
        ("  " if row.ordered or not number else "~ ", "yellow"),
        (f"{time}{until}  ", ""),
        (f"{row.host}  ", "bold"),
        (words(row.event), _style(row)),
        (_stale(row, leader_epoch), "bold yellow"),
        (f"  {_place(row)}", "cyan"),
        hang=6,
    )


def _later(row: Row) -> str:
    first, last = row.time or "", row.until or ""
    return last[11:] if first[:10] == last[:10] else last.replace("T", " ")


def _style(row: Row) -> str:
    kind = row.event["event_type"]
    if kind in LOUD or (row.event["source"] == "request_log" and refused(row.event)):
        return "bold red"
    return "bold" if kind in TURNS or row.event["delete_partition"] else ""


def _stale(row: Row, leader_epoch: int | None) -> str:
    """A commit's leader epoch is that of the record before it, and need not be the current one."""
    about_now = row.event["source"] in ("request_log", "state_change_log") and not _of_commit(row)
    if leader_epoch is None or row.stated_epoch is None or row.stated_epoch == leader_epoch or not about_now:
        return ""
    older = row.stated_epoch < leader_epoch
    return f" [leader epoch {row.stated_epoch} is {'OLDER' if older else 'NEWER'} than {leader_epoch}, which {row.host} knew]"


def _of_commit(row: Row) -> bool:
    return row.event["event_type"] in ("OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_FETCH")


def _place(row: Row) -> str:
    file, last = row.event["file"], row.event["last"]
    first = f"{file}:{row.line}" if row.line is not None else f"{file} at byte {row.event['byte_offset']}"
    if row.last_line is None or (last["file"], row.last_line) == (file, row.line):
        return first
    return f"{first} to {row.last_line}" if last["file"] == file else f"{first} to {last['file']}:{row.last_line}"


def render_json(timeline: Timeline) -> str:
    """One document, ending in a newline. Whatever is outside ASCII is escaped."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "epochaudit", "version": VERSION},
        "topic": timeline.topic,
        "partition": timeline.partition,
        "left_out": timeline.left_out,
        "lives": [_life_document(life) for life in timeline.lives],
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _life_document(life: Life) -> Mapping[str, Any]:
    return {
        "cluster": life.cluster,
        "topic_id": life.topic_id,
        "told": life.told,
        "leader_epochs": [
            {
                "leader_epoch": section.leader_epoch,
                "leaders": list(section.leaders),
                "start_offset": section.start_offset,
                "rows": [_row_document(row) for row in section.rows],
            }
            for section in life.sections
        ],
        "no_leader_epoch": [_row_document(row) for row in life.silent],
        "undated": [_row_document(row) for row in life.undated],
    }


def _row_document(row: Row) -> Mapping[str, Any]:
    event, last = row.event, row.event["last"]
    return {
        "host": row.host,
        "time": row.time,
        "until": row.until,
        "order_is_certain": row.ordered,
        "stated_leader_epoch": row.stated_epoch,
        "what": words(event),
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
