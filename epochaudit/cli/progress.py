"""Shows on stderr how far a command is: a bar on a terminal, elsewhere a line each half minute if asked for."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from epochaudit.spark import run_metrics

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

REFRESHED: Final = 0.25  # seconds between two looks at the metrics
EVERY: Final = 30.0  # seconds between two lines


@dataclass(frozen=True)
class Position:
    """How far a run is. counted: `bytes` of logs that are read, or `frames` that are judged; null if nothing is counted.

    seconds: since the stage began.
    """

    stage: str
    seconds: float = 0
    counted: str | None = None
    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        """`310.0 MB of 1.2 GB, 42.1 MB a second`, `7 of 24 frames`; empty if nothing is counted."""
        from epochaudit.report.page import size_of

        if self.counted == "bytes":
            rate = f", {size_of(int(self.done / self.seconds))} a second" if self.done and self.seconds >= 1 else ""
            return f"{size_of(self.done)} of {size_of(self.total)}{rate}"
        return f"{self.done:,} of {self.total:,} {self.counted}" if self.counted else ""


def position(metrics: run_metrics.Metrics) -> Position:
    """The stage that began last, and how far it is."""
    stage, began = next(reversed([*metrics.current.items()]), ("", time.monotonic()))
    seconds = time.monotonic() - began
    if stage == "reading" and metrics.reading:
        return Position(stage, seconds, "bytes", metrics.reading.done(), metrics.reading.total)
    if stage == "judging" and metrics.judging:
        return Position(stage, seconds, "frames", metrics.judging.done(), metrics.judging.total)
    return Position(stage, seconds)


@contextmanager
def progress(title: str, *, lines: bool = False) -> Iterator[None]:
    """Show how far the work inside is. lines: print lines where stderr is no terminal, which else shows nothing."""
    if not (sys.stderr.isatty() or lines):
        yield
        return
    metrics, ended = run_metrics.of_run(), Event()
    show = _bar if sys.stderr.isatty() else _lines
    shown = Thread(target=show, args=(title, metrics, ended), daemon=True)
    shown.start()
    try:
        yield
    finally:
        ended.set()
        shown.join()


def _bar(title: str, metrics: run_metrics.Metrics, ended: Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from epochaudit.report.neutral import neutral

    # its own descriptor: stderr's is given to Spark's JVM while that starts
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            TextColumn("{task.fields[how_far]}", markup=False),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
        )
        with Progress(*columns, console=Console(file=terminal), transient=True) as bar:
            tasks: dict[str, TaskID] = {}
            while True:
                _update(bar, tasks, neutral(title), position(metrics))
                if ended.wait(REFRESHED):
                    return


def _update(bar: Progress, tasks: dict[str, TaskID], title: str, now: Position) -> None:
    """Show the current stage only. Each stage is a task of its own, as its rate is another one."""
    if now.stage not in tasks:
        for task in tasks.values():
            bar.update(task, visible=False)
        tasks[now.stage] = bar.add_task("", how_far="")
    description = f"{title}: {now.stage}" if now.stage else title
    total = now.total if now.counted else None
    task = tasks[now.stage]
    bar.update(task, description=description, completed=now.done, total=total, how_far=str(now), visible=True)


def _lines(title: str, metrics: run_metrics.Metrics, ended: Event) -> None:
    from epochaudit.report.neutral import neutral

    began = time.monotonic()
    while not ended.wait(EVERY):
        now = position(metrics)
        words = ": ".join(filter(None, (neutral(title), now.stage, str(now))))
        print(f"epochaudit: {time.monotonic() - began:,.0f} s: {words}", file=sys.stderr, flush=True)
