"""CE-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import UPDATE_METADATA
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


def answered() -> Column:
    """The row stands for a request that was answered, and got as far as the check of the controller epoch."""
    return (col("partition_row") == 0) & (col("request_error_code") != Errors.STALE_BROKER_EPOCH)


_REQUEST = (
    "{event_type} {correlation_id} of controller {controller_id} came with controller epoch {controller_epoch}",
    "and was answered {request_error_code}",
)


@rule("CE-01", frame="control", kip="KIP-570", severity=HIGH, since="0.8")
class StaleControllerEpochAccepted(Rule):
    """A control request of an old controller was accepted.

    ## What it checks
    A broker remembers the highest controller epoch of the LeaderAndIsr, StopReplica and UpdateMetadata requests that it
    accepted. It must answer 11 (STALE_CONTROLLER_EPOCH) to every later LeaderAndIsr or StopReplica with a smaller epoch, as
    a whole. An equal epoch is valid. UM-01 judges UpdateMetadata.

    ## Why it matters
    A replaced controller does not always know that it was replaced. Its requests may stop replicas or move leadership back,
    and only the controller epoch fences them.

    ## Evidence needed
    The broker's request log at DEBUG. state-change.log gives the exact order of application. Without it, or if it lacks a
    request's lines, requests that overlap in time cannot be ordered and are unverifiable. The first control request of a
    broker process has no predecessor to compare with, as brokers keep the epoch in memory only.

    ## What is allowed
    The broker checks the broker epoch first: BE-01 judges a request that was refused with 77.

    ## What to do
    See in `epochaudit timeline TOPIC-PARTITION` what the request changed, then restart the broker that accepted it: the
    present controller sends it the state of all its partitions. If a replica was deleted, restart only once another
    replica leads. Stop the old controller's process if its controller.log shows that it still takes itself for the
    controller. Every release refuses such requests: report the finding's lines to the Kafka project.

    ## Example
    Controller 2 has taken over with epoch 6. A StopReplica of controller 1 with epoch 5 arrives and is answered 0.

    ## References
    ReplicaManager.stopReplicas and becomeLeaderOrFollower; KIP-570, Proposed Changes.
    """

    per_request = True
    evidence = {
        "the request and its answer": "request_ref",
        "the newer controller's request, accepted before": "highest_controller_ref",
        "the broker's own line": "line_ref",
    }
    expected = (
        "error {STALE_CONTROLLER_EPOCH} for controller epoch {controller_epoch}, below {highest_controller_epoch}"
    )
    observed = "error {request_error_code}"
    because = (
        "broker {node} had accepted a request of controller {highest_controller_id} with controller epoch {highest_controller_epoch}",
        *_REQUEST,
    )

    def applies(self) -> Column:
        return answered() & (col("event_type") != UPDATE_METADATA)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("request_error_code") == Errors.STALE_CONTROLLER_EPOCH
        stale = col("controller_epoch") < col("highest_controller_epoch")
        in_force = "no error {STALE_CONTROLLER_EPOCH} for controller epoch {highest_controller_epoch} or above"
        return first_of(
            unverifiable(
                col("highest_controller_epoch").isNull(),
                "no earlier control request of this broker process is in the evidence",
                expected="error {STALE_CONTROLLER_EPOCH} if the broker had accepted a controller epoch above {controller_epoch}",
                because=_REQUEST,
            ),
            unverifiable(
                stale & ~refused & col("highest_overlaps"),
                "two requests of different controllers overlap and no state-change.log orders them",
                expected="error {STALE_CONTROLLER_EPOCH} if controller epoch {highest_controller_epoch} came first",
                because=(
                    "broker {node} accepted a request of controller {highest_controller_id} with controller epoch "
                    "{highest_controller_epoch}",
                    *_REQUEST,
                ),
            ),
            fenced(stale & refused, observed="error {STALE_CONTROLLER_EPOCH}"),
            violation(stale),
            unverifiable(
                refused, "refused as stale, but no newer controller epoch is in the evidence", expected=in_force
            ),
            otherwise=passed(
                expected=in_force, observed="error {request_error_code} for controller epoch {controller_epoch}"
            ),
        )
