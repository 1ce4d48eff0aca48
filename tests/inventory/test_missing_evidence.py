"""Evidence is missing where other evidence names it, and only there."""

from __future__ import annotations

import os
import stat
from datetime import datetime
from pathlib import Path

import pytest

from epochaudit.inventory.inventory import NodeRead
from epochaudit.inventory.missing_evidence import (
    EMPTY_LOG,
    MetadataHole,
    RequestGap,
    Seen,
    absent_logs,
    missing_evidence,
    spans_of,
)
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureError, CaptureFile

MINUTE = 60_000
FULL = {"request_log": 6_000, "state_change_log": 50, "server_log": 90}


def node(number: int, *missing: str, roles: tuple[str, ...] = ("broker",)) -> NodeRead:
    return NodeRead("c", number, roles, ("3.9.1",), missing)


def log(number: int, source: str, name: str = "") -> CaptureFile:
    path = name or f"{number}/{source}"
    return CaptureFile(path, path, source, "c", 100, number, source)


def missing(
    nodes: tuple[NodeRead, ...] = (),
    files: tuple[CaptureFile, ...] = (),
    spans: dict[tuple[str, str], tuple[int, int]] | None = None,
    rows: dict[tuple[str, int], dict[str, int]] | None = None,
    fetched: dict[tuple[str, int], int | None] | None = None,
    absent: tuple[tuple[str, int], ...] = (),
    shutdown: dict[tuple[str, int], int] | None = None,
    holes: tuple[tuple[str, int, int], ...] = (),
    gaps: tuple[RequestGap, ...] = (),
    light: frozenset[tuple[str, int]] = frozenset(),
) -> list[str]:
    metadata_holes = [MetadataHole(*hole) for hole in holes]
    seen = Seen(rows or {}, fetched or {}, light, shutdown or {}, metadata_holes, gaps)
    return [str(one) for one in missing_evidence(nodes, absent, files, spans or {}, seen)]


def test_a_node_that_only_others_name_has_as_many_answers_as_they_on_average() -> None:
    rows = {("c", 1): {"request_log": 4_000}, ("c", 2): {"request_log": 4_200}, ("d", 1): {"request_log": 9}}
    assert missing(rows=rows, absent=(("c", 3),)) == [
        "all logs of node 3, which others name (about 4,100 answers, if it answered as many as others on average)"
    ]
    assert missing(absent=(("c", 3),)) == ["all logs of node 3, which others name"]


def test_a_log_that_a_neighbour_has_is_missing_and_one_that_nobody_has_is_not() -> None:
    lacking = (node(1, "request_log", "state_change_log"), node(2, "request_log"))
    assert missing(lacking, rows={("c", 2): {"state_change_log": 7}}) == ["state-change.log of node 1"]
    assert absent_logs(lacking) == ("request_log",)
    assert absent_logs(()) == ()


def test_an_empty_state_change_log_is_not_missing() -> None:
    def lacking(source: str, name: str) -> list[str]:
        empty = CaptureFile(f"1/{name}", f"1/{name}", "empty", "c", 0, 1, None)
        rows = {("c", 2): {source: 7}}
        return missing((node(1, source), node(2)), (empty, log(2, source, "2/the.log")), rows=rows)

    assert lacking("state_change_log", "the.log") == []
    assert lacking("state_change_log", "other.log") == ["state-change.log of node 1"]
    assert len(lacking("request_log", "the.log")) == 1


def test_an_empty_request_log_may_be_of_a_node_that_was_asked_nothing_or_its_logger_is_off() -> None:
    empty = CaptureFile("1/the.log", "1/the.log", "empty", "c", 0, 1, None)
    nodes, others = (node(1, "request_log"), node(2)), log(2, "request_log", "2/the.log")
    seen = Seen({("c", 2): {"request_log": 7}}, {})

    def remedies(*files: CaptureFile) -> list[str]:
        return [one.remedy for one in missing_evidence(nodes, (), files, {}, seen)]

    assert remedies(empty, others) == [EMPTY_LOG]
    assert remedies(others) == ["add it: node 2 wrote one"]


def test_rotated_files_between_others_are_missing() -> None:
    base = "b/kafka-request.log"

    def missing_of(*paths: str) -> list[str]:
        return missing(files=tuple(log(1, "request_log", path) for path in paths))

    assert missing_of(base, f"{base}.1", f"{base}.4.gz") == [
        f"{base}.2, between rotated files",
        f"{base}.3, between rotated files",
    ]
    assert missing_of(f"{base}.2026-11-20-23", f"{base}.2026-11-21-03.gz", f"{base}.2026-13-99") == [
        f"{base}.2026-11-21-00 to 2026-11-21-02, between rotated files"
    ]
    assert missing_of("server.log.2026-11-20", "server.log.2026-11-22") == [
        "server.log.2026-11-21, between rotated files"
    ]


def at(time: str) -> int:
    return round(datetime.fromisoformat(f"{time}Z").timestamp() * 1000)


def test_a_rotated_file_that_a_restart_wrote_over_is_missing() -> None:
    requests, server = (
        log(1, "request_log", "kafka-request.log.2026-11-25-06"),
        log(1, "server_log", "server.log.2026-11-25-06"),
    )

    def missing_of(first_request: str, first_line: str) -> list[str]:
        begins = {requests.path: at(first_request), server.path: at(first_line)}
        spans = {("c", path): (first, first + MINUTE) for path, first in begins.items()}
        return missing(files=(requests, server), spans=spans)

    assert missing_of("2026-11-25T07:00:00", "2026-11-25T06:10:00") == [
        "the hour 2026-11-25-06 in kafka-request.log.2026-11-25-06, which begins at 2026-11-25T07:00:00.000"
    ]
    assert missing_of("2026-11-25T06:00:00", "2026-11-25T06:10:00") == []
    assert (
        missing_of("2026-11-25T07:00:00", "2026-11-25T07:10:00") == []
    )  # the logs print times of another zone than the names


def test_a_long_silence_between_request_logs_is_missing() -> None:
    files = tuple(log(1, "request_log", path) for path in ("old", "whole", "new"))
    spans = {("c", "old"): (0, 1_000), ("c", "whole"): (0, 2_000), ("c", "new"): (1_900_000, 2_000_000)}
    gaps = missing(files=files, spans=spans)
    assert gaps == ["31 minutes of the request log of node 1, between whole and new"]
    assert missing(files=files[::2], spans={("c", "old"): (0, 1_000), ("c", "new"): (600_000, 700_000)}) == []


def ending(
    request_log: int,
    server_log: int,
    fetched: int | None = None,
    answers: int = 6_000,
    roles: tuple[str, ...] = ("broker",),
    shutdown: int | None = None,
) -> list[str]:
    """What is missing of a node whose logs begin at 0 and end after so many minutes."""
    return missing(
        (node(1, roles=roles),),
        (log(1, "request_log"), log(1, "server_log")),
        {("c", "1/request_log"): (0, request_log * MINUTE), ("c", "1/server_log"): (0, server_log * MINUTE)},
        {("c", 1): {"request_log": answers}},
        {("c", 1): None if fetched is None else fetched * MINUTE},
        shutdown={} if shutdown is None else {("c", 1): shutdown * MINUTE},
    )


def test_a_request_log_that_ends_while_its_node_still_runs_is_cut_off() -> None:
    (gap,) = ending(10, 20)
    assert gap == (
        "the end of the request log of node 1: it stops at 1970-01-01T00:10:00.000, its other logs go on until "
        "1970-01-01T00:20:00.000 (about 6,000 answers)"
    )
    (gap,) = ending(10, 10, fetched=12)
    assert "others answered its fetches until 1970-01-01T00:12:00.000 (about 1,200 answers)" in gap


def test_what_proves_no_cut_log_is_not_taken_for_one() -> None:
    assert ending(10, 11) == [], "a process that ends writes more lines than it answers requests"
    assert ending(10, 20, answers=60) == [], "it seldom answered anything"
    assert ending(10, 20, roles=("controller",)) == [], "a controller may have nothing to answer"
    assert ending(10, 10, fetched=70) == [], "the other host's clock may be in another zone"
    assert ending(10, 10, fetched=8) == []
    assert ending(10, 20, shutdown=10) == [], "the last broker of a cluster shuts down and waits, and nobody asks it"
    assert len(ending(10, 20, shutdown=15)) == 1, "five minutes are missing before its shutdown"


def test_spans_cover_all_ranges_of_a_file() -> None:
    split = {"cluster": "c", "file": "f", "first_time_ms": 5, "last_time_ms": 9}
    assert spans_of([split, {**split, "first_time_ms": 2}, {**split, "first_time_ms": None}]) == {("c", "f"): (2, 9)}


def test_a_directory_that_cannot_be_listed_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "server.log").write_text(
        "[2026-11-21 04:00:00,000] INFO started (kafka.server.KafkaServer)\n"
    )
    locked = tmp_path / "broker-2"
    locked.mkdir()
    listed = os.scandir

    def scandir(path: str) -> object:  # root may list what others may not
        if os.fspath(path) == str(locked):
            raise PermissionError(13, "Permission denied", str(locked))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(CaptureError, match=r"can't be listed: .*Permission denied.*broker-2"):
        discover(str(tmp_path))
    assert stat.S_ISDIR(locked.stat().st_mode)


def test_a_hole_in_the_metadata_log_is_missing() -> None:
    assert missing(holes=(("d", 7, 7), ("c", 40, 52))) == [
        "the part of the metadata log with offsets 40 to 52",
        "the part of the metadata log with offset 7",
    ]


def test_a_snapshot_that_is_not_whole_is_missing() -> None:
    [one] = missing_evidence(
        (), (), (), {}, Seen({}, {}, metadata_holes=[MetadataHole("c", snapshot="node-1/9-1.checkpoint")])
    )
    assert (str(one), one.remedy) == (
        "a part of the snapshot node-1/9-1.checkpoint",
        "no record of it is used: copy the file again",
    )


def test_requests_that_senders_number_are_missing_but_for_logs_that_leave_answers_out() -> None:
    skipped = RequestGap("c", 2, 50, 950, 0, MINUTE)
    between = "between 1970-01-01T00:00:00.000 and 1970-01-01T00:01:00.000"
    rows = {("c", 2): {"request_log": 1_900}}
    assert missing(rows=rows, gaps=(skipped,)) == [
        f"a part of the request log of node 2, at least 50 requests {between} (about 100 answers)"
    ]
    assert missing(gaps=(RequestGap("c", 2, 1, 999, 0, MINUTE),)) == [
        f"a part of the request log of node 2, at least 1 request {between}"
    ]
    assert missing(gaps=(skipped,), light=frozenset({("c", 2)})) == []
