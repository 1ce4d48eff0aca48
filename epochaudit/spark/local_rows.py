"""Rows of the driver as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def local_rows(spark: SparkSession, rows: Iterable[Sequence[object]], schema: StructType | str) -> DataFrame:
    """A DataFrame of these rows, each with its values in the order of the schema (DDL if it is a string).

    They reach the JVM as Arrow. Of a list Spark makes an RDD in Python workers, which take 250 MB each and run again in each query.
    """
    struct = schema if isinstance(schema, StructType) else cast(StructType, StructType.fromDDL(schema))
    fields = to_arrow_schema(struct)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(map(_arrow_value, column), field.type) for column, field in zip(columns, fields, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=fields)
    return spark.createDataFrame(table, struct)


def _arrow_value(value: object) -> object:
    """A map is its items to Arrow."""
    return [*value.items()] if isinstance(value, dict) else value
