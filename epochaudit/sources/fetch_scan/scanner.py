"""Runs the compiled scanner over the text of a range, and makes Arrow columns of what it found."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from epochaudit.sources.fetch_scan.machine import NONE, REGISTER, REGISTERS, STRINGS, TOPIC, UNREAD, State, Stop, scan
from epochaudit.sources.fetch_scan.program import Program, json_program, text_program
from epochaudit.sources.sink import SCAN, Columns, RowSink

PADDING: Final = 64  # newlines behind a text, which comparisons of whole words may read
ROWS: Final = 8_192  # that there is room for at first
CHARACTERS: Final = 1 << 19  # the same of each column of strings
PARTITIONS: Final = 512  # of a line: those of larger ones would have to be joined in another way
DEPTH: Final = 16  # of objects within objects
SECOND: Final = 21  # bytes of `[YYYY-MM-DD HH:MM:SS,`
LEVEL_END: Final = 32  # bytes of `[YYYY-MM-DD HH:MM:SS,mmm] DEBUG `
FETCH: Final = pa.scalar("FETCH")
_POSITION, _OFFSET, _LINE, _ROWS, _LATEST, _SECOND = (
    int(name) for name in (State.POSITION, State.OFFSET, State.LINE, State.ROWS, State.LATEST, State.SECOND)
)
_COLUMNS: Final = tuple(name for name in REGISTERS[:UNREAD] if name in SCAN.names)


def load() -> None:
    """Load the compiled code, or compile it. Raises what numba raises where that can't be done."""
    program, none = json_program(), np.zeros(1, np.int64)
    text, rows = np.zeros(PADDING, np.uint8), np.zeros((1, 1), np.int64)
    characters, ends, state = np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.int32), np.zeros(len(State), np.int64)
    scan(text, 0, program.roots, program.fields, program.literals, state, none, rows, none, rows, characters, ends)


def of_json(sink: RowSink) -> FetchScanner:
    """For the request log in JSON."""
    return FetchScanner(json_program(), sink)


def of_text(sink: RowSink) -> FetchScanner:
    """For the request log as text."""
    return FetchScanner(text_program(), sink)


class FetchScanner:
    """The rows of Fetches whose lines are as Kafka prints them, for one range of a file; see sink.Kept."""

    def __init__(self, program: Program, sink: RowSink) -> None:
        self._program, self._clock = program, sink.clock
        sink.keep("scanned Fetches", self)
        wanted = {column.name for column in sink.wanted.schema()}
        self._wanted = [name for name in _COLUMNS if name in wanted]
        self._state = np.zeros(len(State), np.int64)
        self._registers = np.zeros(len(REGISTERS), np.int64)
        self._parts = np.zeros((PARTITIONS, UNREAD - TOPIC), np.int64)
        self._opened = np.zeros(DEPTH, np.int64)
        self._rows = np.zeros((UNREAD, ROWS), np.int64)
        self._characters = np.zeros((len(STRINGS), CHARACTERS), np.uint8)
        self._ends = np.zeros((len(STRINGS), ROWS + 1), np.int32)
        self._text = np.zeros(0, np.uint8)
        self._data = b""
        self._pace = (0, 0, 0, 0)
        self._second = b""
        self._second_ms: int | None = None

    def begin(self, data: bytes, byte_offset: int) -> None:
        """Scan these lines next."""
        self._data = data
        self._text = np.full(len(data) + PADDING, ord("\n"), np.uint8)
        self._text[: len(data)] = np.frombuffer(data, np.uint8)
        self._state[_OFFSET] = byte_offset

    def lines(self, start: int, line_in_split: int) -> tuple[int, int]:
        """Take lines from `start` on, as many as are the scanner's: how many, and where the next line starts."""
        if not self._data.startswith(self._program.start, start + LEVEL_END):
            return 0, start
        state, clock, program = self._state, self._clock, self._program
        state[_POSITION], state[_LINE] = start, line_in_split
        if self._pace != (pace := clock.pace):
            state[_LATEST:_SECOND] = self._pace = pace
        if self._second_ms != (second_ms := clock.second(self._second)):
            self._second_ms = second_ms
            state[_SECOND] = second_ms or 0
        while True:
            stop = scan(
                self._text, len(self._data), program.roots, program.fields, program.literals, state,
                self._registers, self._parts, self._opened, self._rows, self._characters, self._ends,
            )  # fmt: skip
            if stop == Stop.FULL:
                self._grow()
            elif stop != Stop.SECOND or not self._know_second():
                break
        position, _, line, _, *pace = state[:_SECOND].tolist()
        if line > line_in_split:
            clock.pace = self._pace = tuple(pace)
        return line - line_in_split, position

    def _know_second(self) -> bool:
        """The next line's second from now on; False if it prints none."""
        start = self._state[_POSITION]
        printed = self._data[start : start + SECOND]
        known = self._clock.second(printed)
        if known is None:
            return False
        self._second, self._second_ms = printed, known
        self._state[_SECOND:] = (known, *(int.from_bytes(printed[at : at + 8], "little") for at in (0, 8, SECOND - 8)))
        return True

    def _grow(self) -> None:
        """Twice the room for rows and strings."""
        self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)), axis=1)
        self._ends = np.concatenate((self._ends, np.zeros_like(self._ends)), axis=1)
        self._characters = np.concatenate((self._characters, np.zeros_like(self._characters)), axis=1)

    def __len__(self) -> int:
        return int(self._state[_ROWS])

    def clear(self) -> None:
        """Forget the rows."""
        self._state[_ROWS] = 0

    def columns(self) -> Columns:
        """The wanted columns that the rows fill."""
        count = len(self)
        filled: Columns = {name: self._column(name, count) for name in self._wanted}
        return {**filled, "event_type": pa.repeat(FETCH, count)}

    def _column(self, name: str, count: int) -> pa.Array:
        values, kind = self._rows[REGISTER[name], :count], SCAN.field(name).type
        null = values == NONE
        if name in STRINGS:
            number = STRINGS.index(name)
            ends = self._ends[number, : count + 1]
            text = self._characters[number, : ends[-1]].tobytes()
            known = pa.array(~null).buffers()[1]
            return pa.StringArray.from_buffers(count, pa.py_buffer(ends.tobytes()), pa.py_buffer(text), known)
        return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=null)

    def halves(self) -> None:
        """There are none: the scanner takes no value that its column can't hold."""

    def place(self) -> tuple[object, object]:
        """byte_offset and line_in_split of the first row."""
        return self._rows[REGISTER["byte_offset"], 0].item(), self._rows[REGISTER["line_in_split"], 0].item()
