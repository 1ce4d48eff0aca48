"""IS-14."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.partition_states import RECORD
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("IS-14", frame="metadata", kip="KIP-841", severity=HIGH, since="2.8")
class IsrOutsideReplicas(Rule):
    """A committed ISR names a broker that is no replica of the partition, or names one twice.

    ## What it checks
    Every partition record of the metadata log: the ISR that stands after it is a subset of the replicas that stand after
    it, without repetitions. The controller answers 42 (INVALID_REQUEST) to an AlterPartition that would break this.

    ## Why it matters
    A member that is no replica never fetches, so the high watermark stands still. A member counted twice makes
    min.insync.replicas hold with fewer copies than it promises.

    ## Evidence needed
    The metadata log. Nothing else.

    ## What is allowed
    LeaderAndIsr requests of ZooKeeper controllers, which during a reassignment may list ISR members outside the replicas
    (KAFKA-9672): they are not judged.

    ## Example
    orders-0 is assigned to [1, 2]; a record sets its ISR to [1, 2, 3].

    ## References
    ReplicationControlManager.validateAlterPartitionData; PartitionRegistration; KIP-841, AlterPartition RPC; KAFKA-9672.
    """

    evidence = {"the committed record": "state_ref", "the partition's record before": "previous_ref"}
    expected = "an ISR without repetitions within replicas {replicas}"
    observed = "ISR {isr}"
    because = (
        "the state before had ISR {previous_isr} and replicas {previous_replicas}",
        "the record at offset {metadata_offset} leaves {topic}-{partition} with ISR {isr} and replicas {replicas}",
    )

    def applies(self) -> Column:
        return col("scope") == RECORD

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("isr").isNull() | col("replicas").isNull(),
                "the partition's earlier records are not in the evidence",
            ),
            violation(F.size(F.array_except("isr", "replicas")) > 0),
            violation(F.size(F.array_distinct("isr")) < F.size("isr")),
            otherwise=passed(),
        )
