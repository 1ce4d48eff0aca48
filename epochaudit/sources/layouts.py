"""How lines are printed and wrapped; every layout is brought into Kafka's stock one before a line is decoded.

Stock is `[2026-01-01 00:00:00,000] LEVEL message (logger)`. A line of another layout may stand in an envelope, which a
container runtime, kubectl, syslog or a collector put around it, and is printed by a log4j conversion pattern or as JSON.
Both are recognised by content; capture.toml may fix the pattern. A line that the pattern does not fit, such as a stack
trace's, is passed on without its envelope.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import MsgspecError
from msgspec.json import Decoder

from epochaudit.sources.conversion_pattern import ConversionPattern, goes_on

JSON: Final = "json"
CRI: Final = "cri"
DOCKER: Final = "docker"
TIMESTAMP: Final = "timestamp"
SYSLOG: Final = "syslog"
BEFORE_DATE: Final = "before-date"
PREFIX: Final = "prefix:"

PATTERNS: Final = (
    "[%d] %p %m (%c)%n",
    "%d %p %m (%c) [%t]%n",
    "%d %p %m (%c)%n",
    "[%d] %p %m (%c) [%t]%n",
    "[%d] %p [%t] %m (%c)%n",
    "%d %p [%t] %c: %m%n",
    "%d %p [%t] %c - %m%n",
    "%d %p [%t] %c:%L - %m%n",
    "%d [%t] %p %c - %m%n",
    "%d [%t] %p %c: %m%n",
    "%d %p %c: %m%n",
    "%d %p %c - %m%n",
    "%d %p [%c] (%t) %m%n",
    "%d %p [%c] [%t] %m%n",
    "%d %p [%c] %m%n",
)
"""The conversion patterns that are tried; the first of those that fit most lines is taken."""

_DATE: Final = rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
_STOCK: Final = re.compile(rb"\[" + _DATE + rb"[,.]\d{3}\] [A-Z]+ ")
_CRI: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([FP])(?::\S*)? ?")
_TIMESTAMPED: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?=\[?\d{4}-\d\d-\d\d[ T]|\s|\{)")
_SYSLOG: Final = re.compile(
    rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|1? ?\d{4}-\d\d-\d\dT[\d:.+Z-]{8,30}) \S{1,255} [^\s:]{1,128}: "
)
_UNDATED: Final = re.compile(rb"(?:(?!" + _DATE + rb").){1,160}?(?=\[?" + _DATE + rb")")
LONGEST: Final = 64 << 20  # bytes of a line in parts
_LINES: Final = 400  # of a file's head that the layout is told from
_MESSAGES: Final = ("message", "msg", "short_message", "full_message")
_LOGGERS: Final = ("logger_name", "loggerName", "log.logger", "logger", "_logger", "loggerFqcn", "category")
_LEVELS: Final = ("level", "log.level", "severity", "levelname")
_TIMES: Final = ("@timestamp", "timestamp", "instant", "timeMillis", "time", "ts", "datetime")
_MILLISECONDS: Final = 1e11  # a number beyond is no longer in seconds


@dataclass(frozen=True)
class Layout:
    """A file's envelope and pattern; both None is the stock layout, whose lines are decoded as they are."""

    envelope: str | None = None
    pattern: str | None = None


STOCK: Final = Layout()


def layout_of(head: bytes, pattern: str | None = None) -> Layout:
    """The layout of a file that begins so; `pattern` is stated and not to be detected.

    STOCK also where nothing fits: a file that is no log is not this module's affair.
    """
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")[:_LINES]]
    if len(lines) > 1:
        lines.pop()  # it may be cut
    if pattern is None and any(_STOCK.match(line) for line in lines):
        return STOCK
    best, most = STOCK, 0
    for envelope in (None, *_envelopes(lines)):
        unwrapped = Unwrapped(Layout(envelope))
        bare = [whole.text for line in lines if (whole := unwrapped.out_of_envelope(WholeLine(line)))]
        for tried in (pattern,) if pattern else (JSON, *PATTERNS):
            fitting = sum(1 for text in bare if _reader(tried)(text) is not None)
            if fitting > most:
                best, most = Layout(envelope, None if envelope and tried == PATTERNS[0] else tried), fitting
    return best


def plain(head: bytes, layout: Layout) -> tuple[bytes, bool]:
    """A head as the stock layout would print it, and whether its times name their zone (they are then UTC)."""
    if layout == STOCK:
        return head, False
    unwrapped = Unwrapped(layout)
    lines = [whole.text for line in head.split(b"\n") if (whole := unwrapped.line(line.rstrip(b"\r"))) is not None]
    return b"\n".join(lines), unwrapped.zoned


@dataclass(frozen=True)
class WholeLine:
    """A line in stock layout; place of its first part, and the number of recorded lines that it came in."""

    text: bytes
    byte_offset: int = 0
    line_in_split: int = 1
    parts: int = 1


class Unwrapped:
    """Brings the lines of one file into the stock layout. `zoned` once a time has named its zone: it is then in UTC."""

    def __init__(self, layout: Layout) -> None:
        self._in_parts = layout.envelope == CRI
        self._peel = _peeler(layout.envelope)
        self._read = _reader(layout.pattern or PATTERNS[0])
        self._held: dict[bytes, WholeLine] = {}  # by stream
        self.zoned = False

    def line(self, text: bytes, byte_offset: int = 0, line_in_split: int = 1) -> WholeLine | None:
        """The next line; None for a part of one, which is held until its end comes."""
        whole = self.out_of_envelope(WholeLine(text, byte_offset, line_in_split))
        if whole is None or (read := self._read(whole.text)) is None:
            return whole
        stock, zoned = read
        self.zoned = self.zoned or zoned
        return replace(whole, text=stock)

    def out_of_envelope(self, line: WholeLine) -> WholeLine | None:
        """The line as it was printed; None for a part."""
        if self._in_parts:
            return self._joined(line)
        peeled = self._peel(line.text)
        return line if peeled is None else replace(line, text=peeled)

    def rest(self) -> list[WholeLine]:
        """The parts that are held, at the end of the file."""
        return list(self._held.values())

    def _joined(self, line: WholeLine) -> WholeLine | None:
        """A line of the container runtime interface: `F` ends a line, `P` is a part of one."""
        match = _CRI.match(line.text)
        if match is None:
            return line
        stream, tag = match.groups()
        whole = replace(line, text=line.text[match.end() :])
        if before := self._held.pop(stream, None):
            whole = replace(before, text=before.text + whole.text, parts=before.parts + 1)
        if tag == b"F" or len(whole.text) > LONGEST:
            return whole
        self._held[stream] = whole
        return None


def _envelopes(lines: Sequence[bytes]) -> list[str]:
    """The envelopes that some of the lines may stand in, likeliest first."""
    found = [
        name
        for name, pattern in ((CRI, _CRI), (TIMESTAMP, _TIMESTAMPED), (SYSLOG, _SYSLOG))
        if any(pattern.match(line) for line in lines)
    ]
    if any(line.startswith(b'{"log":"') for line in lines):
        found.append(DOCKER)
    before = Counter(
        match[0].removesuffix(b"[") for line in lines if (match := _UNDATED.match(line)) and match[0].strip(b"[ \t")
    )
    if before:
        prefix, count = before.most_common(1)[0]
        alike = 10 * count >= 9 * before.total()
        wrapped = sum(1 for line in lines if line.startswith(prefix)) if alike else before.total()
        if 2 * wrapped >= sum(1 for line in lines if line.strip()):  # else a text that quotes some lines
            found.append(PREFIX + prefix.decode("latin-1") if alike else BEFORE_DATE)
    return found


Peel = Callable[[bytes], bytes | None]
Read = Callable[[bytes], tuple[bytes, bool] | None]


def _peeler(envelope: str | None) -> Peel:
    """Takes a line out of its envelope; the function gives None for a line that is in none."""
    if envelope is None:
        return lambda line: line
    if envelope == DOCKER:
        return _docker
    if envelope.startswith(PREFIX):
        prefix = envelope.removeprefix(PREFIX).encode("latin-1")
        return lambda line: line[len(prefix) :] if line.startswith(prefix) else None
    pattern = {CRI: _CRI, TIMESTAMP: _TIMESTAMPED, SYSLOG: _SYSLOG, BEFORE_DATE: _UNDATED}[envelope]

    def peel(line: bytes) -> bytes | None:
        match = pattern.match(line)
        return line[match.end() :] if match else None

    return peel


_OBJECT: Final = Decoder(dict[str, Any])


def _object(line: bytes) -> dict[str, Any] | None:
    if line[:1] != b"{":
        return None
    try:
        return _OBJECT.decode(line)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _docker(line: bytes) -> bytes | None:
    printed = (_object(line) or {}).get("log")
    return printed.removesuffix("\n").removesuffix("\r").encode() if isinstance(printed, str) else None


_READERS: Final[dict[str, Read]] = {}


def _reader(pattern: str) -> Read:
    if pattern not in _READERS:
        _READERS[pattern] = _json if pattern == JSON else ConversionPattern(pattern).stock
    return _READERS[pattern]


def _json(text: bytes) -> tuple[bytes, bool] | None:
    """A JSON object of one of the usual layouts (log4j's templates, ECS, Logstash, GELF, GCP) as a stock line."""
    fields = _object(text)
    if fields is None:
        return None
    nested = fields.get("log")
    if isinstance(nested, dict):
        fields = {**fields, **{f"log.{name}": value for name, value in nested.items()}}
    message = _first(fields, _MESSAGES)
    printed = _time(_first(fields, _TIMES))
    if not isinstance(message, str) or printed is None:
        return None
    time, zoned = printed
    level = _first(fields, _LEVELS)
    name = level if isinstance(level, str) and level.isalpha() else "INFO"
    logger = _first(fields, _LOGGERS)
    closed = not isinstance(logger, str) or goes_on(message.encode()) or message.endswith(f" ({logger})")
    if "\n" in message and not message.endswith("\n"):
        message += "\n"  # the logger is no part of the last line
    return f"[{time}] {name.upper()} {message}{'' if closed else f' ({logger})'}".encode(errors="replace"), zoned


def _first(fields: dict[str, Any], names: Sequence[str]) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _time(value: Any) -> tuple[str, bool] | None:
    """A time as stock prints it, and whether its zone is known; a number counts from the epoch."""
    if isinstance(value, dict):
        seconds, nanos = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        value = seconds + nanos / 1e9 if isinstance(seconds, int) and isinstance(nanos, int) else None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC)
            return _stock_time(moment), True
        if not isinstance(value, str):
            return None
        moment = datetime.fromisoformat(value.replace(",", "."))
    except (ValueError, OverflowError, OSError):
        return None
    if moment.tzinfo is None:
        return _stock_time(moment), False
    return _stock_time(moment.astimezone(UTC)), True


def _stock_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
