"""How far a command is, on a terminal and elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import pytest

from epochaudit.cli import progress as shown
from epochaudit.cli.progress import Position, position, progress
from epochaudit.spark import run_metrics
from epochaudit.spark.run_metrics import Advance


def test_the_position_is_that_of_the_stage_that_began_last() -> None:
    metrics = run_metrics.Metrics()
    assert (position(metrics).stage, str(position(metrics))) == ("", "")
    with metrics.stage("reading"):
        assert str(position(metrics)) == ""
        metrics.reading = Advance(2_000_000, lambda: 500_000)
        assert str(position(metrics)) == "500.0 kB of 2.0 MB"
        with metrics.stage("judging"):
            metrics.judging = Advance(24, lambda: 7)
            assert str(position(metrics)) == "7 of 24 frames"
    assert position(metrics).stage == ""
    assert str(Position("reading", 10, "bytes", 500_000_000, 1_200_000_000)) == "500.0 MB of 1.2 GB, 50.0 MB a second"


def test_off_a_terminal_nothing_is_printed_unless_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "EVERY", 0.01)
    with progress("auditing c"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    with run_metrics.measured() as metrics, metrics.stage("judging"), progress("auditing \x1b[31m", lines=True):
        metrics.judging = Advance(24, lambda: 7)
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"epochaudit: 0 s: auditing \\x1b\[31m: judging: 7 of 24 frames", lines[-1]), lines


WORK = """
    import time
    from epochaudit.cli.progress import progress
    from epochaudit.spark.run_metrics import Advance, measured
    with measured() as metrics, progress("auditing c"):
        with metrics.stage("reading"):
            metrics.reading = Advance(4_000_000, lambda: 1_000_000)
            time.sleep(0.6)
        with metrics.stage("judging"):
            metrics.judging = Advance(24, lambda: 7)
            time.sleep(0.6)
"""


@pytest.mark.slow
def test_on_a_terminal_a_bar_is_shown_and_removed(terminal: Callable[[str], str]) -> None:
    printed = terminal(textwrap.dedent(WORK))
    assert "auditing c: reading" in printed
    assert "1.0 MB of 4.0 MB" in printed
    assert "auditing c: judging" in printed
    assert "7 of 24 frames" in printed
    assert printed.endswith("\x1b[2K"), "the bar's line is cleared in the end"


@pytest.fixture
def terminal() -> Callable[[str], str]:
    """terminal(program) runs a Python program whose stderr is a terminal, and returns what it prints there."""

    def run(program: str) -> str:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
        running = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env=environment)
        os.close(theirs)
        printed = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            printed += piece
        os.close(ours)
        assert running.wait() == 0
        return printed.decode().rstrip("\r\n")

    return run
