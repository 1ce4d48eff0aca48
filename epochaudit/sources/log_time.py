"""The time that log4j prints, as milliseconds since the Unix epoch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_TIMESTAMP: Final = re.compile(rb"\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[,.](\d{1,9}))?")
_MINUTE: Final = re.compile(rb"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:")
_FRACTIONS: Final = {b"%03d]" % fraction: fraction for fraction in range(1000)}  # the end of the stock pattern `[%d]`
_KEPT_SECONDS: Final = 10_000

_NEVER: Final = 2**62

LATE_MS: Final = 2_000  # how late a line may be written after others that are younger
CERTAIN: Final = 20  # lines behind that make it certain that the clock was set
LAST_SECOND_MS: Final = 59_000  # of a minute
HOUR_MS: Final = 3_600_000
SUMMER_TIME_MS: Final = 1_200_000  # less than an hour, and more than this, is summer time's end after some silence


@dataclass(frozen=True)
class Step:
    """Where lines go back in time: what is later than latest_ms is read lost_ms later than it was printed."""

    latest_ms: int
    lost_ms: int


@dataclass
class _Step:
    """How the clock went before a line that is far behind, and the lines read since."""

    before: int
    latest: int
    lost: int
    printed: int
    lines: int = 0


class LogClock:
    """Reads `[YYYY-MM-DD HH:MM:SS,mmm]` at the start of a file's lines, and variants of other layouts.

    The printed local time is read as UTC unless a zone is named. A node's time does not go back: where the lines of a
    file do, because its clock was set or summer time ended, what follows is read that much later, so that the order and
    the distances of lines hold; by whole hours where it may have been summer time, whatever the silence before. A
    single line that was written late, or whose time is garbled, does not set the clock. What was reckoned for a second
    is kept: neighbouring lines share it. `steps`: where the clock was set back.
    """

    def __init__(self, time_zone: str | None = None) -> None:
        self._zone: tzinfo = ZoneInfo(time_zone) if time_zone else UTC
        self._seconds: dict[bytes, int] = {}
        self._minutes: dict[bytes, int] = {}
        self._fold = 0
        self._latest = 0
        self._behind = 0  # what was lost by setting the clock
        self._step: _Step | None = None
        self._leap = (0, 0)  # the latest jump forward: from and to
        self.steps: list[Step] = []

    def read(self, line: bytes) -> int | None:
        """Milliseconds of the timestamp that the line starts with; None if it starts with none."""
        second, fraction = self._seconds.get(line[:21]), _FRACTIONS.get(line[21:25])
        printed = self._printed(line) if second is None or fraction is None else second + fraction
        if printed is None:
            return None
        time = printed + self._behind
        if self._step is not None or time < self._latest - LATE_MS:
            return self._stepped(printed, line)
        if time > self._latest:
            if time > self._latest + LATE_MS:
                self._leap = (self._latest, time)
            self._latest = time
        return time

    def minute(self, printed: bytes) -> int | None:
        """Milliseconds of what `[YYYY-MM-DD HH:MM:` says; None if it is no such text, or no minute of sixty seconds."""
        known = self._minutes.get(printed)
        if known is None and _MINUTE.fullmatch(printed):
            first, last = self._printed(printed + b"00,000"), self._printed(printed + b"59,000")
            if first is not None and last is not None and last - first == LAST_SECOND_MS:
                if len(self._minutes) > _KEPT_SECONDS:
                    self._minutes.clear()
                self._minutes[printed] = known = first
        return known

    @property
    def pace(self) -> tuple[int, int, int, int]:
        """How the clock goes: the latest time, what was lost, and the latest jump forward, from and to.

        What reads times itself adds what was lost, and leaves lines more than LATE_MS before the latest to `read`; soon
        after such a line, those are all lines.
        """
        return _NEVER if self._step is not None else self._latest, self._behind, *self._leap

    @pace.setter
    def pace(self, pace: tuple[int, int, int, int]) -> None:
        self._latest, self._behind, *leap = pace
        self._leap = leap[0], leap[1]

    def _stepped(self, printed: int, line: bytes) -> int:
        """The time of a line that is far behind, or that follows soon after such a one."""
        step = self._step
        if step is not None:
            step.lines += 1
            if printed - step.printed >= step.lost - LATE_MS:  # it was a late line: the clock goes on as before it
                self._behind, self._latest, self._step = step.before, step.latest, None
                self.steps.pop()
            elif step.lines >= CERTAIN:
                self._step = None
            step.printed = printed
        time = printed + self._behind
        lost = self._latest - time
        before_leap, leapt_to = self._leap
        if self._latest == leapt_to and before_leap and lost > LATE_MS and time >= before_leap - LATE_MS:
            self._latest = max(before_leap, time)  # only the line before this one was ahead: its time is garbled
            return time
        if SUMMER_TIME_MS < lost <= HOUR_MS and self._zone is not UTC and not self._fold:
            self._fold = 1  # the zone's repeated hour, for the second time
            self._seconds.clear()
            self._minutes.clear()
            return self.read(line) or time
        if lost > LATE_MS:
            # a millisecond later than all before it, so that the times tell which lines follow the step
            lost = HOUR_MS if SUMMER_TIME_MS < lost <= HOUR_MS else lost + 1
            self._step = _Step(self._behind, self._latest, lost, printed)
            self.steps.append(Step(self._latest, lost))
            self._behind += lost
            time = printed + self._behind
        self._latest = max(self._latest, time)
        return time

    def _printed(self, line: bytes) -> int | None:
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
            if len(self._seconds) > _KEPT_SECONDS:
                self._seconds.clear()
            self._seconds[line[:21]] = milliseconds
        return milliseconds + int((fraction or b"0").ljust(3, b"0")[:3])
