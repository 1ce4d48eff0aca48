"""The logs that a node writes, whichever of them a file holds: each line goes to the decoder of its logger.

A stock set-up writes a file per logger. Containers print all of them to one stream, and an upgrade from 2.7 to 2.8 turns
a request log from text into JSON within one file, so that the kind of a file says only what most of it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from epochaudit.sources import request_scan
from epochaudit.sources.log4j import message_start
from epochaudit.sources.request_log import MARK, PREFIX, RequestLogDecoder
from epochaudit.sources.server_log import ServerLog
from epochaudit.sources.server_log_wordings import BY_CLASS
from epochaudit.sources.sink import BlockTally, LineDecoder, LineOutcome, RowSink
from epochaudit.sources.state_change_log import StateChangeLog
from epochaudit.sources.text_request_log import TextRequestLogDecoder

if TYPE_CHECKING:
    from epochaudit.sources.capture import RecordedFile

COMPLETED: Final = MARK[:-1]
STATE_CHANGE: Final = b"state.change.logger"
REQUEST: Final = b"kafka.request.logger"
ABBREVIATED: Final = b"logger"  # what %c{1} leaves of both
_OF_STATE_CHANGES: Final = (b"[Broker id=", b"[Controller id=")
EVENT, IGNORED, QUARANTINED = LineOutcome

Line = Callable[[bytes, int, int], LineOutcome]  # LineDecoder.line


def several_logs(head: bytes) -> bool:
    """Dated lines, none of them of a kind that is most of them, or whose loggers are printed without their package."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    dated = [line for line in lines if message_start(line)]
    loggers = {line[line.rfind(b"(") + 1 : -1] for line in dated if line.endswith(b")")}
    return 2 * len(dated) >= len(lines) and not loggers.isdisjoint({STATE_CHANGE, REQUEST, *BY_CLASS})


class NodeLog:
    """Rows of schemas/events.toml with the source of the decoder that read the line.

    `counts`: requests by API, of both syntaxes.

    Undated lines go on from the dated line before them and are its decoder's. A dated line that does not end with its
    logger is what most of the file is, in a file of several loggers a server log's.
    """

    kind: ClassVar[str] = "node-log"
    splittable: ClassVar[bool] = True

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
        self._file, self._sink = file, sink
        self._requests = RequestLogDecoder(file, sink.of("request_log"))
        self.counts = self._requests.counts
        self._texts = TextRequestLogDecoder(file, sink.of("request_log"), self.counts)
        self._states = StateChangeLog(file, sink.of("state_change_log"))
        self._server = ServerLog(file, sink.of("server_log"))
        self._primary: Line = {"state_change_log": self._states.line, "server_log": self._server.line}.get(
            file.source or "", self._requests.other
        )
        self._last: Line = self._primary
        self._several = False
        self._scanner = request_scan.scanner_for(file, sink.of("request_log")) if sink.compiled else None

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line; see LineDecoder."""
        mark = text.find(COMPLETED, 0, PREFIX)
        if mark >= 0:
            decode = self._requests.decode if text.startswith(MARK, mark) else self._texts.decode
            return decode(text, 0, mark, len(text), byte_offset, line_in_split)
        return self._other(text, byte_offset, line_in_split)

    def block(self, data: bytes, byte_offset: int, line_in_split: int) -> BlockTally:
        """Many lines at once; see BlockDecoder."""
        find, json, text, other = data.find, self._requests.decode, self._texts.decode, self._other
        tally = [0, 0, 0]
        start, size = 0, len(data)
        scanner = self._scanner
        if scanner is not None:
            scanner.begin(data, byte_offset)
        while start < size:
            if scanner is not None and self._scans():
                start, line_in_split, notes = scanner.lines(start, line_in_split)
                for note in notes:
                    tally[self._noted(data, byte_offset, *note)] += 1
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
                    outcome = other(data[start:stop].removesuffix(b"\r"), byte_offset + start, line_in_split)
            except Exception as error:
                outcome = self._sink.failed(error, byte_offset + start, line_in_split, data[start:stop])
            tally[outcome] += 1
            line_in_split += 1
            start = stop + 1
        if scanner is not None:
            events, ignored = scanner.told(self.counts)
            tally[EVENT] += events
            tally[IGNORED] += ignored
        return tally[EVENT], tally[IGNORED], tally[QUARANTINED]

    def _scans(self) -> bool:
        """Whether the scanner may take lines: as text, once it is known that lines end with their logger."""
        return self._file.kind != request_scan.TEXT or self._texts.prints_logger

    def _noted(
        self, data: bytes, byte_offset: int, start: int, client: int, stop: int, line_in_split: int, time_ms: int
    ) -> LineOutcome:
        """A line that the scanner noted, of the data that starts at byte_offset."""
        try:
            return self._texts.decode_noted(data, start, client, stop, time_ms, byte_offset + start, line_in_split)
        except Exception as error:
            return self._sink.failed(error, byte_offset + start, line_in_split, data[start:stop])

    def _other(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """A line that is no completed request."""
        if start := message_start(text):
            self._last = self._decoder(text, start)
        return self._last(text, byte_offset, line_in_split)

    def _decoder(self, text: bytes, start: int) -> Line:
        """Whose line a dated line is."""
        if text.endswith(b")"):
            logger = text[text.rfind(b" (") + 2 : -1]
            told = self._of_logger(logger, text, start)
            self._several = self._several or told != self._primary
            return told
        if not self._several:
            return self._primary
        return self._states.line if text.startswith(_OF_STATE_CHANGES, start) else self._server.line

    def _of_logger(self, logger: bytes, text: bytes, start: int) -> Line:
        if logger == STATE_CHANGE:
            return self._states.line
        if logger == REQUEST:
            return self._requests.other
        if logger == ABBREVIATED:
            return self._states.line if text.startswith(_OF_STATE_CHANGES, start) else self._requests.other
        return self._server.line


DECODER: type[LineDecoder] = NodeLog
