"""The Spark session: started quietly on this machine, or the one that is there already.

The only module, with jobs/, that touches how Spark is started. Nothing else needs a driver JVM, so all of it runs over
Spark Connect as well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17

# Each with its reason; any of them can be overridden by --conf.
LOCAL: Final[Mapping[str, str]] = {
    "spark.app.name": "epochaudit",
    "spark.ui.enabled": "false",  # nobody looks at it, and it opens a port
    "spark.ui.showConsoleProgress": "false",  # the command line has its own
    "spark.driver.memory": "2g",  # one JVM is driver and executor here
    "spark.driver.bindAddress": "127.0.0.1",  # a laptop's host name often resolves to nothing
    "spark.driver.host": "127.0.0.1",
    "spark.sql.warehouse.dir": "file:///tmp/epochaudit-unused",  # no managed table is ever written
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),  # 200 empty tasks cost more than the audit
}
ALWAYS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",  # times are printed as the logs print them
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # a stack trace for every column costs seconds
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
DELTA: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks to read a small transaction log are slow
}
DELTA_PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
# Everything that Spark ships itself, and catalogs that are not used here.
DELTA_EXCLUDES: Final = "org.*:*,com.*:*,io.netty:*,commons*:*,javax.*:*,jakarta.*:*,net.*:*,io.unitycatalog:*,io.delta:delta-kernel-unitycatalog"

SMALL_CAPTURE: Final = 64 * 1024 * 1024
# Compiling a plan's code takes longer than interpreting it over a few thousand rows.
INTERPRETED: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class SessionError(Exception):
    """Spark can't be started here; the message says what is missing and what to do."""


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, warehouse: bool = False, debug: bool = False
) -> SparkSession:
    """The active session (spark-submit, a notebook), else a new one on `master`, by default this machine.

    `warehouse` adds Delta Lake. Spark's own chatter goes to a file that is shown only when the start fails; `debug` lets it
    through. Raises SessionError.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if submitted() or (master or "").startswith("sc:") or "SPARK_REMOTE" in os.environ:
        return _configured(master, {**ALWAYS, **(conf or {})}).getOrCreate()
    _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need this environment's packages
    settings = {**LOCAL, **ALWAYS, **(_delta() if warehouse else {}), **(conf or {})}
    with _quiet(debug):
        return _configured(master or "local[*]", settings).getOrCreate()


def submitted() -> bool:
    """This process was started by spark-submit, which has set master and deploy mode."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def tuned_for(spark: SparkSession, bytes_to_read: int) -> None:
    """Settings that depend on the capture's size; a setting that the session refuses stays as it is."""
    if bytes_to_read < SMALL_CAPTURE:
        for key, value in INTERPRETED.items():
            with suppress(
                Exception
            ):  # Connect servers may forbid a key; the plan then is compiled, which is only slower
                spark.conf.set(key, value)


def _configured(master: str | None, settings: Mapping[str, str]) -> SparkSession.Builder:
    builder: SparkSession.Builder = SparkSession.builder
    if master and master.startswith("sc:"):
        builder = builder.remote(master)
    elif master:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _delta() -> dict[str, str]:
    jars = sorted(delta_folder().glob("jars/*.jar"))
    if jars:
        return {**DELTA, "spark.jars": ",".join(map(str, jars))}
    return {
        **DELTA,
        "spark.jars.packages": DELTA_PACKAGE,
        "spark.jars.excludes": DELTA_EXCLUDES,
        "spark.jars.ivy": str(delta_folder()),  # its own cache: a half-filled one of other tools can't spoil it
    }


def delta_folder() -> Path:
    """Where Delta's jars are kept between runs: below the user's cache, apart from other tools' Ivy caches."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "epochaudit" / "delta-4.4.0"


def fetch_delta() -> None:
    """Fill `delta_folder`, once. Raises SessionError when the jars can't be had."""
    session(warehouse=True).stop()


@contextmanager
def _quiet(debug: bool) -> Iterator[None]:
    """Give the JVM a file for its standard error: it inherits ours when it is started, and keeps it."""
    if debug:
        yield
        return
    with tempfile.TemporaryFile() as chatter:
        sys.stderr.flush()
        terminal = os.dup(2)
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        except Exception as error:
            chatter.seek(0)
            said = chatter.read().decode(errors="replace").strip().splitlines()
            causes = [line for line in said if re.search(r"Exception|Error|UNRESOLVED|not found", line)]
            raise SessionError(f"Spark did not start: {(causes or said or [str(error)])[0].strip()}") from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _require_java() -> None:
    java = _java()
    if java is None:
        raise SessionError(f"no Java found; install Java {OLDEST_JAVA} or newer: {_how_to_install_java()}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if match is None:
        raise SessionError(
            f"{java} -version says nothing; install Java {OLDEST_JAVA} or newer: {_how_to_install_java()}"
        )
    if int(match[1]) < OLDEST_JAVA:
        raise SessionError(f"Java {match[1]} is too old; install Java {OLDEST_JAVA} or newer: {_how_to_install_java()}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def _how_to_install_java() -> str:
    for tool, command in (
        ("apt-get", "apt-get install openjdk-17-jre-headless"),
        ("dnf", "dnf install java-17-openjdk-headless"),
        ("apk", "apk add openjdk17-jre-headless"),
        ("brew", "brew install openjdk@17"),
    ):
        if shutil.which(tool):
            return command
    return "from your system's packages"


if __name__ == "__main__":  # make setup: the one download that pip does not do
    try:
        fetch_delta()
    except SessionError as error:
        sys.exit(f"epochaudit: {error}")
