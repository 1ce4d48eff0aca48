"""The Spark session: the active one, or a new one on this machine without Spark's own output.

No other module starts Spark, and those that use a driver JVM (gateway.py, class_archive.py, datasource.py) do without if there is
none: all of it runs over Spark Connect as well.
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
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyspark
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from epochaudit.spark.connect import SCHEME, require_connect
from epochaudit.spark.java import JavaError, require_java

PARTITIONS: Final = "spark.sql.shuffle.partitions"
CODEGEN: Final = "spark.sql.codegen.factoryMode"
OPTIONS: Final = "spark.driver.extraJavaOptions"
# of class archives: a JVM prints them among a report's lines
NO_WARNINGS: Final = "-Xlog:disable -Xlog:all=error:stderr"
# Where a job was started, as Spark's UI shows it. If it is not set, Spark walks the stack of each of an audit's thousands of RDDs.
CALL_SITE: Final = ("callSite.short", "callSite.long")
DESCRIPTION: Final = "spark.job.description"
SEPARATOR: Final = ": "  # between the name of a frame and that of a table which it reads
LOCAL_MASTER: Final = "local"  # prefix of masters that run everything in one JVM of this machine

# Each with its reason; any of them can be overridden by --conf.
STARTED_HERE: Final[Mapping[str, str]] = {
    "spark.app.name": "epochaudit",
    "spark.ui.enabled": "false",  # nobody looks at it, and it opens a port
    "spark.ui.showConsoleProgress": "false",  # the command line has its own
    "spark.driver.memory": "2g",  # on one machine the JVM is driver and executor
    "spark.sql.warehouse.dir": "file:///tmp/epochaudit-unused",  # no managed table is ever written
    "spark.buffer.pageSize": "1m",  # each small table that is broadcast takes a whole page, by default of up to 64 MB
    "spark.sql.ui.retainedExecutions": "1",  # plans of megabytes, retained for a page that nobody looks at
    "spark.sql.maxPlanStringLength": "1000",  # and their texts
}
LOCAL: Final[Mapping[str, str]] = {
    **STARTED_HERE,
    "spark.driver.bindAddress": "127.0.0.1",  # a laptop's host name often resolves to nothing
    "spark.driver.host": "127.0.0.1",
    "spark.python.worker.reuse": "false",  # two processes that have decoded would keep 500 MB while rules are judged
    PARTITIONS: str(max(2, os.cpu_count() or 2)),  # more tasks than cores gain nothing on one machine
}
ALWAYS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",  # times are printed as the logs print them
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # a stack trace for every column costs seconds,
    "spark.sql.dataFrameQueryContext.enabled": "false",  # in Python, and again in the JVM
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.broadcastTimeout": "36000",  # a small table may be made of all logs: on a busy machine that takes its time
}
PROFILED: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "true",
    "spark.sql.ui.retainedExecutions": "1000",
    "spark.sql.maxPlanStringLength": "1000000",
}
DELTA: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks to read a small transaction log are slow
}
STATES_CAUSE: Final = re.compile(r"Exception|Error|UNRESOLVED|not found|Failed to|^Invalid|^Unrecognized")
STATES_NO_CAUSE: Final = re.compile(
    r"Error initializing SparkContext|Exception thrown in awaitResult|Could not create the Java Virtual Machine"
)
NOT_THE_MESSAGE: Final = re.compile(
    r"^(?:\d\d/\d\d/\d\d [\d:]+ [A-Z]+ [^ :]+: )?(?:Exception in thread \"[^\"]*\" )?(?:[a-z]\w*(?:\.\w+)+(?:Exception|Error): )?"
)
DELTA_VERSION: Final = "4.4.0"
DELTA_FOR: Final = ("4.0", "4.1", "4.2")  # the lines of Spark for which this version of Delta Lake exists
# What delta-spark asks for beyond its own jars: Spark ships it, or it serves catalogs that are not used here.
DELTA_EXCLUDES: Final = (
    "org.*:*", "com.*:*", "io.netty:*", "commons*:*", "javax.*:*", "jakarta.*:*", "net.*:*", "io.unitycatalog:*",
    "io.delta:delta-kernel-unitycatalog",
)  # fmt: skip

SMALL_CAPTURE: Final = 128 * 1024 * 1024
MEDIUM_CAPTURE: Final = 2 * 1024 * 1024 * 1024
BYTES_OF_A_ROW: Final = 500  # of a busy cluster's request log
ROWS_OF_A_PARTITION: Final = 32_000  # every task is sent megabytes of plan: a task must be worth it
# A run of seconds ends before the optimising compiler pays; it would use more CPU than the audit. Without it the JVM has room
# for only a fifth of the compiled code, and compiles no more once that is full.
# What plans leave behind is dropped while it is young if there is room for it.
SMALL_RUN: Final[Mapping[str, str]] = {
    OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    " -XX:MetaspaceSize=256m -XX:NewRatio=1"
}
# Workers are forked from a process that has loaded the decoders and their compiled code.
PRELOADED: Final[Mapping[str, str]] = {"spark.python.daemon.module": "epochaudit.sources.scan.worker_daemon"}
# A run of minutes ends while that compiler is still at work, unless it waits for what is called more often than it would by
# default. Over the 76,000 rows of 620 MB of a busy cluster, a hundred times takes 13 % less CPU of the JVM than ten times; over a
# million rows fifty times takes a quarter more.
# The heap grows if collecting garbage takes more than a fifth of the time, by default a hundredth: a third of the memory less, for as
# much CPU.
MEDIUM_RUN: Final[Mapping[str, str]] = {
    **PRELOADED,
    OPTIONS: "-XX:+UseParallelGC -XX:GCTimeRatio=4 -XX:Tier4InvocationThreshold=500000 -XX:Tier4MinInvocationThreshold=60000"
    " -XX:Tier4CompileThreshold=1500000 -XX:Tier4BackEdgeThreshold=4000000",
}
LARGE_RUN: Final[Mapping[str, str]] = {
    **PRELOADED,
    OPTIONS: "-XX:+UseParallelGC -XX:GCTimeRatio=4 -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000",
}
# Over some hundred thousand rows a plan is made, and made anew, and compiled, for longer than it runs: without, an audit of
# 170,000 rows takes 40 % less CPU, of 390,000 rows 15 % less. So is each of its tasks: one is enough, as frames are judged side
# by side (`in_one_partition`).
SMALL_PLAN_ROWS: Final = 400_000
SMALL_PLANS: Final[Mapping[str, str]] = {
    PARTITIONS: "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.codegen.wholeStage": "false",
    CODEGEN: "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.icu.caseMappings.enabled": "false",  # ICU maps all of Unicode before the first lower()
    "spark.sql.lightweightPlanChangeValidation": "false",  # Spark checks its own rules after each of them, 600,000 times
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.{rule}" for rule in (
            "catalyst.optimizer.PruneFilters", "catalyst.optimizer.FoldablePropagation",
            "catalyst.optimizer.OptimizeCsvJsonExprs", "catalyst.optimizer.UnwrapCastInBinaryComparison",
            "execution.datasources.PushVariantIntoScan",
        )
    ),
}  # fmt: skip
LARGE_PLANS: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "true",
    CODEGEN: "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
# Each task leaves so many findings of a rule. By default Spark sorts all of them in one task if more than 1,000 are listed.
GROUP_LIMIT: Final[Mapping[str, str]] = {"spark.sql.optimizer.windowGroupLimitThreshold": "10000"}


class SessionError(Exception):
    """Spark can't be started here; the message states what is missing and what to do."""


def session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    warehouse: bool = False,
    plain_bytes: int | None = None,
    debug: bool = False,
) -> SparkSession:
    """The active session (spark-submit, a notebook), else a new one on `master`, by default this machine.

    `warehouse` adds Delta Lake; `plain_bytes`, of the logs to be judged, if known, lets a small audit start lighter.
    Spark's own chatter goes to a file that is shown only when the start fails; `debug` lets it
    through. Raises SessionError, JavaError and ConnectError.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return _with_delta(active) if warehouse else active
    remote = master if (master or "").startswith("sc:") else os.environ.get("SPARK_REMOTE")
    if submitted() or remote is not None:
        if remote is not None and remote.startswith(SCHEME):
            require_connect(remote)
        given = _configured(master, {**ALWAYS, **(conf or {})}).getOrCreate()
        return _with_delta(given) if warehouse else given
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need this environment's packages
    sized = _sized(plain_bytes)
    here = LOCAL if (master or LOCAL_MASTER).startswith(LOCAL_MASTER) else STARTED_HERE
    if here is LOCAL:  # else Spark asks a name server for this machine's name
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL["spark.driver.host"])
    archived = {OPTIONS: sized[OPTIONS] + archived_classes()}
    settings = {**here, **ALWAYS, **sized, **archived, **(_delta() if warehouse else {}), **(conf or {})}
    with _quiet(debug):
        return _configured(master or "local[*]", settings).getOrCreate()


def _sized(plain_bytes: int | None) -> Mapping[str, str]:
    """Settings for logs of this size."""
    if plain_bytes is None or plain_bytes >= MEDIUM_CAPTURE:
        return LARGE_RUN
    return MEDIUM_RUN if plain_bytes >= SMALL_CAPTURE else {**SMALL_RUN, **SMALL_PLANS}


def submitted() -> bool:
    """True if spark-submit started this process, and so set master and deploy mode."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_remote(spark: SparkSession) -> bool:
    """True for a session of Spark Connect."""
    return ".connect." in type(spark).__module__


def on_this_machine(spark: SparkSession) -> bool:
    """True if executors are threads of a JVM that this process started: they share its files and end with it."""
    # the server of a remote session may be on one machine, but that is not this one
    return not is_remote(spark) and (spark.conf.get("spark.master", "") or "").startswith(LOCAL_MASTER)


def storage_level(spark: SparkSession) -> StorageLevel:
    """Storage level of results that can't be recomputed, or not cheaply: memory, else disk.

    On a cluster two executors store each block, as one may die.
    """
    return StorageLevel(True, True, False, True, 1 if on_this_machine(spark) else 2)


def ui_address(spark: SparkSession) -> str | None:
    """The address of Spark's UI; None if there is none."""
    return None if is_remote(spark) else spark.sparkContext.uiWebUrl


def name_jobs(spark: SparkSession, description: str) -> None:
    """Describe the jobs that this thread starts from now on, as Spark's UI shows them. Spark Connect has no such name."""
    if not is_remote(spark):
        context = spark.sparkContext
        context.setJobDescription(description)
        for form in CALL_SITE:
            context.setLocalProperty(form, description)


@contextmanager
def jobs_of(spark: SparkSession, table: str) -> Iterator[None]:
    """Add the table's name to the description of the jobs that this thread starts inside the context: `frame fetches: held_epochs`.

    Jobs without a description get none.
    """
    outer = None if is_remote(spark) else spark.sparkContext.getLocalProperty(DESCRIPTION)
    if outer is None:
        yield
        return
    name_jobs(spark, f"{outer.split(SEPARATOR)[0]}{SEPARATOR}{table}")
    try:
        yield
    finally:
        name_jobs(spark, outer)


def jvm_cpu_seconds(spark: SparkSession) -> float:
    """CPU seconds of the driver's JVM, 0 if there is none or it does not report them."""
    try:
        spent = spark._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration()  # type: ignore[union-attr]
        return float(spent.get().toMillis()) / 1000
    except Exception:  # Spark Connect; a JVM whose internals are closed
        return 0.0


@contextmanager
def tuned_for(spark: SparkSession, rows: int) -> Iterator[None]:
    """Apply settings for an events table of this size inside the context, and restore the session's own afterwards.

    The number of shuffle partitions is lowered to what the rows need, never raised above what was set, unless the session was started
    for few rows. A setting that the session refuses stays as it is.
    """
    if (jvm := getattr(spark, "_jvm", None)) is not None:
        from epochaudit.spark.gateway import look_up_once  # py4j is not there where only Spark Connect is installed

        look_up_once(jvm)
    needed = max(1, -(-rows // ROWS_OF_A_PARTITION))
    settings = dict(GROUP_LIMIT)
    if rows < SMALL_PLAN_ROWS:
        settings |= SMALL_PLANS
    else:
        is_compiled = spark.conf.get(CODEGEN) != SMALL_PLANS[CODEGEN]
        started_small = is_tuned_for_small_plans(spark) and not is_compiled  # for less than there is
        settings |= LARGE_PLANS if started_small else {}
        most = LOCAL[PARTITIONS] if started_small else spark.conf.get(PARTITIONS)
        settings[PARTITIONS] = str(min(needed, int(most or needed)))
    before = {key: spark.conf.get(key, None) for key in settings}
    _configure(spark, settings)
    try:
        yield
    finally:
        _configure(spark, before)


def in_one_partition(rows: DataFrame) -> DataFrame:
    """The rows in one partition if the session is tuned for small plans, so that plans over them need no exchanges."""
    return rows.coalesce(1) if is_tuned_for_small_plans(rows.sparkSession) else rows


def is_tuned_for_small_plans(spark: SparkSession) -> bool:
    """Whether `tuned_for` chose the settings for few rows."""
    return spark.conf.get(PARTITIONS) == SMALL_PLANS[PARTITIONS]


def _configure(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for key, value in settings.items():
        with suppress(Exception):  # a Connect server may forbid a key: that is slower, but not wrong
            if value is None:
                spark.conf.unset(key)
            else:
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


def _with_delta(given: SparkSession) -> SparkSession:
    """Check that an existing session has Delta, before the audit starts."""
    if DELTA["spark.sql.extensions"] not in (given.conf.get("spark.sql.extensions", "") or ""):
        raise SessionError(
            "this Spark session has no Delta Lake, which --warehouse needs; "
            "start it with the settings of conf/spark-defaults.conf (spark-submit --properties-file)"
        )
    return given


def _delta() -> dict[str, str]:
    if not delta_jars():
        # a process of its own: what the download needs of the JVM must not stay in the session
        fetch = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, check=False)
        if fetch.returncode:
            raise SessionError(fetch.stderr.strip().removeprefix("epochaudit: "))
    return {**DELTA, "spark.jars": ",".join(map(str, delta_jars()))}


def delta_jars() -> list[Path]:
    """Delta's fetched jars; empty before `fetch_delta`."""
    return sorted(_delta_folder().glob("*.jar"))


def delta_package(spark_version: str = pyspark.__version__) -> str:
    """The Maven coordinates of Delta Lake for a version of Spark. Raises SessionError if there is none."""
    line = ".".join(spark_version.split(".")[:2])
    if line not in DELTA_FOR:
        raise SessionError(
            f"Delta Lake {DELTA_VERSION}, which --warehouse needs, does not exist for Spark {line}; "
            f"install pyspark {DELTA_FOR[-1]}: pip install 'pyspark=={DELTA_FOR[-1]}.*'"
        )
    return f"io.delta:delta-spark_{line}_2.13:{DELTA_VERSION}"


def _delta_folder() -> Path:
    """The folder of Delta's jars between runs; complete if it exists."""
    return _cache() / delta_package().partition(":")[2].replace(":", "-")


def class_archive() -> Path:
    """The archive of Spark's classes between runs; `epochaudit.cli.class_archive` writes it.

    One for each place where Spark or Java is installed: the JVM rejects an archive of jars that lie elsewhere.
    """
    spark_home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    places = sha256(f"{spark_home}\n{java}".encode()).hexdigest()[:8]
    return _cache() / f"spark-{pyspark.__version__}-{places}.jsa"


def archived_classes() -> str:
    """JVM options that load Spark's classes from their archive, if there is one.

    A JVM of another build, or with other jars, ignores the archive.
    """
    archive = class_archive()
    return f' "-XX:SharedArchiveFile={archive}" {NO_WARNINGS}' if archive.is_file() else ""


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epochaudit"


def fetch_delta() -> None:
    """Fetch Delta's jars with Spark's own resolver, once. For a process of its own. Raises SessionError."""
    folder = _delta_folder()
    if delta_jars():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
        resolving = {
            "spark.jars.packages": delta_package(),
            "spark.jars.excludes": ",".join(DELTA_EXCLUDES),
            "spark.jars.ivy": staging,
            # the resolver believes a ~/.m2 that has a jar's description without the jar; there is none here
            OPTIONS: f"-Duser.home={staging}",
        }
        try:
            with _quiet(debug=False):
                _configured("local[1]", {**LOCAL, **resolving}).getOrCreate().stop()
        except SessionError as error:
            raise SessionError(f"can't fetch Delta Lake's jars, which --warehouse needs: {error}") from error
        with suppress(OSError):  # another run was faster
            (Path(staging) / "jars").rename(folder)


@contextmanager
def _quiet(debug: bool) -> Iterator[None]:
    """Redirect stderr to a file while the JVM starts: the JVM inherits it and keeps it."""
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
            lines = chatter.read().decode(errors="replace").strip().splitlines()
            raise SessionError(f"Spark did not start: {_cause(lines) or error}") from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _cause(printed: list[str]) -> str:
    """The first line that states why Spark did not start, without the logger and the class of the exception; else the first line.

    The JVM's own message stands before "Could not create the Java Virtual Machine", a SparkContext's after "Error initializing
    SparkContext", and a master that does not answer before "Exception thrown in awaitResult".
    """
    causes = [line for line in printed if STATES_CAUSE.search(line) and not STATES_NO_CAUSE.search(line)]
    return NOT_THE_MESSAGE.sub("", next(iter(causes or printed), "")).strip()


if __name__ == "__main__":  # make setup: the one download that pip does not do
    try:
        require_java()
        fetch_delta()
    except (JavaError, SessionError, OSError) as error:
        sys.exit(f"epochaudit: {error}")
