"""Measures the nights of a warehouse: one cluster's logs, delivered in equal spans of time, with or without settled days.

    python -m benchmarks.nights CAPTURE [--nights 10] [--settled]

CAPTURE is a directory with uncompressed logs of a few minutes. A night is a span of them, in files of their own, as logs that rotate by
the day leave them. Each night settles what is two nights older.
Requests are read from a tenth of a night before. One row per night: CPU and wall seconds of the whole process tree, wall seconds
by stage, rows judged, findings. Later nights cost as much as earlier ones if only what is new is judged.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.process_tree import measured

ROOT: Final = Path(__file__).resolve().parent.parent
STAMP: Final = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
TIME: Final = "%Y-%m-%d %H:%M:%S,%f"
LAST_BYTES: Final = 1 << 20  # of a log, in which its last time is looked for
FIRST_DAY: Final = date(2026, 1, 1)  # in the names of files, which decide their order
TOLERANCE_MS: Final = 10_000
LOOK_BACK: Final = 10  # a night is this many times the span before it of which requests are read
SETTLE_AFTER: Final = 2  # nights
OF_LINES: Final = (".log", ".out")
OPTIONS: Final = ("settled", "all judged again")


class Log:
    """A log of lines with times, of which each night delivers a file. Lines without a time belong to the one before."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._next = self._file.readline()

    def write_to(self, file: Path, until: bytes) -> None:
        """Write the lines printed up to a time, if there are any. Times are compared as they are printed."""
        with file.open("wb") as out:
            while self._next and not self._is_after(until):
                out.write(self._next)
                self._next = self._file.readline()
        if not file.stat().st_size:
            file.unlink()

    def _is_after(self, time: bytes) -> bool:
        found = STAMP.match(self._next)
        return found is not None and found[1] > time


def ends(path: Path) -> tuple[bytes, bytes] | None:
    """The first and the last time that a log prints; None if its first line has none."""
    with path.open("rb") as file:
        first = STAMP.match(file.readline())
        file.seek(max(0, path.stat().st_size - LAST_BYTES))
        times = [found[1] for found in map(STAMP.match, file.read().splitlines()) if found]
    return (first[1], times[-1]) if first else None


def moment(printed: bytes) -> datetime:
    return datetime.strptime(printed.decode(), TIME)


def nights_of(capture: Path, nights: int) -> tuple[dict[Path, Log], list[bytes], int]:
    """The logs by path, the last time of each night as logs print it, and how many milliseconds a night has."""
    printed = {
        path: found
        for path in capture.rglob("*")
        if path.suffix in OF_LINES and path.is_file()
        if (found := ends(path))
    }
    first, last = (
        moment(choose(found[which] for found in printed.values())) for which, choose in enumerate((min, max))
    )
    night = (last - first) / nights + timedelta(milliseconds=1)
    untils = [(first + number * night).strftime(TIME)[:-3].encode() for number in range(1, nights + 1)]
    return {path: Log(path) for path in printed}, untils, round(night.total_seconds() * 1000)


def deliver(capture: Path, folder: Path, logs: Mapping[Path, Log], night: int, until: bytes) -> None:
    """Write what the logs print up to a time; files that are not logs of lines are delivered whole in the first night."""
    day = f"{FIRST_DAY + timedelta(days=night):%Y-%m-%d}"
    for path in sorted(capture.rglob("*")):
        copy = folder / path.relative_to(capture)
        if not path.is_file() or (path not in logs and copy.exists()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path in logs:
            logs[path].write_to(copy.with_name(f"{path.name}.{day}"), until)
        else:
            copy.write_bytes(path.read_bytes())


def run(folder: str, location: str, night_ms: int, option: str) -> None:
    """One night, in a process of its own."""
    from epochaudit import warehouse
    from epochaudit.sources.discovery.discovery import inspected
    from epochaudit.spark import run_metrics
    from epochaudit.spark.session import session
    from epochaudit.warehouse import settling

    settling.SETTLED_TO_MS, settling.LOOK_BACK_MS = TOLERANCE_MS, night_ms // LOOK_BACK  # type: ignore[misc]
    settle_after_ms = SETTLE_AFTER * night_ms if option == OPTIONS[0] else None
    spark = session(warehouse=True, plain_bytes=sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()))
    with run_metrics.measured() as metrics:
        run = warehouse.audited(spark, location, [inspected(folder)], settle_after_ms=settle_after_ms)
        with run as report:
            pass
    rows = sum(cost.rows for cost in metrics.frames.values())
    counts = {"rows": rows, "judged": report.judged, "findings": len(report.findings)}
    sys.stdout.write(json.dumps({"seconds": metrics.seconds, **counts}) + "\n")


def night_of(folder: Path, location: Path, night_ms: int, option: str) -> Mapping[str, Any]:
    """The CPU and wall seconds of one night, with what it printed. Ends the program if the night fails."""
    command = [sys.executable, "-m", "benchmarks.nights", "--run", str(folder), str(location), str(night_ms), option]
    spent = measured(command, cwd=ROOT)
    if spent.exit_code:
        sys.exit(f"the night ended with {spent.exit_code}")
    return {"cpu": spent.cpu_seconds, "wall": spent.wall_seconds, **json.loads(spent.output.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("capture", nargs="?", type=Path)
    parser.add_argument("--nights", type=int, default=10)
    parser.add_argument("--settled", action="store_true", help="only with settled days")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        folder, location, night_ms, option = asked.run
        run(folder, location, int(night_ms), option)
        return
    logs, untils, night_ms = nights_of(asked.capture, asked.nights)
    options = OPTIONS[:1] if asked.settled else OPTIONS
    print(
        "| night | "
        + " | ".join(f"{option}: CPU s, wall s, by stage, rows of frames, judged, findings" for option in options)
        + " |"
    )
    print("|---|" + "---|" * len(options), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / asked.capture.name
        for night, until in enumerate(untils, 1):
            deliver(asked.capture, folder, logs, night, until)
            cells = []
            for option in options:
                result = night_of(folder, Path(temporary) / option.replace(" ", "-"), night_ms, option)
                stages = " ".join(f"{stage} {seconds:.0f}" for stage, seconds in result["seconds"].items())
                cells.append(
                    f"{result['cpu']:.0f}, {result['wall']:.0f}, {stages}, {result['rows']:,}, {result['judged']:,}, "
                    f"{result['findings']}"
                )
            print(f"| {night} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
