"""IS-14."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.state.partition_states import OF_RECORD
from epochaudit.rules.reasons import EARLIER_RECORDS_MISSING
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("IS-14", frame="metadata", kip="KIP-841", severity=HIGH, since="2.8")
class IsrOutsideReplicas(Rule):
    """A committed ISR names a broker that is no replica of the partition, or names one twice.

    ## What it checks
    Every partition record of the metadata log: the resulting ISR is a subset of the resulting replicas, without
    repetitions. The controller answers 42 (INVALID_REQUEST) to an AlterPartition that would break this.

    ## Why it matters
    A member that is no replica never fetches, so the high watermark does not advance. A member that is counted twice
    satisfies min.insync.replicas with fewer copies than it promises.

    ## Evidence needed
    The metadata log.

    ## What is allowed
    LeaderAndIsr requests of ZooKeeper controllers are not judged: during a reassignment they may list ISR members outside
    the replicas (KAFKA-9672).

    ## What to do
    Assign the replicas that you want with `kafka-reassign-partitions.sh`: its last step writes replicas and ISR
    together. Until then the partition has fewer copies than its ISR claims: keep the leader running. The controller
    refuses such an ISR in every release; look for EP-05 and EP-06 in case the metadata log is damaged.

    ## Example
    orders-0 is assigned to [1, 2]. A record sets its ISR to [1, 2, 3].

    ## References
    ReplicationControlManager.validateAlterPartitionData; PartitionRegistration; KIP-841, AlterPartition RPC; KAFKA-9672.
    """

    evidence = {"the committed record": "state_ref", "the partition's record before": "previous_ref"}
    expected = "an ISR within the replicas, without repetitions"
    observed = "ISR {isr}"
    because = (
        "the state before had ISR {previous_isr} and replicas {previous_replicas}",
        "the record at offset {metadata_offset} leaves {topic}-{partition} with ISR {isr} and replicas {replicas}",
    )

    def applies(self) -> Column:
        return col("scope") == OF_RECORD

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("isr").isNull() | col("replicas").isNull(),
                EARLIER_RECORDS_MISSING,
                observed="a change that leaves ISR or replicas of an earlier record",
            ),
            violation(F.size(F.array_except("isr", "replicas")) > 0, expected="an ISR within replicas {replicas}"),
            violation(F.size(F.array_distinct("isr")) < F.size("isr"), expected="an ISR that names each broker once"),
            otherwise=passed(expected="an ISR within replicas {replicas}, without repetitions"),
        )
