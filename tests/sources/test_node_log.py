"""The logs of a node in one file: what lines without an event show of the clock."""

from __future__ import annotations

from types import ModuleType

import pytest

from epochaudit.sources import client_log, node_log
from epochaudit.sources.clock.log_time import CERTAIN, Step
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.sink import RowSink

EVENT = {
    node_log: "INFO [Controller id=3] Resigned (kafka.controller.KafkaController)",
    client_log: "INFO [Consumer clientId=c1, groupId=g1] Resetting offset for partition u-0 to position FetchPosition{offset=3, "
    "offsetEpoch=Optional.empty, currentLeader=LeaderAndEpoch{leader=Optional[h:1 (id: 2 rack: null)], epoch=1}}. "
    "(org.apache.kafka.clients.consumer.internals.SubscriptionState)",
}
OTHER = "DEBUG Nothing that the audit reads (kafka.server.Other)"
ALL = pytest.mark.parametrize("module", [node_log, client_log], ids=["node", "client"])
MINUTE_MS = 60_000


def steps_and_times(module: ModuleType, *lines: tuple[str, str]) -> tuple[list[Step], list[int]]:
    """The steps of the clock, and the times of the events in milliseconds since the hour; lines: what the minutes print, and the rest."""
    kind = {node_log: "server-log", client_log: "client-log"}[module]
    file = CaptureFile(path="log", uri="log", kind=kind, cluster="c", size=0)
    sink = RowSink(file, split=0)
    decoder, offset = module.DECODER(file, sink), 0
    for number, (time, text) in enumerate(lines, 1):
        line = f"[1970-01-01 00:{time}] {text}".encode()
        decoder.line(line, offset, number)
        offset += len(line) + 1
    sink.finish()
    rows = [row for batch in sink.drain() for row in batch.to_pylist() if row["row_kind"] == "event"]
    return sink.clock.steps, [row["time_ms"] for row in rows]


@ALL
def test_lines_without_an_event_prove_that_an_older_file_follows(module: ModuleType) -> None:
    event = EVENT[module]
    others = [(f"20:{second:02},000", OTHER) for second in range(CERTAIN)]
    steps, times = steps_and_times(module, ("30:00,000", event), ("20:00,000", event), *others, ("29:59,500", event))
    assert [step.latest_ms for step in steps] == [30 * MINUTE_MS]
    assert times == sorted(times)
    assert len(times) == 3


@ALL
def test_a_late_line_without_an_event_changes_nothing(module: ModuleType) -> None:
    event = EVENT[module]
    lines = [
        ("30:00,000", event),
        ("20:00,000", event),
        ("20:00,000", OTHER),
        ("30:00,100", OTHER),
        ("30:01,000", event),
    ]
    steps, times = steps_and_times(module, *lines)
    assert steps == []
    assert times[-1] == 30 * MINUTE_MS + 1000
