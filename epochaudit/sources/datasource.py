"""The Spark data source over recorded files, and a capture's three tables made of its one scan.

frames = read_captures(spark, [discover("captures/last-night")])
frames.events.where("event_type = 'STOP_REPLICA'").show()
"""

from __future__ import annotations

import gc
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Final, cast

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from epochaudit.events.schema import columns
from epochaudit.session import in_one_partition, on_this_machine
from epochaudit.sources import request_scan
from epochaudit.sources.capture import Capture, RecordedFile
from epochaudit.sources.formats import BY_KIND
from epochaudit.sources.ranges import ByteRange, Lines, cut, dealt, lines_of
from epochaudit.sources.sink import (
    EVENT_ROW,
    EVERYTHING,
    QUARANTINE_ROW,
    SCAN,
    SCAN_COLUMNS,
    SPLIT_ROW,
    BlockDecoder,
    BlockTally,
    LineDecoder,
    RequestCounts,
    RowSink,
    Wanted,
)
from epochaudit.sources.staging import staged, staging_directory, written
from epochaudit.sources.unwrapping import unwrapping

NAME: Final = "epochaudit"
ROWS_AT_ONCE: Final = 4_000  # few enough to stay in the processor's cache on their way to columns
TASKS_PER_CORE: Final = 2
EVENT_ID: Final = ("cluster", "node", "source", "time_ms", "byte_offset", "partition_row")


@dataclass(frozen=True)
class CaptureFrames:
    """The tables of one scan: schemas/events.toml, quarantine.toml, splits.toml.

    scan: what they are made of, read once and kept until `staging.release(scan)`.
    """

    scan: DataFrame
    events: DataFrame
    quarantine: DataFrame
    splits: DataFrame


def read_captures(spark: SparkSession, captures: Sequence[Capture]) -> CaptureFrames:
    """The tables of the captures, whose files are read once; see read_ranges."""
    return read_ranges(spark, cut(file for capture in captures for file in capture.files))


def read_ranges(spark: SparkSession, ranges: Sequence[ByteRange]) -> CaptureFrames:
    """The tables of some ranges of files, which the rows' column `split` tells by their number.

    Where executors share this machine's disk they are read now, else by the first action; either way they are kept.
    """
    scan = (
        _staged(spark, ranges) if on_this_machine(spark) else _scan(spark, ranges).persist(StorageLevel.MEMORY_AND_DISK)
    )
    rows = in_one_partition(scan)
    events = rows.where(F.col("row_kind") == EVENT_ROW).withColumn("event_id", event_id())
    events = events.select(*(c.name for c in columns("events")))
    quarantine = rows.where(F.col("row_kind") == QUARANTINE_ROW).select(*_unpacked("quarantine", "quarantined"))
    splits = rows.where(F.col("row_kind") == SPLIT_ROW).select(*_unpacked("splits", "statistics"))
    return CaptureFrames(scan, events, quarantine, splits)


def event_id() -> Column:
    """The id of an event row, as its contract tells it."""
    placeless = F.when(F.col("node").isNull() | F.col("time_ms").isNull(), F.col("file"))
    return F.xxhash64(*EVENT_ID, placeless)


def read_events(
    spark: SparkSession, captures: Sequence[Capture], event_types: Collection[str], wanted: Collection[str] = ()
) -> DataFrame:
    """The events of some types with the wanted columns (all but event_id, if none is named), for a question of one's own.

    Requests of other APIs are not decoded and other columns not built, which is most of the work of reading.
    """
    named = [c.name for c in columns("events") if c.name != "event_id" and (not wanted or c.name in wanted)]
    if unknown := sorted({*wanted} - {*named}):
        raise ValueError(f"the events table has no column {', '.join(unknown)}")
    ranges = cut(file for capture in captures for file in capture.files)
    scan = _scan(spark, ranges, Wanted(frozenset(event_types), frozenset({"row_kind", "event_type", *named})))
    return scan.where((F.col("row_kind") == EVENT_ROW) & F.col("event_type").isin(*event_types)).select(*named)


def _staged(spark: SparkSession, ranges: Sequence[ByteRange]) -> DataFrame:
    """A plain job: for a data source Spark starts three more Python processes, one after the other, before the first task."""
    directory = staging_directory(spark)
    bundles = dealt(ranges, TASKS_PER_CORE * cores(spark))
    tasks = spark.sparkContext.parallelize(bundles, max(1, len(bundles)))
    write = partial(_written_bundle, directory=directory.name, share=_scanned_cost(ranges) / cores(spark))
    return staged(spark, tasks.map(write).collect(), directory)


def _written_bundle(ranges: Sequence[ByteRange], directory: str, share: float) -> str:
    return written(batches(ranges, share=share), directory)


def _reader(spark: SparkSession, ranges: Sequence[ByteRange]) -> DataFrameReader:
    spark.dataSource.register(RecordedFiles)
    return spark.read.format(NAME).options(ranges=_written(ranges), tasks=str(TASKS_PER_CORE * cores(spark)))


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
    """The table's columns: those that a struct column of the scan holds taken from there."""
    inside = {field.name for field in SCAN.field(struct).type}
    return [F.col(f"{struct}.{c.name}" if c.name in inside else c.name) for c in columns(table)]


def cores(spark: SparkSession) -> int:
    """Tasks that can run at once, as far as the session tells."""
    master = spark.conf.get("spark.master", "") or ""
    if local := re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master):
        return int(local[1])
    stated = spark.conf.get("spark.default.parallelism", "") or ""
    return int(stated) if stated.isdigit() else os.cpu_count() or 1


def _written(ranges: Iterable[ByteRange]) -> str:
    """Ranges as text: each file once."""
    by_file = groupby(ranges, key=lambda part: part.file)
    return json.dumps([(asdict(file), [(p.split, p.start, p.end) for p in parts]) for file, parts in by_file])


def _parsed(ranges: str) -> list[ByteRange]:
    listed = [(RecordedFile(**file), parts) for file, parts in json.loads(ranges)]
    return [ByteRange(file, *part) for file, parts in listed for part in parts]


@dataclass
class Bundle(InputPartition):
    """The byte ranges of one task."""

    ranges: list[ByteRange]


class RecordedFiles(DataSource):
    """Recorded files as rows of SCAN or of some of its columns.

    Options: `ranges`, files and their byte ranges as JSON; `tasks`, how many to aim at; `event_types`, those wanted, with
    commas.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCAN_COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        types = self.options.get("event_types")
        narrowed = None if len(schema) == len(SCAN_COLUMNS) else frozenset(schema.names)
        wanted = Wanted(None if types is None else frozenset(types.split(",")), narrowed)
        return RangeReader(_parsed(self.options["ranges"]), int(self.options["tasks"]), wanted)


class RangeReader(DataSourceReader):
    """Deals out ranges to tasks, each of which decodes its bundle."""

    def __init__(self, ranges: Sequence[ByteRange], tasks: int, wanted: Wanted) -> None:
        self._ranges, self._tasks, self._wanted = ranges, tasks, wanted
        self._share = _scanned_cost(ranges) / max(1, tasks // TASKS_PER_CORE)

    def partitions(self) -> Sequence[InputPartition]:
        return [Bundle(ranges) for ranges in dealt(self._ranges, self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(cast(Bundle, partition).ranges, self._wanted, self._share)


def batches(ranges: Sequence[ByteRange], wanted: Wanted = EVERYTHING, share: float = 0) -> Iterator[pa.RecordBatch]:
    """The rows of a task's ranges, as batches of what is wanted of SCAN. share: what its process is likely to decode of
    files with a scanner, in all tasks (ByteRange.cost).
    """
    compiled = request_scan.pays(max(share, _scanned_cost(ranges)))
    gc.disable()  # decoded objects hold no cycles; looking for some would take a third of the time
    try:
        for part in ranges:
            yield from decoded(part, wanted, compiled)
    finally:
        gc.enable()


def _scanned_cost(ranges: Iterable[ByteRange]) -> float:
    return sum(part.cost for part in ranges if request_scan.scans(part.file))


def decoded(part: ByteRange, wanted: Wanted = EVERYTHING, compiled: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of one byte range and, last, its statistics, as batches of what is wanted of SCAN.

    compiled: request logs are scanned by compiled code, as far as that is possible; the rows are the same.
    """
    sink = RowSink(part.file, part.split, wanted, compiled)
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
            yield from sink.drain()
    yield from sink.drain()
    events, ignored, quarantined = tally
    spoiled = sink.spoiled_lines
    lines = (sum(tally), events - spoiled, ignored, quarantined + spoiled)
    sink.statistics(part.start, (size, *lines, sink.event_rows, *sink.times), counts)
    yield from sink.drain()


def _steps(decoder: LineDecoder, sink: RowSink, part: ByteRange) -> Iterator[tuple[int, BlockTally]]:
    """Decodes the lines of a range; yields the bytes of some and what became of them."""
    line = 1
    finish = getattr(decoder, "finish", None)
    for stretch in lines_of(part):
        if isinstance(stretch, Lines):
            tally = decode(decoder, sink, stretch, line)
            yield len(stretch.data), tally
            line += stretch.data.count(b"\n") if finish else sum(tally)  # what finishes may hold lines back
        else:
            sink.quarantine(stretch.byte_offset, line, stretch.reason, stretch.text)
            yield stretch.size, (0, 0, 1)
            line += 1
    if finish:
        yield 0, finish()


def decode(decoder: LineDecoder, sink: RowSink, lines: Lines, line_in_split: int) -> BlockTally:
    """Decode lines, the first being number `line_in_split`; how many gave events, were ignored, were quarantined."""
    if isinstance(decoder, BlockDecoder):
        return decoder.block(lines.data, lines.byte_offset, line_in_split)
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
