"""The time that log4j prints, as milliseconds since the Unix epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_TIMESTAMP: Final = re.compile(rb"\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[,.](\d{1,9}))?")
_STOCK: Final = re.compile(rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]")


class LogClock:
    """Reads `[YYYY-MM-DD HH:MM:SS,mmm]` at the start of lines.

    The printed local time is read as UTC unless a zone is named; an hour that the zone's change of clocks repeats is
    read as the first. The minute's part is kept between lines: neighbours share it.
    """

    def __init__(self, time_zone: str | None = None) -> None:
        self._zone: tzinfo = ZoneInfo(time_zone) if time_zone else UTC
        self._minutes: dict[bytes, int | None] = {}

    def read(self, line: bytes) -> int | None:
        """Milliseconds of the timestamp that the line starts with; None if it starts with none."""
        minute = self._minutes.get(line[:17], -1)
        if minute == -1:
            minute = self._minutes[line[:17]] = self._minute(line)
            if len(self._minutes) > 4096:
                self._minutes.clear()
        if minute is None or not _STOCK.match(line):
            return self._any_layout(line)
        return minute + int(line[18:20]) * 1000 + int(line[21:24])

    def _minute(self, line: bytes) -> int | None:
        if not _STOCK.match(line):
            return None
        whole = self._any_layout(line)
        return None if whole is None else whole - int(line[18:20]) * 1000 - int(line[21:24])

    def _any_layout(self, line: bytes) -> int | None:
        match = _TIMESTAMP.match(line)
        if not match:
            return None
        *parts, fraction = match.groups()
        year, month, day, hour, minute, second = map(int, parts)
        try:
            moment = datetime(year, month, day, hour, minute, second, tzinfo=self._zone)
        except ValueError:
            return None
        return round(moment.timestamp()) * 1000 + int((fraction or b"0").ljust(3, b"0")[:3])
