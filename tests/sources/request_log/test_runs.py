"""Runs of like Fetch rows: what is left out can be computed from what remains, and nothing that an audit needs is left out."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochaudit.events.event_types import FETCH
from epochaudit.replay.data_plane.follower_epochs import _WAITED_US
from epochaudit.replay.data_plane.high_watermarks import SPAN_MS
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.request_log import compiled
from epochaudit.sources.request_log.compiled import machine, scanner
from epochaudit.sources.request_log.json import APIS
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import ByteRange
from epochaudit.sources.sink import NO_EDGES, Edges

CAPTURES = ["zk-healthy-3.9", "kraft-k1-healthy", "zk-unclean-truncation-2.0", "zk-unclean-truncation-3.9"]
SPAN_OF_RUN_MS = 60_000
PLACE = ("file", "byte_offset", "partition_row")
STRINGS = ("client_id", "connection", "software_name", "software_version", "topic", "topic_id")
LIKE = (
    "api_version", "request_error_code", "replica_id", "replica_epoch", "isolation_level", "session_id", "partition",
    "in_request", "in_response", "current_leader_epoch", "last_fetched_epoch", "requester_log_start_offset", "error_code",
    "log_start_offset", "diverging_epoch", "diverging_end_offset", "hinted_leader", "hinted_leader_epoch",
    "preferred_read_replica",
)  # fmt: skip
RISING = ("time_ms", "byte_offset", "session_epoch", "correlation_id", "fetch_offset", "high_watermark")
MAY_DIFFER = {"last_stable_offset", "records_size"}
OF_RUN = ("run_rows", "run_arrival_ms")

Row = Mapping[str, Any]


def rows_of(part: ByteRange, edges: Edges | None) -> tuple[list[dict[str, Any]], int]:
    """The Fetch rows of a range, and the number of event rows by its statistics."""
    table = pa.Table.from_batches(decoded(part, by_compiled_code=True, edges=edges))
    rows = table.to_pylist()
    return [row for row in rows if row["event_type"] == "FETCH"], rows[-1]["statistics"]["rows"]


@pytest.fixture(scope="module", params=CAPTURES)
def part(request: pytest.FixtureRequest, capture: Callable[[str], Path]) -> ByteRange:
    """The first request log of a capture, as one range."""
    files = [file for file in discover(str(capture(request.param))).files if compiled.scans(file)]
    return ByteRange(max(files, key=lambda file: file.size), 0, 0, None)


def place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def partition_of(row: Row) -> tuple[str, int]:
    """The key of a partition's edges."""
    return row["topic_id"] or row["topic"], row["partition"]


def run_of(row: Row) -> tuple[Any, ...]:
    """What the rows of a run have in common."""
    flags = row["partition_row"] == 0, (row["records_size"] or 0) > 0
    return (*(row[name] for name in (*STRINGS, *LIKE)), *flags, row["time_ms"] // SPAN_OF_RUN_MS)


def checked(whole: Sequence[Row], folded: Sequence[Row]) -> int:
    """Check that folding `whole` may give `folded`; returns the number of rows that are left out."""
    by_place = {place(row): row for row in whole}
    assert len(by_place) == len(whole)
    assert [place(row) for row in folded] == sorted(map(place, folded))
    for row in folded:
        assert {name: value for name, value in row.items() if name not in OF_RUN} == {
            name: value for name, value in by_place[place(row)].items() if name not in OF_RUN
        }
    assert sum(row["run_rows"] or 1 for row in folded) == len(whole)
    remaining = {place(row) for row in folded}
    left_out = [row for row in whole if place(row) not in remaining]
    assert Counter(run_of(row) for row in left_out) == Counter({run: n for run, n in _left_out_by(folded).items() if n})
    by_run: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in folded:
        by_run[run_of(row)].append(row)
    for row in left_out:
        between(row, by_run[run_of(row)])
    peaks(whole, remaining)
    return len(left_out)


def _left_out_by(folded: Iterable[Row]) -> Mapping[tuple[Any, ...], int]:
    """The number of rows that the last rows of runs stand for besides themselves, by run_of."""
    counts = Counter[tuple[Any, ...]]()
    for row in folded:
        counts[run_of(row)] += (row["run_rows"] or 1) - 1
    return counts


def between(row: Row, others: Sequence[Row]) -> None:
    """An earlier row and a later one that stands for it bound all that rises; its arrival is not below the stated one."""
    first = next(other for other in reversed(others) if place(other) < place(row))
    last = next(other for other in others if place(other) > place(row) and other["run_rows"])
    for name in RISING:
        if row[name] is not None:
            assert first[name] <= row[name] <= last[name]
    assert row["arrival_ms"] >= last["run_arrival_ms"]
    assert row["error_code"] in (0, None)
    assert row["request_error_code"] == 0
    assert not row["forgotten"]
    assert (row["last_fetched_epoch"] or -1) in (-1, row["current_leader_epoch"])
    ahead = row["replica_id"] >= 0 and (row["high_watermark"] or 0) > (row["fetch_offset"] or 2**62)
    assert not (ahead and row["total_time_us"] < _WAITED_US)


def peaks(whole: Iterable[Row], remaining: set[tuple[Any, ...]]) -> None:
    """Of each partition and span, the last row with the lowest and the last with the highest high watermark remain."""
    spans: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in whole:
        if row["error_code"] == 0 and row["high_watermark"] is not None:
            spans[row["topic"], row["topic_id"], row["partition"], row["time_ms"] // SPAN_MS].append(row)
    for rows in spans.values():
        lowest = min(row["high_watermark"] for row in rows)
        highest = max(row["high_watermark"] for row in rows)
        for extreme in (lowest, highest):
            assert place([row for row in rows if row["high_watermark"] == extreme][-1]) in remaining
        assert max(r["log_start_offset"] or 0 for r in rows) == max(
            r["log_start_offset"] or 0 for r in rows if place(r) in remaining
        )


def test_only_rows_that_others_stand_for_are_left_out(part: ByteRange) -> None:
    whole, rows = rows_of(part, None)
    folded, rows_folded = rows_of(part, NO_EDGES)
    assert rows == rows_folded
    assert checked(whole, folded) > len(whole) / 20
    assert all(row["run_rows"] is None or row["run_rows"] > 1 for row in folded)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(draw=st.data())
def test_no_run_lasts_over_an_edge(part: ByteRange, draw: st.DataObject) -> None:
    whole, _ = rows_of(part, None)
    times = sorted({row["time_ms"] for row in whole})
    partitions = sorted({partition_of(row) for row in whole if row["partition"] is not None})
    some_times = st.lists(st.sampled_from(times), max_size=30)
    everywhere = draw.draw(some_times)
    own = draw.draw(st.dictionaries(st.sampled_from(partitions), some_times, max_size=5))
    folded, _ = rows_of(part, Edges(everywhere, own))
    checked(whole, folded)
    for row in folded:
        if row["run_rows"]:
            edges = [*everywhere, *own.get(partition_of(row), ())]
            assert not any(row["run_arrival_ms"] <= edge < row["time_ms"] for edge in edges)


def test_edges_of_a_partition_leave_the_runs_of_others(part: ByteRange) -> None:
    once, _ = rows_of(part, NO_EDGES)
    subject, _ = Counter(partition_of(row) for row in once if row["run_rows"]).most_common(1)[0]
    times = sorted({row["time_ms"] for row in once if partition_of(row) == subject})
    folded, _ = rows_of(part, Edges(by_partition={subject: times}))
    assert [row for row in folded if partition_of(row) != subject] == [
        row for row in once if partition_of(row) != subject
    ]
    assert len(folded) > len(once)


def test_no_run_has_times_about_an_edge(part: ByteRange) -> None:
    whole, _ = rows_of(part, None)
    times = sorted({row["time_ms"] for row in whole})[::50]
    folded, _ = rows_of(part, Edges(times, margin_ms=2))
    for row in folded:
        if row["run_rows"]:
            assert not any(row["run_arrival_ms"] - 2 <= edge <= row["time_ms"] + 2 for edge in times) or (
                row["run_arrival_ms"] == row["time_ms"]
            )


@pytest.mark.slow
@pytest.mark.parametrize("space", [{"RUNS": 40}, {"ROWS": 64, "MOST_REMAINING_ROWS": 32}, {"CHARACTERS": 4_000}])
def test_memory_is_bounded_by_closing_runs(
    part: ByteRange, space: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = rows_of(part, None)
    once, _ = rows_of(part, NO_EDGES)
    for name, value in space.items():
        monkeypatch.setattr(scanner, name, value)
    often, _ = rows_of(part, NO_EDGES)
    if "CHARACTERS" in space:
        assert often == once
    else:
        assert len(once) < len(often)
    assert sum(row["run_rows"] or 1 for row in often) == len(whole)
    places = {place(row) for row in whole}
    assert all(place(row) in places for row in often)


def test_what_is_compiled_in_is_what_frames_say() -> None:
    assert (machine._SPAN_MS, machine._WAITED_US) == (SPAN_MS, _WAITED_US)
    assert machine._RUN_MS % machine._SPAN_MS == 0


def test_each_column_of_a_fetch_is_compared_or_may_differ() -> None:
    """A run must not leave out rows with other values of a column that nothing compares."""
    like, rising = ({machine.REGISTERS[number] for number in of} for of in (machine._LIKE, machine._RISING))
    assert set(APIS[FETCH].columns) - like - rising - set(machine.FETCH_STRINGS) == MAY_DIFFER
    assert set(LIKE) == like - {"answered_session_id", "forgotten"}  # no column; false in all rows of runs
    assert set(RISING) == rising
    assert machine.FETCH_STRINGS == STRINGS


def test_names_longer_than_any_topics_are_folded_too() -> None:
    """The space for strings follows the line, as a log may hold anything."""
    topic, client = "t" * 5_000, "c" * 30_000
    request = (
        '[2026-11-21 04:18:{at},000] DEBUG Completed request:{{"isForwarded":false,"requestHeader":{{"requestApiKey":1,'
        '"requestApiVersion":12,"correlationId":{at},"clientId":"{client}","requestApiKeyName":"FETCH"}},"request":'
        '{{"replicaId":-1,"maxWaitMs":500,"minBytes":1,"maxBytes":52428800,"isolationLevel":0,"sessionId":7,'
        '"sessionEpoch":{at},"topics":[{{"topic":"{topic}","partitions":[{{"partition":0,"currentLeaderEpoch":0,'
        '"fetchOffset":{at},"lastFetchedEpoch":-1,"logStartOffset":-1,"partitionMaxBytes":1048576}}]}}],'
        '"forgottenTopicsData":[],"rackId":""}},"response":{{"throttleTimeMs":0,"errorCode":0,"sessionId":7,'
        '"responses":[{{"topic":"{topic}","partitions":[{{"partitionIndex":0,"errorCode":0,"highWatermark":{at},'
        '"lastStableOffset":{at},"logStartOffset":0,"abortedTransactions":null,"preferredReadReplica":-1,'
        '"recordsSizeInBytes":10}}]}}]}},"connection":"127.0.0.1:9091-127.0.0.1:50000-1","totalTimeMs":1.0,'
        '"requestQueueTimeMs":0.1,"localTimeMs":0.1,"remoteTimeMs":0.1,"throttleTimeMs":0,"responseQueueTimeMs":0.1,'
        '"sendTimeMs":0.1,"securityProtocol":"PLAINTEXT","principal":"User:ANONYMOUS","listener":"PLAINTEXT",'
        '"clientInformation":{{"softwareName":"apache-kafka-java","softwareVersion":"3.9.1"}}}} (kafka.request.logger)\n'
    )
    data = "".join(request.format(at=at, client=client, topic=topic) for at in range(10, 50)).encode()
    with tempfile.NamedTemporaryFile() as log:
        log.write(data)
        log.flush()
        file = CaptureFile("log", log.name, "request-log-json", "c", len(data), 1, "request_log")
        whole, _ = rows_of(ByteRange(file, 0, 0, None), None)
        folded, _ = rows_of(ByteRange(file, 0, 0, None), NO_EDGES)
    assert len(whole) == 40
    assert {row["topic"] for row in folded} == {topic}
    assert checked(whole, folded) > 20
