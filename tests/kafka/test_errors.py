"""Error codes: what sentences and Spark make of them."""

from __future__ import annotations

from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit.kafka.errors import Errors, error_text


def test_a_code_is_named_by_number_and_name() -> None:
    assert error_text(74) == Errors.FENCED_LEADER_EPOCH.text == "74 FENCED_LEADER_EPOCH"
    assert error_text(0) == "0 NONE"
    assert error_text(-1) == "-1 UNKNOWN_SERVER_ERROR"


def test_a_code_that_no_release_has_is_its_number() -> None:
    assert error_text(9999) == "9999"


def test_no_number_is_left_out() -> None:
    assert list(Errors) == list(range(-1, len(Errors) - 1))


def test_a_member_is_a_literal_of_spark(spark: SparkSession) -> None:
    code = F.col("code")
    rows = spark.createDataFrame([(74,), (0,), (None,)], "code int")
    fenced = F.when(code.isin(Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH), Errors.STALE_BROKER_EPOCH)
    typed = rows.select(
        fenced.alias("a"),
        (F.coalesce(code, F.lit(Errors.NONE)) == Errors.NONE).alias("b"),
        F.lit(Errors.NONE).alias("c"),
    )
    of_numbers = [(77, False, 0), (None, True, 0), (None, True, 0)]
    expected = spark.createDataFrame(of_numbers, "a int, b boolean, c int")
    assert_df_equality(typed, expected, ignore_nullable=True)
