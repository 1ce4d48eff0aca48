"""Runs shell scripts as they are printed in pages and workflows, with `epochaudit` as a command of this process.

A process that starts Spark for each command would take half a minute each. Here the command is a script that hands its arguments
to the tests' process, which has a session, and prints what comes back. An audit of files that were audited before is not repeated.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pyspark.sql import SparkSession

from epochaudit.cli import app, commands
from epochaudit.doctor.assembly import diagnosis_of
from epochaudit.doctor.diagnosis import Diagnosis
from epochaudit.pipeline import audit
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.settings import Settings
from epochaudit.sources.discovery.discovery import discover, inspected
from epochaudit.timeline.incidents import events_of, pictured

CAPTURE: Final = "zk-unclean-truncation-3.9"
"""The bundled capture that scripts audit."""
# -S and -E: without site-packages it starts at once
CLIENT: Final = """\
#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    connection.sendall(json.dumps([sys.argv[1:], os.getcwd()]).encode() + b"\\n")
    code, out, err = json.loads(connection.makefile("rb").read())
sys.stderr.write(err)
sys.stdout.write(out)
sys.stdout.flush()
sys.exit(code)
"""


@dataclass(frozen=True)
class Ran:
    """What a script printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Shell:
    """Runs scripts. audits: their results, by what was audited."""

    spark: SparkSession
    audits: dict[object, tuple[Report, Diagnosis]] = field(default_factory=dict)

    def run(self, script: str, folder: Path, environment: Mapping[str, str] | None = None) -> Ran:
        """Run a script with bash in a folder. `epochaudit` runs in this thread, one command at a time."""
        with (
            tempfile.TemporaryDirectory() as place,
            socket.socket(socket.AF_UNIX) as server,
            ThreadPoolExecutor(1) as pool,
        ):
            address = f"{place}/socket"
            server.bind(address)
            server.listen()
            server.settimeout(0.05)
            command = Path(place) / "epochaudit"
            command.write_text(CLIENT.format(python=sys.executable, address=address))
            command.chmod(0o755)
            path = f"{place}:{os.environ['PATH']}"
            variables = {**os.environ, **(environment or {}), "PATH": path}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(app, "audited", self._audited)
                patch.setattr(app, "diagnosed", self._diagnosed)
                done = pool.submit(
                    subprocess.run, ["bash", "-c", script], cwd=folder, env=variables, capture_output=True, check=False
                )
                self._serve(server, done)
        ended = done.result()
        return Ran(ended.returncode, ended.stdout.decode("utf-8"), ended.stderr.decode("utf-8"))

    def _serve(self, server: socket.socket, done: Future[subprocess.CompletedProcess[bytes]]) -> None:
        while not done.done():
            with contextlib.suppress(TimeoutError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(None)
                    arguments, folder = msgspec.json.decode(connection.makefile("rb").readline())
                    with contextlib.suppress(BrokenPipeError):
                        connection.sendall(msgspec.json.encode(_printed(arguments, folder)))
                self.spark.catalog.clearCache()  # a process audits once; here the session goes on

    def _audited(
        self, captures: Sequence[str], chosen: Settings, accepting: Callable[[Report], Report], *, debug: bool
    ) -> AbstractContextManager[Report]:
        if chosen.warehouse is not None:
            return commands.audited(captures, chosen, accepting, debug=debug)
        known, _ = self._known(captures, chosen)
        return nullcontext(accepting(replace(known, roots=dict(zip(known.roots, captures, strict=True)))))

    def _diagnosed(self, captures: Sequence[str], chosen: Settings, **_: object) -> Diagnosis:
        return self._known(captures, chosen)[1]

    def _known(self, captures: Sequence[str], chosen: Settings) -> tuple[Report, Diagnosis]:
        key = (_content(captures), chosen.select, chosen.ignore, chosen.show)
        if key not in self.audits:
            found = map(discover, captures)
            result = audit(self.spark, *found, select=chosen.select, ignore=chosen.ignore, show=chosen.show)
            report = pictured(report_of(result), lambda: events_of(result))
            self.audits[key] = report, diagnosis_of(result)
            result.release()
        return self.audits[key]


def _content(captures: Sequence[str]) -> object:
    """Equal for copies of the same captures. Raises CaptureError."""
    inspections = [inspected(capture) for capture in captures]
    return tuple(
        (one.cluster, tuple((file.stored.path, file.stored.size) for file in one.files)) for one in inspections
    )


def _printed(arguments: Sequence[str], folder: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command in a folder."""
    before = os.getcwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = app.main(list(arguments))
    finally:
        os.chdir(before)
    return code, *(stream.buffer.getvalue().decode("utf-8") for stream in (out, err))  # type: ignore[attr-defined]
