"""Histories of events written as Markdown tables, for the tests of frames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from epochaudit.events.schema import EVENTS
from tests.rules.case_files import read_cases


def history(spark: SparkSession, table: str) -> DataFrame:
    """The events of one table in the format of the rules' case files; the cluster is named `case history`."""
    return histories(spark, {"history": table})


def histories(spark: SparkSession, tables: Mapping[str, str]) -> DataFrame:
    """The events of several tables, each of a cluster `case <name>`: one query about all takes no longer than about one."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "frame" / "case.md"
        page.parent.mkdir()
        page.write_text("\n".join(f"## {name}\n\n{table}\n" for name, table in tables.items()))
        events = [event for case in read_cases(Path(folder), EVENTS) for event in case.events]
    return spark.createDataFrame(events, EVENTS)
