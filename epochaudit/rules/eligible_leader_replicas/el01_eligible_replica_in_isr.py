"""EL-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.eligible_leader_replicas.missing import STATES_UNKNOWN, level_unknown
from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EL-01", frame="eligible_replicas", kip="KIP-966", severity=HIGH, since="4.0")
class EligibleReplicaInIsr(Rule):
    """A replica was in the ISR and among the eligible leader replicas (ELR) at once.

    ## What it checks
    Each record of the metadata log after which a partition has eligible leader replicas. None of them is in the ISR after
    it. A change record without a list leaves it as it was, so both lists are replayed. Records are judged while
    eligible.leader.replicas.version is 1 or above.

    ## Why it matters
    The ELR lists replicas that left the ISR and still have all committed records. A replica that is in both lists remains
    eligible when it leaves the ISR for lack of records, and may then be elected without them.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot.

    ## What is allowed
    Nothing: a controller takes the new ISR out of the ELR in each record that it writes. It reports such a state itself
    ("has overlapping ISR"). If the log's beginning or a part of it is missing, the states are unverifiable.

    ## What to do
    Search the active controller's log for "has overlapping ISR" to see whether it had that state, too. If it had not,
    the copy of the log is damaged: look for EP-05 and EP-06. If it had, restart the replica in question cleanly, one at a
    time, and wait until it is back in the ISR. Once the ISR has min.insync.replicas members, the controller empties the ELR.

    ## Example
    orders-0 has ISR [1, 2] and ELR [3]. Broker 3 catches up, and the record that sets ISR [1, 3] leaves the ELR at [3].

    ## References
    KIP-966, Eligible Leader Replicas; PartitionChangeBuilder.maybePopulateTargetElr, maybeUpdateRecordElr;
    ReplicationControlManager.updatePartitionInfo; PartitionRegistration.merge.
    """

    evidence = {"the record": "state_ref", "the state before": "previous_ref"}
    expected = "no eligible leader replica in ISR {isr}"
    observed = "{in_both} in both ISR {isr} and ELR {elr}"
    because = (
        "{topic}-{partition} had ISR {previous_isr} and ELR {previous_elr}",
        "the record at metadata offset {metadata_offset} leaves ISR {isr} and ELR {elr}",
    )

    def applies(self) -> Column:
        return F.size("elr") > 0

    def verdict(self) -> tuple[Branch, ...]:
        own = "eligible leader replicas {elr}"
        return first_of(
            level_unknown(observed=own),
            unverifiable(
                col("isr").isNull(),
                STATES_UNKNOWN,
                expected="no eligible leader replica in the ISR",
                observed=own,
            ),
            passed(F.size("in_both") == 0, observed="ELR {elr}, none of it in the ISR"),
            log_incomplete(),
            otherwise=violation(),
        )
