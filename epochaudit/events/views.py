"""Views of the events table: rows by event type, and references to the recorded lines that prove a finding."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from epochaudit.kafka.errors import Errors

REF_FIELDS: Final = ("node", "file", "split", "byte_offset", "line_in_split", "time_ms")
REF_TYPE: Final = "struct<node:int,file:string,split:int,byte_offset:bigint,line_in_split:int,time_ms:bigint>"


PLACE: Final = ("split", "byte_offset", "line_in_split", "time_ms")
"""The columns of a row that an aggregation by node and file must carry for `carried_ref`."""

RANGE: Final = ("cluster", "file", "split")
"""The columns that identify the byte range from which a row was read."""
RangeId = tuple[str, str, int]
"""Their values."""


def range_id(row: Row) -> RangeId:
    """The values of RANGE in a row."""
    return row["cluster"], row["file"], row["split"]


def ref() -> Column:
    """The reference to an event row: a struct of REF_TYPE. Needs the columns REF_FIELDS."""
    return F.struct(*(F.col(name) for name in REF_FIELDS))


def carried_ref(prefix: str, file: str = "file") -> Column:
    """The reference to a row that an aggregation by node and file chose. Needs node, `file` and `<prefix>_<name>` for PLACE."""
    return F.struct("node", F.col(file).alias("file"), *(F.col(f"{prefix}_{name}").alias(name) for name in PLACE))


def no_ref() -> Column:
    """A null reference, of REF_TYPE."""
    return F.lit(None).cast(REF_TYPE)


def client_host() -> Column:
    """The remote host in `connection` (`local:port-remote:port-index`); null if the id has another form."""
    return F.nullif(F.regexp_extract("connection", r"-([^-]*):\d+-\d+(?:-\d+)?$", 1), F.lit(""))


def holds(condition: Column) -> Column:
    """The condition, false where it is null."""
    return F.coalesce(condition, F.lit(False))


def answer_code() -> Column:
    """The error code of an answer: that of the whole request if it was refused, else the partition's. Null if neither is stated."""
    refused = F.col("request_error_code") != Errors.NONE
    return F.when(refused, F.col("request_error_code")).otherwise(F.col("error_code"))


def run_rows() -> Column:
    """The number of rows that an event row stands for; see schemas/events.toml."""
    return F.coalesce("run_rows", F.lit(1))


def of_types(events: DataFrame, *event_types: str) -> DataFrame:
    """The rows of the given event types; grain and columns unchanged."""
    return events.where(F.col("event_type").isin(*event_types))
