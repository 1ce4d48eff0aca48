"""The writes that leaders had acknowledged to producers, and without which a later leader epoch began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from epochaudit.findings.finding import EvidenceReader, evidence_of
from epochaudit.replay.data_plane.acknowledged_writes import REMOVED, removed_epochs, removed_writes
from epochaudit.replay.data_plane.lineage import acknowledged_epochs, epochs_of
from epochaudit.report.contents import LostWrites
from epochaudit.spark.local_rows import local_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from epochaudit.pipeline import Audit

RULE: Final = "AW-01"  # its subjects are leader epochs before which writes had been acknowledged
EPOCH: Final = ("cluster", "topic_key", "partition", "removed_in")
LISTED: Final = 200
KNOWN_ELECTIONS: Final = ("clean", "unclean")
ACKNOWLEDGED: Final = "the answer that acknowledged the last of them"
BEGUN: Final = "the leader's line that starts the epoch"

Row = Mapping[str, Any]


def lost_writes_of(audit: Audit, recording: EvidenceReader) -> tuple[tuple[LostWrites, ...], bool]:
    """The lost writes, by cluster, topic, partition, leader epoch, acks and producer; of LISTED leader epochs at most, and whether there
    are more.

    Runs only if the rule had subjects.
    """
    if not any(tally.rule == RULE and any(tally.counts.values()) for tally in audit.tallies):
        return (), False
    rows, epochs, cut = lost_rows(audit.events)
    return _with_lines(rows, epochs, recording), cut


def lost_rows(events: DataFrame) -> tuple[list[Row], dict[int, Row], bool]:
    """The rows of `removed_writes`, and by their number a row of `removed_epochs` each: the leader epoch that lacks the writes; and
    whether there are more than LISTED.
    """
    found = removed_epochs(epochs_of(events), acknowledged_epochs(events))
    in_order = found.orderBy("cluster", "topic", "topic_id", "partition", "removed_in", "leader_epoch", "node")
    found_rows = in_order.limit(LISTED + 1).toArrow().to_pylist()
    removed, cut = found_rows[:LISTED], len(found_rows) > LISTED
    if not removed:
        return [], {}, cut
    numbers: dict[tuple[object, ...], int] = {}
    epochs: dict[int, Row] = {}
    for row in removed:
        number = numbers.setdefault(tuple(row[name] for name in EPOCH), len(numbers))
        epochs[number] = row
        row["number"] = number
    names = [column.split()[0] for column in REMOVED.split(", ")]
    candidates = local_rows(events.sparkSession, [tuple(row[name] for name in names) for row in removed], REMOVED)
    topics = sorted({row["topic"] for row in removed if row["topic"] is not None})
    topic_ids = sorted({row["topic_id"] for row in removed if row["topic_id"] is not None})
    rows = removed_writes(events, candidates, topics, topic_ids).toArrow().to_pylist()
    return sorted(rows, key=_in_order), epochs, cut


def _in_order(row: Row) -> tuple[object, ...]:
    return row["number"], row["acks"], row["client_id"] or "", row["client_host"] or "", row["transactional_id"] or ""


def _with_lines(rows: Sequence[Row], epochs: Mapping[int, Row], recording: EvidenceReader) -> tuple[LostWrites, ...]:
    """The rows with their lines, of each cluster read at once."""
    by_cluster: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cluster[epochs[row["number"]]["cluster"]].append(row)
    found = []
    for cluster, of_cluster in by_cluster.items():
        places = [
            {"role": role, "place": place}
            for row in of_cluster
            for role, place in ((ACKNOWLEDGED, row["own_ref"]), (BEGUN, epochs[row["number"]]["start_ref"]))
        ]
        lines = evidence_of(cluster, places, recording)
        found += [_lost(row, epochs[row["number"]], lines[2 * at : 2 * at + 2]) for at, row in enumerate(of_cluster)]
    return tuple(found)


def _lost(row: Row, epoch: Row, lines: Sequence[Any]) -> LostWrites:
    return LostWrites(
        cluster=epoch["cluster"],
        topic=epoch["topic"],
        topic_id=epoch["topic_id"],
        partition=epoch["partition"],
        leader_epoch=epoch["removed_in"],
        start_offset=epoch["start_offset"],
        acks=row["acks"],
        client=row["client_id"],
        host=row["client_host"],
        transactional_id=row["transactional_id"],
        batches=row["batches"],
        first_offset=row["first_offset"],
        last_offset=row["last_offset"],
        evidence=tuple(lines),
        election=epoch["election"] if epoch["election"] in KNOWN_ELECTIONS else None,
        candidates_before=epoch["candidates_before"],
    )
