"""YARN with HDFS: spark-submit in client and in cluster mode, with nothing installed on the nodes, as docs/clusters.md describes it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.clusters.conftest import SELECT, Packages, properties
from tests.clusters.packed import ROOT
from tests.clusters.standalone import SPARK_HOME
from tests.clusters.yarn import Yarn, yarn

pytestmark = [pytest.mark.cluster, pytest.mark.thorough]

OF_YARN = {
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",  # the node has Spark's jars: it is this machine
    "spark.yarn.maxAppAttempts": "1",
    "spark.yarn.appMasterEnv.PYSPARK_PYTHON": "./environment/bin/python",
    "spark.executorEnv.PYSPARK_PYTHON": "./environment/bin/python",
    "spark.executor.instances": "1",
    "spark.yarn.am.memory": "384m",
}


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory, recorded: Path) -> Iterator[Yarn]:
    """YARN, and HDFS with the capture in it."""
    with yarn(tmp_path_factory.mktemp("hadoop")) as running:
        running.put(recorded, "/logs")
        yield running


def submitted(hadoop: Yarn, packages: Packages, mode: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = [part for item in (properties(packages) | OF_YARN).items() for part in ("--conf", "=".join(item))]
    command = [
        *(SPARK_HOME / "bin" / "spark-submit", "--master", "yarn", "--deploy-mode", mode),
        *("--properties-file", ROOT / "conf" / "spark-defaults.conf", *settings, ROOT / "jobs" / "audit.py"),
    ]
    own = {"SPARK_HOME": str(SPARK_HOME), "HADOOP_CONF_DIR": str(hadoop.conf), "SPARK_LOCAL_IP": "127.0.0.1"}
    python = {} if mode == "cluster" else {"PYSPARK_PYTHON": "./environment/bin/python"}
    environment = {**os.environ, **own, **python}
    return subprocess.run(
        [*command, *arguments], env=environment, cwd=packages.folder, capture_output=True, text=True, check=False
    )


def test_client_mode_reads_and_writes_hdfs(hadoop: Yarn, packages: Packages, local_report: str, tmp_path: Path) -> None:
    """The capture by HTTP, as Arrow needs Hadoop's native client for hdfs://; the warehouse by Spark."""
    output = tmp_path / "report.json"
    capture, warehouse = f"{hadoop.webhdfs}/logs", f"{hadoop.hdfs}/tables"
    ran = submitted(
        hadoop, packages, "client",
        *(capture, *SELECT, "--warehouse", warehouse, "--format", "json", "--output", str(output)),
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert findings(output.read_text()) == findings(local_report)


def findings(report: str) -> list[tuple[str, str, str]]:
    """Their content. Ids are the same, too: they do not depend on where the files are."""
    return [(one["finding_id"], one["rule"], one["observed"]) for one in json.loads(report)["findings"]]


def test_cluster_mode_states_that_there_are_findings_and_audits_once(
    hadoop: Yarn, packages: Packages, spark: SparkSession, recorded: Path, tmp_path: Path
) -> None:
    """The driver runs in a container: spark-submit knows of its exit code only whether it is 0, and YARN must not try again."""
    warehouse = f"file://{tmp_path}/warehouse"  # a path without a scheme is one of HDFS here
    ran = submitted(hadoop, packages, "cluster", str(recorded), *SELECT, "--warehouse", warehouse)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    [run] = spark.read.format("delta").load(f"{warehouse}/runs").collect()
    assert run["outcome"] == "findings"
