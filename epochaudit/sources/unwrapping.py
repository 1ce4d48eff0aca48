"""Lines of other layouts on their way to a decoder, which sees them as the stock layout prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from epochaudit.sources.layouts import STOCK, Layout, Unwrapped, WholeLine
from epochaudit.sources.sink import BlockTally, LineDecoder, LineOutcome, RowSink

if TYPE_CHECKING:
    from epochaudit.sources.capture import RecordedFile

EVENT, IGNORED, QUARANTINED = LineOutcome


class UnwrappingDecoder:
    """A BlockDecoder that hands each line to another decoder in the stock layout.

    A line that came in parts is one line with the place of the first; all parts have its outcome. A message of several
    lines inside one recorded line is an event if one of them is; their byte offsets lie within the recorded line.
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
            place = whole.byte_offset + number  # within the recorded line, and unlike for all that it holds
            try:
                found.add(self.line(text.removesuffix(b"\r"), place, whole.line_in_split))
            except Exception as error:
                found.add(self._sink.failed(error, place, whole.line_in_split, text))
        return EVENT if EVENT in found else QUARANTINED if QUARANTINED in found else IGNORED

    def finish(self) -> BlockTally:
        """What is left at the end of the range: parts of lines whose ends are missing."""
        quarantined = 0
        for part in self._unwrapped.rest():
            reason = "cut off: the end of the line is missing"
            self._sink.quarantine(part.byte_offset, part.line_in_split, reason, part.text)
            quarantined += part.parts
        return 0, 0, quarantined


def unwrapping(decoder: LineDecoder, file: RecordedFile, sink: RowSink) -> LineDecoder:
    """The decoder for the file's own layout."""
    layout = Layout(file.envelope, file.pattern)
    return decoder if layout == STOCK else UnwrappingDecoder(decoder, layout, sink)
