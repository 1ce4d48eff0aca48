"""Measures the nights of a warehouse: one cluster's logs, delivered in equal spans of time, with and without settled days.

    python -m benchmarks.nights CAPTURE [--nights 10]

CAPTURE is a directory with uncompressed logs of a few minutes. A night is a span of them, and each settles what is two nights older.
Requests are read from a tenth of a night before. One row per night: CPU and wall seconds of the whole process tree, rows
judged, findings. Later nights cost as much as earlier ones if only what is new is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import adopt_orphans, wait_for_orphans

ROOT: Final = Path(__file__).resolve().parent.parent
STAMP: Final = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
GRAIN_MS: Final = 10_000
LOOK_BACK: Final = 10  # a night is this many times the span before it of which requests are read
SETTLE_AFTER: Final = 2  # nights
OF_LINES: Final = (".log", ".out")
OPTIONS: Final = ("settled", "all judged again")


def milliseconds(line: bytes) -> int | None:
    """The time of a line; None for one without."""
    found = STAMP.match(line)
    if found is None:
        return None
    moment = datetime.strptime(found[1].decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + int(found[2])


def logs(capture: Path) -> Iterator[Path]:
    """The logs of lines with times."""
    for path in sorted(capture.rglob("*")):
        if path.suffix in OF_LINES and path.is_file():
            with path.open("rb") as file:
                if milliseconds(file.readline()) is not None:
                    yield path


def span(capture: Path) -> tuple[int, int]:
    """The first and the last time of the capture's lines."""
    times = [one for path in logs(capture) for line in path.open("rb") if (one := milliseconds(line)) is not None]
    return min(times), max(times)


def deliver(capture: Path, folder: Path, until: int) -> None:
    """Write the logs up to a time; files that are not logs of lines are delivered whole in the first night."""
    of_lines = set(logs(capture))
    for path in sorted(capture.rglob("*")):
        copy = folder / path.relative_to(capture)
        if not path.is_file() or (path not in of_lines and copy.exists()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path not in of_lines:
            copy.write_bytes(path.read_bytes())
            continue
        with path.open("rb") as file, copy.open("wb") as out:
            for line in file:
                if (printed := milliseconds(line)) is not None and printed > until:
                    break
                out.write(line)


def run(folder: str, location: str, night_ms: int, option: str) -> None:
    """One night, in a process of its own."""
    from epochaudit import warehouse
    from epochaudit.sources.discovery.discovery import inspected
    from epochaudit.spark import run_metrics
    from epochaudit.spark.session import session
    from epochaudit.warehouse import settling

    settling.GRAIN_MS, settling.LOOK_BACK_MS = GRAIN_MS, night_ms // LOOK_BACK  # type: ignore[misc]
    settle_after_ms = SETTLE_AFTER * night_ms if option == OPTIONS[0] else None
    spark = session(warehouse=True, plain_bytes=sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()))
    with run_metrics.measured() as metrics:
        report = warehouse.audited(spark, location, [inspected(folder)], settle_after_ms=settle_after_ms)
    rows = sum(cost.rows for cost in metrics.frames.values())
    sys.stdout.write(json.dumps({"rows": rows, "judged": report.judged, "findings": len(report.findings)}) + "\n")


def measured(folder: Path, location: Path, night_ms: int, option: str) -> Mapping[str, Any]:
    """The CPU and wall seconds of one night, with what it printed. Needs `adopt_orphans`."""
    started, before = time.monotonic(), os.times()
    command = [sys.executable, __file__, "--run", str(folder), str(location), str(night_ms), option]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT, env=environment)
    wall = time.monotonic() - started
    wait_for_orphans()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"cpu": cpu, "wall": wall, **json.loads(ran.stdout.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("capture", nargs="?", type=Path)
    parser.add_argument("--nights", type=int, default=10)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        folder, location, night_ms, option = asked.run
        run(folder, location, int(night_ms), option)
        return
    adopt_orphans()
    first, last = span(asked.capture)
    night_ms = (last - first) // asked.nights + 1
    print(
        "| night | "
        + " | ".join(f"{option}: CPU s, wall s, rows of frames, judged, findings" for option in OPTIONS)
        + " |"
    )
    print("|---|" + "---|" * len(OPTIONS), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / asked.capture.name
        for night in range(1, asked.nights + 1):
            deliver(asked.capture, folder, first + night * night_ms)
            cells = []
            for option in OPTIONS:
                result = measured(folder, Path(temporary) / option.replace(" ", "-"), night_ms, option)
                cells.append(
                    f"{result['cpu']:.0f}, {result['wall']:.0f}, {result['rows']:,}, {result['judged']:,}, {result['findings']}"
                )
            print(f"| {night} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
