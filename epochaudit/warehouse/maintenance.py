"""What keeps a warehouse small and quick: old logs let go, rows that do not count removed, files made larger, old ones deleted."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from epochaudit.evidence import iso_time
from epochaudit.sources.datasource import cores
from epochaudit.warehouse.horizon import Remembered
from epochaudit.warehouse.ledger import OPEN, Run, told_at
from epochaudit.warehouse.nightly import explained, overtaken
from epochaudit.warehouse.rows import first_part, part_at, remember, remembered
from epochaudit.warehouse.tables import ROWS, TABLES, Directory, existing, one_of, quoted

DAY_MS: Final = 86_400_000
UNDISTURBED_HOURS: Final = 72  # a run that is under way has rows that do not count yet: no run takes as long as this
DAYS_ORDERED: Final = 2  # up to the newest: those that a night adds to
RETIRED: Final = "retired"
LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
TASKS_OF_A_CORE: Final = 4


@dataclass(frozen=True)
class Maintained:
    """What was done: files that were let go, and parts whose rows were removed."""

    files: int
    parts: int


def maintain(spark: SparkSession, location: str, keep_days: int | None = None) -> Maintained:
    """Bring a warehouse into order. With `keep_days`, logs that end more days before the newest of their cluster go.

    A log goes whole: what it holds can't be judged any more, and the findings that it proves become `retired`. It is
    still remembered, so that it is not read again. Raises WarehouseError.
    """
    with explained(location):
        directory = existing(spark, location)
        clusters = [row["cluster"] for row in directory.table("horizon").select("cluster").distinct().collect()]
        files = 0
        for cluster in sorted(clusters) if keep_days is not None else ():
            files += _let_go(directory, cluster, keep_days or 0)
        with suppress(Exception):  # a Connect server may forbid it: that is slower, but not wrong
            spark.conf.set(
                LISTING, str(TASKS_OF_A_CORE * cores(spark))
            )  # by default VACUUM lists each table in 10,000 tasks
        parts = _remove_dead(directory)
        for table in TABLES:
            spark.sql(f"OPTIMIZE {directory.name(table)}")
        newest = directory.table("events").agg(F.max("day").alias("day")).collect()[0]["day"]
        if newest is not None:  # the days that were just written: which events they are is what queries ask for first
            spark.sql(
                f"OPTIMIZE {directory.name('events')} WHERE day >= date_sub(DATE '{newest}', {DAYS_ORDERED}) "
                "ZORDER BY (event_type, topic)"
            )
        for table in TABLES:
            spark.sql(f"VACUUM {directory.name(table)}")
    return Maintained(files, parts)


def _let_go(directory: Directory, cluster: str, keep_days: int) -> int:
    """Let the logs of a cluster go that end before the days to keep. Returns how many."""
    generation, files = remembered(directory, cluster)
    ends = _ends(directory, cluster)
    before = (max(ends.values(), default=0) // DAY_MS - keep_days + 1) * DAY_MS
    left = [replace(file, remembered=_left(file.remembered, ends, before)) for file in files]
    if left == files:
        return 0
    run = Run.now(token_hex(4))
    if not remember(directory, run.run_id, cluster, generation, left):
        raise overtaken(directory.location)
    kept = {file.remembered.path for file in left if file.remembered.parts}
    _retire(directory, run, cluster, kept, iso_time(before, zoned=False) or "")
    return sum(file != now for file, now in zip(files, left, strict=True))


def _ends(directory: Directory, cluster: str) -> Mapping[int, int]:
    """part -> the time of its last event, for parts that have one."""
    splits = directory.table("splits").where((F.col("cluster") == cluster) & F.col("last_time_ms").isNotNull())
    return {row["part"]: row["last_time_ms"] for row in splits.select("part", "last_time_ms").collect()}


def _left(r: Remembered, ends: Mapping[int, int], before: int) -> Remembered:
    """What is left of a file: nothing if it has dated events, the last of them before that time."""
    times = [ends[part.number] for part in r.parts if part.number in ends]
    return replace(r, parts=()) if times and max(times) < before else r


def _retire(directory: Directory, run: Run, cluster: str, kept: Collection[str], before: str) -> None:
    """Retire the open findings of which a line is in no file that is kept, and is from before that time."""
    lines = f"exists(evidence, line -> line.time < {quoted(before)} AND line.file NOT IN {one_of(['', *sorted(kept)])})"
    now = told_at(datetime.now(UTC))
    change = f"named_struct('run_id', {quoted(run.run_id)}, 'at', {quoted(now)}, 'state', {quoted(RETIRED)}, 'observed', observed)"
    directory.spark.sql(
        f"UPDATE {directory.name('findings')} SET state = {quoted(RETIRED)}, history = concat(history, array({change})) "  # noqa: S608  all quoted
        f"WHERE cluster = {quoted(cluster)} AND state = {quoted(OPEN)} AND {lines}"
    )


def _remove_dead(directory: Directory) -> int:
    """Remove the rows of parts that horizon does not list, but those that a run may just be writing."""
    live = directory.table("horizon").select(F.explode("parts.part").alias("part"))
    undisturbed = part_at(time.time() - UNDISTURBED_HOURS * 3600)
    dead = directory.table("splits").where(F.col("part") < undisturbed).select("part").distinct()
    parts: Sequence[Any] = dead.join(live, "part", "left_anti").orderBy("part").collect()
    if not parts:
        return 0
    numbers = [row["part"] for row in parts]
    view = f"dead_{first_part():x}"
    directory.spark.createDataFrame([(number,) for number in numbers], "part bigint").createOrReplaceTempView(view)
    try:
        for table in (*(table for table in ROWS if table != "splits"), "splits"):  # which tells them, last
            directory.spark.sql(
                f"MERGE INTO {directory.name(table)} AS kept USING {view} AS dead ON kept.part = dead.part "
                f"AND kept.part BETWEEN {numbers[0]} AND {numbers[-1]} WHEN MATCHED THEN DELETE"
            )
    finally:
        directory.spark.catalog.dropTempView(view)
    return len(numbers)
