"""The truncations of an audit: what left the logs, of which leader epochs, at which replicas, and who had read it.

Asked only where verdicts tell of truncations. What replicas wrote of the partitions in question is brought to the driver, as
it is few lines; fetches and commits are aggregated where they are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from epochaudit.replay.removals import OLD_HISTORY, answers, histories, only_topic_ids
from epochaudit.report.contents import Reader, Removal
from epochaudit.report.histories import History, Line, of_one_topic
from epochaudit.rules.rule import EXPOSED, UNVERIFIABLE, VIOLATION

if TYPE_CHECKING:
    from epochaudit.auditing import Audit

BY_ELECTION: Final = "TR-06"  # its finding names the leader epoch that began without the records
CROSSED: Final = (BY_ELECTION, "TR-01", "CO-04")
TOLD_TO_TRUNCATE: Final = ("TR-05", "TR-07", "HW-04")  # their subjects are truncations, or follow from one
LISTED: Final = 200
SINCE_EVER: Final = -1
FOREVER: Final = 2**62

Row = Mapping[str, Any]


def removals_of(audit: Audit, found: Iterable[Row]) -> tuple[Removal, ...]:
    """The truncations by which records left the logs, LISTED at most; `found` are the rows of the audit's findings."""
    breaches = [row for row in found if row["rule"] in CROSSED and row["verdict"] in (VIOLATION, EXPOSED)]
    if not breaches and not _told_to_truncate(audit):
        return ()
    topics = sorted({row["topic"] for row in breaches if row["topic"] is not None})[:LISTED]
    in_question = histories(audit.events, topics).orderBy(
        F.col("topic").isin(*topics).desc(), "cluster", "topic", "partition"
    )
    known = [one for row in in_question.limit(LISTED).toArrow().to_pylist() for one in of_one_topic(row)]
    known = _with_topic_ids(audit, known)
    removed = [(history, removal) for history in known for removal in removals(history, breaches)][:LISTED]
    windows = [
        (*window, min(removal.epochs, default=0), removal.leader_epoch, node, since, until)
        for number, (history, removal) in enumerate(removed)
        for window in [(history.cluster, history.topic, history.topic_id, history.partition, number)]
        for node, since, until in old_answers(history, removal)
    ]
    if not windows:
        return tuple(removal for _, removal in removed)
    old = audit.events.sparkSession.createDataFrame(windows, OLD_HISTORY)
    names, ids = ({history.topic for history, _ in removed}, {h.topic_id for h, _ in removed if h.topic_id is not None})
    told: dict[int, list[Row]] = defaultdict(list)
    for row in answers(audit.events, old, sorted(names), sorted(ids)).toArrow().to_pylist():
        told[row["number"]].append(row)
    return tuple(with_answers(history, removal, told[number]) for number, (history, removal) in enumerate(removed))


def _with_topic_ids(audit: Audit, known: Sequence[History]) -> list[History]:
    nameless = sorted({history.topic for history in known if history.topic_id is None})
    if not nameless:
        return list(known)
    rows = only_topic_ids(audit.events, nameless).toArrow().to_pylist()
    ids = {(row["cluster"], row["topic"]): row["topic_id"] for row in rows}
    return [replace(one, topic_id=ids.get((one.cluster, one.topic))) if one.topic_id is None else one for one in known]


def _told_to_truncate(audit: Audit) -> bool:
    return any(
        count
        for tally in audit.tallies
        if tally.rule in TOLD_TO_TRUNCATE
        for verdict, count in tally.counts.items()
        if verdict != UNVERIFIABLE
    )


def removals(history: History, breaches: Iterable[Row]) -> list[Removal]:
    """What replicas gave up, and what findings about the partition tell beyond that."""
    found = {(one.leader_epoch, one.first_offset): one for one in history.given_up()}
    for row in breaches:
        subject = (row["cluster"], row["topic"], row["partition"])
        if subject != (history.cluster, history.topic, history.partition):
            continue
        if None not in (row["topic_id"], history.topic_id) and row["topic_id"] != history.topic_id:
            continue
        epoch, first, last = _left_in(history, row), row["first_offset"], row["last_offset"]
        if epoch is None or first is None or last is None or last < first:
            continue
        known = found.get((epoch, first))
        ends = {one.node: one.log_end for one in known.replicas if one.log_end is not None} if known else {}
        last = max(last, known.last_offset) if known else last
        given_out = True if row["rule"] == BY_ELECTION else (known.given_out if known else None)
        found[epoch, first] = replace(history.removal(epoch, first, last, ends), given_out=given_out)
    return [found[key] for key in sorted(found)]


def _left_in(history: History, row: Row) -> int | None:
    """The leader epoch that began without the records; a consumer's finding names a later one, too."""
    if row["rule"] == BY_ELECTION or row["leader_epoch"] is None:
        epoch: int | None = row["leader_epoch"]
        return epoch
    starts = (epoch for epoch, line in history.starts.items() if line.start_offset == row["first_offset"])
    return max((epoch for epoch in starts if epoch <= row["leader_epoch"]), default=None)


def old_answers(history: History, removal: Removal) -> Iterator[tuple[int, int, int]]:
    """When each node served the records: node, since and until when; from the first of their leader epochs to the one without."""
    first, until = history.begun_ms(0), history.begun_ms(removal.leader_epoch)
    written = history.begun_ms(min(removal.epochs, default=0))
    for node, begun in first.items():
        if begun >= until.get(node, FOREVER) or node not in written:
            continue
        older = node in history.follows or written[node] > begun
        yield node, written[node] if older else SINCE_EVER, until.get(node, FOREVER)


def with_answers(history: History, removal: Removal, told: Sequence[Row]) -> Removal:
    """The removal with what clients were told of it: rows of `replay.removals.answers`."""
    led = [line for epoch, line in history.starts.items() if epoch < removal.leader_epoch]
    marks = [row["high_watermark"] for row in told if row["high_watermark"] is not None]
    marks += [line.high_watermark for line in led if line.high_watermark is not None and _wrote(removal, line)]
    given_out = removal.given_out
    if given_out is None:
        writer = history.starts.get(max(removal.epochs, default=-1), led[-1] if led else None)
        heard = writer is not None and any(row["group_id"] is None and row["node"] == writer.node for row in told)
        given_out = True if max(marks, default=-1) > removal.first_offset else False if heard else None
    return replace(removal, given_out=given_out, read_by=tuple(_readers(removal, told)))


def _wrote(removal: Removal, line: Line) -> bool:
    return line.leader_epoch is not None and line.leader_epoch >= min(removal.epochs, default=0)


def _readers(removal: Removal, told: Iterable[Row]) -> Iterator[Reader]:
    """Who had read removed records: by fetches, with the groups for which the client committed; or by commits alone."""
    groups: dict[tuple[str | None, str | None], set[str]] = defaultdict(set)
    read: dict[tuple[str | None, str | None], list[tuple[int, int]]] = defaultdict(list)
    committed: dict[str, int] = {}
    for row in told:
        client, group = (row["client_id"], row["client_host"]), row["group_id"]
        if group is not None:
            groups[client].add(group)
            committed[group] = max(row["committed_offset"] or 0, committed.get(group, 0))
        elif row["by_consumer"] and row["first_offset"] is not None:
            delivered = -1 if row["delivered_at"] is None else row["delivered_at"]
            read[client].append((row["first_offset"], max(row["last_offset"], delivered + 1)))
    found: dict[tuple[str, str], Reader] = {}
    for client, stretches in read.items():
        first, end = min(first for first, _ in stretches), max(end for _, end in stretches)
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
    """The part of the removed records in what a consumer read from `first` up to, but without, `end`; None if there is none."""
    first, last = max(first, removal.first_offset), min(end - 1, removal.last_offset)
    return Reader(client, group, first, last) if first <= last else None
