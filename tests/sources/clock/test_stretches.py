"""Why times of a log go back: rotated files were joined by their names, lines are repeated, or a clock was set back."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest

from epochaudit.sources.clock.log_time import HOUR_MS, LATE_MS, SUMMER_TIME_MS, raised_by
from epochaudit.sources.clock.stretches import (
    RangeStretches,
    Stretch,
    overlapping,
    steps_of_joined_files,
    stretches_of_file,
    stretches_of_range,
    stretches_of_ranges,
    without_steps,
)

MINUTE = 60_000
HOUR = 60 * MINUTE

Row = dict[str, object]


def part(*printed: tuple[int, int], file: str = "server.log", split: int = 0, node: int = 1) -> Row:
    """A range in which these spans of time are printed, one after the other, as a LogClock reads them."""
    lost = [raised_by(before[1] - after[0] + 1) for before, after in pairwise(printed)]
    behind = [0, *accumulate(lost)]
    steps = [{"latest_ms": span[1] + by, "raised_ms": of} for span, by, of in zip(printed, behind, lost, strict=False)]
    read = [time + by for span, by in zip(printed, behind, strict=False) for time in span]
    times = {"first_time_ms": min(read, default=None), "last_time_ms": max(read, default=None)}
    return {"cluster": "c", "node": node, "file": file, "split": split, "clock_steps": steps, **times}


def step(number: int = 0, file: str = "server.log", split: int = 0) -> tuple[str, str, int, int]:
    return "c", file, split, number


JOINED_BY_DATE = part((3 * HOUR, 3 * HOUR + 12 * MINUTE), (0, 3 * HOUR))
JOINED_BY_NUMBER = part((20 * MINUTE, 25 * MINUTE), (10 * MINUTE, 20 * MINUTE), (0, 10 * MINUTE))


def test_a_range_has_a_stretch_more_than_steps() -> None:
    assert stretches_of_range(JOINED_BY_NUMBER) == [
        Stretch(20 * MINUTE, 25 * MINUTE),
        Stretch(10 * MINUTE, 20 * MINUTE, step(0)),
        Stretch(0, 10 * MINUTE, step(1)),
    ]
    assert stretches_of_range(part((5, 9))) == [Stretch(5, 9)]
    assert stretches_of_range(part()) == []


def test_a_step_that_counts_as_an_hour_may_have_been_shorter() -> None:
    row = part((0, 40 * MINUTE), (5 * MINUTE, 39 * MINUTE))
    row["clock_steps"] = [{"latest_ms": 40 * MINUTE, "raised_ms": HOUR_MS + LATE_MS}]
    assert stretches_of_range(row)[1].first_ms == 40 * MINUTE - SUMMER_TIME_MS


def test_a_stretch_extends_over_ranges() -> None:
    ranges = [part((HOUR, 2 * HOUR), (0, 100)), part((101, 5000), split=1), part((4000, HOUR), split=2)]
    assert stretches_of_file(ranges) == [Stretch(HOUR, 2 * HOUR), Stretch(0, HOUR, step(0))]


@pytest.mark.parametrize("row", [JOINED_BY_DATE, JOINED_BY_NUMBER], ids=["by date", "by number"])
def test_files_that_were_joined_by_their_names_are_no_step_of_a_clock(row: Row) -> None:
    steps = {step(number) for number in range(len(row["clock_steps"]))}  # type: ignore[arg-type]
    assert steps_of_joined_files([row]) == steps
    assert overlapping([row], steps) == set()


def test_a_file_that_was_joined_extends_over_ranges() -> None:
    rows = [part((3 * HOUR, 4 * HOUR), (0, 100)), part((101, HOUR), split=1), part((HOUR, 3 * HOUR), split=2)]
    assert steps_of_joined_files(rows) == {step(0)}


def test_a_time_that_is_printed_again_was_set_back_or_is_repeated() -> None:
    row = part((0, HOUR), (30 * MINUTE, 2 * HOUR))
    assert steps_of_joined_files([row]) == set()
    assert overlapping([row], set()) == {step(0)}


WRONG_AT_BOOT = ((2 * HOUR, 2 * HOUR + MINUTE), (2 * MINUTE, 40 * MINUTE))


def test_a_clock_that_was_wrong_at_boot_shows_in_all_logs_of_the_node() -> None:
    logs = [part(*WRONG_AT_BOOT), part(*WRONG_AT_BOOT, file="controller.log")]
    assert steps_of_joined_files(logs) == set()
    assert steps_of_joined_files([logs[0], {**logs[1], "node": 2}]) == {step(0), step(0, "controller.log")}


def test_a_log_that_goes_forward_shows_that_no_clock_was_set() -> None:
    logs = [part(*WRONG_AT_BOOT), part(*WRONG_AT_BOOT, file="controller.log")]
    other = part((0, 3 * HOUR), file="state-change.log")
    assert steps_of_joined_files([*logs, other]) == {step(0), step(0, "controller.log")}
    assert steps_of_joined_files([*logs, {**other, "node": 2}]) == set()


def test_a_file_that_is_joined_elsewhere_shows_no_step_of_a_clock() -> None:
    silent = ((20 * MINUTE, 40 * MINUTE), (0, 5 * MINUTE))  # fifteen minutes without a line, where the older file ends
    newest = (40 * MINUTE + 1, 42 * MINUTE)
    logs = [part(newest, *silent), part(newest, *silent, file="state-change.log")]
    assert steps_of_joined_files(logs) == {step(number, str(log["file"])) for log in logs for number in (0, 1)}
    assert steps_of_joined_files([logs[0], part(*silent, file="state-change.log")]) == {
        step(0), step(1), step(0, "state-change.log")
    }  # fmt: skip
    assert steps_of_joined_files([part(*silent), part(*silent, file="state-change.log")]) == set()


def test_logs_that_were_joined_at_the_same_times_are_no_clock() -> None:
    rows = [
        part((40_000, 71_000), (0, 39_500), file="kafka-request.log"),
        part((33_000, 71_700), (0, 19_000), file="controller.log"),
        part((63_500, 71_000), (4_000, 34_000), file="state-change.log"),
    ]
    files = ("kafka-request.log", "controller.log", "state-change.log")
    assert steps_of_joined_files(rows) == {step(file=file) for file in files}
    assert steps_of_joined_files(rows[1:]) == set()


def test_one_log_of_rotated_files_is_enough_however_long_its_files_are() -> None:
    silent = [
        part((33_000, 111_000), (9_000, 17_000), file="controller.log"),
        part((52_000, 110_000), (1_000, 38_000), file="state-change.log"),
    ]
    assert steps_of_joined_files(silent) == set()
    rotated = part((96_000, 116_500), (0, 95_500), file="kafka-request.log")
    assert len(steps_of_joined_files([*silent, rotated])) == 3
    assert steps_of_joined_files([*silent, {**rotated, "node": 2}]) == {step(file="kafka-request.log")}


def test_another_log_prints_the_time_again() -> None:
    again = part((0, 2 * HOUR + MINUTE), (2 * MINUTE, 40 * MINUTE), file="controller.log")
    assert steps_of_joined_files([part(*WRONG_AT_BOOT), again]) == set()


def test_a_clock_is_not_wrong_for_an_hour() -> None:
    row = part((5 * HOUR, 6 * HOUR), (0, HOUR))
    assert steps_of_joined_files([row, {**row, "file": "controller.log"}]) == {step(0), step(0, "controller.log")}


def test_without_its_step_a_range_has_the_times_that_were_printed() -> None:
    [row] = without_steps([JOINED_BY_DATE], {step(0)})
    assert (row["clock_steps"], row["first_time_ms"], row["last_time_ms"]) == ([], 0, 3 * HOUR + 12 * MINUTE)
    other = part((0, HOUR), (30 * MINUTE, 2 * HOUR), file="controller.log")
    assert [*without_steps([other], {step(0)})] == [other]


def test_other_steps_of_the_range_remain() -> None:
    row = part((3 * HOUR, 4 * HOUR), (0, HOUR), (30 * MINUTE, 3 * HOUR))
    [found] = without_steps([row], {step(0)})
    assert found["clock_steps"] == [row["clock_steps"][1]]  # type: ignore[index]
    assert (found["first_time_ms"], found["last_time_ms"]) == (0, 4 * HOUR)


def test_misplaced_stretches_rank_by_their_files_beginning() -> None:
    ranges = [JOINED_BY_NUMBER, part((10 * MINUTE, 11 * MINUTE), split=1)]
    steps = {step(0), step(1)}
    found = stretches_of_ranges(ranges, steps)
    assert found == {
        ("c", "server.log", 0): RangeStretches(
            0,
            [25 * MINUTE, 35 * MINUTE + 1 + LATE_MS],
            [0, 15 * MINUTE + 1 + LATE_MS, 35 * MINUTE + 2 + 2 * LATE_MS],
            [None, 25 * MINUTE, 25 * MINUTE],
            [2, 1, 0],
        ),
        ("c", "server.log", 1): RangeStretches(2, [], [0], [25 * MINUTE], [0]),
    }


def test_a_stretch_after_a_clocks_step_stays_in_its_file() -> None:
    [its] = stretches_of_ranges([part((HOUR, 2 * HOUR), (HOUR, 3 * HOUR))]).values()
    assert its.ranks == [0, 0]
    assert stretches_of_ranges([part((HOUR, 2 * HOUR))]) == {}


def test_a_range_that_begins_earlier_is_another_file() -> None:
    found = stretches_of_ranges([part((HOUR, 2 * HOUR)), part((0, HOUR), split=1)])
    assert [(its.first, its.ranks) for its in found.values()] == [(0, [1]), (1, [0])]
