"""Runs a line decoder over text and shows what it made of it, without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.sink import LineOutcome, RowSink


@dataclass(frozen=True)
class Decoded:
    """`events`: the columns of each row that are not null. `quarantined`: (line, reason). `outcomes`: one per line."""

    events: list[dict[str, object]]
    quarantined: list[tuple[int, str]]
    outcomes: list[LineOutcome]


def decode(module: ModuleType, *lines: str | bytes) -> Decoded:
    """Feed the lines to the module's decoder as one file."""
    file = CaptureFile(path="log", uri="log", kind=module.DECODER.kind, cluster="c", size=0)
    sink = RowSink(file, split=0)
    decoder = module.DECODER(file, sink)
    outcomes, offset = [], 0
    for number, line in enumerate(lines, 1):
        text = line.encode() if isinstance(line, str) else line
        outcomes.append(decoder.line(text, offset, number))
        offset += len(text) + 1
    sink.finish()
    events, quarantined = drained(sink)
    return Decoded(sorted(events, key=lambda event: str(event["byte_offset"]).zfill(20)), quarantined, outcomes)


def drained(sink: RowSink) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """The columns of each event that are not null, and (line, reason) of each quarantined line."""
    events: list[dict[str, Any]] = []
    quarantined: list[tuple[int, str]] = []
    for batch in sink.drain():
        for row in batch.to_pylist():
            if row["row_kind"] == "event":
                events.append({column: value for column, value in row.items() if value is not None})
            else:
                quarantined.append((row["line_in_split"], row["quarantined"]["reason"]))
    return events, quarantined


PLACE = {
    "row_kind",
    "cluster",
    "file",
    "file_order",
    "split",
    "byte_offset",
    "line_in_split",
    "partition_row",
    "time_ms",
}


def only_event(module: ModuleType, line: str) -> dict[str, object]:
    """The columns of the one event that the line is, without those of its place."""
    decoded = decode(module, line)
    assert decoded.outcomes == [LineOutcome.EVENT], decoded.quarantined
    [event] = decoded.events
    return {column: value for column, value in event.items() if column not in PLACE}


def ignored(module: ModuleType, line: str | bytes) -> bool:
    """The line is ignored: no row, no quarantine."""
    decoded = decode(module, line)
    return decoded.outcomes == [LineOutcome.IGNORED] and not decoded.events and not decoded.quarantined


def quarantine_reason(module: ModuleType, line: str | bytes) -> str:
    """Why the line was put aside."""
    decoded = decode(module, line)
    assert decoded.outcomes == [LineOutcome.QUARANTINED]
    assert not decoded.events
    [(_, reason)] = decoded.quarantined
    return reason


def json_request(api: str, version: int, request: object, response: object, **more: object) -> str:
    """The line of a request log in JSON, with `more` fields beside those that all lines have."""
    completed = {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": {"FETCH": 1, "PRODUCE": 0}.get(api, 99), "requestApiVersion": version, "correlationId": 7, "clientId": "c",
            "requestApiKeyName": api,
        },
        "request": request,
        "response": response,
        "connection": "10.0.0.1:9092-10.0.0.2:40000-3",
        "totalTimeMs": 1.5,
        "requestQueueTimeMs": 0.25,
        "localTimeMs": 1.0,
        "remoteTimeMs": 0.0,
        **more,
    }  # fmt: skip
    text = json.dumps(completed, separators=(",", ":"))
    return f"[2026-11-21 04:18:07,602] DEBUG Completed request:{text} (kafka.request.logger)"
