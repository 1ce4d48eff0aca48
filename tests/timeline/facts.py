"""Rows of the history of orders-0, as `partition_history` returns them, and the timeline that they make."""

from __future__ import annotations

from typing import Any

from epochaudit.timeline.merge import EventLog, TopicTimeline, topic_timelines
from epochaudit.timeline.partition_events import CONTENT, PLACE

START = 1_795_235_000_000
SOURCES = {"LEADER_STARTS": "state_change_log", "FOLLOWER_STARTS": "state_change_log"}
SERVER_LOG = ("LOG_TRUNCATED", "PROCESS_STARTING", "LOG_CREATED", "LOG_DELETION_SCHEDULED")

Event = dict[str, Any]


def fact(event_type: str, node: int | None, second: float, **columns: Any) -> Event:
    """A row of the history of orders-0; requests are accepted unless `columns` state an error."""
    source = SOURCES.get(event_type, "server_log" if event_type in SERVER_LOG else "request_log")
    of_topic = not event_type.startswith("PROCESS")
    row: Event = {
        **dict.fromkeys((*PLACE, *CONTENT)),
        "cluster": "west", "node": node, "source": source, "event_type": event_type, "time_ms": START + int(second * 1000),
        "file_order": 0, "file": f"broker-{node}/{source}", "byte_offset": int(second * 1000), "split": 0, "partition_row": 0,
        "line_in_split": int(second) + 1, "topic": "orders" if of_topic else None, "partition": 0 if of_topic else None,
        "requests": 1, "least": None, "greatest": None,
    }  # fmt: skip
    if source == "request_log":
        row |= {"error_code": 0, "request_error_code": 0}
    row |= columns
    return row | {"last": {name: row[name] for name in (*PLACE, "fetch_offset", "offset", "high_watermark")}}


def topics_of(*events: Event) -> list[TopicTimeline]:
    splits = [{"cluster": "west", "file": event["file"], "split": 0, "lines": 100} for event in events]
    return list(topic_timelines(events, EventLog(None, splits)))  # type: ignore[arg-type]
