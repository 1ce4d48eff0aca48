"""One cluster, one set of packages and one recorded capture for all tests of this folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from epochaudit.pipeline import audit
from epochaudit.report import json_report
from epochaudit.report.assembly import report_of
from epochaudit.spark.session import delta_jars
from tests.clusters.packed import ROOT, archive, environment, wheel
from tests.clusters.standalone import QUIETLY, SPARK_HOME, Standalone, standalone

CAPTURE: Final = "zk-unclean-truncation-3.9"  # the smallest with findings
SELECT: Final = ("--select", "TR-06")


@dataclass(frozen=True)
class Packages:
    """What is shipped: the wheel and the archive. folder: where the driver runs, with the same environment beside it."""

    folder: Path
    wheel: Path
    archive: Path


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    folder = tmp_path_factory.mktemp("packages")
    own = environment(folder / "environment")
    return Packages(folder, wheel(folder), archive(own, folder / "environment.tar.gz"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def recorded(capture: Callable[[str], Path]) -> Path:
    return capture(CAPTURE)


@pytest.fixture(scope="session")
def local_report(spark: SparkSession, recorded: Path) -> str:
    """What an audit on one machine reports, as JSON."""
    found = audit(spark, str(recorded), select=SELECT[1:])
    report = json_report.render(report_of(found))
    found.release()
    return report


def properties(packages: Packages) -> dict[str, str]:
    """Settings of a small run, beside those of conf/spark-defaults.conf. Delta's jars are there already."""
    return {
        "spark.jars.packages": "",
        "spark.jars": ",".join(map(str, delta_jars())),
        "spark.submit.pyFiles": str(packages.wheel),
        "spark.archives": f"{packages.archive}#environment",
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": QUIETLY,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUIETLY,
        "spark.ui.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
    }


Submit = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def submit(cluster: Standalone, packages: Packages) -> Iterator[Submit]:
    """submit(argument, ...): spark-submit of jobs/audit.py, as docs/clusters.md describes it, with nothing but what is shipped."""
    started = []
    settings = [part for item in properties(packages).items() for part in ("--conf", "=".join(item))]
    command = [
        *(SPARK_HOME / "bin" / "spark-submit", "--master", cluster.master),
        *("--properties-file", ROOT / "conf" / "spark-defaults.conf", *settings, ROOT / "jobs" / "audit.py"),
    ]
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": "./environment/bin/python"}

    def submitted(*arguments: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        run = subprocess.Popen([*command, *arguments], env=environment, cwd=packages.folder, text=True, **pipes)
        started.append(run)
        return run

    yield submitted
    for run in started:
        run.kill()
