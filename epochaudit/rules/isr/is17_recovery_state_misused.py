"""IS-17."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import RECOVERING
from epochaudit.rules.isr.eligibility import SUCCEEDED
from epochaudit.rules.reasons import REFUSAL_UNEXPLAINED
from epochaudit.rules.rule import MEDIUM, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("IS-17", frame="isr_changes", kip="KIP-704", severity=MEDIUM, since="3.2")
class RecoveryStateMisused(Rule):
    """The controller accepted an ISR that a recovering leader may not ask for.

    ## What it checks
    A leader elected from outside the ISR is RECOVERING (leaderRecoveryState 1) until it has recovered. Such a leader may
    not have a second ISR member, and a RECOVERED leader may not become RECOVERING. The controller must answer 42
    (INVALID_REQUEST) to an AlterPartition that requests either.

    ## Why it matters
    Replicas that join while the leader recovers copy a log that may still be truncated. Afterwards no member of the ISR can
    determine what was acknowledged.

    ## Evidence needed
    The controller's request log (AlterPartition 1+) and the metadata log.

    ## What is allowed
    A recovering leader that requests itself alone, or that reports RECOVERED together with its first followers. Requests
    that an earlier check refused because of their epochs.

    ## What to do
    Keep the leader running: it is the only replica whose log counts after an unclean election. Audit its segments
    together with those of the replicas that joined (EP-07), and have a replica that differs copied again: stop its
    broker, move the partition's folder aside, start it. Report the request line and the controller's version to the
    Kafka project.

    ## Example
    Broker 2, recovering after an unclean election, requests ISR [2, 3] with leaderRecoveryState 1 and is answered 0.

    ## References
    KIP-704, AlterPartition RPC; ReplicationControlManager.validateAlterPartitionData.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the partition's state that the controller had": "state_ref",
        "the record that the controller wrote": "committed_ref",
    }
    expected = "a recovering leader asks for itself alone"
    observed = "answered {error_code} for ISR {isr}"
    because = (
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} with leaderRecoveryState {leader_recovery_state}, in leader "
        "epoch {leader_epoch}, partition epoch {partition_epoch}, and was answered {error_code}",
    )

    def applies(self) -> Column:
        judged = col("error_code").isin(*SUCCEEDED, Errors.INVALID_REQUEST)
        return (col("request_error_code") == Errors.NONE) & judged & (col("leader_recovery_state") == RECOVERING)

    def verdict(self) -> tuple[Branch, ...]:
        many = "error {INVALID_REQUEST} for leaderRecoveryState 1 with more than one ISR member"
        back_to_recovering = "error {INVALID_REQUEST} for leaderRecoveryState 1, as the leader had recovered"
        accepted = "answered {error_code}: ISR {isr} with leaderRecoveryState 1 was accepted"
        too_many = F.size("isr") > 1
        state = col("current.leader_recovery_state")
        back = F.coalesce(state, F.lit(0)) != RECOVERING
        return first_of(
            fenced(
                (col("error_code") == Errors.INVALID_REQUEST) & too_many,
                expected=many,
                observed="error {INVALID_REQUEST}",
            ),
            violation(too_many, expected=many, observed=accepted),
            unverifiable(
                col("current").isNull(), "whether the leader was recovering in these epochs is not in the evidence"
            ),
            fenced(
                (col("error_code") == Errors.INVALID_REQUEST) & back,
                expected=back_to_recovering,
                observed="error {INVALID_REQUEST}",
            ),
            violation(back, expected=back_to_recovering, observed=accepted),
            unverifiable(col("error_code") == Errors.INVALID_REQUEST, REFUSAL_UNEXPLAINED),
            otherwise=passed(),
        )
