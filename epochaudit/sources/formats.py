"""The recorded formats: what each one is, how content identifies it, and its decoder.

A plug-in is a package with entry points of the group `epochaudit.formats`, each of which names a Format.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Final, TypeVar

from epochaudit.sources import checkpoints, client_log, state_change_log
from epochaudit.sources.data_log import dump as data_dump
from epochaudit.sources.data_log import segment as data_segment
from epochaudit.sources.data_log.batch_runs import is_segment
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.metadata_log import dump as metadata_dump
from epochaudit.sources.metadata_log import segment as metadata_segment
from epochaudit.sources.node_hints import NO_HINTS, NodeHints, hints_of_log, hints_of_server_log, hints_of_settings
from epochaudit.sources.node_log import NodeLog, several_logs
from epochaudit.sources.request_log import json as request_log
from epochaudit.sources.request_log import stated_versions
from epochaudit.sources.request_log import text as text_request_log
from epochaudit.sources.server_log import decoder as server_log
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink, StreamDecoder

T = TypeVar("T")

PLUG_INS: Final = "epochaudit.formats"
HEAD: Final = 1 << 16  # first bytes that identify a file's format
UNKNOWN: Final = "unknown"
EMPTY: Final = "empty"
DATA_SEGMENT: Final = data_segment.DECODER.kind
LOG_INDEX: Final = "log-index"
MANIFEST: Final = stated_versions.DECODER.kind


_INDEX_NAME: Final = re.compile(
    r"(?:^|/)\d{20}(?:-[\w-]{22})?\.(?:index|timeindex|txnindex|snapshot)(?:\.deleted)?$|(?:^|/)\.kafka_cleanshutdown$"
)


class FormatError(ValueError):
    """A format can't be used: its plug-in fails, two formats share a kind, or no installed format has a kind."""


class Identity(Enum):
    """What identifies a file that may have been rotated, compressed or collected elsewhere since."""

    PATH = "path"
    """It is rewritten in place, or other replicas have equal files."""
    CONTENT = "content"
    """All of it: two files may begin alike and diverge later."""
    FIRST_LINES = "first lines"
    """A logger printed the lines, with times to the millisecond."""


class Unit(Enum):
    """What stands at a byte offset of a file, and is the evidence of a finding."""

    LINE = "line"
    RECORD = "record"
    """Records of a batch share its byte offset."""
    BATCH = "batch"


class CollectedAs(Enum):
    """What `epochaudit collect` copies of a file."""

    WHOLE = "whole"
    LOG_LINES = "log lines"
    """All lines; values that may be secrets are masked."""
    SETTINGS = "settings"
    """All lines; only settings that an audit reads have their values."""
    METADATA_RECORDS = "metadata records"
    """Records of the metadata log; values that may be secrets are masked."""
    BATCH_HEADERS = "batch headers"
    """The headers of record batches, as kafka-dump-log prints them."""
    STATEMENTS = "statements"
    """Merged into the collection's own capture.toml."""


@dataclass(frozen=True)
class Format:
    """One recorded format.

    Reading. kind: its unique name. recognise: a file with these first plain bytes has the format. source: value of the
    events table's column; None for files without events. decoder: decodes lines, stream_decoder decodes bytes; a format
    with neither is not read. cost: time to decode a byte, relative to the JSON request log.

    Node. has_node: a node wrote the files; those of the cluster or of a client have none. node_hints: the evidence of the
    node in a file's first bytes. node_in_name: a file's name may state the node. cluster_id: the cluster in a file's first bytes.

    Audit. unit: what stands at a byte offset. identity: what identifies a file. deduplicated: of files with the same lines one
    is read, wherever they lie. sufficient: an audit needs at least one file of such a format. collected_as: None if
    `epochaudit collect` skips it.
    """

    kind: str
    recognise: Callable[[bytes], bool]
    source: str | None = None
    decoder: type[LineDecoder] | None = None
    stream_decoder: type[StreamDecoder] | None = None
    cost: float = 1.0
    has_node: bool = True
    node_hints: Callable[[bytes], NodeHints] = lambda _: NO_HINTS
    node_in_name: bool = False
    cluster_id: Callable[[bytes], str | None] = lambda _: None
    unit: Unit = Unit.LINE
    identity: Identity = Identity.PATH
    deduplicated: bool = False
    sufficient: bool = False
    collected_as: CollectedAs | None = None

    @property
    def is_read(self) -> bool:
        """The format has a decoder."""
        return self.decoder is not None or self.stream_decoder is not None

    @property
    def is_node_log(self) -> bool:
        """The lines of a node's loggers."""
        return self.decoder is NodeLog

    @property
    def has_layout(self) -> bool:
        """A logger printed the lines, which may have any layout (sources/lines/layouts.py)."""
        return self.identity is Identity.FIRST_LINES


class IgnoredLines:
    """Counts lines without events."""

    kind: ClassVar[str] = EMPTY
    splittable: ClassVar[bool] = True

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        """Uses neither argument."""

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:  # noqa: ARG002  the protocol's
        """One line; see LineDecoder."""
        return LineOutcome.IGNORED


_checkpoint = partial(Format, source="checkpoint", collected_as=CollectedAs.WHOLE)
_settings = partial(
    Format,
    source="checkpoint",
    decoder=checkpoints.Properties,
    node_hints=hints_of_settings,
    collected_as=CollectedAs.SETTINGS,
)
_node_log = partial(
    Format,
    decoder=NodeLog,
    node_hints=hints_of_log,
    identity=Identity.FIRST_LINES,
    deduplicated=True,
    sufficient=True,
    collected_as=CollectedAs.LOG_LINES,
)
_metadata_log = partial(
    Format, source="metadata_log", has_node=False, identity=Identity.CONTENT, deduplicated=True, sufficient=True
)
# Segments of two replicas are equal, but no duplicates.
_data_log = partial(Format, source="log_segment", sufficient=True)

FORMATS: Final = (
    _settings("meta-properties", checkpoints.recognise_meta_properties, cluster_id=checkpoints.cluster_id_in),
    _settings("server-properties", checkpoints.recognise_server_properties),
    _checkpoint(
        checkpoints.PartitionMetadata.kind,
        checkpoints.recognise_partition_metadata,
        decoder=checkpoints.PartitionMetadata,
    ),
    _checkpoint(
        checkpoints.EpochCheckpoint.kind, checkpoints.recognise_epoch_checkpoint, decoder=checkpoints.EpochCheckpoint
    ),
    _checkpoint(
        checkpoints.OffsetCheckpoint.kind, checkpoints.recognise_offset_checkpoint, decoder=checkpoints.OffsetCheckpoint
    ),
    _node_log(request_log.DECODER.kind, request_log.recognise, "request_log"),
    _node_log(text_request_log.DECODER.kind, text_request_log.recognise, "request_log", cost=2),
    _node_log(state_change_log.DECODER.kind, state_change_log.recognise, "state_change_log", cost=4),
    _metadata_log(
        metadata_dump.DECODER.kind,
        metadata_dump.recognise,
        decoder=metadata_dump.DECODER,
        cost=4,
        collected_as=CollectedAs.LOG_LINES,
    ),
    _metadata_log(
        metadata_segment.DECODER.kind,
        metadata_segment.recognise,
        stream_decoder=metadata_segment.DECODER,
        unit=Unit.RECORD,
        cost=12,
        collected_as=CollectedAs.METADATA_RECORDS,
    ),
    _data_log(
        data_dump.DECODER.kind,
        data_dump.recognise,
        decoder=data_dump.DECODER,
        cost=4,
        node_in_name=True,
        collected_as=CollectedAs.LOG_LINES,
    ),
    _data_log(
        DATA_SEGMENT,
        data_segment.recognise,
        stream_decoder=data_segment.DECODER,
        unit=Unit.BATCH,
        cost=0.05,
        collected_as=CollectedAs.BATCH_HEADERS,
    ),
    _node_log(
        server_log.DECODER.kind,
        lambda head: server_log.recognise(head) or several_logs(head),
        "server_log",
        cost=4,
        node_hints=hints_of_server_log,
    ),
    Format(
        client_log.DECODER.kind,
        client_log.recognise_client_log,
        "client_log",
        client_log.DECODER,
        cost=4,
        has_node=False,
        identity=Identity.FIRST_LINES,
        collected_as=CollectedAs.LOG_LINES,
    ),
    Format(  # known by its name
        MANIFEST,
        lambda _: False,
        "manifest",
        stream_decoder=stated_versions.DECODER,
        has_node=False,
        collected_as=CollectedAs.STATEMENTS,
    ),
    Format(LOG_INDEX, lambda _: False),  # known by its name; the segment holds all of its content
    Format(EMPTY, lambda head: not head, decoder=IgnoredLines, collected_as=CollectedAs.WHOLE),
)


class _ByKind(dict[str, Format]):
    """kind -> format. Plug-ins are loaded only for a kind that is not built in: most Spark tasks load none."""

    def __missing__(self, kind: str) -> Format:
        self.update({known.kind: known for known in formats()})
        if kind not in self:
            raise FormatError(f"no installed format has the kind {kind!r}; install the package that reads such files")
        return self[kind]


BY_KIND: Final[Mapping[str, Format]] = _ByKind(
    {**{known.kind: known for known in FORMATS}, UNKNOWN: Format(UNKNOWN, bool)}
)


@cache
def formats() -> tuple[Format, ...]:
    """All formats in the order in which they are tried: those of plug-ins by the entry points' names, then FORMATS.

    Raises FormatError.
    """
    plug_ins = tuple(_loaded(plug_in) for plug_in in sorted(entry_points(group=PLUG_INS), key=lambda found: found.name))
    uses = Counter(known.kind for known in (*plug_ins, *FORMATS))
    doubled = sorted(kind for kind, count in uses.items() if count > 1 or kind == UNKNOWN)
    if doubled:
        raise FormatError(f"two formats share the kind {', '.join(doubled)}")
    return (*plug_ins, *FORMATS)


def _loaded(plug_in: EntryPoint) -> Format:
    try:
        loaded = plug_in.load()
    except Exception as error:  # whatever its code does
        raise FormatError(f"plug-in {plug_in.name} can't be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(loaded, Format):
        raise FormatError(f"plug-in {plug_in.name} can't be used: {plug_in.value} is no Format, but {loaded!r}")
    return loaded


def recognised(head: bytes, path: str = "") -> str:
    """The kind of a file by its first plain bytes, or by its path: an empty or damaged segment, an index."""
    kind = next((known.kind for known in formats() if applied(known, known.recognise, head, path)), UNKNOWN)
    if kind not in (EMPTY, UNKNOWN):
        return kind
    if is_segment(path):
        return DATA_SEGMENT
    return LOG_INDEX if kind == UNKNOWN and _INDEX_NAME.search(path) else kind


def applied(known: Format, function: Callable[[bytes], T], head: bytes, path: str) -> T:
    """The result of a format's function for a file's first bytes. Raises FormatError if the function of a plug-in fails."""
    try:
        return function(head)
    except Exception as error:  # whatever a plug-in's code does
        if known in FORMATS:
            raise
        raise FormatError(
            f"the format {known.kind} fails on {path}: {type(error).__name__}: {error}; correct or remove its plug-in"
        ) from error


def is_read(file: CaptureFile) -> bool:
    """The scan reads the file: its kind has a decoder, and it duplicates no other file."""
    return file.duplicate_of is None and BY_KIND[file.kind].is_read
