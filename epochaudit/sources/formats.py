"""The recorded formats: how each is recognised by content, and what decodes its lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from epochaudit.sources import (
    checkpoints,
    client_log,
    metadata_dump,
    metadata_segment,
    request_log,
    server_log,
    state_change_log,
    stated_versions,
    text_request_log,
)
from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.node_log import NodeLog, several_logs
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink, StreamDecoder

HEAD: Final = 1 << 16  # bytes of a file that it is recognised by
UNKNOWN: Final = "unknown"
EMPTY: Final = "empty"
MANIFEST: Final = stated_versions.DECODER.kind


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
    Format("server-log", lambda head: server_log.recognise(head) or several_logs(head), "server_log", NodeLog, cost=4),
    Format("client-log", client_log.recognise_client_log, "client_log", client_log.DECODER, cost=4),
    Format(MANIFEST, lambda _: False, "manifest", stream_decoder=stated_versions.DECODER),  # known by its name
    Format(EMPTY, lambda head: not head, decoder=IgnoredLines),
)
BY_KIND: Final[Mapping[str, Format]] = {**{known.kind: known for known in FORMATS}, UNKNOWN: Format(UNKNOWN, bool)}
NODE_LOGS: Final = frozenset(known.kind for known in FORMATS if known.decoder is NodeLog)


def recognised(head: bytes) -> str:
    """The kind of a file whose plain bytes begin so."""
    return next((known.kind for known in FORMATS if known.recognise(head)), UNKNOWN)


def is_read(file: RecordedFile) -> bool:
    """The scan reads the file: its kind has a decoder, and no other file holds the same lines."""
    return file.duplicate_of is None and BY_KIND[file.kind].is_read
