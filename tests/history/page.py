"""The page docs/track-record.md: which real bugs the rules report, and how to replay them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.history.histories import History, Unreplayed, histories, unreplayed

PAGE: Final = Path(__file__).parents[2] / "docs" / "track-record.md"

_HEAD: Final = """\
# Track record

Bugs that Kafka's fences have had, each with the smallest history of it, as brokers and controllers of an affected release
would have logged it, and the same history on a mended one. All rules judge each history: the rules named here report the first
and not the second, and no rule besides reports anything. The histories are in `tests/history/`; `exposed` means that the
release has no fence there, `violation` that it has one and it did not hold. An observation counts a sighting and reports no
breach. A bug without an issue in Kafka's tracker is named by the pull request of apache/kafka that mends it.

`python -m tests.history` writes this page, and the tests keep it true.

| bug | affected | fixed | what failed | rule | replay |
|---|---|---|---|---|---|
"""
_WITHOUT: Final = """
## Not reported

Bugs of the same kind that no rule reports: for want of a rule, or because the logs of the affected releases do not show them.

| bug | affected | what failed | rule | why |
|---|---|---|---|---|
"""


def page() -> str:
    """The page, Markdown."""
    replayed = "".join(f"{_replayed(history)}\n" for history in histories())
    others = "".join(f"{_other(bug)}\n" for bug in unreplayed())
    return f"{_HEAD}{replayed}{_WITHOUT}{others}"


def _replayed(history: History) -> str:
    caught = ", ".join(f"{rule} {verdict}" for rule, verdict in sorted(history.caught_by().items()))
    return _row(history.bug_id, history.affected, history.fixed, history.failed, caught, f"`{command(history)}`")


def command(history: History) -> str:
    """What replays the bug, from the top folder of the repository."""
    return f".venv/bin/python -m pytest tests/history -k {history.bug_id}"


def _other(bug: Unreplayed) -> str:
    return _row(bug.bug_id, bug.affected, bug.failed, ", ".join(bug.rules), bug.why)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
