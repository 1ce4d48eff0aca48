"""What judging costs beside reading: CPU seconds of both, and the memory of the processes, as a capture grows.

    python benchmarks/rule_pass.py [--capture zk-healthy-3.9] [--clusters 1 8 32]

A bundled capture is audited as so many clusters, each a copy of it under a name of its own: every frame has that many times
the rows, and no key is shared. Planning costs the same whatever the size; the rest grows with it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from epochaudit.auditing import _read, audit, bytes_of
from epochaudit.replay.frames import FRAMES
from epochaudit.session import session
from epochaudit.sources.datasource import read_captures
from epochaudit.sources.discovery import discover

CAPTURES: Final = Path(__file__).parent.parent / "tests" / "captures"
MEGABYTE: Final = 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--capture", default="zk-healthy-3.9")
    arguments.add_argument("--clusters", type=int, nargs="+", default=[1, 8, 32])
    arguments.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        measure(given.capture, given.one)
        return
    print(
        f"{'clusters':>8} {'MB':>7} {'reading':>9} {'rules':>9} {'ratio':>6} {'JVM MB':>7} {'worker MB':>9}", flush=True
    )
    for clusters in given.clusters:  # each in a process of its own: Spark starts anew
        command = [sys.executable, __file__, "--capture", given.capture, "--one", str(clusters)]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="", flush=True)


def measure(name: str, clusters: int) -> None:
    """Read the copies twice: alone, and with all rules. The difference is what judging costs."""
    with tempfile.TemporaryDirectory() as folder:
        copies = [discover(str(copy)) for copy in copied(name, clusters, Path(folder))]
        size = bytes_of(copies)
        spark = session(bytes_to_read=size)
        read = read_captures(spark, copies[:1])  # so that classes and workers are there
        _read(read.scan, FRAMES)
        before = cpu_seconds()
        _read(read_captures(spark, copies).scan.persist(), FRAMES)
        spark.catalog.clearCache()
        between = cpu_seconds()
        audit(spark, *copies)
        reading, both = between - before, cpu_seconds() - between
        jvm, worker = peaks()
        rules = both - reading
        print(
            f"{clusters:8} {size / MEGABYTE:7.0f} {reading:8.1f}s {rules:8.1f}s {rules / reading:6.2f} {jvm:7.0f} {worker:9.0f}"
        )
        spark.stop()


def copied(name: str, clusters: int, folder: Path) -> list[Path]:
    """A capture's folder so many times, each naming its own cluster; the files are links to one."""
    with tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
        archive.extractall(folder / "original", filter="data")
    original, copies = folder / "original" / name, []
    for number in range(clusters):
        copy = folder / f"cluster-{number:03}"
        for path in original.rglob("*"):
            if path.is_file() and path.name != "capture.toml":
                link = copy / path.relative_to(original)
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, link)
        (copy / "capture.toml").write_text(f'cluster = "{copy.name}"\n')
        copies.append(copy)
    return copies


def processes() -> dict[int, list[str]]:
    """The processes that this one started, directly or not, and itself: the fields of /proc/<pid>/stat after the name."""
    found: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    ours = {os.getpid()}
    while more := {pid for pid, fields in found.items() if int(fields[1]) in ours} - ours:
        ours |= more
    return {pid: found[pid] for pid in ours}


def cpu_seconds() -> float:
    """CPU time of all processes and of those that they waited for."""
    return sum(sum(map(int, fields[11:15])) for fields in processes().values()) / os.sysconf("SC_CLK_TCK")


def peaks() -> tuple[float, float]:
    """Megabytes that the JVM, and the largest Python worker, had resident at most."""
    largest = {"java": 0.0, "python": 0.0}
    for pid in processes().keys() - {os.getpid()}:
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
