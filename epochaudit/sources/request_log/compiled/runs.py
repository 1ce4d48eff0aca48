"""Runs of like Fetch rows: of each run only the rows that an audit can need become rows of the scan.

Nearly all rows of a busy cluster's request log are alike: a client at the same leader goes on where it was and is served.
A run is the rows of one range, one connection, session, partition and leader epoch, within ten seconds, that were served,
state the same in all other columns, and whose offsets and high watermarks do not fall. Its rows need not be adjacent.

Four rows of it remain, if they differ: the first, the last, the last with the lowest high watermark, and the first with
the highest. The last one stands for those that are left out: `run_rows` is their number and its own, `run_arrival_ms` the
earliest arrival of the run. So minima and maxima of the columns are the same with and without the rows that are left out.

numba caches compiled code by file: this file takes the numbers of registers as arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit
from numpy import int64, ndarray

Array = ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

NONE: Final = -(2**63)  # stands for null in registers
SPAN_MS: Final = 10_000  # a run has rows of one span; frames aggregate high watermarks by the same spans
WAITED_US: Final = 100_000  # an answer to a follower within this time did not wait for records
VALUES: Final = (
    "byte_offset", "time_ms", "arrival_ms", "partition_row", "request_error_code", "forgotten", "in_request",
    "in_response", "error_code", "session_epoch", "partition", "diverging_epoch", "hinted_leader",
    "hinted_leader_epoch", "preferred_read_replica", "last_fetched_epoch", "current_leader_epoch", "high_watermark",
    "last_stable_offset", "log_start_offset", "fetch_offset", "correlation_id", "records_size", "replica_id",
    "total_time_us",
)  # fmt: skip
"""The registers that the code reads by name, in the order of its arguments."""
SAME: Final = (
    "api_version", "request_error_code", "replica_id", "replica_epoch", "isolation_level", "session_id",
    "answered_session_id", "partition", "in_request", "in_response", "forgotten", "current_leader_epoch",
    "last_fetched_epoch", "requester_log_start_offset", "error_code", "log_start_offset", "diverging_epoch",
    "diverging_end_offset", "hinted_leader", "hinted_leader_epoch", "preferred_read_replica",
)  # fmt: skip
"""The registers that are equal in all rows of a run, besides all strings."""
STRINGS: Final = ("client_id", "connection", "software_name", "software_version", "topic", "topic_id")


class Run(IntEnum):
    """The columns of a run. FIRST: its first row in the output. ROWS: their number. ARRIVAL: the earliest.

    LOW, HIGH, LAST: whether there is such a row besides the first; see Runs.
    """

    FIRST = 0
    ROWS = 1
    ARRIVAL = 2
    LOW = 3
    HIGH = 4
    LAST = 5
    END = 6


_FIRST, _ROWS, _ARRIVAL_OF_RUN, _LOW, _HIGH, _LAST, _RUN_END = map(int, Run)
(
    _BYTE_OFFSET, _TIME, _ARRIVAL, _PARTITION_ROW, _REQUEST_ERROR, _FORGOTTEN, _IN_REQUEST, _IN_RESPONSE, _ERROR,
    _SESSION_EPOCH, _PARTITION, _DIVERGING, _HINTED, _HINTED_EPOCH, _PREFERRED, _LAST_FETCHED, _CURRENT_EPOCH,
    _HIGH_WATERMARK, _LAST_STABLE, _LOG_START, _FETCH_OFFSET, _CORRELATION, _RECORDS, _REPLICA, _TOTAL_TIME,
) = range(len(VALUES))  # fmt: skip


def _compiled(function: Function) -> Function:
    return cast(Function, njit(error_model="numpy", inline="never")(function))


@_compiled
def _is_like_others(row: Array, of: Array) -> bool:
    """The row may belong to a run: it was served as requests are that change nothing.

    An incremental Fetch whose answer leaves the partition out was accepted and had nothing to deliver.
    """
    answered, asked = row[of[_IN_RESPONSE]] == 1, row[of[_IN_REQUEST]] == 1
    if row[of[_REQUEST_ERROR]] != 0 or row[of[_FORGOTTEN]] == 1 or row[of[_PARTITION]] < 0:
        return False
    if answered:
        if row[of[_ERROR]] != 0 or row[of[_HIGH_WATERMARK]] < 0:
            return False
    elif not asked or row[of[_SESSION_EPOCH]] <= 0:
        return False
    if asked and row[of[_FETCH_OFFSET]] < 0:
        return False
    for name in (_DIVERGING, _HINTED, _HINTED_EPOCH, _PREFERRED):
        if row[of[name]] >= 0:
            return False
    last = row[of[_LAST_FETCHED]]
    if last >= 0 and last != row[of[_CURRENT_EPOCH]]:
        return False
    high = row[of[_HIGH_WATERMARK]]
    if answered and (row[of[_LAST_STABLE]] > high or row[of[_LOG_START]] > high):
        return False
    # such an answer may be the one whose high watermark is furthest above its follower's log end
    waited = row[of[_TOTAL_TIME]] >= WAITED_US
    return not (answered and asked and row[of[_REPLICA]] >= 0 and high > row[of[_FETCH_OFFSET]] and not waited)


@_compiled
def _goes_on(row: Array, last: Array, of: Array) -> bool:
    """Nothing falls from the run's last row to this one."""
    for name in (_TIME, _BYTE_OFFSET, _SESSION_EPOCH, _CORRELATION, _FETCH_OFFSET, _HIGH_WATERMARK):
        if row[of[name]] < last[of[name]]:
            return False
    return True


@_compiled
def _mixed(seed: int, value: int) -> int:
    mixed = (seed ^ value) * -7046029254386353131  # odd, and half of its bits are set
    return mixed ^ (mixed >> 29)


@_compiled
def _hash(row: Array, texts: Array, ends: Array, number: int, of: Array, same: Array) -> int:
    value = row[of[_TIME]] // SPAN_MS
    for register in same:
        value = _mixed(value, row[register])
    for string in range(len(ends)):
        start, end = ends[string, number], ends[string, number + 1]
        for at in range(max(start, end - 8), end):  # the ends of strings differ most
            value = value * 31 + texts[string, at]
        value = _mixed(value, end - start)
    for flag in (row[of[_PARTITION_ROW]] == 0, row[of[_RECORDS]] > 0):
        value = value * 2 + flag
    return _mixed(value, 1)


@_compiled
def _same_strings(texts: Array, ends: Array, number: int, other_texts: Array, other_ends: Array, other: int) -> bool:
    for string in range(len(ends)):
        start, end = ends[string, number], ends[string, number + 1]
        at = other_ends[string, other]
        if end - start != other_ends[string, other + 1] - at:
            return False
        for place in range(start, end):
            if texts[string, place] != other_texts[string, at]:
                return False
            at += 1
    return True


@_compiled
def _same_run(row: Array, first: Array, of: Array, same: Array, strings: Array) -> bool:
    """All columns are equal that are equal in a run, but for the strings' characters."""
    if row[of[_TIME]] // SPAN_MS != first[of[_TIME]] // SPAN_MS:
        return False
    if (row[of[_PARTITION_ROW]] == 0) != (first[of[_PARTITION_ROW]] == 0):
        return False
    if (row[of[_RECORDS]] > 0) != (first[of[_RECORDS]] > 0):
        return False
    for register in same:
        if row[register] != first[register]:
            return False
    for register in strings:  # noqa: SIM110  numba compiles no generator
        if (row[register] == NONE) != (first[register] == NONE):  # null, or empty
            return False
    return True


@_compiled
def _put(
    row: Array, texts: Array, ends: Array, number: int,
    out: Array, out_texts: Array, out_ends: Array, to: int,
) -> None:  # fmt: skip
    """Write a row, with the strings of row `number` of `texts`, to the place `to` of the output."""
    width = out.shape[1] - 2
    out[to, :width] = row[:width]
    out[to, width] = out[to, width + 1] = NONE
    for string in range(len(ends)):
        at = out_ends[string, to]
        for place in range(ends[string, number], ends[string, number + 1]):
            out_texts[string, at] = texts[string, place]
            at += 1
        out_ends[string, to + 1] = at


@_compiled
def _close(run: Array, kept: Array, of: Array, out: Array, out_texts: Array, out_ends: Array, filled: int) -> int:
    """Write the rows that remain of a run, besides its first one; returns the number of output rows."""
    others = 1
    first = run[_FIRST]
    for which in (_LOW, _HIGH, _LAST):
        row = kept[which - _LOW]
        if not run[which] or (which != _LAST and row[of[_BYTE_OFFSET]] == kept[_LAST - _LOW][of[_BYTE_OFFSET]]):
            continue
        _put(row, out_texts, out_ends, first, out, out_texts, out_ends, filled)
        if which == _LAST and run[_ROWS] - others > 1:
            width = out.shape[1] - 2
            out[filled, width], out[filled, width + 1] = run[_ROWS] - others, run[_ARRIVAL_OF_RUN]
        others += 1
        filled += 1
    run[_ROWS] = 0
    return filled


@cast(Callable[[Function], Function], njit(cache=True, error_model="numpy"))
def fold(
    rows: Array, texts: Array, ends: Array, start: int, count: int, of: Array, same: Array, strings: Array,
    slots: Array, runs: Array, kept: Array, open_runs: int, out: Array, out_texts: Array, out_ends: Array, filled: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Fold rows `start` to `count` into runs. Returns the first row not folded, for want of space, and the new numbers of runs
    and of output rows.

    `slots` is a hash table of indexes of `runs`, -1 for none; `kept` has the rows LOW, HIGH and LAST of each run.
    """
    width = out.shape[1] - 2
    row = np.empty(width, int64)
    mask = len(slots) - 1
    for number in range(start, count):
        if filled + 4 > len(out) or open_runs == len(runs) or 2 * open_runs >= len(slots):
            return number, open_runs, filled
        for string in range(len(ends)):
            size = ends[string, number + 1] - ends[string, number]
            if out_ends[string, filled] + 4 * max(size, 256) > out_texts.shape[1]:
                return number, open_runs, filled
        for register in range(width):
            row[register] = rows[register, number]
        if not _is_like_others(row, of):
            _put(row, texts, ends, number, out, out_texts, out_ends, filled)
            filled += 1
            continue
        slot = _hash(row, texts, ends, number, of, same) & mask
        while slots[slot] >= 0:
            first = runs[slots[slot], _FIRST]
            if _same_run(row, out[first], of, same, strings) and _same_strings(
                texts, ends, number, out_texts, out_ends, first
            ):
                break
            slot = (slot + 1) & mask
        index = slots[slot]
        if index < 0:
            index = slots[slot] = open_runs
            open_runs += 1
            runs[index, _ROWS] = 0
        run = runs[index]
        if run[_ROWS] > 0:
            last = kept[index, _LAST - _LOW] if run[_LAST] else out[run[_FIRST]]
            if not _goes_on(row, last, of):
                filled = _close(run, kept[index], of, out, out_texts, out_ends, filled)
        if run[_ROWS] == 0:
            _put(row, texts, ends, number, out, out_texts, out_ends, filled)
            run[_FIRST], run[_ROWS], run[_ARRIVAL_OF_RUN] = filled, 1, row[of[_ARRIVAL]]
            run[_LOW] = run[_HIGH] = run[_LAST] = 0
            filled += 1
            continue
        high = row[of[_HIGH_WATERMARK]]
        highest = (
            kept[index, _LAST - _LOW][of[_HIGH_WATERMARK]] if run[_LAST] else out[run[_FIRST]][of[_HIGH_WATERMARK]]
        )
        if high == out[run[_FIRST]][of[_HIGH_WATERMARK]]:
            kept[index, 0, :] = row
            run[_LOW] = 1
        elif high > highest:
            kept[index, _HIGH - _LOW, :] = row
            run[_HIGH] = 1
        kept[index, _LAST - _LOW, :] = row
        run[_LAST] = 1
        run[_ROWS] += 1
        run[_ARRIVAL_OF_RUN] = min(run[_ARRIVAL_OF_RUN], row[of[_ARRIVAL]])
    return count, open_runs, filled


@cast(Callable[[Function], Function], njit(cache=True, error_model="numpy"))
def close_all(
    runs: Array, kept: Array, open_runs: int, of: Array, out: Array, out_texts: Array, out_ends: Array, filled: int
) -> int:
    """Write the rows that remain of all open runs; returns the number of output rows. Needs space for three rows a run."""
    for index in range(open_runs):
        filled = _close(runs[index], kept[index], of, out, out_texts, out_ends, filled)
    return filled
