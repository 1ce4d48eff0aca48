"""The summary of a collection, as text."""

from __future__ import annotations

from collections.abc import Iterator

from epochaudit.collecting.collection import Collected
from epochaudit.report.neutral import neutral
from epochaudit.report.page import size_of

_SHOWN = 3


def render(result: Collected) -> str:
    """The summary: collected and skipped files, their nodes, and what to check before the capture is sent away."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Collected) -> Iterator[str]:
    yield f"Collected into {neutral(result.output)}"
    yield ""
    yield f"  {'taken':28}{'files':>9}{'bytes':>12}{'collected':>12}"
    for kind, (files, stored, written) in sorted(result.taken.items(), key=lambda item: (-item[1][2], item[0])):
        yield f"  {kind:28}{files:>9,}{_bytes(stored):>12}{_bytes(written):>12}"
    yield f"  {'in all':28}" + "".join(
        shown.rjust(width)
        for shown, width in (
            (f"{sum(counts[0] for counts in result.taken.values()):,}", 9),
            (_bytes(sum(counts[1] for counts in result.taken.values())), 12),
            (_bytes(sum(counts[2] for counts in result.taken.values())), 12),
        )
    )
    if result.skipped:
        yield ""
        yield "  left where it is"
        for reason, (files, size) in sorted(result.skipped.items(), key=lambda item: -item[1][0]):
            yield f"  {files:>8,} files, {_bytes(size)}: {reason}"
            shown = ", ".join(map(neutral, result.examples[reason][:_SHOWN]))
            yield f"           {shown}{', ...' if files > _SHOWN else ''}"
    yield ""
    for node, folders in result.nodes.items():
        yield f"  node {node}: {', '.join(map(neutral, folders))}"
    if result.unknown:
        listed = ", ".join(map(neutral, result.unknown[:_SHOWN]))
        yield f"  node unknown: {listed}{', ...' if len(result.unknown) > _SHOWN else ''}; write it into capture.toml"
    yield (
        f"  times: as {result.time_zone} prints them"
        if result.time_zone
        else "  times: the zone that the hosts print is not known and is read as UTC; state it with --time-zone"
    )
    if result.masked:
        yield f"  {result.masked:,} values that may be secrets were overwritten with *"
    if result.damaged:
        yield f"  {_bytes(result.damaged)} of metadata logs were no records and were overwritten"


def _bytes(size: int) -> str:
    return size_of(size, "B")
