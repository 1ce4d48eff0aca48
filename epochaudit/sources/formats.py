"""The recorded formats: how content identifies each one, and its decoder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from epochaudit.sources import checkpoints, client_log, state_change_log
from epochaudit.sources.data_log import dump as data_dump
from epochaudit.sources.data_log import segment as data_segment
from epochaudit.sources.data_log.batch_runs import is_segment
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.metadata_log import dump as metadata_dump
from epochaudit.sources.metadata_log import segment as metadata_segment
from epochaudit.sources.node_log import NodeLog, several_logs
from epochaudit.sources.request_log import json as request_log
from epochaudit.sources.request_log import stated_versions
from epochaudit.sources.request_log import text as text_request_log
from epochaudit.sources.server_log import decoder as server_log
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink, StreamDecoder

HEAD: Final = 1 << 16  # first bytes that identify a file's format
UNKNOWN: Final = "unknown"
EMPTY: Final = "empty"
DATA_SEGMENT: Final = data_segment.DECODER.kind
DATA_DUMP: Final = data_dump.DECODER.kind
LOG_INDEX: Final = "log-index"
MANIFEST: Final = stated_versions.DECODER.kind


_INDEX_NAME: Final = re.compile(
    r"(?:^|/)\d{20}(?:-[\w-]{22})?\.(?:index|timeindex|txnindex|snapshot)(?:\.deleted)?$|(?:^|/)\.kafka_cleanshutdown$"
)


@dataclass(frozen=True)
class Format:
    """One recorded format.

    source: value of the events table's column; None for files without events. decoder: decodes lines, stream_decoder
    decodes bytes; a format with neither is not read. cost: time to decode a byte, relative to the JSON request log.
    """

    kind: str
    recognise: Callable[[bytes], bool]
    source: str | None = None
    decoder: type[LineDecoder] | None = None
    stream_decoder: type[StreamDecoder] | None = None
    cost: float = 1.0

    @property
    def is_read(self) -> bool:
        """The format has a decoder."""
        return self.decoder is not None or self.stream_decoder is not None


class IgnoredLines:
    """Counts lines without events."""

    kind: ClassVar[str] = EMPTY
    splittable: ClassVar[bool] = True

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        """Uses neither argument."""

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:  # noqa: ARG002  the protocol's
        """One line; see LineDecoder."""
        return LineOutcome.IGNORED


FORMATS: Final = (
    Format("meta-properties", checkpoints.recognise_meta_properties, "checkpoint", checkpoints.Properties),
    Format("server-properties", checkpoints.recognise_server_properties, "checkpoint", checkpoints.Properties),
    Format("partition-metadata", checkpoints.recognise_partition_metadata, "checkpoint", checkpoints.PartitionMetadata),
    Format(
        "leader-epoch-checkpoint", checkpoints.recognise_epoch_checkpoint, "checkpoint", checkpoints.EpochCheckpoint
    ),
    Format("offset-checkpoint", checkpoints.recognise_offset_checkpoint, "checkpoint", checkpoints.OffsetCheckpoint),
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
    Format(DATA_DUMP, data_dump.recognise, "log_segment", data_dump.DECODER, cost=4),
    Format(DATA_SEGMENT, data_segment.recognise, "log_segment", stream_decoder=data_segment.DECODER, cost=0.05),
    Format("server-log", lambda head: server_log.recognise(head) or several_logs(head), "server_log", NodeLog, cost=4),
    Format("client-log", client_log.recognise_client_log, "client_log", client_log.DECODER, cost=4),
    Format(MANIFEST, lambda _: False, "manifest", stream_decoder=stated_versions.DECODER),  # known by its name
    Format(LOG_INDEX, lambda _: False),  # known by its name; the segment holds all of its content
    Format(EMPTY, lambda head: not head, decoder=IgnoredLines),
)
BY_KIND: Final[Mapping[str, Format]] = {**{known.kind: known for known in FORMATS}, UNKNOWN: Format(UNKNOWN, bool)}
NODE_LOGS: Final = frozenset(known.kind for known in FORMATS if known.decoder is NodeLog)


def recognised(head: bytes, path: str = "") -> str:
    """The kind of a file by its first plain bytes, or by its path: an empty or damaged segment, an index."""
    kind = next((known.kind for known in FORMATS if known.recognise(head)), UNKNOWN)
    if kind not in (EMPTY, UNKNOWN):
        return kind
    if is_segment(path):
        return DATA_SEGMENT
    return LOG_INDEX if kind == UNKNOWN and _INDEX_NAME.search(path) else kind


def is_read(file: CaptureFile) -> bool:
    """The scan reads the file: its kind has a decoder, and it duplicates no other file."""
    return file.duplicate_of is None and BY_KIND[file.kind].is_read
