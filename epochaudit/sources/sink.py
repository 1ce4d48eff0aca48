"""Where decoders put their rows: tuples by column set in, Arrow record batches of the scan's one wide schema out.

The wide schema (`SCAN`) is the events table without event_id, plus two struct columns: `quarantined` for bad lines and
`statistics` for what a split held. A row is one of three kinds, told by `row_kind`; identity columns are set on all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Protocol, cast, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from epochaudit.events.schema import spark_schema
from epochaudit.sources.log_time import LogClock

if TYPE_CHECKING:
    from epochaudit.sources.capture import RecordedFile

EVENT_ROW: Final = "event"
QUARANTINE_ROW: Final = "quarantine"
SPLIT_ROW: Final = "split"
ROW_KINDS: Final = {kind: pa.scalar(kind) for kind in (EVENT_ROW, QUARANTINE_ROW, SPLIT_ROW)}
QUARANTINE_COLUMNS: Final = ("byte_offset", "line_in_split", "quarantined")
SPLIT_COLUMNS: Final = ("byte_offset", "statistics")
UNFIT: Final = (pa.ArrowException, OverflowError, UnicodeError, TypeError)
TEXT_LIMIT: Final = 2_000  # bytes of a bad line that the quarantine keeps
LINES_OF_SPLIT: Final = (
    "bytes", "lines", "event_lines", "ignored_lines", "quarantined_lines", "rows", "first_time_ms", "last_time_ms",
)  # fmt: skip


MAPS_OF_SPLIT: Final = ("requests", "partition_rows", "error_codes")
STEP: Final = StructType([StructField("latest_ms", LongType()), StructField("lost_ms", LongType())])


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
ROW_KIND: Final = 0
KEPT: Final = 1 << 12  # rows of the constant columns that are kept
FIRST_ROW: Final = pa.scalar(0, pa.int32())
_TYPES: Final = {column.name: column.type for column in SCAN}


class LineOutcome(IntEnum):
    """What became of a line: at least one event row, nothing to tell, or a row in quarantine."""

    EVENT = 0
    IGNORED = 1
    QUARANTINED = 2


class LineDecoder(Protocol):
    """Decodes the lines of one byte range of one file, in order; appends rows to the sink.

    `kind` is the recorded format. `splittable` says that a line can be understood without the lines before it. `line`
    gets the text without its newline, its offset in the decompressed file and its number within the range, from 1.
    """

    kind: ClassVar[str]
    splittable: ClassVar[bool]

    def __init__(self, file: RecordedFile, sink: RowSink) -> None: ...

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome: ...


BlockTally = tuple[int, int, int]  # lines that gave events, were ignored, were quarantined


class StreamDecoder(Protocol):
    """Decodes a binary format, whose "lines" are its records.

    `read` yields after each batch of records the bytes that were consumed and what became of its records; the caller
    drains the sink in between.
    """

    kind: ClassVar[str]

    def __init__(self, file: RecordedFile, sink: RowSink) -> None: ...

    def read(self, stream: BinaryIO) -> Iterator[tuple[int, BlockTally]]: ...


Values = Any  # a column: a sequence of Python values or an Arrow array
Columns = dict[str, Values]  # by name
Row = tuple[object, ...]


def _transposed(names: tuple[str, ...], rows: list[Row]) -> Columns:
    return dict(zip(names, zip(*rows, strict=True), strict=bool(rows)))


class Kept(Protocol):
    """Rows of events that wait for `drain`. halves, place: see LineRows."""

    def __len__(self) -> int: ...

    def clear(self) -> None: ...

    def columns(self) -> Columns: ...

    def place(self) -> tuple[object, object]: ...

    def halves(self) -> tuple[Kept, Kept] | None: ...


class LineRows:
    """Rows of exactly some columns, one tuple each."""

    def __init__(self, names: tuple[str, ...], rows: list[Row] | None = None) -> None:
        self.rows = [] if rows is None else rows
        self._names = names

    def __len__(self) -> int:
        return len(self.rows)

    def clear(self) -> None:
        """Forget the rows; the list stays the same."""
        self.rows.clear()

    def columns(self) -> Columns:
        """The table's columns that the rows fill."""
        return _transposed(self._names, self.rows)

    def place(self) -> tuple[object, object]:
        """byte_offset and line_in_split of the first row."""
        first = dict(zip(self._names, self.rows[0], strict=True))
        return first["byte_offset"], first["line_in_split"]

    def halves(self) -> tuple[LineRows, LineRows] | None:
        """Two about equal parts with whole lines; None if all rows are of one line."""
        offset = self._names.index("byte_offset")
        starts = [at for at in range(1, len(self.rows)) if self.rows[at][offset] != self.rows[at - 1][offset]]
        if not starts:
            return None
        middle = starts[len(starts) // 2]
        return LineRows(self._names, self.rows[:middle]), LineRows(self._names, self.rows[middle:])


@dataclass(frozen=True)
class RequestColumns:
    """The columns of an API's rows. common: of what all rows of a request share; finish: makes the table's columns of
    these. own: of the rest.
    """

    event_type: str
    common: tuple[str, ...]
    finish: Callable[[Columns], Columns]
    own: tuple[str, ...]


class RequestRows:
    """Rows of the requests of one API: what all rows of a request share is told once, and no tuple is made of two."""

    def __init__(self, kind: RequestColumns) -> None:
        self._kind = kind
        self._requests: list[Row] = []
        self._counts: list[int] = []  # of each request's rows
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, common: Row, rows: Iterable[Row]) -> None:
        """One line's request; without rows it leaves no trace."""
        found = rows if rows.__class__ is list else list(rows)  # whole, before anything is kept
        if found:
            self._requests.append(common)
            self._counts.append(len(found))
            self._rows += found

    def clear(self) -> None:
        """Forget the rows."""
        for kept in (self._requests, self._counts, self._rows):
            kept.clear()

    def columns(self) -> Columns:
        """The table's columns that the rows fill; partition_row is counted from the request's first."""
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
        """Two parts with about as many requests; None if there is one request."""
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
    """What a request log's range holds beside event rows: all requests by API, and the partitions of Produce.

    partition_rows: partitions that requests list, by API. error_codes: partitions that responses list, by `API:code`.
    """

    requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    partition_rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    error_codes: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@runtime_checkable
class BlockDecoder(LineDecoder, Protocol):
    """A LineDecoder that also takes many lines at once, for formats whose volume makes a call per line too dear.

    `block` gets whole lines with their newlines, the offset of the first and its number within the range.
    """

    def block(self, data: bytes, byte_offset: int, line_in_split: int) -> BlockTally: ...


@dataclass(frozen=True)
class Wanted:
    """What of the scan is asked for: all, or events of some types and some of their columns.

    Requests of other APIs are counted, not decoded; what other lines give may be more than is wanted.
    """

    event_types: frozenset[str] | None = None
    columns: frozenset[str] | None = None

    def has(self, event_type: str) -> bool:
        """Events of this type are wanted."""
        return self.event_types is None or event_type in self.event_types

    def schema(self) -> pa.Schema:
        """The wanted part of SCAN."""
        return SCAN if self.columns is None else pa.schema([column for column in SCAN if column.name in self.columns])


EVERYTHING: Final = Wanted()


class RowSink:
    """Collects the rows of one byte range of one file.

    Decoders append tuples to the list that `rows` gives for their column names; cluster, node, source, file, file_order
    and split are added here. `compiled`: compiled code may be used. Lists are emptied in place by `drain`, so a decoder may keep a list.
    """

    def __init__(self, file: RecordedFile, split: int, wanted: Wanted = EVERYTHING, compiled: bool = False) -> None:
        self._file = file
        self.wanted = wanted
        self.compiled = compiled
        self._schema = wanted.schema()
        self._types = tuple((column.name, column.type) for column in self._schema)
        self.clock = LogClock(file.time_zone)  # one for all logs of a file
        self._source = file.source
        self._kept: dict[tuple[str | None, object], Kept] = {}
        self._constants: dict[tuple[str, object], pa.Array] = {}
        self._quarantined: list[Row] = []
        self._statistics: list[Row] = []
        self._identity: dict[str, object] = {
            "cluster": file.cluster,
            "node": file.node,
            "file": file.path,
            "file_order": file.file_order,
            "split": split,
        }
        self.event_rows = 0  # drained so far
        self.spoiled_lines = 0  # whose rows could not be kept and were quarantined instead
        self.times: tuple[int | None, int | None] = (None, None)  # smallest and largest time_ms drained so far

    def of(self, source: str) -> RowSink:
        """This sink for a decoder whose rows have another `source` than the file's: one file may hold several logs."""
        view = copy(self)
        view._source = source
        return view

    def rows(self, names: tuple[str, ...]) -> list[Row]:
        """The list that takes rows of exactly these columns; the same columns give the same list."""
        kept = self._kept.setdefault((self._source, names), LineRows(names))
        return cast(LineRows, kept).rows

    def requests(self, kind: RequestColumns) -> RequestRows:
        """What takes the rows of an API's requests; the same columns give the same."""
        return cast(RequestRows, self._kept.setdefault((self._source, kind), RequestRows(kind)))

    def keep(self, name: str, kept: Kept) -> None:
        """Drain these rows too."""
        self._kept[self._source, name] = kept

    def quarantine(self, byte_offset: int, line: int, reason: str, text: bytes) -> None:
        """Put a bad line aside: `line` is its number within the split, `reason` a sentence without its content."""
        shown = text[:TEXT_LIMIT].decode("utf-8", errors="replace").replace("\x00", "\ufffd")
        self._quarantined.append((byte_offset, line, (self._file.kind, reason, shown)))

    def failed(self, error: Exception, byte_offset: int, line: int, text: bytes) -> LineOutcome:
        """Quarantine a line that its decoder raised for: one line that nobody thought of must not end the audit."""
        self.quarantine(byte_offset, line, f"its decoder failed: {type(error).__name__}", text)
        return LineOutcome.QUARANTINED

    def statistics(self, byte_offset: int, counts: Sequence[int | None], requests: RequestCounts) -> None:
        """The range's totals, once, at its end; `counts` in the order of LINES_OF_SPLIT."""
        maps = (sorted(getattr(requests, name).items()) for name in MAPS_OF_SPLIT)
        steps = [(step.latest_ms, step.lost_ms) for step in self.clock.steps]
        self._statistics.append((byte_offset, (self._file.kind, *counts, *maps, steps)))

    @property
    def pending(self) -> int:
        """Rows waiting for `drain`."""
        return sum(map(len, self._kept.values())) + len(self._quarantined) + len(self._statistics)

    def drain(self) -> list[pa.RecordBatch]:
        """Everything collected since the last call, as batches of SCAN; the lists are empty afterwards."""
        batches = []
        for (source, _), kept in self._kept.items():
            if kept:
                self._identity["source"] = source
                batches += self._event_batches(kept)
                kept.clear()
        self._identity["source"] = self._file.source
        for kind, columns, rows in (
            (QUARANTINE_ROW, QUARANTINE_COLUMNS, self._quarantined),
            (SPLIT_ROW, SPLIT_COLUMNS, self._statistics),
        ):
            if rows:
                batches.append(self._batch(kind, _transposed(columns, rows), len(rows)))
                rows.clear()
        return batches

    def _event_batches(self, kept: Kept) -> list[pa.RecordBatch]:
        """The rows, less those of lines with a value that its column can't hold: they are quarantined."""
        try:
            batch = self._batch(EVENT_ROW, kept.columns(), len(kept))
        except UNFIT as error:
            if halves := kept.halves():
                return [batch for half in halves for batch in self._event_batches(half)]
            self._quarantined.append((*kept.place(), (self._file.kind, f"unfit value: {error}", None)))
            self.spoiled_lines += 1
            return []
        self.event_rows += batch.num_rows
        if "time_ms" in batch.schema.names:
            self._note_times(batch.column("time_ms"))
        return [batch]

    def _note_times(self, times: pa.Array) -> None:
        extremes = pc.min_max(times)
        least, most = extremes["min"].as_py(), extremes["max"].as_py()
        if least is not None:
            first, last = self.times
            self.times = (least if first is None else min(first, least), most if last is None else max(last, most))

    def _constant(self, name: str, kind: pa.DataType, count: int) -> pa.Array:
        """A column that is the same in all rows, most often null: a slice of one that is kept."""
        value = self._identity.get(name)
        if value is None:
            return _nulls(kind, -(-count // KEPT) * KEPT).slice(0, count)
        kept = self._constants.get((name, value))
        if kept is None or len(kept) < count:
            kept = self._constants[name, value] = pa.repeat(pa.scalar(value, kind), count)
        return kept.slice(0, count)

    def _batch(self, row_kind: str, given: Columns, count: int) -> pa.RecordBatch:
        arrays = [
            _array(given[name], kind) if name in given else self._constant(name, kind, count)
            for name, kind in self._types
        ]
        arrays[ROW_KIND] = pa.repeat(ROW_KINDS[row_kind], count)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


@cache
def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    """One for the columns of all files, of which there may be thousands."""
    return pa.nulls(count, kind)


def _array(values: Values, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
