"""The truncations of an audit: which records, of which leader epochs, on which replicas, and which consumers had read them.

This runs only if verdicts show truncations. The driver collects the replicas' lines about the affected partitions, which are few.
Fetches and commits are aggregated where they are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from epochaudit.events.times import FOREVER
from epochaudit.losses.epoch_log import History, Line, of_one_topic
from epochaudit.losses.queries import (
    OLD_HISTORY,
    REMOVED,
    answers,
    batches,
    histories,
    only_topic_ids,
    partitions_with_segments,
)
from epochaudit.losses.removal import Reader, Removal, Segments
from epochaudit.replay.data_plane.lineage import own_high_watermarks, proved_ends
from epochaudit.rules.rule import EXPOSED, UNVERIFIABLE, VIOLATION
from epochaudit.spark.local_rows import local_rows

if TYPE_CHECKING:
    from epochaudit.pipeline import Audit

BY_ELECTION: Final = ("TR-06", "AW-01")  # their findings name the leader epoch that began without the records
REPORTS_LOSS: Final = (*BY_ELECTION, "TR-01", "CO-04")
TRUNCATED: Final = "TR-07"
TRUNCATION_RULES: Final = ("TR-05", TRUNCATED, "HW-04")  # their subjects are truncations, or follow from one
LISTED: Final = 200  # most truncations, and most partitions, of a report
FROM_THE_BEGINNING: Final = -1

Row = Mapping[str, Any]
Epoch = tuple[str, str, int, int]  # cluster, topic, partition, leader epoch


def removals_of(audit: Audit, found: Iterable[Row]) -> tuple[Removal, ...]:
    """The truncations that removed records, LISTED at most. `found`: the rows of the audit's findings."""
    breaches = [row for row in found if row["rule"] in REPORTS_LOSS and row["verdict"] in (VIOLATION, EXPOSED)]
    if not breaches and not _has_truncations(audit):
        return ()
    topics = sorted({row["topic"] for row in breaches if row["topic"] is not None})[:LISTED]
    affected = histories(audit.events, topics).orderBy(
        F.col("topic").isin(*topics).desc(), "cluster", "topic", "partition"
    )
    known = [history for row in affected.limit(LISTED).toArrow().to_pylist() for history in of_one_topic(row)]
    known = _with_topic_ids(audit, known)
    removed = [(history, removal) for history in known for removal in removals(history, breaches)][:LISTED]
    removed = _counted(audit, _with_proofs(audit, removed))
    answered = _answers_by_number(audit, removed)
    return tuple(
        with_answers(history, removal, answered.get(number, ())) for number, (history, removal) in enumerate(removed)
    )


def _answers_by_number(audit: Audit, removed: Sequence[tuple[History, Removal]]) -> Mapping[int, Sequence[Row]]:
    """Rows of `losses.queries.answers`, by the number of the removal in `removed`."""
    windows = [
        (
            *(history.cluster, history.topic, history.topic_id, history.partition, number),
            *(min(removal.epochs, default=0), removal.leader_epoch, node, since_ms, until_ms),
        )
        for number, (history, removal) in enumerate(removed)
        for node, since_ms, until_ms in old_answers(history, removal)
    ]
    answered: dict[int, list[Row]] = defaultdict(list)
    if not windows:
        return answered
    old = local_rows(audit.events.sparkSession, windows, OLD_HISTORY)
    topics = sorted({history.topic for history, _ in removed})
    topic_ids = sorted({history.topic_id for history, _ in removed if history.topic_id is not None})
    for row in answers(audit.events, old, topics, topic_ids).toArrow().to_pylist():
        answered[row["number"]].append(row)
    return answered


def _with_topic_ids(audit: Audit, known: Sequence[History]) -> list[History]:
    """The histories; those without a topic id get the id of their name, if it is recorded with one id only."""
    without_id = sorted({history.topic for history in known if history.topic_id is None})
    if not without_id:
        return list(known)
    rows = only_topic_ids(audit.events, without_id).toArrow().to_pylist()
    ids = {(row["cluster"], row["topic"]): row["topic_id"] for row in rows}
    return [
        replace(history, topic_id=ids.get((history.cluster, history.topic))) if history.topic_id is None else history
        for history in known
    ]


def _with_proofs(audit: Audit, removed: Sequence[tuple[History, Removal]]) -> list[tuple[History, Removal]]:
    """Sets committed to false where the evidence proves it.

    A member of the ISR proves that nothing above the start of the epoch was committed; or each leader since the records were
    written states a high watermark of its own that is not above them.
    """
    topics = sorted({removal.topic for _, removal in removed if removal.committed is None})
    if not topics:
        return list(removed)
    proofs, committed = (
        _by_epoch(query(audit.events, topics).toArrow().to_pylist()) for query in (proved_ends, own_high_watermarks)
    )

    def of_epoch(rows: Mapping[Epoch, Sequence[Row]], removal: Removal, leader_epoch: int) -> Row | None:
        named = rows.get((removal.cluster, removal.topic, removal.partition, leader_epoch), ())
        of_topic = [
            row for row in named if None in (row["topic_id"], removal.topic_id) or row["topic_id"] == removal.topic_id
        ]
        return of_topic[0] if len(of_topic) == 1 else None

    def proved(history: History, removal: Removal) -> bool:
        proof = of_epoch(proofs, removal, removal.leader_epoch)
        if proof is not None and proof["start_offset"] <= removal.first_offset:
            return True
        written = history.starts.get(min(removal.epochs, default=removal.leader_epoch))
        since = range(min(removal.epochs, default=removal.leader_epoch), removal.leader_epoch)
        own = [of_epoch(committed, removal, epoch) for epoch in since]
        return (
            bool(own)
            and written is not None
            and (written.start_offset or 0) <= removal.first_offset
            and all(row is not None and _committed_nothing(row, removal) for row in own)
        )

    return [
        (
            history,
            replace(removal, committed=False) if removal.committed is None and proved(history, removal) else removal,
        )
        for history, removal in removed
    ]


def _by_epoch(rows: Iterable[Row]) -> Mapping[Epoch, Sequence[Row]]:
    """The rows by partition and leader epoch: topics of one name are not distinguished."""
    found: dict[Epoch, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["cluster"], row["topic"], row["partition"], row["leader_epoch"]].append(row)
    return found


def _committed_nothing(row: Row, removal: Removal) -> bool:
    """Whether the leader epoch of this row of `own_high_watermarks` committed none of the removed records."""
    high_watermark = row["high_watermark"]
    return row["nobody"] or (high_watermark is not None and high_watermark <= removal.first_offset)


def _counted(audit: Audit, removed: Sequence[tuple[History, Removal]]) -> list[tuple[History, Removal]]:
    """Sets counted from batch headers, where a copy of a replica's segments has the removed records from first to last.

    A copy does not count if its batches reach beyond either end, are of epochs that began without the records, or were rewritten
    by compaction.
    """
    if not removed:
        return list(removed)
    ranges = [
        (
            removal.cluster,
            removal.topic,
            removal.topic_id,
            removal.partition,
            number,
            removal.first_offset,
            removal.last_offset,
        )
        for number, (_, removal) in enumerate(removed)
    ]
    copies: dict[int, list[Row]] = defaultdict(list)
    for row in batches(audit.events, local_rows(audit.events.sparkSession, ranges, REMOVED)).toArrow().to_pylist():
        copies[row["number"]].append(row)

    def with_count(number: int, removal: Removal) -> Removal:
        counts = {copy["record_count"] for copy in copies[number] if _is_whole(copy, removal)}
        return replace(removal, counted=counts.pop()) if len(counts) == 1 else removal

    return [(history, with_count(number, removal)) for number, (history, removal) in enumerate(removed)]


def segments_wanted(audit: Audit, removed: Sequence[Removal]) -> tuple[Segments, ...]:
    """The partitions without segments in the capture from which committed records, or records that may have been, were removed."""
    by_partition: dict[tuple[str, str, int], list[Removal]] = defaultdict(list)
    for removal in removed:
        if removal.harmed is not False:
            by_partition[removal.cluster, removal.topic, removal.partition].append(removal)
    if not by_partition:
        return ()
    topics = sorted({topic for _, topic, _ in by_partition})
    rows = partitions_with_segments(audit.events, topics).toArrow().to_pylist()
    recorded = {(row["cluster"], row["topic"], row["partition"]) for row in rows}
    return tuple(
        Segments(
            *partition,
            sum(removal.records for removal in found),
            True if any(removal.harmed for removal in found) else None,
        )
        for partition, found in sorted(by_partition.items())
        if partition not in recorded
    )


def _is_whole(copy: Row, removal: Removal) -> bool:
    """Whether the copy's batches are all the removed records and nothing else."""
    epochs = copy["epochs"]
    same_range = (copy["first_offset"], copy["last_offset"]) == (removal.first_offset, removal.last_offset)
    older = bool(epochs) and all(epoch < removal.leader_epoch for epoch in epochs)
    same_epochs = not removal.epochs or set(epochs) <= set(removal.epochs)
    return same_range and older and same_epochs and copy["record_count"] is not None and not copy["compacted"]


def _has_truncations(audit: Audit) -> bool:
    """Whether a rule about truncations had subjects. TR-07's subjects are truncations, even if it cannot verify them."""
    return any(
        count
        for tally in audit.tallies
        if tally.rule in TRUNCATION_RULES
        for verdict, count in tally.counts.items()
        if verdict != UNVERIFIABLE or tally.rule == TRUNCATED
    )


def removals(history: History, breaches: Iterable[Row]) -> list[Removal]:
    """The truncations that replicas logged, extended by the findings about the partition."""
    found = {(removal.leader_epoch, removal.first_offset): removal for removal in history.truncations()}
    for row in breaches:
        subject = (row["cluster"], row["topic"], row["partition"])
        if subject != (history.cluster, history.topic, history.partition):
            continue
        if None not in (row["topic_id"], history.topic_id) and row["topic_id"] != history.topic_id:
            continue
        epoch, first, last = _removing_epoch(history, row), row["first_offset"], row["last_offset"]
        if epoch is None or first is None or last is None or last < first:
            continue
        known = found.get((epoch, first))
        replicas = known.replicas if known else ()
        log_ends = {replica.node: replica.log_end for replica in replicas if replica.log_end is not None}
        last = max(last, known.last_offset) if known else last
        committed = True if row["rule"] in BY_ELECTION else (known.committed if known else None)
        found[epoch, first] = replace(history.removal(epoch, first, last, log_ends), committed=committed)
    return [found[key] for key in sorted(found)]


def _removing_epoch(history: History, row: Row) -> int | None:
    """The leader epoch that began without the records. A consumer's finding may name a later epoch."""
    if row["rule"] in BY_ELECTION or row["leader_epoch"] is None:
        epoch: int | None = row["leader_epoch"]
        return epoch
    starts = (epoch for epoch, line in history.starts.items() if line.start_offset == row["first_offset"])
    return max((epoch for epoch in starts if epoch <= row["leader_epoch"]), default=None)


def old_answers(history: History, removal: Removal) -> Iterator[tuple[int, int, int]]:
    """When each node served the records: (node, since_ms, until_ms), from their first leader epoch to the one without them."""
    first, until = history.begun_ms(0), history.begun_ms(removal.leader_epoch)
    written = history.begun_ms(min(removal.epochs, default=0))
    for node, begun in first.items():
        if begun >= until.get(node, FOREVER) or node not in written:
            continue
        had_older_records = node in history.had_earlier_topic or written[node] > begun
        yield node, written[node] if had_older_records else FROM_THE_BEGINNING, until.get(node, FOREVER)


def with_answers(history: History, removal: Removal, answered: Sequence[Row]) -> Removal:
    """Sets given_out, committed and read_by from rows of `losses.queries.answers`."""
    led = [line for epoch, line in history.starts.items() if epoch < removal.leader_epoch]
    returned = [row["high_watermark"] for row in answered if row["high_watermark"] is not None]
    writer = history.starts.get(max(removal.epochs, default=-1), led[-1] if led else None)
    recorded = writer is not None and any(row["group_id"] is None and row["node"] == writer.node for row in answered)
    given_out = True if max(returned, default=-1) > removal.first_offset else False if recorded else None
    logged = [line.high_watermark for line in led if line.high_watermark is not None and _wrote(removal, line)]
    committed = given_out or max(logged, default=-1) > removal.first_offset or removal.committed
    return replace(removal, given_out=given_out, committed=committed, read_by=tuple(_readers(removal, answered)))


def _wrote(removal: Removal, line: Line) -> bool:
    """Whether the leader of this line may have written removed records."""
    return line.leader_epoch is not None and line.leader_epoch >= min(removal.epochs, default=0)


def _readers(removal: Removal, answered: Iterable[Row]) -> Iterator[Reader]:
    """The consumers that had read removed records: clients that fetched, once per group they committed for, and other groups."""
    groups: dict[tuple[str | None, str | None], set[str]] = defaultdict(set)
    read: dict[tuple[str | None, str | None], list[tuple[int, int]]] = defaultdict(list)
    committed: dict[str, int] = {}
    for row in answered:
        client, group = (row["client_id"], row["client_host"]), row["group_id"]
        if group is not None:
            groups[client].add(group)
            committed[group] = max(row["committed_offset"] or 0, committed.get(group, 0))
        elif row["by_consumer"] and row["first_offset"] is not None:
            delivered = -1 if row["delivered_at"] is None else row["delivered_at"]
            read[client].append((row["first_offset"], max(row["last_offset"], delivered + 1)))
    found: dict[tuple[str, str], Reader] = {}
    for client, ranges in read.items():
        first, end = min(first for first, _ in ranges), max(end for _, end in ranges)
        of_client: list[str | None] = [*sorted(groups[client])]
        for group in of_client or [None]:
            reader = _reader(removal, client[0], group, first, end)
            if reader is not None:
                found[group or "", client[0] or ""] = reader
    for group, end in committed.items():
        reader = _reader(removal, None, group, removal.first_offset, end)
        if reader is not None and not any(group == known for known, _ in found):
            found[group, ""] = reader
    yield from (found[key] for key in sorted(found, key=lambda key: (not key[0], key)))


def _reader(removal: Removal, client: str | None, group: str | None, first: int, end: int) -> Reader | None:
    """The removed records among those that a consumer read from `first` to `end`, which is exclusive; None if there are none."""
    first, last = max(first, removal.first_offset), min(end - 1, removal.last_offset)
    return Reader(client, group, first, last) if first <= last else None
