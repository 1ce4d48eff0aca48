"""Where decoders put their rows: tuples by column set in, Arrow record batches of the scan's one wide schema out.

The wide schema (`SCAN`) is the events table without event_id, plus two struct columns: `quarantined` for bad lines and
`statistics` for what a split held. A row is one of three kinds, told by `row_kind`; identity columns are set on all.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable

import pyarrow as pa

from epochaudit.events.schema import arrow_schema

if TYPE_CHECKING:
    from epochaudit.sources.capture import RecordedFile

EVENT_ROW: Final = "event"
QUARANTINE_ROW: Final = "quarantine"
SPLIT_ROW: Final = "split"
QUARANTINE_COLUMNS: Final = ("byte_offset", "line_in_split", "quarantined")
SPLIT_COLUMNS: Final = ("byte_offset", "time_ms", "statistics")
TEXT_LIMIT: Final = 2_000  # bytes of a bad line that the quarantine keeps
LINES_OF_SPLIT: Final = (
    "bytes", "lines", "event_lines", "ignored_lines", "quarantined_lines", "rows", "first_time_ms", "last_time_ms",
)  # fmt: skip


def _scan_schema() -> pa.Schema:
    quarantined = pa.struct([("kind", pa.string()), ("reason", pa.string()), ("text", pa.string())])
    counts = [(name, pa.int64()) for name in LINES_OF_SPLIT]
    statistics = pa.struct([("kind", pa.string()), *counts, ("requests", pa.map_(pa.string(), pa.int64()))])
    events = [field for field in arrow_schema("events") if field.name != "event_id"]
    return pa.schema(
        [
            pa.field("row_kind", pa.string()),
            *events,
            pa.field("quarantined", quarantined),
            pa.field("statistics", statistics),
        ]
    )


SCAN: Final = _scan_schema()


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


@runtime_checkable
class BlockDecoder(LineDecoder, Protocol):
    """A LineDecoder that also takes many lines at once, for formats whose volume makes a call per line too dear.

    `block` gets whole lines with their newlines, the offset of the first and its number within the range.
    """

    def block(self, data: bytes, byte_offset: int, line_in_split: int) -> BlockTally: ...


class RowSink:
    """Collects the rows of one byte range of one file.

    Decoders append tuples to the list that `rows` gives for their column names; cluster, node, source, file, file_order
    and split are added here. Lists are emptied in place by `drain`, so a decoder may keep a list.
    """

    def __init__(self, file: RecordedFile, split: int) -> None:
        self._file = file
        self._lists: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
        self._quarantined: list[tuple[object, ...]] = []
        self._statistics: list[tuple[object, ...]] = []
        self._identity: dict[str, object] = {
            "cluster": file.cluster,
            "node": file.node,
            "source": file.source,
            "file": file.path,
            "file_order": file.file_order,
            "split": split,
        }
        self.event_rows = 0  # drained so far

    def rows(self, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
        """The list that takes rows of exactly these columns; the same columns give the same list."""
        return self._lists.setdefault(columns, [])

    def quarantine(self, byte_offset: int, line: int, reason: str, text: bytes) -> None:
        """Put a bad line aside: `line` is its number within the split, `reason` a sentence without its content."""
        shown = text[:TEXT_LIMIT].decode("utf-8", errors="replace").replace("\x00", "\ufffd")
        self._quarantined.append((byte_offset, line, (self._file.kind, reason, shown)))

    def statistics(self, byte_offset: int, counts: Sequence[int | None], requests: dict[str, int]) -> None:
        """The range's totals, once, at its end; `counts` in the order of LINES_OF_SPLIT."""
        self._statistics.append((byte_offset, counts[-1], (self._file.kind, *counts, sorted(requests.items()))))

    @property
    def pending(self) -> int:
        """Rows waiting for `drain`."""
        return sum(map(len, self._lists.values())) + len(self._quarantined) + len(self._statistics)

    def drain(self) -> list[pa.RecordBatch]:
        """Everything collected since the last call, as batches of SCAN; the lists are empty afterwards."""
        batches = []
        for columns, rows in self._lists.items():
            if rows:
                self.event_rows += len(rows)
                batches.append(self._batch(EVENT_ROW, columns, rows))
        for kind, columns, rows in (
            (QUARANTINE_ROW, QUARANTINE_COLUMNS, self._quarantined),
            (SPLIT_ROW, SPLIT_COLUMNS, self._statistics),
        ):
            if rows:
                batches.append(self._batch(kind, columns, rows))
        return batches

    def _batch(self, row_kind: str, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> pa.RecordBatch:
        count = len(rows)
        given = dict(zip(columns, zip(*rows, strict=True), strict=True))
        rows.clear()
        constants = {**self._identity, "row_kind": row_kind}
        arrays = [
            pa.array(given[field.name], field.type)
            if field.name in given
            else pa.repeat(pa.scalar(constants[field.name], field.type), count)
            if constants.get(field.name) is not None
            else _nulls(field.type, count)
            for field in SCAN
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCAN)


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    """An array of nulls, a slice of one that is kept: most columns of most batches are absent."""
    kept = _NULLS.get(kind)
    if kept is None or len(kept) < count:
        kept = _NULLS[kind] = pa.nulls(max(count, 1 << 14), kind)
    return kept.slice(0, count)


_NULLS: Final[dict[pa.DataType, pa.Array]] = {}
