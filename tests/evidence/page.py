"""The page docs/evidence.md: what each rule judges by default logs alone, and which kinds of logs it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from epochaudit.rules.catalogue import catalogue
from tests.evidence.measured import WITHOUT, Judged, Tallied

PAGE: Final = Path(__file__).parents[2] / "docs" / "evidence.md"
ALL, PART, NONE, NO_SUBJECT = "all", "part", "none", ""
NOTHING: Final = Judged(0, 0, 0)

_HEAD: Final = """\
# What each rule can judge from which logs

Kafka writes server.log, controller.log and state-change.log by default, and the metadata log, the checkpoints and the data are
always there. The request log and clients' logs are not. The tables are measured: recorded clusters are audited whole, and again
without some kinds of files. A cell compares what a rule judged then with what it judges of the whole recording: **all** of it,
**part** of it, or **none**. A cell is blank where the rule has no subject in the whole recording.

Rules that no table names have no subject in these recordings. `python -m tests.evidence` writes this page.

## From default logs alone

By recording: its Kafka release, and ZooKeeper (zk) or KRaft (kraft) mode.

"""
_KINDS: Final = """
## Without one kind of log

Over the recordings {captures}. Without request logs a rule judges what the table above states.

"""


def page(results: Mapping[tuple[str, str], Tallied], default: Sequence[str], kinds: Sequence[str]) -> str:
    """The page, Markdown. default: recordings of the first table, kinds: those of the second."""
    first = [(title(name), [(name, "default logs")]) for name in default]
    second = [
        (variant, [(name, variant) for name in kinds]) for variant in WITHOUT if variant not in ("all", "default logs")
    ]
    captures = ", ".join(kinds)
    return f"{_HEAD}{_table(results, first)}{_KINDS.format(captures=captures)}{_table(results, second)}"


def title(capture: str) -> str:
    """`zk 3.9` of `zk-healthy-3.9`, with what was done, so that two recordings of a release differ."""
    mode = "zk" if capture.startswith("zk") else "kraft"
    release = re.search(r"-(\d+\.\d+)$", capture)
    what = capture.removeprefix("zk-").removeprefix("kraft-").removesuffix(release[0] if release else "")
    return f"{mode}{f' {release[1]}' if release else ''} {what}"


def _table(results: Mapping[tuple[str, str], Tallied], columns: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    lines = [f"| rule | {' | '.join(name for name, _ in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for rule in catalogue():
        cells = [_cell(results, rule.id, runs) for _, runs in columns]
        if any(cells):
            lines.append(f"| {rule.id} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(results: Mapping[tuple[str, str], Tallied], rule: str, runs: Sequence[tuple[str, str]]) -> str:
    whole = sum(results[name, "all"].get(rule, NOTHING).judged for name, _ in runs)
    left = sum(
        min(results[run].get(rule, NOTHING).judged, results[run[0], "all"].get(rule, NOTHING).judged) for run in runs
    )
    if not whole:
        return NO_SUBJECT
    return ALL if left == whole else PART if left else NONE
