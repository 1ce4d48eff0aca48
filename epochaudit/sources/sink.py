"""Collects the rows of decoders and makes Arrow record batches of the scan's schema.

The schema (`SCAN`) has the columns of the events table without event_id, and two structs: `quarantined` for bad lines and
`statistics` for the totals of a split. `row_kind` states which of the three a row is; all rows have identity columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Protocol, cast, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from epochaudit.events.schema import spark_schema
from epochaudit.sources.clock.log_time import LogClock

if TYPE_CHECKING:
    from epochaudit.sources.files.capture import CaptureFile

EVENT_ROW: Final = "event"
QUARANTINE_ROW: Final = "quarantine"
SPLIT_ROW: Final = "split"
QUARANTINE_COLUMNS: Final = ("byte_offset", "line_in_split", "quarantined")
SPLIT_COLUMNS: Final = ("byte_offset", "statistics")
UNFIT_VALUE: Final = (pa.ArrowException, OverflowError, UnicodeError, TypeError)
TEXT_LIMIT: Final = 2_000  # bytes of a bad line in its quarantine row
LINES_OF_SPLIT: Final = (
    "bytes", "lines", "event_lines", "ignored_lines", "quarantined_lines", "rows", "first_time_ms", "last_time_ms",
)  # fmt: skip


MAPS_OF_SPLIT: Final = ("requests", "partition_rows", "error_codes")
STEP: Final = StructType([StructField("latest_ms", LongType()), StructField("raised_ms", LongType())])


def _scan_columns() -> StructType:
    events = [column for column in spark_schema("events") if column.name != "event_id"]
    kind = StructField("kind", StringType())
    quarantined = StructType([kind, StructField("reason", StringType()), StructField("text", StringType())])
    counts = [StructField(name, LongType()) for name in LINES_OF_SPLIT]
    maps = [StructField(name, MapType(StringType(), LongType())) for name in MAPS_OF_SPLIT]
    steps = StructField("clock_steps", ArrayType(STEP))
    statistics = StructType([kind, *counts, *maps, steps])
    return StructType(
        [
            StructField("row_kind", StringType()),
            *events,
            StructField("quarantined", quarantined),
            StructField("statistics", statistics),
        ]
    )


SCAN_COLUMNS: Final = _scan_columns()
SCAN: Final = to_arrow_schema(SCAN_COLUMNS)
CACHED_ROWS: Final = 1 << 12  # rows of cached columns of nulls
FIRST_ROW: Final = pa.scalar(0, pa.int32())
_TYPES: Final = {column.name: column.type for column in SCAN}


class LineOutcome(IntEnum):
    """Outcome of a line: at least one event row, none, or a quarantine row."""

    EVENT = 0
    IGNORED = 1
    QUARANTINED = 2


class LineDecoder(Protocol):
    """Decodes the lines of one byte range of one file, in order; appends rows to the sink.

    kind: the recorded format. splittable: a line can be decoded without the lines before it. `line` gets the text
    without its newline, its offset in the decompressed file and its number within the range, from 1.
    """

    kind: ClassVar[str]
    splittable: ClassVar[bool]

    def __init__(self, file: CaptureFile, sink: RowSink) -> None: ...

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome: ...


BlockTally = tuple[int, int, int]  # numbers of lines: with events, ignored, quarantined


class StreamDecoder(Protocol):
    """Decodes a binary format, whose "lines" are its records.

    After each batch of records `read` yields the number of consumed bytes and the outcomes of the records. The caller
    drains the sink in between.
    """

    kind: ClassVar[str]

    def __init__(self, file: CaptureFile, sink: RowSink) -> None: ...

    def read(self, stream: BinaryIO) -> Iterator[tuple[int, BlockTally]]: ...


Values = Any  # a column: a sequence of Python values or an Arrow array
Columns = dict[str, Values]  # by name
Row = tuple[object, ...]


def _transposed(names: tuple[str, ...], rows: list[Row]) -> Columns:
    return dict(zip(names, zip(*rows, strict=True), strict=bool(rows)))


@dataclass(frozen=True, slots=True)
class NarrowRows:
    """Rows of one byte range with only the columns that have values: `columns`, and `constants`, of which each has one value."""

    count: int
    columns: Columns
    constants: Mapping[str, object]

    @property
    def kind(self) -> tuple[object, object]:
        """What kind of rows they are: row_kind and, of events, the first row's type."""
        types = self.columns.get("event_type")
        return self.constants["row_kind"], None if types is None else types[0].as_py()


def widened(rows: Sequence[NarrowRows], schema: pa.Schema) -> pa.RecordBatch:
    """The rows as one batch of a schema. One batch for the rows of many small files: an array per column takes as long as rows."""
    given = {name for one in rows for name in one.columns}
    constant = {name for one in rows for name, value in one.constants.items() if value is not None}
    count = sum(one.count for one in rows)
    arrays = []
    for column in schema:
        name, kind = column.name, column.type
        if name in given:
            parts = [_part(one, name, kind) for one in rows]
            arrays.append(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))
        elif name in constant:
            values = (value for one in rows for value in repeat(one.constants.get(name), one.count))
            arrays.append(pa.array(values, kind) if len(rows) > 1 else _part(rows[0], name, kind))
        else:
            arrays.append(_nulls(kind, count))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _part(rows: NarrowRows, name: str, kind: pa.DataType) -> pa.Array:
    """A column of the rows."""
    if name in rows.columns:
        return _array(rows.columns[name], kind)
    value = rows.constants.get(name)
    return _nulls(kind, rows.count) if value is None else pa.repeat(pa.scalar(value, kind), rows.count)


class PendingRows(Protocol):
    """Event rows that wait for `drain`. halves, place: see LineRows."""

    def __len__(self) -> int: ...

    def clear(self) -> None: ...

    def columns(self) -> Columns: ...

    def place(self) -> tuple[object, object]: ...

    def halves(self) -> tuple[PendingRows, PendingRows] | None: ...


@runtime_checkable
class HeldRows(PendingRows, Protocol):
    """Rows of which some become pending only when the range ends."""

    def finish(self) -> None: ...


@cache  # a check against a protocol is slow, and each range makes it
def _are_held(kind: type[PendingRows]) -> bool:
    return issubclass(kind, HeldRows)


class LineRows:
    """Rows of a fixed set of columns, one tuple each."""

    def __init__(self, names: tuple[str, ...], rows: list[Row] | None = None) -> None:
        self.rows = [] if rows is None else rows
        self._names = names

    def __len__(self) -> int:
        return len(self.rows)

    def clear(self) -> None:
        """Remove the rows; the list object remains."""
        self.rows.clear()

    def columns(self) -> Columns:
        """The table's columns that the rows fill."""
        return _transposed(self._names, self.rows)

    def place(self) -> tuple[object, object]:
        """byte_offset and line_in_split of the first row."""
        first = dict(zip(self._names, self.rows[0], strict=True))
        return first["byte_offset"], first["line_in_split"]

    def halves(self) -> tuple[LineRows, LineRows] | None:
        """Two parts of about equal size, cut between lines; None if all rows belong to one line."""
        offset = self._names.index("byte_offset")
        starts = [at for at in range(1, len(self.rows)) if self.rows[at][offset] != self.rows[at - 1][offset]]
        if not starts:
            return None
        middle = starts[len(starts) // 2]
        return LineRows(self._names, self.rows[:middle]), LineRows(self._names, self.rows[middle:])


@dataclass(frozen=True)
class RequestColumns:
    """The columns of an API's rows.

    common: columns that all rows of a request share. finish: makes the events table's columns of them. own: the others.
    """

    event_type: str
    common: tuple[str, ...]
    finish: Callable[[Columns], Columns]
    own: tuple[str, ...]


class RequestRows:
    """Rows of one API's requests. Values that all rows of a request share are stored once, without joining tuples."""

    def __init__(self, kind: RequestColumns) -> None:
        self._kind = kind
        self._requests: list[Row] = []
        self._counts: list[int] = []  # of each request's rows
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, common: Row, rows: Iterable[Row]) -> None:
        """Add a request; one without rows is dropped."""
        found = rows if rows.__class__ is list else list(rows)  # evaluated before anything is stored: it may raise
        if found:
            self._requests.append(common)
            self._counts.append(len(found))
            self._rows += found

    def clear(self) -> None:
        """Remove the rows."""
        for values in (self._requests, self._counts, self._rows):
            values.clear()

    def columns(self) -> Columns:
        """The table's columns that the rows fill; partition_row counts from 0 within each request."""
        count, kind = len(self._rows), self._kind
        common = kind.finish(_transposed(kind.common, self._requests))
        ordinals = pa.repeat(FIRST_ROW, count)
        if len(self._requests) < count:
            first = pa.array([0, *accumulate(self._counts)], pa.int32())
            request = pc.list_parent_indices(pa.ListArray.from_arrays(first, pa.nulls(count)))
            ordinals = pc.subtract(pa.array(range(count), pa.int32()), first.take(request))
            common = {name: _array(values, _TYPES[name]).take(request) for name, values in common.items()}
        own = _transposed(kind.own, self._rows)
        return {**common, **own, "partition_row": ordinals, "event_type": pa.repeat(kind.event_type, count)}

    def place(self) -> tuple[object, object]:
        """byte_offset and line_in_split of the first row."""
        first = dict(zip(self._kind.common, self._requests[0], strict=True))
        return first["byte_offset"], first["line_in_split"]

    def halves(self) -> tuple[RequestRows, RequestRows] | None:
        """Two parts with about the same number of requests; None for a single request."""
        middle = len(self._requests) // 2
        if not middle:
            return None
        ends = [0, *accumulate(self._counts)]
        halves = RequestRows(self._kind), RequestRows(self._kind)
        for number, (common, start, end) in enumerate(zip(self._requests, ends, ends[1:], strict=False)):
            halves[number >= middle].add(common, self._rows[start:end])
        return halves


@dataclass
class RequestCounts:
    """Totals of a request log's range. requests: all requests by API, with and without event rows.

    Of Produce, of which a row is a run of answers: partition_rows, partitions that requests list, by API; error_codes, partitions
    that responses list, by `API:code`.
    """

    requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    partition_rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    error_codes: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class BlockDecoder(LineDecoder, Protocol):
    """A LineDecoder that also takes many lines at once, for formats too large for a call per line.

    `block` gets whole lines with their newlines, the offset of the first line and its number within the range.
    """

    def block(self, data: bytes, byte_offset: int, line_in_split: int) -> BlockTally: ...


@dataclass(frozen=True)
class Wanted:
    """The requested part of the scan: event types and columns, None for all.

    Requests of other APIs are counted, not decoded. Other decoders may give rows of more event types.
    """

    event_types: frozenset[str] | None = None
    columns: frozenset[str] | None = None

    def has(self, event_type: str) -> bool:
        """Events of this type are requested."""
        return self.event_types is None or event_type in self.event_types

    def schema(self) -> pa.Schema:
        """The requested columns of SCAN."""
        return SCAN if self.columns is None else pa.schema([column for column in SCAN if column.name in self.columns])


EVERYTHING: Final = Wanted()


@dataclass(frozen=True)
class Edges:
    """Times across which no run of like rows of Fetch and Produce may extend, in milliseconds.

    everywhere: edges of the runs of all partitions. by_partition: further edges of one partition's runs, by the topic's id, or
    its name where rows have no id, and the partition. margin_ms: rows of different times are in no run together if one of them
    is within this of an edge.
    """

    everywhere: Sequence[int] = ()
    by_partition: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    margin_ms: int = -1


NO_EDGES: Final = Edges()


class RowSink:
    """Collects the rows of one byte range of one file.

    Decoders append tuples to the list that `rows` returns for their column names. The sink adds cluster, node, source,
    file, file_order, gaps_before, newer_missing and split. `drain` empties the lists in place, so a decoder may hold on to one.
    wanted: the requested part of SCAN. compiled: decoders may use compiled code. edges: they may then fold runs of like
    rows between these times (schemas/events.toml, run_rows); None: they must not.
    """

    def __init__(
        self,
        file: CaptureFile,
        split: int,
        wanted: Wanted = EVERYTHING,
        compiled: bool = False,
        edges: Edges | None = None,
    ) -> None:
        self._file = file
        self.wanted = wanted
        self.compiled = compiled
        self.edges = edges
        # one for all logs of a file; compiled code reads the lines of request logs
        self.clock = LogClock(file.time_zone, whole_lines=file.source != "request_log")
        self._source = file.source
        self._pending: dict[tuple[str | None, object], PendingRows] = {}
        self._quarantined: list[Row] = []
        self._statistics: list[Row] = []
        self._identity: dict[str, object] = {
            "cluster": file.cluster,
            "node": file.node,
            "file": file.path,
            "file_order": file.file_order,
            "gaps_before": file.gaps_before or None,
            "newer_missing": file.newer_missing or None,
            "split": split,
        }
        self.event_rows = 0  # drained so far
        self.spoiled_lines = 0  # lines whose rows did not fit the schema and were quarantined
        self.times: tuple[int | None, int | None] = (None, None)  # smallest and largest time_ms drained so far

    def of(self, source: str) -> RowSink:
        """A view of this sink whose rows have another `source` than the file's: a file may hold several logs."""
        view = copy(self)
        view._source = source
        return view

    def rows(self, names: tuple[str, ...]) -> list[Row]:
        """The list for rows of exactly these columns; equal columns give the same list."""
        pending_rows = self._pending.setdefault((self._source, names), LineRows(names))
        return cast(LineRows, pending_rows).rows

    def requests(self, kind: RequestColumns) -> RequestRows:
        """The collector for an API's rows; equal columns give the same collector."""
        return cast(RequestRows, self._pending.setdefault((self._source, kind), RequestRows(kind)))

    def register(self, name: str, pending_rows: PendingRows) -> None:
        """Include these rows in `drain`."""
        self._pending[self._source, name] = pending_rows

    def quarantine(self, byte_offset: int, line: int, reason: str, text: bytes) -> None:
        """Record a bad line. line: its number within the split. reason: a phrase that quotes nothing of the line."""
        shown = text[:TEXT_LIMIT].decode("utf-8", errors="replace").replace("\x00", "\ufffd")
        self._quarantined.append((byte_offset, line, (self._file.kind, reason, shown)))

    def failed(self, error: Exception, byte_offset: int, line: int, text: bytes) -> LineOutcome:
        """Quarantine a line whose decoder raised an unexpected error: a single line must not end the audit."""
        self.quarantine(byte_offset, line, f"its decoder failed: {type(error).__name__}", text)
        return LineOutcome.QUARANTINED

    def statistics(self, byte_offset: int, counts: Sequence[int | None], requests: RequestCounts) -> None:
        """Record the range's totals at its end. counts: in the order of LINES_OF_SPLIT."""
        maps = (sorted(getattr(requests, name).items()) for name in MAPS_OF_SPLIT)
        steps = [(step.latest_ms, step.raised_ms) for step in self.clock.steps]
        self._statistics.append((byte_offset, (self._file.kind, *counts, *maps, steps)))

    @property
    def pending(self) -> int:
        """Rows waiting for `drain`."""
        return sum(map(len, self._pending.values())) + len(self._quarantined) + len(self._statistics)

    def finish(self) -> None:
        """The range ends: rows that decoders still hold become pending."""
        for pending_rows in self._pending.values():
            if _are_held(type(pending_rows)):
                cast(HeldRows, pending_rows).finish()

    def drain(self) -> list[pa.RecordBatch]:
        """All rows since the last call, as batches of the requested columns of SCAN; empties the lists."""
        schema = self.wanted.schema()
        return [widened([rows], schema) for rows in self.drain_narrow()]

    def drain_narrow(self) -> list[NarrowRows]:
        """As `drain`, without the columns that have no value."""
        drained = []
        for (source, _), pending_rows in self._pending.items():
            if pending_rows:
                drained += self._events(pending_rows, source)
                pending_rows.clear()
        for kind, columns, rows in (
            (QUARANTINE_ROW, QUARANTINE_COLUMNS, self._quarantined),
            (SPLIT_ROW, SPLIT_COLUMNS, self._statistics),
        ):
            if rows:
                drained.append(self._narrow(kind, self._file.source, _transposed(columns, rows), len(rows)))
                rows.clear()
        return drained

    def _events(self, pending_rows: PendingRows, source: str | None) -> list[NarrowRows]:
        """The rows as Arrow arrays. Lines with a value that its column can't hold are quarantined instead."""
        requested = _TYPES.keys() if self.wanted.columns is None else self.wanted.columns
        try:
            given = pending_rows.columns().items()
            columns = {name: _array(values, _TYPES[name]) for name, values in given if name in requested}
        except UNFIT_VALUE as error:
            if halves := pending_rows.halves():
                return [rows for half in halves for rows in self._events(half, source)]
            self._quarantined.append((*pending_rows.place(), (self._file.kind, f"unfit value: {error}", None)))
            self.spoiled_lines += 1
            return []
        rows = self._narrow(EVENT_ROW, source, columns, len(pending_rows))
        self.event_rows += _rows_of_runs(rows)
        if "time_ms" in columns:
            self._note_times(columns["time_ms"])
        return [rows]

    def _note_times(self, times: pa.Array) -> None:
        extremes = pc.min_max(times)
        smallest, largest = extremes["min"].as_py(), extremes["max"].as_py()
        if smallest is not None:
            first, last = self.times
            self.times = (
                smallest if first is None else min(first, smallest),
                largest if last is None else max(last, largest),
            )

    def _narrow(self, row_kind: str, source: str | None, columns: Columns, count: int) -> NarrowRows:
        return NarrowRows(count, columns, {**self._identity, "row_kind": row_kind, "source": source})


def _rows_of_runs(rows: NarrowRows) -> int:
    """The number of rows, with those that the last rows of runs stand for."""
    if "run_rows" not in rows.columns:
        return rows.count
    run_rows = rows.columns["run_rows"]
    return int(rows.count + (pc.sum(run_rows).as_py() or 0) - (len(run_rows) - run_rows.null_count))


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    """A slice of a cached column, as thousands of batches share it."""
    return _cached_nulls(kind, -(-count // CACHED_ROWS) * CACHED_ROWS).slice(0, count)


@cache
def _cached_nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


def _array(values: Values, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
