"""CE-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("CE-03", frame="control", kip="KIP-516", severity=MEDIUM, since="0.8")
class PartitionStateFromTheFuture(Rule):
    """A controller published a partition state of a controller epoch above its own.

    ## What it checks
    In LeaderAndIsr and UpdateMetadata each partition state carries the epoch of the controller that last changed it. It can
    be the sender's own epoch or an older one, never a newer one. Requests that the broker accepted are judged.

    ## Why it matters
    A state of a newer controller in the request of an older one means that the sender had been replaced and knew it, or that
    its state is corrupt. The broker compares only the request's own epoch and takes such a state over.

    ## Evidence needed
    The broker's request log at DEBUG.

    ## What is allowed
    A request refused as a whole is judged by CE-01, UM-01 or BE-01. A KRaft controller that sends these requests during a
    migration counts its own epochs in another way than the partition states: they are no subject.

    ## Example
    Controller 1 with controller epoch 5 sends a LeaderAndIsr whose state of orders-0 was written in controller epoch 6.

    ## References
    LeaderAndIsrRequest.json and UpdateMetadataRequest.json (ControllerEpoch of a partition state);
    LeaderIsrAndControllerEpoch in KafkaController.
    """

    caused_by = ("CE-01", "UM-01", "BE-01")
    evidence = {"the request and its answer": "request_ref", "the broker's own line": "line_ref"}
    expected = "a partition state of controller epoch {controller_epoch} or older"
    observed = "controller epoch {partition_controller_epoch} in the state of {topic}-{partition}"
    because = (
        "{event_type} {correlation_id} of controller {controller_id} came with controller epoch {controller_epoch}",
        "its state of {topic}-{partition} was of controller epoch {partition_controller_epoch}, and broker {node} accepted it",
    )

    def applies(self) -> Column:
        return (
            col("event_type").isin("LEADER_AND_ISR", "UPDATE_METADATA")
            & col("partition").isNotNull()
            & (col("request_error_code") == 0)
            & ~F.coalesce(col("is_kraft_controller"), F.lit(False))
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("partition_controller_epoch").isNull() | col("controller_epoch").isNull(),
                "the controller epoch of the partition state is not in the evidence",
            ),
            passed(col("partition_controller_epoch") <= col("controller_epoch")),
            otherwise=violation(),
        )
