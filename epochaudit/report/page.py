"""A page of text that is safe to print: all text passes through `neutral`, is shortened, wrapped and indented."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from epochaudit.report.neutral import neutral, short

LABEL: Final = 10  # columns of a field's label, with the space after it
NARROWEST: Final = 50

Piece = tuple[str, str]  # text and rich style


class Page:
    """Collects lines of styled text, at most `width` columns wide."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self._written = StringIO()
        self._width = max(width, NARROWEST)
        self._console = Console(
            file=self._written,
            width=self._width,
            force_terminal=colour,
            color_system="standard" if colour else None,
            no_color=not colour,
            legacy_windows=False,
            force_jupyter=False,  # in a notebook, too, this makes text
            highlight=False,
            markup=False,
            emoji=False,
        )

    def say(self, *pieces: Piece, indent: int = 0, hang: int = 0) -> None:
        """One paragraph, `indent` columns in, its further lines `hang` columns deeper."""
        text = Text.assemble(*((neutral(short(words)), style) for words, style in pieces))
        self._paragraph(text, " " * indent, " " * (indent + hang))

    def field(self, label: str, value: str, indent: int = 4) -> None:
        """A labelled value; its further lines start under the value."""
        self._paragraph(Text(neutral(short(value))), " " * indent + label.ljust(LABEL), " " * (indent + LABEL))

    def heading(self, title: str) -> None:
        """A title with room above it."""
        self.blank()
        self.say((title, "bold underline"))

    def blank(self) -> None:
        """An empty line."""
        self._console.print()

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """First column left, numbers right, the last column takes the rest and wraps.

        Where that is too wide, columns stand closer and the first wraps, too: no number is ever cut.
        """
        cells = [[neutral(short(cell)) for cell in row] for row in rows]
        fits = _least_width(header, cells) <= self._width
        table = Table(box=box.SIMPLE_HEAD if fits else None, pad_edge=True, show_edge=False, collapse_padding=not fits)
        for number, title in enumerate(header):
            first, last = number == 0, number == len(header) - 1
            wraps = last or (first and not fits)
            table.add_column(title, justify="left" if first or last else "right", no_wrap=not wraps, overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))
        self._console.print(table)

    def copied(self, *lines: str, indent: int = 0) -> None:
        """Lines to be copied into a shell or a file: never wrapped, whatever the width."""
        for line in lines:
            self._console.print(Text(f"{' ' * indent}{neutral(line)}"), soft_wrap=True)

    def markdown(self, page: str) -> None:
        """A page of this program's own documentation, rendered; never text from a capture."""
        self._console.print(Markdown(page))

    def text(self) -> str:
        """The page so far, without trailing spaces."""
        return "".join(f"{line.rstrip(' ')}\n" for line in self._written.getvalue().splitlines())

    def _paragraph(self, text: Text, first: str, rest: str) -> None:
        room = self._width - max(len(first), len(rest))
        for number, line in enumerate(text.wrap(self._console, room, overflow="fold")):
            line.rstrip()
            self._console.print(Text.assemble(rest if number else first, line), soft_wrap=True)


def _least_width(header: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """Columns of a table with lines and room between its columns, if only the last one wraps."""
    *whole, last = zip(header, *cells, strict=True)
    needed = [max(map(cell_len, column)) for column in whole]
    needed.append(max((cell_len(word) for cell in last for word in cell.split()), default=0))
    return sum(needed) + 2 * len(header) + len(header) - 1


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def size_of(size: int, unit_of_bytes: str = "bytes") -> str:
    """A number of bytes with the unit that leaves up to three digits before the point."""
    amount, unit = float(size), unit_of_bytes
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{size:,} {unit}" if unit == unit_of_bytes else f"{amount:.1f} {unit}"
