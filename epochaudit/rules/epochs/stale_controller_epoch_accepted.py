"""CE-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


def answered() -> Column:
    """The row stands for a request that was answered, and got as far as the check of the controller epoch."""
    return (col("partition_row") == 0) & col("request_error_code").isNotNull() & (col("request_error_code") != 77)


@rule("CE-01", frame="control", kip="KIP-570", severity=HIGH, since="0.8")
class StaleControllerEpochAccepted(Rule):
    """A control request of an old controller was accepted.

    ## What it checks
    A broker remembers the highest controller epoch it has accepted, in LeaderAndIsr, StopReplica or UpdateMetadata. Every
    later LeaderAndIsr or StopReplica with a smaller epoch must be answered 11 (STALE_CONTROLLER_EPOCH) as a whole. An equal
    epoch is fine. UM-01 judges UpdateMetadata.

    ## Why it matters
    A controller that has been replaced does not always know it. What it still sends may stop replicas or move leadership
    back; the controller epoch is the only thing that stops it.

    ## Evidence needed
    The broker's request log at DEBUG. With state-change.log the order of application is exact; without it, two requests
    that overlap in time cannot be ordered and stay unverifiable. The first control request of a broker process has
    nothing to be compared with, since the broker keeps the epoch in memory only.

    ## What is allowed
    The broker epoch is checked first: a request refused with 77 is judged by BE-01, not here.

    ## Example
    Controller 2 has taken over with epoch 6; a StopReplica of controller 1 with epoch 5 arrives and is answered 0.

    ## References
    ReplicaManager.stopReplicas and becomeLeaderOrFollower; KIP-570, Proposed Changes.
    """

    per_request = True
    evidence = {
        "the request and its answer": "request_ref",
        "the newer controller's request, accepted before": "met_controller_ref",
        "the broker's own line": "line_ref",
    }
    expected = "error 11 (STALE_CONTROLLER_EPOCH) for controller epoch {controller_epoch}, below {met_controller_epoch}"
    observed = "error {request_error_code}"
    because = (
        "broker {node} had accepted a request of controller {met_controller_id} with controller epoch {met_controller_epoch}",
        "then {event_type} {correlation_id} of controller {controller_id} came with controller epoch {controller_epoch}",
        "and was answered {request_error_code}",
    )

    def applies(self) -> Column:
        return answered() & (col("event_type") != "UPDATE_METADATA")

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("request_error_code") == 11
        stale = col("controller_epoch") < col("met_controller_epoch")
        return first_of(
            unverifiable(
                col("met_controller_epoch").isNull(),
                "no earlier control request of this broker process is in the evidence",
            ),
            unverifiable(
                stale & ~refused & col("met_overlaps"),
                "two requests of different controllers overlap and no state-change.log orders them",
            ),
            fenced(stale & refused),
            violation(stale),
            unverifiable(refused, "refused as stale, but no newer controller epoch is in the evidence"),
            otherwise=passed(),
        )
