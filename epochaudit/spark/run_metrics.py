"""Metrics of a run as one line of JSON, for monitoring: what it read, judged and cost."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from epochaudit.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA_VERSION: Final = 1
STDERR: Final = "-"

Judged = Mapping[str, object]  # subjects by verdict, clusters, rules that failed

_OF_RUN: Final[ContextVar[Metrics | None]] = ContextVar("metrics of this run", default=None)


@dataclass(frozen=True)
class FrameCost:
    """Cost of a frame: its rows, a folded run counted once, and wall time of planning and of computing it, in seconds.

    Tables that it reads first are computed while it is planned.
    """

    rows: int
    planning_seconds: float
    computing_seconds: float


@dataclass(frozen=True)
class Advance:
    """How far a stage is: `done()` of `total`."""

    total: int
    done: Callable[[], int]


@dataclass
class Metrics:
    """Metrics of one run.

    seconds: wall time by stage. read: files, bytes, lines, rows and quarantined lines that it read. frames: cost by frame; as
    two frames are evaluated at a time, their seconds overlap. While it runs: current, stages that have begun and not
    ended -> when they began (time.monotonic); reading, stored bytes of logs; judging, frames.
    """

    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: dict[str, float] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)
    frames: dict[str, FrameCost] = field(default_factory=dict)
    current: dict[str, float] = field(default_factory=dict)
    reading: Advance | None = None
    judging: Advance | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add what runs inside to the time of a stage."""
        started = time.monotonic()
        self.current[name] = started
        try:
            yield
        finally:
            self.current.pop(name, None)
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - started, 3)

    def cpu_seconds(self, spark: SparkSession | None) -> float:
        """CPU time of the driver since it was started: this process and, if it has one, its JVM."""
        own = time.process_time()
        if spark is not None:
            from epochaudit.spark.session import jvm_cpu_seconds

            own += jvm_cpu_seconds(spark)
        return round(own, 3)


@contextmanager
def measured() -> Iterator[Metrics]:
    """Metrics of what runs inside."""
    metrics = Metrics()
    token = _OF_RUN.set(metrics)
    try:
        yield metrics
    finally:
        _OF_RUN.reset(token)


def of_run() -> Metrics:
    """The metrics of the current run; new ones outside `measured`."""
    return _OF_RUN.get() or Metrics()


def write(destination: str, metrics: Metrics, exit_code: int, judged: Judged | None, error: str | None) -> None:
    """Append the line to a file, or print it to stderr. Raises OSError."""
    text = line(metrics, exit_code, judged, error) + "\n"
    if destination == STDERR:
        sys.stderr.write(text)
        return
    with Path(destination).open("a", encoding="utf-8") as file:
        file.write(text)


def line(metrics: Metrics, exit_code: int, judged: Judged | None, error: str | None) -> str:
    """The metrics as JSON without a newline. If the run failed, `judged` is None and `error` states why."""
    spark = _active()
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "epochaudit", "version": VERSION},
        "spark": spark and spark.version,
        "started_at": metrics.started_at.isoformat(timespec="seconds"),
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "exit_code": exit_code,
        "error": error,
        "seconds": metrics.seconds,
        "driver_cpu_seconds": metrics.cpu_seconds(spark),
        "read": metrics.read,
        "frames": {name: asdict(cost) for name, cost in sorted(metrics.frames.items())},
        "judged": judged,
    }
    return json.dumps(document, ensure_ascii=True)


def profile(metrics: Metrics) -> str:
    """The frames' costs as a table, the most expensive one first, below the stages' seconds."""
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in metrics.seconds.items())
    costs = sorted(metrics.frames.items(), key=lambda item: -item[1].planning_seconds - item[1].computing_seconds)
    width = max((len(name) for name, _ in costs), default=5)
    rows = (
        f"{name:<{width}}  {cost.rows:>10,}  {cost.planning_seconds:>17.1f}  {cost.computing_seconds:>11.1f}"
        for name, cost in costs
    )
    return "\n".join(
        (stages, f"{'frame':<{width}}  {'rows':>10}  {'tables and plan s':>17}  {'computing s':>11}", *rows)
    )


def _active() -> SparkSession | None:
    """The active session, None if there is none. Neither starts nor imports Spark."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
