"""Spark Connect: the client has no JVM, and the server nothing but Spark, Delta's jars and what is shipped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.clusters.conftest import SELECT, Packages, properties
from tests.clusters.packed import ROOT
from tests.clusters.standalone import daemon

pytestmark = [pytest.mark.cluster, pytest.mark.thorough]

CLIENT: Final = Path(sys.prefix) / "connect"  # what a client of Connect needs beside the declared dependencies
SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module")
def server(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server, started as start-connect-server.sh does."""
    settings = properties(packages) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.log.level": "INFO",
    }
    started = daemon(
        "connect",
        tmp_path_factory.mktemp("connect"),
        *("spark-submit", "--master", "local[2]", "--class", SERVER, "--name", "Spark Connect server"),
        *("--properties-file", str(ROOT / "conf" / "spark-defaults.conf")),
        *(part for item in settings.items() for part in ("--conf", "=".join(item))),
        PYSPARK_PYTHON=str(packages.folder / "environment" / "bin" / "python"),
        PYTHONPATH=str(packages.wheel),
        SPARK_DAEMON_MEMORY="700m",
    )
    try:
        yield f"sc://127.0.0.1:{started.logged(r'Spark Connect server started at: [^ ]*:([0-9]+)')}"
    finally:
        started.kill()


@pytest.mark.skipif(not CLIENT.is_dir(), reason="make setup installs what a client of Connect needs")
def test_a_remote_session_gives_what_one_machine_gives(
    server: str, packages: Packages, recorded: Path, local_report: str, tmp_path: Path
) -> None:
    output = tmp_path / "report.json"
    command = [
        *(sys.executable, "-m", "epochaudit", "audit", str(recorded), "--master", server, *SELECT, "--debug"),
        *("--warehouse", str(tmp_path / "warehouse"), "--format", "json", "--output", str(output)),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(CLIENT)])}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    assert output.read_text() == local_report

    command = [sys.executable, "-m", "epochaudit", "report", *command[command.index("--warehouse") :]]
    environment["SPARK_REMOTE"] = server
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    assert output.read_text() == local_report
