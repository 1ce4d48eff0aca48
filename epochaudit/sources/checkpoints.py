"""The small files of a log directory: checkpoints of leader epochs and offsets, partition.metadata, properties.

They are copies of a node's state at moments that they do not tell, so their rows have no time. Copies taken at several
moments are rows each. Everything after the suffix of a log file's folder is taken literally: the folder of a partition is
`<topic>-<partition>`, of a replica that is being removed, moved in or has been put aside
`<topic>-<partition>.<32 hex digits>-delete|future|stray`. Files collected flat are named
`<folder>.leader-epoch-checkpoint`. A folder or file that is named otherwise names no partition: its lines are ignored.

The files of offsets hold the same lines whatever they mean. Their names tell: high watermarks in
replication-offset-checkpoint, log starts in log-start-offset-checkpoint. Recovery points, offsets of the log cleaner and
files of other names are ignored.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import ClassVar, Final

from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.log4j import IDENTITY, READ
from epochaudit.sources.server_log import SETTINGS
from epochaudit.sources.sink import BlockTally, LineDecoder, LineOutcome, RowSink

_EPOCHS: Final = (*IDENTITY, "topic", "partition", "leader_epoch", "start_offset", "name")
_TOPIC_IDS: Final = (*IDENTITY, "topic", "partition", "topic_id", "name")
_HIGH_WATERMARKS: Final = (*IDENTITY, "topic", "partition", "high_watermark")
_LOG_STARTS: Final = (*IDENTITY, "topic", "partition", "log_start_offset")
_SETTINGS: Final = (*IDENTITY, "name", "value")
_OF_META_PROPERTIES: Final = frozenset({b"cluster.id", b"directory.id"})

_EPOCH_ENTRY: Final = re.compile(rb"(\d+) (\d+)")
_OFFSET_ENTRY: Final = re.compile(rb"([\w.-]+) (\d+) (-?\d+)")
_TOPIC_ID: Final = re.compile(rb"topic_id: ?([\w-]{22})")
_VERSION: Final = re.compile(rb"version: ?\d+")
_PROPERTY: Final = re.compile(rb"\s*([\w.-]+)\s*[=:]\s*(.*?)\s*")
_FOLDER: Final = re.compile(r"([\w.-]+)-(\d{1,9})(?:\.[0-9a-f]{32}-(delete|future|stray))?")
_LINES_BEFORE: Final = 2  # the version and the count
_LONGEST_NAME: Final = 255  # of a folder: with a longer one Kafka would cut the topic

_EPOCH_FILE: Final = re.compile(rb"0\r?\n\d+\r?\n(?:\d+ \d+\r?\n)*(?:\d+(?: \d*)?)?\Z")
_OFFSET_FILE: Final = re.compile(rb"0\r?\n\d+\r?\n(?:[\w.-]+ \d+ -?\d+\r?\n)+(?:[\w.-]+(?: \d*)?(?: -?\d*)?)?\Z")
_METADATA_FILE: Final = re.compile(rb"version: ?\d+\r?\ntopic_id: ?[\w-]{22}\s*\Z")
_NODE_ID: Final = re.compile(rb"^\s*(?:broker|node)\.id\s*[=:]\s*\d+", re.MULTILINE)
_META: Final = re.compile(rb"^(?:cluster\.id\s*=|version\s*=\s*\d)", re.MULTILINE)
_SERVER: Final = re.compile(
    rb"^\s*(?:log\.dirs?|zookeeper\.connect|process\.roles|(?:advertised\.)?listeners)\s*[=:]", re.MULTILINE
)
_PROPERTY_LINE: Final = re.compile(rb"\s*(?:[#!].*|[\w.-]+\s*[=:].*)?\s*")


def recognise_epoch_checkpoint(head: bytes) -> bool:
    """A version, a count, and lines `leader epoch, start offset`."""
    return _EPOCH_FILE.match(head) is not None


def recognise_offset_checkpoint(head: bytes) -> bool:
    """A version, a count, and lines `topic, partition, offset`: of one of several files that the name tells apart."""
    return _OFFSET_FILE.match(head) is not None


def recognise_partition_metadata(head: bytes) -> bool:
    """A version and the id of the topic."""
    return _METADATA_FILE.match(head) is not None


def recognise_meta_properties(head: bytes) -> bool:
    """A log directory's meta.properties: which node and cluster it belongs to."""
    return _has_node_id(head) and _META.search(head) is not None and _is_properties(head)


def recognise_server_properties(head: bytes) -> bool:
    """A node's configuration file."""
    return _has_node_id(head) and _SERVER.search(head) is not None and _is_properties(head)


def _has_node_id(head: bytes) -> bool:
    """Most files are logs, which are told by their bytes sooner than by their lines."""
    return (b"broker.id" in head or b"node.id" in head) and _NODE_ID.search(head) is not None


def _is_properties(head: bytes) -> bool:
    lines = head.replace(b"\\\n", b"").split(b"\n")[:-1]  # a line that ends with a backslash goes on
    return b"\0" not in head and all(_PROPERTY_LINE.fullmatch(line) for line in lines)


def partition_of(path: str, file_name: str) -> tuple[str, int, str | None] | None:
    """Topic, partition and state (delete, future, stray) that a file's folder or flat name tells; None if neither does."""
    place = PurePosixPath(path)
    collected, flat, _ = place.name.rpartition(f".{file_name}")
    named = collected if flat else place.parent.name if place.name.startswith(file_name) else ""
    match = _FOLDER.fullmatch(named)
    if match is None or (match[3] and len(named) >= _LONGEST_NAME):
        return None
    return match[1], int(match[2]), match[3]


class _SmallFile:
    """What the decoders share: rows without a time; lines that are no entry are put aside."""

    splittable: ClassVar[bool] = False

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
        self._path = file.path
        self._sink = sink

    def _bad(self, text: bytes, byte_offset: int, line: int, reason: str) -> LineOutcome:
        self._sink.quarantine(byte_offset, line, reason, text)
        return LineOutcome.QUARANTINED


class _Entries(_SmallFile):
    """A version, a count, and that many entries."""

    _entry: ClassVar[re.Pattern[bytes]]

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
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
            return (
                self._bad(text, byte_offset, line_in_split, "is no entry of a checkpoint")
                if text
                else LineOutcome.IGNORED
            )
        self._found += 1
        try:
            return self._row(match, byte_offset, line_in_split)
        except ValueError:
            return self._bad(text, byte_offset, line_in_split, "holds a number that is out of its range")

    def _row(self, entry: re.Match[bytes], byte_offset: int, line: int) -> LineOutcome:
        raise NotImplementedError

    def finish(self) -> BlockTally:
        """Entries that are missing at the end."""
        if self._expected is None or self._found >= self._expected:
            return 0, 0, 0
        reason = f"cut off: holds {self._found} of {self._expected} entries"
        self._bad(b"", self._end, self._found + _LINES_BEFORE + 1, reason)
        return 0, 0, 1


class EpochCheckpoint(_Entries):
    """leader-epoch-checkpoint: one EPOCH_CHECKPOINT per epoch of a partition's log; name: delete, future, stray."""

    kind: ClassVar[str] = "leader-epoch-checkpoint"
    _entry = _EPOCH_ENTRY

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
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
    """Offsets by partition: HIGH_WATERMARK_CHECKPOINT or LOG_START_CHECKPOINT, as the file is named."""

    kind: ClassVar[str] = "offset-checkpoint"
    _entry = _OFFSET_ENTRY

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
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
    """partition.metadata: the TOPIC_ID_CHECKPOINT of a partition's log; name: delete, future, stray."""

    kind: ClassVar[str] = "partition-metadata"

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        self._partition = partition_of(file.path, "partition.metadata")
        self._rows = sink.rows(_TOPIC_IDS)

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        match = _TOPIC_ID.fullmatch(text.rstrip())
        if match is None:
            if not text.strip() or _VERSION.fullmatch(text.rstrip()):
                return LineOutcome.IGNORED
            return self._bad(text, byte_offset, line_in_split, "is no line of a partition.metadata")
        if self._partition is None:
            return LineOutcome.IGNORED
        topic, partition, state = self._partition
        topic_id = READ["topic_id"](match[1])
        row = ("TOPIC_ID_CHECKPOINT", byte_offset, line_in_split, 0, None, topic, partition, topic_id, state)
        self._rows.append(row)
        return LineOutcome.EVENT


class Properties(_SmallFile):
    """meta.properties and server.properties: a CONFIG_VALUE per setting that is kept (`server_log.SETTINGS`, cluster.id)."""

    kind: ClassVar[str] = "server-properties"

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
        super().__init__(file, sink)
        self._rows = sink.rows(_SETTINGS)

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        match = _PROPERTY.fullmatch(text)
        if match is None or (match[1] not in SETTINGS and match[1] not in _OF_META_PROPERTIES):
            return LineOutcome.IGNORED
        try:
            name, value = match[1].decode(), match[2].decode()
        except UnicodeDecodeError:
            return self._bad(text, byte_offset, line_in_split, "holds bytes that are not UTF-8")
        self._rows.append(("CONFIG_VALUE", byte_offset, line_in_split, 0, None, name, value))
        return LineOutcome.EVENT


EPOCH_CHECKPOINT: type[LineDecoder] = EpochCheckpoint
OFFSET_CHECKPOINT: type[LineDecoder] = OffsetCheckpoint
PARTITION_METADATA: type[LineDecoder] = PartitionMetadata
PROPERTIES: type[LineDecoder] = Properties
