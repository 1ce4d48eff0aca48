"""Layouts of log lines; each line is converted to Kafka's stock layout before it is decoded.

The stock layout is `[2026-01-01 00:00:00,000] LEVEL message (logger)`. Other lines may have an envelope of a container
runtime, kubectl, syslog or a collector, and are printed by a log4j conversion pattern or as JSON. Both are detected by
content; capture.toml may state the pattern. A line that does not match it, such as a stack trace's, only loses its
envelope.
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

from epochaudit.sources.lines.conversion_pattern import ConversionPattern, goes_on

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
    "[%d] %p %m (%c:%L)%n",
    "%d %p %m (%c:%L)%n",
    "%d{yy/MM/dd HH:mm:ss} %p %c: %m%n",
)
"""Conversion patterns to try. The one that matches most lines wins, the first of equal ones."""
_WITH_THREADS: Final = (
    "[%d] %p [%t] %m (%c)%n",
    "%d %p [%t] %m (%c)%n",
    "[%d] %p [%t] %m (%c:%L)%n",
    "%d %p [%t] %m (%c:%L)%n",
)
"""Tried first where `_name_threads`: the patterns without a thread match these lines, too."""

_DATE: Final = rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
_DATED: Final = re.compile(rb"\[?" + _DATE)
_STOCK: Final = re.compile(rb"\[" + _DATE + rb"[,.]\d{3}\] [A-Z]+ ")
_IN_BRACKETS: Final = re.compile(
    rb"\[?" + _DATE + rb"(?:[,.]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]? +[A-Z]+ +\[([^\]\n]*)\] "
)
_IDENTITY: Final = re.compile(rb"=| on |^[A-Za-z ]+[ -]\d+$")
"""What begins messages in brackets: `[Broker id=1]`, `[ReplicaFetcherManager on broker 1]`, `[Controller 4]`, `[KafkaApi-4]`."""
_CLOSED: Final = re.compile(rb" \([\w.$]+(:\d+)?\)$")
_CRI: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([FP])(?::\S*)? ?")
_TIMESTAMPED: Final = re.compile(
    rb"(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) |\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:\d\d)?\t)"
    rb"(?=\[?\d{4}-\d\d-\d\d[ T]|\s|\{)"
)
_SYSLOG: Final = re.compile(
    rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|1? ?\d{4}-\d\d-\d\dT[\d:.+Z-]{8,30}) \S{1,255} [^\s:]{1,128}: "
)
_UNDATED: Final = re.compile(rb"(?:(?!" + _DATE + rb").){1,160}?(?=\[?" + _DATE + rb")")
LONGEST: Final = 64 << 20  # bytes of a line in parts
_SAMPLED_LINES: Final = 400  # of a file's head, which determine the layout
_MESSAGES: Final = ("message", "msg", "short_message", "full_message")
_LOGGERS: Final = ("logger_name", "loggerName", "log.logger", "logger", "_logger", "loggerFqcn", "category")
_LEVELS: Final = ("level", "log.level", "severity", "levelname")
_TIMES: Final = ("@timestamp", "timestamp", "instant", "timeMillis", "time", "ts", "datetime")
_MILLISECONDS: Final = 1e11  # larger numbers are milliseconds, not seconds


@dataclass(frozen=True)
class Layout:
    """A file's envelope and pattern. Both are None for the stock layout, whose lines are decoded directly."""

    envelope: str | None = None
    pattern: str | None = None


STOCK: Final = Layout()


def layout_of(head: bytes, pattern: str | None = None) -> Layout:
    """The layout of a file by its first bytes. pattern: stated in capture.toml, else it is detected.

    STOCK also if nothing matches: the file may be no log.
    """
    if not head:
        return STOCK
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")[:_SAMPLED_LINES]]
    if len(lines) > 1:
        lines.pop()  # it may be incomplete

    if pattern is None and any(map(_STOCK.match, lines)) and not (_name_threads(lines) or _number_lines(lines)):
        return STOCK
    best, most = STOCK, 0
    for envelope in (None, *_envelopes(lines)):
        unwrapped = Unwrapped(Layout(envelope))
        bare = [whole.text for line in lines if (whole := unwrapped.out_of_envelope(WholeLine(line)))]
        with_threads = _WITH_THREADS if _name_threads(bare) else ()
        for tried in (pattern,) if pattern else (JSON, *with_threads, *PATTERNS):
            fitting = sum(1 for text in bare if _reader(tried)(text) is not None)
            if fitting > most:
                best, most = Layout(envelope, None if envelope and tried == PATTERNS[0] else tried), fitting
    return best


def _name_threads(lines: Sequence[bytes]) -> bool:
    """Whether lines have a thread between level and message: nine of ten have brackets there, without what Kafka's messages put there."""
    dated = [line for line in lines if _DATED.match(line)]
    named = [match for line in dated if (match := _IN_BRACKETS.match(line)) and not _IDENTITY.search(match[1])]
    return bool(dated) and 10 * len(named) >= 9 * len(dated)


def _number_lines(lines: Sequence[bytes]) -> bool:
    """Whether most loggers have the number of a line of source behind them, as in the layout of Kafka Connect."""
    closed = [match for line in lines if (match := _CLOSED.search(line))]
    return 2 * sum(match[1] is not None for match in closed) > len(closed)


def plain(head: bytes, layout: Layout) -> tuple[bytes, bool]:
    """(the head in stock layout, whether its times had a zone and are now UTC)."""
    if layout == STOCK:
        is_text = b"\0" not in head
        return head.replace(b"\r\n", b"\n") if is_text else head, False
    unwrapped = Unwrapped(layout)
    lines = [whole.text for line in head.split(b"\n") if (whole := unwrapped.line(line.rstrip(b"\r"))) is not None]
    return b"\n".join(lines), unwrapped.zoned


@dataclass(frozen=True)
class WholeLine:
    """A line, the place of its first part, and the number of recorded lines that hold it."""

    text: bytes
    byte_offset: int = 0
    line_in_split: int = 1
    parts: int = 1


class Unwrapped:
    """Converts the lines of one file to the stock layout. zoned: a time had a zone; such times are converted to UTC."""

    def __init__(self, layout: Layout) -> None:
        self._in_parts = layout.envelope == CRI
        self._peel = _peeler(layout.envelope)
        self._read = _reader(layout.pattern or PATTERNS[0])
        self._partial_lines: dict[bytes, WholeLine] = {}  # by stream
        self.zoned = False

    def line(self, text: bytes, byte_offset: int = 0, line_in_split: int = 1) -> WholeLine | None:
        """The next line in stock layout; None for a part, which is buffered until the line's end."""
        whole = self.out_of_envelope(WholeLine(text, byte_offset, line_in_split))
        if whole is None or (read := self._read(whole.text)) is None:
            return whole
        stock, zoned = read
        self.zoned = self.zoned or zoned
        return replace(whole, text=stock)

    def out_of_envelope(self, line: WholeLine) -> WholeLine | None:
        """The line without its envelope; None for a part of a line."""
        if self._in_parts:
            return self._joined(line)
        peeled = self._peel(line.text)
        return line if peeled is None else replace(line, text=peeled)

    def rest(self) -> list[WholeLine]:
        """The incomplete lines at the end of the file."""
        return list(self._partial_lines.values())

    def _joined(self, line: WholeLine) -> WholeLine | None:
        """A line of the container runtime interface (CRI): tag `F` ends a line, `P` marks a part."""
        match = _CRI.match(line.text)
        if match is None:
            return line
        stream, tag = match.groups()
        whole = replace(line, text=line.text[match.end() :])
        if before := self._partial_lines.pop(stream, None):
            whole = replace(before, text=before.text + whole.text, parts=before.parts + 1)
        if tag == b"F" or len(whole.text) > LONGEST:
            return whole
        self._partial_lines[stream] = whole
        return None


def _envelopes(lines: Sequence[bytes]) -> list[str]:
    """Candidate envelopes of the lines, likeliest first."""
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
        has_one_prefix = 10 * count >= 9 * before.total()
        wrapped = sum(1 for line in lines if line.startswith(prefix)) if has_one_prefix else before.total()
        if 2 * wrapped >= sum(
            1 for line in lines if line.strip()
        ):  # otherwise the file is a text that quotes some lines
            found.append(PREFIX + prefix.decode("latin-1") if has_one_prefix else BEFORE_DATE)
    return found


Peel = Callable[[bytes], bytes | None]
Read = Callable[[bytes], tuple[bytes, bool] | None]


def _peeler(envelope: str | None) -> Peel:
    """A function that removes the envelope from a line; it returns None for a line without envelope."""
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
    """A JSON line of a common layout (log4j templates, ECS, Logstash, GELF, GCP) in stock layout; see `stock`."""
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
        message += "\n"  # the logger follows on a line of its own
    return f"[{time}] {name.upper()} {message}{'' if closed else f' ({logger})'}".encode(errors="replace"), zoned


def _first(fields: dict[str, Any], names: Sequence[str]) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _time(value: Any) -> tuple[str, bool] | None:
    """(the time as the stock layout prints it, whether its zone is known). A number counts from the Unix epoch."""
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
