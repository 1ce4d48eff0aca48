"""Typed views of the events table: each API's rows, and the reference by which a finding proves itself."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

REF_FIELDS: Final = ("node", "file", "split", "byte_offset", "line_in_split", "time_ms")
REF_TYPE: Final = "struct<node:int,file:string,split:int,byte_offset:bigint,line_in_split:int,time_ms:bigint>"


PLACE: Final = ("split", "byte_offset", "line_in_split", "time_ms")
"""What an aggregation by node and file carries of a row, so that `carried_ref` can refer to it."""


def ref() -> Column:
    """The place of an event row, as evidence: struct of node, file, split, byte_offset, line_in_split, time_ms."""
    return F.struct(*(F.col(name) for name in REF_FIELDS))


def carried_ref(which: str) -> Column:
    """The reference to a row that an aggregation by node and file chose. Needs: node, file, and PLACE as `<which>_<name>`."""
    return F.struct("node", "file", *(F.col(f"{which}_{name}").alias(name) for name in PLACE))


def no_ref() -> Column:
    """A reference to nothing, of the same type as `ref`."""
    return F.lit(None).cast(REF_TYPE)


def client_host() -> Column:
    """Remote host of a connection id `local - remote - index`, each end point with its port; null if it tells none."""
    return F.nullif(F.regexp_extract("connection", r"-([^-]*):\d+-\d+(?:-\d+)?$", 1), F.lit(""))


def of_types(events: DataFrame, *event_types: str) -> DataFrame:
    """The rows of the given event types; grain and columns unchanged."""
    return events.where(F.col("event_type").isin(*event_types))
