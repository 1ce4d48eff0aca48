"""A standalone cluster of this machine: a master and two workers, each a process, on ports that were free."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

import pyspark

SPARK_HOME: Final = Path(pyspark.__file__).parent
PATIENCE: Final = 600  # seconds that something may take on a machine that is busy with other things
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
STORED_BLOCK: Final = re.compile(r"Block (rdd_\d+)_\d+ stored")
QUIETLY: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

Found = TypeVar("Found")


def awaited(look: Callable[[], Found | None], what: str) -> Found:
    """What `look` gives once it gives something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {PATIENCE} s")


@dataclass
class Daemon:
    """A process of Spark's, with all that it starts."""

    process: subprocess.Popen[bytes]
    log: Path

    def logged(self, pattern: str) -> str:
        """What it has logged, as soon as it has."""

        def look() -> str | None:
            found = re.search(pattern, self.log.read_text(errors="replace"))
            assert found or self.process.poll() is None, self.log.read_text(errors="replace")
            return found and found[1]

        return awaited(look, f"{self.log.name} has {pattern}")

    def executors(self) -> list[int]:
        """Process ids of the executors that it runs."""
        return [int(pid.name) for pid in Path("/proc").iterdir() if pid.name.isdigit() and self._is_executor(pid)]

    def _is_executor(self, pid: Path) -> bool:
        try:
            parent = re.search(r"\) \S+ (\d+) ", (pid / "stat").read_text())
            is_child = parent is not None and int(parent[1]) == self.process.pid
            return is_child and EXECUTOR in (pid / "cmdline").read_text()
        except OSError:  # it has just ended
            return False

    def kill(self) -> None:
        """End it and all that it started, as the death of its machine would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def daemon(name: str, folder: Path, *command: str, **environment: str) -> Daemon:
    """Start one of Spark's programs, which logs into the folder."""
    settings = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "192m"}
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / command[0]), *command[1:]],
            env={**os.environ, "SPARK_DAEMON_JAVA_OPTS": QUIETLY, **settings, **environment},
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Daemon(process, log)


@dataclass
class Standalone:
    """master: its URL. rest: the URL of its submission server."""

    folder: Path
    master: str
    rest: str
    workers: list[Daemon] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def add_worker(self) -> Daemon:
        """One more, of one core. It registers itself; what is submitted waits for it."""
        name = f"worker-{next(self._numbers)}"
        size = ("--cores", "1", "--memory", "3g")
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--work-dir", str(self.folder / name))
        worker = "org.apache.spark.deploy.worker.Worker"
        self.workers.append(daemon(name, self.folder, "spark-class", worker, *size, *place, self.master))
        return self.workers[-1]

    def cached_tables(self) -> int:
        """How many tables the executors of the last application have begun to keep, in memory or on disk."""
        applications = sorted({path.name for path in self.folder.glob("worker-*/app-*")})
        logs = self.folder.glob(f"worker-*/{applications[-1]}/*/stderr") if applications else ()
        return len({rdd for log in logs for rdd in STORED_BLOCK.findall(log.read_text(errors="replace"))})


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """A master and two workers, while they are needed."""
    place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    rest = "-Dspark.master.rest.enabled=true -Dspark.master.rest.port=0 -Dspark.master.rest.host=127.0.0.1"
    name = "org.apache.spark.deploy.master.Master"
    master = daemon("master", folder, "spark-class", name, *place, SPARK_DAEMON_JAVA_OPTS=f"{QUIETLY} {rest}")
    cluster = None
    try:
        port = master.logged(r"REST server for submitting applications on 127.0.0.1 with port (\d+)")
        cluster = Standalone(folder, master.logged(r"at (spark://\S+)"), f"http://127.0.0.1:{port}/v1/submissions")
        for _ in range(2):
            cluster.add_worker()
        yield cluster
    finally:
        for one in (master, *(cluster.workers if cluster else ())):
            one.kill()
