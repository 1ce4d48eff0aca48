"""Rows of the warehouse: appends the rows of new ranges to its tables, and reads the tables as input of the rules."""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from epochaudit.events.schema import columns, spark_schema
from epochaudit.events.views import RANGE, RangeId, range_id
from epochaudit.pipeline import Reading
from epochaudit.sources.discovery.discovery import FoundFile
from epochaudit.sources.files.capture import Capture
from epochaudit.sources.files.opening import Stored
from epochaudit.sources.formats import BY_KIND
from epochaudit.sources.lines.layouts import Layout
from epochaudit.sources.node_hints import NodeHints
from epochaudit.sources.scan.datasource import Scan, event_id, tables
from epochaudit.sources.scan.staging import release
from epochaudit.spark.local_rows import local_rows
from epochaudit.spark.session import in_one_partition
from epochaudit.warehouse.horizon import Part, Remembered
from epochaudit.warehouse.tables import ROWS, Directory, day_of

EPOCH: Final = 1_577_836_800  # 2020-01-01; part numbers count seconds from there
BITS_OF_CHANCE: Final = 12
BITS_OF_RANGE: Final = 21  # two million ranges: a night of 16 TB
FACTS: Final = "part bigint, file string, split int, node int, file_order int, gaps_before int, newer_missing boolean"
PARTS: Final = "part bigint, cluster string, file string, split int"
REQUEST_LOG: Final = "request_log"  # the source of rows that a run need not read again once they are settled
OWN_NODES: Final = "manifest"  # rows of this source have the nodes that the manifest states
HORIZON_KEY: Final = "epochaudit horizon of "


def first_part() -> int:
    """The number of a run's first part: unique, and greater than the numbers of earlier runs.

    As the numbers rise with the runs, the rows of a part lie in few Delta files, which Delta finds by their minimum and
    maximum.
    """
    return part_at(time.time()) + (secrets.randbelow(1 << BITS_OF_CHANCE) << BITS_OF_RANGE)


def part_at(seconds: float) -> int:
    """The least first part of a run at that time, in seconds since 1970."""
    return max(0, int(seconds) - EPOCH) << BITS_OF_CHANCE << BITS_OF_RANGE


@dataclass(frozen=True)
class Written:
    """What was read and written: the part of each range, by the range's cluster, path and split, and the totals."""

    parts: Mapping[RangeId, Part] = field(default_factory=dict)
    bytes: int = 0
    lines: int = 0
    rows: int = 0
    quarantined: int = 0


def write(directory: Directory, scanned: Scan) -> Written:
    """Append the rows of scanned ranges to the tables as new parts, which stay invisible until horizon lists them."""
    if not scanned.ranges:
        return Written()
    first = first_part()
    numbers = {part.id: number for number, part in enumerate(scanned.ranges, first)}
    of_ranges = local_rows(directory.spark, [(number, *id) for id, number in numbers.items()], PARTS)
    read = tables(directory.spark, scanned)

    def numbered(rows: DataFrame) -> DataFrame:
        return rows.join(F.broadcast(of_ranges), list(RANGE))

    try:
        directory.append("splits", numbered(read.splits))  # first: maintenance knows all parts from it
        derived = {"day": day_of(F.col("time_ms")), "of_requests": F.col("source") == REQUEST_LOG}
        directory.append("events", numbered(read.events).withColumns(derived))
        counted = read.splits.select(*RANGE, "bytes", "lines", "rows", "quarantined_lines").collect()
        quarantined = sum(row["quarantined_lines"] for row in counted)
        if quarantined:
            directory.append("quarantine", numbered(read.quarantine))
    finally:
        release(read.rows)
    size = {range_id(row): row["bytes"] for row in counted}
    return Written(
        {id: Part(number, id[-1], size[id]) for id, number in numbers.items()},
        sum(size.values()),
        sum(row["lines"] for row in counted),
        sum(row["rows"] for row in counted),
        quarantined,
    )


def reading_of(
    directory: Directory,
    captures: Sequence[Capture],
    parts: Mapping[tuple[str, str], Sequence[Part]],
    requests_from_ms: int | None = None,
) -> Reading:
    """The committed rows of some clusters. `parts`: the committed parts, by (cluster, path).

    requests_from_ms: earlier rows of request logs are left out, as if these logs began there; None: none are.

    Node, path and order of the files are joined to the rows here, as they may have changed since the files were read.
    """
    spark = directory.spark
    facts = [
        (
            part.number,
            file.path,
            part.split,
            file.node,
            file.file_order,
            file.gaps_before or None,
            file.newer_missing or None,
        )
        for capture in captures
        for file in capture.files
        for part in parts.get((file.cluster, file.path), ())
    ]
    of_parts = local_rows(spark, facts, FACTS)
    clusters = [capture.cluster for capture in captures]
    tables = (committed_rows(directory, table, of_parts, clusters, requests_from_ms) for table in ROWS)
    events, quarantine, splits = map(in_one_partition, tables)
    # Several stages collect them, and each query of a Delta table takes three jobs.
    ranges = [row.asDict(recursive=True) for row in splits.collect()]
    steps = sum(len(row["clock_steps"] or ()) for row in ranges)
    splits = local_rows(spark, ([row[name] for name in splits.columns] for row in ranges), splits.schema)
    return Reading(tuple(captures), events, events, quarantine, splits, F.lit(steps))


def rows_read(ranges: Iterable[Row], requests_from_ms: int | None) -> int:
    """The number of events of these rows of splits: a range with requests from before and after that time counts in full."""
    return sum(row["rows"] for row in ranges if not _is_left_out(row, requests_from_ms))


def _is_left_out(of_range: Row, requests_from_ms: int | None) -> bool:
    last = of_range["last_time_ms"]
    if last is None or requests_from_ms is None or last >= requests_from_ms:
        return False
    return BY_KIND[of_range["kind"]].source == REQUEST_LOG


def has_runs(events: DataFrame) -> bool:
    """Whether runs of like rows are folded in these events."""
    return bool(events.where(F.col("run_rows") > 1).limit(1).count())


def committed_rows(
    directory: Directory,
    table: str,
    of_parts: DataFrame,
    clusters: Collection[str] | None = None,
    requests_from_ms: int | None = None,
) -> DataFrame:
    """The committed rows of events, quarantine or splits. Columns and grain: those of the table's contract.

    `of_parts` has the columns of FACTS: the committed parts with path, node and order of their file. `clusters` None: all.
    requests_from_ms: earlier events of request logs are left out; None: none are.
    """
    stored = directory.table(table)
    if clusters is not None:
        stored = stored.where(F.col("cluster").isin(*clusters))
    if table == "events" and requests_from_ms is not None:
        # Delta skips whole partitions by the first condition
        recent = F.col("day") >= day_of(F.lit(requests_from_ms))
        stored = stored.where(~F.col("of_requests") | recent)
        stored = stored.where(~F.col("of_requests") | (F.col("time_ms") >= requests_from_ms))
    known = stored.withColumnRenamed("node", "own_node").drop("file").join(F.broadcast(of_parts), "part")
    own = F.col("source") == OWN_NODES if table == "events" else F.lit(False)
    known = known.withColumn("node", F.when(own, F.col("own_node")).otherwise(F.col("node")))
    if table == "events":
        known = known.withColumn("event_id", event_id())
    return known.select(*(c.name for c in columns(table)))


def ends_of_parts(splits: DataFrame) -> dict[int, int]:
    """part -> the time of its last event (ms), for parts that have one. Needs: rows of the table splits."""
    dated = splits.where(F.col("last_time_ms").isNotNull())
    return {row["part"]: row["last_time_ms"] for row in dated.select("part", "last_time_ms").collect()}


@dataclass(frozen=True)
class Placed:
    """A file of horizon, with its node and its order among the cluster's files."""

    remembered: Remembered
    node: int | None
    file_order: int


def remembered(directory: Directory, cluster: str) -> tuple[int, list[Placed]]:
    """The generation of a cluster's horizon, 0 if there is none, and its files."""
    rows = directory.table("horizon").where(F.col("cluster") == cluster).toArrow().to_pylist()
    placed = [Placed(_remembered(row), row["node"], row["file_order"]) for row in rows]
    return max((row["generation"] for row in rows), default=0), placed


def remember(directory: Directory, run_id: str, cluster: str, generation: int, files: Iterable[Placed]) -> bool:
    """Replace the cluster's horizon by its next generation. Returns False if another run did so first.

    Delta commits each version of an application once. Of two runs that read the same generation, only one commits.
    """
    following = generation + 1
    schema = spark_schema("horizon")
    common = {"cluster": cluster, "generation": following, "run_id": run_id}
    rows = (_row(file) | common for file in files)
    new = local_rows(directory.spark, [tuple(row[name] for name in schema.names) for row in rows], schema)
    directory.replace_cluster("horizon", cluster, new, application=f"{HORIZON_KEY}{cluster}", version=following)
    mine = directory.table("horizon").where((F.col("cluster") == cluster) & (F.col("run_id") == run_id))
    return bool(mine.limit(1).count())


def generations(directory: Directory, clusters: Iterable[str]) -> dict[str, int]:
    """The generation of each cluster's horizon, by cluster."""
    horizon = directory.table("horizon").where(F.col("cluster").isin(*clusters))
    rows = horizon.groupBy("cluster").agg(F.max("generation").alias("generation")).collect()
    return {row["cluster"]: row["generation"] for row in rows}


def _row(file: Placed) -> dict[str, Any]:
    remembered, found = file.remembered, file.remembered.file
    return {
        "path": found.stored.path,
        "uri": found.stored.uri,
        "kind": found.kind,
        "node": file.node,
        "file_order": file.file_order,
        "size": found.stored.size,
        "read_to": remembered.read_to,
        "beginning": zlib.compress(found.beginning),
        "end": remembered.end,
        "parts": [(part.number, part.split, part.bytes) for part in remembered.parts],
        "compression": found.compression,
        "tar_offset": found.stored.tar_offset,
        "tar_compression": found.stored.tar_compression,
        "envelope": found.layout.envelope,
        "pattern": found.layout.pattern,
        "time_zone": remembered.time_zone,
        "zoned": found.zoned,
        "first_time_ms": found.first_time_ms,
        "cluster_id": found.cluster_id,
        "node_hints": msgspec.json.encode(found.node_hints).decode(),
    }


def _remembered(row: Mapping[str, Any]) -> Remembered:
    file = FoundFile(
        stored=Stored(row["path"], row["uri"], row["size"], row["tar_offset"], row["tar_compression"]),
        kind=row["kind"],
        compression=row["compression"],
        beginning=zlib.decompress(row["beginning"]),
        node_hints=msgspec.json.decode(row["node_hints"], type=NodeHints),
        first_time_ms=row["first_time_ms"],
        cluster_id=row["cluster_id"],
        layout=Layout(row["envelope"], row["pattern"]),
        zoned=row["zoned"],
    )
    parts = tuple(Part(part["part"], part["split"], part["bytes"]) for part in row["parts"])
    return Remembered(file, row["read_to"], row["end"], row["time_zone"], parts)
