"""Histories of events written as Markdown tables, for the tests of frames."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from epochaudit.events.schema import EVENTS
from tests.rules.case_files import read_cases


def history(spark: SparkSession, table: str) -> DataFrame:
    """The events of one table in the format of the rules' case files; the cluster is named `case`."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "frame" / "case.md"
        page.parent.mkdir()
        page.write_text(f"## history\n\n{table}\n")
        (case,) = read_cases(Path(folder), EVENTS)
    return spark.createDataFrame(case.events, EVENTS)
