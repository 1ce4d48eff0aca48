"""Reads lines that were printed by a log4j conversion pattern, such as `%d{ISO8601} %-5p [%t] %c - %m%n`.

Conversions of log4j 1 and 2 for date, level, logger and message are read; others are skipped. A date must have year,
month, day, hour, minute and second, in any order of a SimpleDateFormat.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_CONVERSION: Final = re.compile(r"%(?:(n)|(%)|-?\d*(?:\.-?\d+)?([A-Za-z]+)((?:\{[^{}]*\})*))")
_NAMES: Final = {
    "d": "date", "date": "date",
    "p": "level", "level": "level", "le": "level",
    "c": "logger", "logger": "logger", "lo": "logger",
    "m": "message", "msg": "message", "message": "message",
}  # fmt: skip
_NEWLINES: Final = frozenset(
    {"n", "ex", "throwable", "exception", "xEx", "xThrowable", "xException", "rEx", "rThrowable"}
)
_PARTS: Final = {
    "level": r" *(?P<level>(?i:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)) *",
    "logger": r" *(?P<logger>[\w.$-]{1,250}) *",
    "message": r"(?P<message>.*)",
}
_ANYTHING: Final = r"[^\n]{0,200}?"
_ISO: Final = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?: ?(?P<zone>Z|[+-]\d\d(?::?\d\d)?))?"
)
_NAMED_DATES: Final = frozenset({"", "ISO8601", "DEFAULT", "ISO8601_BASIC", "ISO8601_OFFSET_DATE_TIME_HH",
                                 "ISO8601_OFFSET_DATE_TIME_HHMM", "ISO8601_OFFSET_DATE_TIME_HHCMM", "ISO8601_PERIOD",
                                 "ISO8601_PERIOD_MICROS", "DEFAULT_MICROS", "DEFAULT_NANOS", "DEFAULT_PERIOD"})  # fmt: skip
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FIELDS: Final = {
    "y": r"(?P<year>\d{4})",
    "u": r"(?P<year>\d{4})",
    "d": r"(?P<day>\d\d?)",
    "H": r"(?P<hour>\d\d?)",
    "m": r"(?P<minute>\d\d?)",
    "s": r"(?P<second>\d\d?)",
    "S": r"(?P<fraction>\d{1,9})",
    "n": r"(?P<fraction>\d{1,9})",
    "X": r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)",
    "x": r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)",
    "Z": r"(?P<zone>Z|[+-]\d\d:?\d\d)",
    "E": r"[^\W\d]+",
}
_SHORT_YEAR: Final = r"(?P<year>\d\d)"  # of this century
_TOKEN: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']")
_CACHE_SIZE: Final = 10_000


class PatternError(ValueError):
    """Lines can't be read by this pattern; the message states what is missing or not understood."""


class ConversionPattern:
    """Reads lines of one pattern. Raises PatternError if the pattern lacks date or message."""

    def __init__(self, pattern: str) -> None:
        groups: set[str] = set()
        parts, position = [], 0
        for match in _CONVERSION.finditer(pattern):
            parts.append(re.escape(pattern[position : match.start()]))
            position = match.end()
            parts.append(_part(match, groups))
        parts.append(re.escape(pattern[position:].rstrip("\n")))
        missing = {"date", "message"} - groups
        if missing:
            raise PatternError(f"the pattern {pattern!r} prints no {' and no '.join(sorted(missing))}")
        self._pattern = re.compile("".join(parts).replace("\\ ", " ").encode(), re.DOTALL)
        self._times: dict[tuple[bytes | None, ...], tuple[bytes, bool]] = {}

    def stock(self, line: bytes) -> tuple[bytes, bool] | None:
        """(the line in stock layout, whether its time had a zone and is now UTC); None if the pattern does not match."""
        match = self._pattern.fullmatch(line)
        if match is None:
            return None
        found = match.groupdict()
        time = self._time(tuple(map(found.get, ("year", "month", "day", "hour", "minute", "second", "zone"))))
        if time is None:
            return None
        seconds, zoned = time
        fraction = (found.get("fraction") or b"").ljust(3, b"0")[:3]
        level, logger, message = found.get("level") or b"INFO", found.get("logger"), found["message"]
        close = b" (%b)" % logger if logger and not goes_on(message) else b""
        if message.endswith(close):
            close = b""
        return b"[%b,%b] %b %b%b" % (seconds, fraction, level.upper(), message, close), zoned

    def _time(self, printed: tuple[bytes | None, ...]) -> tuple[bytes, bool] | None:
        if printed not in self._times:
            try:
                moment = _moment(printed)
            except (ValueError, OverflowError, TypeError):
                return None
            if len(self._times) > _CACHE_SIZE:
                self._times.clear()
            self._times[printed] = moment
        return self._times[printed]


def goes_on(message: bytes) -> bool:
    """Further lines of the message follow, as in a config dump: in the stock layout its logger comes after them."""
    return message.rstrip().endswith(b":") and b"\n" not in message


def _part(match: re.Match[str], groups: set[str]) -> str:
    newline, percent, name, options = match.groups()
    if percent:
        return "%"
    if newline or name in _NEWLINES:
        return ""
    group = _NAMES.get(name)
    if group is None or group in groups:
        return _ANYTHING
    groups.add(group)
    if group == "date":
        return _date(options[1:-1].split("}{")[0] if options else "")
    return _PARTS[group]


def _date(date_format: str) -> str:
    """A regular expression for a SimpleDateFormat."""
    if date_format in _NAMED_DATES:
        return _ISO
    parts, letters = [], set()
    for match in _TOKEN.finditer(date_format):
        token, quoted, letter = match[0], match[1], match[2]
        if letter is None:
            parts.append(re.escape(quoted if quoted is not None else token))
        elif letter == "M":
            letters.add("M")
            parts.append(r"(?P<month>\d\d?)" if len(token) < 3 else r"(?P<month>[A-Z][a-z]{2})[a-z]*")
        elif letter in _FIELDS and letter not in letters:
            letters.add(letter)
            parts.append(_SHORT_YEAR if letter in "yu" and len(token) == len("yy") else _FIELDS[letter])
        else:
            raise PatternError(f"the date format {date_format!r} has a part {token!r} that is not understood")
    if not {"M", "d", "H", "m", "s"} <= letters or not {"y", "u"} & letters:
        raise PatternError(f"the date format {date_format!r} has to print year, month, day, hour, minute and second")
    return "".join(parts)


def _moment(printed: tuple[bytes | None, ...]) -> tuple[bytes, bool]:
    year, month, day, hour, minute, second, zone = printed
    if year is not None and len(year) == len("yy"):
        year = b"20" + year
    number = _MONTHS.index(month.decode()) + 1 if month is not None and month.isalpha() else int(month or 0)
    moment = datetime(*map(int, (year or 0, number, day or 0, hour or 0, minute or 0, second or 0)))  # type: ignore[arg-type]
    if zone:
        moment = moment.replace(tzinfo=_zone(zone)).astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}".encode(), zone is not None


def _zone(printed: bytes) -> timezone:
    if printed == b"Z":
        return UTC
    digits = printed[1:].replace(b":", b"").ljust(4, b"0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if printed[:1] == b"-" else offset)
