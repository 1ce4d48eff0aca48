"""IS-17."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.kip841.eligibility import SUCCEEDED
from epochaudit.rules.kip841.isr_altered_by_another import INVALID_REQUEST
from epochaudit.rules.rule import MEDIUM, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

RECOVERING = 1


@rule("IS-17", frame="isr_changes", kip="KIP-704", severity=MEDIUM, since="3.2")
class RecoveryStateMisused(Rule):
    """The controller accepted an ISR that a recovering leader may not ask for.

    ## What it checks
    A leader elected from outside the ISR is RECOVERING (leaderRecoveryState 1) until it has recovered. Such a leader may
    not have a second ISR member, and a leader that is RECOVERED may not go back. An AlterPartition that asks for either
    must be answered 42 (INVALID_REQUEST).

    ## Why it matters
    Replicas that join while the leader recovers copy a log that may still be cut. After that no member of the ISR can tell
    what was acknowledged.

    ## Evidence needed
    The controller's request log (AlterPartition 1+) and the metadata log.

    ## What is allowed
    A recovering leader that asks for itself alone, or that reports RECOVERED together with its first followers. Requests
    refused before this check, by their epochs.

    ## Example
    Broker 2, recovering after an unclean election, asks for ISR [2, 3] with leaderRecoveryState 1 and is answered 0.

    ## References
    KIP-704, AlterPartition RPC; ReplicationControlManager.validateAlterPartitionData.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the partition's state that the controller had": "met_ref",
        "the record that the controller wrote": "committed_ref",
    }
    expected = "error 42 (INVALID_REQUEST) for leaderRecoveryState 1 with ISR {isr}"
    observed = "error {error_code}"
    because = (
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} with leaderRecoveryState {leader_recovery_state}, in leader "
        "epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        judged = col("error_code").isin(*SUCCEEDED, INVALID_REQUEST)
        return (col("request_error_code") == 0) & judged & (col("leader_recovery_state") == RECOVERING)

    def verdict(self) -> tuple[Branch, ...]:
        too_many = F.size("isr") > 1
        state = col("current.leader_recovery_state")
        back = F.coalesce(state, F.lit(0)) != RECOVERING
        return first_of(
            fenced((col("error_code") == INVALID_REQUEST) & too_many),
            violation(too_many),
            unverifiable(
                col("current").isNull(), "whether the leader was recovering in these epochs is not in the evidence"
            ),
            fenced((col("error_code") == INVALID_REQUEST) & back),
            violation(back),
            unverifiable(col("error_code") == INVALID_REQUEST, "the evidence does not explain the refusal"),
            otherwise=passed(),
        )
