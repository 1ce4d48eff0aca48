"""log4j timestamps as milliseconds since the Unix epoch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from epochaudit.events.times import FOREVER

_TIMESTAMP: Final = re.compile(rb"\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[,.](\d{1,9}))?")
_MINUTE: Final = re.compile(rb"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:")
_FRACTIONS: Final = {b"%03d]" % fraction: fraction for fraction in range(1000)}  # the end of the stock pattern `[%d]`
_CACHE_SIZE: Final = 10_000


LATE_MS: Final = 2_000  # how much later than younger lines a line may be written
CERTAIN: Final = 20  # so many late lines in succession prove that the clock was set back, or that another file follows
STALL_MS: Final = 60_000  # no appender waits longer: a line that is later proves it with those few that follow it
CERTAIN_AFTER_STALL: Final = 4
CERTAIN_BACK: Final = 5  # so many lines, each older than the one before, are not chance
LAST_SECOND_MS: Final = 59_000  # of a minute
HOUR_MS: Final = 3_600_000
SUMMER_TIME_MS: Final = 1_200_000  # a step between this and an hour is the end of summer time after a gap


@dataclass(frozen=True)
class Step:
    """A step back in time. raised_ms: how much later than printed the times after latest_ms are read, `raised_by` of what was lost."""

    latest_ms: int
    raised_ms: int


@dataclass
class _Step:
    """A step that is not yet certain: the clock before it, and the lines read since."""

    before: int
    latest: int
    lost: int
    printed: int
    lines: int = 0


def raised_by(lost: int) -> int:
    """How much later than printed times are read after the clock lost so many milliseconds.

    After a long step by LATE_MS more, so that all lines after it are later than all before it, even those that are written late;
    `clock_steps.corrections` takes it back. The end of summer time stays an hour.
    """
    return lost + LATE_MS if lost > STALL_MS and lost != HOUR_MS else lost


def lost_of(raised: int) -> int:
    """What the clock lost if times are read so many milliseconds later than printed."""
    return raised - LATE_MS if raised > STALL_MS + LATE_MS and raised != HOUR_MS else raised


def newest_first(lines: Iterable[bytes]) -> bool:
    """Whether dated lines go back in time, one after the other, as in what a log search exports."""
    read = LogClock().printed
    times = [time for line in lines if (time := read(line)) is not None]
    steps = [later - earlier for earlier, later in pairwise(times)]
    back, forward = sum(step < 0 for step in steps), sum(step > 0 for step in steps)
    return back >= CERTAIN_BACK and back > 9 * forward


class LogClock:
    """Reads `[YYYY-MM-DD HH:MM:SS,mmm]` at the start of a file's lines, and variants of other layouts.

    The printed local time is read as UTC unless a zone is named. If the times of a file go back because the clock was set
    or summer time ended, the following lines are read that much later, so that order and distances of lines hold. A step
    that may be the end of summer time counts as an hour, whatever the gap before it. A single late or garbled line does
    not change the clock. Results are cached by second, as neighbouring lines share it.
    time_zone: IANA name. whole_lines: `read` gets each line, and as a whole; one that equals the first line is then not late, as the file
    repeats itself. steps: where the clock was set back.
    """

    def __init__(self, time_zone: str | None = None, *, whole_lines: bool = False) -> None:
        self._zone: tzinfo = ZoneInfo(time_zone) if time_zone else UTC
        self._seconds: dict[bytes, int] = {}
        self._minutes: dict[bytes, int] = {}
        self._fold = 0
        self._latest = 0
        self._whole_lines = whole_lines
        self._first: bytes | None = None
        self._behind = 0  # total of the steps back
        self._step: _Step | None = None
        self._leap = (0, 0)  # the latest jump forward: from and to
        self.steps: list[Step] = []

    def read(self, line: bytes) -> int | None:
        """The line's timestamp in milliseconds; None if it starts with none."""
        second, fraction = self._seconds.get(line[:21]), _FRACTIONS.get(line[21:25])
        printed = self.printed(line) if second is None or fraction is None else second + fraction
        if printed is None:
            return None
        if self._first is None and self._whole_lines:
            self._first = line
        time = printed + self._behind
        if self._step is not None or time < self._latest - LATE_MS:
            return self._stepped(printed, line)
        if time > self._latest:
            if time > self._latest + LATE_MS:
                self._leap = (self._latest, time)
            self._latest = time
        return time

    def minute(self, printed: bytes) -> int | None:
        """Milliseconds of `[YYYY-MM-DD HH:MM:`; None for other text and for a minute that has not sixty seconds."""
        cached = self._minutes.get(printed)
        if cached is None and _MINUTE.fullmatch(printed):
            first, last = self.printed(printed + b"00,000"), self.printed(printed + b"59,000")
            if first is not None and last is not None and last - first == LAST_SECOND_MS:
                if len(self._minutes) > _CACHE_SIZE:
                    self._minutes.clear()
                self._minutes[printed] = cached = first
        return cached

    @property
    def is_uncertain(self) -> bool:
        """Whether the next lines decide if the clock was set back. `read` then needs each dated line, also one without an event."""
        return self._step is not None

    @property
    def pace(self) -> tuple[int, int, int, int]:
        """The state for readers that parse times themselves: latest time, total of steps, last jump forward (from, to).

        Such a reader adds the total to each time, and passes lines more than LATE_MS before the latest time to `read`.
        While a step is uncertain the latest time is FOREVER, so that it passes all lines.
        """
        return FOREVER if self.is_uncertain else self._latest, self._behind, *self._leap

    @pace.setter
    def pace(self, pace: tuple[int, int, int, int]) -> None:
        self._latest, self._behind, *leap = pace
        self._leap = leap[0], leap[1]

    def _stepped(self, printed: int, line: bytes) -> int:
        """The time of a line that is far behind, or that follows such a line while the step is uncertain."""
        step = self._step
        if step is not None:
            step.lines += 1
            if printed - step.printed >= step.lost - LATE_MS:  # only one line was late: restore the clock
                self._behind, self._latest, self._step = step.before, step.latest, None
                self.steps.pop()
            elif step.lines >= (CERTAIN if step.lost <= STALL_MS else CERTAIN_AFTER_STALL):
                self._step = None
            step.printed = printed
        time = printed + self._behind
        lost = self._latest - time
        before_leap, leapt_to = self._leap
        repeated = line == self._first
        after_leap = self._latest == leapt_to and before_leap and time >= before_leap - LATE_MS
        if after_leap and lost > LATE_MS and not repeated:
            self._latest = max(before_leap, time)  # only the previous line was ahead: its time is garbled
            return time
        if SUMMER_TIME_MS < lost <= HOUR_MS and self._zone is not UTC and not self._fold:
            self._fold = 1  # the second pass of the hour that the zone repeats
            self._seconds.clear()
            self._minutes.clear()
            return self.read(line) or time
        if lost > LATE_MS:
            # one more millisecond, so that all times after the step are later than those before it
            lost = HOUR_MS if SUMMER_TIME_MS < lost <= HOUR_MS else lost + 1
            self._step = _Step(self._behind, self._latest, lost, printed)
            self.steps.append(Step(self._latest, raised_by(lost)))
            self._behind += raised_by(lost)
            time = printed + self._behind
            if repeated:
                self._step = None
        self._latest = max(self._latest, time)
        return time

    def printed(self, line: bytes) -> int | None:
        """The line's timestamp as printed; None if it starts with none."""
        match = _TIMESTAMP.match(line)
        if not match:
            return None
        *parts, fraction = match.groups()
        year, month, day, hour, minute, second = map(int, parts)
        try:
            moment = datetime(year, month, day, hour, minute, second, tzinfo=self._zone, fold=self._fold)
        except ValueError:
            return None
        milliseconds = round(moment.timestamp()) * 1000
        if line[20:21] == b",":
            if len(self._seconds) > _CACHE_SIZE:
                self._seconds.clear()
            self._seconds[line[:21]] = milliseconds
        return milliseconds + int((fraction or b"0").ljust(3, b"0")[:3])
