"""EL-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.rules.eligible_leader_replicas.missing import STATES_UNKNOWN, level_unknown
from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EL-03", frame="eligible_replicas", kip="KIP-966", severity=CRITICAL, since="4.0")
class ElectedPastLiveIsr(Rule):
    """An eligible leader replica (ELR) was elected although the ISR was not empty.

    ## What it checks
    Each change record of the metadata log that makes a broker leader which was in the ELR and not in the ISR before. The
    ISR had then one member at most, which leaves it in this record, and the new ISR is the leader alone. An ELR that an
    earlier record of the same batch emptied counts, too. Records are judged while eligible.leader.replicas.version is 1 or
    above.

    ## Why it matters
    The ELR is complete only as long as the high watermark does not rise without it. A member of the ISR has all that such
    a replica has, and what was written since. With the eligible replica as leader, records that only the ISR has are deleted.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot.

    ## What is allowed
    An event takes one broker out of an ISR, so a single member may leave in the record that elects: this rule does not
    judge whether it had to. A record that completes, begins or cancels a reassignment elects from the ISR that it
    writes. An election that leaderRecoveryState marks as unclean is counted as a pass if the ISR had one member at
    most: LD-03 judges it. Controllers of 4.0 to 4.2 empty the ELR when a replica is assigned to a log directory; if
    that directory is offline, the next record of the batch may elect from the ELR before. If the log's beginning or a
    part of it is missing, an election past the recorded ISR is unverifiable.

    ## What to do
    Before the members of the former ISR follow the new leader, copy their log directories: they truncate what it lacks. If
    they have followed already, TR-06 and AW-01 state which offsets were lost. Compare with the controller's log at that
    time, and look for EP-05 and EP-06 in case the metadata log is damaged. Report it with the records to Kafka's developers.

    ## Example
    orders-0 has leader 1, ISR [1, 2] and ELR [3]. Broker 1 is fenced. The record sets leader 3 and ISR [3], although broker 2
    is still in the ISR.

    ## References
    KIP-966, Eligible Leader Replicas; PartitionChangeBuilder.isValidNewLeader, tryElection;
    ReplicationControlManager.generateLeaderAndIsrUpdates; PartitionReassignmentReplicas.
    """

    evidence = {
        "the election": "state_ref",
        "the state before": "previous_ref",
        "the ELR that the record before emptied": "emptied_elr_ref",
    }
    expected = "a leader from ISR {previous_isr}, and one from ELR {elected_from} only if no member of that ISR is left"
    observed = "leader {leader} from ELR {elected_from}, with ISR {isr}"
    because = (
        "{topic}-{partition} had leader {previous_leader}, ISR {previous_isr} and ELR {previous_elr}",
        "the record before had emptied ELR {emptied_elr} in the same batch",
        "the record at metadata offset {metadata_offset} sets leader {leader}, with ISR {isr} and ELR {elr}",
    )

    def applies(self) -> Column:
        elects = ~col("leader").eqNullSafe(col("previous_leader"))
        outside = ~holds(F.array_contains("previous_isr", col("leader")))
        return col("changes") & elects & col("elected_from").isNotNull() & outside

    def verdict(self) -> tuple[Branch, ...]:
        alone = (F.size("isr") == 1) & F.array_contains("isr", col("leader"))
        lawful = (F.size("previous_isr") <= 1) & alone
        taken = "leader {leader} from ELR {elected_from}"
        passed_over = f"{taken}, with ISR {{isr}}: a member of the former ISR was passed over"
        return first_of(
            level_unknown(observed=taken),
            passed(
                col("reassigned") & F.array_contains("isr", col("leader")),
                expected="a leader from the ISR that the record of the reassignment writes, {isr}",
                observed="leader {leader}, a member of it",
            ),
            unverifiable(
                col("previous_isr").isNull(),
                STATES_UNKNOWN,
                expected="a leader from the ELR only if no member of the ISR is left",
                observed=taken,
            ),
            passed(
                lawful & col("marks"),
                observed="leader {leader}, alone in the ISR and marked as elected uncleanly",
            ),
            passed(lawful, observed=f"{taken}, alone in the ISR: no other member was left"),
            log_incomplete(),
            violation(F.size("previous_isr") > 1, observed=passed_over),
            otherwise=violation(
                expected="leader {leader} alone in the ISR, as it was elected from ELR {elected_from}",
                observed="leader {leader} with ISR {isr}",
            ),
        )
