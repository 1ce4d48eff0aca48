"""No process outlives a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lab.processes import Processes, RunError, free_ports, wait_for

SLEEP = ("sleep", "600")


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not (stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")  # a zombie is dead


@pytest.mark.parametrize("error", [None, RunError, KeyboardInterrupt])
def test_all_processes_are_dead_after_the_run_also_frozen_ones(
    tmp_path: Path, error: type[BaseException] | None
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def run() -> None:
        with Processes() as processes:
            started.extend(processes.start(SLEEP, tmp_path / "out", commands=True) for _ in range(2))
            started[0].send_signal(signal.SIGSTOP)
            assert all(is_alive(one.pid) for one in started)
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(error):
            run()
    assert [one.returncode for one in started] == [-signal.SIGKILL, -signal.SIGKILL]


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_lab_that_is_ended_takes_its_processes_along(tmp_path: Path, ended_by: signal.Signals) -> None:
    program = f"""
        from pathlib import Path
        from time import sleep
        from lab.processes import Processes
        with Processes() as processes:
            print(processes.start({SLEEP!r}, Path({str(tmp_path / "out")!r})).pid, flush=True)
            sleep(600)
        """
    lab = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert lab.stdout is not None
    with lab.stdout as lines:
        child = int(lines.readline())
    assert is_alive(child)
    lab.send_signal(ended_by)
    lab.wait(20)
    wait_for("its process ends", lambda: not is_alive(child), 20)


def test_a_wait_ends_with_what_was_waited_for() -> None:
    with pytest.raises(RunError, match="the moon: not within 0 s"):
        wait_for("the moon", lambda: None, 0)
    assert wait_for("zero", lambda: 0) == 0


def test_free_ports_differ() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == len(ports)
