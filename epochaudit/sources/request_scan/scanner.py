"""Runs the compiled scanner over the text of a range, and makes Arrow columns of what it found."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from epochaudit.sources.request_scan.machine import (
    LEAST_CODE,
    NONE,
    REGISTER,
    REGISTERS,
    STRINGS,
    TOPIC,
    UNREAD,
    Count,
    Note,
    State,
    Stop,
    scan,
)
from epochaudit.sources.request_scan.program import Program, json_program, text_program
from epochaudit.sources.sink import SCAN, Columns, RequestCounts, RowSink

PADDING: Final = 64  # newlines behind a text, which comparisons of whole words may read
ROWS: Final = 8_192  # that there is room for at first
CHARACTERS: Final = 1 << 19  # the same of each column of strings
NOTES: Final = 4_096  # of lines, until they are read
PARTITIONS: Final = 512  # of a line: those of larger ones would have to be joined in another way
DEPTH: Final = 16  # of objects within objects
MINUTE: Final = 18  # bytes of `[YYYY-MM-DD HH:MM:`
LEVEL_END: Final = 32  # bytes of `[YYYY-MM-DD HH:MM:SS,mmm] DEBUG `
NO_MINUTE: Final = (0, 0, 0, -1)  # words that overlap, and differ there
FETCH: Final = pa.scalar("FETCH")
_POSITION, _OFFSET, _LINE, _ROWS, _NOTES, _LATEST, _MINUTE = (
    int(name)
    for name in (State.POSITION, State.OFFSET, State.LINE, State.ROWS, State.NOTES, State.LATEST, State.MINUTE)
)
_COLUMNS: Final = tuple(name for name in REGISTERS[:UNREAD] if name in SCAN.names)


def load() -> None:
    """Load the compiled code, or compile it. Raises what numba raises where that can't be done."""
    program, none = json_program(), np.zeros(1, np.int64)
    text, rows = np.zeros(PADDING, np.uint8), np.zeros((1, 1), np.int64)
    characters, ends, state = np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.int32), np.zeros(len(State), np.int64)
    scan(
        text, 0, program.roots, program.fields, program.literals, state,
        none, rows, none, rows, characters, ends, rows, rows,
    )  # fmt: skip


def of_json(sink: RowSink) -> RequestScanner:
    """For the request log in JSON."""
    return RequestScanner(json_program(), sink)


def of_text(sink: RowSink) -> RequestScanner:
    """For the request log as text."""
    return RequestScanner(text_program(), sink)


class RequestScanner:
    """Reads lines that are as Kafka prints them, for one range of a file. It holds the rows of Fetches, see sink.Kept."""

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
        self._counts = np.zeros((len(program.apis), Count.END), np.int64)
        self._notes = np.zeros((NOTES, len(Note)), np.int64)
        self._text = np.zeros(0, np.uint8)
        self._data = b""
        self._pace = (0, 0, 0, 0)
        self._minute_ms: int | None
        self._forget_minute()

    def begin(self, data: bytes, byte_offset: int) -> None:
        """Scan these lines next."""
        self._data = data
        self._text = np.empty(len(data) + PADDING, np.uint8)
        self._text[: len(data)] = np.frombuffer(data, np.uint8)
        self._text[len(data) :] = ord("\n")
        self._state[_OFFSET] = byte_offset

    def lines(self, start: int, line_in_split: int) -> tuple[int, int, list[list[int]]]:
        """Take lines from `start` on, as many as are the scanner's: where the next line starts, and its number; those of
        the lines that are for another one to read, as Note has them.
        """
        if not self._data.startswith(self._program.start, start + LEVEL_END):
            return start, line_in_split, []
        state, clock, program = self._state, self._clock, self._program
        state[_POSITION], state[_LINE], state[_NOTES] = start, line_in_split, 0
        if self._pace != (pace := clock.pace):
            state[_LATEST:_MINUTE] = self._pace = pace
        if self._minute_ms != clock.minute(self._minute):  # it is the end of summer time
            self._forget_minute()
        while True:
            stop = scan(
                self._text, len(self._data), program.roots, program.fields, program.literals, state,
                self._registers, self._parts, self._opened, self._rows, self._characters, self._ends,
                self._counts, self._notes,
            )  # fmt: skip
            if stop == Stop.FULL:
                self._grow()
            elif stop != Stop.MINUTE or not self._know_minute():
                break
        position, _, line, _, notes, *went = state[:_MINUTE].tolist()
        if pace != (went := tuple(went)):  # lines that are only counted leave it as it is
            clock.pace = self._pace = went
        return position, line, self._notes[:notes].tolist()

    def told(self, counts: RequestCounts) -> tuple[int, int]:
        """Adds the lines that were taken since it was asked last; how many of them gave rows, and how many did not."""
        found = self._counts
        for number, column in np.argwhere(found).tolist():
            api, count = self._program.apis[number], int(found[number, column])
            if column == Count.REQUESTS:
                counts.requests[api] += count
            elif column == Count.PARTITIONS:
                counts.partition_rows[api] += count
            else:
                counts.error_codes[f"{api}:{column - Count.FIRST_CODE + LEAST_CODE}"] += count
        first, *others = found[:, Count.REQUESTS].tolist()
        found[:] = 0
        return first, sum(others)

    def _know_minute(self) -> bool:
        """The next line's minute from now on; False if it prints none."""
        start = self._state[_POSITION]
        printed = self._data[start : start + MINUTE]
        known = self._clock.minute(printed)
        if known is None:
            return False
        self._minute, self._minute_ms = printed, known
        self._state[_MINUTE:] = (known, *(int.from_bytes(printed[at : at + 8], "little") for at in (0, 8, MINUTE - 8)))
        return True

    def _forget_minute(self) -> None:
        self._minute = b""
        self._minute_ms = None
        self._state[_MINUTE:] = NO_MINUTE

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
