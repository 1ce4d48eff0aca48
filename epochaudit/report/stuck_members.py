"""The members of consumer groups that are stuck: they ask for a committed offset that no longer exists, and read nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from epochaudit.findings.finding import EvidenceReader, evidence_of
from epochaudit.inventory.inventory import REQUEST_LOG, Inventory
from epochaudit.kafka.field_values import CONTROLLER
from epochaudit.replay.data_plane.stuck_members import reads_of_clients, unanswered_members
from epochaudit.report.contents import StuckMember

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LISTED: Final = 200
EVIDENCE: Final = {
    "the last offset that the group had": "committed_ref",
    "the member joins the group": "joined_ref",
    "the first answer without an offset": "first_ref",
    "the last answer without an offset": "last_ref",
}

Row = Mapping[str, Any]


def stuck_members_of(events: DataFrame, inventory: Inventory, recording: EvidenceReader) -> tuple[StuckMember, ...]:
    """The stuck members, by cluster, group, topic, partition and client; LISTED at most.

    That a member asks no leader for anything is known only where the request logs of all brokers are there, and whole.
    """
    whole = whole_clusters(inventory)
    if not whole:
        return ()
    of_whole_clusters = unanswered_members(events).where(F.col("cluster").isin(*whole))
    in_order = of_whole_clusters.orderBy("cluster", "group_id", "topic", "partition", "client_id", "node", "first_at")
    asking = in_order.limit(LISTED).toArrow().to_pylist()
    if not asking:
        return ()
    reads = reads_of_clients(events, sorted({row["client_id"] for row in asking})).toArrow().to_pylist()
    stuck = [_member(row, recording) for row in asking if not reads_on(row, reads)]
    return tuple(sorted(stuck, key=lambda one: (one.cluster, one.group, one.topic, one.partition, one.client)))


def whole_clusters(inventory: Inventory) -> frozenset[str]:
    """Clusters of which the request log of each broker is recorded, none is filtered, and nothing is known to be missing."""
    doubtful = {one.cluster for one in inventory.missing} | {cluster for cluster, _ in inventory.light_nodes}
    doubtful |= {
        node.cluster for node in inventory.nodes if REQUEST_LOG in node.missing_logs and set(node.roles) != {CONTROLLER}
    }
    return frozenset(inventory.clusters) - doubtful


def reads_on(asking: Row, reads: Iterable[Row]) -> bool:
    """A leader was, or may have been, asked for the partition after the first answer without an offset.

    Rows of `unanswered_members` and `reads_of_clients`. A Fetch leaves the partition to its session if nothing changed; logs of
    two brokers are in no order, so that of another one each request counts.
    """
    own = [row for row in reads if (row["cluster"], row["client_id"]) == (asking["cluster"], asking["client_id"])]
    about = [row for row in own if row["partition"] == asking["partition"] and row["topic"] in (asking["topic"], None)]
    sessions = {(row["node"], row["session_id"]) for row in about if row["session_id"]}
    about += [row for row in own if (row["node"], row["session_id"]) in sessions]
    return any(row["node"] != asking["node"] or row["last_at"] >= asking["first_at"] for row in about)


def _member(row: Row, recording: EvidenceReader) -> StuckMember:
    lines = [{"role": role, "place": row[name]} for role, name in EVIDENCE.items() if row[name] is not None]
    evidence = evidence_of(row["cluster"], lines, recording)
    times: Sequence[str | None] = [one.time for one in evidence]
    return StuckMember(
        cluster=row["cluster"],
        group=row["group_id"],
        client=row["client_id"],
        topic=row["topic"],
        partition=row["partition"],
        node=row["node"],
        committed_offset=row["committed_offset"],
        asks=row["asks"],
        since=times[-2],
        until=times[-1],
        evidence=evidence,
    )
