"""EP-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-06", frame="log_copies", kip="KIP-841", severity=CRITICAL, since="2.8")
class MetadataLogCopiesDisagree(Rule):
    """Two copies of the metadata log have different records at one offset of one raft epoch.

    ## What it checks
    Every controller and broker of a KRaft cluster has a copy of the metadata log. Where the capture holds several, as
    raw segments, as dumps or both, the records at the same offset and of the same raft epoch must be equal: their type
    and the fields that this audit reads.

    ## Why it matters
    Broker epochs, leader epochs, partition epochs and ISRs are what the metadata log says they are. Nodes that read
    different logs fence each other by different rules, and every verdict of this audit about the cluster depends on
    which copy it took.

    ## Evidence needed
    Two copies of the metadata log, of two nodes or from two times.

    ## What is allowed
    Records above the high watermark that were not committed: a raft leader of a later epoch overwrites them, while a
    node that was cut off keeps them until it comes back. A lower raft epoch at an offset, or behind the offset where a
    higher one begins, is therefore no disagreement: the higher raft epoch is what stands, in all rules. Copies may
    begin and end anywhere. Snapshots are not compared with each other. Dumps of Kafka before 4.1 leave out who became
    raft leader. Dumps without the lines of their batches do not tell raft epochs: where two of them differ, it is
    unverifiable which is right.

    ## Example
    At offset 212, both of raft epoch 5, controller 101 has a record that sets the ISR of orders-0 to [1, 2], controller
    102 one that sets it to [2, 3]. Two quorums ran under one cluster id, or a disk was restored from a backup.

    ## References
    KIP-595, log matching and truncation by epoch; KIP-841, where the state of brokers and partitions is in this log.
    """

    evidence = {"the record": "record_ref", "the other copy": "other_ref"}
    expected = "one record at metadata offset {metadata_offset} of raft epoch {raft_epoch}"
    observed = "several: {event_types}"
    because = (
        "copies of the metadata log hold records {event_types} at offset {metadata_offset} in raft epoch {raft_epoch}",
        "what they say: {contents}",
    )

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        known = F.filter("event_types", lambda name: ~name.startswith("UNKNOWN_"))
        differ = (F.size(known) > 1) | (F.size("contents") > 1)
        unread = ~col("all_known") | (F.size(known) < F.size("event_types"))
        return first_of(
            unverifiable(differ & col("raft_epoch").isNull(), "the raft epoch of the copies is not in the evidence"),
            violation(differ),
            passed(col("event_type") == "LEADER_CHANGE"),
            unverifiable(unread, "a copy's record is of a type or version that is not known"),
            otherwise=passed(),
        )
