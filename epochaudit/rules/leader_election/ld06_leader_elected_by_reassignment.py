"""LD-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.api_versions import ELIGIBILITY_CHECK_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("LD-06", frame="isr_changes", kip="KIP-841", severity=INFO, since="3.0")
class LeaderElectedByReassignment(Rule):
    """Observation: an ISR change completed a reassignment and elected a new leader.

    ## What it checks
    A leader whose AlterPartition completes the reassignment of its partition may lose the leadership in the same record. It
    is answered 108 (NEW_LEADER_ELECTED), or 74 (FENCED_LEADER_EPOCH) below version 2: an error code, although the change
    was made. Each such response whose completed reassignment is in the metadata log counts as one `pass`. This rule never
    gives a violation.

    ## Why it matters
    Counted as a refusal, the leader would seem to have been fenced. Ignored, the new leader would have no visible cause.

    ## Evidence needed
    The controller's request log and the metadata log.

    ## What is allowed
    Every such response is allowed.

    ## What to do
    Nothing needs repair: the reassignment has finished, and the new leader is the intended one. If it is not, change
    the order of the replicas with `kafka-reassign-partitions.sh`, and elect the first one with
    `kafka-leader-election.sh --election-type preferred`.

    ## Example
    orders-0 moves from [1] to [2]. Leader 1 requests ISR [1, 2] and is answered 108. The record sets replicas [2], ISR [2]
    and leader 2.

    ## References
    KIP-841, AlterPartition RPC; ReplicationControlManager.alterPartition; KIP-455.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the partition's state after it": "state_ref",
    }
    expected = "a record that completes the reassignment of {topic}-{partition} and elects its leader"
    observed = "error {error_code}; leader {state_leader} in leader epoch {state_leader_epoch}"
    because = (
        "leader {broker_id} asked for ISR {isr} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "it was answered {error_code}, and the metadata log has leader {state_leader} in leader epoch {state_leader_epoch} next",
    )

    def applies(self) -> Column:
        old = (col("error_code") == Errors.FENCED_LEADER_EPOCH) & (col("api_version") < ELIGIBILITY_CHECK_VERSION)
        by_old_code = old & holds(F.col("reassigned"))
        return (col("request_error_code") == Errors.NONE) & (
            (col("error_code") == Errors.NEW_LEADER_ELECTED) | by_old_code
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("reassigned")),
            otherwise=unverifiable(
                None,
                "no record that completes a reassignment is in the evidence",
                observed="error {error_code}",
                because=self.because[:1],
            ),
        )
