"""Everything recorded about one partition, merged over all nodes, to investigate a finding.

The order of one host's lines is certain. Leader epochs order hosts against each other: each row is in the section of the newest
leader epoch that its host had stated by then. Within a section, only printed times order rows of different hosts, which proves
nothing.
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

from epochaudit.findings.evidence import LineNumbers, iso_time
from epochaudit.pipeline import reading
from epochaudit.replay.state.line_order import in_one_order
from epochaudit.replay.state.metadata_log import SOURCE as METADATA_LOG
from epochaudit.spark.memo import unpersist
from epochaudit.timeline.host_order import (
    CLIENT_LOG,
    Event,
    by_host,
    host_of,
    ids_in_order,
    ids_of_copies,
    is_of_topic,
    stated_topic_ids,
)
from epochaudit.timeline.partition_events import Subject, partition_history, recorded_partitions, topic_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from epochaudit.sources.files.capture import Capture

SPLIT_COLUMNS: Final = ("cluster", "file", "split", "lines")
CHECKPOINT: Final = "checkpoint"
MOST_ROWS: Final = 50_000  # the driver holds them, and nobody reads more
NEAR: Final = 5  # partitions that an error message suggests

Place = tuple[str, str]  # cluster and file

# Events that show that a host, or its metadata, has a leader epoch. Requests count only if they were accepted.
_INSTALLS: Final = frozenset({
    "LEADER_STARTS", "FOLLOWER_STARTS", "LEADER_AND_ISR_SKIPPED", "PARTITION_STATE_CHANGED", "LEADER_EPOCH_UPDATED",
    "UNCLEAN_ELECTION", "PARTITION_REPLAYED", "PARTITION_CHANGE_REPLAYED", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD",
    "LEADER_AND_ISR", "UPDATE_METADATA", "CLIENT_EPOCH_SEEN",
})  # fmt: skip
# Events that do not show that the host's own replica has the leader epoch.
_OF_OTHERS: Final = frozenset({"UPDATE_METADATA", "METADATA", "PARTITION_STATE_CHANGED"})
# Events that are about their current_leader_epoch.
_CURRENT_LEADER_EPOCH: Final = frozenset(
    {"FETCH", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH", "FETCHER_FENCED", "CLIENT_TRUNCATION_DETECTED"}
)


class TimelineError(Exception):
    """The request matches no rows; the message states what is recorded."""


@dataclass(frozen=True)
class Row:
    """A recorded fact about the partition, or a run of equal requests.

    event: the row of `epochaudit.timeline.partition_events`.
    host: the writer of the line: `node 2`, `client c` or `metadata log`.
    time, until: of the first and the last line, by the host's clock (ISO 8601).
    leader_epoch: the newest that the host had stated by then, None if it had stated none.
    stated_epoch: the one that the row itself is about, if any.
    held_epoch: the newest that the host's own replica, or the client, had by then. Metadata about replicas of other brokers do
    not count.
    line, last_line: line numbers in their files, None if unknown.
    ordered: the row before it in its section is of the same host, so that their order is certain.
    """

    event: Event
    host: str
    time: str | None
    until: str | None
    leader_epoch: int | None
    stated_epoch: int | None
    held_epoch: int | None
    line: int | None
    last_line: int | None
    ordered: bool = False

    @property
    def place(self) -> str:
        """`file:line`, of several requests to the last one's line; file and byte offset if the line number is unknown."""
        file, last = self.event["file"], self.event["last"]
        first = f"{file}:{self.line}" if self.line is not None else f"{file} at byte {self.event['byte_offset']}"
        if self.last_line is None or (last["file"], self.last_line) == (file, self.line):
            return first
        return f"{first} to {self.last_line}" if last["file"] == file else f"{first} to {last['file']}:{self.last_line}"


@dataclass(frozen=True)
class Section:
    """The rows of hosts while a leader epoch was the newest that they had stated; leader_epoch is None before any.

    leaders: those that its rows name. start_offset: the one that the leader logged, if any.
    """

    leader_epoch: int | None
    rows: tuple[Row, ...]
    leaders: tuple[int, ...] = ()
    start_offset: int | None = None


@dataclass(frozen=True)
class TopicTimeline:
    """One topic of the name, from its creation to its deletion.

    topic_id: None if no row states one. topic_known: whether the rows can be attributed to one topic of the name.
    sections: by leader epoch, ascending. silent: rows of hosts that state no leader epoch. undated: copies of state files, which
    have no time.
    """

    cluster: str
    topic_id: str | None
    topic_known: bool
    sections: tuple[Section, ...]
    silent: tuple[Row, ...]
    undated: tuple[Row, ...]


@dataclass(frozen=True)
class Timeline:
    """The topics that had the partition, in order, by cluster. left_out: rows beyond MOST_ROWS are missing."""

    topic: str
    partition: int
    topics: tuple[TopicTimeline, ...]
    left_out: bool = False


@dataclass(frozen=True)
class EventLog:
    """Events, and what turns their places and times into line numbers and ISO 8601.

    events: the table of schemas/events.toml. splits: rows of schemas/splits.toml with SPLIT_COLUMNS. zoned: (cluster, path) of the
    files whose times have a time zone.
    """

    events: DataFrame
    splits: Sequence[Mapping[str, Any]]
    zoned: Collection[Place] = field(default_factory=frozenset)

    @classmethod
    def of(cls, events: DataFrame, splits: DataFrame, zoned: Collection[Place]) -> EventLog:
        """From the two tables. The lines of each node are brought into one order, each once, as in an audit."""
        rows = [row.asDict(recursive=True) for row in splits.select(*SPLIT_COLUMNS).collect()]
        return cls(in_one_order(events, splits).events, rows, zoned)


def recorded_in(spark: SparkSession, captures: Sequence[Capture]) -> EventLog:
    """The events of captures. Their logs are read once, by plain tasks, as in an audit."""
    read = reading(spark, captures)
    zoned = {(file.cluster, file.path) for capture in captures for file in capture.files if file.time_zone is not None}
    return EventLog.of(read.events, read.splits, zoned)


def subject_of(text: str) -> tuple[str, int]:
    """Topic and partition of a name such as `orders-eu-3`. Raises TimelineError for any other text."""
    topic, dash, partition = text.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()) or len(partition) > 9:
        raise TimelineError(f"{text!r} is not TOPIC-PARTITION; write for example orders-3")
    return topic, int(partition)


def timeline(recorded: EventLog, topic: str, partition: int) -> Timeline:
    """The timeline of a partition: two small jobs over the events. Raises TimelineError if no row names the partition."""
    [found] = timelines(recorded, [(topic, partition)])
    unpersist(recorded.events)
    if not found.topics:
        raise TimelineError(_unknown(recorded.events, topic, partition))
    return found


def timelines(recorded: EventLog, partitions: Sequence[tuple[str, int]]) -> tuple[Timeline, ...]:
    """The timelines of partitions, by the same two jobs; without topics for a partition that no row names."""
    clusters = topic_ids(recorded.events, sorted({topic for topic, _ in partitions})).collect()
    ids = {(one["topic"], one["topic_id"]) for row in clusters for one in row["named"] or ()}
    subjects = [
        Subject(topic, tuple(sorted(id for name, id in ids if name == topic)), partition)
        for topic, partition in partitions
    ]
    history = partition_history(recorded.events, subjects, has_log=any(row["has_log"] for row in clusters))
    order = [F.col(name).asc_nulls_first() for name in ("time_ms", "file", "byte_offset", "partition_row")]
    rows = history.orderBy(*order).limit(MOST_ROWS + 1).toArrow().to_pylist()
    return tuple(
        _timeline(
            subject,
            [row for row in rows[:MOST_ROWS] if row["subject"] in (None, number)],
            recorded,
            len(rows) > MOST_ROWS,
        )
        for number, subject in enumerate(subjects)
    )


def _timeline(subject: Subject, rows: Sequence[Event], recorded: EventLog, left_out: bool) -> Timeline:
    is_named = any(row["partition"] == subject.partition for row in rows)
    topics = tuple(topic_timelines(rows, recorded)) if is_named else ()
    return Timeline(subject.topic, subject.partition, topics, left_out)


def narrowed(
    found: Timeline, epochs: Collection[int] = (), since: str | None = None, until: str | None = None
) -> Timeline:
    """The rows in the sections of, or about, these leader epochs, within these times (ISO 8601 or a prefix, as hosts print them).

    Raises TimelineError if there are none.
    """

    def selected(row: Row) -> bool:
        if epochs and row.leader_epoch not in epochs and row.stated_epoch not in epochs:
            return False
        first, last = row.time or "", row.until or row.time or ""
        return (since is None or last >= since) and (until is None or first[: len(until)] <= until)

    def narrow(rows: Iterable[Row]) -> tuple[Row, ...]:
        return tuple(_marked([row for row in rows if selected(row)]))

    def narrow_topic(topic: TopicTimeline) -> TopicTimeline:
        sections = (replace(section, rows=narrow(section.rows)) for section in topic.sections)
        undated = narrow(topic.undated) if since is None and until is None else ()
        return replace(
            topic, sections=tuple(s for s in sections if s.rows), silent=narrow(topic.silent), undated=undated
        )

    topics = tuple(
        topic for topic in map(narrow_topic, found.topics) if topic.sections or topic.silent or topic.undated
    )
    if not topics:
        sections = [section for topic in found.topics for section in topic.sections]
        recorded = sorted({section.leader_epoch for section in sections if section.leader_epoch is not None})
        times = sorted(row.time for section in sections for row in section.rows if row.time)
        epochs_recorded = f"leader epochs {', '.join(map(str, recorded))}" if recorded else "no leader epoch"
        spans = f"times from {times[0]} to {times[-1]}" if times else "no times"
        raise TimelineError(
            f"no row of {found.topic}-{found.partition} is of that epoch or time; recorded are {epochs_recorded} and {spans}"
        )
    return replace(found, topics=topics)


def _unknown(events: DataFrame, topic: str, partition: int) -> str:
    """The error message for a partition that no row names."""
    recorded: dict[str, set[int]] = defaultdict(set)
    for row in recorded_partitions(events).collect():
        recorded[row["topic"]].update(() if row["partition"] is None else (row["partition"],))
    subject = f"{topic}-{partition}"
    if of_topic := recorded.get(topic):
        listed = ", ".join(f"{topic}-{number}" for number in sorted(of_topic)[:NEAR])
        more = f" and {len(of_topic) - NEAR:,} more" if len(of_topic) > NEAR else ""
        return f"nothing is recorded about {subject}; recorded of the topic: {listed}{more}"
    known = {f"{name}-{number}" for name, numbers in recorded.items() for number in numbers}
    near = get_close_matches(subject, known, NEAR) or sorted(known)[:NEAR]
    hint = f"did you mean {', '.join(near)}?" if near else "no line names any partition"
    return f"nothing is recorded about {subject}: {hint}"


def topic_timelines(rows: Iterable[Event], recorded: EventLog) -> Iterator[TopicTimeline]:
    """The topics of the name, in order, by cluster. `rows`: those of `partition_history`, as dicts."""
    by_cluster: dict[str, list[Event]] = defaultdict(list)
    for row in rows:
        by_cluster[row["cluster"]].append(row)
    numbers = LineNumbers({(s["cluster"], s["file"], s["split"]): s["lines"] for s in recorded.splits})
    zoned = frozenset(recorded.zoned)

    def as_row(event: Event, epoch: int | None, stated: int | None, held: int | None = None) -> Row:
        return _row(event, epoch, stated, held, numbers, (event["cluster"], event["file"]) in zoned)

    for cluster in sorted(by_cluster):
        hosts = by_host(row for row in by_cluster[cluster] if row["source"] != CHECKPOINT)
        copies = [row for row in by_cluster[cluster] if row["source"] == CHECKPOINT]
        stated = {host: [event["topic_id"] for event in events] for host, events in hosts.items()}
        copy_ids = ids_of_copies(copies)
        ids = ids_in_order({id for id in chain(copy_ids, *stated.values()) if id is not None}, stated)
        row_ids = {host: stated_topic_ids(events, ids) for host, events in hosts.items()}
        if len(ids) == 1:
            copy_ids = [ids[0]] * len(copies)
        for id in [*ids, None] if len(ids) != 1 else ids:
            of_id = {host: _of(id, events, row_ids[host]) for host, events in hosts.items()}
            topic = _of_one_topic(cluster, id, id is not None or not ids, of_id, _of(id, copies, copy_ids), as_row)
            if topic.sections or topic.silent or topic.undated:
                yield topic


def _of(topic_id: str | None, events: Iterable[Event], ids: Iterable[str | None]) -> list[Event]:
    """The events of this topic id; `ids` are those of the events."""
    return [event for event, id in zip(events, ids, strict=True) if id == topic_id]


def _of_one_topic(
    cluster: str,
    topic_id: str | None,
    topic_known: bool,
    hosts: Mapping[str, Sequence[Event]],
    copies: Iterable[Event],
    as_row: Callable[..., Row],
) -> TopicTimeline:
    by_epoch: dict[int | None, list[list[Row]]] = defaultdict(list)
    silent: list[list[Row]] = []
    for events in hosts.values():
        rows = list(_with_epochs(_with_record_states(events), as_row))
        if not any(is_of_topic(row.event) for row in rows):
            continue
        if all(row.leader_epoch is None for row in rows):
            silent.append(rows)
            continue
        of_host: dict[int | None, list[Row]] = defaultdict(list)
        for row in rows:
            of_host[row.leader_epoch].append(row)
        for epoch, of_epoch in of_host.items():
            by_epoch[epoch].append(of_epoch)
    order = sorted(by_epoch, key=lambda epoch: -1 if epoch is None else epoch)
    sections = tuple(_section(epoch, _merged(by_epoch[epoch])) for epoch in order)
    undated = (as_row(event, None, _stated(event)) for event in copies)
    in_files = sorted(undated, key=lambda row: (row.host, row.event["file"], row.line or 0))
    return TopicTimeline(cluster, topic_id, topic_known, sections, _merged(silent), tuple(in_files))


def _with_record_states(events: Iterable[Event]) -> Iterator[Event]:
    """Adds the resulting state to each PartitionChangeRecord: it raises the leader epoch if and only if it sets a leader.

    After a hole of the metadata log the state is not known, up to the next PartitionRecord.
    Source: org.apache.kafka.metadata.PartitionRegistration.merge.
    """
    state: dict[str, Any] = {}
    holes: int | None = None
    for event in events:
        if event["source"] == METADATA_LOG and event["holes_before"] != holes:
            state, holes = {}, event["holes_before"]
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


def _with_epochs(events: Iterable[Event], as_row: Callable[..., Row]) -> Iterator[Row]:
    """The rows of a host, each with the newest leader epoch that the host had stated."""
    newest: int | None = None
    held: int | None = None
    for event in events:
        stated = _stated(event)
        if stated is not None and _installs(event):
            newest = stated if newest is None else max(newest, stated)
            if event["event_type"] not in _OF_OTHERS:
                held = stated if held is None else max(held, stated)
        yield as_row(event, newest, stated, held)


def _stated(event: Event) -> int | None:
    """The leader epoch that a row's request, line or record states."""
    kind = event["event_type"]
    if kind in _CURRENT_LEADER_EPOCH or kind.startswith("CONSUMER_"):
        epoch = event["current_leader_epoch"]
    elif kind == "METADATA":
        epoch = event["response_leader_epoch"]
    elif kind.endswith("_COMMIT") or kind == "OFFSET_FETCH":
        epoch = event["committed_leader_epoch"]
    else:
        epoch = event["leader_epoch"]
    return epoch if epoch is not None and epoch >= 0 else None


def _installs(event: Event) -> bool:
    """Whether the row shows that its host, or its metadata, has the leader epoch that it states."""
    kind = event["event_type"]
    accepted = not event["error_code"] and not event["request_error_code"]
    if event["source"] == CLIENT_LOG:
        return not kind.endswith(("_IGNORED", "_COMMITTED"))
    if kind in ("METADATA", "FETCH"):  # a served Fetch states the leader's own epoch (KIP-320 fencing)
        return accepted and event["error_code"] is not None
    return kind in _INSTALLS and accepted


def _section(epoch: int | None, rows: Sequence[Row]) -> Section:
    stating = [row.event for row in rows if row.stated_epoch == epoch and _installs(row.event) and epoch is not None]
    leaders = {event["leader"] for event in stating if event["leader"] is not None}
    starts = [event["start_offset"] for event in stating if event["event_type"] == "LEADER_STARTS"]
    return Section(epoch, tuple(rows), tuple(sorted(leaders)), next((s for s in starts if s is not None), None))


def _merged(hosts: Iterable[Sequence[Row]]) -> tuple[Row, ...]:
    """Rows of several hosts by their times. Each host's rows keep their own order, even if its clock goes back."""
    keyed = []
    for number, rows in enumerate(hosts):
        latest, of_host = -1, []
        for row in rows:
            time = row.event["time_ms"]
            latest = max(latest, latest if time is None else time)
            of_host.append((latest, number, row))
        keyed.append(of_host)
    return tuple(_marked([row for *_, row in heapq.merge(*keyed, key=lambda item: item[:2])]))


def _marked(rows: Sequence[Row]) -> Iterator[Row]:
    """Sets `ordered`."""
    for before, row in zip(chain([None], rows), rows, strict=False):
        yield replace(row, ordered=before is not None and before.host == row.host)


def _row(
    event: Event, epoch: int | None, stated: int | None, held: int | None, numbers: LineNumbers, zoned: bool
) -> Row:
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
        held,
        line(event),
        line(last) if several else None,
    )
