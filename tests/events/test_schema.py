"""The tables' contracts are read as they are written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from epochaudit.events.package_data import package_data
from epochaudit.events.schema import EVENTS, arrow_schema, columns, contract, spark_schema

LAYOUTS = {"metadata_records"}  # of Kafka's records, not of a table
FILES = {path.name for path in package_data("schemas").iterdir()}
TABLES = sorted({name.removesuffix(".toml") for name in FILES if name.endswith(".toml")} - LAYOUTS)


def test_each_table_of_the_warehouse_has_a_contract() -> None:
    assert {"events", "quarantine", "splits", "verdicts", "findings", "runs", "horizon"} <= set(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_a_contract_documents_its_row_and_each_column(table: str) -> None:
    assert contract(table).name == table
    assert contract(table).grain.endswith(".")
    assert [column.name for column in columns(table) if not column.doc.endswith(".")] == []


@pytest.mark.parametrize("table", TABLES)
def test_spark_and_arrow_agree_on_every_type(table: str) -> None:
    by_spark = to_arrow_schema(spark_schema(table))
    assert [(field.name, _shape(field.type)) for field in by_spark] == [
        (field.name, _shape(field.type)) for field in arrow_schema(table)
    ]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_filed_under_columns_that_it_has(table: str) -> None:
    filed_by_the_warehouse = {"day", "of_requests"}
    assert set(contract(table).partitioned_by) <= set(spark_schema(table).names) | filed_by_the_warehouse


def test_columns_of_events_have_kafkas_widths() -> None:
    assert EVENTS["leader_epoch"].dataType == IntegerType()
    assert EVENTS["broker_epoch"].dataType == LongType()
    assert EVENTS["isr"].dataType == ArrayType(IntegerType())
    assert arrow_schema("events").field("isr").type == pa.list_(pa.int32())


def test_nested_types_are_read() -> None:
    assert spark_schema("verdicts")["unverifiable_reasons"].dataType == MapType(StringType(), LongType())
    evidence = spark_schema("findings")["evidence"].dataType
    assert isinstance(evidence, ArrayType)
    assert isinstance(evidence.elementType, StructType)
    assert evidence.elementType.names == ["role", "node", "file", "line", "byte_offset", "time", "text"]


def _shape(of: pa.DataType) -> str:
    """The type without what carries no data: names of list items, nullability."""
    if pa.types.is_list(of):
        return f"list<{_shape(of.value_type)}>"
    if pa.types.is_map(of):
        return f"map<{_shape(of.key_type)}, {_shape(of.item_type)}>"
    if pa.types.is_struct(of):
        return f"struct<{', '.join(f'{field.name}: {_shape(field.type)}' for field in of)}>"
    return str(of)
