"""Expressions of columns."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from epochaudit.spark.columns import let


def test_a_value_is_computed_once(spark: SparkSession) -> None:
    drawn = let(F.rand(), lambda value: F.transform(F.sequence(F.lit(1), F.lit(5)), lambda _: value))
    [row] = spark.range(1).select(F.size(F.array_distinct(drawn)).alias("drawn")).collect()
    assert row.drawn == 1


def test_a_body_with_more_parameters_gets_the_value_only(spark: SparkSession) -> None:
    def plus(value: Column, added: int = 2) -> Column:
        return value + added

    [row] = (
        spark.range(1)
        .select(let(F.lit(40), plus).alias("sum"), let(F.lit(None), lambda value: value.isNull()).alias("null"))
        .collect()
    )
    assert (row.sum, row.null) == (42, True)
