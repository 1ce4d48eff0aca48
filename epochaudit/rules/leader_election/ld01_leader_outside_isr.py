"""LD-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.field_values import NO_LEADER
from epochaudit.rules.reasons import EARLIER_RECORDS_MISSING
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("LD-01", frame="metadata", kip="KIP-841", severity=CRITICAL, since="all")
class LeaderOutsideIsr(Rule):
    """A committed partition state has a leader that is not in its ISR.

    ## What it checks
    In every committed state the leader is a member of the ISR, or -1. In KRaft these are the partition records of the
    metadata log, merged; in ZooKeeper mode the states that controllers report in state-change.log and the LeaderAndIsr
    partitions that brokers accepted.

    ## Why it matters
    Members of the ISR have every acknowledged record. A leader outside it may lack some, and the next election from the ISR
    may discard records that this leader acknowledged.

    ## Evidence needed
    The metadata log; or controllers' state-change.log, or brokers' request logs with LeaderAndIsr.

    ## What is allowed
    Leader -1, even with an empty ISR (eligible leader replicas). Leader -2, a partition that is being deleted. An unclean
    election sets leader and ISR in one record. A LeaderAndIsr that a broker refused states nothing.

    ## What to do
    Pause the producers and save the partition's folder on the leader: what it acknowledged may be nowhere else, and the
    next election from the ISR truncates it. Then let a member of the ISR take over, and write the records that it lacks
    again. Look for EP-05 and EP-06 (KRaft), or for a state that a tool or a person wrote to ZooKeeper.

    ## Example
    A record sets leader 3 for orders-0 while its ISR is [1, 2].

    ## References
    KIP-841, invariant 2; PartitionChangeBuilder.electLeader; LeaderInIsr of the Kafka replication TLA+ model.
    """

    evidence = {"the committed state": "state_ref", "the state before": "previous_ref"}
    expected = "leader -1 or one of ISR {isr}"
    observed = "leader {leader} with ISR {isr}"
    because = (
        "the state before had leader {previous_leader}, ISR {previous_isr}, leader epoch {previous_leader_epoch}",
        "this one has leader {leader}, ISR {isr}, leader epoch {leader_epoch}, partition epoch {partition_epoch}",
    )

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("leader") == NO_LEADER,
                expected="no leader, or one of the ISR",
                observed="no leader (-1) with ISR {isr}",
            ),
            unverifiable(
                col("leader").isNull() | col("isr").isNull(),
                EARLIER_RECORDS_MISSING,
                expected="no leader, or one of the ISR",
                observed="a record that leaves the leader or the ISR as it was",
                because=(),
            ),
            passed(F.array_contains("isr", col("leader"))),
            otherwise=violation(),
        )
