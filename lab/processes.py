"""Processes of one run. None outlives it: not after a failure, not after Ctrl-C, not if the lab itself is killed."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import FrameType, TracebackType
from typing import IO, Final, TypeVar

from lab.network import Link

JAVA: Final = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true")
_PR_SET_PDEATHSIG: Final = 1
T = TypeVar("T")


class RunError(Exception):
    """The run could not be carried out: this is no verdict about epochaudit."""


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Processes:
    """A context manager: at its end, all processes that were started in it are killed, also stopped ones."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []
        self._links: list[Link] = []

    def __enter__(self) -> Processes:
        self._former = signal.signal(signal.SIGTERM, _terminated)
        return self

    def start(
        self, command: Sequence[str | Path], output: Path, errors: Path | None = None, *, commands: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own: Ctrl-C reaches the lab only, which then ends it."""
        with output.open("ab") as out, (errors or output).open("ab") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if commands else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        self._started.append(process)
        return process

    def link(self, target: int) -> Link:
        """A link to a port, which ends with the run."""
        link = Link(target)
        self._links.append(link)
        return link

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()  # a stopped process dies of SIGKILL, too
        for process in self._started:
            process.wait()
            if process.stdin is not None:
                close(process.stdin)
        for link in self._links:
            link.close()
        signal.signal(signal.SIGTERM, self._former)


def _terminated(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def close(pipe: IO[bytes]) -> None:
    """Close a pipe whose reader may be gone."""
    try:
        pipe.close()
    except BrokenPipeError:
        return


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that no process listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_for(what: str, look: Callable[[], T | None], seconds: float = 60, pause: float = 0.1) -> T:
    """The first result of `look` that is neither None nor False. After so many seconds the run has failed."""
    end = monotonic() + seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if monotonic() > end:
            raise RunError(f"{what}: not within {seconds:.0f} s")
        sleep(pause)
