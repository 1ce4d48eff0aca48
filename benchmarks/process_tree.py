"""CPU time and memory of this process's descendants, while they run.

The times that a process reports of its children are those that it waited for. Spark's daemon ignores SIGCHLD, so the kernel adds its
workers' times to nobody: they must be read while the workers run. A JVM outlives its launcher, and is only found by a process that
adopts orphans. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PR_SET_CHILD_SUBREAPER: Final = 36  # of Linux's prctl
SAMPLE_SECONDS: Final = 0.05
"""As much as may be missing of each process that ends."""
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
PARENT, USER, SYSTEM, STARTED, RESIDENT = 1, 11, 12, 19, 21
"""Fields of /proc/<pid>/stat after the name (man 5 proc, less three)."""


class ProcessTree:
    """Samples all descendants. As a context manager: until it ends.

    peak_bytes: the most memory that they had resident at once; pages that several of them share count for each.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._ticks: dict[tuple[int, str], int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ProcessTree:
        adopt_orphans()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def cpu_seconds(self) -> float:
        """The CPU time of all descendants so far, also of those that have ended."""
        self._sample()
        return sum(self._ticks.values()) / TICKS

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        ours = descendants()
        for pid, fields in ours.items():
            self._ticks[pid, fields[STARTED]] = int(fields[USER]) + int(fields[SYSTEM])
        self.peak_bytes = max(self.peak_bytes, sum(int(fields[RESIDENT]) for fields in ours.values()) * PAGE)


def descendants() -> dict[int, list[str]]:
    """This process's descendants: the fields of /proc/<pid>/stat after the name."""
    found: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
    ours = {os.getpid()}
    while more := {pid for pid, fields in found.items() if int(fields[PARENT]) in ours} - ours:
        ours |= more
    return {pid: found[pid] for pid in ours - {os.getpid()}}


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, as the JVM's does."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True)
class Spent:
    """What a command took, and what it printed."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    output: str
    exit_code: int


def measured(command: Sequence[str], **how: Any) -> Spent:
    """Run a command, and wait for all of its processes. how: for subprocess.Popen."""
    started = time.monotonic()
    with ProcessTree() as tree:
        ran = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how)
        output, _ = ran.communicate()
        wall = time.monotonic() - started
        with suppress(ChildProcessError):
            while True:
                os.wait()
        cpu = tree.cpu_seconds()
    return Spent(cpu, wall, tree.peak_bytes, output, ran.returncode)
