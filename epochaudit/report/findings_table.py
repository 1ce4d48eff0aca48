"""The listed findings as a table, for spreadsheets (CSV) and data frames (Parquet).

Grain: one row per finding, those that another one caused included. The columns are COLUMNS: those that the warehouse's findings
table has under the same names, the time of the finding's own line, and its acceptance.

pyarrow writes the file on the driver: the report is there, with the recorded lines and what is accepted, after `audit` as after
`report --warehouse`. Findings beyond the report's limit per rule are rows of `epochaudit.audit(...).findings`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from epochaudit.events.schema import ColumnDoc, arrow_field, columns
from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding
from epochaudit.report.contents import Report
from epochaudit.report.neutral import neutral
from epochaudit.rules.messages import stated_topic_id

OF_RUNS: Final = frozenset({"state", "first_run_id", "first_seen", "last_run_id", "last_seen", "history"})
OWN: Final = (
    ColumnDoc(
        "known_since",
        "string",
        "When an earlier run over the warehouse first reported it, ISO 8601; null if none did.",
        None,
        False,
    ),
    ColumnDoc("time", "string", "When the finding's own line was written, ISO 8601, by its node's clock.", None, False),
    ColumnDoc("accepted_reason", "string", "Why the finding is accepted; null if it is not.", None, False),
    ColumnDoc("accepted_owner", "string", "Who accepts it.", None, False),
    ColumnDoc("accepted_expires", "date", "The last day on which it is accepted.", None, False),
)
COLUMNS: Final = (*(column for column in columns("findings") if column.name not in OF_RUNS), *OWN)
FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # ASCII, and as wide characters
BETWEEN: Final = "; "  # elements of a list, in one cell of CSV


def render_parquet(report: Report) -> bytes:
    """A Parquet file. Field metadata `description` holds what a column means. Text is as recorded."""
    schema = pa.schema([arrow_field(column).with_metadata({"description": column.doc}) for column in COLUMNS])
    table = pa.Table.from_pylist([_encodable(row) for row in _rows(report)], schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def render_csv(report: Report) -> str:
    """CSV (RFC 4180, lines end in a newline) with a header. Null is an empty cell.

    Lists are one cell: sentences, and of the evidence each line as `role: file:line`. No text that comes from logs is a formula
    for a spreadsheet: one that would be begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in COLUMNS)
    for row in _rows(report):
        writer.writerow(_cell(row[column.name]) for column in COLUMNS)
    return text.getvalue()


def _rows(report: Report) -> Iterator[dict[str, Any]]:
    for root in report.findings:
        for one in (root, *root.consequences):
            yield {column.name: _value(column.name, one, root, report) for column in COLUMNS}


def _value(name: str, finding: Finding, root: Finding, report: Report) -> Any:
    accepted = report.accepted.get(finding.finding_id)
    if name.startswith("accepted_"):
        return accepted and getattr(accepted, name.removeprefix("accepted_"))
    if name == "known_since":
        return report.known.get(finding.finding_id)
    if name == "caused_by":
        return None if finding is root else root.finding_id
    if name == "topic_id":
        return stated_topic_id(finding.topic_id)
    return getattr(finding, name)


def _cell(value: Any) -> Any:
    """Numbers as they are: a negative one is no formula."""
    if isinstance(value, tuple):
        value = BETWEEN.join(_place(one) if isinstance(one, Evidence) else one for one in value)
    if not isinstance(value, str):
        return value
    text = neutral(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def _place(line: Evidence) -> str:
    return f"{line.role}: {line.file}:{f'byte {line.byte_offset}' if line.line is None else line.line}"


def _encodable(value: Any) -> Any:
    """The value as Arrow takes it; a lone surrogate, which UTF-8 can't hold, as its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Evidence):
        return _encodable(asdict(value))
    if isinstance(value, Mapping):
        return {name: _encodable(one) for name, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, tuple) else value
