"""LD-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.state.cluster_history import INELIGIBLE, UNKNOWN
from epochaudit.rules.reasons import CONTROLLER_VERSION_UNKNOWN
from epochaudit.rules.rule import (
    CRITICAL,
    MEDIUM,
    Branch,
    Rule,
    exposed,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)


@rule("LD-02", frame="metadata", kip="KIP-841", severity=CRITICAL, since="2.8")
class IneligibleLeaderElected(Rule):
    """The controller elected a broker that was fenced, in controlled shutdown or not registered.

    ## What it checks
    A PartitionChangeRecord that makes another broker leader: at its offset that broker must be registered, unfenced and
    not in controlled shutdown.

    ## Why it matters
    The partition's leader is not running: no produce, no fetch, no ISR change succeeds until the next election, and the
    controller has no reason to hold one. The severity is medium where a controller before 4.1 elects the last known leader.

    ## Evidence needed
    The metadata log, from its start or from a snapshot.

    ## What is allowed
    Unfencing writes the broker first and then elects it. A record that sets the leader to the present one is no election;
    it only raises the leader epoch. The log has controlled shutdown since metadata.version 3.3-IV3. LD-01 covers a leader
    outside the ISR, IS-08 a new partition.

    ## What to do
    If the partition has no leader now (`kafka-topics.sh --describe --unavailable-partitions`), start the elected
    broker. Or hold an election with `kafka-leader-election.sh --election-type preferred`, which takes the first replica
    if it is in the ISR. KRaft controllers before 3.3 elect such brokers (KAFKA-13173 up to 3.0, KAFKA-13916 up to 3.2), and
    those of 4.0 the last known leader: upgrade.

    ## Example
    Offset 49 fences broker 3. The record at offset 50 makes broker 3 leader of orders-0.

    ## References
    KIP-841, invariant 2; PartitionChangeBuilder.electLeader; ReplicationControlManager.isActive; KAFKA-13916;
    PartitionChangeBuilder.canElectLastKnownLeader; KAFKA-19522.
    """

    evidence = {
        "the record that elects": "state_ref",
        "the record that made the broker ineligible": "leader_ref",
        "the partition's record before": "previous_ref",
    }
    expected = "a leader that is registered, unfenced and not shutting down"
    observed = "leader {leader}, which was {leader_standing_in_words}"
    because = (
        "{topic}-{partition} had leader {previous_leader} and ISR {previous_isr}",
        "the record at offset {metadata_offset} makes broker {leader} leader in leader epoch {leader_epoch}, with ISR {isr}",
        "by the metadata log, broker {leader} was {leader_standing_in_words} at that offset",
    )

    def applies(self) -> Column:
        return col("elects") & col("leader_standing").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        ineligible, last_known = col("leader_standing").isin(*INELIGIBLE), col("elects_last_known")
        expected = "the last known leader {leader}, which controllers of 4.0 elect also if it is not there"
        return first_of(
            unverifiable(
                col("leader_standing") == UNKNOWN,
                "the registration of the leader is not in the evidence",
                observed="leader {leader}",
                because=self.because[:2],
            ),
            passed(~ineligible),
            passed(
                last_known & ~col("checks_last_known") & col("returns"),
                expected=expected,
                observed="leader {leader}, which was {leader_standing_in_words}, and was unfenced next",
            ),
            exposed(
                last_known & ~col("checks_last_known"),
                "controllers of 4.0 do not look whether the last known leader is there",
                expected=expected,
            ),
            unverifiable(last_known & col("checks_last_known").isNull(), CONTROLLER_VERSION_UNKNOWN),
            otherwise=violation(),
        )

    def severity_of(self) -> Column | None:
        return F.when(col("elects_last_known") & ~col("checks_last_known"), MEDIUM)
