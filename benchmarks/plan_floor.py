"""What Spark itself takes for as many plans as an audit makes, without what an audit computes.

    python -m benchmarks.plan_floor CAPTURE [--rounds 1]

The program reads the capture and starts Spark as an audit does. Then it plans and runs as many shared tables and frames as an audit of
a small KRaft capture has, with as many joins and aggregates, over five columns. It computes greatest values only: no rule, no evidence,
no clock. CPU seconds are those of this process and of the JVM; those of the processes that decode are not counted.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from epochaudit.pipeline import PLANNERS, plain_bytes_of, reading
from epochaudit.sources.discovery.discovery import discover
from epochaudit.spark.session import jvm_cpu_seconds, session, tuned_for

# An audit of a capture of 7 MB with unclean elections calls localCheckpoint 20 times, persist 33, join 176 and agg 119 times.
# Here each join of a table, and as many of a frame as AGGREGATES_OF_A_FRAME, is with an aggregate: 172 joins and 126 aggregates.
TABLES: Final = 20
FRAMES: Final = 33
JOINS_OF_A_TABLE: Final = 2
JOINS_OF_A_FRAME: Final = 4
AGGREGATES_OF_A_FRAME: Final = 2
KEY: Final = ("cluster", "topic", "partition")
TYPES: Final = ("FETCH", "METADATA", "OFFSET_COMMIT", "PARTITION_CHANGE_RECORD", "REPLICA_START")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("capture")
    arguments.add_argument("--rounds", type=int, default=1, help="more than one: the JVM is warm")
    given = arguments.parse_args()
    capture = discover(given.capture)
    started = time.monotonic()
    spark = session(plain_bytes=plain_bytes_of([capture]))
    read = reading(spark, [capture])
    rows = read.events.count()
    print(f"start and decode: {spent(spark):.1f} CPU s, {time.monotonic() - started:.1f} s, {rows:,} rows", flush=True)
    for number in range(given.rounds):
        began, before = time.monotonic(), spent(spark)
        with tuned_for(spark, rows):
            evaluate(read.events)
        print(f"plans, round {number}: {spent(spark) - before:.1f} CPU s, {time.monotonic() - began:.1f} s", flush=True)
    print(f"all: {spent(spark):.1f} CPU s, {time.monotonic() - started:.1f} s")


def spent(spark: SparkSession) -> float:
    """CPU seconds of the JVM and of this process."""
    return jvm_cpu_seconds(spark) + time.process_time()


def evaluate(events: DataFrame) -> None:
    """The frames' plans, two at a time as in an audit."""
    tables = [table(events, number) for number in range(TABLES)]
    with ThreadPoolExecutor(PLANNERS) as pool:
        for _ in pool.map(lambda number: judge(frame(events, tables, number)), range(FRAMES)):
            pass


def selected(events: DataFrame, number: int) -> DataFrame:
    """Rows of one event type, with five columns."""
    return events.where(F.col("event_type") == TYPES[number % len(TYPES)]).select(*KEY, "time_ms", "leader_epoch")


def table(events: DataFrame, number: int) -> DataFrame:
    """One row per partition: its latest time, of rows that were joined with their partition's greatest values."""
    rows = selected(events, number)
    for step in range(JOINS_OF_A_TABLE):
        rows = with_greatest(rows, f"greatest_{step}")
    return rows.groupBy(*KEY).agg(F.max("time_ms").alias(f"latest_{number}")).localCheckpoint(eager=False)


def frame(events: DataFrame, tables: list[DataFrame], number: int) -> DataFrame:
    """Rows of one event type with their predecessor's epoch, the values of four tables, and those of two aggregates."""
    order = Window.partitionBy(*KEY).orderBy("time_ms")
    rows = selected(events, number).withColumn("previous_epoch", F.lag("leader_epoch").over(order))
    for step in range(AGGREGATES_OF_A_FRAME):
        rows = with_greatest(rows, f"greatest_{step}")
    for step in range(JOINS_OF_A_FRAME - AGGREGATES_OF_A_FRAME):
        rows = rows.join(tables[(number + step) % len(tables)], [*KEY], "left")
    return rows


def with_greatest(rows: DataFrame, name: str) -> DataFrame:
    """Adds the partition's greatest leader epoch."""
    return rows.join(rows.groupBy(*KEY).agg(F.max("leader_epoch").alias(name)), [*KEY], "left")


def judge(rows: DataFrame) -> None:
    """One rule, counted by an observation, and its breaches, persisted and computed as an audit's are."""
    judged = rows.withColumn("breach", F.col("leader_epoch") < F.col("previous_epoch"))
    observed = judged.observe(Observation(), F.count("*").alias("rows"), F.count_if("breach").alias("breaches"))
    observed.where("breach").persist().write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main()
