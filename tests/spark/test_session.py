"""The session is quiet, small, and the one that is there already."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.spark.session import (
    CODEGEN,
    DELTA,
    LOCAL,
    PARTITIONS,
    SMALL_PLAN_ROWS,
    SMALL_PLANS,
    SessionError,
    _cause,
    session,
    tuned_for,
)

SOURCES = Path(__file__).parents[1]


def _run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **environment, "PYTHONPATH": str(SOURCES)}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_the_active_session_is_used(spark: SparkSession) -> None:
    assert session("local[7]") is spark


def test_times_are_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_an_active_session_without_delta_is_refused_before_the_audit(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session(warehouse=True) is spark
    monkeypatch.setitem(DELTA, "spark.sql.extensions", "an extension that is not there")  # type: ignore[arg-type]
    with pytest.raises(SessionError, match="has no Delta Lake, which --warehouse needs"):
        session(warehouse=True)


@pytest.mark.parametrize(
    ("rows", "set_before", "partitions"),
    [
        (0, "200", "1"),
        (1_000, "200", "1"),
        (500_000, "200", "16"),
        (100_000_000, "200", "200"),
        (100_000_000, "1000", "1000"),
        (500_000, "1", "1"),
    ],
)
def test_partitions_follow_the_rows_but_never_exceed_what_was_set(
    spark: SparkSession, rows: int, set_before: str, partitions: str
) -> None:
    before = spark.conf.get(PARTITIONS)
    try:
        spark.conf.set(PARTITIONS, set_before)
        spark.conf.set(CODEGEN, "FALLBACK")
        with tuned_for(spark, rows):
            assert spark.conf.get(PARTITIONS) == partitions
        assert spark.conf.get(PARTITIONS) == set_before
    finally:
        spark.conf.set(PARTITIONS, before)
        spark.conf.set(CODEGEN, SMALL_PLANS[CODEGEN])


def test_a_session_that_was_started_for_few_rows_becomes_large(spark: SparkSession) -> None:
    assert (spark.conf.get(PARTITIONS), spark.conf.get(CODEGEN)) == (SMALL_PLANS[PARTITIONS], SMALL_PLANS[CODEGEN])
    with tuned_for(spark, 500_000):
        assert int(spark.conf.get(PARTITIONS) or 0) == min(16, int(LOCAL[PARTITIONS]))
        assert spark.conf.get(CODEGEN) == "FALLBACK"
    assert spark.conf.get(CODEGEN) == SMALL_PLANS[CODEGEN]


@pytest.mark.parametrize(("rows", "applied"), [(1_000, True), (SMALL_PLAN_ROWS, False)])
def test_what_spares_a_small_audit_is_not_left_behind_in_the_session(
    spark: SparkSession, rows: int, applied: bool
) -> None:
    other = spark.newSession()
    unset = "spark.sql.optimizer.excludedRules"
    for key in SMALL_PLANS:
        other.conf.unset(key)
    other.conf.set("spark.sql.codegen.wholeStage", "true")
    before = {key: other.conf.get(key, None) for key in SMALL_PLANS}
    with tuned_for(other, rows):
        assert all(other.conf.get(key, None) == value for key, value in SMALL_PLANS.items()) is applied
    assert {key: other.conf.get(key, None) for key in SMALL_PLANS} == before
    assert before[unset] is None


@pytest.mark.spark
def test_spark_starts_and_works_without_a_word() -> None:
    program = (
        "from epochaudit.spark.session import session; "
        "spark = session('local[1]', {'spark.driver.memory': '512m'}); spark.range(3).count(); "
        "print(spark._jvm.org.apache.spark.util.Utils.localCanonicalHostName()); spark.stop()"
    )
    ran = _run(program)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout in ("127.0.0.1\n", "localhost\n"), "the name of another address is asked of a name server"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "memory", "cause"),
    [
        ("local[1]", "400m", r"\[INVALID_DRIVER_MEMORY\] System memory \d+ must be at least \d+\."),
        ("local[1]", "4x", "Invalid maximum heap size: -Xmx4x"),
        ("nowhere", "512m", "Master must either be yarn or start with spark, k8s, or local"),
    ],
)
def test_a_failed_start_is_one_line_with_its_cause(master: str, memory: str, cause: str) -> None:
    program = (
        f"from epochaudit.spark.session import session; session('{master}', {{'spark.driver.memory': '{memory}'}})"
    )
    ran = _run(program)
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert re.fullmatch(f"epochaudit.spark.session.SessionError: Spark did not start: {cause}", last)


def test_the_cause_of_a_failed_start_is_not_what_surrounds_it() -> None:
    printed = [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "26/11/30 00:23:23 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 127.0.0.1:1",
        "org.apache.spark.SparkException: Exception thrown in awaitResult: ",
        "Caused by: java.io.IOException: Failed to connect to /127.0.0.1:1",
    ]
    assert _cause(printed) == "Failed to connect to master 127.0.0.1:1"
    assert _cause(printed[:1]) == printed[0]
    assert _cause([]) == ""


def test_the_package_is_imported_without_spark() -> None:
    ran = _run("import sys, epochaudit, epochaudit.spark.java; sys.exit('pyspark' in sys.modules)")
    assert ran.returncode == 0
