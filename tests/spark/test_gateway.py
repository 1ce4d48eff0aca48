"""PySpark finds again in the JVM what it has found once, and makes the same columns as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import REFLECTION_COMMAND_NAME
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from epochaudit.spark.gateway import look_up_once


@contextmanager
def _lookups(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    asked: list[str] = []
    send = ClientServerConnection.send_command

    def counted(self: ClientServerConnection, command: str) -> str:
        if command.startswith(REFLECTION_COMMAND_NAME):
            asked.append(command)
        return send(self, command)

    with monkeypatch.context() as patched:
        patched.setattr(ClientServerConnection, "send_command", counted)
        yield asked


def _columns() -> object:
    total = F.sum("n").over(Window.partitionBy(F.col("k")).orderBy("n"))
    return F.when(F.col("n") > F.lit(1), total).otherwise(F.coalesce("n", F.lit(0)))


def test_what_was_looked_up_is_not_looked_up_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up_once(spark._jvm)  # type: ignore[arg-type]
    _columns()
    with _lookups(monkeypatch) as asked:
        _columns()
    assert asked == []


def test_a_second_call_forgets_nothing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up_once(spark._jvm)  # type: ignore[arg-type]
    _columns()
    look_up_once(spark._jvm)  # type: ignore[arg-type]
    with _lookups(monkeypatch) as asked:
        _columns()
    assert asked == []


def test_constants_of_one_value_but_several_types_stay_apart(spark: SparkSession) -> None:
    look_up_once(spark._jvm)  # type: ignore[arg-type]
    row = spark.range(1).select(F.lit(1).alias("a"), F.lit(True).alias("b"), F.lit(1.0).alias("c"), F.lit(1).alias("d"))
    assert [field.dataType.simpleString() for field in row.schema] == ["int", "boolean", "double", "int"]
    assert row.collect()[0] == (1, True, 1.0, 1)


def test_a_column_used_under_two_names_keeps_both(spark: SparkSession) -> None:
    look_up_once(spark._jvm)  # type: ignore[arg-type]
    assert spark.range(3).select(F.col("id").alias("a"), (F.col("id") + 1).alias("b")).collect()[2] == (2, 3)
