"""Typed views of the events table: each API's rows, and the reference by which a finding proves itself."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

REF_FIELDS: Final = ("node", "file", "split", "byte_offset", "line_in_split", "time_ms")
REF_TYPE: Final = "struct<node:int,file:string,split:int,byte_offset:bigint,line_in_split:int,time_ms:bigint>"


def ref() -> Column:
    """The place of an event row, as evidence: struct of node, file, split, byte_offset, line_in_split, time_ms."""
    return F.struct(*(F.col(name) for name in REF_FIELDS))


def no_ref() -> Column:
    """A reference to nothing, of the same type as `ref`."""
    return F.lit(None).cast(REF_TYPE)


def of_types(events: DataFrame, *event_types: str) -> DataFrame:
    """The rows of the given event types; grain and columns unchanged."""
    return events.where(F.col("event_type").isin(*event_types))


def log_position() -> Column:
    """A node's own log order as one comparable value: struct of file_order and byte_offset.

    Clock: line order of one source of one node. Values of two nodes or two sources are not comparable.
    """
    return F.struct("file_order", "byte_offset")
