"""Rows of Produce: the base offsets that leaders acknowledged, in runs.

Produce is a third of a busy log, and only a loss needs its answers. A row is a run of answers that one connection got for a partition
within one second. Where runs of a large log are folded, a row stands for those of up to a minute, between which nothing changed.
Answers with an error code or without a base offset, and requests without an answer (acks=0), are only counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from epochaudit.kafka.errors import Errors
from epochaudit.sources.request_log.apis.produce import ANSWERED, API
from epochaudit.sources.sink import SCAN, Columns, Edges, RequestCounts

_OF_REQUEST: Final = (
    "byte_offset", "line_in_split", "partition_row", "time_ms", "arrival_ms", "api_version", "correlation_id", "client_id", "connection",
)  # fmt: skip
BASE_OFFSET: Final = pa.field("base_offset", pa.int64())
ANSWERS: Final = pa.schema(
    [BASE_OFFSET if name == BASE_OFFSET.name else SCAN.field(name) for name in (*_OF_REQUEST, *ANSWERED)]
)
"""One row per partition that a response lists, and per partition of a request without a response, whose error_code is null."""
LINE_ORDER: Final = [("byte_offset", "ascending"), ("partition_row", "ascending")]
ROW: Final = frozenset({*ANSWERS.names}) - {BASE_OFFSET.name, "error_code"}
KEY: Final = ("topic", "topic_id", "partition")
ZERO, ONE, NO_NUMBER = pa.scalar(0, pa.int64()), pa.scalar(1, pa.int64()), pa.scalar(None, pa.int64())
LARGEST: Final = 1 << 62
SUBJECT: Final = ("connection", "client_id", "topic", "topic_id", "partition", "acks", "transactional_id")
SPAN_MS: Final = 1_000
"""The longest run. A run counts for the newest leader epoch in it, and leaders may change every few seconds."""
FOLDED_MS: Final = 60_000
"""The longest time of runs that are folded into one row: a multiple of SPAN_MS."""
AT_ONCE: Final = 1 << 15
"""Answers of which rows are made together, if there are more than such as may still go on."""
SCANNED_AT_ONCE: Final = 3_000
"""Answers that compiled code leaves in its space, which all of its rows share."""


class Scanned(Protocol):
    """Answers that compiled code has read, as a table of ANSWERS."""

    def __len__(self) -> int: ...

    def table(self) -> pa.Table: ...

    def clear(self) -> None: ...


class AcknowledgedRuns:
    """Runs of answers with rising base offsets, of one connection, client id, partition, acks and transactional id.

    A row has the place and the values of the run's last answer, and the earliest arrival. Runs end with their SPAN_MS by time_ms.
    counts: takes partitions and error codes. edges: runs of one FOLDED_MS between two of these times become one row; None: none do.
    scanned: what compiled code reads, if any. For the sink, these are `HeldRows`.
    """

    def __init__(self, counts: RequestCounts, edges: Edges | None) -> None:
        self.scanned: Scanned | None = None
        self._counts = counts
        self._edges = edges
        self._edges_of: dict[tuple[str, int], list[int]] = {}
        self._added: list[tuple[object, ...]] = []
        self._moved: list[pa.Table] = []
        self._open = ANSWERS.empty_table()
        self._rows: list[pa.Table] = []

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    def clear(self) -> None:
        """Remove the rows."""
        self._rows.clear()

    def columns(self) -> Columns:
        """The table's columns that the rows fill."""
        rows = pa.concat_tables(self._rows).combine_chunks()
        filled = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        return {"event_type": pa.repeat(pa.scalar(API.name), len(rows)), **filled}

    def place(self) -> tuple[object, object]:
        """byte_offset and line_in_split of the first row."""
        first = self._rows[0].slice(0, 1)
        return first["byte_offset"][0].as_py(), first["line_in_split"][0].as_py()

    def halves(self) -> None:
        """None: decoders take only values that fit their columns."""

    def add(self, common: Sequence[Any], found: Iterable[tuple[object, ...]]) -> None:
        """Add a request: `common` in the order of json.COMMON, `found` as by `produce.rows`."""
        byte_offset, line_in_split, time_ms, version, correlation_id, client_id, connection, _, _, total_ms = common[
            :10
        ]
        arrival_ms = time_ms - (int(total_ms * 1000 + 0.5) + 999) // 1000
        for number, answer in enumerate(found):
            self._added.append((
                byte_offset, line_in_split, number, time_ms, arrival_ms, version, correlation_id, client_id, connection, *answer,
            ))  # fmt: skip
        if len(self._added) >= AT_ONCE:
            self.make_rows()

    def make_rows(self) -> None:
        """Make rows of the answers that there are, if they are many."""
        if self.scanned is not None and len(self.scanned) >= SCANNED_AT_ONCE:
            self._move(self.scanned)
        if len(self._added) + sum(map(len, self._moved)) >= max(AT_ONCE, len(self._open)):
            self._make_rows(finished=False)

    def finish(self) -> None:
        """End all runs: their rows are final."""
        self._make_rows(finished=True)

    def _make_rows(self, finished: bool) -> None:
        """Make rows of the answers of all times, or of the SPAN_MS or FOLDED_MS before the last."""
        answers = self._answers()
        if not len(answers):
            return
        spans = _changes(_quotient(answers["time_ms"], SPAN_MS))
        minutes = spans if self._edges is None else _changes(_quotient(answers["time_ms"], FOLDED_MS))
        end = len(answers) if finished else pc.index(minutes, minutes[-1]).as_py()
        self._open = answers.slice(end)
        self._count(answers.slice(0, end))
        answers = answers.append_column("span", spans).append_column("minute", minutes).slice(0, end)
        served = pc.fill_null(pc.equal(answers["error_code"], pa.scalar(int(Errors.NONE))), False)
        answers = answers.filter(pc.and_(served, pc.greater_equal(answers[BASE_OFFSET.name], ZERO)))
        if len(answers):
            runs = _Runs(answers)
            self._rows.append(runs.rows(None if self._edges is None else self._begins(runs, self._edges)))

    def _answers(self) -> pa.Table:
        """All answers that are not rows yet, in the order of their lines."""
        if self.scanned is not None:
            self._move(self.scanned)
        added = [pa.table(list(zip(*self._added, strict=True)), ANSWERS)] if self._added else []
        answers = pa.concat_tables([self._open, *self._moved, *added])
        if self._moved and added:
            answers = answers.sort_by(LINE_ORDER)
        self._moved.clear()
        self._added.clear()
        return answers.combine_chunks()

    def _move(self, scanned: Scanned) -> None:
        if len(scanned):
            self._moved.append(scanned.table())
            scanned.clear()

    def _count(self, answers: pa.Table) -> None:
        if len(answers):
            self._counts.partition_rows[API.name] += len(answers)
        for entry in pc.value_counts(answers["error_code"].combine_chunks().drop_null()).to_pylist():
            self._counts.error_codes[f"{API.name}:{entry['values']}"] += entry["counts"]

    def _begins(self, runs: _Runs, edges: Edges) -> list[bool]:
        """Of each run, whether it begins a row: after an edge of its partition, and unless base offsets rise."""
        margin_ms = max(0, edges.margin_ms)
        begins = runs.begins()
        for first, end, topic, partition, from_ms, until_ms in runs.groups():
            times = self._times_of(edges, topic, partition)
            at = bisect_left(times, from_ms - margin_ms)
            if at < len(times) and times[at] <= until_ms + margin_ms:
                _begin_after_edges(runs, begins, times, margin_ms, first, end)
        return begins

    def _times_of(self, edges: Edges, topic: str, partition: int) -> list[int]:
        """The edges of a partition, in order."""
        if (times := self._edges_of.get((topic, partition))) is None:
            own = edges.by_partition.get((topic, partition), ())
            times = self._edges_of[topic, partition] = sorted({*edges.everywhere, *own})
        return times


class _Runs:
    """The runs of answers, in order of subject and time.

    answers: acknowledged, in the order of their lines, with span and minute, the numbers of their SPAN_MS and FOLDED_MS.
    """

    def __init__(self, answers: pa.Table) -> None:
        subjects = _numbered(answers, SUBJECT)
        order = pc.sort_indices(subjects)  # stable
        self._answers = answers.append_column("subject", subjects).take(order).combine_chunks()
        offsets = self._answers[BASE_OFFSET.name].combine_chunks()
        falls = pc.less_equal(offsets.slice(1), offsets.slice(0, len(offsets) - 1))
        begins = _any(_differs(self._answers["subject"]), _differs(self._answers["span"]), _true_first(falls))
        answers = self._answers.append_column("run", _numbers(begins))
        offset = BASE_OFFSET.name
        of_run = [("arrival_ms", "min"), ("time_ms", "last"), ("subject", "first"), ("minute", "first")]
        of_run += [(offset, which) for which in ("first", "last", "count")]
        self._runs = answers.group_by("run", use_threads=False).aggregate(of_run)
        counts = self._runs[f"{offset}_count"].combine_chunks()
        self._starts = pc.subtract(pc.cumulative_sum(counts), counts)
        self.arrivals: list[int] = self._runs["arrival_ms_min"].to_pylist()
        self.times: list[int] = self._runs["time_ms_last"].to_pylist()

    def begins(self) -> list[bool]:
        """Of each run, whether it is not in one row with the run before whatever the edges: base offsets do not rise to it, or it is of
        another subject or minute.
        """
        count, offset = len(self._runs), BASE_OFFSET.name
        before, first = self._runs[f"{offset}_last"].slice(0, count - 1), self._runs[f"{offset}_first"].slice(1)
        falls = _true_first(pc.greater_equal(before, first))
        begins: list[bool] = _any(self._begins_group(), falls).to_pylist()
        return begins

    def _begins_group(self) -> pa.Array:
        return _any(_differs(self._runs["subject_first"]), _differs(self._runs["minute_first"]))

    def groups(self) -> Iterable[tuple[int, int, str, int, int, int]]:
        """Of each subject and minute: its first run, the one after its last, topic id or else name, partition, the times of its runs."""
        runs = self._runs.append_column("group", _numbers(self._begins_group())).append_column("start", self._starts)
        times = [("arrival_ms_min", "min"), ("time_ms_last", "max"), ("run", "count"), ("start", "first")]
        groups = runs.group_by("group", use_threads=False).aggregate(times)
        keys = self._answers.select(KEY).take(groups["start_first"]).to_pylist()
        first = 0
        for group, key in zip(groups.to_pylist(), keys, strict=True):
            end = first + group["run_count"]
            topic = key["topic_id"] or key["topic"] or ""
            yield first, end, topic, key["partition"], group["arrival_ms_min_min"], group["time_ms_last_max"]
            first = end

    def rows(self, begins: Sequence[bool] | None) -> pa.Table:
        """A row for the runs from each that begins one to the next; None: for each run."""
        own = pa.repeat(pa.scalar(True), len(self._runs)) if begins is None else pa.array(begins)
        of_row = [("arrival_ms_min", "min"), (f"{BASE_OFFSET.name}_count", "sum"), ("run", "count")]
        found = self._runs.append_column("row", _numbers(own)).group_by("row", use_threads=False).aggregate(of_row)
        ends = pc.cumulative_sum(found[f"{BASE_OFFSET.name}_count_sum"].combine_chunks())
        arrivals, counts = found["arrival_ms_min_min"].combine_chunks(), found["run_count"].combine_chunks()
        several = pc.greater(counts, ONE)
        starts = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
        base_offsets = pa.ListArray.from_arrays(starts, self._answers[BASE_OFFSET.name].combine_chunks())
        rows = self._answers.take(pc.subtract(ends, ONE)).select([name for name in ANSWERS.names if name in ROW])
        rows = rows.set_column(rows.column_names.index("arrival_ms"), SCAN.field("arrival_ms"), arrivals)
        for name, values in (
            ("base_offsets", base_offsets),
            ("run_rows", pc.if_else(several, counts, NO_NUMBER)),
            ("run_arrival_ms", pc.if_else(several, arrivals, NO_NUMBER)),
        ):
            rows = rows.append_column(SCAN.field(name), values.cast(SCAN.field(name).type))
        return rows.sort_by(LINE_ORDER)


def _begin_after_edges(
    runs: _Runs, begins: list[bool], edges: Sequence[int], margin_ms: int, first: int, end: int
) -> None:
    """Let runs begin rows if the row before could include them only across an edge. first, end: of a subject's runs in a minute."""
    arrival = runs.arrivals[first]
    for run in range(first + 1, end):
        arrival = min(arrival, runs.arrivals[run])
        at = bisect_left(edges, arrival - margin_ms)
        begins[run] = begins[run] or (at < len(edges) and edges[at] <= runs.times[run] + margin_ms)
        if begins[run]:
            arrival = runs.arrivals[run]


def _quotient(column: pa.ChunkedArray, divisor: int) -> pa.Array:
    """Of times, how many whole spans of this length precede them. A clock before 1970 is none."""
    return pc.divide(column.combine_chunks(), pa.scalar(divisor))


def _differs(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Of each value, whether it differs from the one before."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return _true_first(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)))


def _true_first(others: pa.Array | pa.ChunkedArray) -> pa.Array:
    """True, and the others."""
    values = others.combine_chunks() if isinstance(others, pa.ChunkedArray) else others
    return pa.concat_arrays([pa.array([True]), values])


def _any(*conditions: pa.Array) -> pa.Array:
    return reduce(pc.or_, conditions)


def _numbers(begins: pa.Array) -> pa.Array:
    """Of each value, how many begin up to it."""
    return pc.cumulative_sum(begins.cast(pa.int64()))


def _changes(values: pa.Array) -> pa.Array:
    """Of each value, the number of changes up to it."""
    return _numbers(_differs(values))


def _numbered(rows: pa.Table, names: Iterable[str]) -> pa.Array:
    """Equal numbers for rows with equal values in these columns."""
    numbers, size = pa.repeat(ZERO, len(rows)), 1
    for name in names:
        column = rows[name].combine_chunks().dictionary_encode()
        count = len(column.dictionary) + 1
        if size * count >= LARGEST:
            encoded = numbers.dictionary_encode()
            numbers, size = encoded.indices.cast(pa.int64()), len(encoded.dictionary)
        own = pc.add(pc.fill_null(column.indices.cast(pa.int64()), -1), ONE)
        numbers, size = pc.add(pc.multiply(numbers, pa.scalar(count)), own), size * count
    return numbers
