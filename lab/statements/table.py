"""docs/statements.md: which releases write the text of each pattern. `python -m lab.statements --write` makes it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.statements.patterns import CLIENTS, STATE_CHANGES, Read

PAGE: Final = Path(__file__).parents[2] / "docs" / "statements.md"
_HEAD: Final = """# Statements of Kafka's releases

epochaudit reads log lines by patterns. This table has the text of each pattern, and the releases whose classes build such a text where
it is logged. `python -m lab.statements --write` makes it from class files (`docs/lab.md`) of these releases:

{releases}.

A heading names the loggers whose lines the patterns below it are compared with. A range has all of these releases between its ends.
In braces are columns of the events table and other values. `( )?` may be absent,
`(a|b)` is one of both. Prefixes in brackets, which loggers put before messages, are compared and left out here. A value may be anything
without a space, unless the pattern names the class that prints it: then it must be what that class prints.
"""
_NAMES: Final = {STATE_CHANGES: "state.change.logger", CLIENTS: "Java clients"}
_ROW: Final = re.compile(r"\| `(?P<text>.*)` \| (?P<releases>.*) \|")
_SECTION: Final = "## "
_BAR: Final = r"\|"  # within a table of Markdown
_NONE: Final = "none"
_BETWEEN: Final = " to "

Key = tuple[str, str]
"""Logger and text of a pattern."""


@dataclass(frozen=True)
class Table:
    """Pattern -> the releases that write it, of all `releases` that were read."""

    releases: Sequence[str]
    rows: Mapping[Key, frozenset[str]]

    def nearest(self, version: str) -> str:
        """The newest of the releases that is not newer than this one, or else the oldest."""
        older = [one for one in self.releases if numbers(one) <= numbers(version)]
        return older[-1] if older else self.releases[0]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def key(one: Read) -> Key:
    return one.logger, one.text


def rendered(table: Table) -> str:
    """The page: a section for each set of loggers whose lines a pattern is tried on, a row for each text."""
    by_text: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for (logger, text), versions in table.rows.items():
        by_text[text][logger] = versions
    sections: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for text, loggers in sorted(by_text.items()):
        sections[tuple(loggers)].append(f"| `{text.replace('|', _BAR)}` | {_cell(loggers, table.releases)} |")
    lines = [_HEAD.format(releases=", ".join(table.releases))]
    for logger_names in sorted(sections, key=lambda names: (names[0] in _NAMES, names)):
        heading = ", ".join(_NAMES.get(name, f"`{name}`") for name in logger_names)
        lines += [f"## {heading}", "", "| text | releases |", "|---|---|", *sections[logger_names], ""]
    return "\n".join(lines)


def _cell(loggers: Mapping[str, frozenset[str]], releases: Sequence[str]) -> str:
    """The releases; of several loggers each with its own, without those that never write the text."""
    if len(loggers) == 1:
        return ranges(next(iter(loggers.values())), releases)
    return "; ".join(f"{name} {ranges(versions, releases)}" for name, versions in loggers.items() if versions) or _NONE


def ranges(versions: frozenset[str], releases: Sequence[str]) -> str:
    """`1.0.0 to 2.5.1, 3.9.1`."""
    runs: list[list[str]] = []
    for number, release in enumerate(releases):
        if release not in versions:
            continue
        if runs and number and runs[-1][-1] == releases[number - 1]:
            runs[-1].append(release)
        else:
            runs.append([release])
    return ", ".join(_BETWEEN.join(dict.fromkeys((run[0], run[-1]))) for run in runs) or _NONE


def _from_ranges(text: str, releases: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for run in text.split(", ") if text != _NONE else ():
        first, _, last = run.partition(_BETWEEN)
        found.update(releases[releases.index(first) : releases.index(last or first) + 1])
    return frozenset(found)


def read(page: str) -> Table:
    """The table of a page that `rendered` made."""
    releases: list[str] = []
    rows: dict[Key, frozenset[str]] = {}
    by_heading = {name: logger for logger, name in _NAMES.items()}
    loggers: list[str] = []
    for line in page.splitlines():
        if re.fullmatch(r"\d+\.\d+\.\d+(?:, \d+\.\d+\.\d+)*\.", line):
            releases = line.removesuffix(".").split(", ")
        elif line.startswith(_SECTION):
            names = line.removeprefix(_SECTION).replace("`", "").split(", ")
            loggers = [by_heading.get(name, name) for name in names]
        elif row := _ROW.fullmatch(line):
            cells = (
                dict(cell.split(" ", 1) for cell in row["releases"].split("; ") if cell != _NONE) if loggers[1:] else {}
            )
            for logger in loggers:
                cell = cells.get(logger, _NONE) if loggers[1:] else row["releases"]
                rows[logger, row["text"].replace(_BAR, "|")] = _from_ranges(cell, releases)
    return Table(releases, rows)


def with_release(table: Table, version: str, found: Iterable[Key]) -> Table:
    """The table with one release more, or read again."""
    known = set(found)
    rows = {
        one: (versions - {version}) | ({version} if one in known else frozenset())
        for one, versions in table.rows.items()
    }
    return Table(sorted({*table.releases, version}, key=numbers), rows)
