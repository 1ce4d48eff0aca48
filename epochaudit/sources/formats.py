"""The recorded formats: how each is recognised by content, and what decodes its lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from epochaudit.sources import (
    metadata_dump,
    metadata_segment,
    request_log,
    server_log,
    state_change_log,
    text_request_log,
)
from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.node_log import NodeLog, several_logs
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink, StreamDecoder

HEAD: Final = 1 << 16  # bytes of a file that it is recognised by
UNKNOWN: Final = "unknown"
EMPTY: Final = "empty"


@dataclass(frozen=True)
class Format:
    """One recorded format.

    source: the events table's name for its stream of events, None if it has none. decoder: of its lines, or
    stream_decoder: of its bytes; a format without either is not read. cost: time to decode a byte, relative to the
    request log's.
    """

    kind: str
    recognise: Callable[[bytes], bool]
    source: str | None = None
    decoder: type[LineDecoder] | None = None
    stream_decoder: type[StreamDecoder] | None = None
    cost: float = 1.0

    @property
    def is_read(self) -> bool:
        """Its files are scanned."""
        return self.decoder is not None or self.stream_decoder is not None


class IgnoredLines:
    """Counts the lines of a file that tells nothing."""

    kind: ClassVar[str] = EMPTY
    splittable: ClassVar[bool] = True

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
        """Nothing is needed of either."""

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:  # noqa: ARG002  the protocol's
        """One line; see LineDecoder."""
        return LineOutcome.IGNORED


_DATED: Final = rb"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
_CLIENT_LINE: Final = re.compile(
    _DATED + rb"[^\n]*(?:\(org\.apache\.kafka\.clients\.|(?:Consumer|Producer|AdminClient)Config values:)"
    rb"|^%\d\|\d+\.\d+\|[A-Z]+\|[^\n|]*#(?:consumer|producer)-\d+\|"
    rb"|" + _DATED + rb"[^\n]*\(kafka\.(?:net|conn|client|coordinator\.consumer|consumer|producer|cluster)\b",
    re.MULTILINE,
)
_EPOCH_CHECKPOINT: Final = re.compile(rb"0\r?\n\d+\r?\n(?:\d+ \d+\r?\n?)*\Z")
_PARTITION_METADATA: Final = re.compile(rb"version: ?\d+\r?\ntopic_id: ?[\w-]{22}\s*\Z")
_META_PROPERTIES: Final = re.compile(rb"^(?:cluster\.id=|version=\d)", re.MULTILINE)
_NODE_ID: Final = re.compile(rb"^\s*(?:broker|node)\.id\s*=\s*\d+", re.MULTILINE)
_SERVER_PROPERTY: Final = re.compile(
    rb"^\s*(?:log\.dirs?|zookeeper\.connect|process\.roles|(?:advertised\.)?listeners)\s*=", re.MULTILINE
)
_PROPERTY_LINE: Final = re.compile(rb"\s*(?:[#!].*|[\w.-]+\s*[=:].*)?\s*")


def is_client_log(head: bytes) -> bool:
    """A log of a Java, librdkafka or Python client."""
    return _CLIENT_LINE.search(head) is not None


def is_properties(head: bytes) -> bool:
    """Nothing but `key=value` lines and comments."""
    return b"\0" not in head and all(_PROPERTY_LINE.fullmatch(line) for line in head.split(b"\n")[:-1])


def is_meta_properties(head: bytes) -> bool:
    """A log directory's meta.properties: which node and cluster it belongs to."""
    return bool(_NODE_ID.search(head) and _META_PROPERTIES.search(head)) and is_properties(head)


def is_server_properties(head: bytes) -> bool:
    """A broker's or controller's configuration file."""
    return bool(_NODE_ID.search(head) and _SERVER_PROPERTY.search(head)) and is_properties(head)


FORMATS: Final = (
    Format("meta-properties", is_meta_properties),
    Format("server-properties", is_server_properties),
    Format("partition-metadata", lambda head: _PARTITION_METADATA.match(head) is not None),
    Format("leader-epoch-checkpoint", lambda head: _EPOCH_CHECKPOINT.match(head) is not None),
    Format("request-log-json", request_log.recognise, "request_log", NodeLog),
    Format("request-log-text", text_request_log.recognise, "request_log", NodeLog, cost=2),
    Format("state-change-log", state_change_log.recognise, "state_change_log", NodeLog, cost=4),
    Format("metadata-log-dump", metadata_dump.recognise, "metadata_log", metadata_dump.DECODER, cost=4),
    Format(
        "metadata-log-segment",
        metadata_segment.recognise,
        "metadata_log",
        stream_decoder=metadata_segment.DECODER,
        cost=12,
    ),
    Format("server-log", lambda head: server_log.recognise(head) or several_logs(head), "server_log", NodeLog, cost=4),
    Format("client-log", is_client_log),
    Format(EMPTY, lambda head: not head, decoder=IgnoredLines),
)
BY_KIND: Final[Mapping[str, Format]] = {**{known.kind: known for known in FORMATS}, UNKNOWN: Format(UNKNOWN, bool)}
NODE_LOGS: Final = frozenset(known.kind for known in FORMATS if known.source not in (None, "metadata_log"))


def recognised(head: bytes) -> str:
    """The kind of a file whose plain bytes begin so."""
    return next((known.kind for known in FORMATS if known.recognise(head)), UNKNOWN)


def is_read(file: RecordedFile) -> bool:
    """The scan reads the file: its kind has a decoder, and no other file holds the same lines."""
    return file.duplicate_of is None and BY_KIND[file.kind].is_read
