"""Answers to Produce become runs of acknowledged base offsets."""

from __future__ import annotations

import tempfile
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.request_log import acknowledged_runs
from epochaudit.sources.request_log import json as request_log
from epochaudit.sources.request_log.acknowledged_runs import FOLDED_MS, AcknowledgedRuns
from epochaudit.sources.scan import ranges
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import ByteRange
from epochaudit.sources.sink import NO_EDGES, Edges, LineOutcome, RequestCounts, RowSink
from tests.sources.decoding import decode, json_request

T0 = 1_795_234_680_000  # 2026-11-21 04:18
ID = "9gDNO0PzRlKeeIAaGyFvow"
ENDING = {
    "throttleTimeMs": 0, "responseQueueTimeMs": 0.25, "sendTimeMs": 0.125,
    "securityProtocol": "PLAINTEXT", "principal": "User:ANONYMOUS", "listener": "PLAINTEXT",
    "clientInformation": {"softwareName": "apache-kafka-java", "softwareVersion": "4.1.2"},
}  # fmt: skip
SHOWN = ("partition", "acks", "base_offsets")


def produced(
    *answers: tuple[int, int, int],
    acks: int = -1,
    at_ms: int = 0,
    version: int = 11,
    topic: object = None,
    **more: object,
) -> str:
    """A line; answers: partition, error code and base offset."""
    topic = topic or {"name": "t"}
    asked = [{"index": index, "recordsSizeInBytes": 70} for index, _, _ in answers]
    request = {
        "transactionalId": None,
        "acks": acks,
        "timeoutMs": 8000,
        "topicData": [{**topic, "partitionData": asked}],
    }
    answered = [
        {
            "index": index,
            "errorCode": code,
            "baseOffset": base,
            "logAppendTimeMs": -1,
            "logStartOffset": 3,
            "recordErrors": [],
        }
        for index, code, base in answers
    ]
    response = {"responses": [{**topic, "partitionResponses": answered}], "throttleTimeMs": 0}
    text = json_request("PRODUCE", version, {**request, **more}, "" if acks == 0 else response, **ENDING)
    return text.replace("04:18:07,602", f"04:18:{at_ms // 1000:02},{at_ms % 1000:03}")


def runs(*lines: str) -> list[dict[str, Any]]:
    decoded = decode(request_log, *lines)
    assert decoded.outcomes == [LineOutcome.EVENT] * len(lines), decoded.quarantined
    return sorted(decoded.events, key=lambda event: (event["byte_offset"], event["partition_row"]))


def shown(*lines: str) -> list[tuple[Any, ...]]:
    return [tuple(event[name] for name in SHOWN) for event in runs(*lines)]


def test_answers_to_one_connection_are_one_row_with_the_last_answers_place() -> None:
    lines = [produced((0, 0, 5), at_ms=1), produced((0, 0, 9), at_ms=2), produced((0, 0, 11), at_ms=3)]
    (run,) = runs(*lines)
    assert (run["base_offsets"], run["acks"], run["topic"], run["log_start_offset"]) == ([5, 9, 11], -1, "t", 3)
    assert (run["line_in_split"], run["byte_offset"]) == (3, sum(len(line) + 1 for line in lines[:2]))
    assert run["time_ms"] - run["arrival_ms"] > 2  # the earliest arrival


def test_rows_state_nothing_that_counts_of_other_requests_are_made_of() -> None:
    (run,) = runs(produced((0, 0, 5)))
    assert {"error_code", "in_request", "in_response", "run_rows"}.isdisjoint(run)


def test_a_run_ends_with_its_second_and_where_offsets_fall() -> None:
    assert shown(produced((0, 0, 5), at_ms=1_999), produced((0, 0, 6), at_ms=2_000)) == [(0, -1, [5]), (0, -1, [6])]
    again = shown(produced((0, 0, 5)), produced((0, 0, 6)), produced((0, 0, 5)), produced((0, 0, 7)))
    assert again == [(0, -1, [5, 6]), (0, -1, [5, 7])]


def test_partitions_acks_and_transactional_ids_are_apart() -> None:
    lines = [
        produced((0, 0, 5), (1, 0, 40)),
        produced((0, 0, 6), acks=1),
        produced((0, 0, 7), transactionalId="orders"),
        produced((0, 0, 8), (1, 0, 41)),
    ]
    assert shown(*lines) == [(0, 1, [6]), (0, -1, [7]), (0, -1, [5, 8]), (1, -1, [40, 41])]
    assert [run.get("transactional_id") for run in runs(*lines)] == [None, "orders", None, None]


@pytest.mark.parametrize(
    "line", [produced((0, 6, 94)), produced((0, 20, 94)), produced((0, 0, -1)), produced((0, 0, 5), acks=0)]
)
def test_what_was_not_acknowledged_has_no_row(line: str) -> None:
    assert runs(line) == []


def test_version_13_names_topics_by_id() -> None:
    (run,) = runs(produced((0, 0, 5), version=13, topic={"topicId": ID}))
    assert (run["topic_id"], run.get("topic")) == (ID, None)


def test_partitions_and_error_codes_are_counted() -> None:
    file = CaptureFile("log", "log", "request-log-json", "c", 0)
    sink = RowSink(file, 0)
    decoder = request_log.RequestLogDecoder(file, sink)
    for line in (produced((0, 0, 5), (1, 6, -1)), produced((0, 0, 5), (1, 0, 5), acks=0)):
        assert decoder.line(line.encode(), 0, 1) == LineOutcome.EVENT
    sink.finish()
    assert decoder.counts.requests == {"PRODUCE": 2}
    assert decoder.counts.partition_rows == {"PRODUCE": 4}
    assert decoder.counts.error_codes == {"PRODUCE:0": 1, "PRODUCE:6": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (produced((0, 0, 5), version=99), "unknown version 99 of PRODUCE: 13 is the highest known"),
        (produced((0, 0, 2**63)), "not the JSON of a completed request: "),
    ],
)
def test_a_line_that_is_not_produce_is_quarantined(line: str, reason: str) -> None:
    decoded = decode(request_log, line)
    assert decoded.outcomes == [LineOutcome.QUARANTINED]
    [(_, given)] = decoded.quarantined
    assert given.startswith(reason)


def acknowledged(answers: list[tuple[int, int, int, int]], edges: Edges | None) -> list[dict[str, Any]]:
    """The rows of answers: time, milliseconds of waiting, partition, base offset."""
    runs = AcknowledgedRuns(RequestCounts(), edges)
    for line, (time_ms, waited_ms, partition, base) in enumerate(answers):
        common = (100 * line, line, time_ms, 11, line, "producer", "a", None, None, float(waited_ms))
        runs.add(common, [(0, "t", None, partition, -1, None, base, 0)])
    runs.finish()
    return pa.table(runs.columns()).to_pylist() if runs else []


def rising(steps: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Answers of two partitions, each some time after the one before; every eighth one has an offset below the one before."""
    time_ms, answers = 0, []
    for number, (after_ms, waited_ms, partition) in enumerate(steps):
        time_ms += after_ms
        answers.append((time_ms, waited_ms, partition, number if number % 8 else max(0, number - 3)))
    return answers


@given(
    st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 3_000), st.integers(0, 1)), min_size=1, max_size=60),
    st.lists(st.integers(0, 400_000), max_size=4),
)
def test_folded_rows_stand_for_runs_between_which_nothing_changed(
    steps: list[tuple[int, int, int]], times: list[int]
) -> None:
    answers, edges = rising(steps), Edges(by_partition={("t", 0): times}, margin_ms=5)
    each, folded = acknowledged(answers, None), acknowledged(answers, edges)
    for partition in (0, 1):
        own, rows = ([row for row in of if row["partition"] == partition] for of in (each, folded))
        assert [o for row in own for o in row["base_offsets"]] == [o for row in rows for o in row["base_offsets"]]
        assert sum(row["run_rows"] or 1 for row in rows) == len(own)
        for row in rows:
            count = row["run_rows"] or 1
            stood_for, own = own[:count], own[count:]
            assert row["arrival_ms"] == min(one["arrival_ms"] for one in stood_for)
            assert row["byte_offset"] == stood_for[-1]["byte_offset"]
            assert row["base_offsets"] == sorted(row["base_offsets"])
            if count > 1:
                assert row["run_arrival_ms"] == row["arrival_ms"]
                assert {one["time_ms"] // FOLDED_MS for one in stood_for} == {row["time_ms"] // FOLDED_MS}
                crossed = [at for at in times if row["arrival_ms"] - 5 <= at <= row["time_ms"] + 5]
                assert partition != 0 or not crossed


def test_runs_of_a_minute_are_one_row_if_folded() -> None:
    answers = [(second * 1_000, 1, 0, second) for second in range(100)]
    assert [row["run_rows"] for row in acknowledged(answers, NO_EDGES)] == [60, 40]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3_000),
            st.lists(
                st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 0, 6]), st.integers(-1, 9)), min_size=1, max_size=3
            ),
            st.sampled_from([-1, -1, 1, 0]),
            st.sampled_from(["as Kafka prints it", "as Kafka prints it", "escaped", "by topic id"]),
        ),
        max_size=25,
    ),
    st.integers(1, 8),
    st.sampled_from(
        [None, NO_EDGES, Edges(everywhere=[T0 + 9_000], by_partition={("t", 1): [T0 + 20_500]}, margin_ms=7)]
    ),
)
def test_rows_are_the_same_whoever_reads_the_lines_and_however_many_at_once(
    requests: list[tuple[int, list[tuple[int, int, int]], int, str]], at_once: int, edges: Edges | None
) -> None:
    at_ms, lines = 0, []
    for after_ms, answers, acks, how in requests:
        at_ms = min(at_ms + after_ms, 59_000)
        topic = {"topicId": ID} if how == "by topic id" else None
        line = produced(*answers, acks=acks, at_ms=at_ms, version=13 if topic else 11, topic=topic)
        lines.append(line.replace('"transactionalId"', ' "transactionalId"') if how == "escaped" else line)
    data = "".join(f"{line}\n" for line in lines).encode()
    with tempfile.NamedTemporaryFile() as log:
        log.write(data)
        log.flush()
        part = ByteRange(CaptureFile("log", log.name, "request-log-json", "c", len(data), 1, "request_log"), 0, 0, None)
        whole = pa.Table.from_batches(decoded(part, edges=edges))
        with (
            patch.object(acknowledged_runs, "AT_ONCE", at_once),
            patch.object(acknowledged_runs, "SCANNED_AT_ONCE", at_once),
            patch.object(ranges, "PIECE", 2_000),
        ):
            parts = [pa.Table.from_batches(decoded(part, edges=edges, by_compiled_code=by)) for by in (False, True)]
    in_order = [("row_kind", "ascending"), ("byte_offset", "ascending"), ("partition_row", "ascending")]
    for table in parts:
        assert table.sort_by(in_order).to_pylist() == whole.sort_by(in_order).to_pylist()
