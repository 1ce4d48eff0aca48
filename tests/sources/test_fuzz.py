"""Damage costs the lines that it hits and no others, whatever it is and wherever it strikes.

Real files are cut, overwritten, filled with garbage and mixed up. Nothing may raise, each line is an event, ignored or in
quarantine, and a line that was not hit gives the rows that it gave before. `--hypothesis-profile=thorough` tries more.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.formats import BY_KIND
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import ByteRange

pytestmark = pytest.mark.slow

SAMPLES = (
    ("request-log-json", "zk-stopreplica-bypass-3.9"),
    ("state-change-log", "zk-healthy-3.9"),
    ("server-log", "zk-healthy-3.9"),
    ("server-log", "kraft-ineligible-isr-4.1"),
    ("request-log-text", "zk-stopreplica-prekip570-2.3"),
    ("request-log-text", "zk-unclean-truncation-2.0"),
    ("client-log", "zk-unclean-truncation-3.9"),
    ("metadata-log-dump", "kraft-k1-healthy"),
)
STATED_ELSEWHERE = frozenset(
    {"batch_base_offset", "batch_last_offset", "raft_epoch", "in_snapshot", "time_ms", "arrival_ms"}
)
"""Columns that a line has from earlier ones, which may have been hit: a batch's heading, a configuration's, the clock."""
PLACE = frozenset({"byte_offset", "line_in_split", "file", "split", "row_kind"})

Rows = Mapping[int, list[dict[str, object]]]  # by byte offset of the line
Placed = Mapping[int, int]  # byte offset of a line that was not hit -> its byte offset now


@dataclass(frozen=True)
class Read:
    """What was made of a file."""

    rows: Rows
    lines: int
    outcomes: int


def read(data: bytes, kind: str, edges: Sequence[int] = ()) -> Read:
    rows: dict[int, list[dict[str, object]]] = defaultdict(list)
    lines = outcomes = 0
    with tempfile.NamedTemporaryFile() as log:
        log.write(data)
        log.flush()
        file = CaptureFile("log", log.name, kind, "c", len(data), 1, BY_KIND[kind].source)
        bounds = [0, *sorted(edges), len(data)]
        parts = [ByteRange(file, split, *bound) for split, bound in enumerate(pairwise(bounds))]
        for row in (row for part in parts for batch in decoded(part) for row in batch.to_pylist()):
            if row["row_kind"] == "event":
                filled = {name: value for name, value in row.items() if value is not None and name not in PLACE}
                rows[row["byte_offset"]].append({n: v for n, v in filled.items() if n not in STATED_ELSEWHERE})
            elif row["row_kind"] == "split":
                split = row["statistics"]
                lines += split["lines"]
                outcomes += split["event_lines"] + split["ignored_lines"] + split["quarantined_lines"]
    return Read(rows, lines, outcomes)


@dataclass(frozen=True)
class Sample:
    """Real lines of one kind, with the rows of each."""

    kind: str
    data: bytes
    rows: Rows

    def starts(self) -> Iterator[tuple[int, int]]:
        """(start, end) of each line, its newline included."""
        start = 0
        for line in self.data.splitlines(keepends=True):
            yield start, start + len(line)
            start += len(line)


@pytest.fixture(scope="session")
def sample(capture: Callable[[str], object]) -> Callable[[str, str], Sample]:
    @cache
    def of(kind: str, name: str) -> Sample:
        files = [file for file in discover(str(capture(name))).files if file.kind == kind]
        lines: list[bytes] = []
        for file in files[:2]:
            with file.open() as stream:
                recorded = stream.read().split(b"\n")[:-1]
            step = max(1, len(recorded) // 30)
            lines += recorded[:30] + recorded[30::step]
        data = b"".join(line + b"\n" for line in lines)
        return Sample(kind, data, read(data, kind).rows)

    return of


def not_harmed(found: Read, data: bytes, sample: Sample, placed: Placed) -> None:
    assert found.lines == found.outcomes == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    for before, now in placed.items():
        (rows, runs), (rows_before, runs_before) = apart(found.rows.get(now, [])), apart(sample.rows.get(before, []))
        assert rows == rows_before, sample.data[before : before + 300]
        for partition in runs.keys() & runs_before.keys():
            assert runs[partition] == runs_before[partition], sample.data[before : before + 300]


def apart(rows: Sequence[Mapping[str, object]]) -> tuple[list[Mapping[str, object]], dict[object, object]]:
    """The rows of one line, and, by partition, what its own line gives of a row of Produce: its last base offset, not the first ones.

    Such a row is of a run of lines. If another line of the run is lost, it lacks that offset, or is at another line.
    """
    runs = {}
    for row in rows:
        if row.get("event_type") == "PRODUCE":
            *_, last = cast(list[int], row["base_offsets"])
            own = {name: value for name, value in row.items() if name not in ("base_offsets", "arrival_ms")}
            runs[row.get("topic"), row.get("topic_id"), row["partition"]] = own | {"last": last}
    return [row for row in rows if row.get("event_type") != "PRODUCE"], runs


many = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], print_blob=True
)
each_sample = pytest.mark.parametrize(("kind", "name"), SAMPLES)
Samples = Callable[[str, str], Sample]


@each_sample
@many
@given(data=st.data())
def test_a_file_that_is_cut_gives_all_before_the_cut(
    kind: str, name: str, sample: Samples, data: st.DataObject
) -> None:
    whole = sample(kind, name)
    end = data.draw(st.integers(0, len(whole.data)), label="cut at")
    start_of_log = whole.data[:end]
    not_harmed(
        read(start_of_log, kind), start_of_log, whole, {start: start for start, stop in whole.starts() if stop <= end}
    )


@each_sample
@many
@given(data=st.data())
def test_bytes_that_are_overwritten_cost_their_lines(
    kind: str, name: str, sample: Samples, data: st.DataObject
) -> None:
    whole = sample(kind, name)
    flips = data.draw(
        st.dictionaries(st.integers(0, len(whole.data) - 1), st.integers(0, 255), min_size=1, max_size=12),
        label="flips",
    )
    harmed = bytearray(whole.data)
    for position, byte in flips.items():
        harmed[position] = byte
    untouched = {start: start for start, stop in whole.starts() if not any(start - 1 <= flip < stop for flip in flips)}
    not_harmed(read(bytes(harmed), kind), bytes(harmed), whole, untouched)


@each_sample
@many
@given(data=st.data())
def test_garbage_between_lines_costs_nothing(kind: str, name: str, sample: Samples, data: st.DataObject) -> None:
    whole = sample(kind, name)
    starts = [start for start, _ in whole.starts()]
    inserted = data.draw(st.dictionaries(st.sampled_from(starts), st.binary(min_size=1, max_size=400), max_size=6))
    pieces: list[bytes] = []
    placed: dict[int, int] = {}
    position = 0
    for start, stop in whole.starts():
        if start in inserted:
            garbage = inserted[start].rstrip(b"\n") + b"\n"
            pieces.append(garbage)
            position += len(garbage)
        placed[start] = position
        pieces.append(whole.data[start:stop])
        position += stop - start
    harmed = b"".join(pieces)
    not_harmed(read(harmed, kind), harmed, whole, placed)


@each_sample
@many
@given(data=st.data())
def test_halves_of_two_files_are_read_in_one(kind: str, name: str, sample: Samples, data: st.DataObject) -> None:
    whole = sample(kind, name)
    other = sample(*data.draw(st.sampled_from(SAMPLES)))
    starts = [start for start, _ in whole.starts()]
    middle, of_other = data.draw(st.sampled_from(starts)), data.draw(st.integers(0, len(other.data)))
    torn = data.draw(st.booleans(), label="the other half ends within a line")
    half = other.data[:of_other] if torn else other.data[:of_other].rpartition(b"\n")[0] + b"\n"
    harmed = whole.data[:middle] + half + whole.data[middle:]
    placed = {start: start for start in starts if start < middle}
    after = [start for start in starts if start >= middle]
    placed |= {start: start + len(half) for start in (after if half.endswith(b"\n") or not half else after[1:])}
    settings_of_a_dump = {start for start in after if whole.data[start : start + 1] == b"\t"}
    if "metadata-log-dump" in (kind, other.kind):
        placed = {}  # a transaction of one may hold back the other's records
    read_back = read(harmed, kind)
    not_harmed(
        read_back, harmed, whole, {start: now for start, now in placed.items() if start not in settings_of_a_dump}
    )


@pytest.mark.parametrize(("kind", "name"), [sample for sample in SAMPLES if sample[0] != "metadata-log-dump"])
@many
@given(data=st.data())
def test_ranges_give_what_the_whole_file_gives(kind: str, name: str, sample: Samples, data: st.DataObject) -> None:
    whole = sample(kind, name)
    flips = data.draw(st.dictionaries(st.integers(0, len(whole.data) - 1), st.integers(0, 255), max_size=5))
    harmed = bytearray(whole.data)
    for position, byte in flips.items():
        harmed[position] = byte
    edges = data.draw(st.lists(st.integers(0, len(whole.data)), max_size=5), label="edges")
    once, parts = read(bytes(harmed), kind), read(bytes(harmed), kind, edges)
    assert (parts.lines, parts.rows) == (once.lines, once.rows)
