"""CE-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_AND_ISR, UPDATE_METADATA
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation

_BECAUSE = (
    "{event_type} {correlation_id} of controller {controller_id} came with controller epoch {controller_epoch}",
    "its state of {topic}-{partition} was of controller epoch {partition_controller_epoch}, and broker {node} accepted the request",
)


@rule("CE-03", frame="control", kip="KIP-516", severity=MEDIUM, since="0.8")
class PartitionStateFromTheFuture(Rule):
    """A controller published a partition state of a controller epoch above its own.

    ## What it checks
    In LeaderAndIsr and UpdateMetadata each partition state carries the epoch of the controller that last changed it. This
    is the sender's own epoch or an older one, never a newer one. The rule judges requests that the broker accepted.

    ## Why it matters
    If an older controller sends a newer controller's state, it had been replaced and knew it, or its state is corrupt. The
    broker checks only the request's own epoch and applies such a state.

    ## Evidence needed
    The broker's request log at DEBUG. After a migration to KRaft that was rolled back, those of the brokers to which the KRaft
    controller had sent requests.

    ## What is allowed
    CE-01, UM-01 or BE-01 judge a request that was refused as a whole. A KRaft controller that sends these requests during a
    migration continues ZooKeeper's controller epochs, but states raft epochs in its partition states: its requests are no
    subjects. It also writes raft epochs into ZooKeeper, so a newer state is unverifiable if its sender has a higher
    controller epoch than a KRaft controller that some broker of the cluster had requests of.

    ## What to do
    Restart the controller that sent the request: the next one reads all states from ZooKeeper and sends them to every
    broker. Compare the partition's leader and ISR in `epochaudit timeline TOPIC-PARTITION` with its znode
    `/brokers/topics/TOPIC/partitions/PARTITION/state`, which counts. If the sender had been replaced without resigning,
    look in its controller.log and in ZooKeeper's logs for the lost session.

    ## Example
    Controller 1 with controller epoch 5 sends a LeaderAndIsr whose state of orders-0 was written in controller epoch 6.

    ## References
    LeaderAndIsrRequest.json and UpdateMetadataRequest.json (ControllerEpoch of a partition state);
    LeaderIsrAndControllerEpoch in KafkaController; ZkTopicMigrationClient.
    """

    caused_by = ("CE-01", "UM-01", "BE-01")
    evidence = {"the request and its answer": "request_ref", "the broker's own line": "line_ref"}
    expected = "a partition state of controller epoch {controller_epoch} or older"
    observed = "controller epoch {partition_controller_epoch} in the state of {topic}-{partition}"
    because = _BECAUSE

    def applies(self) -> Column:
        return (
            col("event_type").isin(LEADER_AND_ISR, UPDATE_METADATA)
            & col("partition").isNotNull()
            & (col("request_error_code") == Errors.NONE)
            & ~holds(col("is_kraft_controller"))
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("partition_controller_epoch").isNull() | col("controller_epoch").isNull(),
                "the controller epoch of the partition state is not in the evidence",
                expected="a partition state of the sender's controller epoch or older",
                observed="a state of {topic}-{partition} without controller epoch",
                because=_BECAUSE[:1],
            ),
            passed(col("partition_controller_epoch") <= col("controller_epoch")),
            unverifiable(
                col("kraft_controller_seen"), "a KRaft controller may have written the state before, under a raft epoch"
            ),
            otherwise=violation(),
        )
