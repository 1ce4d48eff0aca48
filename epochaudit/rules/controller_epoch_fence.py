"""The fence of the controller epoch, which CE-01 and UM-01 judge over the frame `control`.

A broker compares the controller epoch of a LeaderAndIsr, StopReplica or UpdateMetadata with the highest one that its process has
accepted in any of the three. It must answer 11 to an older one.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.replay.control_plane.refusal_lines import BY_CONTROLLER_EPOCH
from epochaudit.rules.rule import Branch, Rule, fenced, first_of, passed, unverifiable, violation


def answered() -> Column:
    """The row stands for a request that was answered, and got as far as the check of the controller epoch."""
    return (col("partition_row") == 0) & (col("request_error_code") != Errors.STALE_BROKER_EPOCH)


def refused_by_line() -> Column:
    """The row stands for a broker's line that refuses a request, which is not recorded itself."""
    return col("refused_for") == BY_CONTROLLER_EPOCH


_REQUEST = (
    "{event_type} {correlation_id} of controller {controller_id} came with controller epoch {controller_epoch}",
    "and was answered {request_error_code}",
)


class ControllerEpochFence(Rule):
    """The verdict on requests that `applies` selects, of those that are `answered`."""

    per_request = True
    evidence = {
        "the request and its answer": "request_ref",
        "the newer controller's request, accepted before": "highest_controller_ref",
        "the broker's own line": "line_ref",
        "the broker's line about its refusal": "refusal_ref",
    }
    expected = (
        "error {STALE_CONTROLLER_EPOCH} for controller epoch {controller_epoch}, below {highest_controller_epoch}"
    )
    observed = "error {request_error_code}"
    because = (
        "broker {node} had accepted a request of controller {highest_controller_id} with controller epoch {highest_controller_epoch}",
        *_REQUEST,
    )

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("request_error_code") == Errors.STALE_CONTROLLER_EPOCH
        stale = col("controller_epoch") < col("highest_controller_epoch")
        in_force = "no error {STALE_CONTROLLER_EPOCH} for controller epoch {highest_controller_epoch} or above"
        return first_of(
            fenced(
                refused_by_line(),
                expected="error {STALE_CONTROLLER_EPOCH} for a controller epoch below {current_controller_epoch}",
                observed="broker {node} refused controller epoch {controller_epoch}",
                because=(
                    "the line of broker {node} states the latest controller epoch that it knew, {current_controller_epoch}, and that of the"
                    " {refused_api}, {controller_epoch}",
                    "the request was {correlation_id} of controller {controller_id}",
                ),
            ),
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
