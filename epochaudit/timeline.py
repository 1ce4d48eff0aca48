"""Everything recorded about one partition, merged over all nodes, as somebody reads it who looks into a finding.

What can be known of the order: the lines of one host are in its own order. Leader epochs order the hosts against each
other: each row stands under the newest leader epoch that its host had stated by then. Beyond that only printed times
put a row of one host before another's, which proves nothing.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from epochaudit.auditing import reading
from epochaudit.evidence import LineNumbers, iso_time
from epochaudit.hosts import (
    CLIENT_LOG,
    Event,
    by_host,
    host_of,
    ids_in_order,
    ids_of_copies,
    is_of_topic,
    topics_told,
)
from epochaudit.replay.kept import release
from epochaudit.replay.metadata_log import SOURCE as METADATA_LOG
from epochaudit.replay.partition_history import partition_history, recorded_partitions, topic_ids
from epochaudit.sources.clock_steps import corrected, corrections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from epochaudit.sources.capture import Capture

SPLIT_COLUMNS: Final = ("cluster", "node", "file", "split", "lines", "clock_steps")
CHECKPOINT: Final = "checkpoint"
MOST_ROWS: Final = 50_000  # of one partition; beyond that nobody reads on, and the driver has to hold them
NEAR: Final = 5  # partitions that are named instead of an unknown one

Place = tuple[str, str]  # cluster and file

# What tells that a host holds a leader epoch, or its metadata do. Requests of these only if they were accepted.
_INSTALLS: Final = frozenset({
    "LEADER_STARTS", "FOLLOWER_STARTS", "LEADER_AND_ISR_SKIPPED", "PARTITION_STATE_CHANGED", "LEADER_EPOCH_UPDATED",
    "UNCLEAN_ELECTION", "PARTITION_REPLAYED", "PARTITION_CHANGE_REPLAYED", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD",
    "LEADER_AND_ISR", "UPDATE_METADATA", "CLIENT_EPOCH_SEEN",
})  # fmt: skip


class TimelineError(Exception):
    """The timeline can't be made as asked; the message says what is there."""


@dataclass(frozen=True)
class Row:
    """Something recorded about the partition, or a run of like requests.

    event: the row of `epochaudit.replay.partition_history`. host: who wrote the line: `node 2`, `client c` or `metadata
    log`. time, until: of the first and the last line, as the host's clock had it. leader_epoch: the newest that the host
    had stated by then, None if it had stated none. stated_epoch: the one that the row itself is about, if any.
    line, last_line: numbers in their files, None where they are not known. ordered: the row before it, in its section, is of
    the same host, so that their order is certain.
    """

    event: Event
    host: str
    time: str | None
    until: str | None
    leader_epoch: int | None
    stated_epoch: int | None
    line: int | None
    last_line: int | None
    ordered: bool = False


@dataclass(frozen=True)
class Section:
    """What hosts recorded while a leader epoch was the newest that they had stated; `leader_epoch` None: before any.

    leaders: those that its rows name; start_offset: where its leader says that it begins, if one does.
    """

    leader_epoch: int | None
    rows: tuple[Row, ...]
    leaders: tuple[int, ...] = ()
    start_offset: int | None = None


@dataclass(frozen=True)
class Life:
    """One topic of the name, from its creation to its deletion.

    topic_id: None if nothing states one; told: whether it is known which topic of the name the rows are about.
    sections: by leader epoch, rising. silent: rows of hosts that state no leader epoch at all. undated: copies of state
    files, which tell no time.
    """

    cluster: str
    topic_id: str | None
    told: bool
    sections: tuple[Section, ...]
    silent: tuple[Row, ...]
    undated: tuple[Row, ...]


@dataclass(frozen=True)
class Timeline:
    """The lives of a partition, in order. left_out: rows beyond MOST_ROWS are missing."""

    topic: str
    partition: int
    lives: tuple[Life, ...]
    left_out: bool = False


@dataclass(frozen=True)
class Recorded:
    """Events and what their line numbers and times need.

    events: the table of schemas/events.toml. splits: rows of schemas/splits.toml with SPLIT_COLUMNS. zoned: the files whose
    times have a zone, by cluster and path.
    """

    events: DataFrame
    splits: Sequence[Mapping[str, Any]]
    zoned: Collection[Place] = field(default_factory=frozenset)

    @classmethod
    def of(cls, events: DataFrame, splits: DataFrame, zoned: Collection[Place]) -> Recorded:
        """Of the two tables. Times of a node whose clock was set back are brought to one clock, as an audit does."""
        rows = [row.asDict(recursive=True) for row in splits.select(*SPLIT_COLUMNS).collect()]
        if any(row["clock_steps"] for row in rows):
            events = corrected(events, corrections(rows))
        return cls(events, rows, zoned)


def recorded_in(spark: SparkSession, captures: Sequence[Capture]) -> Recorded:
    """What captures hold. Their logs are read once, by plain tasks, as an audit reads them."""
    read = reading(spark, captures)
    zoned = {(file.cluster, file.path) for capture in captures for file in capture.files if file.time_zone is not None}
    return Recorded.of(read.events, read.splits, zoned)


def subject_of(text: str) -> tuple[str, int]:
    """`orders-eu-3` as topic and partition. Raises TimelineError."""
    topic, dash, partition = text.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()) or len(partition) > 9:
        raise TimelineError(f"{text!r} is not TOPIC-PARTITION; write for example orders-3")
    return topic, int(partition)


def timeline(recorded: Recorded, topic: str, partition: int) -> Timeline:
    """The timeline of a partition: two small jobs over the events. Raises TimelineError if nothing names the partition."""
    clusters = topic_ids(recorded.events, topic).collect()
    ids = sorted({id for row in clusters for id in row["topic_ids"] or ()})
    has_log = any(row["has_log"] for row in clusters)
    history = partition_history(recorded.events, topic, ids, partition, has_log=has_log)
    order = [F.col(name).asc_nulls_first() for name in ("time_ms", "file", "byte_offset", "partition_row")]
    rows = history.orderBy(*order).limit(MOST_ROWS + 1).toArrow().to_pylist()
    release(recorded.events)
    if not any(row["partition"] == partition for row in rows):
        raise TimelineError(_unknown(recorded.events, topic, partition))
    return Timeline(topic, partition, tuple(lives_of(rows[:MOST_ROWS], recorded)), len(rows) > MOST_ROWS)


def narrowed(
    found: Timeline, epochs: Collection[int] = (), since: str | None = None, until: str | None = None
) -> Timeline:
    """The rows under or about some leader epochs, and of a time as the hosts printed it (ISO 8601, or the beginning of it).

    Raises TimelineError if there are none.
    """

    def wanted(row: Row) -> bool:
        if epochs and row.leader_epoch not in epochs and row.stated_epoch not in epochs:
            return False
        first, last = row.time or "", row.until or row.time or ""
        return (since is None or last >= since) and (until is None or first[: len(until)] <= until)

    def narrow(rows: Iterable[Row]) -> tuple[Row, ...]:
        return tuple(_marked([row for row in rows if wanted(row)]))

    def narrowed_life(life: Life) -> Life:
        sections = (replace(section, rows=narrow(section.rows)) for section in life.sections)
        undated = narrow(life.undated) if since is None and until is None else ()
        return replace(life, sections=tuple(s for s in sections if s.rows), silent=narrow(life.silent), undated=undated)

    lives = tuple(life for life in map(narrowed_life, found.lives) if life.sections or life.silent or life.undated)
    if not lives:
        there = sorted({s.leader_epoch for life in found.lives for s in life.sections if s.leader_epoch is not None})
        times = sorted(row.time for life in found.lives for s in life.sections for row in s.rows if row.time)
        spans = f"times from {times[0]} to {times[-1]}" if times else "no times"
        raise TimelineError(f"nothing is left of it; there are leader epochs {', '.join(map(str, there))} and {spans}")
    return replace(found, lives=lives)


def _unknown(events: DataFrame, topic: str, partition: int) -> str:
    there: dict[str, set[int]] = defaultdict(set)
    for row in recorded_partitions(events).collect():
        there[row["topic"]].update(() if row["partition"] is None else (row["partition"],))
    asked = f"{topic}-{partition}"
    if there.get(topic):
        listed = ", ".join(f"{topic}-{number}" for number in sorted(there[topic])[:NEAR])
        return f"nothing is recorded about {asked}; of {len(there[topic])} partitions of the topic there are {listed}"
    known = {f"{name}-{number}" for name, numbers in there.items() for number in numbers}
    near = get_close_matches(asked, known, NEAR) or sorted(known)[:NEAR]
    hint = f"did you mean {', '.join(near)}?" if near else "no line names any partition"
    return f"nothing is recorded about {asked}: {hint}"


def lives_of(rows: Iterable[Event], recorded: Recorded) -> Iterator[Life]:
    """The topics of the name, of each cluster in order. `rows` are those of `partition_history`, as dicts."""
    by_cluster: dict[str, list[Event]] = defaultdict(list)
    for row in rows:
        by_cluster[row["cluster"]].append(row)
    numbers = LineNumbers({(s["cluster"], s["file"], s["split"]): s["lines"] for s in recorded.splits})
    zoned = frozenset(recorded.zoned)

    def made(event: Event, epoch: int | None, stated: int | None) -> Row:
        return _row(event, epoch, stated, numbers, (event["cluster"], event["file"]) in zoned)

    for cluster in sorted(by_cluster):
        hosts = by_host(row for row in by_cluster[cluster] if row["source"] != CHECKPOINT)
        copies = [row for row in by_cluster[cluster] if row["source"] == CHECKPOINT]
        stated = {host: [event["topic_id"] for event in events] for host, events in hosts.items()}
        own = ids_of_copies(copies)
        ids = ids_in_order({id for id in chain(own, *stated.values()) if id is not None}, stated)
        told = {host: topics_told(events, ids) for host, events in hosts.items()}
        if len(ids) == 1:
            own = [ids[0]] * len(copies)
        for id in [*ids, None] if len(ids) != 1 else ids:
            of_id = {host: _of(id, events, told[host]) for host, events in hosts.items()}
            life = _life(cluster, id, id is not None or not ids, of_id, _of(id, copies, own), made)
            if life.sections or life.silent or life.undated:
                yield life


def _of(topic_id: str | None, events: Iterable[Event], told: Iterable[str | None]) -> list[Event]:
    return [event for event, id in zip(events, told, strict=True) if id == topic_id]


# Leader epochs


def _life(
    cluster: str,
    topic_id: str | None,
    told: bool,
    hosts: Mapping[str, Sequence[Event]],
    copies: Iterable[Event],
    made: Callable[[Event, int | None, int | None], Row],
) -> Life:
    by_epoch: dict[int | None, list[list[Row]]] = defaultdict(list)
    silent: list[list[Row]] = []
    for events in hosts.values():
        rows = list(_under_epochs(_with_records_folded(events), made))
        if not any(is_of_topic(row.event) for row in rows):
            continue
        if all(row.leader_epoch is None for row in rows):
            silent.append(rows)
            continue
        own: dict[int | None, list[Row]] = defaultdict(list)
        for row in rows:
            own[row.leader_epoch].append(row)
        for epoch, of_epoch in own.items():
            by_epoch[epoch].append(of_epoch)
    order = sorted(by_epoch, key=lambda epoch: -1 if epoch is None else epoch)
    sections = tuple(_section(epoch, _merged(by_epoch[epoch])) for epoch in order)
    undated = (made(event, None, _stated(event)) for event in copies)
    in_files = sorted(undated, key=lambda row: (row.host, row.event["file"], row.line or 0))
    return Life(cluster, topic_id, told, sections, _merged(silent), tuple(in_files))


def _with_records_folded(events: Iterable[Event]) -> Iterator[Event]:
    """PartitionChangeRecords with the leader epoch that they make: they raise it if and only if they set a leader."""
    state: dict[str, Any] = {}
    for event in events:
        if event["event_type"] == "PARTITION_RECORD":
            state = {name: event[name] for name in ("leader", "isr", "leader_epoch", "partition_epoch")}
        elif event["event_type"] == "PARTITION_CHANGE_RECORD" and state and state["leader_epoch"] is not None:
            raised = event["leader"] is not None
            state = {
                "leader": event["leader"] if raised else state["leader"],
                "isr": event["isr"] if event["isr"] is not None else state["isr"],
                "leader_epoch": state["leader_epoch"] + raised,
                "partition_epoch": state["partition_epoch"] + 1,
            }
            yield {**event, **state}
            continue
        yield event


def _under_epochs(events: Iterable[Event], made: Callable[[Event, int | None, int | None], Row]) -> Iterator[Row]:
    """The rows of a host, each under the newest leader epoch that it had stated."""
    newest: int | None = None
    for event in events:
        stated = _stated(event)
        if stated is not None and _installs(event) and (newest is None or stated > newest):
            newest = stated
        yield made(event, newest, stated)


def _stated(event: Event) -> int | None:
    """The leader epoch that a row is about: of its request, its line or its record."""
    kind = event["event_type"]
    if kind in ("FETCH", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH", "FETCHER_FENCED") or kind.startswith("CONSUMER_"):
        epoch = event["current_leader_epoch"]
    elif kind == "METADATA":
        epoch = event["response_leader_epoch"]
    elif kind == "CLIENT_TRUNCATION_DETECTED":
        epoch = event["current_leader_epoch"]
    elif kind.endswith("_COMMIT") or kind == "OFFSET_FETCH":
        epoch = event["committed_leader_epoch"]
    else:
        epoch = event["leader_epoch"]
    return epoch if epoch is not None and epoch >= 0 else None


def _installs(event: Event) -> bool:
    kind = event["event_type"]
    accepted = not event["error_code"] and not event["request_error_code"]
    if event["source"] == CLIENT_LOG:
        return not kind.endswith(("_IGNORED", "_COMMITTED"))
    if kind in ("METADATA", "FETCH"):  # a fetch is served in the very leader epoch that it states
        return accepted and event["error_code"] is not None
    return kind in _INSTALLS and accepted


def _section(epoch: int | None, rows: Sequence[Row]) -> Section:
    own = [row.event for row in rows if row.stated_epoch == epoch and _installs(row.event) and epoch is not None]
    leaders = {event["leader"] for event in own if event["leader"] is not None}
    starts = [event["start_offset"] for event in own if event["event_type"] == "LEADER_STARTS"]
    return Section(epoch, tuple(rows), tuple(sorted(leaders)), next((s for s in starts if s is not None), None))


def _merged(hosts: Iterable[Sequence[Row]]) -> tuple[Row, ...]:
    """Rows of several hosts by their times, those of each in its own order, which times that go back do not change."""
    keyed = []
    for number, rows in enumerate(hosts):
        latest, own = -1, []
        for row in rows:
            time = row.event["time_ms"]
            latest = max(latest, latest if time is None else time)
            own.append((latest, number, row))
        keyed.append(own)
    return tuple(_marked([row for *_, row in heapq.merge(*keyed, key=lambda item: item[:2])]))


def _marked(rows: Sequence[Row]) -> Iterator[Row]:
    for before, row in zip(chain([None], rows), rows, strict=False):
        yield replace(row, ordered=before is not None and before.host == row.host)


def _row(event: Event, epoch: int | None, stated: int | None, numbers: LineNumbers, zoned: bool) -> Row:
    last = event["last"]
    zoned = zoned or event["source"] == METADATA_LOG
    several = event["requests"] > 1

    def line(place: Mapping[str, Any]) -> int | None:
        return numbers.absolute(event["cluster"], place["file"], place["split"], place["line_in_split"])

    return Row(
        event,
        host_of(event),
        iso_time(event["time_ms"], zoned=zoned),
        iso_time(last["time_ms"], zoned=zoned) if several else None,
        epoch,
        stated,
        line(event),
        line(last) if several else None,
    )
