"""The logs of a node in one file: each line goes to the decoder of its logger.

Kafka's stock configuration writes a file per logger. Containers print all loggers to one stream, and an upgrade from 2.7
to 2.8 changes a request log from text to JSON within a file. A file's kind is therefore that of most of its lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from epochaudit.sources.lines.log4j import message_start
from epochaudit.sources.request_log import compiled
from epochaudit.sources.request_log.json import MARK, PREFIX, RequestLogDecoder
from epochaudit.sources.request_log.text import TextRequestLogDecoder
from epochaudit.sources.server_log.decoder import ServerLog
from epochaudit.sources.server_log.messages import BY_CLASS
from epochaudit.sources.sink import BlockTally, LineDecoder, LineOutcome, RowSink
from epochaudit.sources.state_change_log import StateChangeLog

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import CaptureFile

COMPLETED: Final = MARK[:-1]
STATE_CHANGE: Final = b"state.change.logger"
REQUEST: Final = b"kafka.request.logger"
ABBREVIATED: Final = b"logger"  # both loggers as %c{1} prints them
_STATE_CHANGE_PREFIXES: Final = (b"[Broker id=", b"[Controller id=")
EVENT, IGNORED, QUARANTINED = LineOutcome

Line = Callable[[bytes, int, int], LineOutcome]  # LineDecoder.line


def several_logs(head: bytes) -> bool:
    """At least half of the lines are dated, and some end with a known logger, perhaps without its package."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    dated = [line for line in lines if message_start(line)]
    loggers = {line[line.rfind(b"(") + 1 : -1] for line in dated if line.endswith(b")")}
    return 2 * len(dated) >= len(lines) and not loggers.isdisjoint({STATE_CHANGE, REQUEST, *BY_CLASS})


class NodeLog:
    """Rows of schemas/events.toml; `source` is that of the decoder that read the line.

    counts: requests by API, in both syntaxes. An undated line continues the dated line before it and goes to the same
    decoder. A dated line without a logger at its end goes to the decoder of the file's kind; in a file of several
    loggers, to the server log's decoder unless it begins like a state change.
    """

    kind: ClassVar[str] = "node-log"
    splittable: ClassVar[bool] = True

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:
        self._file, self._sink, self._clock = file, sink, sink.clock
        self._requests = RequestLogDecoder(file, sink.of("request_log"))
        self.counts = self._requests.counts
        self._texts = TextRequestLogDecoder(file, sink.of("request_log"), self.counts)
        self._states = StateChangeLog(file, sink.of("state_change_log"))
        self._server = ServerLog(file, sink.of("server_log"))
        self._primary: Line = {"state_change_log": self._states.line, "server_log": self._server.line}.get(
            file.source or "", self._requests.other_line
        )
        self._decoder_of_last_dated: Line = self._primary
        self._several_loggers = False
        self._scanner = compiled.scanner_for(file, sink.of("request_log")) if sink.compiled else None
        self._answers = None if self._scanner is None else self._scanner.answers()
        if self._requests.acknowledged is not None:
            self._requests.acknowledged.scanned = self._answers

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        mark = text.find(COMPLETED, 0, PREFIX)
        if mark >= 0:
            decode = self._requests.decode if text.startswith(MARK, mark) else self._texts.decode
            return decode(text, 0, mark, len(text), byte_offset, line_in_split)
        return self._other_line(text, byte_offset, line_in_split)

    def block(self, data: bytes, byte_offset: int, line_in_split: int) -> BlockTally:
        """Many lines at once; see BlockDecoder."""
        find, json, text, other_line = data.find, self._requests.decode, self._texts.decode, self._other_line
        tally = [0, 0, 0]
        start, size = 0, len(data)
        scanner = self._scanner
        if scanner is not None:
            scanner.begin(data, byte_offset)
        while start < size:
            if scanner is not None and self._scans():
                start, line_in_split, notes = scanner.lines(start, line_in_split)
                for note in notes:
                    tally[self._decode_note(data, byte_offset, *note)] += 1
                if start >= size:
                    break
            stop = find(b"\n", start)
            if stop < 0:
                stop = size
            mark = find(COMPLETED, start, start + PREFIX)
            try:
                if 0 <= mark < stop:
                    decode = json if data.startswith(MARK, mark) else text
                    outcome = decode(data, start, mark, stop, byte_offset + start, line_in_split)
                else:
                    outcome = other_line(data[start:stop].removesuffix(b"\r"), byte_offset + start, line_in_split)
            except Exception as error:
                outcome = self._sink.failed(error, byte_offset + start, line_in_split, data[start:stop])
            tally[outcome] += 1
            line_in_split += 1
            start = stop + 1
        if scanner is not None:
            events, ignored = scanner.take_counts(self.counts)
            tally[EVENT] += events
            tally[IGNORED] += ignored
            if self._requests.acknowledged is not None:
                self._requests.acknowledged.make_rows()
            elif self._answers is not None:
                self._answers.clear()
        return tally[EVENT], tally[IGNORED], tally[QUARANTINED]

    def _scans(self) -> bool:
        """Whether the scanner may take lines. Of a text log, only after a line has ended with its logger."""
        return self._file.kind != compiled.TEXT or self._texts.prints_logger

    def _decode_note(
        self, data: bytes, byte_offset: int, start: int, client: int, stop: int, line_in_split: int, time_ms: int
    ) -> LineOutcome:
        """Decodes a line that the scanner noted; data starts at byte_offset."""
        try:
            return self._texts.decode_noted(data, start, client, stop, time_ms, byte_offset + start, line_in_split)
        except Exception as error:
            return self._sink.failed(error, byte_offset + start, line_in_split, data[start:stop])

    def _other_line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """A line that is no completed request."""
        if start := message_start(text):
            self._decoder_of_last_dated = self._decoder(text, start)
        outcome = self._decoder_of_last_dated(text, byte_offset, line_in_split)
        if outcome is IGNORED and self._clock.is_uncertain:
            self._clock.read(text)
        return outcome

    def _decoder(self, text: bytes, start: int) -> Line:
        """The decoder of a dated line."""
        if text.endswith(b")"):
            logger = text[text.rfind(b" (") + 2 : -1]
            line_decoder = self._of_logger(logger, text, start)
            self._several_loggers = self._several_loggers or line_decoder != self._primary
            return line_decoder
        if not self._several_loggers:
            return self._primary
        return self._states.line if text.startswith(_STATE_CHANGE_PREFIXES, start) else self._server.line

    def _of_logger(self, logger: bytes, text: bytes, start: int) -> Line:
        if logger == STATE_CHANGE:
            return self._states.line
        if logger == REQUEST:
            return self._requests.other_line
        if logger == ABBREVIATED:
            return self._states.line if text.startswith(_STATE_CHANGE_PREFIXES, start) else self._requests.other_line
        return self._server.line


DECODER: type[LineDecoder] = NodeLog
