"""Printed times, and clocks that are set back while a log is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from epochaudit.sources.clock.log_time import LogClock, lost_of, raised_by

START = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
HOUR = 3_600_000


def printed(moment: datetime) -> bytes:
    return f"[{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}] INFO x (y)".encode()


def read(moments: list[datetime], zone: str | None = None) -> list[int]:
    clock = LogClock(zone)
    times = [clock.read(printed(moment)) for moment in moments]
    assert None not in times
    return [time for time in times if time is not None]


def gaps(times: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(times)]


@pytest.mark.parametrize(
    ("line", "time"),
    [
        (b"[2026-11-21 04:18:07,602] x", 1795234687602),
        (b"[2026-11-21T04:18:07.602] x", 1795234687602),
        (b"2026-11-21 04:18:07 x", 1795234687000),
        (b"[2026-13-21 04:18:07,602] x", None),
        (b"no time", None),
        (b"", None),
    ],
)
def test_a_printed_time_is_milliseconds_since_the_epoch(line: bytes, time: int | None) -> None:
    assert LogClock().read(line) == time


def test_a_zone_is_obeyed_on_both_sides_of_the_change() -> None:
    local = [START + timedelta(hours=2), START + timedelta(hours=4)]  # 02:30 of either meaning, 04:30
    assert gaps(read(local, "Europe/Berlin")) == [3 * HOUR]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("every", [timedelta(milliseconds=7), timedelta(seconds=40), timedelta(minutes=14)])
def test_the_end_of_summer_time_changes_no_distance(zone: str | None, every: timedelta) -> None:
    """Clocks in Berlin go from 03:00 back to 02:00 at 01:00 UTC."""
    change = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)
    moments = [change + number * every for number in range(-30, 30)]
    local = [moment + timedelta(hours=2 if moment < change else 1) for moment in moments]
    assert set(gaps(read(local, zone))) == {every // timedelta(milliseconds=1)}


@pytest.mark.parametrize("back", [3, 90, 900, 7_000, 100_000])
def test_a_clock_that_is_set_back_keeps_the_order_and_the_distances(back: int) -> None:
    moments = [START + timedelta(milliseconds=10 * number) for number in range(200)]
    stepped = moments[:100] + [moment - timedelta(seconds=back) for moment in moments[100:]]
    found = gaps(read(stepped))
    assert found[:99] == found[100:] == [10] * 99
    lost = 1000 * back - 10 + 1
    assert found[99] == 1 + raised_by(lost) - lost
    assert lost_of(raised_by(lost)) == lost


def test_a_line_that_was_written_late_does_not_set_the_clock() -> None:
    moments = [START + timedelta(milliseconds=10 * number) for number in range(100)]
    late = [*moments[:50], moments[0] - timedelta(seconds=5), *moments[50:]]
    times = read(late)
    assert times[:50] + times[51:] == read(moments)


def test_the_first_line_again_is_not_late_as_the_file_repeats_itself() -> None:
    lines = [b"[2026-11-21 04:08:57,643] a", b"[2026-11-21 04:08:57,676] b", b"[2026-11-21 04:09:05,078] c"]
    clock = LogClock(whole_lines=True)
    times = [clock.read(line) or 0 for line in [*lines, *lines]]
    assert [later - earlier for earlier, later in pairwise(times)] == [33, 7402, 1, 33, 7402]
    assert len(clock.steps) == 1
    beginnings = LogClock()
    assert [beginnings.read(line) for line in [*lines, *lines]][3:] == times[:3]
    assert beginnings.steps == []


@pytest.mark.parametrize("ahead", [3, 60, 10_000_000])
def test_a_line_whose_time_is_garbled_does_not_set_the_clock(ahead: int) -> None:
    moments = [START + timedelta(milliseconds=10 * number) for number in range(100)]
    garbled = [*moments[:50], moments[50] + timedelta(seconds=ahead), *moments[51:]]
    times, right = read(garbled), read(moments)
    assert times[:50] + times[51:] == right[:50] + right[51:]


def test_small_disorder_is_left_as_it_is() -> None:
    moments = [START, START + timedelta(milliseconds=900), START + timedelta(milliseconds=100)]
    assert gaps(read(moments)) == [900, -800]


def test_a_jump_forward_is_taken_as_it_is() -> None:
    assert gaps(read([START, START + timedelta(hours=1), START + timedelta(hours=1, milliseconds=5)])) == [HOUR, 5]


def test_a_minute_is_known_where_all_its_seconds_are_as_long() -> None:
    clock = LogClock("Europe/Berlin")
    start = clock.read(b"[2026-10-25 02:59:00,000] x")
    assert start is not None
    assert clock.minute(b"[2026-10-25 02:59:") == start
    clock.read(b"[2026-10-25 02:59:59,000] x")
    for number in range(30):  # summer time ends
        clock.read(b"[2026-10-25 02:00:%02d,000] x" % number)
    assert clock.minute(b"[2026-10-25 02:59:") == start + HOUR
    assert clock.minute(b"[2026-10-25 02:60:") is None
    assert clock.minute(b"2026-10-25 02:59:0") is None
    assert clock.minute(b"") is None
