"""The time that log4j prints, as milliseconds since the Unix epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_TIMESTAMP: Final = re.compile(rb"\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[,.](\d{1,9}))?")
_FRACTIONS: Final = {b"%03d]" % fraction: fraction for fraction in range(1000)}  # the end of the stock pattern `[%d]`
_KEPT_SECONDS: Final = 10_000


class LogClock:
    """Reads `[YYYY-MM-DD HH:MM:SS,mmm]` at the start of lines, and variants of other layouts.

    The printed local time is read as UTC unless a zone is named; an hour that the zone's change of clocks repeats is
    read as the first. What was reckoned for a second is kept: neighbouring lines share it.
    """

    def __init__(self, time_zone: str | None = None) -> None:
        self._zone: tzinfo = ZoneInfo(time_zone) if time_zone else UTC
        self._seconds: dict[bytes, int] = {}

    def read(self, line: bytes) -> int | None:
        """Milliseconds of the timestamp that the line starts with; None if it starts with none."""
        second, fraction = self._seconds.get(line[:21]), _FRACTIONS.get(line[21:25])
        return self._read(line) if second is None or fraction is None else second + fraction

    def _read(self, line: bytes) -> int | None:
        match = _TIMESTAMP.match(line)
        if not match:
            return None
        *parts, fraction = match.groups()
        year, month, day, hour, minute, second = map(int, parts)
        try:
            moment = datetime(year, month, day, hour, minute, second, tzinfo=self._zone)
        except ValueError:
            return None
        milliseconds = round(moment.timestamp()) * 1000
        if line[20:21] == b",":
            if len(self._seconds) > _KEPT_SECONDS:
                self._seconds.clear()
            self._seconds[line[:21]] = milliseconds
        return milliseconds + int((fraction or b"0").ljust(3, b"0")[:3])
