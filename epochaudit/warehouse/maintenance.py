"""Keeps a warehouse small and quick.

Removes old logs and uncommitted rows, compacts small Delta files, and deletes the files that they replaced.
"""

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

from epochaudit.events.times import DAY_MS
from epochaudit.findings.evidence import iso_time
from epochaudit.sources.formats import BY_KIND
from epochaudit.sources.scan.datasource import cores
from epochaudit.spark.local_rows import local_rows
from epochaudit.warehouse.horizon import Remembered
from epochaudit.warehouse.ledger import OPEN, Run, iso_seconds
from epochaudit.warehouse.nightly import explained, overtaken
from epochaudit.warehouse.rows import REQUEST_LOG, ends_of_parts, first_part, part_at, remember, remembered
from epochaudit.warehouse.tables import ROWS, TABLES, Directory, existing, one_of, quoted

UNDISTURBED_HOURS: Final = 72  # younger uncommitted rows may be of a run that is under way; no run takes this long
DAYS_ORDERED: Final = 2  # the newest days, to which a night adds rows
RETIRED: Final = "retired"
LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
TASKS_OF_A_CORE: Final = 4


@dataclass(frozen=True)
class Maintained:
    """files: removed logs. parts: uncommitted parts whose rows were removed."""

    files: int
    parts: int


def maintain(spark: SparkSession, location: str, keep_days: int | None = None) -> Maintained:
    """Maintain a warehouse. With `keep_days`, remove request logs that end more days before the newest log of their cluster.

    A log is removed as a whole. Its rows are no longer evaluated, and the findings that it proves become `retired`. Horizon
    retains its entry, so that it is not read again. Raises WarehouseError.
    """
    with explained(location):
        directory = existing(spark, location)
        clusters = [row["cluster"] for row in directory.table("horizon").select("cluster").distinct().collect()]
        files = 0
        for cluster in sorted(clusters) if keep_days is not None else ():
            files += _remove_old_logs(directory, cluster, keep_days or 0)
        # by default VACUUM lists each table in 10,000 tasks; a Connect server may forbid the change, which is slower, but not wrong
        with suppress(Exception):
            spark.conf.set(LISTING, str(TASKS_OF_A_CORE * cores(spark)))
        parts = _remove_uncommitted(directory)
        for table in TABLES:
            spark.sql(f"OPTIMIZE {directory.name(table)}")
        newest = directory.table("events").agg(F.max("day").alias("day")).collect()[0]["day"]
        if newest is not None:  # the days that were just written; queries filter by event type first
            spark.sql(
                f"OPTIMIZE {directory.name('events')} WHERE day >= date_sub(DATE '{newest}', {DAYS_ORDERED}) "
                "ZORDER BY (event_type, topic)"
            )
        for table in TABLES:
            spark.sql(f"VACUUM {directory.name(table)}")
    return Maintained(files, parts)


def _remove_old_logs(directory: Directory, cluster: str, keep_days: int) -> int:
    """Remove the request logs of a cluster that end before the last `keep_days` days. Returns their number.

    Days are counted from the newest line that is not in the future: a host's clock may be wrong.
    """
    generation, files = remembered(directory, cluster)
    ends = ends_of_parts(directory.table("splits").where(F.col("cluster") == cluster))
    newest = max((end for end in ends.values() if end <= time.time() * 1000), default=0)
    before = (newest // DAY_MS - keep_days + 1) * DAY_MS
    retained = [replace(file, remembered=_without_old_rows(file.remembered, ends, before)) for file in files]
    if retained == files:
        return 0
    run = Run.now(token_hex(4))
    if not remember(directory, run.run_id, cluster, generation, retained):
        raise overtaken(directory.location)
    with_rows = {file.remembered.path for file in retained if file.remembered.parts}
    _retire(directory, run, cluster, with_rows, iso_time(before, zoned=False) or "")
    return sum(file != now for file, now in zip(files, retained, strict=True))


def _without_old_rows(r: Remembered, ends: Mapping[int, int], before: int) -> Remembered:
    """A request log without its parts, if the last of its dated events is before that time (ms); other files unchanged.

    The other logs show the state in which later requests were answered, such as a leader epoch that began long before.
    """
    if BY_KIND[r.file.kind].source != REQUEST_LOG:
        return r
    times = [ends[part.number] for part in r.parts if part.number in ends]
    return replace(r, parts=()) if times and max(times) < before else r


def _retire(directory: Directory, run: Run, cluster: str, with_rows: Collection[str], before: str) -> None:
    """Retire the open findings with an evidence line from before that time in a file that has no rows any more."""
    lines = f"exists(evidence, line -> line.time < {quoted(before)} AND line.file NOT IN {one_of(['', *sorted(with_rows)])})"
    now = iso_seconds(datetime.now(UTC))
    change = f"named_struct('run_id', {quoted(run.run_id)}, 'at', {quoted(now)}, 'state', {quoted(RETIRED)}, 'observed', observed)"
    directory.spark.sql(
        f"UPDATE {directory.name('findings')} SET state = {quoted(RETIRED)}, history = concat(history, array({change})) "  # noqa: S608  all quoted
        f"WHERE cluster = {quoted(cluster)} AND state = {quoted(OPEN)} AND {lines}"
    )


def _remove_uncommitted(directory: Directory) -> int:
    """Remove the rows of parts that horizon does not list, except those that a run may be writing now. Returns their number."""
    committed = directory.table("horizon").select(F.explode("parts.part").alias("part"))
    undisturbed = part_at(time.time() - UNDISTURBED_HOURS * 3600)
    candidates = directory.table("splits").where(F.col("part") < undisturbed).select("part").distinct()
    parts: Sequence[Any] = candidates.join(committed, "part", "left_anti").orderBy("part").collect()
    if not parts:
        return 0
    numbers = [row["part"] for row in parts]
    view = f"uncommitted_{first_part():x}"
    local_rows(directory.spark, [(number,) for number in numbers], "part bigint").createOrReplaceTempView(view)
    try:
        for table in (*(table for table in ROWS if table != "splits"), "splits"):  # splits last: it lists the parts
            directory.spark.sql(
                f"MERGE INTO {directory.name(table)} AS earlier USING {view} AS uncommitted ON earlier.part = uncommitted.part "
                f"AND earlier.part BETWEEN {numbers[0]} AND {numbers[-1]} WHEN MATCHED THEN DELETE"
            )
    finally:
        directory.spark.catalog.dropTempView(view)
    return len(numbers)
