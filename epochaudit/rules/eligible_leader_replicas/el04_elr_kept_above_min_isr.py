"""EL-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.eligible_leader_replicas.missing import STATES_UNKNOWN, level_unknown
from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EL-04", frame="eligible_replicas", kip="KIP-966", severity=MEDIUM, since="4.0")
class ElrKeptAboveMinIsr(Rule):
    """The ISR has min.insync.replicas members, and eligible leader replicas (ELR) are still listed.

    ## What it checks
    Each change record of the metadata log after which the ELR has members, and each that lets the ISR grow while it has. If the
    ISR has min.insync.replicas members, or as many as the topic's partition 0 has replicas, the record has to leave an empty ELR.
    Records are judged while eligible.leader.replicas.version is 1 or above.

    ## Why it matters
    A replica is eligible because the high watermark does not rise while the ISR is below min.insync.replicas. Above it,
    records are acknowledged that an eligible replica does not have. If the ISR becomes empty later, that replica is elected as
    if it were complete, and they are lost without an unclean election.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot: it has the settings of min.insync.replicas, too.

    ## What is allowed
    A leader that is elected from the ELR is alone in the ISR, and the others remain eligible also if min.insync.replicas is 1:
    the list is made before the election. A record that completes a reassignment elects from the ISR that it writes: that leader
    counts. A change of min.insync.replicas empties the lists by a ClearElrRecord. Fewer replicas of partition 0 lower the number
    for the next record only.

    ## What to do
    Set min.insync.replicas of the topic anew (`kafka-configs.sh --alter`): controllers then empty its ELRs. If a listed replica
    was elected since, look at TR-06 and AW-01 for what was lost, and copy the logs of the former leader before it follows and
    truncates. Report it with the records to Kafka's developers.

    ## Example
    min.insync.replicas is 2, and orders-0 has leader 1, ISR [1] and ELR [2, 3]. The record that lets broker 2 join leaves ISR [1, 2]
    and ELR [3]. Producers go on. Brokers 1 and 2 are fenced, and broker 3, which lacks what they wrote, is elected.

    ## References
    KIP-966, Eligible Leader Replicas; PartitionChangeBuilder.maybePopulateTargetElr;
    ReplicationControlManager.getTopicEffectiveMinIsr; Partition.maybeIncrementLeaderHW.
    """

    evidence = {"the record": "state_ref", "the state before": "previous_ref", "the setting": "min_insync_replicas_ref"}
    expected = "an empty ELR: ISR members {isr_members}, min.insync.replicas {min_insync_replicas}"
    observed = "ISR {isr} and ELR {elr}"
    because = (
        "the record at metadata offset {metadata_offset} leaves {topic}-{partition} with ISR {isr} and ELR {elr}",
    )

    def applies(self) -> Column:
        return col("changes") & ((F.size("elr") > 0) | col("isr_grows"))

    def verdict(self) -> tuple[Branch, ...]:
        members, required = col("isr_members"), col("min_insync_replicas")
        above = "an empty ELR, once the ISR has min.insync.replicas members"
        below = "members in the ELR, as the ISR has fewer than min.insync.replicas, {min_insync_replicas}"
        as_partition_0 = (
            "an empty ELR: ISR members {isr_members}, replicas of partition 0 {most_partition_0_replicas} at most"
        )
        return first_of(
            level_unknown(expected=above, observed="ELR {elr}", because=()),
            passed(F.size("elr") == 0, expected=above, observed="ELR {elr}", because=()),
            unverifiable(col("isr").isNull(), STATES_UNKNOWN, expected=above, observed="ELR {elr}", because=()),
            passed(col("elects"), expected="members in the ELR, as leader {leader} was elected from an empty ISR"),
            log_incomplete(expected=above),
            unverifiable(
                required.isNull(),
                "the setting of min.insync.replicas is not in the evidence (metadata log)",
                expected=above,
            ),
            violation(members >= required),
            violation(members >= col("most_partition_0_replicas"), expected=as_partition_0),
            unverifiable(
                col("partition_0_replicas").isNull(),
                "the replicas of the topic's partition 0 are not in the evidence",
                expected=above,
            ),
            passed(members < F.least(required, "partition_0_replicas"), expected=below),
            otherwise=unverifiable(
                None,
                "the replicas of the topic's partition 0, which limit the number, changed just before",
                expected=above,
            ),
        )
