"""Rows of Produce: the base offsets that leaders acknowledged, in runs.

Produce is a third of a busy log, and only a loss needs its answers. A row is a run of answers that one connection got for a partition
within one second. Where runs of a large log are folded, a row stands for those of up to a minute, between which nothing changed.
Answers with an error code or without a base offset, and requests without an answer (acks=0), are only counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import numpy as np
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
SUBJECT: Final = ("connection", "client_id", "topic", "topic_id", "partition", "acks", "transactional_id")
SPAN_MS: Final = 1_000
"""The longest run. A run counts for the newest leader epoch in it, and leaders may change every few seconds."""
FOLDED_MS: Final = 60_000
"""The longest time of runs that are folded into one row: a multiple of SPAN_MS."""
AT_ONCE: Final = 1 << 15
"""Answers of which rows are made together, if there are more than such as may still go on."""
SCANNED_AT_ONCE: Final = 3_000
"""Answers that compiled code leaves in its space, which all of its rows share."""

Array = np.ndarray[Any, Any]


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
        spans = _stretches(_integers(answers, "time_ms") // SPAN_MS)
        minutes = spans
        if self._edges is not None:
            minutes = _stretches(_integers(answers, "time_ms") // FOLDED_MS)
        end = len(answers) if finished else int(np.searchsorted(minutes, minutes[-1]))
        self._open = answers.slice(end)
        self._count(answers.slice(0, end))
        acknowledged = _acknowledged(answers)[:end]
        if not acknowledged.any():
            return
        at = np.flatnonzero(acknowledged)
        runs = _Runs(answers.take(pa.array(at)), spans[at], minutes[at])
        begins = np.ones(len(runs.starts), bool) if self._edges is None else self._begins(runs, self._edges)
        self._rows.append(runs.rows(begins))

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

    def _begins(self, runs: _Runs, edges: Edges) -> Array:
        """Of each run, whether it begins a row: after an edge of its partition, and unless base offsets rise."""
        margin_ms = max(0, edges.margin_ms)
        begins = runs.alone()
        groups = np.flatnonzero(runs.group_begins)
        from_ms = np.minimum.reduceat(runs.arrivals, groups) - margin_ms
        until_ms = np.maximum.reduceat(runs.times, groups) + margin_ms
        group_ends = np.append(groups[1:], len(begins))
        for topic, partition, of_key in runs.keys(groups):
            times = self._times_of(edges, topic, partition)
            first = np.searchsorted(times, from_ms[of_key])
            for group in of_key[first < np.searchsorted(times, until_ms[of_key], "right")]:
                _begin_after_edges(runs, begins, times, margin_ms, groups[group], group_ends[group])
        return begins

    def _times_of(self, edges: Edges, topic: str, partition: int) -> list[int]:
        """The edges of a partition, in order."""
        if (times := self._edges_of.get((topic, partition))) is None:
            own = edges.by_partition.get((topic, partition), ())
            times = self._edges_of[topic, partition] = sorted({*edges.everywhere, *own})
        return times


class _Runs:
    """The runs of answers, in order of subject and time.

    answers: acknowledged, in the order of their lines. spans, minutes: numbers of each answer's SPAN_MS and FOLDED_MS. starts: where
    runs begin in `order`, the answers by subject. arrivals: the earliest of each run. times: of the last answer of each. group_begins:
    whether a run is the first of its subject and minute.
    """

    def __init__(self, answers: pa.Table, spans: Array, minutes: Array) -> None:
        self._answers = answers
        subjects = _numbered(answers, SUBJECT)
        self.order = np.argsort(subjects, kind="stable")
        self._offsets = _integers(answers, BASE_OFFSET.name)[self.order]
        by_subject = subjects[self.order]
        begins = _differs(by_subject) | _differs(spans[self.order])
        begins[1:] |= self._offsets[1:] <= self._offsets[:-1]
        self.starts = np.flatnonzero(begins)
        self._ends = np.append(self.starts[1:], len(begins))
        self.arrivals = np.minimum.reduceat(_integers(answers, "arrival_ms")[self.order], self.starts)
        self.times = _integers(answers, "time_ms")[self.order][self._ends - 1]
        self.group_begins = _differs(by_subject[self.starts]) | _differs(minutes[self.order][self.starts])

    def alone(self) -> Array:
        """Of each run, whether it is not in one row with the run before whatever the edges: offsets do not rise from run to run."""
        begins = self.group_begins.copy()
        begins[1:] |= self._offsets[self._ends[:-1] - 1] >= self._offsets[self.starts[1:]]
        return begins

    def keys(self, groups: Array) -> Iterable[tuple[str, int, Array]]:
        """(topic id, or else name, partition, which of the groups are of it)."""
        of_groups = self._answers.take(pa.array(self.order[self.starts[groups]])).combine_chunks()
        numbers = _numbered(of_groups, ("topic", "topic_id", "partition"))
        order = np.argsort(numbers, kind="stable")
        firsts = np.flatnonzero(_differs(numbers[order]))
        for of_key in np.split(order, firsts[1:]):
            topic, topic_id, partition = (
                of_groups[name][of_key[0]].as_py() for name in ("topic", "topic_id", "partition")
            )
            yield topic_id or topic or "", partition, of_key

    def rows(self, begins: Array) -> pa.Table:
        """A row for the runs from each that begins one to the next."""
        firsts = np.flatnonzero(begins)
        counts = np.diff(np.append(firsts, len(begins)))
        starts, ends = self.starts[firsts], self._ends[firsts + counts - 1]
        rows = self._answers.take(pa.array(self.order[ends - 1])).drop_columns([BASE_OFFSET.name, "error_code"])
        arrivals = np.minimum.reduceat(self.arrivals, firsts)
        at = rows.column_names.index("arrival_ms")
        offsets = pa.ListArray.from_arrays(
            pa.array(np.append(starts, len(self._offsets)), pa.int32()), pa.array(self._offsets)
        )
        rows = rows.set_column(at, SCAN.field("arrival_ms"), pa.array(arrivals))
        more = {
            "base_offsets": offsets.cast(SCAN.field("base_offsets").type),
            "run_rows": pa.array(counts, pa.int32(), mask=counts == 1),
            "run_arrival_ms": pa.array(arrivals, mask=counts == 1),
        }
        for name, values in more.items():
            rows = rows.append_column(SCAN.field(name), values)
        return rows.sort_by(LINE_ORDER)


def _begin_after_edges(runs: _Runs, begins: Array, edges: Sequence[int], margin_ms: int, first: int, end: int) -> None:
    """Let runs begin rows if the row before could include them only across an edge. first, end: of a subject's runs in a minute."""
    arrival = int(runs.arrivals[first])
    for run in range(first + 1, end):
        arrival = min(arrival, int(runs.arrivals[run]))
        at = bisect_left(edges, arrival - margin_ms)
        begins[run] |= at < len(edges) and edges[at] <= runs.times[run] + margin_ms
        if begins[run]:
            arrival = int(runs.arrivals[run])


def _acknowledged(answers: pa.Table) -> Array:
    served = _integers(answers, "error_code") == Errors.NONE
    return np.asarray(served & (_integers(answers, BASE_OFFSET.name) >= 0))


def _integers(answers: pa.Table, name: str) -> Array:
    """A column's integers, -1 for null."""
    return np.asarray(answers[name].fill_null(-1).to_numpy())


def _stretches(values: Array) -> Array:
    """Of each value, the number of changes up to it."""
    return np.asarray(np.cumsum(_differs(values)))


def _differs(values: Array) -> Array:
    """Of each value, whether it differs from the one before."""
    differs = np.ones(len(values), bool)
    differs[1:] = values[1:] != values[:-1]
    return differs


def _numbered(rows: pa.Table, names: Iterable[str]) -> Array:
    """Equal numbers for rows with equal values in these columns."""
    numbers, size = np.zeros(len(rows), np.int64), 1
    for name in names:
        column = rows[name].combine_chunks().dictionary_encode()
        own = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        size *= len(column.dictionary) + 1
        if size >= 1 << 62:
            numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
            size = (len(rows) + 1) * (len(column.dictionary) + 1)
        numbers = numbers * (len(column.dictionary) + 1) + own
    return numbers
