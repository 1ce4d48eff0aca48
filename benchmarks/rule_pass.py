"""Cost of evaluating the rules beside reading: CPU seconds of both, and the memory of the processes, as a capture grows.

    python -m benchmarks.rule_pass [--capture zk-healthy-3.9] [--consumers 1 10 100] [--topics 20]

A bundled capture is made bigger (`amplify.py`): so many topics and consumers for each of its own. Planning costs the same
whatever the size; the rest grows with it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.amplify import amplify
from benchmarks.process_tree import ProcessTree, descendants
from epochaudit.pipeline import audit, plain_bytes_of, reading
from epochaudit.sources.discovery.discovery import discover
from epochaudit.spark.session import session

ROOT: Final = Path(__file__).resolve().parent.parent
CAPTURES: Final = ROOT / "tests" / "captures"
MEGABYTE: Final = 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--capture", default="zk-healthy-3.9")
    arguments.add_argument("--topics", type=int, default=20)
    arguments.add_argument("--consumers", type=int, nargs="+", default=[1, 10, 100])
    arguments.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        measure(given.capture, given.topics, *given.consumers)
        return
    print(f"{'MB':>7} {'rows':>10} {'reading':>9} {'rules':>9} {'ratio':>6} {'JVM MB':>7} {'worker MB':>9}", flush=True)
    for consumers in given.consumers:  # each in a process of its own: Spark starts anew
        command = [
            sys.executable,
            "-m",
            "benchmarks.rule_pass",
            "--capture",
            given.capture,
            "--topics",
            str(given.topics),
            "--one",
        ]
        ran = subprocess.run(
            [*command, "--consumers", str(consumers)], check=True, capture_output=True, text=True, cwd=ROOT
        )
        print(ran.stdout, end="", flush=True)


def measure(name: str, topics: int, consumers: int) -> None:
    """Read the capture twice: alone, and with all rules. The difference is the cost of the rules."""
    with tempfile.TemporaryDirectory() as folder, ProcessTree() as tree:
        amplify(str(CAPTURES / f"{name}.tar.xz"), Path(folder) / name, topics, consumers)
        capture = discover(str(Path(folder) / name))
        size = plain_bytes_of([capture])
        spark = session(plain_bytes=size)
        small = discover(str(CAPTURES / f"{name}.tar.xz"))
        reading(spark, [small]).events.count()  # so that classes and workers are there
        before = tree.cpu_seconds() + time.process_time()
        rows = reading(spark, [capture]).events.count()
        between = tree.cpu_seconds() + time.process_time()
        audit(spark, capture)
        alone, both = between - before, tree.cpu_seconds() + time.process_time() - between
        jvm, worker = peaks()
        rules = both - alone
        print(
            f"{size / MEGABYTE:7.0f} {rows:10,} {alone:8.1f}s {rules:8.1f}s {rules / alone:6.2f} {jvm:7.0f} {worker:9.0f}"
        )
        spark.stop()


def peaks() -> tuple[float, float]:
    """Peak resident megabytes of the JVM, and of the largest Python worker."""
    largest = {"java": 0.0, "python": 0.0}
    for pid in descendants():
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:  # it has ended
            continue
        lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        kind = next((kind for kind in largest if lines["Name"].startswith(kind)), None)
        if kind and "VmHWM" in lines:
            largest[kind] = max(largest[kind], int(lines["VmHWM"].split()[0]) / 1e3)
    return largest["java"], largest["python"]


if __name__ == "__main__":
    main()
