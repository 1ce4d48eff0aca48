"""Runs the compiled scanner over the lines of a range, and makes Arrow columns of its results."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from epochaudit.events.event_types import FETCH
from epochaudit.sources.request_log.acknowledged_runs import ANSWERS
from epochaudit.sources.request_log.apis.produce import API as PRODUCE
from epochaudit.sources.request_log.compiled.machine import (
    FETCH_END,
    FETCH_STRINGS,
    NONE,
    PARTITION,
    REGISTER,
    REGISTERS,
    STRINGS,
    TOPIC,
    UNREAD,
    Array,
    Filled,
    Folded,
    Note,
    Peak,
    Run,
    State,
    Stop,
    close_runs,
    partition_key,
    scan,
)
from epochaudit.sources.request_log.compiled.program import Program, json_program, text_program
from epochaudit.sources.request_log.json import APIS
from epochaudit.sources.sink import NO_EDGES, Columns, Edges, RequestCounts, RowSink

PADDING: Final = 64  # newlines after a text, as comparisons of whole words read past its end
ROWS: Final = 6_000  # initial rows of each table; a power of two would map all columns of a row to the same cache lines
CHARACTERS: Final = 200_000  # initial bytes of each column of strings
NOTES: Final = 4_096  # lines noted before the decoder reads them
RUNS: Final = 1 << 14  # open runs, and peaks
MOST_REMAINING_ROWS: Final = 1 << 16  # of a range, before all of its runs are closed: memory is bounded
PARTITIONS: Final = 512  # of a line; joining more would need another algorithm
DEPTH: Final = 16  # of nested objects
MINUTE: Final = 18  # bytes of `[YYYY-MM-DD HH:MM:`
LEVEL_END: Final = 32  # bytes of `[YYYY-MM-DD HH:MM:SS,mmm] DEBUG `
NO_MINUTE: Final = (0, 0, 0, -1)  # no minute: overlapping words that contradict each other
_POSITION, _OFFSET, _LINE, _NOTES, _CLOCK_TIME, _LATEST, _MINUTE = (
    int(name)
    for name in (State.POSITION, State.OFFSET, State.LINE, State.NOTES, State.CLOCK_TIME, State.LATEST, State.MINUTE)
)
_ID: Final = re.compile(r"\{id=(-?\d+)")


def load() -> None:
    """Load the compiled code, or compile it. Raises numba's errors."""
    program, none = json_program(), np.zeros(1, np.int64)
    text, rows, notes = np.zeros(PADDING, np.uint8), np.zeros((1, 1, 1), np.int64), np.zeros((1, 1), np.int64)
    characters, ends = np.zeros((1, 1, 1), np.uint8), np.zeros((1, 1, 1), np.int32)
    runs = Runs()
    _partition_key("", 0)
    scan(
        text, 0, program.roots, program.fields, program.literals, np.zeros(len(State), np.int64),
        none, notes, none, none, rows, characters, ends, none, notes, runs.folded,
    )  # fmt: skip
    runs.close()


def of_json(sink: RowSink) -> RequestScanner:
    """For the request log in JSON."""
    return RequestScanner(json_program(), sink)


def of_text(sink: RowSink) -> RequestScanner:
    """For the request log as text."""
    return RequestScanner(text_program(), sink)


class RequestScanner:
    """Reads the lines of a file's range that are printed as Kafka prints them. Its rows go to the sink, but for
    those of answers to Produce.
    """

    def __init__(self, program: Program, sink: RowSink) -> None:
        self._program, self._clock = program, sink.clock
        tables = program.tables
        self._runs = _INACTIVE if sink.edges is None else Runs(sink.edges)
        for number, api in enumerate(program.apis[:tables]):
            if api == PRODUCE.name:
                continue
            if api == FETCH and sink.edges is not None:
                sink.register(f"scanned {api}", FoldedRows(self, number, api, sink.wanted.schema(), self._runs))
            else:
                sink.register(f"scanned {api}", ScannedRows(self, number, api, sink.wanted.schema()))
        self._state = np.zeros(len(State), np.int64)
        self._state[_CLOCK_TIME] = NONE
        self._registers = np.zeros(len(REGISTERS), np.int64)
        self._parts = np.zeros((PARTITIONS, UNREAD - TOPIC), np.int64)
        self._opened = np.zeros(DEPTH, np.int64)
        self.filled = np.zeros(tables, np.int64)
        self.rows = np.zeros((tables, UNREAD, ROWS), np.int64)
        self.characters = np.zeros((tables, len(STRINGS), CHARACTERS), np.uint8)
        self.ends = np.zeros((tables, len(STRINGS), ROWS + 1), np.int32)
        self._counts = np.zeros(len(program.apis), np.int64)
        self._notes = np.zeros((NOTES, len(Note)), np.int64)
        self._text = np.zeros(0, np.uint8)
        self._data = b""
        self._pace = (0, 0, 0, 0)
        self._minute_ms: int | None
        self._reset_minute()

    def begin(self, data: bytes, byte_offset: int) -> None:
        """Set the lines to scan next. byte_offset: of the first in the file."""
        self._data = data
        self._text = np.empty(len(data) + PADDING, np.uint8)
        self._text[: len(data)] = np.frombuffer(data, np.uint8)
        self._text[len(data) :] = ord("\n")
        self._state[_OFFSET] = byte_offset

    def lines(self, start: int, line_in_split: int) -> tuple[int, int, list[list[int]]]:
        """Scan lines from `start` on, up to the first one that the scanner does not take.

        Returns (start of that line, its number, noted lines in the columns of Note).
        """
        if not self._data.startswith(self._program.start, start + LEVEL_END):
            return start, line_in_split, []
        state, program = self._state, self._program
        state[_POSITION], state[_LINE], state[_NOTES] = start, line_in_split, 0
        self._follow_clock()
        while True:
            stop = scan(
                self._text, len(self._data), program.roots, program.fields, program.literals, state,
                self._registers, self._parts, self._opened, self.filled, self.rows, self.characters, self.ends,
                self._counts, self._notes, self._runs.folded,
            )  # fmt: skip
            if stop == Stop.FULL:
                self._grow()
            elif stop == Stop.UNFOLDED:
                self._runs.make_space()
            elif not (stop == Stop.MINUTE and self._read_minute()) and not (stop == Stop.LATE and self._ask_clock()):
                break
        self._set_clock()
        return int(state[_POSITION]), int(state[_LINE]), self._notes[: state[_NOTES]].tolist()

    def _follow_clock(self) -> None:
        if self._pace != (pace := self._clock.pace):
            self._state[_LATEST:_MINUTE] = self._pace = pace
        if self._minute_ms != self._clock.minute(self._minute):  # summer time ended
            self._reset_minute()

    def _set_clock(self) -> None:
        latest, behind, leap_from, leap_to = self._state[_LATEST:_MINUTE].tolist()
        if self._pace != (pace := (latest, behind, leap_from, leap_to)):
            self._clock.pace = self._pace = pace

    def _ask_clock(self) -> bool:
        """Let the clock read the next line's time; False if it has none."""
        self._set_clock()
        start = self._state[_POSITION]
        time_ms = self._clock.read(self._data[start : start + LEVEL_END])
        self._follow_clock()
        if time_ms is None:
            return False
        self._state[_CLOCK_TIME] = time_ms
        return True

    def answers(self) -> ScannedAnswers | None:
        """The answers to Produce that have been scanned and not been cleared; None if the decoder reads all of these lines."""
        apis = self._program.apis[: self._program.tables]
        return ScannedAnswers(self, apis.index(PRODUCE.name)) if PRODUCE.name in apis else None

    def take_counts(self, counts: RequestCounts) -> tuple[int, int]:
        """Add the lines scanned since the last call to `counts`; returns the numbers of lines with and without rows."""
        requests = self._counts.tolist()
        for api, count in zip(self._program.apis, requests, strict=True):
            if count:
                counts.requests[api] += count
        self._counts[:] = 0
        events = sum(requests[: len(self.filled)])
        return events, sum(requests) - events

    def _read_minute(self) -> bool:
        """Set the next line's minute as the current one; False if it has none."""
        start = self._state[_POSITION]
        printed = self._data[start : start + MINUTE]
        known = self._clock.minute(printed)
        if known is None:
            return False
        self._minute, self._minute_ms = printed, known
        self._state[_MINUTE:] = (known, *(int.from_bytes(printed[at : at + 8], "little") for at in (0, 8, MINUTE - 8)))
        return True

    def _reset_minute(self) -> None:
        self._minute = b""
        self._minute_ms = None
        self._state[_MINUTE:] = NO_MINUTE

    def _grow(self) -> None:
        """Double the space for rows and strings."""
        self.rows = np.concatenate((self.rows, np.zeros_like(self.rows)), axis=2)
        self.ends = np.concatenate((self.ends, np.zeros_like(self.ends)), axis=2)
        self.characters = np.concatenate((self.characters, np.zeros_like(self.characters)), axis=2)


class ScannedRows:
    """The scanned rows of an API; see sink.PendingRows."""

    def __init__(self, scanner: RequestScanner, table: int, api: str, wanted: pa.Schema) -> None:
        own = {"partition_row", *APIS[api].columns}
        names = (name for name in REGISTERS[:UNREAD] if name in own or REGISTER[name] < REGISTER["replica_id"])
        self._columns = {name: wanted.field(name).type for name in names if name in wanted.names}
        self._scanner, self._table, self._event_type = scanner, table, pa.scalar(api)

    def __len__(self) -> int:
        return int(self._scanner.filled[self._table])

    def clear(self) -> None:
        """Remove the rows."""
        self._scanner.filled[self._table] = 0

    def columns(self) -> Columns:
        """The requested columns that the rows fill."""
        return {**self._of_table(), "event_type": pa.repeat(self._event_type, len(self))}

    def _of_table(self) -> Columns:
        """The columns that the scanner's table fills."""
        scanner, table = self._scanner, self._table
        return self._filled(scanner.rows[table], scanner.characters[table], scanner.ends[table], len(self))

    def _filled(self, rows: Array, characters: Array, ends: Array, count: int) -> Columns:
        """rows: a row per register. characters, ends: a row per column of strings."""
        return {
            name: _column(rows[REGISTER[name]], characters, ends, name, kind, count)
            for name, kind in self._columns.items()
        }

    def halves(self) -> None:
        """None: the scanner takes only values that fit their columns."""

    def place(self) -> tuple[object, object]:
        """byte_offset and line_in_split of the first row."""
        first = self._scanner.rows[self._table, :, 0]
        return first[REGISTER["byte_offset"]].item(), first[REGISTER["line_in_split"]].item()


class ScannedAnswers(ScannedRows):
    """The scanned answers to Produce, for AcknowledgedRuns."""

    def __init__(self, scanner: RequestScanner, table: int) -> None:
        self._scanner, self._table = scanner, table
        self._columns = {column.name: column.type for column in ANSWERS}

    def table(self) -> pa.Table:
        """The answers."""
        return pa.table(self._of_table(), ANSWERS)


class FoldedRows(ScannedRows):
    """The scanned rows of Fetch, folded into runs: they are pending once the runs are closed."""

    def __init__(self, scanner: RequestScanner, table: int, api: str, wanted: pa.Schema, runs: Runs) -> None:
        super().__init__(scanner, table, api, wanted)
        self._runs = runs

    def __len__(self) -> int:
        return self._runs.closed

    def finish(self) -> None:
        """Close all runs: the range ends."""
        self._runs.close()

    def clear(self) -> None:
        """Remove the rows."""
        self._runs.clear()

    def columns(self) -> Columns:
        """The requested columns that the rows fill, in the order of their lines. Closes all runs."""
        self._runs.close()
        rows, count = self._runs.rows[: len(self)], len(self)
        at, row_of_line = rows[:, REGISTER["byte_offset"]], rows[:, PARTITION]
        order = pa.array(np.lexsort((row_of_line, at)))
        filled = self._filled(rows.T, self._runs.texts, self._runs.ends, count)
        filled |= {"run_rows": _integers(rows[:, -2], pa.int32()), "run_arrival_ms": _integers(rows[:, -1], pa.int64())}
        filled["event_type"] = pa.repeat(self._event_type, count)
        return {name: column.take(order) for name, column in filled.items()}

    def place(self) -> tuple[object, object]:
        """byte_offset and line_in_split of the first row."""
        first = self._runs.rows[0]
        return first[REGISTER["byte_offset"]].item(), first[REGISTER["line_in_split"]].item()


class Runs:
    """Runs of like Fetch rows: of each run only the rows that an audit can need become rows of the scan.

    Nearly all rows of a busy cluster's request log are alike: a client at the same leader goes on where it was and is served.
    A run is the rows of one range and minute that were served, have the same strings (connection and topic among them), state the
    same in the columns of machine._LIKE, and do not fall in those of machine._RISING. Its rows need not be adjacent.

    Its first and last rows remain. The last one stands for those that are left out: run_rows is their number and its own,
    run_arrival_ms the earliest arrival of the run. The rows with the lowest and the highest high watermark of a partition in
    ten seconds remain, too. So minima and maxima of the columns are the same with and without the rows that are left out.

    closed: the number of rows of closed runs.
    """

    def __init__(self, edges: Edges = NO_EDGES, active: bool = True) -> None:
        space = 1 if active else 0
        self.filled = np.zeros(len(Filled), np.int64)
        self.filled[Filled.ACTIVE] = active
        self.rows = np.empty((ROWS * space, FETCH_END + 2), np.int64)
        self.texts = np.empty((len(FETCH_STRINGS), CHARACTERS * space), np.uint8)
        self.ends = np.zeros((len(FETCH_STRINGS), ROWS * space + 1), np.int32)
        self._slots = np.full(4 * RUNS * space, -1, np.int64)
        self._runs = np.zeros((RUNS * space, Run.END), np.int64)
        self._last = np.empty((RUNS * space, FETCH_END), np.int64)
        self._peak_slots = np.full(4 * RUNS * space, -1, np.int64)
        self._peaks = np.zeros((RUNS * space, Peak.END), np.int64)
        self._peak_rows = np.empty((RUNS * space, 2, FETCH_END), np.int64)
        self._edges = _by_key(edges)
        self.closed = 0

    @property
    def folded(self) -> Folded:
        """The arrays, for compiled code."""
        return Folded(
            self.filled, self.rows, self.texts, self.ends, self._slots, self._runs, self._last, self._peak_slots,
            self._peaks, self._peak_rows, *self._edges,
        )  # fmt: skip

    def make_space(self) -> None:
        """Make more space for the rows of a line, of which no more than RUNS - PARTITIONS runs and peaks may be open."""
        open_runs = max(self.filled[Filled.RUNS], self.filled[Filled.PEAKS])
        if open_runs and (open_runs + PARTITIONS > RUNS or self.filled[Filled.ROWS] >= MOST_REMAINING_ROWS):
            self.close()
        else:
            self._grow()

    def _grow(self) -> None:
        """Double the space for rows and strings."""
        self.rows = np.concatenate((self.rows, np.empty_like(self.rows)))
        self.ends = np.concatenate((self.ends, np.zeros_like(self.ends)), axis=1)
        self.texts = np.concatenate((self.texts, np.empty_like(self.texts)), axis=1)

    def close(self) -> None:
        """Close all runs: their rows are final."""
        filled, runs, peaks = self.filled[: Filled.ACTIVE].tolist()
        run_of = np.concatenate((np.arange(runs), self._peaks[:peaks, [Peak.LOW_RUN, Peak.HIGH_RUN]].ravel()))
        first = self._runs[run_of, Run.FIRST]
        sizes = (self.ends[:, first + 1] - self.ends[:, first]).sum(axis=1)
        while filled + len(first) > len(self.rows) or (self.ends[:, filled] + sizes).max() > self.texts.shape[1]:
            self._grow()
        close_runs(self.folded)
        self.closed = int(self.filled[Filled.ROWS])

    def clear(self) -> None:
        """Remove the rows. All runs must be closed."""
        self.filled[Filled.ROWS] = self.closed = 0


def _by_key(edges: Edges) -> tuple[Array, Array, Array]:
    """edges, edge_keys and edge_ends of machine.Folded. Partitions of the same key have the edges of all of them.

    The edges of all partitions stand once: where brokers delete replicas, there are thousands.
    """
    times: dict[int, list[int]] = {}
    for (topic, partition), own in edges.by_partition.items():
        times.setdefault(_partition_key(topic, partition), []).extend(own)
    keys = sorted(times)
    margin = np.arange(-edges.margin_ms - 1, edges.margin_ms + 1) if edges.margin_ms >= 0 else np.zeros(1, np.int64)
    lists = [
        np.unique(np.add.outer(np.array(own, np.int64), margin))
        for own in (edges.everywhere, *(times[key] for key in keys))
    ]
    ends = np.cumsum([len(of_key) for of_key in lists])
    return np.concatenate(lists), np.array(keys, np.int64), ends.astype(np.int64)


def _partition_key(topic: str, partition: int) -> int:
    text = np.frombuffer(topic.encode() + bytes(PADDING), np.uint8)
    registers = np.full(len(REGISTERS), NONE, np.int64)
    registers[REGISTER["partition"]] = partition
    registers[TOPIC], registers[TOPIC + 1] = 0, len(topic.encode())
    return int(partition_key(text.ctypes.data, registers))


def _column(
    values: Array, characters: Array, ends: Array, name: str, kind: pa.DataType, count: int
) -> pa.Array:  # fmt: skip
    if name not in STRINGS:
        return _integers(values[:count], kind)
    number = STRINGS.index(name)
    of_rows = ends[number, : count + 1]
    text = characters[number, : of_rows[-1]].tobytes()
    known = pa.array(values[:count] != NONE).buffers()[1]
    strings = pa.StringArray.from_buffers(count, pa.py_buffer(of_rows.tobytes()), pa.py_buffer(text), known)
    return _lists(strings, kind) if pa.types.is_list(kind) else strings


def _integers(values: Array, kind: pa.DataType) -> pa.Array:
    return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=values == NONE)


def _lists(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Integers `1,2,3`, or ids of brokers `[{id=1,…},{id=2,…}]`, as lists. Few texts differ, so each is parsed once."""
    encoded = texts.dictionary_encode()
    values = [
        _ID.findall(text) if text.startswith("[") else text.split(",") if text else []
        for text in encoded.dictionary.to_pylist()
    ]
    return pa.array([list(map(int, integers)) for integers in values], kind).take(encoded.indices)


_INACTIVE: Final = Runs(active=False)  # of all scanners that do not fold: compiled code takes arrays in any case


if __name__ == "__main__":
    load()  # `make setup` compiles beforehand, so that the first audit of a large log does not
