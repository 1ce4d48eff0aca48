"""EL-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.eligible_leader_replicas.missing import STATES_UNKNOWN, level_unknown
from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EL-02", frame="eligible_replicas", kip="KIP-966", severity=CRITICAL, since="4.0")
class EligibleReplicaOutOfNowhere(Rule):
    """A replica became an eligible leader replica (ELR) without having been in the ISR.

    ## What it checks
    Each change record of the metadata log that sets the eligible leader replicas of a partition to others than before.
    Each of them was in the ELR or in the ISR before the record. Records are judged while
    eligible.leader.replicas.version is 1 or above.

    ## Why it matters
    A member of the ELR counts as complete. If the ISR becomes empty, it is elected at once, without a setting that permits
    it and without a mark. A replica that was not in the ISR may lack acknowledged records, and all others then delete them.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot.

    ## What is allowed
    A replica enters the ELR by leaving the ISR while less than min.insync.replicas members are left. Records of a snapshot
    state lists and change none. Controllers of 4.0 to 4.2 empty the ELR when a replica is assigned to a log directory (EL-07);
    if that directory is offline, the next record in the same batch names the members again. After a ClearElrRecord the ELR is
    empty. If the log's beginning or a part of it is missing, a member whose origin is not recorded is unverifiable.

    ## What to do
    Keep the ISR from becoming empty: do not stop or restart the remaining members of the ISR. Let the replica named catch up,
    until the ISR has min.insync.replicas members again, which empties the ELR. If the replica has been elected since, TR-06
    states what was lost. If EP-05 or EP-06 reports damage of this log, that explains the record: no controller need be at fault.

    ## Example
    orders-0 has ISR [1, 2] and no ELR; broker 3 is far behind. Broker 2 is fenced, and the record that sets ISR [1] sets
    ELR [2, 3].

    ## References
    KIP-966, Eligible Leader Replicas; PartitionChangeBuilder.maybePopulateTargetElr; PartitionRegistration.merge.
    """

    evidence = {"the record": "state_ref", "the state before": "previous_ref"}
    expected = "an ELR from ISR {previous_isr} and ELR {previous_elr} before"
    observed = "ELR {elr}, of which {from_nowhere} was in neither"
    because = (
        "{topic}-{partition} had ISR {previous_isr} and ELR {previous_elr}",
        "the record at metadata offset {metadata_offset} sets ELR {elr}, with ISR {isr}",
    )

    def applies(self) -> Column:
        sets = (F.size("elr") > 0) & ~F.col("elr").eqNullSafe(F.col("previous_elr"))
        return col("changes") & sets

    def verdict(self) -> tuple[Branch, ...]:
        own, sets = "eligible leader replicas {elr}", "an ELR from the ISR and the ELR before"
        return first_of(
            level_unknown(expected=sets, observed=own),
            passed(
                (F.size("from_nowhere") == 0)
                & (F.size(F.array_except("elr", F.concat("previous_isr", "previous_elr"))) > 0),
                expected="an ELR from ISR {previous_isr} and ELR {elr_in_batch}, which the same batch emptied",
                observed="ELR {elr}",
            ),
            passed(F.size("from_nowhere") == 0, observed="ELR {elr}"),
            unverifiable(
                col("previous_isr").isNull() | col("previous_elr").isNull(),
                STATES_UNKNOWN,
                expected=sets,
                observed=own,
            ),
            log_incomplete(),
            otherwise=violation(),
        )
