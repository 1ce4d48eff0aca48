"""Data segments as printed by kafka-dump-log (kafka.tools.DumpLogSegments): the lines of batches.

Each batch has a line, `baseOffset: … partitionLeaderEpoch: …` in message format 2, `offset: … position: …` in formats
0 and 1. With --deep-iteration or --print-data-log Kafka prints record lines (`| offset: …`) after it from 2.3 on. Of
these only transaction markers are read (`… endTxnMarker: COMMIT coordinatorEpoch: 3`); up to 2.2 it prints records in
place of batches, without leader epochs, and nothing can be read. `count` is printed from 2.0 on, `isControl` and a
final `isvalid` from 2.3 on. `Dumping <path>` names the log; a file may hold several.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from epochaudit.kafka.field_values import NO_EPOCH
from epochaudit.sources.data_log.batch_runs import LEGACY, BatchRuns, Header, first_offset_of, log_of
from epochaudit.sources.data_log.markers import MarkerRuns
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.record_batches.batches import NO_PRODUCER
from epochaudit.sources.sink import BlockTally, LineDecoder, LineOutcome, RowSink

_BATCH: Final = re.compile(
    rb"baseOffset: (?P<base>\d{1,19}) lastOffset: (?P<last>\d{1,19}) (?:count: (?P<count>\d{1,10}) )?"
    rb"baseSequence: (?P<sequence>-?\d{1,10}) lastSequence: -?\d{1,10} producerId: (?P<producer>-?\d{1,19}) "
    rb"producerEpoch: (?P<producer_epoch>-?\d{1,5}) partitionLeaderEpoch: (?P<epoch>-?\d{1,10}) "
    rb"isTransactional: (?P<transactional>true|false) (?:isControl: (?P<control>true|false) )?"
    rb"(?:deleteHorizonMs: (?P<horizon>\S+) )?"
)
_LEGACY_BATCH: Final = re.compile(rb"offset: (?P<last>\d{1,19}) (?=position: \d+ \w+: -?\d+ )")
_REST: Final = re.compile(
    rb"position: \d{1,19} (?:NoTimestampType|CreateTime|LogAppendTime): (?P<time>-?\d{1,19}) "
    rb"(?:isvalid: (?P<was_valid>true|false) )?size: (?P<size>\d{1,10}) magic: (?P<magic>[012]) "
    rb"compresscodec: (?P<codec>\w+) crc: (?P<crc>\d{1,10})(?: isvalid: (?P<valid>true|false))?"
)
_RECORD_OF_2_2: Final = re.compile(rb"offset: \d+ position: \d+ \w+: -?\d+ isvalid: \w+ keysize: ")
_MARKER: Final = re.compile(rb"\| offset: \d{1,19} .*? endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: (-?\d{1,10})")
_DUMPING: Final = re.compile(rb"Dumping (.+?)\s*")
_FIRST_LINE: Final = (b"Dumping ", b"baseOffset: ", b"Starting offset: ", b"Log starting offset: ", b"offset: ")
_NO_COUNT: Final = -1


def recognise(head: bytes) -> bool:
    """Batches of kafka-dump-log. FORMATS tries the metadata log's dump, which looks alike, before."""
    begins = head.startswith(_FIRST_LINE) or b"\nbaseOffset: " in head
    return begins and any(
        _BATCH.match(line) or (_LEGACY_BATCH.match(line) and b" magic: " in line) for line in head.split(b"\n")
    )


class DataDump:
    """One row per run of batches of one leader epoch, as of a raw segment. Not splittable: a run spans lines."""

    kind: ClassVar[str] = "data-segment-dump"
    splittable: ClassVar[bool] = False

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        self._sink = sink
        self._runs: BatchRuns | None = None
        self._markers: MarkerRuns | None = None
        self._control: Header | None = None
        self._next: int | None = None
        self._begin_log(file.path)

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        if text.startswith(b"| "):
            return self._record(text, byte_offset, line_in_split)
        self._control = None
        if dumping := _DUMPING.fullmatch(text):
            self._begin_log(dumping[1].decode(errors="replace"))
            return LineOutcome.IGNORED
        if not text.startswith((b"baseOffset: ", b"offset: ")):
            cut = text[:1] == b"\0" or (text and b"baseOffset: ".startswith(text)) or text.startswith(b"Found ")
            return (
                self._quarantine(text, byte_offset, line_in_split, "cut off or overwritten")
                if cut
                else LineOutcome.IGNORED
            )
        heading = _BATCH.match(text) or _LEGACY_BATCH.match(text)
        if heading is None or _RECORD_OF_2_2.match(text):
            if not text.startswith(b"baseOffset: "):
                return LineOutcome.IGNORED
            return self._quarantine(text, byte_offset, line_in_split, "batch line is cut off")
        rest = _REST.fullmatch(text, heading.end())
        if rest is None:
            return self._quarantine(text, byte_offset, line_in_split, "batch line is cut off")
        if b"false" in (rest["was_valid"], rest["valid"]):
            return self._quarantine(
                text, byte_offset, line_in_split, "Kafka found the batch invalid: its checksum does not match"
            )
        if self._runs is None:
            return self._quarantine(
                text, byte_offset, line_in_split, "no line or folder names the partition of the batch"
            )
        self._batch(self._runs, heading.groupdict(), rest, byte_offset, line_in_split)
        return LineOutcome.EVENT

    def finish(self) -> BlockTally:
        """End the last run."""
        if self._runs is not None:
            self._runs.end()
        if self._markers is not None:
            self._markers.end()
        return 0, 0, 0

    def _begin_log(self, path: str) -> None:
        """The following lines belong to the segment at this path."""
        self.finish()
        log = log_of(path)
        self._runs = None if log is None else BatchRuns(self._sink, *log)
        self._markers = None if log is None else MarkerRuns(self._sink, *log)
        self._control = None
        self._next = first_offset_of(path)

    def _record(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        """The line of a record: an event only if it is a transaction marker, behind the line of its batch."""
        marker = None if self._control is None else _MARKER.fullmatch(text)
        if marker is None or self._control is None or self._markers is None:
            return LineOutcome.IGNORED
        self._markers.add(self._control, (marker[1].decode(), int(marker[2])), (byte_offset, line))
        return LineOutcome.EVENT

    def _batch(
        self, runs: BatchRuns, fields: dict[str, bytes | None], rest: re.Match[bytes], byte_offset: int, line: int
    ) -> None:
        numbers = {
            name: int(value) for name, value in fields.items() if value is not None and value.lstrip(b"-").isdigit()
        }
        last, magic = numbers["last"], int(rest["magic"])
        base = numbers.get("base", last)
        compressed = rest["codec"].lower() != b"none"
        legacy_count = _NO_COUNT if compressed else 1
        count = numbers.get("count", _NO_COUNT) if magic >= LEGACY else legacy_count
        header = Header(
            byte_offset, int(rest["size"]), magic, base, last, numbers.get("epoch", NO_EPOCH), int(rest["crc"]),
            0, int(rest["time"]), numbers.get("producer", NO_PRODUCER), numbers.get("producer_epoch", NO_EPOCH), count=count,
        )  # fmt: skip
        control = fields.get("control") == b"true"
        self._control = header if control else None
        unknown = count == _NO_COUNT or (fields.get("transactional") == b"true" and fields.get("control") is None)
        records = 0 if control else None if unknown else count
        follows = self._next in (None, base) or (magic < LEGACY and compressed)
        removed = (fields.get("horizon") or b"").startswith(b"OptionalLong[") or -1 < count < last - base + 1
        runs.add(header, line, records, follows and not removed)
        self._next = last + 1

    def _quarantine(self, text: bytes, byte_offset: int, line: int, reason: str) -> LineOutcome:
        self._sink.quarantine(byte_offset, line, reason, text)
        return LineOutcome.QUARANTINED


DECODER: type[LineDecoder] = DataDump
