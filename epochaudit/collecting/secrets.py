"""Overwrites possible secrets in collected text.

Every function returns as many bytes as it gets and leaves line ends in place, so a finding's line number and byte offset
are valid on the host, too. Kafka prints passwords as [hidden]. That does not suffice: plug-ins' settings, system
properties and URLs hold secrets that Kafka does not know. Of config dumps and properties files only values of `SETTINGS`
remain, and only if they have the expected shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from epochaudit.sources.server_log.decoder import SETTINGS

MASK: Final = b"*"
_BLOCK: Final = 1 << 22

_WORD: Final = rb"[\w.-]*"
_PLACE: Final = rb"[\w.\-\[\]]*(?::\d+)?"
_LISTENER: Final = rb"\w+://[\w.\-\[\]:]*:\d+"
_FLAG, _NUMBER, _PATH = rb"(?i:true|false)", rb"-?\d{1,19}", rb"[\w./\\: -]*"
_PLACES: Final = _PLACE + rb"(?:, ?" + _PLACE + rb")*(?:/[\w./-]*)?"
_LISTENERS: Final = _LISTENER + rb"(?:, ?" + _LISTENER + rb")*"
_VOTERS: Final = rb"\[?\d+@" + _PLACE + rb"(?:, ?\d+@" + _PLACE + rb")*\]?"
_ROLES: Final = rb"\[?(?:(?:broker|controller)(?:, ?)?)*\]?"
_SHAPES: Final = {
    b"advertised.listeners": _LISTENERS,
    b"listeners": _LISTENERS,
    b"broker.rack": _WORD,
    b"controller.quorum.bootstrap.servers": rb"\[?" + _PLACES + rb"\]?",
    b"controller.quorum.voters": _VOTERS,
    b"zookeeper.connect": _PLACES,
    b"inter.broker.protocol.version": _WORD,
    b"log.message.format.version": _WORD,
    b"log.dir": _PATH,
    b"log.dirs": _PATH + rb"(?:," + _PATH + rb")*",
    b"metadata.log.dir": _PATH,
    b"process.roles": _ROLES,
    b"replica.selector.class": rb"[\w.$]*",
    # of meta.properties
    b"cluster.id": _WORD,
    b"directory.id": _WORD,
    b"version": _NUMBER,
}
_EMPTY_VALUES: Final = (b"", b"null", b"[]", b"[hidden]")
_PLAIN: Final = rb"null|" + _FLAG + rb"|" + _NUMBER
_HARMLESS: Final = {name: re.compile(_PLAIN + rb"|" + _SHAPES.get(name, rb"null")) for name in {*SETTINGS, *_SHAPES}}

_PROPERTY: Final = re.compile(rb"[ \t]*([\w.-]+)[ \t]*[=:][ \t]*(.*?)[ \t]*")
_CONTINUED: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\\Z")

_DUMP: Final = b" values:"
_DUMP_ENDS: Final = re.compile(rb"\d\d:\d\d:\d\d.*\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_DUMPED_BY: Final = re.compile(rb"\((?:[a-z]\w*\.)*\w*Config\)")
_SETTING: Final = re.compile(  # in a line of its own, or in a line with escaped line ends
    rb'(?:\t|\\t)([\w.-]+) = (.*?)(?=\\n\\t[\w.-]+ = |\\n ?\(|(?:\\n)?(?<!\\)"[,}]|$)', re.DOTALL
)
_ENVELOPE: Final = re.compile(rb"\d{4}-\S+ (?:stdout|stderr) [FP] ")
_DOCKER: Final = re.compile(rb'(\{"log":")(.*?)(?=(?:\\n)?","stream")')

_SECRETIVE: Final = (
    rb"(?:pass(?:word|wd|phrase)|secret|credentials?|jaas[._]?config|hmac|salt|authbytes|auth_bytes|authorization|token"
    rb"|(?:stored|server)key|(?:private|access)[._-]?key|api\.key|user\.info)"
)
_SECRET_NAME: Final = (  # names that end like a secret's
    rb"(?i)(?:" + _SECRETIVE + rb"|(?<![\w-])s(?:sl|asl)(?:\.\w+)+)" + rb"(?:\\?[\"'])?\s*[=:]\s*"
)
_QUOTED: Final = rb'\\"((?:(?!\\").)*)|"((?:[^"\\\n]|\\[^\n])*)' + rb"|'([^'\n]*)"
_SECRET: Final = re.compile(
    _SECRET_NAME + rb"(?:" + _QUOTED + rb"|(?!\[hidden\])([^\s\"'(){}\[\]](?:[^\s\"'\\]|\\(?![nt]))*))"
)
_SECRET_IN_REQUEST: Final = re.compile(_SECRET_NAME + rb"(?:" + _QUOTED + rb"|([^\s\"'(){}\[\],][^\s\"',}\]]*))")
_REQUEST: Final = b"Completed request:"
_IN_URL: Final = re.compile(rb"://([^/\s:@\"']+:[^/\s@\"']+)@")
_PEM: Final = re.compile(rb"-----BEGIN [A-Z ]+-----(.*?)(?:-----END|$)", re.DOTALL)
_ALTERED_SETTING: Final = re.compile(  # in requests that alter settings, as JSON and as text
    rb'"name":"([^"]*)"(?:,"configOperation":-?\d+)?,"value":"((?:[^"\\]|\\.)*)"'
    # up to the next setting, or the end of the settings: text quotes nothing, and a password may hold a brace
    rb"|[{,](?:config_)?name=([\w.-]+),(?:config_operation=-?\d+,)?(?:config_)?value=(.*?)"
    rb"(?=(?:,_tagged_fields=\{\})?\}(?:,\{(?:config_)?name=|\](?:,_tagged_fields=\{\})?\}|$)|$)"
    rb"|name='([\w.-]+)', (?:configOperation=-?\d+, )?value='([^']*)'"
)
# the bytes of a forwarded request and its principal: a controller logs an Envelope itself if it refuses it
_ENVELOPED: Final = re.compile(rb'\\?"(?:requestData|requestPrincipal|responseData)\\?":\\?"([^"\\]*)')
_RECORDED_SETTING: Final = re.compile(rb'"name":"([^"]*)","value":"((?:[^"\\]|\\.)*)"')
_RECORD_OF_DUMP: Final = re.compile(  # of a data segment: with --print-data-log kafka-dump-log prints records, too
    rb'\| offset: (?!.* payload: \{"type":"[A-Z_]+","version":)'
    # a transaction marker, which a broker writes
    rb"(?!\d+ \w+: -?\d+ keySize: \d+ valueSize: \d+ sequence: -?\d+ headerKeys: \[\] endTxnMarker: (?:COMMIT|ABORT)"
    rb" coordinatorEpoch: -?\d+$)"
    rb".*? (?:headerKeys|key|payload): (.*)"
)
_SUSPICIOUS: Final = (  # every match of the patterns contains one of these; other lines are not searched
    b"pass", b"secret", b"credential", b"jaas", b"hmac", b"salt", b"authbytes", b"auth_bytes", b"authorization", b"token",
    b"ssl.", b"sasl.", b"private", b"storedkey", b"serverkey", b"access.key", b"accesskey", b"access_key", b"access-key",
    b"api.key", b"user.info", b"-----begin", b"\t", b"\\t", b" values:", b"alter_configs", b"alterconfigs",
    b"config_record", b" key: ", b" payload: ", b" headerkeys: ", b'"envelope',
)  # fmt: skip
_URL: Final = b"://"

Span = tuple[int, int]


class Log:
    """Masks a log's text in pieces of whole lines. masked: number of overwritten values."""

    def __init__(self) -> None:
        self.masked = 0
        self._in_dump = False

    def piece(self, data: bytes) -> bytes:
        """The piece with the secrets overwritten."""
        if not self._in_dump and not _may_hold_secrets(data):
            return data
        return b"".join(map(self._line, data.splitlines(keepends=True)))

    def _line(self, text: bytes) -> bytes:
        line = text.rstrip(b"\r\n")
        spans = self._dumped(line) if self._in_dump else None
        if spans is None:
            if not _may_hold_secrets(line):
                return text
            # a rotated log may begin in the middle of a dump
            begins = _DUMP in line or _SETTING.match(line) is not None
            self._in_dump = begins and _DUMPED_BY.search(line) is None
            spans = list(_secrets(line))
        self.masked += len(spans)
        return _masked(text, spans) if spans else text

    def _dumped(self, line: bytes) -> list[Span] | None:
        """The spans to overwrite in a line of a config dump; None for the line after the dump."""
        if _DUMP_ENDS.search(line):
            self._in_dump = False
            return None
        settings = list(_settings(line))
        if settings or _SETTING.search(line):
            return settings
        if ended := _DUMPED_BY.search(line):
            self._in_dump = False
            return [
                (start, ended.start()) for start in [_message_begins(line)] if line[start : ended.start()].strip(b' "}')
            ]
        start = _message_begins(line)  # a value with several lines
        inner = _DOCKER.match(line)
        return [inner.span(2)] if inner else [(start, len(line))] if line[start:].strip() else []


def _message_begins(line: bytes) -> int:
    envelope = _ENVELOPE.match(line)
    return envelope.end() if envelope else 0


def _may_hold_secrets(data: bytes) -> bool:
    lowered = data.lower()
    return any(word in lowered for word in _SUSPICIOUS) or (_URL in data and _IN_URL.search(data) is not None)


def _secrets(line: bytes) -> Iterator[Span]:
    yield from _settings(line)
    secret = _SECRET_IN_REQUEST if _REQUEST in line else _SECRET
    for pattern in (secret, _IN_URL, _PEM):
        for match in pattern.finditer(line):
            yield from (span for span in match.regs[1:] if span[1] > span[0])
    if b"ALTER_CONFIGS" in line or b"AlterConfigs" in line:
        yield from _altered(line, _ALTERED_SETTING)
    if b'"ENVELOPE' in line:
        yield from (match.span(1) for match in _ENVELOPED.finditer(line) if match[1])
    if record := _RECORD_OF_DUMP.match(line):
        yield record.span(1)
    if b'"CONFIG_RECORD"' in line:
        yield from _altered(line, _RECORDED_SETTING)


def _settings(line: bytes) -> Iterator[Span]:
    for setting in _SETTING.finditer(line):
        if setting[2] not in _EMPTY_VALUES and not is_harmless(setting[1], setting[2]):
            yield setting.span(2)


def _altered(line: bytes, pattern: re.Pattern[bytes]) -> Iterator[Span]:
    for match in pattern.finditer(line):
        for name in range(1, len(match.groups()), 2):
            if match[name] is not None and match[name + 1] and not is_harmless(match[name], match[name + 1]):
                yield match.span(name + 1)


def is_harmless(name: bytes, value: bytes) -> bool:
    """The audit reads the setting, and its value has the expected shape."""
    shape = _HARMLESS.get(name)
    return shape is not None and shape.fullmatch(value) is not None


def _masked(text: bytes, spans: list[Span]) -> bytes:
    masked = bytearray(text)
    for start, end in spans:
        masked[start:end] = MASK * (end - start)
    return bytes(masked)


def properties(text: bytes) -> tuple[bytes, int]:
    """A properties file with all but harmless settings blanked, including their names; and the number of blanked lines."""
    lines, blanked, continued = [], 0, False
    for line_with_end in text.splitlines(keepends=True):
        line = line_with_end.rstrip(b"\r\n")
        match = None if continued else _PROPERTY.fullmatch(line)
        continues = not (not continued and line.lstrip().startswith((b"#", b"!"))) and bool(_CONTINUED.search(line))
        if match is not None and not continues and is_harmless(match[1], match[2]):
            lines.append(line_with_end)
        else:
            blanked += bool(line)
            lines.append(b"#" * len(line) + line_with_end[len(line) :])
        continued = continues
    return b"".join(lines), blanked


def log_pieces(stream: BinaryIO, log: Log, size: int | None = None) -> Iterator[bytes]:
    """A log's first `size` bytes with secrets overwritten; holds a few lines in memory."""
    return _line_pieces(stream, log.piece, size)


def _line_pieces(stream: BinaryIO, mask: Callable[[bytes], bytes], size: int | None) -> Iterator[bytes]:
    pending, remaining = b"", size
    while data := stream.read(_BLOCK if remaining is None else min(_BLOCK, remaining)):
        remaining = None if remaining is None else remaining - len(data)
        pending += data
        end = pending.rfind(b"\n") + 1
        if end:
            yield mask(pending[:end])
            pending = pending[end:]
    grows = remaining == 0 and stream.read(1)
    if pending and not grows:  # a line that is still being written is left to the next collection
        yield mask(pending)
