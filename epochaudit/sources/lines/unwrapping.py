"""Converts lines of other layouts to the stock layout for a decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from epochaudit.sources.lines.layouts import STOCK, Layout, Unwrapped, WholeLine
from epochaudit.sources.sink import BlockTally, LineDecoder, LineOutcome, RowSink

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import CaptureFile

EVENT, IGNORED, QUARANTINED = LineOutcome


class UnwrappingDecoder:
    """A BlockDecoder that passes each line to another decoder in the stock layout.

    A line in parts has the place of its first part, and all parts have its outcome. A recorded line may hold a message of
    several lines: it is an event if one of them is, and their byte offsets lie within the recorded line.
    """

    kind: ClassVar[str] = "unwrapped"
    splittable: ClassVar[bool] = True

    def __init__(self, decoder: LineDecoder, layout: Layout, sink: RowSink) -> None:
        self._decoder, self._sink = decoder, sink
        self._unwrapped = Unwrapped(layout)

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        """One line in the stock layout; see LineDecoder."""
        return self._decoder.line(text, byte_offset, line_in_split)

    def block(self, data: bytes, byte_offset: int, line_in_split: int) -> BlockTally:
        """Many lines at once; see BlockDecoder."""
        tally = [0, 0, 0]
        texts = data.split(b"\n")
        if not texts[-1]:
            texts.pop()
        for number, text in enumerate(texts, line_in_split):
            whole = self._unwrapped.line(text.removesuffix(b"\r"), byte_offset, number)
            byte_offset += len(text) + 1
            if whole is not None:
                tally[self._message(whole)] += whole.parts
        return tally[EVENT], tally[IGNORED], tally[QUARANTINED]

    def _message(self, whole: WholeLine) -> LineOutcome:
        found = set()
        for number, text in enumerate(whole.text.split(b"\n")):
            place = whole.byte_offset + number  # within the recorded line, and different for each line in it
            try:
                found.add(self.line(text.removesuffix(b"\r"), place, whole.line_in_split))
            except Exception as error:
                found.add(self._sink.failed(error, place, whole.line_in_split, text))
        return EVENT if EVENT in found else QUARANTINED if QUARANTINED in found else IGNORED

    def finish(self) -> BlockTally:
        """Quarantines lines without an end at the end of the range."""
        quarantined = 0
        for part in self._unwrapped.rest():
            reason = "cut off: the end of the line is missing"
            self._sink.quarantine(part.byte_offset, part.line_in_split, reason, part.text)
            quarantined += part.parts
        return 0, 0, quarantined


def unwrapping(decoder: LineDecoder, file: CaptureFile, sink: RowSink) -> LineDecoder:
    """The decoder for the file's layout: `decoder` itself for the stock layout."""
    layout = Layout(file.envelope, file.pattern)
    return decoder if layout == STOCK else UnwrappingDecoder(decoder, layout, sink)
