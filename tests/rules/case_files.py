"""Reads the specification cases: Markdown files with tables of events and the verdicts they must give.

A case is a `## heading`, prose, one table of events and a list of verdicts:

    | # | event_type | topic | partition | leader_epoch | error_code |
    |---|---|---|---|---|---|
    | r1 | STOP_REPLICA | t | 0 | 3 | 0 |

    - SR-01 violation at r1: reason, if the rule gives one
      expected: leader epoch 4 or above
      observed: leader epoch 3 was accepted
      because: the broker's leader epoch was 4
      severity: high
      lost: 4 to 9
      line r1: the StopReplica and its answer

Columns are those of schemas/events.toml, `#` is the label; the second row with the label f is f-2. A blank cell is null, or what most
rows have (`_event`), and `null` always null. The list holds every verdict that the rule gives in the case, each with the sentences
that the report prints beside it: they are there to be read, as each must be true of the case. A breach has its severity, if it is not
the rule's own, the offsets of the lost records, if the rule states them, and each line of its evidence.
`python -m tests.rules SR-01 …` writes the sentences of these rules, or of all, into their files, and the reasons that they lack.
Rows are a second apart; a request arrives a second before it is logged. Each case becomes a cluster of its own, so that all
cases are judged in one run. batch_digests are written as `0-9:7 10-99x5:8`: offsets, how many batches if there are several, and
the digest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from pyspark.sql.types import ArrayType, BooleanType, DataType, IntegerType, StringType, StructType

from epochaudit.events.event_types import LOG_BATCHES, TRANSACTION_MARKER
from epochaudit.sources.server_log.messages import EVENT_TYPES

NULL = "null"  # instead of what a blank cell stands for, as the answer 0 of a request

_VERDICT = re.compile(r"^- (?P<rule>[A-Z]+-\d+) (?P<verdict>\w+)(?: at (?P<label>[\w.-]+))?(?:: (?P<reason>.+))?$")
_SENTENCE = re.compile(r"^  (?:expected|observed|because|severity|lost|line [\w.?-]+): ")
_LARGEST_INT = 2**31 - 1
_SERVER_LOG = EVENT_TYPES - {"LEADER_STARTS"}  # a line of state-change.log from 2.6 on
_REQUESTS = (
    "LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA", "ALTER_PARTITION", "FETCH", "PRODUCE", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH",
    "OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_FETCH", "METADATA", "BROKER_REGISTRATION", "BROKER_HEARTBEAT",
    "CONTROLLED_SHUTDOWN", "ASSIGN_REPLICAS_TO_DIRS",
    "JOIN_GROUP", "SYNC_GROUP", "CREATE_TOPICS", "DELETE_TOPICS", "DELETE_RECORDS", "ELECT_LEADERS", "ALTER_CONFIGS",
    "INCREMENTAL_ALTER_CONFIGS", "CONSUMER_GROUP_HEARTBEAT",
    "INIT_PRODUCER_ID", "ALLOCATE_PRODUCER_IDS", "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN", "END_TXN", "WRITE_TXN_MARKERS",
    "INITIALIZE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE", "WRITE_SHARE_GROUP_STATE", "DELETE_SHARE_GROUP_STATE", "SHARE_FETCH",
    "SHARE_ACKNOWLEDGE", "VOTE", "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH", "FETCH_SNAPSHOT",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Expected:
    """One verdict that a case demands; `label` is that of the subject's event, `reason` only where the case gives it.

    sentences: the lines `expected: …`, `observed: …` and `because: …` that the report prints beside the verdict, then those of
    severity, lost offsets and evidence.
    """

    rule: str
    verdict: str
    label: str
    reason: str = ""
    sentences: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """Which verdict at which event."""
        return self.rule, self.verdict, self.label


@dataclass(frozen=True)
class Case:
    """One case: `cluster` is its unique name, `events` its rows in the schema's order, `labels` byte offset -> label.

    `rule` is the name of its file: the rule that it specifies, or the bug whose history it is.
    """

    cluster: str
    rule: str
    events: tuple[tuple[Any, ...], ...]
    labels: dict[tuple[str, int], str]
    expected: tuple[Expected, ...]


def read_cases(folder: Path, schema: StructType, files: str = "*/*.md") -> Iterator[Case]:
    """All cases of all `<family>/<RULE-ID>.md` below the folder, or of other files in it."""
    for path in sorted(folder.glob(files)):
        for heading, body in sections(path.read_text()):
            yield case_of(path.stem, heading, body, schema)


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """The headings of a file, each with the lines below it."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, *body = section.splitlines()
        yield heading.strip(), body


def table_of(body: list[str]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a section's table."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in body if line.lstrip().startswith("|")
    ]
    return rows[0], rows[2:]


def table_lines(header: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table, as `table_of` reads them."""
    return [f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |") for row in (header, *rows)]


def case_of(rule: str, heading: str, body: list[str], schema: StructType) -> Case:
    """The case of a section. Raises ValueError, also for a value that its column cannot have."""
    cluster = f"{rule} {heading}"
    header, rows = table_of(body)
    if unknown := set(header) - {"#"} - set(schema.names):
        raise ValueError(f"{cluster}: no such column {', '.join(sorted(unknown))}")
    events, labels, count = [], {}, Counter[str]()
    for number, cells in enumerate(rows, 1):
        if len(cells) != len(header):
            raise ValueError(f"{cluster}: row {number} has {len(cells)} cells, the header {len(header)}")
        event = _event(dict(zip(header, cells, strict=True)), number, cluster, schema)
        label = cells[header.index("#")]
        count[label] += 1
        labels[event["file"], event["byte_offset"]] = label if count[label] == 1 else f"{label}-{count[label]}"
        events.append(tuple(event[name] for name in schema.names))
    _check_end(cluster, body)
    return Case(cluster, rule, tuple(events), labels, tuple(_expected(body)))


def _check_end(cluster: str, body: list[str]) -> None:
    """Nothing follows the verdicts but their sentences: what is pasted there would be read by nobody."""
    first = next((number for number, line in enumerate(body) if _VERDICT.match(line)), len(body))
    for line in body[first:]:
        if line.strip() and not _VERDICT.match(line) and not _SENTENCE.match(line):
            raise ValueError(f"{cluster}: {line!r} among the verdicts")


def _expected(body: list[str]) -> Iterator[Expected]:
    for number, line in enumerate(body):
        if m := _VERDICT.match(line):
            sentences = takewhile(_SENTENCE.match, body[number + 1 :])
            yield Expected(
                m["rule"], m["verdict"], m["label"] or "", m["reason"] or "", tuple(one.strip() for one in sentences)
            )


def with_sentences(text: str, rule: str, given: Mapping[str, list[Expected]]) -> str:
    """The file's text with what was given with each verdict of the rule: the reason, if it has none, and beneath it the sentences.

    given: by the case's name.
    """
    lines, left = [], []
    for line in text.splitlines():
        if line.startswith("## "):
            left = sorted(given[f"{rule} {line[3:].strip()}"])
        if left and _SENTENCE.match(line):
            continue
        lines.append(line)
        if (m := _VERDICT.match(line)) and m["rule"] == rule:
            key = (m["rule"], m["verdict"], m["label"] or "")
            one = next((one for one in left if one.key == key), None)
            if one is None:
                raise ValueError(f"{line.strip()}: the rule gives no such verdict, but {[other.key for other in left]}")
            left.remove(one)
            if one.reason and not m["reason"]:
                lines[-1] += f": {one.reason}"
            lines += (f"  {sentence}" for sentence in one.sentences)
            left = left or [one]
    return "\n".join(lines) + "\n"


def _event(cells: dict[str, str], number: int, cluster: str, schema: StructType) -> dict[str, Any]:
    given = {
        f.name: _value(cells[f.name], f.dataType) for f in schema.fields if cells.get(f.name, NULL) not in ("", NULL)
    }
    event: dict[str, Any] = dict.fromkeys(schema.names)
    source = _source(cells["event_type"])
    event |= {
        "event_id": number, "cluster": cluster, "node": None if source == "metadata_log" else 1, "source": source,
        "file_order": 0, "byte_offset": number * 100, "split": 0, "line_in_split": number, "partition_row": 0,
        "time_ms": number * 1000,
    }  # fmt: skip
    if source == "request_log":
        event |= {"request_error_code": 0, "in_request": True, "in_response": True}
    event |= given | {name: None for name, cell in cells.items() if cell == NULL}
    if source == "request_log" and event["arrival_ms"] is None:
        event["arrival_ms"] = event["time_ms"] - 1000
    for digest in event["batch_digests"] or ():
        digest["byte_offset"] = event["byte_offset"]  # so that a place in the run has the row's label
    event["file"] = event["file"] or f"node-{event['node']}/{source}"
    return event


def _source(event_type: str) -> str:
    if event_type in _REQUESTS:
        return "request_log"
    if event_type in _SERVER_LOG:
        return "server_log"
    if event_type in (LOG_BATCHES, TRANSACTION_MARKER):
        return "log_segment"
    of_log = event_type.endswith("_RECORD") or event_type.startswith(("LEADER_CHANGE", "KRAFT_", "UNKNOWN_RECORD_"))
    return "metadata_log" if of_log else "state_change_log"


def _value(cell: str, kind: DataType) -> Any:
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        return [_digest(item) for item in cell.split()]
    if isinstance(kind, ArrayType):
        return [_value(item.strip(), kind.elementType) for item in cell.strip("[]").split(",") if item.strip()]
    if isinstance(kind, StringType):
        return cell
    if isinstance(kind, BooleanType):
        return {"true": True, "false": False}[cell]
    if isinstance(kind, IntegerType) and abs(int(cell)) > _LARGEST_INT:
        raise ValueError(f"{cell} is no 32-bit number")
    return int(cell)


def _digest(item: str) -> dict[str, int]:
    offsets, digest = item.split(":")
    offsets, _, batches = offsets.partition("x")
    base, last = map(int, offsets.split("-"))
    return {"base_offset": base, "last_offset": last, "batches": int(batches or 1), "digest": int(digest)}
