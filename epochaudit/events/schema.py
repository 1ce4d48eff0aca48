"""Table contracts: the columns of each table, from schemas/*.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from epochaudit.events.package_data import package_data


@dataclass(frozen=True)
class ColumnDoc:
    """One column. type: Spark SQL DDL. doc: its description. unit: None if it has none. required: never null."""

    name: str
    type: str
    doc: str
    unit: str | None
    required: bool


@dataclass(frozen=True)
class Contract:
    """One table. grain: what a row is. version: of the contract. partitioned_by: partition columns of the Delta table."""

    name: str
    grain: str
    version: int
    partitioned_by: tuple[str, ...]
    columns: tuple[ColumnDoc, ...]


@cache
def contract(table: str) -> Contract:
    """The contract in `schemas/<table>.toml`. Raises FileNotFoundError for an unknown table."""
    read = tomllib.loads((package_data("schemas") / f"{table}.toml").read_text())
    described = tuple(
        ColumnDoc(name, c["type"], c["doc"], c.get("unit"), c.get("required", False))
        for name, c in read["columns"].items()
    )
    return Contract(read["name"], read["grain"], read["version"], tuple(read.get("partitioned_by", ())), described)


def columns(table: str) -> tuple[ColumnDoc, ...]:
    """The columns of `schemas/<table>.toml` in order."""
    return contract(table).columns


@cache
def spark_schema(table: str) -> StructType:
    """The table's Spark schema. All fields are nullable, as a Spark data source cannot declare otherwise."""
    return StructType([StructField(c.name, _spark_type(c.type)) for c in columns(table)])


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The table's pyarrow schema: strings are utf8, arrays are lists."""
    return pa.schema([arrow_field(c) for c in columns(table)])


def arrow_field(column: ColumnDoc) -> pa.Field:
    """The column as a pyarrow field."""
    return pa.field(column.name, _arrow_type(column.type))


def _spark_type(ddl: str) -> DataType:
    if ddl.startswith("array<"):
        return ArrayType(_spark_type(ddl[6:-1]))
    if ddl.startswith("map<"):
        key, value = ddl[4:-1].split(",", 1)
        return MapType(_spark_type(key.strip()), _spark_type(value.strip()))
    if ddl.startswith("struct<"):
        fields = (field.split(":", 1) for field in ddl[7:-1].split(","))  # no struct or map within a struct
        return StructType([StructField(name.strip(), _spark_type(kind.strip())) for name, kind in fields])
    return _SPARK_SCALARS[ddl]


def _arrow_type(ddl: str) -> pa.DataType:
    if ddl.startswith("array<"):
        return pa.list_(_arrow_type(ddl[6:-1]))
    if ddl.startswith("map<"):
        key, value = ddl[4:-1].split(",", 1)
        return pa.map_(_arrow_type(key.strip()), _arrow_type(value.strip()))
    if ddl.startswith("struct<"):
        fields = (field.split(":", 1) for field in ddl[7:-1].split(","))  # no struct or map within a struct
        return pa.struct([(name.strip(), _arrow_type(kind.strip())) for name, kind in fields])
    return _ARROW_SCALARS[ddl]


_SPARK_SCALARS: Final[dict[str, DataType]] = {
    "string": StringType(), "int": IntegerType(), "bigint": LongType(), "boolean": BooleanType(),
    "double": DoubleType(), "date": DateType(), "binary": BinaryType(),
}  # fmt: skip
_ARROW_SCALARS: Final = {
    "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "double": pa.float64(), "date": pa.date32(),
    "binary": pa.binary(),
}  # fmt: skip

EVENTS: Final = spark_schema("events")
