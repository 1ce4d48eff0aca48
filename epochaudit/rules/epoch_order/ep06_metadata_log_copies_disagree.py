"""EP-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_CHANGE
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-06", frame="log_copies", kip="KIP-841", severity=CRITICAL, since="2.8")
class MetadataLogCopiesDisagree(Rule):
    """Two copies of the metadata log have different records at one offset of one raft epoch.

    ## What it checks
    Every controller and broker of a KRaft cluster has a copy of the metadata log. If the capture has several, as raw
    segments or as dumps, the records at the same offset and of the same raft epoch must be equal in their type and in the
    fields that this audit reads.

    ## Why it matters
    The metadata log defines broker epochs, leader epochs, partition epochs and ISRs. Nodes that read different logs fence
    each other by different states, and every verdict of this audit about the cluster depends on the copy that it used.

    ## Evidence needed
    Two copies of the metadata log, from two nodes or from two times.

    ## What is allowed
    Records above the high watermark that were not committed: a raft leader of a later epoch overwrites them, while an
    isolated node retains them until it reconnects. A lower raft epoch at an offset, or behind the offset where a higher one
    begins, is therefore no disagreement, and all rules use the higher raft epoch. If the log went on from a lower epoch to a later one
    without it, the higher one was abandoned: no rule uses its records. Copies may begin and end anywhere.
    Snapshots are not compared with each other. Dumps of Kafka before 4.1 omit who became raft leader. Dumps without the
    lines of their batches have no raft epochs: if two of them differ, it is unverifiable which is right.

    ## What to do
    Change nothing in the cluster until you know which copy is right: create no topics, and start no reassignment. Ask
    each controller with `kafka-metadata-quorum.sh describe --status` who leads; two leaders with one cluster id mean
    two quorums, of which one has to be stopped. Keep all copies. On a node whose copy is wrong, move the folder
    `__cluster_metadata-0` aside and start it again, controllers only while a majority has the right copy.

    ## Example
    At offset 212, both of raft epoch 5, controller 101 has a record that sets the ISR of orders-0 to [1, 2], and controller
    102 one that sets it to [2, 3]. Two quorums used one cluster id, or a disk was restored from a backup.

    ## References
    KIP-595, log matching and truncation by epoch; KIP-841, where the state of brokers and partitions is in this log.
    """

    evidence = {"the record": "record_ref", "the other copy": "other_ref"}
    expected = "equal records in all copies at metadata offset {metadata_offset}"
    observed = "records of type {event_types}"
    because = ("the offset is of raft epoch {raft_epoch}", "copies hold records of type {event_types}")

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        known_types = F.filter("event_types", lambda name: ~name.startswith("UNKNOWN_"))
        differ = (F.size(known_types) > 1) | (F.size("contents") > 1)
        contents = "what they say: {contents}"
        unread = ~col("all_known") | (F.size(known_types) < F.size("event_types"))
        return first_of(
            unverifiable(differ & col("raft_epoch").isNull(), "the raft epoch of the copies is not in the evidence"),
            violation(
                F.size(known_types) > 1,
                observed="records of different types: {event_types}",
                because=(*self.because, contents),
            ),
            violation(
                differ,
                observed="records of type {event_types} that say different things",
                because=(*self.because, contents),
            ),
            passed(col("event_type") == LEADER_CHANGE),
            unverifiable(unread, "a copy's record is of a type or version that is not known"),
            otherwise=passed(),
        )
