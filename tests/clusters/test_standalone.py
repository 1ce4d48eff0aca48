"""A standalone cluster of two workers on which nothing is installed: what spark-submit gives, and what it forbids."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.clusters.conftest import SELECT, Packages, Submit, properties
from tests.clusters.packed import ROOT
from tests.clusters.standalone import SPARK_HOME, Daemon, Standalone, awaited

pytestmark = [pytest.mark.cluster, pytest.mark.thorough]


@pytest.fixture(scope="module")
def warehouse(submit: Submit, recorded: Path, local_report: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse on a path that both workers see, filled by spark-submit in client mode."""
    folder = tmp_path_factory.mktemp("shared")
    output = folder / "report.json"
    run = submit(*arguments(recorded, folder / "warehouse", output))
    output_of_run = run.communicate()
    assert (run.returncode, output_of_run[0]) == (1, ""), output_of_run[1]
    assert output.read_text() == local_report
    return folder / "warehouse"


def arguments(capture: Path, warehouse: Path, output: Path) -> tuple[str, ...]:
    """Those of jobs/audit.py."""
    reported = ("--format", "json", "--output", str(output))
    return (str(capture), *SELECT, "--warehouse", str(warehouse), *reported)


def rows(spark: SparkSession, warehouse: Path, table: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.format("delta").load(f"{warehouse}/{table}").collect()]


def test_two_workers_give_what_one_machine_gives(spark: SparkSession, warehouse: Path, local_report: str) -> None:
    [run] = rows(spark, warehouse, "runs")
    local = json.loads(local_report)
    assert (run["outcome"], run["lines_read"]) == ("findings", local["capture"]["lines"])
    found = {finding["finding_id"] for finding in rows(spark, warehouse, "findings")}
    assert found == {finding["finding_id"] for finding in local["findings"]}


def committed(warehouse: Path, table: str, version: int) -> bool:
    """A table has got that version."""
    return (warehouse / table / "_delta_log" / f"{version:020}.json").exists()


def executor_of(workers: list[Daemon]) -> int | None:
    return next((pid for worker in workers for pid in worker.executors()), None)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="an executor is looked for in /proc")
def test_a_run_survives_the_death_of_an_executor_and_of_a_machine(
    submit: Submit, cluster: Standalone, recorded: Path, local_report: str, tmp_path: Path
) -> None:
    place, output = tmp_path / "warehouse", tmp_path / "report.json"
    run = submit(*arguments(recorded, place, output))
    awaited(lambda: committed(place, "splits", 1) or run.poll() is not None, "rows are being written")
    os.kill(awaited(lambda: executor_of(cluster.workers), "an executor"), signal.SIGKILL)
    awaited(lambda: committed(place, "horizon", 1) or run.poll() is not None, "the judging begins")
    before = cluster.cached_tables()
    awaited(lambda: cluster.cached_tables() > before + 5 or run.poll() is not None, "tables of frames are stored")
    cluster.workers.pop().kill()
    cluster.add_worker()
    _, printed = run.communicate()
    assert run.returncode == 1, printed
    assert output.read_text() == local_report


def test_cluster_mode_of_spark_submit_is_refused_by_spark(cluster: Standalone, recorded: Path) -> None:
    command = (SPARK_HOME / "bin" / "spark-submit", "--master", cluster.master, "--deploy-mode", "cluster")
    ran = subprocess.run([*command, ROOT / "jobs" / "audit.py", recorded], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert (
        "Cluster deploy mode is currently not supported for python applications on standalone clusters." in ran.stderr
    )


def asked(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310  http, our own
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        answered: dict[str, Any] = json.load(answer)
        return answered


def finished(cluster: Standalone, driver: str) -> str | None:
    state = str(asked(f"{cluster.rest}/status/{driver}")["driverState"])
    return None if state in ("SUBMITTED", "RUNNING") else state


def test_the_driver_runs_on_a_worker_if_the_submission_server_is_asked(
    cluster: Standalone, packages: Packages, recorded: Path, warehouse: Path, local_report: str, tmp_path: Path
) -> None:
    output = tmp_path / "report.json"
    own = properties(packages) | {"spark.pyspark.python": f"{packages.folder}/environment/bin/python"}
    settings = [part for item in own.items() for part in ("--conf", "=".join(item))]
    body = {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.2.0",
        "appResource": "",
        "mainClass": "org.apache.spark.deploy.SparkSubmit",
        "environmentVariables": {"SPARK_LOCAL_IP": "127.0.0.1"},
        "sparkProperties": {"spark.app.name": "epochaudit", "spark.master": cluster.master, "spark.driver.memory": "700m"},
        "appArgs": [
            *("--master", cluster.master, "--properties-file", str(ROOT / "conf" / "spark-defaults.conf"), *settings),
            *(str(ROOT / "jobs" / "audit.py"), *arguments(recorded, warehouse, output), "--all", "--fail-on", "never"),
        ],
    }  # fmt: skip
    driver = str(asked(f"{cluster.rest}/create", body)["submissionId"])
    assert awaited(lambda: finished(cluster, driver), "the driver ends") == "FINISHED"
    assert output.read_text() == local_report


def test_the_exit_code_states_that_a_run_failed(submit: Submit) -> None:
    run = submit("/nowhere")
    printed, _ = run.communicate()  # spark-submit copies Python's stderr to its own stdout
    assert (run.returncode, printed.count("/nowhere"), printed.count("\n")) == (2, 1, 1), printed
