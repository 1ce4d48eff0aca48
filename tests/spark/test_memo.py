"""Checkpoints: complete before they are read, by jobs of their names.

The client of a Spark Connect session must not be asked while the interpreter ends.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from epochaudit.spark.memo import as_leaf, checkpointed, unpersist
from epochaudit.spark.session import name_jobs

ROOT: Final = Path(__file__).parents[2]
# A session and a table as those of Spark Connect, by the names of their modules: `close` is what the client would be asked.
PROGRAM: Final = """
from epochaudit.spark.memo import checkpointed

class Client:
    def close(self): print("closed")

class Session:
    __module__ = "pyspark.sql.connect.session"
    client = Client()

class Table:
    sparkSession = Session()
    def localCheckpoint(self, eager, storageLevel): return Table()

@checkpointed
def table(events): return events

events = Table()
assert table(events) is table(events)
print("computed")
"""


def test_sessions_of_spark_connect_are_closed_before_the_interpreter_ends() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["computed", "closed"]


def test_a_checkpoint_is_complete_before_a_job_reads_it(spark: SparkSession) -> None:
    """Two jobs that complete one checkpoint, and read it, may wait for each other for ever."""
    events = spark.range(9)
    table = checkpointed(lambda events: events.where("id > 4"))(events)
    assert [_is_complete(rows) for rows in (table, as_leaf(table.where("id > 5")))] == [True, True]
    unpersist(events)


def test_the_jobs_of_a_table_have_its_name_and_that_of_the_frame(spark: SparkSession) -> None:
    described = list[str | None]()

    def note() -> None:
        described.append(spark.sparkContext.getLocalProperty("spark.job.description"))

    @checkpointed
    def held_epochs(events: DataFrame) -> DataFrame:
        note()
        return events.where("id > 4")

    @checkpointed
    def positions(events: DataFrame) -> DataFrame:
        held = held_epochs(events)
        note()
        return held

    events = spark.range(9)
    name_jobs(spark, "frame fetches")
    positions(events)
    note()
    unpersist(events)
    assert described == ["frame fetches: held_epochs", "frame fetches: positions", "frame fetches"]


def _is_complete(rows: DataFrame) -> bool:
    return bool(rows._jdf.queryExecution().analyzed().rdd().isCheckpointed())
