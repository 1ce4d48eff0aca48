"""The small files of a log directory: checkpoints of leader epochs and offsets, partition.metadata, properties.

They are copies of a node's state without a time, so their rows have no time. Copies of several moments give rows each.
A partition's folder is `<topic>-<partition>`; a replica that is being removed, is being moved or is stray has
`<topic>-<partition>.<32 hex digits>-delete|future|stray`. A file may also stand alone as
`<folder>.leader-epoch-checkpoint`. Other names state no partition, and the lines of such files are ignored.

All offset checkpoints have the same lines; the file's name states their meaning. replication-offset-checkpoint holds
high watermarks, log-start-offset-checkpoint log start offsets. Recovery points, offsets of the log cleaner and files of
other names are ignored.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import ClassVar, Final

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.lines.log4j import IDENTITY, READ
from epochaudit.sources.server_log.decoder import SETTINGS
from epochaudit.sources.sink import BlockTally, LineDecoder, LineOutcome, RowSink

_EPOCHS: Final = (*IDENTITY, "topic", "partition", "leader_epoch", "start_offset", "name")
_TOPIC_IDS: Final = (*IDENTITY, "topic", "partition", "topic_id", "name")
_HIGH_WATERMARKS: Final = (*IDENTITY, "topic", "partition", "high_watermark")
_LOG_STARTS: Final = (*IDENTITY, "topic", "partition", "log_start_offset")
_SETTINGS: Final = (*IDENTITY, "name", "value")
_META_PROPERTIES_KEYS: Final = frozenset({b"cluster.id", b"directory.id"})

_EPOCH_ENTRY: Final = re.compile(rb"(\d+) (\d+)")
_OFFSET_ENTRY: Final = re.compile(rb"([\w.-]+) (\d+) (-?\d+)")
_TOPIC_ID: Final = re.compile(rb"topic_id: ?([\w-]{22})")
_VERSION: Final = re.compile(rb"version: ?\d+")
_PROPERTY: Final = re.compile(rb"\s*([\w.-]+)\s*[=:]\s*(.*?)\s*")
_FOLDER: Final = re.compile(r"([\w.-]+)-(\d{1,9})(?:\.[0-9a-f]{32}-(delete|future|stray))?")
_LINES_BEFORE: Final = 2  # the version and the count
_LONGEST_NAME: Final = 255  # of a folder: Kafka truncates the topic in longer ones

_EPOCH_FILE: Final = re.compile(rb"0\r?\n\d+\r?\n(?:\d+ \d+\r?\n)*(?:\d+(?: \d*)?)?\Z")
_OFFSET_FILE: Final = re.compile(rb"0\r?\n\d+\r?\n(?:[\w.-]+ \d+ -?\d+\r?\n)+(?:[\w.-]+(?: \d*)?(?: -?\d*)?)?\Z")
_METADATA_FILE: Final = re.compile(rb"version: ?\d+\r?\ntopic_id: ?[\w-]{22}\s*\Z")
_NODE_ID: Final = re.compile(rb"^\s*(?:broker|node)\.id\s*[=:]\s*\d+", re.MULTILINE)
_CLUSTER_ID: Final = re.compile(rb"^\s*cluster\.id\s*=\s*(\S+)\s*$", re.MULTILINE)
_META: Final = re.compile(rb"^(?:cluster\.id\s*=|version\s*=\s*\d)", re.MULTILINE)
_SERVER: Final = re.compile(
    rb"^\s*(?:log\.dirs?|zookeeper\.connect|process\.roles|(?:advertised\.)?listeners)\s*[=:]", re.MULTILINE
)
_PROPERTY_LINE: Final = re.compile(rb"\s*(?:[#!].*|[\w.-]+\s*[=:].*)?\s*")


def recognise_epoch_checkpoint(head: bytes) -> bool:
    """leader-epoch-checkpoint: a version, a count, and lines `leader epoch, start offset` (LeaderEpochCheckpointFile)."""
    return _EPOCH_FILE.match(head) is not None


def recognise_offset_checkpoint(head: bytes) -> bool:
    """An offset checkpoint: a version, a count, and lines `topic, partition, offset` (OffsetCheckpointFile)."""
    return _OFFSET_FILE.match(head) is not None


def recognise_partition_metadata(head: bytes) -> bool:
    """partition.metadata: a version and a topic id (PartitionMetadataFile)."""
    return _METADATA_FILE.match(head) is not None


def recognise_meta_properties(head: bytes) -> bool:
    """A log directory's meta.properties, which names its node and cluster."""
    return _has_node_id(head) and _META.search(head) is not None and _is_properties(head)


def cluster_id_in(head: bytes) -> str | None:
    """The cluster's id in a meta.properties; brokers write it once they know it."""
    stated = _CLUSTER_ID.search(head)
    return stated[1].decode(errors="replace") if stated else None


def recognise_server_properties(head: bytes) -> bool:
    """A node's configuration file."""
    return _has_node_id(head) and _SERVER.search(head) is not None and _is_properties(head)


def _has_node_id(head: bytes) -> bool:
    """A node id is set. Most files are logs: searching for bytes rules them out faster than a pattern for lines."""
    return (b"broker.id" in head or b"node.id" in head) and _NODE_ID.search(head) is not None


def _is_properties(head: bytes) -> bool:
    lines = head.replace(b"\\\n", b"").split(b"\n")[:-1]  # a backslash at its end continues a line
    return b"\0" not in head and all(_PROPERTY_LINE.fullmatch(line) for line in lines)


def partition_of(path: str, file_name: str) -> tuple[str, int, str | None] | None:
    """Topic, partition and state (delete, future, stray) in a file's folder or own name; None if neither names a partition."""
    place = PurePosixPath(path)
    collected, flat, _ = place.name.rpartition(f".{file_name}")
    folder = collected if flat else place.parent.name if place.name.startswith(file_name) else ""
    match = _FOLDER.fullmatch(folder)
    if match is None or (match[3] and len(folder) >= _LONGEST_NAME):
        return None
    return match[1], int(match[2]), match[3]


class _SmallFile:
    """Base of the decoders: rows without a time; other lines are quarantined."""

    splittable: ClassVar[bool] = False

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        self._path = file.path
        self._sink = sink

    def _quarantine(self, text: bytes, byte_offset: int, line: int, reason: str) -> LineOutcome:
        self._sink.quarantine(byte_offset, line, reason, text)
        return LineOutcome.QUARANTINED


class _Entries(_SmallFile):
    """Decodes a version, a count, and that many entries."""

    _entry: ClassVar[re.Pattern[bytes]]

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        self._expected: int | None = None
        self._found = 0
        self._end = 0

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        self._end = byte_offset + len(text)
        if line_in_split <= _LINES_BEFORE:
            self._expected = int(text) if line_in_split > 1 and text.isdigit() else None
            return LineOutcome.IGNORED
        match = self._entry.fullmatch(text)
        if match is None:
            if not text:
                return LineOutcome.IGNORED
            return self._quarantine(text, byte_offset, line_in_split, "is no entry of a checkpoint")
        self._found += 1
        try:
            return self._row(match, byte_offset, line_in_split)
        except ValueError:
            return self._quarantine(text, byte_offset, line_in_split, "holds a number that is out of its range")

    def _row(self, entry: re.Match[bytes], byte_offset: int, line: int) -> LineOutcome:
        raise NotImplementedError

    def finish(self) -> BlockTally:
        """Quarantines missing entries at the end; see BlockDecoder for the tally."""
        if self._expected is None or self._found >= self._expected:
            return 0, 0, 0
        reason = f"cut off: holds {self._found} of {self._expected} entries"
        self._quarantine(b"", self._end, self._found + _LINES_BEFORE + 1, reason)
        return 0, 0, 1


class EpochCheckpoint(_Entries):
    """leader-epoch-checkpoint: one EPOCH_CHECKPOINT per leader epoch; name: delete, future, stray or null."""

    kind: ClassVar[str] = "leader-epoch-checkpoint"
    _entry = _EPOCH_ENTRY

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        self._partition = partition_of(file.path, "leader-epoch-checkpoint")
        self._rows = sink.rows(_EPOCHS)

    def _row(self, entry: re.Match[bytes], byte_offset: int, line: int) -> LineOutcome:
        if self._partition is None:
            return LineOutcome.IGNORED
        topic, partition, state = self._partition
        epoch, start = READ["leader_epoch"](entry[1]), READ["start_offset"](entry[2])
        self._rows.append(("EPOCH_CHECKPOINT", byte_offset, line, 0, None, topic, partition, epoch, start, state))
        return LineOutcome.EVENT


class OffsetCheckpoint(_Entries):
    """One HIGH_WATERMARK_CHECKPOINT or LOG_START_CHECKPOINT per partition, by the file's name."""

    kind: ClassVar[str] = "offset-checkpoint"
    _entry = _OFFSET_ENTRY

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        name = PurePosixPath(file.path).name
        self._event_type: str | None = None
        if "replication-offset-checkpoint" in name:
            self._event_type, self._rows = "HIGH_WATERMARK_CHECKPOINT", sink.rows(_HIGH_WATERMARKS)
        elif "log-start-offset-checkpoint" in name:
            self._event_type, self._rows = "LOG_START_CHECKPOINT", sink.rows(_LOG_STARTS)

    def _row(self, entry: re.Match[bytes], byte_offset: int, line: int) -> LineOutcome:
        if self._event_type is None:
            return LineOutcome.IGNORED
        partition, offset = READ["partition"](entry[2]), READ["offset"](entry[3])
        self._rows.append((self._event_type, byte_offset, line, 0, None, entry[1].decode(), partition, offset))
        return LineOutcome.EVENT


class PartitionMetadata(_SmallFile):
    """partition.metadata: one TOPIC_ID_CHECKPOINT; name: delete, future, stray or null."""

    kind: ClassVar[str] = "partition-metadata"

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        self._partition = partition_of(file.path, "partition.metadata")
        self._rows = sink.rows(_TOPIC_IDS)

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        match = _TOPIC_ID.fullmatch(text.rstrip())
        if match is None:
            if not text.strip() or _VERSION.fullmatch(text.rstrip()):
                return LineOutcome.IGNORED
            return self._quarantine(text, byte_offset, line_in_split, "is no line of a partition.metadata")
        if self._partition is None:
            return LineOutcome.IGNORED
        topic, partition, state = self._partition
        topic_id = READ["topic_id"](match[1])
        row = ("TOPIC_ID_CHECKPOINT", byte_offset, line_in_split, 0, None, topic, partition, topic_id, state)
        self._rows.append(row)
        return LineOutcome.EVENT


class Properties(_SmallFile):
    """meta.properties and server.properties: one CONFIG_VALUE per known setting (SETTINGS, cluster.id, directory.id)."""

    kind: ClassVar[str] = "server-properties"

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        self._rows = sink.rows(_SETTINGS)

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        match = _PROPERTY.fullmatch(text)
        if match is None or (match[1] not in SETTINGS and match[1] not in _META_PROPERTIES_KEYS):
            return LineOutcome.IGNORED
        try:
            name, value = match[1].decode(), match[2].decode()
        except UnicodeDecodeError:
            return self._quarantine(text, byte_offset, line_in_split, "holds bytes that are not UTF-8")
        self._rows.append(("CONFIG_VALUE", byte_offset, line_in_split, 0, None, name, value))
        return LineOutcome.EVENT


EPOCH_CHECKPOINT: type[LineDecoder] = EpochCheckpoint
OFFSET_CHECKPOINT: type[LineDecoder] = OffsetCheckpoint
PARTITION_METADATA: type[LineDecoder] = PartitionMetadata
PROPERTIES: type[LineDecoder] = Properties
