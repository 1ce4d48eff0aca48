"""The Spark data source over recorded files, and the three tables of a capture, made of one scan.

frames = read_captures(spark, [discover("captures/last-night")])
frames.events.where("event_type = 'STOP_REPLICA'").show()
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from tempfile import TemporaryDirectory
from typing import Final, cast

import msgspec
import pyarrow as pa
from pyspark import Accumulator, StorageLevel
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from epochaudit.events.schema import columns
from epochaudit.events.views import RangeId
from epochaudit.sources.files.capture import Capture, CaptureFile
from epochaudit.sources.formats import BY_KIND
from epochaudit.sources.lines.unwrapping import unwrapping
from epochaudit.sources.request_log import compiled
from epochaudit.sources.scan.ranges import ByteRange, Lines, cut, lines_of, packed
from epochaudit.sources.scan.staging import (
    merged,
    staged,
    staged_without,
    staging_directory,
    written,
)
from epochaudit.sources.sink import (
    EVENT_ROW,
    EVERYTHING,
    NO_EDGES,
    QUARANTINE_ROW,
    SCAN,
    SCAN_COLUMNS,
    SPLIT_ROW,
    BlockDecoder,
    BlockTally,
    Edges,
    LineDecoder,
    NarrowRows,
    RequestCounts,
    RowSink,
    Wanted,
    widened,
)
from epochaudit.spark.run_metrics import Advance, of_run
from epochaudit.spark.session import in_one_partition, is_remote, is_tuned_for_small_plans, on_this_machine

NAME: Final = "epochaudit"
ROWS_AT_ONCE: Final = 4_000  # so few stay in the processor's cache until they become columns
TASKS_PER_CORE: Final = 2
FOLDED_FROM: Final = 12e6
"""Sum of ByteRange.cost of the files with a scanner from which folding pays. An audit of 24 MB of a busy cluster takes a fifth less CPU,
of 190 MB half: judging 100,000 rows takes as long as finding the edges of runs and reading again."""
EVENT_ID: Final = ("cluster", "node", "source", "time_ms", "byte_offset", "partition_row")


@dataclass(frozen=True)
class Bundle:
    """The ranges of a task, the staged file with their rows, and its number of rows. again: the ranges to read again."""

    ranges: tuple[ByteRange, ...]
    path: str = ""
    rows: int = 0
    again: tuple[ByteRange, ...] = ()


@dataclass(frozen=True)
class Scan:
    """Ranges that are read: staged in `directory`, or, if that is None, still to be read by the first action.

    folded: runs of like rows may be folded.
    """

    ranges: tuple[ByteRange, ...]
    bundles: tuple[Bundle, ...] = ()
    directory: TemporaryDirectory[str] | None = None
    folded: bool = False

    @property
    def row_count(self) -> int | None:
        """The number of its rows; None if they are not staged."""
        return sum(bundle.rows for bundle in self.bundles) if self.directory else None


@dataclass(frozen=True)
class CaptureFrames:
    """The tables of one scan: schemas/events.toml, quarantine.toml, splits.toml.

    rows: the DataFrame behind them, stored until `staging.release(rows)`.
    """

    scan: Scan
    rows: DataFrame
    events: DataFrame
    quarantine: DataFrame
    splits: DataFrame


def read_captures(spark: SparkSession, captures: Sequence[Capture]) -> CaptureFrames:
    """The tables of the captures, whose files are read once."""
    return tables(spark, scan(spark, cut(file for capture in captures for file in capture.files)))


def scan(spark: SparkSession, ranges: Sequence[ByteRange], fold: bool = False) -> Scan:
    """Read the ranges and stage their rows, if executors share this machine's disk.

    fold: runs of like rows of Fetch and Produce may be folded (schemas/events.toml, run_rows), if they are staged: only then
    `read_again` can replace them.
    """
    if not on_this_machine(spark):
        return Scan(tuple(ranges))
    bundles = packed(ranges, TASKS_PER_CORE * cores(spark))
    cost = _scanned_cost(ranges)
    share = cost / cores(spark)
    folded = fold and cost >= FOLDED_FROM
    directory = staging_directory(spark)
    edges = NO_EDGES if folded else None
    written = _written(spark, [Bundle(tuple(bundle)) for bundle in bundles], directory.name, share, edges)
    return Scan(tuple(ranges), written, directory, folded)


def read_again(
    spark: SparkSession,
    read: Scan,
    ranges: Collection[RangeId],
    edges: Edges | None = None,
    others: Sequence[ByteRange] = (),
) -> Scan:
    """The scan with other rows of these ranges: all rows, or those of runs between these edges (RowSink).

    others: ranges that the scan lacks; they are read in the same way. `read` can't be used afterwards.
    """
    if read.directory is None:
        raise ValueError("only staged ranges can be read again")
    affected = [bundle for bundle in read.bundles if not {part.id for part in bundle.ranges}.isdisjoint(ranges)]
    added = [Bundle(tuple(bundle)) for bundle in packed(others, TASKS_PER_CORE * cores(spark))] if others else []
    share = max((_scanned_cost(bundle.ranges) for bundle in (*affected, *added)), default=0)
    again = [replace(bundle, again=tuple(part for part in bundle.ranges if part.id in ranges)) for bundle in affected]
    done = _written(spark, [*again, *added], read.directory.name, share, edges)
    replaced = dict(zip(affected, done[: len(affected)], strict=True))
    bundles = (*(replaced.get(bundle, bundle) for bundle in read.bundles), *done[len(affected) :])
    return replace(read, ranges=(*read.ranges, *others), bundles=bundles)


def tables(spark: SparkSession, read: Scan) -> CaptureFrames:
    """The tables of a scan. Without staged rows, the first action reads the ranges and persists them."""
    if read.directory:
        paths = [bundle.path for bundle in read.bundles]
        few = is_tuned_for_small_plans(spark)
        scanned = staged(spark, [merged(paths, read.directory.name)] if few and paths else paths, read.directory)
    else:
        scanned = _scan(spark, read.ranges).persist(StorageLevel.MEMORY_AND_DISK)
    rows = in_one_partition(scanned)
    events = rows.where(F.col("row_kind") == EVENT_ROW).withColumn("event_id", event_id())
    events = events.select(*(c.name for c in columns("events")))
    quarantine = rows.where(F.col("row_kind") == QUARANTINE_ROW).select(*_unpacked("quarantine", "quarantined"))
    splits = rows.where(F.col("row_kind") == SPLIT_ROW).select(*_unpacked("splits", "statistics"))
    return CaptureFrames(read, scanned, events, quarantine, splits)


def event_id() -> Column:
    """event_id, as schemas/events.toml defines it. Needs EVENT_ID and file."""
    placeless = F.when(F.col("node").isNull() | F.col("time_ms").isNull(), F.col("file"))
    return F.xxhash64(*EVENT_ID, placeless)


def read_events(
    spark: SparkSession, captures: Sequence[Capture], event_types: Collection[str], wanted: Collection[str] = ()
) -> DataFrame:
    """Events of some types, for ad-hoc queries. wanted: column names, empty for all but event_id.

    Requests of other APIs are not decoded and other columns are not built, which saves most of the reading time. Raises
    ValueError for an unknown column.
    """
    named = [c.name for c in columns("events") if c.name != "event_id" and (not wanted or c.name in wanted)]
    if unknown := sorted({*wanted} - {*named}):
        raise ValueError(f"the events table has no column {', '.join(unknown)}")
    ranges = cut(file for capture in captures for file in capture.files)
    scan = _scan(spark, ranges, Wanted(frozenset(event_types), frozenset({"row_kind", "event_type", *named})))
    return scan.where((F.col("row_kind") == EVENT_ROW) & F.col("event_type").isin(*event_types)).select(*named)


def _written(
    spark: SparkSession, bundles: Sequence[Bundle], directory: str, share: float, edges: Edges | None
) -> tuple[Bundle, ...]:
    """The bundles, written. An RDD job: for a data source Spark first starts three more Python processes in turn."""
    tasks = spark.sparkContext.parallelize(bundles, max(1, len(bundles)))
    done = spark.sparkContext.accumulator(0)
    of_run().reading = Advance(sum(map(_stored_bytes, bundles)), lambda: done.value)
    write = partial(_write_bundle, directory=directory, share=share, edges=edges, done=done)
    results = tasks.map(write).collect()
    return tuple(replace(b, path=path, rows=rows, again=()) for b, (path, rows) in zip(bundles, results, strict=True))


def _stored_bytes(bundle: Bundle) -> int:
    return sum(part.size for part in bundle.again or bundle.ranges)


def _write_bundle(
    bundle: Bundle, directory: str, share: float, edges: Edges | None, done: Accumulator[int]
) -> tuple[str, int]:
    rows = batches(bundle.again or bundle.ranges, share=share, edges=edges)
    if bundle.again:
        rows = chain(staged_without(bundle.path, {part.id for part in bundle.again}), rows)
    staged = written(rows, directory)
    done.add(_stored_bytes(bundle))
    return staged


def _reader(spark: SparkSession, ranges: Sequence[ByteRange]) -> DataFrameReader:
    spark.dataSource.register(RecordedFiles)
    return spark.read.format(NAME).options(ranges=_as_json(ranges), tasks=str(TASKS_PER_CORE * cores(spark)))


def _scan(spark: SparkSession, ranges: Sequence[ByteRange], wanted: Wanted = EVERYTHING) -> DataFrame:
    reader = _reader(spark, ranges)
    if wanted.event_types is not None:
        reader = reader.option("event_types", ",".join(sorted(wanted.event_types)))
    if wanted.columns is not None:
        reader = reader.schema(StructType([column for column in SCAN_COLUMNS if column.name in wanted.columns]))
    return reader.load()


def read_capture(spark: SparkSession, capture: Capture) -> CaptureFrames:
    """The tables of one capture; see read_captures."""
    return read_captures(spark, [capture])


def _unpacked(table: str, struct: str) -> list[Column]:
    """The table's columns, from a struct column of the scan where it has them."""
    inside = {field.name for field in SCAN.field(struct).type}
    return [F.col(f"{struct}.{c.name}" if c.name in inside else c.name) for c in columns(table)]


def cores(spark: SparkSession) -> int:
    """The number of concurrent tasks: of the executors there are; over Spark Connect, spark.default.parallelism or this machine's CPUs."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    stated = spark.conf.get("spark.default.parallelism", "") or ""
    return int(stated) if stated.isdigit() else os.cpu_count() or 1


def _as_json(ranges: Iterable[ByteRange]) -> str:
    """Ranges as JSON, with each file once."""
    by_file = groupby(ranges, key=lambda part: part.file)
    listed = [(file, [(p.split, p.start, p.end) for p in parts]) for file, parts in by_file]
    return msgspec.json.encode(listed).decode()


def _from_json(ranges: str) -> list[ByteRange]:
    listed = msgspec.json.decode(ranges, type=list[tuple[CaptureFile, list[tuple[int, int, int | None]]]])
    return [ByteRange(file, *part) for file, parts in listed for part in parts]


@dataclass
class FilePartition(InputPartition):
    """The byte ranges of one task."""

    ranges: list[ByteRange]


class RecordedFiles(DataSource):
    """Recorded files as rows of SCAN, or of some of its columns.

    Options: `ranges`, files and their byte ranges as JSON; `tasks`, the intended number of tasks; `event_types`, names
    separated by commas, absent for all.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCAN_COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        types = self.options.get("event_types")
        narrowed_columns = None if len(schema) == len(SCAN_COLUMNS) else frozenset(schema.names)
        wanted = Wanted(None if types is None else frozenset(types.split(",")), narrowed_columns)
        return RangeReader(_from_json(self.options["ranges"]), int(self.options["tasks"]), wanted)


class RangeReader(DataSourceReader):
    """Packs ranges into tasks, which decode them."""

    def __init__(self, ranges: Sequence[ByteRange], tasks: int, wanted: Wanted) -> None:
        self._ranges, self._tasks, self._wanted = ranges, tasks, wanted
        self._share = _scanned_cost(ranges) / max(1, tasks // TASKS_PER_CORE)

    def partitions(self) -> Sequence[InputPartition]:
        return [FilePartition(ranges) for ranges in packed(self._ranges, self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(cast(FilePartition, partition).ranges, self._wanted, self._share)


def batches(
    ranges: Sequence[ByteRange], wanted: Wanted = EVERYTHING, share: float = 0, edges: Edges | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a task's ranges, as batches of the requested columns of SCAN.

    share: expected ByteRange.cost of the files with a scanner that this process decodes in all tasks. edges: see RowSink.
    """
    pays = edges is not None or compiled.pays(max(share, _scanned_cost(ranges)))
    gc.disable()  # decoded objects form no cycles; collection would take a third of the time
    try:
        yield from _batches_of(
            (rows for part in ranges for rows in _decoded(part, wanted, pays, edges)), wanted.schema()
        )
    finally:
        gc.enable()


def _batches_of(narrow: Iterable[NarrowRows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of about ROWS_AT_ONCE rows of one kind: a data directory has a few files of a few rows for each partition."""
    waiting: dict[tuple[object, object], list[NarrowRows]] = defaultdict(list)
    counts: dict[tuple[object, object], int] = defaultdict(int)
    for rows in narrow:
        kind = rows.kind
        waiting[kind].append(rows)
        counts[kind] += rows.count
        if counts[kind] >= ROWS_AT_ONCE:
            yield widened(waiting.pop(kind), schema)
            del counts[kind]
    for remaining in waiting.values():
        yield widened(remaining, schema)


def _scanned_cost(ranges: Iterable[ByteRange]) -> float:
    return sum(part.cost for part in ranges if compiled.scans(part.file))


def decoded(
    part: ByteRange, wanted: Wanted = EVERYTHING, by_compiled_code: bool = False, edges: Edges | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one byte range and, last, its statistics, as batches of the requested columns of SCAN.

    by_compiled_code: compiled code scans request logs where possible; the rows are the same. edges: see RowSink.
    """
    schema = wanted.schema()
    for rows in _decoded(part, wanted, by_compiled_code, edges):
        yield widened([rows], schema)


def _decoded(part: ByteRange, wanted: Wanted, by_compiled_code: bool, edges: Edges | None) -> Iterator[NarrowRows]:
    """As `decoded`, without the columns that have no value."""
    sink = RowSink(part.file, part.split, wanted, by_compiled_code, edges)
    known = BY_KIND[part.file.kind]
    counts = RequestCounts()
    if known.stream_decoder:
        steps = known.stream_decoder(part.file, sink).read(part.file.open())
    else:
        decoder = cast(type[LineDecoder], known.decoder)(part.file, sink)
        steps = _steps(unwrapping(decoder, part.file, sink), sink, part)
        counts = getattr(decoder, "counts", counts)
    size, tally = 0, [0, 0, 0]
    for consumed, outcome in steps:
        size += consumed
        tally = [*map(sum, zip(tally, outcome, strict=True))]
        if sink.pending >= ROWS_AT_ONCE:
            yield from sink.drain_narrow()
    sink.finish()
    yield from sink.drain_narrow()
    events, ignored, quarantined = tally
    spoiled = sink.spoiled_lines
    lines = (sum(tally), events - spoiled, ignored, quarantined + spoiled)
    sink.statistics(part.start, (size, *lines, sink.event_rows, *sink.times), counts)
    yield from sink.drain_narrow()


def _steps(decoder: LineDecoder, sink: RowSink, part: ByteRange) -> Iterator[tuple[int, BlockTally]]:
    """Decodes the lines of a range; yields (bytes, outcomes) of each batch of lines."""
    line = 1
    finish = getattr(decoder, "finish", None)
    for stretch in lines_of(part):
        if isinstance(stretch, Lines):
            tally = decode(decoder, sink, stretch, line)
            yield len(stretch.data), tally
            # a decoder with `finish` may report lines later
            line += stretch.data.count(b"\n") if finish else sum(tally)
        else:
            sink.quarantine(stretch.byte_offset, line, stretch.reason, stretch.text)
            yield stretch.size, (0, 0, 1)
            line += 1
    if finish:
        yield 0, finish()


def decode(decoder: LineDecoder, sink: RowSink, lines: Lines, line_in_split: int) -> BlockTally:
    """Decode lines. line_in_split: number of the first one. Returns the numbers of lines by outcome."""
    if hasattr(decoder, "block"):
        return cast(BlockDecoder, decoder).block(lines.data, lines.byte_offset, line_in_split)
    tally = [0, 0, 0]
    byte_offset = lines.byte_offset
    texts = lines.data.split(b"\n")
    if not texts[-1]:
        texts.pop()
    for number, text in enumerate(texts, line_in_split):
        try:
            tally[decoder.line(text.removesuffix(b"\r"), byte_offset, number)] += 1
        except Exception as error:
            tally[sink.failed(error, byte_offset, number, text)] += 1
        byte_offset += len(text) + 1
    return tally[0], tally[1], tally[2]
